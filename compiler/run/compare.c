/* compare.c - what a candidate has left in its output against what it must: all that the nest stores is written
 * and nothing else, twice the same, and each value fits.
 *
 * An element that the candidate leaves alone keeps two different poisons, so it cannot pass for written. */
#include <math.h>
#include <string.h>

#include "run/verify_int.h"

static const uint32_t poison[2] = {0xffe5a5a5,
                                   0x4b5a5a5a}; /* a NaN, and 14310000; all bytes differ */

static uint8_t poison_at(int nth, size_t offset)
{
    return (uint8_t)(poison[nth] >> offset % 4 * 8);
}

void output_poison(VerifyRun *x, int nth)
{
    const Guarded *y = &x->slot[0].source;
    size_t n = y->bytes / sizeof poison[nth], whole = n * sizeof poison[nth];
    for (size_t i = 0; i < n; i++) {
        memcpy((uint8_t *)y->at + i * sizeof poison[nth], &poison[nth], sizeof poison[nth]);
    }
    for (size_t i = whole; i < y->bytes; i++) {
        ((uint8_t *)y->at)[i] = poison_at(nth, i);
    }
}

/* ---- what is written ---- */

static bool is_poison(const uint8_t *at, size_t offset, size_t size, int nth)
{
    for (size_t i = 0; i < size; i++) {
        if (at[offset + i] != poison_at(nth, offset + i)) {
            return false;
        }
    }
    return true;
}

static void say_element(const VerifyRun *x, int64_t i)
{
    verdict_start(x->v, "%s[%lld] is ", x->naive->operand.at[0].name, (long long)i);
}

static bool element_written(const VerifyRun *x, int64_t i)
{
    const uint8_t *a = x->first, *b = x->given[0];
    size_t size = (size_t)dtype_bytes(x->naive->operand.at[0].dtype), at = (size_t)i * size;
    bool left_alone = is_poison(a, at, size, 0) && is_poison(b, at, size, 1);
    bool must = !x->stored || x->stored[i];
    if (must ? !memcmp(a + at, b + at, size) : left_alone) {
        return true;
    }
    say_element(x, i);
    if (!must) {
        verdict_add(x->v, "written, and is none of the elements that the nest stores");
    } else if (left_alone) {
        verdict_add(x->v, "never written");
    } else {
        verdict_value(x, 0, a, i);
        verdict_add(x->v,
                    " after the first call, and after a second one with the same inputs ");
        verdict_value(x, 0, b, i);
    }
    return verdict_wrong(x);
}

static bool all_written(const VerifyRun *x)
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

/* ---- what its value is ---- */

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

static bool element_fits(const VerifyRun *x, const Element *e, bool any_zero)
{
    Dtype t = x->naive->operand.at[0].dtype;
    Value got = value_load(x->given[0], t, e->index);
    if (t == DT_F32 ? f32_fits(x->v, e, got.f, any_zero) : int_fits(x->v, e, got.i)) {
        return true;
    }
    say_element(x, e->index);
    verdict_value(x, 0, x->given[0], e->index);
    verdict_add(x->v, ", and must be ");
    if (e->err > 0) {
        verdict_add(x->v, "within %.3g of ", e->err);
    }
    if (t == DT_F32) {
        verdict_add(x->v, "%.9g", e->v);
    } else {
        verdict_add(x->v, "%lld", (long long)e->i);
    }
    return verdict_wrong(x);
}

static bool all_fit(const VerifyRun *x)
{
    bool any_zero = has_max(x->naive);
    for (int64_t i = 0; i < x->want.n; i++) {
        if (!element_fits(x, &x->want.at[i], any_zero)) {
            return false;
        }
    }
    return true;
}

/* Where elements were sampled: on integers sharply; on floats a row's bound is wide, so once. */
static bool sums_fit(VerifyRun *x)
{
    bool sharp = x->in.round == ROUND_INTEGERS, wide = x->in.round == ROUND_FLOATS && x->tuned;
    Question q = verify_question(x, NULL);
    Mismatch m;
    if (!x->sampled || !(sharp || wide) || !freivalds(x->e, &q, x->given[0], x->in.seed, &m)) {
        return true;
    }
    x->v->n_sums++;
    if (m.index < 0) {
        return true;
    }
    say_element(x, m.index);
    verdict_add(x->v, "%.9g, and must be ", m.got);
    if (m.bound > 0) {
        verdict_add(x->v, "within %.3g of ", m.bound);
    }
    verdict_add(x->v, "%.9g, found by the sum of its row", m.want);
    return verdict_wrong(x);
}

bool output_fits(VerifyRun *x)
{
    return all_written(x) && all_fit(x) && sums_fit(x);
}
