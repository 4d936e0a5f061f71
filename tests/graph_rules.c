/* graph_rules.c - the primitives: what type each has at symbolic sizes, and what each refuses,
 * by its exact message. spec: graph-ir 4 */
#include "graph_util.h"

#include <string.h>

/* ---- what is accepted ---------------------------------------- */

typedef struct Case {
    Op op;
    const char *type; /* what must be inferred */
    const char *in[3];
    Attr attr; /* without its dims, which are text: */
    const char *shape, *start, *stop, *expr, *at;
} Case;

/* clang-format off */
static const Case cases[] = {
    {OP_INPUT, "i64[seq, 4]", .attr = {.name = "a", .dtype = DT_I64}, .shape = "[seq, 4]"},
    {OP_INPUT, "bool[2*seq + 1]", .attr = {.name = "a", .dtype = DT_BOOL},
     .shape = "[2*seq + 1]"},
    {OP_WEIGHT, "f32[3, 0]", .attr = {.name = "w", .dtype = DT_F32}, .shape = "[3, 0]"},
    {OP_CONST, "i32[2]", .attr = {.dtype = DT_I32, .value = (int32_t[2]){1, 2}},
     .shape = "[2]"},
    {OP_IOTA, "i64[seq, past]", .attr = {.dtype = DT_I64, .axis = -1}, .shape = "[seq, past]"},
    {OP_DIM, "i64[]", .expr = "past + seq"},
    {OP_ADD, "f32[seq, 4]", .in = {"f32[seq, 4]", "f32[seq, 4]"}},
    {OP_ADD, "f32[past + seq]", .in = {"f32[past + seq]", "f32[seq + past]"}},
    {OP_SUB, "i8[seq]", .in = {"i8[seq]", "i8[seq]"}},
    {OP_MUL, "i64[]", .in = {"i64[]", "i64[]"}},
    {OP_DIV, "f32[seq]", .in = {"f32[seq]", "f32[seq]"}},
    {OP_LESS_EQUAL, "bool[seq]", .in = {"i32[seq]", "i32[seq]"}},
    {OP_WHERE, "f32[seq]", .in = {"bool[seq]", "f32[seq]", "f32[seq]"}},
    {OP_WHERE, "bool[seq]", .in = {"bool[seq]", "bool[seq]", "bool[seq]"}},
    {OP_NEG, "i8[seq]", .in = {"i8[seq]"}},
    {OP_EXP, "f32[seq]", .in = {"f32[seq]"}},
    {OP_SQRT, "f32[seq]", .in = {"f32[seq]"}},
    {OP_RECIPROCAL, "f32[seq]", .in = {"f32[seq]"}},
    {OP_SIN, "f32[seq]", .in = {"f32[seq]"}},
    {OP_COS, "f32[seq]", .in = {"f32[seq]"}},
    {OP_CAST, "i8[seq]", .in = {"bool[seq]"}, .attr = {.dtype = DT_I8}},
    {OP_REDUCE_SUM, "i8[seq, 1]", .in = {"i8[seq, 4]"}, .attr = {.axis = -1}},
    {OP_REDUCE_SUM, "f32[1, 4]", .in = {"f32[0, 4]"}},
    {OP_REDUCE_MAX, "f32[1, 4]", .in = {"f32[seq, 4]"}},
    {OP_RESHAPE, "f32[2, 3*seq]", .in = {"f32[seq, 6]"}, .shape = "[2, 3*seq]"},
    {OP_RESHAPE, "f32[]", .in = {"f32[1]"}, .shape = "[]"},
    {OP_RESHAPE, "f32[past*seq + seq*seq]", .in = {"f32[past + seq, seq]"},
     .shape = "[past*seq + seq*seq]"},
    {OP_PERMUTE, "f32[past, seq, 3]", .in = {"f32[seq, 3, past]"},
     .attr = {.n_perm = 3, .perm = {2, 0, 1}}},
    {OP_BROADCAST, "f32[seq, 3]", .in = {"f32[1, 3]"}, .shape = "[seq, 3]"},
    {OP_SLICE, "f32[2, 1]", .in = {"f32[2, seq]"}, .attr = {.axis = -1}, .start = "seq - 1",
     .stop = "seq"},
    {OP_SLICE, "f32[seq]", .in = {"f32[past + seq]"}, .start = "past", .stop = "past + seq"},
    {OP_CONCAT, "f32[past + seq, 4]", .in = {"f32[past, 4]", "f32[seq, 4]"}},
    {OP_CONCAT, "f32[seq]", .in = {"f32[seq]"}, .attr = {.axis = -1}},
    {OP_MATMUL, "f32[2, seq, n]", .in = {"f32[2, seq, k]", "f32[2, k, n]"}},
    {OP_GATHER, "f32[seq, 4]", .in = {"f32[9, 4]", "i64[seq]"}},
    {OP_GATHER, "i8[seq, 2]", .in = {"i8[9]", "i32[seq, 2]"}},
    {OP_UPDATE, "i8[seq, 4]", .in = {"i8[seq, 4]", "i8[past, 2]"}, .at = "[past, 2]"},
};
/* clang-format on */

