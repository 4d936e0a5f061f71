/* bench_kept.c - the rings that a process keeps for others. Eight last-level caches are gigabytes on
 * some machines, and to lay them takes longer than all else that a candidate needs. So each
 * distinct layout is laid once: the incumbent's at once, a challenger's when one came so far as to
 * want it. There is a limit, and then the one that was not used for longest goes; its memory is
 * filled anew where it is large enough, since pages that are new cost more than what is in them. */
#include <sys/mman.h>

#include "tuner/bench_int.h"

enum {
    KEPT_RINGS = 3,  /* all that is kept, in what one process wants, and */
    KEPT_LIMITS = 2, /* in what one may have */
    PLAIN_SEED = 1,
};

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
    const char *text =
        arena_printf(&p->e->model, "%d %d %llx %llx", operand, operand_takes_bf16(o),
                     (unsigned long long)layout.hi, (unsigned long long)layout.lo);
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

/* Where there is no other place, in that of the one that was not used for longest. */
static Kept *want(Keeper *k, Hash key)
{
    Kept *at = find(k, key);
    if (at) {
        return at;
    }
    at = k->kept;
    for (int i = 1; i < k->n_kept; i++) {
        at = k->kept[i].use < at->use ? &k->kept[i] : at;
    }
    at = k->n_kept < MAX_KEPT ? &k->kept[k->n_kept++] : at;
    ring_release(&at->ring);
    *at = (Kept){.key = key, .use = k->n_requests};
    return at;
}

/* ---- room ---------------------------------------------------------------------------- */

static uint64_t kept_bytes(const Keeper *k, bool only_given)
{
    uint64_t bytes = 0;
    for (int i = 0; i < k->n_kept; i++) {
        bytes += !only_given || k->kept[i].given ? k->kept[i].ring.map_bytes : 0;
    }
    return bytes;
}

static Kept *oldest(Keeper *k)
{
    Kept *old = NULL;
    for (int i = 0; i < k->n_kept; i++) {
        Kept *x = &k->kept[i];
        bool can_go = x->ring.map && !x->given && (!old || x->use < old->use);
        old = can_go ? x : old;
    }
    return old;
}

static uint64_t limit_of(const Keeper *k)
{
    uint64_t want = KEPT_RINGS * (uint64_t)ring_want_bytes(&k->p->machine);
    uint64_t most = KEPT_LIMITS * k->p->job.ring_limit_bytes;
    return want < most ? want : most;
}

/* A ring whose memory may be used again, or an empty one. */
static Ring make_room(Keeper *k, uint64_t bytes)
{
    Ring room = {0};
    for (Kept *old; kept_bytes(k, false) + bytes > limit_of(k) && (old = oldest(k));) {
        ring_release(&room);
        room = old->ring;
        old->ring = (Ring){0};
    }
    return room;
}

/* ---- laying -------------------------------------------------------------------------- */

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
    *r = make_room(k, (uint64_t)bytes * (uint64_t)n_copies);
    Pool *pool = pool_new(p->job.task.n_threads, &err); /* gone before anything is forked */
    if (!ring_refill(r, from, bytes, n_copies, pool)) {
        ring_release(r);
        ring_init(p->e, r, from, bytes, n_copies, true, pool);
    }
    pool_free(pool);
    mprotect(r->map, r->map_bytes, PROT_READ);
    k->n_laid++;
}

static void lay_all(Keeper *k, int side, Kept **missing, const size_t *bytes, int n_copies)
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
    bool packed = all && keeper_packs(k, side, to);
    for (int i = 1; i < n; i++) {
        if (packed && to[i]) {
            lay(k, &missing[i]->ring, to[i], bytes[i], n_copies);
        }
        if (to[i] && to[i] != MAP_FAILED) {
            munmap(to[i], bytes[i]);
        }
    }
}

/* For one that may turn out to be worth nothing, nothing else goes. */
static bool has_room(const Keeper *k, int side, uint64_t bytes)
{
    bool others_go = side == A || !k->p->job.may_ask;
    return kept_bytes(k, others_go) + bytes <= limit_of(k);
}

/* Nothing of it, where there is no room: then the process lays its own. */
static void lay_missing(Keeper *k, int side, Kept *const *kept)
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
    if (all && n_copies && has_room(k, side, (uint64_t)all * (uint64_t)n_copies)) {
        lay_all(k, side, missing, bytes, n_copies);
    }
}

/* ---- giving -------------------------------------------------------------------------- */

static void give_side(Keeper *k, int side)
{
    Process *p = k->p;
    int n = p->naive->operand.n;
    Kept **kept = arena_array(&p->e->model, Kept *, n);
    p->given[side] = arena_array(&p->e->model, Ring *, n);
    for (int i = 1; i < n; i++) {
        if (operand_rotates(p->k[side], i, p->job.task.rotates)) {
            Hash key = key_of(p, side, i);
            kept[i] = side == A ? want(k, key) : find(k, key);
            if (side == A && kept[i]->ring.n_copies < copies_for(p, A)) {
                ring_release(&kept[i]->ring); /* it was a challenger's */
            }
        }
        if (kept[i]) {
            kept[i]->given = true;
            kept[i]->use = k->n_requests;
        }
    }
    lay_missing(k, side, kept);
    for (int i = 1; i < n; i++) {
        p->given[side][i] = kept[i] && kept[i]->ring.at ? &kept[i]->ring : NULL;
    }
}

/* Operands as the graph has them: the same values in all processes, and drawn once. */
static void fill_plain(Env *e, void *arg)
{
    Keeper *k = arg;
    const Process *p = k->p;
    void **plain = arena_array(&e->model, void *, p->naive->operand.n);
    operands_fill(e, p->naive, p->job.task.sym, PLAIN_SEED, plain);
    k->plain = plain;
}

void kept_give(Keeper *k)
{
    if (!k->plain) {
        machine_read(k->p->e, k->p->job.root, &k->machine);
    }
    k->p->machine = k->machine;
    bench_prepare(k->p);
    if (!k->plain && !env_try(&k->env, fill_plain, k)) {
        fail_err(k->p->e, &k->env.err);
    }
    k->p->plain = k->plain;
    for (int i = 0; i < k->n_kept; i++) {
        k->kept[i].given = false;
    }
    give_side(k, A);
    give_side(k, B);
}

void kept_learn(Keeper *k)
{
    const Process *p = k->p;
    for (int i = 1; i < p->naive->operand.n && p->area.head->wants_b == 1; i++) {
        if (operand_rotates(p->k[B], i, p->job.task.rotates)) {
            want(k, key_of(p, B, i));
        }
    }
}
