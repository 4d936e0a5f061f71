/* verify_run.c - one candidate on one set of inputs at one size: what it must store is computed, then it is
 * called twice on poisoned outputs, and everything that it may have touched is looked at.
 *
 *     before     inputs in guarded buffers, packed operands in their panels, the reference
 *     calls      poison, call, look at canaries and inputs; then again with another poison
 *     after      the two outputs against each other, against what is stored at all, against the reference,
 *                and where the reference is a sample, a contraction by random sums
 *
 * An element that the candidate leaves alone keeps two different poisons, so it cannot pass for written. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run/verify_int.h"

static const uint32_t poison[2] = {0xffe5a5a5, 0x4b5a5a5a}; /* a NaN, and 14310000; all bytes differ */

/* ---- the verdict ---- */

static void put(Verdict *v, const char *fmt, ...) PRINTF(2, 3);
static void put(Verdict *v, const char *fmt, ...)
{
    size_t used = strlen(v->text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(v->text + used, sizeof v->text - used, fmt, ap);
    va_end(ap);
}

/* After what is wrong, on which inputs. Returns false. */
static bool on_these_inputs(const VerifyRun *x)
{
    static const char *const names[N_ROUNDS] = {
#define X(id, name) [ROUND_##id] = name,
        ROUNDS(X)
#undef X
    };
    put(x->v, " (%s, seed %llu", names[x->in.round], (unsigned long long)x->in.seed);
    for (int i = 0; i < x->naive->n_syms; i++) {
        put(x->v, ", s%d = %lld", i, (long long)x->syms[i]);
    }
    put(x->v, ").");
    return false;
}

static void start_text(Verdict *v)
{
    v->text[0] = 0;
}

static void put_value(const VerifyRun *x, int operand, const void *from, int64_t index)
{
    Dtype t = x->naive->operand.at[operand].dtype;
    Value v = value_load(from, t, index);
    if (t == DT_F32) {
        put(x->v, "%.9g", (double)v.f);
    } else {
        put(x->v, "%lld", (long long)v.i);
    }
}

static const char *name_of(const VerifyRun *x, int operand)
{
    return x->naive->operand.at[operand].name;
}

/* ---- memory ---- */

static size_t source_bytes(const VerifyRun *x, int operand)
{
    return (size_t)dtype_bytes(x->naive->operand.at[operand].dtype);
}

static bool is_packed(const VerifyRun *x, int operand)
{
    return x->c->k->operand.at[operand].pack != NULL;
}

static void release(Slot *s)
{
    guarded_release(&s->source);
    guarded_release(&s->panel);
    *s = (Slot){.filled = false};
}

void verify_run_release(VerifyRun *x)
{
    for (int i = 0; i < x->naive->operand.n; i++) {
        release(&x->slot[i]);
    }
}

static void see_symbol(const Expr *x, void *ctx)
{
    *(bool *)ctx = *(bool *)ctx || x->kind == X_SYM;
}

/* Constants that no size changes stay from one size to the next. */
static bool still_holds(const VerifyRun *x, int operand, int64_t n)
{
    const Slot *s = &x->slot[operand];
    const Operand *o = &x->c->k->operand.at[operand];
    bool same = s->in.round == x->in.round && s->in.seed == x->in.seed && s->in.shift == x->in.shift;
    bool sized = s->in.rare != x->in.rare;
    for (int i = 0; o->pack && i < o->pack->n; i++) {
        expr_visit(o->pack->extent[i], see_symbol, &sized);
    }
    return s->filled && o->constant && s->n == n && same && !sized;
}

static void pack(VerifyRun *x, int operand)
{
    Slot *s = &x->slot[operand];
    const Kernel *k = x->c->k;
    int64_t n = kernel_span(k, operand, x->syms);
    size_t bytes = (size_t)n * (size_t)operand_bytes(&k->operand.at[operand]);
    check(x->c->pack && x->c->pack[operand]);
    guarded_init(x->e, &s->panel, bytes, x->at_end, !x->o->in_process);
    memset(s->panel.at, 0xff, bytes); /* NaN, where it is left out */
    x->c->pack[operand](s->panel.at, s->source.at, x->syms);
}

static void place_input(VerifyRun *x, int operand)
{
    Slot *s = &x->slot[operand];
    int64_t n = kernel_span(x->naive, operand, x->syms);
    if (!still_holds(x, operand, n)) {
        release(s);
        guarded_init(x->e, &s->source, (size_t)n * source_bytes(x, operand), x->at_end, !x->o->in_process);
        inputs_fill(&x->in, x->naive, operand, x->syms, s->source.at, n);
        if (is_packed(x, operand)) {
            pack(x, operand);
        }
        const Guarded *read = is_packed(x, operand) ? &s->panel : &s->source;
        s->hash = hash_bytes(read->at, read->bytes);
        s->in = x->in;
        s->n = n;
        s->filled = true;
    }
    x->params[operand] = s->source.at;
    x->given[operand] = is_packed(x, operand) ? s->panel.at : s->source.at;
    x->n_elems[operand] = n;
}

static void place(VerifyRun *x)
{
    int64_t n = kernel_span(x->naive, 0, x->syms);
    release(&x->slot[0]);
    guarded_init(x->e, &x->slot[0].source, (size_t)n * source_bytes(x, 0), x->at_end, !x->o->in_process);
    x->params[0] = x->given[0] = x->slot[0].source.at;
    x->n_elems[0] = n;
    for (int i = 1; i < x->naive->operand.n; i++) {
        place_input(x, i);
    }
}

/* ---- what it must store ---- */

static Question question(const VerifyRun *x, const Sample *s)
{
    Question q = {x->naive, x->c->k, x->params, x->n_elems, x->syms, 0};
    if (s) {
        q.naive = s->k;
        q.params = s->params;
        q.n_elems = s->n_elems;
    }
    q.unit = x->in.round == ROUND_INTEGERS ? ldexp(1, -x->in.shift) : 0;
    return q;
}

/* The naive nest's own bits. */
static Expected by_interpreter(VerifyRun *x, const Sample *s)
{
    Question q = question(x, s);
    Dtype t = x->naive->operand.at[0].dtype;
    void *y = arena_alloc_n(&x->e->kernel, (size_t)x->n_elems[0] + 1, source_bytes(x, 0));
    s->params[0] = y;
    int code = nest_run(x->e, s->k, s->params, s->n_elems, x->syms);
    Expected want = bound_indices(x->e, &q);
    for (int64_t i = 0; i < want.n; i++) {
        Value v = value_load(y, t, want.at[i].index);
        want.at[i].err = 0;
        if (t == DT_F32) {
            want.at[i].v = v.f;
        } else {
            want.at[i].i = v.i;
        }
    }
    want.code = code;
    return want;
}

/* Which elements the nest stores, where that is not all: it stores none twice. */
static const uint8_t *stored_elements(VerifyRun *x)
{
    if (nest_stores(x->naive, x->syms) == x->n_elems[0]) {
        return NULL;
    }
    Question q = question(x, NULL);
    Expected all = bound_indices(x->e, &q);
    uint8_t *stored = arena_array(&x->e->kernel, uint8_t, x->n_elems[0]);
    for (int64_t i = 0; i < all.n; i++) {
        stored[all.at[i].index] = 1;
    }
    return stored;
}

static void find_reference(Env *e, void *arg)
{
    VerifyRun *x = arg;
    Sample s = sample_of(e, x->naive, x->params, x->n_elems, x->syms, x->work, x->in.seed);
    Question q = question(x, &s);
    x->sampled = s.n_points > 0;
    x->want = kernel_exact(x->c->k) ? by_interpreter(x, &s) : bound_elements(e, &q);
    x->stored = stored_elements(x);
}

/* ---- calls ---- */

static int32_t call(const VerifyRun *x, bool backwards)
{
    const BuiltKernel *c = x->c;
    int n = c->n_parts < 1 ? 1 : c->n_parts;
    int32_t code = 0;
    if (c->run) {
        return c->run(c->ctx, c->fn, x->given, x->syms);
    }
    for (int i = 0; i < n; i++) {
        int32_t here = c->fn(x->given, x->syms, backwards ? n - 1 - i : i, n);
        code = here > code ? here : code;
    }
    return code;
}

static bool canaries_intact(const VerifyRun *x)
{
    for (int i = 0; i < x->naive->operand.n; i++) {
        const Guarded *g = is_packed(x, i) ? &x->slot[i].panel : &x->slot[i].source;
        int64_t where;
        if (!guarded_intact(g, &where)) {
            start_text(x->v);
            int64_t past = where < 0 ? -where : where - (int64_t)g->bytes;
            put(x->v, "The candidate writes outside of its buffers: %lld bytes %s %s%s", (long long)past,
                where < 0 ? "before" : "behind the end of", name_of(x, i), is_packed(x, i) ? "'s panels" : "");
            return on_these_inputs(x);
        }
    }
    return true;
}

/* The input as it was, to say what has changed. */
static bool input_changed(VerifyRun *x, int operand)
{
    Slot *s = &x->slot[operand];
    Arena *m = &x->e->kernel;
    start_text(x->v);
    if (is_packed(x, operand)) {
        put(x->v, "The candidate overwrites the panels of its input %s", name_of(x, operand));
        return on_these_inputs(x);
    }
    size_t size = source_bytes(x, operand);
    uint8_t *was = arena_alloc_n(m, (size_t)s->n + 1, size), *is = s->source.at;
    inputs_fill(&x->in, x->naive, operand, x->syms, was, s->n);
    int64_t i = 0;
    while (i < s->n - 1 && !memcmp(was + (size_t)i * size, is + (size_t)i * size, size)) {
        i++;
    }
    put(x->v, "The candidate overwrites its input: %s[%lld] was ", name_of(x, operand), (long long)i);
    put_value(x, operand, was, i);
    put(x->v, " and is ");
    put_value(x, operand, is, i);
    return on_these_inputs(x);
}

static bool inputs_unchanged(VerifyRun *x)
{
    for (int i = 1; i < x->naive->operand.n; i++) {
        const Guarded *g = is_packed(x, i) ? &x->slot[i].panel : &x->slot[i].source;
        if (!hash_eq(hash_bytes(g->at, g->bytes), x->slot[i].hash)) {
            x->slot[i].filled = false;
            return input_changed(x, i);
        }
    }
    return true;
}

static void fill_poison(void *to, size_t bytes, uint32_t word)
{
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)to)[i] = (uint8_t)(word >> i % 4 * 8);
    }
}

