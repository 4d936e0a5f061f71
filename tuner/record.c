/* record.c - a session's doings into the database, one transaction each. What is derived in a row
 * is computed from the rows below it (evidence.c), so that verifying finds the same. A match is
 * recorded process by process: its row grows with them, and whenever the program dies it stands
 * for a match that was cut there. Memory does not grow with the session. */
#include <string.h>

#include "tuner/evidence.h"
#include "tuner/session_int.h"

typedef struct Told { /* by the session */
    TaskRecord *t;
    const void *what;
} Told;

/* ---- who --------------------------------------------------------------------------------- */

const char *task_record_name(Arena *m, const TaskRecord *t, uint64_t index)
{
    const char *name = t->name ? t->name(t->name_ctx, index) : NULL;
    return name                     ? name
           : index == INDEX_DEFAULT ? "default"
           : index == INDEX_COPY    ? "a copy of the default"
                                 : arena_printf(m, "candidate %llu", (unsigned long long)index);
}

static const Promotion *promotion_of(const TaskRecord *t, uint64_t index)
{
    for (int i = t->promoted.n - 1; i >= 0; i--) {
        if (t->promoted.at[i].index == index) {
            return &t->promoted.at[i];
        }
    }
    return NULL;
}

/* The number of the trial that promoted it. */
static int64_t trial_of(const TaskRecord *t, uint64_t index)
{
    const Promotion *p = promotion_of(t, index);
    return p ? p->trial : DB_NONE;
}

/* The default, or one that was promoted. */
static Built incumbent_of(const TaskRecord *t, uint64_t index)
{
    const Promotion *p = promotion_of(t, index);
    return p ? (Built){.schedule = p->schedule, .c_hash = p->c_hash}
             : (Built){.schedule = t->base, .c_hash = t->base_c_hash};
}

static void promote(Env *e, TaskRecord *t, const DbTrial *row)
{
    *vec_push(&e->model, &t->promoted) = (Promotion){
        (uint64_t)row->rank, row->idx, arena_str(&e->model, row->schedule), row->c_hash};
}

/* ---- duels ------------------------------------------------------------------------------- */

static DbDuel blank_duel(const TaskRecord *t, DuelStage stage, const Terms *terms)
{
    const Protocol *p = &t->run->rules.p;
    bool pairs = stage == DUEL_SEARCH || stage == DUEL_REPLICATE;
    DbDuel d = db_blank_duel();
    d.run = t->run->run, d.task = t->id;
    d.stage = stage_name[stage];
    d.metric = metric_name[terms->metric];
    d.margin_e4 = terms->margin_e4;
    d.alpha = pairs ? p->alpha_search : p->alpha_title;
    d.beta = p->beta;
    d.theta1 = pairs ? p->theta_search : p->theta_title;
    d.n_max = pairs ? p->pairs_most : p->title_processes;
    return d;
}

/* A schedule of NULL: a rival, which has none. */
static void name_sides(Env *e, const TaskRecord *t, DbDuel *d, uint64_t a, const Built *as,
                       uint64_t b, const Built *bs)
{
    d->a_name = task_record_name(&e->kernel, t, a);
    d->b_name = task_record_name(&e->kernel, t, b);
    d->a_schedule = as->rival ? NULL : as->schedule;
    d->b_schedule = bs->rival ? NULL : bs->schedule;
    d->a_c_hash = as->c_hash, d->b_c_hash = bs->c_hash;
}

/* Its idx is set; the first n_there of its processes are recorded. */
static void put_rows(Env *e, const TaskRecord *t, DbDuel *d, const Terms *terms, DuelRows *rows,
                     int n_there)
{
    int n = rows->process.n;
    d->started_ns = n > 0 ? rows->process.at[0].started_ns : os_wall_ns();
    d->took_ns = 0;
    for (int i = 0; i < n; i++) {
        d->took_ns += rows->process.at[i].took_ns;
    }
    evidence_fill(e, &t->run->rules, terms, d, rows->process.at, n, rows->pair.at);
    db_grow_whole_duel(t->run->db, d, rows->process.at, n, n_there, rows->pair.at,
                       rows->n_pairs.at);
}

