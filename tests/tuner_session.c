/* tuner_session.c - tests of sessions in a made-up world with a fake clock: what is found, what
 * is claimed, how budgets end, what an interrupted session does when it is taken up. */
#include "tests/fault.h"
#include "tests/session_fixture.h"
#include "tests/session_util.h"

#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <string.h>

TestSuite(tuner_session, .init = start, .fini = stop);

Test(tuner_session, a_faster_candidate_is_found_and_confirmed_and_nothing_else)
{
    world.ln_time = seven_is_faster;
    SessionResult r = run(no_limit, 3);
    cr_assert_eq(r.ending, ENDING_EXHAUSTED, "%s", r.why);
    cr_assert_eq(r.n_trials, 40);
    cr_assert_eq(r.n_outcome[OUTCOME_PROMOTED], 1);
    const Winner *w = &r.winner;
    cr_assert(w->confirmed && w->index == 7 && !w->canonical);
    cr_assert_eq(w->n_processes, 13, "thirteen straight wins pass");
    cr_assert_eq(w->n_wins, 13);
    cr_assert_leq(w->p, 0.001);
    cr_assert(w->ratio.lo <= 0.8 && 0.8 <= w->ratio.hi, "%g %g", w->ratio.lo, w->ratio.hi);
    cr_assert_eq(logged.duel[0].series.verdict, VERDICT_FASTER);
    cr_assert_str_eq(w->built.schedule, "unroll a000007");
    cr_assert_eq(logged.winner.index, 7);
    cr_assert_eq(logged.ties.n, 1);
}

static double all_do_20_percent_more(uint64_t index)
{
    (void)index;
    return log(1.2);
}

static double all_do_20_percent_less(uint64_t index)
{
    (void)index;
    return -log(1.2);
}

Test(tuner_session, twenty_percent_more_work_loses_and_its_mirror_wins)
{
    world.n_candidates = 1;
    world.ln_time = all_do_20_percent_more;
    SessionResult r = run(no_limit, 0);
    cr_assert(!r.winner.confirmed && r.n_outcome[OUTCOME_M3] == 1);
    cr_assert(logged.n_winners == 1 && !logged.winner.confirmed, "the default is kept");
    cr_assert(strstr(r.why, "no confirmed improvement"), "%s", r.why);
    world.ln_time = all_do_20_percent_less;
    r = run(no_limit, 0);
    cr_assert(r.winner.confirmed && r.winner.index == 0);
}

static double each_a_bit_faster(uint64_t index)
{
    return -0.03 * (double)index;
}

Test(tuner_session, each_incumbent_is_beaten_by_the_next_and_ratios_add_up_along_the_chain)
{
    world.n_candidates = 10;
    world.ln_time = each_a_bit_faster;
    SessionResult r = run(no_limit, 0);
    cr_assert_eq(r.winner.index, 9);
    cr_assert_eq(log_entry(&logged, LOG_TRIAL, 9)->trial.incumbent, 8);
    cr_assert(fabs(r.ln_default + 0.27) < 0.02, "%g", r.ln_default);
    cr_assert(log_entry(&logged, LOG_TRIAL, 0)->trial.incumbent == INDEX_DEFAULT);
}

static Status odd_ones_fail(uint64_t index)
{
    static const Status as[] = {STATUS_CRASH, STATUS_TIMEOUT, STATUS_OOM, STATUS_WRONG,
                                STATUS_GARBAGE};
    return index % 2 ? as[index / 2 % countof(as)] : STATUS_OK;
}

static Status some_do_not_build(uint64_t index)
{
    static const Status as[] = {STATUS_ILLEGAL, STATUS_CC_ERROR, STATUS_CC_TIMEOUT};
    return index >= 34 ? as[index % 3] : STATUS_OK;
}

Test(tuner_session, failures_are_results_with_a_status_a_sentence_and_no_time)
{
    world.runs_as = odd_ones_fail;
    world.builds_as = some_do_not_build;
    SessionResult r = run(no_limit, 0);
    cr_assert_eq(r.n_trials, 40);
    cr_assert_eq(r.n_outcome[OUTCOME_FAILED], 17 + 6);
    cr_assert_eq(r.n_status[STATUS_CRASH], 4);
    cr_assert_eq(r.n_status[STATUS_ILLEGAL], 2);
    for (int i = 0; i < 40; i++) {
        const Trial *t = &log_entry(&logged, LOG_TRIAL, i)->trial;
        if (t->status != STATUS_OK) {
            cr_assert(isnan(t->ln_ratio) && isnan(t->ln_default));
            cr_assert_str_eq(t->why, "made up");
        }
    }
}

