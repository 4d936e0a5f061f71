/* run.c - one `tune`: what is to be tuned, then a session for each task with its share of the time that is
 * left, all of it recorded. A summary in words at the end; the evidence is in the database. */
#include <math.h>
#include <string.h>

#include "tuner/cli/duels.h"
#include "tuner/cli/run.h"

typedef struct Tune {
    Workplace w;
    Record record;
    Items items;
    Db *db;
    bool recording, interrupted;
    int status; /* of a command that does not search */
} Tune;

static void open_workplace(Env *e, Workplace *w, const TuneOptions *o)
{
    *w = (Workplace){.e = e, .o = o};
    machine_read(e, "", &w->machine);
    toolchain_find(e, &w->tc);
    cache_open(e, &w->cache, NULL);
    w->n_threads = o->n_threads ? o->n_threads : w->machine.n_threads;
    w->n_jobs = o->n_jobs ? o->n_jobs : w->machine.n_threads;
}

/* ---- one task ---------------------------------------------------------------------------- */

typedef struct Searching {
    Search search;
    SearchSpace space;
} Searching;

static bool ask(void *ctx, uint64_t *index)
{
    return search_ask(&((Searching *)ctx)->search, index);
}

static void tell(void *ctx, uint64_t index, Status status, double ln_ratio)
{
    search_tell(&((Searching *)ctx)->search, index, status, ln_ratio);
}

static void redo(void *ctx, uint64_t index)
{
    search_redo(&((Searching *)ctx)->search, index);
}

static void say_result(const Item *it, const SessionResult *s)
{
    const Winner *win = &s->winner;
    printf("%s, %s, %d threads: ", it->label, it->task.regime == REGIME_COLD ? "cold" : "hot",
           it->task.n_threads);
    if (win->confirmed) {
        printf("%.3fx faster than the default (ratio %.4f", 1 / win->ratio.median,
               win->ratio.median);
        if (isfinite(win->ratio.lo)) {
            printf(", 95%% interval %.4f-%.4f", win->ratio.lo, win->ratio.hi);
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

typedef struct OneTask {
    Tune *t;
    const Item *item;
    uint64_t budget_ns;
    Searching searching;
    TaskBuilder builder;
    Session *session;
    SessionPlan plan;
} OneTask;

static void plan_task(Env *e, OneTask *x)
{
    Tune *t = x->t;
    const TuneOptions *o = t->w.o;
    x->builder = (TaskBuilder){.w = &t->w, .item = x->item};
    x->searching.space = search_space(&x->item->space);
    search_init(e, &e->model, &x->searching.search, o->strategy, &x->searching.space, o->seed,
                o->protocol.batch);
    if (x->item->has_rank) { /* the best that is known yet: its neighbourhood comes first */
        search_first(&x->searching.search, x->item->base_rank);
    }
    x->plan = (SessionPlan){.task = &x->item->task,
                            .protocol = o->protocol,
                            .runner = child_runner(&t->w.children),
                            .builder = task_builder(&x->builder),
                            .strategy = {&x->searching, ask, tell, redo},
                            .recorder = record_of(&t->record),
                            .budget = {x->budget_ns, o->budget.trials},
                            .seed = o->seed,
                            .stop = &tune_interrupted};
}

static void work(Env *e, void *arg)
{
    OneTask *x = arg;
    plan_task(e, x);
    record_task(&x->t->record, x->item);
    x->session = session_start(e, &x->plan);
    x->t->record.now = session_result(x->session);
    while (session_step(x->session)) {
    }
    session_finish(x->session);
}

static void end_task(void *arg)
{
    OneTask *x = arg;
    if (!x->session) {
        return;
    }
    const SessionResult *s = session_result(x->session);
    record_task_end(&x->t->record, s);
    if (x->t->record.shows) {
        fprintf(stderr, "\r\033[K");
    }
    say_result(x->item, s);
    fflush(stdout);
    x->t->interrupted = s->ending == ENDING_INTERRUPTED;
    x->t->record.now = NULL;
    session_release(x->session);
}

/* ---- all of them ------------------------------------------------------------------------- */

/* What is left is shared among those that are left. */
static uint64_t share_of_budget(const Tune *t, int i, uint64_t start_ns)
{
    uint64_t all_ns = t->w.o->budget.ns, spent_ns = clock_ns() - start_ns;
    if (!all_ns) {
        return 0;
    }
    uint64_t left_ns = spent_ns < all_ns ? all_ns - spent_ns : 1;
    return left_ns / (uint64_t)(t->items.n - i);
}

static void tune(Env *e, void *arg)
{
    Tune *t = arg;
    Err err;
    uint64_t start_ns = clock_ns();
    items_find(&t->w, &t->items);
    if (t->w.o->dry_run && t->w.o->command && t->w.o->command->show) {
        t->w.o->command->show(&t->w, &t->items);
        return;
    }
    if (t->w.o->list || t->w.o->dry_run) {
        items_print(&t->w, &t->items);
        return;
    }
    t->db = db_open(e, t->w.o->db, DB_WRITE, &err);
    if (!t->db) {
        fail_err(e, &err);
    }
    t->record = (Record){.w = &t->w, .db = t->db, .shows = !t->w.o->quiet};
    record_run(&t->record);
    t->recording = true;
    fprintf(stderr, "%d tasks, %d threads, seed %llu, strategy %s; recording into %s\n",
            t->items.n, t->w.n_threads, (unsigned long long)t->w.o->seed,
            strategy_name(t->w.o->strategy), db_path(t->db));
    if (t->w.o->command) {
        t->status = duels_run(&t->w, &t->record, &t->items, &t->interrupted);
        return;
    }
    for (int i = 0; i < t->items.n && !t->interrupted; i++) {
        OneTask one = {
            .t = t, .item = &t->items.at[i], .budget_ns = share_of_budget(t, i, start_ns)};
        env_finally(e, work, end_task, &one);
    }
}

static void close_all(void *arg)
{
    Tune *t = arg;
    if (t->recording) {
        record_run_end(&t->record, t->interrupted ? "interrupted" : "finished", NULL);
    }
    db_close(t->db);
}

void tune_body(Env *e, void *arg)
{
    Tune *t = arena_new(&e->model, Tune);
    TuneOptions *o = arg;
    open_workplace(e, &t->w, o);
    if (o->command && o->command->alone) {
        o->command->alone(&t->w);
        return;
    }
    env_finally(e, tune, close_all, t);
    o->status = t->status;
    if (t->interrupted) {
        fail(e, E_INTERRUPT, "Stopped. What was found until then is recorded.");
    }
}
