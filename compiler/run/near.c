/* near.c - an expression at up to 64 points at once, in double, each value with a bound: no candidate's f32
 * value is farther from it. What operations do to bounds is in near_ops.c; here are leaves, what evaluates only
 * one of its sides, and casts.
 *
 * Lanes make a tree of nodes affordable. A load whose index moves evenly with the innermost loop costs an
 * addition; everything else is evaluated each time. needs: an expression of a naive nest. */
#include <math.h>

#include "run/verify_int.h"

#define LIBM_REL (4 * UNIT_ROUNDOFF) /* 2 ulp, and an ulp is at most 2 u */
#define APPROX_REL 4e-7
#define APPROX_FLOOR 0x1p-125 /* results below exp(-87) become 0 */

uint64_t near_lanes(const Points *p)
{
    return p->n == LANES ? ~(uint64_t)0 : ((uint64_t)1 << p->n) - 1;
}

static const Near *eval_op(Points *p, Eval *n, uint64_t on)
{
    const Near *a = near_eval(p, n->a, on), *b = n->b ? near_eval(p, n->b, on) : a;
    near_op(p, n->x, a, b, &n->out);
    return &n->out;
}

/* ---- what evaluates only what it needs ---- */

/* Lanes of on where cond may be true, and where it may be false. */
static void choose(const Points *p, const Near *cond, uint64_t on, uint64_t *yes, uint64_t *no)
{
    *yes = *no = 0;
    for (int l = 0; l < p->n; l++) {
        bool open = near_error(cond, l) > 0;
        *yes |= (uint64_t)(cond->i[l] || open) << l;
        *no |= (uint64_t)(!cond->i[l] || open) << l;
    }
    *yes &= on;
    *no &= on;
}

static const Near *eval_or(Points *p, Eval *n, uint64_t on)
{
    uint64_t yes, no;
    const Near *a = near_eval(p, n->a, on);
    choose(p, a, on, &yes, &no);
    const Near *b = no ? near_eval(p, n->b, no) : a;
    n->out.sure = a->sure && b->sure;
    for (int l = 0; l < p->n; l++) {
        double ea = near_error(a, l), eb = near_error(b, l);
        bool known = (a->i[l] && ea == 0) || (b->i[l] && eb == 0);
        n->out.i[l] = a->i[l] || b->i[l];
        n->out.err[l] = known ? 0 : ea + eb;
    }
    return &n->out;
}

/* Where the condition is not known, both sides are within the bound. */
static double either_error(double taken, double other, double other_err)
{
    double err = fabs(taken - other) + other_err;
    return isnan(taken) && isnan(other) ? 0 : isfinite(err) ? err : INFINITY;
}

static const Near *eval_select(Points *p, Eval *n, uint64_t on)
{
    uint64_t yes, no;
    const Near *cond = near_eval(p, n->a, on);
    choose(p, cond, on, &yes, &no);
    const Near *a = yes ? near_eval(p, n->b, yes) : NULL,
               *b = no ? near_eval(p, n->c, no) : NULL;
    if (!a || !b) {
        return a ? a : b ? b : &n->out;
    }
    bool f32 = n->x->dtype == DT_F32;
    n->out.sure = cond->sure && a->sure && b->sure;
    for (int l = 0; l < p->n; l++) {
        const Near *taken = cond->i[l] ? a : b, *other = cond->i[l] ? b : a;
        double err = near_error(taken, l);
        if (near_error(cond, l) > 0) {
            double t = f32 ? taken->v[l] : (double)taken->i[l],
                   o = f32 ? other->v[l] : (double)other->i[l];
            err = fmax(err, either_error(t, o, near_error(other, l)));
        }
        n->out.err[l] = err;
        n->out.i[l] = isinf(err) ? 0 : taken->i[l]; /* the same bits as v */
    }
    return &n->out;
}

/* ---- leaves and casts ---- */

