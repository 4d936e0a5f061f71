/* graph_update.c - update: what type it has and what it refuses, what it computes, its text
 * forms, and that the symbols of its offsets count like all others. */
#include "graph_util.h"
#include "interp_util.h"
#include "ncg_util.h"
#include "tests/helpers.h"

#include <string.h>

/* ---- what is refused ---------------------------------------- */

#define AT(text) ((Attr){.at = shape_from(f->g->env, text)})
#define R(name, code, message, ...) REJECTS(graph_update, name, code, message, __VA_ARGS__)

static Node *updated(Front *f, const char *buffer, const char *value, const char *at)
{
    return make2(f, OP_UPDATE, AT(at), operand(f, buffer), operand(f, value));
}

/* clang-format off */
R(other_dtype, E_TYPE, "update: operands are f32[4] and i64[4]; their dtypes must be equal",
  updated(f, "f32[4]", "i64[4]", "[0]"))
R(other_rank, E_SHAPE,
  "update: f32[4] cannot be written into f32[2, 4] at [0, 0]; their ranks must be equal",
  updated(f, "f32[2, 4]", "f32[4]", "[0, 0]"))
R(too_few_offsets, E_SHAPE,
  "update: f32[2, 4] cannot be written into f32[2, 4] at [0]; their ranks must be equal",
  updated(f, "f32[2, 4]", "f32[2, 4]", "[0]"))
R(negative_offset, E_SHAPE, "update: the offset -1 on axis 1 is negative",
  updated(f, "f32[2, seq]", "f32[2, 1]", "[0, 0 - 1]"))
R(past_the_end, E_SHAPE,
  "update: f32[2, 3] at the offset 2 goes past the end of axis 1 of f32[2, 4]",
  updated(f, "f32[2, 4]", "f32[2, 3]", "[0, 2]"))
R(past_the_end_at_any_size, E_SHAPE,
  "update: f32[seq] at the offset 1 goes past the end of axis 0 of f32[seq]",
  updated(f, "f32[seq]", "f32[seq]", "[1]"))
R(one_operand, E_SHAPE, "update: takes 2 operands, not 1",
  make1(f, OP_UPDATE, AT("[0]"), operand(f, "f32[4]")))
R(unbound_offset, E_GRAPH,
  "graph g: %2 (update) uses the symbol rows, which no input shape binds",
  finished(f, updated(f, "f32[seq]", "f32[past]", "[rows]")))
/* clang-format on */

/* ---- what it computes ---------------------------------------- */

/* Each element of the result, which is of two axes, at these sizes. */
static void assert_written(const Tensor *got, const Tensor *buffer, const Tensor *value,
                           int64_t row, int64_t column)
{
    for (int64_t i = 0; i < got->dim[0]; i++) {
        for (int64_t j = 0; j < got->dim[1]; j++) {
            int64_t r = i - row, c = j - column;
            bool inside = r >= 0 && r < value->dim[0] && c >= 0 && c < value->dim[1];
            Value want = inside ? value_load(value->data, value->dtype, r * value->dim[1] + c)
                                : value_load(buffer->data, buffer->dtype, i * got->dim[1] + j);
            Value is = value_load(got->data, got->dtype, i * got->dim[1] + j);
            cr_assert(value_same(is, want, got->dtype), "element %d, %d", (int)i, (int)j);
        }
    }
}

Test(graph_update, writes_the_value_at_its_offsets_and_nothing_else)
{
    static const char *const types[] = {"f32", "i64", "i32", "i8", "bool"};
    for (int64_t i = 0; i < 8 * (int64_t)countof(types); i++) {
        int64_t seq = i % 8;
        World w;
        world_init(&w);
        Node *x = operand(&w.f, arena_printf(&w.e.model, "%s[7, 5]", types[i / 8]));
        Node *v = operand(&w.f, arena_printf(&w.e.model, "%s[seq, 2]", types[i / 8]));
        Node *y = f_update(&w.f, x, v, shape_from(&w.e, "[7 - seq, 3]"));
        Tensor in[2], got = eval_random(&w, y, seq, in);
        assert_written(&got, &in[0], &in[1], 7 - seq, 3);
        world_release(&w);
    }
}

Test(graph_update, of_everything_is_the_value)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[3, 2]"), *v = operand(&w.f, "f32[2, 3]");
    Node *turned = f_permute(&w.f, v, 2, (int[]){1, 0});
    Tensor in[2],
        got = eval_random(&w, f_update(&w.f, x, turned, shape_from(&w.e, "[0, 0]")), 1, in);
    for (int i = 0; i < 6; i++) {
        Value want = {.f = F32(in[1])[i % 2 * 3 + i / 2]}, is = {.f = F32(got)[i]};
        cr_assert(value_same(is, want, DT_F32));
    }
    world_release(&w);
}

Test(graph_update, leaves_its_operand_as_it_was)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "i64[3]"), *v = operand(&w.f, "i64[1]");
    Node *y = f_update(&w.f, x, v, shape_from(&w.e, "[1]"));
    Tensor in[2] = {vector_of(&w, DT_I64, 3, (int64_t[]){1, 2, 3}),
                    vector_of(&w, DT_I64, 1, (int64_t[]){9})};
    Tensor got = eval_given(&w, f_concat(&w.f, (Node *[]){y, x}, 2, 0), in);
    cr_assert_arr_eq(got.data, ((int64_t[]){1, 9, 3, 1, 2, 3}), 48);
    cr_assert_arr_eq(in[0].data, ((int64_t[]){1, 2, 3}), 24);
    world_release(&w);
}

/* ---- sizes that do not fit ---------------------------------------- */

