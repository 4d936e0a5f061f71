/* bench_keep.c - a process that keeps rings (bench_kept.c) and forks from itself each process that
 * measures: that finds them as memory of its own, in the pages that were asked for, and cannot
 * write to them. The keeper runs no foreign code: each distinct (operand, layout, type) is packed
 * by a process of its own. It serves one task, one request at a time, until its parent ends it;
 * what it cannot do, a process that lays its own rings can. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tuner/bench_int.h"

enum {
    SHIFT_PAGES = 4096,
};

/* ---- packing ------------------------------------------------------------------------- */

/* What is forked does not speak for it. */
static void leave_alone(const Keeper *k)
{
    os.close(k->in);
    os.close(k->out);
}

typedef struct Packing {
    const Keeper *k;
    int side;
    void **to;
} Packing;

static void pack_all(Env *e, void *arg)
{
    const Packing *x = arg;
    Process *p = x->k->p;
    bench_lock_down(p);
    bench_load(p, x->side);
    Runnable r = {.k = p->k[x->side],
                  .pack = p->lib[x->side].pack[0],
                  .syms = p->job.task.sym,
                  .param = x->k->plain};
    runnable_lay(e, &r, p->job.task.rotates, NULL);
    for (int i = 1; i < r.k->operand.n; i++) {
        if (x->to[i]) {
            memcpy(x->to[i], runnable_laid(&r, i),
                   operand_stored_bytes(r.k, i, p->job.task.sym));
        }
    }
}

static void limit_packing(uint64_t ns)
{
    uint64_t us = ns / 1000 + 1;
    struct itimerval once = {.it_value = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)}};
    setitimer(ITIMER_REAL, &once, NULL);
}

/* In a process of its own, since the code is the candidate's. */
bool keeper_packs(const Keeper *k, int side, void **to)
{
    int status = -1, keeper = (int)getpid();
    pid_t pid = fork();
    if (pid == 0) {
        leave_alone(k);
        limit_packing(k->p->job.job.limit_ns / 4); /* the parent waits for half */
        _exit(!child_bind_life(keeper) || !env_try(k->p->e, pack_all, &(Packing){k, side, to}));
    }
    while (pid > 0 && waitpid(pid, &status, 0) != pid) {
    }
    k->p->area.head->no_memory = 0; /* that says nothing of who measures */
    return pid > 0 && status == 0;
}

/* ---- the process that measures ------------------------------------------------------- */

/* Libraries do not lie at the same place in each that is forked. */
static void shift_mappings(uint64_t seed)
{
    uint64_t state = seed ^ 0x7368696674;
    size_t pages = 1 + splitmix64(&state) % SHIFT_PAGES;
    (void)mmap(NULL, pages * (size_t)sysconf(_SC_PAGESIZE), PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static _Noreturn void measure_forked(const Keeper *k, int keeper)
{
    leave_alone(k);
    setpgid(0, 0);
    if (!child_bind_life(keeper)) {
        _exit(CHILD_NOT_BEGUN);
    }
    shift_mappings(k->p->job.job.seed);
    bench_measure(k->p);
}

static bool say(const Keeper *k, const KeeperReply *r)
{
    return os.write(k->out, r, sizeof *r) == sizeof *r;
}

/* Until it has ended; its group with it, as long as the number is its own. */
static void follow(const Keeper *k, const KeeperReply *started)
{
    siginfo_t info;
    pid_t pid = started->pid;
    KeeperReply ended = {.what = KEEPER_ENDED, .pid = pid};
    setpgid(pid, pid); /* whoever of the two comes first */
    if (say(k, started)) {
        while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0) {
        }
    }
    os.kill(-pid, SIGKILL);
    while (wait4(pid, &ended.status, 0, &ended.usage) != pid) {
    }
    say(k, &ended);
}

/* ---- requests ------------------------------------------------------------------------ */

static void give(Env *e, void *arg)
{
    (void)e;
    kept_give(arg);
}

static void serve(Keeper *k, int area_fd)
{
    Env e;
    Err err;
    env_init(&e);
    Process *p = k->p = arena_new(&e.model, Process);
    p->e = &e;
    p->own_rivals = k->own_rivals;
    k->n_requests++;
    k->n_laid = 0;
    uint64_t from_ns = clock_ns();
    pid_t pid = -1;
    int keeper = (int)getpid();
    if (bench_begin(p, k->parent, area_fd, &err) && env_try(&e, give, k)) {
        pid = fork();
    }
    if (pid == 0) {
        measure_forked(k, keeper);
    } else if (pid > 0) {
        follow(k, &(KeeperReply){.what = KEEPER_STARTED,
                                 .pid = pid,
                                 .n_laid = k->n_laid,
                                 .lay_ns = clock_ns() - from_ns});
        kept_learn(k);
    } else {
        say(k, &(KeeperReply){.what = KEEPER_CANNOT});
    }
    area_release(&p->area);
    env_release(&e);
}

int keeper_main(int argc, char **argv, RivalOpen *own)
{
    static Keeper k;
    int fd[3] = {0};
    for (int i = 0; i < 3 && argc == 5; i++) {
        fd[i] = atoi(argv[2 + i]);
    }
    k = (Keeper){.parent = fd[0], .own_rivals = own, .in = -1, .out = -1};
    env_init(&k.env);
    if (fd[0] > 0 && child_bind_life(k.parent)) {
        k.in = fd_of_process(k.parent, fd[1], O_RDONLY);
        k.out = fd_of_process(k.parent, fd[2], O_WRONLY);
    }
    if (k.in < 0 || k.out < 0) {
        fprintf(stderr, "%s is for this program's own use.\n", KEEPER_WORD);
        return CHILD_NOT_BEGUN;
    }
    int area_fd;
    while (os.read(k.in, &area_fd, sizeof area_fd) == sizeof area_fd) {
        serve(&k, area_fd);
    }
    _exit(0);
}