static _Noreturn void outside(const Points *p, int operand, int64_t index)
{
    const Operand *o = &p->k->operand.at[operand];
    fail(p->e, E_RANGE, "The nest loads element %lld of operand %s, which has %lld elements.",
         (long long)index, o->name, (long long)p->n_elems[operand]);
}

/* Elements in all lanes, where they move with the inner axis and nothing else has changed. */
static const int64_t *linear_indices(Points *p, Eval *n, uint64_t on)
{
    Linear *x = n->linear;
    int64_t along = x->stride * p->inner_value;
    if (x->epoch != p->epoch) {
        const Near *index = near_eval(p, n->a, on);
        for (int l = 0; l < p->n; l++) {
            x->first[l] = index->i[l] - along;
        }
        x->epoch = p->epoch;
    }
    for (int l = 0; l < p->n; l++) {
        x->at[l] = x->first[l] + along;
    }
    return x->at;
}

static const Near *load_f32(Points *p, Eval *n, const int64_t *at, uint64_t on)
{
    const float *from = p->params[n->x->id];
    const uint64_t n_elems = (uint64_t)p->n_elems[n->x->id];
    n->out.sure = true;
    for (int l = 0; l < p->n; l++) {
        if ((uint64_t)at[l] < n_elems) {
            n->out.v[l] = from[at[l]];
        } else if (on >> l & 1) {
            outside(p, n->x->id, at[l]);
        }
    }
    return &n->out;
}

/* Integers, and anything at an index that may be off. */
static const Near *load_any(Points *p, Eval *n, const Near *index, uint64_t on)
{
    const int operand = n->x->id;
    n->out.sure = index->sure;
    for (int l = 0; l < p->n; l++) {
        int64_t at = index->i[l];
        bool open = near_error(index, l) > 0, there = at >= 0 && at < p->n_elems[operand];
        n->out.err[l] = open ? INFINITY : 0;
        if (!there && !open && (on >> l & 1)) {
            outside(p, operand, at);
        }
        Value v = {.i = 0};
        if (there) {
            v = value_load(p->params[operand], n->x->dtype, at);
        }
        if (n->x->dtype == DT_F32) {
            n->out.v[l] = v.f;
        } else {
            n->out.i[l] = v.i;
        }
    }
    return &n->out;
}

static const Near *eval_load(Points *p, Eval *n, uint64_t on)
{
    if (n->linear && n->x->dtype == DT_F32) {
        return load_f32(p, n, linear_indices(p, n, on), on);
    }
    const Near *index = near_eval(p, n->a, on);
    bool plain = index->sure && n->x->dtype == DT_F32;
    return plain ? load_f32(p, n, index->i, on) : load_any(p, n, index, on);
}

static int64_t f32_to_int(double v, Dtype to)
{
    return scalar_cast((Value){.f = (float)v}, DT_F32, to).i;
}

static double cast_error(double v, double err, Dtype to)
{
    if (to == DT_BOOL || isinf(err)) {
        return to == DT_BOOL ? fabs(v) <= err : INFINITY;
    }
    return (double)f32_to_int(v + err, to) - (double)f32_to_int(v - err, to);
}

static const Near *eval_cast(Points *p, Eval *n, uint64_t on)
{
    const Near *a = near_eval(p, n->a, on);
    Dtype from = n->x->a->dtype, to = n->x->dtype;
    if (from == to) {
        return a;
    }
    n->out.sure = a->sure;
    for (int l = 0; l < p->n; l++) {
        double err = near_error(a, l);
        n->out.err[l] = err;
        if (from == DT_F32) {
            n->out.i[l] = f32_to_int(a->v[l], to);
            n->out.err[l] = err > 0 ? cast_error(a->v[l], err, to) : 0;
        } else if (to == DT_F32) {
            n->out.v[l] = scalar_cast((Value){.i = a->i[l]}, from, to).f;
        } else {
            n->out.i[l] = scalar_cast((Value){.i = a->i[l]}, from, to).i;
        }
    }
    return &n->out;
}

