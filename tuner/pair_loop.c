/* pair_loop.c - the loop that takes pairs: incumbent and challenger back to back, in an order that
 * a coin of the job's seed decides for each pair anew, which makes the sign test exact whatever
 * the machine does (MEASUREMENT 2.2). Nothing calls the system between the readings of a
 * sample's clock. What is seen of the system goes into flags: of a pair from its thread's own
 * counters, of a batch from what is only counted for the machine. */
#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>

#include "tuner/tuner_int.h"

enum {
    UNTIMED_CALLS = 2,
    WARM_CALLS = 3,
    SLOW_SAMPLES = 2,
    TRIES = 5,
    MAX_REPS = 1 << 24,
    FLOOR_PART = 8, /* so long a part of a sample says how long a call is */
    BATCH_NS = 2000000,
    MAX_BATCH = 64,
    CPU_TIME_FROM_NS = 100000, /* asking takes 0.4 us */
};

/* ---- samples ------------------------------------------------------------------------- */

/* Whoever ends the process is not to be mistaken for the other. */
static void enter(const PairRun *r, const Contender *c)
{
    __atomic_store_n(&r->area->head->in_a, c == &r->a, __ATOMIC_RELEASE);
}

static void call(const Contender *c, int64_t reps)
{
    for (int64_t i = 0; i < reps; i++) {
        c->run(c->ctx);
    }
}

/* A clock that stands or goes back gives 0. */
static uint64_t time_from(uint64_t start_ns)
{
    uint64_t now_ns = clock_ns();
    return now_ns > start_ns ? now_ns - start_ns : 0;
}

static uint64_t time_calls(const Contender *c, int64_t reps)
{
    uint64_t start_ns = clock_ns();
    call(c, reps);
    return time_from(start_ns);
}

static uint64_t thread_ns(void)
{
    struct timespec ts = {0};
    os.clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- before anything counts ---------------------------------------------------------- */

static double median_ns(const Contender *c, int64_t reps)
{
    double ns[TRIES];
    for (int i = 0; i < TRIES; i++) {
        ns[i] = (double)time_calls(c, reps);
    }
    return stat_median(ns, TRIES);
}

static void warm(const Contender *c)
{
    uint64_t total_ns = 0;
    call(c, UNTIMED_CALLS);
    for (int i = 0; i < WARM_CALLS || (total_ns < PAIRS_WARM_NS && i < MAX_REPS); i++) {
        total_ns += time_calls(c, 1);
    }
}

static uint64_t of_one(double ns, int64_t reps)
{
    ns /= (double)reps;
    return ns < 1 ? 1 : (uint64_t)(ns + 0.5);
}

/* Calls are repeated until a clock as coarse as this one can tell how long they take. */
static double find_reps(PairRun *r)
{
    double floor_ns = (double)clock_floor_ns(clock_quality()), ns;
    int64_t n = 1;
    while ((ns = median_ns(&r->a, n)) * FLOOR_PART < floor_ns && n < MAX_REPS) {
        n *= 2;
    }
    double reps = ns > 0 ? floor_ns / (ns / (double)n) : MAX_REPS;
    r->reps = reps < 1 ? 1 : reps > MAX_REPS ? MAX_REPS : (int64_t)(reps + 0.5);
    r->warm_a_ns = of_one(ns, n);
    return ns / (double)n;
}

/* Two samples of b tell whether more of them are worth their time, and one may. */
static bool is_slow(PairRun *r, double limit_ns)
{
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < SLOW_SAMPLES; i++) {
        uint64_t ns = time_calls(&r->b, r->reps);
        least_ns = ns < least_ns ? ns : least_ns;
        r->warm_b_ns = of_one((double)least_ns, r->reps);
        if ((double)r->warm_b_ns <= limit_ns) {
            return false;
        }
    }
    return true;
}

void pairs_warm(PairRun *r)
{
    const StopRule *stop = r->job->stop;
    enter(r, &r->a);
    warm(&r->a);
    double a_ns = find_reps(r);
    enter(r, &r->b);
    r->dropped =
        is_slow(r, stop && stop->warm_x100 > 0 ? a_ns * stop->warm_x100 / 100 : INFINITY);
}

/* In an order of their own, drawn like that of pairs. */
static uint64_t call_both(PairRun *r, int nth)
{
    bool b_first = pair_b_first(~r->job->seed, nth);
    uint64_t total_ns = 0;
    for (int slot = 0; slot < 2; slot++) {
        bool is_b = slot ^ b_first;
        enter(r, is_b ? &r->b : &r->a);
        uint64_t ns = time_calls(is_b ? &r->b : &r->a, 1);
        r->warm_b_ns = is_b ? of_one((double)ns, 1) : r->warm_b_ns;
        total_ns += ns;
    }
    return total_ns;
}

void pairs_alternate(PairRun *r, uint64_t least_ns)
{
    uint64_t total_ns = 0;
    for (int i = 0; i < WARM_CALLS || (total_ns < 2 * least_ns && i < MAX_REPS); i++) {
        total_ns += call_both(r, i);
    }
}

