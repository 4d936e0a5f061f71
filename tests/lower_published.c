/* lower_published.c - the published counts of the original, reproduced exactly: that the IR, the fusion and
 * the accounting are right. All figures are data of the spec: published.json, graph-ir 9, loop-ir 2 to 7. */
#include "tests/compile_util.h"
#include "tests/env_fixture.h"

#include <string.h>

typedef struct KindCount {
    const char *kind;
    int calls, kernels;
} KindCount;

TestSuite(published, .init = start, .fini = stop);

static void in_env(void (*body)(Env *e, void *arg))
{
    must_work(&env, body, NULL);
}

static Program *of_05b(Env *e, unsigned without, bool last_only)
{
    return compiled(e, model_graph(e, size_05b, last_only), without, NULL);
}

static void has_kinds(const Program *p, const KindCount *want, size_t n)
{
    int calls = 0, kernels = 0;
    for (size_t i = 0; i < n; i++) {
        cr_expect_eq(calls_of_kind(p, want[i].kind), want[i].calls, "%s calls: %d",
                     want[i].kind, calls_of_kind(p, want[i].kind));
        cr_expect_eq(kernels_of_kind(p, want[i].kind), want[i].kernels, "%s kernels: %d",
                     want[i].kind, kernels_of_kind(p, want[i].kind));
        calls += want[i].calls;
        kernels += want[i].kernels;
    }
    cr_expect_eq(p->call.n, calls);
    cr_expect_eq(p->kernel.n, kernels);
}

static void unfused_calls(Env *e, void *arg)
{
    static const KindCount want[] = {
        {"mul", 316, 10}, {"add", 267, 10},      {"matmul", 217, 7},    {"concat", 99, 6},
        {"div", 97, 3},   {"iota", 3, 3},        {"neg", 72, 3},        {"copy", 96, 3},
        {"where", 49, 3}, {"reduce_sum", 73, 2}, {"less_equal", 25, 2}, {"exp", 48, 2},
        {"sqrt", 49, 1},  {"reciprocal", 49, 1}, {"reduce_max", 24, 1}, {"sub", 24, 1},
        {"dim", 2, 1},    {"gather", 1, 1},      {"cast", 1, 1},        {"cos", 1, 1},
        {"sin", 1, 1},
    };
    (void)arg;
    Program *p = of_05b(e, ALL_STAGES, true);
    cr_expect_eq(p->call.n, 1514);
    cr_expect_eq(p->kernel.n, 63);
    has_kinds(p, want, countof(want));
}

Test(published, unfused_makes_1514_calls_of_63_kernels)
{
    in_env(unfused_calls);
}

static void fused_calls(Env *e, void *arg)
{
    static const KindCount want[] = {{"matmul", 98, 6}, {"matmul+epilogue", 95, 4},
                                     {"row", 73, 3},    {"elementwise", 50, 4},
                                     {"copy", 2, 2},    {"gather", 1, 1}};
    (void)arg;
    Program *p = of_05b(e, 0, true);
    cr_expect_eq(p->call.n, 319);
    cr_expect_eq(p->kernel.n, 20);
    has_kinds(p, want, countof(want));
}

Test(published, fused_makes_319_calls_of_20_kernels)
{
    in_env(fused_calls);
}

static void per_block(Env *e, void *arg)
{
    (void)arg;
    ModelSize one = size_05b, two = size_05b;
    one.layers = 1;
    two.layers = 2;
    Graph *g1 = model_graph(e, one, true), *g2 = model_graph(e, two, true);
    cr_expect_eq(compiled(e, g2, 0, NULL)->call.n - compiled(e, g1, 0, NULL)->call.n, 13);
    cr_expect_eq(compiled(e, g2, ALL_STAGES, NULL)->call.n -
                     compiled(e, g1, ALL_STAGES, NULL)->call.n,
                 62);
    cr_expect_eq(compiled(e, g1, ALL_STAGES, NULL)->call.n, 62 + 26);
}

Test(published, a_block_is_62_calls_unfused_and_13_fused)
{
    in_env(per_block);
}

