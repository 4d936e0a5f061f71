/* experiments_baselines.c - tests of the baselines: each row that can run here computes the
 * right product at odd sizes, in any number of parts, within its buffers; and says so where it
 * cannot. */
#include "experiments/baselines/baselines_int.h"
#include "tests/fault.h"
#include "tests/helpers.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* LeakSanitizer dies of OpenMP's threads, so there are none where it looks on. */
#ifdef NC_SANITIZED
enum { N_THREADS = 1 };
#else
enum { N_THREADS = 2 };
#endif

enum { GUARD = 16 }; /* floats behind a result that must stay as they are */
static const float MARK = -12345.0f;

static Env env;
static Machine machine;
static Baselines libs;

static void open_all(Env *e, void *arg)
{
    (void)arg;
    machine_read(e, "", &machine);
    baselines_open(e, &machine, N_THREADS, &libs);
}

static void start(void)
{
    unsetenv("NANOCOMPILE_CPU");
    env_init(&env);
    must_work(&env, open_all, NULL);
}

static void stop(void)
{
    fault_disarm();
    baselines_close(&libs);
    env_release(&env);
}

TestSuite(experiments_baselines, .init = start, .fini = stop);

/* ---- one product, its buffers exactly as large as they must be ---- */

typedef struct Trial {
    const Baseline *row;
    Product p;
    float *a, *weights, *c;
    void *packed;
} Trial;

static float *aligned_floats(size_t bytes)
{
    void *p = NULL;
    cr_assert_eq(posix_memalign(&p, 64, bytes > 0 ? bytes : 1), 0);
    return p;
}

static void fill_small_integers(float *p, int64_t n, Rng *rng)
{
    for (int64_t i = 0; i < n; i++) {
        p[i] = (float)rng_below(rng, 15) - 7; /* sums of products are exact in any order */
    }
}

static bool trial_init(Trial *t, const Baseline *row, int64_t m, int64_t n, int64_t k)
{
    Err err;
    *t = (Trial){.row = row};
    if (baseline_lacks(row, &libs, m) || !baseline_plan(row, &libs, m, n, k, &t->p, &err)) {
        return false;
    }
    Rng rng;
    rng_seed(&rng, (uint64_t)(m * 1000003 + n * 1009 + k));
    t->a = aligned_floats((size_t)(m * k) * sizeof(float));
    t->weights = aligned_floats((size_t)(n * k) * sizeof(float));
    t->c = aligned_floats((size_t)(m * n + GUARD) * sizeof(float));
    t->packed = aligned_floats(t->p.b_bytes);
    fill_small_integers(t->a, m * k, &rng);
    fill_small_integers(t->weights, n * k, &rng);
    baseline_pack(row, &libs, &t->p, t->weights, t->packed);
    t->p.a = t->a;
    t->p.b = t->packed;
    t->p.c = t->c;
    return true;
}

static void trial_release(Trial *t)
{
    baseline_unplan(t->row, &libs, &t->p);
    free(t->a);
    free(t->weights);
    free(t->c);
    free(t->packed);
}

static void mark(Trial *t)
{
    for (int64_t i = 0; i < t->p.m * t->p.n + GUARD; i++) {
        t->c[i] = MARK;
    }
}

static double plain(const Trial *t, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t l = 0; l < t->p.k; l++) {
        sum += (double)t->a[i * t->p.k + l] * (double)t->weights[j * t->p.k + l];
    }
    return sum;
}

static void result_is_right(const Trial *t)
{
    const Product *p = &t->p;
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            cr_assert_eq(t->c[i * p->n + j], plain(t, i, j), "%s %dx%dx%d: c[%d, %d]",
                         t->row->name, (int)p->m, (int)p->n, (int)p->k, (int)i, (int)j);
        }
    }
    for (int i = 0; i < GUARD; i++) {
        cr_assert_eq(t->c[p->m * p->n + i], MARK, "%s wrote behind its result", t->row->name);
    }
}

static void row_is_right(const Baseline *row, int64_t m, int64_t n, int64_t k)
{
    Trial t;
    if (!trial_init(&t, row, m, n, k)) {
        return;
    }
    int max_parts = row->own_threads ? 1 : 3;
    for (int n_parts = 1; n_parts <= max_parts; n_parts++) {
        mark(&t);
        for (int part = n_parts - 1; part >= 0; part--) {
            row->run(&libs, &t.p, part, n_parts);
        }
        result_is_right(&t);
    }
    trial_release(&t);
}

static const Baseline *row_named(const char *name)
{
    const Baseline *row = baseline_named(name);
    if (!row) {
        cr_skip_test("%s is not for this kind of machine", name);
    }
    const char *lacks = baseline_lacks(row, &libs, 1);
    if (lacks) {
        cr_skip_test("%s cannot run here: %s", name, lacks);
    }
    return row;
}

