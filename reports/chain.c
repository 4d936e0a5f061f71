/* chain.c - a candidate was raced against the incumbent of its moment, whose own time is known by the
 * incumbent before it, and so on back to the default: along that chain every candidate gets an
 * estimate of its time by the default's. Ratios of replicates come first: that of the search is
 * taken where it looked best, and so looks too good. */
#include <math.h>
#include <string.h>

#include "reports/reports.h"

static const char select_ratios[] =
    "SELECT tr.idx, s.ratio, rp.ratio FROM trial tr "
    "LEFT JOIN duel s ON s.run = tr.run AND s.trial = tr.idx AND s.stage = 'search' "
    "LEFT JOIN duel rp ON rp.run = tr.run AND rp.trial = tr.idx AND rp.stage = 'replicate' "
    "WHERE tr.run = ?1 AND tr.task = ?2 ORDER BY tr.idx";

/* Trials are in the order of their numbers. */
static const Candidate *numbered(const Chain *c, int64_t idx)
{
    int lo = 0, hi = c->n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (c->at[mid].trial.idx < idx) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo < c->n && c->at[lo].trial.idx == idx ? &c->at[lo] : NULL;
}

static void link_up(Chain *c)
{
    for (int i = 0; i < c->n; i++) {
        Candidate *k = &c->at[i];
        const Candidate *before =
            k->trial.incumbent == DB_NONE ? NULL : numbered(c, k->trial.incumbent);
        double base = k->trial.incumbent == DB_NONE ? 1 : before ? before->to_default : NAN;
        k->to_default = k->ratio * base;
        k->promoted = !strcmp(k->trial.outcome, "promoted");
    }
}

Chain chain_of(Report *r, int64_t run, int64_t task)
{
    Vec(Candidate) v = {0};
    DbTrial t;
    DbSql *q = QUERY(r, select_ratios, run, task);
    while (db_sql_next(q)) {
        double search = cell_real(q, 1), again = cell_real(q, 2);
        if (DB_ONE(r->db, TRIAL, r->a, &t, run, db_sql_cell(q, 0).i)) {
            *vec_push(r->a, &v) =
                (Candidate){.trial = t, .ratio = isfinite(again) ? again : search};
        }
    }
    Chain c = {v.at, v.n};
    link_up(&c);
    return c;
}
