/* builds.c - models that were compiled with this database: all of them; the call sites of one; two
 * of them, kernel by kernel. Times are those that winners were measured with, each on its own:
 * beside one another they suggest and claim nothing; what two builds take as a whole is measured by
 * `nanocompile bench --lib --vs`. */
#include "reports/reports.h"

#define NUMBER COLUMN_NUMBER

/* A row: a model that was compiled with this database. */
const Sheet sheet_builds = {
    "builds",
    {{"build", 0, "its id"},
     {"started", 0, "when, UTC"},
     {"model", 0, "that was compiled"},
     {"threads", NUMBER, "for which it was"},
     {"sites", NUMBER, "calls of kernels in it"},
     {"hit", NUMBER, "of them with a winner"},
     {"kept", NUMBER, "tuned, and the default stayed"},
     {"miss", NUMBER, "no row"},
     {"stale", NUMBER, "a winner whose C is not what it was"},
     {"refused", NUMBER,
      "a schedule that is not legal any more, or whose layout goes beyond the memory cap"}}};

/* A row: call sites of one kernel in a build. */
const Sheet sheet_build_sites = {
    "build_sites",
    {{"program", 0, "decode, prefill (of several: prefill_16 ..), score"},
     {"first site", 0, "where in the model it is called first"},
     {"calls", NUMBER, "sites with the same kernel and schedule"},
     {"kernel", 0, "hash of its text (for people its beginning)"},
     {"outcome", 0, "hit, kept, imported, miss, stale, refused, default, naive"},
     {"run", 0, "that the winner comes from; empty: there is none"},
     {"time", NUMBER | COLUMN_PEOPLE, "of one call, when the winner was measured"},
     {"ns", NUMBER | COLUMN_MACHINE, "the same in ns"},
     {"schedule", 0, "that was built"},
     {"why", 0, "in a sentence"}}};

/* A row: call sites of one kernel, as two builds have it. */
const Sheet sheet_build_compare = {
    "build_compare",
    {{"first site", 0, "program, and where in the model it is called first"},
     {"calls", NUMBER, "sites alike"},
     {"a outcome", 0, "what A has"},
     {"b outcome", 0, "what B has"},
     {"same code", 0, "do both compile to the same C?"},
     {"a time", NUMBER | COLUMN_PEOPLE, "of one call, when A's winner was measured"},
     {"a ns", NUMBER | COLUMN_MACHINE, "the same in ns"},
     {"b time", NUMBER | COLUMN_PEOPLE, "likewise of B"},
     {"b ns", NUMBER | COLUMN_MACHINE, "the same in ns"},
     {"a schedule", 0, "that was built in A"},
     {"b schedule", 0, "that was built in B"}}};

/* ---- all ---- */

void report_build_rows(Report *r)
{
    if (db_count(r->db, DB_T_BUILD) == 0) {
        report_say(r, "No build is recorded in %s.", db_path(r->db));
        return;
    }
    report_sheet(r, &sheet_builds);
    DbSql *q =
        QUERY_ALL(r, "SELECT build, started_ns, model, n_threads, n_sites, n_hit, n_kept, "
                     "n_miss, n_stale, n_refused FROM v_builds ORDER BY started_ns, build");
    while (db_sql_next(q)) {
        cell_add(r, "%s", db_sql_cell(q, 0).text);
        cell_add_time(r, cell_int(q, 1));
        cell_add(r, "%s", db_sql_cell(q, 2).text);
        for (int i = 3; i < 10; i++) {
            cell_add_int(r, cell_int(q, i));
        }
    }
}

/* ---- one ---- */

