/* library_run.c - the run of a step, on the tables of the 24-layer model with kernels that only note who
 * ran what: every thread its part of every call, no call before what it depends on is done, threads
 * meeting as seldom as the facts say; and what is reported of a kernel that fails. */
#include "schedules/schedules.h"
#include "tests/emptied.h"
#include "tests/env_fixture.h"

#include <stdatomic.h>

TestSuite(library_run, .init = start, .fini = stop, .timeout = 120);

enum { CONTEXT = 512, DECODE = 0, PREFILL = 1, MOST_PARTS = 4, MOST_NOTES = 4096 };

static ModelLibrary library;
static NcTables tables;
static const Bucket *bucket; /* NULL: the usual one */
static int n_buckets;

/* ---- kernels that note ---- */

typedef struct Note {
    int call; /* of the program that runs */
    int part, n_parts;
    int n_before; /* notes made when it began */
} Note;

static Note note[MOST_NOTES];
static _Atomic int n_notes;
static _Atomic(void *const *)
    first_param; /* of the first call, which each thread begins with */
static const NcProgram *running;
static int failing[2] = {-1, -1}; /* calls that do */

static int call_of(void *const *params)
{
    int i = 0;
    while (running->call[i].param != params - atomic_load(&first_param)) {
        i++;
    }
    return i;
}

static int32_t noting_kernel(void *const *params, const int64_t *syms, int part, int n_parts)
{
    (void)syms;
    int n_before = atomic_load(&n_notes);
    void *const *none = NULL;
    atomic_compare_exchange_strong(&first_param, &none, params);
    int call = call_of(params);
    int at = atomic_fetch_add(&n_notes, 1);
    cr_assert_lt(at, MOST_NOTES);
    note[at] = (Note){call, part, n_parts, n_before};
    return call == failing[0] || call == failing[1] ? 100 + call + part : 0;
}

/* ---- a model of them ---- */

static void compile(Env *e, void *arg)
{
    (void)arg;
    static Picker defaults;
    Config *config = arena_new(&e->model, Config);
    Checkpoint *file = arena_new(&e->model, Checkpoint);
    *config = config_read(e, EMPTIED_CONFIG);
    *file = without_data(e, config);
    defaults = picker_default();
    static Toolchain tc;
    tc = (Toolchain){.version = "none", .target = target_generic()};
    LibraryOptions o = {.dir = ".",
                        .config = config,
                        .file = file,
                        .context = CONTEXT,
                        .n_threads = 2,
                        .picker = &defaults,
                        .hint = {.l1d_bytes = 32 << 10,
                                 .l2_bytes = 1 << 20,
                                 .l3_bytes = 32 << 20,
                                 .n_threads = 2,
                                 .in_place = true},
                        .tc = &tc,
                        .bucket = bucket,
                        .n_buckets = n_buckets,
                        .at_usual_sizes = true};
    model_library_compile(e, &o, &library);
    tables = emptied(e, &library.text, noting_kernel);
}

static nc_model *open_noting(const nc_options *o)
{
    nc_error why;
    must_work(&env, compile, NULL);
    nc_model *m = runtime_open(&tables, o, &why);
    cr_assert(m, "%s", why.text);
    return m;
}

static nc_code feed(nc_model *m, int64_t at, int n, nc_error *why)
{
    static const int32_t ids[CONTEXT];
    const float *logits;
    running = &tables.program[n == 1 ? DECODE : PREFILL];
    atomic_store(&n_notes, 0);
    atomic_store(&first_param, NULL);
    return runtime_feed(m, at, ids, n, false, NULL, &logits, why);
}

/* ---- what runs ---- */

static int times_run(int call, int part)
{
    int n = 0;
    for (int i = 0; i < n_notes; i++) {
        n += note[i].call == call && note[i].part == part;
    }
    return n;
}

static void every_part_runs_once(int n_threads)
{
    int n_runs = 0;
    for (int c = 0; c < running->facts.n_calls; c++) {
        int n_parts = running->call[c].parallel ? n_threads : 1;
        for (int part = 0; part < n_parts; part++) {
            cr_assert_eq(times_run(c, part), 1, "call %d, part %d", c, part);
        }
        n_runs += n_parts;
    }
    cr_assert_eq(n_notes, n_runs);
    for (int i = 0; i < n_notes; i++) {
        cr_assert_eq(note[i].n_parts, running->call[note[i].call].parallel ? n_threads : 1);
    }
}

