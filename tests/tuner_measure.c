/* tuner_measure.c - tests of measuring by a made-up clock that moves only when a contender
 * runs, and of what is made of samples: no test here depends on how fast the machine is. */
#include "tests/clock_fixture.h"
#include "tests/fault.h"
#include "tuner/tuner.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>

TestSuite(tuner_measure, .init = start, .fini = stop);

/* ---- contenders that take a known time ---- */

typedef struct FakeRun {
    uint64_t ns; /* of a call */
    int calls;
    const char *name;
    char *log; /* of names in the order they ran; may be NULL */
} FakeRun;

static void run(void *ctx)
{
    FakeRun *r = ctx;
    fake_ns += r->ns;
    r->calls++;
    if (r->log) {
        strcat(r->log, r->name);
    }
}

static FakeRun slow = {.ns = 30000, .name = "s"}, fast = {.ns = 1000, .name = "f"};
static const Contender both[] = {{"slow", run, &slow}, {"fast", run, &fast}};

static MeasurePlan plan_of(int n_blocks, int n_rounds)
{
    return (MeasurePlan){.n_blocks = n_blocks,
                         .max_rounds = n_rounds,
                         .block_ns = UINT64_MAX,
                         .floor_ns = 10000,
                         .warm_ns = 1,
                         .seed = 5};
}

static const Sample *sample_of(const Measured *m, int block, int round, int contender)
{
    return &m->sample[(block * m->n_rounds + round) * m->n_contenders + contender];
}

/* ---- how samples are taken ---- */

Test(tuner_measure, calls_are_doubled_until_the_fastest_contender_outlasts_the_floor)
{
    MeasurePlan plan = plan_of(1, 1);
    Measured m;
    measure(&env, both, 2, &plan, NULL, &m);
    cr_assert_eq(m.reps, 16, "10 calls of 1000 ns last 10000 ns; the next power of two is 16");
    plan.floor_ns = 500;
    measure(&env, both, 2, &plan, NULL, &m);
    cr_assert_eq(m.reps, 1);
}

Test(tuner_measure, every_sample_is_kept_raw)
{
    MeasurePlan plan = plan_of(3, 4);
    Measured m;
    measure(&env, both, 2, &plan, NULL, &m);
    cr_assert_eq(m.n_blocks, 3);
    cr_assert_eq(m.n_rounds, 4);
    for (int b = 0; b < 3; b++) {
        for (int r = 0; r < 4; r++) {
            cr_assert_eq(sample_of(&m, b, r, 0)->ns, 16 * 30000 + 1);
            cr_assert_eq(sample_of(&m, b, r, 1)->ns, 16 * 1000 + 1);
            cr_assert_eq(sample_of(&m, b, r, 0)->turn + sample_of(&m, b, r, 1)->turn, 1);
        }
    }
}

static int firsts(uint64_t seed, char *orders)
{
    MeasurePlan plan = plan_of(10, 40);
    plan.seed = seed;
    Measured m;
    measure(&env, both, 2, &plan, NULL, &m);
    int n = 0;
    for (int i = 0; i < 400; i++) {
        orders[i] = (char)('0' + m.sample[2 * i].turn);
        n += m.sample[2 * i].turn == 0;
    }
    return n;
}

Test(tuner_measure, the_order_within_a_round_is_a_coin_that_the_seed_decides)
{
    char a[401] = {0}, b[401] = {0};
    int n = firsts(1, a);
    cr_assert(n > 150 && n < 250, "%d of 400 rounds", n); /* five standard deviations */
    firsts(1, b);
    cr_assert_str_eq(a, b);
    firsts(2, b);
    cr_assert_str_neq(a, b);
}

Test(tuner_measure, everyone_is_warm_before_anything_counts)
{
    MeasurePlan plan = plan_of(1, 1);
    plan.warm_ns = 90000;
    plan.floor_ns = 1;
    slow.calls = fast.calls = 0;
    Measured m;
    measure(&env, both, 2, &plan, NULL, &m);
    cr_assert_eq(slow.calls, 3 + 1, "three calls at least, and one sample");
    cr_assert_eq(fast.calls, 90 + 3 + 1,
                 "until the time is up; three to count repeats by; one sample");
}

Test(tuner_measure, a_settled_sample_waits_and_makes_one_call_that_is_not_timed)
{
    MeasurePlan plan = plan_of(1, 1);
    plan.settle_ns = 1000000;
    plan.floor_ns = 1;
    slow.calls = 0;
    Measured m;
    uint64_t before = fake_ns;
    measure(&env, both, 1, &plan, NULL, &m);
    cr_assert_eq(slow.calls, 3 + 3 + 1 + 1);
    cr_assert_eq(m.sample[0].ns, 30001);
    cr_assert_geq(fake_ns - before, 1000000 + 8 * 30000);
}

