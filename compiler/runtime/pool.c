/* pool.c - threads that run the parts of one function side by side, over and over.
 *
 * A decoded token is some hundred regions of a few microseconds, so opening and closing one
 * costs two cache lines, no lock, no allocation and, while the workers spin, no system call.
 * There are two words: `region` counts regions and is what workers wait for; `left` counts the
 * workers still busy and is what the caller waits for. Who has spun in vain sets ASLEEP in the
 * word and sleeps on it; who changes the word sees the bit and wakes. A worker cannot fall
 * behind: the next region opens only when all have finished this one.
 *
 * Needs: libc, pthreads, Linux. Stands alone but for Err, bug() and the os table, so that a
 * compiled model's library can carry it. A pool does not survive fork. */
#include "runtime/runtime.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ASLEEP (1u << 31)

enum {
    LINE_BYTES = 128,  /* two cache lines: x86 fetches them in pairs */
    SPIN_NS = 100000,  /* some times a wake's cost, and longer than the gaps within a token */
    PACE_PAUSES = 200, /* pauses timed at once: 3 ns each on one x86, 70 on another */
    PACE_TRIES = 4,
    MAX_CPUS = 1 << 16,
};

typedef enum State { WIPED, IDLE, RUNNING } State; /* WIPED is 0: what a forked child sees */

typedef cpu_set_t CpuMask[MAX_CPUS / CPU_SETSIZE];

typedef struct Worker {
    Pool *pool;
    pthread_t thread;
    int part; /* from 1: part 0 is the caller's */
    int cpu;  /* where it is pinned; -1: nowhere */
} Worker;

/* A line for what the caller writes and workers read, one for what workers write, one for what
 * is the caller's own. */
struct Pool {
    _Alignas(LINE_BYTES) _Atomic uint32_t region; /* opened, modulo 2^31; ASLEEP: a worker is */
    PoolPart *part;                               /* NULL: workers leave */
    void *ctx;
    int n_threads;
    atomic_int n_spins;
    _Alignas(LINE_BYTES) _Atomic uint32_t left; /* workers busy; ASLEEP: the caller is */
    _Alignas(LINE_BYTES) atomic_int state;      /* State */
    int n_workers;                              /* started */
    int cpu; /* where the caller was last seen; no worker is pinned there */
    size_t bytes;
    Worker worker[];
};

/* ---- waiting ---- */

static void relax(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__ || defined __arm__
    __asm__ volatile("yield");
#else
    __asm__ volatile("");
#endif
}

/* Returns at once where the word has another value; may return for no reason. */
static void futex_sleep(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* How often a waiter looks before it sleeps. */
static int spins_in(int64_t ns)
{
    uint64_t best_ns = UINT64_MAX;
    for (int i = 0; i < PACE_TRIES; i++) {
        uint64_t start_ns = os_now_ns();
        for (int k = 0; k < PACE_PAUSES; k++) {
            relax();
        }
        uint64_t took_ns = os_now_ns() - start_ns;
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    return (int)((uint64_t)ns * PACE_PAUSES / (best_ns + 1));
}

/* ---- a worker ---- */

/* Returns when a region after `seen` is open. The bit is set only while the word still says
 * `seen`: a later region must not find it and wake nobody. */
static void await_region(Pool *p, uint32_t seen)
{
    int n_spins = atomic_load_explicit(&p->n_spins, memory_order_relaxed);
    for (int i = 0; i < n_spins; i++) {
        if ((atomic_load_explicit(&p->region, memory_order_acquire) & ~ASLEEP) != seen) {
            return;
        }
        relax();
    }
    uint32_t value = seen;
    atomic_compare_exchange_strong(&p->region, &value, seen | ASLEEP);
    while ((atomic_load_explicit(&p->region, memory_order_acquire) & ~ASLEEP) == seen) {
        futex_sleep(&p->region, seen | ASLEEP);
    }
}

static void *work(void *arg)
{
    const Worker *w = arg;
    Pool *p = w->pool;
    for (uint32_t seen = 0;; seen = (seen + 1) & ~ASLEEP) {
        await_region(p, seen);
        if (!p->part) {
            return NULL;
        }
        p->part(p->ctx, w->part, p->n_threads);
        if (atomic_fetch_sub_explicit(&p->left, 1, memory_order_acq_rel) == (ASLEEP | 1)) {
            futex_wake(&p->left);
        }
    }
}

/* ---- the caller ---- */

static void open_region(Pool *p, PoolPart *part, void *ctx)
{
    p->part = part;
    p->ctx = ctx;
    atomic_store_explicit(&p->left, (uint32_t)p->n_workers, memory_order_relaxed);
    uint32_t next = (atomic_load_explicit(&p->region, memory_order_relaxed) + 1) & ~ASLEEP;
    if (atomic_exchange_explicit(&p->region, next, memory_order_acq_rel) & ASLEEP) {
        futex_wake(&p->region);
    }
}

static void await_workers(Pool *p)
{
    int n_spins = atomic_load_explicit(&p->n_spins, memory_order_relaxed);
    for (int i = 0; i < n_spins; i++) {
        if (atomic_load_explicit(&p->left, memory_order_acquire) == 0) {
            return;
        }
        relax();
    }
    uint32_t left = atomic_fetch_or_explicit(&p->left, ASLEEP, memory_order_acq_rel) | ASLEEP;
    while (left != ASLEEP) {
        futex_sleep(&p->left, left);
        left = atomic_load_explicit(&p->left, memory_order_acquire);
    }
}

static void pin(Worker *w, int cpu)
{
    CpuMask mask;
    CPU_ZERO_S(sizeof mask, mask);
    CPU_SET_S((size_t)cpu, sizeof mask, mask);
    if (pthread_setaffinity_np(w->thread, sizeof mask, mask) == 0) {
        w->cpu = cpu;
    }
}

/* The caller is not pinned: what it starts would inherit that. But the scheduler may leave it
 * for long on a CPU that it shares with a pinned worker. So that worker goes where it was. */
static void step_aside(Pool *p)
{
    int cpu = sched_getcpu();
    if (cpu == p->cpu) {
        return;
    }
    for (int i = 0; i < p->n_workers; i++) {
        if (p->worker[i].cpu == cpu) {
            pin(&p->worker[i], p->cpu);
        }
    }
    p->cpu = cpu;
}

void pool_run(Pool *p, PoolPart *part, void *ctx)
{
    if (!p) {
        part(ctx, 0, 1);
        return;
    }
    int state = atomic_exchange_explicit(&p->state, RUNNING, memory_order_acquire);
    if (state != IDLE) {
        bug(state == WIPED ? "this pool's threads are those of the process before fork"
                           : "pool_run inside pool_run, or from two threads at once");
    }
    step_aside(p);
    open_region(p, part, ctx);
    part(ctx, 0, p->n_threads);
    await_workers(p);
    atomic_store_explicit(&p->state, IDLE, memory_order_release);
}

int pool_threads(const Pool *p)
{
    return p->n_threads;
}

void pool_set_spin(Pool *p, int n_pauses)
{
    atomic_store_explicit(&p->n_spins, n_pauses, memory_order_relaxed);
}

/* ---- lifetime ---- */

/* Everything is blocked in workers, so that Ctrl-C reaches the threads that wait for it; except
 * what a thread does to itself, where a handler of the process must still see it. */
static void block_signals(sigset_t *before)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < countof(own); i++) {
        sigdelset(&blocked, own[i]);
    }
    pthread_sigmask(SIG_SETMASK, &blocked, before);
}

