/* graph_compose.c - the composites as exact sequences of primitives: order, number and operand
 * sides are part of what the model computes, to the last bit. spec: graph-ir 8 */
#include "graph_util.h"

#include <math.h>

static void assert_ops(World *w, Node *out, const char *ops, const char *type)
{
    cr_expect_str_eq(type_of(&w->f, out), type);
    cr_expect_str_eq(ops_of(finished(&w->f, out)), ops);
    world_release(w);
}

Test(graph_compose, linear)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[seq, 4]");
    Node *weight = f_weight(&w.f, "w", DT_F32, shape_from(&w.e, "[6, 4]"));
    assert_ops(&w, c_linear(&w.f, x, weight, NULL), "permute matmul", "f32[seq, 6]");
}

Test(graph_compose, linear_with_bias)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[seq, 4]");
    Node *weight = f_weight(&w.f, "w", DT_F32, shape_from(&w.e, "[6, 4]"));
    Node *bias = f_weight(&w.f, "b", DT_F32, shape_from(&w.e, "[6]"));
    assert_ops(&w, c_linear(&w.f, x, weight, bias), "permute matmul reshape broadcast add",
               "f32[seq, 6]");
}

Test(graph_compose, linear_of_batches_swaps_the_last_two_axes)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[2, 3, seq, 4]"), *weight = operand(&w.f, "f32[2, 3, 6, 4]");
    Node *y = c_linear(&w.f, x, weight, NULL);
    cr_assert_str_eq(type_of(&w.f, y->in[1]), "f32[2, 3, 4, 6]");
    world_release(&w);
}

Test(graph_compose, rms_norm)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[seq, 16]");
    Node *gain = f_weight(&w.f, "g", DT_F32, shape_from(&w.e, "[16]"));
    Node *y = c_rms_norm(&w.f, x, gain, 1e-6f);
    cr_assert_eq(y->in[0]->in[0], x, "normalised first, with x on the left");
    assert_ops(&w, y,
               "mul reduce_sum const reshape broadcast div const reshape broadcast add "
               "sqrt reciprocal broadcast mul reshape broadcast mul",
               "f32[seq, 16]");
}

Test(graph_compose, rms_norm_divides_by_the_size_and_adds_epsilon_in_f32)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[16]");
    Graph *g = finished(&w.f, c_rms_norm(&w.f, x, operand(&w.f, "f32[16]"), 1e-5f));
    float constant[2];
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        if (g->nodes.at[i]->op == OP_CONST) {
            constant[n++] = *(const float *)g->nodes.at[i]->attr.value;
        }
    }
    cr_assert_eq(n, 2);
    cr_assert_eq(constant[0], 16.0f);
    cr_assert_eq(constant[1], 1e-5f);
    world_release(&w);
}

#define SIGMOID                                                                       \
    "const reshape broadcast less_equal const reshape broadcast neg where exp where " \
    "const reshape broadcast add div"

Test(graph_compose, sigmoid)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[seq, 4]");
    Node *y = c_sigmoid(&w.f, x);
    const Node *top = y->in[0], *below = y->in[1];
    cr_assert_eq(top->in[0]->in[1], x, "0 <= x");
    cr_assert_eq(top->in[2], below->in[0], "one exp serves both");
    assert_ops(&w, y, SIGMOID, "f32[seq, 4]");
}

Test(graph_compose, silu)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[seq, 4]");
    Node *y = c_silu(&w.f, x);
    cr_assert_eq(y->in[0], x);
    assert_ops(&w, y, SIGMOID " mul", "f32[seq, 4]");
}

Test(graph_compose, softmax)
{
    World w;
    world_init(&w);
    assert_ops(&w, c_softmax(&w.f, operand(&w.f, "f32[2, seq, past]")),
               "reduce_max broadcast sub exp reduce_sum broadcast div", "f32[2, seq, past]");
}

Test(graph_compose, rope_inverse_is_computed_in_f32)
{
    World w;
    world_init(&w);
    Node *inverse = c_rope_inverse(&w.f, 64, 1000000);
    const float *at = inverse->attr.value;
    cr_assert_str_eq(type_of(&w.f, inverse), "f32[32]");
    cr_assert_eq(at[0], 1.0f);
    for (int i = 1; i < 32; i++) {
        float exponent = (float)(2 * i) / 64.0f;
        cr_expect_eq(at[i], 1.0f / powf(1e6f, exponent), "%d", i);
        cr_expect_lt(fabs(at[i] * pow(1e6, 2.0 * i / 64) - 1), 4e-7, "%d", i);
    }
    world_release(&w);
}

