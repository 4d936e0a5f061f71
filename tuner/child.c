/* child.c - a Runner whose processes are real: each is this program again, by fork and exec, in
 * a process group of its own, with its job and its results in shared memory, and a layout that
 * is drawn for it alone. However a process ends, that is a result, and nothing of it is left:
 * no process, descriptor, mapping. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "tuner/tuner_int.h"

extern char **environ;

enum {
    PAD_STEPS = 256, /* of 16 bytes */
    MAX_CPUS = 1 << 14,
    LOCK_NAP_NS = 10000000, /* a short one would disturb who measures */
};

#define DISTURBED (PAIR_PREEMPTED | PAIR_FAULTED | PAIR_MIGRATED)
enum { DISTURBED_PERCENT = 30 };

static void nap(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000),
                         .tv_nsec = (long)(ns % 1000000000)};
    nanosleep(&t, NULL);
}

/* ---- what is drawn for it ------------------------------------------------------------ */

int child_cpu_of(const int *allowed, int n, int own, uint64_t draw)
{
    int n_fit = 0;
    for (int pass = 0; pass < 2; pass++) { /* counts, then takes */
        uint64_t left = pass ? draw % (uint64_t)(n_fit ? n_fit : 1) : 0;
        for (int i = 0; i < n; i++) {
            bool fits = n <= 2 || (allowed[i] != 0 && allowed[i] != own);
            if (pass && fits && left-- == 0) {
                return allowed[i];
            }
            n_fit += !pass && fits;
        }
    }
    return -1;
}

static int choose_cpu(uint64_t draw)
{
    cpu_set_t set[MAX_CPUS / CPU_SETSIZE];
    int allowed[MAX_CPUS], n = 0;
    if (sched_getaffinity(0, sizeof set, set) != 0) {
        return -1;
    }
    for (int i = 0; i < MAX_CPUS; i++) {
        if (CPU_ISSET_S(i, sizeof set, set)) {
            allowed[n++] = i;
        }
    }
    return child_cpu_of(allowed, n, sched_getcpu(), draw);
}

static void draw(Child *p)
{
    uint64_t state = p->job->seed ^ 0x706c616365; /* a stream of its own */
    uint64_t which = splitmix64(&state);
    bool bound = p->job->task->n_threads == 1 && !p->c->keep_unbound && !p->c->unbind_next;
    child_job_init(&p->cross, p->job);
    p->c->unbind_next = false;
    p->cross.parent = (int)getpid();
    p->cross.cpu = bound ? choose_cpu(which) : -1;
    p->cross.ring_limit_bytes = p->c->ring_limit_bytes;
    p->cross.root = p->c->root ? p->c->root : "";
    p->out->stack_pad = p->cross.stack_pad;
    p->out->env_pad = (int)(splitmix64(&state) % PAD_STEPS) * 16;
    p->out->b_loaded_first = p->cross.b_loaded_first;
    p->out->cpu = p->cross.cpu;
}

/* Ours and a variable of the size drawn, since the environment moves the stack. */
static char **environment(Child *p)
{
    int n = 0;
    while (environ[n]) {
        n++;
    }
    char **env = arena_array(p->m, char *, n + 2);
    memcpy(env, environ, sizeof *env * (size_t)n);
    char *pad = arena_alloc(p->m, (size_t)p->out->env_pad + 16);
    memset(pad, '.', (size_t)p->out->env_pad + 8);
    memcpy(pad, "NC_PAD=", 7);
    env[n] = pad;
    return env;
}

static bool try_lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

/* One measurement at a time: another tuner on this machine waits for the end of a process, not
 * of a session. Where there can be no lock there is none, and who was stopped while it held one
 * is not waited for forever: then the noise shows in the pairs. */
static void take_turn(Child *p)
{
    Children *c = p->c;
    const int how =
        O_RDONLY | O_NOFOLLOW | O_NONBLOCK; /* a stranger's pipe is not waited for */
    p->lock_fd = c->lock ? os.open(c->lock, how, 0) : -1;
    if (c->lock && p->lock_fd < 0) { /* only then, since it may be another user's */
        p->lock_fd = os.open(c->lock, how | O_CREAT, 0644);
    }
    if (p->lock_fd < 0) {
        return;
    }
    bool mine = try_lock(p->lock_fd);
    uint64_t from_ns = clock_ns();
    while (!mine && !c->lock_stuck && clock_ns() - from_ns < p->job->limit_ns) {
        nap(LOCK_NAP_NS);
        mine = try_lock(p->lock_fd);
    }
    c->lock_stuck = !mine;
}

