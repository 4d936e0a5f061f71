/* peaks.c - what this machine can do at best: arithmetic in registers, reading from each level
 * of its memory, opening a parallel region. Every fraction of a peak is a fraction of these.
 *
 * The machine changes its regime within seconds and others may be at work on it, so all rates
 * are tried in turns, round after round: the best try is the peak, the median says how usual it
 * is. */
#include "tuner/tuner_int.h"

enum { TRIES = 15, TRY_NS = 2000000, GROW_TRIES = 3, REGION_TRIES = 200 };

const char *const level_name[N_LEVELS] = {"L1", "L2", "L3", "memory"};

/* One rate to be measured. The work can be made longer: count scales it. */
typedef struct Job {
    Pool *pool; /* NULL: the caller alone */
    PoolPart *part;
    ReadWork read; /* one of the two is the part's */
    ArithWork arith;
    void *work;
    int64_t *count; /* in the work */
    double n_units; /* done by all parts for each count */
    double rate[TRIES];
    Rate *out;
} Job;

typedef struct Jobs {
    Job at[(N_ARITHS + N_LEVELS) * N_WAYS];
    int n;
} Jobs;

/* ---- arithmetic -------------------------------------------------------------------------- */

static void add_arith(Jobs *jobs, Arith arith, Pool *pool, Rate *out)
{
    if (!arith.fn) {
        return;
    }
    Job *j = &jobs->at[jobs->n++];
    int n_threads = pool ? pool_threads(pool) : 1;
    *j = (Job){.pool = pool, .part = arith_part, .arith = {.fn = arith.fn}, .out = out};
    j->n_units = (double)arith.ops * n_threads;
    j->work = &j->arith;
    j->count = &j->arith.n_steps;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* What each thread reads over and over to stay within a level; 0: there is no such level. The
 * last cache is shared, so its half is dealt out, but each share must overflow the cache above.
 * */
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

static void add_read(Jobs *jobs, const Machine *m, Level level, Pool *pool, const Ring *memory,
                     Rate *out)
{
    int n_threads = pool ? pool_threads(pool) : 1;
    size_t all = memory->step_bytes * (size_t)memory->n_copies;
    size_t bytes = share_bytes(m, level, all, n_threads) * (size_t)n_threads;
    if (bytes == 0 || bytes > all) {
        return;
    }
    Job *j = &jobs->at[jobs->n++];
    *j = (Job){.pool = pool, .part = read_part, .n_units = (double)bytes, .out = out};
    j->read = (ReadWork){.fn = read_fn(m), .at = memory->at, .bytes = bytes};
    j->work = &j->read;
    j->count = &j->read.n_passes;
}

/* ---- taking them ------------------------------------------------------------------------- */

static double try_job(const Job *j)
{
    return rate_of(j->pool, j->part, j->work, (double)*j->count * j->n_units);
}

/* Several times in a row: one that was interrupted says nothing. */
static bool long_enough(const Job *j)
{
    for (int i = 0; i < GROW_TRIES; i++) {
        if ((double)*j->count * j->n_units < TRY_NS * try_job(j)) {
            return false;
        }
    }
    return true;
}

static void take_jobs(Jobs *jobs)
{
    for (Job *j = jobs->at; j < jobs->at + jobs->n; j++) {
        for (*j->count = 1; !long_enough(j);) {
            *j->count *= 2;
        }
    }
    for (int i = 0; i < TRIES; i++) {
        for (Job *j = jobs->at; j < jobs->at + jobs->n; j++) {
            j->rate[i] = try_job(j);
        }
    }
    for (Job *j = jobs->at; j < jobs->at + jobs->n; j++) {
        stat_sort(j->rate, TRIES);
        *j->out =
            (Rate){.median = stat_quantile(j->rate, TRIES, 0.5), .best = j->rate[TRIES - 1]};
    }
}

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
    Jobs *jobs = arena_new(&e->model, Jobs);
    Pool *const pools[N_WAYS] = {[ONE_THREAD] = NULL, [ALL_THREADS] = pool};
    Ring memory;
    ring_init(e, &memory, NULL, ring_want_bytes(m) / 2, 2, true, pool);
    for (int way = 0; way < N_WAYS; way++) {
        for (ArithId id = 0; id < N_ARITHS; id++) {
            add_arith(jobs, arith_fn(m, id), pools[way], &out->arith[id][way]);
        }
        for (Level level = 0; level < N_LEVELS; level++) {
            add_read(jobs, m, level, pools[way], &memory, &out->read[level][way]);
        }
    }
    out->fork_join_ns = measure_regions(pool);
    take_jobs(jobs);
    ring_release(&memory);
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