/* The 13 kernels of one block, with their bytes: the table of loop-ir 6. */
static void block_table(Env *e, void *arg)
{
    static const struct {
        const char *kind, *read, *written;
    } want[] = {
        {"row", "3584*seq + 3584", "3584*seq"},
        {"matmul", "3584*seq + 3211264", "3584*seq"},
        {"elementwise", "4096*seq + 3584", "3584*seq"},
        {"matmul", "3584*seq + 458752", "512*seq"},
        {"elementwise", "1024*seq + 512", "512*seq"},
        {"matmul", "512*past + 4096*seq", "56*past*seq + 56*seq*seq"},
        {"row", "56*past*seq + 56*seq*seq", "56*past*seq + 56*seq*seq"},
        {"matmul+epilogue", "3584*seq + 459264", "512*seq"},
        {"matmul", "56*past*seq + 56*seq*seq + 512*past + 512*seq", "3584*seq"},
        {"matmul+epilogue", "7168*seq + 3211264", "3584*seq"},
        {"row", "3584*seq + 3584", "3584*seq"},
        {"matmul+epilogue", "3584*seq + 34865152", "19456*seq"},
        {"matmul+epilogue", "23040*seq + 17432576", "3584*seq"},
    };
    (void)arg;
    Program *p = of_05b(e, 0, true);
    for (size_t i = 0, found = 0; i < countof(want); i++, found = 0) {
        for (int c = 0; c < 16 && !found; c++) { /* order within a block follows the graph's */
            const Call *call = &p->call.at[c];
            found = !strcmp(p->kernel.at[call->kernel]->kind, want[i].kind) &&
                    !strcmp(dim_text(e, call->read_bytes), want[i].read) &&
                    !strcmp(dim_text(e, call->write_bytes), want[i].written);
        }
        cr_expect(found, "no call is %s reading %s writing %s", want[i].kind, want[i].read,
                  want[i].written);
    }
}

Test(published, the_first_block_is_the_table_of_the_spec)
{
    in_env(block_table);
}

static void bytes(Env *e, void *arg)
{
    (void)arg;
    Program *unfused = of_05b(e, ALL_STAGES, true), *fused = of_05b(e, 0, true);
    cr_expect_str_eq(
        traffic(e, unfused),
        "18966*past*seq + 18966*seq*seq + 417792*past + 16357208*seq + 1976743344");
    cr_expect_str_eq(traffic(e, fused),
                     "5376*past*seq + 5376*seq*seq + 24576*past + 2644488*seq + 1976742656");
    cr_expect_eq(at_sizes(e, program_bytes(e, unfused, NULL, NULL), 1, 17), 2000544404);
    cr_expect_eq(at_sizes(e, program_bytes(e, fused, NULL, NULL), 1, 17), 1979901704);
}

Test(published, both_byte_polynomials_and_totals)
{
    in_env(bytes);
}

static void bytes_all_logits(Env *e, void *arg)
{
    (void)arg;
    cr_expect_str_eq(
        traffic(e, of_05b(e, ALL_STAGES, false)),
        "18966*past*seq + 18966*seq*seq + 417792*past + 16968536*seq + 1976132016");
    cr_expect_str_eq(traffic(e, of_05b(e, 0, false)),
                     "5376*past*seq + 5376*seq*seq + 24576*past + 3255816*seq + 1976131328");
}

Test(published, both_byte_polynomials_with_all_logits)
{
    in_env(bytes_all_logits);
}

static void past_coefficients(Env *e, void *arg)
{
    (void)arg;
    Sym past = sym_intern(e, "past", 4);
    const int64_t cache_bytes = 24 * 2 * 2 * 64 * 4, groups = 7;
    Dim fused = program_bytes(e, of_05b(e, 0, true), NULL, NULL);
    Dim unfused = program_bytes(e, of_05b(e, ALL_STAGES, true), NULL, NULL);
    cr_expect_eq(dim_coef(fused, &past, 1),
                 cache_bytes); /* each cached key and value is read once */
    cr_expect_eq(dim_coef(unfused, &past, 1), (3 + 2 * groups) * cache_bytes);
}

Test(published, the_past_coefficient_is_the_cache_bytes_per_token)
{
    in_env(past_coefficients);
}

