/* stat.h - statistics of samples: pure functions, no clock, no memory. The formulas are those
 * of the measurement protocol (MEASUREMENT 2); nothing here assumes a distribution. */
#ifndef NC_STAT_H
#define NC_STAT_H

#include <stdbool.h>
#include <stdint.h>

/* A median and what it can be: with probability `coverage` or more the true one is in [lo, hi].
 * */
typedef struct Interval {
    double median;
    double lo, hi;   /* NaN where n values cannot give the coverage asked for */
    double coverage; /* exact; 0 without interval */
    int n;           /* values it is made of */
} Interval;

void stat_sort(double *x, int n); /* ascending; x holds no NaN */
/* p in [0, 1]; linear between neighbours (Hyndman and Fan's type 7). NaN for n = 0 */
double stat_quantile(const double *sorted, int n, double p);
double stat_median(double *x, int n); /* sorts x */
double stat_iqr(double *x, int n);    /* sorts x: from quartile to quartile */

/* Of n fair coins, at least w are heads: P(Bin(n, 1/2) >= w), and its logarithm. n <= 2^20 */
double stat_ln_tail(int64_t w, int64_t n);
double stat_tail(int64_t w, int64_t n);
double stat_ln_factorial(int64_t n); /* n >= 0 */

/* Did b take less than 1 - margin_e4 / 10000 of a? Equality is a loss. Exact for all values.
 * 2.1 */
bool stat_is_win(uint64_t a_ns, uint64_t b_ns, int margin_e4);

/* w wins and l losses of a number of tries that was fixed before: the chance of at least so
 * many wins, or of a result at least so lopsided, among fair coins. */
double stat_sign_one(int64_t w, int64_t l);
double stat_sign_two(int64_t w, int64_t l);

/* ---- looked at after every coin: the same at any stopping time. 2.4, 2.5 ---- */

/* ln of the mixture of likelihood ratios over chances of winning above 1/2. It exceeds
 * ln(1/alpha) at any time at all with a probability of alpha at most, where no coin favours
 * wins. */
double stat_ln_e(int64_t w, int64_t l);
/* ln of the likelihood of a chance theta of winning against 1/2. Futile when it is at most ln
 * beta.
 * */
double stat_ln_ratio(int64_t w, int64_t l, double theta);
int stat_wins_to_pass(double alpha, int n);             /* of n; -1: not even n do */
int stat_wins_futile(double theta, double beta, int n); /* most that are futile; -1: none */

enum { SIGN_MAX = 1000 };
typedef struct SignRule { /* when the test is over, as tables by number of coins */
    int n_most;
    int16_t win[SIGN_MAX + 1];  /* as many wins are enough; -1: none are */
    int16_t lose[SIGN_MAX + 1]; /* as few wins are too few; -1: none are */
} SignRule;

void sign_rule(SignRule *r, double alpha, double theta, double beta, int n_most);

/* The k-th smallest and the k-th largest of n independent values enclose their median with
 * probability stat_rank_coverage(n, k). The largest k that covers at least conf; 0: none does.
 * */
int stat_rank(int n, double conf);
double stat_rank_coverage(int n, int k);
Interval stat_interval(double *x, int n, double conf); /* sorts x */
/* Holds at every n at once, so that n may depend on the values. 2.10 */
Interval stat_interval_anytime(double *x, int n, double conf); /* sorts x */

#endif
