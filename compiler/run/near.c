/* near.c - an expression at up to 64 points at once, in double, each value with a bound: no candidate's f32
 * value is farther from it.
 *
 * Running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2.2 and 3.3): an
 * f32 operation gives (x op y)(1 + d) + e with |d| <= u = 2^-24 and |e| <= 2^-150, so the bound of a result v is
 * what its operands' bounds become (table below) plus u (|v| + that) + 2^-150. libm's functions are within 2
 * ulp, the polynomial exp within 4e-7.
 *
 * Where both operands are known exactly, a correctly rounded operation starts no error: its f32 result is the
 * double result rounded once more, since 53 >= 2 * 24 + 2 (Figueroa 1995). So a bound grows only from what
 * candidates may do otherwise: the order of a sum, fused products, libm and approximations. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "run/verify_int.h"

#define LIBM_REL (4 * UNIT_ROUNDOFF) /* 2 ulp, and an ulp is at most 2 u */
#define APPROX_REL 4e-7
#define APPROX_FLOOR 0x1p-125 /* results below exp(-87) become 0 */
#define DENORMAL_HALF 0x1p-150

static const double no_errors[LANES];

static const double *errors_of(const Near *x)
{
    return x->sure ? no_errors : x->err;
}

double near_error(const Near *x, int lane)
{
    return errors_of(x)[lane];
}

uint64_t near_lanes(const Points *p)
{
    return p->n == LANES ? ~(uint64_t)0 : ((uint64_t)1 << p->n) - 1;
}

/* ---- f32 operations ---- */

typedef struct Real {
    double v, err;
} Real;

static Real unknown(void)
{
    return (Real){0, INFINITY};
}

/* of x / y, where v is the quotient */
static double quotient_error(double v, double ex, double y, double ey)
{
    return fabs(y) > ey ? (ex + fabs(v) * ey) / (fabs(y) - ey) : INFINITY;
}

/* of v = sqrt(x): |sqrt(x + d) - v| = |d| / (sqrt(x + d) + v) */
static double root_error(double x, double v, double ex)
{
    return ex == 0 ? 0 : x > ex ? ex / v : INFINITY;
}

/* of v = exp(x): v (e^ex - 1), and e^t - 1 <= t + t^2 up to 1 */
static double exp_error(double v, double ex)
{
    return v * (ex <= 1 ? ex + ex * ex : expm1(ex));
}

/* Columns: operation, value, error from the operands' errors, how the result is rounded */
/* clang-format off */
#define FLOAT_RULES(X)                                                \
    X(ADD,        x + y,   ex + ey,                                     NEAREST) \
    X(SUB,        x - y,   ex + ey,                                     NEAREST) \
    X(MUL,        x * y,   fabs(x) * ey + fabs(y) * ex + ex * ey,       NEAREST) \
    X(DIV,        x / y,   quotient_error(v, ex, y, ey),                NEAREST) \
    X(RECIPROCAL, 1 / x,   quotient_error(v, 0, x, ex),                 NEAREST) \
    X(SQRT,       sqrt(x), root_error(x, v, ex),                        NEAREST) \
    X(NEG,        -x,      ex,                                          EXACT)   \
    X(EXP,        exp(x),  exp_error(v, ex),                            EXP)     \
    X(SIN,        sin(x),  ex,                                          LIBM)    \
    X(COS,        cos(x),  ex,                                          LIBM)
/* clang-format on */

/* A result that is not a plain number within f32's range. */
static Real settle(ScalarOp op, Real x, Real y, Real r)
{
    if (isnan(x.v) || isnan(y.v)) {
        return (Real){NAN, 0};
    }
    if (isinf(x.err) || isinf(y.err)) {
        return unknown();
    }
    if (isinf(x.v) || isinf(y.v)) { /* and err of that is 0 */
        Real other = isinf(x.v) ? y : x;
        bool adds = op == S_ADD || op == S_SUB;
        return adds || other.err == 0 || fabs(other.v) > other.err ? (Real){(float)r.v, 0} : unknown();
    }
    if (isnan(r.v) || isinf(r.v)) {
        return x.err == 0 && y.err == 0 ? (Real){r.v, 0} : unknown();
    }
    bool overflows = fabs(r.v) - r.err > FLT_MAX * (1 + UNIT_ROUNDOFF);
    return overflows ? (Real){copysign(INFINITY, r.v), 0} : unknown();
}

