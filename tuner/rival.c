/* rival.c - kernels that are not of our making, run as ours are: all parts side by side on the same
 * threads, or once where they bring threads of their own, weights laid out beforehand. Whoever made
 * them, nothing of what they do is believed: they are verified and timed by the same code. */
#include <string.h>

#include "tuner/tuner.h"

enum { MAX_OPERANDS = 64, LINE_BYTES = 64 };

/* ---- from a library ------------------------------------------------------------------ */

static int32_t by_library(void *ctx, void *const *params, const int64_t *syms, int part,
                          int n_parts)
{
    return (*(KernelFn *)ctx)(params, syms, part, n_parts);
}

void rival_load(Env *e, Library *lib, const char *path, const char *symbol, const Kernel *naive,
                int n_threads, RivalKernel *out)
{
    Kernel named = *naive, *one = &named;
    snprintf(named.symbol, sizeof named.symbol, "%s", symbol);
    library_load(e, lib, path, &one, 1);
    void *tell = os.dlsym(lib->handle, RIVAL_THREADS);
    *out = (RivalKernel){.ctx = lib->fn, .run = by_library, .own_threads = tell != NULL};
    if (tell) {
        void (*threads)(int);
        memcpy(&threads, &tell, sizeof tell);
        threads(n_threads);
    }
}

/* ---- a call -------------------------------------------------------------------------- */

typedef struct RivalCall {
    const RivalKernel *r;
    void *const *params;
    const int64_t *syms;
    int32_t code; /* the largest */
} RivalCall;

static void run_part(void *ctx, int part, int n_parts)
{
    RivalCall *c = ctx;
    int32_t code = c->r->run(c->r->ctx, c->params, c->syms, part, n_parts);
    int32_t seen = __atomic_load_n(&c->code, __ATOMIC_RELAXED);
    while (code > seen && !__atomic_compare_exchange_n(&c->code, &seen, code, true,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

int32_t rival_call(const RivalKernel *r, Pool *pool, void *const *params, const int64_t *syms)
{
    if (r->own_threads || !pool) {
        return r->run(r->ctx, params, syms, 0, 1);
    }
    RivalCall c = {r, params, syms, 0};
    pool_run(pool, run_part, &c);
    return c.code;
}

/* ---- verified ------------------------------------------------------------------------ */

RivalCheck rival_check(Env *e, const RivalKernel *r, Pool *pool, int n_operands)
{
    RivalCheck c = {.rival = r, .pool = pool, .n_operands = n_operands};
    if (r->packed) {
        uintptr_t at = (uintptr_t)arena_alloc(&e->model, r->packed_bytes + LINE_BYTES);
        c.panels = (void *)((at + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES);
    }
    return c;
}

int32_t rival_checked(void *ctx, KernelFn unused, void *const *params, const int64_t *syms)
{
    const RivalCheck *c = ctx;
    void *given[MAX_OPERANDS];
    (void)unused;
    check(c->n_operands <= MAX_OPERANDS);
    memcpy(given, params, sizeof *given * (size_t)c->n_operands);
    if (c->rival->packed) {
        c->rival->pack(c->rival->ctx, c->panels, given[c->rival->packed]);
        given[c->rival->packed] = c->panels;
    }
    return rival_call(c->rival, c->pool, given, syms);
}
