/* tuner_resume.c - tests of sessions that were interrupted: given what was recorded, they do
 * what they would have done. Acceptance tests 8 (the session's part) and 15. */
#include "tests/session_fixture.h"
#include "tests/session_util.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

TestSuite(tuner_resume, .init = start, .fini = stop);

static Status odd_ones_fail(uint64_t index)
{
    static const Status as[] = {STATUS_CRASH, STATUS_TIMEOUT, STATUS_OOM, STATUS_WRONG,
                                STATUS_GARBAGE};
    return index % 2 ? as[index / 2 % countof(as)] : STATUS_OK;
}

/* ---- taken up again ---------------------------------------------------------------------- */

static double a_few_are_faster(uint64_t index)
{
    return index % 11 == 4 ? -0.02 * (double)(index / 11) - 0.03 : 0.01 * (double)(index % 9);
}

static uint64_t elapsed_at(const LogEntry *e)
{
    return e->kind == LOG_CALIBRATION ? e->calibrated.elapsed_ns
           : e->kind == LOG_TRIAL     ? e->trial.elapsed_ns
                                      : e->process.elapsed_ns;
}

/* Records a whole session; then, for every cut of its record, a second session that is given
 * what was recorded before the cut must record exactly what the first recorded behind it. */
static void cut_everywhere(Budget budget)
{
    World fresh = world;
    SessionResult whole = run(budget, 5);
    cr_assert(whole.winner.confirmed, "%s", whole.why);
    for (int cut = 0; cut <= logged.entry.n; cut++) {
        Log rest;
        log_init(&rest);
        logged.visible = cut;
        Past past = log_past(&logged);
        world = fresh;
        world.now_ns = cut > 0 ? elapsed_at(&logged.entry.at[cut - 1]) : 0;
        SessionResult r = world_run(&env, &world, &rest, &past, budget, 5, NULL);
        cr_assert_eq(rest.entry.n, logged.entry.n - cut, "cut at %d", cut);
        for (int i = 0; i < rest.entry.n; i++) {
            cr_assert_str_eq(rest.entry.at[i].line, logged.entry.at[cut + i].line);
        }
        cr_assert_eq(r.winner.index, whole.winner.index);
        cr_assert_eq(r.winner.duel, whole.winner.duel);
        cr_assert_eq(r.winner.p, whole.winner.p);
        cr_assert_eq(r.ending, whole.ending);
        cr_assert_eq(r.elapsed_ns, whole.elapsed_ns);
        cr_assert_eq(rest.ties.pick, logged.ties.pick);
        cr_assert_eq(rest.ties.n, logged.ties.n);
        log_release(&rest);
    }
}

/* Acceptance test 8, of the session's part: whatever instant it was killed at. */
Test(tuner_resume, acceptance_8_killed_anywhere_it_goes_on_as_it_would_have)
{
    world.n_candidates = 60;
    world.ln_time = a_few_are_faster;
    world.runs_as = odd_ones_fail;
    cut_everywhere(no_limit);
}

Test(tuner_resume, the_same_with_a_budget_of_time)
{
    world.n_candidates = 100000;
    world.ln_time = a_few_are_faster;
    cut_everywhere((Budget){.ns = 4000000000});
}

Test(tuner_resume, the_same_where_it_had_waited_for_a_quiet_machine)
{
    world.n_candidates = 60;
    world.ln_time = a_few_are_faster;
    world.flags = PAIR_FAULTED;
    world.flags_until_ns = 3000000000;
    cut_everywhere((Budget){.ns = 60000000000});
}

Test(tuner_resume, a_signal_lets_the_current_candidate_finish_and_nothing_is_claimed)
{
    world.ln_time = a_few_are_faster;
    world.stop_after = 30; /* among the candidates */
    World fresh = world;
    SessionResult r = run(no_limit, 5);
    cr_assert_eq(r.ending, ENDING_INTERRUPTED);
    cr_assert_leq(world.n_processes, 31, "at most a replicate more");
    cr_assert_eq(logged.n_winners, 0);
    int before = logged.entry.n;
    Log rest, whole;
    log_init(&rest);
    log_init(&whole);
    Past past = log_past(&logged);
    fresh.stop_after = 0;
    world = fresh;
    world_run(&env, &world, &whole, NULL, no_limit, 5, NULL);
    world = fresh;
    r = world_run(&env, &world, &rest, &past, no_limit, 5, NULL);
    cr_assert_eq(r.ending, ENDING_EXHAUSTED);
    cr_assert_eq(rest.entry.n + before, whole.entry.n);
    cr_assert_str_eq(rest.entry.at[rest.entry.n - 1].line,
                     whole.entry.at[whole.entry.n - 1].line);
    log_release(&rest);
    log_release(&whole);
}

Test(tuner_resume, a_signal_in_the_title_match_keeps_its_evidence_for_later)
{
    world.ln_time = seven_is_faster;
    World fresh = world;
    run(no_limit, 3);
    int in_match = (int)world.n_processes - 5;
    Log cut;
    log_init(&cut);
    world = fresh;
    world.stop_after = in_match;
    SessionResult r = world_run(&env, &world, &cut, NULL, no_limit, 3, NULL);
    cr_assert_eq(r.ending, ENDING_INTERRUPTED, "%s", r.why);
    cr_assert(!r.winner.confirmed && cut.n_winners == 0);
    cr_assert_eq(cut.duel[0].series.outcome, OUTCOME_CUT);
    Past past = log_past(&cut);
    world = fresh;
    r = world_run(&env, &world, &cut, &past, no_limit, 3, NULL);
    cr_assert(r.winner.confirmed && r.winner.n_processes == 13);
    cr_assert_eq(world.n_processes, 5, "only those that were missing");
    log_release(&cut);
}

static void resume_logged(Env *e, void *arg)
{
    (void)e;
    (void)arg;
    Log rest;
    log_init(&rest);
    Past past = log_past(&logged);
    world_run(&env, &world, &rest, &past, no_limit, 6, NULL);
    log_release(&rest);
}

Test(tuner_resume, a_record_of_another_seed_is_refused)
{
    run((Budget){.trials = 9}, 5);
    must_fail(&env, resume_logged, NULL, E_INPUT,
              "another seed, strategy, space or batch size");
}

Test(tuner_resume, a_record_whose_pairs_say_otherwise_is_refused)
{
    run((Budget){.trials = 9}, 6);
    log_entry(&logged, LOG_TRIAL, 0)->trial.outcome = OUTCOME_PROMOTED;
    must_fail(&env, resume_logged, NULL, E_INPUT, "is recorded as promoted, but its pairs say");
}

/* Acceptance test 15. */
Test(tuner_resume, acceptance_15_the_same_seed_and_timings_give_the_same_trials_and_winner)
{
    world.ln_time = a_few_are_faster;
    World fresh = world;
    SessionResult a = run(no_limit, 8);
    Log again;
    log_init(&again);
    world = fresh;
    SessionResult b = world_run(&env, &world, &again, NULL, no_limit, 8, NULL);
    cr_assert_eq(again.entry.n, logged.entry.n);
    for (int i = 0; i < again.entry.n; i++) {
        cr_assert_str_eq(again.entry.at[i].line, logged.entry.at[i].line);
    }
    cr_assert(a.winner.confirmed && a.winner.index == b.winner.index);
    log_release(&again);
}
