/* look_contraction.c - is a nest sums of products over one reduce axis, and which part does
 * each axis and operand play in it? n is the axis along which vectors can lie, m the one along
 * which their other factor changes, the rest is batch. needs: a finished naive kernel. breaks:
 * nothing. */
#include "schedules/schedules_int.h"

#define MAX_GROUP 16 /* rows that might fit a tile */

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

/* The factor that changes along this axis: 1 the left, 2 the right, 0 both or neither. */
static int varying_factor(const Phase *p, const Product *x, int axis)
{
    bool a = value_has_axis(p, x->a, axis), b = value_has_axis(p, x->b, axis);
    return a == b ? 0 : a ? 1 : 2;
}

/* ---- axes ---- */

/* n: the last axis that one factor varies along; m: the last that only the other does; else
 * batch. */
static bool give_axes(const Kernel *k, Contraction *c, const Phase *p, const Product *x)
{
    int factor_n = 0;
    c->m = c->n = c->red = c->shared = -1;
    for (int i = p->loops.n - 1; i >= 0; i--) {
        int axis = p->loops.at[i], factor = varying_factor(p, x, axis);
        if (k->nest.axis.at[axis].kind == AXIS_REDUCE) {
            if (c->red >= 0) {
                return false;
            }
            c->red = axis;
        } else if (factor && c->n < 0) {
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
            c->shared = c->shared < 0 && !axis_is_unit(&k->nest, axis) ? axis : c->shared;
        }
    }
    return c->n >= 0 && c->red >= 0 && value_has_axis(p, x->a, c->red) &&
           value_has_axis(p, x->b, c->red);
}

/* ---- operands ---- */

typedef struct Reads { /* of one operand */
    int operand, n;    /* n: an axis */
    const Expr *index; /* the last one seen */
    bool several;      /* indices */
    bool along_n;      /* one of them varies along n */
} Reads;

static void find_read(const Expr *x, void *ctx)
{
    Reads *r = ctx;
    if (x->kind == X_LOAD && x->id == r->operand) {
        r->several = r->several || (r->index && !expr_eq(r->index, x->a));
        r->along_n = r->along_n || expr_has_axis(x->a, r->n);
        r->index = x->a;
    }
}

typedef struct Branch {
    int operand;
    bool found; /* its load stands in a branch of a select */
} Branch;

static bool reads(const Expr *x, int operand)
{
    Reads r = {.operand = operand, .n = -1};
    expr_visit(x, find_read, &r);
    return r.index != NULL;
}

static void find_branch(const Expr *x, void *ctx)
{
    Branch *b = ctx;
    b->found = b->found ||
               (x->kind == X_SELECT && (reads(x->b, b->operand) || reads(x->c, b->operand)));
}

/* What is read only under a condition is no panel: lanes would read both sides. */
static bool can_be_packed(const Kernel *k, const Contraction *c, const Phase *p, const Reads *r)
{
    const Operand *o = &k->operand.at[r->operand];
    Branch b = {.operand = r->operand};
    reduction_visit(p, find_branch, &b);
    return !b.found && o->constant && o->dtype == DT_F32 && !r->several &&
           c->n_panels < MAX_READS && (c->m < 0 || !expr_has_axis(r->index, c->m));
}

/* Operands read along n in the reduction are panels or loose. */
static void give_operand(const Kernel *k, Contraction *c, const Phase *p, int operand)
{
    Reads r = {.operand = operand, .n = c->n};
    reduction_visit(p, find_read, &r);
    if (!r.along_n) {
        return;
    }
    finish_visit(p, find_read, &r);
    if (!can_be_packed(k, c, p, &r)) {
        c->loose_all = c->loose_all || c->n_loose == MAX_READS || r.several;
        if (c->n_loose < MAX_READS) {
            c->loose[c->n_loose++] = operand;
        }
        return;
    }
    for (int i = 0; i < c->batch.n; i++) {
        if (expr_has_axis(r.index, c->batch.at[i])) {
            list_add(&c->panel_batch[c->n_panels], c->batch.at[i]);
        }
    }
    c->panel[c->n_panels++] = operand;
}

/* ---- groups ---- */

typedef struct Group {
    const Contraction *c;
    int n_axis,
        n_shared; /* places of `shared` in what is read along n; those below its divisor */
    int64_t by;
} Group;

