/* graph_validate.c - whole graphs: order and numbering of the node list, what graph_finish
 * collects, and the validator's rules, each met by a graph that breaks it. spec: graph-ir 3 */
#include "graph_util.h"

#include <string.h>

/* ---- the node list ---------------------------------------- */

Test(graph_validate, nodes_are_in_post_order_from_inputs_then_outputs)
{
    World w;
    world_init(&w);
    Node *a = operand(&w.f, "f32[seq]"), *b = operand(&w.f, "f32[seq]");
    Node *left = f_unary(&w.f, OP_NEG, b), *right = f_unary(&w.f, OP_EXP, a);
    Node *sum = f_binary(&w.f, OP_ADD, left, right);
    Node *product = f_binary(&w.f, OP_MUL, right, sum);
    graph_output(w.f.g, "p", product);
    graph_output(w.f.g, "s", sum);
    graph_finish(w.f.g);
    Node *expected[] = {a, b, right, left, sum, product};
    cr_assert_eq(w.f.g->nodes.n, (int)countof(expected));
    for (int i = 0; i < w.f.g->nodes.n; i++) {
        cr_expect_eq(w.f.g->nodes.at[i], expected[i], "node %d", i);
        cr_expect_eq(expected[i]->id, i);
    }
    world_release(&w);
}

Test(graph_validate, unused_inputs_stay_and_dead_code_goes)
{
    World w;
    world_init(&w);
    Node *used = operand(&w.f, "f32[seq]"), *unused = operand(&w.f, "f32[past]");
    Node *dead = f_unary(&w.f, OP_EXP, used);
    Graph *g = finished(&w.f, f_unary(&w.f, OP_NEG, used));
    cr_assert_eq(g->nodes.n, 3);
    cr_assert_eq(g->nodes.at[1], unused);
    cr_assert_eq(dead->id, -1);
    world_release(&w);
}

Test(graph_validate, deep_chains_need_no_stack)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[seq]");
    for (int i = 0; i < 200000; i++) {
        x = f_unary(&w.f, OP_NEG, x);
    }
    cr_assert_eq(finished(&w.f, x)->nodes.n, 200001);
    cr_assert_eq(x->id, 200000);
    world_release(&w);
}

Test(graph_validate, shared_operands_are_visited_once)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[]");
    for (int i = 0; i < 64; i++) { /* 2^64 paths */
        x = f_binary(&w.f, OP_ADD, x, x);
    }
    cr_assert_eq(finished(&w.f, x)->nodes.n, 65);
    world_release(&w);
}

/* ---- what is collected ---------------------------------------- */

Test(graph_validate, symbols_are_in_order_of_first_appearance)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[seq, 4]");
    operand(&w.f, "f32[past + seq, past, seq]");
    Graph *g = finished(&w.f, x);
    cr_assert_eq(g->symbols.n, 2);
    cr_assert_str_eq(w.e.symbol[g->symbols.at[0]], "seq");
    cr_assert_str_eq(w.e.symbol[g->symbols.at[1]], "past");
    world_release(&w);
}

Test(graph_validate, weights_are_those_that_are_reached)
{
    World w;
    world_init(&w);
    Shape s = shape_from(&w.e, "[4]");
    Node *b = f_weight(&w.f, "b", DT_F32, s), *a = f_weight(&w.f, "a", DT_F32, s);
    f_weight(&w.f, "unused", DT_F32, s);
    Graph *g = finished(&w.f, f_binary(&w.f, OP_ADD, b, a));
    cr_assert_eq(g->weights.n, 2);
    cr_assert_eq(g->weights.at[0], b);
    cr_assert_eq(g->weights.at[1], a);
    world_release(&w);
}

static const char *checks_of(const Graph *g)
{
    Buf b;
    buf_init(&b, &g->env->kernel);
    for (int i = 0; i < g->checks.n; i++) {
        const SizeCheck *c = &g->checks.at[i];
        buf_printf(&b, "%s%s: %s", i ? "; " : "", c->what, dim_text(g->env, c->at_least_zero));
    }
    return b.at;
}

