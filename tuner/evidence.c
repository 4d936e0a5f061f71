/* evidence.c - duels as rows: what follows from their raw pairs (duel_recount), in the columns that hold it.
 * Recording a duel and verifying one are this same function, so a stored claim is what its pairs prove. */
#include "tuner/evidence.h"

#include <math.h>
#include <string.h>

void evidence_fill(Env *e, const Rules *r, const Terms *terms, DbDuel *d,
                   const DbProcess *process, int n, DbPair *const *pair)
{
    Arena *m = &e->kernel;
    DuelProcess *p = arena_array(m, DuelProcess, n);
    DuelStage stage = (DuelStage)word_place(stage_name, N_DUEL_STAGES, d->stage);
    Recount x;
    for (int i = 0; i < n; i++) {
        p[i] = rows_process(m, stage, &process[i], pair[i]);
    }
    duel_recount(m, r, stage, terms, d->alpha, p, n, &x);
    d->n = x.n, d->wins = x.wins, d->losses = x.losses;
    d->ties = x.ties, d->discarded = x.discarded;
    d->ln_e_max = x.ln_e_most, d->p_anytime = x.p;
    d->ratio = x.ratio.median, d->ratio_lo = x.ratio.lo, d->ratio_hi = x.ratio.hi;
    d->a_ns = x.a_ns, d->b_ns = x.b_ns, d->a_min_ns = x.a_min_ns, d->b_min_ns = x.b_min_ns;
    d->noisy = x.noisy;
    d->verdict = verdict_name[x.verdict];
    d->reason = outcome_name[x.outcome];
}

static Protocol protocol_of(Db *db, Env *e, int64_t run)
{
    Protocol p = protocol_default();
    DbRunConstant c;
    Err err;
    DbCursor at = DB_FIND(db, RUN_CONSTANTS, run);
    while (db_next(&at, &e->kernel, &c)) { /* one that is not known is not what decided */
        protocol_set(&p, c.name, c.value, &err);
    }
    return p;
}

void evidence_rules(Db *db, Env *e, const DbDuel *d, Rules *r, Terms *t)
{
    Protocol p = protocol_of(db, e, d->run);
    DbTask task;
    DbCalibration c;
    rules_init(r, &p);
    *t = (Terms){.margin_e4 = (int)d->margin_e4,
                 .metric = (Metric)word_place(metric_name, N_METRICS, d->metric),
                 .n_threads = 1};
    if (DB_ONE(db, TASK, &e->kernel, &task, d->task)) {
        t->n_threads = (int)task.n_threads;
    }
    DbCursor at = DB_FIND(db, CALIBRATIONS, d->run, d->task);
    while (db_next(&at, &e->kernel, &c)) { /* the newest before it holds */
        t->spread = c.duel != DB_NONE && c.duel < d->idx ? c.iqr : t->spread;
    }
}

/* ---- what else must be true -------------------------------------------------------------- */

static bool orders_drawn(const DbProcess *process, int n, DbPair *const *pair, Err *err)
{
    for (int i = 0; i < n; i++) {
        for (int64_t k = 0; k < process[i].n_pairs; k++) {
            if (pair[i][k].b_first != pair_b_first((uint64_t)process[i].seed, (int)k)) {
                return err_set(
                    err, E_INPUT,
                    "pair %lld of process %d has an order that its seed did not draw",
                    (long long)k, i);
            }
        }
    }
    return true;
}

void evidence_calibration(Db *db, Env *e, const DbDuel *d, DbCalibration *c)
{
    Rules r;
    Terms t;
    Calibration x;
    DuelRows rows = {0};
    Arena *m = &e->kernel;
    rows_read(db, m, d->run, d->idx, &rows);
    DuelProcess *p = arena_array(m, DuelProcess, rows.process.n);
    for (int i = 0; i < rows.process.n; i++) {
        p[i] = rows_process(m, DUEL_CALIBRATE, &rows.process.at[i], rows.pair.at[i]);
    }
    evidence_rules(db, e, d, &r, &t);
    calibrate(&r, p, rows.process.n, t.n_threads, &x);
    c->margin_e4 = x.margin_e4;
    c->sigma_p = x.sigma_p, c->iqr = x.iqr_ln, c->flagged = x.flagged;
    c->metric = metric_name[x.metric];
    c->noisy = x.noisy;
    c->n_pairs_process = rules_pairs(&r, DUEL_TITLE, x.wide);
}

static bool same(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static bool calibration_follows(const DbCalibration *c, const DbCalibration *x)
{
    return c->margin_e4 == x->margin_e4 && same(c->sigma_p, x->sigma_p) &&
           same(c->iqr, x->iqr) && same(c->flagged, x->flagged) &&
           !strcmp(c->metric, x->metric) && c->noisy == x->noisy &&
           c->n_pairs_process == x->n_pairs_process;
}

static bool calibrations_hold(Db *db, Env *e, const DbDuel *d, Err *err)
{
    DbCalibration c;
    bool hold = true;
    DbCursor at = DB_FIND(db, CALIBRATIONS, d->run, d->task);
    while (db_next(&at, &e->kernel, &c)) {
        DbCalibration again = c;
        if (c.duel == d->idx) {
            evidence_calibration(db, e, d, &again);
        }
        hold = hold && calibration_follows(&c, &again);
    }
    return hold ||
           err_set(err, E_INPUT, "the calibration that stands on it says other than its pairs");
}

bool evidence_holds(Db *db, Env *e, const DbDuel *d, const DbProcess *process, int n,
                    DbPair *const *pair, Err *err)
{
    return orders_drawn(process, n, pair, err) &&
           (strcmp(d->stage, stage_name[DUEL_CALIBRATE]) != 0 ||
            calibrations_hold(db, e, d, err));
}
