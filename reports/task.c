/* task.c - one task in full: its kernel, what each run made of it, the claim and its evidence, the
 * schedules that are as good. */
#include <math.h>
#include <string.h>

#include "reports/reports.h"

#define PEOPLE COLUMN_PEOPLE
#define MACHINE COLUMN_MACHINE
#define NUMBER COLUMN_NUMBER

/* A row: a run that worked on the task. */
const Sheet sheet_task_runs = {
    "task_runs",
    {{"run", 0, "its id"},
     {"started", 0, "when, UTC"},
     {"machine", 0, "brand of the CPU"},
     {"strategy", 0, "how candidates were chosen"},
     {"trials", NUMBER, "candidates tried"},
     {"failed", NUMBER, "of them those that did not end well"},
     {"space", NUMBER, "candidates that are legal"},
     {"answer", 0, "winner, or the default was kept; no search: it only compared"},
     {"result", PEOPLE, "winner against default, with its interval"},
     {"ratio", NUMBER | MACHINE, "time of the winner by that of the default"},
     {"ratio_lo", NUMBER | MACHINE, "lower end of its interval"},
     {"ratio_hi", NUMBER | MACHINE, "upper end of its interval"},
     {"duel", NUMBER, "the winner's title match"},
     {"ending", 0, "how the search ended"},
     {"schedule", 0, "the run's answer"},
     {"why", 0, "what there is to say about its end"}}};

/* A row: a schedule that an equivalence match found as good as the champion. */
const Sheet sheet_ties = {"ties",
                          {{"run", 0, "its run"},
                           {"place", NUMBER, "canonical order: simplest first"},
                           {"steps", NUMBER, "of the schedule"},
                           {"pick", 0, "yes: this one stands for all"},
                           {"duel", NUMBER, "the equivalence match; empty: the champion"},
                           {"c_hash", 0, "of its C (for people its beginning)"},
                           {"schedule", 0, "its steps"}}};

static const char select_runs[] =
    "SELECT rt.run, r.started_ns, m.brand, r.strategy, (SELECT count(*) FROM trial x WHERE "
    "x.run "
    "= rt.run AND x.task = rt.task), (SELECT count(*) FROM trial x WHERE x.run = rt.run AND "
    "x.task = rt.task AND x.status <> 'ok'), s.n_legal, w.ratio, w.ratio_lo, w.ratio_hi, "
    "w.duel, "
    "rt.ending, coalesce(w.schedule, rt.default_schedule), rt.why, w.run IS NOT NULL FROM "
    "run_task "
    "rt JOIN run r ON r.id = rt.run JOIN machine m ON m.id = r.machine LEFT JOIN space s ON "
    "s.id = "
    "rt.space LEFT JOIN winner w ON w.run = rt.run AND w.task = rt.task WHERE rt.task = ?1 "
    "ORDER "
    "BY r.started_ns, rt.run";

static void put_run(Report *r, DbSql *q)
{
    bool won = cell_int(q, 14), searched = cell_int(q, 6) != DB_NONE;
    const char *ending = cell_text(r, q, 11);
    cell_add(r, "%s", db_sql_cell(q, 0).text);
    cell_add_time(r, cell_int(q, 1));
    cell_add_text(r, cell_text(r, q, 2));
    cell_add_text(r, cell_text(r, q, 3));
    cell_add_int(r, cell_int(q, 4));
    cell_add_int(r, cell_int(q, 5));
    cell_add_int(r, cell_int(q, 6));
    cell_add(r, "%s",
             won         ? "winner"
             : !searched ? "no search"
             : ending    ? "default kept"
                         : "open");
    cell_add_interval(r, cell_real(q, 7), cell_real(q, 8), cell_real(q, 9));
    cell_add_int(r, cell_int(q, 10));
    cell_add(r, "%s", ending ? ending : "runs, or was killed");
    cell_add(r, "%s", schedule_text(r->a, cell_text(r, q, 12)));
    cell_add_text(r, cell_text(r, q, 13));
}

/* A row: how so many of a run's candidates ended. */
const Sheet sheet_outcomes = {"outcomes",
                              {{"run", 0, "its id"},
                               {"status", 0, "how they ended"},
                               {"outcome", 0, "what the protocol did with them"},
                               {"count", NUMBER, "how many"}}};

static void put_outcomes(Report *r, int64_t task)
{
    report_sheet(r, &sheet_outcomes);
    DbSql *q =
        QUERY(r,
              "SELECT x.run, x.status, x.outcome, count(*) FROM trial x JOIN run r ON r.id = "
              "x.run WHERE x.task = ?1 GROUP BY x.run, x.status, x.outcome ORDER BY "
              "r.started_ns, x.run, 4 DESC, 2, 3",
              task);
    while (db_sql_next(q)) {
        for (int i = 0; i < 3; i++) {
            cell_add(r, "%s", db_sql_cell(q, i).text);
        }
        cell_add_int(r, cell_int(q, 3));
    }
}

