/* stat.h - statistics of samples: pure functions, no clock, no memory. The formulas are those
 * of the measurement protocol; nothing here assumes a distribution. */
#ifndef NC_STAT_H
#define NC_STAT_H

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

/* Of n fair coins, at least w are heads: P(Bin(n, 1/2) >= w), and its logarithm. n <= 2^20 */
double stat_ln_tail(int64_t w, int64_t n);
double stat_tail(int64_t w, int64_t n);

/* The k-th smallest and the k-th largest of n independent values enclose their median with
 * probability stat_rank_coverage(n, k). The largest k that covers at least conf; 0: none does.
 * */
int stat_rank(int n, double conf);
double stat_rank_coverage(int n, int k);
Interval stat_interval(double *x, int n, double conf); /* sorts x */

#endif
