/* db_writers.c - several programs and one database: acceptance 9, two writers at once lose
 * no rows and meet no lock error; acceptance 8, a writer that is killed at any instant
 * leaves a database that passes verify and holds whole trials; acceptance 19, a handle's
 * memory does not grow. */
#include "tests/db_fixture.h"
#include "tests/db_util.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(db_writers, .init = start, .fini = stop, .timeout = 300);

/* ---- a process that records runs ---- */

typedef struct Writer {
    uint64_t first_seed;
    int n_runs, n_trials;
} Writer;

static void write_runs(Env *e, void *arg)
{
    const Writer *w = arg;
    Err err;
    for (int i = 0; i < w->n_runs; i++) {
        Db *db = db_open(e, path, DB_WRITE, &err); /* anew: so that they also meet in opening */
        if (!db) {
            fail_err(e, &err);
        }
        Story s = story();
        s.seed = w->first_seed + (uint64_t)i, s.n_trials = w->n_trials;
        tell(db, &s);
        db_close(db);
    }
}

static pid_t start_writer(Writer w)
{
    pid_t pid = fork();
    if (pid == 0) {
        Env e;
        env_init(&e);
        bool ok = env_try(&e, write_runs, &w);
        if (!ok) { /* for whoever waits: Criterion keeps what a test prints to itself */
            file_in(&e, &dir, "writer-failed", e.err.text);
        }
        _exit(ok ? 0 : 1);
    }
    cr_assert_gt(pid, 0);
    return pid;
}

static int ended(pid_t pid)
{
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status;
}

/* It was killed by us; a writer that ended by itself says why. */
static void killed(pid_t pid)
{
    int status = ended(pid);
    const char *said = temp_path(&dir, "writer-failed");
    cr_assert(WIFSIGNALED(status), "it ended with status %d: %s", WEXITSTATUS(status),
              access(said, F_OK) ? "it had written all that it was to" : read_text(&env, said));
}

Test(db_writers, acceptance_9_writers_at_once_lose_nothing)
{
    enum { N_WRITERS = 4, N_RUNS = 12, N_TRIALS = 8 };
    pid_t pid[N_WRITERS]; /* they also make the database, all at once */
    for (int i = 0; i < N_WRITERS; i++) {
        pid[i] = start_writer((Writer){(uint64_t)i * 100 + 1, N_RUNS, N_TRIALS});
    }
    for (int i = 0; i < N_WRITERS; i++) {
        cr_expect_eq(ended(pid[i]), 0);
    }
    Db *db = open_db(&env, path, DB_READ);
    cr_expect_eq(db_count(db, DB_T_RUN), N_WRITERS * N_RUNS);
    cr_expect_eq(db_count(db, DB_T_TRIAL), N_WRITERS * N_RUNS * N_TRIALS);
    cr_expect_eq(db_count(db, DB_T_WINNER), N_WRITERS * N_RUNS);
    cr_expect_eq(db_count(db, DB_T_KERNEL), 1);
    db_close(db);
    is_sound(&env, path);
    cr_expect_eq(folder_entries(dir.path), 1);
}

/* ---- kill -9 ---- */

static int64_t number(Db *db, const char *sql)
{
    DbSql *q = db_sql(db, sql);
    cr_assert(db_sql_next(q));
    int64_t n = db_sql_cell(q, 0).i;
    db_sql_end(q);
    return n;
}

/* Each trial with its two knobs, and its duel where it was timed; no gaps. */
static void only_whole_trials(void)
{
    Err err;
    Db *db = db_open(&env, path, DB_READ, &err);
    if (!db) { /* killed before it was made */
        cr_expect(strstr(err.text, "There is no schedule database"), "%s", err.text);
        return;
    }
    cr_expect_eq(
        number(db,
               "SELECT count(*) FROM trial t WHERE (SELECT count(*) FROM trial_knob k "
               "WHERE k.run = t.run AND k.trial = t.idx) <> 2 OR (SELECT count(*) FROM duel "
               "d WHERE d.run = t.run AND d.trial = t.idx) <> (t.status = 'ok')"),
        0);
    cr_expect_eq(
        number(db,
               "SELECT count(*) FROM run r WHERE (SELECT count(*) FROM trial t WHERE t.run "
               "= r.id) <> (SELECT coalesce(max(idx) + 1, 0) FROM trial t WHERE t.run = r.id)"),
        0);
    db_close(db);
}

