/* tuner_series.c - tests of what is decided over processes, by plain pairs: series,
 * calibration; and of budgets. */
#include "tests/session_util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static Rules rules;

static void start(void)
{
    Protocol p = protocol_default();
    rules_init(&rules, &p);
}

TestSuite(tuner_series, .init = start);

/* ---- series of processes ----------------------------------------------------------------- */

static ProcessResult process_of(Pair pair[9], int b_e4)
{
    for (int i = 0; i < 9; i++) {
        pair[i] = pair_of(b_e4);
    }
    return (ProcessResult){.pair = pair, .n_pairs = 9};
}

/* One process for each letter: - for 2% faster, = for as fast, + for 2% slower, . for 0.3%
 * faster, , for 0.3% slower. Returns how many were taken. */
static int play(Series *m, DuelStage stage, const char *letters)
{
    static const int e4[128] = {
        ['-'] = 9800, ['='] = 10000, ['+'] = 10200, ['.'] = 9970, [','] = 10030};
    Pair pair[9];
    series_start(m, &rules, stage, 0.001, METRIC_WALL);
    for (; *letters && m->outcome == OUTCOME_NONE; letters++) {
        ProcessResult r = process_of(pair, e4[(int)*letters]);
        series_add(m, &r);
    }
    return m->n;
}

#define TEN(c) c c c c c c c c c c

Test(tuner_series, thirteen_straight_processes_pass_a_title_match)
{
    Series m;
    cr_assert_eq(play(&m, DUEL_TITLE, "------------"), 12);
    cr_assert(m.outcome == OUTCOME_NONE && m.verdict == VERDICT_UNDECIDED);
    cr_assert_eq(play(&m, DUEL_TITLE, TEN("-") TEN("-")), 13);
    cr_assert(m.outcome == OUTCOME_TITLE_PASSED && m.verdict == VERDICT_FASTER);
    cr_assert_leq(series_p(&m), 0.001);
    cr_assert(fabs(m.ratio.median - 0.98) < 1e-12);
    cr_assert(fabs(m.ratio.lo - 0.98) < 1e-12 && fabs(m.ratio.hi - 0.98) < 1e-12);
    cr_assert_eq(m.n_pairs, 117);
}

Test(tuner_series, eight_processes_cannot_pass_whatever_happens)
{
    Series m;
    cr_assert_eq(play(&m, DUEL_TITLE, "--------"), 8);
    cr_assert_eq(m.outcome, OUTCOME_NONE);
}

Test(tuner_series, a_title_match_is_futile_after_five_straight_losses)
{
    Series m;
    cr_assert_eq(play(&m, DUEL_TITLE, TEN("+")), 5);
    cr_assert(m.outcome == OUTCOME_TITLE_FAILED && m.verdict == VERDICT_UNDECIDED);
    cr_assert(isnan(m.ratio.lo), "five give no interval");
    cr_assert_eq(play(&m, DUEL_TITLE, TEN("=")), 5, "a tie is no win");
}

Test(tuner_series, a_title_match_ends_at_its_cap)
{
    Series m;
    cr_assert_eq(play(&m, DUEL_TITLE, TEN("--+") TEN("--+")), 40);
    cr_assert_eq(m.outcome, OUTCOME_TITLE_FAILED);
}

Test(tuner_series, equivalence_takes_the_whole_interval_within_one_percent)
{
    Series m;
    cr_assert_eq(play(&m, DUEL_EQUIVALENCE, TEN(".,")), 8);
    cr_assert(m.outcome == OUTCOME_DECIDED && m.verdict == VERDICT_EQUIVALENT);
    cr_assert_eq(play(&m, DUEL_EQUIVALENCE, TEN("-+.,-+.,+-")), 40);
    cr_assert_eq(m.verdict, VERDICT_UNDECIDED);
}

Test(tuner_series, equivalence_that_will_not_show_is_given_up)
{
    Series m;
    cr_assert_eq(play(&m, DUEL_EQUIVALENCE, TEN("+")), 5);
    cr_assert(m.outcome == OUTCOME_DECIDED && m.verdict == VERDICT_UNDECIDED);
    cr_assert_eq(play(&m, DUEL_EQUIVALENCE, TEN("-+") TEN("-+")), 19, "half are beside it");
    cr_assert(m.outcome == OUTCOME_DECIDED && m.verdict == VERDICT_UNDECIDED);
}

