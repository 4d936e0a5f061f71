/* graph_listing.c - the listing's golden text with each of its corner cases, the JSON, and the
 * page docs/ops.md. spec: graph-ir 6 */
#include "graph_util.h"
#include "tests/helpers.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static const char *listing_of(const Graph *g)
{
    Buf b;
    buf_init(&b, &g->env->model);
    graph_listing(g, &b);
    return b.at;
}

/* Every op whose line has a form of its own. */
static Graph *sampler(World *w)
{
    Front *f = &w->f;
    Env *e = &w->e;
    Dim seq = dim_named(e, "seq");
    Node *x = operand(f, "f32[seq, 4]"), *ids = operand(f, "i64[past]");
    Node *last = f_slice(f, x, 0, dim_addk(e, seq, -1), seq);
    Node *scaled = f_binary_k(f, OP_MUL, f_reduce(f, OP_REDUCE_SUM, last, -1), 1e-6);
    Node *table = f_weight(f, "a.rather.long.weight.name", DT_F32, shape_from(e, "[9, 3, 2]"));
    Node *rows = f_permute(f, f_gather(f, table, ids), 3, (const int[]){1, 0, 2});
    Node *position = f_iota(f, DT_I64, shape_from(e, "[past]"), -1);
    Node *total = f_dim(f, dim_from(e, "past + seq"));
    Node *sum = f_binary(f, OP_ADD, position, total);
    graph_output(f->g, "rows", rows);
    graph_output(f->g, "sum", f_cast(f, sum, DT_F32));
    return finished(f, f_concat(f, (Node *[]){scaled, scaled}, 2, 0));
}

Test(graph_listing, golden)
{
    World w;
    world_init(&w);
    cr_assert_str_eq(listing_of(sampler(&w)),
                     "graph g(x0: f32[seq, 4], x1: i64[past]) {\n"
                     "  %0 = input \"x0\"                          : f32[seq, 4]\n"
                     "  %1 = input \"x1\"                          : i64[past]\n"
                     "  %2 = weight \"a.rather.long.weight.name\"  : f32[9, 3, 2]\n"
                     "  %3 = gather %2, %1                       : f32[past, 3, 2]\n"
                     "  %4 = permute %3 perm=(1, 0, 2)           : f32[3, past, 2]\n"
                     "  %5 = iota axis=-1                        : i64[past]\n"
                     "  %6 = dim (past + seq)                    : i64[]\n"
                     "  %7 = reshape %6 shape=[1]                : i64[1]\n"
                     "  %8 = broadcast %7 shape=[past]           : i64[past]\n"
                     "  %9 = add %5, %8                          : i64[past]\n"
                     "  %10 = cast %9 dtype=f32                  : f32[past]\n"
                     "  %11 = slice %0 axis=0 start=(seq - 1) stop=seq : f32[1, 4]\n"
                     "  %12 = reduce_sum %11 axis=-1             : f32[1, 1]\n"
                     "  %13 = const 1e-06                        : f32[]\n"
                     "  %14 = reshape %13 shape=[1, 1]           : f32[1, 1]\n"
                     "  %15 = mul %12, %14                       : f32[1, 1]\n"
                     "  %16 = concat %15, %15 axis=0             : f32[2, 1]\n"
                     "  return rows=%4, sum=%10, y=%16\n"
                     "}\n");
    world_release(&w);
}

/* The body of the line of a constant alone in its graph. */
static void assert_const(Dtype t, const char *shape, const void *data, const char *body)
{
    World w;
    world_init(&w);
    Graph *g = finished(&w.f, f_const(&w.f, t, shape_from(&w.e, shape), data));
    const char *line = strstr(listing_of(g), "%0 = ");
    cr_expect(!strncmp(line, body, strlen(body)) && line[strlen(body)] == ' ', "%s: %s", body,
              line);
    world_release(&w);
}

Test(graph_listing, constants)
{
    assert_const(DT_F32, "[]", &(float){1e-6f}, "%0 = const 1e-06");
    assert_const(DT_F32, "[]", &(float){4}, "%0 = const 4.0");
    assert_const(DT_F32, "[]", &(float){0.1f}, "%0 = const 0.1");
    assert_const(DT_F32, "[]", &(float){-INFINITY}, "%0 = const -inf");
    assert_const(DT_F32, "[]", &(float){-0.0f}, "%0 = const -0.0");
    assert_const(DT_I64, "[]", &(int64_t){-3}, "%0 = const -3");
    assert_const(DT_I8, "[]", &(int8_t){100}, "%0 = const 100");
    assert_const(DT_F32, "[1]", &(float){4}, "%0 = const <1 values>");
    assert_const(DT_F32, "[2, 3]", (float[6]){0}, "%0 = const <6 values>");
    assert_const(DT_F32, "[2, 0]", NULL, "%0 = const <0 values>");
}

/* The name makes the body n columns wide. */
static void assert_width(int n, const char *end)
{
    World w;
    world_init(&w);
    char name[64] = {0};
    memset(name, 'w', (size_t)n - strlen("%0 = weight \"\""));
    Graph *g = finished(&w.f, f_weight(&w.f, name, DT_F32, shape_of(0, NULL)));
    cr_expect(strstr(listing_of(g), end), "%s", listing_of(g));
    world_release(&w);
}