Test(tuner_session, the_strategy_hears_of_every_candidate_once)
{
    world.ln_time = seven_is_faster;
    world.runs_as = odd_ones_fail;
    Order o = order_of(&env.model, world.n_candidates, 0);
    SessionPlan plan = world_plan(&world, &world_task);
    plan.strategy = order_strategy(&o);
    SessionResult r;
    session_run(&env, &plan, &r); /* without any recorder */
    cr_assert_eq(o.n_told, 40);
    cr_assert_eq(o.last_status, odd_ones_fail(39));
    cr_assert(isnan(o.last_ln));
}

Test(tuner_session, a_candidate_with_the_incumbents_code_is_not_measured)
{
    world.copies = true;
    SessionResult r = run(no_limit, 0);
    cr_assert_eq(r.n_outcome[OUTCOME_SAME], 40);
    cr_assert_eq(world.n_processes, 8, "those of the calibration");
}

/* ---- budgets ----------------------------------------------------------------------------- */

static Status hangs(uint64_t index)
{
    return index % 3 == 0 ? STATUS_TIMEOUT : STATUS_OK;
}

static double mixed(uint64_t index)
{
    return 0.3 * sin(12.9898 * (double)index) + 0.05;
}

/* Acceptance test 13, in a world with a fake clock. */
Test(tuner_session, acceptance_13_budgets_end_within_one_candidates_limit)
{
    Protocol p = protocol_default();
    p.candidate_limit_s = 2;
    world.n_candidates = 100000;
    world.build_ns = 150000000;
    world.ln_time = mixed;
    world.runs_as = hangs;
    for (uint64_t s = 5; s <= 240; s += 5) {
        world.now_ns = 1000000007 * s;
        uint64_t began_ns = world.now_ns;
        SessionResult r =
            world_run(&env, &world, &logged, NULL, (Budget){.ns = s * 1000000000}, s, &p);
        double took_s = (double)(world.now_ns - began_ns) / 1e9;
        cr_assert(took_s <= (double)s + 2.0, "%g of %" PRIu64 " s", took_s, s);
        cr_assert_eq(r.ending, ENDING_BUDGET, "%s", r.why);
        cr_assert(fabs((double)r.elapsed_ns / 1e9 - took_s) < 1e-6);
        cr_assert(s < 60 || r.winner.confirmed, "%" PRIu64 " s: %s", s, r.why);
    }
}

Test(tuner_session, acceptance_13_a_second_is_too_short_and_says_so_at_once)
{
    SessionResult r = run((Budget){.ns = 1000000000}, 0);
    cr_assert_eq(r.ending, ENDING_TOO_SHORT);
    cr_assert(strstr(r.why, "nothing can be confirmed in a budget of 1 s"), "%s", r.why);
    cr_assert_eq(world.n_processes, 0);
    cr_assert_eq(r.elapsed_ns, 0);
    cr_assert_not(r.winner.confirmed);
}

Test(tuner_session, what_two_processes_take_shows_whether_a_budget_is_too_short)
{
    world.start_ns = 2000000000;
    SessionResult r = run((Budget){.ns = 30000000000}, 0);
    cr_assert_eq(r.ending, ENDING_TOO_SHORT, "%s", r.why);
    cr_assert_eq(world.n_processes, 2, "the first also lays out what all others find");
}

Test(tuner_session, without_a_champion_little_is_kept_for_a_match)
{
    world.n_candidates = 100000;
    world.start_ns = 100000000;
    SessionResult r = run((Budget){.ns = 60000000000}, 0);
    cr_assert_eq(r.incumbent, INDEX_DEFAULT);
    cr_assert_gt(r.elapsed_ns, 55000000000, "80 processes would be 8 s and more");
    cr_assert_leq(r.elapsed_ns, 60000000000);
}

Test(tuner_session, a_budget_of_trials_is_exact)
{
    world.ln_time = seven_is_faster;
    for (int n = 1; n <= 21; n += 5) {
        SessionResult r = run((Budget){.trials = n}, 3);
        cr_assert_eq(r.n_trials, n);
        cr_assert_eq(r.ending, ENDING_BUDGET);
    }
}

