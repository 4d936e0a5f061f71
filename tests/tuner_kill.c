/* tuner_kill.c - the program tune killed by SIGKILL at random instants, and resumed until it is done. The database is
 * sound at each of them, and in the end its trials are those of one search that nobody disturbed: each is what the
 * strategy asks for after the outcomes before it. Two rounds in `make test`, 50 with NC_FULL; a failure prints the
 * seed. Acceptance test 8. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "run/run.h"
#include "tests/db_fixture.h"
#include "tests/db_util.h"
#include "tuner/evidence.h"

static Rng rng;

enum { M = 5, N = 40, K = 24, TRIALS = 16, SEARCH_SEED = 7, LIFE_MS = 4000, LIVES = 3 };

TestSuite(tuner_kill, .init = start, .fini = stop, .timeout = 3600);

/* ---- lives of a program ---------------------------------------------------------------------------- */

static const char *const *command(bool resume, const char *more)
{
    const char *words[] = {"--shape",
                           arena_printf(&env.model, "m=%d,n=%d,k=%d", M, N, K),
                           "--threads",
                           "1",
                           "--quiet",
                           "--strategy",
                           "greedy",
                           "--seed",
                           arena_printf(&env.model, "%d", SEARCH_SEED),
                           "--budget",
                           arena_printf(&env.model, "%dtrials", TRIALS),
                           "--db",
                           path,
                           resume ? "--resume" : NULL,
                           more,
                           NULL};
    return arena_dup(&env.model, words, sizeof words);
}

