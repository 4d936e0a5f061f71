/* db_lookup.c - who asks for a kernel gets the winner that its whole key fits, or the first
 * field in which the nearest differs. Acceptance 11 (rows of another CPU, compiler, flags)
 * and 17 (records that do not concern a key never change its answer). */
#include "db/db_int.h"
#include "tests/db_fixture.h"
#include "tests/db_util.h"

#include <string.h>

static Db *db;

static void begin(void)
{
    start();
    db = open_db(&env, path, DB_WRITE);
}

static void end(void)
{
    db_close(db);
    stop();
}

TestSuite(db_lookup, .init = begin, .fini = end, .timeout = 120);

/* What a build of this story's kernel would ask, and the answer. */
typedef struct Asked {
    Story s;
    int64_t size;
    int64_t n_threads;
    const char *regime;
    DbMachine machine;
    DbToolchain toolchain;
} Asked;

static Asked asked(void)
{
    Asked a = {.s = story(), .size = 64, .n_threads = 2, .regime = "cold"};
    a.machine = story_machine(&a.s);
    a.toolchain = story_toolchain(&a.s);
    return a;
}

static DbAnswer answer(const Asked *a)
{
    DbAnswer out;
    DbKey key = {a->s.kernel, &a->size, 1, a->n_threads, a->regime, &a->machine, &a->toolchain};
    db_lookup(db, &env.model, &key, &out);
    return out;
}

Test(db_lookup, a_winner_serves_its_sizes)
{
    Story s = story();
    tell(db, &s);
    static const int64_t inside[] = {33, 64, 128}, outside[] = {32, 129};
    for (size_t i = 0; i < countof(inside); i++) {
        Asked a = asked();
        a.size = inside[i];
        DbAnswer got = answer(&a);
        cr_assert_eq(got.found, DB_HIT, "%s", got.why);
        cr_expect_str_eq(got.winner.schedule, "split n 103 pad; unroll n.i");
        cr_expect_null(got.soft);
    }
    for (size_t i = 0; i < countof(outside); i++) {
        Asked a = asked();
        a.size = outside[i];
        DbAnswer got = answer(&a);
        cr_expect_eq(got.found, DB_MISS);
        cr_expect_eq(got.field, DB_KEY_SIZES);
        cr_expect_str_eq(got.has, "s0=33..128");
    }
}

Test(db_lookup, acceptance_11_the_first_field_that_differs_is_named)
{
    Story s = story();
    tell(db, &s);
    enum { N = N_DB_KEY_FIELDS };
    Asked a[N];
    for (int i = 0; i < N; i++) {
        a[i] = asked();
    }
    a[DB_KEY_KERNEL].s.kernel = "kernel matmul\nout f32[s0, 33]\n";
    a[DB_KEY_THREADS].n_threads = 3;
    a[DB_KEY_REGIME].regime = "hot";
    a[DB_KEY_SIZES].size = 4096;
    a[DB_KEY_ISA].machine.isa = "x86_64 family 6 avx2 fma";
    a[DB_KEY_L1D].machine.l1d_bytes = 48 << 10;
    a[DB_KEY_L2].machine.l2_bytes = 2 << 20;
    a[DB_KEY_L3].machine.l3_bytes = 0;
    a[DB_KEY_CORES].machine.n_cores = 64;
    a[DB_KEY_COMPILER].toolchain.version = "gcc (Debian) 13.2.0";
    a[DB_KEY_WORDS].toolchain.words = "-m32";
    a[DB_KEY_FLAGS].toolchain.flags = "-O1";
    a[DB_KEY_TARGET].toolchain.target = "avx512";
    for (int i = 0; i < N; i++) {
        DbAnswer got = answer(&a[i]);
        cr_expect_eq(got.found, DB_MISS, "field %d", i);
        cr_expect_str_eq(db_key_field_name(got.field), db_key_field_name((DbKeyField)i));
        cr_expect_str_neq(got.wanted, got.has, "field %d", i);
        cr_expect(*got.why, "field %d", i);
    }
    DbAnswer got = answer(&a[DB_KEY_L2]);
    cr_expect_str_eq(got.why, "The nearest winner differs in l2 cache: '1048576 bytes' there, "
                              "'2097152 bytes' here.");
    cr_expect(got.has_nearest);
    cr_expect_str_eq(got.winner.schedule, "split n 103 pad; unroll n.i");
    got = answer(&a[DB_KEY_KERNEL]);
    cr_expect_str_eq(got.has, "out f32[s0, 32]");
    cr_expect_str_eq(got.wanted, "out f32[s0, 33]");
}

Test(db_lookup, soft_facts_only_get_told)
{
    Story s = story();
    tell(db, &s);
    Asked a = asked();
    a.machine.host = "elsewhere", a.machine.kernel_release = "6.9", a.machine.brand = "A CPU";
    DbAnswer got = answer(&a);
    cr_assert_eq(got.found, DB_HIT);
    cr_expect_str_eq(got.soft, "kernel_release");
}

