/* reindex.c - where an element of a movement's result comes from: index lists through
 * reshape, permute, broadcast and slice, and which of update's operands one comes from.
 * Concat is the generator's. spec: loop-ir 6 */
#include "lower/lower_int.h"

#define PROBE 1000003 /* stands for a symbol when two products are compared by size */

/* A dim's size at a probe binding: only to decide which side of a reshape group is shorter. */
static long double probe(Dim d)
{
    long double sum = dim_is_const(d) ? (long double)d.k : 0;
    for (int i = 0; i < d.n; i++) {
        long double product = (long double)d.term[i].coef;
        for (int s = 0; s < d.term[i].degree; s++) {
            product *= PROBE + d.term[i].sym[s];
        }
        sum += product;
    }
    return sum;
}

typedef struct Side { /* one side of a reshape: its axes from..to-1 make up the current group */
    const Shape *s;
    int from, to;
    Dim product;
} Side;

static bool side_skip_ones(Side *x)
{
    while (x->to < x->s->rank && dim_is(x->s->dim[x->to], 1)) {
        x->to++;
    }
    return x->to < x->s->rank;
}

static void side_extend(Env *e, Side *x)
{
    x->product = dim_mul(e, x->product, x->s->dim[x->to]);
    x->to++;
}

static void side_open(Side *x)
{
    side_skip_ones(x);
    x->from = x->to;
    x->product = dim_int(1);
}

/* Row-major position within the output's group, innermost axis first. */
static const Expr *flatten(Env *e, Arena *m, const Side *out, const Expr *const *index)
{
    const Expr *flat = x_int(m, 0);
    Dim stride = dim_int(1);
    for (int i = out->to - 1; i >= out->from; i--) {
        flat = x_op(m, S_ADD, x_op(m, S_MUL, index[i], dim_expr(m, stride)), flat);
        stride = dim_mul(e, stride, out->s->dim[i]);
    }
    return flat;
}

static void unflatten(Env *e, Arena *m, const Side *in, const Expr *flat, const Expr **index)
{
    Dim stride = dim_int(1);
    bool empty = dim_is(in->product, 0); /* nothing is ever read: do not divide by zero */
    for (int i = in->to - 1; i >= in->from; i--) {
        const Expr *x = x_op(m, S_IDIV, flat, empty ? x_int(m, 1) : dim_expr(m, stride));
        bool first = true;
        for (int k = in->from; k < i; k++) {
            first = first && dim_is(in->s->dim[k], 1);
        }
        bool one = dim_is(in->s->dim[i], 1);
        index[i] = one              ? x_int(m, 0)
                   : first || empty ? x
                                    : x_op(m, S_MOD, x, dim_expr(m, in->s->dim[i]));
        stride = dim_mul(e, stride, in->s->dim[i]);
    }
}

static int n_real_axes(const Side *x)
{
    int n = 0;
    for (int i = x->from; i < x->to; i++) {
        n += !dim_is(x->s->dim[i], 1);
    }
    return n;
}

static void map_group(Env *e, Arena *m, const Side *in, const Side *out,
                      const Expr *const *from, const Expr **to)
{
    const Expr *flat = NULL;
    if (n_real_axes(in) == 1 && n_real_axes(out) == 1) { /* the same axis under another place */
        for (int i = out->from; i < out->to; i++) {
            flat = dim_is(out->s->dim[i], 1) ? flat : from[i];
        }
        for (int i = in->from; i < in->to; i++) {
            to[i] = dim_is(in->s->dim[i], 1) ? x_int(m, 0) : flat;
        }
        return;
    }
    unflatten(e, m, in, flatten(e, m, out, from), to);
}

