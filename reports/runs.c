/* runs.c - what ran: runs, how they ended and how their budgets were dealt out, calibrations, builds
 * and what their call sites missed. */
#include <math.h>
#include <string.h>

#include "reports/reports.h"

#define PEOPLE COLUMN_PEOPLE
#define MACHINE COLUMN_MACHINE
#define NUMBER COLUMN_NUMBER

/* ---- runs ---- */

/* A row: a command that recorded something. */
const Sheet sheet_runs = {
    "runs",
    {{"run", 0, "its id"},
     {"started", 0, "when, UTC"},
     {"took", NUMBER | PEOPLE, "from start to end"},
     {"took_ns", NUMBER | MACHINE, "from start to end; empty: it has no end"},
     {"ending", 0, "how it ended: finished, budget, exhausted, interrupted, failed ..."},
     {"tasks", NUMBER, "that it worked on"},
     {"trials", NUMBER, "candidates tried"},
     {"failed", NUMBER, "of them those that did not end well"},
     {"winners", NUMBER, "that it proved"},
     {"strategy", 0, "how candidates were chosen"},
     {"seed", 0, "that all choices follow from"},
     {"budget", PEOPLE, "that it was given"},
     {"budget_ns", NUMBER | MACHINE, "that it was given, in time"},
     {"budget_trials", NUMBER | MACHINE, "that it was given, in candidates"},
     {"version", 0, "of the program"},
     {"command", 0, "its words"},
     {"why", 0, "what there is to say about its end"}}};

static const char select_runs[] =
    "SELECT r.id, r.started_ns, r.ended_ns, r.ending, (SELECT count(*) FROM run_task rt WHERE "
    "rt.run = r.id), (SELECT count(*) FROM trial t WHERE t.run = r.id), (SELECT count(*) FROM "
    "trial t WHERE t.run = r.id AND t.status <> 'ok'), (SELECT count(*) FROM winner w WHERE "
    "w.run "
    "= r.id), r.strategy, printf('%u', r.seed), r.budget_ns, r.budget_trials, r.program || ' ' "
    "|| "
    "r.version, r.command, r.why FROM run r ORDER BY r.started_ns, r.id";

static void put_budget(Report *r, int64_t ns, int64_t trials)
{
    cell_add(r, "%s",
             ns != DB_NONE       ? ns_text(r->a, (double)ns)
             : trials != DB_NONE ? arena_printf(r->a, "%lld trials", (long long)trials)
                                 : "none");
    cell_add_int(r, ns);
    cell_add_int(r, trials);
}

/* A row: a task of a run whose budget was dealt out among several. */
const Sheet sheet_dealt = {
    "dealt",
    {{"run", 0, "its id"},
     {"task", 0, "label of the task"},
     {"slices", NUMBER, "times that it got some of the budget"},
     {"dealt", NUMBER | PEOPLE, "time that it was dealt; what it leaves is dealt again"},
     {"dealt_ns", NUMBER | MACHINE, "time that it was dealt; what it leaves is dealt again"},
     {"share", NUMBER, "percent of the model's time that is this task's, by the default"},
     {"headroom", NUMBER,
      "percent of that which could still go at its last slice, by the roofline"},
     {"chance", NUMBER, "percent: of a better candidate in the batch of its last slice"},
     {"trials", NUMBER, "candidates tried"}}};

static const char select_dealt[] =
    "SELECT s.run, s.label, count(*), total(s.budget_ns), s.share, s.headroom, s.chance, "
    "(SELECT "
    "count(*) FROM trial t WHERE t.run = s.run AND t.task = s.task), max(s.slice) FROM "
    "v_slices "
    "s JOIN run r ON r.id = s.run WHERE (SELECT count(*) FROM run_task rt WHERE rt.run = "
    "s.run) > "
    "1 GROUP BY s.run, s.task ORDER BY r.started_ns, s.run, s.label";

/* Bare columns are of the last slice: SQLite takes them from the row of the one max(). */
static void put_dealt(Report *r)
{
    report_sheet(r, &sheet_dealt);
    DbSql *q = QUERY_ALL(r, select_dealt);
    while (db_sql_next(q)) {
        cell_add(r, "%s", db_sql_cell(q, 0).text);
        cell_add_text(r, cell_text(r, q, 1));
        cell_add_int(r, cell_int(q, 2));
        cell_add_ns_both(r, cell_real(q, 3));
        for (int i = 4; i < 7; i++) {
            cell_add_number(r, 100 * cell_real(q, i), "%.1f");
        }
        cell_add_int(r, cell_int(q, 7));
    }
}

void report_runs(Report *r)
{
    report_sheet(r, &sheet_runs);
    DbSql *q = QUERY_ALL(r, select_runs);
    while (db_sql_next(q)) {
        int64_t started = cell_int(q, 1), ended = cell_int(q, 2);
        double took = ended == DB_NONE ? NAN : (double)(ended - started);
        cell_add(r, "%s", db_sql_cell(q, 0).text);
        cell_add_time(r, started);
        cell_add_ns_both(r, took);
        cell_add_text(r, ended == DB_NONE ? "runs, or was killed" : cell_text(r, q, 3));
        for (int i = 4; i < 8; i++) {
            cell_add_int(r, cell_int(q, i));
        }
        cell_add_text(r, cell_text(r, q, 8));
        cell_add(r, "%s", db_sql_cell(q, 9).text);
        put_budget(r, cell_int(q, 10), cell_int(q, 11));
        cell_add_text(r, cell_text(r, q, 12));
        cell_add_text(r, cell_text(r, q, 13));
        cell_add_text(r, cell_text(r, q, 14));
    }
    if (report_has_runs(r)) {
        put_dealt(r);
    }
}