Test(db_lookup, the_nearest_of_several_is_the_one_that_differs_last)
{
    Story far = story(), near = story();
    far.l2_bytes = 7, far.seed = 1;
    near.flags = "-O2", near.seed = 2;
    tell(db, &far);
    tell(db, &near);
    Asked a = asked();
    DbAnswer got = answer(&a);
    cr_expect_eq(got.found, DB_MISS);
    cr_expect_eq(got.field, DB_KEY_FLAGS);
    cr_expect_eq(got.run, 2);
}

Test(db_lookup, tuned_in_vain_is_not_untuned)
{
    Story s = story();
    s.wins = false;
    tell(db, &s);
    Asked a = asked();
    DbAnswer got = answer(&a);
    cr_expect_eq(got.found, DB_KEPT);
    cr_expect_eq(got.n_trials, 4);
    cr_expect(strstr(got.why, "4 candidates were tried here"), "%s", got.why);
    a.size = 63;
    got = answer(&a);
    cr_expect_eq(got.found, DB_MISS);
    cr_expect_eq(got.n_trials, 0, "those of another size are not its own");
}

Test(db_lookup, an_empty_database_misses)
{
    Asked a = asked();
    DbAnswer got = answer(&a);
    cr_expect_eq(got.found, DB_MISS);
    cr_expect_eq(got.field, DB_KEY_KERNEL);
    cr_expect_not(got.has_nearest);
    cr_expect_str_eq(got.why, "No winner has this kernel.");
}

/* A collision, made by hand. */
Test(db_lookup, a_hash_that_agrees_is_confirmed_by_the_text)
{
    Story s = story();
    tell(db, &s);
    char hex[33];
    hash_hex(hash_str("another kernel"), hex);
    set_sql(path, arena_printf(&env.model, "UPDATE kernel SET hash = '%s'", hex));
    Asked a = asked();
    a.s.kernel = "another kernel";
    DbAnswer got = answer(&a);
    cr_expect_eq(got.found, DB_MISS);
    cr_expect_str_eq(got.why, "A kernel of the same hash has another text.");
}

Test(db_lookup, of_several_winners_the_surest_serves)
{
    for (uint64_t seed = 3; seed > 0; seed--) { /* ratio_hi grows with the seed */
        Story s = story();
        s.seed = seed;
        tell(db, &s);
    }
    Asked a = asked();
    cr_expect_eq(answer(&a).run, 1);
    DbSql *q = db_sql(db, "SELECT run, speedup FROM v_best");
    cr_assert(db_sql_next(q));
    cr_expect_eq(db_sql_cell(q, 0).i, 1);
    cr_expect_float_eq(db_sql_cell(q, 1).r, 1 / 0.501, 1e-3);
    cr_expect_not(db_sql_next(q), "v_best has two rows for one task");
}

Test(db_lookup, tuned_at_the_very_sizes_comes_first)
{
    Story s = story(), t = story();
    t.seed = 2, t.m = 100; /* its interval is the same, and its bound worse */
    tell(db, &s);
    tell(db, &t);
    Asked a = asked();
    a.size = 100;
    cr_expect_eq(answer(&a).run, 2);
    a.size = 90;
    cr_expect_eq(answer(&a).run, 1);
}

Test(db_lookup, acceptance_17_other_records_change_nothing)
{
    Story s = story();
    tell(db, &s);
    Asked a = asked();
    DbAnswer before = answer(&a);
    for (int i = 0; i < 40; i++) {
        Story t = story();
        t.seed = (uint64_t)i + 2;
        switch (i % 4) {
        case 0: t.kernel = arena_printf(&env.model, "kernel %d\n", i); break;
        case 1: t.l2_bytes = 1000 + i; break;
        case 2: t.flags = arena_printf(&env.model, "-O%d", i); break;
        default: t.wins = false;
        }
        tell(db, &t);
        DbAnswer after = answer(&a);
        cr_assert_eq(after.found, DB_HIT);
        cr_assert_eq(after.run, before.run, "record %d changed the answer", i);
        cr_assert_str_eq(after.winner.schedule, before.winner.schedule);
    }
}

/* ---- rows of files ---- */

static void import_row(const Asked *a, const char *sizes, const char *schedule)
{
    DbImported m = {.signature = db_signature(&env.model, &a->machine, &a->toolchain,
                                              a->n_threads, a->regime),
                    .kernel_hash = hash_str(a->s.kernel),
                    .sizes = sizes,
                    .schedule = schedule,
                    .c_hash = hash_str("c")};
    cr_expect(db_put_imported(db, &m));
    cr_expect_not(db_put_imported(db, &m));
}

