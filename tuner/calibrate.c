/* calibrate.c - the default against a byte-identical copy of its own library: how different two
 * equal kernels look here, process by process. Gives the margin, the metric, and whether this
 * machine is quiet enough. Pure. MEASUREMENT 3.3 to 3.5 */
#include "tuner/tuner.h"

#include <math.h>

typedef struct FlagCount {
    int n, disturbed, preempted, waited,
        n_short; /* n_short: of samples too short for CPU time */
} FlagCount;

static FlagCount count_flags(const Protocol *p, const DuelProcess *process, int n)
{
    FlagCount c = {0};
    for (int i = 0; i < n; i++) {
        const ProcessResult *r = &process[i].result;
        for (int k = 0; k < r->n_pairs; k++) {
            const Pair *pair = &r->pair[k];
            c.n++;
            c.disturbed += pair_disturbed(pair);
            c.preempted += (pair->flags & PAIR_PREEMPTED) != 0;
            c.waited += (pair->flags & PAIR_WAITED) != 0;
            c.n_short += pair->a_cpu_ns == 0 || pair->b_cpu_ns == 0 ||
                         (double)pair->a_ns < 1e3 * p->cpu_least_us;
        }
    }
    return c;
}

/* Never after a candidate was seen; threads' CPU times cannot be added up. */
static Metric metric_of(const Protocol *p, FlagCount c, int n_threads)
{
    bool can = n_threads == 1 && c.waited == 0 && c.n_short == 0 && c.n > 0;
    return can && c.preempted > p->cpu_preempted * c.n ? METRIC_CPU : METRIC_WALL;
}

static void take_times(const DuelProcess *process, int n, Calibration *out)
{
    double process_ns[SERIES_MAX], pair_ns[SERIES_MAX];
    for (int i = 0; i < n; i++) {
        const ProcessResult *r = &process[i].result;
        process_ns[i] = (double)r->took_ns;
        pair_ns[i] = 0;
        for (int k = 0; k < r->n_pairs; k++) {
            pair_ns[i] += (double)(r->pair[k].a_ns + r->pair[k].b_ns) / r->n_pairs;
        }
    }
    if (n > 0) {
        out->process_ns = (uint64_t)stat_median(process_ns, n); /* sorts */
        out->process_most_ns = (uint64_t)process_ns[n - 1];
        out->pair_ns = (uint64_t)stat_median(pair_ns, n);
    }
}

/* The default's call, and the rates beside it: what the roofline is drawn from. */
static void take_rates(const DuelProcess *process, int n, Calibration *out)
{
    double call_ns[SERIES_MAX], read[SERIES_MAX], fork_join[SERIES_MAX], flops[SERIES_MAX];
    for (int i = 0; i < n; i++) {
        const ProcessResult *r = &process[i].result;
        double pairs = r->n_pairs > 0 ? r->n_pairs : 1,
               reps = r->reps > 0 ? (double)r->reps : 1;
        call_ns[i] = 0;
        for (int k = 0; k < r->n_pairs; k++) {
            call_ns[i] += (double)(r->pair[k].a_ns + r->pair[k].b_ns) / (2 * pairs * reps);
        }
        read[i] = (r->before.read_bytes_per_ns + r->after.read_bytes_per_ns) / 2;
        fork_join[i] = (r->before.fork_join_ns + r->after.fork_join_ns) / 2;
        flops[i] = (r->before.flops_per_ns + r->after.flops_per_ns) / 2;
    }
    if (n > 0) {
        out->call_ns = stat_median(call_ns, n);
        out->probe =
            (Probe){stat_median(read, n), stat_median(fork_join, n), stat_median(flops, n)};
    }
}

/* What the table of constants allows. */
enum { MOST_PAIRS = 100 * 99 };

/* Of all pairs together, those set aside left out process by process. */
static double pooled_iqr(const DuelProcess *process, int n, Metric metric)
{
    double ln[MOST_PAIRS];
    int count = 0;
    for (int pass = 0; pass < 2 && count == 0; pass++) { /* all flagged: then with those */
        for (int i = 0; i < n; i++) {
            const ProcessResult *r = &process[i].result;
            for (int k = 0; k < r->n_pairs && count < (int)countof(ln); k++) {
                if (pair_valid(&r->pair[k]) && (pass == 1 || !pair_disturbed(&r->pair[k]))) {
                    ln[count++] = pair_ln_ratio(&r->pair[k], metric);
                }
            }
        }
    }
    return stat_iqr(ln, count);
}

static double clamp(double x, double least, double most)
{
    return fmin(fmax(x, least), most);
}

static double margin_of(const Protocol *p, double sigma_p)
{
    if (p->margin > 0) {
        return fmax(p->margin, fmax(p->margin_asked_least, sigma_p));
    }
    return clamp(p->margin_sigmas * sigma_p, p->margin_least, p->margin_most);
}

/* Medians of the processes that have one. */
static int process_medians(const Rules *r, const DuelProcess *process, int n, Metric metric,
                           double *out)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        PairsSummary s;
        pairs_summary(&r->p, process[i].result.pair, process[i].result.n_pairs, metric, &s);
        if (s.n > 0) {
            out[count++] = s.median_ln;
        }
    }
    return count;
}

/* 1.4826 times the median distance from 0 is a standard deviation, were they normal. */
static double sigma_of(const double *median, int n)
{
    double distance[SERIES_MAX];
    for (int i = 0; i < n; i++) {
        distance[i] = fabs(median[i]);
    }
    return n > 0 ? 1.4826 * stat_median(distance, n) : 0;
}

static bool all_on_one_side(const double *median, int n)
{
    int below = 0, above = 0;
    for (int i = 0; i < n; i++) {
        below += median[i] < 0;
        above += median[i] > 0;
    }
    return n > 0 && (below == n || above == n);
}

Terms calibration_terms(const Calibration *c, int n_threads)
{
    return (Terms){c->margin_e4, c->metric, c->iqr_ln, n_threads};
}

void calibrate(const Rules *r, const DuelProcess *process, int n, int n_threads,
               Calibration *out)
{
    const Protocol *p = &r->p;
    FlagCount flags = count_flags(p, process, n);
    *out = (Calibration){.n_processes = n, .metric = metric_of(p, flags, n_threads)};
    out->flagged = flags.n > 0 ? (double)flags.disturbed / flags.n : 0;
    out->preempted = flags.n > 0 ? (double)flags.preempted / flags.n : 0;
    double median[SERIES_MAX];
    int n_medians = process_medians(r, process, n, out->metric, median);
    out->sigma_p = sigma_of(median, n_medians);
    out->margin = margin_of(p, out->sigma_p);
    out->margin_e4 = (int)ceil(out->margin * 1e4 - 1e-6);
    bool one_side = all_on_one_side(median, n_medians);
    out->median_ln = stat_median(median, n_medians);
    out->biased = one_side && fabs(out->median_ln) > p->biased;
    out->iqr_ln = pooled_iqr(process, n, out->metric);
    take_times(process, n, out);
    take_rates(process, n, out);
    out->wide = out->iqr_ln > p->wide_iqr;
    out->noisy = !(out->iqr_ln <= p->gate_iqr) || out->flagged > p->gate_flagged;
}
