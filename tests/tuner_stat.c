/* tuner_stat.c - tests of the statistics: against every vector of tests/data/stat-vectors.txt
 * (SciPy 1.10.1, and exact rationals for the mixture), against plain sums, by the behaviour
 * that the protocol claims of them, and at their edges. */
#include "tests/helpers.h"
#include "tuner/stat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void near(double got, double want, const char *what)
{
    cr_assert(fabs(got - want) <= 1e-10 * fabs(want) || got == want, "%s: %.17g, not %.17g",
              what, got, want);
}

/* ---- vectors: kind, then its numbers ----------------------------------------------------- */

typedef void Vector(const double *x, const char *line);

static void sf(const double *x, const char *line)
{
    near(stat_tail((int64_t)x[0], (int64_t)x[1]), x[2], line);
}

static void lnsf(const double *x, const char *line)
{
    near(stat_ln_tail((int64_t)x[0], (int64_t)x[1]), x[2], line);
}

static void one_sided(const double *x, const char *line)
{
    near(stat_sign_one((int64_t)x[0], (int64_t)x[1]), x[2], line);
}

static void two_sided(const double *x, const char *line)
{
    near(stat_sign_two((int64_t)x[0], (int64_t)x[1]), x[2], line);
}

static void ln_e(const double *x, const char *line)
{
    double got = stat_ln_e((int64_t)x[0], (int64_t)x[1]);
    cr_assert(fabs(got - x[2]) <= 1e-10 * fmax(1, fabs(x[2])), "%s: %.17g", line, got);
}

static void fut(const double *x, const char *line)
{
    near(stat_ln_ratio((int64_t)x[0], (int64_t)x[1], x[2]), x[3], line);
}

static void cik(const double *x, const char *line)
{
    cr_assert_eq(stat_rank((int)x[0], x[1]), (int)x[2], "%s", line);
}

static void cicov(const double *x, const char *line)
{
    near(stat_rank_coverage((int)x[0], stat_rank((int)x[0], x[1])), x[2], line);
}

static void wcrit(const double *x, const char *line)
{
    int n = (int)x[1];
    cr_assert_eq(stat_wins_to_pass(x[0], n), (int)x[2], "%s", line);
    SignRule r;
    sign_rule(&r, x[0], 0.7, 0.05, 200);
    cr_assert_eq(r.win[n], (int)x[2], "%s in the table", line);
}

static void wfut(const double *x, const char *line)
{
    int n = (int)x[2];
    cr_assert_eq(stat_wins_futile(x[0], x[1], n), (int)x[3], "%s", line);
    SignRule r;
    sign_rule(&r, 0.01, x[0], x[1], 200);
    cr_assert_eq(r.lose[n], (int)x[3], "%s in the table", line);
}

static const struct {
    const char *kind;
    Vector *holds;
    int n_lines;
} kinds[] = {{"sf", sf, 27},         {"lnsf", lnsf, 5},    {"one", one_sided, 16},
             {"two", two_sided, 16}, {"lne", ln_e, 24},    {"fut", fut, 7},
             {"cik", cik, 26},       {"cicov", cicov, 23}, {"wcrit", wcrit, 76},
             {"wfut", wfut, 14}};

/* The place of the line's kind; -1: a comment. Any other line fails. */
static int vector_holds(const char *line)
{
    char kind[16];
    double x[4] = {0};
    if (line[0] == '#') {
        return -1;
    }
    int n = sscanf(line, "%15s %lf %lf %lf %lf", kind, &x[0], &x[1], &x[2], &x[3]);
    for (int i = 0; n >= 4 && i < (int)countof(kinds); i++) {
        if (strcmp(kind, kinds[i].kind) == 0) {
            kinds[i].holds(x, line);
            return i;
        }
    }
    cr_assert_fail("not a vector: %s", line);
    return -1;
}

Test(tuner_stat, every_vector_holds)
{
    Env e;
    env_init(&e);
    int n[countof(kinds)] = {0};
    char *text = read_text(&e, "tests/data/stat-vectors.txt");
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        int kind = vector_holds(line);
        if (kind >= 0) {
            n[kind]++;
        }
    }
    env_release(&e);
    for (size_t i = 0; i < countof(kinds); i++) {
        cr_assert_eq(n[i], kinds[i].n_lines, "%d lines of %s", n[i], kinds[i].kind);
    }
}

