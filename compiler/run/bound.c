/* bound.c - the naive nest evaluated in double, each stored element with a bound: a right candidate's f32 is
 * not farther from it. What operations do to bounds is in near.c; here are loops and sums.
 *
 * A sum of terms t1 ... tn, added in any tree, is off by at most the errors of the terms and u |s| for each
 * partial sum s on the way (Higham, 3.3 and 4.2). The partial sums are those of the candidate's schedule: one
 * for each private point, then their combination, then the tail. So the bound is that of the terms that are
 * there, some hundred times less than n u sum |t|, and a product of 5,000 that is dropped is seen. Where all
 * terms are multiples of a unit and sum |t| <= 2^24 units, every order is exact and the bound is 0.
 *
 * needs: a naive nest, or a sample of one. Memory is e->kernel. */
#include <float.h>
#include <math.h>

#include "run/verify_int.h"

typedef enum SumKind {
    SUM_ANY,   /* the update as it is written, in the nest's order */
    SUM_TERMS, /* terms, in the candidate's order */
    SUM_MAX,
} SumKind;

typedef struct Sum { /* an accumulator, in every lane */
    SumKind kind;
    Grouping how;
    Eval *init, *update; /* update: the term, where the kind has terms */
    Eval *factor[2];     /* of a term that is not rounded before it is added; else NULL */
    Near product;
    double *part;        /* SUM_TERMS: [n_parts][LANES] partial sums */
    int n_parts;
    int64_t n_terms;
    double err[LANES], size[LANES]; /* so far; sum of |terms| */
    bool open[LANES];    /* some term may be anything */
    bool whole;          /* all terms are multiples of the unit */
    bool joined;         /* the private sums are one */
    Near value;
} Sum;

typedef struct Code { /* a phase */
    const Phase *p;
    bool space;          /* it has space axes of its own */
    int inner;           /* its last reduce axis, or -1 */
    Eval **let, **value, **index; /* of the body; of the finish */
    Sum *sum;
} Code;

typedef struct Walk {
    Points pts;
    const Question *q;
    Code *code;
    int64_t *at; /* by axis: its value, where that is the same in all lanes */
    bool indices_only;
    Expected out;
} Walk;

typedef void Inside(Walk *w, Code *c);

/* ---- sums ---- */

static double *part_of(Sum *s, int group)
{
    return s->part + (size_t)group * LANES;
}

static void sum_start(Walk *w, Sum *s)
{
    const Near *init = near_eval(&w->pts, s->init, near_lanes(&w->pts));
    s->value = *init;
    s->whole = w->q->unit > 0 && init->sure;
    s->joined = s->n_parts == 1;
    s->n_terms = 0;
    for (int l = 0; s->kind == SUM_TERMS && l < w->pts.n; l++) {
        s->err[l] = near_error(init, l);
        s->size[l] = fabs(init->v[l]);
        s->open[l] = false;
        for (int g = 0; g < s->n_parts; g++) {
            part_of(s, g)[l] = g == 0 ? init->v[l] : 0;
        }
    }
}

/* The private sums become one, pairwise: each level adds up what all sums have together at the most. */
static void sum_join(Sum *s, int n)
{
    int levels = 0;
    while (1 << levels < s->n_parts) {
        levels++;
    }
    for (int l = 0; l < n; l++) {
        double sum = 0, size = 0;
        for (int g = 0; g < s->n_parts; g++) {
            sum += part_of(s, g)[l];
            size += fabs(part_of(s, g)[l]);
        }
        part_of(s, 0)[l] = sum;
        s->err[l] += levels * UNIT_ROUNDOFF * (size + s->err[l]);
    }
    s->joined = true;
}

static bool multiples(const Near *t, int n, double unit)
{
    const double magic = 0x1.8p52 * unit; /* what is added to it is rounded to a multiple of unit */
    bool all = t->sure;
    for (int l = 0; all && l < n; l++) {
        all = (t->v[l] + magic) - magic == t->v[l];
    }
    return all;
}

static void sum_add(Walk *w, Sum *s, const Near *t)
{
    int n = w->pts.n, group = grouping_at(&s->how, w->at);
    if (group < 0 && !s->joined) {
        sum_join(s, n);
    }
    double *part = part_of(s, s->joined ? 0 : group);
    s->whole = s->whole && multiples(t, n, w->q->unit);
    s->n_terms++;
    for (int l = 0; l < n && !t->sure; l++) {
        s->err[l] += t->err[l];
        s->open[l] = s->open[l] || isinf(t->err[l]);
    }
    for (int l = 0; l < n; l++) {
        part[l] += t->v[l];
        s->err[l] += UNIT_ROUNDOFF * (fabs(part[l]) + s->err[l]);
        s->size[l] += fabs(t->v[l]);
    }
}