/* ---- flags --------------------------------------------------------------------------- */

typedef struct Seen {
    long preempted, waited, faults;
    int cpu;
} Seen;

static Seen look(void)
{
    struct rusage u = {0};
    getrusage(RUSAGE_THREAD, &u);
    return (Seen){u.ru_nivcsw, u.ru_nvcsw, u.ru_minflt + u.ru_majflt, sched_getcpu()};
}

static uint16_t flags_between(const Seen *was, const Seen *is, const Pair *p)
{
    unsigned flags = (is->preempted != was->preempted ? PAIR_PREEMPTED : 0) |
                     (is->waited != was->waited ? PAIR_WAITED : 0) |
                     (is->faults != was->faults ? PAIR_FAULTED : 0) |
                     (is->cpu != was->cpu ? PAIR_MIGRATED : 0) |
                     (p->a_ns == 0 || p->b_ns == 0 ? PAIR_CLOCK : 0);
    return (uint16_t)flags;
}

typedef struct Counters { /* of the machine and the control groups */
    int64_t steal;        /* -1: not known */
    int64_t throttled;
} Counters;

static Counters count(const PairRun *r)
{
    env_reset_kernel(r->e);
    return (Counters){machine_steal(r->e, r->root), machine_throttled(r->e, r->root)};
}

/* ---- pairs --------------------------------------------------------------------------- */

typedef struct Batch {
    Pair pair[MAX_BATCH];
    uint64_t start_ns[MAX_BATCH];
    int n;
} Batch;

/* Neither side finds the other's threads awake, and each finds its own so. */
static void settle(const PairRun *r, const Contender *c)
{
    if (r->settle_ns > 0) {
        for (uint64_t from_ns = clock_ns(); clock_ns() - from_ns < r->settle_ns;) {
        }
        call(c, 1);
    }
}

static void take_pair(const PairRun *r, int nth, bool cpu_time, Seen *seen, Pair *p,
                      uint64_t *start_ns)
{
    *p = (Pair){.b_first = pair_b_first(r->job->seed, nth)};
    for (int slot = 0; slot < 2; slot++) {
        bool is_b = slot ^ p->b_first;
        const Contender *c = is_b ? &r->b : &r->a;
        enter(r, c);
        settle(r, c);
        uint64_t cpu_ns = cpu_time ? thread_ns() : 0;
        uint64_t from_ns = clock_ns();
        call(c, r->reps);
        uint64_t ns = time_from(from_ns);
        cpu_ns = cpu_time ? thread_ns() - cpu_ns : 0;
        *start_ns = slot == 0 ? from_ns : *start_ns;
        *(is_b ? &p->b_ns : &p->a_ns) = ns;
        *(is_b ? &p->b_cpu_ns : &p->a_cpu_ns) = cpu_ns;
    }
    enter(r, NULL);
    Seen now = look();
    p->cpu = (uint32_t)now.cpu;
    p->flags = flags_between(seen, &now, p);
    *seen = now;
}

/* 1, 2, then what takes about 2 ms. */
static int batch_size(const PairRun *r, int done)
{
    uint64_t pair_ns = (r->warm_a_ns + r->warm_b_ns) * (uint64_t)r->reps + 2 * r->settle_ns;
    uint64_t n = done == 0 ? 1 : done == 1 ? 2 : BATCH_NS / pair_ns;
    n = n < 1 ? 1 : n > MAX_BATCH ? MAX_BATCH : n;
    int left = r->job->n_pairs - done;
    return (int)n < left ? (int)n : left;
}

static void take_batch(PairRun *r, Batch *b, bool cpu_time)
{
    Counters was = count(r);
    Seen seen = look();
    int done = (int)r->area->n_written;
    b->n = batch_size(r, done);
    for (int i = 0; i < b->n; i++) {
        take_pair(r, done + i, cpu_time, &seen, &b->pair[i], &b->start_ns[i]);
    }
    Counters is = count(r);
    bool known = was.steal >= 0 && is.steal >= 0;
    unsigned flags = (known && is.steal != was.steal ? PAIR_STEAL : 0) |
                     (is.throttled != was.throttled ? PAIR_THROTTLED : 0);
    for (int i = 0; i < b->n; i++) {
        b->pair[i].flags |= (uint16_t)flags;
    }
    area_put(r->area, b->pair, b->start_ns, b->n);
}

void pairs_take(PairRun *r)
{
    bool cpu_time = r->cpu_time && r->warm_a_ns * (uint64_t)r->reps >= CPU_TIME_FROM_NS;
    Batch b;
    memset(&b, 0, sizeof b); /* no page of it is touched for the first time in a pair */
    Race race = {.rule = r->job->stop};
    if (race.rule) {
        race_start(&race, race.rule, r->job->margin_e4, 0, 0); /* as the parent counts them */
    }
    int n = 0;
    while (n < r->job->n_pairs && race.outcome == OUTCOME_NONE) {
        take_batch(r, &b, cpu_time);
        for (; n < (int)r->area->n_written; n++) {
            if (race.rule) {
                race_add(&race, &r->area->pair[n]);
            }
        }
    }
}
