/* bench_rivals.c - libraries and hand-written kernels beside a generated product: each plans for the shape, packs
 * the same weights its own way, and has a ring of its own where they are to be cold. */
#include <stdlib.h>

#include "cli/bench.h"

static void rival_part(void *ctx, int part, int n_parts)
{
    const Rival *v = ctx;
    v->row->run(v->libs, &v->p, part, n_parts);
}

void rival_run(void *ctx)
{
    Rival *v = ctx;
    v->p.b = ring_next(&v->ring);
    if (v->row->own_threads || !v->pool) {
        rival_part(v, 0, 1);
    } else {
        pool_run(v->pool, rival_part, v);
    }
}

static void add(Env *e, Rivals *r, const Baseline *row, const Place *at, const int64_t mnk[3],
                void *const *param)
{
    Rival *v = &r->at[r->n];
    RingPlan plan = {.n_copies = 1};
    Err err;
    *v = (Rival){.row = row, .libs = &r->libs, .pool = at->pool};
    if (baseline_lacks(row, &r->libs, mnk[0]) ||
        !baseline_plan(row, &r->libs, mnk[0], mnk[1], mnk[2], &v->p, &err) ||
        (at->cold && !ring_plan(v->p.b_bytes, ring_want_bytes(at->machine),
                                at->ring_limit_bytes, &plan, &err))) {
        return;
    }
    void *packed = NULL;
    if (posix_memalign(&packed, 64, v->p.b_bytes)) {
        fail(e, E_NOMEM, "There is no memory for the weights of %s.", row->name);
    }
    baseline_pack(row, &r->libs, &v->p, param[2], packed);
    ring_init(e, &v->ring, packed, v->p.b_bytes, plan.n_copies, true, at->pool);
    free(packed);
    v->p.a = param[1];
    v->p.c = param[0];
    r->n++;
}

void rivals_open(Env *e, Rivals *r, const Place *at)
{
    baselines_open(e, at->machine, at->n_threads, &r->libs);
    r->open = true;
}

void rivals_add(Env *e, Rivals *r, const Place *at, const int64_t mnk[3], void *const *param)
{
    for (int i = 0; i < n_baselines && r->n < MAX_RIVALS; i++) {
        add(e, r, &baselines[i], at, mnk, param);
    }
}

void rivals_close(Rivals *r)
{
    for (int i = 0; i < r->n; i++) {
        ring_release(&r->at[i].ring);
        baseline_unplan(r->at[i].row, &r->libs, &r->at[i].p);
    }
    if (r->open) {
        baselines_close(&r->libs);
    }
}
