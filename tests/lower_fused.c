/* lower_fused.c - fused kernels equal unfused ones bitwise; what the planner joins and what it must not;
 * what the generator refuses; and that sharing and depth never blow a kernel up. */
#include "tests/compile_util.h"
#include "tests/env_fixture.h"

#include <stdlib.h>
#include <string.h>

TestSuite(fused, .init = start, .fini = stop);

/* ---- whole models ---- */

typedef struct ModelStep {
    ModelSize size;
    int64_t seq, past;
    bool last_only;
} ModelStep;

static void same_bits(Env *e, void *arg)
{
    const ModelStep *s = arg;
    Library fast, slow;
    Compile cf, cu;
    Graph *g = model_graph(e, s->size, s->last_only);
    Args args = model_args(e, g, s->seq, s->past, 7);
    Program *pf = compiled(e, g, 0, &cf), *pu = compiled(e, g, ALL_STAGES, &cu);
    build_program(e, pf, &fast);
    build_program(e, pu, &slow);
    Tensor *a = run_program(e, cf.graph, pf, &fast, &args);
    Tensor *b = run_program(e, cu.graph, pu, &slow, &args);
    assert_same_bits(g, a, b, "fused and unfused C");
    library_release(&fast);
    library_release(&slow);
}

static void check_step(ModelSize size, int64_t seq, int64_t past, bool last_only)
{
    ModelStep s = {size, seq, past, last_only};
    must_work(&env, same_bits, &s);
}

Test(fused, equals_unfused_on_the_tiny_model)
{
    check_step(size_tiny, 1, 17, true);
    check_step(size_tiny, 11, 0, false);
    check_step(size_tiny, 3, 5, false);
}

Test(fused, equals_unfused_on_24_layers)
{
    ModelSize narrow = {56, 96, 24, 14, 2, 128};
    check_step(narrow, 5, 0, true);
    check_step(narrow, 1, 17, true);
}

Test(fused, equals_unfused_at_full_width)
{
    ModelSize wide = size_05b;
    bool full = getenv("NC_FULL") != NULL;
    wide.layers = full ? 24 : 2;
    wide.vocab = full ? wide.vocab : 1024;
    check_step(wide, 1, 17, true);
    check_step(wide, 4, 0, true);
}

static void nests_agree(Env *e, void *arg)
{
    (void)arg;
    Graph *g = model_graph(e, size_tiny, false);
    Args args = model_args(e, g, 3, 5, 7);
    Compile cf, cu;
    Tensor *expect = arena_array(&e->model, Tensor, g->outputs.n);
    Err err;
    Program *pf = compiled(e, g, 0, &cf), *pu = compiled(e, g, ALL_STAGES, &cu);
    cr_assert(graph_interpret(g, &args, NULL, &e->model, expect, &err), "%s", err.text);
    assert_same_bits(g, expect, run_program(e, cf.graph, pf, NULL, &args),
                     "interpreter and fused nests");
    assert_same_bits(g, expect, run_program(e, cu.graph, pu, NULL, &args),
                     "interpreter and unfused nests");
}

Test(fused, nests_equal_the_interpreter_on_the_tiny_model)
{
    must_work(&env, nests_agree, NULL);
}

/* ---- single fusions ---- */

typedef struct Small {
    const char *text;  /* .ncg */
    const char *kinds; /* of the fused calls, in order, separated by blanks */
} Small;

static Graph *parsed(Env *e, const char *text)
{
    return ncg_parse(e, text, strlen(text), "test.ncg");
}

static const char *kinds_of(Env *e, const Program *p)
{
    Buf b;
    buf_init(&b, &e->model);
    for (int i = 0; i < p->call.n; i++) {
        buf_printf(&b, "%s%s", i ? " " : "", p->kernel.at[p->call.at[i].kernel]->kind);
    }
    return b.at;
}

static void check_small(Env *e, void *arg)
{
    const Small *s = arg;
    Graph *g = parsed(e, s->text);
    Compile cf, cu;
    Err err;
    Program *pf = compiled(e, g, 0, &cf), *pu = compiled(e, g, ALL_STAGES, &cu);
    cr_expect_str_eq(kinds_of(e, pf), s->kinds);
    for (int64_t seq = 1; seq <= 7; seq += 3) {
        Args args = model_args(e, g, seq, 2, 3);
        Tensor *expect = arena_array(&e->model, Tensor, g->outputs.n);
        cr_assert(graph_interpret(g, &args, NULL, &e->model, expect, &err), "%s", err.text);
        assert_same_bits(g, expect, run_program(e, cf.graph, pf, NULL, &args), s->text);
        assert_same_bits(g, expect, run_program(e, cu.graph, pu, NULL, &args), s->text);
    }
}