Test(graph_validate, slices_with_symbols_become_size_checks)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[n, m]");
    Dim start = dim_from(&w.e, "m - 3"), stop = dim_from(&w.e, "2*k");
    operand(&w.f, "f32[k]");
    Graph *g = finished(&w.f, f_slice(&w.f, x, 1, start, stop));
    cr_assert_str_eq(checks_of(g), "slice: start: m - 3; slice: stop - start: 2*k - m + 3; "
                                   "slice: size - stop: -2*k + m");
    cr_assert_eq(g->checks.at[0].node, g->outputs.at[0].node);
    world_release(&w);
}

Test(graph_validate, the_maximum_of_a_symbolic_axis_needs_an_element)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[n]");
    Graph *g = finished(&w.f, f_reduce(&w.f, OP_REDUCE_MAX, x, 0));
    cr_assert_str_eq(checks_of(g), "reduce_max: size - 1: n - 1");
    world_release(&w);
}

Test(graph_validate, dimensions_that_may_be_negative_are_checked)
{
    World w;
    world_init(&w);
    operand(&w.f, "f32[n]");
    Graph *g = finished(&w.f, f_iota(&w.f, DT_I64, shape_from(&w.e, "[n, 2*n - 1]"), 0));
    cr_assert_str_eq(checks_of(g), "dimension 1 of iota: 2*n - 1");
    world_release(&w);
}

Test(graph_validate, equal_checks_are_kept_once_and_safe_ones_not_at_all)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[n]");
    Node *y = f_slice(&w.f, x, 0, dim_from(&w.e, "n - 1"), dim_from(&w.e, "n"));
    for (int i = 0; i < 5; i++) {
        Node *last = f_slice(&w.f, x, 0, dim_from(&w.e, "n - 1"), dim_from(&w.e, "n"));
        y = f_binary(&w.f, OP_ADD, y, last);
    }
    Node *maximum = f_reduce(&w.f, OP_REDUCE_MAX, x, 0);
    Node *sums = f_iota(&w.f, DT_F32, shape_from(&w.e, "[2*n*n + n + 1]"), 0);
    graph_output(w.f.g, "sums", sums);
    Graph *g = finished(&w.f, f_binary(&w.f, OP_ADD, y, maximum));
    cr_assert_str_eq(checks_of(g), "slice: start: n - 1");
    world_release(&w);
}

/* ---- the rules ---------------------------------------- */

/* clang-format off */
#define R(name, code, message, ...) REJECTS(graph_validate, name, code, message, __VA_ARGS__)

#define LONG "nnnnnnnnnnnnnnnnnnnnnnnnn" /* 25 */

static Node *undeclared(Front *f, const char *name)
{
    Attr attr = {.name = name, .dtype = DT_F32};
    return node_make(f->g->env, OP_INPUT, NULL, 0, &attr, 0);
}

static Node *second_weight(Front *f, const char *name)
{
    Attr attr = {.name = name, .dtype = DT_F32};
    return node_make(f->g->env, OP_WEIGHT, NULL, 0, &attr, 0);
}

R(no_outputs, E_GRAPH, "graph g: it has no outputs", operand(f, "f32[]"), graph_finish(f->g))

R(input_that_is_none, E_GRAPH, "graph g: declared input 0 is a node of neg, not an input",
  Node *x = f_unary(f, OP_NEG, undeclared(f, "a")); graph_input(f->g, x); finished(f, x))

R(input_declared_twice, E_GRAPH, "graph g: input \"a\" is declared twice",
  graph_input(f->g, undeclared(f, "a")); graph_input(f->g, undeclared(f, "a"));
  finished(f, f->g->inputs.at[0]))

R(one_input_node_declared_twice, E_GRAPH, "graph g: input \"a\" is declared twice",
  Node *a = undeclared(f, "a"); graph_input(f->g, a); graph_input(f->g, a); finished(f, a))

R(output_declared_twice, E_GRAPH, "graph g: output \"y\" is declared twice",
  Node *x = operand(f, "f32[]"); graph_output(f->g, "y", x); finished(f, x))

R(input_not_declared, E_GRAPH, "graph g: input \"a\" is used but not declared",
  finished(f, f_unary(f, OP_NEG, undeclared(f, "a"))))

