/* races.c - what whole models take: two builds that ran in turns (`nanocompile bench --lib A --vs B`), counted
 * again from their rounds; and what winners save in one build, program by program, by the title
 * matches of the winners it took. */
#include <math.h>

#include "reports/reports.h"
#include "tuner/stat.h"

#define NUMBER COLUMN_NUMBER

/* A row: one kind of work, by two builds in turns. */
const Sheet sheet_build_race = {
    "build_race",
    {{"work", 0, "a prompt of so many tokens, or one token behind so many"},
     {"a time", NUMBER | COLUMN_PEOPLE, "median of A's rounds"},
     {"a ns", NUMBER | COLUMN_MACHINE, "the same in ns"},
     {"b time", NUMBER | COLUMN_PEOPLE, "median of B's rounds"},
     {"b ns", NUMBER | COLUMN_MACHINE, "the same in ns"},
     {"a times as fast", NUMBER, "as B, median over blocks of rounds"},
     {"at least", NUMBER, "lower end of its interval at 95%"},
     {"at most", NUMBER, "upper end"},
     {"rounds", NUMBER, "in which both ran once"},
     {"a won", NUMBER, "of them"},
     {"p", NUMBER, "sign test over the rounds, two-sided"}}};

/* A row: a program of a build, as far as winners run in it. */
const Sheet sheet_build_gain = {
    "build_gain",
    {{"build", 0, "its id"},
     {"program", 0, "decode, prefill (of several: prefill_16 ..), score"},
     {"calls", NUMBER, "of kernels in it"},
     {"tuned", NUMBER, "of them with a winner"},
     {"by default", NUMBER | COLUMN_PEOPLE, "that these take by the default schedules"},
     {"default ns", NUMBER | COLUMN_MACHINE, "the same in ns"},
     {"by winners", NUMBER | COLUMN_PEOPLE, "that they take as built"},
     {"winners ns", NUMBER | COLUMN_MACHINE, "the same in ns"},
     {"times as fast", NUMBER, "these calls together"},
     {"evidence", 0, "`report evidence RUN DUEL` of each title match behind it"}}};

/* ---- two builds in turns --------------------------------------------------------------------- */

/* ?1: the experiment; its latest cells. */
/* clang-format off */
#define CELL(column, heading) "max(CASE x.heading WHEN '" heading "' THEN x." column " END), "
static const char select_race[] =
    "SELECT x.line, " CELL("value", "a") CELL("value", "b")
    CELL("value", "times as fast") CELL("lo", "times as fast") CELL("hi", "times as fast")
    CELL("value", "threads of a") CELL("value", "threads of b")
    "count(y.value), coalesce(sum(x.value < y.value), 0), coalesce(sum(x.value > y.value), 0) "
    "FROM experiment_cell x LEFT JOIN experiment_cell y ON y.experiment = x.experiment AND "
    "y.line = x.line AND y.at_ns = x.at_ns AND y.machine = x.machine AND "
    "x.heading LIKE 'a %' AND y.heading = 'b' || substr(x.heading, 2) "
    "WHERE x.experiment = ?1 AND x.at_ns = (SELECT max(at_ns) FROM experiment_cell "
    "WHERE experiment = ?1) GROUP BY x.line ORDER BY length(x.line), x.line";
/* clang-format on */

static void put_work(Report *r, const DbSql *q)
{
    int64_t rounds = cell_int(q, 8), won = cell_int(q, 9), lost = cell_int(q, 10);
    cell_add(r, "%s", cell_text(r, q, 0));
    cell_add_ns_both(r, cell_real(q, 1));
    cell_add_ns_both(r, cell_real(q, 2));
    for (int i = 3; i < 6; i++) {
        cell_add_number(r, cell_real(q, i), "%.3f");
    }
    cell_add_int(r, rounds);
    cell_add_int(r, won);
    cell_add_number(r, rounds > 0 ? stat_sign_two(won, lost) : NAN, "%.2g");
}

/* NaN: nobody noted how many. */
static const char *threads_words(Report *r, double n)
{
    return isnan(n) ? "" : arena_printf(r->a, " on %.0f thread%s", n, n == 1 ? "" : "s");
}

bool report_race(Report *r, int64_t a, int64_t b)
{
    bool any = false;
    DbSql *q = QUERY_ALL(r, select_race);
    db_sql_bind_text(
        q, 1, arena_printf(r->a, "race of builds %lld and %lld", (long long)a, (long long)b));
    while (db_sql_next(q)) {
        if (!any) {
            report_say(
                r,
                "In turns in one process, A build %lld%s and B build %lld%s; the rounds "
                "are rows of experiment_cell. Where memory lies was drawn once for all of "
                "them, which alone makes some percent.",
                (long long)a, threads_words(r, cell_real(q, 6)), (long long)b,
                threads_words(r, cell_real(q, 7)));
            report_sheet(r, &sheet_build_race);
        }
        any = true;
        put_work(r, q);
    }
    return any;
}

static void put_races(Report *r)
{
    Vec(const char *) name = {0};
    DbSql *q =
        QUERY_ALL(r, "SELECT experiment FROM experiment_cell WHERE experiment LIKE 'race of "
                     "builds %' GROUP BY experiment ORDER BY max(at_ns)");
    while (db_sql_next(q)) {
        *vec_push(r->a, &name) = cell_text(r, q, 0);
    }
    for (int i = 0; i < name.n; i++) {
        long long a, b;
        if (sscanf(name.at[i], "race of builds %lld and %lld", &a, &b) == 2) {
            report_race(r, a, b);
        }
    }
}

/* ---- what winners save ----------------------------------------------------------------------- */

/* A winner's ratio is its time by the default's. */
static const char select_gain[] =
    "SELECT CAST(s.build AS TEXT), substr(s.site, 1, instr(s.site, ' ') - 1) AS program, "
    "count(*), count(w.run), sum(s.expected_ns / w.ratio), "
    "sum(CASE WHEN w.run IS NOT NULL THEN s.expected_ns END), "
    "group_concat(DISTINCT w.run || ' ' || w.duel) FROM build_site s "
    "LEFT JOIN winner w ON w.run = s.winner_run AND w.task = s.winner_task "
    "GROUP BY s.build, program HAVING count(w.run) > 0 ORDER BY s.build, min(s.idx)";

static void put_gain(Report *r, const DbSql *q)
{
    double plain = cell_real(q, 4), tuned = cell_real(q, 5);
    cell_add(r, "%s", cell_text(r, q, 0));
    cell_add(r, "%s", cell_text(r, q, 1));
    cell_add_int(r, cell_int(q, 2));
    cell_add_int(r, cell_int(q, 3));
    cell_add_ns_both(r, plain);
    cell_add_ns_both(r, tuned);
    cell_add_number(r, plain / tuned, "%.3f");
    cell_add(r, "%s", cell_text(r, q, 6));
}

void report_gain(Report *r)
{
    bool any = false;
    DbSql *q = QUERY_ALL(r, select_gain);
    while (db_sql_next(q)) {
        if (!any) {
            report_sheet(r, &sheet_build_gain);
        }
        any = true;
        put_gain(r, q);
    }
    report_say(
        r, any ? "Only calls with a winner are counted, each by its own title match. What two "
                 "builds take as a whole is measured by `nanocompile bench --lib A --vs B`."
               : "No build has a winner in it.");
    put_races(r);
}
