/* tuner_buckets.c - which lengths of prompts share a program: measured by a made-up clock that moves only
 * when a prompt is fed, chosen from made-up regrets, and kept in a database. */
#include "tests/clock_fixture.h"
#include "tests/db_util.h"
#include "tuner/buckets.h"

#include <math.h>
#include <string.h>

TestSuite(tuner_buckets, .init = start, .fini = stop);

enum { N_LENGTHS = 6, N_PROGRAMS = 4, MOST = 512 };

static const int64_t lengths[N_LENGTHS] = {3, 6, 24, 48, 100, 400},
                     usual[N_PROGRAMS] = {4, 16, 64, 256};

/* A token takes 1 us through the program for its length, and a factor more for each doubling between. */
static double factor;

static double time_ns(int program, int64_t length)
{
    double doublings = fabs(log2((double)length / (double)usual[program]));
    return 1000.0 * (double)length * pow(factor, doublings);
}

static int n_fed[N_PROGRAMS];

static void feed(void *ctx, int program, int64_t length)
{
    (void)ctx;
    n_fed[program]++;
    fake_ns += (uint64_t)time_ns(program, length);
}

static BucketTimes measured(const int *kind)
{
    static const int own[N_PROGRAMS] = {0, 1, 2, 3};
    BucketTimes t = {
        .n_lengths = N_LENGTHS, .n_programs = N_PROGRAMS, .length = lengths, .usual = usual};
    BucketRun run = {feed, kind ? kind : own, NULL};
    MeasurePlan plan = {.n_blocks = 6,
                        .max_rounds = 1,
                        .block_ns = UINT64_MAX,
                        .floor_ns = 10,
                        .warm_ns = 1,
                        .seed = 3};
    cr_assert(buckets_measure(&env, &run, &plan, NULL, &t));
    return t;
}

/* ---- measuring ---- */

Test(tuner_buckets, regret_is_what_a_program_takes_longer_than_the_best)
{
    factor = 1.1;
    BucketTimes t = measured(NULL);
    for (int i = 0; i < N_LENGTHS; i++) {
        double best = INFINITY;
        for (int p = 0; p < N_PROGRAMS; p++) {
            best = fmin(best, time_ns(p, lengths[i]));
        }
        for (int p = 0; p < N_PROGRAMS; p++) {
            const Interval *r = &t.regret[i * N_PROGRAMS + p];
            cr_assert_float_eq(r->median, time_ns(p, lengths[i]) / best - 1, 2e-3);
            cr_assert(r->lo <= r->median && r->median <= r->hi);
            cr_assert_float_eq(t.ns[i * N_PROGRAMS + p], time_ns(p, lengths[i]), 20);
        }
    }
}

Test(tuner_buckets, programs_that_are_the_same_are_measured_once)
{
    static const int kind[N_PROGRAMS] = {0, 0, 2, 2};
    factor = 1.5;
    BucketTimes t = measured(kind);
    cr_assert(n_fed[0] > 0 && n_fed[2] > 0);
    cr_assert_eq(n_fed[1] + n_fed[3], 0);
    for (int i = 0; i < N_LENGTHS; i++) {
        cr_assert_eq(t.ns[i * N_PROGRAMS], t.ns[i * N_PROGRAMS + 1]);
        cr_assert_eq(t.regret[i * N_PROGRAMS + 2].median, t.regret[i * N_PROGRAMS + 3].median);
    }
}

static void stop_at_once(void *ctx, int program, int64_t length)
{
    feed(NULL, program, length);
    *(volatile int *)ctx = 1;
}

Test(tuner_buckets, stopped_before_all_is_measured_there_is_no_answer)
{
    static const int own[N_PROGRAMS] = {0, 1, 2, 3};
    static volatile int stopped;
    factor = 1;
    BucketTimes t = {
        .n_lengths = N_LENGTHS, .n_programs = N_PROGRAMS, .length = lengths, .usual = usual};
    BucketRun run = {stop_at_once, own, (void *)(uintptr_t)&stopped};
    MeasurePlan plan = {.n_blocks = 6, .max_rounds = 1, .block_ns = 1000, .stop = &stopped};
    cr_assert_not(buckets_measure(&env, &run, &plan, NULL, &t));
}

/* ---- choosing ---- */

static void chosen(double by, double margin, const char *want)
{
    Buf b;
    factor = by;
    BucketTimes t = measured(NULL);
    BucketChoice c = buckets_choose(&t, MOST, margin);
    buf_init(&b, &env.model);
    for (int i = 0; i < c.n; i++) {
        buf_printf(&b, "%s%lld:%lld", i ? " " : "", (long long)c.bucket[i].usual,
                   (long long)c.bucket[i].most);
    }
    cr_assert_str_eq(b.at, want, "%s, not %s; worst %g", b.at, want, c.worst);
    cr_assert(c.worst < margin || c.n > 1);
    cr_assert_eq(c.margin, margin);
}

Test(tuner_buckets, one_program_is_enough_where_lengths_do_not_matter)
{
    chosen(1.0, 0.05, "4:512");
}

Test(tuner_buckets, the_more_lengths_matter_the_more_programs_there_are)
{
    chosen(1.03, 0.2, "64:512");
    chosen(1.1, 0.2, "4:12 64:69 256:512");
    chosen(1.5, 0.2, "4:12 16:33 64:200 256:512");
}