static bool start_workers(Pool *p, Err *err)
{
    sigset_t before;
    int why = 0;
    block_signals(&before);
    for (int i = 0; i < p->n_threads - 1 && why == 0; i++) {
        Worker *w = &p->worker[i];
        *w = (Worker){.pool = p, .part = i + 1, .cpu = -1};
        why = pthread_create(&w->thread, NULL, work, w);
        p->n_workers += why == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return why == 0 || err_set(err, E_IO, "Thread %d of %d cannot be started: %s.",
                               p->n_workers + 2, p->n_threads, strerror(why));
}

/* Decides how to wait and where to run. One thread for each CPU of the mask: each gets its own.
 * With CPUs to spare the scheduler places better than we can: it knows which CPUs are halves of
 * one core and which have other work. With too few, who spins keeps another from its part. */
static void settle(Pool *p)
{
    CpuMask mask;
    int known = sched_getaffinity(0, sizeof mask, mask) == 0;
    int n_cpus = known ? CPU_COUNT_S(sizeof mask, mask) : 1;
    pool_set_spin(p, p->n_threads > n_cpus ? 0 : spins_in(SPIN_NS));
    p->cpu = sched_getcpu();
    if (p->n_threads == n_cpus) {
        for (int i = 0, cpu = 0; i < p->n_workers; cpu++) {
            if (cpu != p->cpu && CPU_ISSET_S((size_t)cpu, sizeof mask, mask)) {
                pin(&p->worker[i++], cpu);
            }
        }
    }
}

Pool *pool_new(int n_threads, Err *err)
{
    check(n_threads >= 1);
    size_t bytes = sizeof(Pool) + (size_t)(n_threads - 1) * sizeof(Worker);
    Pool *p = os.mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        err_set(err, E_NOMEM, "Out of memory for a pool of %d threads.", n_threads);
        return NULL;
    }
    /* Where this is refused, a forked child that runs the pool is not told, but hangs. */
    os.madvise(p, bytes, MADV_WIPEONFORK);
    p->n_threads = n_threads;
    p->bytes = bytes;
    atomic_init(&p->state, IDLE);
    if (!start_workers(p, err)) {
        pool_free(p);
        return NULL;
    }
    settle(p);
    return p;
}

void pool_free(Pool *p)
{
    if (!p || atomic_load(&p->state) == WIPED) {
        return;
    }
    check(atomic_load(&p->state) == IDLE);
    open_region(p, NULL, NULL);
    for (int i = 0; i < p->n_workers; i++) {
        pthread_join(p->worker[i].thread, NULL);
    }
    os.munmap(p, p->bytes);
}

/* ---- kernels ---- */

typedef struct KernelRun {
    KernelFn fn;
    void *const *params;
    const int64_t *syms;
    _Atomic int32_t result;
} KernelRun;

static void run_part(void *ctx, int part, int n_parts)
{
    KernelRun *run = ctx;
    int32_t code = run->fn(run->params, run->syms, part, n_parts);
    int32_t result = atomic_load_explicit(&run->result, memory_order_relaxed);
    while (code != 0 && (result == 0 || code > result) &&
           !atomic_compare_exchange_weak(&run->result, &result, code)) {
    }
}

int32_t pool_kernel(Pool *p, KernelFn fn, void *const *params, const int64_t *syms)
{
    KernelRun run = {fn, params, syms, 0};
    pool_run(p, run_part, &run);
    return run.result;
}
