/* bench_llama.c - `nanocompile bench --lib FILE --vs-llama GGUF`: a built model beside llama.cpp, whose own
 * llama-bench does the same work on as many threads, in turns, as a process of its own. Its rate is
 * the one that it reports, loading left out; ours is measured here. Each round is a pair, and the
 * sign test is over rounds.
 * needs: $LLAMA_BENCH, the path of a llama-bench that knows -d and -o json. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/bench.h"

enum { N_DECODED = 32, LIMIT_MS = 600000, MOST_OUTPUT = 1 << 20 };

typedef struct LlamaRace {
    const LibraryBench *o;
    const char *program;
    LibrarySide side;
    int n_threads;
    double *ours, *theirs; /* tokens a second, by round */
    Table table;
} LlamaRace;

/* ---- theirs ---- */

/* What it printed may stand behind words on stderr: the first text that is a list of results. */
static double rate_in(const char *text)
{
    double rate = 0;
    for (const char *at = text; rate <= 0 && (at = strchr(at, '[')); at++) {
        json_t *list = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        rate = json_number_value(json_object_get(json_array_get(list, 0), "avg_ts"));
        json_decref(list);
    }
    return rate;
}

static const char *last_line(Env *e, Buf *said)
{
    while (said->len > 0 && said->at[said->len - 1] == '\n') {
        said->at[--said->len] = 0;
    }
    const char *line = said->len ? strrchr(said->at, '\n') : NULL;
    return arena_str(&e->kernel, line ? line + 1 : said->len ? said->at : "it said nothing");
}

