/* vector.c - expressions in the lanes of one vector, in GCC's vector extensions. What is the same in all
 * lanes is computed once, as a scalar, and spread. Legality was settled when the axis was put in lanes. */
#include "emit/emit_int.h"

int width_for(const Writer *w, int64_t lanes)
{
    int width = w->target->lanes;
    while (width > 1 && lanes % width) {
        width /= 2;
    }
    return width;
}

static bool axis_has_lanes(const Writer *w, int axis)
{
    const Axis *a = &w->k->nest.axis.at[axis];
    return axis == w->vec ||
           (a->outer && (axis_has_lanes(w, a->outer) || axis_has_lanes(w, a->inner)));
}

static bool acc_in_lanes(const Writer *w, const VarAt *v)
{
    for (int i = 0; i < v->shape.n; i++) {
        if (v->shape.axis[i] == w->vec) {
            return true;
        }
    }
    return false;
}

bool lanes_vary(Writer *w, const Expr *x)
{
    int64_t stride;
    if (!x || w->vec < 0) {
        return false;
    }
    switch (x->kind) {
    case X_CONST:
    case X_SYM: return false;
    case X_AXIS: return axis_has_lanes(w, x->id);
    case X_VAR: return w->var[x->id].lanes > 0 || acc_in_lanes(w, &w->var[x->id]);
    case X_LOAD: return index_stride(w->e, &w->k->nest, x->a, w->vec, &stride) && stride != 0;
    default: return lanes_vary(w, x->a) || lanes_vary(w, x->b) || lanes_vary(w, x->c);
    }
}

static int lanes(const Writer *w)
{
    return w->axis[w->vec].width;
}

static const char *call1(Writer *w, Aid id, const char *a)
{
    return arena_printf(w->m, "%s(%s)", aid(w, id, lanes(w)), a);
}

static const char *spread(Writer *w, const Expr *x)
{
    Aid id = x->dtype == DT_BOOL ? AID_MASK : x->dtype == DT_I32 ? AID_SPLAT_I32 : AID_SPLAT;
    return call1(w, id, scalar_text(w, x));
}

const char *dot_text(Writer *w, const Accum *acc)
{
    const Expr *x, *y;
    check(dot_factors(acc, &x, &y));
    int n = lanes(w);
    aid(w, AID_BYTES, n);
    return arena_printf(w->m, "%s(%s, same_bytes%d(&%s[%s]), bytes%d(&%s[%s]))",
                        aid(w, AID_DOT, n), var_name(w, acc->var), n,
                        c_name(w, w->k->operand.at[x->a->id].name), scalar_text(w, x->a->a), n,
                        c_name(w, w->k->operand.at[y->a->id].name), scalar_text(w, y->a->a));
}

/* lane0 + l <= bound in lane l: l is compared with bound - lane0. */
static const char *lane_compare(Writer *w, const Expr *x)
{
    const Expr *bound = x_op(w->m, S_SUB, localize(w, x->b), localize(w, x->a));
    if (x->op == S_LT) {
        bound = x_op(w->m, S_SUB, bound, x_int(w->m, 1));
    }
    return call1(w, AID_LANES, scalar_text(w, bound));
}

static const char *vector_unary(Writer *w, const Expr *x)
{
    static const struct {
        ScalarOp op;
        Aid aid;
    } calls[] = {{S_EXP, AID_MAP_EXPF}, {S_SQRT, AID_MAP_SQRTF}, {S_SIN, AID_MAP_SINF},
                 {S_COS, AID_MAP_COSF}, {S_EXP_APPROX, AID_EXP}, {S_EXP_FUSED, AID_EXP_FUSED}};
    const char *a = vector_text(w, x->a);
    for (size_t i = 0; i < countof(calls); i++) {
        if (calls[i].op == x->op) {
            return call1(w, calls[i].aid, a);
        }
    }
    if (x->op == S_RECIPROCAL) {
        return arena_printf(w->m, "(%s(1.0f) / %s)", aid(w, AID_SPLAT, lanes(w)), a);
    }
    check(x->op == S_NEG);
    return arena_printf(w->m, "(-%s)", a);
}

static const char *vector_op(Writer *w, const Expr *x)
{
    if (x->a->dtype == DT_I64) {
        return lane_compare(w, x);
    }
    if (!x->b) {
        return vector_unary(w, x);
    }
    const char *c = x->op == S_OR ? "|" : scalar_info[x->op].c;
    return arena_printf(w->m, "(%s %s %s)", vector_text(w, x->a), c, vector_text(w, x->b));
}

static const char *vector_select(Writer *w, const Expr *x)
{
    const char *a = vector_text(w, x->b), *b = vector_text(w, x->c);
    if (!lanes_vary(w, x->a)) {
        return arena_printf(w->m, "(%s ? %s : %s)", scalar_text(w, x->a), a, b);
    }
    return arena_printf(w->m, "%s(%s, %s, %s)", aid(w, AID_SELECT, lanes(w)),
                        vector_text(w, x->a), a, b);
}

const char *vector_text(Writer *w, const Expr *x)
{
    aid(w, AID_TYPES, lanes(w));
    if (!lanes_vary(w, x)) {
        return spread(w, x);
    }
    switch (x->kind) {
    case X_VAR: return var_name(w, x->id);
    case X_LOAD:
        return arena_printf(
            w->m, "%s(&%s[%s])",
            aid(w, w->k->operand.at[x->id].bf16 ? AID_LOAD_BF16 : AID_LOAD, lanes(w)),
            c_name(w, w->k->operand.at[x->id].name), scalar_text(w, x->a));
    case X_OP: return vector_op(w, x);
    case X_SELECT: return vector_select(w, x);
    case X_CAST: return call1(w, AID_FLOATS, vector_text(w, x->a));
    case X_FMA:
        return arena_printf(w->m, "%s(%s, %s, %s)", aid(w, AID_FMA, lanes(w)),
                            vector_text(w, x->a), vector_text(w, x->b), vector_text(w, x->c));
    default: bug("an expression of kind %d differs between lanes", (int)x->kind);
    }
}

void write_value(Writer *w, const Expr *x, bool in_lanes)
{
    buf_str(w->out, in_lanes ? vector_text(w, x) : scalar_text(w, x));
}
