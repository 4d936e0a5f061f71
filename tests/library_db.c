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

/* Calls that the csv has between them, up to the path of what was built, and rows of it that say
 * nothing of why. */
static int calls_listed(const char *csv, int *silent)
{
    int n = 0;
    *silent = 0;
    for (const char *at = strstr(csv, "\ndecode,"); at && at[1] != '/';
         at = strchr(at + 1, '\n')) {
        int calls, n_read = sscanf(at + 1, "%*[^,],%*[^,],%d,", &calls);
        const char *end = strchr(at + 1, '\n');
        n += n_read == 1 ? calls : 0;
        *silent += n_read == 1 && end && end[-1] == ',';
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
