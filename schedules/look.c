/* look.c - questions about a kernel that policies ask: extents, who reads what, which operations there are.
 * needs: a finished naive kernel. breaks: nothing; the kernel is only read. */
#include <string.h>

#include "schedules/schedules_int.h"

bool list_has(const AxisList *l, int axis)
{
    for (int i = 0; i < l->n; i++) {
        if (l->at[i] == axis) {
            return true;
        }
    }
    return false;
}

void list_add(AxisList *l, int axis)
{
    if (!list_has(l, axis)) {
        check(l->n < MAX_LOOK_AXES);
        l->at[l->n++] = axis;
    }
}

const char *axis_text(const Kernel *k, int axis)
{
    return k->nest.axis.at[axis].name;
}

static void find_axis(const Expr *x, void *ctx)
{
    int *axis = ctx;
    if (x->kind == X_AXIS && x->id == *axis) {
        *axis = -1;
    }
}

bool expr_has_axis(const Expr *x, int axis)
{
    expr_visit(x, find_axis, &axis);
    return axis < 0;
}

const Expr *let_of(const Phase *p, const Expr *x)
{
    for (int i = 0; x->kind == X_VAR && i < p->body.n; i++) {
        if (p->body.at[i].var == x->id) {
            return p->body.at[i].value;
        }
    }
    return x;
}

static void stmts_visit(const Stmt *s, int n, void (*visit)(const Expr *x, void *ctx), void *ctx)
{
    for (int i = 0; i < n; i++) {
        if (s[i].index) {
            expr_visit(s[i].index, visit, ctx);
        }
        expr_visit(s[i].value, visit, ctx);
    }
}

void phase_visit(const Phase *p, void (*visit)(const Expr *x, void *ctx), void *ctx)
{
    stmts_visit(p->body.at, p->body.n, visit, ctx);
    for (int i = 0; i < p->acc.n; i++) {
        expr_visit(p->acc.at[i].update, visit, ctx);
    }
}

void finish_visit(const Phase *p, void (*visit)(const Expr *x, void *ctx), void *ctx)
{
    stmts_visit(p->finish.at, p->finish.n, visit, ctx);
}

typedef struct FindOp {
    ScalarOp op;
    bool found;
} FindOp;

static void find_op(const Expr *x, void *ctx)
{
    FindOp *f = ctx;
    f->found = f->found || (x->kind == X_OP && x->op == f->op);
}

bool kernel_has_op(const Kernel *k, ScalarOp op)
{
    FindOp f = {.op = op};
    for (int i = 0; i < k->nest.phase.n; i++) {
        phase_visit(&k->nest.phase.at[i], find_op, &f);
        finish_visit(&k->nest.phase.at[i], find_op, &f);
    }
    return f.found;
}

/* The value of i64 arithmetic over symbols, or -1 where one is not known. Extents are never negative. */
static int64_t known_value(const Expr *x, const int64_t *sym)
{
    if (x->kind == X_CONST) {
        return x->value.i;
    }
    if (x->kind == X_SYM) {
        return sym ? sym[x->id] : -1;
    }
    check(x->kind == X_OP && x->b);
    Value a = {.i = known_value(x->a, sym)}, b = {.i = known_value(x->b, sym)};
    return a.i < 0 || b.i < 0 ? -1 : scalar_eval(x->op, DT_I64, a, b).i;
}

int64_t axis_extent(const Kernel *k, const PickHint *hint, int axis)
{
    return known_value(k->nest.axis.at[axis].extent, hint ? hint->sym : NULL);
}

int64_t axis_constant(const Kernel *k, int axis)
{
    return axis_extent(k, NULL, axis);
}

const Target *hint_target(const PickHint *hint)
{
    return hint->target ? hint->target : target_generic();
}

int64_t power_below(int64_t n, int64_t most)
{
    int64_t p = 1;
    while (p * 2 <= n && p * 2 <= most) {
        p *= 2;
    }
    return p;
}