static bool call_once(VerifyRun *x, int nth)
{
    static const char *const names[2] = {"first", "second"};
    const Guarded *y = &x->slot[0].source;
    fill_poison(y->at, y->bytes, poison[nth]);
    start_text(x->v);
    put(x->v, "The candidate does not return from its %s call, with buffers %s", names[nth],
        x->at_end ? "that end where a page ends" : "that begin where a page begins");
    on_these_inputs(x);
    int32_t code = call(x, nth == 1);
    if (code != x->want.code) {
        start_text(x->v);
        put(x->v, "The candidate returns %d from its %s call, and must return %d", (int)code, names[nth], x->want.code);
        return on_these_inputs(x);
    }
    return canaries_intact(x) && inputs_unchanged(x);
}

/* ---- the output ---- */

static bool is_poison(const uint8_t *at, size_t offset, size_t size, uint32_t word)
{
    for (size_t i = 0; i < size; i++) {
        if (at[offset + i] != (uint8_t)(word >> (offset + i) % 4 * 8)) {
            return false;
        }
    }
    return true;
}

static bool element_written(VerifyRun *x, int64_t i)
{
    const uint8_t *a = x->first, *b = x->given[0];
    size_t size = source_bytes(x, 0), at = (size_t)i * size;
    bool left_alone = is_poison(a, at, size, poison[0]) && is_poison(b, at, size, poison[1]);
    bool must = !x->stored || x->stored[i], same = !memcmp(a + at, b + at, size);
    if (must ? same : left_alone) {
        return true;
    }
    start_text(x->v);
    put(x->v, "%s[%lld] is ", name_of(x, 0), (long long)i);
    if (!must) {
        put(x->v, "written, and is none of the elements that the nest stores");
    } else if (left_alone) {
        put(x->v, "never written");
    } else {
        put_value(x, 0, a, i);
        put(x->v, " after the first call, and after a second one with the same inputs ");
        put_value(x, 0, b, i);
    }
    return on_these_inputs(x);
}

