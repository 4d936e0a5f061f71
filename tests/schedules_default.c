/* schedules_default.c - schedules without tuning: legal for every kernel of the model and of
 * random graphs, right at every size, and of the shape that their class promises. */
#include "tests/gen.h"
#include "tests/schedules_util.h"

#include <stdlib.h>
#include <string.h>

static Env env;
static Bulk bulk;

static void start(void)
{
    env_init(&env);
    bulk = (Bulk){.bench = {.e = &env}};
}

static void stop(void)
{
    env_release(&env);
}

TestSuite(schedules_default, .init = start, .fini = stop, .timeout = 600);

/* ---- right ---- */

static const int64_t rows[] = {1, 2, 3, 12, 13, 31};

typedef struct ModelCase {
    const char *target;
    int64_t usual; /* rows that the schedules are chosen for; -1: any */
    unsigned without;
    bool in_place;
    bool bf16; /* the weights come from that */
} ModelCase;

/* Whatever is a table or a matrix is stored as it came; gains and biases need not be. */
static void matrices_are_bf16(void)
{
    int n = 0;
    for (int i = 0; i < bulk.bench.n; i++) {
        const Kernel *k = bulk.bench.at[i].k;
        for (int o = 0; o < k->operand.n; o++) {
            bool matrix = k->operand.at[o].from_bf16 && kernel_span(k, o, NULL) > 512;
            cr_expect(!matrix || k->operand.at[o].bf16, "%s: %s", k->schedule, k->text);
            n += matrix;
        }
    }
    cr_expect_geq(n, 6);
}

static void check_model(Env *e, void *arg)
{
    const ModelCase *c = arg;
    PickHint hint = hint_at(target_named(c->target), 2, c->usual);
    hint.in_place = c->in_place;
    Graph *g = model_graph(e, size_odd, true);
    if (c->bf16) {
        graph_mark_bf16(g);
    }
    bulk_add_defaults(&bulk, compiled(e, g, c->without, NULL), &hint);
    for (int i = 0; c->in_place && i < bulk.bench.n; i++) {
        const char *schedule = bulk.bench.at[i].k->schedule; /* NULL: no steps */
        cr_expect_not(schedule && strstr(schedule, "pack"), "%s", schedule);
    }
    bench_compile(&bulk.bench, hint.target);
    for (size_t i = 0; i < countof(rows); i++) {
        bulk_check(&bulk, rows[i], (int64_t)(i * 5) % 11, i);
    }
    bench_close(&bulk.bench);
    if (c->bf16) {
        matrices_are_bf16();
    }
}

static void run_model(ModelCase c)
{
    if (!machine_has(&env, target_named(c.target))) {
        cr_skip_test("this machine has no %s", c.target);
    }
    must_work(&env, check_model, &c);
}

Test(schedules_default, model_on_avx512_for_any_rows)
{
    run_model((ModelCase){"avx512", -1, 0, false, false});
}

Test(schedules_default, model_on_avx512_for_one_row)
{
    run_model((ModelCase){"avx512", 1, 0, false, false});
}

Test(schedules_default, model_on_avx2_for_thirteen_rows)
{
    run_model((ModelCase){"avx2", 13, 0, false, false});
}

Test(schedules_default, model_on_generic_unfused)
{
    run_model((ModelCase){"generic", -1, ALL_STAGES, false, false});
}

Test(schedules_default, model_on_avx512_in_place)
{
    run_model((ModelCase){"avx512", -1, 0, true, false});
}

Test(schedules_default, model_on_avx2_for_one_row_in_place)
{
    run_model((ModelCase){"avx2", 1, 0, true, false});
}

Test(schedules_default, model_from_bf16_in_place)
{
    run_model((ModelCase){"avx512", -1, 0, true, true});
}

Test(schedules_default, model_from_bf16_for_one_row_in_place)
{
    run_model((ModelCase){"avx512", 1, 0, true, true});
}

Test(schedules_default, model_from_bf16_in_place_on_avx2)
{
    run_model((ModelCase){"avx2", 1, 0, true, true});
}

Test(schedules_default, model_from_bf16_in_panels_on_sse)
{
    run_model((ModelCase){"sse4.2", 3, 0, false, true});
}

