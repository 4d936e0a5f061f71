/* loop_interp.c - the nest interpreter: results, order, laziness, codes, and the check of
 * every access. That it equals emitted C bitwise is tested in emit_c.c. */
#include "tests/loop_util.h"

#include <math.h>
#include <string.h>

Test(loop_interp, matmul_adds_in_index_order)
{
    enum { M = 3, N = 5, K = 7 };
    float a[M * K], b[N * K], y[M * N];
    Env e;
    env_init(&e);
    Kernel *k = kernel_of(&e, matmul_text);
    fill_normal(a, countof(a), 1);
    fill_normal(b, countof(b), 2);
    int64_t n_elems[] = {M * N, M * K, N * K};
    cr_assert_eq(run_nest(&e, k, (void *[]){y, a, b}, n_elems, (int64_t[]){M}), 0);
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            float acc = 0.0f;
            for (int i = 0; i < K; i++) {
                acc = acc + a[m * K + i] * b[n * K + i];
            }
            cr_assert_eq(y[m * N + n], acc);
        }
    }
    env_release(&e);
}

Test(loop_interp, softmax_keeps_what_earlier_phases_computed)
{
    enum { ROWS = 4, WIDTH = 9 };
    float x[ROWS * WIDTH], y[ROWS * WIDTH];
    Env e;
    env_init(&e);
    Kernel *k = kernel_of(&e, softmax_text);
    fill_normal(x, countof(x), 3);
    int64_t n_elems[] = {countof(y), countof(x)};
    cr_assert_eq(run_nest(&e, k, (void *[]){y, x}, n_elems, (int64_t[]){ROWS, WIDTH}), 0);
    for (int i = 0; i < ROWS; i++) {
        float max = -INFINITY, sum = 0.0f;
        for (int j = 0; j < WIDTH; j++) {
            max = fmaxf(max, x[i * WIDTH + j]);
        }
        for (int j = 0; j < WIDTH; j++) {
            sum = sum + expf(x[i * WIDTH + j] - max);
        }
        for (int j = 0; j < WIDTH; j++) {
            cr_assert_eq(y[i * WIDTH + j], expf(x[i * WIDTH + j] - max) / sum);
        }
    }
    env_release(&e);
}

Test(loop_interp, gather_copies_rows_and_fails_with_its_code)
{
    float table[24], y[12];
    int32_t ids[] = {5, 0, 3};
    Env e;
    env_init(&e);
    Kernel *k = kernel_of(&e, gather_text);
    fill_normal(table, countof(table), 4);
    int64_t n_elems[] = {12, 3, 24};
    void *params[] = {y, ids, table};
    cr_assert_eq(run_nest(&e, k, params, n_elems, (int64_t[]){3}), 0);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(memcmp(y + i * 4, table + ids[i] * 4, 4 * sizeof *y), 0);
    }
    ids[1] = 6;
    cr_assert_eq(run_nest(&e, k, params, n_elems, (int64_t[]){3}), 1);
    ids[1] = -1;
    cr_assert_eq(run_nest(&e, k, params, n_elems, (int64_t[]){3}), 1);
    env_release(&e);
}

Test(loop_interp, concat_runs_its_phases_one_after_the_other)
{
    float x0[] = {1, 2, 3}, x1[] = {4, 5, 6, 7, 8, 9}, y[9];
    static const float expected[] = {1, 4, 5, 2, 6, 7, 3, 8, 9};
    Env e;
    env_init(&e);
    Kernel *k = kernel_of(&e, concat_text);
    int64_t n_elems[] = {9, 3, 6};
    /* y's extent s0*3 + s1*3 comes first, so s0 is the width of x0 */
    cr_assert_eq(run_nest(&e, k, (void *[]){y, x0, x1}, n_elems, (int64_t[]){1, 2}), 0);
    cr_assert_eq(memcmp(y, expected, sizeof y), 0);
    env_release(&e);
}