static Node *make_case(Front *f, const Case *c)
{
    Env *e = f->g->env;
    Attr attr = c->attr;
    attr.shape = c->shape ? shape_from(e, c->shape) : attr.shape;
    attr.start = c->start ? dim_from(e, c->start) : attr.start;
    attr.stop = c->stop ? dim_from(e, c->stop) : attr.stop;
    attr.expr = c->expr ? dim_from(e, c->expr) : attr.expr;
    attr.at = c->at ? shape_from(e, c->at) : attr.at;
    Node *in[3];
    int n_in = 0;
    while (n_in < 3 && c->in[n_in]) {
        in[n_in] = operand(f, c->in[n_in]);
        n_in++;
    }
    return node_make(e, c->op, in, n_in, &attr, 0);
}

Test(graph_rules, types_at_symbolic_sizes)
{
    for (size_t i = 0; i < countof(cases); i++) {
        World w;
        world_init(&w);
        Node *n = make_case(&w.f, &cases[i]);
        cr_expect_str_eq(type_of(&w.f, n), cases[i].type, "case %zu: %s, not %s", i,
                         type_of(&w.f, n), cases[i].type);
        world_release(&w);
    }
}

Test(graph_rules, each_primitive_has_a_case)
{
    bool covered[N_OPS] = {false};
    for (size_t i = 0; i < countof(cases); i++) {
        covered[cases[i].op] = true;
    }
    for (int op = 0; op < N_OPS; op++) {
        cr_expect(covered[op], "%s", op_info[op].name);
    }
}

/* The published lists, family by family: 26 primitives, `input`, which computes nothing, and `update`,
 * a movement that only the cache pass makes. */
Test(graph_rules, families_have_their_published_sizes)
{
    int n[FAMILY_GATHER + 1] = {0};
    for (int op = 0; op < N_OPS; op++) {
        n[op_info[op].family]++;
    }
    cr_assert_eq(n[FAMILY_LEAF], 5);
    cr_assert_eq(n[FAMILY_ELEM], 13);
    cr_assert_eq(n[FAMILY_REDUCE], 2);
    cr_assert_eq(n[FAMILY_MOVE] - 1, 5);
    cr_assert_eq(n[FAMILY_MATMUL], 1);
    cr_assert_eq(n[FAMILY_GATHER], 1);
    cr_assert_eq(N_OPS - 2, 26);
    cr_assert_eq(OP_UPDATE, N_OPS - 1);
}

Test(graph_rules, every_name_parses_to_its_op)
{
    Op op;
    for (int i = 0; i < N_OPS; i++) {
        cr_assert(op_parse(op_info[i].name, strlen(op_info[i].name), &op));
        cr_assert_eq(op, (Op)i);
    }
    cr_assert(!op_parse("adds", 4, &op) && !op_parse("ad", 2, &op) && !op_parse("", 0, &op));
}

Test(graph_rules, scalar_operations_belong_to_elementwise_ops)
{
    cr_assert_eq(op_info[OP_ADD].scalar, S_ADD);
    cr_assert_eq(op_info[OP_LESS_EQUAL].scalar, S_LE);
    cr_assert_eq(op_info[OP_WHERE].scalar, -1);
    cr_assert_eq(op_info[OP_INPUT].scalar, -1);
}

