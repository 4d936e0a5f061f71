/* measure.c - times contenders in one process, in turns.
 *
 * A machine drifts, so contenders are compared only with what ran beside them: a round samples
 * each once, in a random order of its own, which makes any comparison of ranks exact whatever
 * the noise. Rounds form blocks, and probes before and after a block say what the machine could
 * do meanwhile. All contenders make equally many calls a sample. Nothing is decided and nothing
 * dropped here: the samples are kept raw. */
#include "tuner/tuner_int.h"

enum { WARM_CALLS = 3, MAX_REPS = 1 << 30 };

MeasurePlan measure_plan(uint64_t seed)
{
    return (MeasurePlan){.n_blocks = 9,
                         .max_rounds = 25,
                         .block_ns = 50000000,
                         .floor_ns = clock_floor_ns(clock_quality()),
                         .warm_ns = 5000000,
                         .settle_ns = 200000,
                         .seed = seed};
}

/* ---- one sample -------------------------------------------------------------------------- */

static uint64_t time_calls(const Contender *c, int64_t reps)
{
    uint64_t start = clock_ns();
    for (int64_t i = 0; i < reps; i++) {
        c->run(c->ctx);
    }
    return clock_ns() - start;
}

/* Threads that wait for more work keep a CPU busy for a while; the contender whose turn it is
 * wakes its own again by a call that is not timed. */
static uint64_t take_sample(const Contender *c, int64_t reps, uint64_t settle_ns)
{
    if (settle_ns > 0) {
        for (uint64_t start = clock_ns(); clock_ns() - start < settle_ns;) {
        }
        c->run(c->ctx);
    }
    return time_calls(c, reps);
}

/* ---- before anything counts -------------------------------------------------------------- */

/* Returns the fastest of its calls. */
static uint64_t warm(const Contender *c, uint64_t warm_ns)
{
    uint64_t best_ns = UINT64_MAX, total_ns = 0;
    for (int i = 0; i < WARM_CALLS || total_ns < warm_ns; i++) {
        uint64_t ns = time_calls(c, 1);
        total_ns += ns;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    return best_ns;
}

/* Doubles until three samples in a row are long enough for the clock. */
static int64_t enough_reps(const Contender *fastest, uint64_t floor_ns)
{
    int64_t reps = 1;
    for (int n_long = 0; n_long < WARM_CALLS && reps < MAX_REPS;) {
        if (time_calls(fastest, reps) < floor_ns) {
            reps *= 2;
            n_long = 0;
        } else {
            n_long++;
        }
    }
    return reps;
}

static int rounds_that_fit(const MeasurePlan *plan, int64_t reps, int n,
                           const uint64_t *call_ns)
{
    int64_t calls = reps + (plan->settle_ns > 0);
    uint64_t round_ns = 1;
    for (int i = 0; i < n; i++) {
        round_ns += plan->settle_ns + (uint64_t)calls * call_ns[i];
    }
    uint64_t fit = plan->block_ns / round_ns;
    return fit < 1 ? 1 : fit < (uint64_t)plan->max_rounds ? (int)fit : plan->max_rounds;
}

/* Warms all up; decides how many calls make a sample and how many rounds a block. */
static void prepare(Env *e, const MeasurePlan *plan, Measured *m)
{
    int n = m->n_contenders, fastest = 0;
    uint64_t *call_ns = arena_array(&e->model, uint64_t, n);
    for (int i = 0; i < n; i++) {
        call_ns[i] = warm(&m->contender[i], plan->warm_ns);
        fastest = call_ns[i] < call_ns[fastest] ? i : fastest;
    }
    m->reps = enough_reps(&m->contender[fastest], plan->floor_ns);
    m->n_rounds = rounds_that_fit(plan, m->reps, n, call_ns);
    m->sample = arena_array(&e->model, Sample, (int64_t)plan->n_blocks * m->n_rounds * n);
    m->block = arena_array(&e->model, Block, plan->n_blocks);
}

/* ---- rounds and blocks ------------------------------------------------------------------- */

static void shuffle(Rng *rng, int *order, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int k = (int)rng_below(rng, (uint64_t)i + 1), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
}

static void run_round(const MeasurePlan *plan, Rng *rng, const Measured *m, int *order,
                      Sample *sample)
{
    shuffle(rng, order, m->n_contenders);
    for (int turn = 0; turn < m->n_contenders; turn++) {
        int i = order[turn];
        uint64_t ns = take_sample(&m->contender[i], m->reps, plan->settle_ns);
        sample[i] = (Sample){ns, turn};
    }
}

static bool stopped(const MeasurePlan *plan)
{
    return plan->stop && *plan->stop;
}

/* False: stopped before its end, and so it is none. */
static bool run_block(Env *e, const MeasurePlan *plan, const Prober *prober, Rng *rng,
                      Measured *m, int *order)
{
    Block *b = &m->block[m->n_blocks];
    Sample *sample = m->sample + (int64_t)m->n_blocks * m->n_rounds * m->n_contenders;
    int64_t throttled = machine_throttled(e, "");
    if (prober) {
        prober_take(prober, &b->before);
    }
    for (int i = 0; i < m->n_rounds; i++, sample += m->n_contenders) {
        if (stopped(plan)) {
            return false;
        }
        run_round(plan, rng, m, order, sample);
    }
    if (prober) {
        prober_take(prober, &b->after);
    }
    b->flipped = probes_differ(&b->before, &b->after);
    b->throttled = machine_throttled(e, "") != throttled;
    return true;
}

void measure(Env *e, const Contender *c, int n, const MeasurePlan *plan, const Prober *prober,
             Measured *out)
{
    check(n >= 1 && plan->n_blocks >= 1 && plan->max_rounds >= 1);
    Rng rng;
    rng_seed(&rng, plan->seed);
    *out = (Measured){.contender = c, .n_contenders = n};
    prepare(e, plan, out);
    int *order = arena_array(&e->model, int, n);
    for (int i = 0; i < n; i++) {
        order[i] = i;
    }
    while (out->n_blocks < plan->n_blocks && run_block(e, plan, prober, &rng, out, order)) {
        out->n_blocks++;
    }
}