static void check_fusion(const char *kinds, const char *text)
{
    Small s = {text, kinds};
    must_work(&env, check_small, &s);
}

Test(fused, a_chain_of_elementwise_is_one_kernel)
{
    check_fusion(
        "elementwise",
        "graph g\nx = input f32[seq, 3]\na = exp x\nb = neg a\nc = mul b, x\nreturn c=c\n");
}

Test(fused, a_value_used_twice_in_one_kernel_is_inlined)
{
    check_fusion("elementwise",
                 "graph g\nx = input f32[seq]\na = exp x\nb = mul a, a\nreturn b=b\n");
}

Test(fused, a_value_used_by_two_kernels_is_a_buffer)
{
    check_fusion(
        "elementwise elementwise elementwise",
        "graph g\nx = input f32[seq]\na = exp x\nb = neg a\nc = sqrt a\nreturn b=b, c=c\n");
}

Test(fused, nothing_is_inlined_into_a_matmul)
{
    check_fusion("elementwise matmul", "graph g\nx = input f32[seq, 4]\nw = input f32[4, 3]\na "
                                       "= exp x\nb = matmul a, w\nreturn b=b\n");
}

Test(fused, softmax_is_one_row_kernel)
{
    check_fusion("row", "graph g\nx = input f32[seq, 5]\nm = reduce_max x axis=-1\n"
                        "mb = broadcast m shape=[seq, 5]\nd = sub x, mb\ne = exp d\n"
                        "s = reduce_sum e axis=-1\nsb = broadcast s shape=[seq, 5]\ny = div e, "
                        "sb\nreturn y=y\n");
}

Test(fused, a_reduction_along_another_axis_stays_alone)
{
    check_fusion("reduce elementwise", "graph g\nx = input f32[4, seq]\nm = reduce_sum x "
                                       "axis=0\nmb = broadcast m shape=[4, seq]\n"
                                       "y = sub x, mb\nreturn y=y\n");
}

Test(fused, elementwise_before_a_reduction_joins_it)
{
    check_fusion(
        "reduce",
        "graph g\nx = input f32[seq, 5]\na = mul x, x\ns = reduce_sum a axis=-1\nreturn s=s\n");
}

Test(fused, an_epilogue_joins_its_matmul)
{
    check_fusion("matmul+epilogue",
                 "graph g\nx = input f32[seq, 4]\nw = input f32[4, 3]\nr = input f32[seq, 3]\n"
                 "p = matmul x, w\ny = add r, p\nreturn y=y\n");
}

Test(fused, two_products_of_one_length_share_an_epilogue)
{
    check_fusion("matmul+epilogue",
                 "graph g\nx = input f32[seq, 4]\nw = input f32[4, 3]\nv = input f32[4, 3]\n"
                 "p = matmul x, w\nq = matmul x, v\ny = mul p, q\nreturn y=y\n");
}

Test(fused, products_of_different_lengths_do_not)
{
    check_fusion("matmul matmul+epilogue",
                 "graph g\nx = input f32[seq, 4]\nw = input f32[4, 3]\nz = input f32[seq, "
                 "5]\nv = input f32[5, 3]\n"
                 "p = matmul x, w\nq = matmul z, v\ny = mul p, q\nreturn y=y\n");
}

/* x + reshape(max(x), [1, 4]): fits a row by shape, but is read at another row's index. */
Test(fused, a_row_result_read_elsewhere_is_refused)
{
    check_fusion(
        "reduce elementwise",
        "graph g\nx = input f32[4, 4]\nm = reduce_max x axis=-1\nt = reshape m shape=[1, 4]\n"
        "b = broadcast t shape=[4, 4]\ny = add x, b\nreturn y=y\n");
}

Test(fused, concat_loads_only_the_chosen_operand)
{
    check_fusion("elementwise", "graph g\nx = input f32[seq, 3]\ny = input f32[past, 3]\n"
                                "c = concat y, x axis=0\ne = exp c\nreturn e=e\n");
}

Test(fused, outputs_that_are_leaves_or_repeated_are_copied)
{
    check_fusion("elementwise copy copy copy",
                 "graph g\nx = input f32[seq, 3]\nk = const f32[] 2.5\ny = neg x\nreturn a=x, "
                 "b=y, c=y, d=k\n");
}

Test(fused, an_output_that_is_a_movement_is_a_copy)
{
    check_fusion("copy",
                 "graph g\nx = input f32[seq, 3]\np = permute x perm=[1, 0]\nreturn p=p\n");
}

