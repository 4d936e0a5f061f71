/* eval.c - what each primitive computes: the evaluation column of ops.h, one function each.
 *
 * Together with the scalar table of base this is the definition of meaning. Nothing is
 * reassociated, contracted or skipped: sums run in index order from zero in the operand's own
 * width. Speed comes only from not copying (views) and from choosing the loop once a run, not
 * once an element. spec: graph-ir 4 */
#include "graph/eval_int.h"

#include <math.h>
#include <string.h>

static int64_t size_of(const Call *c, Dim d)
{
    int64_t size;
    Err err;
    if (!dim_eval(c->env, d, c->z, &size, &err)) {
        fail(c->env, err.code, "%s: %.700s", op_info[c->n->op].name, err.text);
    }
    return size;
}

/* A fresh value of the node's inferred type. */
static View new_result(const Call *c)
{
    int64_t dim[MAX_RANK];
    for (int i = 0; i < c->n->shape.rank; i++) {
        dim[i] = size_of(c, c->n->shape.dim[i]);
    }
    return view_new(c->pool, c->n->dtype, c->n->shape.rank, dim);
}

/* The first operand under new dims and strides, which the caller sets. */
static View share(const Call *c)
{
    View v = *c->in[0];
    view_keep(&v);
    return v;
}

/* ---- leaves ------------------------------------------------------------- */

static View eval_leaf(const Call *c)
{
    const void *data =
        c->given->data ? c->given->data : ""; /* an empty argument may have none */
    return view_of(c->given->dtype, c->given->rank, c->given->dim, data);
}

static View eval_constant(const Call *c)
{
    int64_t dim[MAX_RANK];
    for (int i = 0; i < c->n->shape.rank; i++) {
        dim[i] = c->n->shape.dim[i].k;
    }
    return view_of(c->n->dtype, c->n->shape.rank, dim, c->n->attr.value);
}

static View eval_iota(const Call *c)
{
    View out = new_result(c);
    int64_t axis = axis_of(c->env, c->n, out.rank);
    int64_t inner = 1, total = 1;
    for (int i = 0; i < out.rank; i++) {
        inner *= i > axis ? out.dim[i] : 1;
        total *= out.dim[i];
    }
    for (int64_t i = 0; i < total; i++) {
        Value index = {.i = i / inner % out.dim[axis]};
        value_store(out.at, out.dtype, i, scalar_cast(index, DT_I64, out.dtype));
    }
    return out;
}

static View eval_dim(const Call *c)
{
    View out = new_result(c);
    value_store(out.at, DT_I64, 0, (Value){.i = size_of(c, c->n->attr.expr)});
    return out;
}

/* ---- elementwise -------------------------------------------------------- */

/* The f32 column of base's scalar table as loops: graphs spend their elementwise time here.
 * A test holds each row against scalar_eval, bit for bit. */
#define F32_LOOPS(X)        \
    X(ADD, a + b)           \
    X(SUB, a - b)           \
    X(MUL, a *b)            \
    X(DIV, a / b)           \
    X(NEG, -a)              \
    X(EXP, expf(a))         \
    X(SQRT, sqrtf(a))       \
    X(RECIPROCAL, 1.0f / a) \
    X(SIN, sinf(a))         \
    X(COS, cosf(a))

typedef void (*Loop)(const Walk *w);

#define X(id, expr)                                                \
    static void f32_##id(const Walk *w)                            \
    {                                                              \
        for (int64_t i = 0; i < w->n; i++) {                       \
            float a = *(const float *)(w->at[1] + i * w->step[1]); \
            float b = *(const float *)(w->at[2] + i * w->step[2]); \
            (void)b;                                               \
            *(float *)(w->at[0] + i * w->step[0]) = expr;          \
        }                                                          \
    }
F32_LOOPS(X)
#undef X

static const Loop f32_loop[N_SCALAR_OPS] = {
#define X(id, expr) [S_##id] = f32_##id,
    F32_LOOPS(X)
#undef X
};

static void any_loop(const Walk *w, ScalarOp op, Dtype to, Dtype from)
{
    for (int64_t i = 0; i < w->n; i++) {
        Value a = value_load(w->at[1] + i * w->step[1], from, 0);
        Value b = value_load(w->at[2] + i * w->step[2], from, 0);
        value_store(w->at[0] + i * w->step[0], to, 0, scalar_eval(op, from, a, b));
    }
}