Test(graph_rules, a_node_owns_its_name_operands_and_value)
{
    World w;
    world_init(&w);
    char name[] = "weight";
    float value[] = {1, 2};
    Node *weight = f_weight(&w.f, name, DT_F32, shape_from(&w.e, "[2]"));
    Node *constant = f_const(&w.f, DT_F32, shape_from(&w.e, "[2]"), value);
    Node *in[] = {weight, constant};
    Node *sum = node_make(&w.e, OP_ADD, in, 2, NULL, 7);
    name[0] = 'x', value[1] = 9, in[0] = NULL;
    cr_assert_str_eq(weight->attr.name, "weight");
    cr_assert_eq(((const float *)constant->attr.value)[1], 2.0f);
    cr_assert_eq(sum->in[0], weight);
    cr_assert_eq(sum->line, 7);
    cr_assert_eq(sum->id, -1);
    world_release(&w);
}

Test(graph_rules, an_axis_is_kept_as_given_and_counted_from_either_end)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[2, 3]");
    Node *last = f_reduce(&w.f, OP_REDUCE_SUM, x, -1);
    cr_assert_eq(last->attr.axis, -1);
    cr_assert_eq(axis_of(&w.e, last, 2), 1);
    cr_assert_eq(axis_of(&w.e, f_reduce(&w.f, OP_REDUCE_SUM, x, -2), 2), 0);
    world_release(&w);
}

/* ---- what is refused: one test a reason ---------------------------------------- */

/* clang-format off */
#define R(name, code, message, ...) REJECTS(graph_rules, name, code, message, __VA_ARGS__)
#define X(type) operand(f, type)
#define NONE ((Attr){0})
#define SHAPE(text) ((Attr){.shape = shape_from(f->g->env, text)})
#define AXIS(k) ((Attr){.axis = (k)})
#define LEAF(op, ...) node_make(f->g->env, op, NULL, 0, &(Attr){__VA_ARGS__}, 0)
#define SHAPED(text) .shape = shape_from(f->g->env, text)

R(no_such_op, E_TYPE, "there is no operation with number 99", LEAF((Op)99, .axis = 0))
R(too_few_operands, E_SHAPE, "add: takes 2 operands, not 1", make1(f, OP_ADD, NONE, X("f32[]")))
R(too_many_operands, E_SHAPE, "neg: takes 1 operand, not 2",
  make2(f, OP_NEG, NONE, X("f32[]"), X("f32[]")))
R(operands_of_a_leaf, E_SHAPE, "iota: takes 0 operands, not 1",
  make1(f, OP_IOTA, NONE, X("f32[]")))

R(input_negative, E_SHAPE, "input: shape [2, -1] has a negative dimension",
  LEAF(OP_INPUT, .name = "a", SHAPED("[2, 0 - 1]")))
R(input_dtype, E_TYPE, "input: there is no dtype with number 77",
  LEAF(OP_INPUT, .name = "a", .dtype = (Dtype)77))
R(input_rank, E_SHAPE, "input: rank 9 is not within 0..8",
  LEAF(OP_INPUT, .name = "a", .shape.rank = 9))
R(weight_symbolic, E_SHAPE, "weight: shape [seq, 4] has symbols; it must be concrete",
  LEAF(OP_WEIGHT, .name = "w", SHAPED("[seq, 4]")))
R(weight_negative, E_SHAPE, "weight: shape [-4] has a negative dimension",
  LEAF(OP_WEIGHT, .name = "w", SHAPED("[0 - 4]")))
R(weight_uncountable, E_SHAPE,
  "weight: f32[4294967296, 4294967296] has more bytes than can be counted",
  LEAF(OP_WEIGHT, .name = "w", SHAPED("[4294967296, 4294967296]")))
R(uncountable_beside_a_symbol, E_SHAPE,
  "broadcast: f32[seq, 4294967296, 4294967296] has more bytes than can be counted",
  make1(f, OP_BROADCAST, SHAPE("[seq, 4294967296, 4294967296]"), X("f32[1, 1, 1]")))
