/* unfused.c - one kernel for every compute node; movement is views, with a copy where a reshape is none.
 * The baseline that is never deleted: fused kernels must equal it bitwise.
 * needs: a finished graph. gives: a program with traffic and lifetimes. spec: loop-ir 2, 3 */
#include "lower/lower_int.h"

typedef struct Point { /* where a kernel's one phase stands: the output's index */
    const Expr *index[MAX_RANK];
    int axis[MAX_RANK];
} Point;

static void loop_over(Build *b, const Point *p, int rank)
{
    for (int i = 0; i < rank; i++) {
        *vec_push(b->l->m, &b->phase->loops) = p->axis[i];
    }
}

/* Opens a kernel with one phase over all that it writes. */
static Point begin_over(Build *b, Lower *l, const char *kind, const Node *n, const View *to)
{
    Point p;
    build_begin(b, l, kind, n, to);
    build_phase(b);
    build_axes(b, &to->shape, 0, to->shape.rank, n->op == OP_MATMUL, 0, p.axis, p.index);
    loop_over(b, &p, to->shape.rank);
    return p;
}

static int read_operand(Build *b, const char *name, const View *v)
{
    int id = build_operand(b, name, v);
    build_read(b, view_distinct(b->l->e, v), b->k->operand.at[id].dtype);
    return id;
}

static const char *operand_name(Build *b)
{
    return arena_printf(b->l->m, "x%d", b->k->operand.n - 1);
}

static void finish_with(Build *b, const Point *p, const Expr *value)
{
    build_store(b, p->index, value);
    build_end(b, shape_count(b->l->e, &b->to.shape));
}

static void lower_elementwise(Lower *l, const Node *n, const View *to)
{
    Build b;
    const Expr *in[3];
    Point p = begin_over(&b, l, op_info[n->op].name, n, to);
    for (int i = 0; i < n->n_in; i++) {
        const View *v = &l->view[n->in[i]->id];
        in[i] = build_load(&b, read_operand(&b, operand_name(&b), v), v, p.index);
    }
    finish_with(&b, &p, elementwise(l->m, n, in));
}

static void lower_iota(Lower *l, const Node *n, const View *to)
{
    Build b;
    Point p = begin_over(&b, l, "iota", n, to);
    int axis = axis_of(l->e, n, n->shape.rank);
    finish_with(&b, &p, x_cast(l->m, p.index[axis], n->dtype));
}

static void lower_dim(Lower *l, const Node *n, const View *to)
{
    Build b;
    Point p = begin_over(&b, l, "dim", n, to);
    finish_with(&b, &p, dim_expr(l->m, n->attr.expr));
}

static void lower_reduce(Lower *l, const Node *n, const View *to)
{
    Build b;
    Point p = begin_over(&b, l, op_info[n->op].name, n, to);
    const View *v = &l->view[n->in[0]->id];
    int axis = axis_of(l->e, n, n->shape.rank);
    Point at = p;
    int r = build_axis(&b, "r", AXIS_REDUCE, v->shape.dim[axis], &at.index[axis]);
    *vec_push(l->m, &b.phase->loops) = r;
    const Expr *x = build_load(&b, read_operand(&b, "x0", v), v, at.index);
    bool sum = n->op == OP_REDUCE_SUM;
    const Expr *acc = build_acc(
        &b, n->dtype, sum ? acc_sum_init(l->m, n->dtype) : acc_max_init(l->m, n->dtype),
        sum ? acc_sum : acc_max, build_let(&b, true, x));
    finish_with(&b, &p, acc);
}