static void assert_refused_at(const char *at, int64_t seq, int64_t past, const char *message)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "i64[seq]"), *v = operand(&w.f, "i64[past]");
    Graph *g = finished(&w.f, f_update(&w.f, x, v, shape_from(&w.e, at)));
    Tensor in[2] = {tensor_new(&w.e, &w.e.model, DT_I64, 1, &seq),
                    tensor_new(&w.e, &w.e.model, DT_I64, 1, &past)};
    Tensor out;
    Err err;
    cr_assert_not(try_given(&w, g, in, &out, &err));
    cr_expect_eq(err.code, E_RANGE);
    cr_expect_str_eq(err.text, message);
    world_release(&w);
}

Test(graph_update, that_does_not_fit_is_refused_before_anything_runs)
{
    assert_refused_at(
        "[2]", 4, 3,
        "update: room for the value, -past + seq - 2, is -1 with seq = 4, past = 3, "
        "and must not be negative (node %2).");
    assert_refused_at("[past - 1]", 4, 0,
                      "update: offset, past - 1, is -1 with seq = 4, past = 0, and must not be "
                      "negative (node %2).");
}

/* node_eval is also called on sizes that nobody has checked. */
Test(graph_update, alone_is_checked_too)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "i64[3]"), *v = operand(&w.f, "i64[2]");
    Node *y = f_update(&w.f, x, v, shape_from(&w.e, "[seq]"));
    Tensor in[2] = {vector_of(&w, DT_I64, 3, (int64_t[]){1, 2, 3}),
                    vector_of(&w, DT_I64, 2, (int64_t[]){8, 9})};
    Tensor out = vector_of(&w, DT_I64, 3, (int64_t[]){0, 0, 0});
    Sizes z = {0};
    Err err;
    Sym seq = sym_intern(&w.e, "seq", 3);
    z.bound[seq] = true;
    z.value[seq] = 2;
    cr_assert_not(
        node_eval(w.f.g, y, &z, (const Tensor *[]){&in[0], &in[1]}, NULL, &out, &err));
    cr_expect_eq(err.code, E_RANGE);
    cr_expect(strstr(err.text, "update: 2..4 is out of bounds of axis 0, of size 3"), "%s",
              err.text);
    z.value[seq] = 1;
    cr_assert(node_eval(w.f.g, y, &z, (const Tensor *[]){&in[0], &in[1]}, NULL, &out, &err));
    cr_assert_arr_eq(out.data, ((int64_t[]){1, 8, 9}), 24);
    world_release(&w);
}

/* ---- text ---------------------------------------- */

static const char text[] = "graph g\n"
                           "x = input f32[4, capacity]\n"
                           "v = input f32[1, seq]\n"
                           "%2 = update x, v at=[2, capacity - seq]\n"
                           "return y=%2\n";

Test(graph_update, prints_and_reads_back)
{
    Env e;
    env_init(&e);
    cr_assert_str_eq(printed(parsed(&e, text)), text);
    env_release(&e);
}

Test(graph_update, is_listed_with_its_offsets)
{
    Env e;
    Buf listing, json;
    env_init(&e);
    buf_init(&listing, &e.model);
    buf_init(&json, &e.model);
    graph_listing(parsed(&e, text), &listing);
    graph_json(parsed(&e, text), &json);
    cr_expect(
        strstr(listing.at, "%2 = update %0, %1 at=[2, capacity - seq] : f32[4, capacity]\n"),
        "%s", listing.at);
    cr_expect(strstr(json.at, "\"at\": [2, \"capacity - seq\"]"), "%s", json.at);
    env_release(&e);
}

static void assert_text_refused(const char *attributes, const char *words)
{
    Env e;
    env_init(&e);
    Text t = {.at = arena_printf(&e.model,
                                 "graph g\nx = input f32[4]\ny = update x, x%s\nreturn y=y\n",
                                 attributes)};
    t.len = strlen(t.at);
    must_fail(&e, parse_text, &t, E_SYNTAX, words);
    env_release(&e);
}

Test(graph_update, needs_its_offsets_once)
{
    assert_text_refused("", "update needs the attribute at=");
    assert_text_refused(" at=[0] at=[0]", "the attribute at is given twice");
    assert_text_refused(" at=0", "t.ncg:3:");
    assert_text_refused(" start=0", "update has no attribute 'start'");
}

/* ---- passes ---------------------------------------- */

static int n_nodes_after_cse(const char *second)
{
    Env e;
    env_init(&e);
    const char *graph = arena_printf(&e.model,
                                     "graph g\nx = input f32[seq]\nv = input f32[past]\n"
                                     "a = update x, v at=[0]\nb = update x, v at=[%s]\n"
                                     "c = add a, b\nreturn y=c\n",
                                     second);
    int n = graph_cse(parsed(&e, graph))->nodes.n;
    env_release(&e);
    return n;
}

Test(graph_update, merges_with_an_equal_one_only)
{
    cr_expect_eq(n_nodes_after_cse("0"), 4);
    cr_expect_eq(n_nodes_after_cse("1"), 5);
}

Test(graph_update, of_constants_folds)
{
    Env e;
    env_init(&e);
    Graph *g = graph_fold(parsed(&e, "graph g\nx = const i64[3] 1, 2, 3\nv = const i64[1] 9\n"
                                     "y = update x, v at=[2]\nreturn y=y\n"));
    cr_assert_eq(g->nodes.n, 1);
    cr_assert_arr_eq(g->nodes.at[0]->attr.value, ((int64_t[]){1, 2, 9}), 24);
    env_release(&e);
}