/* After so long it is killed, unless it has ended: true. */
static bool life(bool resume, uint64_t after_ms)
{
    int status;
    char **argv = tune_words(&env, command(resume, NULL));
    pid_t pid = fork();
    if (pid == 0) {
        freopen("/dev/null", "w", stdout);
        freopen("/dev/null", "w", stderr);
        execv(argv[0], argv);
        _exit(127);
    }
    uint64_t until_ns = os_now_ns() + after_ms * 1000000;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (os_now_ns() >= until_ns) {
            kill(pid, SIGKILL);
        }
        usleep(1000);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static const char *number(const char *query)
{
    return queried(&env, path, query);
}

static bool any_run(void)
{
    struct stat st;
    return stat(path, &st) == 0 && strcmp(number("SELECT count(*) FROM run"), "0") != 0;
}

/* ---- what its search would have asked for --------------------------------------------------------------- */

typedef struct Fold {
    Space space;
    SearchSpace as_seen;
    Search search;
    double ln_default[TRIALS]; /* of those that were promoted; by trial */
} Fold;

/* base_rank: the default's, which is asked for first. */
static void fold_init(Fold *f, int64_t base_rank)
{
    Machine machine;
    Toolchain tc;
    int64_t m = M;
    machine_read(&env, "", &machine);
    toolchain_find(&env, &tc);
    PickHint hint = hint_of_machine(&machine, 1);
    hint.target = tc.target;
    memset(hint.sym, 0xff, sizeof hint.sym);
    hint.sym[0] = m;
    const char *text = arena_printf(&env.model,
                                    "graph product\nx = input f32[m, %d]\nw = weight f32[%d, "
                                    "%d]\nt = permute w perm=[1, 0]\ny = matmul x, t\nreturn "
                                    "y=y\n",
                                    K, N, K);
    Compile c = {.env = &env};
    Graph *g = ncg_parse(&env, text, strlen(text), "product");
    c.known.value[sym_intern(&env, "m", 1)] = m;
    Protocol p = protocol_default();
    space_init(&env, &env.model, &f->space, compile_model(&c, g)->kernel.at[0], &hint);
    f->as_seen = search_space(&f->space);
    search_init(&env, &env.model, &f->search, STRATEGY_GREEDY, &f->as_seen, SEARCH_SEED,
                p.batch);
    if (base_rank != DB_NONE) {
        search_first(&f->search, (uint64_t)base_rank);
    }
}

/* ln of its time by the incumbent's: of its last process; NaN where it has none. */
static double ln_ratio(Db *db, const DbTrial *t)
{
    DbDuel d;
    double ln = !strcmp(t->outcome, "same-code") ? 0 : NAN;
    DbCursor at = DB_FIND(db, TRIAL_DUELS, t->run, t->idx);
    while (db_next(&at, &env.kernel, &d)) {
        bool of_trial = !strcmp(d.stage, "search") || !strcmp(d.stage, "replicate");
        ln = of_trial && !strcmp(t->status, "ok") ? log(d.ratio) : ln;
    }
    return ln;
}

static void check_trials(uint64_t seed)
{
    Fold *f = arena_new(&env.model, Fold);
    Db *db = open_db(&env, path, DB_READ);
    Vec(DbTrial) trial = {0};
    DbTrial row;
    DbCursor at = DB_FIND_ALL(db, RUNS);
    DbRun run;
    DbRunTask base;
    while (db_next(&at, &env.model, &run)) {
    }
    cr_assert(DB_ONE(db, RUN_TASKS, &env.model, &base, run.id));
    fold_init(f, base.default_rank);
    at = DB_FIND(db, TRIALS, run.id, 0);
    while (db_next(&at, &env.model, &row)) {
        *vec_push(&env.model, &trial) = row;
    }
    cr_assert_eq(trial.n, TRIALS, "seed %llu", (unsigned long long)seed);
    for (int i = 0, asked = 0; i < trial.n; i++) {
        const DbTrial *t = &trial.at[i];
        for (; asked < trial.n && asked < (i / f->search.batch + 1) * f->search.batch;
             asked++) {
            uint64_t index;
            cr_assert(search_ask(&f->search, &index));
            cr_assert_eq(trial.at[asked].rank, (int64_t)index, "seed %llu, trial %d",
                         (unsigned long long)seed, asked);
        }
        double standing = t->incumbent == DB_NONE ? 0 : f->ln_default[t->incumbent];
        f->ln_default[i] = standing + ln_ratio(db, t);
        search_tell(&f->search, (uint64_t)t->rank,
                    (Status)word_place(status_name, N_STATUSES, t->status), f->ln_default[i]);
    }
    db_close(db);
}

/* ---- the test -------------------------------------------------------------------------------------------- */

static void one_round(uint64_t seed)
{
    bool done = false;
    rng_seed(&rng, seed);
    for (int i = 0; i < LIVES && !done; i++) {
        done = life(any_run(), rng_below(&rng, LIFE_MS));
        if (any_run()) {
            Ran r = SCHEDB(&env, "verify", "--db", path);
            cr_assert_eq(r.status, 0, "seed %llu, life %d: %s", (unsigned long long)seed, i,
                         r.out);
        }
    }
    if (!done) {
        Ran r = run_tune(&env, command(any_run(), NULL));
        cr_assert_eq(r.status, 0, "seed %llu: %s", (unsigned long long)seed, r.out);
    }
    is_sound(&env, path);
    cr_expect_str_eq(number("SELECT count(*) || ' ' || max(ending) FROM run"), "1 finished");
    check_trials(seed);
    set_sql(path, "PRAGMA wal_checkpoint(TRUNCATE)");
    unlink(path);
}

Test(tuner_kill, acceptance_08_killed_at_random_instants_it_goes_on_as_it_would_have)
{
    int n = getenv("NC_FULL") ? 50 : 2;
    for (int i = 0; i < n; i++) {
        one_round(1 + (uint64_t)i);
    }
}

/* ---- what is not resumed ---------------------------------------------------------------------------------- */

static void declines(const char *more, const char *words)
{
    has(run_tune(&env, command(true, more)), 1, words);
}

Test(tuner_kill, what_differs_is_said_in_a_sentence)
{
    static const struct {
        const char *more, *words;
    } rows[] = {
        {"--seed=8", "the seed is 7 there and 8 here"},
        {"--strategy=random", "the strategy is greedy there and random here"},
        {"--set=beta=0.1", "the constant beta is 0.05 there and 0.1 here"},
        {"--threads=2", "it also tunes matmul m=5 n=40 k=24"},
        {"--resume=5", "There is no run 5 in"},
    };
    declines(NULL, "There is no run that was stopped");
    for (uint64_t ms = 500; !any_run(); ms += 500) {
        cr_assert_not(life(false, ms));
    }
    for (size_t i = 0; i < countof(rows); i++) {
        declines(rows[i].more, rows[i].words);
    }
    cr_expect_eq(run_tune(&env, command(true, NULL)).status, 0);
    declines(NULL, "There is no run that was stopped");
    declines(arena_printf(&env.model, "--resume=%s", number("SELECT max(id) FROM run")),
             "is not a search that was stopped: it ended as finished");
}

Test(tuner_kill, a_run_that_goes_on_elsewhere_is_left_to_it)
{
    char **argv = tune_words(&env, command(false, NULL));
    pid_t pid = fork();
    if (pid == 0) {
        freopen("/dev/null", "w", stdout);
        execv(argv[0], argv);
        _exit(127);
    }
    for (int i = 0; i < 600 && !any_run(); i++) {
        usleep(100000);
    }
    usleep(200000);
    kill(pid, SIGSTOP);
    declines(NULL, "Another tune is still at work on run");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    cr_expect_eq(run_tune(&env, command(true, NULL)).status, 0);
}
