/* run_pool_os.c - the thread pool keeps to the CPUs, signals, processes and limits it is given.
 * Each test is a process of its own, so masks, timers and limits are not put back. */
#include "tests/pool_util.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(run_pool_os, .timeout = 60);

/* ---- idle and ending ---- */

Test(run_pool_os, idle_workers_sleep_and_use_no_cpu)
{
    Parts parts = {0};
    Pool *p = pool_of(4);
    pool_set_spin(p, 10000);
    pool_run(p, note, &parts);
    await_sleep(&parts, 4);
    long before[4], after[4];
    for (int i = 1; i < 4; i++) {
        before[i] = cpu_ticks(parts.thread[i]);
    }
    usleep(300000);
    for (int i = 1; i < 4; i++) {
        after[i] = cpu_ticks(parts.thread[i]);
        cr_assert_leq(after[i] - before[i], 1, "an idle worker used %ld ticks",
                      after[i] - before[i]);
    }
    pool_free(p);
}

Test(run_pool_os, the_end_finds_workers_asleep_spinning_or_never_used)
{
    int before = folder_entries("/proc/self/task"), after = 0;
    Parts parts = {0};
    for (int i = 0; i < 60; i++) {
        Pool *p = pool_of(4);
        if (i % 3 > 0) {
            pool_run(p, note, &parts);
        }
        if (i % 3 > 1) {
            await_sleep(&parts, 4);
        }
        pool_free(p);
    }
    pool_free(NULL);
    for (int tries = 0; tries < 10000 && (after = folder_entries("/proc/self/task")) != before;
         tries++) {
        usleep(500); /* a thread that was joined is listed for a moment longer */
    }
    cr_assert_eq(after, before, "threads are left");
}

/* ---- CPUs ---- */

/* CPU numbers that do not start at 0 and may have gaps, where there are CPUs enough. */
static void leave_the_first_of_three(void)
{
    cpu_set_t mask;
    int first = 0;
    sched_getaffinity(0, sizeof mask, &mask);
    while (!CPU_ISSET(first, &mask)) {
        first++;
    }
    CPU_CLR(first, &mask);
    if (CPU_COUNT(&mask) >= 2) {
        cr_assert_eq(sched_setaffinity(0, sizeof mask, &mask), 0);
    }
}

static void stay_on(int cpu)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(cpu, &mask);
    cr_assert_eq(sched_setaffinity(0, sizeof mask, &mask), 0);
}

#define need_two_cpus()                          \
    do {                                         \
        if (n_cpus_allowed() < 2) {              \
            cr_skip_test("this needs two CPUs"); \
        }                                        \
    } while (0)

Test(run_pool_os, threads_stay_within_the_mask_each_on_a_cpu_of_its_own)
{
    leave_the_first_of_three();
    Parts parts = {0};
    int n = n_cpus_allowed() < MAX_PARTS ? n_cpus_allowed() : MAX_PARTS;
    cpu_set_t mask, still, both;
    sched_getaffinity(0, sizeof mask, &mask);
    Pool *p = pool_of(n);
    pool_run(p, note, &parts);
    for (int i = 1; i < n; i++) {
        CPU_AND(&both, &mask, &parts.mask[i]);
        cr_assert(CPU_EQUAL(&both, &parts.mask[i]), "part %d may leave the mask", i);
        cr_assert_eq(CPU_COUNT(&parts.mask[i]), n_cpus_allowed() == n ? 1 : n_cpus_allowed());
        for (int k = 1; k < i && n_cpus_allowed() == n; k++) {
            cr_assert_neq(parts.cpu[i], parts.cpu[k], "parts %d and %d share a CPU", i, k);
        }
    }
    sched_getaffinity(0, sizeof still, &still);
    cr_assert(CPU_EQUAL(&mask, &still), "the caller's own mask was changed");
    pool_free(p);
}

Test(run_pool_os, on_a_mask_of_one_cpu_all_parts_run_there)
{
    cpu_set_t mask;
    Parts parts = {0};
    int last = CPU_SETSIZE - 1; /* not CPU 0, where there is another */
    sched_getaffinity(0, sizeof mask, &mask);
    while (!CPU_ISSET(last, &mask)) {
        last--;
    }
    stay_on(last);
    Pool *p = pool_of(3);
    pool_run(p, note, &parts);
    assert_each_ran(&parts, 3, 1);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(parts.cpu[i], last);
    }
    run_chain(p, 1000);
    pool_free(p);
}

