/* tuner_confirm.c - tests of what sessions claim: title matches, tie sets, the pick, duels of
 * any two. Acceptance test 16. */
#include "tests/session_fixture.h"
#include "tests/session_util.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

TestSuite(tuner_confirm, .init = start, .fini = stop);

static const Trial *trial_of_index(const Log *l, uint64_t index)
{
    for (int i = 0; i < l->entry.n; i++) {
        if (l->entry.at[i].kind == LOG_TRIAL && l->entry.at[i].trial.index == index) {
            return &l->entry.at[i].trial;
        }
    }
    cr_assert_fail("no trial of candidate %" PRIu64, index);
    return NULL;
}

/* ---- titles ------------------------------------------------------------------------------ */

static double only_zero_is_faster(uint64_t index)
{
    return index == 0 ? -0.05 : 0;
}

/* The search is told 4% too much of each: later candidates beat a better one before them. */
Test(tuner_confirm,
     a_champion_that_fails_gives_way_to_the_incumbent_before_it_at_half_the_alpha)
{
    world.n_candidates = 2;
    world.ln_time = only_zero_is_faster;
    world.flattered = -0.08;
    SessionResult r = run(no_limit, 0);
    cr_assert_eq(r.n_outcome[OUTCOME_PROMOTED], 2);
    cr_assert_eq(logged.duel[0].b, 1);
    cr_assert_eq(logged.duel[0].series.outcome, OUTCOME_TITLE_FAILED);
    cr_assert_eq(logged.duel[1].b, 0);
    cr_assert_eq(logged.duel[1].series.alpha, 0.0005);
    cr_assert(r.winner.confirmed && r.winner.index == 0);
}

Test(tuner_confirm, no_more_than_three_others_may_try)
{
    world.n_candidates = 12;
    world.flattered = -0.08; /* by 8% each: all twelve are promoted, and equal to the default */
    world.process_sd = 0.0001;
    world.pair_sd = 0.0004;
    world.ln_time = NULL;
    Protocol p = protocol_default();
    SessionResult r = world_run(&env, &world, &logged, NULL, no_limit, 0, &p);
    cr_assert_eq(r.n_outcome[OUTCOME_PROMOTED], 12);
    cr_assert_leq(logged.n_duels, 4 + 8);
    int n_titles = 0;
    for (int i = 0; i < logged.n_duels; i++) {
        n_titles += logged.duel[i].stage == DUEL_TITLE;
    }
    cr_assert(r.winner.confirmed || n_titles == 4, "%d", n_titles);
}

/* ---- tie sets ---------------------------------------------------------------------------- */

/* Five candidates within 0.4% of each other, all else slower by 3% and more. */
static double five_alike(uint64_t index)
{
    static const double best[5] = {-0.3, -0.302, -0.299, -0.301, -0.304};
    return index >= 20 && index < 25 ? best[index - 20] : -0.27 + 0.004 * (double)(index % 50);
}

static const char *simpler_at_22(uint64_t index, char text[64])
{
    snprintf(text, 64, "%ssplit n %02d pad", index == 22 ? "" : "unroll m; ", (int)index);
    return text;
}

/* Acceptance test 16: recorded noise, every candidate tried, in five orders. */
Test(tuner_confirm, acceptance_16_five_seeds_on_an_exhausted_space_record_the_same_pick)
{
    Noise *noise = arena_new(&env.model, Noise);
    noise_read(&env, noise);
    world.noise = noise;
    world.ln_time = five_alike;
    world.schedule = simpler_at_22;
    bool champion[64] = {false};
    for (uint64_t seed = 1; seed <= 5; seed++) {
        Log l;
        log_init(&l);
        SessionResult r = world_run(&env, &world, &l, NULL, no_limit, seed, NULL);
        cr_assert_eq(r.ending, ENDING_EXHAUSTED);
        cr_assert(r.winner.confirmed && r.winner.index == 22, "seed %d: %d, %d ties", (int)seed,
                  (int)r.winner.index, l.ties.n);
        cr_assert_gt(l.ties.n, 1);
        cr_assert_str_eq(l.winner.built.schedule, "split n 22 pad");
        champion[l.ties.champion] = true;
        cr_assert_eq(l.ties.at[0].index, 22, "in canonical order");
        log_release(&l);
    }
    int n = 0;
    for (int i = 0; i < 64; i++) {
        n += champion[i];
    }
    cr_assert_gt(n, 1, "the seeds had different champions, or this shows nothing");
}