Test(tuner_measure, rounds_are_as_many_as_fit_a_block_but_one_at_least)
{
    MeasurePlan plan = plan_of(1, 25);
    plan.floor_ns = 1;
    plan.block_ns = 320000;
    Measured m;
    measure(&env, both, 2, &plan, NULL, &m);
    cr_assert_eq(m.n_rounds, 10);
    plan.block_ns = 100;
    measure(&env, both, 2, &plan, NULL, &m);
    cr_assert_eq(m.n_rounds, 1);
    plan.block_ns = 1000000000;
    measure(&env, both, 2, &plan, NULL, &m);
    cr_assert_eq(m.n_rounds, 25);
}

static volatile int stop_flag;

static void run_then_stop(void *ctx)
{
    run(ctx);
    FakeRun *r = ctx;
    stop_flag = r->calls >= 40;
}

Test(tuner_measure, stopped_it_keeps_the_blocks_that_were_complete)
{
    FakeRun r = {.ns = 20000};
    const Contender one = {"one", run_then_stop, &r};
    MeasurePlan plan = plan_of(100, 10);
    plan.stop = &stop_flag;
    Measured m;
    measure(&env, &one, 1, &plan, NULL, &m);
    cr_assert_eq(m.n_blocks, 3,
                 "6 calls to get ready, then 10 a block, and the 40th call stops");
}

Test(tuner_measure, a_dead_clock_is_our_bug, .signal = SIGABRT)
{
    fault_arm("clock_gettime", 1, true, EINVAL);
    MeasurePlan plan = plan_of(1, 1);
    Measured m;
    measure(&env, both, 2, &plan, NULL, &m);
}

/* ---- the clock ---- */

Test(tuner_measure, the_floor_follows_the_clocks_grain_and_cost)
{
    cr_assert_eq(clock_floor_ns((ClockQuality){10, 21}), 10000);
    cr_assert_eq(clock_floor_ns((ClockQuality){1000, 21}), 1000000);
    cr_assert_eq(clock_floor_ns((ClockQuality){10, 500}), 200000);
    ClockQuality q = clock_quality();
    cr_assert_eq(q.grain_ns, 1);
    cr_assert_eq(q.cost_ns, 1);
}

static int coarse_clock(clockid_t clock, struct timespec *ts)
{
    (void)clock;
    fake_ns++;
    *ts = (struct timespec){0, (long)(fake_ns / 5000 * 1000000)};
    return 0;
}

Test(tuner_measure, a_clock_coarser_than_a_thousand_readings_is_waited_for)
{
    os.clock_gettime = coarse_clock;
    cr_assert_eq(clock_quality().grain_ns, 1000000);
}

/* ---- what the samples say ---- */

enum { BLOCKS = 9, ROUNDS = 3 };

static const Contender pair[] = {{"a", NULL, NULL}, {"b", NULL, NULL}};

/* a takes 100 + block, b twice that, the last round of each block ten times as long. */
static Measured made_up(void)
{
    Measured m = {pair, 2, BLOCKS, ROUNDS, 4, NULL, NULL};
    m.sample = arena_array(&env.model, Sample, 2 * BLOCKS * ROUNDS);
    m.block = arena_array(&env.model, Block, BLOCKS);
    for (int b = 0; b < BLOCKS; b++) {
        for (int r = 0; r < ROUNDS; r++) {
            uint64_t ns = (uint64_t)(4 * (100 + b)) * (r == ROUNDS - 1 ? 10 : 1);
            Sample *s = &m.sample[2 * (b * ROUNDS + r)];
            s[0].ns = ns;
            s[1].ns = 2 * ns;
        }
        m.block[b].before = m.block[b].after = (Probe){50, 100, 500};
    }
    return m;
}

Test(tuner_measure, a_summary_is_per_call_and_robust)
{
    Measured m = made_up();
    Summary s = measure_summary(&env, &m, 0);
    cr_assert_eq(s.n_samples, BLOCKS * ROUNDS);
    cr_assert_eq(s.min_ns, 100);
    cr_assert_eq(s.max_ns, 1080);
    cr_assert_eq(s.median_ns, 106);
    cr_assert(s.q1_ns >= 102 && s.q1_ns <= 104 && s.q3_ns > 500);
    cr_assert_eq(s.block_ns.median, 104);
    cr_assert_eq(s.block_ns.lo, 101);
    cr_assert_eq(s.block_ns.hi, 107);
    cr_assert_eq(measure_summary(&env, &m, 1).min_ns, 200);
}

