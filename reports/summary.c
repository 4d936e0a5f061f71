/* summary.c - a line a task, kind of machine and compiler: the default, the best, what stands between
 * them and on what evidence, what it cost to find out, and whether runs agree. */
#include <math.h>
#include <string.h>

#include "reports/reports.h"

#define PEOPLE COLUMN_PEOPLE
#define MACHINE COLUMN_MACHINE
#define NUMBER COLUMN_NUMBER

/* A row: a task on one kind of machine with one compiler. */
const Sheet sheet_summary = {
    "summary",
    {{"task", 0, "id of the task (for people its first digits, which commands take)"},
     {"kernel", 0, "its label in the newest run"},
     {"sizes", 0, "values of the kernel's symbols"},
     {"threads", NUMBER, "how many threads ran it"},
     {"regime", 0, "cold: constant operands come from memory; hot: from caches"},
     {"machine", MACHINE, "brand of the CPU"},
     {"compiler", MACHINE, "first line of its --version"},
     {"default", NUMBER | PEOPLE, "median of one call by the default schedule"},
     {"default_ns", NUMBER | MACHINE, "median of one call by the default schedule"},
     {"best", NUMBER | PEOPLE, "of one call by the winner; empty: the default was kept"},
     {"best_ns", NUMBER | MACHINE, "of one call by the winner; empty: the default was kept"},
     {"result", PEOPLE, "the winner against the default, with its interval"},
     {"answer", MACHINE, "winner, default-kept; open: no run came to one"},
     {"ratio", NUMBER | MACHINE,
      "time of the winner by that of the default: below 1 is faster"},
     {"ratio_lo", NUMBER | MACHINE, "lower end of its interval"},
     {"ratio_hi", NUMBER | MACHINE, "upper end of its interval"},
     {"speedup", NUMBER | MACHINE, "1 / ratio"},
     {"real", 0, "is the difference real?"},
     {"evidence", PEOPLE, "processes won, pairs that counted, chance of so much by luck"},
     {"wins", NUMBER | MACHINE, "processes of the title match that the winner won"},
     {"processes", NUMBER | MACHINE, "processes of the title match"},
     {"pairs", NUMBER | MACHINE, "pairs that counted"},
     {"p_anytime", NUMBER | MACHINE,
      "chance of such evidence at any time were there no difference"},
     {"roofline", PEOPLE,
      "of the answer: part of what the probes beside the pairs allow, and what bounds it"},
     {"roofline_part", NUMBER | MACHINE, "likewise, from 0 to 1"},
     {"trials", NUMBER, "candidates tried, in all runs"},
     {"failed", NUMBER, "of them those that did not end well"},
     {"search", NUMBER | PEOPLE, "time spent on it, in all runs"},
     {"search_ns", NUMBER | MACHINE, "time spent on it, in all runs"},
     {"runs", NUMBER, "runs that worked on it"},
     {"changes", 0, "how often a run's answer was not that of the run before it"},
     {"schedule", 0, "that a build takes"}}};

/* A run that ended so has an answer, if only the default. */
#define ANSWERED "('default-kept', 'exhausted', 'budget')"

typedef struct Group { /* a task on a kind of machine with a compiler */
    int64_t task, machine, toolchain, n_threads, n_runs;
    const char *label, *sizes, *regime, *brand, *compiler, *default_schedule, *ending;
    bool has_winner, has_match, run_ended;
    DbWinner winner;
    Recount match; /* the winner's title match, or else the last one there was */
    double default_ns, search_ns;
    int64_t n_trials, n_failed, n_changes, n_ended;
} Group;

/* Of runs that searched. Every bare column is of the newest: SQLite takes them from the row of the
 * one max(). */
static const char select_groups[] =
    "SELECT rt.task, r.machine, r.toolchain, t.n_threads, count(*), rt.label, t.sizes, "
    "t.regime, m.brand, c.version, rt.default_schedule, rt.ending, r.ended_ns IS NOT "
    "NULL, "
    "max(r.started_ns * 1.0) FROM run_task rt JOIN run r ON r.id = rt.run JOIN task t ON t.id "
    "= "
    "rt.task JOIN machine m ON m.id = r.machine JOIN toolchain c ON c.id = r.toolchain "
    "WHERE rt.space IS NOT NULL AND (?1 IN (rt.task, -9223372036854775807 - 1)) AND "
    "(?2 IN (rt.run, -9223372036854775807 - 1)) "
    "GROUP BY rt.task, m.hard, c.hard ORDER BY rt.label, t.sizes, t.n_threads, rt.task";

