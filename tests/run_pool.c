/* run_pool.c - the thread pool: every part once, what they write is seen, no wake is lost;
 * kernels' parts, alone and in a program. Worth running under the thread sanitizer (TSAN=1). */
#include "tests/compile_util.h"
#include "tests/fault.h"
#include "tests/pool_util.h"

#include <string.h>
#include <unistd.h>

TestSuite(run_pool, .timeout = 60);

/* ---- parts ---- */

Test(run_pool, every_part_runs_once_a_region)
{
    for (size_t i = 0; i < countof(pool_sizes); i++) {
        Parts parts = {0};
        Pool *p = pool_of(pool_sizes[i]);
        cr_assert_eq(pool_threads(p), pool_sizes[i]);
        for (int times = 1; times <= 50; times++) {
            pool_run(p, note, &parts);
            assert_each_ran(&parts, pool_sizes[i], times);
        }
        pool_free(p);
    }
}

Test(run_pool, a_part_stays_with_its_thread_and_part_0_with_the_caller)
{
    Parts first = {0}, later = {0};
    Pool *p = pool_of(7);
    pool_run(p, note, &first);
    for (int i = 0; i < 100; i++) {
        pool_run(p, note, &later);
    }
    cr_assert_eq(first.thread[0], gettid());
    for (int i = 0; i < 7; i++) {
        cr_assert_eq(first.thread[i], later.thread[i]);
        for (int k = 0; k < i; k++) {
            cr_assert_neq(first.thread[i], first.thread[k]);
        }
    }
    pool_free(p);
}

Test(run_pool, what_parts_write_is_seen_by_the_caller_and_by_the_next_region)
{
    for (size_t i = 0; i < countof(pool_sizes); i++) {
        Pool *p = pool_of(pool_sizes[i]);
        run_chain(p, 500);
        pool_free(p);
    }
}

/* ---- waiting and waking ---- */

Test(run_pool, a_hundred_thousand_short_regions_lose_no_wake)
{
    Pool *p = pool_of(2);
    run_chain(p, 100000);
    pool_free(p);
}

Test(run_pool, regions_of_workers_that_never_spin_lose_no_wake)
{
    Pool *p = pool_of(3);
    pool_set_spin(p, 0);
    run_chain(p, 20000);
    pool_free(p);
}

/* Workers that give up after a few looks fall asleep while the caller opens a region. */
Test(run_pool, regions_at_the_moment_of_falling_asleep_lose_no_wake)
{
    Rng r;
    rng_seed(&r, 1);
    Pool *p = pool_of(2);
    for (int i = 0; i < 2000; i++) {
        pool_set_spin(p, (int)rng_below(&r, 20));
        for (volatile uint64_t k = rng_below(&r, 3000); k > 0; k--) {
        }
        run_chain(p, 5);
    }
    pool_free(p);
}

Test(run_pool, more_threads_than_cpus_finish)
{
    Pool *p =
        pool_of(n_cpus_allowed() * 4 + 3 < MAX_PARTS ? n_cpus_allowed() * 4 + 3 : MAX_PARTS);
    run_chain(p, 2000);
    pool_free(p);
}

/* ---- wrong use and bad luck ---- */

static void run_again(void *pool, int part, int n_parts)
{
    if (part == n_parts - 1) {
        pool_run(pool, run_again, pool);
    }
}

Test(run_pool, a_region_inside_the_callers_part_is_a_bug, .signal = SIGABRT)
{
    Pool *p = pool_of(1);
    pool_run(p, run_again, p);
}

Test(run_pool, a_region_inside_a_workers_part_is_a_bug, .signal = SIGABRT)
{
    Pool *p = pool_of(2);
    pool_run(p, run_again, p);
}

static bool make_and_use(void *ctx, Err *err)
{
    (void)ctx;
    int n = n_cpus_allowed() < MAX_PARTS ? n_cpus_allowed() : MAX_PARTS;
    Parts parts = {0};
    Pool *p = pool_new(n, err);
    if (p) {
        pool_run(p, note, &parts);
        assert_each_ran(&parts, n, 1);
        pool_free(p);
    }
    return p != NULL;
}

Test(run_pool, any_failing_system_call_is_reported_or_done_without)
{
    static const char *const calls[] = {"mmap", "madvise", "munmap", "clock_gettime"};
    for (size_t i = 0; i < countof(calls); i++) {
        cr_assert_gt(fault_loop(calls[i], make_and_use, NULL), 0, "%s is never called",
                     calls[i]);
    }
}

