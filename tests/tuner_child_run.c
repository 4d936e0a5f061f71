/* tuner_child_run.c - real processes on real schedules: no time is asserted, but that there are
 * pairs, in the order drawn, within their process's life; that each process has a layout of its
 * own; what it may do; and what happens when a call of the system fails. */
#include "tests/child_util.h"
#include "tests/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static Lab lab;

static void start(void)
{
    lab_init(&lab, product_text);
}

static void stop(void)
{
    lab_release(&lab);
}

TestSuite(tuner_child_run, .init = start, .fini = stop, .timeout = 300);

#define PANELS                                                                              \
    "split n 16 pad; split m 4 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; fma; " \
    "pack b n.o,k,n.i"

static void expect_pairs(const ProcessResult *r, int n)
{
    cr_assert_eq(r->status, STATUS_OK, "%s", r->why);
    cr_assert_eq(r->n_pairs, n);
    cr_expect(r->pid > 0 && r->took_ns > 0 && r->start_ns > 0);
    cr_expect(r->warm_a_ns > 0 && r->warm_b_ns > 0 && r->reps > 0);
    cr_expect_neq(r->base_a, r->base_b);
    cr_expect_eq(r->why[0], '\0');
    uint64_t sum_ns = 0;
    for (int i = 0; i < n; i++) {
        cr_expect(r->pair[i].a_ns > 0 && r->pair[i].b_ns > 0);
        cr_expect_eq(r->pair[i].b_first, pair_b_first(lab.job.seed, i));
        sum_ns += r->pair[i].a_ns + r->pair[i].b_ns;
    }
    cr_expect_lt(sum_ns, r->took_ns);
}

Test(tuner_child_run, a_schedule_against_the_naive_nest)
{
    lab.b = lab_build(&lab, PANELS);
    lab.job.n_pairs = 25;
    const ProcessResult *r = lab_run(&lab);
    expect_pairs(r, 25);
    cr_expect(r->before.fork_join_ns > 0 && r->after.flops_per_ns > 0);
    cr_expect_eq(r->before.read_bytes_per_ns, 0, "hot: nothing to read");
}

Test(tuner_child_run, cold_constants_rotate)
{
    lab.task.regime = REGIME_COLD;
    lab.b = lab_build(&lab, PANELS);
    const ProcessResult *r = lab_run(&lab);
    expect_pairs(r, 5);
    cr_expect(r->before.read_bytes_per_ns > 0 && r->after.read_bytes_per_ns > 0);
}

Test(tuner_child_run, cold_without_room_for_two_copies)
{
    lab.task.regime = REGIME_COLD;
    lab.children.ring_limit_bytes = 10000;
    lab.b = lab_build(&lab, PANELS);
    const ProcessResult *r = lab_run(&lab);
    cr_expect_eq(r->status, STATUS_OOM);
    cr_expect(strstr(r->why, "Two copies"), "%s", r->why);
}

Test(tuner_child_run, several_threads)
{
    lab.task.n_threads = 3;
    lab.a = lab_build(&lab, "par m");
    lab.b = lab_build(&lab, PANELS "; par n.o");
    const ProcessResult *r = lab_run(&lab);
    expect_pairs(r, 5);
    cr_expect_eq(r->cpu, -1, "bound to no CPU");
    cr_expect_eq(r->pair[0].a_cpu_ns, 0);
}

/* Calibration: the default against its own bytes. */
Test(tuner_child_run, a_copy_of_the_same_library)
{
    Env *e = &lab.w.e;
    lab.b = built_copy(e, &e->model, &lab.w.cache, &lab.a);
    cr_expect_str_neq(lab.a.library, lab.b.library);
    cr_expect_str_eq(lab.a.symbol, lab.b.symbol);
    lab.job.stage = DUEL_CALIBRATE;
    expect_pairs(lab_run(&lab), 5);
}

