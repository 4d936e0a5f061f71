/* library_layouts.c - winners that want layouts of their own get them as far as the memory cap allows, the most
 * useful first; the others are refused and say so, and the bits stay what they were. */
#include "tests/cli_util.h"
#include "tests/db_util.h"
#include "tests/library_util.h"

#include <string.h>

TestSuite(library_layouts, .timeout = 900);

static TestModel model;
static TestLibrary library;
static TempDir dir;
static const char *db, *out;

enum { PREFILL = 1 };

static void start(void)
{
    test_model_open(&model, TINY);
    dir = temp_dir();
    db = arena_str(&model.e.model, temp_path(&dir, "s.db"));
    out = arena_str(&model.e.model, temp_path(&dir, "tiny"));
    library = (TestLibrary){0}; /* naive kernels, as the database knows them */
    library_tables_test(&library, &model);
}

static void stop(void)
{
    built_model_close(&library.built);
    temp_remove(&dir);
    test_model_close(&model);
}

/* Both win by the same in one call. That of queries is called four times for 0.4 MB, the other three times
 * for 0.6 MB. Panels of four are no processor's default, which prefill goes on with. */
#define QUERIES "layers.0.self_attn.q_proj matmul"
#define DOWN "layers.0.mlp.down_proj matmul+epilogue"
#define PANELS \
    "split n 4 pad; order n.o m k n.i; vec n.i; pack b n.o,k,n.i; store b bf16; par n.o"

enum { QUERIES_BYTES = 4 * 224 * 224 * 2, DOWN_BYTES = 3 * 224 * 448 * 2 };

static void record_winner(const char *site, const char *schedule)
{
    const nc_facts *f = library.made.text.tables->facts;
    int first = f->program[0].n_calls, i = 0;
    while (strcmp(f->site[first + i].site, site)) {
        cr_assert_lt(++i, f->program[PREFILL].n_calls, "there is no %s", site);
    }
    const char *fused =
        library.tc.target->fused ? "; fma" : ""; /* as in defaults: the same bits */
    schedule = arena_printf(&model.e.model, "%s%s", schedule, fused);
    library_record_winner(&library, db, PREFILL, i, schedule, true);
}

typedef struct Made {
    int64_t bytes;
    const char *csv, *score;
    int queries,
        down; /* of these sites of the prompt's program, in how many the winner is built */
} Made;

static int hits(const char *csv, const char *site)
{
    int n = 0;
    const char *begin = arena_printf(&model.e.model, "prefill,%s", site);
    for (const char *at = csv; (at = strstr(at, begin)); at++) {
        const char *end = strchr(at, '\n'), *hit = strstr(at, ",hit,");
        n += hit && hit < end;
    }
    return n;
}

static void load_body(Env *e, void *arg)
{
    built_model_load(e, &library.built, arg);
}

static Made make(const char *const *more)
{
    const char *words[20] = {"build",     "--model", TINY,       "-o", out,
                             "--threads", "2",       "--format", "csv"};
    Env *e = &model.e;
    int n = 9;
    const char *so = arena_printf(&e->model, "%s/model.so", out);
    for (; *more; more++) {
        words[n++] = *more;
    }
    Ran built = run_built(e, "nanocompile", words);
    cr_assert_eq(built.status, 0, "%s", built.out);
    Ran scored =
        NC(e, "perplexity", "--lib", so, "--tokens", "130", "--text", TINY "/heldout.txt");
    cr_assert_eq(scored.status, 0, "%s", scored.out);
    must_work(e, load_body, (void *)(uintptr_t)so);
    Made m = {.bytes = library.built.facts->weight_bytes,
              .csv = built.out,
              .score = scored.out,
              .queries = hits(built.out, QUERIES),
              .down = hits(built.out, DOWN)};
    built_model_close(&library.built);
    return m;
}
#define MAKE(...) make((const char *const[]){__VA_ARGS__, NULL})

static Made with_cap(int64_t bytes)
{
    return MAKE("--db", db, "--memory-cap",
                arena_printf(&model.e.model, "%lld", (long long)bytes));
}

Test(library_layouts, winners_get_their_layouts_as_far_as_memory_goes, .init = start,
     .fini = stop)
{
    Made plain = MAKE("--no-db");
    record_winner(QUERIES, PANELS);
    record_winner(DOWN, PANELS);
    Made all = with_cap(plain.bytes * 2), some = with_cap(plain.bytes + 700000),
         none = with_cap(plain.bytes);
    cr_expect_eq(all.bytes, plain.bytes + QUERIES_BYTES + DOWN_BYTES);
    cr_expect(all.queries == 1 && all.down == 1, "%s", all.csv);
    cr_expect_eq(some.bytes, plain.bytes + QUERIES_BYTES);
    cr_expect(some.queries == 1 && some.down == 0, "%s", some.csv);
    cr_expect(strstr(some.csv, ",refused,"), "%s", some.csv);
    cr_expect(strstr(some.csv, "layout: its weights would take 0.6 MB more in memory"), "%s",
              some.csv);
    cr_expect_eq(none.bytes, plain.bytes);
    cr_expect(none.queries == 0 && none.down == 0, "%s", none.csv);
    cr_expect_str_eq(all.score, plain.score, "each sums in the order of k");
    cr_expect_str_eq(some.score, plain.score);
    cr_expect_str_eq(none.score, plain.score);
}

Test(library_layouts, reading_a_weight_as_it_is_takes_memory_too, .init = start, .fini = stop)
{
    Made plain = MAKE("--no-db");
    record_winner(QUERIES, "split n 16 peel; order n.o m k n.i; store b bf16; par n.o");
    Made all = with_cap(plain.bytes * 2), none = with_cap(plain.bytes);
    cr_expect_eq(all.bytes, plain.bytes + QUERIES_BYTES);
    cr_expect_eq(all.queries, 1);
    cr_expect_eq(none.bytes, plain.bytes);
    cr_expect_eq(none.queries, 0);
    cr_expect_str_eq(all.score, none.score);
}

Test(library_layouts, by_default_a_quarter_more_is_allowed, .init = start, .fini = stop)
{
    record_winner(QUERIES, PANELS);
    record_winner(DOWN, PANELS);
    Made m = MAKE("--db", db);
    cr_expect(m.queries == 1 && m.down == 1, "%s", m.csv); /* together 24% */
}

Test(library_layouts, a_cap_that_nothing_can_meet_is_refused, .init = start, .fini = stop)
{
    refused(NC(&model.e, "build", "--model", TINY, "-o", out, "--no-db", "--memory-cap", "3MB"),
            1, "Weights take at least 4.3 MB in memory, and --memory-cap is 3.0 MB.");
    refused(NC(&model.e, "build", "--model", TINY, "-o", out, "--memory-cap", "3M"), 2,
            "--memory-cap takes a number of bytes, or one with kB, MB or GB, not '3M'");
}
