/* bench_library.c - `nanocompile bench --lib`: a built model's prompts and single tokens, timed;
 * with --vs two libraries, in turns in one process. Each kind of work is a race of its own, its
 * probes of memory beside it, so that a change of the machine is seen. A race pairs what ran in one
 * round: the sign test is over these. Ids are made up: the time of a token depends on no other's
 * value. */
#include <math.h>
#include <string.h>

#include "cli/bench.h"

enum { BLOCK_NS = 400000000 };

const LibraryWork library_works[N_LIBRARY_WORKS] = {
    {"prefill 64", 64, 0},   {"prefill 128", 128, 0},   {"prefill 512", 512, 0},
    {"decode at 16", 1, 16}, {"decode at 512", 1, 512},
};

typedef struct LibraryRace {
    const LibraryBench *o;
    Machine machine;
    LibrarySide side[2];
    int n;
    Pool *pool; /* of the probes */
    Ring ring;
    Table table;
} LibraryRace;

/* ---- what is timed ---- */

bool library_side_feed(LibrarySide *s, int at, int n)
{
    const float *logits;
    Stepper *step = &s->built.stepper;
    step->n_fed = at;
    s->failed = s->failed || !step->feed(step, s->ids, n, false, &logits, &s->err);
    return !s->failed;
}

static void do_work(void *side)
{
    LibrarySide *s = side;
    library_side_feed(s, s->work->at, s->work->n);
}

static bool fits(const LibraryRace *r, const LibraryWork *w)
{
    bool fits = true;
    for (int i = 0; i < r->n; i++) {
        fits = fits && w->at + w->n <= r->side[i].built.facts->context;
    }
    return fits;
}

/* What stands before the work; the same every time. */
static void prepare(Env *e, LibraryRace *r, const LibraryWork *w)
{
    for (int i = 0; i < r->n; i++) {
        LibrarySide *s = &r->side[i];
        s->work = w;
        if (w->at > 0 && !library_side_feed(s, 0, w->at)) {
            fail_err(e, &s->err);
        }
    }
}

/* ---- a row ---- */

/* Bytes of one token alone: rising evenly with its position. NaN: not one token. */
static double token_bytes(const nc_facts *f, const LibraryWork *w)
{
    for (int i = 0; i < f->n_programs && w->n == 1; i++) {
        const nc_program *p = &f->program[i];
        if (p->max_tokens == 1) {
            double all = f->context > 1 ? (double)(f->context - 1) : 1;
            return (double)p->bytes_first +
                   (double)(p->bytes_last - p->bytes_first) * w->at / all;
        }
    }
    return NAN;
}

/* Rounds in which the first side was faster, and slower. */
static void count_pairs(const Measured *m, int64_t *won, int64_t *lost)
{
    *won = *lost = 0;
    for (int64_t i = 0; i < (int64_t)m->n_blocks * m->n_rounds; i++) {
        const Sample *s = &m->sample[i * m->n_contenders];
        *won += s[0].ns < s[1].ns;
        *lost += s[0].ns > s[1].ns;
    }
}

static void put_comparison(Env *e, LibraryRace *r, const Measured *m, bool first)
{
    if (!first) {
        for (int i = 0; i < 5; i++) {
            table_number(&r->table, NAN, "%g");
        }
        return;
    }
    int64_t won, lost;
    Interval ratio = measure_ratio(e, m, 1, 0);
    count_pairs(m, &won, &lost);
    table_number(&r->table, ratio.median, "%.3f");
    table_number(&r->table, ratio.lo, "%.3f");
    table_number(&r->table, ratio.hi, "%.3f");
    table_cell(&r->table, "%lld of %lld", (long long)won, (long long)(won + lost));
    table_number(&r->table, stat_sign_two(won, lost), "%.2g");
}

static double probed_rate(const Measured *m)
{
    double sum = 0;
    for (int i = 0; i < m->n_blocks; i++) {
        sum += m->block[i].before.read_bytes_per_ns + m->block[i].after.read_bytes_per_ns;
    }
    return sum / (2 * m->n_blocks);
}

static void put_side(Env *e, LibraryRace *r, const Measured *m, const LibraryWork *w, int i)
{
    Table *t = &r->table;
    Summary s = measure_summary(e, m, i);
    double bytes = token_bytes(r->side[i].built.facts, w);
    Interval part = measure_fraction(e, m, i, isnan(bytes) ? 0 : bytes, 0);
    table_cell(t, "%s", w->name);
    table_cell(t, "%s", m->contender[i].name);
    table_number(t, w->n / s.median_ns * 1e9, "%.2f");
    table_number(t, w->n / s.q3_ns * 1e9, "%.2f");
    table_number(t, w->n / s.q1_ns * 1e9, "%.2f");
    table_number(t, s.median_ns / 1e6, "%.3f");
    table_number(t, bytes / 1e6, "%.1f");
    table_number(t, bytes / s.median_ns, "%.2f");
    table_number(t, probed_rate(m), "%.2f");
    table_number(t, isnan(bytes) ? NAN : part.median * 100, "%.1f");
    table_cell(t, "%d", s.n_samples);
    if (r->n == 2) {
        put_comparison(e, r, m, i == 0);
    }
}