R(uncountable_beside_an_empty_axis, E_SHAPE,
  "input: i64[0, 4294967296, 4294967296] has more bytes than can be counted",
  LEAF(OP_INPUT, .name = "a", .dtype = DT_I64, SHAPED("[0, 4294967296, 4294967296]")))
R(const_dtype, E_TYPE, "const: there is no dtype with number 5",
  LEAF(OP_CONST, .dtype = N_DTYPES, .value = ""))
R(iota_axis, E_SHAPE, "iota: axis 2 of [3, 4] is out of range -2..1",
  LEAF(OP_IOTA, .dtype = DT_I64, .axis = 2, SHAPED("[3, 4]")))
R(iota_of_a_scalar, E_SHAPE, "iota: [] is a scalar and has no axis 0",
  LEAF(OP_IOTA, .dtype = DT_I64))
R(iota_of_bool, E_TYPE, "iota: dtype bool is not numeric",
  LEAF(OP_IOTA, .dtype = DT_BOOL, SHAPED("[3]")))

R(add_shapes, E_SHAPE,
  "add: operands have shapes f32[seq, 4] and f32[4]; they must be equal",
  make2(f, OP_ADD, NONE, X("f32[seq, 4]"), X("f32[4]")))
R(sub_symbols, E_SHAPE, "sub: operands have shapes f32[seq] and f32[past]; they must be equal",
  make2(f, OP_SUB, NONE, X("f32[seq]"), X("f32[past]")))
R(mul_dtypes, E_TYPE, "mul: operands are f32[2] and i64[2]; their dtypes must be equal",
  make2(f, OP_MUL, NONE, X("f32[2]"), X("i64[2]")))
R(add_bool, E_TYPE, "add: operand is bool[2]; it must be numeric, not bool",
  make2(f, OP_ADD, NONE, X("bool[2]"), X("bool[2]")))
R(div_int, E_TYPE, "div: operand is i64[2]; it must be floating point",
  make2(f, OP_DIV, NONE, X("i64[2]"), X("i64[2]")))
R(less_equal_bool, E_TYPE, "less_equal: operand is bool[2]; it must be numeric, not bool",
  make2(f, OP_LESS_EQUAL, NONE, X("bool[2]"), X("bool[2]")))
R(less_equal_dtypes, E_TYPE,
  "less_equal: operands are i8[2] and i32[2]; their dtypes must be equal",
  make2(f, OP_LESS_EQUAL, NONE, X("i8[2]"), X("i32[2]")))
R(less_equal_shapes, E_SHAPE,
  "less_equal: operands have shapes f32[2] and f32[3]; they must be equal",
  make2(f, OP_LESS_EQUAL, NONE, X("f32[2]"), X("f32[3]")))
R(where_condition, E_TYPE, "where: condition is f32[2]; it must be bool",
  make3(f, OP_WHERE, NONE, X("f32[2]"), X("f32[2]"), X("f32[2]")))
R(where_branches, E_TYPE, "where: branches are f32[2] and i64[2]; their dtypes must be equal",
  make3(f, OP_WHERE, NONE, X("bool[2]"), X("f32[2]"), X("i64[2]")))
R(where_condition_shape, E_SHAPE,
  "where: operands have shapes bool[1] and f32[2]; they must be equal",
  make3(f, OP_WHERE, NONE, X("bool[1]"), X("f32[2]"), X("f32[2]")))
R(where_branch_shape, E_SHAPE,
  "where: operands have shapes bool[2] and f32[1]; they must be equal",
  make3(f, OP_WHERE, NONE, X("bool[2]"), X("f32[2]"), X("f32[1]")))
R(neg_bool, E_TYPE, "neg: operand is bool[2]; it must be numeric, not bool",
  make1(f, OP_NEG, NONE, X("bool[2]")))
R(exp_int, E_TYPE, "exp: operand is i32[2]; it must be floating point",
  make1(f, OP_EXP, NONE, X("i32[2]")))
R(sqrt_bool, E_TYPE, "sqrt: operand is bool[2]; it must be floating point",
  make1(f, OP_SQRT, NONE, X("bool[2]")))