static int region_of(int call)
{
    int region = 0;
    for (int i = 0; i < call; i++) {
        region += !running->call[i].with_next;
    }
    return region;
}

/* When a kernel of a region begins, all of the regions before are done. */
static void regions_run_in_order(void)
{
    int done_at_least = 0, region = 0;
    for (int i = 0; i < n_notes; i++) {
        int its = region_of(note[i].call);
        cr_assert(its == region || its == region + 1, "call %d came too early or late",
                  note[i].call);
        done_at_least = its > region ? i : done_at_least;
        region = its;
        cr_assert_geq(note[i].n_before, done_at_least);
    }
}

Test(library_run, every_thread_runs_its_part_of_each_region_before_the_next_one)
{
    nc_error why;
    for (int n_threads = 1; n_threads <= MOST_PARTS; n_threads++) {
        nc_model *m = open_noting(&(nc_options){.n_threads = n_threads});
        cr_assert_eq(feed(m, 0, 20, &why), NC_OK, "%s", why.text);
        every_part_runs_once(n_threads);
        regions_run_in_order();
        cr_assert_eq(feed(m, 20, 1, &why), NC_OK, "%s", why.text);
        every_part_runs_once(n_threads);
        regions_run_in_order();
        runtime_close(m);
    }
}

/* ---- how often threads meet ---- */

Test(library_run, threads_meet_7_times_a_layer_to_decode_and_10_times_to_prefill)
{
    must_work(&env, compile, NULL);
    static const struct {
        int a_layer, besides;
    } want[] = {{7, 1}, {10, 3}, {10, 3}};
    cr_assert_eq(library.parts.n, (int)countof(want));
    for (size_t i = 0; i < countof(want); i++) {
        const nc_program *p = &tables.program[i].facts;
        cr_assert_eq(p->n_joins, 24 * want[i].a_layer + want[i].besides, "%s: %d joins",
                     p->name, p->n_joins);
        cr_assert_eq(p->n_calls, 317);
    }
}

Test(library_run, projections_of_one_activation_share_a_region)
{
    must_work(&env, compile, NULL);
    const nc_site *site = tables.facts->site;
    int n_together = 0;
    for (int i = 0; i + 2 < tables.program[DECODE].facts.n_calls; i++) {
        const NcCall *c = &tables.program[DECODE].call[i];
        if (strstr(site[i].site, "q_proj matmul")) {
            cr_assert(strstr(site[i + 1].site, "k_proj matmul"));
            cr_assert(strstr(site[i + 2].site, "v_proj matmul"));
            cr_assert(c[0].with_next && c[1].with_next && !c[2].with_next);
            n_together++;
        }
    }
    cr_assert_eq(n_together, 24);
}

/* Temporaries by their planned places, all else as a whole. */
static bool share_memory(const LibraryPart *part, int a, int b)
{
    const Plan *p = &part->plan;
    if (p->offset[a] < 0 || p->offset[b] < 0) {
        return a == b;
    }
    return p->offset[a] < p->offset[b] + p->bytes[b] &&
           p->offset[b] < p->offset[a] + p->bytes[a];
}

/* What the first writes, the second neither reads nor writes. */
static void apart(const LibraryPart *part, int first, int second)
{
    const Call *a = &part->program->call.at[first], *b = &part->program->call.at[second];
    for (int i = 0; first != second && i < b->arg.n; i++) {
        cr_assert_not(share_memory(part, a->arg.at[0].buffer, b->arg.at[i].buffer),
                      "%s: call %d writes what call %d touches", part->name, first, second);
    }
}

Test(library_run, no_call_touches_the_memory_that_another_of_its_region_writes)
{
    must_work(&env, compile, NULL);
    for (int i = 0; i < library.parts.n; i++) {
        const NcProgram *p = &tables.program[i];
        for (int from = 0, to; from < p->facts.n_calls; from = to) {
            for (to = from + 1; p->call[to - 1].with_next; to++) {
            }
            for (int k = 0; k < (to - from) * (to - from); k++) {
                apart(&library.parts.part[i], from + k / (to - from), from + k % (to - from));
            }
        }
    }
}