Test(tuner_session, time_counts_only_while_a_session_is_at_work)
{
    world.ln_time = seven_is_faster;
    Order o = order_of(&env.model, world.n_candidates, 0);
    SessionPlan plan = world_plan(&world, &world_task);
    plan.strategy = order_strategy(&o);
    plan.budget.ns = 60000000000;
    Session *s = session_start(&env, &plan);
    while (session_step(s)) {
        world.now_ns += 3600000000000; /* another session's turn */
    }
    session_finish(s);
    cr_assert_eq(session_result(s)->ending, ENDING_EXHAUSTED);
    cr_assert_lt(session_result(s)->elapsed_ns, 60000000000);
    cr_assert_eq(session_result(s)->winner.index, 7);
    session_release(s);
}

/* ---- noise ------------------------------------------------------------------------------- */

Test(tuner_session, a_noisy_machine_is_waited_for_and_the_waiting_counts)
{
    world.flags = PAIR_PREEMPTED;
    world.flags_until_ns = 6000000000; /* 1 + 2 + 4 s */
    SessionResult r = run((Budget){.ns = 100000000000}, 0);
    cr_assert_eq(world.n_waits, 3);
    cr_assert_not(r.noisy);
    cr_assert_geq(r.elapsed_ns, world.waited_ns);
}

/* What it would win is lost if nothing can be confirmed any more. */
Test(tuner_session, no_wait_leaves_too_little_time_to_confirm)
{
    world.flags_until_ns = UINT64_MAX;
    world.wild_until_sd = 0.5;
    world.start_ns = 400000000;
    SessionResult r = run((Budget){.ns = 11000000000}, 0);
    cr_assert_eq(world.n_waits, 0);
    cr_assert(r.noisy);
    cr_assert_neq(r.ending, ENDING_TOO_SHORT, "%s", r.why);
    cr_assert_gt(r.n_trials, 0);
}

Test(tuner_session, acceptance_22_a_noisy_machine_is_marked_after_a_tenth_of_the_budget)
{
    world.flags_until_ns = UINT64_MAX;
    world.wild_until_sd = 0.5;
    SessionResult r = run((Budget){.ns = 100000000000}, 0);
    cr_assert(r.noisy);
    cr_assert(world.n_waits == 3 && world.waited_ns == 7000000000, "1 + 2 + 4; 8 are too many");
    cr_assert_eq(r.n_trials, 40, "%s", r.why);
    cr_assert_gt(r.calibration.margin, 0.01, "decisions widen");
}

Test(tuner_session, acceptance_22_a_biased_harness_is_refused)
{
    Order o = order_of(&env.model, 1, 0);
    SessionPlan plan = world_plan(&world, &world_task);
    plan.strategy = order_strategy(&o);
    DuelProcess p[8] = {0};
    Pair pairs[9];
    for (int i = 0; i < 9; i++) {
        pairs[i] = (Pair){.a_ns = 100000, .b_ns = 103000};
    }
    for (int i = 0; i < 8; i++) {
        p[i].result = (ProcessResult){.pair = pairs, .n_pairs = 9};
    }
    Rules rules;
    Calibration c;
    rules_init(&rules, &plan.protocol);
    calibrate(&rules, p, 8, 1, &c);
    cr_assert(c.biased);
    logged.entry.n = 0;
    *vec_push(&logged.env.model, &logged.entry) =
        (LogEntry){.kind = LOG_CALIBRATION, .calibrated = {.n = 8, .process = p}};
    Past past = log_past(&logged);
    plan.past = &past;
    SessionResult r;
    session_run(&env, &plan, &r);
    cr_assert_eq(r.ending, ENDING_BIASED);
    cr_assert(strstr(r.why, "all 8 processes found the default 3.0% faster"), "%s", r.why);
    cr_assert_eq(o.at, 0, "no candidate was asked for");
}

Test(tuner_session, calibration_is_done_again_after_half_an_hour)
{
    world.n_candidates = 160;
    world.start_ns = 30000000000;
    Protocol p = protocol_default();
    p.candidate_limit_s = 100;
    world_run(&env, &world, &logged, NULL, no_limit, 0, &p);
    int n = 0;
    for (int i = 0; i < logged.entry.n; i++) {
        n += logged.entry.at[i].kind == LOG_CALIBRATION;
    }
    cr_assert_geq(n, 3);
}

static double alike(uint64_t index)
{
    (void)index;
    return -0.002;
}

