/* db_rows.c - rows come back as they were recorded, all of a transaction or nothing; the
 * structs are the tables of schema.sql; ids are named by content. */
#include "tests/db_fixture.h"
#include "tests/db_util.h"

#include <criterion/logging.h>
#include <math.h>
#include <string.h>

TestSuite(db_rows, .init = start, .fini = stop, .timeout = 120);

static void print_fault(void *ctx, const char *sentence)
{
    (void)ctx;
    cr_log_error("%s", sentence);
}

/* A struct that lists its columns in another order than the table would read nonsense. */
Test(db_rows, structs_are_the_tables)
{
    static const struct {
        const char *table, *columns;
    } rows[] = {
#define FIELD(kind, name) #kind " " #name "\n"
#define X(list, type, table, n_key, owner) {#table, DB_##list(FIELD)},
        DB_TABLES(X)
#undef X
#undef FIELD
    };
    Db *db = open_db(&env, path, DB_WRITE);
    for (size_t i = 0; i < countof(rows); i++) {
        Buf b;
        buf_init(&b, &env.model);
        DbSql *q = db_sql(db, "SELECT CASE WHEN type = 'TEXT' AND (name LIKE '%hash' OR "
                              "name = 'hard' OR name = 'seal') THEN 'HASH' WHEN type = "
                              "'INTEGER' THEN 'INT' ELSE type END, name FROM "
                              "pragma_table_info(?1)");
        db_sql_bind_text(q, 1, rows[i].table);
        while (db_sql_next(q)) {
            buf_printf(&b, "%s ", db_sql_cell(q, 0).text);
            buf_printf(&b, "%s\n", db_sql_cell(q, 1).text);
        }
        cr_expect_str_eq(b.at, rows[i].columns, "table %s", rows[i].table);
    }
    DbSql *q = db_sql(db, "SELECT count(*) FROM sqlite_schema WHERE type = 'table'");
    cr_assert(db_sql_next(q));
    cr_expect_eq(db_sql_cell(q, 0).i, (int64_t)countof(rows));
    db_sql_end(q);
    db_close(db);
}

Test(db_rows, a_story_is_read_back)
{
    Story s = story();
    Db *db = open_db(&env, path, DB_WRITE);
    Told told = tell(db, &s);
    DbRun run;
    DbTrial trial;
    DbDuel duel;
    DbPair pair;
    DbWinner winner;
    cr_assert(DB_ONE(db, RUN, &env.model, &run, told.run));
    cr_expect_str_eq(run.ending, "finished");
    cr_expect_eq(run.budget_ns, DB_NONE);
    cr_expect_null(run.why);
    int n = 0;
    DbCursor c = DB_FIND(db, TRIALS, told.run, 1);
    for (; db_next(&c, &env.model, &trial); n++) {
        cr_expect_eq(trial.idx, n + 1);
        cr_expect_str_eq(trial.status, n == 0 ? "wrong" : "ok");
        cr_expect(hash_eq(trial.c_hash, hash_str(trial.schedule)));
    }
    cr_expect_eq(n, 3);
    cr_assert(DB_ONE(db, DUEL, &env.model, &duel, told.run, 3));
    cr_expect_str_eq(duel.verdict, "FASTER");
    cr_expect_eq(duel.trial, DB_NONE);
    cr_expect(duel.a_min_ns >= 1000 && duel.b_min_ns < 600);
    cr_expect_eq(duel.wins, 13);
    c = DB_FIND(db, PAIRS, told.run, 3, 12);
    for (n = 0; db_next(&c, &env.model, &pair); n++) {
        cr_expect_eq(pair.idx, n);
    }
    cr_expect_eq(n, 9);
    cr_assert(DB_ONE(db, WINNER, &env.model, &winner, told.run, told.task));
    cr_expect_eq(winner.duel, 3);
    cr_expect_eq(db_count(db, DB_T_PAIR), 16 * 9);
    cr_expect_not(DB_ONE(db, RUN, &env.model, &run, 12345));
    db_close(db);
}

Test(db_rows, seeds_of_64_bits)
{
    Db *db = open_db(&env, path, DB_WRITE);
    Story s = story();
    s.n_trials = 0;
    Told told = tell(db, &s);
    DbRun r;
    cr_assert(DB_ONE(db, RUN, &env.model, &r, told.run));
    r.seed = (int64_t)0xfedcba9876543210, r.id = 77;
    db_add_run(db, &r);
    cr_assert(DB_ONE(db, RUN, &env.model, &r, 77));
    cr_expect_eq((uint64_t)r.seed, 0xfedcba9876543210);
    DbSql *q = db_sql(db, "SELECT printf('%u', seed) FROM run WHERE id = 77");
    cr_assert(db_sql_next(q));
    cr_expect_str_eq(db_sql_cell(q, 0).text, "18364758544493064720");
    db_sql_end(q);
    db_close(db);
}