static void all_odd_sizes_are_right(const char *name)
{
    static const int sizes[] = {1, 2, 3, 17, 31, 97, 127};
    const Baseline *row = row_named(name);
    for (size_t m = 0; m < countof(sizes); m++) {
        for (size_t n = 0; n < countof(sizes); n++) {
            for (size_t k = 0; k < countof(sizes); k++) {
                row_is_right(row, sizes[m], sizes[n], sizes[k]);
            }
        }
    }
}

#define ROW_IS_RIGHT(test, name)                              \
    Test(experiments_baselines, test##_is_right_at_odd_sizes) \
    {                                                         \
        all_odd_sizes_are_right(name);                        \
    }
ROW_IS_RIGHT(openblas, "openblas")
ROW_IS_RIGHT(onednn, "onednn")
ROW_IS_RIGHT(hand_avx512, "hand-avx512")
ROW_IS_RIGHT(hand_avx512_rows, "hand-avx512-rows")
ROW_IS_RIGHT(hand_avx2, "hand-avx2")
ROW_IS_RIGHT(hand_avx2_rows, "hand-avx2-rows")

Test(experiments_baselines, every_height_and_width_of_a_tile_is_right)
{
    for (int r = 0; r < n_baselines; r++) {
        for (int64_t m = 1; m <= 30; m++) {
            for (int64_t n = 15; n <= 81; n += 11) {
                row_is_right(&baselines[r], m, n, 5);
            }
        }
    }
}

Test(experiments_baselines, empty_products_touch_nothing_and_empty_sums_are_zero)
{
    for (int r = 0; r < n_baselines; r++) {
        row_is_right(&baselines[r], 0, 5, 7);
        row_is_right(&baselines[r], 1, 0, 7);
        row_is_right(&baselines[r], 1, 40, 0);
        row_is_right(&baselines[r], 3, 40, 0);
    }
}

/* Against a double sum: the error of any order of k products is below k ulps of the sum of
 * magnitudes. */
Test(experiments_baselines, long_sums_of_real_numbers_are_within_their_bound)
{
    enum { M = 3, N = 37, K = 4864 };
    for (int r = 0; r < n_baselines; r++) {
        Trial t;
        int64_t m = baselines[r].one_row ? 1 : M;
        if (!trial_init(&t, &baselines[r], m, N, K)) {
            continue;
        }
        fill_normal(t.a, (size_t)(m * K), 1);
        fill_normal(t.weights, N * K, 2);
        baseline_pack(t.row, &libs, &t.p, t.weights, t.packed);
        t.row->run(&libs, &t.p, 0, 1);
        for (int64_t i = 0; i < m * N; i++) {
            double bound = 0;
            for (int64_t l = 0; l < K; l++) {
                bound += fabs((double)t.a[i / N * K + l] * (double)t.weights[i % N * K + l]);
            }
            bound *= K * 0x1p-24;
            cr_assert_leq(fabs(t.c[i] - plain(&t, i / N, i % N)), bound, "%s", t.row->name);
        }
        trial_release(&t);
    }
}

/* ---- parts ---- */

Test(experiments_baselines, shares_are_contiguous_even_and_complete)
{
    for (int64_t n = 0; n <= 40; n++) {
        for (int n_parts = 1; n_parts <= 7; n_parts++) {
            int64_t at = 0;
            for (int part = 0; part < n_parts; part++) {
                Share s = share_of(n, part, n_parts);
                cr_assert_eq(s.first, at);
                cr_assert(s.end - s.first >= n / n_parts && s.end - s.first <= n / n_parts + 1);
                at = s.end;
            }
            cr_assert_eq(at, n);
        }
    }
}

Test(experiments_baselines, a_part_writes_only_its_own_columns)
{
    for (int r = 0; r < n_baselines; r++) {
        Trial t;
        if (baselines[r].own_threads || !trial_init(&t, &baselines[r], 1, 150, 9)) {
            continue;
        }
        int written[150] = {0};
        for (int part = 0; part < 4; part++) {
            mark(&t);
            t.row->run(&libs, &t.p, part, 4);
            for (int j = 0; j < 150; j++) {
                written[j] += t.c[j] != MARK;
            }
        }
        for (int j = 0; j < 150; j++) {
            cr_assert_eq(written[j], 1, "%s column %d", t.row->name, j);
        }
        trial_release(&t);
    }
}

Test(experiments_baselines, panels_hold_columns_side_by_side_and_zeros_behind_the_last)
{
    enum { WIDTH = 4, N = 6, K = 3 };
    float weights[N * K], panels[2 * WIDTH * K];
    for (int i = 0; i < N * K; i++) {
        weights[i] = (float)(i + 1);
    }
    cr_assert_eq(panels_bytes(WIDTH, N, K), sizeof panels);
    panels_pack(WIDTH, N, K, weights, panels);
    for (int j = 0; j < 2 * WIDTH; j++) {
        for (int l = 0; l < K; l++) {
            float want = j < N ? weights[j * K + l] : 0;
            cr_assert_eq(panels[j / WIDTH * WIDTH * K + l * WIDTH + j % WIDTH], want);
        }
    }
}

/* ---- the table ---- */

Test(experiments_baselines, rows_have_names_of_their_own_and_something_to_run)
{
    for (int r = 0; r < n_baselines; r++) {
        cr_assert(baselines[r].name && baselines[r].meaning && baselines[r].run);
        cr_assert_eq(baseline_named(baselines[r].name), &baselines[r]);
    }
    cr_assert_null(baseline_named("mkl"));
}

Test(experiments_baselines, a_row_says_which_feature_is_missing)
{
    Machine bare = {0};
    Baselines s = {.machine = &bare, .onednn = libs.onednn};
    for (int r = 0; r < n_baselines; r++) {
        if (baselines[r].needs) {
            const char *lacks = baseline_lacks(&baselines[r], &s, 1);
            cr_assert(lacks && strstr(lacks, "avx"), "%s", baselines[r].name);
        }
        if (baselines[r].one_row) {
            cr_assert(baseline_lacks(&baselines[r], &libs, 2));
        }
    }
}

/* ---- libraries ---- */

Test(experiments_baselines, openblas_chooses_by_the_machine_and_not_by_the_environment)
{
    row_named("openblas");
    baselines_close(&libs);
    setenv("OPENBLAS_CORETYPE", "Prescott", 1);
    setenv("OPENBLAS_L2_SIZE", "1", 1);
    openblas_open(2, &libs.openblas);
    cr_assert_null(getenv("OPENBLAS_CORETYPE"));
    cr_assert_null(getenv("OPENBLAS_L2_SIZE"));
    const char *says = libs.openblas.says;
    cr_assert(strstr(says, "OpenBLAS ") && strstr(says, "core type ") &&
                  strstr(says, "threads 2"),
              "%s", says);
    cr_assert_not(strstr(says, "Prescott"), "%s", says);
}

Test(experiments_baselines, libraries_that_are_absent_say_so_and_nothing_breaks)
{
    baselines_close(&libs);
    fault_arm("dlopen", 1, true, ENOENT);
    must_work(&env, open_all, NULL);
    fault_disarm();
    const char *blas = baseline_lacks(baseline_named("openblas"), &libs, 1);
    const char *dnn = baseline_lacks(baseline_named("onednn"), &libs, 1);
    cr_assert(blas && strstr(blas, "libopenblas0"), "%s", blas);
    cr_assert(dnn && strstr(dnn, "libdnnl2"), "%s", dnn);
    cr_assert_str_eq(onednn_says(libs.onednn), dnn);
}

Test(experiments_baselines, a_library_that_lacks_a_function_counts_as_absent)
{
    if (!libs.openblas.lib || baseline_lacks(baseline_named("onednn"), &libs, 1)) {
        cr_skip_test("not both libraries are here");
    }
    int n_unharmed = 0;
    for (int nth = 1, hits = 1; hits > 0; nth++) {
        baselines_close(&libs);
        fault_arm("dlsym", nth, false, 0);
        must_work(&env, open_all, NULL);
        hits = fault_hits();
        fault_disarm();
        bool both = libs.openblas.lib && !baseline_lacks(baseline_named("onednn"), &libs, 1);
        n_unharmed += hits > 0 && both;
    }
    cr_assert_eq(n_unharmed, 1, "only the number of OpenMP's threads can be done without");
}

Test(experiments_baselines, a_product_too_large_for_openblas_is_refused)
{
    Err err;
    Product p;
    const Baseline *row = row_named("openblas");
    cr_assert_not(baseline_plan(row, &libs, 1, (int64_t)1 << 31, 1, &p, &err));
    cr_assert_eq(err.code, E_SHAPE);
}

Test(experiments_baselines, no_memory_for_a_plan_is_an_error_in_words)
{
    Err err;
    Product p;
    const Baseline *row = row_named("onednn");
    fault_arm("alloc", 1, false, ENOMEM);
    cr_assert_not(baseline_plan(row, &libs, 2, 3, 4, &p, &err));
    cr_assert_eq(err.code, E_NOMEM);
}
