/* near_ops.c - what scalar operations do to values and to their bounds, in all lanes.
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

#include "run/verify_int.h"

static const double no_errors[LANES];

static const double *errors_of(const Near *x)
{
    return x->sure ? no_errors : x->err;
}

double near_error(const Near *x, int lane)
{
    return errors_of(x)[lane];
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
        return adds || other.err == 0 || fabs(other.v) > other.err ? (Real){(float)r.v, 0}
                                                                   : unknown();
    }
    if (isnan(r.v) || isinf(r.v)) {
        return x.err == 0 && y.err == 0 ? (Real){r.v, 0} : unknown();
    }
    bool overflows = fabs(r.v) - r.err > FLT_MAX * (1 + UNIT_ROUNDOFF);
    return overflows ? (Real){copysign(INFINITY, r.v), 0} : unknown();
}

static inline Real rounded(ScalarOp op, How how, const Rounding *r, Real x, Real y, double v,
                           double err)
{
    if (how <= HOW_NEAREST && x.err == 0 && y.err == 0) {
        return (Real){(float)v, 0};
    }
    err += r->rel * (fabs(v) + err) + r->floor;
    Real out = {v, err};
    return fabs(v) + err <= FLT_MAX ? out : settle(op, x, y, out);
}

#define X(id, value, error, rounding)                                                       \
    static void rule_##id(const Points *p, const Near *a, const Near *b, Near *out)         \
    {                                                                                       \
        const double *ea = errors_of(a), *eb = errors_of(b);                                \
        const How how = HOW_##rounding;                                                     \
        out->sure = a->sure && b->sure && how <= HOW_NEAREST;                               \
        for (int l = 0; out->sure && l < p->n; l++) {                                       \
            double x = a->v[l], y = b->v[l];                                                \
            (void)x, (void)y;                                                               \
            out->v[l] = (float)(value);                                                     \
        }                                                                                   \
        for (int l = 0; !out->sure && l < p->n; l++) {                                      \
            double x = a->v[l], y = b->v[l], ex = ea[l], ey = eb[l], v = value;             \
            (void)y, (void)ey;                                                              \
            Real r =                                                                        \
                rounded(S_##id, how, &p->how[how], (Real){x, ex}, (Real){y, ey}, v, error); \
            out->v[l] = r.v;                                                                \
            out->err[l] = r.err;                                                            \
        }                                                                                   \
    }
FLOAT_RULES(X)
#undef X

/* ---- comparisons of f32: err is 1 where the answer is not known ---- */

#define COMPARE_RULES(X) \
    X(LE, <=)            \
    X(LT, <)             \
    X(NE, !=)

#define X(id, op)                                                                      \
    static void compare_##id(const Points *p, const Near *a, const Near *b, Near *out) \
    {                                                                                  \
        const double *ea = errors_of(a), *eb = errors_of(b);                           \
        out->sure = a->sure && b->sure;                                                \
        for (int l = 0; l < p->n; l++) {                                               \
            double x = a->v[l], y = b->v[l], err = ea[l] + eb[l];                      \
            bool nan = isnan(x) || isnan(y), apart = fabs(x - y) > err;                \
            out->i[l] = x op y;                                                        \
            out->err[l] = err > 0 && !nan && !apart;                                   \
        }                                                                              \
    }
COMPARE_RULES(X)
#undef X

/* ---- i64: what indices are made of has code of its own ---- */

#define INDEX_RULES(X)                                                                       \
    X(ADD, (int64_t)((uint64_t)x + (uint64_t)y))                                             \
    X(SUB, (int64_t)((uint64_t)x - (uint64_t)y))                                             \
    X(MUL, (int64_t)((uint64_t)x * (uint64_t)y))                                             \
    X(IDIV, y > 0 ? x / y : scalar_eval(S_IDIV, DT_I64, (Value){.i = x}, (Value){.i = y}).i) \
    X(MOD, y > 0 ? x % y : scalar_eval(S_MOD, DT_I64, (Value){.i = x}, (Value){.i = y}).i)   \
    X(LE, x <= y)                                                                            \
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
    bool sums = x->op == S_ADD || x->op == S_SUB || x->op == S_NEG,
         compares = x->dtype == DT_BOOL;
    out->sure = a->sure && b->sure;
    for (int l = 0; l < p->n; l++) {
        double err = near_error(a, l) + (x->b ? near_error(b, l) : 0);
        double gap = fabs((double)a->i[l] - (double)b->i[l]);
        out->i[l] =
            scalar_eval(x->op, x->a->dtype, (Value){.i = a->i[l]}, (Value){.i = b->i[l]}).i;
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

void near_op(const Points *p, const Expr *x, const Near *a, const Near *b, Near *out)
{
    Dtype t = x->a->dtype;
    if (t == DT_F32) {
        check(float_rule[x->op]);
        float_rule[x->op](p, a, b, out);
    } else if (t == DT_I64 && a->sure && b->sure && index_rule[x->op]) {
        index_rule[x->op](p, a, b, out);
    } else {
        any_int(p, x, a, b, out);
    }
}
