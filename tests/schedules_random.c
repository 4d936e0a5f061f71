/* schedules_random.c - random legal points of the spaces, compiled and run: C is the scheduled
 * nest bitwise, and both are the naive nest, bitwise where the schedule is exact and on small
 * integers. 200 points in `make test`, 1,000 with NC_FULL, the classes in turn. A failure
 * prints kernel and schedule; NC_SEED moves all of them. */
#include "tests/gen.h"
#include "tests/schedules_util.h"

#include <stdlib.h>
#include <string.h>

#define BATCH 40 /* points compiled together */

typedef struct Source { /* a kernel to draw points from, by class */
    const Program *p;
    int kernel;
} Source;

typedef struct Draw {
    Env *e;
    Rng r;
    Bulk bulk;
    Vec(Source) of[N_KERNEL_CLASSES];
} Draw;

static void add_program(Draw *d, const Program *p)
{
    for (int i = 0; i < p->kernel.n; i++) {
        *vec_push(&d->e->model, &d->of[kernel_class(d->e, p->kernel.at[i])]) = (Source){p, i};
    }
}

static const Program *program_of(Env *e, const char *text)
{
    return compiled(e, ncg_parse(e, text, strlen(text), "test.ncg"), 0, NULL);
}

/* The model, random graphs, and one contraction of awkward widths with everything that can
 * go wrong in it. */
static void add_sources(Draw *d)
{
    add_program(d, compiled(d->e, model_graph(d->e, size_odd, true), 0, NULL));
    add_program(d, program_of(d->e, "graph g\nx = input f32[seq, 37]\nw = weight f32[45, "
                                    "37]\nt = permute w perm=[1, 0]\n"
                                    "y = matmul x, t\nreturn y=y\n"));
    add_program(
        d,
        program_of(
            d->e,
            "graph g\nx = input f32[3, seq, 20]\nw = weight f32[3, 20, 17]\ny = matmul x, w\n"
            "return y=y\n"));
    for (int i = 0; i < 12; i++) {
        Rng r;
        rng_seed(&r, rng_u64(&d->r));
        add_program(d, compiled(d->e, gen_graph(d->e, &r), i % 2 ? 1u << STAGE_FUSE : 0, NULL));
    }
}

static void add_point(Draw *d, KernelClass class, const Target *t)
{
    Space s;
    Schedule schedule;
    Point p;
    if (d->of[class].n == 0) {
        return;
    }
    const Source *from = &d->of[class].at[rng_below(&d->r, (uint64_t)d->of[class].n)];
    PickHint hint =
        hint_at(t, 1 + (int)rng_below(&d->r, 3), (int64_t)rng_below(&d->r, 4) * 4 - 1);
    space_init(d->e, &d->e->model, &s, from->p->kernel.at[from->kernel], &hint);
    space_sample(&s, &d->r, &p);
    space_schedule(&s, &p, &schedule);
    bulk_add(&d->bulk, from->p, from->kernel, &schedule);
}

static void check_batch(Env *e, void *arg)
{
    static const int64_t sizes[][2] = {{1, 0}, {5, 3}, {13, 21}, {31, 2}};
    Draw d = {.e = e, .bulk = {.bench = {.e = e}}};
    Toolchain tc;
    rng_seed(&d.r, *(const uint64_t *)arg);
    toolchain_find(e, &tc);
    add_sources(&d);
    for (int i = 0; i < BATCH;
         i++) { /* half of them contractions: theirs are the largest spaces */
        add_point(&d, i % 2 ? CLASS_CONTRACTION : (KernelClass)(i / 2 % N_KERNEL_CLASSES),
                  tc.target);
    }
    bench_compile(&d.bulk.bench, NULL);
    for (size_t i = 0; i < countof(sizes); i++) {
        bulk_check(&d.bulk, sizes[i][0], sizes[i][1], i);
    }
    bench_close(&d.bulk.bench);
}

TestSuite(schedules_random, .timeout = 3600);

Test(schedules_random, legal_points_are_right)
{
    const char *text = getenv("NC_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 0;
    int n = getenv("NC_FULL") ? 1000 : 200;
    for (int i = 0; i < n; i += BATCH) {
        Env env;
        env_init(&env);
        must_work(&env, check_batch, &seed);
        env_release(&env);
        seed++;
    }
}

/* ---- what the campaign found -------------------------------------------------------- */

/* gcc makes one operation of a negated fma, which has another sign where the sum is zero. */
static void check_negated(Env *e, void *arg)
{
    static const char *const schedules[] = {
        "fma",
        "split n 16 pad; split m 2 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; fma; "
        "pack b n.o,k,n.i",
        "split k 4 peel; order m n k.o k.i; acc k.i; vec k.i; fma",
        "split n 4 switch; split m 2 switch; order m.o n.o k m.i n.i; unroll n.i; unroll m.i; "
        "fma",
    };
    const Target *t = arg;
    Bench b = {.e = e};
    const Kernel *k =
        kernel_of_graph(e, "graph g\nx = input f32[seq, 5]\nw = weight f32[45, 5]\n"
                           "t = permute w perm=[1, 0]\ny = matmul x, t\n"
                           "z = neg y\nreturn z=z\n");
    for (size_t i = 0; i < countof(schedules); i++) {
        bench_add(&b, k, schedules[i]);
    }
    bench_compile(&b, t);
    for (int64_t rows = 1; rows < 24; rows += 11) {
        bench_check_all(&b, &rows);
    }
    bench_close(&b);
}

Test(schedules_random, a_negated_sum_keeps_the_sign_of_its_zero)
{
    Env env;
    env_init(&env);
    for (int i = 0; i < n_targets; i++) {
        if (machine_has(&env, &targets[i])) {
            must_work(&env, check_negated, (void *)&targets[i]);
        }
    }
    env_release(&env);
}
