/* tuner_candidate.c - schedules made into libraries: from the objects that a build links,
 * several at once, where the end of one is not the end of another. */
#include "tests/child_util.h"

#include <stdlib.h>
#include <string.h>

static Lab lab;

static void start(void)
{
    lab_init(&lab, product_text);
}

static void stop(void)
{
    lab_release(&lab);
}

TestSuite(tuner_candidate, .init = start, .fini = stop, .timeout = 300);

enum { MAX_MADE = 8 };

typedef struct Batch {
    const Toolchain *tc;
    Cache *cache;
    int n;
    Schedule s[MAX_MADE];
    Attempt out[MAX_MADE];
    Arena *m;
} Batch;

/* Of this test alone. */
static Cache own_cache;

static void open_own_cache(Env *e, void *arg)
{
    (void)arg;
    cache_open(e, &own_cache, lab.w.cache_dir);
}

static void make(Env *e, void *arg)
{
    Batch *b = arg;
    candidates_build(e, b->m, b->cache, b->tc, lab.naive, b->s, b->n, 2, b->out);
}

static Batch batch_of(const char *const *schedule, int n)
{
    Batch b = {.tc = &lab.w.tc, .cache = &lab.w.cache, .n = n, .m = &lab.w.e.model};
    for (int i = 0; i < n; i++) {
        Err err;
        cr_assert(schedule_parse(schedule[i], &b.s[i], &err), "%s", err.text);
    }
    return b;
}

Test(tuner_candidate, each_gets_a_library_and_an_illegal_one_its_reason)
{
    static const char *const s[] = {"order n m k", "split q 4 pad", "", "order n m k",
                                    "split n 9 pad"};
    Batch b = batch_of(s, countof(s));
    must_work(&lab.w.e, make, &b);
    for (int i = 0; i < b.n; i++) {
        cr_expect_str_eq(b.out[i].built.schedule, s[i]);
        cr_expect_eq(b.out[i].status, i == 1 ? STATUS_ILLEGAL : STATUS_OK, "%d", i);
        cr_expect_eq(b.out[i].why != NULL, i == 1);
    }
    cr_expect(strstr(b.out[1].why, "q"), "%s", b.out[1].why);
    cr_expect_str_eq(b.out[0].built.library, b.out[3].built.library);
    cr_expect_str_neq(b.out[0].built.library, b.out[2].built.library);
    cr_expect_str_neq(b.out[0].built.symbol, b.out[4].built.symbol);
}

/* What is measured is what is built. */
static void same_object(Env *e, void *arg)
{
    const Batch *b = arg;
    Err err;
    const char *path;
    Kernel *k = kernel_schedule(e, &e->model, lab.naive, &b->s[0], b->s[0].n, &err);
    Kernel *const one[] = {k};
    int n_built = lab.w.cache.n_built;
    cache_objects(e, &lab.w.cache, &lab.w.tc, one, 1, 1, &path);
    cr_expect_eq(lab.w.cache.n_built, n_built, "the object was there already");
    cr_expect(hash_eq(b->out[0].built.c_hash, emit_hash(e, k, lab.w.tc.target)));
    cr_expect_str_eq(b->out[0].built.symbol, k->symbol);
    cr_expect_str_eq(b->out[0].built.library,
                     cache_library(e, &lab.w.cache, &lab.w.tc, &path, 1));
}

Test(tuner_candidate, it_is_the_object_that_a_build_links)
{
    static const char *const s[] = {"order n m k; unroll k"};
    Batch b = batch_of(s, 1);
    must_work(&lab.w.e, make, &b);
    must_work(&lab.w.e, same_object, &b);
}

/* A compiler that fails on, or hangs at, the one whose C text has these words. */
static Toolchain stubborn(Batch *b, const char *words, const char *does)
{
    must_work(&lab.w.e, open_own_cache, NULL);
    b->cache = &own_cache;
    Env *e = &lab.w.e;
    Toolchain tc = lab.w.tc;
    const char *path = script(&lab.w, "stubborn",
                              arena_printf(&e->model,
                                           "#!/bin/sh\nfor f; do :; done\n"
                                           "if grep -q '%s' \"$f\"; then %s; fi\n"
                                           "exec gcc \"$@\"\n",
                                           words, does));
    char **argv = arena_array(&e->model, char *, 2);
    argv[0] = (char *)path;
    tc.argv = argv;
    tc.n_argv = 1;
    tc.path = path;
    tc.identity = hash_str(path);
    return tc;
}

