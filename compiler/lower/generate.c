/* generate.c - one kernel for every realized node of a fusion plan, and copies for outputs that are no
 * buffer of their own. Three shapes of kernel: elementwise (rows with their reductions included),
 * contraction with its epilogue, and gather; a movement that is written out is elementwise.
 * needs: a fusion plan. gives: a program, or bans where it had to refuse. spec: loop-ir 6 */
#include <string.h>

#include "lower/value.h"

typedef struct Point {
    const Expr *index[MAX_RANK];
    int axis[MAX_RANK];
} Point;

static void loops(Gen *g, const Point *p, int from, int to)
{
    for (int i = from; i < to; i++) {
        *vec_push(g->l.m, &g->b.phase->loops) = p->axis[i];
    }
}

static Nodes *fused_by_root(const FusePlan *plan)
{
    Arena *m = &plan->g->env->kernel;
    Nodes *fused = arena_array(m, Nodes, plan->g->nodes.n);
    for (int i = 0; i < plan->g->nodes.n; i++) {
        if (plan->target[i]) {
            *vec_push(m, &fused[plan->target[i]->id]) = plan->g->nodes.at[i];
        }
    }
    return fused;
}

static void begin(Gen *g, const char *kind, const Node *n, const Node *root, const View *to)
{
    g->root = root;
    gen_begin(g);
    build_begin(&g->b, &g->l, kind, n, to);
}

/* Traffic: a buffer that some view covers counts once, else its different views' elements. */
static void count_reads(Gen *g)
{
    for (int i = 0; i < g->loaded.n; i++) {
        const Loaded *l = g->loaded.at[i];
        const Buffer *b = &g->l.p->buffer.at[l->buffer];
        build_read(&g->b, l->covered ? b->count : l->elements, b->dtype);
    }
}

/* n's index as the stored update's value has it, through the reshapes and permutes between. */
static void carry(Gen *g, const Node *n, const Expr *const *index, const Expr **to)
{
    const Expr *from[MAX_RANK];
    memcpy(to, index, sizeof *index * (size_t)n->shape.rank);
    while (n != g->into->in[1]) {
        const Node *user = g->plan->uses.direct[n->id].at[0];
        memcpy(from, to, sizeof *from * (size_t)n->shape.rank);
        reindex_back(g->l.e, g->l.m, user, from, to);
        n = user;
    }
}

static void end(Gen *g, const Node *n, const Expr *const *index, const Expr *value)
{
    const Expr *at[MAX_RANK];
    if (g->into) {
        carry(g, n, index, at);
        index = at;
    }
    build_store(&g->b, index, value);
    count_reads(g);
    build_end(&g->b, shape_count(g->l.e, &n->shape));
}

static void accumulated(Gen *g, const Node *n, const Expr *const *index, const Expr *var)
{
    Arena *m = &g->l.e->kernel;
    const Expr *const *kept = arena_dup(m, index, (size_t)n->shape.rank * sizeof *index);
    *vec_push(m, &g->acc) = (Accumulated){n, kept, var};
}

/* acc = the reduction of n's operand at `at`, whose reduced index runs. */
static const Expr *reduction(Gen *g, const Node *n, const Expr *const *at)
{
    Arena *m = g->l.m;
    gen_block(g, true);
    const Expr *x = gen_value(g, n->in[0], at, false);
    if (n->op == OP_REDUCE_SUM) {
        return build_acc(&g->b, n->dtype, acc_sum_init(m, n->dtype), acc_sum, x);
    }
    if (x->kind != X_VAR) {
        x = build_let(&g->b, true, x); /* read three times */
    }
    return build_acc(&g->b, n->dtype, acc_max_init(m, n->dtype), acc_max, x);
}

static void gen_reduce(Gen *g, const Node *n, const View *to)
{
    Point p;
    int axis = axis_of(g->l.e, n, n->shape.rank);
    begin(g, "reduce", n, n, to);
    build_phase(&g->b);
    build_axes(&g->b, &n->shape, 0, n->shape.rank, false, 0, p.axis, p.index);
    loops(g, &p, 0, n->shape.rank);
    Point at = p;
    int r = build_axis(&g->b, "r", AXIS_REDUCE, n->in[0]->shape.dim[axis], &at.index[axis]);
    *vec_push(g->l.m, &g->b.phase->loops) = r;
    const Expr *acc = reduction(g, n, at.index);
    end(g, n, p.index, acc);
}

