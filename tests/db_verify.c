/* db_verify.c - every verdict follows from raw pairs, and what was changed afterwards is
 * named: a pair, an order bit, a verdict, a count, a name, a row that is missing. */
#include "tests/db_util.h"

#include <string.h>
#include <unistd.h>

static Env env;
static TempDir dir;
static const char *path;

static void start(void)
{
    env_init(&env);
    dir = temp_dir();
    path = arena_str(&env.model, temp_path(&dir, "schedules.db"));
    Db *db = open_db(&env, path, DB_WRITE);
    Story s = story();
    tell(db, &s);
    db_close(db);
}

static void stop(void)
{
    env_release(&env);
    temp_remove(&dir);
}

TestSuite(db_verify, .init = start, .fini = stop, .timeout = 120);

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

Test(db_verify, missing_rows_are_named)
{
    changed("DELETE FROM machine", "A row of run refers to a row of machine that is not there");
    changed("DELETE FROM duel WHERE idx = 3", "that is not there");
}
