/* turns.c - the searches of a run, in turns: whose task is worth most by the second gets the next slice of the time
 * (tuner/allocate.c), and when no slice is left each plays its matches with what was kept for them. A budget in
 * trials is for each task, one after another. What was dealt is recorded, so that a run that is resumed gives every
 * session what it had; a session goes on from its own records. */
#include <math.h>
#include <string.h>

#include "tuner/cli/run.h"
#include "tuner/cli/turns.h"

/* ---- a session ------------------------------------------------------------------------------------- */

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

void turn_start(Turns *all, Turn *t)
{
    Env *e = all->e;
    Workplace *w = all->r->w;
    const TuneOptions *o = w->o;
    t->builder = (TaskBuilder){.w = w, .item = t->item};
    t->searching.space = search_space(&t->item->space);
    search_init(e, &e->model, &t->searching.search, o->strategy, &t->searching.space, o->seed,
                o->protocol.batch);
    if (t->item->has_rank) { /* the best that is known yet: its neighbourhood comes first */
        search_first(&t->searching.search, t->item->base_rank);
    }
    t->record = task_record_of(all->r, t->item);
    if (o->resume) {
        task_record_resume(&t->record);
    }
    t->progress = (TaskProgress){
        .w = w, .record = &t->record, .label = t->item->label, .in = task_recorder(&t->record)};
    t->plan = (SessionPlan){.task = &t->item->task,
                            .protocol = o->protocol,
                            .runner = child_runner(&w->children),
                            .builder = task_builder(&t->builder),
                            .strategy = {&t->searching, ask, tell, redo},
                            .recorder = progress_recorder(&t->progress),
                            .past = o->resume ? &t->past : NULL,
                            .budget = {t->given_ns, o->budget.trials},
                            .seed = o->seed,
                            .stop = &tune_interrupted};
    t->session = session_start(e, &t->plan);
    t->progress.now = session_result(t->session);
}

static void search_on(Turns *all, Turn *t)
{
    while (session_step(t->session)) {
    }
    all->stopped |= session_result(t->session)->ending == ENDING_INTERRUPTED;
}

/* Once stopped, no match is begun: it is played when the run is resumed. */
static void finish(Turns *all, Turn *t)
{
    if (!all->stopped) {
        session_finish(t->session);
    }
    const SessionResult *s = session_result(t->session);
    all->stopped |= s->ending == ENDING_INTERRUPTED;
    if (!all->stopped) {
        record_task_end(all->r, t->item, s);
    }
    progress_clear(all->r->w);
    say_result(all->r->w, t->item, s);
    t->over = true;
}

typedef void Doing(Turns *all, Turn *t);

typedef struct Trying {
    Turns *all;
    Turn *t;
    Doing *what;
} Trying;

static void attempt_body(Env *e, void *arg)
{
    const Trying *a = arg;
    (void)e;
    a->what(a->all, a->t);
}

/* A task whose default does not build or run here is no reason to leave the others. */
static void attempt(Turns *all, Turn *t, Doing *what)
{
    Trying a = {all, t, what};
    if (env_try(all->e, attempt_body, &a)) {
        return;
    }
    Err err = all->e->err;
    if (all->n == 1 || (err.code != E_INPUT && err.code != E_BUILD)) {
        fail_err(all->e, &err);
    }
    progress_clear(all->r->w);
    warn("%s is left: %s", t->item->label, err.text);
    record_task_over(all->r, t->item, "failed", err.text);
    t->over = true;
}

/* ---- in turns -------------------------------------------------------------------------------------- */

static void search_in_turns(Turns *all)
{
    int who;
    for (int i = 0; i < all->n && !all->stopped; i++) { /* those of the run before */
        if (all->at[i].session) {
            attempt(all, &all->at[i], search_on);
        }
    }
    while (!all->stopped && !all->matches && turns_deal(all, &who)) {
        attempt(all, &all->at[who], search_on);
    }
}

/* ---- the matches ------------------------------------------------------------------------------------------ */

/* What the model has of it. */
static double gain_of(const Turn *t)
{
    const SessionResult *s = t->session ? session_result(t->session) : NULL;
    return s ? t->item->share * -expm1(s->ln_default) : 0;
}

static Turn *next_to_finish(Turns *all)
{
    Turn *best = NULL;
    for (int i = 0; i < all->n; i++) {
        Turn *t = &all->at[i];
        if (t->session && !t->over && (!best || gain_of(t) > gain_of(best))) {
            best = t;
        }
    }
    return best;
}

