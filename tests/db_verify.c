/* db_verify.c - every verdict follows from raw pairs, and what was changed afterwards is
 * named: a pair, an order bit, a verdict, a count, a name, a row that is missing. */
#include "tests/db_fixture.h"
#include "tests/db_util.h"

#include <string.h>
#include <unistd.h>

static void begin(void)
{
    start();
    tell_at(&env, path, NULL);
}

TestSuite(db_verify, .init = begin, .fini = stop, .timeout = 120);

static Ran verify(void)
{
    return SCHEDB(&env, "verify", "--db", path);
}

Test(db_verify, what_was_recorded_is_sound)
{
    shows(verify(), "4 duels follow from their 144 pairs, 1 winners from their duels");
}

/* Each change alone, in a database of its own. */
static void changed(const char *sql, const char *words)
{
    const char *copy = arena_str(&env.model, temp_path(&dir, "changed.db"));
    Db *db = open_db(&env, copy, DB_WRITE);
    Story s = story();
    tell(db, &s);
    db_close(db);
    set_sql(copy, sql);
    Ran r = SCHEDB(&env, "verify", "--db", copy);
    cr_expect_eq(r.status, 1, "after %s: %s", sql, r.out);
    cr_expect(strstr(r.out, words), "after %s no '%s' in: %s", sql, words, r.out);
    unlink(copy);
}

#define AT " WHERE run = 1 AND duel = 3 AND process = 7 AND idx = 4"
#define DUEL "Run 1, duel 3 (title, champion against default)"

Test(db_verify, one_changed_pair_is_named)
{
    changed("UPDATE pair SET a_ns = a_ns + 1" AT, DUEL ": it was changed");
    changed("UPDATE pair SET b_ns = 3 * b_ns WHERE run = 1 AND duel = 0 AND idx = 0",
            "Run 1, duel 0 (search, candidate against default): wins is stored as 9, and its "
            "pairs say 8");
    changed("UPDATE pair SET b_first = 1 - b_first" AT, DUEL ": it was changed");
    changed("UPDATE pair SET flags = 1" AT, DUEL);
    changed("UPDATE pair SET cpu = 5" AT, DUEL);
    changed("DELETE FROM pair" AT, DUEL ": a process has not as many pairs as it says");
}

Test(db_verify, a_changed_verdict_is_named)
{
    changed("UPDATE duel SET verdict = 'SLOWER' WHERE run = 1 AND idx = 3", DUEL);
    changed("UPDATE duel SET wins = 12, losses = 1 WHERE run = 1 AND idx = 3",
            DUEL ": wins is stored as 12, and its pairs say 13");
    changed("UPDATE duel SET ln_e_max = ln_e_max + 0.1 WHERE run = 1 AND idx = 2",
            "Run 1, duel 2 (search, candidate against default): ln_e_max is stored as");
    changed("UPDATE duel SET p_anytime = 0.5 WHERE run = 1 AND idx = 3", "p_anytime");
    changed("UPDATE process SET seed = seed + 1 WHERE run = 1 AND duel = 3 AND idx = 0", DUEL);
}

/* Who also repairs the seal is caught by the pairs. */
Test(db_verify, a_verdict_that_pairs_do_not_bear_is_named)
{
    changed("UPDATE duel SET seal = '0', wins = 10, losses = 3 WHERE run = 1 AND idx = 3",
            "its pairs say 13");
}

/* Every row can be read, so that only SQLite's own check sees it: an index is hidden while its table changes. */
Test(db_verify, an_index_that_says_something_else_than_its_table_is_named)
{
    changed("PRAGMA writable_schema = on;"
            "CREATE TEMP TABLE kept AS SELECT * FROM sqlite_schema WHERE name = 'duel_by_task';"
            "DELETE FROM sqlite_schema WHERE name = 'duel_by_task';"
            "PRAGMA writable_schema = reset;"
            "UPDATE duel SET stage = 'replay' WHERE run = 1 AND idx = 3;"
            "PRAGMA writable_schema = on;"
            "INSERT INTO sqlite_schema SELECT * FROM kept;",
            "missing from index duel_by_task");
}

Test(db_verify, names_are_checked)
{
    changed("UPDATE kernel SET text = text || ' '", "of kernel is not what its id says");
    changed("UPDATE machine SET l2_bytes = 7", "of machine is not what its id says");
    changed("UPDATE toolchain SET flags = '-O1'", "of toolchain is not what its id says");
    changed("UPDATE task SET n_threads = 3", "of task is not what its id says");
    changed("UPDATE knob_choice SET word = 'x' WHERE idx = 0 AND knob = 0",
            "of space is not what its id says");
}

Test(db_verify, winners_without_evidence_are_named)
{
    changed("UPDATE winner SET schedule = 'fma'", "the winner of task");
    changed("UPDATE winner SET ratio = 0.1", "the winner of task");
    changed("UPDATE winner SET duel = 0", "the winner of task");
    changed("UPDATE duel SET b_c_hash = a_c_hash WHERE idx = 3", "the winner of task");
}

/* The pick is the simplest schedule of those with one C. */
Test(db_verify, another_schedule_with_the_winners_code_may_be_the_pick)
{
    set_sql(path,
            "INSERT INTO trial (run, idx, task, rank, schedule, c_hash, status, outcome) "
            "SELECT run, idx + 100, task, rank + 100, 'vec z', c_hash, status, 'same-code' "
            "FROM trial WHERE c_hash = (SELECT c_hash FROM winner) LIMIT 1");
    set_sql(path, "UPDATE winner SET schedule = 'vec z'");
    shows(verify(), "1 winners from their duels");
    set_sql(path, "UPDATE trial SET c_hash = '0' WHERE schedule = 'vec z'");
    has(verify(), 1, "is not what its title match proved");
}

