/* frontend.c - writing a graph by hand: the one place where anything is implicit.
 *
 * Operands are broadcast as NumPy does (shapes aligned at their last axes) by the fewest nodes:
 * none where the shapes are equal, a reshape where axes must be put in front, a broadcast where
 * sizes of 1 must be repeated. Numbers take the dtype of the tensor they meet. Everything else
 * goes straight to node_make, which accepts no mismatch. spec: graph-ir 5 */
#include "graph/graph.h"

#include <math.h>
#include <string.h>

static Env *env_of(const Front *f)
{
    return f->g->env;
}

static Node *leaf(Front *f, Op op, const Attr *attr)
{
    return node_make(env_of(f), op, NULL, 0, attr, 0);
}

static Node *on_one(Front *f, Op op, Node *x, const Attr *attr)
{
    return node_make(env_of(f), op, &x, 1, attr, 0);
}

void front_init(Front *f, Env *e, const char *name)
{
    f->g = graph_new(e, name);
    map_init(&f->weights, &e->model);
}

/* ---- leaves ---------------------------------------- */

Node *f_input(Front *f, const char *name, Dtype t, Shape shape)
{
    for (int i = 0; i < f->g->inputs.n; i++) {
        if (!strcmp(f->g->inputs.at[i]->attr.name, name)) {
            fail(env_of(f), E_GRAPH, "input: \"%.200s\" is already declared", name);
        }
    }
    Node *n = leaf(f, OP_INPUT, &(Attr){.name = name, .dtype = t, .shape = shape});
    graph_input(f->g, n);
    return n;
}

Node *f_weight(Front *f, const char *name, Dtype t, Shape shape)
{
    Env *e = env_of(f);
    Hash key = hash_str(name);
    Node *old = map_get(&f->weights, key);
    if (!old) {
        Node *n = leaf(f, OP_WEIGHT, &(Attr){.name = name, .dtype = t, .shape = shape});
        map_put(&f->weights, key, n);
        return n;
    }
    if (old->dtype != t || !shape_eq(&old->shape, &shape)) {
        fail(e, E_SHAPE, "weight: \"%.200s\" is already declared as %s, not %s%s", name,
             node_type_text(e, old), dtype_name(t), shape_text(e, &shape));
    }
    return old;
}

Node *f_const(Front *f, Dtype t, Shape shape, const void *data)
{
    return leaf(f, OP_CONST, &(Attr){.dtype = t, .shape = shape, .value = data});
}

/* Whether an int dtype has exactly this value. */
static bool int_holds(Dtype t, double v)
{
    double limit = ldexp(1, 8 * dtype_bytes(t) - 1);
    return v == floor(v) && v >= -limit && v < limit;
}

Node *f_scalar(Front *f, Dtype t, double v)
{
    DtypeClass class = dtype_class(t);
    if (class == CLASS_BOOL || (class == CLASS_INT && !int_holds(t, v))) {
        fail(env_of(f), E_TYPE, "const: the number %.17g does not fit a tensor of dtype %s", v,
             dtype_name(t));
    }
    int64_t data[1]; /* wide enough for any dtype, and aligned */
    Value value = class == CLASS_FLOAT ? (Value){.f = (float)v} : (Value){.i = (int64_t)v};
    value_store(data, t, 0, value);
    return f_const(f, t, shape_of(0, NULL), data);
}

Node *f_iota(Front *f, Dtype t, Shape shape, int axis)
{
    return leaf(f, OP_IOTA, &(Attr){.dtype = t, .shape = shape, .axis = axis});
}

Node *f_dim(Front *f, Dim d)
{
    if (dim_is_const(d)) {
        return f_const(f, DT_I64, shape_of(0, NULL), &d.k);
    }
    return leaf(f, OP_DIM, &(Attr){.expr = d});
}

/* ---- broadcasting ---------------------------------------- */

/* One axis of the common shape; false where there is none. */
static bool common_dim(Dim x, Dim y, Dim *out)
{
    *out = dim_is(x, 1) ? y : x;
    return dim_eq(x, y) || dim_is(x, 1) || dim_is(y, 1);
}

