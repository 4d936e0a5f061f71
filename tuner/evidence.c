/* evidence.c - duels as rows: what follows from their raw pairs (duel_recount), in the columns that hold it.
 * Recording a duel and verifying one are this same function, so a stored claim is what its pairs prove. */
#include "tuner/evidence.h"

#include <string.h>

static int place_of(const char *const *name, int n, const char *word)
{
    int i = 0;
    while (i < n - 1 && strcmp(name[i], word)) {
        i++;
    }
    return i;
}

static uint64_t known(int64_t v)
{
    return v == DB_NONE ? 0 : (uint64_t)v;
}

static Pair pair_of(const DbPair *p)
{
    return (Pair){.a_ns = (uint64_t)p->a_ns,
                  .b_ns = (uint64_t)p->b_ns,
                  .a_cpu_ns = (uint64_t)p->a_cpu_ns,
                  .b_cpu_ns = (uint64_t)p->b_cpu_ns,
                  .cpu = (uint32_t)p->cpu,
                  .flags = (uint16_t)p->flags,
                  .b_first = p->b_first != 0};
}

/* As much of it as decisions look at. */
static DuelProcess process_of(Arena *m, DuelStage stage, const DbProcess *p, const DbPair *row)
{
    DuelProcess x = {.stage = stage, .seed = (uint64_t)p->seed};
    ProcessResult *r = &x.result;
    r->status = (Status)place_of(status_name, N_STATUSES, p->status);
    r->warm_a_ns = known(p->warm_a_ns);
    r->warm_b_ns = known(p->warm_b_ns);
    r->reps = p->reps;
    r->n_pairs = (int)p->n_pairs;
    r->pair = arena_array(m, Pair, r->n_pairs);
    for (int i = 0; i < r->n_pairs; i++) {
        r->pair[i] = pair_of(&row[i]);
    }
    return x;
}

void evidence_fill(Env *e, const Rules *r, const Terms *terms, DbDuel *d,
                   const DbProcess *process, int n, DbPair *const *pair)
{
    Arena *m = &e->kernel;
    DuelProcess *p = arena_array(m, DuelProcess, n);
    DuelStage stage = (DuelStage)place_of(stage_name, N_DUEL_STAGES, d->stage);
    Recount x;
    for (int i = 0; i < n; i++) {
        p[i] = process_of(m, stage, &process[i], pair[i]);
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
                 .metric = (Metric)place_of(metric_name, N_METRICS, d->metric),
                 .n_threads = 1};
    if (DB_ONE(db, TASK, &e->kernel, &task, d->task)) {
        t->n_threads = (int)task.n_threads;
    }
    DbCursor at = DB_FIND(db, CALIBRATIONS, d->run, d->task);
    while (db_next(&at, &e->kernel, &c)) { /* the newest before it holds */
        t->spread = c.duel != DB_NONE && c.duel < d->idx ? c.iqr : t->spread;
    }
}
