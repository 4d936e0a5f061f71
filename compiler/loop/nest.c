/* nest.c - the Nest: walking it, and the check that it is well formed.
 *
 * nest_check states the rules that every nest keeps, naive or scheduled: who may read which
 * axis and variable where, which expression has which dtype. A broken rule is a mistake of
 * the code that built or edited the nest, so it is a bug, never the input's fault;
 * kernel_parse refuses ill-formed text before it gets here. */
#include "loop/loop_int.h"

bool axis_is_unit(const Nest *n, int axis)
{
    return expr_is_int(n->axis.at[axis].extent, 1);
}

bool axis_peels(const Nest *n, int axis)
{
    int whole = n->axis.at[axis].half_of - 1;
    if (whole < 0 || n->axis.at[whole].outer != axis) {
        return false;
    }
    return n->axis.at[whole].tail == TAIL_PEEL || n->axis.at[whole].tail == TAIL_SWITCH;
}

bool phase_has(const Nest *n, const Phase *p, AxisKind kind)
{
    for (int i = 0; i < p->loops.n; i++) {
        if (n->axis.at[p->loops.at[i]].kind == kind) {
            return true;
        }
    }
    return false;
}

static void stmt_exprs(Stmt *s, void (*visit)(const Expr **slot, void *ctx), void *ctx)
{
    if (s->index) {
        visit(&s->index, ctx);
    }
    visit(&s->value, ctx);
}

void nest_exprs(Nest *n, void (*visit)(const Expr **slot, void *ctx), void *ctx)
{
    for (int i = 0; i < n->axis.n; i++) {
        visit(&n->axis.at[i].extent, ctx);
    }
    for (int i = 0; i < n->phase.n; i++) {
        Phase *p = &n->phase.at[i];
        for (int j = 0; j < p->body.n; j++) {
            stmt_exprs(&p->body.at[j], visit, ctx);
        }
        for (int j = 0; j < p->acc.n; j++) {
            visit(&p->acc.at[j].init, ctx);
            visit(&p->acc.at[j].update, ctx);
        }
        for (int j = 0; j < p->finish.n; j++) {
            stmt_exprs(&p->finish.at[j], visit, ctx);
        }
    }
}

/* ---- the check ---- */

typedef struct Scope {
    const Nest *nest;
    int n_operands, n_syms;
    bool *axis;    /* the loop of this axis is open */
    bool *used;    /* the axis has been a loop somewhere */
    VarState *var; /* declared once, then read while live */
} Scope;

static void check_node(const Expr *x, void *ctx)
{
    const Scope *s = ctx;
    switch (x->kind) {
    case X_AXIS:
        check(x->id < s->nest->axis.n && s->axis[x->id]);
        check(!axis_is_unit(s->nest, x->id)); /* lowering writes 0: one text for one kernel */
        break;
    case X_SYM: check(x->id < s->n_syms); break;
    case X_VAR:
        check(x->id < s->nest->var.n && s->var[x->id] == VAR_LIVE);
        check(s->nest->var.at[x->id].dtype == x->dtype);
        break;
    case X_LOAD: check(x->id > 0 && x->id < s->n_operands); break;
    default: break;
    }
}

static void check_expr(const Scope *s, const Expr *x, Dtype t)
{
    check(x && x->dtype == t);
    expr_visit(x, check_node, (void *)s);
}

static void check_extent_node(const Expr *x, void *ctx)
{
    (void)ctx;
    check(x->kind == X_CONST || x->kind == X_SYM || x->kind == X_OP);
}

static void check_axes(const Scope *s)
{
    for (int i = 0; i < s->nest->axis.n; i++) {
        const Axis *a = &s->nest->axis.at[i];
        check_expr(s, a->extent, DT_I64);
        expr_visit(a->extent, check_extent_node, NULL);
    }
}

static void open_axis(Scope *s, int axis)
{
    check(axis >= 0 && axis < s->nest->axis.n && !s->axis[axis]);
    s->axis[axis] = true;
    s->used[axis] = true;
}

static void declare(Scope *s, int var)
{
    check(var >= 0 && var < s->nest->var.n && s->var[var] == VAR_NEW);
    s->var[var] = VAR_LIVE;
}

