/* probe.c - what the machine can do at this moment: read bandwidth from the ring that the
 * contenders use, the cost of an empty parallel region, and arithmetic in registers.
 *
 * A probe costs two milliseconds and stands before and after every block of samples. */
#include "tuner/tuner_int.h"

#include <math.h>

enum {
    TRIES = 3,
    REGION_TRIES = 9,
    REGIONS = 16,             /* between two readings of the clock */
    READ_AT_LEAST = 16 << 20, /* or the region's own cost would show */
    READ_AT_MOST = 32 << 20,
    CHAIN_STEPS = 100000, /* 0.15 ms at 4 GHz */
};

/* ---- work -------------------------------------------------------------------------------- */

void read_part(void *work, int part, int n_parts)
{
    const ReadWork *w = work;
    size_t share = w->bytes / (size_t)n_parts / READ_BYTES * READ_BYTES;
    uint64_t sum = w->fn(w->at + share * (size_t)part, share, w->n_passes);
    __asm__ volatile("" : : "r"(sum)); /* wanted, as far as the compiler knows */
}

void arith_part(void *work, int part, int n_parts)
{
    (void)part, (void)n_parts;
    const ArithWork *w = work;
    float sum = w->fn(w->n_steps);
    __asm__ volatile("" : : "m"(sum));
}

static void nothing(void *work, int part, int n_parts)
{
    (void)work, (void)part, (void)n_parts;
}

double rate_of(Pool *pool, PoolPart *part, void *work, double n_units)
{
    uint64_t start = clock_ns();
    if (pool) {
        pool_run(pool, part, work);
    } else {
        part(work, 0, 1);
    }
    return n_units / (double)(clock_ns() - start);
}

double region_ns(Pool *pool)
{
    uint64_t start = clock_ns();
    for (int i = 0; i < REGIONS; i++) {
        pool_run(pool, nothing, NULL);
    }
    return (double)(clock_ns() - start) / REGIONS;
}

/* ---- a probe ----------------------------------------------------------------------------- */

Prober prober_of(const Machine *m, Pool *pool, Ring *ring)
{
    return (Prober){pool, ring, read_fn(m), arith_widest(m)};
}

/* The ring's next copies, as many as make a good sample, but no copy twice. */
static ReadWork next_copies(const Prober *p)
{
    Ring *r = p->ring;
    int n = (int)(READ_AT_LEAST / r->step_bytes) + 1;
    n = n < r->n_copies ? n : r->n_copies;
    if (n > r->n_copies - r->next) {
        r->next = 0;
    }
    ReadWork w = {p->read, r->at + (size_t)r->next * r->step_bytes, (size_t)n * r->step_bytes,
                  1};
    w.bytes = w.bytes < READ_AT_MOST ? w.bytes : READ_AT_MOST;
    r->next = (r->next + n) % r->n_copies;
    return w;
}

static double read_rate(const Prober *p)
{
    double rate[TRIES];
    for (int i = 0; i < TRIES; i++) {
        ReadWork w = next_copies(p);
        rate[i] = rate_of(p->pool, read_part, &w, (double)w.bytes);
    }
    return stat_median(rate, TRIES);
}

static double arith_rate(const Prober *p)
{
    double rate[TRIES];
    ArithWork w = {p->fma.fn, CHAIN_STEPS};
    double n_ops = (double)CHAIN_STEPS * p->fma.ops * pool_threads(p->pool);
    for (int i = 0; i < TRIES; i++) {
        rate[i] = rate_of(p->pool, arith_part, &w, n_ops);
    }
    return stat_median(rate, TRIES);
}

void prober_take(const Prober *p, Probe *out)
{
    double ns[REGION_TRIES];
    for (int i = 0; i < REGION_TRIES; i++) {
        ns[i] = region_ns(p->pool);
    }
    *out = (Probe){.fork_join_ns = stat_median(ns, REGION_TRIES),
                   .read_bytes_per_ns = p->ring ? read_rate(p) : 0,
                   .flops_per_ns = arith_rate(p)};
}

/* ---- regimes ----------------------------------------------------------------------------- */

/* Between the regimes seen, bandwidth changes by half and a region by five times, from 0.12 to
 * 0.63 us. Noise does not, but with one thread a region is so short that it may double. */
static const double READ_FLIP = 1.2, REGION_FLIP = 2, REGION_FLIP_NS = 100;

static bool apart(double a, double b, double factor)
{
    return a > b * factor || b > a * factor;
}

bool probes_differ(const Probe *a, const Probe *b)
{
    double more_ns = fabs(a->fork_join_ns - b->fork_join_ns);
    return apart(a->read_bytes_per_ns, b->read_bytes_per_ns, READ_FLIP) ||
           (apart(a->fork_join_ns, b->fork_join_ns, REGION_FLIP) && more_ns > REGION_FLIP_NS);
}