R(reciprocal_int, E_TYPE, "reciprocal: operand is i64[]; it must be floating point",
  make1(f, OP_RECIPROCAL, NONE, X("i64[]")))
R(sin_int, E_TYPE, "sin: operand is i8[2]; it must be floating point",
  make1(f, OP_SIN, NONE, X("i8[2]")))
R(cos_int, E_TYPE, "cos: operand is i64[2]; it must be floating point",
  make1(f, OP_COS, NONE, X("i64[2]")))
R(cast_dtype, E_TYPE, "cast: there is no dtype with number 8",
  make1(f, OP_CAST, (Attr){.dtype = (Dtype)8}, X("f32[2]")))

R(reduce_bool, E_TYPE, "reduce_sum: operand is bool[2]; it must be numeric, not bool",
  make1(f, OP_REDUCE_SUM, NONE, X("bool[2]")))
R(reduce_scalar, E_SHAPE, "reduce_sum: f32[] is a scalar and has no axis -1",
  make1(f, OP_REDUCE_SUM, AXIS(-1), X("f32[]")))
R(reduce_axis, E_SHAPE, "reduce_max: axis -3 of f32[seq, 4] is out of range -2..1",
  make1(f, OP_REDUCE_MAX, AXIS(-3), X("f32[seq, 4]")))
R(max_of_nothing, E_SHAPE, "reduce_max: axis 1 of f32[2, 0] is empty and has no maximum",
  make1(f, OP_REDUCE_MAX, AXIS(-1), X("f32[2, 0]")))

R(reshape_count, E_SHAPE,
  "reshape: f32[seq, 4] has 4*seq elements and cannot become [seq, 5] with 5*seq",
  make1(f, OP_RESHAPE, SHAPE("[seq, 5]"), X("f32[seq, 4]")))
R(reshape_negative, E_SHAPE, "reshape: shape [-2, -2] has a negative dimension",
  make1(f, OP_RESHAPE, SHAPE("[0 - 2, 0 - 2]"), X("f32[4]")))
R(permute_too_short, E_SHAPE, "permute: (0) is not a permutation of the 2 axes of f32[2, 3]",
  make1(f, OP_PERMUTE, ((Attr){.n_perm = 1}), X("f32[2, 3]")))
R(permute_twice, E_SHAPE, "permute: (1, 1) is not a permutation of the 2 axes of f32[2, 3]",
  make1(f, OP_PERMUTE, ((Attr){.n_perm = 2, .perm = {1, 1}}), X("f32[2, 3]")))
R(permute_negative, E_SHAPE, "permute: (0, -1) is not a permutation of the 2 axes of f32[2, 3]",
  make1(f, OP_PERMUTE, ((Attr){.n_perm = 2, .perm = {0, -1}}), X("f32[2, 3]")))
R(permute_too_large, E_SHAPE, "permute: (0, 2) is not a permutation of the 2 axes of f32[2, 3]",
  make1(f, OP_PERMUTE, ((Attr){.n_perm = 2, .perm = {0, 2}}), X("f32[2, 3]")))
R(broadcast_rank, E_SHAPE,
  "broadcast: f32[4] cannot become [seq, 4], which has another rank; reshape first",
  make1(f, OP_BROADCAST, SHAPE("[seq, 4]"), X("f32[4]")))
R(broadcast_axis, E_SHAPE,
  "broadcast: f32[2, 1] cannot become [4, 3]; axis 0 is neither equal nor 1",
  make1(f, OP_BROADCAST, SHAPE("[4, 3]"), X("f32[2, 1]")))
R(broadcast_shrinks, E_SHAPE,
  "broadcast: f32[seq] cannot become [1]; axis 0 is neither equal nor 1",
  make1(f, OP_BROADCAST, SHAPE("[1]"), X("f32[seq]")))

R(slice_axis, E_SHAPE, "slice: axis 1 of f32[4] is out of range -1..0",
  f_slice(f, X("f32[4]"), 1, dim_int(0), dim_int(1)))
R(slice_scalar, E_SHAPE, "slice: f32[] is a scalar and has no axis 0",
  f_slice(f, X("f32[]"), 0, dim_int(0), dim_int(1)))