void reindex_reshape(Env *e, Arena *m, const Shape *in, const Shape *out,
                     const Expr *const *from, const Expr **to)
{
    Side a = {.s = in}, b = {.s = out};
    for (int i = 0; i < in->rank; i++) {
        to[i] = x_int(m, 0);
    }
    for (;;) {
        side_open(&a);
        side_open(&b);
        if (a.to == in->rank && b.to == out->rank) {
            return;
        }
        do { /* extend the shorter side until both products are equal */
            bool more_a = side_skip_ones(&a), more_b = side_skip_ones(&b);
            if (more_a && (!more_b || probe(a.product) <= probe(b.product))) {
                side_extend(e, &a);
            } else if (more_b) {
                side_extend(e, &b);
            } else {
                break; /* both are used up: zero-sized axes left over */
            }
        } while (!dim_eq(a.product, b.product) || a.from == a.to || b.from == b.to);
        map_group(e, m, &a, &b, from, to);
    }
}

static void reindex_permute(Env *e, Arena *m, const Node *n, const Expr *const *from,
                            const Expr **to)
{
    (void)e, (void)m;
    for (int i = 0; i < n->shape.rank; i++) {
        to[n->attr.perm[i]] = from[i];
    }
}

static void reindex_broadcast(Env *e, Arena *m, const Node *n, const Expr *const *from,
                              const Expr **to)
{
    (void)e;
    for (int i = 0; i < n->shape.rank; i++) {
        bool stretched = dim_is(n->in[0]->shape.dim[i], 1);
        to[i] = stretched ? x_int(m, 0) : from[i];
    }
}

static void reindex_slice(Env *e, Arena *m, const Node *n, const Expr *const *from,
                          const Expr **to)
{
    int axis = axis_of(e, n, n->shape.rank);
    for (int i = 0; i < n->shape.rank; i++) {
        to[i] = i == axis ? x_op(m, S_ADD, from[i], dim_expr(m, n->attr.start)) : from[i];
    }
}

static const Expr *either(Arena *m, const Expr *a, const Expr *b)
{
    return a ? x_op(m, S_OR, a, b) : b;
}

const Expr *reindex_update(Env *e, Arena *m, const Node *n, const Expr *const *from,
                           const Expr **to)
{
    const Expr *outside = NULL;
    for (int i = 0; i < n->shape.rank; i++) {
        Dim start = n->attr.at.dim[i], stop = dim_add(e, start, n->in[1]->shape.dim[i]);
        if (!dim_is(start, 0)) {
            outside = either(m, outside, x_op(m, S_LT, from[i], dim_expr(m, start)));
        }
        if (!dim_eq(stop, n->shape.dim[i])) {
            outside = either(m, outside, x_op(m, S_LE, dim_expr(m, stop), from[i]));
        }
        to[i] = x_op(m, S_SUB, from[i], dim_expr(m, start));
    }
    return outside;
}

static void reindex_through_reshape(Env *e, Arena *m, const Node *n, const Expr *const *from,
                                    const Expr **to)
{
    reindex_reshape(e, m, &n->in[0]->shape, &n->shape, from, to);
}

void reindex(Env *e, Arena *m, const Node *n, const Expr *const *from, const Expr **to)
{
    static void (*const by_op[N_OPS])(Env *, Arena *, const Node *, const Expr *const *,
                                      const Expr **) = {[OP_RESHAPE] = reindex_through_reshape,
                                                        [OP_PERMUTE] = reindex_permute,
                                                        [OP_BROADCAST] = reindex_broadcast,
                                                        [OP_SLICE] = reindex_slice};
    check(by_op[n->op]);
    by_op[n->op](e, m, n, from, to);
}

void reindex_back(Env *e, Arena *m, const Node *n, const Expr *const *from, const Expr **to)
{
    if (n->op == OP_RESHAPE) {
        reindex_reshape(e, m, &n->shape, &n->in[0]->shape, from, to);
        return;
    }
    check(n->op == OP_PERMUTE);
    for (int i = 0; i < n->shape.rank; i++) {
        to[i] = from[n->attr.perm[i]];
    }
}