Test(tuner_confirm, the_pick_has_a_title_match_of_its_own_against_the_default)
{
    world.ln_time = five_alike;
    world.schedule = simpler_at_22;
    SessionResult r = run(no_limit, 2);
    const Duel *d = &logged.duel[r.winner.duel];
    cr_assert(d->stage == DUEL_TITLE && d->a == INDEX_DEFAULT && d->b == 22);
    cr_assert_eq(d->series.outcome, OUTCOME_TITLE_PASSED);
    cr_assert(r.winner.canonical == (logged.ties.champion != 22));
}

Test(tuner_confirm, every_trial_was_measured_once_whatever_the_order)
{
    world.ln_time = five_alike;
    run(no_limit, 17);
    int n_trials[64] = {0};
    cr_assert_leq(world.n_candidates, countof(n_trials));
    for (int i = 0; i < logged.entry.n; i++) {
        const LogEntry *entry = &logged.entry.at[i];
        if (entry->kind == LOG_TRIAL) {
            cr_assert_lt(entry->trial.index, world.n_candidates);
            n_trials[entry->trial.index] += entry->trial.race.n > 0;
        }
    }
    for (uint64_t i = 0; i < world.n_candidates; i++) {
        cr_assert_eq(n_trials[i], 1, "candidate %d: %d trials", (int)i, n_trials[i]);
    }
}

static const char *by_number(uint64_t index, char text[64])
{
    snprintf(text, 64, "unroll a%03d", (int)(index * 37 % 200));
    return text;
}

static double all_a_bit_faster(uint64_t index)
{
    (void)index;
    return -0.1;
}

/* More candidates tie than there is room for: the first in canonical order are among them. */
Test(tuner_confirm, two_hundred_alike_have_one_pick_and_the_champion_stays_in_the_set)
{
    world.n_candidates = 200;
    world.ln_time = all_a_bit_faster;
    world.schedule = by_number;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        SessionResult r = run(no_limit, seed);
        cr_assert_str_eq(logged.winner.built.schedule, "unroll a000", "%d: %s", (int)seed,
                         logged.winner.built.schedule);
        bool has_champion = false;
        for (int i = 0; i < logged.ties.n; i++) {
            has_champion |= logged.ties.at[i].index == logged.ties.champion;
        }
        cr_assert(has_champion && r.winner.confirmed);
        int n_matches = 0;
        for (int i = 0; i < logged.n_duels; i++) {
            n_matches += logged.duel[i].stage == DUEL_EQUIVALENCE;
        }
        cr_assert_leq(n_matches, 8);
    }
}

static double zero_then_one(uint64_t index)
{
    return index == 0 ? -0.05 : -0.1;
}

static bool one_crashes_now;
static Status one_crashes(uint64_t index)
{
    return index == 1 && one_crashes_now ? STATUS_CRASH : STATUS_OK;
}

static void crash_from_now_on(void *ctx, const Trial *t)
{
    (void)ctx;
    one_crashes_now = t->index == 1;
}

Test(tuner_confirm, a_champion_that_crashes_in_its_title_match_is_no_winner)
{
    world.n_candidates = 2;
    world.ln_time = zero_then_one;
    world.runs_as = one_crashes;
    logged.on_trial = crash_from_now_on;
    SessionResult r = run(no_limit, 0);
    cr_assert_eq(r.incumbent, 1);
    cr_assert_eq(logged.duel[0].series.outcome, OUTCOME_FAILED);
    cr_assert(r.winner.confirmed && r.winner.index == 0);
}

/* ---- a search that its caller steers ----------------------------------------------------- */

typedef struct Steered {
    Order order;
    SessionPlan plan;
    Session *session;
} Steered;

static void steer(Steered *x, Budget budget)
{
    x->order = order_of(&env.model, world.n_candidates, 3);
    x->plan = world_plan(&world, &world_task);
    x->plan.strategy = order_strategy(&x->order);
    x->plan.recorder = log_recorder(&logged);
    x->plan.budget = budget;
    x->session = session_start(&env, &x->plan);
}

Test(tuner_confirm, a_search_that_is_ended_early_is_confirmed_all_the_same)
{
    Steered x;
    world.ln_time = seven_is_faster;
    steer(&x, no_limit);
    while (session_result(x.session)->incumbent != 7 && session_step(x.session)) {
    }
    session_finish(x.session);
    const SessionResult *r = session_result(x.session);
    cr_assert(r->winner.confirmed && r->winner.index == 7, "%d %s", r->ending, r->why);
    cr_assert_eq(r->ending, ENDING_BUDGET, "%d %s", r->ending, r->why);
    cr_assert(strstr(r->why, "the search was ended after"), "%s", r->why);
    session_release(x.session);
}