/* ---- kernels ---- */

/* params[part] is a code to return, syms[part] must be the part. */
static int32_t give_code(void *const *params, const int64_t *syms, int part, int n_parts)
{
    (void)n_parts;
    return syms[part] == part ? *(const int32_t *)params[part] : INT32_MAX;
}

Test(run_pool, a_kernel_gives_the_largest_code_that_is_not_0)
{
    static const struct Case {
        int32_t code[3], result;
    } cases[] = {
        {{0, 0, 0}, 0},   {{1, 0, 0}, 1},    {{0, 0, 2}, 2},
        {{1, 3, 2}, 3},   {{9, 1, 2}, 9},    {{-1, 0, 0}, -1},
        {{0, 0, -5}, -5}, {{-7, -2, 0}, -2}, {{-7, 4, INT32_MIN}, 4},
    };
    const int64_t syms[] = {0, 1, 2};
    Pool *p = pool_of(3);
    for (size_t i = 0; i < countof(cases); i++) {
        struct Case c = cases[i];
        void *const params[] = {&c.code[0], &c.code[1], &c.code[2]};
        cr_assert_eq(pool_kernel(p, give_code, params, syms), c.result, "case %zu", i);
    }
    pool_free(p);
}

enum { N_ELEMS = 7 };

/* Instead of x + x: which part of how many wrote each element. */
static int32_t sign(void *const *params, const int64_t *syms, int part, int n_parts)
{
    float *y = params[0];
    (void)syms;
    for (int i = part; i < N_ELEMS; i += n_parts) {
        y[i] = (float)(n_parts * 100 + part);
    }
    return 0;
}

static int32_t fail_in_the_last_part(void *const *params, const int64_t *syms, int part,
                                     int n_parts)
{
    (void)params, (void)syms;
    return part == n_parts - 1 ? 30 + part : 0;
}

typedef struct Sum { /* a program of one call */
    Env e;
    Compile c;
    Program *p;
    float x[N_ELEMS], y[N_ELEMS];
} Sum;

static void compile_sum(Env *e, void *arg)
{
    static const char text[] = "graph sum\nx = input f32[7]\ny = add x, x\nreturn y=y\n";
    Sum *s = arg;
    s->c = (Compile){.env = e};
    s->p = compile_model(&s->c, ncg_parse(e, text, sizeof text - 1, "test"));
    cr_assert_eq(s->p->call.n, 1);
}

static bool run_sum(Sum *s, KernelFn fn, Pool *pool, bool parallel, Err *err)
{
    NamedTensor x = {"x", {DT_F32, 1, {N_ELEMS}, s->x}};
    Args args = {&x, 1, NULL, 0};
    Tensor out = {DT_F32, 1, {N_ELEMS}, s->y};
    s->p->kernel.at[0]->parallel = parallel;
    Exec *exec = exec_new(&s->e, s->c.graph, s->p, &fn);
    exec_use_pool(exec, pool);
    bool ok = exec_bind(exec, &args, &out, err) && exec_call(exec, err);
    exec_free(exec);
    return ok;
}

static Sum new_sum(void)
{
    Sum s = {0};
    env_init(&s.e);
    return s;
}

Test(run_pool, a_program_splits_the_kernels_that_can_be_split)
{
    Err err = {.code = E_OK};
    Sum s = new_sum();
    Pool *p = pool_of(3);
    must_work(&s.e, compile_sum, &s);
    for (int parallel = 0; parallel <= 1; parallel++) {
        for (int pooled = 0; pooled <= 1; pooled++) {
            cr_assert(run_sum(&s, sign, pooled ? p : NULL, parallel, &err), "%s", err.text);
            for (int i = 0; i < N_ELEMS; i++) {
                cr_assert_eq(s.y[i], parallel && pooled ? 300 + i % 3 : 100);
            }
        }
    }
    pool_free(p);
    env_release(&s.e);
}

Test(run_pool, a_code_from_any_part_fails_the_call)
{
    Err err = {.code = E_OK};
    Sum s = new_sum();
    Pool *p = pool_of(3);
    must_work(&s.e, compile_sum, &s);
    cr_assert_not(run_sum(&s, fail_in_the_last_part, p, true, &err));
    cr_assert_eq(err.code, E_RANGE);
    cr_assert(strstr(err.text, "failed with code 32"), "%s", err.text);
    pool_free(p);
    env_release(&s.e);
}
