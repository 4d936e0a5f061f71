/* tuner_stat.c - tests of the statistics: against vectors computed by SciPy (some embedded, all
 * where the shared data is), against plain sums, and at their edges. */
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

/* Columns as in the shared file: kind, then its numbers. False: a kind that is not of this
 * file. */
static bool vector_holds(const char *line)
{
    char kind[16];
    double x[4] = {0};
    int n = sscanf(line, "%15s %lf %lf %lf", kind, &x[0], &x[1], &x[2]);
    if (n < 4) {
        return false;
    }
    int a = (int)x[0], b = (int)x[1];
    if (strcmp(kind, "sf") == 0) {
        near(stat_tail(a, b), x[2], line);
    } else if (strcmp(kind, "lnsf") == 0) {
        near(stat_ln_tail(a, b), x[2], line);
    } else if (strcmp(kind, "cik") == 0) {
        cr_assert_eq(stat_rank(a, x[1]), (int)x[2], "%s", line);
    } else if (strcmp(kind, "cicov") == 0) {
        near(stat_rank_coverage(a, stat_rank(a, x[1])), x[2], line);
    } else {
        return false;
    }
    return true;
}

Test(tuner_stat, embedded_vectors_hold)
{
    static const char *const vectors[] = {
        "sf 0 1 1",
        "sf 3 5 0.5",
        "sf 15 20 0.020694732666015625",
        "sf 25 50 0.55613758632960852",
        "sf 131 200 6.9287257861822658e-06",
        "sf 900 1000 6.7017177900061817e-162",
        "sf 2100 4000 0.00082463318756786322",
        "lnsf 1000 1000 -693.14718055994524",
        "lnsf 3500 4000 -1269.3136840325685",
        "cik 5 0.95 0",
        "cik 6 0.95 1",
        "cik 9 0.95 2",
        "cik 20 0.99 4",
        "cik 1000 0.95 469",
        "cicov 6 0.95 0.96875",
        "cicov 9 0.95 0.9609375",
        "cicov 20 0.99 0.99742317199707031",
        "cicov 1000 0.99 0.99136005099773949",
    };
    for (size_t i = 0; i < countof(vectors); i++) {
        cr_assert(vector_holds(vectors[i]), "%s", vectors[i]);
    }
}

Test(tuner_stat, all_shared_vectors_hold)
{
    char path[PATH_MAX];
    need_shared("stat-vectors.txt", path);
    Env e;
    env_init(&e);
    int n = 0;
    for (char *line = strtok(read_text(&e, path), "\n"); line; line = strtok(NULL, "\n")) {
        n += vector_holds(line);
    }
    env_release(&e);
    cr_assert_geq(n, 27 + 5 + 26 + 23);
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