static void arenas(Env *e, void *arg)
{
    Plan plan;
    (void)arg;
    plan_at(e, of_05b(e, ALL_STAGES, true), 1, 17, &plan);
    cr_expect_eq(plan.arena_bytes, 134208);
    cr_expect_eq(plan.total_bytes, 10215680);
    plan_at(e, of_05b(e, 0, true), 1, 17, &plan);
    cr_expect_eq(plan.arena_bytes, 73216);
    cr_expect_eq(plan.total_bytes, 1162752);
}

Test(published, arena_bytes_with_and_without_reuse)
{
    in_env(arenas);
}

/* Two temporaries that are live at once share no byte. */
static void no_overlap(Env *e, const Program *p, int64_t seq, int64_t past)
{
    Plan plan;
    plan_at(e, p, seq, past, &plan);
    for (int i = 0; i < p->buffer.n; i++) {
        for (int k = 0; k < i; k++) {
            const Buffer *a = &p->buffer.at[i], *b = &p->buffer.at[k];
            if (a->kind != BUF_TEMP || b->kind != BUF_TEMP || a->first > b->last ||
                b->first > a->last) {
                continue;
            }
            cr_assert(plan.offset[i] + plan.bytes[i] <= plan.offset[k] ||
                          plan.offset[k] + plan.bytes[k] <= plan.offset[i],
                      "buffers %d and %d overlap", i, k);
        }
    }
}

static void live_buffers(Env *e, void *arg)
{
    (void)arg;
    for (unsigned without = 0; without <= ALL_STAGES; without += ALL_STAGES) {
        Program *p = of_05b(e, without, true);
        no_overlap(e, p, 1, 9);
        no_overlap(e, p, 7, 0);
        no_overlap(e, p, 1, 17);
    }
}

Test(published, live_buffers_never_overlap)
{
    in_env(live_buffers);
}

static void tiny_model(Env *e, void *arg)
{
    (void)arg;
    Graph *last = model_graph(e, size_tiny, true), *all = model_graph(e, size_tiny, false);
    Program *unfused = compiled(e, last, ALL_STAGES, NULL), *fused = compiled(e, last, 0, NULL);
    cr_expect_eq(unfused->call.n, 150);
    cr_expect_eq(unfused->kernel.n, 63);
    cr_expect_eq(fused->call.n, 33);
    cr_expect_eq(fused->kernel.n, 20);
    cr_expect_str_eq(traffic(e, unfused),
                     "510*past*seq + 510*seq*seq + 896*past + 15904*seq + 23544");
    cr_expect_str_eq(traffic(e, fused),
                     "128*past*seq + 128*seq*seq + 128*past + 3880*seq + 23440");
    cr_expect_str_eq(traffic(e, compiled(e, all, ALL_STAGES, NULL)),
                     "510*past*seq + 510*seq*seq + 896*past + 16224*seq + 23224");
    cr_expect_str_eq(traffic(e, compiled(e, all, 0, NULL)),
                     "128*past*seq + 128*seq*seq + 128*past + 4200*seq + 23120");
}

Test(published, the_tiny_model)
{
    in_env(tiny_model);
}

static int nodes_after(const Compile *c, const char *stage)
{
    for (int i = 0; i < c->times.n; i++) {
        if (!strcmp(c->times.at[i].name, stage)) {
            return c->times.at[i].nodes;
        }
    }
    return -1;
}

static void stage_nodes(Env *e, void *arg)
{
    Compile c;
    (void)arg;
    compiled(e, model_graph(e, size_05b, false), 0, &c);
    cr_expect_eq(nodes_after(&c, "cse"), 2854);
    cr_expect_eq(nodes_after(&c, "fold"), 2847);
    cr_expect_eq(nodes_after(&c, "cse again"), 2847);
    compiled(e, model_graph(e, size_05b, true), 0, &c);
    cr_expect_eq(nodes_after(&c, "cse"), 2855);
    cr_expect_eq(nodes_after(&c, "fold"), 2848);
    compiled(e, model_graph(e, size_tiny, false), 0, &c);
    cr_expect_eq(nodes_after(&c, "cse again"), 295);
    compiled(e, model_graph(e, size_tiny, true), 0, &c);
    cr_expect_eq(nodes_after(&c, "cse again"), 296);
}

Test(published, nodes_left_by_each_graph_stage)
{
    in_env(stage_nodes);
}