Test(schedules_default, model_from_bf16_on_generic_unfused)
{
    run_model((ModelCase){"generic", -1, ALL_STAGES, true, true});
}

typedef struct GraphCase {
    uint64_t first;
    int n;
} GraphCase;

static void check_graphs(Env *e, void *arg)
{
    const GraphCase *c = arg;
    Toolchain tc;
    toolchain_find(e, &tc);
    for (int i = 0; i < c->n; i++) {
        Rng r;
        rng_seed(&r, c->first + (uint64_t)i);
        PickHint hint = hint_at(tc.target, 1 + i % 3, i % 4 == 0 ? -1 : i % 4);
        bulk_add_defaults(&bulk, compiled(e, gen_graph(e, &r), i % 2 ? STAGE_FUSE : 0, NULL),
                          &hint);
    }
    bench_compile(&bulk.bench, NULL);
    bulk_check(&bulk, 1, 0, c->first);
    bulk_check(&bulk, 3, 5, c->first + 1);
    bulk_check(&bulk, 7, 1, c->first + 2);
    bench_close(&bulk.bench);
}

Test(schedules_default, random_graphs)
{
    int n = getenv("NC_FULL") ? 1000 : 100;
    for (int i = 0; i < n; i += 20) {
        GraphCase c = {(uint64_t)i, 20};
        stop();
        start();
        must_work(&env, check_graphs, &c);
    }
}

/* ---- one row of attention ---- */

/* Heads 0 to 2 share keys, and 3 to 5 do; k is what each head's scores are summed over. */
#define SCORES                                                                          \
    "kernel matmul\ny: f32[6*s0]\na: f32[192]\nb: f32[64*s1]\naxis h space 6\naxis n "  \
    "space s0\naxis k reduce 32\nphase h n k\n    acc0: f32 = 0.0f -> acc0 + a[h*32 + " \
    "k] * b[h/3*(32*s1) + n*32 + k]\n    y[h*s0 + n] = acc0\n"
#define CONTEXT                                                                         \
    "kernel matmul\ny: f32[192]\na: f32[6*s0]\nb: f32[64*s1]\naxis h space 6\naxis n "  \
    "space 32\naxis k reduce s0\nphase h n k\n    acc0: f32 = 0.0f -> acc0 + a[h*s0 + " \
    "k] * b[h/3*(32*s1) + k*32 + n]\n    y[h*32 + n] = acc0\n"

typedef struct RowCase {
    const char *kernel;
    int n_threads;
    const char *begins; /* the schedule, on AVX2 */
} RowCase;

static void check_row(Env *e, void *arg)
{
    const RowCase *c = arg;
    const int64_t sizes[][2] = {{1, 1}, {2, 9}, {33, 33}, {40, 64}};
    const Kernel *k = kernel_from(e, c->kernel);
    PickHint hint = hint_at(target_named("avx2"), c->n_threads, 512);
    Schedule s;
    Buf text;
    buf_init(&text, &e->model);
    schedule_default(e, k, &hint, &s);
    schedule_print(&s, &text);
    cr_expect(!strncmp(text.at, c->begins, strlen(c->begins)), "%s", text.at);
    bulk.bench.n = 0;
    bench_add(&bulk.bench, k, text.at);
    bench_compile(&bulk.bench, NULL);
    for (size_t i = 0; i < countof(sizes); i++) {
        bench_check_all(&bulk.bench, sizes[i]);
    }
    bench_close(&bulk.bench);
}

Test(schedules_default, heads_that_share_keys_read_a_tile_of_them_together)
{
    RowCase scores = {
        SCORES, 2,
        "split n 8 switch; split h 3; split k 8 peel; order h.o n.o h.i k.o n.i k.i"};
    RowCase context = {CONTEXT, 2, "split n 16 peel; split h 3; order h.o n.o k h.i n.i"};
    must_work(&env, check_row, &scores);
    must_work(&env, check_row, &context);
}

/* Two groups would keep only two of three threads busy. */
Test(schedules_default, heads_apart_where_threads_are_many)
{
    RowCase scores = {SCORES, 3, "split n 8 switch; split k 8 peel; order n.o h k.o n.i k.i"};
    must_work(&env, check_row, &scores);
}
