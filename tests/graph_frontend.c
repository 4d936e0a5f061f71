/* graph_frontend.c - what the front end does by itself: which nodes broadcasting makes, what
 * numbers become, when no node is made, and what it refuses. spec: graph-ir 5 */
#include "graph_util.h"

#include <math.h>

/* The ops of a + b, and its type. */
static void assert_add(const char *a, const char *b, const char *ops, const char *type)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, a), *y = operand(&w.f, b);
    Node *sum = f_binary(&w.f, OP_ADD, x, y);
    cr_expect_str_eq(ops_of(finished(&w.f, sum)), ops);
    cr_expect_str_eq(type_of(&w.f, sum), type);
    world_release(&w);
}

Test(graph_frontend, broadcasting_makes_the_fewest_nodes)
{
    assert_add("f32[seq, 4]", "f32[seq, 4]", "add", "f32[seq, 4]");
    assert_add("f32[seq, 4]", "f32[seq, 1]", "broadcast add", "f32[seq, 4]");
    assert_add("f32[seq, 1]", "f32[1, 4]", "broadcast broadcast add", "f32[seq, 4]");
    assert_add("f32[seq, 4]", "f32[4]", "reshape broadcast add", "f32[seq, 4]");
    assert_add("f32[4]", "f32[seq, 4]", "reshape broadcast add", "f32[seq, 4]");
    assert_add("f32[1, 4]", "f32[4]", "reshape add", "f32[1, 4]");
    assert_add("f32[seq, past]", "f32[]", "reshape broadcast add", "f32[seq, past]");
    assert_add("f32[2, 1, 3]", "f32[5, 1]", "broadcast reshape broadcast add", "f32[2, 5, 3]");
    assert_add("f32[0]", "f32[1]", "broadcast add", "f32[0]");
}

Test(graph_frontend, a_number_is_a_constant_of_the_dtype_it_meets)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "i8[seq, 4]");
    Node *sum = f_binary_k(&w.f, OP_ADD, x, -128);
    cr_assert_str_eq(ops_of(finished(&w.f, sum)), "const reshape broadcast add");
    const Node *k = sum->in[1]->in[0]->in[0];
    cr_assert_eq(k->dtype, DT_I8);
    cr_assert_eq(*(const int8_t *)k->attr.value, -128);
    world_release(&w);
}

Test(graph_frontend, a_number_on_the_left_stays_there)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[]");
    Node *right = f_binary_k(&w.f, OP_SUB, x, 2), *left = f_k_binary(&w.f, OP_LESS_EQUAL, 2, x);
    cr_assert_eq(right->in[0], x);
    cr_assert_eq(left->in[1], x);
    cr_assert_eq(left->in[0]->op, OP_CONST);
    world_release(&w);
}

Test(graph_frontend, every_f32_is_a_scalar_even_those_that_are_no_numbers)
{
    World w;
    world_init(&w);
    cr_assert(isnan(*(const float *)f_scalar(&w.f, DT_F32, NAN)->attr.value));
    cr_assert(isinf(*(const float *)f_scalar(&w.f, DT_F32, -INFINITY)->attr.value));
    cr_assert_eq(*(const float *)f_scalar(&w.f, DT_F32, 1e-6)->attr.value, 1e-6f);
    cr_assert_eq(*(const int64_t *)f_scalar(&w.f, DT_I64, -0x1p63)->attr.value, INT64_MIN);
    world_release(&w);
}

Test(graph_frontend, where_broadcasts_all_three)
{
    World w;
    world_init(&w);
    Node *cond = operand(&w.f, "bool[seq, 1]"), *a = operand(&w.f, "f32[4]");
    Node *y = f_where(&w.f, cond, a, f_scalar(&w.f, DT_F32, 0));
    cr_assert_str_eq(type_of(&w.f, y), "f32[seq, 4]");
    cr_assert_str_eq(ops_of(finished(&w.f, y)),
                     "broadcast reshape broadcast const reshape broadcast where");
    world_release(&w);
}

Test(graph_frontend, what_changes_nothing_makes_no_node)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[seq, 4]");
    cr_assert_eq(f_reshape(&w.f, x, shape_from(&w.e, "[seq, 4]")), x);
    cr_assert_eq(f_cast(&w.f, x, DT_F32), x);
    cr_assert_eq(f_broadcast_to(&w.f, x, shape_from(&w.e, "[seq, 4]")), x);
    world_release(&w);
}