static void sum_end(const Walk *w, Sum *s)
{
    double exact = w->q->unit * 0x1p24;
    if (!s->joined) {
        sum_join(s, w->pts.n);
    }
    s->value.sure = false;
    for (int l = 0; l < w->pts.n; l++) {
        double v = part_of(s, 0)[l], err = s->err[l];
        if (s->whole && s->size[l] <= exact) {
            err = 0;
        } else if (s->how.n_groups == 0) {
            err += (double)s->n_terms * 2 * UNIT_ROUNDOFF * (s->size[l] + err);
        }
        bool plain = fabs(v) + err <= FLT_MAX && s->size[l] <= FLT_MAX;
        bool known = isnan(v) || (isinf(v) && !s->open[l]);
        s->value.v[l] = v;
        s->value.err[l] = plain ? err : known ? 0 : INFINITY;
    }
}

/* acc < t || t != t ? t : acc. Each is off by its own error at the most, so the larger is too. */
static void max_add(const Walk *w, Sum *s, const Near *t)
{
    Near *m = &s->value;
    for (int l = 0; l < w->pts.n; l++) {
        double a = m->v[l], b = t->v[l], ea = near_error(m, l), eb = near_error(t, l);
        bool nan = isnan(a) || isnan(b);
        m->v[l] = a < b || b != b ? b : a;
        m->err[l] = nan || a - ea >= b + eb ? (nan ? 0 : ea) : b - eb > a + ea ? eb : fmax(ea, eb);
    }
    m->sure = m->sure && t->sure;
}

/* The exact product of two factors, as a fused operation adds it. */
static const Near *exact_product(Walk *w, Sum *s)
{
    const Near *a = near_eval(&w->pts, s->factor[0], near_lanes(&w->pts));
    const Near *b = near_eval(&w->pts, s->factor[1], near_lanes(&w->pts));
    s->product.sure = a->sure && b->sure;
    for (int l = 0; l < w->pts.n; l++) {
        s->product.v[l] = a->v[l] * b->v[l];
    }
    for (int l = 0; l < w->pts.n && !s->product.sure; l++) {
        double x = a->v[l], y = b->v[l], ex = near_error(a, l), ey = near_error(b, l);
        double err = fabs(x) * ey + fabs(y) * ex + ex * ey;
        bool nan = isnan(x) || isnan(y);
        s->product.err[l] = nan || ex + ey == 0 ? 0 : isfinite(err) ? err : INFINITY;
        s->product.v[l] = isinf(s->product.err[l]) ? 0 : x * y;
    }
    return &s->product;
}

static const Near *term_of(Walk *w, Sum *s)
{
    return s->factor[0] ? exact_product(w, s) : near_eval(&w->pts, s->update, near_lanes(&w->pts));
}

static void sum_step(Walk *w, Sum *s)
{
    const Near *t = term_of(w, s);
    if (s->kind == SUM_TERMS) {
        sum_add(w, s, t);
    } else if (s->kind == SUM_MAX) {
        max_add(w, s, t);
    } else {
        s->value = *t;
    }
}

/* ---- loops ---- */

static int64_t extent_of(const Walk *w, int axis)
{
    return expr_value(w->pts.k->nest.axis.at[axis].extent, w->pts.syms);
}

/* The next point in row-major order; false: there is none. */
static bool next_point(int64_t *at, const int64_t *extent, int n)
{
    for (int i = n - 1; i >= 0; i--) {
        if (++at[i] < extent[i]) {
            return true;
        }
        at[i] = 0;
    }
    return false;
}

/* One point after another, the same in all lanes. */
static void each_point(Walk *w, Code *c, AxisKind kind, Inside *inside)
{
    int n = 0, axis[MAX_LOOPS];
    int64_t at[MAX_LOOPS] = {0}, extent[MAX_LOOPS], total = 1;
    for (int i = 0; i < c->p->loops.n; i++) {
        if (w->pts.k->nest.axis.at[c->p->loops.at[i]].kind == kind) {
            check(n < MAX_LOOPS);
            axis[n] = c->p->loops.at[i];
            extent[n] = extent_of(w, axis[n]);
            total *= extent[n++];
        }
    }
    for (bool more = total > 0; more && !w->out.code; more = next_point(at, extent, n)) {
        for (int i = 0; i < n; i++) {
            w->at[axis[i]] = at[i];
            points_set_axis(&w->pts, axis[i], at[i]);
        }
        inside(w, c);
    }
}

