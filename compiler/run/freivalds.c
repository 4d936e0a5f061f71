/* freivalds.c - the whole output of a contraction checked by random sums, at the cost of one of its rows.
 *
 * Where y[i, j] = sum over k of f(i, k) g(j, k), plus a term h(i, j) that no sum enters, every vector r has
 * sum_j r_j (y - h)[i, j] = sum_k f(i, k) sum_j r_j g(j, k) (Freivalds 1977). A wrong row passes for a random r
 * with probability 1/2 at most where r is +-1, and never where one element alone is wrong. On small integers
 * both sides are exact in double and r comes from a range so wide that the probability is below 1e-4; on
 * floats a row may be off by what its elements may be off together: for depth additions on the way of a term,
 * sum_j (depth + 2) u sum_k |f g| and the rounding of the added term (Higham, 4.2).
 *
 * What i, j and k are is read off the nest: the axes that only f, only g, or both depend on. Weights are g: what is
 * summed up of them serves at all sizes. */
#include <math.h>

#include "run/verify_int.h"

typedef struct Axes {
    int n, at[MAX_LOOPS];
    int64_t extent[MAX_LOOPS], total;
} Axes;

typedef struct Contraction {
    const Question *q;
    Points pts;
    const Phase *p;
    const Expr *f, *g;             /* factors */
    Axes both, rows, columns, sum; /* of both factors; of f, of g alone; reduced */
    Eval *nf, *ng, *index, *value; /* value: with 0 for the sum, so h */
    Near zero;
    double *r;             /* by column */
    double *w, *w_size;    /* by term: sum over columns of r g; of |r g| */
    double *left, *size;   /* by row: what the sums must be, and what |f| w_size sums to */
    double f_most, g_most; /* largest magnitudes */
    double depth;
    bool keeps; /* g is the same at all sizes */
} Contraction;

/* ---- is it one? ---- */

typedef struct Seek {
    const Kernel *k;
    bool axis[256];
    bool other;   /* it reads a variable, or is not known exactly */
    bool changes; /* from size to size, or from call to call */
} Seek;

static void see(const Expr *x, void *ctx)
{
    Seek *s = ctx;
    bool libm = x->kind == X_OP && (x->op == S_EXP || x->op == S_SIN || x->op == S_COS);
    bool activation = x->kind == X_LOAD && !s->k->operand.at[x->id].constant;
    s->other = s->other || x->kind == X_VAR || libm;
    s->changes = s->changes || x->kind == X_SYM || activation;
    if (x->kind == X_AXIS) {
        s->axis[x->id] = true;
    }
}

static const Expr *let_value(const Stmt *s, int n, const Expr *x)
{
    for (int i = 0; x->kind == X_VAR && i < n; i++) {
        if (s[i].kind == STMT_LET && s[i].var == x->id) {
            return s[i].value;
        }
    }
    return x;
}

static bool find_factors(Contraction *c)
{
    const Expr *term;
    const Accum *acc = c->p->acc.at;
    if (c->p->acc.n != 1 || acc->init->dtype != DT_F32 || !acc_is_sum(acc, &term) || !term) {
        return false;
    }
    const Expr *x = let_value(c->p->body.at, c->p->body.n, term);
    if (x->kind != X_OP || x->op != S_MUL || acc->init->kind != X_CONST ||
        acc->init->value.f != 0) {
        return false;
    }
    c->f = x->a;
    c->g = x->b;
    return true;
}

/* The value is the sum, or the sum and a term that it is not part of. */
static bool adds_only(const Contraction *c, const Stmt *s)
{
    int acc = c->p->acc.at[0].var;
    const Expr *x = s->value;
    bool sum_left = x->kind == X_OP && x->op == S_ADD && x->a->kind == X_VAR && x->a->id == acc;
    bool sum_right =
        x->kind == X_OP && x->op == S_ADD && x->b->kind == X_VAR && x->b->id == acc;
    if (sum_left || sum_right) {
        Seek seek = {.k = c->q->naive};
        expr_visit(sum_left ? x->b : x->a, see, &seek);
        return !seek.other;
    }
    return x->kind == X_VAR && x->id == acc;
}

static bool add_axis(const Contraction *c, Axes *to, int axis)
{
    if (to->n == MAX_LOOPS) {
        return false;
    }
    to->at[to->n] = axis;
    to->extent[to->n] = axis_turns(c->q->naive, axis, c->q->syms);
    to->total *= to->extent[to->n++];
    return true;
}

static void swap_factors(Contraction *c, Seek *f, Seek *g)
{
    const Expr *factor = c->f;
    Seek seen = *f;
    c->f = c->g;
    c->g = factor;
    *f = *g;
    *g = seen;
}

