/* bench_child.c - one process that measures: it reads its job from memory shared with its
 * parent, limits itself, loads two libraries that nobody trusts, checks that the challenger
 * computes what the naive nest does, times both in pairs (bench_turns.c), checks again, and
 * leaves. It decides nothing. Whatever ends it early, the parent finds how far it came. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tuner/bench_int.h"

#define SLACK_BYTES ((uint64_t)1 << 30)
#define THREAD_BYTES ((uint64_t)16 << 20)
/* Expression nodes that a verification evaluates where it is not the full one: a quarter of
 * those, an eighth. */
#define WORK_SEARCH 15e6
#define WORK_AGAIN 7.5e6

static const Built *built(const Process *p, int side)
{
    return side == A ? &p->job.a : &p->job.b;
}

/* ---- what is to be done -------------------------------------------------------------- */

static const Kernel *scheduled(Process *p, int side)
{
    Schedule s;
    Err err;
    if (!schedule_parse(built(p, side)->schedule, &s, &err)) {
        fail_err(p->e, &err);
    }
    const Kernel *k = kernel_schedule(p->e, &p->e->model, p->naive, &s, s.n, &err);
    if (!k) {
        fail_err(p->e, &err);
    }
    return k;
}

void bench_prepare(Process *p)
{
    const Task *t = &p->job.task;
    p->naive = kernel_parse(p->e, t->kernel, strlen(t->kernel), "kernel");
    if (p->naive->n_syms != t->n_syms) {
        fail(p->e, E_INPUT, "The kernel has %d symbols and the task values of %d.",
             p->naive->n_syms, t->n_syms);
    }
    if (!p->job.ring_limit_bytes) {
        int64_t memory = p->machine.memory_bytes;
        p->job.ring_limit_bytes = memory > 0 ? (uint64_t)memory / 6 : SIZE_MAX / 8;
    }
    for (int i = 0; i < N_SIDES; i++) {
        p->k[i] = scheduled(p, i);
    }
}

/* Inputs, what both sides keep in rings and once besides, and, while it verifies b, all that it
 * needs. */
static uint64_t memory_needed(const Process *p)
{
    const Task *t = &p->job.task;
    uint64_t plain = 0, stored = 0;
    for (int i = 0; i < p->naive->operand.n; i++) {
        plain += operand_stored_bytes(p->naive, i, t->sym) + THREAD_BYTES / 4;
    }
    for (int i = 0; i < N_SIDES; i++) {
        stored += operands_rotating_bytes(p->k[i], t->sym, t->rotates);
    }
    bool cold = t->regime == REGIME_COLD;
    uint64_t rings = cold ? ring_want_bytes(&p->machine) + 2 * stored : stored;
    return 3 * plain + 2 * stored + rings + THREAD_BYTES * (uint64_t)t->n_threads + SLACK_BYTES;
}

void bench_lock_down(Process *p)
{
    child_limit(&p->job, memory_needed(p));
    child_watch_memory(&p->area.head->no_memory);
    child_forbid_processes();
    p->facts.cpu = p->job.cpu >= 0 && child_bind_cpu(p->job.cpu) ? p->job.cpu : -1;
}

/* ---- libraries ----------------------------------------------------------------------- */

static void load_rival(Process *p, int side)
{
    Err err;
    const Built *b = built(p, side);
    const Task *t = &p->job.task;
    RivalKernel *r = arena_new(&p->e->model, RivalKernel);
    if (*b->library) {
        rival_load(p->e, &p->lib[side], b->library, b->symbol, p->naive, t->n_threads, r);
    } else if (!p->own_rivals) {
        fail(p->e, E_BUILD, "This program has no rivals of its own.");
    } else if (!p->own_rivals(p->e, b->symbol, p->naive, t->sym, t->n_threads, r, &err)) {
        fail_err(p->e, &err);
    }
    p->rival[side] = r;
}

static void load_ours(Process *p, int side)
{
    Kernel named = *p->k[side]; /* what is loaded may have another name: a copy */
    Kernel *one = &named;
    snprintf(named.symbol, sizeof named.symbol, "%s", built(p, side)->symbol);
    library_load(p->e, &p->lib[side], built(p, side)->library, &one, 1);
    for (int i = 0; i < named.operand.n; i++) {
        if (named.operand.at[i].pack && !p->lib[side].pack[0][i]) {
            fail(p->e, E_BUILD, "The library %.400s cannot lay out operand %s.",
                 built(p, side)->library, named.operand.at[i].name);
        }
    }
}

