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

/* Opens a kernel with one phase over its whole output. */
static Point begin_over(Build *b, Lower *l, const char *kind, const Node *n, int buffer)
{
    Point p;
    build_begin(b, l, kind, n, &n->shape, buffer);
    build_phase(b);
    build_axes(b, &n->shape, 0, n->shape.rank, n->op == OP_MATMUL, 0, p.axis, p.index);
    loop_over(b, &p, n->shape.rank);
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

static void finish_with(Build *b, const Node *n, const Point *p, const Expr *value)
{
    build_store(b, &n->shape, p->index, value);
    build_end(b, shape_count(b->l->e, &n->shape));
}

static void lower_elementwise(Lower *l, const Node *n, int buffer)
{
    Build b;
    const Expr *in[3];
    Point p = begin_over(&b, l, op_info[n->op].name, n, buffer);
    for (int i = 0; i < n->n_in; i++) {
        const View *v = &l->view[n->in[i]->id];
        in[i] = build_load(&b, read_operand(&b, operand_name(&b), v), v, p.index);
    }
    finish_with(&b, n, &p, elementwise(l->m, n, in));
}

static void lower_iota(Lower *l, const Node *n, int buffer)
{
    Build b;
    Point p = begin_over(&b, l, "iota", n, buffer);
    int axis = axis_of(l->e, n, n->shape.rank);
    finish_with(&b, n, &p, x_cast(l->m, p.index[axis], n->dtype));
}

static void lower_dim(Lower *l, const Node *n, int buffer)
{
    Build b;
    Point p = begin_over(&b, l, "dim", n, buffer);
    finish_with(&b, n, &p, dim_expr(l->m, n->attr.expr));
}

static void lower_reduce(Lower *l, const Node *n, int buffer)
{
    Build b;
    Point p = begin_over(&b, l, op_info[n->op].name, n, buffer);
    const View *v = &l->view[n->in[0]->id];
    int axis = axis_of(l->e, n, n->shape.rank);
    Point at = p;
    int r = build_axis(&b, "r", AXIS_REDUCE, v->shape.dim[axis], &at.index[axis]);
    *vec_push(l->m, &b.phase->loops) = r;
    const Expr *x = build_load(&b, read_operand(&b, "x0", v), v, at.index);
    bool sum = n->op == OP_REDUCE_SUM;
    const Expr *acc = build_acc(&b, n->dtype, sum ? acc_sum_init(l->m, n->dtype) : acc_max_init(l->m, n->dtype),
                                sum ? acc_sum : acc_max, build_let(&b, true, x));
    finish_with(&b, n, &p, acc);
}

static void lower_matmul(Lower *l, const Node *n, int buffer)
{
    Build b;
    Point p = begin_over(&b, l, "matmul", n, buffer);
    const View *va = &l->view[n->in[0]->id], *vb = &l->view[n->in[1]->id];
    int rank = n->shape.rank;
    Point at_a = p, at_b = p;
    int k = build_axis(&b, "k", AXIS_REDUCE, va->shape.dim[rank - 1], &at_a.index[rank - 1]);
    *vec_push(l->m, &b.phase->loops) = k;
    at_b.index[rank - 2] = at_a.index[rank - 1];
    const Expr *xa = build_load(&b, read_operand(&b, "a", va), va, at_a.index);
    const Expr *xb = build_load(&b, read_operand(&b, "b", vb), vb, at_b.index);
    const Expr *acc =
        build_acc(&b, n->dtype, acc_sum_init(l->m, n->dtype), acc_sum, x_op(l->m, S_MUL, xa, xb));
    finish_with(&b, n, &p, acc);
}

/* for ids..: row = id; fail outside the table; for the rest of a row..: copy */
static void lower_gather(Lower *l, const Node *n, int buffer)
{
    Build b;
    Point p, at;
    const View *table = &l->view[n->in[0]->id], *ids = &l->view[n->in[1]->id];
    int n_ids = ids->shape.rank, rank = n->shape.rank;
    build_begin(&b, l, "gather", n, &n->shape, buffer);
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
    finish_with(&b, n, &p, build_load(&b, build_operand(&b, "table", table), table, at.index));
}

static void lower_concat(Lower *l, const Node *n, int buffer)
{
    Build b;
    Dim start = dim_int(0);
    int axis = axis_of(l->e, n, n->shape.rank);
    build_begin(&b, l, "concat", n, &n->shape, buffer);
    for (int i = 0; i < n->n_in; i++) {
        Point p;
        const View *v = &l->view[n->in[i]->id];
        build_phase(&b);
        build_axes(&b, &v->shape, 0, n->shape.rank, false, i, p.axis, p.index);
        loop_over(&b, &p, n->shape.rank);
        const Expr *x = build_load(&b, read_operand(&b, operand_name(&b), v), v, p.index);
        p.index[axis] = x_op(l->m, S_ADD, p.index[axis], dim_expr(l->m, start));
        build_store(&b, &n->shape, p.index, x);
        start = dim_add(l->e, start, v->shape.dim[axis]);
    }
    build_end(&b, shape_count(l->e, &n->shape));
}

/* A view written out contiguously: n is for the message only; the shape is the view's own. */
static void lower_copy(Lower *l, const Node *n, const View *v, int buffer)
{
    Build b;
    Point p;
    build_begin(&b, l, "copy", n, &v->shape, buffer);
    build_phase(&b);
    build_axes(&b, &v->shape, 0, v->shape.rank, false, 0, p.axis, p.index);
    loop_over(&b, &p, v->shape.rank);
    const Expr *x = build_load(&b, read_operand(&b, "x0", v), v, p.index);
    build_store(&b, &v->shape, p.index, x);
    build_end(&b, shape_count(l->e, &v->shape));
}

static void lower_movement(Lower *l, const Node *n)
{
    const View *in = &l->view[n->in[0]->id];
    View v = view_through(l->e, n, in);
    if (v.buffer < 0) { /* a reshape of a view with gaps */
        int buffer = lower_buffer(l, BUF_TEMP, n->dtype, &in->shape);
        lower_copy(l, n, in, buffer);
        View whole = view_whole(l->e, buffer, &in->shape);
        v = view_through(l->e, n, &whole);
    }
    l->view[n->id] = v;
}

static void lower_node(Lower *l, const Node *n)
{
    static void (*const by_op[N_OPS])(Lower *, const Node *, int) = {
        [OP_IOTA] = lower_iota,         [OP_DIM] = lower_dim,       [OP_REDUCE_SUM] = lower_reduce,
        [OP_REDUCE_MAX] = lower_reduce, [OP_MATMUL] = lower_matmul, [OP_GATHER] = lower_gather,
        [OP_CONCAT] = lower_concat};
    if (n->op == OP_INPUT || n->op == OP_WEIGHT || n->op == OP_CONST) {
        lower_leaf(l, n);
    } else if (is_movement(n) && n->op != OP_CONCAT) {
        lower_movement(l, n);
    } else {
        int buffer = lower_buffer(l, BUF_TEMP, n->dtype, &n->shape);
        (by_op[n->op] ? by_op[n->op] : lower_elementwise)(l, n, buffer);
        l->view[n->id] = view_whole(l->e, buffer, &n->shape);
    }
}

/* The value's own temporary becomes the output where it is one whole buffer; else it is copied out. */
static void lower_output(Lower *l, int i)
{
    const Node *n = l->g->outputs.at[i].node;
    View v = l->view[n->id];
    const Buffer *b = &l->p->buffer.at[v.buffer];
    bool whole = b->kind == BUF_TEMP && view_row_major(l->e, &v) && dim_is(v.offset, 0) &&
                 shape_eq(&b->shape, &v.shape);
    if (!whole) {
        int buffer = lower_buffer(l, BUF_TEMP, n->dtype, &n->shape);
        lower_copy(l, n, &v, buffer);
        v.buffer = buffer;
    }
    lower_claim(l, v.buffer, i);
}

Program *lower_unfused(const Graph *g)
{
    Lower l = lower_begin(g);
    for (int i = 0; i < g->nodes.n; i++) {
        lower_node(&l, g->nodes.at[i]);
    }
    for (int i = 0; i < g->outputs.n; i++) {
        lower_output(&l, i);
    }
    program_lifetimes(l.p);
    return l.p;
}