Test(db_rows, content_names_itself)
{
    Db *db = open_db(&env, path, DB_WRITE);
    Story s = story(), t = story();
    t.host = "there"; /* soft: another machine of the same kind */
    DbMachine a = story_machine(&s), b = story_machine(&t);
    int64_t first = db_put_machine(db, &a);
    cr_expect_eq(db_put_machine(db, &a), first);
    cr_expect_neq(db_put_machine(db, &b), first);
    cr_expect(hash_eq(a.hard, b.hard));
    t.l2_bytes *= 2;
    DbMachine c = story_machine(&t);
    db_put_machine(db, &c);
    cr_expect_not(hash_eq(a.hard, c.hard));
    cr_expect_eq(db_count(db, DB_T_MACHINE), 3);
    cr_expect_eq(db_put_kernel(db, "one"), db_put_kernel(db, "one"));
    cr_expect_neq(db_put_kernel(db, "one"), db_put_kernel(db, "two"));
    cr_expect_lt(db_put_kernel(db, "one"), 1ll << 53);
    db_close(db);
}

/* SQLite keeps neither the sign of zero nor, in whole numbers, that they were reals. */
Test(db_rows, odd_reals_are_sealed_as_they_are_read)
{
    static const double odd[] = {-0.0, 0.0, 3.0, 1e300, 5e-324, -1e18, INFINITY, 0.1};
    Db *db = open_db(&env, path, DB_WRITE);
    Story s = story();
    Told told = tell(db, &s);
    DbDuel d;
    cr_assert(DB_ONE(db, DUEL, &env.model, &d, told.run, 0));
    for (size_t i = 0; i < countof(odd); i++) {
        d.idx = 100 + (int64_t)i, d.stage = "compare", d.ratio = d.a_ns = odd[i];
        db_add_whole_duel(db, &d, NULL, 0, NULL, NULL);
    }
    cr_expect_eq(db_verify(db, NULL, print_fault, NULL), 0);
    db_close(db);
}

/* ---- builds and experiments ---- */

static DbBuildSite a_site(Told told, const char *outcome)
{
    DbBuildSite s = db_blank_build_site();
    s.site = "layer 3, q", s.kernel = told.kernel, s.sizes = "s0=64", s.regime = "cold";
    s.outcome = outcome, s.schedule = "par n", s.c_hash = hash_str("c");
    return s;
}

Test(db_rows, builds_tell_what_each_call_site_got)
{
    Db *db = open_db(&env, path, DB_WRITE);
    Story s = story();
    Told told = tell(db, &s);
    DbBuildSite site[] = {a_site(told, "hit"), a_site(told, "miss"), a_site(told, "stale"),
                          a_site(told, "hit")};
    DbBuild b = db_blank_build();
    site[0].winner_run = told.run, site[0].winner_task = told.task;
    site[1].field = "flags", site[1].why = "The nearest winner differs in flags.";
    b.started_ns = 1, b.took_ns = 2, b.version = NC_VERSION, b.machine = told.machine;
    b.toolchain = told.toolchain, b.model = "m", b.output = "o", b.n_threads = 2,
    b.command = "build";
    db_add_new_build(db, &b, site, (int)countof(site));
    DbSql *q =
        db_sql(db, "SELECT n_sites, n_hit, n_miss, n_stale, n_refused, n_kept FROM v_builds");
    static const int64_t expected[] = {4, 2, 1, 1, 0, 0};
    cr_assert(db_sql_next(q));
    for (size_t i = 0; i < countof(expected); i++) {
        cr_expect_eq(db_sql_cell(q, (int)i).i, expected[i], "%s", db_sql_name(q, (int)i));
    }
    db_sql_end(q);
    q = db_sql(db, "SELECT site_idx, field FROM v_misses ORDER BY site_idx");
    cr_assert(db_sql_next(q));
    cr_expect_eq(db_sql_cell(q, 0).i, 1);
    cr_expect_str_eq(db_sql_cell(q, 1).text, "flags");
    cr_assert(db_sql_next(q));
    cr_expect_not(db_sql_next(q));
    db_close(db);
}

Test(db_rows, cells_of_experiments)
{
    Db *db = open_db(&env, path, DB_WRITE);
    Story s = story();
    Told told = tell(db, &s);
    DbExperimentCell c = db_blank_experiment_cell(), again;
    c.experiment = "table 3", c.line = "decode", c.heading = "ms", c.at_ns = 7;
    c.machine = told.machine, c.value = 1.5, c.unit = "ms", c.run = told.run, c.duel = 3;
    db_add_experiment_cell(db, &c);
    DbCursor at = DB_FIND_ALL(db, CELLS);
    cr_assert(db_next(&at, &env.model, &again));
    cr_expect_eq(again.value, 1.5);
    cr_expect(isnan(again.lo));
    cr_expect_null(again.word);
    db_end(&at);
    db_close(db);
}

/* ---- what is refused ---- */