Test(tuner_stat, a_tail_and_its_mirror_image_make_one)
{
    for (int n = 1; n <= 60; n++) {
        for (int w = 1; w <= n; w++) {
            near(stat_tail(w, n) + stat_tail(n - w + 1, n), 1, "both tails");
        }
    }
    cr_assert_eq(stat_tail(0, 7), 1);
    cr_assert_eq(stat_tail(8, 7), 0);
    cr_assert_eq(stat_ln_tail(8, 7), -INFINITY);
}

Test(tuner_stat, quantiles_are_linear_between_neighbours)
{
    double x[] = {4, 1, 3, 2};
    stat_sort(x, 4);
    cr_assert_eq(stat_quantile(x, 4, 0), 1);
    cr_assert_eq(stat_quantile(x, 4, 1), 4);
    cr_assert_float_eq(stat_quantile(x, 4, 0.25), 1.75, 1e-15);
    cr_assert_float_eq(stat_quantile(x, 4, 0.5), 2.5, 1e-15);
    double odd[] = {9, 1, 5};
    cr_assert_eq(stat_median(odd, 3), 5);
    cr_assert_eq(stat_median(odd, 1), 1);
    cr_assert(isnan(stat_median(odd, 0)));
}

Test(tuner_stat, an_interval_is_made_of_the_values_at_its_ranks)
{
    double x[9] = {8, 3, 5, 1, 9, 7, 2, 6, 4};
    Interval i = stat_interval(x, 9, 0.95);
    cr_assert_eq(i.median, 5);
    cr_assert_eq(i.lo, 2);
    cr_assert_eq(i.hi, 8);
    cr_assert_eq(i.n, 9);
    near(i.coverage, 0.9609375, "coverage");
}

Test(tuner_stat, too_few_values_give_no_interval)
{
    double x[5] = {5, 4, 3, 2, 1};
    for (int n = 0; n <= 5; n++) {
        Interval i = stat_interval(x, n, 0.95);
        cr_assert(isnan(i.lo) && isnan(i.hi) && i.coverage == 0 && i.n == n);
        cr_assert_not(i.lo >= 0, "a bar is not met by an interval that is not there");
    }
}

/* The exact claim of the interval, tried: 20,000 intervals of 12 values around a known median.
 * */
Test(tuner_stat, intervals_cover_the_median_as_often_as_they_say)
{
    Rng rng;
    rng_seed(&rng, 12);
    int covered = 0, tries = 20000;
    Interval i = {0};
    for (int t = 0; t < tries; t++) {
        double x[12];
        for (int k = 0; k < 12; k++) {
            double u = rng_unit(&rng) - 0.5;
            x[k] = u * u * u; /* median 0, far from normal */
        }
        i = stat_interval(x, 12, 0.95);
        covered += i.lo <= 0 && 0 <= i.hi;
    }
    double share = (double)covered / tries, sigma = sqrt(i.coverage * (1 - i.coverage) / tries);
    cr_assert(fabs(share - i.coverage) < 5 * sigma, "%g of %g, seed 12", share, i.coverage);
}

/* ---- wins, and looking at them after each ------------------------------------------------ */

Test(tuner_stat, a_win_is_exact_to_the_nanosecond_and_does_not_overflow)
{
    cr_assert_not(stat_is_win(1000, 1000, 0), "equality is a loss");
    cr_assert(stat_is_win(1000, 999, 0));
    cr_assert_not(stat_is_win(1000000, 990000, 100));
    cr_assert(stat_is_win(1000000, 989999, 100));
    cr_assert(stat_is_win(UINT64_MAX, UINT64_MAX - 1, 0));
    cr_assert_not(stat_is_win(UINT64_MAX, UINT64_MAX, 0));
    cr_assert_not(stat_is_win(0, 0, 0));
}

Test(tuner_stat, straight_wins_that_pass_and_straight_losses_that_are_futile)
{
    static const struct {
        double alpha;
        int straight;
    } bars[] = {{0.05, 7}, {0.01, 9}, {0.001, 13}};
    for (size_t i = 0; i < countof(bars); i++) {
        int n = bars[i].straight;
        cr_assert_eq(stat_wins_to_pass(bars[i].alpha, n), n);
        cr_assert_eq(stat_wins_to_pass(bars[i].alpha, n - 1), -1);
    }
    cr_assert_eq(stat_wins_futile(0.7, 0.05, 6), 0);
    cr_assert_eq(stat_wins_futile(0.7, 0.05, 5), -1);
}

