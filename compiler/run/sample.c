/* sample.c - what a naive nest costs to evaluate, and where that is too much, a nest over some of its points.
 *
 * The sampled nest has one axis in place of its outer axes and one in place of each phase's space axes; what
 * was an axis is read from a table. So it runs wherever a nest runs. Points are a Latin hypercube: each axis
 * goes through random permutations of its indices, so a tile, a row or a lane that is wrong everywhere along
 * the other axes cannot be missed where there are as many points as indices. Elements are stored where they
 * belong. needs: no steps. Memory is e->kernel. */
#include <math.h>

#include "run/verify_int.h"

#define MAX_POINTS (1 << 20) /* of all phases together: they are kept in memory */

#define FULL 4 /* where a sample would be a quarter of the nest, it is evaluated in full */

typedef struct Cost {
    double rows;   /* points of the outer axes */
    double row;    /* expression nodes of the phases that have no space axes, for each */
    double spaces; /* phases that have some */
    double least;  /* their nodes at one point each */
    double all;    /* and at all of them */
    double stores;
} Cost;

int64_t axis_turns(const Kernel *k, int axis, const int64_t *syms)
{
    int64_t extent = expr_value(k->nest.axis.at[axis].extent, syms);
    return extent < 0 ? 0 : extent;
}

static void count_node(const Expr *x, void *ctx)
{
    (void)x;
    ++*(double *)ctx;
}

static double nodes(const Expr *x)
{
    double n = 0;
    if (x) {
        expr_visit(x, count_node, &n);
    }
    return n;
}

static double product(const Kernel *k, const int *axis, int n, AxisKind kind,
                      const int64_t *syms)
{
    double points = 1;
    for (int i = 0; i < n; i++) {
        points *=
            k->nest.axis.at[axis[i]].kind == kind ? (double)axis_turns(k, axis[i], syms) : 1;
    }
    return points;
}

static double phase_points(const Kernel *k, const Phase *p, AxisKind kind, const int64_t *syms)
{
    return product(k, p->loops.at, p->loops.n, kind, syms);
}

/* Nodes that one point of the phase evaluates. */
static double point_cost(const Kernel *k, const Phase *p, const int64_t *syms)
{
    double each = 0, once = 0;
    for (int i = 0; i < p->body.n; i++) {
        each += nodes(p->body.at[i].value);
    }
    for (int i = 0; i < p->acc.n; i++) {
        each += nodes(p->acc.at[i].update);
    }
    for (int i = 0; i < p->finish.n; i++) {
        once += nodes(p->finish.at[i].value) + nodes(p->finish.at[i].index);
    }
    return once + each * phase_points(k, p, AXIS_REDUCE, syms);
}

static Cost cost_of(const Kernel *k, const int64_t *syms)
{
    Cost c = {.rows = product(k, k->nest.outer.at, k->nest.outer.n, AXIS_SPACE, syms)};
    for (int i = 0; i < k->nest.phase.n; i++) {
        const Phase *p = &k->nest.phase.at[i];
        double here = point_cost(k, p, syms), points = phase_points(k, p, AXIS_SPACE, syms);
        bool space = phase_has(&k->nest, p, AXIS_SPACE);
        c.row += space ? 0 : here;
        c.spaces += space;
        c.least += space ? here : 0;
        c.all += space ? here * points : 0;
        for (int s = 0; s < p->finish.n; s++) {
            c.stores += p->finish.at[s].kind == STMT_STORE ? c.rows * points : 0;
        }
    }
    return c;
}

int64_t nest_stores(const Kernel *k, const int64_t *syms)
{
    return (int64_t)cost_of(k, syms).stores;
}

int64_t nest_terms(const Kernel *k, const int64_t *syms)
{
    double most = 1;
    for (int i = 0; i < k->nest.phase.n; i++) {
        most = fmax(most, phase_points(k, &k->nest.phase.at[i], AXIS_REDUCE, syms));
    }
    return (int64_t)most;
}

/* ---- tables of indices ---- */

typedef struct Builder {
    Env *e;
    Kernel *k;
    const int64_t *syms;
    Rng rng;
    Sample *s;
    const Expr **with; /* by axis of the nest: what replaces it, or NULL */
} Builder;

static void shuffle(Rng *r, int64_t *at, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)rng_below(r, (uint64_t)i + 1), t = at[i];
        at[i] = at[j];
        at[j] = t;
    }
}

/* n indices below extent: random permutations, one after another. */
static int64_t *permutations(Builder *b, int64_t n, int64_t extent)
{
    Arena *m = &b->e->kernel;
    int64_t *table = arena_array(m, int64_t, n), *order = arena_array(m, int64_t, extent);
    for (int64_t i = 0; i < extent; i++) {
        order[i] = i;
    }
    for (int64_t i = 0; i < n; i++) {
        if (i % extent == 0) {
            shuffle(&b->rng, order, extent);
        }
        table[i] = order[i % extent];
    }
    return table;
}

