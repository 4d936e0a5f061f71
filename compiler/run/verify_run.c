/* verify_run.c - one candidate on one set of inputs at one size: what it must store is computed, then it is
 * called twice, and everything that it may have touched is looked at.
 *
 *     before     inputs in guarded buffers, operands once more as the candidate stores them, the
 *                reference
 *     calls      poison the output, call, look at canaries and inputs; then again with another poison
 *     after      the output against the reference: compare.c */
#include <math.h>
#include <string.h>

#include "run/verify_int.h"

/* Larger constants are looked at once for all sizes of a round. */
#define LARGE_BYTES ((size_t)1 << 20)

/* ---- memory ---- */

static size_t source_bytes(const VerifyRun *x, int operand)
{
    return (size_t)dtype_bytes(x->naive->operand.at[operand].dtype);
}

/* In panels or as bf16: not as the naive nest reads it. */
static bool is_stored(const VerifyRun *x, int operand)
{
    const Operand *o = &x->c->k->operand.at[operand];
    return o->pack || o->bf16;
}

/* "'s panels", after the operand's name. */
static const char *stored_as(const VerifyRun *x, int operand)
{
    return !is_stored(x, operand)              ? ""
           : x->c->k->operand.at[operand].pack ? "'s panels"
                                               : "'s bf16 values";
}

/* The buffer that the candidate is given. */
static const Guarded *buffer(const VerifyRun *x, int operand)
{
    return is_stored(x, operand) ? &x->slot[operand].stored : &x->slot[operand].source;
}

static void release(Slot *s)
{
    guarded_release(&s->source);
    guarded_release(&s->stored);
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
    bool same =
        s->in.round == x->in.round && s->in.seed == x->in.seed && s->in.shift == x->in.shift;
    bool sized = s->in.rare != x->in.rare;
    for (int i = 0; o->pack && i < o->pack->n; i++) {
        expr_visit(o->pack->extent[i], see_symbol, &sized);
    }
    return s->filled && o->constant && s->n == n && same && !sized;
}

/* What the candidate takes: the source, or the same as bf16. */
static const void *taken(VerifyRun *x, int operand, int64_t n)
{
    const void *source = x->slot[operand].source.at;
    if (!operand_takes_bf16(&x->c->k->operand.at[operand])) {
        return source;
    }
    uint16_t *bf16 = arena_array(&x->e->kernel, uint16_t, n + 1);
    check(bf16_narrow(bf16, source, n));
    return bf16;
}

/* False: it does not fill its panels; the verdict says so. */
static bool store(VerifyRun *x, int operand)
{
    Slot *s = &x->slot[operand];
    const Kernel *k = x->c->k;
    const Operand *o = &k->operand.at[operand];
    int64_t n = kernel_span(k, operand, x->syms);
    size_t bytes = (size_t)n * (size_t)operand_bytes(o);
    const void *from = taken(x, operand, kernel_given_span(k, operand, x->syms));
    guarded_init(x->e, &s->stored, bytes, x->at_end, !x->o->in_process);
    if (!o->pack) {
        memcpy(s->stored.at, from, bytes);
        return true;
    }
    check(x->c->pack && x->c->pack[operand]);
    memset(s->stored.at, 0xff, bytes); /* NaN, where it is left out */
    int64_t filled = x->c->pack[operand](s->stored.at, from, x->syms);
    if (filled != n) {
        verdict_start(
            x->v, "The candidate fills %lld elements of the panels of %s, and must fill %lld",
            (long long)filled, o->name, (long long)n);
        return verdict_wrong(x);
    }
    return true;
}

static bool place_input(VerifyRun *x, int operand)
{
    Slot *s = &x->slot[operand];
    int64_t n = kernel_span(x->naive, operand, x->syms);
    if (!still_holds(x, operand, n)) {
        release(s);
        x->folded.there = x->folded.there && !x->naive->operand.at[operand].constant;
        guarded_init(x->e, &s->source, (size_t)n * source_bytes(x, operand), x->at_end,
                     !x->o->in_process);
        inputs_fill(&x->in, x->naive, operand, x->syms, s->source.at, n);
        if (is_stored(x, operand) && !store(x, operand)) {
            return false;
        }
        s->hash = hash_bytes(buffer(x, operand)->at, buffer(x, operand)->bytes);
        s->in = x->in;
        s->n = n;
        s->filled = true;
    }
    x->params[operand] = s->source.at;
    x->given[operand] = buffer(x, operand)->at;
    x->n_elems[operand] = n;
    return true;
}

