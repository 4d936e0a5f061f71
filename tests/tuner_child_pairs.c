/* tuner_child_pairs.c - the loop that takes pairs, by a made-up clock that moves only when a
 * contender runs or the clock is read: how many calls make a sample, in which order, who is
 * charged, and when it ends. */
#include "tests/helpers.h"
#include "tuner/tuner_int.h"

#include <sched.h>
#include <string.h>

static Env env;
static uint64_t fake_ns, grain_ns;
static bool stands;
static TempDir root; /* made-up /proc and /sys */

static int fake_clock(clockid_t clock, struct timespec *ts)
{
    uint64_t now = (fake_ns += !stands) / grain_ns * grain_ns;
    now = clock == CLOCK_THREAD_CPUTIME_ID ? now / 2 : now; /* half of the time is another's */
    *ts = (struct timespec){(time_t)(now / 1000000000u), (long)(now % 1000000000u)};
    return 0;
}

static void start(void)
{
    env_init(&env);
    root = temp_dir();
    fake_ns = 1000000000;
    grain_ns = 1;
    stands = false;
    os.clock_gettime = fake_clock;
}

static void stop(void)
{
    os = os_system;
    temp_remove(&root);
    env_release(&env);
}

TestSuite(tuner_child_pairs, .init = start, .fini = stop, .timeout = 60);

typedef struct Side {
    uint64_t ns; /* of a call */
    char name;
} Side;

static char calls[4096]; /* who was called, in order */
static size_t n_calls;

static void run(void *ctx)
{
    const Side *s = ctx;
    fake_ns += s->ns;
    if (n_calls < sizeof calls) {
        calls[n_calls] = s->name;
    }
    n_calls++;
}

static Side a, b;
static Area area;
static PairRun taking;

static void prepare(const ProcessJob *job, uint64_t a_ns, uint64_t b_ns)
{
    static const Task task = {.kernel = ""};
    static const Built built = {"", "", "", {0, 0}, false};
    static ProcessJob full;
    ChildJob cross;
    Buf text;
    Err err;
    full = *job;
    full.task = &task;
    full.a = full.b = &built;
    child_job_init(&cross, &full);
    buf_init(&text, &env.model);
    int fd = area_make(&cross, &text, &area, &err);
    cr_assert_geq(fd, 0, "%s", err.text);
    os.close(fd);
    a = (Side){a_ns, 'a'};
    b = (Side){b_ns, 'b'};
    n_calls = 0;
    taking = (PairRun){.job = &full,
                       .a = {"a", run, &a},
                       .b = {"b", run, &b},
                       .root = root.path,
                       .cpu_time = true,
                       .e = &env,
                       .area = &area};
}

static void take_all(const ProcessJob *job, uint64_t a_ns, uint64_t b_ns)
{
    prepare(job, a_ns, b_ns);
    pairs_warm(&taking);
    pairs_alternate(&taking, PAIRS_WARM_NS);
    n_calls = 0;
    memset(calls, 0, sizeof calls);
    pairs_take(&taking);
}

/* ---- how long a sample is ------------------------------------------------------------ */

static int64_t reps_of(uint64_t a_ns)
{
    prepare(&(ProcessJob){.n_pairs = 1}, a_ns, a_ns);
    pairs_warm(&taking);
    int64_t reps = taking.reps;
    area_release(&area);
    return reps;
}

Test(tuner_child_pairs, calls_are_repeated_until_the_clock_can_tell)
{
    cr_expect_eq(reps_of(2500), 4);
    cr_expect_eq(reps_of(9900), 1);
    cr_expect_eq(reps_of(12000000), 1);
    int64_t short_calls = reps_of(40);
    cr_expect(short_calls >= 240 && short_calls <= 255, "%lld", (long long)short_calls);
}

/* AUTOTUNERS 5: a clock whose step is longer than the kernel. */
Test(tuner_child_pairs, acceptance_5_step_of_the_clock_longer_than_the_kernel)
{
    grain_ns = 1000;
    int64_t reps = reps_of(100);
    cr_expect(reps >= 9000 && reps <= 11000, "%lld: a sample of 1 ms", (long long)reps);
    take_all(&(ProcessJob){.n_pairs = 9}, 100, 100);
    for (int i = 0; i < 9; i++) {
        cr_expect(area.pair[i].a_ns > 900000 && area.pair[i].b_ns > 900000);
        cr_expect_not(area.pair[i].flags & PAIR_CLOCK);
    }
    area_release(&area);
}

Test(tuner_child_pairs, acceptance_5_clock_that_stands_is_flagged)
{
    ProcessJob job = {.n_pairs = 3};
    prepare(&job, 20000, 20000);
    pairs_warm(&taking);
    stands = true;
    a.ns = b.ns = 0;
    pairs_take(&taking);
    cr_expect_eq(area.n_written, 3);
    for (int i = 0; i < 3; i++) {
        cr_expect(area.pair[i].flags & PAIR_CLOCK);
        cr_expect_eq(area.pair[i].a_ns, 0);
    }
    area_release(&area);
}