static View eval_scalar(const Call *c)
{
    View out = new_result(c);
    ScalarOp op = (ScalarOp)op_info[c->n->op].scalar;
    Dtype from = c->in[0]->dtype;
    Loop loop = from == DT_F32 ? f32_loop[op] : NULL;
    Walk w;
    walk_init(&w, 3, (const View *const[]){&out, c->in[0], c->in[c->n->n_in - 1]});
    while (walk_next(&w)) {
        if (loop) {
            loop(&w);
        } else {
            any_loop(&w, op, out.dtype, from);
        }
    }
    return out;
}

static View eval_where(const Call *c)
{
    View out = new_result(c);
    size_t bytes = (size_t)dtype_bytes(out.dtype);
    Walk w;
    walk_init(&w, 4, (const View *const[]){&out, c->in[0], c->in[1], c->in[2]});
    while (walk_next(&w)) {
        for (int64_t i = 0; i < w.n; i++) {
            int chosen = w.at[1][i * w.step[1]] ? 2 : 3;
            memcpy(w.at[0] + i * w.step[0], w.at[chosen] + i * w.step[chosen], bytes);
        }
    }
    return out;
}

static View eval_cast(const Call *c)
{
    View out = new_result(c);
    Dtype from = c->in[0]->dtype;
    Walk w;
    walk_init(&w, 2, (const View *const[]){&out, c->in[0]});
    while (walk_next(&w)) {
        for (int64_t i = 0; i < w.n; i++) {
            Value v = value_load(w.at[1] + i * w.step[1], from, 0);
            value_store(w.at[0] + i * w.step[0], out.dtype, 0, scalar_cast(v, from, out.dtype));
        }
    }
    return out;
}

/* ---- reductions --------------------------------------------------------- */

/* n elements from p on, step bytes apart, to one. */
typedef Value (*Reduce)(const char *p, int64_t n, int64_t step, Dtype t);

static Value sum_f32(const char *p, int64_t n, int64_t step, Dtype t)
{
    (void)t;
    float acc = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        acc += *(const float *)(p + i * step);
    }
    return (Value){.f = acc};
}

static Value sum_int(const char *p, int64_t n, int64_t step, Dtype t)
{
    Value acc = {.i = 0};
    for (int64_t i = 0; i < n; i++) {
        acc = scalar_eval(S_ADD, t, acc, value_load(p + i * step, t, 0));
    }
    return acc;
}

/* NaN propagates: it is taken when it comes, and nothing but another NaN replaces it. */
static Value max_f32(const char *p, int64_t n, int64_t step, Dtype t)
{
    (void)t;
    float acc = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        float v = *(const float *)(p + i * step);
        if (acc < v || v != v) {
            acc = v;
        }
    }
    return (Value){.f = acc};
}

static Value max_int(const char *p, int64_t n, int64_t step, Dtype t)
{
    Value acc = {.i = INT64_MIN >> (64 - 8 * dtype_bytes(t))};
    for (int64_t i = 0; i < n; i++) {
        Value v = value_load(p + i * step, t, 0);
        acc = acc.i < v.i ? v : acc;
    }
    return acc;
}

static View reduce(const Call *c, Reduce reduce_run)
{
    View out = new_result(c);
    View first = *c->in[0]; /* the first element of each row */
    int64_t axis = axis_of(c->env, c->n, first.rank);
    int64_t n = first.dim[axis], step = first.stride[axis];
    first.dim[axis] = 1;
    Walk w;
    walk_init(&w, 2, (const View *const[]){&out, &first});
    while (walk_next(&w)) {
        for (int64_t i = 0; i < w.n; i++) {
            Value v = reduce_run(w.at[1] + i * w.step[1], n, step, out.dtype);
            value_store(w.at[0] + i * w.step[0], out.dtype, 0, v);
        }
    }
    return out;
}

static View eval_reduce_sum(const Call *c)
{
    return reduce(c, c->n->dtype == DT_F32 ? sum_f32 : sum_int);
}

static View eval_reduce_max(const Call *c)
{
    return reduce(c, c->n->dtype == DT_F32 ? max_f32 : max_int);
}

/* ---- movement ----------------------------------------------------------- */