Test(tuner_candidate, a_compiler_that_fails_on_one_spares_the_others)
{
    static const char *const s[] = {"order n m k", "split n 5 pad", "", "split n 7 peel"};
    Batch b = batch_of(s, countof(s));
    Toolchain tc =
        stubborn(&b, "schedule: split n 5", "echo x.c:1:1: error: enough >&2; exit 1");
    b.tc = &tc;
    must_work(&lab.w.e, make, &b);
    for (int i = 0; i < b.n; i++) {
        cr_expect_eq(b.out[i].status, i == 1 ? STATUS_CC_ERROR : STATUS_OK, "%d: %s", i,
                     b.out[i].why);
    }
    cr_expect(b.out[1].why && strstr(b.out[1].why, "enough"), "%s", b.out[1].why);
}

/* AUTOTUNERS 6: a hang in the C compiler. */
Test(tuner_candidate, acceptance_6_hang_in_the_compiler_ends_at_its_limit)
{
    static const char *const s[] = {"split n 5 pad", "order n m k"};
    Batch b = batch_of(s, countof(s));
    Toolchain tc = stubborn(&b, "schedule: split n 5", "sleep 100");
    tc.timeout_ms = 2000;
    b.tc = &tc;
    uint64_t from_ns = os_now_ns();
    must_work(&lab.w.e, make, &b);
    cr_expect_lt(os_now_ns() - from_ns, 60000000000);
    cr_expect_eq(b.out[0].status, STATUS_CC_TIMEOUT, "%s", b.out[0].why);
    cr_expect_eq(b.out[1].status, STATUS_OK, "%s", b.out[1].why);
}

/* The limit is the batch's: the compiler's own would be much later. What the others made is kept. */
Test(tuner_candidate, a_6_hang_in_the_compiler_ends_with_its_batch_and_spares_the_others)
{
    static const char *const s[] = {"split n 5 pad", "order n m k", "split n 7 peel",
                                    "split n 9 peel"};
    Batch b = batch_of(s, countof(s));
    Toolchain tc = stubborn(&b, "schedule: split n [59]", "sleep 100");
    tc.timeout_ms = 1000000;
    tc.until_ns = os_now_ns() + 9000000000;
    b.tc = &tc;
    must_work(&lab.w.e, make, &b);
    for (int i = 0; i < b.n; i++) {
        bool hangs = i == 0 || i == 3;
        cr_expect_eq(b.out[i].status, hangs ? STATUS_CC_TIMEOUT : STATUS_OK, "%d: %s", i,
                     b.out[i].why);
    }
}

Test(tuner_candidate, an_interrupt_is_not_a_candidates_end)
{
    static const char *const s[] = {"split n 11 peel"};
    static const int now = 1;
    Batch b = batch_of(s, 1);
    Toolchain tc = stubborn(&b, "nothing has these words", "true");
    own_cache.stop = &now;
    b.tc = &tc;
    must_fail(&lab.w.e, make, &b, E_INTERRUPT, "interrupted");
}

/* AUTOTUNERS 19: nothing is left in the tuner's own memory. */
Test(tuner_candidate, acceptance_19_batches_leave_no_memory_behind)
{
    static const char *const s[] = {"order n m k", "split q 4 pad"};
    Batch b = batch_of(s, countof(s));
    Arena m;
    must_work(&lab.w.e, make, &b);
    size_t used = lab.w.e.model.used_bytes, kernel = lab.w.e.kernel.used_bytes;
    arena_init(&m, &lab.w.e);
    b.m = &m;
    for (int i = 0; i < 5; i++) {
        must_work(&lab.w.e, make, &b);
    }
    arena_release(&m);
    cr_expect_eq(lab.w.e.model.used_bytes, used);
    cr_expect_eq(lab.w.e.kernel.used_bytes, kernel);
}

Test(tuner_candidate, a_copy_is_another_file_with_the_same_bytes)
{
    Env *e = &lab.w.e;
    Built copy = built_copy(e, &e->model, &lab.w.cache, &lab.a);
    struct stat a, b;
    cr_assert(stat(lab.a.library, &a) == 0 && stat(copy.library, &b) == 0);
    cr_expect_neq(a.st_ino, b.st_ino);
    cr_assert_eq(a.st_size, b.st_size);
    char *x = read_text(e, lab.a.library), *y = read_text(e, copy.library);
    cr_expect(!memcmp(x, y, (size_t)a.st_size));
}