static bool find_axes(Contraction *c)
{
    const Nest *n = &c->q->naive->nest;
    Seek f = {.k = c->q->naive}, g = f;
    expr_visit(c->f, see, &f);
    expr_visit(c->g, see, &g);
    if (f.changes < g.changes) { /* columns are what may be kept */
        swap_factors(c, &f, &g);
    }
    c->keeps = !g.changes;
    bool fits = !f.other && !g.other && n->axis.n <= (int)countof(f.axis);
    c->both.total = c->rows.total = c->columns.total = c->sum.total = 1;
    for (int i = 0; fits && i < n->axis.n; i++) {
        Axes *to = n->axis.at[i].kind == AXIS_REDUCE ? &c->sum
                   : f.axis[i] == g.axis[i]          ? &c->both
                   : f.axis[i]                       ? &c->rows
                                                     : &c->columns;
        fits = add_axis(c, to, i);
    }
    return fits;
}

static bool recognise(Contraction *c)
{
    const Nest *n = &c->q->naive->nest;
    if (n->phase.n != 1 || n->phase.at[0].finish.n != 1 ||
        n->phase.at[0].finish.at[0].kind != STMT_STORE) {
        return false;
    }
    c->p = &n->phase.at[0];
    return find_factors(c) && adds_only(c, c->p->finish.at) && find_axes(c);
}

/* ---- points ---- */

/* The axes' indices at a point, in one lane. */
static void set_lane(Contraction *c, const Axes *a, int64_t point, int lane)
{
    for (int i = a->n - 1; i >= 0; i--) {
        points_set_lane(&c->pts, a->at[i], lane, point % a->extent[i]);
        point /= a->extent[i];
    }
}

/* Points first, first + 1 ... in as many lanes as there are. */
static void set_block(Contraction *c, const Axes *a, int64_t first)
{
    c->pts.n = a->total - first < LANES ? (int)(a->total - first) : LANES;
    for (int l = 0; l < c->pts.n; l++) {
        set_lane(c, a, first + l, l);
    }
}

/* The same point in all lanes that are in use. */
static void set_all(Contraction *c, const Axes *a, int64_t point)
{
    for (int i = a->n - 1; i >= 0; i--) {
        points_set_axis(&c->pts, a->at[i], point % a->extent[i]);
        point /= a->extent[i];
    }
}

static const Near *eval(Contraction *c, Eval *n)
{
    return near_eval(&c->pts, n, near_lanes(&c->pts));
}

/* ---- the sums ---- */

static void sum_columns(Contraction *c, int64_t batch)
{
    for (int64_t k = 0; k < c->sum.total; k++) {
        c->w[k] = c->w_size[k] = 0;
    }
    for (int64_t first = 0; first < c->columns.total; first += LANES) {
        set_block(c, &c->columns, first);
        set_all(c, &c->both, batch);
        const double *r = c->r + first;
        for (int64_t k = 0; k < c->sum.total; k++) {
            set_all(c, &c->sum, k);
            const Near *g = eval(c, c->ng);
            double sum = 0, size = 0, most = c->g_most;
            for (int l = 0; l < c->pts.n; l++) {
                double x = r[l] * g->v[l], magnitude = fabs(x);
                sum += x;
                size += magnitude;
                most = fabs(g->v[l]) > most ? fabs(g->v[l]) : most;
            }
            c->w[k] += sum;
            c->w_size[k] += size;
            c->g_most = most;
        }
    }
}

/* From the last size, where nothing that enters has changed. */
static bool fold_kept(const Contraction *c, uint64_t seed)
{
    const Folded *f = c->q->folded;
    return c->keeps && f && f->there && f->seed == seed && f->n_columns == c->columns.total &&
           f->n_terms == c->sum.total && c->both.total == 1;
}

static void keep_fold(const Contraction *c, uint64_t seed)
{
    Folded *f = c->q->folded;
    size_t bytes = (size_t)c->sum.total * sizeof *c->w;
    if (!c->keeps || !f || c->both.total != 1) {
        return;
    }
    *f = (Folded){.arena = f->arena,
                  .there = true,
                  .seed = seed,
                  .n_columns = c->columns.total,
                  .n_terms = c->sum.total,
                  .most = c->g_most,
                  .w = arena_dup(f->arena, c->w, bytes),
                  .w_size = arena_dup(f->arena, c->w_size, bytes)};
}

static void fold_columns(Contraction *c, int64_t batch, uint64_t seed)
{
    if (fold_kept(c, seed)) {
        c->w = c->q->folded->w;
        c->w_size = c->q->folded->w_size;
        c->g_most = c->q->folded->most;
        return;
    }
    sum_columns(c, batch);
    keep_fold(c, seed);
}

static void sum_rows(Contraction *c, int64_t batch)
{
    for (int64_t first = 0; first < c->rows.total; first += LANES) {
        set_block(c, &c->rows, first);
        set_all(c, &c->both, batch);
        for (int l = 0; l < c->pts.n; l++) {
            c->left[first + l] = c->size[first + l] = 0;
        }
        for (int64_t k = 0; k < c->sum.total; k++) {
            set_all(c, &c->sum, k);
            const Near *f = eval(c, c->nf);
            for (int l = 0; l < c->pts.n; l++) {
                double magnitude = fabs(f->v[l]);
                c->left[first + l] += f->v[l] * c->w[k];
                c->size[first + l] += magnitude * c->w_size[k];
                c->f_most = magnitude > c->f_most ? magnitude : c->f_most;
            }
        }
    }
}

typedef struct Right {
    double sum, size; /* sum of r (y - h); of |r| (|y| + |h|) */
} Right;