static void race_at(Env *e, LibraryRace *r, const LibraryWork *w, Measured *m)
{
    Contender *c = arena_array(&e->model, Contender, 2);
    Prober prober = prober_of(&r->machine, r->pool, &r->ring);
    MeasurePlan plan = measure_plan(r->o->seed);
    plan.n_blocks = r->o->n_blocks;
    plan.block_ns = BLOCK_NS;
    plan.settle_ns = w->n == 1 ? plan.settle_ns : 0; /* a prompt is long enough to settle in */
    plan.stop = &interrupted;
    prepare(e, r, w);
    for (int i = 0; i < r->n; i++) {
        c[i] = (Contender){r->o->lib[i], do_work, &r->side[i]};
    }
    measure(e, c, r->n, &plan, &prober, m);
    for (int i = 0; i < r->n; i++) {
        if (r->side[i].failed) {
            fail_err(e, &r->side[i].err);
        }
    }
    if (!m->n_blocks) {
        fail(e, E_INTERRUPT, "Stopped before a block was measured.");
    }
    for (int i = 0; i < r->n; i++) {
        put_side(e, r, m, w, i);
    }
}

/* ---- opening and closing ---- */

int32_t *made_up_ids(Env *e, int64_t n, int64_t vocab_size)
{
    int32_t *ids = arena_array(&e->model, int32_t, n);
    for (int64_t i = 0; i < n; i++) {
        ids[i] = (int32_t)((uint64_t)i * 7919 % (uint64_t)vocab_size);
    }
    return ids;
}

void library_side_open(Env *e, const LibraryBench *b, int i, LibrarySide *s)
{
    nc_options o = {.weights = b->weights,
                    .n_threads = b->n_threads,
                    .progress = terminal_progress(),
                    .progress_ctx = (void *)(uintptr_t) "reading weights",
                    .stop = &interrupted};
    pack_use(e, &b->pack, b->lib[i], &o);
    built_model_load(e, &s->built, b->lib[i]);
    built_model_open(e, &s->built, &o);
    s->ids = made_up_ids(e, s->built.facts->context, s->built.facts->vocab_size);
}

static void open_probes(Env *e, LibraryRace *r, int n_threads)
{
    const size_t copy = 64u << 20;
    Err err;
    if (!(r->pool = pool_new(n_threads, &err))) {
        fail_err(e, &err);
    }
    ring_init(e, &r->ring, NULL, copy, (int)(ring_want_bytes(&r->machine) / copy) + 1, true,
              r->pool);
}

static void print(Env *e, LibraryRace *r, const int n_threads[2])
{
    bool differ = r->n == 2 && n_threads[0] != n_threads[1];
    const char *also = differ ? arena_printf(&e->model, " and %d", n_threads[1]) : "";
    Buf out;
    buf_init(&out, &e->model);
    table_print(&r->table, r->o->format, &out);
    if (r->o->format == FORMAT_TEXT || r->o->format == FORMAT_MD) {
        buf_printf(&out,
                   "\n%s, %d%s threads, seed %llu; spread: quartiles; probe: a ring's read "
                   "bandwidth, beside\n",
                   r->machine.brand, n_threads[0], also, (unsigned long long)r->o->seed);
        buf_str(&out, r->n < 2
                          ? ""
                          : "Where memory lies is drawn once for all rounds of a process, and "
                            "alone makes some percent: believe those when they come again.\n");
    }
    cli_flush(&out);
}

static void race(Env *e, void *arg)
{
    static const char *const columns[] = {
        "work",      "library",  "#tok/s",      "#q1",         "#q3",      "#ms",
        "#MB/token", "#GB/s",    "#probe GB/s", "#% of probe", "#samples", "#times as fast",
        "#at least", "#at most", "rounds won",  "#p"};
    LibraryRace *r = arg;
    Measured m[N_LIBRARY_WORKS] = {{0}};
    int n_threads[2];
    machine_read(e, "", &r->machine);
    r->n = r->o->lib[1] ? 2 : 1;
    for (int i = 0; i < r->n; i++) {
        library_side_open(e, r->o, i, &r->side[i]);
        n_threads[i] = r->o->n_threads ? r->o->n_threads : r->side[i].built.facts->n_threads;
    }
    open_probes(e, r, n_threads[0]);
    table_init(&r->table, &e->model, "library", (int)countof(columns) - (r->n == 2 ? 0 : 5),
               columns);
    for (int i = 0; i < N_LIBRARY_WORKS; i++) {
        if (fits(r, &library_works[i])) {
            race_at(e, r, &library_works[i], &m[i]);
        } else {
            fprintf(stderr, "The context is too short for %s.\n", library_works[i].name);
        }
    }
    print(e, r, n_threads);
    if (r->n == 2) {
        bench_record(e, r->o, &r->machine, n_threads, m);
    }
}

static void close_race(void *arg)
{
    LibraryRace *r = arg;
    for (int i = 0; i < r->n; i++) {
        built_model_close(&r->side[i].built);
    }
    if (r->ring.n_copies) {
        ring_release(&r->ring);
    }
    pool_free(r->pool);
}

void library_bench_find(Env *e, LibraryBench *o)
{
    if (!o->lib[0]) {
        o->first.n_threads = o->n_threads;
        o->lib[0] = first_use_library(e, &o->first, o->weights);
    }
}

void bench_library(Env *e, void *options)
{
    LibraryRace r = {.o = options};
    catch_interrupt();
    library_bench_find(e, options);
    env_finally(e, race, close_race, &r);
}