Test(tuner_buckets, where_no_set_is_good_enough_the_best_is_taken)
{
    BucketTimes t = {.n_lengths = 2, .n_programs = 2, .length = lengths, .usual = usual};
    Interval regret[] = {{.median = 0.5}, {.median = 0}, {.median = 0}, {.median = 0.4}};
    t.regret = regret; /* the longer prompt wants the program for the shorter one */
    BucketChoice c = buckets_choose(&t, MOST, 0.05);
    cr_assert_eq(c.worst, 0.4);
    cr_assert_eq(c.n, 1);
    cr_assert_eq(c.bucket[0].usual, 16);
    cr_assert_eq(c.bucket[0].most, MOST);
}

/* Against all ways to cut the lengths: no set of its size does better, no smaller one is good enough. */
static double least_worst(const BucketTimes *t, int n, int from_program, int from_length)
{
    double best = INFINITY;
    for (int p = from_program; n > 0 && p < t->n_programs; p++) {
        double worst = 0;
        for (int i = from_length; i < t->n_lengths; i++) {
            worst = fmax(worst, t->regret[i * t->n_programs + p].median);
            double rest = i + 1 < t->n_lengths ? least_worst(t, n - 1, p + 1, i + 1) : 0;
            best = fmin(best, fmax(worst, rest));
        }
    }
    return best;
}

Test(tuner_buckets, random_regrets_get_the_smallest_set_that_is_good_enough)
{
    Rng r;
    rng_seed(&r, 11);
    for (int round = 0; round < 500; round++) {
        Interval regret[N_LENGTHS * N_PROGRAMS];
        BucketTimes t = {.n_lengths = N_LENGTHS,
                         .n_programs = N_PROGRAMS,
                         .length = lengths,
                         .usual = usual,
                         .regret = regret};
        for (size_t i = 0; i < countof(regret); i++) {
            regret[i] = (Interval){.median = (double)rng_below(&r, 100) / 100};
        }
        double margin = (double)rng_below(&r, 100) / 100;
        BucketChoice c = buckets_choose(&t, MOST, margin);
        int n = 1;
        while (n < N_PROGRAMS && least_worst(&t, n, 0, 0) >= margin) {
            n++;
        }
        cr_assert_eq(c.worst, least_worst(&t, c.worst < margin ? n : N_PROGRAMS, 0, 0));
        cr_assert(c.worst >= margin || c.n == n);
        cr_assert_eq(c.bucket[c.n - 1].most, MOST);
    }
}

/* ---- keeping ---- */

typedef struct Storing {
    Db *db;
    BucketPlace at;
    BucketTimes t;
    BucketChoice c;
} Storing;

static void store(Env *e, void *arg)
{
    Storing *s = arg;
    (void)e;
    buckets_store(s->db, &s->at, &s->t, &s->c);
}

static bool found(Storing *s, const char *want)
{
    BucketChoice c;
    Buf b;
    if (!buckets_find(s->db, &s->at, &c)) {
        return false;
    }
    buf_init(&b, &env.model);
    for (int i = 0; i < c.n; i++) {
        buf_printf(&b, "%lld:%lld ", (long long)c.bucket[i].usual, (long long)c.bucket[i].most);
    }
    cr_assert_str_eq(b.at, want);
    cr_assert_eq(c.worst, s->c.worst);
    cr_assert_eq(c.margin, s->c.margin);
    return true;
}

Test(tuner_buckets, the_latest_choice_for_this_place_is_found)
{
    TempDir dir = temp_dir();
    Story told = story();
    DbMachine machine = story_machine(&told), other = machine;
    DbToolchain toolchain = story_toolchain(&told);
    Config config = config_read(&env, "tests/data/tiny-qwen2");
    Storing s = {
        .db = open_db(&env, temp_path(&dir, "s.db"), DB_WRITE),
        .at = {
            .config = &config, .machine = &machine, .toolchain = &toolchain, .n_threads = 2}};
    factor = 1.5;
    s.t = measured(NULL);
    cr_assert_not(found(&s, ""));
    s.c = buckets_choose(&s.t, MOST, 0.9);
    db_transact(s.db, store, &s);
    for (int64_t wrong = 0; wrong <= INT64_C(1) << 40; wrong += INT64_C(1) << 40) {
        BucketTimes odd = s.t;
        BucketChoice c = s.c;
        s.c = (BucketChoice){.n = 1, .bucket = {{wrong, MOST}}};
        db_transact(s.db, store, &s);
        cr_assert_not(found(&s, ""), "a bucket for %lld tokens", (long long)wrong);
        s.c = c, s.t = odd;
    }
    s.c = buckets_choose(&s.t, MOST, 0.2);
    db_transact(s.db, store, &s);
    cr_assert(found(&s, "4:12 16:33 64:200 256:512 "));
    s.at.n_threads = 3;
    cr_assert_not(found(&s, ""), "on as many threads");
    s.at.n_threads = 2;
    config.intermediate_size++;
    cr_assert_not(found(&s, ""), "of that shape");
    config.intermediate_size--;
    other.l2_bytes *= 2;
    s.at.machine = &other;
    cr_assert_not(found(&s, ""), "on such a machine");
    db_close(s.db);
    temp_remove(&dir);
}
