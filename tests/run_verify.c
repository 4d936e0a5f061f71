/* run_verify.c - verification of compiled candidates: right ones pass under every kind of schedule; the same seed
 * gives the same verdict; what does not fit or finds no memory is said. Planted faults: run_verify_faults.c. */
#include "tests/env_fixture.h"
#include "tests/fault.h"
#include "tests/verify_util.h"

#include <string.h>

TestSuite(verify, .init = start, .fini = stop, .timeout = 600);

/* ---- right candidates ---- */

typedef struct Right {
    const char *text;
    int64_t syms[2];
    const char *schedules[8];
} Right;

static const Right families[] = {
    {product_text,
     {13},
     {"", "split n 8 peel",
      "split m 4 mask; split n 8 mask; order m.o n.o k m.i n.i; unroll m.i",
      "split n 8 overlap",
      "split n 32 pad; split m 6 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; fma; "
      "pack b n.o,k,n.i; par n.o",
      "split k 16 peel; order m n k.o k.i; acc k.i; vec k.i; fma; par m",
      "split k 32 peel; split n 4 peel; order n.o m k.o n.i k.i; acc k.i; vec k.i; unroll n.i; "
      "par n.o",
      "split k 5 switch"}},
    {widened_text,
     {13},
     {"store b bf16",
      "split n 32 pad; split m 6 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; fma; "
      "pack b n.o,k,n.i; store b bf16; par n.o",
      "split n 32 pad; order n.o m k n.i; vec n.i; pack b n.o,k,n.i; par n.o",
      "split k 16 peel; order m n k.o k.i; acc k.i; vec k.i; fma; store b bf16; prefetch b k.o "
      "64; par m"}},
    {long_text,
     {3},
     {"split k 16 peel; order m n k.o k.i; acc k.i; vec k.i; fma; par m",
      "split k 32 peel; acc k.i; vec k.i"}},
    {swiglu_text,
     {9},
     {"par m",
      "split n 16 pad; split m 4 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; fma; "
      "pack b n.o,k,n.i; "
      "pack b1 n.o,k,n.i; approx exp; par n.o",
      "split k 16 peel; order m n k.o k.i; acc k.i; vec k.i; approx exp; par m"}},
    {rows_text,
     {3, 45},
     {"par i", "split j 16 peel; vec j.i",
      "split r 16 peel; acc r.i; vec r.i; split j 16 peel; vec j.i; approx exp; par i",
      "approx exp", "split r 32 peel; acc r.i; vec r.i; split j 32 mask; vec j.i"}},
    {norm_text,
     {5},
     {"", "split r 16 peel; acc r.i; vec r.i; fma; split j 8; vec j.i; par i",
      "split r 8; split r.i 4; acc r.i.i; vec r.i.i; fma"}},
    {score_text, {21, 6}, {"", "split m 4 peel", "split k 8; acc k.i; vec k.i; fma; par h"}},
    {rope_text, {7, 30}, {"", "split i 3 peel; par i.o"}},
    {lookup_text, {6}, {"", "split j 16 peel; vec j.i; par i"}},
    {strided_text, {6}, {"", "split i 4 peel; par i.o"}},
};

static int add_right(Bench *b, const Right *f)
{
    const Kernel *k = kernel_from(b->e, f->text);
    int first = b->n;
    for (size_t i = 0; i < countof(f->schedules) && f->schedules[i]; i++) {
        bench_add(b, k, f->schedules[i]);
    }
    return first;
}

static void right_ones(Env *e, void *arg)
{
    int first[countof(families) + 1];
    Bench *b = arg;
    *b = (Bench){.e = e};
    for (size_t f = 0; f < countof(families); f++) {
        first[f] = add_right(b, &families[f]);
    }
    first[countof(families)] = b->n;
    bench_compile(b, NULL);
    for (size_t f = 0; f < countof(families); f++) {
        for (int i = first[f]; i < first[f + 1]; i++) {
            const Case *c = &b->at[i];
            BuiltKernel k = {.k = c->k, .fn = c->fn, .pack = c->pack, .n_parts = 1 + i % 3};
            VerifyOptions o = {.syms = families[f].syms, .seed = 7};
            Verdict v;
            cr_assert(verify_kernel(e, c->naive, &k, &o, &v), "%s\n%s\n%s", v.text,
                      c->k->schedule, c->k->text);
            cr_assert(v.n_exact + v.n_bounded > 100 && v.n_runs > 5, "%s", v.text);
            cr_assert(v.n_open * 20 <= v.n_exact + v.n_bounded, "%lld open\n%s",
                      (long long)v.n_open, c->k->schedule);
            cr_assert(!kernel_exact(c->k) || v.n_bounded == 0);
            cr_assert_eq(v.n_skipped, 0);
        }
    }
    bench_close(b);
}

