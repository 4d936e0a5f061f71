/* classify.c - what a nest looks like: which class a kernel belongs to, and which parts its axes and operands
 * play there. Only the nest is looked at, never the kernel's kind, so that a graph written by hand, fused or
 * not, gets the schedule that its loops deserve.
 * needs: a finished naive kernel. breaks: nothing. */
#include <string.h>

#include "schedules/schedules_int.h"

static const char *const names[N_KERNEL_CLASSES] = {
#define X(id, name, meaning) name,
    KERNEL_CLASSES(X)
#undef X
};

const char *class_name(KernelClass c)
{
    return names[c];
}

/* ---- sums of products ---- */

typedef struct Product {
    const Expr *a, *b;
} Product;

static bool sum_of_products(const Kernel *k, const Phase *p, const Accum *acc, Product *out)
{
    const Expr *addend;
    if (k->nest.var.at[acc->var].dtype != DT_F32 || !acc_is_sum(acc, &addend) || !addend) {
        return false;
    }
    const Expr *x = let_of(p, addend);
    *out = (Product){x->a, x->b};
    return x->kind == X_OP && x->op == S_MUL;
}

/* Along this axis one factor stays the same: 1 the left varies, 2 the right, 0 both or neither. */
static int varying_factor(const Phase *p, const Product *x, int axis)
{
    bool a = expr_has_axis(let_of(p, x->a), axis), b = expr_has_axis(let_of(p, x->b), axis);
    return a == b ? 0 : a ? 1 : 2;
}

/* n: the last axis that one factor varies along; m: the last that only the other does; else batch. */
static bool give_parts(Contraction *c, const Phase *p, const Product *x)
{
    int factor_n = 0;
    c->m = c->n = c->red = -1;
    for (int i = p->loops.n - 1; i >= 0; i--) {
        int axis = p->loops.at[i];
        if (c->k->nest.axis.at[axis].kind == AXIS_REDUCE) {
            if (c->red >= 0) {
                return false;
            }
            c->red = axis;
            continue;
        }
        int factor = varying_factor(p, x, axis);
        if (factor && c->n < 0) {
            c->n = axis;
            factor_n = factor;
        } else if (factor && factor != factor_n && c->m < 0) {
            c->m = axis;
        }
    }
    for (int i = 0; i < p->loops.n; i++) {
        int axis = p->loops.at[i];
        if (axis != c->m && axis != c->n && axis != c->red) {
            list_add(&c->batch, axis);
        }
    }
    return c->n >= 0 && c->red >= 0;
}

/* ---- what can lie in panels ---- */

typedef struct Reads { /* of one operand in the whole kernel */
    int operand;
    const Expr *index;
    bool several;
} Reads;

static void find_read(const Expr *x, void *ctx)
{
    Reads *r = ctx;
    if (x->kind == X_LOAD && x->id == r->operand) {
        r->several = r->several || (r->index && !expr_eq(r->index, x->a));
        r->index = x->a;
    }
}

static void add_panel(Contraction *c, const Phase *p, int operand)
{
    Reads inside = {.operand = operand};
    phase_visit(p, find_read, &inside);
    if (!inside.index || (!expr_has_axis(inside.index, c->n) && !inside.several)) {
        return;
    }
    const Operand *o = &c->k->operand.at[operand];
    finish_visit(p, find_read, &inside);
    if (!o->constant || o->dtype != DT_F32 || inside.several || c->n_panels == MAX_PANELS ||
        (c->m >= 0 && expr_has_axis(inside.index, c->m)) || strlen(o->name) > MAX_LOOK_NAME) {
        c->all_panels = false;
        return;
    }
    AxisList *batch = &c->panel_batch[c->n_panels];
    for (int i = 0; i < c->batch.n; i++) {
        if (expr_has_axis(inside.index, c->batch.at[i])) {
            list_add(batch, c->batch.at[i]);
        }
    }
    c->panel[c->n_panels++] = operand;
}

static void find_chunk(const Expr *x, void *ctx)
{
    Contraction *c = ctx;
    bool divides = x->kind == X_OP && (x->op == S_IDIV || x->op == S_MOD) && x->b->kind == X_CONST;
    if (divides && x->a->kind == X_AXIS && x->a->id == c->red) {
        int64_t extent = axis_constant(c->k, c->red), f = x->b->value.i;
        c->chunk = f > 1 && extent > f && extent % f == 0 ? f : c->chunk;
    }
}

/* ---- the classes ---- */