/* Was any calibration behind the claim beyond the noise gate? */
static const char *noise_words(Report *r, const DbWinner *w)
{
    bool noisy = false;
    DbCalibration c;
    DbCursor at = DB_FIND(r->db, CALIBRATIONS, w->run, w->task);
    while (db_next(&at, r->a, &c)) {
        noisy |= c.noisy == 1;
    }
    return noisy ? "; the machine was NOISY" : "";
}

/* The claim in one line, as the protocol words it. MEASUREMENT 4 */
static void say_claim(Report *r, const DbWinner *w, bool plot)
{
    Recount c;
    if (!report_recount(r, w->run, w->duel, &c)) {
        return;
    }
    const char *interval =
        isfinite(w->ratio_lo) && isfinite(w->ratio_hi)
            ? arena_printf(r->a, "interval %.4g to %.4g", w->ratio_lo, w->ratio_hi)
            : "no interval";
    const char *verdict =
        c.agrees ? c.duel.verdict : "NOT PROVED: its pairs say something else";
    const char *least = isfinite(c.duel.b_min_ns) ? arena_printf(r->a, "; least seen %s and %s",
                                                                 ns_text(r->a, c.duel.a_min_ns),
                                                                 ns_text(r->a, c.duel.b_min_ns))
                                                  : "";
    report_say(r,
               "Run %lld: %s than the default (ratio %.4g, %s, %lld/%lld "
               "processes, %d pairs, p_anytime %.2g, %s; default %s, winner %s a call%s; by %s "
               "time%s).",
               (long long)w->run, ratio_text(r->a, w->ratio), w->ratio, interval,
               (long long)c.wins, (long long)c.n, c.n_pairs, c.p, verdict,
               ns_text(r->a, c.duel.a_ns), ns_text(r->a, c.duel.b_ns), least, c.duel.metric,
               noise_words(r, w));
    report_say(r, "  %s", schedule_text(r->a, w->schedule));
    if (plot) {
        evidence_plot(r, &c, arena_printf(r->a, "Title match of run %lld", (long long)w->run));
    }
}

enum { PLOTS = 4 };

/* The newest first, and only of those a picture. */
static void say_claims(Report *r, int64_t task)
{
    int n = 0;
    DbSql *q =
        QUERY(r, "SELECT run FROM winner WHERE task = ?1 ORDER BY at_ns DESC, run DESC", task);
    while (db_sql_next(q)) {
        DbWinner w;
        if (DB_ONE(r->db, WINNER, r->a, &w, db_sql_cell(q, 0).i, task)) {
            say_claim(r, &w, n++ < PLOTS);
        }
    }
}

static void say_kernel(Report *r, int64_t task)
{
    DbTask t;
    DbKernel k;
    if (DB_ONE(r->db, TASK, r->a, &t, task) && DB_ONE(r->db, KERNEL, r->a, &k, t.kernel)) {
        size_t len = strlen(k.text);
        while (len && k.text[len - 1] == '\n') {
            len--;
        }
        report_say(r, "%.*s", (int)len, k.text);
    }
}

static void put_ties(Report *r, int64_t task)
{
    DbSql *q = QUERY(r,
                     "SELECT run, idx, n_steps, canonical, duel, c_hash, schedule FROM tie_set "
                     "WHERE task = ?1 ORDER BY run, idx",
                     task);
    report_sheet(r, &sheet_ties);
    while (db_sql_next(q)) {
        cell_add(r, "%s", db_sql_cell(q, 0).text);
        cell_add_int(r, cell_int(q, 1));
        cell_add_int(r, cell_int(q, 2));
        cell_add(r, "%s", cell_int(q, 3) ? "yes" : "no");
        cell_add_int(r, cell_int(q, 4));
        cell_add(r, "%.*s", r->people ? 8 : 32, db_sql_cell(q, 5).text);
        cell_add(r, "%s", schedule_text(r->a, cell_text(r, q, 6)));
    }
}

void report_task(Report *r)
{
    int64_t task = report_find_task(r, r->word[0]);
    report_heading(r, "%s (task %lld)", report_task_name(r, task), (long long)task);
    say_kernel(r, task);
    report_sheet(r, &sheet_task_runs);
    DbSql *q = QUERY(r, select_runs, task);
    while (db_sql_next(q)) {
        put_run(r, q);
    }
    put_outcomes(r, task);
    say_claims(r, task);
    put_ties(r, task);
}