Test(graph_frontend, a_weight_is_declared_once)
{
    World w;
    world_init(&w);
    Node *a = f_weight(&w.f, "w", DT_F32, shape_from(&w.e, "[2]"));
    cr_assert_eq(f_weight(&w.f, "w", DT_F32, shape_from(&w.e, "[2]")), a);
    cr_assert_neq(f_weight(&w.f, "v", DT_F32, shape_from(&w.e, "[2]")), a);
    world_release(&w);
}

Test(graph_frontend, a_plain_dimension_is_a_constant)
{
    World w;
    world_init(&w);
    Node *k = f_dim(&w.f, dim_int(7));
    cr_assert_eq(k->op, OP_CONST);
    cr_assert_str_eq(type_of(&w.f, k), "i64[]");
    cr_assert_eq(*(const int64_t *)k->attr.value, 7);
    cr_assert_eq(f_dim(&w.f, dim_named(&w.e, "seq"))->op, OP_DIM);
    world_release(&w);
}

/* ---- what is refused ---------------------------------------- */

/* clang-format off */
#define R(name, code, message, ...) REJECTS(graph_frontend, name, code, message, __VA_ARGS__)
#define X(type) operand(f, type)

R(sizes_that_do_not_broadcast, E_SHAPE,
  "add: shapes [seq, 3] and [4] do not broadcast; axis -1 has sizes 3 and 4",
  f_binary(f, OP_ADD, X("f32[seq, 3]"), X("f32[4]")))
R(symbols_that_do_not_broadcast, E_SHAPE,
  "mul: shapes [seq, 3] and [past, 3] do not broadcast; axis -2 has sizes seq and past",
  f_binary(f, OP_MUL, X("f32[seq, 3]"), X("f32[past, 3]")))
R(condition_that_does_not_broadcast, E_SHAPE,
  "where: shapes [2] and [3] do not broadcast; axis -1 has sizes 2 and 3",
  f_where(f, X("bool[2]"), X("f32[3]"), X("f32[3]")))
R(a_fraction_on_ints, E_TYPE, "const: the number 0.5 does not fit a tensor of dtype i64",
  f_binary_k(f, OP_ADD, X("i64[2]"), 0.5))
R(a_number_too_large, E_TYPE, "const: the number 128 does not fit a tensor of dtype i8",
  f_binary_k(f, OP_ADD, X("i8[2]"), 128))
R(a_number_just_too_large, E_TYPE,
  "const: the number 9.2233720368547758e+18 does not fit a tensor of dtype i64",
  f_binary_k(f, OP_ADD, X("i64[2]"), 0x1p63))
R(no_number_on_ints, E_TYPE, "const: the number nan does not fit a tensor of dtype i32",
  f_binary_k(f, OP_ADD, X("i32[2]"), (double)NAN))
R(a_number_on_bools, E_TYPE, "const: the number 1 does not fit a tensor of dtype bool",
  f_k_binary(f, OP_ADD, 1, X("bool[2]")))
R(mixed_dtypes, E_TYPE, "add: operands are f32[2] and i64[2]; their dtypes must be equal",
  f_binary(f, OP_ADD, X("f32[2]"), X("i64[1]")))
R(weight_of_another_shape, E_SHAPE, "weight: \"w\" is already declared as f32[2], not f32[3]",
  f_weight(f, "w", DT_F32, shape_from(f->g->env, "[2]"));
  f_weight(f, "w", DT_F32, shape_from(f->g->env, "[3]")))
R(weight_of_another_dtype, E_SHAPE, "weight: \"w\" is already declared as f32[2], not i8[2]",
  f_weight(f, "w", DT_F32, shape_from(f->g->env, "[2]"));
  f_weight(f, "w", DT_I8, shape_from(f->g->env, "[2]")))
R(input_of_a_name_taken, E_GRAPH, "input: \"x0\" is already declared",
  X("f32[2]"); f_input(f, "x0", DT_F32, shape_of(0, NULL)))
R(more_axes_than_the_target, E_SHAPE,
  "broadcast: f32[2, 3] cannot become [3], which has another rank; reshape first",
  f_broadcast_to(f, X("f32[2, 3]"), shape_from(f->g->env, "[3]")))
R(too_many_axes_in_a_permutation, E_SHAPE,
  "permute: (0, 1, 2, 3, 4, 5, 6, 7) is not a permutation of the 2 axes of f32[2, 3]",
  f_permute(f, X("f32[2, 3]"), 9, (const int[]){0, 1, 2, 3, 4, 5, 6, 7, 8}))
/* clang-format on */
