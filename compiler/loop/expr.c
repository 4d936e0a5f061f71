/* expr.c - scalar expressions and their constructors.
 *
 * An expression is an immutable tree in an arena. The constructors check dtypes (a mistake is
 * ours: bug) and fold what spec loop-ir 1 lists, on integers only: index arithmetic comes out
 * short, and every float operation that is written stays written, in order. */
#include "loop/loop_int.h"

#define FLOATS (1u << CLASS_FLOAT)
#define INTS (1u << CLASS_INT)
#define BOOLS (1u << CLASS_BOOL)

static const uint8_t takes[N_SCALAR_OPS] = {
    [S_ADD] = FLOATS | INTS, [S_SUB] = FLOATS | INTS, [S_MUL] = FLOATS | INTS,
    [S_DIV] = FLOATS,        [S_IDIV] = INTS,         [S_MOD] = INTS,
    [S_LE] = FLOATS | INTS,  [S_LT] = FLOATS | INTS,  [S_NE] = FLOATS | INTS | BOOLS,
    [S_OR] = BOOLS,          [S_NEG] = FLOATS | INTS, [S_EXP] = FLOATS,
    [S_SQRT] = FLOATS,       [S_RECIPROCAL] = FLOATS, [S_SIN] = FLOATS,
    [S_COS] = FLOATS,        [S_EXP_APPROX] = FLOATS, [S_EXP_FUSED] = FLOATS,
};

bool op_takes(ScalarOp op, Dtype t)
{
    return takes[op] >> dtype_class(t) & 1;
}

static Expr *node(Arena *m, ExprKind kind, Dtype t)
{
    Expr *x = arena_new(m, Expr);
    x->kind = kind;
    x->dtype = t;
    return x;
}

const Expr *x_const(Arena *m, Dtype t, Value v)
{
    Expr *x = node(m, X_CONST, t);
    if (dtype_class(t) == CLASS_FLOAT) {
        x->value.f = v.f; /* the rest of the union stays zero */
    } else {
        x->value.i = v.i;
    }
    return x;
}

const Expr *x_int(Arena *m, int64_t k)
{
    return x_const(m, DT_I64, (Value){.i = k});
}

static const Expr *leaf(Arena *m, ExprKind kind, Dtype t, int id)
{
    check(id >= 0);
    Expr *x = node(m, kind, t);
    x->id = id;
    return x;
}

const Expr *x_axis(Arena *m, int axis)
{
    return leaf(m, X_AXIS, DT_I64, axis);
}

const Expr *x_sym(Arena *m, int slot)
{
    check(slot < MAX_SYMBOLS);
    return leaf(m, X_SYM, DT_I64, slot);
}

const Expr *x_var(Arena *m, int var, Dtype t)
{
    return leaf(m, X_VAR, t, var);
}

const Expr *x_load(Arena *m, int operand, Dtype t, const Expr *index)
{
    check(operand >= 0 &&
          index->dtype == DT_I64); /* operand 0: only what a schedule kept there */
    Expr *x = node(m, X_LOAD, t);
    x->id = operand;
    x->a = index;
    return x;
}

/* op with the constant k on one side is the other operand, or zero. */
typedef struct Identity {
    ScalarOp op;
    bool left; /* k is the left operand */
    int64_t k;
    bool zero; /* the result: 0, else the other operand */
} Identity;

static const Identity identities[] = {
    {S_ADD, true, 0, false},  {S_ADD, false, 0, false},  {S_SUB, false, 0, false},
    {S_MUL, true, 0, true},   {S_MUL, false, 0, true},   {S_MUL, true, 1, false},
    {S_MUL, false, 1, false}, {S_IDIV, false, 1, false}, {S_MOD, false, 1, true},
};

static const Expr *fold_identity(Arena *m, ScalarOp op, const Expr *a, const Expr *b)
{
    for (size_t i = 0; i < countof(identities); i++) {
        const Identity *r = &identities[i];
        const Expr *k = r->left ? a : b;
        if (r->op == op && k->kind == X_CONST && k->value.i == r->k) {
            return r->zero ? x_const(m, a->dtype, (Value){.i = 0}) : r->left ? b : a;
        }
    }
    return NULL;
}