const Near *near_eval(Points *p, Eval *n, uint64_t on)
{
    switch (n->x->kind) {
    case X_CONST:
    case X_SYM: return &n->out;
    case X_AXIS: return &p->axis[n->x->id];
    case X_VAR: return p->var[n->x->id];
    case X_LOAD: return eval_load(p, n, on);
    case X_OP: return n->x->op == S_OR ? eval_or(p, n, on) : eval_op(p, n, on);
    case X_SELECT: return eval_select(p, n, on);
    case X_CAST: return eval_cast(p, n, on);
    case X_FMA: break; /* only schedules make it */
    }
    bug("a naive nest has no expression of kind %d", (int)n->x->kind);
}

/* ---- making ---- */

static void fill_constant(Near *out, Dtype t, Value v)
{
    out->sure = true;
    for (int l = 0; l < LANES; l++) {
        if (t == DT_F32) {
            out->v[l] = v.f;
        } else {
            out->i[l] = v.i;
        }
    }
}

/* Its value may change although no axis does, or not be known. */
static void see_variable(const Expr *x, void *ctx)
{
    *(bool *)ctx = *(bool *)ctx || x->kind == X_VAR || x->dtype == DT_F32;
}

/* How a load's index moves with the inner axis; NULL: not evenly, or not with axes alone. */
static Linear *find_linear(Points *p, const Expr *load)
{
    int64_t stride;
    bool varies = p->inner < 0;
    expr_visit(load->a, see_variable, &varies);
    if (varies || !index_stride(p->e, &p->k->nest, load->a, p->inner, &stride)) {
        return NULL;
    }
    Linear *x = arena_new(&p->e->kernel, Linear);
    x->stride = stride;
    return x;
}

Eval *near_node(Points *p, const Expr *x)
{
    if (!x) {
        return NULL;
    }
    Eval *n = arena_new(&p->e->kernel, Eval);
    n->x = x;
    n->a = near_node(p, x->a);
    n->b = near_node(p, x->b);
    n->c = near_node(p, x->c);
    n->linear = x->kind == X_LOAD ? find_linear(p, x) : NULL;
    if (x->kind == X_CONST) {
        fill_constant(&n->out, x->dtype, x->value);
    } else if (x->kind == X_SYM) {
        fill_constant(&n->out, DT_I64, (Value){.i = p->syms[x->id]});
    }
    return n;
}

void points_set_axis(Points *p, int axis, int64_t value)
{
    if (axis == p->inner) {
        p->inner_value = value;
    } else {
        p->epoch++;
    }
    for (int l = 0; l < p->n; l++) {
        p->axis[axis].i[l] = value;
    }
}

void points_set_inner(Points *p, int axis)
{
    p->inner = axis;
    p->inner_value = 0;
    p->epoch++;
}

void points_set_lane(Points *p, int axis, int lane, int64_t value)
{
    p->axis[axis].i[lane] = value;
    p->epoch++;
}

void points_init(Points *p, Env *e, const Kernel *k, void *const *params,
                 const int64_t *n_elems, const int64_t *syms, bool approximate)
{
    *p = (Points){.e = e,
                  .k = k,
                  .params = params,
                  .n_elems = n_elems,
                  .syms = syms,
                  .n = LANES,
                  .inner = -1,
                  .epoch = 1};
    p->axis = arena_array(&e->kernel, Near, k->nest.axis.n);
    p->var = arena_array(&e->kernel, const Near *, k->nest.var.n);
    for (int i = 0; i < k->nest.axis.n; i++) {
        p->axis[i].sure = true;
    }
    p->how[HOW_NEAREST] = (Rounding){UNIT_ROUNDOFF, DENORMAL_HALF};
    p->how[HOW_LIBM] = (Rounding){LIBM_REL, 4 * DENORMAL_HALF};
    p->how[HOW_EXP] = approximate ? (Rounding){APPROX_REL, APPROX_FLOOR} : p->how[HOW_LIBM];
}
