/* What a call's arguments must be, and what is said where they are not: spec graph-ir 7 (a) to
 * (d), then sizes. */
#include "graph_util.h"

#include <string.h>

/* One call: x0, x1 ... of the draft's graph as given, or under other names. */
typedef struct Call {
    World w;
    Graph *g;
    NamedTensor input[8], weight[8];
    Args args;
    Sizes z;
    const Tensor *bound_input[8], *bound_weight[8];
    Err err;
} Call;

static float data[64];

static NamedTensor tensor(const char *name, Dtype t, int rank, const int64_t *dim)
{
    NamedTensor n = {.name = name, .t = {.dtype = t, .rank = rank, .data = data}};
    memcpy(n.t.dim, dim, sizeof *dim * (size_t)rank);
    return n;
}

static void give(Call *c, const char *name, Dtype t, int rank, const int64_t *dim)
{
    c->input[c->args.n_inputs++] = tensor(name, t, rank, dim);
}

static void give_weight(Call *c, const char *name, Dtype t, int rank, const int64_t *dim)
{
    c->weight[c->args.n_weights++] = tensor(name, t, rank, dim);
}

static void call_init(Call *c)
{
    memset(c, 0, sizeof *c);
    world_init(&c->w);
    c->args.input = c->input;
    c->args.weight = c->weight;
}

/* x0 f32[seq, 4], x1 i64[seq] and x2 f32[past, 2*seq + 1]; the output is x0. */
static void three_inputs(Call *c)
{
    call_init(c);
    Node *x = operand(&c->w.f, "f32[seq, 4]");
    operand(&c->w.f, "i64[seq]");
    operand(&c->w.f, "f32[past, 2*seq + 1]");
    c->g = finished(&c->w.f, x);
}

static void give_three(Call *c, int64_t seq, int64_t past)
{
    give(c, "x0", DT_F32, 2, (int64_t[]){seq, 4});
    give(c, "x1", DT_I64, 1, (int64_t[]){seq});
    give(c, "x2", DT_F32, 2, (int64_t[]){past, 2 * seq + 1});
}

static bool bind(Call *c)
{
    return graph_bind(c->g, &c->args, &c->z, c->bound_input, c->bound_weight, &c->err);
}

static void accepts(Call *c)
{
    cr_assert(bind(c), "%s", c->err.text);
    world_release(&c->w);
}

static void refuses(Call *c, ErrCode code, const char *message)
{
    cr_assert_not(bind(c));
    cr_assert_str_eq(c->err.text, message);
    cr_assert_eq(c->err.code, code);
    world_release(&c->w);
}

/* ---- (a) names ---------------------------------------------------------- */

Test(graph_bind, arguments_may_come_in_any_order)
{
    Call c;
    three_inputs(&c);
    give(&c, "x2", DT_F32, 2, (int64_t[]){5, 7});
    give(&c, "x0", DT_F32, 2, (int64_t[]){3, 4});
    give(&c, "x1", DT_I64, 1, (int64_t[]){3});
    cr_assert(bind(&c), "%s", c.err.text);
    cr_assert_eq(c.bound_input[0], &c.input[1].t);
    cr_assert_eq(c.bound_input[1], &c.input[2].t);
    cr_assert_eq(c.bound_input[2], &c.input[0].t);
    cr_assert_eq(c.z.value[sym_intern(&c.w.e, "seq", 3)], 3);
    cr_assert_eq(c.z.value[sym_intern(&c.w.e, "past", 4)], 5);
    world_release(&c.w);
}

Test(graph_bind, missing_and_unknown_names_are_listed_together)
{
    Call c;
    three_inputs(&c);
    give(&c, "x0", DT_F32, 2, (int64_t[]){3, 4});
    give(&c, "ids", DT_I64, 1, (int64_t[]){3});
    refuses(&c, E_INPUT,
            "The arguments do not fit graph \"g\": missing input \"x1\", \"x2\"; unknown input "
            "\"ids\"; the graph takes \"x0\", \"x1\", \"x2\".");
}

Test(graph_bind, a_missing_name_alone)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 3, 5);
    c.args.n_inputs = 2;
    refuses(&c, E_INPUT,
            "The arguments do not fit graph \"g\": missing input \"x2\"; the graph takes "
            "\"x0\", \"x1\", \"x2\".");
}

Test(graph_bind, an_unknown_name_alone)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 3, 5);
    give(&c, "x3", DT_F32, 0, (int64_t[]){0});
    refuses(&c, E_INPUT,
            "The arguments do not fit graph \"g\": unknown input \"x3\"; the graph takes "
            "\"x0\", \"x1\", \"x2\".");
}

Test(graph_bind, an_input_given_twice_is_refused)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 3, 5);
    give(&c, "x1", DT_I64, 1, (int64_t[]){3});
    refuses(&c, E_INPUT,
            "The arguments do not fit graph \"g\": an input is given twice; the graph takes "
            "\"x0\", \"x1\", \"x2\".");
}

/* ---- (b) symbols -------------------------------------------------------- */