Test(tuner_measure, a_ratio_is_taken_block_by_block)
{
    Measured m = made_up();
    Interval i = measure_ratio(&env, &m, 0, 1);
    cr_assert_eq(i.median, 0.5);
    cr_assert_eq(i.lo, 0.5);
    cr_assert_eq(i.hi, 0.5, "the drift of both cancels");
    cr_assert_eq(i.n, BLOCKS);
}

Test(tuner_measure, fractions_are_of_the_probes_beside_them)
{
    Measured m = made_up();
    Interval i = measure_fraction(&env, &m, 0, 104 * 25, 0);
    cr_assert_float_eq(i.median, 0.5, 1e-12);
    i = measure_fraction(&env, &m, 1, 0, 208 * 450);
    cr_assert_float_eq(i.median, 0.9, 1e-12);
    m.block[3].before.read_bytes_per_ns = m.block[4].after.read_bytes_per_ns = 40;
    i = measure_fraction(&env, &m, 0, 104 * 25, 0);
    cr_assert_float_eq(i.hi, 25 / 45.0, 1e-12, "the mean of before and after");
}

Test(tuner_measure, flipped_and_throttled_blocks_count_in_ratios_but_not_in_fractions)
{
    Measured m = made_up();
    m.block[0].flipped = m.block[1].throttled = true;
    cr_assert_eq(measure_fraction(&env, &m, 0, 1, 0).n, BLOCKS - 2);
    cr_assert_eq(measure_ratio(&env, &m, 0, 1).n, BLOCKS);
    for (int b = 0; b < BLOCKS; b++) {
        m.block[b].before.read_bytes_per_ns = m.block[b].after.read_bytes_per_ns = 0;
    }
    Interval none = measure_fraction(&env, &m, 0, 1, 0);
    cr_assert_eq(none.n, 0, "no ring, no fraction");
    cr_assert(isnan(none.median) && isnan(none.lo));
}

/* ---- probes ---- */

Test(tuner_measure, a_flip_is_a_change_of_bandwidth_or_of_the_cost_of_a_region)
{
    Probe usual = {80, 120, 540}, noisy = {76, 150, 530}, slow_memory = {51, 120, 540},
          far_apart = {80, 630, 540}, hot = {0, 120, 540};
    cr_assert_not(probes_differ(&usual, &usual));
    cr_assert_not(probes_differ(&usual, &noisy));
    cr_assert(probes_differ(&usual, &slow_memory));
    cr_assert(probes_differ(&slow_memory, &usual));
    cr_assert(probes_differ(&usual, &far_apart));
    cr_assert_not(probes_differ(&hot, &hot));
    Probe alone = {0, 12, 270}, still_alone = {0, 40, 270};
    cr_assert_not(probes_differ(&alone, &still_alone), "one thread: nothing to join");
}

typedef struct Setting {
    Machine machine;
    Pool *pool;
    Ring ring;
    int n_copies;
} Setting;

static void set_up(Env *e, void *arg)
{
    Setting *s = arg;
    machine_read(e, "", &s->machine);
    ring_init(e, &s->ring, NULL, 1000, s->n_copies, false, s->pool);
}

/* The real clock, since threads are at work; only that there are values is asserted. */
Test(tuner_measure, blocks_carry_probes_of_the_same_ring)
{
    os = os_system;
    Err err;
    Setting s = {.pool = pool_new(2, &err), .n_copies = 3};
    must_work(&env, set_up, &s);
    Prober prober = prober_of(&s.machine, s.pool, &s.ring);
    MeasurePlan plan = plan_of(2, 2);
    FakeRun r = {.ns = 1};
    const Contender one = {"one", run, &r};
    Measured m;
    measure(&env, &one, 1, &plan, &prober, &m);
    for (int b = 0; b < 2; b++) {
        const Probe *probe[] = {&m.block[b].before, &m.block[b].after};
        for (int i = 0; i < 2; i++) {
            cr_assert_gt(probe[i]->read_bytes_per_ns, 0);
            cr_assert_gt(probe[i]->fork_join_ns, 0);
            cr_assert_gt(probe[i]->flops_per_ns, 0);
        }
    }
    ring_release(&s.ring);
    pool_free(s.pool);
}

Test(tuner_measure, a_probe_reads_within_the_ring_and_moves_it_on)
{
    os = os_system;
    for (int n_copies = 1; n_copies <= 20000; n_copies = n_copies * 3 + 1) {
        Setting s = {.pool = pool_new(1, NULL), .n_copies = n_copies};
        must_work(&env, set_up, &s);
        Prober prober = prober_of(&s.machine, s.pool, &s.ring);
        Probe probe;
        prober_take(&prober, &probe);
        cr_assert(s.ring.next >= 0 && s.ring.next < n_copies);
        ring_release(&s.ring);
        pool_free(s.pool);
    }
}