/* All points of these axes, up to 64 at once. */
static void all_points(Walk *w, const int *axis, int n, Inside *inside, Code *c)
{
    Arena *m = &w->pts.e->kernel;
    int64_t *at = arena_array(m, int64_t, n), *extent = arena_array(m, int64_t, n), total = 1;
    for (int i = 0; i < n; i++) {
        extent[i] = extent_of(w, axis[i]);
        total *= extent[i];
    }
    for (int64_t first = 0; first < total && !w->out.code; first += LANES) {
        w->pts.n = total - first < LANES ? (int)(total - first) : LANES;
        for (int l = 0; l < w->pts.n; l++) {
            for (int i = 0; i < n; i++) {
                points_set_lane(&w->pts, axis[i], l, at[i]);
            }
            next_point(at, extent, n);
        }
        inside(w, c);
    }
}

static void reduce_step(Walk *w, Code *c)
{
    for (int i = 0; i < c->p->body.n; i++) {
        w->pts.var[c->p->body.at[i].var] = near_eval(&w->pts, c->let[i], near_lanes(&w->pts));
    }
    for (int i = 0; i < c->p->acc.n; i++) {
        sum_step(w, &c->sum[i]);
    }
}

static void reduce(Walk *w, Code *c)
{
    for (int i = 0; i < c->p->acc.n; i++) {
        sum_start(w, &c->sum[i]);
        w->pts.var[c->p->acc.at[i].var] = &c->sum[i].value;
    }
    each_point(w, c, AXIS_REDUCE, reduce_step);
    for (int i = 0; i < c->p->acc.n; i++) {
        if (c->sum[i].kind == SUM_TERMS) {
            sum_end(w, &c->sum[i]);
        }
    }
}

/* ---- statements ---- */

static void store(Walk *w, const Near *index, const Near *value, Dtype t)
{
    for (int l = 0; l < w->pts.n; l++) {
        Element *e = &w->out.at[w->out.n++];
        e->index = index->i[l];
        e->err = value ? near_error(value, l) : INFINITY;
        if (value && t == DT_F32) {
            e->v = value->v[l];
        } else if (value) {
            e->i = value->i[l];
        }
    }
}

static void statement(Walk *w, const Stmt *s, Eval *index, Eval *value)
{
    uint64_t on = near_lanes(&w->pts);
    if (w->indices_only) {
        if (s->kind == STMT_STORE) {
            store(w, near_eval(&w->pts, index, on), NULL, s->value->dtype);
        }
        return;
    }
    const Near *v = near_eval(&w->pts, value, on);
    if (s->kind == STMT_LET) {
        w->pts.var[s->var] = v;
    } else if (s->kind == STMT_STORE) {
        store(w, near_eval(&w->pts, index, on), v, s->value->dtype);
    }
    for (int l = 0; s->kind == STMT_FAIL && l < w->pts.n && !w->out.code; l++) {
        w->out.code = v->i[l] ? s->code : 0;
    }
}

static void point(Walk *w, Code *c)
{
    points_set_inner(&w->pts, c->inner);
    if (c->p->acc.n && !w->indices_only) {
        reduce(w, c);
    }
    for (int i = 0; i < c->p->finish.n && !w->out.code; i++) {
        statement(w, &c->p->finish.at[i], c->index[i], c->value[i]);
    }
}

/* All phases at some points of the outer axes: those that have no axes of their own leave variables. */
static void row(Walk *w, Code *unused)
{
    (void)unused;
    for (int i = 0; i < w->pts.k->nest.phase.n && !w->out.code; i++) {
        Code *c = &w->code[i];
        if (c->space) {
            each_point(w, c, AXIS_SPACE, point);
        } else {
            point(w, c);
        }
    }
}

/* Outer axes and the phase's own together. */
static void whole_phase(Walk *w, Code *c)
{
    Vec(int) axis = {0};
    const Nest *n = &w->pts.k->nest;
    for (int i = 0; i < n->outer.n; i++) {
        *vec_push(&w->pts.e->kernel, &axis) = n->outer.at[i];
    }
    for (int i = 0; i < c->p->loops.n; i++) {
        if (n->axis.at[c->p->loops.at[i]].kind == AXIS_SPACE) {
            *vec_push(&w->pts.e->kernel, &axis) = c->p->loops.at[i];
        }
    }
    all_points(w, axis.at, axis.n, point, c);
}

/* ---- making ---- */

typedef struct Seek {
    const Expr *like; /* a variable or an operation */
    bool found;
} Seek;

static void seek_node(const Expr *x, void *ctx)
{
    Seek *s = ctx;
    bool same = x->kind == s->like->kind && x->op == s->like->op && x->id == s->like->id;
    s->found = s->found || same;
}

static void seek_slot(const Expr **slot, void *ctx)
{
    expr_visit(*slot, seek_node, ctx);
}

static bool reads_var(const Expr *x, int var)
{
    Expr like = {.kind = X_VAR, .id = var};
    Seek s = {&like, false};
    expr_visit(x, seek_node, &s);
    return s.found;
}

