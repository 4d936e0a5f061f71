/* tuner_ring.c - tests of rings of cold operands: how many copies, what is in them, the order
 * they come in, and what is said where memory is short. */
#include "tests/fault.h"
#include "tests/helpers.h"
#include "tuner/tuner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

static Env env;

static void start(void)
{
    env_init(&env);
}

static void stop(void)
{
    fault_disarm();
    env_release(&env);
}

TestSuite(tuner_ring, .init = start, .fini = stop);

/* ---- how many copies ---- */

static RingPlan plan_of(size_t bytes, size_t want, size_t limit)
{
    Err err;
    RingPlan plan;
    cr_assert(ring_plan(bytes, want, limit, &plan, &err), "%s", err.text);
    return plan;
}

Test(tuner_ring, copies_total_eight_times_the_last_level_cache)
{
    Machine m = {.l2_bytes = MIB, .l3_bytes = 32 * MIB};
    cr_assert_eq(ring_want_bytes(&m), 256u * MIB);
    m.l3_bytes = 0;
    cr_assert_eq(ring_want_bytes(&m), 8u * MIB);
    m.l2_bytes = 0;
    cr_assert_eq(ring_want_bytes(&m), 256u * MIB, "caches unknown");
    RingPlan plan = plan_of(3 * MIB, 256u * MIB, 1024u * MIB);
    cr_assert_eq(plan.n_copies, 86, "rounded up");
    cr_assert_not(plan.capped);
}

Test(tuner_ring, an_operand_larger_than_all_that_still_has_two_copies)
{
    RingPlan plan = plan_of(544u * MIB, 256u * MIB, 4096ull * MIB);
    cr_assert_eq(plan.n_copies, 2);
    cr_assert_not(plan.capped);
}

Test(tuner_ring, a_memory_limit_caps_the_copies_and_is_reported)
{
    RingPlan plan = plan_of(3 * MIB, 256u * MIB, 31 * MIB);
    cr_assert_eq(plan.n_copies, 10);
    cr_assert(plan.capped);
}

Test(tuner_ring, two_copies_beyond_the_limit_are_refused_in_words)
{
    Err err;
    RingPlan plan;
    cr_assert_not(ring_plan(100, MIB, 200, &plan, &err), "a copy takes whole cache lines");
    cr_assert_eq(err.code, E_NOMEM);
    cr_assert(strstr(err.text, "100 bytes") && strstr(err.text, "200 bytes"), "%s", err.text);
    cr_assert(ring_plan(100, MIB, 256, &plan, &err));
    cr_assert_eq(plan.n_copies, 2);
}

/* ---- what is in them ---- */

typedef struct Make {
    Ring ring;
    const void *source;
    size_t bytes;
    int n_copies;
    bool huge;
    Pool *pool;
} Make;

static void make(Env *e, void *arg)
{
    Make *m = arg;
    ring_init(e, &m->ring, m->source, m->bytes, m->n_copies, m->huge, m->pool);
}

static char *numbers(size_t n)
{
    char *p = arena_alloc(&env.model, n);
    for (size_t i = 0; i < n; i++) {
        p[i] = (char)(i * 7 + i / 256);
    }
    return p;
}

static void every_copy_is_the_source(size_t bytes, int n_threads)
{
    Err err;
    Make m = {.source = numbers(bytes), .bytes = bytes, .n_copies = 5};
    m.pool = n_threads > 0 ? pool_new(n_threads, &err) : NULL;
    must_work(&env, make, &m);
    for (int i = 0; i < 11; i++) {
        const char *copy = ring_next(&m.ring);
        cr_assert_eq(copy, m.ring.at + (size_t)(i % 5) * m.ring.step_bytes, "turn %d", i);
        cr_assert_eq((uintptr_t)copy % 64, 0);
        cr_assert_eq(memcmp(copy, m.source, bytes), 0, "%zu bytes, copy %d", bytes, i % 5);
        if (i == 5) {
            ring_flush(&m.ring, m.pool);
        }
    }
    ring_release(&m.ring);
    cr_assert_null(m.ring.map);
    ring_release(&m.ring);
    pool_free(m.pool);
}

Test(tuner_ring, every_copy_is_the_source_and_they_come_round_in_order)
{
    static const size_t sizes[] = {1, 63, 64, 65, 4096, 4097, 3 * 4096 + 5, MIB + 3};
    for (size_t i = 0; i < countof(sizes); i++) {
        for (int n_threads = 0; n_threads <= 3; n_threads++) {
            every_copy_is_the_source(sizes[i], n_threads);
        }
    }
}

Test(tuner_ring, one_copy_is_a_hot_operand)
{
    Make m = {.source = "abc", .bytes = 3, .n_copies = 1};
    must_work(&env, make, &m);
    const void *first = ring_next(&m.ring);
    cr_assert_eq(ring_next(&m.ring), first);
    ring_release(&m.ring);
}

Test(tuner_ring, without_source_no_page_is_the_shared_zero_page)
{
    Make m = {.bytes = 3 * 4096, .n_copies = 2};
    must_work(&env, make, &m);
    for (size_t i = 0; i < 6 * 4096; i += 4096) {
        cr_assert_neq(m.ring.at[i], 0);
    }
    ring_release(&m.ring);
}

/* ---- the page kind, and short memory ---- */

Test(tuner_ring, huge_pages_count_as_asked_for_only_if_not_refused)
{
    Make m = {.bytes = MIB, .n_copies = 2, .huge = true};
    fault_arm("madvise", 1, true, EINVAL);
    must_work(&env, make, &m);
    fault_disarm();
    cr_assert_not(m.ring.huge);
    ring_release(&m.ring);
    m.huge = false;
    must_work(&env, make, &m);
    cr_assert_not(m.ring.huge);
    ring_release(&m.ring);
}

Test(tuner_ring, no_memory_is_a_failure_in_words)
{
    Make m = {.bytes = MIB, .n_copies = 7};
    fault_arm("mmap", 1, false, ENOMEM);
    must_fail(&env, make, &m, E_NOMEM, "a ring of 7 copies");
    fault_disarm();
    ring_release(&m.ring);
}