Test(verify, right_candidates_pass)
{
    static Bench bench;
    must_work(&env, right_ones, &bench);
}

/* ---- the function itself ---- */

static void twice(Env *e, void *arg)
{
    Built b;
    (void)arg;
    build(e, &b, swiglu_text,
          "split k 16 peel; order m n k.o k.i; acc k.i; vec k.i; approx exp; par m");
    Verdict v = verified(e, b.bench.at[0].naive, &b.kernel, (const int64_t[]){9});
    Verdict w = verified(e, b.bench.at[0].naive, &b.kernel, (const int64_t[]){9});
    cr_assert_str_eq(v.text, w.text);
    cr_expect(v.n_exact == w.n_exact && v.n_bounded == w.n_bounded && v.closest == w.closest);
    cr_expect(strstr(v.text, "since the kernel computes exp"), "%s", v.text);
    built_close(&b);
}

Test(verify, the_same_seed_gives_the_same_verdict)
{
    must_work(&env, twice, NULL);
}

static int32_t by_a_runner(void *ctx, KernelFn fn, void *const *params, const int64_t *syms)
{
    ++*(int *)ctx;
    return fn(params, syms, 0, 1);
}

static void runner(Env *e, void *arg)
{
    Built b;
    int n = 0;
    (void)arg;
    build(e, &b, product_text,
          "split n 16 pad; split m 4 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; "
          "pack b n.o,k,n.i; par n.o");
    b.kernel.run = by_a_runner;
    b.kernel.ctx = &n;
    Verdict v = verified(e, b.bench.at[0].naive, &b.kernel, (const int64_t[]){5});
    cr_expect(v.ok);
    cr_expect_eq(n, 2 * v.n_runs);
    built_close(&b);
}

Test(verify, parts_may_be_run_by_the_caller)
{
    must_work(&env, runner, NULL);
}

static const char short_text[] =
    "kernel copy\ny: f32[s0]\nx0: f32[10]\naxis i space s0\nphase i\n    y[i] = x0[i]\n";

static int32_t short_copy(void *const *p, const int64_t *syms, int part, int n_parts)
{
    (void)part, (void)n_parts;
    memcpy(p[0], p[1], (size_t)(syms[0] < 10 ? syms[0] : 10) * sizeof(float));
    return 0;
}

typedef struct Fit {
    int64_t size;
    Verdict v;
} Fit;

static void fit(Env *e, void *arg)
{
    Fit *f = arg;
    const Kernel *k = kernel_from(e, short_text);
    BuiltKernel b = {.k = k, .fn = short_copy, .n_parts = 1};
    VerifyOptions o = {.syms = &f->size, .seed = 1, .in_process = true};
    verify_kernel(e, k, &b, &o, &f->v);
}

Test(verify, sizes_that_the_nest_does_not_fit_are_skipped)
{
    Fit f = {.size = 10};
    must_work(&env, fit, &f);
    cr_expect(f.v.ok);
    cr_expect_eq(f.v.n_skipped, 2, "%d", f.v.n_skipped); /* 11, on integers and floats */
}

Test(verify, tuned_sizes_must_fit)
{
    Fit f = {.size = 12};
    must_fail(&env, fit, &f, E_RANGE, "element 10 of operand x0, which has 10 elements");
    cr_expect(!f.v.ok);
}

static bool verify_short(void *ctx, Err *err)
{
    Env e;
    Fit f = {.size = 9};
    (void)ctx;
    env_init(&e);
    bool ran = env_try(&e, fit, &f);
    cr_assert_eq(ran, f.v.ok);
    *err = e.err;
    env_release(&e);
    return ran;
}

Test(verify, without_memory_it_says_so)
{
    cr_expect(fault_loop("mmap", verify_short, NULL) > 10);
    cr_expect(fault_loop("alloc", verify_short, NULL) > 10);
}
