/* tuner_keeper.c - a process that keeps rings forks those that measure: each distinct layout is laid
 * once, and again where it must be; nobody can write to it; whoever dies takes nobody with him but
 * his own; and where there is no keeper, processes lay their own. What a hostile candidate does in
 * such a process is in tuner_child_hostile.c. */
#include "tests/child_util.h"
#include "tests/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static Lab lab;
static RingKeeper *keeper;

static void start(void)
{
    lab_init(&lab, product_text);
    lab_keeps(&lab);
    lab.children.ring_limit_bytes = 16 << 20;
    keeper = &lab.children.keeper;
}

static void stop(void)
{
    lab_release(&lab);
}

TestSuite(tuner_keeper, .init = start, .fini = stop, .timeout = 300);

#define PANELS "split n 16 pad; order n.o m k n.i; vec n.i; fma; pack b n.o,k,n.i"
#define OTHER_PANELS "split n 8 pad; order n.o m k n.i; vec n.i; fma; pack b n.o,k,n.i"

static void passes(void)
{
    const ProcessResult *r = lab_run_on(&lab);
    cr_assert_eq(r->status, STATUS_OK, "%s", r->why);
    cr_expect_eq(r->n_pairs, lab.job.n_pairs);
    cr_expect_gt(r->ring_bytes, 0);
    cr_expect(r->before.read_bytes_per_ns > 0, "the probe has a ring to read");
    lab.job.seed++;
}

static void expect_kept(int n_asked, int n_laid)
{
    cr_expect(keeper->on && keeper->pid > 0);
    cr_expect_eq(keeper->n_asked, n_asked, "%d processes", keeper->n_asked);
    cr_expect_eq(keeper->n_laid, n_laid, "%d rings", keeper->n_laid);
}

/* ---- once ---------------------------------------------------------------------------- */

/* The incumbent's for the first process; a challenger's when one asks. That costs a process more,
 * and here, where nothing has to be verified again, it is always less than laying one's own. */
Test(tuner_keeper, each_distinct_layout_is_laid_once)
{
    lab.job.verify = false;
    lab.b = lab_build(&lab, PANELS);
    passes();
    expect_kept(2, 2);
    passes();
    expect_kept(3, 2);
    lab.b = lab_build(&lab, PANELS "; prefetch b k 64"); /* the same panels */
    passes();
    expect_kept(4, 2);
    lab.b = lab_build(&lab, OTHER_PANELS);
    passes();
    expect_kept(6, 3);
    lab.b = lab_build(&lab, "order n m k"); /* both in place: a's serves both */
    passes();
    expect_kept(7, 3);
}

/* To lay so little takes less time than to be verified again; who comes next finds it kept. */
Test(tuner_keeper, small_rings_are_laid_by_who_wants_them_first)
{
    lab.children.ring_limit_bytes = 400000;
    lab.b = lab_build(&lab, PANELS);
    passes();
    cr_expect_eq(keeper->n_asked, 1);
}

/* Kept or its own, it has as many bytes of rings: they are the plan's. */
Test(tuner_keeper, rings_are_as_large_as_ones_own)
{
    static const char *const schedule[] = {PANELS, "order n m k"};
    for (size_t i = 0; i < countof(schedule); i++) {
        lab.b = lab_build(&lab, schedule[i]);
        uint64_t bytes[3];
        for (int nth = 0; nth < 2; nth++) {
            passes();
            bytes[nth] = lab.result.ring_bytes;
        }
        lab.job.stage = DUEL_TITLE;
        passes();
        bytes[2] = lab.result.ring_bytes;
        lab.job.stage = DUEL_SEARCH;
        cr_expect_eq(bytes[0], bytes[2]);
        cr_expect_eq(bytes[1], bytes[2]);
    }
}

Test(tuner_keeper, a_kv_cache_is_kept_too)
{
    lab.job.verify = false;
    lab.task.rotates = 2;
    lab.b = lab_build(&lab, PANELS);
    passes();
    expect_kept(2, 3);
}

/* ---- and again ----------------------------------------------------------------------- */

/* What was a challenger's ring is half as long as the incumbent's alone must be; and there is no
 * room for two whole ones. */