/* The runs of a group: those on the same kind of machine with the same compiler. */
#define OF_GROUP                                                                              \
    " AND (?4 IN (r.id, -9223372036854775807 - 1)) AND r.machine IN (SELECT id FROM machine " \
    "WHERE hard = (SELECT hard FROM machine WHERE id = ?2)) AND r.toolchain IN (SELECT id "   \
    "FROM toolchain WHERE hard = (SELECT hard FROM toolchain WHERE id = ?3))"
#define GROUP_QUERY(r, sql, g) \
    QUERY((r), (sql), (g)->task, (g)->machine, (g)->toolchain, (r)->run)

static void find_winner(Report *r, Group *g)
{
    DbSql *q = GROUP_QUERY(r,
                           "SELECT w.run FROM winner w JOIN run r ON r.id = w.run WHERE w.task "
                           "= ?1" OF_GROUP " ORDER BY w.ratio_hi IS NULL, w.ratio_hi, w.ratio, "
                           "w.at_ns DESC, w.run DESC LIMIT 1",
                           g);
    int64_t run = DB_NONE;
    while (db_sql_next(q)) {
        run = db_sql_cell(q, 0).i;
    }
    g->has_winner = run != DB_NONE && DB_ONE(r->db, WINNER, r->a, &g->winner, run, g->task);
    g->has_match = g->has_winner && report_recount(r, run, g->winner.duel, &g->match);
}

/* Where nothing won: the last match there was, and the last time taken of the default. */
static void find_match(Report *r, Group *g)
{
    int64_t run = DB_NONE, duel = DB_NONE;
    DbSql *q = GROUP_QUERY(r,
                           "SELECT d.run, d.idx FROM duel d JOIN run r ON r.id = d.run WHERE "
                           "d.task = ?1 AND d.stage = 'title'" OF_GROUP
                           " ORDER BY d.started_ns DESC, d.run, d.idx DESC LIMIT 1",
                           g);
    while (db_sql_next(q)) {
        run = db_sql_cell(q, 0).i;
        duel = db_sql_cell(q, 1).i;
    }
    g->has_match = run != DB_NONE && report_recount(r, run, duel, &g->match);
}

static void find_default_ns(Report *r, Group *g)
{
    g->default_ns = g->has_match ? g->match.duel.a_ns : NAN;
    if (!isfinite(g->default_ns)) {
        DbSql *q = GROUP_QUERY(
            r,
            "SELECT d.a_ns FROM duel d JOIN run r ON r.id = d.run JOIN run_task "
            "rt ON rt.run = d.run AND rt.task = d.task WHERE d.task = ?1 AND "
            "(d.a_c_hash = rt.default_c_hash OR d.a_name = 'default') AND d.a_ns IS NOT "
            "NULL" OF_GROUP " ORDER BY d.started_ns DESC, d.run, d.idx DESC LIMIT 1",
            g);
        while (db_sql_next(q)) {
            g->default_ns = cell_real(q, 0);
        }
    }
}

static void count_cost(Report *r, Group *g)
{
    DbSql *q = GROUP_QUERY(r,
                           "SELECT total(n_trials), total(build_ns + "
                           "decide_ns + duel_ns + waited_ns), (SELECT count(*) FROM trial x "
                           "JOIN run r ON r.id = x.run WHERE x.task = ?1 AND x.status <> "
                           "'ok'" OF_GROUP ") FROM v_phase_time v JOIN run r ON r.id = v.run "
                           "JOIN run_task rt ON rt.run = v.run AND rt.task = v.task WHERE "
                           "v.task = ?1 AND rt.space IS NOT NULL" OF_GROUP,
                           g);
    while (db_sql_next(q)) {
        g->n_trials = (int64_t)db_sql_cell(q, 0).r;
        g->search_ns = cell_real(q, 1);
        g->n_failed = db_sql_cell(q, 2).i;
    }
}

/* Runs that came to an answer, in order of time: the winner's code, or the default. */
static void count_changes(Report *r, Group *g)
{
    const char *before = NULL;
    DbSql *q =
        GROUP_QUERY(r,
                    "SELECT coalesce((SELECT c_hash FROM winner w WHERE w.run = rt.run AND "
                    "w.task = rt.task), 'default') FROM run_task rt JOIN run r ON r.id = "
                    "rt.run WHERE rt.task = ?1 AND (EXISTS (SELECT 1 FROM winner w WHERE w.run "
                    "= rt.run AND w.task = rt.task) OR rt.ending IN " ANSWERED ")" OF_GROUP
                    " ORDER BY r.started_ns, r.id",
                    g);
    while (db_sql_next(q)) {
        const char *now = cell_text(r, q, 0);
        g->n_changes += before && strcmp(now, before) != 0;
        g->n_ended++;
        before = now;
    }
}

/* ---- telling ---- */