static Shape common_shape(Front *f, Op op, const Shape *a, const Shape *b)
{
    Shape out = a->rank >= b->rank ? *a : *b;
    for (int i = 1; i <= a->rank && i <= b->rank; i++) {
        Dim x = a->dim[a->rank - i], y = b->dim[b->rank - i];
        if (!common_dim(x, y, &out.dim[out.rank - i])) {
            Env *e = env_of(f);
            fail(e, E_SHAPE,
                 "%s: shapes %s and %s do not broadcast; axis %d has sizes %s and %s",
                 op_info[op].name, shape_text(e, a), shape_text(e, b), -i, dim_text(e, x),
                 dim_text(e, y));
        }
    }
    return out;
}

Node *f_broadcast_to(Front *f, Node *x, Shape shape)
{
    int missing = shape.rank - x->shape.rank;
    if (missing > 0) {
        Shape s = {.rank = shape.rank};
        for (int i = 0; i < s.rank; i++) {
            s.dim[i] = i < missing ? dim_int(1) : x->shape.dim[i - missing];
        }
        x = on_one(f, OP_RESHAPE, x, &(Attr){.shape = s});
    }
    if (shape_eq(&x->shape, &shape)) {
        return x;
    }
    return on_one(f, OP_BROADCAST, x, &(Attr){.shape = shape});
}

/* ---- elementwise ---------------------------------------- */

Node *f_unary(Front *f, Op op, Node *x)
{
    return on_one(f, op, x, NULL);
}

Node *f_binary(Front *f, Op op, Node *a, Node *b)
{
    Shape s = common_shape(f, op, &a->shape, &b->shape);
    Node *in[] = {f_broadcast_to(f, a, s), f_broadcast_to(f, b, s)};
    return node_make(env_of(f), op, in, 2, NULL, 0);
}

Node *f_binary_k(Front *f, Op op, Node *a, double k)
{
    return f_binary(f, op, a, f_scalar(f, a->dtype, k));
}

Node *f_k_binary(Front *f, Op op, double k, Node *b)
{
    return f_binary(f, op, f_scalar(f, b->dtype, k), b);
}

Node *f_where(Front *f, Node *cond, Node *a, Node *b)
{
    Shape s = common_shape(f, OP_WHERE, &a->shape, &b->shape);
    s = common_shape(f, OP_WHERE, &cond->shape, &s);
    Node *in[] = {f_broadcast_to(f, cond, s), f_broadcast_to(f, a, s), f_broadcast_to(f, b, s)};
    return node_make(env_of(f), OP_WHERE, in, 3, NULL, 0);
}

Node *f_cast(Front *f, Node *x, Dtype t)
{
    return x->dtype == t ? x : on_one(f, OP_CAST, x, &(Attr){.dtype = t});
}

/* ---- the rest ---------------------------------------- */

Node *f_reduce(Front *f, Op op, Node *x, int axis)
{
    return on_one(f, op, x, &(Attr){.axis = axis});
}

Node *f_reshape(Front *f, Node *x, Shape shape)
{
    if (shape_eq(&x->shape, &shape)) {
        return x;
    }
    return on_one(f, OP_RESHAPE, x, &(Attr){.shape = shape});
}

Node *f_permute(Front *f, Node *x, int n, const int *perm)
{
    Attr attr = {.n_perm = n};
    for (int i = 0; i < n && i < MAX_RANK; i++) {
        attr.perm[i] = perm[i];
    }
    return on_one(f, OP_PERMUTE, x, &attr);
}

Node *f_slice(Front *f, Node *x, int axis, Dim start, Dim stop)
{
    return on_one(f, OP_SLICE, x, &(Attr){.axis = axis, .start = start, .stop = stop});
}

Node *f_concat(Front *f, Node *const *x, int n, int axis)
{
    return node_make(env_of(f), OP_CONCAT, x, n, &(Attr){.axis = axis}, 0);
}

Node *f_update(Front *f, Node *buffer, Node *value, Shape at)
{
    return node_make(env_of(f), OP_UPDATE, (Node *[]){buffer, value}, 2, &(Attr){.at = at}, 0);
}

Node *f_matmul(Front *f, Node *a, Node *b)
{
    return node_make(env_of(f), OP_MATMUL, (Node *[]){a, b}, 2, NULL, 0);
}

Node *f_gather(Front *f, Node *table, Node *ids)
{
    return node_make(env_of(f), OP_GATHER, (Node *[]){table, ids}, 2, NULL, 0);
}