static void put_new(Env *e, TaskRecord *t, DbDuel *d, const Terms *terms, DuelRows *rows)
{
    d->idx = t->run->n_duels++;
    put_rows(e, t, d, terms, rows, 0);
}

/* ---- calibrations ------------------------------------------------------------------------- */

static void put_calibration(Env *e, void *arg)
{
    const Told *told = arg;
    TaskRecord *t = told->t;
    const Calibrated *c = told->what;
    Built base = incumbent_of(t, INDEX_DEFAULT);
    Terms terms = calibration_terms(&c->result, t->task->n_threads);
    terms.spread = 0; /* none is in force yet for what it follows from */
    DbDuel d = blank_duel(t, DUEL_CALIBRATE, &terms);
    DuelRows rows = {0};
    name_sides(e, t, &d, INDEX_DEFAULT, &base, INDEX_COPY, &base);
    for (int i = 0; i < c->n; i++) {
        rows_add(&e->kernel, &rows, &c->process[i]);
    }
    const ProcessResult *first = c->n ? &c->process[0].result : NULL;
    if (first && first->status == STATUS_OK) {
        db_note_rings(t->run->db, t->run->run, t->id, (int64_t)first->ring_bytes,
                      first->huge_pages);
    }
    put_new(e, t, &d, &terms, &rows);
    DbCalibration row = db_blank_calibration();
    row.run = d.run, row.task = t->id, row.idx = c->ordinal, row.duel = d.idx;
    row.margin_e4 = c->result.margin_e4, row.sigma_p = c->result.sigma_p;
    row.iqr = c->result.iqr_ln, row.flagged = c->result.flagged;
    row.metric = metric_name[c->result.metric], row.noisy = c->result.noisy;
    row.waited_ns = (int64_t)c->waited_ns;
    row.n_pairs_process = rules_pairs(&t->run->rules, DUEL_TITLE, c->result.wide);
    row.at_ns = os_wall_ns();
    row.n_trials = c->n_trials, row.elapsed_ns = (int64_t)c->elapsed_ns;
    row.budget_ns = c->budget_ns > 0 ? (int64_t)c->budget_ns : DB_NONE;
    db_add_calibration(t->run->db, &row);
}

/* ---- trials -------------------------------------------------------------------------------- */

static void put_knobs(const TaskRecord *t, int64_t trial, uint64_t index)
{
    Point p;
    if (!t->space) {
        return;
    }
    space_unrank(t->space, index, &p);
    for (int i = 0; i < t->space->n_knobs; i++) {
        db_add_trial_knob(t->run->db, &(DbTrialKnob){t->run->run, trial, i, p.at[i]});
    }
}

/* Where its time went; a process verifies, and all else that it does is to measure. */
static void fill_times(const Trial *x, DbTrial *row)
{
    row->started_ns =
        x->n_processes > 0 ? (int64_t)x->process[0].result.start_ns : os_wall_ns();
    row->build_ns = (int64_t)x->build_ns;
    row->decide_ns = (int64_t)x->decide_ns;
    row->elapsed_ns = (int64_t)x->elapsed_ns;
    row->verify_ns = row->measure_ns = 0;
    for (int i = 0; i < x->n_processes; i++) {
        const ProcessResult *p = &x->process[i].result;
        row->verify_ns += (int64_t)p->verify_ns;
        row->measure_ns += (int64_t)(p->took_ns - p->verify_ns);
    }
}

static DbTrial trial_row(const TaskRecord *t, const Trial *x)
{
    DbTrial row = db_blank_trial();
    row.run = t->run->run, row.task = t->id, row.idx = t->run->n_trials;
    row.rank = (int64_t)x->index;
    row.schedule = x->built.schedule ? x->built.schedule : "";
    row.c_hash = x->built.c_hash;
    row.status = status_name[x->status];
    row.outcome = outcome_name[x->outcome];
    row.why = x->status == STATUS_OK ? NULL : x->why;
    row.incumbent = trial_of(t, x->incumbent);
    row.batch = x->ordinal / t->run->rules.p.batch;
    row.strategy = t->run->strategy;
    fill_times(x, &row);
    return row;
}