static void jump_back(void *ctx)
{
    run(ctx);
    fake_ns -= 50000;
}

Test(tuner_child_pairs, acceptance_5_clock_that_goes_back_is_flagged)
{
    prepare(&(ProcessJob){.n_pairs = 2}, 20000, 20000);
    pairs_warm(&taking);
    taking.b.run = jump_back;
    pairs_take(&taking);
    for (int i = 0; i < 2; i++) {
        cr_expect(area.pair[i].flags & PAIR_CLOCK);
        cr_expect(area.pair[i].a_ns > 19000 && area.pair[i].b_ns == 0);
    }
    area_release(&area);
}

/* ---- what is counted for the machine is noted of a batch ------------------------------- */

static const char *counter,
    *counted; /* a file of the root, and what it says from the fourth call */

static void put(const char *path, const char *text)
{
    write_text(temp_path(&root, path), text);
}

static void count_at_fourth(void *ctx)
{
    run(ctx);
    if (n_calls == 4) {
        put(counter, counted);
    }
}

/* Batches are of 1, 2, 1, 1 pairs: the fourth call is in the second. */
static void second_batch_alone_has(int flag)
{
    prepare(&(ProcessJob){.n_pairs = 5}, 2000000, 2000000);
    pairs_warm(&taking);
    n_calls = 0;
    taking.a.run = taking.b.run = count_at_fourth;
    pairs_take(&taking);
    cr_assert_eq(area.n_written, 5);
    for (int i = 0; i < 5; i++) {
        int want = i == 1 || i == 2 ? flag : 0;
        cr_expect_eq(area.pair[i].flags & (PAIR_STEAL | PAIR_THROTTLED), want, "pair %d", i);
    }
    area_release(&area);
}

Test(tuner_child_pairs, cases_8_a_batch_that_was_throttled_or_stolen_from_is_flagged)
{
    put("proc/self/cgroup", "0::/a/b\n");
    put("proc/stat", "cpu  10 20 30 40 50 60 70 80 90 100\n");
    put("sys/fs/cgroup/a/cpu.stat", "nr_periods 9\nnr_throttled 4\n");
    counter = "sys/fs/cgroup/a/cpu.stat", counted = "nr_periods 10\nnr_throttled 5\n";
    second_batch_alone_has(PAIR_THROTTLED);
    counter = "proc/stat", counted = "cpu  10 20 30 40 50 60 70 81 90 100\n";
    second_batch_alone_has(PAIR_STEAL);
    counted = "nothing that is known\n"; /* is no time that went to others */
    second_batch_alone_has(0);
}

/* ---- a CPU that goes away -------------------------------------------------------------- */

static int other_cpu; /* where the system moves who ran on the one that is gone */

static void lose_cpu_at_fourth(void *ctx)
{
    run(ctx);
    if (n_calls == 4) {
        cr_assert(child_bind_cpu(other_cpu));
    }
}

Test(tuner_child_pairs, cases_9_a_cpu_that_goes_away_spoils_a_pair_and_no_more)
{
    cpu_set_t allowed;
    cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    if (CPU_COUNT(&allowed) < 2) {
        cr_skip_test("needs two CPUs");
    }
    int cpu[2], n = 0;
    for (int i = 0; n < 2; i++) {
        cpu[n] = i;
        n += CPU_ISSET(i, &allowed) != 0;
    }
    cr_assert(child_bind_cpu(cpu[0]));
    other_cpu = cpu[1];
    prepare(&(ProcessJob){.n_pairs = 5}, 2000000, 2000000);
    pairs_warm(&taking);
    n_calls = 0;
    taking.a.run = taking.b.run = lose_cpu_at_fourth;
    pairs_take(&taking);
    cr_assert_eq(area.n_written, 5, "the batch ends, not the process");
    for (int i = 0; i < 5; i++) {
        cr_expect_eq(area.pair[i].flags & PAIR_MIGRATED, i == 1 ? PAIR_MIGRATED : 0, "pair %d",
                     i);
        cr_expect_eq(area.pair[i].cpu, (uint32_t)cpu[i > 0]);
    }
    area_release(&area);
}

/* ---- who runs when, and who is charged ----------------------------------------------- */

