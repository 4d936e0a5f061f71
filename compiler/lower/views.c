/* views.c - strided windows on buffers: how reshape, permute, broadcast and slice cost nothing.
 * spec: loop-ir 2 */
#include "lower/lower_int.h"

void row_major(Env *e, const Shape *s, Dim stride[MAX_RANK])
{
    Dim step = dim_int(1);
    for (int i = s->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step = dim_mul(e, step, s->dim[i]);
    }
}

View view_whole(Env *e, int buffer, const Shape *s)
{
    View v = {.buffer = buffer, .shape = *s, .offset = dim_int(0), .version = -1};
    row_major(e, s, v.stride);
    return v;
}

bool view_row_major(Env *e, const View *v)
{
    Dim want[MAX_RANK];
    row_major(e, &v->shape, want);
    for (int i = 0; i < v->shape.rank; i++) {
        if (!dim_is(v->shape.dim[i], 1) && !dim_eq(v->stride[i], want[i])) {
            return false;
        }
    }
    return true;
}

bool view_eq(const View *a, const View *b)
{
    if (a->buffer != b->buffer || !shape_eq(&a->shape, &b->shape) ||
        !dim_eq(a->offset, b->offset)) {
        return false;
    }
    for (int i = 0; i < a->shape.rank; i++) {
        if (!dim_eq(a->stride[i], b->stride[i])) {
            return false;
        }
    }
    return true;
}

static bool reshaped(Env *e, const Node *n, const View *in, View *out)
{
    if (!view_row_major(e, in)) {
        return false;
    }
    row_major(e, &n->shape, out->stride);
    return true;
}

static bool permuted(Env *e, const Node *n, const View *in, View *out)
{
    (void)e;
    for (int i = 0; i < n->shape.rank; i++) {
        out->stride[i] = in->stride[n->attr.perm[i]];
    }
    return true;
}

static bool broadcasted(Env *e, const Node *n, const View *in, View *out)
{
    (void)e;
    for (int i = 0; i < n->shape.rank; i++) {
        bool stretched = dim_is(in->shape.dim[i], 1) && !dim_is(n->shape.dim[i], 1);
        out->stride[i] = stretched ? dim_int(0) : in->stride[i];
    }
    return true;
}

static bool sliced(Env *e, const Node *n, const View *in, View *out)
{
    int axis = axis_of(e, n, n->shape.rank);
    for (int i = 0; i < n->shape.rank; i++) {
        out->stride[i] = in->stride[i];
    }
    out->offset = dim_add(e, in->offset, dim_mul(e, n->attr.start, in->stride[axis]));
    return true;
}

View view_through(Env *e, const Node *n, const View *in)
{
    static bool (*const through[N_OPS])(Env *, const Node *, const View *,
                                        View *) = {[OP_RESHAPE] = reshaped,
                                                   [OP_PERMUTE] = permuted,
                                                   [OP_BROADCAST] = broadcasted,
                                                   [OP_SLICE] = sliced};
    View out = {
        .buffer = in->buffer, .shape = n->shape, .offset = in->offset, .version = in->version};
    if (in->buffer < 0 || !through[n->op] || !through[n->op](e, n, in, &out)) {
        out.buffer = -1;
    }
    return out;
}

Dim view_distinct(Env *e, const View *v)
{
    Dim count = dim_int(1);
    for (int i = 0; i < v->shape.rank; i++) {
        if (!dim_is(v->stride[i], 0)) {
            count = dim_mul(e, count, v->shape.dim[i]);
        }
    }
    return count;
}

Dim view_span(Env *e, const View *v)
{
    Dim span = dim_int(1);
    for (int i = 0; i < v->shape.rank; i++) {
        if (dim_is(v->shape.dim[i], 0)) {
            return dim_int(0);
        }
        span = dim_add(e, span, dim_mul(e, dim_addk(e, v->shape.dim[i], -1), v->stride[i]));
    }
    return span;
}
