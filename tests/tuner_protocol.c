/* tuner_protocol.c - tests of the decisions over plain pairs: which count, the race, the
 * replicate; and of the constants. Acceptance test 5. */
#include "tests/session_util.h"

#include <math.h>
#include <string.h>

static Rules rules;
static const Terms terms = {.margin_e4 = 100, .metric = METRIC_WALL, .n_threads = 1};

static void start(void)
{
    Protocol p = protocol_default();
    rules_init(&rules, &p);
}

TestSuite(tuner_protocol, .init = start);

/* ---- constants --------------------------------------------------------------------------- */

Test(tuner_protocol, every_constant_has_a_sensible_default_a_meaning_and_can_be_set)
{
    Protocol p = protocol_default();
    for (int i = 0; i < N_PROTOCOL; i++) {
        const ProtocolRow *r = &protocol_row[i];
        Err err;
        cr_assert_eq(protocol_get(&p, i), r->value, "%s", r->name);
        cr_assert(r->least <= r->value && r->value <= r->most, "%s", r->name);
        cr_assert_gt(strlen(r->meaning), 5);
        cr_assert(protocol_set(&p, r->name, r->value, &err), "%s", err.text);
    }
    cr_assert(p.alpha_search == 0.01 && p.alpha_title == 0.001 && p.beta == 0.05);
    cr_assert(p.theta_search == 0.7 && p.theta_title == 0.75 && p.pairs_most == 200);
    cr_assert(p.pairs == 9 && p.pairs_wide == 25 && p.title_processes == 40);
}

static void refused(const char *name, double value, const char *words)
{
    Protocol p = protocol_default(), was = p;
    Err err;
    cr_assert_not(protocol_set(&p, name, value, &err), "%s", name);
    cr_assert(strstr(err.text, words), "%s", err.text);
    cr_assert_eq(memcmp(&p, &was, sizeof p), 0, "nothing changed");
}

Test(tuner_protocol, what_is_no_value_for_a_constant_is_refused_in_a_sentence)
{
    refused("alpha", 0.1, "the protocol has no constant \"alpha\"");
    refused("pairs", 9.5, "pairs is an integer from 3 to 99, not 9.5: pairs of every other");
    refused("alpha_title", 0.5, "alpha_title is a number from 1e-06 to 0.05");
    refused("beta", NAN, "not nan");
}

static void contradicts(const char *name, double value, const char *words)
{
    Protocol p = protocol_default();
    Err err;
    cr_assert(protocol_agrees(&p, &err) && protocol_set(&p, name, value, &err));
    cr_assert_not(protocol_agrees(&p, &err), "%s", name);
    cr_assert(strstr(err.text, words), "%s", err.text);
}

/* A run's constants are read back in the order of their names. */
Test(tuner_protocol, constants_must_agree_once_all_are_set)
{
    Protocol p = protocol_default();
    Err err;
    contradicts("margin_least", 0.06, "margin_least is 0.06 and may not exceed margin_most");
    contradicts("title_processes", 10, "fewer than 13 processes cannot pass a title match");
    contradicts("pairs", 3, "may not exceed pairs");
    cr_assert(protocol_set(&p, "pairs", 3, &err) && protocol_set(&p, "unflagged_least", 3, &err));
    cr_assert(protocol_agrees(&p, &err), "%s", err.text);
}

Test(tuner_protocol, a_constant_that_was_set_is_what_is_decided_by)
{
    Protocol p = protocol_default();
    Err err;
    cr_assert(protocol_set(&p, "alpha_search", 0.05, &err));
    cr_assert(protocol_set(&p, "pairs_most", 100, &err));
    rules_init(&rules, &p);
    StopRule stop = rules_stop(&rules, &terms);
    cr_assert(stop.win[7] == 7 && stop.win[6] == -1 && stop.n == 101);
}

Test(tuner_protocol, thirteen_processes_are_the_fewest_that_pass_a_title_match)
{
    cr_assert_eq(rules.title_least, 13);
}