bool kernel_uses(const Kernel *k, ScalarOp op)
{
    Expr like = {.kind = X_OP, .op = op};
    Seek s = {&like, false};
    Nest n = k->nest; /* its expressions stay as they are */
    nest_exprs(&n, seek_slot, &s);
    return s.found;
}

/* Where the candidate adds products by fused operations: a let in the body is the product, too. */
static void find_factors(Walk *w, Sum *s, const Phase *p, const Expr *term)
{
    for (int i = 0; term->kind == X_VAR && i < p->body.n; i++) {
        term = p->body.at[i].var == term->id ? p->body.at[i].value : term;
    }
    if (s->how.fused && term->kind == X_OP && term->op == S_MUL) {
        s->factor[0] = near_node(&w->pts, term->a);
        s->factor[1] = near_node(&w->pts, term->b);
    }
}

static void make_sum(Walk *w, Sum *s, const Phase *p, const Accum *acc)
{
    const Question *q = w->q;
    const Expr *term = NULL, *update = acc->update;
    s->how = grouping_of(q->naive, q->scheduled, acc, q->syms);
    bool f32 = acc->init->dtype == DT_F32;
    if (f32 && !s->how.in_order && acc_is_sum(acc, &term) && !reads_var(term, acc->var)) {
        s->kind = SUM_TERMS;
        update = term;
        find_factors(w, s, p, term);
    } else if (f32 && acc_is_max(acc, &term) && !reads_var(term, acc->var)) {
        s->kind = SUM_MAX;
        update = term;
    }
    s->n_parts = s->how.n_groups ? s->how.n_groups : 1;
    s->part = arena_array(&w->pts.e->kernel, double, s->n_parts * LANES);
    s->init = near_node(&w->pts, acc->init);
    s->update = near_node(&w->pts, update);
}

static int last_reduce_axis(const Nest *n, const Phase *p)
{
    int axis = p->loops.n ? p->loops.at[p->loops.n - 1] : -1;
    return axis >= 0 && n->axis.at[axis].kind == AXIS_REDUCE ? axis : -1;
}

static void make_code(Walk *w, Code *c, const Phase *p)
{
    Arena *m = &w->pts.e->kernel;
    c->p = p;
    c->inner = last_reduce_axis(&w->pts.k->nest, p);
    points_set_inner(&w->pts, c->inner);
    c->space = phase_has(&w->pts.k->nest, p, AXIS_SPACE);
    c->let = arena_array(m, Eval *, p->body.n);
    c->value = arena_array(m, Eval *, p->finish.n);
    c->index = arena_array(m, Eval *, p->finish.n);
    c->sum = arena_array(m, Sum, p->acc.n);
    for (int i = 0; i < p->body.n; i++) {
        c->let[i] = near_node(&w->pts, p->body.at[i].value);
    }
    for (int i = 0; i < p->acc.n; i++) {
        make_sum(w, &c->sum[i], p, &p->acc.at[i]);
    }
    for (int i = 0; i < p->finish.n; i++) {
        c->value[i] = near_node(&w->pts, p->finish.at[i].value);
        c->index[i] = near_node(&w->pts, p->finish.at[i].index);
    }
}

static Expected walk(Env *e, const Question *q, bool indices_only)
{
    const Nest *n = &q->naive->nest;
    Walk w = {.q = q, .indices_only = indices_only};
    bool rows = false;
    points_init(&w.pts, e, q->naive, q->params, q->n_elems, q->syms, kernel_uses(q->scheduled, S_EXP_APPROX));
    w.at = arena_array(&e->kernel, int64_t, n->axis.n);
    w.out.at = arena_array(&e->kernel, Element, nest_stores(q->naive, q->syms));
    w.code = arena_array(&e->kernel, Code, n->phase.n);
    for (int i = 0; i < n->phase.n; i++) {
        make_code(&w, &w.code[i], &n->phase.at[i]);
        rows = rows || !w.code[i].space;
    }
    if (rows) {
        all_points(&w, n->outer.at, n->outer.n, row, NULL);
    }
    for (int i = 0; i < n->phase.n && !rows; i++) {
        whole_phase(&w, &w.code[i]);
    }
    return w.out;
}

Expected bound_elements(Env *e, const Question *q)
{
    return walk(e, q, false);
}

Expected bound_indices(Env *e, const Question *q)
{
    for (int i = 0; i < q->naive->nest.phase.n; i++) {
        const Phase *p = &q->naive->nest.phase.at[i];
        for (int k = 0; k < p->finish.n; k++) {
            const Stmt *s = &p->finish.at[k];
            for (int v = 0; s->kind == STMT_STORE && v < q->naive->nest.var.n; v++) {
                if (reads_var(s->index, v)) {
                    return walk(e, q, false);
                }
            }
        }
    }
    return walk(e, q, true);
}
