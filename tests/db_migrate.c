/* db_migrate.c - an older database becomes a newer one: section by section, rows kept, views
 * made again, all of it or nothing. */
#include "db/db_int.h"
#include "tests/db_util.h"

#include <string.h>

#define FIRST "-- a schema\n\n-- version 1\n\nCREATE TABLE t (a INTEGER NOT NULL) STRICT;\n"
#define SECOND "\n-- version 2\n\nALTER TABLE t ADD COLUMN b TEXT;\n"
#define THIRD "\n-- version 3\n\nCREATE TABLE u (c);\nINSERT INTO t VALUES (3, 'third');\n"
#define VIEWS_1 "\n-- views\n\nCREATE VIEW v AS SELECT a FROM t;\n"
#define VIEWS_3 \
    "\n-- views\n\nCREATE VIEW v AS SELECT a, b FROM t;\nCREATE VIEW w AS SELECT c FROM u;\n"

static sqlite3 *sql;

static void start(void)
{
    cr_assert_eq(sqlite3_open(":memory:", &sql), SQLITE_OK);
}

static void stop(void)
{
    sqlite3_close(sql);
}

TestSuite(db_migrate, .init = start, .fini = stop, .timeout = 60);

static int64_t answer(const char *query)
{
    int64_t n = -1;
    cr_assert(sqlite_number(sql, query, &n), "%s: %s", query, sqlite3_errmsg(sql));
    return n;
}

Test(db_migrate, section_by_section)
{
    cr_expect_eq(schema_version(FIRST VIEWS_1), 1);
    cr_expect_eq(schema_version(FIRST SECOND THIRD VIEWS_3), 3);
    cr_assert_eq(migrate(sql, FIRST VIEWS_1), SQLITE_OK);
    cr_expect_eq(answer("PRAGMA user_version"), 1);
    cr_assert_eq(sqlite3_exec(sql, "INSERT INTO t VALUES (1)", NULL, NULL, NULL), SQLITE_OK);
    cr_assert_eq(migrate(sql, FIRST SECOND THIRD VIEWS_3), SQLITE_OK);
    cr_expect_eq(answer("PRAGMA user_version"), 3);
    cr_expect_eq(answer("SELECT group_concat(a, '') FROM v"), 13);
    cr_expect_eq(answer("SELECT count(b) FROM v"), 1);
    cr_expect_eq(answer("SELECT count(*) FROM w"), 0);
}

Test(db_migrate, what_is_up_to_date_is_left_alone)
{
    cr_assert_eq(migrate(sql, FIRST SECOND THIRD VIEWS_3), SQLITE_OK);
    cr_assert_eq(migrate(sql, FIRST SECOND THIRD VIEWS_3), SQLITE_OK);
    cr_expect_eq(answer("SELECT count(*) FROM t"), 1);
}

Test(db_migrate, all_or_nothing)
{
    cr_assert_eq(migrate(sql, FIRST VIEWS_1), SQLITE_OK);
    cr_expect_neq(migrate(sql, FIRST SECOND "\n-- version 3\n\nCREATE TABLE t (x);\n" VIEWS_3),
                  SQLITE_OK);
    cr_expect_eq(answer("PRAGMA user_version"), 1);
    cr_expect_eq(answer("SELECT count(*) FROM pragma_table_info('t')"), 1);
    cr_expect_eq(answer("SELECT count(*) FROM v"), 0);
}

Test(db_migrate, the_schema_is_that_of_the_header)
{
    cr_expect_eq(schema_version(db_schema), DB_VERSION);
    cr_expect_eq(migrate(sql, db_schema), SQLITE_OK, "%s", sqlite3_errmsg(sql));
}

/* A database as version 1 made it: what later ones added is taken away. */
static const char *made_by_version_1(Env *e, const TempDir *dir)
{
    const char *path = arena_printf(&e->model, "%s/one.db", dir->path);
    Story s = story();
    Db *db = open_db(e, path, DB_WRITE);
    tell(db, &s);
    db_close(db);
    set_sql(path, "DROP VIEW v_slices; DROP TABLE slice;"
                  "ALTER TABLE calibration DROP COLUMN n_trials;"
                  "ALTER TABLE calibration DROP COLUMN elapsed_ns;"
                  "ALTER TABLE calibration DROP COLUMN budget_ns;"
                  "ALTER TABLE trial DROP COLUMN elapsed_ns;"
                  "ALTER TABLE process DROP COLUMN elapsed_ns;"
                  "DROP VIEW v_conditions;"
                  "ALTER TABLE run DROP COLUMN cpus;"
                  "ALTER TABLE run DROP COLUMN n_cpuset;"
                  "PRAGMA user_version = 1");
    return path;
}

Test(db_migrate, what_version_1_recorded_is_as_sound_in_this_one)
{
    Env env;
    Err err;
    TempDir dir = temp_dir();
    env_init(&env);
    const char *path = made_by_version_1(&env, &dir);
    cr_expect_null(db_open(&env, path, DB_READ, &err));
    cr_expect(strstr(err.text, "older schema version 1"), "%s", err.text);
    shows(SCHEDB(&env, "init", "--db", path), "schema version 3");
    is_sound(&env, path);
    shows(SCHEDB(&env, "sql", "--db", path,
                 "SELECT count(*) FROM trial WHERE elapsed_ns IS NULL"),
          "4");
    shows(SCHEDB(&env, "sql", "--db", path, "SELECT count(*) FROM slice"), "0");
    temp_remove(&dir);
    env_release(&env);
}
