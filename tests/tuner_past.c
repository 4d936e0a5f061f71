/* tuner_past.c - sessions through the database: recorded as tune records them, ended at every single thing that is
 * recorded, and taken up again from the file. What is there in the end must be, row for row, what an uninterrupted
 * session leaves. With a fake clock. Acceptance test 8. */
#include "tests/db_util.h"
#include "tests/session_util.h"
#include "tuner/evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static Env env;
static TempDir dir;
static World world;

/* Moments since 1970 are all one moment: rows can be compared. */
static int same_moment(clockid_t clock, struct timespec *ts)
{
    *ts = (struct timespec){.tv_sec = 1000000000};
    return clock == CLOCK_REALTIME ? 0 : os_system.clock_gettime(clock, ts);
}

static double a_few_are_faster(uint64_t index)
{
    return index % 11 == 4 ? -0.02 * (double)(index / 11) - 0.03 : 0.01 * (double)(index % 9);
}

static Status odd_ones_fail(uint64_t index)
{
    return index % 5 == 3 ? STATUS_WRONG : index % 7 == 6 ? STATUS_CRASH : STATUS_OK;
}

static void start(void)
{
    env_init(&env);
    dir = temp_dir();
    os.clock_gettime = same_moment;
    world = world_plain();
    world.n_candidates = 26;
    world.ln_time = a_few_are_faster;
    world.runs_as = odd_ones_fail;
}

static void stop(void)
{
    os = os_system;
    temp_remove(&dir);
    env_release(&env);
}

TestSuite(tuner_past, .init = start, .fini = stop, .timeout = 1200);

/* ---- a session that dies ------------------------------------------------------------------------ */

typedef struct
    Mortal { /* a recorder that ends the session after so many things were recorded */
    Recorder in;
    int n, most; /* most -1: it lives */
} Mortal;

static void told(Mortal *m)
{
    if (++m->n == m->most) {
        fail(&env, E_INTERRUPT, "killed");
    }
}

#define TELLS(name, type)                    \
    static void on_##name(void *ctx, type x) \
    {                                        \
        Mortal *m = ctx;                     \
        m->in.name(m->in.ctx, x);            \
        told(m);                             \
    }
TELLS(calibration, const Calibrated *)
TELLS(trial, const Trial *)
TELLS(duel, const Duel *)
TELLS(winner, const Winner *)
TELLS(ties, const TieSet *)

static void on_process(void *ctx, const Duel *d, const DuelProcess *p)
{
    Mortal *m = ctx;
    m->in.process(m->in.ctx, d, p);
    told(m);
}

typedef struct Life {
    const char *path;
    Budget budget;
    bool resumed;
    Mortal mortal;
    Db *db;
    SessionResult result;
} Life;

static void live(Env *e, void *arg)
{
    Life *l = arg;
    Story s = story();
    s.n_trials = 0, s.wins = false;
    l->db = open_db(e, l->path, DB_WRITE);
    Told there = tell(l->db, &s);
    RunRecord run = {.db = l->db, .run = there.run, .strategy = "made up"};
    Protocol protocol = protocol_default();
    rules_init(&run.rules, &protocol);
    TaskRecord record = {
        .run = &run, .id = there.task, .task = &world_task, .base = "", .base_c_hash = {1, 1}};
    TaskPast past;
    task_past_init(e, &past, l->db, there.run, there.task);
    Past as_past = task_past(&past);
    run_record_resume(&run);
    task_record_resume(&record);
    world.now_ns = task_past_elapsed_ns(&past);
    l->mortal.in = task_recorder(&record);
    Order order = order_of(&e->model, world.n_candidates, 5);
    SessionPlan plan = world_plan(&world, &world_task);
    plan.strategy = order_strategy(&order);
    plan.recorder = (Recorder){&l->mortal, on_calibration, on_trial, on_process,
                               on_duel,    on_winner,      on_ties};
    plan.past = l->resumed ? &as_past : NULL;
    plan.budget = l->budget;
    session_run(e, &plan, &l->result);
}