static inline Real rounded(ScalarOp op, How how, const Rounding *r, Real x, Real y, double v, double err)
{
    if (how <= HOW_NEAREST && x.err == 0 && y.err == 0) {
        return (Real){(float)v, 0};
    }
    err += r->rel * (fabs(v) + err) + r->floor;
    Real out = {v, err};
    return fabs(v) + err <= FLT_MAX ? out : settle(op, x, y, out);
}

#define X(id, value, error, rounding)                                                          \
    static void rule_##id(const Points *p, const Near *a, const Near *b, Near *out)            \
    {                                                                                          \
        const double *ea = errors_of(a), *eb = errors_of(b);                                   \
        const How how = HOW_##rounding;                                                        \
        out->sure = a->sure && b->sure && how <= HOW_NEAREST;                                  \
        for (int l = 0; out->sure && l < p->n; l++) {                                          \
            double x = a->v[l], y = b->v[l];                                                   \
            (void)x, (void)y;                                                                  \
            out->v[l] = (float)(value);                                                        \
        }                                                                                      \
        for (int l = 0; !out->sure && l < p->n; l++) {                                         \
            double x = a->v[l], y = b->v[l], ex = ea[l], ey = eb[l], v = value;                \
            (void)y, (void)ey;                                                                 \
            Real r = rounded(S_##id, how, &p->how[how], (Real){x, ex}, (Real){y, ey}, v, error); \
            out->v[l] = r.v;                                                                   \
            out->err[l] = r.err;                                                               \
        }                                                                                      \
    }
FLOAT_RULES(X)
#undef X

/* ---- comparisons of f32: err is 1 where the answer is not known ---- */

#define COMPARE_RULES(X) \
    X(LE, <=)            \
    X(LT, <)             \
    X(NE, !=)

#define X(id, op)                                                                          \
    static void compare_##id(const Points *p, const Near *a, const Near *b, Near *out)     \
    {                                                                                      \
        const double *ea = errors_of(a), *eb = errors_of(b);                               \
        out->sure = a->sure && b->sure;                                                    \
        for (int l = 0; l < p->n; l++) {                                                   \
            double x = a->v[l], y = b->v[l], err = ea[l] + eb[l];                          \
            bool nan = isnan(x) || isnan(y), apart = fabs(x - y) > err;                    \
            out->i[l] = x op y;                                                            \
            out->err[l] = err > 0 && !nan && !apart;                                       \
        }                                                                                  \
    }
COMPARE_RULES(X)
#undef X

/* ---- i64: what indices are made of has code of its own ---- */

#define INDEX_RULES(X)                                               \
    X(ADD, (int64_t)((uint64_t)x + (uint64_t)y))                     \
    X(SUB, (int64_t)((uint64_t)x - (uint64_t)y))                     \
    X(MUL, (int64_t)((uint64_t)x * (uint64_t)y))                     \
    X(IDIV, y > 0 ? x / y : scalar_eval(S_IDIV, DT_I64, (Value){.i = x}, (Value){.i = y}).i) \
    X(MOD, y > 0 ? x % y : scalar_eval(S_MOD, DT_I64, (Value){.i = x}, (Value){.i = y}).i)   \
    X(LE, x <= y)                                                    \
    X(LT, x < y)

#define X(id, result)                                                                \
    static void index_##id(const Points *p, const Near *a, const Near *b, Near *out) \
    {                                                                                \
        out->sure = true;                                                            \
        for (int l = 0; l < p->n; l++) {                                             \
            int64_t x = a->i[l], y = b->i[l];                                        \
            out->i[l] = result;                                                      \
        }                                                                            \
    }
INDEX_RULES(X)
#undef X

/* Any operation on integers and bools that may be off, as a cast of an f32 may be. */
static void any_int(const Points *p, const Expr *x, const Near *a, const Near *b, Near *out)
{
    bool sums = x->op == S_ADD || x->op == S_SUB || x->op == S_NEG, compares = x->dtype == DT_BOOL;
    out->sure = a->sure && b->sure;
    for (int l = 0; l < p->n; l++) {
        double err = near_error(a, l) + (x->b ? near_error(b, l) : 0);
        double gap = fabs((double)a->i[l] - (double)b->i[l]);
        out->i[l] = scalar_eval(x->op, x->a->dtype, (Value){.i = a->i[l]}, (Value){.i = b->i[l]}).i;
        out->err[l] = err == 0 ? 0 : sums ? err : compares ? gap <= err : INFINITY;
    }
}

typedef void Rule(const Points *p, const Near *a, const Near *b, Near *out);

static Rule *const float_rule[N_SCALAR_OPS] = {
#define X(id, value, error, rounding) [S_##id] = rule_##id,
    FLOAT_RULES(X)
#undef X
#define X(id, op) [S_##id] = compare_##id,
    COMPARE_RULES(X)
#undef X
};

static Rule *const index_rule[N_SCALAR_OPS] = {
#define X(id, result) [S_##id] = index_##id,
    INDEX_RULES(X)
#undef X
};

static const Near *eval_op(Points *p, Eval *n, uint64_t on)
{
    const Near *a = near_eval(p, n->a, on), *b = n->b ? near_eval(p, n->b, on) : a;
    Dtype t = n->x->a->dtype;
    if (t == DT_F32) {
        check(float_rule[n->x->op]);
        float_rule[n->x->op](p, a, b, &n->out);
    } else if (t == DT_I64 && a->sure && b->sure && index_rule[n->x->op]) {
        index_rule[n->x->op](p, a, b, &n->out);
    } else {
        any_int(p, n->x, a, b, &n->out);
    }
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
static Real either(Real a, Real b)
{
    if (isnan(a.v) && isnan(b.v)) {
        return a;
    }
    double err = fabs(a.v - b.v) + b.err;
    return isfinite(err) ? (Real){a.v, fmax(a.err, err)} : unknown();
}

static const Near *eval_select(Points *p, Eval *n, uint64_t on)
{
    uint64_t yes, no;
    const Near *cond = near_eval(p, n->a, on);
    choose(p, cond, on, &yes, &no);
    const Near *a = yes ? near_eval(p, n->b, yes) : NULL, *b = no ? near_eval(p, n->c, no) : NULL;
    if (!a || !b) {
        return a ? a : b;
    }
    bool f32 = n->x->dtype == DT_F32;
    n->out.sure = cond->sure && a->sure && b->sure;
    for (int l = 0; l < p->n; l++) {
        const Near *taken = cond->i[l] ? a : b, *other = cond->i[l] ? b : a;
        Real t = {f32 ? taken->v[l] : (double)taken->i[l], near_error(taken, l)};
        Real o = {f32 ? other->v[l] : (double)other->i[l], near_error(other, l)};
        n->out.i[l] = taken->i[l]; /* the same bits as v */
        n->out.err[l] = near_error(cond, l) > 0 ? either(t, o).err : t.err;
    }
    return &n->out;
}

/* ---- leaves and casts ---- */

static _Noreturn void outside(const Points *p, int operand, int64_t index)
{
    const Operand *o = &p->k->operand.at[operand];
    fail(p->e, E_RANGE, "The nest loads element %lld of operand %s, which has %lld elements.", (long long)index, o->name,
         (long long)p->n_elems[operand]);
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

void points_init(Points *p, Env *e, const Kernel *k, void *const *params, const int64_t *n_elems,
                 const int64_t *syms, bool approximate)
{
    *p = (Points){.e = e, .k = k, .params = params, .n_elems = n_elems, .syms = syms, .n = LANES, .inner = -1, .epoch = 1};
    p->axis = arena_array(&e->kernel, Near, k->nest.axis.n);
    p->var = arena_array(&e->kernel, const Near *, k->nest.var.n);
    for (int i = 0; i < k->nest.axis.n; i++) {
        p->axis[i].sure = true;
    }
    p->how[HOW_NEAREST] = (Rounding){UNIT_ROUNDOFF, DENORMAL_HALF};
    p->how[HOW_LIBM] = (Rounding){LIBM_REL, 4 * DENORMAL_HALF};
    p->how[HOW_EXP] = approximate ? (Rounding){APPROX_REL, APPROX_FLOOR} : p->how[HOW_LIBM];
}
