/* compile_regress.c - graphs that once came out wrong, compiled with the flags of every build. */
#include <string.h>

#include "tests/compile_util.h"

static void agrees(Env *e, void *arg)
{
    const char *text = arg;
    Library lib;
    Compile c;
    Err err;
    Graph *g = ncg_parse(e, text, strlen(text), "test.ncg");
    Program *p = compiled(e, g, ALL_STAGES, &c);
    Args args = model_args(e, g, 3, 3, 1);
    Tensor *expect = arena_array(&e->model, Tensor, g->outputs.n);
    cr_assert(graph_interpret(g, &args, NULL, &e->model, expect, &err), "%s", err.text);
    build_program(e, p, &lib);
    assert_same_bits(g, expect, run_program(e, c.graph, p, &lib, &args), "C");
    library_release(&lib);
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