/* The table becomes an operand of the sampled nest; the axis is read from it at `at`. */
static void replace_axis(Builder *b, int axis, int64_t n, const Expr *at)
{
    Arena *m = &b->e->kernel;
    Kernel *k = b->k;
    int64_t extent = axis_turns(k, axis, b->syms);
    *vec_push(m, &k->operand) =
        (Operand){.name = k->nest.axis.at[axis].name, .dtype = DT_I64, .constant = true};
    b->s->params[k->operand.n - 1] = permutations(b, n, extent);
    b->s->n_elems[k->operand.n - 1] = n;
    b->with[axis] = x_load(m, k->operand.n - 1, DT_I64, at);
}

static int new_axis(Builder *b, const char *name, int64_t n)
{
    Arena *m = &b->e->kernel;
    *vec_push(m, &b->k->nest.axis) =
        (Axis){.name = name, .kind = AXIS_SPACE, .extent = x_int(m, n)};
    return b->k->nest.axis.n - 1;
}

static int sample_outer(Builder *b, int64_t n_rows)
{
    Nest *n = &b->k->nest;
    int row = new_axis(b, "row", n_rows);
    for (int i = 0; i < n->outer.n; i++) {
        replace_axis(b, n->outer.at[i], n_rows, x_axis(&b->e->kernel, row));
    }
    n->outer.n = 0;
    *vec_push(&b->e->kernel, &n->outer) = row;
    return row;
}

static void sample_phase(Builder *b, Phase *p, int row, int64_t n_rows, int64_t n_points)
{
    Arena *m = &b->e->kernel;
    int point = new_axis(b, "point", n_points);
    const Expr *first = x_op(m, S_MUL, x_axis(m, row), x_int(m, n_points));
    const Expr *at = x_op(m, S_ADD, first, x_axis(m, point));
    Vec(int) loops = {0};
    *vec_push(m, &loops) = point;
    for (int i = 0; i < p->loops.n; i++) {
        int axis = p->loops.at[i];
        if (b->k->nest.axis.at[axis].kind == AXIS_REDUCE) {
            *vec_push(m, &loops) = axis;
        } else {
            replace_axis(b, axis, n_rows * n_points, at);
        }
    }
    p->loops.at = loops.at;
    p->loops.n = loops.n;
    p->loops.cap = loops.cap;
}

/* ---- the sampled nest ---- */

static const Expr *replaced(Builder *b, const Expr *x)
{
    if (!x) {
        return NULL;
    }
    if (x->kind == X_AXIS && b->with[x->id]) {
        return b->with[x->id];
    }
    Expr y = *x;
    y.a = replaced(b, x->a);
    y.b = replaced(b, x->b);
    y.c = replaced(b, x->c);
    bool same = y.a == x->a && y.b == x->b && y.c == x->c;
    return same ? x : arena_dup(&b->e->kernel, &y, sizeof y);
}

static void replace_slot(const Expr **slot, void *ctx)
{
    *slot = replaced(ctx, *slot);
}

static double between(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

static void sample_into(Builder *b, const Cost *c, double work)
{
    double rows =
        between(floor(work / (2 * c->row + c->least + 1)), 1, fmin(c->rows, MAX_POINTS));
    double most = floor(MAX_POINTS / (rows * fmax(c->spaces, 1)));
    int row = sample_outer(b, (int64_t)rows);
    for (int i = 0; i < b->k->nest.phase.n; i++) {
        Phase *p = &b->k->nest.phase.at[i];
        double all = phase_points(b->k, p, AXIS_SPACE, b->syms),
               here = point_cost(b->k, p, b->syms);
        double points = floor((work / rows - c->row) / c->spaces / here);
        if (phase_has(&b->k->nest, p, AXIS_SPACE) && fmin(points, most) < all) {
            sample_phase(b, p, row, (int64_t)rows, (int64_t)between(points, 1, fmax(most, 1)));
        }
    }
    nest_exprs(&b->k->nest, replace_slot, b);
}

Sample sample_of(Env *e, const Kernel *naive, void *const *params, const int64_t *n_elems,
                 const int64_t *syms, double work, uint64_t seed)
{
    Arena *m = &e->kernel;
    Cost c = cost_of(naive, syms);
    int n_tables = naive->operand.n + naive->nest.axis.n;
    Sample s = {naive, arena_array(m, void *, n_tables), arena_array(m, int64_t, n_tables), 0};
    for (int i = 0; i < naive->operand.n; i++) {
        s.params[i] = params[i];
        s.n_elems[i] = n_elems[i];
    }
    if (c.rows * (c.row + c.all) <= FULL * work && c.stores <= MAX_POINTS) {
        return s;
    }
    Err why;
    Schedule none = {.n = 0};
    Kernel *copy = kernel_schedule(e, m, naive, &none, 0, &why);
    check(copy);
    Builder b = {.e = e, .k = copy, .syms = syms, .s = &s};
    b.with = arena_array(m, const Expr *, 2 * naive->nest.axis.n + naive->nest.phase.n + 1);
    rng_seed(&b.rng, seed);
    sample_into(&b, &c, work);
    s.k = copy;
    s.n_points = nest_stores(copy, syms);
    return s;
}