static void lower_matmul(Lower *l, const Node *n, const View *to)
{
    Build b;
    Point p = begin_over(&b, l, "matmul", n, to);
    const View *va = &l->view[n->in[0]->id], *vb = &l->view[n->in[1]->id];
    int rank = n->shape.rank;
    Point at_a = p, at_b = p;
    int k = build_axis(&b, "k", AXIS_REDUCE, va->shape.dim[rank - 1], &at_a.index[rank - 1]);
    *vec_push(l->m, &b.phase->loops) = k;
    at_b.index[rank - 2] = at_a.index[rank - 1];
    const Expr *xa = build_load(&b, read_operand(&b, "a", va), va, at_a.index);
    const Expr *xb = build_load(&b, read_operand(&b, "b", vb), vb, at_b.index);
    const Expr *acc = build_acc(&b, n->dtype, acc_sum_init(l->m, n->dtype), acc_sum,
                                x_op(l->m, S_MUL, xa, xb));
    finish_with(&b, &p, acc);
}

/* for ids..: row = id; fail outside the table; for the rest of a row..: copy */
static void lower_gather(Lower *l, const Node *n, const View *to)
{
    Build b;
    Point p, at;
    const View *table = &l->view[n->in[0]->id], *ids = &l->view[n->in[1]->id];
    int n_ids = ids->shape.rank, rank = n->shape.rank;
    build_begin(&b, l, "gather", n, to);
    build_axes(&b, &n->shape, 0, rank, false, 0, p.axis, p.index);
    for (int i = 0; i < n_ids; i++) {
        *vec_push(l->m, &b.k->nest.outer) = p.axis[i];
    }
    build_phase(&b);
    int id_operand = build_operand(&b, "ids", ids);
    build_read(&b, view_distinct(l->e, ids), n->in[1]->dtype);
    const Expr *id = build_load(&b, id_operand, ids, p.index);
    at.index[0] = build_let(&b, false, x_cast(l->m, id, DT_I64));
    build_fail_outside(&b, at.index[0], table->shape.dim[0]);
    build_phase(&b);
    for (int i = n_ids; i < rank; i++) {
        *vec_push(l->m, &b.phase->loops) = p.axis[i];
        at.index[1 + i - n_ids] = p.index[i];
    }
    build_read(&b, shape_count(l->e, &n->shape), n->dtype); /* the rows read, not the table */
    finish_with(&b, &p, build_load(&b, build_operand(&b, "table", table), table, at.index));
}

static void lower_concat(Lower *l, const Node *n, const View *to)
{
    Build b;
    Dim start = dim_int(0);
    int axis = axis_of(l->e, n, n->shape.rank);
    build_begin(&b, l, "concat", n, to);
    for (int i = 0; i < n->n_in; i++) {
        Point p;
        const View *v = &l->view[n->in[i]->id];
        build_phase(&b);
        build_axes(&b, &v->shape, 0, n->shape.rank, false, i, p.axis, p.index);
        loop_over(&b, &p, n->shape.rank);
        const Expr *x = build_load(&b, read_operand(&b, operand_name(&b), v), v, p.index);
        p.index[axis] = x_op(l->m, S_ADD, p.index[axis], dim_expr(l->m, start));
        build_store(&b, p.index, x);
        start = dim_add(l->e, start, v->shape.dim[axis]);
    }
    build_end(&b, shape_count(l->e, &n->shape));
}

/* Every element from one operand or the other, where the update cannot be done in place. */
static void lower_update(Lower *l, const Node *n, const View *to)
{
    Build b;
    const Expr *at[MAX_RANK];
    const View *old = &l->view[n->in[0]->id], *new = &l->view[n->in[1]->id];
    Point p = begin_over(&b, l, "update", n, to);
    const Expr *outside = reindex_update(l->e, l->m, n, p.index, at);
    const Expr *x = build_load(&b, read_operand(&b, "x0", new), new, at);
    if (outside) {
        const Expr *kept = build_load(&b, read_operand(&b, "x1", old), old, p.index);
        x = x_select(l->m, outside, kept, x);
    }
    finish_with(&b, &p, x);
}