static bool all_written(VerifyRun *x)
{
    if (!x->stored && !memcmp(x->first, x->given[0], x->slot[0].source.bytes)) {
        return true;
    }
    for (int64_t i = 0; i < x->n_elems[0]; i++) {
        if (!element_written(x, i)) {
            return false;
        }
    }
    return true;
}

static bool has_max(const Kernel *k)
{
    const Expr *value;
    for (int i = 0; i < k->nest.phase.n; i++) {
        for (int a = 0; a < k->nest.phase.at[i].acc.n; a++) {
            if (acc_is_max(&k->nest.phase.at[i].acc.at[a], &value)) {
                return true;
            }
        }
    }
    return false;
}

/* NaN is NaN, and a maximum may be either zero. */
static bool f32_fits(Verdict *v, const Element *e, float got, bool any_zero)
{
    if (isinf(e->err)) {
        v->n_open++;
        return true;
    }
    if (e->err == 0) {
        v->n_exact++;
        bool same = (double)got == e->v && (any_zero || !signbit(got) == !signbit(e->v));
        return same || (isnan(got) && isnan(e->v));
    }
    double part = fabs((double)got - e->v) / e->err;
    v->n_bounded++;
    v->closest = fmax(v->closest, part);
    return part <= 1;
}

static bool int_fits(Verdict *v, const Element *e, int64_t got)
{
    double gap = fabs((double)got - (double)e->i);
    v->n_exact += e->err == 0;
    v->n_open += isinf(e->err);
    v->n_bounded += e->err > 0 && !isinf(e->err);
    return e->err == 0 ? got == e->i : gap <= e->err;
}