static bool place(VerifyRun *x)
{
    bool placed = true;
    x->n_elems[0] = kernel_span(x->naive, 0, x->syms);
    release(&x->slot[0]);
    guarded_init(x->e, &x->slot[0].source, (size_t)x->n_elems[0] * source_bytes(x, 0),
                 x->at_end, !x->o->in_process);
    x->params[0] = x->given[0] = x->slot[0].source.at;
    for (int i = 1; placed && i < x->naive->operand.n; i++) {
        placed = place_input(x, i);
    }
    return placed;
}

/* ---- what it must store ---- */

bool verify_exact(const BuiltKernel *c)
{
    return !c->foreign && kernel_exact(c->k);
}

Question verify_question(VerifyRun *x, const Sample *s)
{
    double unit = x->in.round == ROUND_INTEGERS ? ldexp(1, -x->in.shift) : 0;
    return (Question){.naive = s ? s->k : x->naive,
                      .scheduled = x->c->foreign ? NULL : x->c->k,
                      .params = s ? s->params : x->params,
                      .n_elems = s ? s->n_elems : x->n_elems,
                      .syms = x->syms,
                      .unit = unit,
                      .folded = s ? NULL : &x->folded};
}

/* The naive nest's own bits. */
static Expected by_interpreter(VerifyRun *x, const Sample *s)
{
    Question q = verify_question(x, s);
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
    Question q = verify_question(x, NULL);
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
    Question q = verify_question(x, &s);
    x->sampled = s.n_points > 0;
    x->want = verify_exact(x->c) ? by_interpreter(x, &s) : bound_elements(e, &q);
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
        const Guarded *g = buffer(x, i);
        int64_t where;
        if (!guarded_intact(g, &where)) {
            verdict_start(x->v,
                          "The candidate writes outside of its buffers: %lld bytes %s %s%s",
                          (long long)(where < 0 ? -where : where - (int64_t)g->bytes),
                          where < 0 ? "before" : "behind the end of",
                          x->naive->operand.at[i].name, stored_as(x, i));
            return verdict_wrong(x);
        }
    }
    return true;
}

/* The input is made again, to say what has changed. */
static bool input_changed(VerifyRun *x, int operand)
{
    Slot *s = &x->slot[operand];
    const char *name = x->naive->operand.at[operand].name;
    if (is_stored(x, operand)) {
        verdict_start(x->v, "The candidate overwrites its input %s%s", name,
                      stored_as(x, operand));
        return verdict_wrong(x);
    }
    size_t size = source_bytes(x, operand);
    uint8_t *was = arena_alloc_n(&x->e->kernel, (size_t)s->n + 1, size), *is = s->source.at;
    inputs_fill(&x->in, x->naive, operand, x->syms, was, s->n);
    int64_t i = 0;
    while (i < s->n - 1 && !memcmp(was + (size_t)i * size, is + (size_t)i * size, size)) {
        i++;
    }
    verdict_start(x->v, "The candidate overwrites its input: %s[%lld] was ", name,
                  (long long)i);
    verdict_value(x, operand, was, i);
    verdict_add(x->v, " and is ");
    verdict_value(x, operand, is, i);
    return verdict_wrong(x);
}

static bool is_large_constant(const VerifyRun *x, int operand)
{
    return x->c->k->operand.at[operand].constant && buffer(x, operand)->bytes > LARGE_BYTES;
}

static bool inputs_unchanged(VerifyRun *x, bool large_constants)
{
    for (int i = 1; i < x->naive->operand.n; i++) {
        const Guarded *g = buffer(x, i);
        if (is_large_constant(x, i) == large_constants && x->slot[i].filled &&
            !hash_eq(hash_bytes(g->at, g->bytes), x->slot[i].hash)) {
            return input_changed(x, i);
        }
    }
    return true;
}

bool verify_run_constants(VerifyRun *x)
{
    return inputs_unchanged(x, true);
}

static bool call_once(VerifyRun *x, int nth)
{
    static const char *const names[2] = {"first", "second"};
    output_poison(x, nth);
    verdict_start(x->v,
                  "The candidate does not return from its %s call, with buffers that %s where "
                  "a page does",
                  names[nth], x->at_end ? "end" : "begin");
    verdict_wrong(x);
    int32_t code = call(x, nth == 1);
    if (code != x->want.code) {
        verdict_start(x->v, "The candidate returns %d from its %s call, and must return %d",
                      (int)code, names[nth], x->want.code);
        return verdict_wrong(x);
    }
    return canaries_intact(x) && inputs_unchanged(x, false);
}

bool verify_run(VerifyRun *x)
{
    if (!place(x)) {
        return false;
    }
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
    return call_once(x, 1) && (x->want.code || output_fits(x));
}