/* What earlier ones did not need is for the next. */
static void finish_all(Turns *all)
{
    for (Turn *t; (t = next_to_finish(all)) != NULL;) {
        SessionEnd ending = session_result(t->session)->ending;
        uint64_t more_ns = turns_left_ns(all);
        if (ending == ENDING_BUDGET && !all->stopped && more_ns > 0 && gain_of(t) > 0) {
            turn_give(all, t, more_ns);
        }
        attempt(all, t, finish);
    }
}

/* ---- what the run before left ------------------------------------------------------------------------------- */

static Turn *turn_of(Turns *all, int64_t task)
{
    for (int i = 0; i < all->n; i++) {
        if (all->at[i].item->id == task) {
            return &all->at[i];
        }
    }
    return NULL;
}

/* *failed: its default did not run, which says nothing of the others. */
static bool task_ended(const Turns *all, const Turn *t, bool *failed)
{
    DbRunTask row;
    bool ended =
        DB_ONE(all->r->in.db, RUN_TASK, &all->e->kernel, &row, all->r->in.run, t->item->id) &&
        row.ended_ns != DB_NONE;
    *failed = ended && row.ending && !strcmp(row.ending, "failed");
    return ended;
}

/* Slices as they were dealt, and what was used of the whole by then. */
static void take_slices(Turns *all)
{
    Workplace *w = all->r->w;
    DbSlice row;
    DbCursor at = DB_FIND(all->r->in.db, SLICES, all->r->in.run);
    while (db_next(&at, &all->e->kernel, &row)) {
        Turn *t = turn_of(all, row.task);
        if (t) {
            t->given_ns += (uint64_t)row.budget_ns;
        }
        w->spent_ns += row.idx == 0 ? (uint64_t)row.elapsed_ns : 0;
        all->r->n_slices = (int)row.idx + 1;
    }
}

/* What one has is no more than what is left of all, should the budget be another now; in trials nobody has
 * time. */
static void keep_within(Turns *all, Turn *t, uint64_t elapsed_ns)
{
    const Workplace *w = all->r->w;
    uint64_t all_ns = w->o->budget.ns;
    uint64_t most_ns = elapsed_ns + (all_ns > w->spent_ns ? all_ns - w->spent_ns : 0);
    most_ns = all_ns > 0 ? most_ns : 0;
    t->given_ns = t->given_ns > most_ns ? most_ns : t->given_ns;
}

static void take_up(Turns *all)
{
    DuelProcess any;
    bool failed;
    uint64_t *elapsed_ns = arena_array(&all->e->model, uint64_t, all->n);
    take_slices(all);
    for (int i = 0; i < all->n; i++) {
        Turn *t = &all->at[i];
        task_past_init(all->e, &t->task_past, all->r->in.db, all->r->in.run, t->item->id);
        t->past = task_past(&t->task_past);
        t->over = task_ended(all, t, &failed);
        all->matches |=
            (t->over && !failed) || t->past.process(t->past.ctx, &all->e->kernel, 0, 0, &any);
        elapsed_ns[i] = task_past_elapsed_ns(&t->task_past);
        all->r->w->spent_ns += elapsed_ns[i];
    }
    env_reset_kernel(all->e);
    for (int i = 0; i < all->n; i++) {
        Turn *t = &all->at[i];
        keep_within(all, t, elapsed_ns[i]);
        if (t->given_ns > 0 && !t->over) {
            turn_start(all, t);
        }
    }
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static void search_by_trials(Turns *all)
{
    for (int i = 0; i < all->n && !all->stopped; i++) {
        Turn *t = &all->at[i];
        if (!t->over) {
            turn_start(all, t);
            attempt(all, t, search_on);
        }
        if (!t->over) {
            attempt(all, t, finish);
        }
    }
}

static void run_turns(Env *e, void *arg)
{
    Turns *all = arg;
    (void)e;
    if (all->r->w->o->resume) {
        take_up(all);
    }
    if (all->r->w->o->budget.ns > 0) {
        search_in_turns(all);
        finish_all(all);
    } else {
        search_by_trials(all);
    }
}

static void release_turns(void *arg)
{
    Turns *all = arg;
    for (int i = 0; i < all->n; i++) {
        if (all->at[i].session) {
            session_release(all->at[i].session);
        }
    }
}

bool turns_run(Env *e, Record *r, Items *items)
{
    Turns *all = arena_new(&e->model, Turns);
    *all = (Turns){.e = e, .r = r, .n = items->n, .at = arena_array(&e->model, Turn, items->n)};
    for (int i = 0; i < items->n; i++) {
        all->at[i].item = &items->at[i];
    }
    env_finally(e, run_turns, release_turns, all);
    return !all->stopped;
}
