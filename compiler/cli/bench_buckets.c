/* bench_buckets.c - `nanocompile bench --buckets MODEL`: which lengths of prompts should share a program of a
 * built model. A library is made with a program for each of several lengths; prompts of other lengths,
 * between those, are fed through each of them in turns, in one process with one copy of the weights. What
 * comes out is each program's regret at each length, and the fewest programs whose regret stays below the
 * margin; kept in the database, where builds find it. */
#include <string.h>

#include "cli/bench.h"
#include "cli/build.h"

enum { BLOCK_NS = 100000000 };

/* Programs, and lengths that none of them is for. */
static const int64_t usual[] = {8, 16, 32, 64, 128, 256, 512},
                     lengths[] = {3, 6, 12, 24, 48, 96, 192, 384};

typedef struct BucketRace {
    const LibraryBench *o;
    Building b;
    BuildOptions build;
    Bucket bucket[countof(usual)];
    int kind[countof(usual)];
    volatile int through; /* nc_options.through */
    int32_t *ids;
    bool failed;
    Err err; /* of the first prompt that failed */
    BucketTimes t;
    BucketChoice choice;
} BucketRace;

/* ---- the library ---- */

/* Of programs, the same kernel at every call. */
static bool same_calls(const ModelLibrary *l, int a, int b)
{
    const Program *p = l->parts.part[a].program, *q = l->parts.part[b].program;
    bool same = p->call.n == q->call.n;
    for (int i = 0; same && i < p->call.n; i++) {
        same = !strcmp(p->kernel.at[p->call.at[i].kernel]->symbol,
                       q->kernel.at[q->call.at[i].kernel]->symbol);
    }
    return same;
}

static void find_kinds(BucketRace *r)
{
    for (int i = 0; i < r->t.n_programs; i++) {
        r->kind[i] = i;
        for (int k = i - 1; k >= 0; k--) {
            r->kind[i] = same_calls(&r->b.library, 1 + k, 1 + i) ? r->kind[k] : r->kind[i];
        }
    }
}

static void open_library(Env *e, BucketRace *r)
{
    nc_options o = {.progress = terminal_progress(),
                    .progress_ctx = (void *)(uintptr_t) "reading weights",
                    .stop = &interrupted,
                    .through = &r->through};
    r->build = first_use_build(&r->o->first, r->o->weights);
    r->build.n_threads = r->o->n_threads;
    r->build.bucket = r->bucket;
    r->build.n_buckets = (int)countof(usual);
    r->b.o = &r->build;
    for (size_t i = 0; i < countof(usual); i++) {
        r->bucket[i] = (Bucket){usual[i], usual_bucket.most};
    }
    building_compile(e, &r->b, model_dir(e, r->o->weights), true);
    model_library_build(e, &r->b.library);
    built_model_load(e, &r->b.built, r->b.library.path);
    built_model_open(e, &r->b.built, &o);
}

/* Lengths that the context holds, the programs' made-up ids. */
static void plan_race(Env *e, BucketRace *r)
{
    const nc_facts *f = r->b.built.facts;
    r->t = (BucketTimes){.n_programs = (int)countof(usual), .length = lengths, .usual = usual};
    while (r->t.n_lengths < (int)countof(lengths) && lengths[r->t.n_lengths] <= f->context) {
        r->t.n_lengths++;
    }
    if (r->t.n_lengths == 0) {
        fail(e, E_INPUT, "The model's context holds no prompt that is worth a program.");
    }
    r->ids = made_up_ids(e, lengths[r->t.n_lengths - 1], f->vocab_size);
    find_kinds(r);
}

/* ---- the race ---- */

static void feed(void *ctx, int program, int64_t length)
{
    BucketRace *r = ctx;
    Stepper *s = &r->b.built.stepper;
    const float *logits;
    r->through = 1 + program; /* 0 is for single tokens */
    s->n_fed = 0;
    r->failed = r->failed || !s->feed(s, r->ids, (int)length, false, &logits, &r->err);
}

static void run_race(Env *e, BucketRace *r)
{
    BucketRun run = {feed, r->kind, r};
    MeasurePlan plan = measure_plan(r->o->seed);
    plan.n_blocks = r->o->n_blocks;
    plan.block_ns = BLOCK_NS;
    plan.warm_ns = 1;
    plan.settle_ns = 0; /* a prompt is long enough to settle in */
    plan.stop = &interrupted;
    bool done = buckets_measure(e, &run, &plan, NULL, &r->t);
    if (r->failed) {
        fail_err(e, &r->err);
    }
    if (!done) {
        fail(e, E_INTERRUPT, "Stopped before every length was measured.");
    }
    r->choice = buckets_choose(&r->t, usual_bucket.most, r->o->margin);
}

/* ---- what came out ---- */

static bool is_chosen(const BucketRace *r, int length, int program)
{
    int i = 0;
    while (r->choice.bucket[i].most < lengths[length]) {
        i++;
    }
    return r->choice.bucket[i].usual == usual[program];
}

static void put_row(Table *t, const BucketRace *r, int length, int program)
{
    const Interval *regret = &r->t.regret[length * r->t.n_programs + program];
    table_cell(t, "%lld", (long long)lengths[length]);
    table_cell(t, "%lld", (long long)usual[program]);
    table_number(t, r->t.ns[length * r->t.n_programs + program] / 1e6, "%.3f");
    table_number(t, regret->median * 100, "%.1f");
    table_number(t, regret->lo * 100, "%.1f");
    table_number(t, regret->hi * 100, "%.1f");
    table_cell(t, "%s", is_chosen(r, length, program) ? "chosen" : "");
}

static void print_race(Env *e, const BucketRace *r)
{
    static const char *const columns[] = {"#tokens",   "#scheduled for", "#ms",    "#regret, %",
                                          "#at least", "#at most",       "program"};
    Table t;
    Buf out;
    buf_init(&out, &e->model);
    table_init(&t, &e->model, "buckets", countof(columns), columns);
    for (int i = 0; i < r->t.n_lengths; i++) {
        for (int p = 0; p < r->t.n_programs; p++) {
            put_row(&t, r, i, p);
        }
    }
    table_print(&t, r->o->format, &out);
    cli_flush(&out);
    fprintf(stderr, "Chosen:");
    for (int i = 0; i < r->choice.n; i++) {
        const Bucket *b = &r->choice.bucket[i];
        fprintf(stderr, "%s up to %lld tokens by schedules for %lld", i ? "," : "",
                (long long)b->most, (long long)b->usual);
    }
    fprintf(stderr, "; the worst regret is %.1f%%, %s the margin of %.1f%%.\n",
            r->choice.worst * 100, r->choice.worst < r->choice.margin ? "below" : "not below",
            r->choice.margin * 100);
}

static void keep(Env *e, Db *db, void *arg)
{
    const BucketRace *r = arg;
    BucketPlace at = buckets_place(&r->b);
    (void)e;
    buckets_store(db, &at, &r->t, &r->choice);
}

static void race(Env *e, void *arg)
{
    BucketRace *r = arg;
    open_library(e, r);
    plan_race(e, r);
    run_race(e, r);
    print_race(e, r);
    if (!r->o->first.no_db) {
        fprintf(stderr, "Kept in %s for builds of this model here.\n",
                db_write(e, r->o->first.db, keep, r));
    }
}

static void close_race(void *arg)
{
    building_close(&((BucketRace *)arg)->b);
}

void bench_buckets(Env *e, void *options)
{
    BucketRace r = {.o = options};
    catch_interrupt();
    env_finally(e, race, close_race, &r);
}