Test(graph_bind, a_symbol_bound_twice_must_agree)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 3, 5);
    c.input[1].t.dim[0] = 5;
    refuses(&c, E_INPUT, "Input \"x1\": axis 0 has size 5, but seq is already bound to 3.");
}

Test(graph_bind, a_symbol_may_be_seeded_by_the_caller)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 3, 5);
    Sym past = sym_intern(&c.w.e, "past", 4);
    c.z.bound[past] = true;
    c.z.value[past] = 4;
    refuses(&c, E_INPUT, "Input \"x2\": axis 0 has size 5, but past is already bound to 4.");
}

Test(graph_bind, a_negative_seed_is_refused)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 3, 5);
    Sym past = sym_intern(&c.w.e, "past", 4);
    c.z.bound[past] = true;
    c.z.value[past] = -4;
    refuses(&c, E_INPUT, "The symbol past is bound to the negative size -4.");
}

Test(graph_bind, a_negative_size_is_refused)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 3, -1);
    refuses(&c, E_INPUT, "Input \"x2\": axis 0 has the negative size -1.");
}

Test(graph_bind, zero_is_a_size)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 0, 0);
    accepts(&c);
}

/* ---- (c) dtypes and shapes ---------------------------------------------- */

Test(graph_bind, a_dtype_must_match)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 3, 5);
    c.input[1].t.dtype = DT_I32;
    refuses(&c, E_INPUT, "The input \"x1\" is i32[3], but the graph declares i64[seq].");
}

Test(graph_bind, a_fixed_axis_must_match)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 3, 5);
    c.input[0].t.dim[1] = 6;
    refuses(&c, E_INPUT, "The input \"x0\" is f32[3, 6], but the graph declares f32[seq, 4].");
}

Test(graph_bind, a_rank_must_match)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 3, 5);
    c.input[1].t.rank = 2;
    c.input[1].t.dim[1] = 1;
    refuses(&c, E_INPUT, "The input \"x1\" is i64[3, 1], but the graph declares i64[seq].");
}

Test(graph_bind, an_absurd_rank_is_refused)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 3, 5);
    c.input[1].t.rank = 77;
    refuses(&c, E_INPUT, "The input \"x1\" has rank 77; the limit is 8.");
}

Test(graph_bind, a_computed_axis_must_match)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 3, 5);
    c.input[2].t.dim[1] = 6;
    refuses(&c, E_INPUT,
            "The input \"x2\" is f32[5, 6], but the graph declares f32[past, 2*seq + 1].");
}

Test(graph_bind, data_must_be_there_unless_it_is_empty)
{
    Call c;
    three_inputs(&c);
    give_three(&c, 3, 0);
    c.input[2].t.data = NULL;
    cr_assert(bind(&c), "%s", c.err.text);
    c.input[0].t.data = NULL;
    refuses(&c, E_INPUT, "The input \"x0\" has no data.");
}

/* ---- (d) weights -------------------------------------------------------- */

/* x0 f32[] plus seven weights w0 .. w6 of f32[2], folded into one output. */
static void seven_weights(Call *c)
{
    call_init(c);
    Node *sum = f_broadcast_to(&c->w.f, operand(&c->w.f, "f32[]"), shape_from(&c->w.e, "[2]"));
    for (int i = 0; i < 7; i++) {
        const char *name = arena_printf(&c->w.e.model, "w%d", i);
        Node *w = f_weight(&c->w.f, name, DT_F32, shape_from(&c->w.e, "[2]"));
        sum = f_binary(&c->w.f, OP_ADD, sum, w);
        give_weight(c, name, DT_F32, 1, (int64_t[]){2});
    }
    give(c, "x0", DT_F32, 0, (int64_t[]){0});
    c->g = finished(&c->w.f, sum);
}

Test(graph_bind, weights_are_found_by_name)
{
    Call c;
    seven_weights(&c);
    NamedTensor first = c.weight[0];
    c.weight[0] = c.weight[6];
    c.weight[6] = first;
    cr_assert(bind(&c), "%s", c.err.text);
    cr_assert_eq(c.bound_weight[0], &c.weight[6].t);
    cr_assert_eq(c.bound_weight[6], &c.weight[0].t);
    cr_assert_eq(c.bound_weight[3], &c.weight[3].t);
    world_release(&c.w);
}

Test(graph_bind, the_first_five_missing_weights_are_listed)
{
    Call c;
    seven_weights(&c);
    c.args.n_weights = 1;
    refuses(&c, E_INPUT,
            "Graph \"g\" lacks 6 of its 7 weights: \"w1\", \"w2\", \"w3\", \"w4\", \"w5\" and "
            "1 more.");
}

Test(graph_bind, a_weight_must_have_its_shape)
{
    Call c;
    seven_weights(&c);
    c.weight[2].t.dim[0] = 3;
    refuses(&c, E_INPUT, "The weight \"w2\" is f32[3], but the graph declares f32[2].");
}

Test(graph_bind, a_weight_must_have_its_dtype)
{
    Call c;
    seven_weights(&c);
    c.weight[2].t.dtype = DT_I8;
    refuses(&c, E_INPUT, "The weight \"w2\" is i8[2], but the graph declares f32[2].");
}