Test(loop_interp, empty_axes_run_nothing_and_touch_nothing)
{
    float y[] = {42.0f};
    Env e;
    env_init(&e);
    Kernel *k = kernel_of(&e, concat_text);
    int64_t n_elems[] = {0, 0, 0};
    cr_assert_eq(run_nest(&e, k, (void *[]){NULL, NULL, NULL}, n_elems, (int64_t[]){0, 0}), 0);
    /* an empty reduction leaves the initial value */
    Kernel *sum =
        kernel_of(&e, "kernel reduce\ny: f32[1]\nx0: f32[s0]\naxis r reduce s0\nphase r\n"
                      "acc0: f32 = 2.5f -> acc0 + x0[r]\ny[0] = acc0\n");
    cr_assert_eq(run_nest(&e, sum, (void *[]){y, NULL}, (int64_t[]){1, 0}, (int64_t[]){0}), 0);
    cr_expect_eq(y[0], 2.5f);
    env_release(&e);
}

Test(loop_interp, selects_and_or_evaluate_only_what_they_need)
{
    float x[] = {1, 2, 3}, y[5];
    Env e;
    env_init(&e);
    Kernel *k =
        kernel_of(&e, "kernel elementwise\ny: f32[5]\nx0: f32[3]\naxis i space 5\nphase i\n"
                      "y[i] = i < 3 ? x0[i] : 2 < i || x0[i] < 0.0f ? 7.0f : 8.0f\n");
    int64_t n_elems[] = {5, 3};
    cr_assert_eq(run_nest(&e, k, (void *[]){y, x}, n_elems, NULL), 0);
    static const float expected[] = {1, 2, 3, 7, 7};
    cr_assert_eq(memcmp(y, expected, sizeof y), 0);
    env_release(&e);
}

Test(loop_interp, phases_without_space_axes_leave_their_variables_to_later_ones)
{
    int64_t x[] = {5, 9, 2}, y[3];
    Env e;
    env_init(&e);
    Kernel *k =
        kernel_of(&e, "kernel row\ny: i64[3]\nx0: i64[3]\naxis r reduce 3\naxis j space 3\n"
                      "phase r\nacc0: i64 = 0 -> acc0 + x0[r]\nt0: i64 = acc0*10\n"
                      "phase j\ny[j] = t0 + x0[j]\n");
    cr_assert_eq(run_nest(&e, k, (void *[]){y, x}, (int64_t[]){3, 3}, NULL), 0);
    cr_expect_eq(y[0], 165);
    cr_expect_eq(y[2], 162);
    env_release(&e);
}

/* ---- accesses out of bounds ---- */

typedef struct Access {
    const char *kernel;
    int64_t n_y, n_x, sym;
    const char *words;
} Access;

static void run_access(Env *e, void *arg)
{
    const Access *a = arg;
    float y[8] = {0}, x[8] = {0};
    Kernel *k = kernel_parse(e, a->kernel, strlen(a->kernel), "test");
    nest_run(e, k, (void *[]){y, x}, (int64_t[]){a->n_y, a->n_x}, (int64_t[]){a->sym});
}

Test(loop_interp, accesses_out_of_bounds_fail_naming_operand_index_and_elements)
{
#define COPY(index) \
    "kernel copy\ny: f32[s0]\nx0: f32[s0]\naxis i space s0\nphase i\ny[i] = x0[" index "]\n"
    static const Access rows[] = {
        {COPY("i"), 4, 3, 4, "(copy) loads element 3 of operand x0, which has 3 elements."},
        {COPY("i"), 3, 4, 4, "(copy) stores to element 3 of operand y, which has 3 elements."},
        {COPY("i - 1"), 4, 4, 4,
         "(copy) loads element -1 of operand x0, which has 4 elements."},
        {COPY("i*4611686018427387904"), 4, 4, 4,
         "(copy) loads element 4611686018427387904 of operand x0, which has 4 elements."},
        {COPY("i"), 4, 0, 4, "(copy) loads element 0 of operand x0, which has 0 elements."},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        Env e;
        env_init(&e);
        must_fail(&e, run_access, (void *)&rows[i], E_RANGE, rows[i].words);
        env_release(&e);
    }
}