void bench_load(Process *p, int side)
{
    if (built(p, side)->rival) {
        load_rival(p, side);
    } else {
        load_ours(p, side);
    }
}

/* 0: it came with this program. */
static uint64_t base_of(const Process *p, int side)
{
    Dl_info info = {0};
    void *at;
    if (!p->lib[side].fn) {
        return 0;
    }
    memcpy(&at, &p->lib[side].fn[0], sizeof at);
    return dladdr(at, &info) ? (uint64_t)(uintptr_t)info.dli_fbase : 0;
}

static void load_both(Process *p)
{
    area_enter(&p->area, AREA_LOADING);
    int first = p->job.b_loaded_first ? B : A;
    bench_load(p, first);
    bench_load(p, !first);
    p->facts.base_a = base_of(p, A);
    p->facts.base_b = base_of(p, B);
    if (p->facts.base_a == p->facts.base_b) {
        fail(p->e, E_INPUT, "Both sides are the same file: %.400s.", p->job.a.library);
    }
}

/* ---- is it right? -------------------------------------------------------------------- */

/* Of many candidates most are far slower than the incumbent. One whose calls are, even from the
 * one copy that they find warm, needs no further verification and no rings: nothing comes of it.
 */
static bool is_worth_more(void *ctx)
{
    Process *p = ctx;
    bench_lay(p);
    p->dropped = !bench_warm(p);
    area_enter(&p->area, AREA_VERIFYING);
    return !p->dropped;
}

static int32_t by_pool(void *ctx, KernelFn fn, void *const *params, const int64_t *syms)
{
    return pool_kernel(ctx, fn, params, syms);
}

/* A rival may be made for these sizes alone, and nothing is claimed of it at others. */
static VerifyOptions verify_options(Process *p, int side, bool again)
{
    static const int64_t no_other_size = 0;
    bool searches = p->job.job.stage == DUEL_SEARCH;
    return (VerifyOptions){.syms = p->job.task.sym,
                           .seed = p->job.job.seed ^ (again ? 0x616761696e : 0),
                           .n_seeds = again || searches ? 1 : 0,
                           .sizes = again || p->rival[side] ? &no_other_size : NULL,
                           .briefly = again,
                           .tails_once = searches,
                           .go_on = searches && side == B && !again ? is_worth_more : NULL,
                           .go_on_ctx = p,
                           .work = again      ? WORK_AGAIN
                                   : searches ? WORK_SEARCH
                                              : 0};
}

/* Less where many candidates pass by: who is to be promoted comes again, with other seeds and
 * in full. */
static void verify_side(Process *p, int side, bool again)
{
    const RivalKernel *rival = p->rival[side];
    bool by_threads = (again || p->job.job.stage == DUEL_SEARCH) && p->k[side]->parallel &&
                      p->job.task.n_threads > 1;
    RivalCheck check = {0};
    BuiltKernel b = {.k = p->k[side],
                     .n_parts = p->job.task.n_threads,
                     .run = rival        ? rival_checked
                            : by_threads ? by_pool
                                         : NULL,
                     .ctx = rival ? (void *)&check : p->pool,
                     .foreign = rival != NULL};
    if (rival) {
        check = rival_check(p->e, rival, bench_pool(p, side), p->naive->operand.n);
    } else {
        b.fn = p->lib[side].fn[0];
        b.pack = p->lib[side].pack[0];
    }
    VerifyOptions o = verify_options(p, side, again);
    if (!verify_kernel(p->e, p->naive, &b, &o, &p->area.head->verdict)) {
        p->facts.status = STATUS_WRONG;
        snprintf(p->facts.why, sizeof p->facts.why, "%s%s", side == A ? "Of the first: " : "",
                 p->area.head->verdict.text);
    }
}

/* The challenger, and an incumbent that is none of ours. */
static void verify(Process *p, bool again)
{
    area_enter(&p->area, again ? AREA_AGAIN : AREA_VERIFYING);
    uint64_t from_ns = clock_ns(), other_ns = p->facts.lay_ns + p->facts.time_ns;
    for (int side = A; side < N_SIDES && p->facts.status == STATUS_OK; side++) {
        if (side == B || p->rival[side]) {
            __atomic_store_n(&p->area.head->in_a, side == A, __ATOMIC_RELEASE);
            verify_side(p, side, again);
        }
    }
    __atomic_store_n(&p->area.head->in_a, 0, __ATOMIC_RELEASE);
    other_ns = p->facts.lay_ns + p->facts.time_ns - other_ns;
    p->facts.verify_ns += clock_ns() - from_ns - other_ns;
}

