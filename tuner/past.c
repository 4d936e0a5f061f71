/* past.c - what a run recorded of one task, as the past of the session that goes on with it. Only
 * what was measured is taken from the rows, with the moments at which it was recorded; every
 * decision is made again by the session and must come out as it was. Needs a record of schema
 * version 2. */
#include <string.h>

#include "tuner/evidence.h"

static bool is_match(const char *stage)
{
    static const DuelStage match[] = {DUEL_TITLE, DUEL_EQUIVALENCE, DUEL_COMPARE};
    for (size_t i = 0; i < countof(match); i++) {
        if (!strcmp(stage, stage_name[match[i]])) {
            return true;
        }
    }
    return false;
}

void task_past_init(Env *e, TaskPast *p, Db *db, int64_t run, int64_t task)
{
    DbTrial t;
    DbDuel d;
    *p = (TaskPast){.db = db, .run = run, .task = task};
    DbCursor at = DB_FIND(db, RUN_TASK_TRIALS, run, task);
    while (db_next(&at, &e->kernel, &t)) {
        *vec_push(&e->model, &p->trial) = t.idx;
    }
    at = DB_FIND(db, RUN_TASK_DUELS, run, task);
    while (db_next(&at, &e->kernel, &d)) {
        if (is_match(d.stage)) {
            *vec_push(&e->model, &p->match) = d.idx;
        }
    }
    env_reset_kernel(e);
}

/* A moment that has to be there. */
static uint64_t moment(const TaskPast *p, int64_t elapsed_ns)
{
    if (elapsed_ns == DB_NONE) {
        fail(db_env(p->db), E_INPUT,
             "Run %lld was recorded by a version that did not keep what resuming needs.",
             (long long)p->run);
    }
    return (uint64_t)elapsed_ns;
}

/* ---- calibrations ---------------------------------------------------------------------------- */

static bool calibration(void *ctx, Arena *m, int ordinal, Calibrated *out)
{
    const TaskPast *p = ctx;
    DbCalibration row;
    DuelRows rows = {0};
    if (!DB_ONE(p->db, CALIBRATION, m, &row, p->run, p->task, ordinal)) {
        return false;
    }
    rows_read(p->db, m, p->run, row.duel, &rows);
    DuelProcess *process = arena_array(m, DuelProcess, rows.process.n);
    for (int i = 0; i < rows.process.n; i++) {
        process[i] = rows_process(m, DUEL_CALIBRATE, &rows.process.at[i], rows.pair.at[i]);
    }
    *out = (Calibrated){.ordinal = ordinal,
                        .n_trials = (int)moment(p, row.n_trials),
                        .n = rows.process.n,
                        .process = process,
                        .elapsed_ns = moment(p, row.elapsed_ns),
                        .budget_ns = row.budget_ns == DB_NONE ? 0 : (uint64_t)row.budget_ns};
    return true;
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* A candidate's number, by that of its trial. */
static uint64_t index_of(const TaskPast *p, Arena *m, int64_t trial)
{
    DbTrial row;
    bool found = trial != DB_NONE && DB_ONE(p->db, TRIAL, m, &row, p->run, trial);
    return found ? (uint64_t)row.rank : INDEX_DEFAULT;
}

static void read_processes(const TaskPast *p, Arena *m, int64_t trial, Trial *out)
{
    DbDuel d;
    DbCursor at = DB_FIND(p->db, TRIAL_DUELS, p->run, trial);
    while (db_next(&at, m, &d)) {
        DuelStage stage = (DuelStage)word_place(stage_name, N_DUEL_STAGES, d.stage);
        DuelRows rows = {0};
        if (is_match(d.stage) || out->n_processes == (int)countof(out->process)) {
            continue;
        }
        rows_read(p->db, m, p->run, d.idx, &rows);
        if (rows.process.n > 0) {
            out->process[out->n_processes++] =
                rows_process(m, stage, &rows.process.at[0], rows.pair.at[0]);
        }
    }
}

static bool trial(void *ctx, Arena *m, int ordinal, Trial *out)
{
    const TaskPast *p = ctx;
    DbTrial row;
    if (ordinal >= p->trial.n || !DB_ONE(p->db, TRIAL, m, &row, p->run, p->trial.at[ordinal])) {
        return false;
    }
    *out = (Trial){.ordinal = ordinal,
                   .index = (uint64_t)row.rank,
                   .incumbent = index_of(p, m, row.incumbent),
                   .built = {.schedule = row.schedule, .c_hash = row.c_hash},
                   .status = (Status)word_place(status_name, N_STATUSES, row.status),
                   .why = row.why,
                   .outcome = (Outcome)word_place(outcome_name, N_OUTCOMES, row.outcome),
                   .build_ns = row.build_ns == DB_NONE ? 0 : (uint64_t)row.build_ns,
                   .elapsed_ns = moment(p, row.elapsed_ns)};
    out->same_code = out->outcome == OUTCOME_SAME;
    read_processes(p, m, row.idx, out);
    return true;
}

/* ---- matches --------------------------------------------------------------------------------- */

static bool process(void *ctx, Arena *m, int duel, int ordinal, DuelProcess *out)
{
    const TaskPast *p = ctx;
    DuelRows rows = {0};
    DbDuel d;
    if (duel >= p->match.n || !DB_ONE(p->db, DUEL, m, &d, p->run, p->match.at[duel])) {
        return false;
    }
    rows_read(p->db, m, p->run, d.idx, &rows);
    if (ordinal >= rows.process.n) {
        return false;
    }
    DuelStage stage = (DuelStage)word_place(stage_name, N_DUEL_STAGES, d.stage);
    *out = rows_process(m, stage, &rows.process.at[ordinal], rows.pair.at[ordinal]);
    moment(p, rows.process.at[ordinal].elapsed_ns);
    return true;
}

Past task_past(TaskPast *p)
{
    return (Past){.ctx = p, .calibration = calibration, .trial = trial, .process = process};
}

/* ---- its clock ------------------------------------------------------------------------------- */

uint64_t task_past_elapsed_ns(TaskPast *p)
{
    DbSql *q =
        db_sql(p->db, "SELECT max(elapsed_ns) FROM (SELECT elapsed_ns FROM trial WHERE run "
                      "= ?1 AND task = ?2 UNION ALL SELECT elapsed_ns FROM calibration "
                      "WHERE run = ?1 AND task = ?2 UNION ALL SELECT p.elapsed_ns FROM "
                      "process p JOIN duel d ON d.run = p.run AND d.idx = p.duel WHERE "
                      "d.run = ?1 AND d.task = ?2)");
    db_sql_bind_int(q, 1, p->run);
    db_sql_bind_int(q, 2, p->task);
    bool any = db_sql_next(q);
    uint64_t elapsed_ns = any ? (uint64_t)db_sql_cell(q, 0).i : 0;
    if (any) {
        db_sql_end(q);
    }
    return elapsed_ns;
}