static View eval_reshape(const Call *c)
{
    View base = view_contiguous(c->in[0]) ? share(c) : view_copy(c->pool, c->in[0]);
    int64_t dim[MAX_RANK];
    for (int i = 0; i < c->n->shape.rank; i++) {
        dim[i] = size_of(c, c->n->shape.dim[i]);
    }
    View out = view_of(base.dtype, c->n->shape.rank, dim, base.at);
    out.chunk = base.chunk;
    return out;
}

static View eval_permute(const Call *c)
{
    View out = share(c);
    for (int i = 0; i < out.rank; i++) {
        out.dim[i] = c->in[0]->dim[c->n->attr.perm[i]];
        out.stride[i] = c->in[0]->stride[c->n->attr.perm[i]];
    }
    return out;
}

static View eval_broadcast(const Call *c)
{
    View out = share(c);
    for (int i = 0; i < out.rank; i++) {
        int64_t size = size_of(c, c->n->shape.dim[i]);
        out.stride[i] = size == out.dim[i] ? out.stride[i] : 0;
        out.dim[i] = size;
    }
    return out;
}

static View eval_slice(const Call *c)
{
    const Attr *attr = &c->n->attr;
    int64_t axis = axis_of(c->env, c->n, c->in[0]->rank);
    int64_t start = size_of(c, attr->start), stop = size_of(c, attr->stop);
    int64_t size = c->in[0]->dim[axis];
    if (start < 0 || stop < start || size < stop) {
        fail(c->env, E_RANGE,
             "slice: %lld..%lld is out of bounds of axis %lld, of size %lld (node %%%d).",
             (long long)start, (long long)stop, (long long)axis, (long long)size, c->n->id);
    }
    View out = share(c);
    out.dim[axis] = stop - start;
    out.at += start * out.stride[axis];
    return out;
}

static View eval_concat(const Call *c)
{
    View out = new_result(c);
    int64_t axis = axis_of(c->env, c->n, out.rank);
    View part = out;
    for (int i = 0; i < c->n->n_in; i++) {
        part.dim[axis] = c->in[i]->dim[axis];
        view_fill(&part, c->in[i]);
        part.at += part.dim[axis] * part.stride[axis];
    }
    return out;
}

static View eval_update(const Call *c)
{
    View out = view_copy(c->pool, c->in[0]);
    View part = out;
    for (int i = 0; i < out.rank; i++) {
        int64_t start = size_of(c, c->n->attr.at.dim[i]), size = c->in[1]->dim[i];
        if (start < 0 || start > out.dim[i] - size) {
            fail(c->env, E_RANGE,
                 "update: %lld..%lld is out of bounds of axis %d, of size %lld (node %%%d).",
                 (long long)start, (long long)(start + size), i, (long long)out.dim[i],
                 c->n->id);
        }
        part.dim[i] = size;
        part.at += start * part.stride[i];
    }
    view_fill(&part, c->in[1]);
    return out;
}

/* ---- gather ------------------------------------------------------------- */

static int64_t checked_index(const Call *c, const char *id)
{
    int64_t index = value_load(id, c->in[1]->dtype, 0).i;
    int64_t rows = c->in[0]->dim[0];
    if (index < 0 || index >= rows) {
        fail(c->env, E_RANGE, "gather: the index %lld is outside 0..%lld (node %%%d).",
             (long long)index, (long long)rows - 1, c->n->id);
    }
    return index;
}

static View eval_gather(const Call *c)
{
    View out = new_result(c);
    const View *table = c->in[0], *ids = c->in[1];
    View row = view_of(table->dtype, table->rank - 1, table->dim + 1, NULL), place = row;
    memcpy(row.stride, table->stride + 1, sizeof *row.stride * (size_t)row.rank);
    View places = out; /* where each id's row goes */
    places.rank = ids->rank;
    Walk w;
    walk_init(&w, 2, (const View *const[]){&places, ids});
    while (walk_next(&w)) {
        for (int64_t i = 0; i < w.n; i++) {
            int64_t index = checked_index(c, w.at[1] + i * w.step[1]);
            row.at = table->at + index * table->stride[0];
            place.at = w.at[0] + i * w.step[0];
            view_fill(&place, &row);
        }
    }
    return out;
}

/* ---- the table ---------------------------------------------------------- */

View eval_node(const Call *c)
{
    static View (*const evaluation[N_OPS])(const Call *) = {
#define X(id, name, family, arity, dtype, shape, attrs, eval, scalar, meaning) \
    [OP_##id] = eval_##eval,
        GRAPH_OPS(X)
#undef X
    };
    return evaluation[c->n->op](c);
}