Test(graph_bind, weights_that_the_graph_does_not_use_are_ignored)
{
    Call c;
    seven_weights(&c);
    give_weight(&c, "another", DT_BOOL, 1, (int64_t[]){9});
    accepts(&c);
}

/* ---- sizes -------------------------------------------------------------- */

/* x0 f32[seq], sliced; x1 f32[past] is there to bind past. */
static void sliced(Call *c, const char *start, const char *stop, int64_t seq, int64_t past)
{
    call_init(c);
    Node *x = operand(&c->w.f, "f32[seq]");
    operand(&c->w.f, "f32[past]");
    Attr a = {.start = dim_from(&c->w.e, start), .stop = dim_from(&c->w.e, stop)};
    c->g = finished(&c->w.f, make1(&c->w.f, OP_SLICE, a, x));
    give(c, "x0", DT_F32, 1, &seq);
    give(c, "x1", DT_F32, 1, &past);
}

Test(graph_bind, a_slice_that_starts_below_zero_is_refused)
{
    Call c;
    sliced(&c, "past - 1", "seq", 1, 0);
    refuses(&c, E_RANGE,
            "slice: start, past - 1, is -1 with seq = 1, past = 0, and must not be negative "
            "(node %2).");
}

Test(graph_bind, a_slice_that_stops_before_it_starts_is_refused)
{
    Call c;
    sliced(&c, "past", "2", 4, 3);
    refuses(&c, E_RANGE,
            "slice: stop - start, -past + 2, is -1 with seq = 4, past = 3, and must not be "
            "negative (node %2).");
}

Test(graph_bind, a_slice_that_stops_behind_the_end_is_refused)
{
    Call c;
    sliced(&c, "0", "past", 4, 9);
    refuses(&c, E_RANGE,
            "slice: size - stop, -past + seq, is -5 with seq = 4, past = 9, and must not be "
            "negative (node %2).");
}

Test(graph_bind, a_slice_may_be_empty_at_either_end)
{
    Call c;
    sliced(&c, "past", "seq", 4, 4);
    accepts(&c);
    sliced(&c, "0", "past", 4, 0);
    accepts(&c);
}

Test(graph_bind, a_product_that_overflows_is_refused)
{
    Call c;
    call_init(&c);
    Node *x = operand(&c.w.f, "f32[seq, 0]");
    Dim seq = x->shape.dim[0], big = dim_mul(&c.w.e, dim_mul(&c.w.e, seq, seq), seq);
    Shape s = shape_of(1, (Dim[]){dim_mul(&c.w.e, big, dim_int(4))});
    c.g = finished(&c.w.f, f_iota(&c.w.f, DT_I8, s, 0));
    give(&c, "x0", DT_F32, 2, (int64_t[]){INT64_MAX / 8, 0});
    refuses(&c, E_RANGE,
            "input: [seq, 0] has more than 2^40 elements with seq = 1152921504606846975 "
            "(node %0).");
}

Test(graph_bind, a_value_of_absurd_size_is_refused_before_it_is_made)
{
    Call c;
    call_init(&c);
    Node *x = operand(&c.w.f, "f32[seq]");
    Dim seq = x->shape.dim[0];
    Shape s = shape_of(1, (Dim[]){dim_mul(&c.w.e, dim_mul(&c.w.e, seq, seq), seq)});
    c.g = finished(&c.w.f, f_iota(&c.w.f, DT_I8, s, 0));
    give(&c, "x0", DT_F32, 1, (int64_t[]){1 << 20});
    refuses(&c, E_RANGE,
            "iota: [seq*seq*seq] has more than 2^40 elements with seq = 1048576 (node %1).");
}

Test(graph_bind, sizes_can_be_checked_alone)
{
    Call c;
    sliced(&c, "past - 1", "seq", 4, 1);
    cr_assert(bind(&c), "%s", c.err.text);
    cr_assert(graph_check_sizes(c.g, &c.z, &c.err), "%s", c.err.text);
    c.z.value[sym_intern(&c.w.e, "past", 4)] = 0;
    cr_assert_not(graph_check_sizes(c.g, &c.z, &c.err));
    cr_assert_str_eq(c.err.text,
                     "slice: start, past - 1, is -1 with seq = 4, past = 0, and must not be "
                     "negative (node %2).");
    world_release(&c.w);
}

static void make_tensor(Env *e, void *dim)
{
    tensor_new(e, &e->model, DT_F32, 3, dim);
}

Test(graph_bind, a_tensor_of_absurd_or_negative_size_is_refused)
{
    Env e;
    env_init(&e);
    cr_assert_not(env_try(&e, make_tensor, (int64_t[]){1 << 20, 1 << 21, 0}));
    cr_assert_str_eq(e.err.text,
                     "A tensor of 2199023255552 elements is refused: the limit is 2^40.");
    cr_assert_not(env_try(&e, make_tensor, (int64_t[]){1, -2, 3}));
    cr_assert_str_eq(e.err.text, "A tensor cannot have the size -2 on axis 1.");
    env_release(&e);
}