static void find_shared(const Expr *x, void *ctx)
{
    Group *g = ctx;
    g->n_axis += x->kind == X_AXIS && x->id == g->c->shared;
    if (x->kind == X_OP && x->op == S_IDIV && x->b->kind == X_CONST && x->a->kind == X_AXIS &&
        x->a->id == g->c->shared && (g->n_shared == 0 || g->by == x->b->value.i)) {
        g->by = x->b->value.i;
        g->n_shared++;
    }
}

static void find_grouped_read(const Expr *x, void *ctx)
{
    const Group *g = ctx;
    if (x->kind == X_LOAD && expr_has_axis(x->a, g->c->n)) {
        expr_visit(x->a, find_shared, ctx);
    }
}

/* Heads of attention that share keys and values: what is read along n depends on h / 7 alone. */
static int64_t group_of(const Kernel *k, const Contraction *c, const Phase *p)
{
    Group g = {.c = c};
    if (c->shared < 0) {
        return 0;
    }
    reduction_visit(p, find_grouped_read, &g);
    int64_t extent = axis_constant(k, c->shared);
    bool all = g.n_shared > 0 && g.n_shared == g.n_axis;
    return all && g.by > 1 && g.by <= MAX_GROUP && extent > 0 && extent % g.by == 0 ? g.by : 0;
}

/* ---- cuts and chunks ---- */

typedef struct Finder {
    const Kernel *k;
    Contraction *c;
    const Expr *select; /* on n */
    bool several;
} Finder;

static void find_cut(const Expr *x, void *ctx)
{
    Finder *f = ctx;
    const Expr *bound = cut_bound(x, f->c->n);
    if (bound) {
        f->several = f->several || (f->select && !expr_eq(bound, f->select->a->b));
        f->select = x;
    }
}

static void find_chunk(const Expr *x, void *ctx)
{
    Finder *f = ctx;
    bool divides =
        x->kind == X_OP && (x->op == S_IDIV || x->op == S_MOD) && x->b->kind == X_CONST;
    if (divides && x->a->kind == X_AXIS && x->a->id == f->c->red) {
        int64_t extent = axis_constant(f->k, f->c->red), n = x->b->value.i;
        f->c->chunk = n > 1 && extent > n && extent % n == 0 ? n : f->c->chunk;
    }
}

static bool sum_can_wait(Env *e, const Kernel *k, const Contraction *c)
{
    Schedule s = {0};
    schedule_add(&s, STEP_RESUME, "%s", axis_text(k, c->red));
    return schedule_legal(e, k, &s, NULL);
}

static void give_cut(Env *e, const Kernel *k, Contraction *c, const Phase *p)
{
    Finder f = {.k = k, .c = c};
    Schedule cut = {0};
    reduction_visit(p, find_chunk, &f);
    reduction_visit(p, find_cut, &f);
    finish_visit(p, find_cut, &f);
    if (!f.select || f.several) {
        return;
    }
    const char *word = cut_word(&e->model, f.select->a->b);
    schedule_add(&cut, STEP_CUT, "%s %s", axis_text(k, c->n), word);
    if (!schedule_legal(e, k, &cut, NULL)) {
        return;
    }
    c->cut = word;
    for (int i = 0; i < c->n_loose; i++) {
        bool below = reads(f.select->b, c->loose[i]), above = reads(f.select->c, c->loose[i]);
        c->loose_piece[i] = below == above ? 0 : below ? 1 : 2;
    }
}

bool look_contraction(Env *e, const Kernel *k, Contraction *c)
{
    const Nest *n = &k->nest;
    const Phase *p = n->phase.at;
    Product first, other;
    *c = (Contraction){.exp = kernel_has_op(k, S_EXP)};
    if (n->outer.n || n->phase.n != 1 || p->acc.n == 0 || !names_fit(k) ||
        !sum_of_products(k, p, &p->acc.at[0], &first) || !give_axes(k, c, p, &first)) {
        return false;
    }
    for (int i = 1; i < p->acc.n; i++) {
        if (!sum_of_products(k, p, &p->acc.at[i], &other) || !varying_factor(p, &other, c->n)) {
            return false;
        }
    }
    c->n_sums = p->acc.n;
    for (int i = 1; i < k->operand.n; i++) {
        give_operand(k, c, p, i);
    }
    give_cut(e, k, c, p);
    c->resumes = sum_can_wait(e, k, c);
    c->group = c->n_loose == 1 && !c->loose_all ? group_of(k, c, p) : 0;
    return true;
}