R(slice_start, E_SHAPE, "slice: start -1 is negative",
  f_slice(f, X("f32[4]"), 0, dim_int(-1), dim_int(1)))
R(slice_reversed, E_SHAPE, "slice: stop 1 is before start 2",
  f_slice(f, X("f32[4]"), 0, dim_int(2), dim_int(1)))
R(slice_reversed_symbols, E_SHAPE, "slice: stop seq - 1 is before start seq",
  f_slice(f, X("f32[seq]"), 0, dim_from(f->g->env, "seq"), dim_from(f->g->env, "seq - 1")))
R(slice_stop, E_SHAPE, "slice: stop 5 is past the end of axis 1 of f32[2, 4]",
  f_slice(f, X("f32[2, 4]"), -1, dim_int(0), dim_int(5)))
R(slice_stop_symbols, E_SHAPE, "slice: stop seq + 1 is past the end of axis 0 of f32[seq]",
  f_slice(f, X("f32[seq]"), 0, dim_int(0), dim_from(f->g->env, "seq + 1")))

R(concat_none, E_SHAPE, "concat: takes one or more operands, not 0", f_concat(f, NULL, 0, 0))
R(concat_dtypes, E_TYPE, "concat: operands are f32[2] and i64[2]; their dtypes must be equal",
  make2(f, OP_CONCAT, NONE, X("f32[2]"), X("i64[2]")))
R(concat_ranks, E_SHAPE, "concat: operands f32[2, 3] and f32[2] differ in rank",
  make2(f, OP_CONCAT, NONE, X("f32[2, 3]"), X("f32[2]")))
R(concat_sides, E_SHAPE, "concat: operands f32[2, 3] and f32[2, 4] differ outside axis 0",
  make2(f, OP_CONCAT, NONE, X("f32[2, 3]"), X("f32[2, 4]")))
R(concat_axis, E_SHAPE, "concat: axis 2 of f32[2, 3] is out of range -2..1",
  make2(f, OP_CONCAT, AXIS(2), X("f32[2, 3]"), X("f32[2, 3]")))

R(matmul_rank_1, E_SHAPE,
  "matmul: operands are f32[3] and f32[3, 2]; both need at least two axes",
  f_matmul(f, X("f32[3]"), X("f32[3, 2]")))
R(matmul_ranks, E_SHAPE,
  "matmul: operands are f32[1, 2, 3] and f32[3, 4]; their ranks must be equal",
  f_matmul(f, X("f32[1, 2, 3]"), X("f32[3, 4]")))
R(matmul_inner, E_SHAPE,
  "matmul: operands are f32[seq, 3] and f32[4, 5]; their inner dimensions must be equal",
  f_matmul(f, X("f32[seq, 3]"), X("f32[4, 5]")))
R(matmul_batch, E_SHAPE,
  "matmul: operands are f32[1, 2, 3] and f32[4, 3, 5]; their batch dimensions must be equal, "
  "and are not broadcast",
  f_matmul(f, X("f32[1, 2, 3]"), X("f32[4, 3, 5]")))
R(matmul_int, E_TYPE, "matmul: operand is i8[2, 3]; it must be floating point",
  f_matmul(f, X("i8[2, 3]"), X("i8[3, 2]")))
R(matmul_dtypes, E_TYPE,
  "matmul: operands are f32[2, 3] and i64[3, 2]; their dtypes must be equal",
  f_matmul(f, X("f32[2, 3]"), X("i64[3, 2]")))

R(gather_scalar, E_SHAPE, "gather: table is f32[], which has no rows",
  f_gather(f, X("f32[]"), X("i64[3]")))
R(gather_float, E_TYPE, "gather: ids are f32[3]; they must be integers",
  f_gather(f, X("f32[9, 4]"), X("f32[3]")))
R(gather_rank, E_SHAPE,
  "gather: rows of f32[2, 1, 1, 1, 1, 1] by ids i64[1, 1, 1, 1] have rank 9; "
  "at most 8 is possible",
  f_gather(f, X("f32[2, 1, 1, 1, 1, 1]"), X("i64[1, 1, 1, 1]")))
/* clang-format on */