Test(tuner_series, a_comparison_and_its_mirror_say_the_same)
{
    Series m;
    cr_assert_eq(play(&m, DUEL_COMPARE, TEN("-") TEN("-")), 13);
    cr_assert_eq(m.verdict, VERDICT_FASTER);
    cr_assert_eq(play(&m, DUEL_COMPARE, TEN("+") TEN("+")), 13);
    cr_assert_eq(m.verdict, VERDICT_SLOWER);
    cr_assert_eq(play(&m, DUEL_COMPARE, TEN(".,")), 13);
    cr_assert_eq(m.verdict, VERDICT_EQUIVALENT);
    cr_assert_eq(play(&m, DUEL_COMPARE, TEN(".") TEN(".")), 13);
    cr_assert_eq(m.verdict, VERDICT_FASTER, "a real difference, however small");
}

Test(tuner_series, a_process_that_fails_ends_a_series_without_a_verdict)
{
    Series m;
    play(&m, DUEL_TITLE, "-----------");
    ProcessResult r = {.status = STATUS_CRASH};
    cr_assert_eq(series_add(&m, &r), OUTCOME_FAILED);
    cr_assert_eq(m.verdict, VERDICT_UNDECIDED);
}

Test(tuner_series, a_series_that_is_cut_keeps_what_it_showed)
{
    Series m;
    play(&m, DUEL_TITLE, "---");
    series_cut(&m);
    cr_assert(m.outcome == OUTCOME_CUT && m.n == 3 && m.verdict == VERDICT_UNDECIDED);
    play(&m, DUEL_TITLE, TEN("-") TEN("-"));
    series_cut(&m);
    cr_assert_eq(m.outcome, OUTCOME_TITLE_PASSED, "too late");
}

/* ---- calibration ------------------------------------------------------------------------- */

/* Eight processes of nine pairs, all of one ratio each. */
typedef struct Eight {
    Pair pair[8][9];
    DuelProcess process[8];
} Eight;

static void eight(Eight *x, const int b_e4[8])
{
    for (int i = 0; i < 8; i++) {
        x->process[i] = (DuelProcess){.result = process_of(x->pair[i], b_e4[i])};
        x->process[i].result.took_ns = 1000 + (uint64_t)i;
    }
}

static const int calm[8] = {10010, 9990, 10010, 9990, 10010, 9990, 10010, 9990};

Test(tuner_series, the_margin_is_two_sigmas_between_one_and_five_percent)
{
    static const struct {
        int off_e4, margin_e4;
    } rows[] = {{10, 100}, {50, 149}, {100, 297}, {400, 500}};
    for (size_t i = 0; i < countof(rows); i++) {
        int b[8];
        for (int k = 0; k < 8; k++) {
            b[k] = 10000 + (k % 2 ? rows[i].off_e4 : -rows[i].off_e4);
        }
        Eight x;
        Calibration c;
        eight(&x, b);
        calibrate(&rules, x.process, 8, 1, &c);
        cr_assert(abs(c.margin_e4 - rows[i].margin_e4) <= 1, "%d", c.margin_e4);
        cr_assert_not(c.biased);
        cr_assert(c.process_ns == 1003 && c.process_most_ns == 1007);
    }
}

Test(tuner_series, a_margin_that_was_asked_for_is_no_less_than_sigma)
{
    Eight x;
    Calibration c;
    rules.p.margin = 0.001;
    eight(&x, calm);
    calibrate(&rules, x.process, 8, 1, &c);
    cr_assert_eq(c.margin_e4, 50);
    int b[8] = {10100, 9900, 10100, 9900, 10100, 9900, 10100, 9900};
    eight(&x, b);
    calibrate(&rules, x.process, 8, 1, &c);
    cr_assert(abs(c.margin_e4 - 148) <= 2, "%d: not below sigma_p", c.margin_e4);
}

static void flag_all(Eight *x, int n_of_nine, int flags, uint64_t ns)
{
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 9; k++) {
            Pair *p = &x->pair[i][k];
            p->flags = (uint16_t)(k < n_of_nine ? flags : 0);
            p->b_ns = p->b_ns * ns / p->a_ns;
            p->a_ns = ns;
            p->a_cpu_ns = p->a_ns;
            p->b_cpu_ns = p->b_ns;
        }
    }
}