Test(tuner_child_run, the_same_file_twice_is_refused)
{
    lab.b = lab.a;
    const ProcessResult *r = lab_run(&lab);
    cr_expect_eq(r->status, STATUS_GARBAGE);
    cr_expect(strstr(r->why, "Both sides are the same file"), "%s", r->why);
}

Test(tuner_child_run, without_pairs_it_only_verifies_and_warms)
{
    lab.b = lab_build(&lab, PANELS);
    lab.job.n_pairs = 0;
    expect_pairs(lab_run(&lab), 0);
}

Test(tuner_child_run, a_search_may_end_early)
{
    enum { N = 200 };
    int16_t win[N + 1], lose[N + 1];
    StopRule s = {.n = N + 1, .win = win, .lose = lose};
    for (int i = 0; i <= N; i++) {
        win[i] = i < 3 ? -1 : 0;
        lose[i] = -1;
    }
    lab.b = lab_build(&lab, PANELS);
    lab.job.stage = DUEL_SEARCH;
    lab.job.stop = &s;
    lab.job.n_pairs = N;
    const ProcessResult *r = lab_run(&lab);
    cr_assert_eq(r->status, STATUS_OK, "%s", r->why);
    cr_expect(r->n_pairs >= 3 && r->n_pairs < N, "%d", r->n_pairs);
}

Test(tuner_child_run, an_illegal_schedule_says_why)
{
    lab.b = lab_build(&lab, PANELS);
    lab.b.schedule = "split q 4 pad";
    const ProcessResult *r = lab_run(&lab);
    cr_expect_eq(r->status, STATUS_ILLEGAL);
    cr_expect(strstr(r->why, "q"), "%s", r->why);
}

Test(tuner_child_run, a_library_that_is_none)
{
    lab.b = lab_build(&lab, PANELS);
    lab.b.library = arena_printf(&lab.w.e.model, "%s/junk.so", lab.w.dir.path);
    write_text(lab.b.library, "this is no library");
    cr_expect_eq(lab_run(&lab)->status, STATUS_CC_ERROR, "%s", lab.result.why);
}

/* Schedule and library that do not belong together: packed as the library packs, called as the
 * schedule says. */
Test(tuner_child_run, another_schedules_library_is_wrong)
{
    Built other = lab_build(&lab, "order n m k");
    lab.b = lab_build(&lab, PANELS);
    lab.b.schedule = other.schedule;
    const ProcessResult *r = lab_run(&lab);
    cr_expect(r->status == STATUS_WRONG || r->status == STATUS_CRASH, "%s", r->why);
}

/* ---- each process is drawn anew ------------------------------------------------------ */

Test(tuner_child_run, layout_changes_with_the_seed_and_the_system)
{
    uint64_t base[4];
    int n_b_first = 0, pads = 0;
    if (strcmp(read_text(&lab.w.e, "/proc/sys/kernel/randomize_va_space"), "2\n")) {
        cr_skip_test("this system does not place libraries at random");
    }
    lab.b = lab_build(&lab, PANELS);
    lab.job.verify = false;
    for (int i = 0; i < 4; i++) {
        lab.job.seed = (uint64_t)i;
        const ProcessResult *r = lab_run(&lab);
        expect_pairs(r, 5);
        base[i] = r->base_b;
        n_b_first += r->b_loaded_first;
        pads += r->stack_pad + r->env_pad;
        cr_expect(i == 0 || base[i] != base[i - 1], "addresses are not random");
    }
    cr_expect(n_b_first > 0 && n_b_first < 4);
    cr_expect_gt(pads, 0);
}