/* ---- which pairs count ------------------------------------------------------------------- */

/* Acceptance test 5: what the clock could not see is no sample. */
Test(tuner_protocol, acceptance_5_zero_or_backward_times_are_never_samples)
{
    Pair none[] = {{.a_ns = 0, .b_ns = 100},
                   {.a_ns = 100, .b_ns = 0},
                   {.a_ns = 0, .b_ns = 0},
                   {.a_ns = 100, .b_ns = 1, .flags = PAIR_CLOCK}};
    StopRule stop = rules_stop(&rules, &terms);
    Race race;
    race_start(&race, &stop, 100, 0, 0);
    for (int i = 0; i < 400; i++) {
        cr_assert_eq(race_add(&race, &none[i % 4]), OUTCOME_NONE);
    }
    cr_assert(race.n == 0 && race.wins == 0 && race.n_invalid == 400);
    PairsSummary s;
    pairs_summary(&rules.p, none, 4, METRIC_WALL, &s);
    cr_assert(s.n == 0 && s.n_invalid == 4 && isnan(s.median_ln));
    Trial t = {.n_processes = 1, .process[0].result = {.pair = none, .n_pairs = 4}};
    cr_assert_eq(trial_decide(&rules, &t), OUTCOME_CAP);
    cr_assert(isnan(t.ln_ratio), "never stored as a time");
}

Test(tuner_protocol, flagged_pairs_are_set_aside_whoever_won_them)
{
    static const int bits[] = {PAIR_PREEMPTED, PAIR_FAULTED, PAIR_MIGRATED};
    StopRule stop = rules_stop(&rules, &terms);
    for (size_t i = 0; i < countof(bits); i++) {
        Race race;
        race_start(&race, &stop, 100, 0, 0);
        for (int k = 0; k < 9; k++) { /* half of all: not more */
            Pair win = pair_flagged(5000, bits[i]), loss = pair_flagged(30000, bits[i]);
            race_add(&race, k % 2 ? &win : &loss);
            Pair good = pair_of(9800);
            race_add(&race, &good);
        }
        cr_assert(race.n == 9 && race.wins == 9 && race.n_flagged == 9 && !race.noisy);
        cr_assert_eq(race.outcome, OUTCOME_WON);
    }
}

Test(tuner_protocol, steal_and_voluntary_switches_are_noted_and_count)
{
    Pair p = pair_flagged(9800, PAIR_STEAL | PAIR_WAITED | PAIR_THROTTLED);
    cr_assert(pair_valid(&p) && !pair_disturbed(&p));
}

Test(tuner_protocol, where_most_pairs_are_flagged_they_count_from_then_on)
{
    StopRule stop = rules_stop(&rules, &terms);
    Race race;
    race_start(&race, &stop, 100, 0, 0);
    for (int i = 0; i < 20; i++) {
        Pair p = i < 10 ? pair_flagged(9000, PAIR_PREEMPTED) : pair_of(i % 2 ? 9000 : 10100);
        race_add(&race, &p);
    }
    cr_assert(race.n == 10 && !race.noisy, "ten of the last twenty are not more than half");
    race_start(&race, &stop, 100, 0, 0);
    Pair p = pair_flagged(9000, PAIR_PREEMPTED);
    for (int i = 0; i < 19; i++) {
        race_add(&race, &p);
    }
    cr_assert(race.n == 0 && !race.noisy, "there are no last twenty yet");
    for (int i = 0; i < 9; i++) {
        race_add(&race, &p);
    }
    cr_assert(race.noisy && race.n == 9 && race.outcome == OUTCOME_WON);
}

Test(tuner_protocol, a_process_with_few_quiet_pairs_takes_all_of_them)
{
    Pair p[9];
    for (int i = 0; i < 9; i++) {
        p[i] = i < 4 ? pair_of(9000) : pair_flagged(20000, PAIR_PREEMPTED);
    }
    PairsSummary s;
    pairs_summary(&rules.p, p, 9, METRIC_WALL, &s);
    cr_assert(s.n == 9 && s.kept_flagged && s.median_ln > 0);
    p[4] = pair_of(9000);
    pairs_summary(&rules.p, p, 9, METRIC_WALL, &s);
    cr_assert(s.n == 5 && !s.kept_flagged && fabs(s.median_ln - log(0.9)) < 1e-12);
}