Test(tuner_keeper, another_incumbent_has_rings_of_its_size)
{
    Built naive = lab.a;
    lab.job.verify = false;
    lab.b = lab_build(&lab, PANELS);
    passes();
    expect_kept(2, 2);
    pid_t first = keeper->pid;
    lab.a = lab.b;
    lab.b = naive;
    passes();
    expect_kept(3, 4);
    cr_expect_eq(keeper->pid, first);
    lab.b = lab_build(&lab, PANELS "; prefetch b k 64");
    uint64_t shared = lab.result.ring_bytes;
    passes();
    expect_kept(4, 4);
    cr_expect(lab.result.ring_bytes * 20 > shared * 19, "one ring for both is as large as two");
}

Test(tuner_keeper, another_task_has_another)
{
    lab.b = lab_build(&lab, "order n m k");
    passes();
    pid_t first = keeper->pid;
    lab.task.sym[0] = 13;
    passes();
    expect_kept(1, 2);
    cr_expect_neq(keeper->pid, first);
}

Test(tuner_keeper, no_match_begins_beside_it)
{
    lab.b = lab_build(&lab, "order n m k");
    for (DuelStage s = 0; s < N_DUEL_STAGES; s++) {
        lab.job.stage = DUEL_SEARCH;
        passes();
        cr_expect(keeper->on);
        lab.job.stage = s;
        passes();
        cr_expect_eq(keeper->on, s == DUEL_SEARCH || s == DUEL_REPLICATE, "%d", (int)s);
    }
    lab.job.stage = DUEL_SEARCH;
    passes();
    lab.task.regime = REGIME_HOT;
    cr_expect_eq(lab_run_on(&lab)->status, STATUS_OK);
    cr_expect_not(keeper->on);
}

Test(tuner_keeper, it_begins_anew_after_some)
{
    lab.b = lab_build(&lab, "order n m k");
    lab.job.verify = false;
    lab.job.n_pairs = 1;
    passes();
    pid_t first = keeper->pid;
    for (int i = 0; i < 256; i++) {
        passes();
    }
    expect_kept(1, 2);
    cr_expect_neq(keeper->pid, first);
}

/* What is not given may go, the oldest first. a's rings take one limit of the two, and of what
 * differs each has half of one, and each a little for its place. */
Test(tuner_keeper, what_is_kept_has_a_limit)
{
    static const char *const panels[] = {PANELS, OTHER_PANELS};
    lab.job.verify = false;
    for (int turn = 0; turn < 2; turn++) {
        lab.b = lab_build(&lab, panels[turn]);
        passes();
        passes();
        expect_kept(3 * turn + 3, turn + 2);
    }
    for (int turn = 0; turn < 2; turn++) { /* nothing goes before they ask again */
        lab.b = lab_build(&lab, panels[turn]);
        passes();
        passes();
        expect_kept(3 * turn + 9, turn + 4);
    }
}

Test(tuner_keeper, without_room_for_two_copies_it_says_what_any_process_says)
{
    lab.children.ring_limit_bytes = 10000;
    lab.b = lab_build(&lab, PANELS);
    cr_expect_eq(lab_run(&lab)->status, STATUS_OOM);
    cr_expect(strstr(lab.result.why, "Two copies"), "%s", lab.result.why);
}

/* ---- foreign code -------------------------------------------------------------------- */

Test(tuner_keeper, nobody_can_write_to_a_ring)
{
    lab.b = lab_hostile(&lab, "int32_t candidate(P)\n{\n    if (n_calls > 60) {\n"
                              "        *(volatile float *)p[2] = 1;\n    }\n"
                              "    return right(p, syms, part, n_parts);\n}\n");
    lab.job.verify = false;
    lab.job.n_pairs = 100;
    cr_expect_eq(lab_run_on(&lab)->status, STATUS_CRASH, "%s", lab.result.why);
    cr_expect(strstr(lab.result.why, "SIGSEGV"), "%s", lab.result.why);
    expect_kept(1, 1);
    lab.b = lab_build(&lab, "order n m k");
    passes();
    expect_kept(2, 1);
}

/* The panels of a library that cannot make any are nobody's: the process itself says so. */
Test(tuner_keeper, who_cannot_be_packed_is_told_as_ever)
{
    lab.b = lab_build(&lab, "order n m k");
    lab.a =
        lab_hostile(&lab, "int32_t candidate(P) { return right(p, syms, part, n_parts); }\n");
    lab.a.schedule = PANELS;
    cr_expect_eq(lab_run_on(&lab)->status, STATUS_CC_ERROR, "%s", lab.result.why);
    cr_expect(strstr(lab.result.why, "cannot lay out operand b"), "%s", lab.result.why);
    expect_kept(1, 0);
}

