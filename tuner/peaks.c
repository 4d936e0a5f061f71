/* peaks.c - what this machine can do at best: arithmetic in registers, reading from each level of
 * its memory, opening a parallel region. Every fraction of a peak is a fraction of these.
 *
 * The machine changes its regime within seconds, so each rate is tried over some milliseconds, several
 * times: the best is the peak, the median says how often it is there. */
#include "tuner/tuner_int.h"

enum { TRIES = 7, TRY_NS = 3000000, REGION_TRIES = 200 };

const char *const level_name[N_LEVELS] = {"L1", "L2", "L3", "memory"};

/* ---- a rate --------------------------------------------------------------------------------------- */

/* *count scales the work, n_units is what count 1 does: it grows until a try is long enough. */
static Rate peak_rate(Pool *pool, PoolPart *part, void *work, int64_t *count, double n_units)
{
    double rate[TRIES];
    *count = 1;
    while ((double)*count * n_units <
           TRY_NS * rate_of(pool, part, work, (double)*count * n_units)) {
        *count *= 2;
    }
    for (int i = 0; i < TRIES; i++) {
        rate[i] = rate_of(pool, part, work, (double)*count * n_units);
    }
    stat_sort(rate, TRIES);
    return (Rate){.median = stat_quantile(rate, TRIES, 0.5), .best = rate[TRIES - 1]};
}

static void measure_arith(const Machine *m, Pool *pool, ArithId id, Rate out[N_WAYS])
{
    Arith arith = arith_fn(m, id);
    if (!arith.fn) {
        return;
    }
    ArithWork w = {.fn = arith.fn};
    out[ONE_THREAD] = peak_rate(NULL, arith_part, &w, &w.n_steps, arith.ops);
    double all = (double)arith.ops * pool_threads(pool);
    out[ALL_THREADS] = peak_rate(pool, arith_part, &w, &w.n_steps, all);
}

/* ---- reading ---------------------------------------------------------------------------------------- */

/* What each thread reads over and over to stay within a level; 0: there is no such level. The last
 * cache is shared, so its half is dealt out, but each share must overflow the cache above. */
static size_t share_bytes(const Machine *m, Level level, size_t memory_bytes, int n_threads)
{
    int64_t shared = m->l3_bytes / 2 / n_threads, least = 2 * m->l2_bytes;
    const int64_t share[N_LEVELS] = {
        [LEVEL_L1] = m->l1d_bytes / 2,
        [LEVEL_L2] = m->l2_bytes / 2,
        [LEVEL_L3] = m->l3_bytes == 0 || shared > least ? shared : least,
        [LEVEL_MEMORY] = (int64_t)memory_bytes / n_threads,
    };
    return (size_t)share[level] / READ_BYTES * READ_BYTES;
}

static Rate read_rate(const Machine *m, Pool *pool, Level level, const Ring *memory)
{
    int n_threads = pool ? pool_threads(pool) : 1;
    size_t total = memory->map_bytes - (size_t)(memory->at - (char *)memory->map);
    size_t bytes =
        share_bytes(m, level, memory->step_bytes * (size_t)memory->n_copies, n_threads);
    ReadWork w = {.fn = read_fn(m), .at = memory->at, .bytes = bytes * (size_t)n_threads};
    if (bytes == 0 || w.bytes > total) {
        return (Rate){0};
    }
    return peak_rate(pool, read_part, &w, &w.n_passes, (double)w.bytes);
}

static void measure_reads(Env *e, const Machine *m, Pool *pool, Peaks *out)
{
    Ring memory;
    ring_init(e, &memory, NULL, ring_want_bytes(m) / 2, 2, true, pool);
    for (Level level = 0; level < N_LEVELS; level++) {
        out->read[level][ONE_THREAD] = read_rate(m, NULL, level, &memory);
        out->read[level][ALL_THREADS] = read_rate(m, pool, level, &memory);
    }
    ring_release(&memory);
}

/* ---- the whole ------------------------------------------------------------------------------------- */

static Rate measure_regions(Pool *pool)
{
    double ns[REGION_TRIES];
    for (int i = 0; i < REGION_TRIES; i++) {
        ns[i] = region_ns(pool);
    }
    stat_sort(ns, REGION_TRIES);
    return (Rate){.median = stat_quantile(ns, REGION_TRIES, 0.5), .best = ns[0]};
}

void peaks_measure(Env *e, const Machine *m, Pool *pool, Peaks *out)
{
    *out = (Peaks){.n_threads = pool_threads(pool), .fused = arith_fused(m)};
    for (ArithId id = 0; id < N_ARITHS; id++) {
        measure_arith(m, pool, id, out->arith[id]);
    }
    out->fork_join_ns = measure_regions(pool);
    measure_reads(e, m, pool, out);
}

double peaks_flops_per_ns(const Peaks *p, int way)
{
    double best = 0;
    for (ArithId id = ARITH_FMA128; id <= ARITH_FMA512; id++) {
        double rate = p->arith[id][way].best;
        best = rate > best ? rate : best;
    }
    return best;
}
