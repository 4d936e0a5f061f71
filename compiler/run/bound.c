/* bound.c - the naive nest evaluated in double, each stored element with a bound: a right candidate's f32 is
 * not farther from it. What operations do to bounds is in near_ops.c, what sums do in sums.c; here are loops.
 *
 * Lanes are points of the outer axes where some phase computes for the phases after it, as the maximum of a row;
 * else they are points of the outer axes and a phase's own together. Elements come in no particular order.
 * needs: a naive nest, or a sample of one. Memory is e->kernel. */
#include <math.h>

#include "run/verify_int.h"

typedef struct Loops { /* some axes, outermost first */
    int n, *axis;
    int64_t *at, *extent, total; /* the point; points */
} Loops;

typedef struct Code { /* a phase */
    const Phase *p;
    Loops space, reduce;          /* its own */
    Loops all;                    /* the outer axes and its space axes */
    int inner;                    /* its last reduce axis, or -1 */
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

/* ---- loops ---- */

static Loops make_loops(const Walk *w, int most)
{
    Arena *m = &w->pts.e->kernel;
    return (Loops){0, arena_array(m, int, most), arena_array(m, int64_t, most),
                   arena_array(m, int64_t, most), 1};
}

static void add_loops(const Walk *w, Loops *to, const int *axis, int n, AxisKind kind)
{
    for (int i = 0; i < n; i++) {
        if (w->pts.k->nest.axis.at[axis[i]].kind == kind) {
            to->axis[to->n] = axis[i];
            to->extent[to->n] = axis_turns(w->pts.k, axis[i], w->pts.syms);
            to->total *= to->extent[to->n++];
        }
    }
}

/* The next point in row-major order; false: there is none, and it starts again. */
static bool next_point(Loops *l)
{
    for (int i = l->n - 1; i >= 0; i--) {
        if (++l->at[i] < l->extent[i]) {
            return true;
        }
        l->at[i] = 0;
    }
    return false;
}

/* One point after another, the same in all lanes. */
static void each_point(Walk *w, Loops *l, Inside *inside, Code *c)
{
    for (bool more = l->total > 0; more && !w->out.code; more = next_point(l)) {
        for (int i = 0; i < l->n; i++) {
            w->at[l->axis[i]] = l->at[i];
            points_set_axis(&w->pts, l->axis[i], l->at[i]);
        }
        inside(w, c);
    }
}

/* Up to 64 points at once. */
static void all_points(Walk *w, Loops *l, Inside *inside, Code *c)
{
    for (int64_t first = 0; first < l->total && !w->out.code; first += LANES) {
        w->pts.n = l->total - first < LANES ? (int)(l->total - first) : LANES;
        for (int lane = 0; lane < w->pts.n; lane++) {
            for (int i = 0; i < l->n; i++) {
                points_set_lane(&w->pts, l->axis[i], lane, l->at[i]);
            }
            next_point(l);
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
        sum_step(&w->pts, &c->sum[i], w->at);
    }
}

static void reduce(Walk *w, Code *c)
{
    for (int i = 0; i < c->p->acc.n; i++) {
        sum_start(&w->pts, &c->sum[i]);
        w->pts.var[c->p->acc.at[i].var] = &c->sum[i].value;
    }
    each_point(w, &c->reduce, reduce_step, c);
    for (int i = 0; i < c->p->acc.n; i++) {
        sum_end(&w->pts, &c->sum[i]);
    }
}

/* ---- statements ---- */

static void store(Walk *w, const Near *index, const Near *value, Dtype t)
{
    const int64_t n_elems = w->pts.n_elems[0];
    for (int l = 0; l < w->pts.n; l++) {
        Element *e = &w->out.at[w->out.n++];
        e->index = index->i[l];
        if (e->index < 0 || e->index >= n_elems) {
            fail(w->pts.e, E_RANGE,
                 "The nest stores element %lld of its output, which has %lld elements.",
                 (long long)e->index, (long long)n_elems);
        }
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
        each_point(w, &c->space, point, c); /* without axes: once */
    }
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

static void make_code(Walk *w, Code *c, const Phase *p)
{
    Arena *m = &w->pts.e->kernel;
    const Nest *n = &w->pts.k->nest;
    *c =
        (Code){.p = p, .space = make_loops(w, p->loops.n), .reduce = make_loops(w, p->loops.n)};
    c->all = make_loops(w, n->outer.n + p->loops.n);
    add_loops(w, &c->space, p->loops.at, p->loops.n, AXIS_SPACE);
    add_loops(w, &c->reduce, p->loops.at, p->loops.n, AXIS_REDUCE);
    add_loops(w, &c->all, n->outer.at, n->outer.n, AXIS_SPACE);
    add_loops(w, &c->all, p->loops.at, p->loops.n, AXIS_SPACE);
    c->inner = c->reduce.n ? c->reduce.axis[c->reduce.n - 1] : -1;
    points_set_inner(&w->pts, c->inner);
    c->let = arena_array(m, Eval *, p->body.n);
    c->value = arena_array(m, Eval *, p->finish.n);
    c->index = arena_array(m, Eval *, p->finish.n);
    c->sum = arena_array(m, Sum, p->acc.n);
    for (int i = 0; i < p->body.n; i++) {
        c->let[i] = near_node(&w->pts, p->body.at[i].value);
    }
    for (int i = 0; i < p->acc.n; i++) {
        sum_init(&w->pts, &c->sum[i], w->q, p, &p->acc.at[i]);
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
    points_init(&w.pts, e, q->naive, q->params, q->n_elems, q->syms,
                !q->scheduled || kernel_uses(q->scheduled, S_EXP_APPROX) ||
                    kernel_uses(q->scheduled, S_EXP_FUSED));
    w.at = arena_array(&e->kernel, int64_t, n->axis.n);
    w.out.at = arena_array(&e->kernel, Element, nest_stores(q->naive, q->syms));
    w.code = arena_array(&e->kernel, Code, n->phase.n);
    for (int i = 0; i < n->phase.n; i++) {
        make_code(&w, &w.code[i], &n->phase.at[i]);
        rows = rows || !w.code[i].space.n;
    }
    Loops outer = make_loops(&w, n->outer.n);
    add_loops(&w, &outer, n->outer.at, n->outer.n, AXIS_SPACE);
    if (rows) {
        all_points(&w, &outer, row, NULL);
    }
    for (int i = 0; i < n->phase.n && !rows; i++) {
        all_points(&w, &w.code[i].all, point, &w.code[i]);
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
