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

double stat_iqr(double *x, int n)
{
    stat_sort(x, n);
    return stat_quantile(x, n, 0.75) - stat_quantile(x, n, 0.25);
}

/* ---- coins ------------------------------------------------------------------------------- */

enum { EXACT_FACTORIALS = 20 }; /* the largest that fits 64 bits */

/* Stirling's series; beyond 20 the first term that is left out is below 1e-16 of the sum. */
static double stirling(double n)
{
    double x = 1 / n, xx = x * x;
    double series = x * (1.0 / 12 - xx * (1.0 / 360 - xx * (1.0 / 1260 - xx / 1680)));
    return (n + 0.5) * log(n) - n + 0.5 * log(2 * M_PI) + series;
}

double stat_ln_factorial(int64_t n)
{
    if (n > EXACT_FACTORIALS) {
        return stirling((double)n);
    }
    uint64_t product = 1;
    for (int64_t i = 2; i <= n; i++) {
        product *= (uint64_t)i;
    }
    return log((double)product);
}

enum { SHORT_SUM = 8192 }; /* beyond it a difference of factorials costs more than 1e-11 */

/* ln of n over k. Compensated where it is long: many terms must not cost digits. */
static double ln_choose(int64_t n, int64_t k)
{
    if (n <= SHORT_SUM) {
        return stat_ln_factorial(n) - stat_ln_factorial(k) - stat_ln_factorial(n - k);
    }
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

bool stat_is_win(uint64_t a_ns, uint64_t b_ns, int margin_e4)
{
    unsigned __int128 a = a_ns, b = b_ns;
    return b * 10000 < a * (unsigned)(10000 - margin_e4);
}

double stat_sign_one(int64_t w, int64_t l)
{
    return stat_tail(w, w + l);
}

double stat_sign_two(int64_t w, int64_t l)
{
    return fmin(1, 2 * stat_tail(w > l ? w : l, w + l));
}

/* ---- looked at after every coin ---------------------------------------------------------- */

double stat_ln_e(int64_t w, int64_t l)
{
    int64_t n = w + l + 1;
    double ln_at_most_w = stat_ln_tail(n - w, n);
    return (double)n * M_LN2 + stat_ln_factorial(w) + stat_ln_factorial(l) -
           stat_ln_factorial(n) + ln_at_most_w;
}

double stat_ln_ratio(int64_t w, int64_t l, double theta)
{
    return (double)w * log(2 * theta) + (double)l * log(2 * (1 - theta));
}

/* From w on, the first number of wins that passes; n + 1: none. */
static int first_pass(double alpha, int n, int w)
{
    double bar = -log(alpha);
    while (w <= n && stat_ln_e(w, n - w) < bar) {
        w++;
    }
    return w;
}

/* From w on, the last number of wins that is futile; w where even that is not. */
static int last_futile(double theta, double beta, int n, int w)
{
    while (w + 1 <= n && stat_ln_ratio(w + 1, n - w - 1, theta) <= log(beta)) {
        w++;
    }
    return w;
}

int stat_wins_to_pass(double alpha, int n)
{
    int w = first_pass(alpha, n, n / 2); /* half of them never do */
    return w <= n ? w : -1;
}

int stat_wins_futile(double theta, double beta, int n)
{
    return last_futile(theta, beta, n, -1);
}

void sign_rule(SignRule *r, double alpha, double theta, double beta, int n_most)
{
    r->n_most = n_most < SIGN_MAX ? n_most : SIGN_MAX;
    int win = 0, lose = -1; /* both rise with n, by one at most */
    for (int n = 0; n <= r->n_most; n++) {
        win = first_pass(alpha, n, win);
        lose = last_futile(theta, beta, n, lose);
        r->win[n] = (int16_t)(win <= n ? win : -1);
        r->lose[n] = (int16_t)lose;
    }
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

Interval stat_interval_anytime(double *x, int n, double conf)
{
    int c = stat_wins_to_pass((1 - conf) / 2, n);
    Interval i = {.median = stat_median(x, n), .lo = NAN, .hi = NAN, .n = n};
    if (c > 0) {
        i.lo = x[n - c];
        i.hi = x[c - 1];
        i.coverage = conf;
    }
    return i;
}