/* ---- who watches, and what fails ---- */

static int n_watched, next_site;

static void watch(void *ctx, int site)
{
    cr_assert_eq(site, next_site + n_watched++);
    cr_assert_eq(note[n_notes - 1].call, n_watched - 1, "calls come one by one");
    (void)ctx;
}

Test(library_run, who_watches_is_told_of_every_call_in_order)
{
    nc_error why;
    nc_model *m = open_noting(&(nc_options){.n_threads = 2, .watch = watch});
    next_site = tables.program[DECODE].facts.n_calls;
    cr_assert_eq(feed(m, 0, 20, &why), NC_OK, "%s", why.text);
    cr_assert_eq(n_watched, 317);
    n_watched = next_site = 0;
    cr_assert_eq(feed(m, 20, 1, &why), NC_OK, "%s", why.text);
    cr_assert_eq(n_watched, 317);
    runtime_close(m);
}

/* Calls 4, 5 and 6 are q, k and v: on any number of threads, watched or not, the first is named. */
Test(library_run, the_first_call_of_a_region_that_fails_is_named)
{
    nc_error why;
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        nc_model *m = open_noting(&(nc_options){.n_threads = n_threads});
        failing[0] = 6, failing[1] = 5;
        cr_assert_eq(feed(m, 0, 1, &why), NC_BROKEN);
        cr_assert_str_eq(why.text,
                         arena_printf(&env.model, "Call 5 of decode ended with code %d.",
                                      105 + n_threads - 1));
        failing[0] = failing[1] = -1;
        cr_assert_eq(feed(m, 0, 1, &why), NC_OK, "and then it goes on");
        runtime_close(m);
    }
}

/* ---- which program ---- */

static const nc_site *fed_by; /* of its calls, one */

static void note_program(void *ctx, int site)
{
    (void)ctx;
    fed_by = &tables.facts->site[site];
}

static const char *program_of(nc_model *m, int n)
{
    static const int32_t ids[CONTEXT];
    const float *logits;
    nc_error why;
    cr_assert_eq(runtime_feed(m, 0, ids, n, false, NULL, &logits, &why), NC_OK, "%s", why.text);
    return fed_by->program;
}

static int32_t idle_kernel(void *const *params, const int64_t *syms, int part, int n_parts)
{
    (void)params, (void)syms, (void)part, (void)n_parts;
    return 0;
}

static nc_model *open_with_buckets(const nc_options *o)
{
    static const Bucket some[] = {{8, 16}, {64, 64}, {256, 500}};
    nc_error why;
    bucket = some;
    n_buckets = (int)countof(some);
    must_work(&env, compile, NULL);
    tables = emptied(&env, &library.text, idle_kernel);
    nc_model *m = runtime_open(&tables, o, &why);
    cr_assert(m, "%s", why.text);
    return m;
}

Test(library_run, a_prompt_goes_through_the_program_for_its_length)
{
    static const struct {
        int n;
        const char *program; /* that feeds the last of it */
    } want[] = {{1, "decode"},        {2, "prefill_8"},   {16, "prefill_8"},
                {17, "prefill_64"},   {64, "prefill_64"}, {65, "prefill_256"},
                {500, "prefill_256"}, {501, "decode"},    {502, "prefill_8"}};
    nc_model *m = open_with_buckets(&(nc_options){.n_threads = 1, .watch = note_program});
    for (size_t i = 0; i < countof(want); i++) {
        cr_assert_str_eq(program_of(m, want[i].n), want[i].program, "%d tokens", want[i].n);
    }
    runtime_close(m);
}

Test(library_run, who_compares_programs_says_through_which_one_prompts_go)
{
    volatile int through = -1;
    nc_model *m = open_with_buckets(
        &(nc_options){.n_threads = 1, .watch = note_program, .through = &through});
    cr_assert_str_eq(program_of(m, 30), "prefill_64");
    through = 1;
    cr_assert_str_eq(program_of(m, 30), "prefill_8", "in parts");
    through = 3;
    cr_assert_str_eq(program_of(m, 2), "prefill_256");
    through = 4;
    cr_assert_str_eq(program_of(m, 2), "prefill_8", "that of all rows is none of them");
    runtime_close(m);
}
