/* summary.c - what the samples of a measurement say: medians and spread of one contender,
 * ratios of two, fractions of what the machine could do at the time.
 *
 * Whatever is compared is compared within a block, so that drift cancels; the intervals are
 * over blocks and exact, by ranks. They hold for this process: another one places code and data
 * anew. */
#include <math.h>

#include "tuner/tuner.h"

static const double CONFIDENCE = 0.95;

/* n_samples of one contender, of one block or of all, per call; in e->kernel. */
static double *times_of(Env *e, const Measured *m, int contender, int first_block, int n_blocks,
                        int *n)
{
    int n_rounds = n_blocks * m->n_rounds;
    const Sample *s =
        m->sample + (int64_t)first_block * m->n_rounds * m->n_contenders + contender;
    double *ns = arena_array(&e->kernel, double, n_rounds);
    for (int i = 0; i < n_rounds; i++, s += m->n_contenders) {
        ns[i] = (double)s->ns / (double)m->reps;
    }
    *n = n_rounds;
    return ns;
}

/* Median time of a contender in each block */
static double *block_medians(Env *e, const Measured *m, int contender)
{
    double *median = arena_array(&e->kernel, double, m->n_blocks);
    for (int b = 0; b < m->n_blocks; b++) {
        int n;
        double *ns = times_of(e, m, contender, b, 1, &n);
        median[b] = stat_median(ns, n);
    }
    return median;
}

Summary measure_summary(Env *e, const Measured *m, int contender)
{
    int n;
    double *ns = times_of(e, m, contender, 0, m->n_blocks, &n);
    stat_sort(ns, n);
    double *median = block_medians(e, m, contender);
    return (Summary){.min_ns = stat_quantile(ns, n, 0),
                     .q1_ns = stat_quantile(ns, n, 0.25),
                     .median_ns = stat_quantile(ns, n, 0.5),
                     .q3_ns = stat_quantile(ns, n, 0.75),
                     .max_ns = stat_quantile(ns, n, 1),
                     .block_ns = stat_interval(median, m->n_blocks, CONFIDENCE),
                     .n_samples = n};
}

Interval measure_ratio(Env *e, const Measured *m, int a, int b)
{
    double *ratio = block_medians(e, m, a), *other = block_medians(e, m, b);
    for (int i = 0; i < m->n_blocks; i++) {
        ratio[i] /= other[i];
    }
    return stat_interval(ratio, m->n_blocks, CONFIDENCE);
}

/* ---- fractions --------------------------------------------------------------------------- */

/* What work takes at the mean of two rates; no work takes no time at any rate. */
static double least_ns(double units, double before, double after)
{
    return units > 0 ? units / ((before + after) / 2) : 0;
}

Interval measure_fraction(Env *e, const Measured *m, int contender, double bytes, double flops)
{
    double *x = block_medians(e, m, contender);
    int n = 0;
    for (int i = 0; i < m->n_blocks; i++) {
        const Probe *p = &m->block[i].before, *q = &m->block[i].after;
        double read_ns = least_ns(bytes, p->read_bytes_per_ns, q->read_bytes_per_ns);
        double compute_ns = least_ns(flops, p->flops_per_ns, q->flops_per_ns);
        double roof_ns = fmax(read_ns, compute_ns);
        if (!m->block[i].flipped && !m->block[i].throttled && isfinite(roof_ns)) {
            x[n++] = roof_ns / x[i];
        }
    }
    return stat_interval(x, n, CONFIDENCE);
}
