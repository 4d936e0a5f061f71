/* stat.c - order statistics and the exact sign test.
 *
 * Times of kernels have heavy tails, so everything is made of ranks: medians, quartiles, and
 * intervals whose coverage is a sum of binomial probabilities. Tails are summed in logarithms,
 * since those of a thousand coins do not fit a double. */
#include "tuner/stat.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void stat_sort(double *x, int n)
{
    if (n > 1) {
        qsort(x, (size_t)n, sizeof *x, ascending);
    }
}

double stat_quantile(const double *sorted, int n, double p)
{
    if (n <= 0) {
        return NAN;
    }
    double at = p * (n - 1);
    int below = (int)at;
    int above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

double stat_median(double *x, int n)
{
    stat_sort(x, n);
    return stat_quantile(x, n, 0.5);
}

/* ---- coins ------------------------------------------------------------------------------- */

/* ln of n over k. Compensated: thousands of terms must not cost digits. */
static double ln_choose(int64_t n, int64_t k)
{
    double sum = 0, lost = 0;
    for (int64_t i = 1; i <= k; i++) {
        double term = log((double)(n - k + i) / (double)i) - lost;
        double next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    return sum;
}

double stat_ln_tail(int64_t w, int64_t n)
{
    if (w <= 0) {
        return 0;
    }
    if (w > n) {
        return -INFINITY;
    }
    if (2 * w <= n) {
        return log1p(-exp(stat_ln_tail(n - w + 1, n)));
    }
    double sum = 1, term = 1; /* in units of the first term, which is the largest */
    for (int64_t k = w; k < n && term >= 1e-18 * sum; k++) {
        term *= (double)(n - k) / (double)(k + 1);
        sum += term;
    }
    return ln_choose(n, n - w) - (double)n * M_LN2 + log(sum);
}

double stat_tail(int64_t w, int64_t n)
{
    return exp(stat_ln_tail(w, n));
}

/* ---- intervals --------------------------------------------------------------------------- */

double stat_rank_coverage(int n, int k)
{
    return k > 0 ? 1 - 2 * stat_tail(n - k + 1, n) : 0;
}

int stat_rank(int n, double conf)
{
    int covers = 0, misses = n / 2 + 1; /* coverage falls as k grows */
    while (misses - covers > 1) {
        int k = covers + (misses - covers) / 2;
        if (stat_rank_coverage(n, k) >= conf) {
            covers = k;
        } else {
            misses = k;
        }
    }
    return covers;
}

Interval stat_interval(double *x, int n, double conf)
{
    int k = stat_rank(n, conf);
    Interval i = {.median = stat_median(x, n), .lo = NAN, .hi = NAN, .n = n};
    if (k > 0) {
        i.lo = x[k - 1];
        i.hi = x[n - k];
        i.coverage = stat_rank_coverage(n, k);
    }
    return i;
}
