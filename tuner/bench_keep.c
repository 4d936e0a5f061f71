/* bench_keep.c - a process that keeps rings. Eight last-level caches are gigabytes on some
 * machines, and to lay them takes longer than all else that a candidate needs. So the incumbent's
 * are laid once, and each process that measures is forked from the one that has them: it finds
 * them as memory of its own, in the pages that were asked for, and cannot write to them. A layout
 * of challengers is kept from the second time on that one came so far as to need it.
 *
 * The keeper runs no foreign code: each distinct (operand, layout, type) is packed by a process
 * of its own. It serves one incumbent of one task and one request at a time; its parent ends it.
 * Whatever it cannot do, a process that lays its own rings can. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tuner/bench_int.h"

enum {
    MAX_KEPT = 64,
    PACKING_S = 10,
    PACKING_SEED = 1,
    KEPT_LIMITS = 2, /* all that is kept, in limits of one process's rings */
    SHIFT_PAGES = 4096,
};

typedef struct Kept {
    Hash key;
    Ring ring;    /* at NULL: wanted, but not laid yet */
    bool given;   /* to the process that is about to start */
    uint64_t use; /* the last request that it served */
} Kept;

typedef struct Keeper {
    int parent, in, out;
    RivalOpen *own_rivals;
    Kept kept[MAX_KEPT];
    int n_kept;
    uint64_t n_requests;
    int n_laid; /* for the request that is served */
    Process *p; /* of the request that is served */
} Keeper;

/* ---- what a ring holds --------------------------------------------------------------- */

/* Equal keys, equal bytes: the task is the same in all requests. */
static Hash key_of(const Process *p, int side, int operand)
{
    const Kernel *k = p->k[side];
    const Operand *o = &k->operand.at[operand];
    Hash layout = {0};
    if (o->pack) {
        layout = emit_pack_hash(p->e, k, target_generic(), operand);
    }
    const char *text = arena_printf(&p->e->model, "%d %d %llx %llx", operand,
                                    operand_takes_bf16(o), (unsigned long long)layout.hi,
                                    (unsigned long long)layout.lo);
    return hash_str(text);
}

static Kept *find(Keeper *k, Hash key)
{
    for (int i = 0; i < k->n_kept; i++) {
        if (hash_eq(k->kept[i].key, key)) {
            return &k->kept[i];
        }
    }
    return NULL;
}

/* In the place of the one that was not used for longest, where there is no other. */
static void want(Keeper *k, Hash key)
{
    Kept *at = k->kept;
    for (int i = 1; i < k->n_kept; i++) {
        at = k->kept[i].use < at->use ? &k->kept[i] : at;
    }
    at = k->n_kept < MAX_KEPT ? &k->kept[k->n_kept++] : at;
    ring_release(&at->ring);
    *at = (Kept){.key = key, .use = k->n_requests};
}

/* ---- packing ------------------------------------------------------------------------- */

typedef struct Packing {
    const Keeper *k;
    int side;
    void **to; /* by operand, in shared memory; NULL: it is not asked for */
} Packing;

static void pack_all(Env *e, void *arg)
{
    const Packing *x = arg;
    Process *p = x->k->p;
    bench_lock_down(p);
    bench_load(p, x->side);
    p->param = arena_array(&e->model, void *, p->naive->operand.n);
    operands_fill(e, p->naive, p->job.task.sym, PACKING_SEED, p->param);
    Runnable r = {.k = p->k[x->side],
                  .pack = p->lib[x->side].pack[0],
                  .syms = p->job.task.sym,
                  .param = p->param};
    runnable_lay(e, &r, p->job.task.rotates, NULL);
    for (int i = 1; i < r.k->operand.n; i++) {
        if (x->to[i]) {
            memcpy(x->to[i], runnable_laid(&r, i),
                   operand_stored_bytes(r.k, i, p->job.task.sym));
        }
    }
}

/* In a process of its own, since the code is the candidate's. */
static bool pack(const Packing *x)
{
    int status = -1, keeper = (int)getpid();
    pid_t pid = fork();
    if (pid == 0) {
        os.close(x->k->in);
        os.close(x->k->out);
        alarm(PACKING_S);
        _exit(!child_bind_life(keeper) || !env_try(x->k->p->e, pack_all, (void *)x));
    }
    while (pid > 0 && waitpid(pid, &status, 0) != pid) {
    }
    x->k->p->area.head->no_memory = 0; /* that says nothing of who measures */
    return pid > 0 && status == 0;
}

/* ---- laying -------------------------------------------------------------------------- */

static uint64_t kept_bytes(const Keeper *k)
{
    uint64_t bytes = 0;
    for (int i = 0; i < k->n_kept; i++) {
        bytes += k->kept[i].ring.step_bytes * (uint64_t)k->kept[i].ring.n_copies;
    }
    return bytes;
}

/* False: not even when all that can go is gone. */
static bool make_room(Keeper *k, uint64_t bytes)
{
    while (kept_bytes(k) + bytes > KEPT_LIMITS * k->p->job.ring_limit_bytes) {
        Kept *oldest = NULL;
        for (int i = 0; i < k->n_kept; i++) {
            Kept *x = &k->kept[i];
            bool can_go = x->ring.at && !x->given && (!oldest || x->use < oldest->use);
            oldest = can_go ? x : oldest;
        }
        if (!oldest) {
            return false;
        }
        ring_release(&oldest->ring);
    }
    return true;
}