Test(run_pool_os, a_worker_makes_room_where_the_caller_comes)
{
    need_two_cpus();
    Parts parts = {0};
    int n = n_cpus_allowed() < MAX_PARTS ? n_cpus_allowed() : MAX_PARTS;
    Pool *p = pool_of(n);
    pool_run(p, note, &parts);
    for (int i = 0; i < 20 && n == n_cpus_allowed(); i++) {
        int taken = parts.cpu[1 + i % (n - 1)];
        stay_on(taken);
        pool_run(p, note, &parts);
        for (int k = 1; k < n; k++) {
            cr_assert_neq(parts.cpu[k], taken, "part %d still runs where the caller does", k);
        }
    }
    pool_free(p);
}

/* ---- signals ---- */

static atomic_int n_signals, n_strays;

static void on_signal(int signal)
{
    (void)signal;
    atomic_fetch_add(&n_strays, gettid() != getpid());
    atomic_fetch_add(&n_signals, 1);
}

static void until_some_signals(void *ctx, int part, int n_parts)
{
    (void)ctx, (void)n_parts;
    for (int start = n_signals; part != 0 && n_signals < start + 3;) {
        usleep(100);
    }
}

Test(run_pool_os, signals_reach_the_caller_and_disturb_no_region)
{
    struct itimerval every_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, on_signal);
    Pool *p = pool_of(3);
    setitimer(ITIMER_REAL, &every_ms, NULL);
    while (n_signals < 20) {
        run_chain(p, 10);
    }
    pool_set_spin(p, 0); /* now they find the caller asleep */
    pool_run(p, until_some_signals, NULL);
    pool_run(p, until_some_signals, NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    cr_assert_eq(n_strays, 0, "%d signals went to workers", (int)n_strays);
    pool_free(p);
}

Test(run_pool_os, workers_block_all_signals_but_their_own_faults_and_the_caller_none)
{
    Parts parts = {0};
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    Pool *p = pool_of(2);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    pool_run(p, note, &parts);
    for (int s = 1; s < 32; s++) {
        bool own = s == SIGSEGV || s == SIGBUS || s == SIGFPE || s == SIGILL || s == SIGTRAP ||
                   s == SIGABRT || s == SIGSYS || s == SIGKILL || s == SIGSTOP;
        cr_assert_eq(sigismember(&parts.blocked[1], s), !own, "signal %d", s);
        cr_assert_eq(sigismember(&after, s), sigismember(&before, s));
    }
    pool_free(p);
}

/* ---- processes and limits ---- */

Test(run_pool_os, a_forked_child_may_free_the_pool_and_not_run_it)
{
    Parts parts = {0};
    int status[2];
    Pool *p = pool_of(2);
    pool_run(p, note, &parts);
    for (int runs = 0; runs <= 1; runs++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(10); /* rather than to wait for threads that are not there */
            if (runs) {
                pool_run(p, note, &parts);
            }
            pool_free(p);
            _exit(0);
        }
        cr_assert_eq(waitpid(child, &status[runs], 0), child);
    }
    cr_assert(WIFEXITED(status[0]) && WEXITSTATUS(status[0]) == 0);
    cr_assert(WIFSIGNALED(status[1]) && WTERMSIG(status[1]) == SIGABRT,
              "it ran without its threads");
    pool_run(p, note, &parts);
    assert_each_ran(&parts, 2, 2);
    pool_free(p);
}

static size_t stack_bytes(void) /* of a new thread */
{
    size_t bytes;
    pthread_attr_t attr;
    cr_assert_eq(pthread_getattr_default_np(&attr), 0);
    pthread_attr_getstacksize(&attr, &bytes);
    return bytes;
}

static size_t bytes_mapped(void)
{
    size_t n_pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    cr_assert(f && fscanf(f, "%zu", &n_pages) == 1);
    fclose(f);
    return n_pages * (size_t)sysconf(_SC_PAGESIZE);
}

Test(run_pool_os, a_thread_that_cannot_be_started_is_named_and_none_is_left)
{
#ifdef NC_SANITIZED
    cr_skip_test("a sanitizer needs more addresses than the limit allows");
#endif
    Err err = {.code = E_OK};
    size_t room = bytes_mapped() + 10 * stack_bytes();
    setrlimit(RLIMIT_AS, &(struct rlimit){room, room});
    cr_assert_null(pool_new(MAX_PARTS, &err));
    cr_assert_eq(err.code, E_IO);
    cr_assert(strstr(err.text, "of 64 cannot be started: "), "%s", err.text);
    Pool *p = pool_of(2);
    run_chain(p, 100);
    pool_free(p);
}
