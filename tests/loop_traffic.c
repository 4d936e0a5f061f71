/* loop_traffic.c - float operations counted off a nest, as polynomials in its symbols. */
#include "tests/env_fixture.h"
#include "tests/loop_util.h"

TestSuite(loop_traffic, .init = start, .fini = stop);

static const char *flops_of(const char *text)
{
    return dim_text(&env, kernel_flops(&env, kernel_of(&env, text)));
}

Test(loop_traffic, operations_are_counted_where_the_nest_writes_them)
{
    cr_expect_str_eq(flops_of(matmul_text), "70*s0"); /* 2 x 5 x 7 */
    /* Three compares or less in the maximum, exp, sub and add in the sum, exp, sub and div in the row. */
    cr_expect_str_eq(flops_of(softmax_text), "8*s0*s1");
    cr_expect_str_eq(flops_of(gather_text), "0");
}

static void count(Env *e, void *kernel)
{
    kernel_flops(e, kernel);
}

Test(loop_traffic, an_extent_that_divides_is_refused)
{
    Kernel *k = kernel_of(&env, "kernel elementwise\n"
                                "y: f32[s0]\n"
                                "x0: f32[s0]\n"
                                "axis i space s0/2\n"
                                "phase i\n"
                                "    y[i] = -x0[i]\n");
    must_fail(&env, count, k, E_ILLEGAL, "no polynomial");
}