#define PACKS_BADLY(how)                                                             \
    "int64_t candidate_pack_2(void *to, const void *from, const int64_t *syms)\n{\n" \
    "    (void)from, (void)syms;\n    " how "\n    return to ? 0 : 45 * 37;\n}\n"    \
    "int32_t candidate(P) { return right(p, syms, part, n_parts); }\n"

Test(tuner_keeper, packing_that_dies_forks_or_hangs_ends_one_candidate)
{
    static const char *const bad[] = {PACKS_BADLY("abort();"), PACKS_BADLY("fork();"),
                                      PACKS_BADLY("for (;;) {\n    }")};
    Built good = lab_build(&lab, "order n m k");
    lab.job.limit_ns = 4000000000;
    for (size_t i = 0; i < countof(bad); i++) {
        lab.a = lab_hostile(&lab, bad[i]);
        lab.a.schedule = PANELS;
        lab.b = good;
        cr_expect_neq(lab_run_on(&lab)->status, STATUS_OK);
        cr_expect_eq(lab.result.n_pairs, 0);
        lab.a = lab_build(&lab, "");
        passes();
        cr_expect(keeper->on);
    }
}

/* ---- who dies ------------------------------------------------------------------------ */

Test(tuner_keeper, a_dead_one_is_done_without)
{
    lab.b = lab_build(&lab, PANELS);
    passes();
    kill(keeper->pid, SIGKILL);
    passes();
    cr_expect_not(keeper->on);
    passes(); /* nor is it tried again for this incumbent */
    cr_expect_not(keeper->on);
    lab.task.sym[0] = 13;
    passes();
    cr_expect(keeper->on);
}

Test(tuner_keeper, a_candidate_that_kills_it_dies_with_it)
{
    lab.b = lab_hostile(&lab, "int32_t candidate(P)\n{\n    if (n_calls > 5) {\n"
                              "        kill(getppid(), SIGKILL);\n        pause();\n    }\n"
                              "    return right(p, syms, part, n_parts);\n}\n");
    lab.job.verify = false;
    cr_expect_eq(lab_run(&lab)->status, STATUS_GARBAGE, "%s", lab.result.why);
    lab.b = lab_build(&lab, PANELS);
    passes();
    expect_kept(2, 3);
}

Test(tuner_keeper, it_dies_with_its_parent)
{
    int fd[2], pid = 0;
    cr_assert_eq(pipe(fd), 0);
    lab.b = lab_build(&lab, PANELS);
    pid_t parent = fork();
    if (parent == 0) {
        lab_run_on(&lab);
        _exit(write(fd[1], &keeper->pid, sizeof keeper->pid) < 0);
    }
    cr_assert_eq(read(fd[0], &pid, sizeof pid), sizeof pid);
    cr_assert_eq(waitpid(parent, NULL, 0), parent);
    cr_assert_gt(pid, 0);
    cr_expect(process_goes(pid), "keeper %d outlives its parent", pid);
    close(fd[0]);
    close(fd[1]);
}

/* ---- the parent's own calls fail ----------------------------------------------------- */

Test(tuner_keeper, each_call_of_the_parent_may_fail)
{
    static const char *const call[] = {"pipe",  "spawn", "pidfd", "poll",   "read",
                                       "write", "close", "kill",  "waitpid"};
    lab.b = lab_build(&lab, PANELS);
    lab.job.verify = false;
    lab.job.n_pairs = 1;
    for (size_t i = 0; i < countof(call); i++) {
        int n = fault_loop(call[i], lab_run_once, &lab);
        cr_expect_gt(n, 0, "%s is never called", call[i]);
        while (waitpid(-1, NULL, 0) > 0) { /* where waiting was what failed */
        }
    }
    cr_expect_eq(lab_run(&lab)->status, STATUS_OK, "%s", lab.result.why);
}

Test(tuner_keeper, the_hidden_word_is_not_for_users)
{
    static const char *const wrong[][3] = {
        {NULL}, {"1", NULL}, {"x", "y", "z"}, {"1", "0", "1"}, {"0", "0", "0"}};
    for (size_t i = 0; i < countof(wrong); i++) {
        lab_word_is_hidden(&lab, KEEPER_WORD, wrong[i]);
    }
}