static bool names_fit(const Kernel *k)
{
    bool fit = k->nest.axis.n <= MAX_LOOK_AXES;
    for (int i = 0; i < k->nest.axis.n; i++) {
        fit = fit && strlen(axis_text(k, i)) <= MAX_LOOK_NAME;
    }
    return fit;
}

bool contraction_look(const Kernel *k, Contraction *c)
{
    const Nest *n = &k->nest;
    const Phase *p = n->phase.at;
    Product first, other;
    *c = (Contraction){.k = k, .all_panels = true, .exp = kernel_has_op(k, S_EXP)};
    if (n->outer.n || n->phase.n != 1 || p->acc.n == 0 || !names_fit(k) ||
        !sum_of_products(k, p, &p->acc.at[0], &first) || !give_parts(c, p, &first)) {
        return false;
    }
    for (int i = 1; i < p->acc.n; i++) {
        if (!sum_of_products(k, p, &p->acc.at[i], &other) || !varying_factor(p, &other, c->n)) {
            return false;
        }
    }
    c->n_sums = p->acc.n;
    for (int i = 1; i < k->operand.n; i++) {
        add_panel(c, p, i);
    }
    phase_visit(p, find_chunk, c);
    return true;
}

static bool sums_products(const Kernel *k, const Phase *p)
{
    Product x;
    for (int i = 0; i < p->acc.n; i++) {
        if (sum_of_products(k, p, &p->acc.at[i], &x)) {
            return true;
        }
    }
    return false;
}

bool rows_look(const Kernel *k, Rows *r)
{
    const Nest *n = &k->nest;
    *r = (Rows){.k = k, .single = n->outer.n == 0 && n->phase.n == 1, .exp = kernel_has_op(k, S_EXP)};
    if (!names_fit(k) || (n->outer.n == 0 && !r->single)) {
        return false;
    }
    for (int i = 0; i < n->outer.n; i++) {
        list_add(&r->outer, n->outer.at[i]);
    }
    for (int i = 0; i < n->phase.n; i++) {
        const Phase *p = &n->phase.at[i];
        for (int a = 0; r->single && a < p->loops.n; a++) {
            if (n->axis.at[p->loops.at[a]].kind == AXIS_SPACE) {
                list_add(&r->outer, p->loops.at[a]);
            }
        }
        if (p->loops.n > 0) {
            int last = p->loops.at[p->loops.n - 1];
            list_add(n->axis.at[last].kind == AXIS_REDUCE ? &r->reduce : &r->inner, last);
        }
        r->product = r->product || sums_products(k, p);
    }
    return r->reduce.n > 0;
}

static void find_data(const Expr *x, void *ctx)
{
    bool *data = ctx;
    *data = *data || x->kind == X_VAR || x->kind == X_LOAD;
}

static void find_indirect(const Expr *x, void *ctx)
{
    if (x->kind == X_LOAD) {
        expr_visit(x->a, find_data, ctx);
    }
}

static bool looks_up(const Kernel *k)
{
    bool indirect = false;
    for (int i = 0; i < k->nest.phase.n; i++) {
        const Phase *p = &k->nest.phase.at[i];
        for (int s = 0; s < p->finish.n; s++) {
            indirect = indirect || p->finish.at[s].kind == STMT_FAIL;
        }
        phase_visit(p, find_indirect, &indirect);
        finish_visit(p, find_indirect, &indirect);
    }
    return indirect;
}

bool points_look(const Kernel *k, Points *p)
{
    const Nest *n = &k->nest;
    *p = (Points){.k = k, .exp = kernel_has_op(k, S_EXP)};
    if (!names_fit(k) || n->phase.n == 0) {
        return false;
    }
    for (int i = 0; i < n->phase.n; i++) {
        if (phase_has(n, &n->phase.at[i], AXIS_REDUCE)) {
            return false;
        }
    }
    for (int i = 0; i < n->outer.n; i++) {
        list_add(&p->outer, n->outer.at[i]);
    }
    const Phase *last = &n->phase.at[n->phase.n - 1];
    for (int i = 0; i < last->loops.n; i++) {
        list_add(&p->inner, last->loops.at[i]);
    }
    return true;
}

KernelClass kernel_class(const Kernel *k)
{
    Contraction c;
    Rows r;
    Points p;
    if (looks_up(k)) {
        return points_look(k, &p) ? CLASS_GATHER : CLASS_OTHER;
    }
    if (contraction_look(k, &c)) {
        return CLASS_CONTRACTION;
    }
    if (rows_look(k, &r)) {
        return CLASS_ROW;
    }
    return points_look(k, &p) ? CLASS_ELEMENTWISE : CLASS_OTHER;
}