Test(tuner_protocol, cpu_time_decides_only_where_both_samples_have_it)
{
    Pair p = {.a_ns = 100, .b_ns = 200, .a_cpu_ns = 100, .b_cpu_ns = 90};
    cr_assert(pair_won(&p, METRIC_CPU, 0) && !pair_won(&p, METRIC_WALL, 0));
    p.a_cpu_ns = 0;
    cr_assert_not(pair_won(&p, METRIC_CPU, 0));
}

/* ---- the race ---------------------------------------------------------------------------- */

static Race race_of(const Pair *pair, int n, int margin_e4)
{
    StopRule stop = rules_stop(&rules, &terms);
    Race race;
    race_start(&race, &stop, margin_e4, 0, 0);
    for (int i = 0; i < n; i++) {
        race_add(&race, &pair[i]);
    }
    return race;
}

/* So many pairs of one kind. */
static Race straight(int b_e4, int n)
{
    Pair pair[400];
    for (int i = 0; i < n; i++) {
        pair[i] = pair_of(b_e4);
    }
    return race_of(pair, n, 100);
}

Test(tuner_protocol, nine_straight_wins_are_enough_and_six_straight_losses)
{
    cr_assert_eq(straight(9800, 8).outcome, OUTCOME_NONE);
    Race won = straight(9800, 400);
    cr_assert(won.outcome == OUTCOME_WON && won.n == 9, "what follows changes nothing");
    cr_assert_leq(race_p(&won), 0.01);
    cr_assert_eq(straight(9950, 5).outcome, OUTCOME_NONE, "0.5%% is no win by 1%%");
    Race lost = straight(9950, 400);
    cr_assert(lost.outcome == OUTCOME_FUTILE && lost.n == 6 && lost.wins == 0);
    cr_assert_eq(race_p(&lost), 1);
}

Test(tuner_protocol, a_tie_is_a_loss_and_is_counted)
{
    Race r = straight(10000, 6);
    cr_assert(r.outcome == OUTCOME_FUTILE && r.ties == 6);
}

Test(tuner_protocol, the_screen_looks_at_the_warm_call_the_first_pair_and_the_first_three)
{
    StopRule stop = rules_stop(&rules, &terms);
    Race race;
    race_start(&race, &stop, 100, 1000, 4001);
    cr_assert_eq(race.outcome, OUTCOME_SLOW_CALL);
    race_start(&race, &stop, 100, 1000, 4000);
    cr_assert_eq(race.outcome, OUTCOME_NONE);
    race_start(&race, &stop, 100, UINT64_MAX / 2, UINT64_MAX);
    cr_assert_eq(race.outcome, OUTCOME_NONE, "no overflow");
    cr_assert_eq(straight(15001, 1).outcome, OUTCOME_R1);
    cr_assert_eq(straight(15000, 1).outcome, OUTCOME_NONE);
    cr_assert_eq(straight(10501, 3).outcome, OUTCOME_M3);
    cr_assert_eq(straight(10500, 3).outcome, OUTCOME_NONE);
    Pair spike[3] = {pair_of(9700), pair_of(40000), pair_of(9700)};
    cr_assert_eq(race_of(spike, 3, 100).outcome, OUTCOME_NONE, "one spike drops nobody");
}

Test(tuner_protocol, a_race_that_does_not_decide_is_capped)
{
    Pair pair[400];
    for (int i = 0; i < 400; i++) {
        pair[i] = pair_of(i * 61 % 100 < 61 ? 9800 : 10000);
    }
    Race r = race_of(pair, 400, 100);
    cr_assert(r.outcome == OUTCOME_CAP && r.n == 200, "%s %d", outcome_name[r.outcome], r.n);
}

/* ---- a candidate ------------------------------------------------------------------------- */

