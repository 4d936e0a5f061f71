/* run.c - one `tune`: what is to be tuned, what is recorded of the run, and how it ended; turns.c searches. A
 * summary in words for each task; the evidence is in the database. */
#include <math.h>
#include <stdlib.h>

#include "tuner/cli/duels.h"
#include "tuner/cli/run.h"

typedef struct Tune {
    Workplace w;
    Record record;
    Items items;
    Db *db; /* NULL: there is none */
    bool recording, interrupted;
    int status; /* of a command that does not search */
} Tune;

/* Of this machine, whoever measures on it; links of strangers are not followed. */
static const char *measuring_lock(Env *e)
{
    const char *folder = getenv("TMPDIR");
    return arena_printf(&e->model, "%s/nanocompile-measuring.lock",
                        folder && *folder ? folder : "/tmp");
}

static void open_workplace(Env *e, Workplace *w, const TuneOptions *o)
{
    *w = (Workplace){.e = e, .o = o, .start_ns = clock_ns()};
    machine_read(e, "", &w->machine);
    toolchain_find(e, &w->tc);
    db_machine_here(e, &e->model, "", &w->machine, &w->db_machine);
    w->db_toolchain = toolchain_row(&e->model, &w->tc);
    cache_open(e, &w->cache, NULL);
    w->children.lock = measuring_lock(e);
    w->n_threads = o->n_threads ? o->n_threads : w->machine.n_threads;
    w->n_jobs = o->n_jobs ? o->n_jobs : w->machine.n_threads;
}

uint64_t workplace_spent_ns(const Workplace *w)
{
    return w->spent_ns + (clock_ns() - w->start_ns);
}

/* ---- what came out ------------------------------------------------------------------------ */

void say_result(const Workplace *w, const Item *it, const SessionResult *s)
{
    const Winner *win = &s->winner;
    printf("%s, %s, %d thread%s: ", it->label, regime_name[it->task.regime], it->task.n_threads,
           it->task.n_threads == 1 ? "" : "s");
    if (win->confirmed) {
        printf("%.3fx faster than the default (ratio %.4f", 1 / win->ratio.median,
               win->ratio.median);
        if (isfinite(win->ratio.lo)) {
            printf(", %.0f%% interval %.4f-%.4f", 100 * w->o->protocol.confidence,
                   win->ratio.lo, win->ratio.hi);
        }
        printf("; %d/%d processes, %d pairs, p %.1e)\n  %s\n", win->n_wins, win->n_processes,
               win->n_pairs, win->p, win->built.schedule);
    } else {
        printf("no confirmed improvement; the default is kept\n");
    }
    printf("  %lld candidates in %.1f s; %s: %s%s\n", (long long)s->n_trials,
           (double)s->elapsed_ns / 1e9, ending_name[s->ending], s->why,
           s->noisy ? "; the machine was noisy" : "");
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Reading is enough for a look, and a database that is not there knows nothing. */
static void open_database(Env *e, Tune *t)
{
    Err err;
    bool look = t->w.o->dry_run;
    t->db = db_open(e, t->w.o->db, look ? DB_READ : DB_WRITE, &err);
    if (!t->db && !look) {
        fail_err(e, &err);
    }
}

static void begin_run(Tune *t)
{
    Record *r = &t->record;
    *r = (Record){.w = &t->w};
    r->in = (RunRecord){.db = t->db, .strategy = strategy_name(t->w.o->strategy)};
    rules_init(&r->in.rules, &t->w.o->protocol);
    if (t->w.o->resume) {
        resume_run(r, &t->items);
    } else {
        record_run(r);
        for (int i = 0; i < t->items.n; i++) {
            record_task(r, &t->items.at[i]);
        }
    }
    run_lock(&t->w, r->in.run);
    if (t->w.o->resume) {
        db_reopen_run(t->db, r->in.run);
    }
    t->recording = true;
}

static void say_beginning(const Tune *t)
{
    const TuneOptions *o = t->w.o;
    if (!o->quiet && !o->command) {
        items_print(&t->w, &t->items, true, stderr);
    }
    fprintf(stderr, "Run %lld%s: %d task%s, seed %llu%s%s; recording into %s\n",
            (long long)t->record.in.run, o->resume ? ", resumed" : "", t->items.n,
            t->items.n == 1 ? "" : "s", (unsigned long long)o->seed,
            o->command ? "" : ", strategy ", o->command ? "" : strategy_name(o->strategy),
            db_path(t->db));
}

static void tune(Env *e, void *arg)
{
    Tune *t = arg;
    const TuneOptions *o = t->w.o;
    open_workplace(e, &t->w, o);
    if (o->command && o->command->alone) {
        o->command->alone(&t->w);
        return;
    }
    items_find(&t->w, &t->items);
    if (!o->list) {
        open_database(e, t);
    }
    items_expect(&t->w, t->db, &t->items);
    if (o->dry_run && o->command && o->command->show) {
        o->command->show(&t->w, &t->items);
        return;
    }
    if (o->list || o->dry_run) {
        items_print(&t->w, &t->items, o->dry_run, stdout);
        return;
    }
    begin_run(t);
    say_beginning(t);
    if (o->command) {
        t->status = duels_run(&t->w, &t->record, &t->items);
    } else {
        t->interrupted = !turns_run(e, &t->record, &t->items);
    }
}

typedef struct RunEnd {
    Tune *t;
    const char *ending, *why;
} RunEnd;

static void end_run(Env *e, void *arg)
{
    const RunEnd *x = arg;
    (void)e;
    record_run_end(&x->t->record, x->ending, x->why);
}

void tune_body(Env *e, void *arg)
{
    Tune *t = arena_new(&e->model, Tune);
    TuneOptions *o = arg;
    t->w.o = o;
    bool ok = env_try(e, tune, t);
    Err err = e->err;
    children_release(&t->w.children);
    bool interrupted = t->interrupted || (!ok && err.code == E_INTERRUPT);
    RunEnd end = {t,
                  interrupted ? "interrupted"
                  : ok        ? "finished"
                              : "failed",
                  ok ? NULL : err.text};
    bool told = !t->recording || env_try(e, end_run, &end);
    if (ok && !told) { /* else the first cause counts */
        ok = false;
        err = e->err;
    }
    if (t->recording) {
        run_unlock(&t->w, t->record.in.run);
    }
    db_close(t->db);
    if (interrupted) {
        fail(e, E_INTERRUPT, "Stopped. What was found until then is recorded%s.",
             o->command ? "" : ", and the same command with --resume goes on with it");
    }
    if (!ok) {
        fail_err(e, &err);
    }
    o->status = t->status;
}