Test(db_lookup, imported_rows_serve_where_no_winner_does)
{
    Asked a = asked();
    import_row(&a, "s0=60..70", "fma");
    DbAnswer got = answer(&a);
    cr_expect_eq(got.found, DB_IMPORTED_ROW);
    cr_expect_str_eq(got.imported.schedule, "fma");
    a.size = 71;
    DbAnswer other = answer(&a);
    cr_expect_eq(other.found, DB_MISS);
    cr_expect_null(other.imported.schedule);
    import_row(&a, "s0=*", "par n");
    cr_expect_str_eq(answer(&a).imported.schedule, "par n");
    a.n_threads = 1;
    cr_expect_eq(answer(&a).found, DB_MISS);
    Story s = story();
    tell(db, &s);
    a = asked();
    cr_expect_eq(answer(&a).found, DB_HIT);
}

/* ---- how much is touched ---- */

typedef struct Plan {
    int n_scans;
    Buf text;
} Plan;

static Plan plan_of(const char *sql)
{
    Plan p = {0};
    buf_init(&p.text, &env.model);
    DbSql *q = db_sql(db, arena_printf(&env.model, "EXPLAIN QUERY PLAN %s", sql));
    while (db_sql_next(q)) {
        const char *detail = db_sql_cell(q, 3).text;
        p.n_scans += !strncmp(detail, "SCAN", 4);
        buf_printf(&p.text, "%s\n", detail);
    }
    return p;
}

/* Trials and duels of other runs, straight in. */
static void many_trials(int n_runs, int n_trials)
{
    for (int i = 0; i < n_runs; i++) {
        Story s = story();
        s.seed = (uint64_t)i + 1;
        s.kernel = i ? arena_printf(&env.model, "kernel %d\n", i) : s.kernel;
        tell(db, &s);
    }
    set_sql(path, arena_printf(
                      &env.model,
                      "WITH RECURSIVE c(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM c WHERE "
                      "i < %d) INSERT INTO trial (run, idx, task, schedule, status, outcome) "
                      "SELECT r.run, c.i, r.task, 'split n ' || c.i, 'ok', 'screened' FROM "
                      "run_task r, c",
                      n_trials / n_runs + 9));
}

Test(db_lookup, at_100000_trials_an_index_finds_it)
{
    many_trials(50, 100000);
    cr_assert_geq(db_count(db, DB_T_TRIAL), 100000);
    static const char *const queries[] = {
        "SELECT id, text FROM kernel WHERE hash = 'x'",
        ("SELECT w.run FROM task t JOIN winner w ON w.task = t.id JOIN run r ON r.id = w.run "
         "WHERE t.kernel = 1"),
        "SELECT * FROM trial WHERE run = 1 AND idx >= 7 ORDER BY idx",
        "SELECT * FROM trial WHERE task = 1 ORDER BY run, idx",
        "SELECT * FROM pair WHERE run = 1 AND duel = 1 AND process = 0 ORDER BY idx",
        "SELECT * FROM v_trials WHERE run = 1 AND trial = 7",
        "SELECT * FROM v_pairs WHERE run = 1 AND duel = 1",
        "SELECT * FROM v_knobs WHERE run = 1",
        "SELECT * FROM v_evidence WHERE run = 1",
    };
    for (size_t i = 0; i < countof(queries); i++) {
        Plan p = plan_of(queries[i]);
        cr_expect_eq(p.n_scans, 0, "%s:\n%s", queries[i], p.text.at);
    }
    Asked a = asked();
    cr_expect_eq(answer(&a).found, DB_HIT);
}

/* The virtual machine's steps, not time: as many as in a small database. */
static int64_t steps_of_a_lookup(void)
{
    Asked a = asked();
    int64_t n = 0;
    answer(&a);
    for (sqlite3_stmt *s = NULL; (s = sqlite3_next_stmt(db->sql, s));) {
        sqlite3_stmt_status(s, SQLITE_STMTSTATUS_VM_STEP, 1);
    }
    cr_assert_eq(answer(&a).found, DB_HIT);
    for (sqlite3_stmt *s = NULL; (s = sqlite3_next_stmt(db->sql, s));) {
        n += sqlite3_stmt_status(s, SQLITE_STMTSTATUS_VM_STEP, 1);
    }
    return n;
}

Test(db_lookup, a_lookup_costs_the_same_in_a_large_database)
{
    many_trials(2, 100);
    int64_t few = steps_of_a_lookup();
    cr_expect_gt(few, 50);
    cr_expect_lt(few, 1000);
    set_sql(path,
            "WITH RECURSIVE c(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM c WHERE "
            "i < 100000) INSERT INTO trial (run, idx, task, schedule, status, outcome) SELECT "
            "r.run, c.i, r.task, 'split n ' || c.i, 'ok', 'screened' FROM run_task r, c");
    cr_expect_eq(steps_of_a_lookup(), few);
}