/* The protocol's text lists them: wins that pass of so many. */
Test(tuner_stat, wins_that_pass_are_those_of_the_protocol)
{
    static const int least[][2] = {{14, 13}, {15, 14}, {17, 15}, {18, 16}, {19, 17},
                                   {20, 18}, {25, 21}, {30, 24}, {40, 31}};
    for (size_t i = 0; i < countof(least); i++) {
        cr_assert_eq(stat_wins_to_pass(0.01, least[i][0]), least[i][1]);
    }
    static const int most[][2] = {{6, 0}, {8, 1}, {10, 2}, {13, 4}, {16, 6}, {20, 8}};
    for (size_t i = 0; i < countof(most); i++) {
        cr_assert_eq(stat_wins_futile(0.7, 0.05, most[i][0]), most[i][1]);
    }
}

Test(tuner_stat, tables_are_what_is_computed_for_each_number_of_coins)
{
    SignRule r;
    sign_rule(&r, 0.001, 0.75, 0.05, 120);
    cr_assert_eq(r.n_most, 120);
    for (int n = 0; n <= 120; n++) {
        cr_assert_eq(r.win[n], stat_wins_to_pass(0.001, n));
        cr_assert_eq(r.lose[n], stat_wins_futile(0.75, 0.05, n));
    }
}

/* 1e5 fair coins, looked at after each of 200: the exact rate is 0.0066, and 0.0065 where
 * futile ones are given up. */
static double share_of_passes(bool give_up, uint64_t seed)
{
    SignRule r;
    sign_rule(&r, 0.01, 0.7, 0.05, 200);
    Rng rng;
    rng_seed(&rng, seed);
    int passed = 0, tries = 100000;
    for (int t = 0; t < tries; t++) {
        uint64_t coins = 0;
        for (int n = 1, w = 0; n <= 200; n++, coins >>= 1) {
            coins = n % 64 == 1 ? rng_u64(&rng) : coins;
            w += coins & 1;
            if (r.win[n] >= 0 && w >= r.win[n]) {
                passed++;
                break;
            }
            if (give_up && w <= r.lose[n]) {
                break;
            }
        }
    }
    return (double)passed / tries;
}

Test(tuner_stat, looking_after_every_coin_passes_as_rarely_as_stated)
{
    for (int give_up = 0; give_up < 2; give_up++) {
        double share = share_of_passes(give_up, 7);
        cr_assert(share >= 0.005 && share <= 0.0085, "%g, seed 7", share);
    }
}

Test(tuner_stat, factorials_join_where_the_series_begins)
{
    double sum = 0;
    for (int n = 1; n <= 8192; n++) {
        sum += log(n);
        cr_assert(fabs(stat_ln_factorial(n) - sum) <= 1e-13 * fmax(1, sum), "%d!", n);
    }
    cr_assert_eq(stat_ln_factorial(0), 0);
}

/* MEASUREMENT 2.10: ranks c of K, from the smallest c with E(c, K - c) >= 40. */
Test(tuner_stat, anytime_intervals_have_the_ranks_of_the_protocol)
{
    static const int ranks[][2] = {{8, 8},   {10, 10}, {12, 11}, {13, 12}, {14, 13},
                                   {16, 14}, {20, 17}, {30, 24}, {40, 30}};
    for (size_t i = 0; i < countof(ranks); i++) {
        double x[40];
        int n = ranks[i][0], c = ranks[i][1];
        for (int k = 0; k < n; k++) {
            x[k] = n - k;
        }
        Interval v = stat_interval_anytime(x, n, 0.95);
        cr_assert_eq(v.hi, c, "rank %g of %d", v.hi, n);
        cr_assert_eq(v.lo, n + 1 - c);
    }
    double few[7] = {1, 2, 3, 4, 5, 6, 7};
    Interval none = stat_interval_anytime(few, 7, 0.95);
    cr_assert(isnan(none.lo) && isnan(none.hi) && none.coverage == 0 && none.median == 4);
}

/* Whatever stops it: 4000 intervals that end at the first K at which they are wrong. */
Test(tuner_stat, anytime_intervals_cover_at_every_number_at_once)
{
    Rng rng;
    rng_seed(&rng, 31);
    int always = 0, tries = 4000;
    for (int t = 0; t < tries; t++) {
        double x[40];
        bool covers = true;
        for (int n = 1; n <= 40; n++) {
            double u = rng_unit(&rng) - 0.5, sorted[40];
            x[n - 1] = u * u * u;
            memcpy(sorted, x, sizeof sorted);
            Interval i = stat_interval_anytime(sorted, n, 0.95);
            covers &= !(i.lo > 0) && !(i.hi < 0);
        }
        always += covers;
    }
    cr_assert_geq(always, 0.95 * tries, "%d of %d, seed 31", always, tries);
}