static bool element_fits(VerifyRun *x, const Element *e, bool any_zero)
{
    Dtype t = x->naive->operand.at[0].dtype;
    Value got = value_load(x->given[0], t, e->index);
    if (t == DT_F32 ? f32_fits(x->v, e, got.f, any_zero) : int_fits(x->v, e, got.i)) {
        return true;
    }
    start_text(x->v);
    put(x->v, "%s[%lld] is ", name_of(x, 0), (long long)e->index);
    put_value(x, 0, x->given[0], e->index);
    put(x->v, ", and must be ");
    if (e->err > 0) {
        put(x->v, "within %.3g of ", e->err);
    }
    if (t == DT_F32) {
        put(x->v, "%.9g", e->v);
    } else {
        put(x->v, "%lld", (long long)e->i);
    }
    return on_these_inputs(x);
}

static bool output_fits(VerifyRun *x)
{
    bool any_zero = has_max(x->naive);
    for (int64_t i = 0; i < x->want.n; i++) {
        if (!element_fits(x, &x->want.at[i], any_zero)) {
            return false;
        }
    }
    return true;
}

static bool sums_fit(VerifyRun *x)
{
    Question q = question(x, NULL);
    Mismatch m;
    bool sharp = x->in.round == ROUND_INTEGERS, weak = x->in.round == ROUND_FLOATS && x->tuned;
    if (!x->sampled || !(sharp || weak) || !freivalds(x->e, &q, x->given[0], x->in.seed, &m)) {
        return true;
    }
    x->v->n_sums++;
    if (m.index < 0) {
        return true;
    }
    start_text(x->v);
    put(x->v, "%s[%lld] is %.9g, and must be ", name_of(x, 0), (long long)m.index, m.got);
    if (m.bound > 0) {
        put(x->v, "within %.3g of ", m.bound);
    }
    put(x->v, "%.9g, found by the sum of its row", m.want);
    return on_these_inputs(x);
}

bool verify_run(VerifyRun *x)
{
    place(x);
    if (!env_try(x->e, find_reference, x)) {
        Err err = x->e->err;
        if (err.code != E_RANGE || x->tuned) {
            fail_err(x->e, &err);
        }
        x->v->n_skipped++;
        return true;
    }
    x->v->n_runs++;
    if (!call_once(x, 0)) {
        return false;
    }
    x->first = arena_dup(&x->e->kernel, x->given[0], x->slot[0].source.bytes);
    if (!call_once(x, 1)) {
        return false;
    }
    return x->want.code || (all_written(x) && output_fits(x) && sums_fit(x));
}