/* A view written out: n is for the message only; the shape is the view's own. */
static void lower_copy(Lower *l, const char *kind, const Node *n, const View *v, const View *to)
{
    Build b;
    Point p = begin_over(&b, l, kind, n, to);
    finish_with(&b, &p, build_load(&b, read_operand(&b, "x0", v), v, p.index));
}

static void lower_in_place(Lower *l, const Node *n)
{
    const View *buffer = &l->view[n->in[0]->id];
    View to = update_place(l->e, n, buffer);
    updates_write(l, &to);
    lower_copy(l, "update", n, &l->view[n->in[1]->id], &to);
    l->view[n->id] = *buffer;
}

/* A new temporary, seen as a whole. */
static View lower_temp(Lower *l, Dtype t, const Shape *s)
{
    return view_whole(l->e, lower_buffer(l, BUF_TEMP, t, s), s);
}

static void lower_movement(Lower *l, const Node *n)
{
    const View *in = &l->view[n->in[0]->id];
    View v = view_through(l->e, n, in);
    if (v.buffer < 0) { /* a reshape of a view with gaps */
        View whole = lower_temp(l, n->dtype, &in->shape);
        lower_copy(l, "copy", n, in, &whole);
        v = view_through(l->e, n, &whole);
    }
    l->view[n->id] = v;
}

static void lower_node(Lower *l, const Node *n)
{
    static void (*const by_op[N_OPS])(Lower *, const Node *, const View *) = {
        [OP_IOTA] = lower_iota,         [OP_DIM] = lower_dim,
        [OP_REDUCE_SUM] = lower_reduce, [OP_REDUCE_MAX] = lower_reduce,
        [OP_MATMUL] = lower_matmul,     [OP_GATHER] = lower_gather,
        [OP_CONCAT] = lower_concat,     [OP_UPDATE] = lower_update};
    if (n->op == OP_INPUT || n->op == OP_WEIGHT || n->op == OP_CONST) {
        lower_leaf(l, n);
    } else if (l->in_place[n->id]) {
        lower_in_place(l, n);
    } else if (is_movement(n) && !by_op[n->op]) {
        lower_movement(l, n);
    } else {
        View to = lower_temp(l, n->dtype, &n->shape);
        (by_op[n->op] ? by_op[n->op] : lower_elementwise)(l, n, &to);
        l->view[n->id] = to;
    }
    if (n->op == OP_UPDATE) {
        l->view[n->id].version = n->id;
    }
}

/* The value's own buffer becomes the output where it is one as a whole; else it is copied out. */
static void lower_output(Lower *l, int i)
{
    const Node *n = l->g->outputs.at[i].node;
    View v = l->view[n->id];
    bool whole = lower_claimable(l, i) && view_row_major(l->e, &v) && dim_is(v.offset, 0) &&
                 shape_eq(&l->p->buffer.at[v.buffer].shape, &v.shape);
    if (!whole) {
        View to = lower_temp(l, n->dtype, &n->shape);
        lower_copy(l, "copy", n, &v, &to);
        v = to;
    }
    lower_claim(l, v.buffer, i);
}

/* NULL: an update in place was not safe; copied says more than before. */
static Program *attempt(const Graph *g, bool *copied)
{
    bool *in_place = arena_array(&g->env->kernel, bool, g->nodes.n);
    updates_choose(g, copied, in_place);
    Lower l = lower_begin(g, in_place);
    for (int i = 0; i < g->nodes.n; i++) {
        lower_node(&l, g->nodes.at[i]);
    }
    for (int i = 0; i < g->outputs.n; i++) {
        lower_output(&l, i);
    }
    program_lifetimes(l.p);
    return updates_safe(&l, copied) ? l.p : NULL;
}

Program *lower_unfused(const Graph *g)
{
    bool *copied = arena_array(&g->env->kernel, bool, g->nodes.n);
    Program *p = NULL;
    while (!p) {
        p = attempt(g, copied);
    }
    return p;
}