/* for a row..: each fused reduction over r; then for j..: the row's elements. */
static void gen_row(Gen *g, const Node *n, const Nodes *fused, const View *to)
{
    Point p, at;
    int last = n->shape.rank - 1;
    begin(g, "row", n, n, to);
    build_axes(&g->b, &n->shape, 0, n->shape.rank, false, 0, p.axis, p.index);
    at = p;
    int r = build_axis(&g->b, "r", AXIS_REDUCE, n->shape.dim[last], &at.index[last]);
    for (int i = 0; i < last; i++) {
        *vec_push(g->l.m, &g->b.k->nest.outer) = p.axis[i];
    }
    Point own = p;
    own.index[last] = x_int(g->l.m, 0);
    for (int i = 0; i < fused->n; i++) {
        build_phase(&g->b);
        *vec_push(g->l.m, &g->b.phase->loops) = r;
        accumulated(g, fused->at[i], own.index, reduction(g, fused->at[i], at.index));
    }
    build_phase(&g->b);
    loops(g, &p, last, last + 1);
    gen_block(g, false);
    end(g, n, p.index, gen_value(g, n, p.index, false));
}

static void accumulate_product(Gen *g, const Node *n, const Point *p, const Expr *k)
{
    Arena *m = g->l.m;
    int rank = n->shape.rank;
    const Expr *at_a[MAX_RANK], *at_b[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        at_a[i] = i == rank - 1 ? k : p->index[i];
        at_b[i] = i == rank - 2 ? k : p->index[i];
    }
    g->hint = "a";
    const Expr *a = gen_value(g, n->in[0], at_a, false);
    g->hint = "b";
    const Expr *b = gen_value(g, n->in[1], at_b, false);
    g->hint = NULL;
    const Expr *product = x_op(m, S_MUL, a, b);
    const Expr *acc = build_acc(&g->b, n->dtype, acc_sum_init(m, n->dtype), acc_sum, product);
    accumulated(g, n, p->index, acc);
}

/* One k loop for all products, then the epilogue on the finished accumulators. */
static void gen_contraction(Gen *g, const Node *n, const Nodes *products, const View *to)
{
    Point p;
    const Expr *k;
    int rank = n->shape.rank;
    bool alone = n->op == OP_MATMUL;
    const Node *first = alone ? n : products->at[0];
    begin(g, alone ? "matmul" : "matmul+epilogue", n, n, to);
    build_phase(&g->b);
    build_axes(&g->b, &n->shape, 0, rank, true, 0, p.axis, p.index);
    loops(g, &p, 0, rank);
    int axis = build_axis(&g->b, "k", AXIS_REDUCE, first->in[0]->shape.dim[rank - 1], &k);
    *vec_push(g->l.m, &g->b.phase->loops) = axis;
    gen_block(g, true);
    for (int i = 0; i < (alone ? 1 : products->n); i++) {
        accumulate_product(g, alone ? n : products->at[i], &p, k);
    }
    gen_block(g, false);
    end(g, n, p.index, alone ? g->acc.at[0].var : gen_value(g, n, p.index, false));
}

static void gen_gather(Gen *g, const Node *n, const View *to)
{
    Point p;
    const Expr *at[MAX_RANK];
    const Node *table = n->in[0], *ids = n->in[1];
    const View *v = &g->l.view[table->id];
    int n_ids = ids->shape.rank;
    begin(g, "gather", n, n, to);
    build_axes(&g->b, &n->shape, 0, n->shape.rank, false, 0, p.axis, p.index);
    for (int i = 0; i < n_ids; i++) {
        *vec_push(g->l.m, &g->b.k->nest.outer) = p.axis[i];
    }
    build_phase(&g->b);
    gen_block(g, false);
    g->hint = "ids";
    at[0] = build_let(&g->b, false, x_cast(g->l.m, gen_value(g, ids, p.index, false), DT_I64));
    build_fail_outside(&g->b, at[0], table->shape.dim[0]);
    build_phase(&g->b);
    loops(g, &p, n_ids, n->shape.rank);
    for (int i = n_ids; i < n->shape.rank; i++) {
        at[1 + i - n_ids] = p.index[i];
    }
    gen_block(g, false);
    g->hint = "table";
    if (v->buffer < 0) {
        end(g, n, p.index, gen_value(g, table, at, false));
        return;
    }
    build_read(&g->b, shape_count(g->l.e, &n->shape), n->dtype); /* rows, not the table */
    end(g, n, p.index, gen_load(g, v, at));
}