Test(db_verify, missing_rows_are_named)
{
    changed("DELETE FROM machine", "A row of run refers to a row of machine that is not there");
    changed("DELETE FROM duel WHERE idx = 3", "that is not there");
}

/* ---- whatever is flipped ---- */

static const char *one_cell(const char *sql)
{
    Db *db = open_db(&env, path, DB_READ);
    DbSql *q = db_sql(db, sql);
    cr_assert(db_sql_next(q), "%s", sql);
    const char *text = arena_str(&env.model, db_sql_cell(q, 0).text);
    db_sql_end(q);
    db_close(db);
    return text;
}

/* Another value of the same type; of a word that is checked, another word. */
static const char *flipped(const char *column, const char *type)
{
    if (!strcmp(column, "status")) {
        return "'oom'";
    }
    if (strstr(column, "hash") || !strcmp(column, "seal")) {
        return "'0123456789abcdef0123456789abcdef'";
    }
    return !strcmp(type, "TEXT") ? arena_printf(&env.model, "coalesce(%s, '') || 'x'", column)
                                 : arena_printf(&env.model, "1 - coalesce(%s, 7)", column);
}

/* Every column that is no part of the key, each flipped alone in one row of the table. */
static void every_column(const char *table, const char *where)
{
    const char *names = arena_printf(
        &env.model,
        "SELECT group_concat(name || ' ' || type) FROM pragma_table_info('%s') WHERE pk = 0",
        table);
    char *list = arena_str(&env.model, one_cell(names));
    int n = 0;
    for (char *at = strtok(list, ","); at; at = strtok(NULL, ","), n++) {
        char *type = strchr(at, ' ');
        *type++ = '\0';
        changed(arena_printf(&env.model,
                             "PRAGMA foreign_keys = 0; UPDATE %s SET %s = %s WHERE %s", table,
                             at, flipped(at, type), where),
                "Run 1, duel 3 (");
    }
    cr_expect_gt(n, 5, "%s: %d columns", table, n);
}

Test(db_verify, whatever_column_of_a_pair_is_flipped_its_duel_is_named)
{
    every_column("pair", "run = 1 AND duel = 3 AND process = 7 AND idx = 4");
}

Test(db_verify, whatever_column_of_a_process_is_flipped_its_duel_is_named)
{
    every_column("process", "run = 1 AND duel = 3 AND idx = 7");
}

Test(db_verify, whatever_column_of_a_duel_is_flipped_it_is_named)
{
    every_column("duel", "run = 1 AND idx = 3");
}

/* ---- behind the seal ---- */

typedef struct Resealed {
    Db *db;
    DbDuel d;
    DbProcess process[16];
    DbPair *pair[16];
    int n_pairs[16], n;
} Resealed;

static void read_duel(Resealed *x, int64_t duel)
{
    Arena *a = &env.model;
    cr_assert(DB_ONE(x->db, DUEL, a, &x->d, 1, duel));
    DbCursor c = DB_FIND(x->db, PROCESSES, 1, duel);
    while (db_next(&c, a, &x->process[x->n])) {
        DbPair *pair = arena_array(a, DbPair, x->process[x->n].n_pairs);
        DbCursor in = DB_FIND(x->db, PAIRS, 1, duel, x->n);
        for (int i = 0; db_next(&in, a, &pair[i]); i++) {
        }
        x->n_pairs[x->n] = (int)x->process[x->n].n_pairs;
        x->pair[x->n++] = pair;
    }
}

static void add_again(Env *e, void *arg)
{
    Resealed *x = arg;
    (void)e;
    db_add_whole_duel(x->db, &x->d, x->process, x->n, x->pair, x->n_pairs);
}

/* A duel with a seal that fits, and one order that its process's seed never drew. */
Test(db_verify, an_order_that_was_not_drawn_is_named_whatever_the_seal)
{
    Resealed x = {.db = open_db(&env, path, DB_WRITE)};
    read_duel(&x, 3);
    x.d.idx = 50;
    x.pair[7][4].b_first = 1 - x.pair[7][4].b_first;
    db_transact(x.db, add_again, &x);
    db_close(x.db);
    Ran r = verify();
    cr_expect_eq(r.status, 1);
    cr_expect(strstr(r.out,
                     "Run 1, duel 50 (title, champion against default): pair 4 of process 7 "
                     "has an order that its seed did not draw"),
              "%s", r.out);
    cr_expect(strstr(r.out, " has 1 faults"), "%s", r.out);
}

/* What other tables say of duels. */
Test(db_verify, claims_that_their_duels_do_not_bear_are_named)
{
    changed("UPDATE trial SET outcome = 'promoted' WHERE idx = 0",
            "Run 1: trial 0 has another");
    changed("UPDATE trial SET c_hash = '00' WHERE idx = 0", "Run 1: trial 0 has another");
    changed("UPDATE winner SET ratio_hi = 0.2", "the winner of task");
    changed("UPDATE winner SET b_ns = 1", "the winner of task");
    changed("UPDATE tie_set SET duel = 2", "the tie set of task");
}