Test(tuner_child_pairs, pairs_are_back_to_back_in_the_coins_order)
{
    ProcessJob job = {.n_pairs = 40, .seed = 77};
    take_all(&job, 3900, 7000);
    int reps = (int)taking.reps;
    cr_assert_eq(reps, 3); /* 2.6, rounded */
    cr_assert_eq(n_calls, (size_t)(40 * 2 * reps));
    for (int i = 0; i < 40; i++) {
        bool b_first = pair_b_first(77, i);
        cr_expect_eq(area.pair[i].b_first, b_first);
        for (int c = 0; c < 2 * reps; c++) {
            cr_expect_eq(calls[i * 2 * reps + c], (c < reps) != b_first ? 'a' : 'b');
        }
        cr_expect(area.pair[i].a_ns >= 11700 && area.pair[i].a_ns < 11710);
        cr_expect(area.pair[i].b_ns >= 21000 && area.pair[i].b_ns < 21010);
        cr_expect(i == 0 || area.start_ns[i] > area.start_ns[i - 1] + 32700);
    }
    area_release(&area);
}

/* Whoever is called last before the pairs would find the most of what it reads in a cache. */
Test(tuner_child_pairs, calls_alternate_in_an_order_that_a_coin_draws)
{
    int n_b_last = 0, n_turns = 40;
    prepare(&(ProcessJob){.n_pairs = 1, .seed = 7}, 100000, 150000);
    pairs_alternate(&taking, (uint64_t)n_turns / 2 * 250000);
    cr_assert_eq(n_calls, (size_t)(2 * n_turns));
    for (int i = 0; i < n_turns; i++) {
        cr_assert_neq(calls[2 * i], calls[2 * i + 1]);
        n_b_last += calls[2 * i + 1] == 'b';
    }
    cr_expect(n_b_last > 10 && n_b_last < 30, "%d", n_b_last);
    cr_expect(taking.warm_b_ns >= 150000 && taking.warm_b_ns < 150010);
    area_release(&area);
}

Test(tuner_child_pairs, warm_calls_are_of_one_call)
{
    take_all(&(ProcessJob){.n_pairs = 1}, 4000, 7000);
    cr_expect(taking.warm_a_ns >= 4000 && taking.warm_a_ns < 4010);
    cr_expect(taking.warm_b_ns >= 7000 && taking.warm_b_ns < 7010);
    area_release(&area);
}

Test(tuner_child_pairs, cpu_time_only_of_samples_that_are_long_enough)
{
    take_all(&(ProcessJob){.n_pairs = 1}, 99000, 300000);
    cr_expect(area.pair[0].a_cpu_ns == 0 && area.pair[0].b_cpu_ns == 0, "a decides for both");
    area_release(&area);
    take_all(&(ProcessJob){.n_pairs = 1}, 200000, 50000);
    cr_expect(area.pair[0].a_cpu_ns >= 100000 && area.pair[0].a_cpu_ns < 100010);
    cr_expect(area.pair[0].b_cpu_ns >= 25000 && area.pair[0].b_cpu_ns < 25010);
    area_release(&area);
    prepare(&(ProcessJob){.n_pairs = 1}, 200000, 200000);
    taking.cpu_time = false; /* several threads */
    pairs_warm(&taking);
    pairs_take(&taking);
    cr_expect_eq(area.pair[0].a_cpu_ns, 0);
    area_release(&area);
}

/* ---- when it ends -------------------------------------------------------------------- */

Test(tuner_child_pairs, a_slow_challenger_costs_two_samples)
{
    static const StopRule s = {.warm_x100 = 400};
    prepare(&(ProcessJob){.n_pairs = 9, .stop = &s}, 20000, 81000);
    pairs_warm(&taking);
    size_t n_b = 0;
    for (size_t i = 0; i < n_calls && i < sizeof calls; i++) {
        n_b += calls[i] == 'b';
    }
    cr_expect(taking.dropped && n_b == 2, "%zu calls", n_b);
    cr_expect(taking.warm_b_ns >= 81000 && taking.warm_b_ns < 81010);
    area_release(&area);
    prepare(&(ProcessJob){.n_pairs = 9, .stop = &s}, 20000, 79000);
    pairs_warm(&taking);
    cr_expect_not(taking.dropped);
    area_release(&area);
}

Test(tuner_child_pairs, the_rule_ends_it_at_a_batch)
{
    static int16_t win[201], lose[201];
    StopRule s = {.n = 201, .win = win, .lose = lose};
    for (int i = 0; i < 201; i++) {
        win[i] = i < 9 ? -1 : 9;
        lose[i] = i < 6 ? -1 : 0;
    }
    /* 5 ms a pair: batches of 1, 2, 1, 1 ... Faults and switches of this process are real. */
    take_all(&(ProcessJob){.n_pairs = 200, .stop = &s, .margin_e4 = 100}, 3000000, 2000000);
    cr_expect(area.n_written >= 9 && area.n_written < 60, "%u", area.n_written);
    area_release(&area);
    take_all(&(ProcessJob){.n_pairs = 200, .stop = &s}, 3000000, 3000010);
    cr_expect(area.n_written >= 6 && area.n_written < 60, "%u", area.n_written);
    area_release(&area);
    take_all(&(ProcessJob){.n_pairs = 30}, 3000000, 2000000);
    cr_expect_eq(area.n_written, 30);
    area_release(&area);
}
