/* library_db.c - a build asks the schedule database: a call site whose kernel won here gets that schedule and
 * says on what evidence, all others say what they miss; the build is recorded; a changed winner is stale. */
#include "tests/db_util.h"
#include "tests/library_util.h"

#include <string.h>

TestSuite(library_db, .timeout = 900);

static TestModel model;
static TestLibrary library;
static TempDir dir;
static const char *path, *out;

enum { PREFILL = 1, QUERIES = 4 }; /* program, call */

static void start(void)
{
    test_model_open(&model, TINY);
    dir = temp_dir();
    path = arena_str(&model.e.model, temp_path(&dir, "s.db"));
    out = arena_str(&model.e.model, temp_path(&dir, "tiny"));
    library_tables_test(&library, &model);
}

static void stop(void)
{
    temp_remove(&dir);
    test_model_close(&model);
}

/* The projection of queries, behind a gather, two tables and a norm; at 64 tokens. */
static void record_winner(const char *schedule, bool same_c)
{
    library_record_winner(&library, path, PREFILL, QUERIES, schedule, same_c);
}

#define WINNER "split n 16 peel; order n.o m k n.i; par n.o"
#define BUILD(...)                                                                    \
    NC(&model.e, "build", "--model", TINY, "-o", out, "--threads", "2", "--db", path, \
       __VA_ARGS__)

Test(library_db, a_winner_is_built_and_the_build_recorded, .init = start, .fini = stop)
{
    record_winner(WINNER, true);
    Ran r = BUILD("--format", "csv");
    shows(r, ",hit,");
    shows(r, WINNER);
    shows(r, ": 1.98 times as fast as the default (1.98 to 1.98)"); /* it takes half as long */
    shows(r, ",miss,");
    Db *db = open_db(&model.e, path, DB_READ);
    cr_assert_eq(db_count(db, DB_T_BUILD), 1);
    cr_assert_eq(db_count(db, DB_T_BUILD_SITE), 3 * 57);
    db_close(db);
    refused(BUILD("--require-tuned"), 1, "are not tuned for this place");
    r = BUILD("--exact-only");
    shows(r, WINNER); /* it has the naive bits */
}

/* Rows of csv for calls of the three programs; and those that say nothing of why. */
static int calls_listed(const char *csv, int *silent)
{
    static const char *const programs[] = {"\ndecode,", "\nprefill,", "\nscore,"};
    int n = 0;
    *silent = 0;
    for (size_t i = 0; i < countof(programs); i++) {
        for (const char *at = csv; (at = strstr(at, programs[i])); n++) {
            at = strchr(at + 1, '\n');
            cr_assert(at);
            *silent += at[-1] == ',';
        }
    }
    return n;
}

Test(library_db, acceptance_21_every_call_site_is_listed_with_its_outcome_and_why,
     .init = start, .fini = stop)
{
    int silent;
    record_winner(WINNER, true);
    Ran r = BUILD("--format", "csv");
    cr_assert_eq(r.status, 0, "%s", r.out);
    cr_expect_eq(calls_listed(r.out, &silent), 3 * 57, "%s", r.out);
    cr_expect_eq(silent, 0, "%s", r.out);
    gives(
        &model.e, path,
        "SELECT count(*), sum(outcome IN ('hit', 'miss') AND length(why) > 0) FROM build_site",
        "171,171");
}

Test(library_db, a_winner_that_gives_other_c_now_is_stale, .init = start, .fini = stop)
{
    record_winner(WINNER, false);
    Ran r = BUILD("--format", "csv");
    shows(r, ",stale,");
    shows(r, "is not the C that was measured");
    cr_assert_null(strstr(r.out, WINNER));
}

/* ---- what it bought ---- */

#define ELSEWHERE(...) \
    NC(&model.e, "build", "--model", TINY, "-o", other, "--threads", "2", __VA_ARGS__)

/* Two builds of a model, one without winners, run in turns: the report has both as a whole, from
 * every round, and what the winners save. */
Test(library_db, builds_that_ran_in_turns_are_compared_as_a_whole, .init = start, .fini = stop)
{
    Env *e = &model.e;
    const char *other = arena_str(&e->model, temp_path(&dir, "other"));
    const char *so = arena_printf(&e->model, "%s/model.so", out);
    const char *other_so = arena_printf(&e->model, "%s/model.so", other);
    record_winner(WINNER, true);
    shows(BUILD("--format", "csv"), ",hit,");
    Ran r = ELSEWHERE("--untuned", "--db", path, "--format", "csv");
    shows(r, "Default schedules were asked for.");
    cr_expect(!strstr(r.out, WINNER), "%s", r.out);
    shows(RUN(e, "report", "--db", path, "builds", "last"), "default");
    shows(NC(e, "bench", "--lib", so, "--vs", other_so, "--db", path, "--blocks", "1",
             "--threads", "1"),
          "Kept in ");
    gives(
        e, path,
        "SELECT count(*) > 0, count(DISTINCT line), sum(heading LIKE 'a %') = sum(heading LIKE "
        "'b %'), count(DISTINCT experiment) FROM experiment_cell",
        "1,4,1,1"); /* one token behind 512 does not fit */
    Ran both =
        RUN(e, "report", "--db", path, "builds",
            queried(e, path, "SELECT id FROM build ORDER BY started_ns LIMIT 1"), "last");
    shows(both, "In turns in one process");
    shows(both, "decode at 16");
    shows(both, " on 1 thread and B build "); /* though both are built for two */
    set_sql(path, "DELETE FROM experiment_cell WHERE heading LIKE '_ %'");
    shows(RUN(e, "report", "--db", path, "builds", "--format", "csv",
              queried(e, path, "SELECT id FROM build ORDER BY started_ns LIMIT 1"), "last"),
          ",0,0,\n"); /* no rounds, no p */
    shows(RUN(e, "report", "--db", path, "builds", "--format", "csv"), ",prefill,57,4,");
    ELSEWHERE("--naive", "--db", path);
    gives(e, path,
          "SELECT DISTINCT outcome FROM build_site WHERE build = (SELECT id FROM build "
          "ORDER BY started_ns DESC LIMIT 1)",
          "naive");
    refused(ELSEWHERE("--no-db", "--untuned"), 2, "one of --no-db");
    refused(ELSEWHERE("--db", path, "--no-db"), 2, "--db goes with neither");
}