Test(tuner_child_run, a_cpu_of_the_mask_and_not_the_busy_ones)
{
    static const struct {
        int n, allowed[4], own, want[2];
    } rows[] = {{0, {0}, 0, {-1, -1}},        {1, {5}, 5, {5, 5}},
                {2, {0, 1}, 1, {0, 1}},       {3, {0, 3, 7}, 3, {7, 7}},
                {4, {0, 1, 2, 3}, 2, {1, 3}}, {3, {2, 4, 6}, 9, {2, 4}}};
    for (size_t i = 0; i < countof(rows); i++) {
        for (uint64_t draw = 0; draw < 2; draw++) {
            cr_expect_eq(child_cpu_of(rows[i].allowed, rows[i].n, rows[i].own, draw),
                         rows[i].want[draw], "row %zu", i);
        }
    }
}

Test(tuner_child_run, one_thread_is_bound_to_an_allowed_cpu)
{
    cpu_set_t allowed;
    lab.b = lab_build(&lab, PANELS);
    lab.job.verify = false;
    cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    const ProcessResult *r = lab_run(&lab);
    cr_assert_geq(r->cpu, 0);
    cr_expect(CPU_ISSET(r->cpu, &allowed));
    for (int i = 0; i < r->n_pairs; i++) {
        cr_expect_eq(r->pair[i].cpu, (uint32_t)r->cpu);
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(r->cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    for (lab.job.seed = 0; lab.job.seed < 3; lab.job.seed++) {
        lab.children.unbind_next = false;
        cr_expect(CPU_ISSET(lab_run(&lab)->cpu, &one), "outside of the mask that it was given");
    }
    lab.children.unbind_next = true;
    cr_expect_eq(lab_run(&lab)->cpu, -1);
    lab.children.keep_unbound = true;
    cr_expect_eq(lab_run(&lab)->cpu, -1);
}

/* Binding is refused where a CPU is gone, and the process goes on where it is. */
Test(tuner_child_run, cases_9_a_cpu_that_is_gone_cannot_be_bound_to)
{
    cpu_set_t was, is;
    cr_assert_eq(sched_getaffinity(0, sizeof was, &was), 0);
    cr_expect_not(child_bind_cpu(CPU_SETSIZE - 1));
    cr_expect_not(child_bind_cpu(INT_MAX));
    cr_assert_eq(sched_getaffinity(0, sizeof is, &is), 0);
    cr_expect(CPU_EQUAL(&was, &is));
}

/* ---- what it took, and the machine meanwhile ------------------------------------------ */

Test(tuner_child_run, what_it_took_and_what_the_machine_did_meanwhile_is_known)
{
    TempDir d = temp_dir();
    write_text(temp_path(&d, "proc/stat"), "cpu  10 20 30 40 50 60 70 80 90 100\n");
    write_text(temp_path(&d, "proc/loadavg"), "0.50 1.25 2.00 3/200 4711\n");
    write_text(temp_path(&d, "sys/class/thermal/thermal_zone0/temp"), "41000\n");
    lab.children.root = d.path;
    lab.b = lab_build(&lab, PANELS);
    const Meanwhile *m = &lab_run(&lab)->meanwhile;
    cr_assert_eq(lab.result.status, STATUS_OK, "%s", lab.result.why);
    cr_expect(m->known && m->utime_ns + m->stime_ns > 0);
    cr_expect_leq((uint64_t)(m->utime_ns + m->stime_ns), 2 * lab.result.took_ns);
    cr_expect(m->max_rss_bytes > 1 << 20 && m->minor_faults > 100 && m->major_faults >= 0);
    cr_expect(m->voluntary_switches >= 0 && m->involuntary_switches >= 0);
    cr_expect(m->steal_jiffies == 0 && m->throttled == 0);
    cr_expect(m->load[0] == 0.5 && m->load[1] == 1.25 && m->load[2] == 2);
    cr_expect(m->celsius == 41 && isnan(m->cpu_mhz));
    lab.b =
        lab_hostile(&lab, "#include <stdlib.h>\nint32_t candidate(P)\n{\n    abort();\n}\n");
    cr_assert_eq(lab_run(&lab)->status, STATUS_CRASH);
    cr_expect(m->known && m->utime_ns + m->stime_ns > 0, "also of one that ended badly");
    temp_remove(&d);
}

typedef struct Squeeze { /* a control group that is held back all the time */
    const char *stat;
    bool stop;
} Squeeze;

static void *squeeze(void *arg)
{
    Squeeze *s = arg;
    Err err;
    for (int n = 1; !__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE); n++) {
        char text[64];
        int len = snprintf(text, sizeof text, "nr_throttled %d\n", n);
        os_write_file(s->stat, text, (size_t)len, &err);
        usleep(50);
    }
    return NULL;
}

Test(tuner_child_run, cases_8_a_process_that_is_held_back_by_a_quota_says_so)
{
    TempDir d = temp_dir();
    Squeeze s = {.stat = arena_str(&lab.w.e.model, temp_path(&d, "sys/fs/cgroup/a/cpu.stat"))};
    pthread_t thread;
    write_text(temp_path(&d, "proc/self/cgroup"), "0::/a\n");
    write_text(s.stat, "nr_throttled 0\n");
    lab.children.root = d.path;
    lab.b = lab_build(&lab, PANELS);
    lab.job.n_pairs = 1000;
    cr_assert_eq(pthread_create(&thread, NULL, squeeze, &s), 0);
    const ProcessResult *r = &lab.result;
    lab.runner.process(lab.runner.ctx, &lab.w.e, &lab.w.e.model, &lab.job, &lab.result);
    __atomic_store_n(&s.stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    cr_assert_eq(r->status, STATUS_OK, "%s", r->why);
    int n = 0;
    for (int i = 0; i < r->n_pairs; i++) {
        n += (r->pair[i].flags & PAIR_THROTTLED) != 0;
    }
    cr_expect_gt(n, 0, "no pair says so");
    cr_expect_gt(r->meanwhile.throttled, 0);
    temp_remove(&d);
}

/* Another tuner holds the lock: this one's process begins when it is free. */
Test(tuner_child_run, one_measurement_at_a_time)
{
    const char *path = arena_printf(&lab.w.e.model, "%s/lock", lab.w.dir.path);
    lab.b = lab_build(&lab, PANELS);
    lab.children.lock = path;
    int ready[2];
    struct timespec ts;
    cr_assert_eq(pipe(ready), 0);
    int fd = open(path, O_RDWR | O_CREAT, 0666), after[2];
    cr_assert_eq(pipe(after), 0);
    pid_t other = fork();
    if (other == 0) {
        flock(open(path, O_RDWR), LOCK_EX);
        (void)!write(ready[1], "x", 1);
        usleep(300000);
        clock_gettime(CLOCK_REALTIME, &ts);
        (void)!write(after[1], &ts, sizeof ts);
        _exit(0);
    }
    close(fd);
    char x;
    cr_assert_eq(read(ready[0], &x, 1), 1);
    lab.runner.process(lab.runner.ctx, &lab.w.e, &lab.w.e.model, &lab.job, &lab.result);
    cr_assert_eq(waitpid(other, NULL, 0), other);
    cr_assert_eq(read(after[0], &ts, sizeof ts), (ssize_t)sizeof ts);
    cr_expect_eq(lab.result.status, STATUS_OK, "%s", lab.result.why);
    cr_expect_geq(lab.result.start_ns,
                  (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec);
    lab.children.lock = "/nonexistent/lock"; /* then there is none */
    cr_expect_eq(lab_run(&lab)->status, STATUS_OK, "%s", lab.result.why);
}

/* In a folder that everybody writes to; opened as a file it would wait for a writer. */
Test(tuner_child_run, a_pipe_where_the_lock_should_be_is_not_waited_for, .timeout = 60)
{
    lab.children.lock = arena_printf(&lab.w.e.model, "%s/lock", lab.w.dir.path);
    lab.b = lab_build(&lab, PANELS);
    cr_assert_eq(mkfifo(lab.children.lock, 0600), 0);
    cr_expect_eq(lab_run(&lab)->status, STATUS_OK, "%s", lab.result.why);
}

static void ignore_signal(int number)
{
    (void)number;
}

/* It may have been stopped by its user, for the night. */
Test(tuner_child_run, who_does_not_let_go_is_not_waited_for_forever)
{
    const char *path = arena_printf(&lab.w.e.model, "%s/lock", lab.w.dir.path);
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    lab.b = lab_build(&lab, PANELS);
    lab.children.lock = path;
    uint64_t limit_ns = lab.job.limit_ns;
    cr_assert_eq(flock(fd, LOCK_EX), 0);
    lab.job.limit_ns = 1000000;
    lab_run(&lab); /* too short for anything */
    cr_expect(lab.children.lock_stuck);
    lab.job.limit_ns = limit_ns;
    cr_expect_eq(lab_run(&lab)->status, STATUS_OK, "%s", lab.result.why);
    close(fd);
    cr_expect_eq(lab_run(&lab)->status, STATUS_OK, "%s", lab.result.why);
    cr_expect_not(lab.children.lock_stuck);
}

Test(tuner_child_run, a_signal_ends_a_wait)
{
    alarm(1); /* its handler does nothing, so that it only interrupts */
    signal(SIGALRM, ignore_signal);
    lab.runner.wait_ns(lab.runner.ctx, UINT64_C(1000000000000));
}

/* ---- whose life it is ---------------------------------------------------------------- */

/* The parent dies while the child spins; the child writes its number first. */
Test(tuner_child_run, it_dies_with_its_parent)
{
    int fd[2];
    cr_assert_eq(pipe(fd), 0);
    lab.b = lab_hostile(
        &lab, "int32_t candidate(P)\n{\n    for (;;) {\n        pause();\n    }\n}\n");
    pid_t parent = fork();
    if (parent == 0) {
        lab.runner.process(lab.runner.ctx, &lab.w.e, &lab.w.e.model, &lab.job, &lab.result);
        _exit(0);
    }
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
    int child = 0;
    for (int i = 0; i < 500 && child == 0; i++) {
        usleep(10000);
        FILE *f = fopen(path, "r");
        child = f && fgets(text, sizeof text, f) ? atoi(text) : 0;
        if (f) {
            fclose(f);
        }
    }
    usleep(200000); /* it has begun */
    kill(parent, SIGKILL);
    cr_assert_eq(waitpid(parent, NULL, 0), parent);
    if (child == 0) {
        cr_skip_test("this kernel does not list children");
    }
    cr_expect(process_goes(child), "process %d outlives its parent", child);
}

Test(tuner_child_run, the_hidden_word_is_not_for_users)
{
    static const char *const wrong[][3] = {
        {"0", "3", NULL}, {"1", "3", NULL}, {"x", "y", NULL}, {NULL, NULL, NULL}};
    for (size_t i = 0; i < countof(wrong); i++) {
        lab_word_is_hidden(&lab, CHILD_WORD, wrong[i]);
    }
}

Test(tuner_child_run, a_program_that_is_not_there)
{
    lab.b = lab_build(&lab, PANELS);
    lab.children.program = "/nonexistent/tune";
    const ProcessResult *r = lab_run(&lab);
    cr_expect(r->status == STATUS_GARBAGE && r->pid == 0);
    cr_expect(strstr(r->why, "/nonexistent/tune"), "%s", r->why);
    lab.children.program = "/bin/true"; /* another one */
    cr_expect_eq(lab_run(&lab)->status, STATUS_GARBAGE);
    lab.children.program = "/bin/false";
    cr_expect_eq(lab_run(&lab)->status, STATUS_CRASH);
}

/* ---- the parent's own calls fail ----------------------------------------------------- */

Test(tuner_child_run, each_call_of_the_parent_may_fail)
{
    static const char *const call[] = {"alloc", "memfd", "mmap",  "pipe",  "spawn",
                                       "pidfd", "poll",  "wait4", "close", "kill"};
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