Test(fused, the_causal_mask_is_never_a_buffer)
{
    check_fusion(
        "elementwise",
        "graph g\nx = input f32[seq, seq]\ni = iota i64[seq, seq] axis=0\nj = iota i64[seq, "
        "seq] axis=1\n"
        "z = const f32[] 0.0\nzb = reshape z shape=[1, 1]\nzs = broadcast zb shape=[seq, seq]\n"
        "a = less_equal j, i\ny = where a, x, zs\nreturn y=y\n");
}

/* ---- what must not blow up ---- */

static void deep_chain(Env *e, void *arg)
{
    (void)arg;
    Buf b;
    buf_init(&b, &e->model);
    buf_str(&b, "graph deep\nx0 = input f32[3]\n");
    for (int i = 0; i < 5000; i++) {
        buf_printf(&b, "x%d = neg x%d\n", i + 1, i);
    }
    buf_str(&b, "return y=x5000\n");
    Graph *g = parsed(e, b.at);
    Program *p = compiled(e, g, 0, NULL);
    cr_expect_gt(p->call.n, 1); /* cut by buffers */
    cr_expect_lt(p->call.n, 100);
    Args args = model_args(e, g, 1, 0, 1);
    Tensor *y = run_program(e, g, p, NULL, &args);
    cr_expect(!memcmp(y[0].data, args.input[0].t.data, 12));
}

Test(fused, a_chain_of_5000_nodes_is_cut_into_kernels)
{
    must_work(&env, deep_chain, NULL);
}

static size_t longest_text(const Program *p)
{
    size_t longest = 0;
    for (int i = 0; i < p->kernel.n; i++) {
        size_t len = strlen(p->kernel.at[i]->text);
        longest = len > longest ? len : longest;
    }
    return longest;
}

/* Doubling 40 times inside a branch of a select would be 2^40 nodes as a tree. */
static void shared_in_branch(Env *e, void *arg)
{
    (void)arg;
    Buf b;
    buf_init(&b, &e->model);
    buf_str(&b, "graph wide\nx0 = input f32[seq]\n");
    for (int i = 0; i < 40; i++) {
        buf_printf(&b, "x%d = mul x%d, x%d\n", i + 1, i, i);
    }
    buf_str(&b, "c = concat x40, x40 axis=0\nreturn c=c\n");
    Program *p = compiled(e, parsed(e, b.at), 0, NULL);
    cr_expect_lt(longest_text(p), 100000);
}

Test(fused, sharing_inside_a_branch_stays_small)
{
    must_work(&env, shared_in_branch, NULL);
}

/* Each concat is made of two parts of the one before it, so every element has 2^40 ways back. */
static void shared_parts(Env *e, void *arg)
{
    (void)arg;
    Buf b;
    buf_init(&b, &e->model);
    buf_str(&b, "graph parts\nx0 = input f32[4]\n");
    for (int i = 0; i < 40; i++) {
        buf_printf(
            &b,
            "a%d = slice x%d axis=0 start=0 stop=2\nb%d = slice x%d axis=0 start=1 stop=3\n"
            "x%d = concat a%d, b%d axis=0\n",
            i, i, i, i, i + 1, i, i);
    }
    buf_str(&b, "y = neg x40\nreturn y=y\n");
    Program *p = compiled(e, parsed(e, b.at), 0, NULL);
    cr_expect_lt(longest_text(p), 100000);
}

Test(fused, parts_of_parts_stay_small)
{
    must_work(&env, shared_parts, NULL);
}

/* Each reshape of a permuted value multiplies its index arithmetic. */
static void nested_reshapes(Env *e, void *arg)
{
    (void)arg;
    Buf b;
    buf_init(&b, &e->model);
    buf_str(&b, "graph turn\nx0 = input f32[6, 10, 15]\n");
    for (int i = 0; i < 24; i++) {
        buf_printf(&b, "p%d = permute x%d perm=[2, 0, 1]\nx%d = reshape p%d shape=[%s]\n", i, i,
                   i + 1, i, i % 2 ? "6, 10, 15" : "10, 15, 6");
    }
    buf_str(&b, "y = neg x24\nreturn y=y\n");
    Small s = {b.at, NULL};
    Graph *g = parsed(e, s.text);
    Compile c;
    Program *p = compiled(e, g, 0, &c);
    cr_expect_lt(longest_text(p), 100000);
    Args args = model_args(e, g, 1, 0, 1);
    Tensor *expect = arena_array(&e->model, Tensor, 1);
    Err err;
    cr_assert(graph_interpret(g, &args, NULL, &e->model, expect, &err), "%s", err.text);
    assert_same_bits(g, expect, run_program(e, c.graph, p, NULL, &args), "nested reshapes");
}

Test(fused, nested_reshapes_stay_small)
{
    must_work(&env, nested_reshapes, NULL);
}