Test(graph_listing, a_body_wider_than_40_columns_pushes_the_type)
{
    assert_width(39, "w\"  : f32[]\n");
    assert_width(40, "w\" : f32[]\n");
    assert_width(41, "w\" : f32[]\n");
}

Test(graph_listing, hostile_names_are_quoted)
{
    World w;
    world_init(&w);
    Node *x = f_weight(&w.f, "a\"\n  %9 = b", DT_F32, shape_of(0, NULL));
    cr_assert(strstr(listing_of(finished(&w.f, x)), "weight \"a\\\"\\n  %9 = b\""));
    world_release(&w);
}

Test(graph_listing, is_the_same_twice)
{
    World a, b;
    world_init(&a);
    world_init(&b);
    cr_assert_str_eq(listing_of(sampler(&a)), listing_of(sampler(&b)));
    world_release(&a);
    world_release(&b);
}

/* ---- JSON ---------------------------------------- */

static json_t *json_of(const Graph *g)
{
    Buf b;
    buf_init(&b, &g->env->model);
    graph_json(g, &b);
    json_error_t error;
    json_t *root = json_loadb(b.at, b.len, JSON_DECODE_ANY, &error);
    cr_assert(root, "%s at %d", error.text, error.line);
    return root;
}

static json_t *node_at(json_t *root, size_t i)
{
    return json_array_get(json_object_get(root, "nodes"), i);
}

/* One member of a node as compact JSON text. */
static void assert_member(json_t *node, const char *key, const char *expected)
{
    char *text = json_dumps(json_object_get(node, key), JSON_ENCODE_ANY | JSON_COMPACT);
    cr_expect(text && !strcmp(text, expected), "%s is %s, not %s", key, text ? text : "absent",
              expected);
    free(text);
}

Test(graph_listing, json_is_complete)
{
    World w;
    world_init(&w);
    json_t *root = json_of(sampler(&w));
    assert_member(root, "graph", "\"g\"");
    assert_member(root, "symbols", "[\"seq\",\"past\"]");
    assert_member(root, "inputs",
                  "[{\"name\":\"x0\",\"node\":0,\"dtype\":\"f32\",\"shape\":[\"seq\",4]},"
                  "{\"name\":\"x1\",\"node\":1,\"dtype\":\"i64\",\"shape\":[\"past\"]}]");
    assert_member(json_array_get(json_object_get(root, "outputs"), 2), "node", "16");
    assert_member(json_array_get(json_object_get(root, "at_least_zero"), 0), "expr",
                  "\"seq - 1\"");
    cr_assert_eq(json_array_size(json_object_get(root, "nodes")), 17);
    assert_member(node_at(root, 2), "name", "\"a.rather.long.weight.name\"");
    assert_member(node_at(root, 4), "perm", "[1,0,2]");
    assert_member(node_at(root, 5), "axis", "-1");
    assert_member(node_at(root, 6), "expr", "\"past + seq\"");
    assert_member(node_at(root, 9), "operands", "[5,8]");
    assert_member(node_at(root, 10), "op", "\"cast\"");
    assert_member(node_at(root, 11), "start", "\"seq - 1\"");
    assert_member(node_at(root, 11), "stop", "\"seq\"");
    assert_member(node_at(root, 16), "shape", "[2,1]");
    json_decref(root);
    world_release(&w);
}

Test(graph_listing, json_has_every_value_of_a_constant)
{
    World w;
    world_init(&w);
    float data[] = {1.5f, -INFINITY, NAN};
    json_t *root =
        json_of(finished(&w.f, f_const(&w.f, DT_F32, shape_from(&w.e, "[3]"), data)));
    assert_member(node_at(root, 0), "values", "[1.5,\"-inf\",\"nan\"]");
    json_decref(root);
    world_release(&w);
}

/* ---- docs/ops.md ---------------------------------------- */

Test(graph_listing, the_page_of_operations_is_current)
{
    Env e;
    env_init(&e);
    Buf b;
    buf_init(&b, &e.model);
    ops_table(&b);
    cr_assert_str_eq(read_text(&e, "docs/ops.md"), b.at,
                     "make it again: nanocompile dump ops >docs/ops.md");
    env_release(&e);
}

Test(graph_listing, the_table_has_a_row_for_each_op)
{
    Env e;
    env_init(&e);
    Buf b;
    buf_init(&b, &e.model);
    ops_table(&b);
    for (int op = 0; op < N_OPS; op++) {
        const char *row = arena_printf(&e.model, "\n| %s | ", op_info[op].name);
        cr_assert(strstr(b.at, row), "no row for %s", op_info[op].name);
    }
    cr_assert(
        strstr(b.at, "| concat | movement | 1 or more | axis | the operands' common dtype |"));
    cr_assert(strstr(b.at, "| iota | leaf | 0 | dtype, shape, axis |"));
    cr_assert(strstr(b.at, "| where | elementwise | 3 |  |"));
    env_release(&e);
}