/* False: it was killed. */
static bool run_life(Life *l)
{
    World fresh = world;
    bool lived = env_try(&env, live, l);
    cr_assert(lived || env.err.code == E_INTERRUPT, "%s", env.err.text);
    world = fresh;
    return lived;
}

static const char *all_of(Life *l)
{
    const char *text = contents(&env, l->db);
    db_close(l->db);
    return text;
}

/* Killed after every nth thing that is recorded. */
static void killed_everywhere(Budget budget)
{
    Life whole = {
        .path = temp_path(&dir, "whole.db"), .budget = budget, .mortal = {.most = -1}};
    int step = getenv("NC_FULL") ? 1 : 6;
    cr_assert(run_life(&whole));
    cr_expect(whole.result.winner.confirmed, "%s", whole.result.why);
    int n = whole.mortal.n;
    const char *wanted = all_of(&whole);
    for (int most = 1; most < n; most += step) {
        const char *path = arena_printf(&env.model, "%s/%d.db", dir.path, most);
        Life first = {.path = path, .budget = budget, .mortal = {.most = most}},
             second = {.path = path, .budget = budget, .resumed = true, .mortal = {.most = -1}};
        cr_assert_not(run_life(&first), "killed after %d", most);
        db_close(first.db);
        cr_assert(run_life(&second), "resumed after %d", most);
        cr_expect_eq(second.result.ending, whole.result.ending, "after %d", most);
        cr_assert_str_eq(all_of(&second), wanted, "killed after %d of %d", most, n);
    }
}

Test(tuner_past, acceptance_08_killed_anywhere_the_database_is_that_of_an_uninterrupted_run)
{
    killed_everywhere((Budget){0});
}

Test(tuner_past, the_same_with_a_budget_of_time)
{
    world.n_candidates = 100000;
    world.runs_as = NULL;
    killed_everywhere((Budget){.ns = 3000000000});
}

/* Killed while resumed, again and again. */
Test(tuner_past, a_run_may_be_killed_as_often_as_it_likes)
{
    Life whole = {.path = temp_path(&dir, "whole.db"), .mortal = {.most = -1}};
    cr_assert(run_life(&whole));
    const char *wanted = all_of(&whole);
    const char *path = arena_printf(&env.model, "%s/often.db", dir.path);
    Life l = {.path = path, .mortal = {.most = 5}};
    int n = 0;
    while (!run_life(&l)) {
        db_close(l.db);
        l = (Life){.path = path, .resumed = true, .mortal = {.most = 5}};
        cr_assert_lt(++n, 100);
    }
    cr_expect_gt(n, 5);
    cr_assert_str_eq(all_of(&l), wanted);
}

/* ---- what cannot be taken up ------------------------------------------------------------------------ */

Test(tuner_past, a_record_of_an_older_version_says_that_it_cannot_be_resumed)
{
    const char *path = arena_printf(&env.model, "%s/old.db", dir.path);
    Life first = {.path = path, .mortal = {.most = 9}},
         second = {.path = path, .resumed = true};
    cr_assert_not(run_life(&first));
    db_close(first.db);
    set_sql(path, "UPDATE trial SET elapsed_ns = NULL");
    must_fail(&env, live, &second, E_INPUT, "did not keep what resuming needs");
    db_close(second.db);
}

Test(tuner_past, pairs_that_were_changed_do_not_pass_for_what_was_decided)
{
    const char *path = arena_printf(&env.model, "%s/changed.db", dir.path);
    Life first = {.path = path, .mortal = {.most = 24}},
         second = {.path = path, .resumed = true};
    cr_assert_not(run_life(&first));
    db_close(first.db);
    set_sql(path, "UPDATE pair SET b_ns = a_ns / 2 WHERE duel = (SELECT min(idx) FROM duel "
                  "WHERE reason = 'futile')");
    must_fail(&env, live, &second, E_INPUT, "but its pairs say");
    db_close(second.db);
}
