/* bench_turns.c - the part of a process that takes turns: operands laid out, in rings where they
 * shall be cold, some calls to warm up and to see whether the challenger is worth more, then
 * pairs between two probes. What the challenger computes must be the same before and after.
 * needs: both libraries. Fails where memory is short. */
#include <string.h>
#include <sys/mman.h>

#include "tuner/bench_int.h"

/* A rival's own threads look for more work for that long, at most, as ours do. */
#define SETTLE_NS 200000
/* A guess at how fast rings are laid: slower where pages are new to the machine. */
enum { LAID_BYTES_PER_NS = 4 };

/* ---- operands ------------------------------------------------------------------------ */

/* What sets the sides' rings apart without their doing: which was laid first, which is read
 * by the probes. From process to process either may have the better end of it. */
enum { COIN_LAID, COIN_PROBED };
static int drawn_side(const Process *p, int coin)
{
    return pair_b_first(p->job.job.seed ^ 0x72696e6773, coin) ? B : A; /* not the pairs' coin */
}

Pool *bench_pool(const Process *p, int side)
{
    const RivalKernel *rival = p->rival[side];
    bool in_parts = rival ? !rival->own_threads : p->k[side]->parallel;
    return in_parts && p->job.task.n_threads > 1 ? p->pool : NULL;
}

static bool is_cold(const Process *p)
{
    return p->job.task.regime == REGIME_COLD;
}

/* The sides take turns, so what one reads pushes the other's out too: all rings together hold
 * as much as one needs alone. */
static int plan_copies(Process *p, size_t bytes)
{
    RingPlan plan;
    Err err;
    if (!is_cold(p) || !bytes) {
        return 1;
    }
    if (!ring_plan(bytes, ring_want_bytes(&p->machine), p->job.ring_limit_bytes, &plan, &err)) {
        fail_err(p->e, &err);
    }
    return plan.n_copies;
}

/* By side and operand; NULL: that is not given. */
static Ring *given_at(const Process *p, int nth)
{
    Ring *const *given = p->given[nth / p->naive->operand.n];
    return given ? given[nth % p->naive->operand.n] : NULL;
}

/* Of rings that are given no more copies are used than all have, from some copy on: what the
 * process before left in a cache is not what comes first. */
static void use_given(Process *p)
{
    int n = N_SIDES * p->naive->operand.n;
    for (int i = 0; i < n; i++) {
        const Ring *r = given_at(p, i);
        p->n_copies = r && r->n_copies < p->n_copies ? r->n_copies : p->n_copies;
    }
    for (int i = 0; i < n; i++) {
        Ring *r = given_at(p, i);
        if (r) {
            r->n_copies = p->n_copies;
            r->next = (int)(p->job.job.seed % (uint64_t)p->n_copies);
        }
    }
}

void bench_lay(Process *p)
{
    const Task *t = &p->job.task;
    uint64_t from_ns = clock_ns();
    area_enter(&p->area, AREA_PACKING);
    p->param = arena_array(&p->e->model, void *, p->naive->operand.n);
    for (int i = 0; i < p->naive->operand.n && p->plain; i++) {
        p->param[i] = operand_rotates(p->naive, i, t->rotates) ? p->plain[i] : NULL;
    }
    operands_fill(p->e, p->naive, t->sym, p->job.job.seed, p->param);
    size_t bytes = 0;
    p->first_laid = p->job.job.stage == DUEL_SEARCH ? A : drawn_side(p, COIN_LAID);
    for (int nth = 0; nth < N_SIDES; nth++) {
        int i = nth ^ p->first_laid;
        p->side[i] = (Runnable){.k = p->k[i],
                                .fn = p->rival[i] ? NULL : p->lib[i].fn[0],
                                .pack = p->rival[i] ? NULL : p->lib[i].pack[0],
                                .syms = t->sym,
                                .pool = bench_pool(p, i),
                                .rival = p->rival[i],
                                .param = p->param,
                                .given = p->given[i]};
        bytes +=
            runnable_lay(p->e, &p->side[i], t->rotates, nth ? &p->side[p->first_laid] : NULL);
    }
    p->n_copies = plan_copies(p, bytes);
    use_given(p);
    runnable_rings(p->e, &p->side[p->first_laid], p->n_copies, p->pool);
    p->facts.lay_ns += clock_ns() - from_ns;
}

static void note_rings(Process *p)
{
    p->facts.huge_pages = 1;
    for (int i = 0; i < N_SIDES && is_cold(p); i++) {
        bool huge;
        p->facts.ring_bytes += runnable_ring_bytes(&p->side[i], &huge);
        p->facts.huge_pages = p->facts.huge_pages && huge;
    }
}

