/* compile_cache.c - what the passes cache and specialise make of the published model: the
 * kernels of a block, their bytes, and the counts, which the published ones of the plain
 * graph give by subtraction. */
#include "tests/compile_util.h"
#include "tests/env_fixture.h"

#include <string.h>

TestSuite(cache_counts, .init = start, .fini = stop);

static Program *with_cache(Env *e, ModelSize size, unsigned without, bool one_token)
{
    Sym seq = sym_intern(e, "seq", 3);
    Compile c = {.env = e, .without = without, .cache = true};
    c.known.bound[seq] = one_token;
    c.known.value[seq] = 1;
    return compile_model(&c, model_graph(e, size, true));
}

static void calls(Env *e, void *arg)
{
    (void)arg;
    for (int one_token = 0; one_token < 2; one_token++) {
        Program *p = with_cache(e, size_05b, 0, one_token);
        cr_expect_eq(p->call.n, 319 - 2); /* no copies of keys and values */
        cr_expect_eq(p->kernel.n, 20 - 2);
        cr_expect_eq(calls_of_kind(p, "matmul"), 98);
        cr_expect_eq(calls_of_kind(p, "matmul+epilogue"), 95);
        cr_expect_eq(calls_of_kind(p, "row"), 73);
        cr_expect_eq(calls_of_kind(p, "elementwise"), 50);
        cr_expect_eq(calls_of_kind(p, "gather"), 1);
    }
}

Test(cache_counts, fused_makes_317_calls_of_18_kernels)
{
    must_work(&env, calls, NULL);
}

static void per_block(Env *e, void *arg)
{
    (void)arg;
    ModelSize one = size_05b, two = size_05b;
    one.layers = 1;
    two.layers = 2;
    int n = with_cache(e, two, 0, true)->call.n;
    cr_expect_eq(n - with_cache(e, one, 0, true)->call.n, 13);
    cr_expect_eq(with_cache(e, one, 0, true)->call.n, 13 + 5);
}

Test(cache_counts, a_block_is_13_calls)
{
    must_work(&env, per_block, NULL);
}

/* One block of decode, in order. */
static void block_table(Env *e, void *arg)
{
    static const struct {
        const char *kind, *read, *written;
        bool in_place;
    } want[] = {
        {"row", "7168", "3584", false},         /* rms_norm 1 */
        {"matmul", "3214848", "3584", false},   /* q */
        {"elementwise", "7680", "3584", false}, /* q bias and rope */
        {"matmul", "462336", "512", false},     /* k */
        {"elementwise", "1536", "512", true},   /* k bias and rope, into the cache */
        {"matmul", "512*past + 4096", "56*past + 56", false}, /* scores */
        {"row", "56*past + 56", "56*past + 56", false},       /* scale, mask, softmax */
        {"matmul+epilogue", "462848", "512", true},           /* v and bias, into the cache */
        {"matmul", "568*past + 568", "3584", false},          /* context */
        {"matmul+epilogue", "3218432", "3584", false},        /* o and residual */
        {"row", "7168", "3584", false},                       /* rms_norm 2 */
        {"matmul+epilogue", "34868736", "19456", false},      /* gate, up, SwiGLU */
        {"matmul+epilogue", "17455616", "3584", false},       /* down and residual */
    };
    (void)arg;
    Program *p = with_cache(e, size_05b, 0, true);
    const Call *call = &p->call.at[0];
    size_t found = 0;
    for (; found < countof(want) && call < &p->call.at[18]; call++) {
        const char *kind = p->kernel.at[call->kernel]->kind;
        bool in_place = p->buffer.at[call->arg.at[0].buffer].written;
        found += !strcmp(kind, want[found].kind) && in_place == want[found].in_place &&
                 !strcmp(dim_text(e, call->read_bytes), want[found].read) &&
                 !strcmp(dim_text(e, call->write_bytes), want[found].written);
    }
    cr_expect_eq(found, countof(want),
                 "the first block has no %s reading %s, writing %s in its place",
                 want[found % countof(want)].kind, want[found % countof(want)].read,
                 want[found % countof(want)].written);
}

Test(cache_counts, the_kernels_of_a_decode_block)
{
    must_work(&env, block_table, NULL);
}

/* The plain polynomial without the copies of the fresh keys and values, which read and wrote
 * them. */
