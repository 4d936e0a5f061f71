/* tuner_child_area.c - the memory between a process and its parent: what was written comes
 * back, and what was changed afterwards, or cannot be, is refused, whatever byte it is. */
#include "tests/helpers.h"
#include "tuner/tuner_int.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

static Env env;

static void start(void)
{
    env_init(&env);
}

static void stop(void)
{
    os = os_system;
    env_release(&env);
}

TestSuite(tuner_child_area, .init = start, .fini = stop, .timeout = 60);

enum { N_PAIRS = 4, PID = 4711 };
#define BEGIN_NS 1000000u
#define END_NS 9000000u

static const Task task = {.kernel = "k", .n_threads = 1};
static const Built one = {"", "a.so", "f", {0, 0}, false},
                   two = {"", "b.so", "f", {0, 0}, false};

typedef struct Both {
    ProcessJob job;
    ChildJob cross;
    Buf text;
    Area parents, own;
    AreaFacts facts;
    Pair pair[N_PAIRS];
    uint64_t start_ns[N_PAIRS];
} Both;

/* Written as a process would. */
static void set_up(Both *b)
{
    Err err;
    *b = (Both){.job = {.task = &task,
                        .a = &one,
                        .b = &two,
                        .n_pairs = N_PAIRS,
                        .seed = 3,
                        .limit_ns = 5000000}};
    child_job_init(&b->cross, &b->job);
    b->cross.parent = 1;
    buf_init(&b->text, &env.model);
    child_job_print(&b->cross, &b->text);
    int fd = area_make(&b->cross, &b->text, &b->parents, &err);
    cr_assert_geq(fd, 0, "%s", err.text);
    cr_assert(area_open(fd, &b->own, &err), "%s", err.text);
    os.close(fd);
    for (int i = 0; i < N_PAIRS; i++) {
        b->pair[i] = (Pair){.a_ns = 100000 + (uint64_t)i,
                            .b_ns = 90000,
                            .b_first = pair_b_first(3, i),
                            .flags = PAIR_WAITED};
        b->start_ns[i] = BEGIN_NS + 500000 * (uint64_t)i;
    }
    b->facts = (AreaFacts){.warm_a_ns = 100,
                           .warm_b_ns = 90,
                           .base_a = 1 << 20,
                           .base_b = 1 << 21,
                           .reps = 1000,
                           .before = {1, 2, 3},
                           .pid = PID,
                           .n_pairs = N_PAIRS,
                           .cpu = 1};
}

static void write_it(Both *b)
{
    area_put(&b->own, b->pair, b->start_ns, 1);
    area_put(&b->own, b->pair + 1, b->start_ns + 1, N_PAIRS - 1);
    area_finish(&b->own, &b->facts);
}

static bool reads(const Both *b, ProcessResult *out, Err *err)
{
    *out = (ProcessResult){.cpu = -1};
    return area_read(&b->parents, &b->cross, &b->text, PID, BEGIN_NS, END_NS, &env.model, out,
                     err);
}

static void release(Both *b)
{
    area_release(&b->own);
    area_release(&b->parents);
}

static void refused(Both *b, const char *words)
{
    ProcessResult r;
    Err err;
    write_it(b);
    cr_expect_not(reads(b, &r, &err), "%s", words);
    cr_expect(strstr(err.text, words), "no '%s' in: %s", words, err.text);
    cr_expect_eq(r.n_pairs, 0);
    release(b);
}

Test(tuner_child_area, what_was_written_comes_back)
{
    Both b;
    ProcessResult r;
    Err err;
    set_up(&b);
    cr_expect_eq(b.own.head->n_pairs, 0);
    cr_expect(!memcmp(b.own.text, b.text.at, b.text.len));
    write_it(&b);
    cr_assert(reads(&b, &r, &err), "%s", err.text);
    cr_expect(r.status == STATUS_OK && r.n_pairs == N_PAIRS && r.reps == 1000 && r.cpu == 1);
    cr_expect(r.warm_a_ns == 100 && r.warm_b_ns == 90 && r.base_b == 1 << 21);
    cr_expect(!memcmp(r.pair, b.pair, sizeof b.pair));
    cr_expect(!memcmp(&r.before, &b.facts.before, sizeof r.before));
    release(&b);
}

/* Every single one: head, facts, seal, start times, pairs. Two words and the verdict are only
 * read where a process did not end well, and the parent has the job itself. */
