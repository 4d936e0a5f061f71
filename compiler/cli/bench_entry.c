/* bench_entry.c - a generated kernel made ready to be timed: compiled with the others, verified against its
 * naive nest, operands filled from a seed, constants and caches in rings of copies where a model would find them cold. */
#include <string.h>

#include "cli/bench.h"

/* Its place among the kernels: two entries may have one schedule. */
static int place_of(Env *e, Program *p, const Kernel *k)
{
    int i = 0;
    while (i < p->kernel.n && strcmp(p->kernel.at[i]->symbol, k->symbol)) {
        i++;
    }
    if (i == p->kernel.n) {
        *vec_push(&e->model, &p->kernel) = (Kernel *)k;
    }
    return i;
}

void entries_build(Env *e, Entry *entry, int n, Library *lib)
{
    Program p = {0};
    int *place = arena_array(&e->kernel, int, n);
    for (int i = 0; i < n; i++) {
        place[i] = place_of(e, &p, entry[i].r.k);
    }
    library_build(e, &p, 2, &interrupted, lib);
    for (int i = 0; i < n; i++) {
        entry[i].r.fn = lib->fn[place[i]];
        entry[i].r.pack = lib->pack[place[i]];
    }
}

void entry_fill(Env *e, Entry *x, const Place *at, void *const *shared)
{
    Runnable *r = &x->r;
    int n = x->naive->operand.n, n_copies = 1;
    size_t bytes = operands_rotating_bytes(r->k, r->syms, at->rotates);
    RingPlan plan;
    Err err;
    r->pool = r->k->parallel ? at->pool : NULL;
    r->param = arena_array(&e->model, void *, n);
    if (at->cold && bytes) {
        if (!ring_plan(bytes, ring_want_bytes(at->machine), at->ring_limit_bytes, &plan,
                       &err)) {
            fail_err(e, &err);
        }
        n_copies = plan.n_copies;
    }
    if (shared) {
        memcpy(r->param, shared, sizeof *shared * (size_t)n);
    }
    operands_fill(e, x->naive, r->syms, at->seed, r->param);
    runnable_lay(e, r, at->rotates, NULL);
    runnable_rings(e, r, n_copies, at->pool);
}

void entry_verify(Env *e, const Entry *x, uint64_t seed)
{
    BuiltKernel built = {.k = x->r.k, .fn = x->r.fn, .pack = x->r.pack, .n_parts = 2};
    VerifyOptions o = {.syms = x->r.syms, .seed = seed, .in_process = true};
    Verdict v;
    if (!verify_kernel(e, x->naive, &built, &o, &v)) {
        fail(e, E_RANGE, "%s is wrong: %s", x->name, v.text);
    }
}