/* ---- all of it ----------------------------------------------------------------------- */

static void measure_job(Env *e, void *arg)
{
    Process *p = arg;
    Err err;
    area_enter(&p->area, AREA_BEGUN);
    if (!p->naive) { /* else a keeper has done it */
        machine_read(e, p->job.root, &p->machine);
        bench_prepare(p);
    }
    bench_lock_down(p);
    load_both(p); /* before any thread is there: libraries look at the environment */
    p->pool = pool_new(p->job.task.n_threads, &err);
    if (!p->pool) {
        fail_err(e, &err);
    }
    if (p->job.job.verify) {
        verify(p, false);
    }
    if (p->facts.status == STATUS_OK && !p->dropped) {
        if (!p->param) {
            bench_lay(p);
        }
        p->facts.again = bench_asks(p);
        if (p->facts.again) {
            return;
        }
        bench_lay_rings(p);
        bench_take_pairs(p);
    }
    if (p->job.job.verify && p->facts.status == STATUS_OK && p->facts.n_pairs > 0) {
        verify(p, true);
    }
}

static Status status_of(ErrCode code)
{
    static const struct {
        ErrCode code;
        Status status;
    } rows[] = {{E_NOMEM, STATUS_OOM},
                {E_ILLEGAL, STATUS_ILLEGAL},
                {E_SYNTAX, STATUS_ILLEGAL},
                {E_BUILD, STATUS_CC_ERROR}};
    for (size_t i = 0; i < countof(rows); i++) {
        if (rows[i].code == code) {
            return rows[i].status;
        }
    }
    return STATUS_GARBAGE;
}

/* The stack begins somewhere else in each process. */
static __attribute__((noinline)) bool measure_padded(Process *p)
{
    volatile char *pad = __builtin_alloca((size_t)p->job.stack_pad + 1);
    pad[0] = 0;
    __asm__ volatile("" : : "r"(pad) : "memory");
    return env_try(p->e, measure_job, p);
}

_Noreturn void bench_measure(Process *p)
{
    bool ok = measure_padded(p);
    AreaFacts *f = &p->facts;
    f->pid = getpid();
    if (!ok) {
        f->status = (int32_t)status_of(p->e->err.code);
        snprintf(f->why, sizeof f->why, "%.*s", (int)sizeof f->why - 1, p->e->err.text);
    }
    f->n_pairs = (int32_t)p->area.n_written;
    area_finish(&p->area, f);
    _exit(0); /* nothing that a library has left to be done at exit */
}

/* ---- beginning ----------------------------------------------------------------------- */

int fd_of_process(int pid, int fd, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    return os.open(path, flags, 0);
}

static bool open_area(int parent, int area_fd, Area *a, Err *err)
{
    int fd = fd_of_process(parent, area_fd, O_RDWR);
    if (fd < 0) {
        return err_set(err, E_IO, "Cannot open descriptor %d of process %d: %s.", area_fd,
                       parent, strerror(errno));
    }
    bool ok = area_open(fd, a, err);
    os.close(fd);
    return ok;
}

bool bench_begin(Process *p, int parent, int area_fd, Err *err)
{
    return open_area(parent, area_fd, &p->area, err) &&
           child_job_parse(&p->e->model, p->area.text, p->area.head->text_bytes, &p->job,
                           err) &&
           (p->job.job.n_pairs == (int)p->area.head->max_pairs ||
            err_set(err, E_INPUT, "The job and its area do not fit."));
}

static bool begin(int argc, char **argv, Process *p, Err *err)
{
    int parent = argc == 4 ? atoi(argv[2]) : 0, fd = argc == 4 ? atoi(argv[3]) : -1;
    if (parent <= 0 || fd < 0) {
        return err_set(err, E_INPUT, "%s is for this program's own use.", CHILD_WORD);
    }
    if (!child_bind_life(parent)) {
        return err_set(err, E_IO, "The parent %d is gone.", parent);
    }
    return bench_begin(p, parent, fd, err);
}

int child_main(int argc, char **argv, RivalOpen *own)
{
    Env e;
    Err err;
    env_init(&e);
    Process *p = arena_new(&e.model, Process);
    p->e = &e;
    p->own_rivals = own;
    if (!begin(argc, argv, p, &err)) {
        fprintf(stderr, "%s\n", err.text);
        env_release(&e);
        return CHILD_NOT_BEGUN;
    }
    bench_measure(p);
}