/* Of a run whose budget went to other tasks. */
static bool had_no_turn(const Group *g)
{
    return !g->ending && !g->has_winner && !g->has_match && !isfinite(g->default_ns) &&
           g->n_trials == 0;
}

static const char *why_kept(Report *r, const Group *g)
{
    if (!g->ending) {
        return g->run_ended && had_no_turn(g) ? "not known: it had no turn"
                                              : "not known: it runs, or was killed";
    }
    if (!strstr(ANSWERED, g->ending)) {
        return arena_printf(r->a, "not known: it ended as %s", g->ending);
    }
    return g->has_match      ? verdict_words(g->match.duel.verdict, "title")
           : g->n_trials > 0 ? "nothing came near enough for a title match"
                             : arena_printf(r->a, "nothing was tried (%s)", g->ending);
}

static const char *is_real(Report *r, const Group *g)
{
    if (!g->has_winner) {
        return why_kept(r, g);
    }
    bool stands = g->has_match && g->match.agrees && g->winner.ratio == g->match.duel.ratio;
    return stands ? verdict_words(g->match.duel.verdict, "title")
                  : "NOT PROVED: its pairs say something else";
}

/* With what became of the best candidate. */
static const char *kept_text(Report *r, const Group *g)
{
    const DbDuel *d = &g->match.duel;
    const char *champion =
        g->has_match ? interval_text(r->a, d->ratio, d->ratio_lo, d->ratio_hi) : "";
    return *champion ? arena_printf(r->a, "default kept; champion %s", champion)
                     : "default kept";
}

static void put_result(Report *r, const Group *g)
{
    const DbWinner *w = &g->winner;
    double nan = NAN;
    cell_add(r, "%s",
             g->has_winner ? interval_text(r->a, w->ratio, w->ratio_lo, w->ratio_hi)
             : g->ending   ? kept_text(r, g)
                           : "open");
    cell_add(r, "%s", g->has_winner ? "winner" : g->ending ? "default-kept" : "open");
    cell_add_number(r, g->has_winner ? w->ratio : nan, "%.4f");
    cell_add_number(r, g->has_winner ? w->ratio_lo : nan, "%.4f");
    cell_add_number(r, g->has_winner ? w->ratio_hi : nan, "%.4f");
    cell_add_number(r, g->has_winner ? 1 / w->ratio : nan, "%.4f");
    cell_add(r, "%s", is_real(r, g));
}

static void put_evidence(Report *r, const Group *g)
{
    const Recount *m = &g->match;
    if (g->has_match) {
        cell_add(r, "%lld/%lld processes, %d pairs, p %.2g%s", (long long)m->wins,
                 (long long)m->n, m->n_pairs, m->p, m->agrees ? "" : " (NOT as stored)");
    } else {
        cell_add(r, "no title match");
    }
    cell_add_int(r, g->has_match ? m->wins : DB_NONE);
    cell_add_int(r, g->has_match ? m->n : DB_NONE);
    cell_add_int(r, g->has_match ? m->n_pairs : DB_NONE);
    cell_add_number(r, g->has_match ? m->p : NAN, "%.2g");
    double part = !g->has_match ? NAN : g->has_winner ? m->roofline : m->a_roofline;
    if (isfinite(part)) {
        cell_add(r, "%.0f%% (%s)", 100 * part, m->by_memory ? "memory" : "arithmetic");
    } else {
        cell_add(r, "%s", "");
    }
    cell_add_number(r, part, "%.2f");
}

static void put_group(Report *r, const Group *g)
{
    cell_add_id(r, g->task);
    cell_add_text(r, g->label);
    cell_add(r, "%s", g->sizes);
    cell_add_int(r, g->n_threads);
    cell_add(r, "%s", g->regime);
    cell_add_text(r, g->brand);
    cell_add(r, "%s", g->compiler);
    cell_add_ns_both(r, g->default_ns);
    cell_add_ns_both(r, g->has_winner ? g->winner.b_ns : NAN);
    put_result(r, g);
    put_evidence(r, g);
    cell_add_int(r, g->n_trials);
    cell_add_int(r, g->n_failed);
    cell_add_ns_both(r, g->search_ns);
    cell_add_int(r, g->n_runs);
    if (g->n_ended > 1) {
        cell_add(r, "%lld of %lld", (long long)g->n_changes, (long long)g->n_ended - 1);
    } else {
        cell_add(r, "%s", "");
    }
    cell_add(r, "%s",
             schedule_text(r->a, g->has_winner ? g->winner.schedule : g->default_schedule));
}