/* kind elementwise, or copy for a movement that is written out or a leaf that is an output. */
static void gen_pointwise(Gen *g, const char *kind, const Node *n, const Node *root,
                          const View *to)
{
    Point p;
    begin(g, kind, n, root, to);
    build_phase(&g->b);
    build_axes(&g->b, &n->shape, 0, n->shape.rank, false, 0, p.axis, p.index);
    loops(g, &p, 0, n->shape.rank);
    gen_block(g, false);
    end(g, n, p.index, gen_value(g, n, p.index, false));
}

static void gen_kernel(Gen *g, const Node *n, const View *to)
{
    const Nodes *fused = &g->fused[n->id];
    if (n->op == OP_GATHER) {
        gen_gather(g, n, to);
    } else if (n->op == OP_MATMUL || (fused->n && fused->at[0]->op == OP_MATMUL)) {
        gen_contraction(g, n, fused, to);
    } else if (is_reduction(n)) {
        gen_reduce(g, n, to);
    } else if (fused->n) {
        gen_row(g, n, fused, to);
    } else {
        gen_pointwise(g, is_movement(n) ? "copy" : "elementwise", n, n, to);
    }
}

static View gen_temp(Gen *g, const Node *n)
{
    return view_whole(g->l.e, lower_buffer(&g->l, BUF_TEMP, n->dtype, &n->shape), &n->shape);
}

/* By the kernel of what the value is, or else as a kernel that copies it. */
static void gen_update(Gen *g, const Node *n)
{
    Lower *l = &g->l;
    const View *buffer = &l->view[n->in[0]->id];
    const Node *value = n->in[1], *made = value;
    View to = update_place(l->e, n, buffer);
    updates_write(l, &to);
    while (is_movement(made) && g->plan->into[made->id] != n) {
        made = made->in[0];
    }
    g->into = n;
    if (g->plan->into[made->id] == n) {
        gen_kernel(g, made, &to);
    } else {
        gen_pointwise(g, "copy", value, n, &to);
    }
    g->into = NULL;
    l->view[n->id] = *buffer;
}

static void gen_node(Gen *g, const Node *n)
{
    Lower *l = &g->l;
    if (n->op == OP_CONST && dim_is(shape_count(l->e, &n->shape), 1)) {
        return; /* a literal wherever it is used */
    }
    if (g->plan->into[n->id]) {
        return; /* stored by its update */
    }
    if (n->op == OP_INPUT || n->op == OP_WEIGHT || n->op == OP_CONST) {
        lower_leaf(l, n);
    } else if (g->plan->in_place[n->id]) {
        gen_update(g, n);
    } else if (g->plan->realized[n->id]) {
        View to = gen_temp(g, n);
        gen_kernel(g, n, &to);
        l->view[n->id] = to;
    } else if (is_movement(n)) {
        l->view[n->id] = view_through(l->e, n, &l->view[n->in[0]->id]);
    }
    if (n->op == OP_UPDATE) {
        l->view[n->id].version = n->id;
    }
}

static void gen_output(Gen *g, int i)
{
    const Node *n = g->plan->g->outputs.at[i].node;
    int buffer = g->l.view[n->id].buffer;
    if (!g->plan->realized[n->id] || !lower_claimable(&g->l, i)) {
        View to = gen_temp(g, n);
        gen_pointwise(g, "copy", n, NULL, &to);
        buffer = to.buffer;
    }
    lower_claim(&g->l, buffer, i);
}

Program *fuse_generate(const FusePlan *plan, bool *copied)
{
    Gen g = {
        .l = lower_begin(plan->g, plan->in_place), .plan = plan, .fused = fused_by_root(plan)};
    for (int i = 0; i < plan->g->nodes.n; i++) {
        gen_node(&g, plan->g->nodes.at[i]);
    }
    for (int i = 0; i < plan->g->outputs.n; i++) {
        gen_output(&g, i);
    }
    if (!updates_safe(&g.l, copied) || g.refused) {
        return NULL;
    }
    program_lifetimes(g.l.p);
    return g.l.p;
}