static Trial trial_of(const Pair *search, int n, const Pair *again, int n_again)
{
    Trial t = {.terms = {.margin_e4 = 100}, .n_processes = n_again > 0 ? 2 : 1};
    t.process[0].result = (ProcessResult){.pair = (Pair *)search, .n_pairs = n};
    t.process[1].result = (ProcessResult){.pair = (Pair *)again, .n_pairs = n_again};
    return t;
}

Test(tuner_protocol, a_win_is_replicated_by_the_median_of_a_fresh_process)
{
    Pair fast[9], level[9];
    for (int i = 0; i < 9; i++) {
        fast[i] = pair_of(9700);
        level[i] = pair_of(i < 4 ? 9000 : 9901);
    }
    Trial t = trial_of(fast, 9, NULL, 0);
    cr_assert_eq(trial_decide(&rules, &t), OUTCOME_WON);
    t = trial_of(fast, 9, fast, 9);
    cr_assert_eq(trial_decide(&rules, &t), OUTCOME_PROMOTED);
    cr_assert(fabs(t.ln_ratio - log(0.97)) < 1e-12);
    t = trial_of(fast, 9, level, 9);
    cr_assert_eq(trial_decide(&rules, &t), OUTCOME_REPLICATE_FAILED, "0.99 is no 1%%");
    cr_assert(fabs(t.ln_ratio - log(0.9901)) < 1e-12, "the estimate without selection");
}

Test(tuner_protocol, a_process_that_did_not_end_well_is_no_slow_one)
{
    Trial t = trial_of(NULL, 0, NULL, 0);
    t.process[0].result.status = STATUS_WRONG;
    cr_assert_eq(trial_decide(&rules, &t), OUTCOME_FAILED);
    cr_assert(isnan(t.ln_ratio));
}

Test(tuner_protocol, warm_calls_drop_nobody_who_was_allowed_to_take_pairs)
{
    Pair fast[9];
    for (int i = 0; i < 9; i++) {
        fast[i] = pair_of(9700);
    }
    Trial t = trial_of(fast, 9, NULL, 0);
    t.process[0].result.warm_a_ns = 1000;
    t.process[0].result.warm_b_ns = 9000;
    cr_assert_eq(trial_decide(&rules, &t), OUTCOME_WON);
    t.process[0].result.n_pairs = 0;
    cr_assert_eq(trial_decide(&rules, &t), OUTCOME_SLOW_CALL);
    cr_assert(fabs(t.ln_ratio - log(9)) < 1e-12);
}

Test(tuner_protocol, on_a_noisy_machine_the_screen_is_wider)
{
    Terms quiet = {100, METRIC_WALL, 0.02, 1}, noisy = {100, METRIC_WALL, 0.3, 1};
    StopRule a = rules_stop(&rules, &quiet), b = rules_stop(&rules, &noisy);
    cr_assert(a.first_x100 == 150 && a.third_x100 == 105, "as in a world without noise");
    cr_assert(b.first_x100 == 246 && b.third_x100 == 145);
    Pair slow[3] = {pair_of(13000), pair_of(13000), pair_of(13000)};
    Race race;
    race_start(&race, &b, 100, 0, 0);
    for (int i = 0; i < 3; i++) {
        race_add(&race, &slow[i]);
    }
    cr_assert_eq(race.outcome, OUTCOME_NONE);
}

/* Flags are those of the calling thread; another one may have been held up in this very
 * pair. */
Test(tuner_protocol, one_pair_drops_nobody_where_other_threads_cannot_be_seen)
{
    Terms two = {100, METRIC_WALL, 0, 2};
    StopRule stop = rules_stop(&rules, &two);
    Pair spike = pair_of(600000), good = pair_of(9700);
    Race race;
    race_start(&race, &stop, 100, 0, 0);
    cr_assert_eq(race_add(&race, &spike), OUTCOME_NONE);
    race_add(&race, &good);
    cr_assert_eq(race_add(&race, &good), OUTCOME_NONE);
}
