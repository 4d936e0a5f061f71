/* compose.c - the composites a transformer is made of, each an exact sequence of primitives.
 *
 * The order of operations is part of the contract, down to the last bit of an f32: the mean is
 * a sum and then a division, epsilon goes inside the root, gains come last. In the comments B()
 * is the implicit reshape and broadcast of frontend.c. spec: graph-ir 8 */
#include "graph/graph.h"

#include <math.h>

static Env *env_of(const Front *f)
{
    return f->g->env;
}

/* The size of the last axis, which must be a plain positive number. */
static int64_t last_dim(Front *f, const char *who, const Node *x)
{
    Dim d = x->shape.rank ? x->shape.dim[x->shape.rank - 1] : dim_int(0);
    if (!dim_is_const(d) || d.k <= 0) {
        fail(env_of(f), E_SHAPE, "%s: the last axis of %s must have a plain positive size", who,
             node_type_text(env_of(f), x));
    }
    return d.k;
}

static Node *swap_last_two(Front *f, Node *x)
{
    int rank = x->shape.rank, perm[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    }
    return f_permute(f, x, rank, perm);
}

/* matmul(x, W^T), add(.., B(bias)) */
Node *c_linear(Front *f, Node *x, Node *w, Node *bias)
{
    Node *y = f_matmul(f, x, swap_last_two(f, w));
    return bias ? f_binary(f, OP_ADD, y, bias) : y;
}

/* mul(mul(x, B(reciprocal(sqrt(add(div(reduce_sum(mul(x, x)), B(n)), B(eps)))))), B(gain)) */
Node *c_rms_norm(Front *f, Node *x, Node *gain, float eps)
{
    double n = (double)last_dim(f, "rms_norm", x);
    Node *sum = f_reduce(f, OP_REDUCE_SUM, f_binary(f, OP_MUL, x, x), -1);
    Node *mean = f_binary_k(f, OP_DIV, sum, n);
    Node *root = f_unary(f, OP_SQRT, f_binary_k(f, OP_ADD, mean, (double)eps));
    Node *y = f_binary(f, OP_MUL, x, f_unary(f, OP_RECIPROCAL, root));
    return f_binary(f, OP_MUL, y, gain);
}

/* x >= 0: 1 / (1 + e), else e / (1 + e), with e = exp(-|x|), which cannot overflow. */
Node *c_sigmoid(Front *f, Node *x)
{
    Node *positive = f_k_binary(f, OP_LESS_EQUAL, 0, x);
    Node *minus_abs = f_where(f, positive, f_unary(f, OP_NEG, x), x);
    Node *power = f_unary(f, OP_EXP, minus_abs);
    Node *top = f_where(f, positive, f_scalar(f, power->dtype, 1), power);
    return f_binary(f, OP_DIV, top, f_binary_k(f, OP_ADD, power, 1));
}

Node *c_silu(Front *f, Node *x)
{
    return f_binary(f, OP_MUL, x, c_sigmoid(f, x));
}

/* Along the last axis. A row of -inf alone gives NaN; under a causal mask there is none. */
Node *c_softmax(Front *f, Node *x)
{
    Node *max = f_reduce(f, OP_REDUCE_MAX, x, -1);
    Node *power = f_unary(f, OP_EXP, f_binary(f, OP_SUB, x, max));
    return f_binary(f, OP_DIV, power, f_reduce(f, OP_REDUCE_SUM, power, -1));
}

/* ---- rotary position embedding ---------------------------------------- */

/* All in f32: doubles would change the angles by more than the last bit. */
Node *c_rope_inverse(Front *f, int head_dim, double theta)
{
    Env *e = env_of(f);
    if (head_dim <= 0 || head_dim % 2) {
        fail(e, E_SHAPE, "rope: head size %d must be positive and even", head_dim);
    }
    int half = head_dim / 2;
    float *inverse = arena_array(&e->kernel, float, half);
    for (int i = 0; i < half; i++) {
        float exponent = (float)(2 * i) / (float)head_dim;
        inverse[i] = 1.0f / powf((float)theta, exponent);
    }
    return f_const(f, DT_F32, shape_of(1, (Dim[]){dim_int(half)}), inverse);
}

/* Angles are doubled, not interleaved: axis i and axis i + d/2 share one. */
void c_rope_tables(Front *f, Node *inverse, Dim seq, Dim past, Node **cos, Node **sin)
{
    Node *row = f_iota(f, DT_I64, shape_of(1, &seq), 0);
    Node *position = f_binary(f, OP_ADD, row, f_dim(f, past));
    Node *column =
        f_reshape(f, f_cast(f, position, DT_F32), shape_of(2, (Dim[]){seq, dim_int(1)}));
    Node *rates =
        f_reshape(f, inverse, shape_of(2, (Dim[]){dim_int(1), inverse->shape.dim[0]}));
    Node *angle = f_binary(f, OP_MUL, column, rates);
    Node *doubled = f_concat(f, (Node *[]){angle, angle}, 2, -1);
    *cos = f_unary(f, OP_COS, doubled);
    *sin = f_unary(f, OP_SIN, doubled);
}

Node *c_rotate_half(Front *f, Node *x)
{
    int64_t d = last_dim(f, "rotate_half", x);
    if (d % 2) {
        fail(env_of(f), E_SHAPE, "rotate_half: the last axis of %s must have an even size",
             node_type_text(env_of(f), x));
    }
    Node *upper = f_slice(f, x, -1, dim_int(d / 2), dim_int(d));
    Node *lower = f_slice(f, x, -1, dim_int(0), dim_int(d / 2));
    return f_concat(f, (Node *[]){f_unary(f, OP_NEG, upper), lower}, 2, -1);
}

Node *c_rope(Front *f, Node *x, Node *cos, Node *sin)
{
    Node *straight = f_binary(f, OP_MUL, x, cos);
    Node *turned = f_binary(f, OP_MUL, c_rotate_half(f, x), sin);
    return f_binary(f, OP_ADD, straight, turned);
}

/* ---- attention ---------------------------------------- */

/* Each head of x[kv, s, d] groups times in a row: query head h reads head h / groups. */
Node *c_repeat_kv(Front *f, Node *x, int groups)
{
    if (x->shape.rank != 3 || groups < 1) {
        fail(env_of(f), E_SHAPE, "repeat_kv: cannot repeat the heads of %s %d times",
             node_type_text(env_of(f), x), groups);
    }
    if (groups == 1) {
        return x;
    }
    Dim kv = x->shape.dim[0], s = x->shape.dim[1], d = x->shape.dim[2];
    Node *y = f_reshape(f, x, shape_of(4, (Dim[]){kv, dim_int(1), s, d}));
    y = f_broadcast_to(f, y, shape_of(4, (Dim[]){kv, dim_int(groups), s, d}));
    return f_reshape(f, y, shape_of(3, (Dim[]){dim_mulk(env_of(f), kv, groups), s, d}));
}

/* [seq, past + seq]: 0 where the column is at most the row's position, else -inf. */
Node *c_causal_mask(Front *f, Dim seq, Dim past)
{
    Shape shape = shape_of(2, (Dim[]){seq, dim_add(env_of(f), past, seq)});
    Node *row = f_iota(f, DT_I64, shape, 0);
    Node *column = f_iota(f, DT_I64, shape, 1);
    Node *position = f_binary(f, OP_ADD, row, f_dim(f, past));
    Node *allowed = f_binary(f, OP_LESS_EQUAL, column, position);
    return f_where(f, allowed, f_scalar(f, DT_F32, 0), f_scalar(f, DT_F32, -(double)INFINITY));
}