/* ---- starting ------------------------------------------------------------------------ */

static void take_time(Child *p)
{
    p->out->start_ns = (uint64_t)os_wall_ns();
    p->begin_ns = clock_ns();
}

static bool spawn(Child *p, char **env, Err *err)
{
    const char *program = p->c->program ? p->c->program : "/proc/self/exe";
    char parent[24], area[24];
    char *argv[] = {(char *)program, (char *)CHILD_WORD, parent, area, NULL};
    int fd[2];
    snprintf(parent, sizeof parent, "%d", p->cross.parent);
    snprintf(area, sizeof area, "%d", p->area_fd);
    if (os.pipe(fd) != 0) {
        return err_set(err, E_IO, "There is no pipe: %s.", strerror(errno));
    }
    p->pid = os.spawn(program, argv, env, fd[1]);
    int why = errno;
    os.close(fd[1]);
    if (p->pid < 0) {
        os.close(fd[0]);
        return err_set(err, E_IO, "Cannot run %s: %s.", program, strerror(why));
    }
    p->said_fd = fd[0];
    p->pid_fd = os.pidfd(p->pid);
    return true;
}

/* ---- a process ----------------------------------------------------------------------- */

/* Bound behind a busy neighbour it would stay there: then the next one is not bound. */
static void learn(Child *p)
{
    int n = 0;
    for (int i = 0; i < p->out->n_pairs; i++) {
        n += (p->out->pair[i].flags & DISTURBED) != 0;
    }
    p->c->unbind_next = p->out->cpu >= 0 && n * 100 > p->out->n_pairs * DISTURBED_PERCENT;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        os.close(*fd);
    }
    *fd = -1;
}

static void close_process(Child *p)
{
    close_fd(&p->area_fd);
    close_fd(&p->pid_fd);
    close_fd(&p->said_fd);
    area_release(&p->area);
}

/* One process from its start to its end. Nothing fails while it is there: it would be left alone. */
static void attempt(Child *p, char **env)
{
    Err err = {0};
    p->kept = false, p->kept_lay_ns = 0;
    p->end = GOING, p->said_bytes = 0;
    buf_init(&p->text, p->m);
    child_job_print(&p->cross, &p->text);
    p->area_fd = area_make(&p->cross, &p->text, &p->area, &err);
    if (p->area_fd < 0 || (!keeper_starts(p, env) && !spawn(p, env, &err))) {
        child_ends(p, STATUS_GARBAGE, "No process was started: %.600s", err.text);
        return;
    }
    child_watch(p);
    uint64_t end_ns = clock_ns();
    p->out->pid = (int)p->pid;
    p->out->took_ns = end_ns - p->begin_ns;
    child_judge(p, end_ns);
    p->out->lay_ns += p->kept_lay_ns;
}

/* What it finds kept now is what it asked for; if not, it lays its own. */
static void begin_again(Child *p, char **env)
{
    ProcessResult first = *p->out;
    p->out->again = false;
    p->cross.may_ask = false;
    close_process(p);
    attempt(p, env);
    p->out->verify_ns += first.verify_ns;
    p->out->lay_ns += first.lay_ns;
    p->out->time_ns += first.time_ns;
}

static void run(Env *e, void *arg)
{
    Child *p = arg;
    (void)e;
    draw(p);
    char **env = environment(p);
    take_turn(p);
    child_looks_before(p);
    take_time(p);
    p->cross.may_ask = keeper_serves(p);
    attempt(p, env);
    if (p->out->again) {
        begin_again(p, env);
    }
    child_looks_after(p);
    learn(p);
}

static void process(void *ctx, Env *e, Arena *m, const ProcessJob *job, ProcessResult *out)
{
    Child *p = &(Child){.c = ctx,
                        .e = e,
                        .m = m,
                        .job = job,
                        .out = out,
                        .area_fd = -1,
                        .said_fd = -1,
                        .pid_fd = -1,
                        .lock_fd = -1};
    *out = (ProcessResult){.cpu = -1};
    if (!env_try(e, run, p)) {
        child_ends(p, STATUS_OOM, "The tuner itself has no memory: %.500s", e->err.text);
    }
    close_process(p);
    close_fd(&p->lock_fd);
}

static uint64_t now_ns(void *ctx)
{
    (void)ctx;
    return os_now_ns();
}

/* A signal ends it early. */
static void wait_ns(void *ctx, uint64_t ns)
{
    (void)ctx;
    nap(ns);
}

Runner child_runner(Children *c)
{
    return (Runner){.ctx = c, .process = process, .now_ns = now_ns, .wait_ns = wait_ns};
}