Test(tuner_series, cpu_time_is_chosen_for_one_thread_long_samples_and_preemption_only)
{
    static const struct {
        int flagged, flags, threads;
        uint64_t ns;
        Metric metric;
    } rows[] = {{1, PAIR_PREEMPTED, 1, 1000000, METRIC_CPU},
                {0, 0, 1, 1000000, METRIC_WALL},
                {1, PAIR_PREEMPTED, 2, 1000000, METRIC_WALL},
                {1, PAIR_PREEMPTED, 1, 90000, METRIC_WALL},
                {1, PAIR_PREEMPTED | PAIR_WAITED, 1, 1000000, METRIC_WALL}};
    for (size_t i = 0; i < countof(rows); i++) {
        Eight x;
        Calibration c;
        eight(&x, calm);
        flag_all(&x, rows[i].flagged, rows[i].flags, rows[i].ns);
        calibrate(&rules, x.process, 8, rows[i].threads, &c);
        cr_assert_eq(c.metric, rows[i].metric, "row %zu", i);
    }
}

Test(tuner_series, the_gate_closes_at_ten_percent_spread_or_half_of_all_pairs_flagged)
{
    Eight x;
    Calibration c;
    eight(&x, calm);
    calibrate(&rules, x.process, 8, 2, &c);
    cr_assert(!c.noisy && !c.wide);
    flag_all(&x, 5, PAIR_MIGRATED, 1000000);
    calibrate(&rules, x.process, 8, 2, &c);
    cr_assert(c.noisy && c.flagged > 0.5);
    int wild[8] = {9000, 11000, 9000, 11000, 9000, 11000, 9000, 11000};
    eight(&x, wild);
    calibrate(&rules, x.process, 8, 2, &c);
    cr_assert(c.noisy && c.wide);
}

Test(tuner_series, all_on_one_side_by_more_than_two_percent_is_a_biased_harness)
{
    Eight x;
    Calibration c;
    int off[8] = {9700, 9710, 9720, 9690, 9700, 9750, 9700, 9700};
    eight(&x, off);
    calibrate(&rules, x.process, 8, 2, &c);
    cr_assert(c.biased);
    off[3] = 10001;
    eight(&x, off);
    calibrate(&rules, x.process, 8, 2, &c);
    cr_assert_not(c.biased);
}

/* ---- budgets ----------------------------------------------------------------------------- */

Test(tuner_series, budgets_are_read)
{
    static const struct {
        const char *text;
        Budget b;
    } good[] = {{"30s", {.ns = 30000000000}},
                {"30m", {.ns = 1800000000000}},
                {"2h", {.ns = 7200000000000}},
                {"1.5h", {.ns = 5400000000000}},
                {"500trials", {.trials = 500}}};
    for (size_t i = 0; i < countof(good); i++) {
        Budget b = {0};
        cr_assert(budget_parse(good[i].text, &b, NULL), "%s", good[i].text);
        cr_assert(b.ns == good[i].b.ns && b.trials == good[i].b.trials, "%s", good[i].text);
    }
    static const char *const bad[] = {"",          "30",    "s",    "-3s", "0s",
                                      "1e9s",      "nanm",  "0x3s", "3 s", "3d",
                                      "1.5trials", "2h30m", "infs", "1s ", "9999999999h"};
    for (size_t i = 0; i < countof(bad); i++) {
        Budget b;
        Err err;
        cr_assert_not(budget_parse(bad[i], &b, &err), "%s", bad[i]);
        cr_assert(strstr(err.text, "is no budget: give a time"), "%s", err.text);
    }
}

Test(tuner_series, a_budget_is_split_before_it_is_spent)
{
    BudgetSplit s = budget_split(&rules, (Budget){.ns = 60000000000}, 100000000, 500000000);
    cr_assert_eq(s.calibrate_ns, 800000000);
    cr_assert_eq(s.reserve_ns, 80 * 100000000ull + 1000000000, "and a candidate that hangs");
    cr_assert_eq(s.calibrate_ns + s.search_ns + s.reserve_ns, 60000000000);
    cr_assert_eq(s.n_candidates, 100);
    s = budget_split(&rules, (Budget){.ns = 6000000000}, 100000000, 500000000);
    cr_assert_eq(s.reserve_ns, s.search_ns, "half of a short one");
    s = budget_split(&rules, (Budget){.trials = 70}, 0, 0);
    cr_assert_eq(s.n_candidates, 70);
}

Test(tuner_series, budgets_are_printed)
{
    Env e;
    Buf b;
    env_init(&e);
    buf_init(&b, &e.model);
    budget_print((Budget){.ns = 90000000000}, &b);
    buf_str(&b, ", ");
    budget_print((Budget){.trials = 500}, &b);
    buf_str(&b, ", ");
    budget_print((Budget){0}, &b);
    cr_assert_str_eq(b.at, "90 s, 500 trials, no limit");
    env_release(&e);
}