Test(tuner_confirm, more_time_opens_a_search_again)
{
    Steered x;
    world.n_candidates = 1000;
    steer(&x, (Budget){.ns = 4000000000});
    while (session_step(x.session)) {
    }
    int64_t n = session_result(x.session)->n_trials;
    cr_assert_eq(session_result(x.session)->ending, ENDING_BUDGET);
    session_extend(x.session, 2000000000);
    while (session_step(x.session)) {
    }
    int64_t more = session_result(x.session)->n_trials;
    cr_assert_gt(more, n + 50, "%d, then %d", (int)n, (int)more);
    session_release(x.session);
}

static bool ask_search(void *ctx, uint64_t *index)
{
    return search_ask(ctx, index);
}

static void tell_search(void *ctx, uint64_t index, Status status, double ln_ratio)
{
    search_tell(ctx, index, status, ln_ratio);
}

/* Time ends within a batch, of which the strategy hears as a whole: the rest of it comes first when
 * there is more. */
Test(tuner_confirm, what_was_asked_for_and_not_measured_comes_when_there_is_more_time)
{
    Steered x;
    Search search, again;
    SearchSpace space = {.n = 1000};
    world.n_candidates = 1000;
    search_init(&env, &env.model, &search, STRATEGY_RANDOM, &space, 5, 8);
    search_init(&env, &env.model, &again, STRATEGY_RANDOM, &space, 5, 1);
    steer(&x, (Budget){.ns = 2000000000});
    x.plan.strategy = (Proposer){.ctx = &search, .ask = ask_search, .tell = tell_search};
    int n_partial = 0;
    for (int i = 0; i < 60; i++) {
        while (session_step(x.session)) {
        }
        n_partial += session_result(x.session)->n_trials % 8 != 0;
        session_extend(x.session, 37000000);
    }
    cr_assert_gt(n_partial, 10);
    cr_assert_gt(session_result(x.session)->n_trials, 30);
    for (int i = 0, trial = 0; i < logged.entry.n; i++) {
        uint64_t index;
        if (logged.entry.at[i].kind == LOG_TRIAL) {
            cr_assert(search_ask(&again, &index));
            search_tell(&again, index, STATUS_OK, NAN);
            cr_assert_eq(logged.entry.at[i].trial.index, index, "trial %d", trial++);
        }
    }
    session_release(x.session);
}

Test(tuner_confirm, any_two_can_be_compared_and_a_copy_is_no_different)
{
    Steered x;
    Duel d;
    world.ln_time = seven_is_faster;
    steer(&x, no_limit);
    cr_assert(session_duel(x.session, DUEL_COMPARE, 7, 3, &d));
    cr_assert_eq(d.series.verdict, VERDICT_SLOWER);
    cr_assert(d.series.ratio.lo > 1.2 && d.built_a.c_hash.lo == 9);
    cr_assert(session_duel(x.session, DUEL_COMPARE, 3, 7, &d));
    cr_assert_eq(d.series.verdict, VERDICT_FASTER);
    cr_assert(session_duel(x.session, DUEL_COMPARE, INDEX_DEFAULT, INDEX_COPY, &d));
    cr_assert_eq(d.series.verdict, VERDICT_EQUIVALENT);
    cr_assert_eq(x.order.at, 0, "the strategy was not asked");
    cr_assert_eq(logged.n_duels, 3);
    cr_assert_eq(world.n_open, 2, "the default and its copy");
    session_release(x.session);
}

Test(tuner_confirm, there_is_no_duel_in_a_second)
{
    Steered x;
    Duel d;
    steer(&x, (Budget){.ns = 1000000000});
    cr_assert_not(session_duel(x.session, DUEL_COMPARE, 7, 3, &d));
    cr_assert_eq(session_result(x.session)->ending, ENDING_TOO_SHORT);
    session_release(x.session);
}

/* ---- recorded decisions, made again ------------------------------------------------------ */

static int processes_of_title(DuelProcess out[40])
{
    int n = 0;
    for (int i = 0; i < logged.entry.n; i++) {
        const LogEntry *e = &logged.entry.at[i];
        if (e->kind == LOG_PROCESS && e->duel == 0) {
            out[n++] = e->process;
        }
    }
    return n;
}