Test(tuner_child_area, any_changed_byte_is_noticed)
{
    Both b;
    ProcessResult r;
    Err err;
    set_up(&b);
    write_it(&b);
    char *at = (char *)b.own.head;
    size_t n = (size_t)(b.own.text - at), n_noticed = 0;
    size_t facts = offsetof(AreaHead, facts), head = sizeof(AreaHead);
    size_t starts = (size_t)((char *)b.own.start_ns - at);
    for (size_t i = 0; i < n; i++) {
        bool matters = i < 8 ||
                       (i >= offsetof(AreaHead, state) && i < offsetof(AreaHead, in_a)) ||
                       (i >= facts && i < head) || i >= starts;
        at[i] ^= 0x10;
        bool ok = reads(&b, &r, &err);
        at[i] ^= 0x10;
        cr_expect(ok != matters, "byte %zu", i);
        n_noticed += !ok;
    }
    cr_expect_gt(n_noticed, sizeof(AreaFacts) + N_PAIRS * (sizeof(Pair) + 8));
    cr_expect(reads(&b, &r, &err), "%s", err.text);
    release(&b);
}

/* Signed, and still no measurement. */
Test(tuner_child_area, times_that_cannot_be)
{
    Both b;
    for (int what = 0; what < 7; what++) {
        set_up(&b);
        switch (what) {
        case 0: b.pair[2].a_ns = 0; break;
        case 1: b.pair[2].b_ns = 5000000; break; /* the limit of the whole process */
        case 2: b.start_ns[2] = b.start_ns[1] + 1000; break; /* within the pair before */
        case 3: b.start_ns[0] = BEGIN_NS - 1; break;
        case 4: b.start_ns[3] = END_NS - 100; break;
        case 5: b.pair[1].a_ns = UINT64_MAX; break;
        case 6: b.start_ns[3] = UINT64_MAX - 10; break;
        }
        refused(&b, "times that cannot be");
    }
}

Test(tuner_child_area, a_time_of_nothing_needs_its_flag)
{
    Both b;
    ProcessResult r;
    Err err;
    set_up(&b);
    b.pair[2].a_ns = 0;
    b.pair[2].flags |= PAIR_CLOCK;
    write_it(&b);
    cr_expect(reads(&b, &r, &err), "%s", err.text);
    release(&b);
}

Test(tuner_child_area, orders_and_flags_that_were_not_drawn)
{
    Both b;
    for (int what = 0; what < 4; what++) {
        set_up(&b);
        b.pair[3].b_first ^= what == 0;
        b.pair[3].b_first += what == 1 ? 2 : 0;
        b.pair[3].flags |= what == 2 ? 0x80 : 0;
        b.pair[3].spare = what == 3;
        refused(&b, "order or flags");
    }
}

Test(tuner_child_area, facts_that_cannot_be)
{
    Both b;
    for (int what = 0; what < 6; what++) {
        set_up(&b);
        switch (what) {
        case 0: b.facts.reps = 0; break;
        case 1: b.facts.warm_b_ns = 0; break;
        case 2: b.facts.base_b = b.facts.base_a; break;
        case 3: b.facts.after.flops_per_ns = (double)NAN; break;
        case 4: b.facts.after.fork_join_ns = -1; break;
        case 5: b.facts.before.read_bytes_per_ns = (double)INFINITY; break;
        }
        refused(&b, "cannot be");
    }
    set_up(&b);
    b.facts.pid = PID + 1;
    refused(&b, "damaged");
    set_up(&b);
    b.facts.status = N_STATUSES;
    refused(&b, "damaged");
    set_up(&b);
    b.facts.status = STATUS_WRONG; /* without a sentence */
    refused(&b, "damaged");
    set_up(&b);
    b.facts.n_pairs = N_PAIRS - 1;
    refused(&b, "damaged");
}

Test(tuner_child_area, fewer_pairs_only_where_the_job_allows_an_early_end)
{
    static const StopRule rule = {.warm_x100 = 400};
    for (int allowed = 0; allowed < 2; allowed++) {
        Both b;
        ProcessResult r;
        Err err;
        set_up(&b);
        b.cross.job.stop = allowed ? &rule : NULL;
        b.facts.n_pairs = 2;
        area_put(&b.own, b.pair, b.start_ns, 2);
        area_finish(&b.own, &b.facts);
        cr_expect_eq(reads(&b, &r, &err), allowed);
        release(&b);
    }
}

Test(tuner_child_area, what_is_no_area_is_refused)
{
    Both b;
    Area a;
    Err err;
    set_up(&b);
    release(&b);
    int fd = os.memfd("test", 100);
    cr_expect_not(area_open(fd, &a, &err));
    os.close(fd);
    fd = os.memfd("test", 1 << 16);
    cr_expect_not(area_open(fd, &a, &err));
    AreaHead *h = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq(h, MAP_FAILED);
    *h = (AreaHead){.magic = 0x6165726120636eULL,
                    .bytes = 1 << 16,
                    .max_pairs = UINT32_MAX,
                    .text_bytes = UINT32_MAX};
    cr_expect_not(area_open(fd, &a, &err));
    munmap(h, 1 << 16);
    os.close(fd);
    fd = os.open("/dev/null", 0, 0);
    cr_expect_not(area_open(fd, &a, &err));
    os.close(fd);
}