static void two_kernels_with_one_id(Env *e, void *arg)
{
    (void)e;
    db_put_kernel(arg, "one");
}

Test(db_rows, a_kernel_with_another_ones_id_is_refused)
{
    Db *db = open_db(&env, path, DB_WRITE);
    int64_t id = db_put_kernel(db, "one");
    set_sql(path, arena_printf(&env.model, "UPDATE kernel SET text = 'other' WHERE id = %lld",
                               (long long)id));
    must_fail(&env, two_kernels_with_one_id, db, E_INPUT, "another one has its id");
    db_close(db);
}

/* A search claims its champion first and then, perhaps, the simplest schedule of the tie set. */
Test(db_rows, a_winner_may_follow_another)
{
    Db *db = open_db(&env, path, DB_WRITE);
    Story s = story();
    Told told = tell(db, &s);
    DbWinner first, then;
    cr_assert(DB_ONE(db, WINNER, &env.model, &first, told.run, told.task));
    first.at_ns++;
    db_put(db, DB_T_WINNER, &first);
    cr_assert(DB_ONE(db, WINNER, &env.model, &then, told.run, told.task));
    cr_expect_eq(then.at_ns, first.at_ns);
    cr_expect_eq(db_count(db, DB_T_WINNER), 1);
    db_close(db);
}

static void winner_by_another_duel(Env *e, void *arg)
{
    Db *db = arg;
    DbWinner w;
    DbCursor c = DB_FIND_ALL(db, WINNERS);
    cr_assert(db_next(&c, &e->model, &w));
    db_end(&c);
    w.run = 2, w.duel = 0; /* a search, not a title match */
    db_add_winner(db, &w);
}

Test(db_rows, no_winner_without_evidence)
{
    Db *db = open_db(&env, path, DB_WRITE);
    Story s = story(), t = story();
    t.seed = 2, t.wins = false;
    tell(db, &s);
    tell(db, &t);
    must_fail(&env, winner_by_another_duel, db, E_INPUT, "needs a title match");
    cr_expect_eq(db_count(db, DB_T_WINNER), 1);
    db_close(db);
}

static void half_a_trial(Env *e, void *arg)
{
    DbTrial r;
    DbCursor c = DB_FIND(arg, TRIALS, 1, 0);
    cr_assert(db_next(&c, &e->model, &r));
    db_end(&c);
    r.idx = 50;
    db_add_trial(arg, &r);
    db_add_trial_knob(arg, &(DbTrialKnob){1, 51, 0, 0}); /* of no trial */
}

static void half_a_transaction(Env *e, void *arg)
{
    (void)e;
    db_transact(arg, half_a_trial, arg);
}

Test(db_rows, all_of_a_transaction_or_nothing)
{
    Db *db = open_db(&env, path, DB_WRITE);
    Story s = story();
    tell(db, &s);
    const char *before = contents(&env, db);
    must_fail(&env, half_a_transaction, db, E_INPUT, "FOREIGN KEY");
    cr_expect_str_eq(contents(&env, db), before);
    s.seed = 2;
    tell(db, &s); /* and the handle goes on */
    db_close(db);
}

/* ---- queries of the user ---- */

typedef struct Asking {
    Db *db;
    const char *sql;
} Asking;

static void ask(Env *e, void *arg)
{
    Asking *a = arg;
    (void)e;
    DbSql *q = db_sql(a->db, a->sql);
    while (db_sql_next(q)) {
    }
}

Test(db_rows, queries_only_read)
{
    static const struct {
        const char *sql, *words;
    } rows[] = {
        {"DELETE FROM trial", "would change"},
        {"SELECT 1; DELETE FROM trial", "more than one statement"},
        {"SELEC 1", "syntax error"},
        {"SELECT * FROM nowhere", "no such table"},
        {" ; ", "no statement"},
    };
    Db *db = open_db(&env, path, DB_WRITE);
    for (size_t i = 0; i < countof(rows); i++) {
        Asking a = {db, rows[i].sql};
        must_fail(&env, ask, &a, E_INPUT, rows[i].words);
    }
    Asking fine = {db, "SELECT 1;\n"};
    must_work(&env, ask, &fine);
    db_close(db);
}

/* Views that no test reads would rot. */
Test(db_rows, views_have_rows)
{
    static const char *const views[] = {"v_best",       "v_trials", "v_evidence",  "v_pairs",
                                        "v_phase_time", "v_knobs",  "v_conditions"};
    Db *db = open_db(&env, path, DB_WRITE);
    Story s = story();
    tell(db, &s);
    for (size_t i = 0; i < countof(views); i++) {
        DbSql *q = db_sql(db, arena_printf(&env.model, "SELECT count(*) FROM %s", views[i]));
        cr_assert(db_sql_next(q));
        cr_expect_gt(db_sql_cell(q, 0).i, 0, "%s", views[i]);
        db_sql_end(q);
    }
    db_close(db);
}