R(input_not_declared_but_of_a_declared_name, E_GRAPH,
  "graph g: input \"x0\" is used but not declared",
  finished(f, f_binary(f, OP_ADD, operand(f, "f32[]"), undeclared(f, "x0"))))

R(weights_of_one_name, E_GRAPH, "graph g: two weights are named \"w\"",
  finished(f, f_binary(f, OP_ADD, second_weight(f, "w"), second_weight(f, "w"))))

static void swap_last_two(Graph *g)
{
    int n = g->nodes.n;
    Node *last = g->nodes.at[n - 1], *before = g->nodes.at[n - 2];
    g->nodes.at[n - 1] = before, g->nodes.at[n - 2] = last;
    before->id = n - 1, last->id = n - 2;
}

R(operand_behind_its_user, E_GRAPH, "graph g: operand 0 of %1 (neg) does not come before it",
  Node *x = f_unary(f, OP_EXP, operand(f, "f32[]"));
  Graph *g = finished(f, f_unary(f, OP_NEG, x)); swap_last_two(g); graph_validate(g))

R(operand_of_another_graph, E_GRAPH, "graph g: operand 0 of %1 (neg) does not come before it",
  Node *x = operand(f, "f32[]"); Graph *g = finished(f, f_unary(f, OP_NEG, x));
  g->nodes.at[1]->in[0] = undeclared(f, "stray"); graph_validate(g))

R(wrong_number, E_GRAPH, "graph g: the node at 1 (neg) is numbered 7",
  Graph *g = finished(f, f_unary(f, OP_NEG, operand(f, "f32[]"))); g->nodes.at[1]->id = 7;
  graph_validate(g))

R(a_cycle, E_GRAPH, "graph g: a node of neg depends on itself",
  Node *x = f_unary(f, OP_EXP, operand(f, "f32[]")); Node *y = f_unary(f, OP_NEG, x);
  x->in[0] = y; finished(f, y))

R(stale_shape, E_GRAPH,
  "graph g: %1 (neg) is stored as f32[3], but its operands and attributes make it f32[seq]",
  Graph *g = finished(f, f_unary(f, OP_NEG, operand(f, "f32[seq]")));
  g->nodes.at[1]->shape.dim[0] = dim_int(3); graph_validate(g))

R(stale_dtype, E_GRAPH,
  "graph g: %1 (neg) is stored as i8[seq], but its operands and attributes make it f32[seq]",
  Graph *g = finished(f, f_unary(f, OP_NEG, operand(f, "f32[seq]")));
  g->nodes.at[1]->dtype = DT_I8; graph_validate(g))

R(operands_that_no_longer_fit, E_SHAPE,
  "add: operands have shapes f32[2] and f32[3]; they must be equal",
  Node *a = operand(f, "f32[2]"); Node *b = operand(f, "f32[3]");
  Graph *g = finished(f, f_binary(f, OP_ADD, a, a)); g->nodes.at[2]->in[1] = b;
  graph_validate(g))

R(symbol_of_a_shape, E_GRAPH,
  "graph g: %0 (input) uses the symbol n, which no input shape binds",
  finished(f, operand(f, "f32[2*n]")))

R(symbol_of_a_dim, E_GRAPH, "graph g: %1 (dim) uses the symbol m, which no input shape binds",
  operand(f, "f32[n]"), finished(f, f_dim(f, dim_from(f->g->env, "m*n + 1"))))

R(symbol_of_a_slice, E_GRAPH,
  "graph g: %1 (slice) uses the symbol k, which no input shape binds",
  Env *e = f->g->env;
  finished(f, f_slice(f, operand(f, "f32[n]"), 0, dim_from(e, "k"), dim_from(e, "k + 1"))))

/* A name of 1 MB that would push the cause out of the message. */
R(a_long_name_does_not_hide_the_cause, E_GRAPH,
  "graph g: two weights are named \"" LONG LONG LONG LONG LONG LONG LONG LONG "\"",
  char *name = arena_alloc(&f->g->env->model, 1 << 20); memset(name, 'n', (1 << 20) - 1);
  finished(f, f_binary(f, OP_ADD, second_weight(f, name), second_weight(f, name))))
/* clang-format on */