static void check_stmt(Scope *s, const Stmt *t)
{
    switch (t->kind) {
    case STMT_LET:
        check(t->var >= 0 && t->var < s->nest->var.n);
        check_expr(s, t->value, s->nest->var.at[t->var].dtype);
        declare(s, t->var);
        break;
    case STMT_STORE:
        check_expr(s, t->index, DT_I64);
        check_expr(s, t->value, t->value->dtype); /* kernel.c compares it with operand 0 */
        break;
    case STMT_FAIL:
        check_expr(s, t->value, DT_BOOL);
        check(t->code != 0);
        break;
    }
}

/* Reduce axes are open in the body and the updates, and nowhere else. */
static void set_reduce(Scope *s, const Phase *p, bool open)
{
    for (int i = 0; i < p->loops.n; i++) {
        int axis = p->loops.at[i];
        if (s->nest->axis.at[axis].kind == AXIS_REDUCE) {
            check(!open || !s->axis[axis]);
            s->axis[axis] = open;
            s->used[axis] = true;
        }
    }
}

static void check_reduction(Scope *s, const Phase *p)
{
    for (int i = 0; i < p->acc.n; i++) {
        int var = p->acc.at[i].var;
        check(var >= 0 && var < s->nest->var.n);
        check_expr(s, p->acc.at[i].init, s->nest->var.at[var].dtype);
        declare(s, var);
    }
    set_reduce(s, p, true);
    for (int i = 0; i < p->body.n; i++) {
        check(p->body.at[i].kind == STMT_LET);
        check_stmt(s, &p->body.at[i]);
    }
    for (int i = 0; i < p->acc.n; i++) {
        check_expr(s, p->acc.at[i].update, s->nest->var.at[p->acc.at[i].var].dtype);
    }
    set_reduce(s, p, false);
    for (int i = 0; i < p->body.n; i++) {
        s->var[p->body.at[i].var] = VAR_DEAD;
    }
}

static void open_space(Scope *s, const Phase *p)
{
    bool reduced = false;
    for (int i = 0; i < p->loops.n; i++) {
        int axis = p->loops.at[i];
        check(axis >= 0 && axis < s->nest->axis.n);
        if (s->nest->axis.at[axis].kind == AXIS_REDUCE) {
            reduced = true;
        } else {
            check(!reduced);
            open_axis(s, axis);
        }
    }
}

static void kill(Scope *s, int var)
{
    s->var[var] = VAR_DEAD;
}

/* Variables of a phase with space axes of its own end with it. */
static void close_space(Scope *s, const Phase *p)
{
    for (int i = 0; i < p->loops.n; i++) {
        s->axis[p->loops.at[i]] = false;
    }
    if (!phase_has(s->nest, p, AXIS_SPACE)) {
        return;
    }
    for (int i = 0; i < p->acc.n; i++) {
        kill(s, p->acc.at[i].var);
    }
    for (int i = 0; i < p->finish.n; i++) {
        if (p->finish.at[i].kind == STMT_LET) {
            kill(s, p->finish.at[i].var);
        }
    }
}

static void check_phase(Scope *s, const Phase *p)
{
    open_space(s, p);
    bool reduces = phase_has(s->nest, p, AXIS_REDUCE);
    check(reduces == (p->acc.n > 0)); /* and so the text tells body from finish */
    check(reduces || p->body.n == 0);
    check(p->acc.n + p->finish.n > 0);
    check_reduction(s, p);
    for (int i = 0; i < p->finish.n; i++) {
        check_stmt(s, &p->finish.at[i]);
    }
    close_space(s, p);
}

void nest_check(Env *e, const Nest *n, int n_operands, int n_syms)
{
    Scope s = {
        .nest = n,
        .n_operands = n_operands,
        .n_syms = n_syms,
        .axis = arena_array(&e->kernel, bool, n->axis.n),
        .used = arena_array(&e->kernel, bool, n->axis.n),
        .var = arena_array(&e->kernel, VarState, n->var.n),
    };
    check_axes(&s);
    for (int i = 0; i < n->outer.n; i++) {
        open_axis(&s, n->outer.at[i]);
        check(n->axis.at[n->outer.at[i]].kind == AXIS_SPACE);
    }
    for (int i = 0; i < n->phase.n; i++) {
        check_phase(&s, &n->phase.at[i]);
    }
    for (int i = 0; i < n->axis.n; i++) {
        check(s.used[i]);
    }
    for (int i = 0; i < n->var.n; i++) {
        check(s.var[i] != VAR_NEW);
    }
}