bool bench_asks(Process *p)
{
    size_t bytes = is_cold(p) ? runnable_own_bytes(&p->side[B]) * (size_t)p->n_copies : 0;
    __atomic_store_n(&p->area.head->wants_b, bytes > 0, __ATOMIC_RELEASE);
    return p->job.may_ask && bytes / LAID_BYTES_PER_NS > p->facts.verify_ns;
}

void bench_lay_rings(Process *p)
{
    uint64_t from_ns = clock_ns();
    area_enter(&p->area, AREA_PACKING);
    runnable_rings(p->e, &p->side[!p->first_laid], p->n_copies, p->pool);
    const Runnable *probed = &p->side[drawn_side(p, COIN_PROBED)];
    for (int i = 1; i < p->naive->operand.n && is_cold(p); i++) {
        Ring *r = probed->ring[i];
        p->biggest = r && (!p->biggest || r->bytes > p->biggest->bytes) ? r : p->biggest;
    }
    note_rings(p);
#ifndef NC_SANITIZED       /* it has terabytes of shadow */
    mlockall(MCL_CURRENT); /* best effort */
#endif
    p->facts.lay_ns += clock_ns() - from_ns;
}

/* ---- does it stay the same? ----------------------------------------------------------- */

static void poison(const Process *p)
{
    memset(p->param[0], 0xa5, operand_stored_bytes(p->naive, 0, p->job.task.sym));
}

/* What b computes from the operands that are timed, before anything was timed. */
static void *output_of_b(Process *p)
{
    poison(p);
    runnable_call(&p->side[B]);
    return arena_dup(&p->e->model, p->param[0],
                     operand_stored_bytes(p->naive, 0, p->job.task.sym));
}

static void check_output(Process *p, const void *was)
{
    poison(p);
    runnable_call(&p->side[B]);
    if (memcmp(p->param[0], was, operand_stored_bytes(p->naive, 0, p->job.task.sym)) != 0) {
        p->facts.status = STATUS_WRONG;
        snprintf(p->facts.why, sizeof p->facts.why,
                 "After it was timed the candidate computes something else than before, from "
                 "the same operands.");
    }
}

/* ---- turns --------------------------------------------------------------------------- */

static bool has_own_threads(const Process *p, int side)
{
    return p->rival[side] && p->rival[side]->own_threads && p->job.task.n_threads > 1;
}

static PairRun pair_run(Process *p)
{
    return (PairRun){.job = &p->job.job,
                     .root = p->job.root,
                     .a = {"a", runnable_call, &p->side[A]},
                     .b = {"b", runnable_call, &p->side[B]},
                     .cpu_time = p->job.task.n_threads == 1,
                     .settle_ns =
                         has_own_threads(p, A) || has_own_threads(p, B) ? SETTLE_NS : 0,
                     .e = p->e,
                     .area = &p->area};
}

static bool warm(Process *p, PairRun *r)
{
    area_enter(&p->area, AREA_WARMING);
    pairs_warm(r);
    p->facts.warm_a_ns = r->warm_a_ns;
    p->facts.warm_b_ns = r->warm_b_ns;
    p->facts.reps = r->reps;
    return !r->dropped;
}

bool bench_warm(Process *p)
{
    uint64_t from_ns = clock_ns();
    PairRun r = pair_run(p);
    bool worth = warm(p, &r);
    p->facts.time_ns += clock_ns() - from_ns;
    return worth;
}

/* Rings of eight last-level caches are not enough: what was laid, called or probed first, last or
 * more often still finds some of its own in a large cache, and was seen to win by 2%, and by 10%
 * where a virtual machine had more of the cache for a while. */
static void flush_rings(Process *p)
{
    for (int i = 0; i < N_SIDES; i++) {
        runnable_flush(&p->side[i], p->pool);
    }
}

static void take_between_probes(Process *p, PairRun *r)
{
    Prober prober = prober_of(&p->machine, p->pool, p->biggest);
    prober_take(&prober, &p->facts.before);
    const void *was = output_of_b(p);
    pairs_alternate(r, PAIRS_WARM_NS);
    p->facts.warm_b_ns = r->warm_b_ns;
    flush_rings(p);
    pairs_alternate(r, 0);
    area_enter(&p->area, AREA_TIMING);
    pairs_take(r);
    check_output(p, was);
    prober_take(&prober, &p->facts.after);
    p->facts.n_pairs = (int32_t)p->area.n_written;
}

void bench_take_pairs(Process *p)
{
    uint64_t from_ns = clock_ns();
    PairRun r = pair_run(p);
    if (warm(p, &r)) {
        take_between_probes(p, &r);
    }
    p->facts.time_ns += clock_ns() - from_ns;
}