Test(db_writers, acceptance_8_killed_at_any_instant)
{
    Rng r;
    rng_seed(&r, 8);
    int64_t most = 0;
    for (int i = 0; i < 50; i++) {
        /* Without an end: whatever holds this process up, the writer is at work when it dies. */
        pid_t pid = start_writer((Writer){(uint64_t)i << 32 | 1, INT32_MAX, 20});
        struct timespec ts = {0, (long)(rng_unit(&r) * (i < 10 ? 40e6 : 120e6)) + 1};
        nanosleep(&ts, NULL);
        kill(pid, SIGKILL);
        killed(pid);
        only_whole_trials();
        if (i % 10 == 9 && access(path, F_OK) == 0) {
            Ran v = SCHEDB(&env, "verify", "--db", path);
            cr_assert_eq(v.status, 0, "after %d kills: %s", i + 1, v.out);
            Db *db = open_db(&env, path, DB_READ);
            int64_t n = db_count(db, DB_T_TRIAL);
            cr_expect_geq(n, most, "trials were lost");
            most = n;
            db_close(db);
        }
    }
    cr_expect_gt(most, 0, "no writer got as far as a trial");
}

/* What a killed run left is gone on with, and the end is the same as told in one go. */
Test(db_writers, acceptance_8_a_killed_run_goes_on)
{
    Rng r;
    rng_seed(&r, 9);
    Story s = story();
    s.n_trials = 20;
    const char *whole_path = arena_str(&env.model, temp_path(&dir, "whole.db"));
    Db *whole = open_db(&env, whole_path, DB_WRITE);
    tell(whole, &s);
    const char *expected = contents(&env, whole);
    db_close(whole);
    for (int i = 0; i < 10; i++) {
        pid_t pid = start_writer((Writer){1, 1, 20});
        struct timespec ts = {0, (long)(rng_unit(&r) * 150e6) + 1};
        nanosleep(&ts, NULL);
        kill(pid, SIGKILL);
        ended(pid);
        Db *db = open_db(&env, path, DB_WRITE);
        tell(db, &s); /* what is there already is left as it is */
        cr_assert_str_eq(contents(&env, db), expected, "kill %d", i);
        db_close(db);
        unlink(path);
    }
}

/* ---- memory ---- */

static int64_t resident_kb(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    cr_assert(f && fscanf(f, "%*d %ld", &pages) == 1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

typedef struct Long {
    Db *db;
    DbTrial trial;
    DbDuel duel;
    DbProcess process;
    DbPair pair[9];
} Long;

static void one_trial(Env *e, void *arg)
{
    (void)e;
    Long *l = arg;
    DbPair *pair = l->pair;
    int n = (int)countof(l->pair);
    l->trial.idx++, l->duel.idx++, l->duel.trial = l->trial.idx;
    db_add_trial(l->db, &l->trial);
    db_add_whole_duel(l->db, &l->duel, &l->process, 1, &pair, &n);
}

/* Rows of a story that was told, to be told again under other numbers. */
static Long rows_of(Db *db, int64_t run)
{
    Long l = {.db = db};
    cr_assert(DB_ONE(db, TRIAL, &env.model, &l.trial, run, 0));
    cr_assert(DB_ONE(db, DUEL, &env.model, &l.duel, run, 0));
    DbCursor c = DB_FIND(db, PROCESSES, run, 0);
    cr_assert(db_next(&c, &env.model, &l.process));
    db_end(&c);
    c = DB_FIND(db, PAIRS, run, 0, 0);
    for (int i = 0; db_next(&c, &env.model, &l.pair[i]); i++) {
    }
    l.trial.idx = l.duel.idx = 100;
    return l;
}

Test(db_writers, acceptance_19_memory_stays_flat)
{
    enum { WARM = 2000, N_TRIALS = 12000 };
    Db *db = open_db(&env, path, DB_WRITE);
    Story s = story();
    Told told = tell(db, &s);
    Long l = rows_of(db, told.run);
    int64_t warm = 0;
    for (int i = 0; i < N_TRIALS; i++) {
        db_transact(db, one_trial, &l);
        warm = i == WARM ? resident_kb() : warm;
    }
#ifdef NC_SANITIZED
    warm = INT32_MAX; /* which keep freed memory for a while */
#endif
    cr_expect_lt(resident_kb() - warm, 1024, "%lld kB, then %lld kB", (long long)warm,
                 (long long)resident_kb());
    cr_expect_eq(db_count(db, DB_T_TRIAL), N_TRIALS + 4);
    db_close(db);
}