/* ---- noise ---- */

/* A row: a calibration: the default against a copy of its own library. */
const Sheet sheet_noise = {
    "noise",
    {{"run", 0, "its run"},
     {"task", 0, "label of the task"},
     {"at", 0, "when, UTC"},
     {"median", PEOPLE, "of the two copies: anything but equal is placement and noise"},
     {"ratio", NUMBER | MACHINE, "median over processes: time of one copy by the other's"},
     {"spread", NUMBER, "standard deviation of processes' medians, of ln(b / a)"},
     {"iqr", NUMBER, "of ln(b / a) over all pairs, from quartile to quartile"},
     {"flagged", NUMBER, "part of the pairs that were disturbed"},
     {"margin", NUMBER, "that a win must be faster by, in percent"},
     {"metric", 0, "what decides: wall, cpu"},
     {"waited", NUMBER | PEOPLE, "for the machine to calm down"},
     {"waited_ns", NUMBER | MACHINE, "for the machine to calm down"},
     {"state", 0, "quiet, or noisy: gone on with in spite of the noise"}}};

static const char select_noise[] =
    "SELECT substr(c.run, 1, 8), rt.label, c.at_ns, d.ratio, c.sigma_p, c.iqr, c.flagged, "
    "c.margin_e4, c.metric, c.waited_ns, c.noisy, d.wins, d.n, c.run FROM calibration c JOIN "
    "run_task rt ON rt.run = c.run AND rt.task = c.task LEFT JOIN duel d ON d.run = c.run AND "
    "d.idx = c.duel WHERE ?1 IN (c.run, -9223372036854775807 - 1) AND ?2 IN (c.task, "
    "-9223372036854775807 - 1) ORDER BY c.at_ns, c.run, c.task, c.idx";

static void put_calibration(Report *r, DbSql *q)
{
    cell_add(r, "%s", cell_text(r, q, r->people ? 0 : 13));
    cell_add_text(r, cell_text(r, q, 1));
    cell_add_time(r, cell_int(q, 2));
    cell_add(r, "%s", ratio_text(r->a, cell_real(q, 3)));
    cell_add_number(r, cell_real(q, 3), "%.4f");
    cell_add_number(r, cell_real(q, 4), "%.4f");
    cell_add_number(r, cell_real(q, 5), "%.4f");
    cell_add_number(r, cell_real(q, 6), "%.2f");
    cell_add_number(r, cell_real(q, 7) / 100, "%.2f");
    cell_add(r, "%s", cell_text(r, q, 8));
    cell_add_ns_both(r, cell_real(q, 9));
    cell_add(r, "%s", cell_int(q, 10) ? "noisy" : "quiet");
}

void report_noise(Report *r)
{
    int n = 0, n_noisy = 0;
    report_sheet(r, &sheet_noise);
    DbSql *q = QUERY(r, select_noise, r->run, r->task);
    while (db_sql_next(q)) {
        put_calibration(r, q);
        n++;
        n_noisy += cell_int(q, 10) != 0;
    }
    if (n > 0) {
        report_say(r,
                   "%d of %d calibrations found the machine noisy. Nothing differs in them but "
                   "where the loader put two copies of one library.",
                   n_noisy, n);
    } else if (report_has_runs(r)) {
        report_say(r, "No calibration is recorded here.");
    }
}

/* ---- misses ---- */

/* A row: a call site that was not built with a winner. */
const Sheet sheet_misses = {"misses",
                            {{"build", 0, "its build"},
                             {"site", 0, "where in the model"},
                             {"kernel", 0, "hash of its text (for people its beginning)"},
                             {"sizes", 0, "that it is called with"},
                             {"threads", NUMBER, "of the build"},
                             {"regime", 0, "hot, cold"},
                             {"outcome", 0, "anything but hit: kept, miss, stale, refused ..."},
                             {"field", 0, "of a miss: the key's first field that differs"},
                             {"why", 0, "in a sentence"}}};

void report_misses(Report *r)
{
    report_build_rows(r);
    report_sheet(r, &sheet_misses);
    DbSql *q =
        QUERY_ALL(r, "SELECT build, site, kernel_hash, sizes, n_threads, regime, outcome, "
                     "field, why FROM v_misses ORDER BY started_ns, build, site_idx");
    while (db_sql_next(q)) {
        cell_add(r, "%s", db_sql_cell(q, 0).text);
        cell_add(r, "%s", db_sql_cell(q, 1).text);
        cell_add(r, "%.*s", r->people ? 8 : 32, db_sql_cell(q, 2).text);
        cell_add(r, "%s", db_sql_cell(q, 3).text);
        cell_add_int(r, cell_int(q, 4));
        for (int i = 5; i < 9; i++) {
            cell_add(r, "%s", db_sql_cell(q, i).text);
        }
    }
}