static void put_trial(Env *e, void *arg)
{
    const Told *told = arg;
    TaskRecord *t = told->t;
    const Trial *x = told->what;
    Built incumbent = incumbent_of(t, x->incumbent);
    DbTrial row = trial_row(t, x);
    db_add_trial(t->run->db, &row);
    put_knobs(t, row.idx, x->index);
    for (int i = 0; i < x->n_processes; i++) {
        DbDuel d = blank_duel(t, x->process[i].stage, &x->terms);
        DuelRows rows = {0};
        d.trial = row.idx;
        name_sides(e, t, &d, x->incumbent, &incumbent, x->index, &x->built);
        rows_add(&e->kernel, &rows, &x->process[i]);
        put_new(e, t, &d, &x->terms, &rows);
    }
    t->run->n_trials++;
    if (x->outcome == OUTCOME_PROMOTED) {
        promote(e, t, &row);
    }
}

/* ---- matches ------------------------------------------------------------------------------- */

/* Its number in the run; a new one, where it has none. */
static int64_t match_number(Env *e, TaskRecord *t, int ordinal)
{
    if (ordinal == t->match.n) {
        *vec_push(&e->model, &t->match) = t->run->n_duels++;
    }
    check(ordinal < t->match.n);
    return t->match.at[ordinal];
}

/* more: the process that has just been measured; NULL: none. */
static void put_match(Env *e, TaskRecord *t, const Duel *x, const DuelProcess *more)
{
    DbDuel d = blank_duel(t, x->stage, &x->terms);
    DuelRows rows = {0};
    d.idx = match_number(e, t, x->ordinal);
    d.alpha = x->series.alpha;
    d.trial = trial_of(t, x->b);
    name_sides(e, t, &d, x->a, &x->built_a, x->b, &x->built_b);
    rows_read(t->run->db, &e->kernel, d.run, d.idx, &rows);
    int n_there = rows.process.n;
    if (more) {
        rows_add(&e->kernel, &rows, more);
    }
    put_rows(e, t, &d, &x->terms, &rows, n_there);
}

typedef struct Played {
    TaskRecord *t;
    const Duel *duel;
    const DuelProcess *process;
} Played;

static void put_played(Env *e, void *arg)
{
    const Played *p = arg;
    put_match(e, p->t, p->duel, p->process);
}

/* One whose processes are all there is as it should be. */
static void put_duel(Env *e, void *arg)
{
    const Told *told = arg;
    const Duel *x = told->what;
    if (x->ordinal >= told->t->match.n) {
        put_match(e, told->t, x, NULL);
    }
}

/* ---- winners and ties ------------------------------------------------------------------------ */

static int64_t match_of(const TaskRecord *t, int ordinal)
{
    return ordinal >= 0 && ordinal < t->match.n ? t->match.at[ordinal] : DB_NONE;
}

static DbWinner winner_row(const TaskRecord *t, const Winner *x, const DbDuel *d)
{
    return (DbWinner){.run = d->run,
                      .task = t->id,
                      .schedule = x->built.schedule,
                      .c_hash = x->built.c_hash,
                      .trial = trial_of(t, x->index),
                      .rank = x->index < INDEX_COPY ? (int64_t)x->index : DB_NONE,
                      .duel = d->idx,
                      .default_schedule = t->base,
                      .default_c_hash = x->default_c_hash,
                      .ratio = d->ratio,
                      .ratio_lo = d->ratio_lo,
                      .ratio_hi = d->ratio_hi,
                      .b_ns = d->b_ns,
                      .at_ns = os_wall_ns()};
}

