/* look.c - questions about a kernel that policies ask: extents, who reads what, which
 * operations there are. needs: a finished naive kernel. breaks: nothing; the kernel is only
 * read. */
#include "schedules/schedules_int.h"

#include <inttypes.h>
#include <string.h>

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

bool names_fit(const Kernel *k)
{
    bool fit = k->nest.axis.n <= MAX_LOOK_AXES;
    for (int i = 0; i < k->nest.axis.n; i++) {
        fit = fit && strlen(axis_text(k, i)) <= MAX_LOOK_NAME;
    }
    for (int i = 0; i < k->operand.n; i++) {
        fit = fit && strlen(k->operand.at[i].name) <= MAX_LOOK_NAME;
    }
    return fit;
}

/* ---- expressions ---- */

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

typedef struct Varies {
    const Phase *p;
    int axis;
    bool found;
} Varies;

static void find_varying(const Expr *x, void *ctx)
{
    Varies *v = ctx;
    const Expr *let = let_of(v->p, x);
    v->found = v->found || (x->kind == X_AXIS && x->id == v->axis);
    if (let != x) {
        expr_visit(let, find_varying, v);
    }
}

bool value_has_axis(const Phase *p, const Expr *x, int axis)
{
    Varies v = {p, axis, false};
    expr_visit(x, find_varying, &v);
    return v.found;
}

static void stmts_visit(const Stmt *s, int n, ExprVisit *visit, void *ctx)
{
    for (int i = 0; i < n; i++) {
        if (s[i].index) {
            expr_visit(s[i].index, visit, ctx);
        }
        expr_visit(s[i].value, visit, ctx);
    }
}

void reduction_visit(const Phase *p, ExprVisit *visit, void *ctx)
{
    stmts_visit(p->body.at, p->body.n, visit, ctx);
    for (int i = 0; i < p->acc.n; i++) {
        expr_visit(p->acc.at[i].update, visit, ctx);
    }
}

void finish_visit(const Phase *p, ExprVisit *visit, void *ctx)
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
        reduction_visit(&k->nest.phase.at[i], find_op, &f);
        finish_visit(&k->nest.phase.at[i], find_op, &f);
    }
    return f.found;
}

const Expr *cut_bound(const Expr *x, int axis)
{
    const Expr *c = x->kind == X_SELECT ? x->a : NULL;
    if (!c || c->kind != X_OP || c->op != S_LT || c->a->kind != X_AXIS || c->a->id != axis) {
        return NULL;
    }
    return c->b->kind == X_CONST || c->b->kind == X_SYM ? c->b : NULL;
}

const char *cut_word(Arena *m, const Expr *bound)
{
    return bound->kind == X_SYM ? arena_printf(m, "s%d", bound->id)
                                : arena_printf(m, "%" PRId64, bound->value.i);
}

/* ---- sizes ---- */

/* The value of i64 arithmetic over symbols, or -1 where one is not known. Extents are never
 * negative. */
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

int64_t kernel_work(const Kernel *k, const PickHint *hint, int64_t most)
{
    int64_t work = 1;
    for (int i = 0; i < k->nest.axis.n; i++) {
        int64_t n = axis_extent(k, hint, i);
        if (n < 0 || n >= most || work * n >= most) {
            return most;
        }
        work *= n;
    }
    return work;
}

const Target *hint_target(const PickHint *hint)
{
    return hint->target ? hint->target : target_generic();
}

int exp_for(const PickHint *hint, bool exp)
{
    return !exp ? EXP_LIBM : hint_target(hint)->fused ? EXP_FUSED : EXP_POLYNOMIAL;
}

void add_exp(Schedule *s, int way)
{
    if (way != EXP_LIBM) {
        schedule_add(s, STEP_APPROX, way == EXP_FUSED ? "exp fma" : "exp");
    }
}

int hint_threads(const PickHint *hint)
{
    return hint->n_threads < 1 ? 2 : hint->n_threads;
}

int64_t power_below(int64_t n, int64_t most)
{
    int64_t p = 1;
    while (p * 2 <= n && p * 2 <= most) {
        p *= 2;
    }
    return p;
}

int64_t blocks(int64_t n, int64_t block)
{
    return n < 0 ? INT32_MAX : (n + block - 1) / block;
}

/* ---- text ---- */

void word_add(Words *w, char between, const char *name, const char *half)
{
    size_t len = strlen(w->text);
    char sep[2] = {len ? between : '\0', '\0'};
    int n = snprintf(w->text + len, sizeof w->text - len, "%s%s%s", sep, name, half);
    check(n >= 0 && (size_t)n < sizeof w->text - len);
}
