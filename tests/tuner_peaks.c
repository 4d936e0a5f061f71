/* tuner_peaks.c - tests of the loops that probes and peaks are made of, for each instruction
 * set that the machine at hand has, and of the table of peaks. Rates are asserted to be there,
 * not to be high. */
#include "tests/env_fixture.h"
#include "tests/helpers.h"
#include "tuner/tuner.h"

#include <stdlib.h>
#include <string.h>

TestSuite(tuner_peaks, .init = start, .fini = stop);

static const char *const levels[] = {"", "avx2", "sse4.2", "generic"};

static void read_machine(Env *e, void *m)
{
    machine_read(e, "", m);
}

static Machine machine_at(const char *level)
{
    Machine m;
    setenv("NANOCOMPILE_CPU", level, 1);
    must_work(&env, read_machine, &m);
    unsetenv("NANOCOMPILE_CPU");
    return m;
}

static uint64_t plain_sum(const uint64_t *p, size_t bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes / 8; i++) {
        sum += p[i];
    }
    return sum;
}

Test(tuner_peaks, every_reader_reads_every_byte_once_in_a_pass)
{
    enum { MAX_BYTES = 9 * READ_BYTES };
    uint64_t *p = malloc(MAX_BYTES + 8);
    Rng rng;
    rng_seed(&rng, 3);
    for (size_t l = 0; l < countof(levels); l++) {
        Machine m = machine_at(levels[l]);
        ReadFn *read = read_fn(&m);
        for (size_t bytes = 0; bytes <= MAX_BYTES; bytes += READ_BYTES) {
            uint64_t *at = p + 1; /* not a vector's alignment */
            for (size_t i = 0; i < bytes / 8; i++) {
                at[i] = rng_u64(&rng);
            }
            cr_assert_eq(read(at, bytes, 1), plain_sum(at, bytes), "%zu bytes, level %s", bytes,
                         levels[l]);
        }
    }
    cr_assert_eq(read_fn(&(Machine){0})(p, READ_BYTES, 3), 3 * plain_sum(p, READ_BYTES));
    free(p);
}

Test(tuner_peaks, arithmetic_exists_as_far_as_the_machine_has_it)
{
    for (size_t l = 0; l < countof(levels); l++) {
        Machine m = machine_at(levels[l]);
        bool fma = m.feature[FEAT_FMA], avx512 = m.feature[FEAT_AVX512F];
        cr_assert(arith_fn(&m, ARITH_FMA128).fn, "there is always one");
        cr_assert_eq(!!arith_fn(&m, ARITH_FMA256).fn, fma);
        cr_assert_eq(!!arith_fn(&m, ARITH_FMA512).fn, avx512);
        cr_assert_eq(!!arith_fn(&m, ARITH_DOT512).fn, m.feature[FEAT_AVX512VNNI]);
        cr_assert_eq(arith_fused(&m), fma || m.feature[FEAT_NEON]);
        cr_assert_eq(arith_widest(&m).ops, arith_fn(&m, ARITH_FMA128).ops * (avx512 ? 4
                                                                             : fma  ? 2
                                                                                    : 1));
        for (ArithId id = 0; id < N_ARITHS; id++) {
            Arith a = arith_fn(&m, id);
            cr_assert(!a.fn || a.fn(10) == a.fn(10), "%s runs", arith_name[id]);
        }
    }
}

static Peaks peaks;
static Pool *pool;

static void measure_them(Env *e, void *machine)
{
    peaks_measure(e, machine, pool, &peaks);
}

static void rates_are_there(const Rate rate[N_WAYS], bool there, const char *what)
{
    for (int way = 0; way < N_WAYS; way++) {
        cr_assert_eq(rate[way].best > 0, there, "%s", what);
        cr_assert_leq(rate[way].median, rate[way].best, "%s", what);
    }
}

/* Small caches, so that the ring is small. */
Test(tuner_peaks, the_table_has_a_rate_for_all_that_the_machine_has)
{
    Machine m = machine_at("");
    m.l1d_bytes = 16 << 10;
    m.l2_bytes = 64 << 10;
    m.l3_bytes = 1 << 20;
    pool = pool_new(2, NULL);
    must_work(&env, measure_them, &m);
    cr_assert_eq(peaks.n_threads, 2);
    for (ArithId id = 0; id < N_ARITHS; id++) {
        rates_are_there(peaks.arith[id], arith_fn(&m, id).fn != NULL, arith_name[id]);
    }
    for (Level level = 0; level < N_LEVELS; level++) {
        rates_are_there(peaks.read[level], true, level_name[level]);
    }
    cr_assert_gt(peaks.fork_join_ns.best, 0);
    cr_assert_geq(peaks_flops_per_ns(&peaks, ALL_THREADS),
                  peaks.arith[ARITH_FMA128][ALL_THREADS].best);
    pool_free(pool);
}

Test(tuner_peaks, levels_that_are_unknown_are_left_out)
{
    Machine m = machine_at("generic");
    m.l1d_bytes = m.l3_bytes = 0;
    m.l2_bytes = 256 << 10;
    pool = pool_new(1, NULL);
    must_work(&env, measure_them, &m);
    rates_are_there(peaks.read[LEVEL_L1], false, "L1");
    rates_are_there(peaks.read[LEVEL_L2], true, "L2");
    rates_are_there(peaks.read[LEVEL_L3], false, "L3");
    rates_are_there(peaks.read[LEVEL_MEMORY], true, "memory");
    pool_free(pool);
}
