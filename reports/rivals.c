/* rivals.c - ours against OpenBLAS and hand-written kernels, shape by shape, by the same kind of
 * evidence as any other claim. */
#include <string.h>

#include "reports/reports.h"

#define PEOPLE COLUMN_PEOPLE
#define MACHINE COLUMN_MACHINE
#define NUMBER COLUMN_NUMBER

/* A row: a duel of one of our schedules with a kernel that is not ours. */
const Sheet sheet_rivals = {
    "rivals",
    {{"task", 0, "label of the task"},
     {"sizes", 0, "values of the kernel's symbols"},
     {"threads", NUMBER, "how many threads ran both"},
     {"regime", 0, "cold, hot"},
     {"rival", 0, "its name"},
     {"ours", 0, "which of ours"},
     {"ours takes", NUMBER | PEOPLE, "median of one call"},
     {"ours_ns", NUMBER | MACHINE, "median of one call of ours"},
     {"rival takes", NUMBER | PEOPLE, "median of one call"},
     {"rival_ns", NUMBER | MACHINE, "median of one call of the rival"},
     {"ours is", PEOPLE, "ours against the rival, with the interval"},
     {"ratio", NUMBER | MACHINE, "time of ours by the rival's: below 1 ours is faster"},
     {"ratio_lo", NUMBER | MACHINE, "lower end of its interval"},
     {"ratio_hi", NUMBER | MACHINE, "upper end of its interval"},
     {"real", 0, "is the difference real?"},
     {"evidence", PEOPLE, "processes won by ours, pairs, chance of so much by luck"},
     {"wins", NUMBER | MACHINE, "processes that ours won"},
     {"losses", NUMBER | MACHINE, "processes that the rival won"},
     {"processes", NUMBER | MACHINE, "that counted"},
     {"p_anytime", NUMBER | MACHINE,
      "chance of ours winning so often were there no difference"},
     {"run", 0, "its run"},
     {"duel", NUMBER, "its number within the run"}}};

static bool did_not_run(const DbDuel *d)
{
    return !strcmp(d->reason, "failed");
}

static void put_sides(Report *r, const DbDuel *d, bool ours_is_b)
{
    cell_add(r, "%s", ours_is_b ? d->a_name : d->b_name);
    cell_add(r, "%s", ours_is_b ? d->b_name : d->a_name);
    for (int i = 0; i < 2; i++) {
        cell_add_ns(r, ours_is_b ? d->b_ns : d->a_ns);
    }
    for (int i = 0; i < 2; i++) {
        cell_add_ns(r, ours_is_b ? d->a_ns : d->b_ns);
    }
}

static void put_rival(Report *r, const Recount *c)
{
    const DbDuel *d = &c->duel;
    bool ours_is_b = d->b_schedule != NULL;
    double ratio = ours_is_b ? d->ratio : 1 / d->ratio;
    double lo = ours_is_b ? d->ratio_lo : 1 / d->ratio_hi,
           hi = ours_is_b ? d->ratio_hi : 1 / d->ratio_lo;
    int64_t wins = ours_is_b ? c->wins : c->losses, losses = ours_is_b ? c->losses : c->wins;
    DbTask t;
    bool known = DB_ONE(r->db, TASK, r->a, &t, d->task);
    cell_add(r, "%s", report_label(r, d->run, d->task));
    cell_add(r, "%s", known ? t.sizes : "");
    cell_add_int(r, known ? t.n_threads : DB_NONE);
    cell_add(r, "%s", known ? t.regime : "");
    put_sides(r, d, ours_is_b);
    cell_add_interval(r, ratio, lo, hi);
    cell_add(r, "%s",
             did_not_run(d) ? "no: one of the two did not run to its end"
                            : verdict_words(verdict_from(d->verdict, ours_is_b), d->stage));
    cell_add(r, "%lld/%lld processes, %d pairs, p %.2g%s", (long long)wins, (long long)c->n,
             c->n_pairs, d->ratio < 1 ? c->p : c->p_other, c->agrees ? "" : " (NOT as stored)");
    cell_add_int(r, wins);
    cell_add_int(r, losses);
    cell_add_int(r, c->n);
    cell_add_number(r, ours_is_b ? c->p : c->p_other, "%.2g");
    cell_add_id(r, d->run);
    cell_add_int(r, d->idx);
}

void report_rivals(Report *r)
{
    int n = 0, n_ours = 0, n_theirs = 0, n_failed = 0;
    Recount c;
    report_sheet(r, &sheet_rivals);
    DbSql *q =
        QUERY(r,
              "SELECT d.run, d.idx FROM duel d JOIN task t ON t.id = d.task WHERE d.stage = "
              "'compare' AND (d.a_schedule IS NULL) <> (d.b_schedule IS NULL) AND ?1 IN "
              "(d.run, -9223372036854775807 - 1) AND ?2 IN (d.task, -9223372036854775807 - "
              "1) ORDER BY t.kernel, t.sizes, t.n_threads, t.id, d.started_ns, d.run, d.idx",
              r->run, r->task);
    while (db_sql_next(q)) {
        if (report_recount(r, db_sql_cell(q, 0).i, db_sql_cell(q, 1).i, &c)) {
            const char *verdict = verdict_from(c.duel.verdict, c.duel.b_schedule != NULL);
            put_rival(r, &c);
            n++;
            bool failed = did_not_run(&c.duel);
            n_ours += !failed && !strcmp(verdict, "FASTER");
            n_theirs += !failed && !strcmp(verdict, "SLOWER");
            n_failed += failed;
        }
    }
    if (n > 0) {
        report_say(r, "Of %d duel%s ours won %d, the rival %d, and %d show no difference.", n,
                   n == 1 ? "" : "s", n_ours, n_theirs, n - n_ours - n_theirs - n_failed);
        if (n_failed > 0) {
            report_say(r,
                       "%d came to no verdict: a side did not build, crashed or was wrong, as "
                       "`report evidence RUN DUEL` says.",
                       n_failed);
        }
    } else if (report_has_runs(r)) {
        report_say(r, "No duel with a rival is recorded: `tune --rivals` measures them.");
    }
}
