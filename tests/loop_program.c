/* loop_program.c - a program's kernels: equal text is one kernel, numbered by first use. */
#include "loop/loop.h"
#include "tests/run_util.h"

typedef struct Numbered {
    Program p;
    int index[6];
} Numbered;

static void number_kernels(Env *e, void *arg)
{
    static const float factor[] = {5, 3, 5, 5, 4, 3};
    Numbered *n = arg;
    for (size_t i = 0; i < countof(factor); i++) {
        n->index[i] = program_kernel(e, &n->p, scale_kernel(e, factor[i]));
    }
}

Test(loop_program, equal_kernels_are_one_numbered_by_first_use)
{
    static const int want[] = {0, 1, 0, 0, 2, 1};
    Env e;
    Numbered n = {0};
    env_init(&e);
    must_work(&e, number_kernels, &n);
    cr_assert_arr_eq(n.index, want, sizeof want);
    cr_assert_eq(n.p.kernel.n, 3);
    env_release(&e);
}

static void number_layers(Env *e, void *arg)
{
    Numbered *n = arg;
    for (int layer = 0; layer < 50; layer++) {
        for (int k = 0; k < 40; k++) {
            check(program_kernel(e, &n->p, scale_kernel(e, (float)k)) == k);
        }
    }
}

Test(loop_program, layers_add_no_kernels)
{
    Env e;
    Numbered n = {0};
    env_init(&e);
    must_work(&e, number_layers, &n);
    cr_assert_eq(n.p.kernel.n, 40);
    env_release(&e);
}