Test(tuner_confirm, all_that_was_recorded_follows_from_its_pairs)
{
    Rules rules;
    Protocol p = protocol_default();
    Err err;
    rules_init(&rules, &p);
    world.ln_time = five_alike;
    run(no_limit, 4);
    for (int i = 0; i < (int)world.n_candidates; i++) {
        cr_assert(trial_recheck(&rules, &log_entry(&logged, LOG_TRIAL, i)->trial, &err), "%s",
                  err.text);
    }
    DuelProcess process[40];
    int n = processes_of_title(process);
    cr_assert(series_recheck(&rules, &logged.duel[0].series, process, n, &err), "%s", err.text);
    const Calibrated *c = &log_entry(&logged, LOG_CALIBRATION, 0)->calibrated;
    cr_assert(calibration_recheck(&rules, &c->result, c->process, c->n, 2, &err), "%s",
              err.text);
}

Test(tuner_confirm, what_was_changed_afterwards_is_named)
{
    Rules rules;
    Protocol p = protocol_default();
    Err err;
    rules_init(&rules, &p);
    world.ln_time = seven_is_faster;
    run(no_limit, 3);
    Trial *t = &log_entry(&logged, LOG_TRIAL, 0)->trial;
    for (int i = 0; i < t->process[0].result.n_pairs; i++) {
        uint64_t *ns = &t->process[0].result.pair[i].b_ns, was = *ns;
        *ns /= 4;
        cr_assert_not(trial_recheck(&rules, t, &err), "pair %d", i);
        cr_assert(strstr(err.text, "but the pairs say"), "%s", err.text);
        *ns = was;
    }
    Outcome outcome = t->outcome;
    t->outcome = OUTCOME_PROMOTED;
    cr_assert_not(trial_recheck(&rules, t, &err));
    cr_assert(strstr(err.text, "the outcome is recorded as promoted"), "%s", err.text);
    t->outcome = outcome;
    DuelProcess process[40];
    int n = processes_of_title(process);
    Series series = logged.duel[0].series;
    series.verdict = VERDICT_EQUIVALENT;
    cr_assert_not(series_recheck(&rules, &series, process, n, &err));
    cr_assert(
        strstr(err.text, "the verdict is recorded as EQUIVALENT, but the pairs say FASTER"),
        "%s", err.text);
    series = logged.duel[0].series;
    cr_assert_not(series_recheck(&rules, &series, process, n - 1, &err),
                  "a process is missing");
    Calibrated *c = &log_entry(&logged, LOG_CALIBRATION, 0)->calibrated;
    c->result.margin_e4 = 50;
    cr_assert_not(calibration_recheck(&rules, &c->result, c->process, c->n, 2, &err));
    cr_assert(strstr(err.text, "the margin is recorded as 0.005"), "%s", err.text);
}

/* What a database stores of each duel. */
Test(tuner_confirm, a_duel_of_any_stage_can_be_recounted)
{
    Rules rules;
    Protocol p = protocol_default();
    rules_init(&rules, &p);
    world.ln_time = seven_is_faster;
    run(no_limit, 3);
    Recount c;
    const Trial *won = trial_of_index(&logged, 7);
    duel_recount(&env.model, &rules, DUEL_SEARCH, &won->terms, 0, &won->process[0], 1, &c);
    cr_assert(c.outcome == OUTCOME_WON && c.n == 9 && c.wins == 9 && c.losses == 0);
    cr_assert(fabs(c.a_ns - 100000) < 500 && fabs(c.b_ns - 80000) < 500 && c.b_min_ns < c.b_ns);
    duel_recount(&env.model, &rules, DUEL_REPLICATE, &won->terms, 0, &won->process[1], 1, &c);
    cr_assert(c.outcome == OUTCOME_PROMOTED && c.n == 9 && c.wins == 9);
    cr_assert(fabs(c.ratio.median - 0.8) < 0.01 && isnan(c.ratio.lo));
    DuelProcess process[40];
    int n = processes_of_title(process);
    duel_recount(&env.model, &rules, DUEL_TITLE, &won->terms, 0.001, process, n, &c);
    cr_assert(c.outcome == OUTCOME_TITLE_PASSED && c.verdict == VERDICT_FASTER && c.n == 13);
    cr_assert_eq(c.p, logged.winner.p);
    cr_assert(c.ratio.lo == logged.winner.ratio.lo && c.ratio.hi == logged.winner.ratio.hi);
    duel_recount(&env.model, &rules, DUEL_TITLE, &won->terms, 0.001, process, 5, &c);
    cr_assert(c.outcome == OUTCOME_CUT && c.verdict == VERDICT_UNDECIDED);
    const Calibrated *a = &log_entry(&logged, LOG_CALIBRATION, 0)->calibrated;
    duel_recount(&env.model, &rules, DUEL_CALIBRATE, &won->terms, 0, a->process, a->n, &c);
    cr_assert(c.n == 8 && c.ratio.lo < 1 && c.ratio.hi > 1 && fabs(c.a_ns - c.b_ns) < 500);
}