static double their_rate(Env *e, const LlamaRace *r, const LibraryWork *w)
{
    Arena *m = &e->kernel;
    bool one = w->n == 1;
    char *argv[] = {(char *)(uintptr_t)r->program,
                    "-m",
                    (char *)(uintptr_t)r->o->llama,
                    "-t",
                    arena_printf(m, "%d", r->n_threads),
                    "-p",
                    arena_printf(m, "%d", one ? 0 : w->n),
                    "-n",
                    arena_printf(m, "%d", one ? N_DECODED : 0),
                    "-d",
                    arena_printf(m, "%d", w->at),
                    "-r",
                    "1",
                    "-o",
                    "json",
                    NULL};
    Buf said;
    int status;
    Err err;
    buf_init(&said, m);
    if (!os_run(argv, NULL, LIMIT_MS, MOST_OUTPUT, &said, &status, &err)) {
        fail(e, E_IO, "$LLAMA_BENCH: %s", err.text);
    }
    double rate = status == 0 && said.len ? rate_in(said.at) : 0;
    if (!(rate > 0)) {
        fail(e, E_IO, "%s on %s, %s: no rate (%s %d): %.500s", r->program, r->o->llama, w->name,
             WIFSIGNALED(status) ? "signal" : "exit status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), last_line(e, &said));
    }
    return rate;
}

/* ---- ours ---- */

/* Once to warm up, as llama-bench does; then a whole prompt, or tokens one by one. */
static double our_rate(Env *e, LlamaRace *r, const LibraryWork *w)
{
    LibrarySide *s = &r->side;
    int n = w->n == 1 ? N_DECODED : 1;
    if (w->at > 0) {
        library_side_feed(s, 0, w->at);
    }
    library_side_feed(s, w->at, w->n);
    uint64_t start_ns = os_now_ns();
    for (int i = 0; i < n; i++) {
        library_side_feed(s, w->at + i, w->n);
    }
    uint64_t ns = os_now_ns() - start_ns;
    if (s->failed) {
        fail_err(e, &s->err);
    }
    return (double)(n * w->n) / (double)(ns ? ns : 1) * 1e9;
}

/* ---- rows ---- */

static void put_rates(LlamaRace *r, double *rate, int n)
{
    double median = stat_median(rate, n); /* sorted from here on */
    table_number(&r->table, median, "%.2f");
    table_number(&r->table, stat_quantile(rate, n, 0.25), "%.2f");
    table_number(&r->table, stat_quantile(rate, n, 0.75), "%.2f");
}

static void put_row(Env *e, LlamaRace *r, const LibraryWork *w, int n)
{
    double *ratio = arena_array(&e->kernel, double, n);
    int64_t won = 0, lost = 0;
    for (int i = 0; i < n; i++) {
        ratio[i] = r->ours[i] / r->theirs[i];
        won += r->ours[i] > r->theirs[i];
        lost += r->ours[i] < r->theirs[i];
    }
    Interval x = stat_interval(ratio, n, 0.95);
    table_cell(&r->table, "%s", w->name);
    put_rates(r, r->ours, n);
    put_rates(r, r->theirs, n);
    table_number(&r->table, x.median, "%.3f");
    table_number(&r->table, x.lo, "%.3f");
    table_number(&r->table, x.hi, "%.3f");
    table_cell(&r->table, "%lld of %lld", (long long)won, (long long)(won + lost));
    table_number(&r->table, stat_sign_two(won, lost), "%.2g");
}

static void race_at(Env *e, LlamaRace *r, const LibraryWork *w)
{
    int n = 0;
    for (; n < r->o->n_blocks && !interrupted; n++) {
        for (int turn = 0; turn < 2; turn++) { /* who begins alternates */
            if ((turn + n) % 2) {
                r->theirs[n] = their_rate(e, r, w);
            } else {
                r->ours[n] = our_rate(e, r, w);
            }
        }
    }
    if (n == 0 || interrupted) {
        fail(e, E_INTERRUPT, "Stopped in %s.", w->name);
    }
    put_row(e, r, w, n);
    env_reset_kernel(e);
}

/* ---- all of it ---- */

static void print(Env *e, LlamaRace *r)
{
    Machine machine;
    Buf out;
    machine_read(e, "", &machine);
    buf_init(&out, &e->model);
    table_print(&r->table, r->o->format, &out);
    if (r->o->format == FORMAT_TEXT || r->o->format == FORMAT_MD) {
        buf_printf(&out, "\n%s, %d threads; tokens a second, spread: quartiles; %s, %s\n",
                   machine.brand, r->n_threads, r->program, r->o->llama);
    }
    cli_flush(&out);
}

static void race(Env *e, void *arg)
{
    static const char *const columns[] = {
        "work", "#ours",          "#q1",       "#q3",      "#llama.cpp", "#q1",
        "#q3",  "#times as fast", "#at least", "#at most", "rounds won", "#p"};
    LlamaRace *r = arg;
    r->program = getenv("LLAMA_BENCH");
    if (!r->program || !*r->program) {
        fail(e, E_INPUT,
             "--vs-llama runs the program that $LLAMA_BENCH names, llama.cpp's "
             "llama-bench; it names none.");
    }
    library_side_open(e, r->o, 0, &r->side);
    const nc_facts *f = r->side.built.facts;
    r->n_threads = r->o->n_threads ? r->o->n_threads : f->n_threads;
    r->ours = arena_array(&e->model, double, r->o->n_blocks);
    r->theirs = arena_array(&e->model, double, r->o->n_blocks);
    table_init(&r->table, &e->model, "llama", (int)countof(columns), columns);
    for (int i = 0; i < N_LIBRARY_WORKS; i++) {
        const LibraryWork *w = &library_works[i];
        if (w->at + (w->n == 1 ? N_DECODED : w->n) <= f->context) {
            race_at(e, r, w);
        } else {
            fprintf(stderr, "The context is too short for %s.\n", w->name);
        }
    }
    print(e, r);
}

static void close_race(void *arg)
{
    LlamaRace *r = arg;
    built_model_close(&r->side.built);
}

void bench_llama(Env *e, void *options)
{
    LlamaRace r = {.o = options};
    catch_interrupt();
    library_bench_find(e, options);
    env_finally(e, race, close_race, &r);
}