Test(graph_compose, rope_tables)
{
    World w;
    world_init(&w);
    operand(&w.f, "f32[seq, past]");
    Node *cos, *sin;
    c_rope_tables(&w.f, c_rope_inverse(&w.f, 8, 1e4), dim_named(&w.e, "seq"),
                  dim_named(&w.e, "past"), &cos, &sin);
    cr_assert_eq(cos->in[0], sin->in[0], "the angles are shared");
    cr_assert_eq(cos->in[0]->in[0], cos->in[0]->in[1], "doubled, not interleaved");
    graph_output(w.f.g, "cos", cos);
    assert_ops(&w, sin,
               "iota dim reshape broadcast add cast reshape broadcast const reshape broadcast "
               "mul concat cos sin",
               "f32[seq, 8]");
}

Test(graph_compose, rotate_half)
{
    World w;
    world_init(&w);
    Node *y = c_rotate_half(&w.f, operand(&w.f, "f32[2, seq, 8]"));
    cr_assert(dim_is(y->in[0]->in[0]->attr.start, 4), "the upper half is negated and in front");
    cr_assert(dim_is(y->in[1]->attr.start, 0));
    assert_ops(&w, y, "slice neg slice concat", "f32[2, seq, 8]");
}

Test(graph_compose, rope)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[2, seq, 8]");
    Node *cos = operand(&w.f, "f32[seq, 8]"), *sin = operand(&w.f, "f32[seq, 8]");
    assert_ops(&w, c_rope(&w.f, x, cos, sin),
               "reshape broadcast mul slice neg slice concat reshape broadcast mul add",
               "f32[2, seq, 8]");
}

Test(graph_compose, repeat_kv)
{
    World w;
    world_init(&w);
    Node *y = c_repeat_kv(&w.f, operand(&w.f, "f32[2, past + seq, 8]"), 7);
    operand(&w.f, "f32[past, seq]");
    cr_assert_str_eq(type_of(&w.f, y->in[0]), "f32[2, 7, past + seq, 8]");
    assert_ops(&w, y, "reshape broadcast reshape", "f32[14, past + seq, 8]");
}

Test(graph_compose, repeat_kv_once_is_nothing)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[2, seq, 8]");
    cr_assert_eq(c_repeat_kv(&w.f, x, 1), x);
    world_release(&w);
}

Test(graph_compose, causal_mask)
{
    World w;
    world_init(&w);
    operand(&w.f, "f32[seq, past]");
    Node *y = c_causal_mask(&w.f, dim_named(&w.e, "seq"), dim_named(&w.e, "past"));
    cr_assert_eq(y->in[0]->in[0]->attr.axis, 1, "columns <= rows + past");
    cr_assert_eq(y->in[0]->in[1]->in[0]->attr.axis, 0);
    assert_ops(&w, y,
               "iota iota dim reshape broadcast add less_equal const reshape broadcast "
               "const reshape broadcast where",
               "f32[seq, past + seq]");
}

/* ---- what is refused ---------------------------------------- */

/* clang-format off */
#define R(name, code, message, ...) REJECTS(graph_compose, name, code, message, __VA_ARGS__)

R(rms_norm_of_an_unknown_size, E_SHAPE,
  "rms_norm: the last axis of f32[4, seq] must have a plain positive size",
  c_rms_norm(f, operand(f, "f32[4, seq]"), operand(f, "f32[4]"), 1e-6f))
R(rms_norm_of_a_scalar, E_SHAPE,
  "rms_norm: the last axis of f32[] must have a plain positive size",
  c_rms_norm(f, operand(f, "f32[]"), operand(f, "f32[]"), 1e-6f))
R(rotate_half_of_an_odd_size, E_SHAPE,
  "rotate_half: the last axis of f32[2, 3] must have an even size",
  c_rotate_half(f, operand(f, "f32[2, 3]")))
R(rope_of_an_odd_size, E_SHAPE, "rope: head size 7 must be positive and even",
  c_rope_inverse(f, 7, 1e4))
R(repeat_kv_of_another_rank, E_SHAPE, "repeat_kv: cannot repeat the heads of f32[2, 3] 2 times",
  c_repeat_kv(f, operand(f, "f32[2, 3]"), 2))
R(repeat_kv_no_times, E_SHAPE, "repeat_kv: cannot repeat the heads of f32[2, 3, 4] 0 times",
  c_repeat_kv(f, operand(f, "f32[2, 3, 4]"), 0))
/* clang-format on */
