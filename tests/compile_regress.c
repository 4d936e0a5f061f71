/* compile_regress.c - graphs that once came out wrong, compiled with the flags of every build. */
#include <string.h>

#include "tests/compile_util.h"

static void agrees_without(Env *e, const Graph *g, unsigned stages)
{
    Library lib;
    Compile c;
    Err err;
    Program *p = compiled(e, g, stages, &c);
    Args args = model_args(e, g, 3, 3, 1);
    Tensor *expect = arena_array(&e->model, Tensor, g->outputs.n);
    cr_assert(graph_interpret(g, &args, NULL, &e->model, expect, &err), "%s", err.text);
    build_program(e, p, &lib);
    assert_same_bits(g, expect, run_program(e, c.graph, p, &lib, &args), "C");
    library_release(&lib);
}

/* Fused and not. */
static void agrees(Env *e, void *arg)
{
    const char *text = arg;
    const Graph *g = ncg_parse(e, text, strlen(text), "test.ncg");
    agrees_without(e, g, 0);
    agrees_without(e, g, ALL_STAGES);
}

/* gcc 12 at -O3 with AVX2 vectorises this select on bytes wrongly, so vectorising is left to schedules.
 * Found by the random campaign, seeds 74 and 10523. */
Test(compile_regress, a_select_on_bytes_over_a_short_axis)
{
    Env e;
    env_init(&e);
    must_work(&e, agrees,
              "graph g\nw = input f32[4, 4, 2]\nz = const f32[4, 4, 2] -0.1, 0.2, 0.3, -0.4, "
              "0.1, 0.2, 0.3, 0.4, -0.1, 0.2, 0.3, "
              "0.4, 0.1, -0.2, 0.3, 0.4, 0.1, 0.2, -0.3, 0.4, 0.1, 0.2, 0.3, -0.4, 0.1, 0.2, "
              "-0.3, 0.4, 0.1, 0.2, 0.3, 0.4\n"
              "c = less_equal z, w\nn = neg w\ns = where c, n, w\nreturn s=s\n");
    env_release(&e);
}

/* gcc 12 folds 0 - x to -x where it thinks that x is never -0: of an integer, of a choice of
 * constants. +0 is then -0. Found by the random campaign, seed 12961. */
Test(compile_regress, zero_minus_what_is_never_minus_zero)
{
    Env e;
    env_init(&e);
    must_work(&e, agrees,
              "graph g\nx = input f32[seq]\nz = const f32[] 0.0\nz1 = reshape z shape=[1]\n"
              "zs = broadcast z1 shape=[seq]\ni = iota f32[seq] axis=0\nd = sub zs, i\n"
              "o = const f32[] 1.0\no1 = reshape o shape=[1]\nos = broadcast o1 shape=[seq]\n"
              "c = less_equal x, x\nw = where c, zs, os\nn = sub zs, w\nreturn d=d, n=n\n");
    env_release(&e);
}