static Right sum_output(Contraction *c, const float *y, int64_t batch, int64_t row)
{
    Right right = {0, 0};
    for (int64_t first = 0; first < c->columns.total; first += LANES) {
        set_block(c, &c->columns, first);
        set_all(c, &c->rows, row);
        set_all(c, &c->both, batch);
        const Near *index = eval(c, c->index), *h = eval(c, c->value);
        for (int l = 0; l < c->pts.n; l++) {
            double r = c->r[first + l], got = y[index->i[l]];
            right.sum += r * (got - h->v[l]);
            right.size += fabs(r) * (fabs(got) + fabs(h->v[l]));
        }
    }
    return right;
}

/* On integers nothing rounds: neither the candidate's sums nor, below 2^53, ours. */
static double bound_of(const Contraction *c, double size, double right_size)
{
    double unit = c->q->unit, n = (double)c->sum.total;
    bool exact = unit > 0 && c->f_most * c->g_most * n <= 0x1p23 * unit &&
                 size + right_size < 0x1p52 * unit;
    return exact ? 0 : (c->depth + 2) * UNIT_ROUNDOFF * (size + right_size);
}

/* ---- which element it is ---- */

/* All sums of one row, one after another, until an element is farther off than it may be. */
static void locate(Contraction *c, const float *y, int64_t batch, int64_t row, Mismatch *m)
{
    for (int64_t first = 0; first < c->columns.total && m->index < 0; first += LANES) {
        double sum[LANES] = {0}, size[LANES] = {0};
        set_block(c, &c->columns, first);
        set_all(c, &c->rows, row);
        set_all(c, &c->both, batch);
        for (int64_t k = 0; k < c->sum.total; k++) {
            set_all(c, &c->sum, k);
            const Near *f = eval(c, c->nf), *g = eval(c, c->ng);
            for (int l = 0; l < c->pts.n; l++) {
                sum[l] += f->v[l] * g->v[l];
                size[l] += fabs(f->v[l] * g->v[l]);
            }
        }
        const Near *index = eval(c, c->index), *h = eval(c, c->value);
        for (int l = 0; l < c->pts.n && m->index < 0; l++) {
            double want = sum[l] + h->v[l], got = y[index->i[l]],
                   bound = bound_of(c, size[l], fabs(want));
            if (!(fabs(got - want) <= bound)) {
                *m = (Mismatch){index->i[l], got, want, bound};
            }
        }
    }
}

static void check_batch(Contraction *c, const float *y, int64_t batch, uint64_t seed,
                        Mismatch *m)
{
    fold_columns(c, batch, seed);
    sum_rows(c, batch);
    for (int64_t row = 0; row < c->rows.total && m->index < 0; row++) {
        Right right = sum_output(c, y, batch, row);
        if (!(fabs(c->left[row] - right.sum) <= bound_of(c, c->size[row], right.size))) {
            locate(c, y, batch, row, m);
        }
    }
}

/* ---- making ---- */

static void prepare(Contraction *c, uint64_t seed)
{
    Arena *m = &c->pts.e->kernel;
    const Accum *acc = &c->p->acc.at[0];
    Grouping how = grouping_of(c->q->naive, c->q->scheduled, acc, c->q->syms);
    double terms = (double)c->sum.total, groups = how.n_groups ? how.n_groups : 1;
    double tail = how.tail_of < 0 ? 0 : (double)how.nest->axis.at[how.tail_of].factor;
    c->depth = ceil(terms / groups) + log2(groups) + tail + 1;
    points_set_inner(&c->pts, c->sum.n ? c->sum.at[c->sum.n - 1] : -1);
    c->nf = near_node(&c->pts, c->f);
    c->ng = near_node(&c->pts, c->g);
    c->index = near_node(&c->pts, c->p->finish.at[0].index);
    c->value = near_node(&c->pts, c->p->finish.at[0].value);
    c->zero.sure = true;
    c->pts.var[acc->var] = &c->zero;
    c->w = arena_array(m, double, c->sum.total);
    c->w_size = arena_array(m, double, c->sum.total);
    c->left = arena_array(m, double, c->rows.total);
    c->size = arena_array(m, double, c->rows.total);
    c->r = arena_array(m, double, c->columns.total);
    Rng rng;
    rng_seed(&rng, seed);
    for (int64_t i = 0; i < c->columns.total; i++) {
        double magnitude = c->q->unit > 0 ? 1 + (double)rng_below(&rng, 1 << 14) : 1;
        c->r[i] = rng_below(&rng, 2) ? magnitude : -magnitude;
    }
}

bool freivalds(Env *e, const Question *q, const void *y, uint64_t seed, Mismatch *m)
{
    Contraction c = {.q = q};
    *m = (Mismatch){.index = -1};
    points_init(&c.pts, e, q->naive, q->params, q->n_elems, q->syms, false);
    if (!recognise(&c)) {
        return false;
    }
    prepare(&c, seed);
    for (int64_t batch = 0; batch < c.both.total && m->index < 0; batch++) {
        check_batch(&c, y, batch, seed, m);
    }
    return true;
}