static void put_sites(Report *r, int64_t build)
{
    report_sheet(r, &sheet_build_sites);
    DbSql *q = QUERY(r,
                     "SELECT substr(s.site, 1, instr(s.site, ' ') - 1) AS program, "
                     "substr(s.site, instr(s.site, ' ') + 1), count(*), k.hash, "
                     "s.outcome, CAST(s.winner_run AS TEXT), s.expected_ns, s.schedule, s.why, "
                     "min(s.idx) AS first FROM build_site s JOIN kernel k ON k.id = s.kernel "
                     "WHERE s.build = ?1 GROUP BY program, s.kernel, s.schedule ORDER BY first",
                     build);
    while (db_sql_next(q)) {
        cell_add(r, "%s", db_sql_cell(q, 0).text);
        cell_add(r, "%s", db_sql_cell(q, 1).text);
        cell_add_int(r, cell_int(q, 2));
        cell_add(r, "%.*s", r->people ? 8 : 32, db_sql_cell(q, 3).text);
        cell_add(r, "%s", db_sql_cell(q, 4).text);
        cell_add(r, "%s", cell_text(r, q, 5) ? cell_text(r, q, 5) : "");
        cell_add_ns(r, cell_real(q, 6));
        cell_add_number(r, cell_real(q, 6), "%.1f");
        cell_add(r, "%s", schedule_text(r->a, cell_text(r, q, 7)));
        cell_add(r, "%s", cell_text(r, q, 8) ? cell_text(r, q, 8) : "");
    }
}

/* ---- two ---- */

/* Sites of both that stand at the same place of the same program. */
static const char select_pairs[] =
    "SELECT a.site, count(*), a.outcome, b.outcome, a.c_hash = b.c_hash, a.expected_ns, "
    "b.expected_ns, a.schedule, b.schedule, min(a.idx) AS first FROM build_site a JOIN "
    "build_site b ON b.idx = a.idx AND b.site = a.site WHERE a.build = ?1 AND b.build = ?2 "
    "GROUP BY substr(a.site, 1, instr(a.site, ' ')), a.kernel, b.kernel, a.schedule, "
    "b.schedule ORDER BY first";

static int64_t sites_of(Report *r, int64_t build)
{
    DbSql *q = QUERY(r, "SELECT count(*) FROM build_site WHERE build = ?1", build);
    int64_t n = 0;
    while (db_sql_next(q)) {
        n = cell_int(q, 0);
    }
    return n;
}

static void put_pair(Report *r, const DbSql *q)
{
    cell_add(r, "%s", cell_text(r, q, 0));
    cell_add_int(r, cell_int(q, 1));
    cell_add(r, "%s", cell_text(r, q, 2));
    cell_add(r, "%s", cell_text(r, q, 3));
    cell_add(r, "%s", cell_int(q, 4) == 1 ? "yes" : "no");
    for (int i = 5; i < 7; i++) {
        cell_add_ns(r, cell_real(q, i));
        cell_add_number(r, cell_real(q, i), "%.1f");
    }
    cell_add(r, "%s", schedule_text(r->a, cell_text(r, q, 7)));
    cell_add(r, "%s", schedule_text(r->a, cell_text(r, q, 8)));
}

static void put_pairs(Report *r, int64_t a, int64_t b)
{
    int64_t n = 0, n_same = 0, n_a = sites_of(r, a), n_b = sites_of(r, b);
    report_sheet(r, &sheet_build_compare);
    DbSql *q = QUERY(r, select_pairs, a, b);
    while (db_sql_next(q)) {
        put_pair(r, q);
        n += cell_int(q, 1);
        n_same += cell_int(q, 4) == 1 ? cell_int(q, 1) : 0;
    }
    report_say(r,
               "%lld call sites stand at the same place in both, and %lld of them have the "
               "same C. A has %lld more, B %lld.",
               (long long)n, (long long)n_same, (long long)(n_a - n), (long long)(n_b - n));
    if (!report_race(r, a, b) && !report_race(r, b, a)) {
        report_say(r, "They never ran in turns: `nanocompile bench --lib A/model.so --vs "
                      "B/model.so` does that, and keeps it here.");
    }
}

void report_builds(Report *r)
{
    if (r->n_words == 0) {
        report_build_rows(r);
        report_gain(r);
        return;
    }
    int64_t build[2];
    for (int i = 0; i < r->n_words; i++) {
        build[i] = report_find_build(r, r->word[i]);
    }
    if (r->n_words == 1) {
        put_sites(r, build[0]);
    } else {
        put_pairs(r, build[0], build[1]);
    }
}