/* Shown at these sizes and at no others. */
static void put_winner(Env *e, void *arg)
{
    const Told *told = arg;
    const TaskRecord *t = told->t;
    const Winner *x = told->what;
    DbDuel d;
    check(DB_ONE(t->run->db, DUEL, &e->kernel, &d, t->run->run, match_of(t, x->duel)));
    DbWinner row = winner_row(t, x, &d);
    db_put(t->run->db, DB_T_WINNER, &row);
    for (int i = 0; i < t->task->n_syms; i++) {
        int64_t n = t->task->sym[i];
        db_put(t->run->db, DB_T_WINNER_RANGE, &(DbWinnerRange){d.run, t->id, i, n, n});
    }
}

static void put_ties(Env *e, void *arg)
{
    const Told *told = arg;
    const TaskRecord *t = told->t;
    const TieSet *x = told->what;
    (void)e;
    for (int i = 0; i < x->n; i++) {
        DbTieSet row = {.run = t->run->run,
                        .task = t->id,
                        .idx = i,
                        .schedule = x->at[i].schedule,
                        .c_hash = x->at[i].c_hash,
                        .trial = trial_of(t, x->at[i].index),
                        .duel = match_of(t, x->at[i].duel),
                        .n_steps = schedule_steps(x->at[i].schedule),
                        .canonical = x->at[i].index == x->pick};
        db_put(t->run->db, DB_T_TIE_SET, &row);
    }
}

/* ---- the recorder ------------------------------------------------------------------------------ */

static void transact(TaskRecord *t, void (*put)(Env *e, void *arg), void *arg)
{
    db_transact(t->run->db, put, arg);
    env_reset_kernel(db_env(t->run->db));
}

static void on_calibration(void *ctx, const Calibrated *c)
{
    transact(ctx, put_calibration, &(Told){ctx, c});
}

static void on_trial(void *ctx, const Trial *t)
{
    transact(ctx, put_trial, &(Told){ctx, t});
}

static void on_process(void *ctx, const Duel *d, const DuelProcess *p)
{
    transact(ctx, put_played, &(Played){ctx, d, p});
}

static void on_duel(void *ctx, const Duel *d)
{
    transact(ctx, put_duel, &(Told){ctx, d});
}

static void on_winner(void *ctx, const Winner *w)
{
    if (w->confirmed) {
        transact(ctx, put_winner, &(Told){ctx, w});
    }
}

static void on_ties(void *ctx, const TieSet *t)
{
    transact(ctx, put_ties, &(Told){ctx, t});
}

Recorder task_recorder(TaskRecord *t)
{
    return (Recorder){t, on_calibration, on_trial, on_process, on_duel, on_winner, on_ties};
}

/* ---- taken up again ------------------------------------------------------------------------------ */

static int64_t next_number(Db *db, const char *query, int64_t run)
{
    DbSql *q = db_sql(db, query);
    db_sql_bind_int(q, 1, run);
    int64_t n = db_sql_next(q) ? db_sql_cell(q, 0).i : 0;
    db_sql_end(q);
    return n;
}

void run_record_resume(RunRecord *r)
{
    r->n_trials = next_number(
        r->db, "SELECT coalesce(max(idx) + 1, 0) FROM trial WHERE run = ?1", r->run);
    r->n_duels =
        next_number(r->db, "SELECT coalesce(max(idx) + 1, 0) FROM duel WHERE run = ?1", r->run);
}

void task_record_resume(TaskRecord *t)
{
    Env *e = db_env(t->run->db);
    TaskPast past;
    DbTrial row;
    task_past_init(e, &past, t->run->db, t->run->run, t->id);
    for (int i = 0; i < past.match.n; i++) {
        *vec_push(&e->model, &t->match) = past.match.at[i];
    }
    DbCursor at = DB_FIND(t->run->db, RUN_TASK_TRIALS, t->run->run, t->id);
    while (db_next(&at, &e->kernel, &row)) {
        if (!strcmp(row.outcome, outcome_name[OUTCOME_PROMOTED])) {
            promote(e, t, &row);
        }
    }
    env_reset_kernel(e);
}