/* As many copies as the process will want of each, or more. 0: there is no room for two. */
static int copies_for(const Process *p, int side)
{
    RingPlan plan;
    Err err;
    size_t bytes = 0;
    for (int i = A; i <= side; i++) {
        bytes += operands_rotating_bytes(p->k[i], p->job.task.sym, p->job.task.rotates);
    }
    bool fits = bytes && ring_plan(bytes, ring_want_bytes(&p->machine), p->job.ring_limit_bytes,
                                   &plan, &err);
    return fits ? plan.n_copies : 0;
}

static void lay(Keeper *k, Ring *r, const void *from, size_t bytes, int n_copies)
{
    Err err;
    Process *p = k->p;
    Pool *pool = pool_new(p->job.task.n_threads, &err); /* gone before anything is forked */
    ring_init(p->e, r, from, bytes, n_copies, true, pool);
    pool_free(pool);
    mprotect(r->map, r->map_bytes, PROT_READ);
    k->n_laid++;
}

/* Of one side, what is to be kept and not there; `to` is what pack fills. */
static void lay_missing(Keeper *k, int side, Kept **missing, size_t *bytes, int n_copies)
{
    Process *p = k->p;
    int n = p->naive->operand.n;
    void **to = arena_array(&p->e->model, void *, n);
    bool all = true;
    for (int i = 1; i < n; i++) {
        to[i] = !missing[i] ? NULL
                            : mmap(NULL, bytes[i], PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        all = all && to[i] != MAP_FAILED;
    }
    bool packed = all && pack(&(Packing){k, side, to});
    for (int i = 1; i < n; i++) {
        if (packed && to[i]) {
            lay(k, &missing[i]->ring, to[i], bytes[i], n_copies);
        }
        if (to[i] && to[i] != MAP_FAILED) {
            munmap(to[i], bytes[i]);
        }
    }
}

/* Nothing of it, where there is no room: then the process lays its own. */
static void lay_side(Keeper *k, int side, Kept *const *kept)
{
    Process *p = k->p;
    int n = p->naive->operand.n, n_copies = copies_for(p, side);
    Kept **missing = arena_array(&p->e->model, Kept *, n);
    size_t *bytes = arena_array(&p->e->model, size_t, n), all = 0;
    for (int i = 1; i < n; i++) {
        bytes[i] = operand_stored_bytes(p->k[side], i, p->job.task.sym);
        missing[i] = kept[i] && !kept[i]->ring.at && bytes[i] ? kept[i] : NULL;
        all += missing[i] ? bytes[i] : 0;
    }
    if (all && n_copies && make_room(k, (uint64_t)all * (uint64_t)n_copies)) {
        lay_missing(k, side, missing, bytes, n_copies);
    }
}

/* ---- giving -------------------------------------------------------------------------- */

static void give_side(Keeper *k, int side)
{
    Process *p = k->p;
    int n = p->k[side]->operand.n;
    Kept **kept = arena_array(&p->e->model, Kept *, n);
    p->given[side] = arena_array(&p->e->model, Ring *, n);
    for (int i = 1; i < n; i++) {
        if (operand_rotates(p->k[side], i, p->job.task.rotates)) {
            Hash key = key_of(p, side, i);
            if (side == A && !find(k, key)) {
                want(k, key);
            }
            kept[i] = find(k, key);
        }
    }
    lay_side(k, side, kept);
    for (int i = 1; i < n; i++) {
        if (kept[i] && kept[i]->ring.at) {
            kept[i]->given = true;
            kept[i]->use = k->n_requests;
            p->given[side][i] = &kept[i]->ring;
        }
    }
}

static void give(Env *e, void *arg)
{
    Keeper *k = arg;
    (void)e;
    bench_prepare(k->p);
    for (int i = 0; i < k->n_kept; i++) {
        k->kept[i].given = false;
    }
    give_side(k, A);
    give_side(k, B);
}

/* What was laid in vain for one is worth keeping for the next. */
static void learn(Keeper *k)
{
    const Process *p = k->p;
    for (int i = 1; i < p->k[B]->operand.n && p->area.head->laid_b == 1; i++) {
        if (operand_rotates(p->k[B], i, p->job.task.rotates) && !p->given[B][i]) {
            Hash key = key_of(p, B, i);
            if (!find(k, key)) {
                want(k, key);
            }
        }
    }
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
    os.close(k->in);
    os.close(k->out);
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
        learn(k);
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
    if (fd[0] > 0 && child_bind_life(k.parent)) {
        k.in = parents_fd(k.parent, fd[1], O_RDONLY);
        k.out = parents_fd(k.parent, fd[2], O_WRONLY);
    }
    if (k.in < 0 || k.out < 0) {
        fprintf(stderr, "%s is for this program's own use.\n", KEEPER_WORD);
        return CHILD_NOT_BEGUN;
    }
    int area_fd;
    while (os.read(k.in, &area_fd, sizeof area_fd) == sizeof area_fd) {
        serve(&k, area_fd);
    }
    return 0;
}