static void bytes(Env *e, void *arg)
{
    (void)arg;
    Program *any = with_cache(e, size_05b, 0, false),
            *decode = with_cache(e, size_05b, 0, true);
    int64_t copies = 2 * 2 * 24 * 2 * 64 * 4;
    cr_expect_str_eq(traffic(e, any),
                     "5376*past*seq + 5376*seq*seq + 24576*past + 2595336*seq + 1976742656");
    cr_expect_eq(2644488 - copies, 2595336);
    cr_expect_str_eq(traffic(e, decode), "29952*past + 1979343368");
    cr_expect_eq(5376 + 24576, 29952);
    cr_expect_eq(5376 + 2595336 + 1976742656, 1979343368);
}

Test(cache_counts, both_byte_polynomials)
{
    must_work(&env, bytes, NULL);
}

static void past_coefficient(Env *e, void *arg)
{
    (void)arg;
    Sym past = sym_intern(e, "past", 4);
    Dim fused = program_bytes(e, with_cache(e, size_05b, 0, false), NULL, NULL);
    cr_expect_eq(dim_coef(fused, &past, 1), 24 * 2 * 2 * 64 * 4);
}

Test(cache_counts, each_cached_key_and_value_is_read_once)
{
    must_work(&env, past_coefficient, NULL);
}

static void unfused(Env *e, void *arg)
{
    (void)arg;
    Program *any = with_cache(e, size_05b, ALL_STAGES, false),
            *decode = with_cache(e, size_05b, ALL_STAGES, true);
    cr_expect_eq(any->call.n, 1560);
    cr_expect_eq(calls_of_kind(any, "update"), 48);
    cr_expect_eq(kernels_of_kind(any, "update"), 1);
    cr_expect_eq(decode->call.n, 1512);
}

Test(cache_counts, unfused_has_an_update_for_keys_and_values_of_each_layer)
{
    must_work(&env, unfused, NULL);
}

/* The caches are the caller's memory: written there, returned from there, never in the
 * arena. */
static void buffers(Env *e, void *arg)
{
    (void)arg;
    Plan plan;
    Program *p = with_cache(e, size_05b, 0, true);
    int n_written = 0;
    plan_at(e, p, 1, 17, &plan);
    cr_expect_eq(plan.arena_bytes, 34304);
    for (int i = 0; i < p->buffer.n; i++) {
        const Buffer *b = &p->buffer.at[i];
        bool cache = b->name && !strncmp(b->name, "cache_", 6);
        n_written += b->written;
        cr_expect_eq(cache, b->written);
        cr_expect_eq(cache, b->also_output > 0);
        cr_expect(!cache || (b->kind == BUF_INPUT && plan.offset[i] < 0));
        cr_expect(b->kind != BUF_OUTPUT || !strcmp(b->name, "logits"));
    }
    cr_expect_eq(n_written, 2);
}

Test(cache_counts, the_caches_are_the_callers_memory)
{
    must_work(&env, buffers, NULL);
}

static void keys(Env *e, void *arg)
{
    (void)arg;
    for (int i = 0; i < 4; i++) {
        Program *p = with_cache(e, size_05b, i % 2 ? ALL_STAGES : 0, i / 2);
        for (int k = 0; k < p->kernel.n; k++) {
            const char *text = p->kernel.at[k]->text;
            cr_expect_str_eq(kernel_parse(e, text, strlen(text), "key")->text, text);
        }
    }
}

Test(cache_counts, every_key_reads_back)
{
    must_work(&env, keys, NULL);
}

/* seq is in no key, and nobody but the arena plan and the pointers' offsets sees past but
 * attention. */
static void symbols(Env *e, void *arg)
{
    (void)arg;
    Sym seq = sym_intern(e, "seq", 3), past = sym_intern(e, "past", 4);
    Program *p = with_cache(e, size_05b, 0, true);
    int with_past = 0;
    for (int i = 0; i < p->call.n; i++) {
        bool reads_past = false;
        for (int k = 0; k < p->call.at[i].sym.n; k++) {
            cr_expect_neq(p->call.at[i].sym.at[k], seq);
            reads_past = reads_past || p->call.at[i].sym.at[k] == past;
        }
        with_past += reads_past;
    }
    cr_expect_eq(with_past, 24 * 3 + 2);
}

Test(cache_counts, decode_kernels_know_nothing_of_seq)
{
    must_work(&env, symbols, NULL);
}
