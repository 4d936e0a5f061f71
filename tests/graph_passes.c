/* graph_passes.c - common subexpressions and constant folding: what merges, what must not, and that dead
 * code goes while declared inputs stay. */
#include "tests/compile_util.h"
#include "tests/env_fixture.h"

#include <string.h>

TestSuite(passes, .init = start, .fini = stop);

typedef struct Passed {
    const char *text;
    Graph *(*pass)(const Graph *g);
    int nodes; /* afterwards */
    Op last;   /* of the first output */
} Passed;

static void pass_body(Env *e, void *arg)
{
    const Passed *p = arg;
    Graph *g = p->pass(ncg_parse(e, p->text, strlen(p->text), "test.ncg"));
    cr_expect_eq(g->nodes.n, p->nodes, "%d nodes, not %d, of\n%s", g->nodes.n, p->nodes,
                 p->text);
    cr_expect_eq(g->outputs.at[0].node->op, p->last);
}

static void cse_leaves(int nodes, Op last, const char *text)
{
    Passed p = {text, graph_cse, nodes, last};
    must_work(&env, pass_body, &p);
}

static void fold_leaves(int nodes, Op last, const char *text)
{
    Passed p = {text, graph_fold, nodes, last};
    must_work(&env, pass_body, &p);
}

Test(passes, equal_nodes_merge)
{
    cse_leaves(3, OP_ADD,
               "graph g\nx = input f32[seq]\na = neg x\nb = neg x\nc = add a, b\nreturn c=c\n");
}

Test(passes, equal_constants_and_iotas_merge)
{
    cse_leaves(
        3, OP_ADD,
        "graph g\nx = input f32[2]\na = const f32[2] 1.0, 2.0\nb = const f32[2] 1.0, 2.0\n"
        "c = add a, b\nreturn c=c, x=x\n");
    cse_leaves(3, OP_ADD,
               "graph g\nx = input f32[2]\na = iota i64[2] axis=0\nb = iota i64[2] axis=0\n"
               "c = add a, b\nreturn c=c, x=x\n");
}

Test(passes, constants_of_other_bits_do_not)
{
    cse_leaves(4, OP_ADD,
               "graph g\nx = input f32[1]\na = const f32[1] 0.0\nb = const f32[1] -0.0\n"
               "c = add a, b\nreturn c=c, x=x\n");
}

Test(passes, equal_inputs_do_not_merge)
{
    cse_leaves(3, OP_ADD,
               "graph g\nx = input f32[2]\ny = input f32[2]\nc = add x, y\nreturn c=c\n");
}

Test(passes, axes_merge_only_as_written)
{
    cse_leaves(
        4, OP_ADD,
        "graph g\nx = input f32[2, 3]\na = reduce_sum x axis=-1\nb = reduce_sum x axis=1\n"
        "c = add a, b\nreturn c=c\n");
}

Test(passes, operand_order_matters)
{
    cse_leaves(5, OP_MUL,
               "graph g\nx = input f32[2]\ny = input f32[2]\na = sub x, y\nb = sub y, x\n"
               "c = mul a, b\nreturn c=c\n");
}

Test(passes, constants_fold_through_movement_and_arithmetic)
{
    fold_leaves(2, OP_CONST,
                "graph g\nx = input f32[2]\na = const f32[1, 2] 1.0, 2.0\n"
                "b = permute a perm=[1, 0]\nc = neg b\nreturn c=c, x=x\n");
}

Test(passes, iota_and_dim_are_not_folded)
{
    fold_leaves(
        3, OP_NEG,
        "graph g\nx = input f32[seq]\na = iota i64[3] axis=0\nb = neg a\nreturn b=b, x=x\n");
}

Test(passes, large_results_are_not_folded)
{
    fold_leaves(3, OP_BROADCAST,
                "graph g\nx = input f32[2]\na = const f32[1, 1] 1.0\n"
                "b = broadcast a shape=[257, 256]\nreturn b=b, x=x\n");
    fold_leaves(2, OP_CONST,
                "graph g\nx = input f32[2]\na = const f32[1, 1] 1.0\n"
                "b = broadcast a shape=[256, 256]\nreturn b=b, x=x\n");
}

/* 200 results of 512 KiB each: a few lines of text must not fill the memory. */
Test(passes, folding_ends_before_it_fills_the_memory)
{
    Buf text;
    buf_init(&text, &env.model);
    buf_str(&text, "graph g\n");
    for (int i = 0; i < 200; i++) {
        buf_printf(&text, "a%d = const i64[1] %d\nb%d = broadcast a%d shape=[65536]\n", i, i, i,
                   i);
    }
    buf_str(&text, "y = concat b0");
    for (int i = 1; i < 200; i++) {
        buf_printf(&text, ", b%d", i);
    }
    buf_str(&text, " axis=0\nreturn y=y, first=b0, last=b199\n");
    Graph *g = graph_fold(ncg_parse(&env, text.at, text.len, "test.ncg"));
    cr_expect_eq(g->outputs.at[1].node->op, OP_CONST);
    cr_expect_eq(g->outputs.at[2].node->op, OP_BROADCAST);
}

Test(passes, symbolic_results_are_not_folded)
{
    fold_leaves(3, OP_BROADCAST,
                "graph g\nx = input f32[seq]\na = const f32[1] 1.0\n"
                "b = broadcast a shape=[seq]\nreturn b=b, x=x\n");
}

/* A gather out of range must fail when it runs, as it does unfolded. */
Test(passes, what_fails_is_not_folded)
{
    fold_leaves(4, OP_GATHER,
                "graph g\nx = input f32[2]\nt = const f32[2] 1.0, 2.0\ni = const i64[1] 5\n"
                "y = gather t, i\nreturn y=y, x=x\n");
}

Test(passes, unused_inputs_stay_declared)
{
    cse_leaves(3, OP_NEG,
               "graph g\nx = input f32[2]\nunused = input f32[seq]\ny = neg x\nreturn y=y\n");
}