Test(tuner_session, calibration_is_done_again_when_the_spread_has_changed)
{
    world.n_candidates = 120;
    world.ln_time = alike;
    world.process_sd = 0;
    world.flags_until_ns = 400000000; /* the first calibration sees another machine */
    world.wild_until_sd = 0.0001;
    Protocol p = protocol_default();
    p.theta_search = 0.55; /* so that every race is long enough to show its spread */
    world_run(&env, &world, &logged, NULL, no_limit, 0, &p);
    int again = 0;
    for (int i = 0; i < logged.entry.n; i++) {
        const LogEntry *e = &logged.entry.at[i];
        again += e->kind == LOG_CALIBRATION && e->calibrated.n_trials >= 50;
    }
    cr_assert_eq(again, 1, "%d", again);
}

/* ---- what goes wrong --------------------------------------------------------------------- */

static Status never_builds(uint64_t index)
{
    (void)index;
    return STATUS_CC_ERROR;
}

static void run_here(Env *e, void *arg)
{
    (void)e;
    (void)arg;
    run(no_limit, 0);
}

static void run_without_default(Env *e, void *arg)
{
    Order o = order_of(&e->model, 1, 0);
    SessionPlan plan = world_plan(&world, &world_task);
    plan.strategy = order_strategy(&o);
    plan.builder.build = arg;
    SessionResult r;
    session_run(e, &plan, &r);
}

static void refuse_all(void *ctx, Env *e, Arena *m, Build *b, int n, uint64_t limit_ns)
{
    (void)ctx;
    (void)e;
    (void)m;
    (void)limit_ns;
    for (int i = 0; i < n; i++) {
        b[i].status = never_builds(b[i].index);
        b[i].why = "no compiler";
    }
}

Test(tuner_session, a_default_that_does_not_build_is_said_in_a_sentence)
{
    must_fail(&env, run_without_default, refuse_all, E_BUILD,
              "the default schedule does not build: no compiler");
}

Test(tuner_session, a_default_that_does_not_run_is_said_in_a_sentence)
{
    world.sample_ns = 40000000000; /* longer than a candidate's limit */
    must_fail(&env, run_here, NULL, E_INPUT,
              "the default schedule does not run here (timeout)");
}

Test(tuner_session, a_process_that_cannot_be_started_is_tried_again_and_blames_no_candidate)
{
    world.refused = 2;
    SessionResult r = run(no_limit, 0);
    cr_assert_eq(r.n_outcome[OUTCOME_FAILED], 0);
    world.refused = 3;
    must_fail(&env, run_here, NULL, E_IO, "no process can be started: fork");
}

Test(tuner_session, few_libraries_are_kept_and_all_but_three_dropped)
{
    world.n_candidates = 200;
    world.ln_time = mixed;
    run(no_limit, 4);
    cr_assert_leq(world.n_open_most, 8 + 3, "a batch; the default, its copy and the incumbent");
    cr_assert_leq(world.n_open, 3 + 8, "%d", (int)world.n_open);
}

static void short_session(Env *e, void *arg)
{
    World w = world_plain();
    w.n_candidates = 3;
    w.ln_time = seven_is_faster;
    Order o = order_of(&e->model, w.n_candidates, 0);
    SessionPlan plan = world_plan(&w, &world_task);
    plan.strategy = order_strategy(&o);
    session_run(e, &plan, arg);
}

static bool try_session(void *ctx, Err *err)
{
    Env e;
    SessionResult r;
    (void)ctx;
    env_init(&e);
    bool ok = env_try(&e, short_session, &r);
    *err = e.err;
    env_release(&e);
    return ok;
}

Test(tuner_session, without_memory_it_fails_and_leaks_nothing)
{
    cr_assert_gt(fault_loop("alloc", try_session, NULL), 10);
}

/* Acceptance test 19, with a fake runner: the heap at each thousandth trial. */
static void watch_heap(void *ctx, const Trial *t)
{
    size_t *most = ctx;
    if (t->ordinal % 1000 == 999) {
        size_t used = mallinfo2().uordblks;
        most[0] = t->ordinal < 1000 ? used : most[0];
        most[1] = used;
    }
}

Test(tuner_session, acceptance_19_memory_is_flat_over_10000_candidates)
{
    world.n_candidates = 10000;
    Order o = order_of(&env.model, world.n_candidates, 9);
    SessionPlan plan = world_plan(&world, &world_task);
    plan.strategy = order_strategy(&o);
    size_t used[2] = {0};
    plan.recorder = (Recorder){.ctx = used, .trial = watch_heap};
    SessionResult r;
    session_run(&env, &plan, &r);
    cr_assert_eq(r.n_trials, 10000);
    cr_assert_leq(used[1], used[0] + 65536, "%zu, then %zu", used[0], used[1]);
}