/* What a reader of one table on one machine would miss. */
static void say_where(Report *r)
{
    DbSql *q = QUERY_ALL(r, "SELECT count(DISTINCT m.hard), count(DISTINCT c.hard), "
                            "max(m.brand), max(c.version) FROM run r JOIN machine m ON m.id = "
                            "r.machine JOIN toolchain c ON c.id = r.toolchain");
    while (db_sql_next(q)) {
        int64_t n_machines = db_sql_cell(q, 0).i, n_compilers = db_sql_cell(q, 1).i;
        const char *brand = cell_text(r, q, 2), *version = cell_text(r, q, 3);
        if (n_machines == 1 && n_compilers == 1) {
            report_say(r, "All on %s with %s.", brand ? brand : "one machine", version);
        } else {
            report_say(r,
                       "From %lld kinds of machine and %lld compilers: `report machine` tells "
                       "them apart, and a task has a line for each.",
                       (long long)n_machines, (long long)n_compilers);
        }
    }
}

/* How sure the intervals are, as the runs stored it. */
static void say_confidence(Report *r)
{
    DbSql *q = QUERY_ALL(r, "SELECT min(value), max(value) FROM run_constant WHERE name = "
                            "'confidence'");
    while (db_sql_next(q)) {
        double least = cell_real(q, 0);
        if (isfinite(least)) {
            report_say(r, "Intervals hold with a probability of %g%%%s, whenever a match ends.",
                       100 * least, cell_real(q, 1) > least ? " at least" : "");
        }
    }
}

static void say_failures(Report *r)
{
    Buf b;
    buf_init(&b, r->a);
    int64_t n_all = db_count(r->db, DB_T_TRIAL), n = 0;
    DbSql *q = QUERY_ALL(r, "SELECT status, count(*) FROM trial WHERE status <> 'ok' GROUP BY "
                            "status ORDER BY 2 DESC, 1");
    while (db_sql_next(q)) {
        n += db_sql_cell(q, 1).i;
        buf_printf(&b, "%s%s %lld", b.len ? ", " : "", cell_text(r, q, 0),
                   (long long)db_sql_cell(q, 1).i);
    }
    if (n > 0) {
        report_say(r, "%lld of %lld candidates failed (%s): `report failures` says why.",
                   (long long)n, (long long)n_all, b.at);
    }
}

static void say_compared(Report *r)
{
    DbSql *q = QUERY(r,
                     "SELECT count(*) FROM duel WHERE stage = 'compare' AND a_ns IS NOT NULL "
                     "AND ?1 IN (task, "
                     "-9223372036854775807 - 1) AND ?2 IN (run, -9223372036854775807 - 1)",
                     r->task, r->run);
    while (db_sql_next(q)) {
        if (cell_int(q, 0) > 0) {
            report_say(r,
                       "%lld duel%s asked for without a search: `report evidence` has them, "
                       "`report rivals` and `report knobs` those they are about.",
                       (long long)cell_int(q, 0), cell_int(q, 0) == 1 ? " was" : "s were");
        }
    }
}

/* False: there is nothing about it that people would look for; machines get all. */
static bool add_group(Report *r, DbSql *q, Roofline *roof)
{
    Group g = {.task = cell_int(q, 0),
               .machine = cell_int(q, 1),
               .toolchain = cell_int(q, 2),
               .n_threads = cell_int(q, 3),
               .n_runs = cell_int(q, 4),
               .label = cell_text(r, q, 5),
               .sizes = cell_text(r, q, 6),
               .regime = cell_text(r, q, 7),
               .brand = cell_text(r, q, 8),
               .compiler = cell_text(r, q, 9),
               .default_schedule = cell_text(r, q, 10),
               .ending = cell_text(r, q, 11),
               .run_ended = cell_int(q, 12) == 1};
    find_winner(r, &g);
    if (!g.has_winner) {
        find_match(r, &g);
    }
    find_default_ns(r, &g);
    count_cost(r, &g);
    if (r->people && had_no_turn(&g)) {
        return false;
    }
    count_changes(r, &g);
    put_group(r, &g);
    if (g.has_winner && g.has_match) {
        roofline_add(r, roof, &g.match, g.winner.b_ns);
    }
    return true;
}

void report_summary(Report *r)
{
    Roofline roof = {0};
    int n_idle = 0;
    report_sheet(r, &sheet_summary);
    DbSql *q = QUERY(r, select_groups, r->task, r->run);
    while (db_sql_next(q)) {
        n_idle += !add_group(r, q, &roof);
    }
    roofline_plot(r, &roof);
    if (n_idle > 0) {
        report_say(
            r, "%d more task%s had no turn: the budget went to those where a model gains more.",
            n_idle, n_idle == 1 ? "" : "s");
    }
    if (report_has_runs(r)) {
        say_where(r);
        say_confidence(r);
        say_failures(r);
        say_compared(r);
    }
}