static bool folds(ScalarOp op, const Expr *a, const Expr *b)
{
    bool arithmetic = op == S_ADD || op == S_SUB || op == S_MUL || op == S_IDIV || op == S_MOD;
    return arithmetic && a->kind == X_CONST && b->kind == X_CONST;
}

const Expr *x_op(Arena *m, ScalarOp op, const Expr *a, const Expr *b)
{
    const ScalarInfo *info = &scalar_info[op];
    check(op_takes(op, a->dtype));
    check(info->arity == (b ? 2 : 1));
    check(!b || a->dtype == b->dtype);
    if (b && dtype_class(a->dtype) == CLASS_INT) {
        if (folds(op, a, b)) {
            return x_const(m, a->dtype, scalar_eval(op, a->dtype, a->value, b->value));
        }
        const Expr *x = fold_identity(m, op, a, b);
        if (x) {
            return x;
        }
        if ((op == S_LE || op == S_LT || op == S_NE) && expr_eq(a, b)) {
            return x_const(m, DT_BOOL, (Value){.i = op == S_LE});
        }
    }
    Expr *x = node(m, X_OP, info->to_bool ? DT_BOOL : a->dtype);
    x->op = op;
    x->a = a;
    x->b = b;
    return x;
}

const Expr *x_select(Arena *m, const Expr *cond, const Expr *a, const Expr *b)
{
    check(cond->dtype == DT_BOOL && a->dtype == b->dtype);
    Expr *x = node(m, X_SELECT, a->dtype);
    x->a = cond;
    x->b = a;
    x->c = b;
    return x;
}

const Expr *x_cast(Arena *m, const Expr *a, Dtype to)
{
    if (a->dtype == to) {
        return a;
    }
    if (to == DT_BOOL) {
        return x_op(m, S_NE, a, x_const(m, a->dtype, (Value){.i = 0}));
    }
    Expr *x = node(m, X_CAST, to);
    x->a = a;
    return x;
}

const Expr *x_fma(Arena *m, const Expr *a, const Expr *b, const Expr *c)
{
    check(a->dtype == DT_F32 && b->dtype == DT_F32 && c->dtype == DT_F32);
    Expr *x = node(m, X_FMA, DT_F32);
    x->a = a;
    x->b = b;
    x->c = c;
    return x;
}

bool expr_eq(const Expr *a, const Expr *b)
{
    if (a == b) {
        return true;
    }
    if (!a || !b || a->kind != b->kind || a->dtype != b->dtype || a->op != b->op ||
        a->id != b->id) {
        return false;
    }
    if (a->kind == X_CONST) {
        return value_same(a->value, b->value, a->dtype);
    }
    return expr_eq(a->a, b->a) && expr_eq(a->b, b->b) && expr_eq(a->c, b->c);
}

bool expr_is_int(const Expr *e, int64_t k)
{
    return e->kind == X_CONST && e->dtype == DT_I64 && e->value.i == k;
}

void expr_visit(const Expr *x, void (*visit)(const Expr *x, void *ctx), void *ctx)
{
    visit(x, ctx);
    const Expr *const below[] = {x->a, x->b, x->c};
    for (size_t i = 0; i < countof(below); i++) {
        if (below[i]) {
            expr_visit(below[i], visit, ctx);
        }
    }
}

int64_t expr_value(const Expr *x, const int64_t *syms)
{
    if (x->kind == X_CONST) {
        return x->value.i;
    }
    if (x->kind == X_SYM) {
        return syms[x->id];
    }
    check(x->kind == X_OP && x->dtype == DT_I64);
    Value a = {.i = expr_value(x->a, syms)};
    Value b = {.i = x->b ? expr_value(x->b, syms) : 0};
    return scalar_eval(x->op, DT_I64, a, b).i;
}
