/* bench_entry.c - a generated kernel made ready to be timed: compiled with the others, verified against its
 * naive nest, operands filled from a seed, constants in rings of copies where a model would find them cold. */
#include <stdlib.h>
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
        place[i] = place_of(e, &p, entry[i].k);
    }
    library_build(e, &p, 2, &interrupted, lib);
    for (int i = 0; i < n; i++) {
        entry[i].fn = lib->fn[place[i]];
        entry[i].pack = lib->pack[place[i]];
    }
}

/* N(0, 1) scaled like weights; bf16 where the kernel was promised that; integers small. */
static void *filled(Env *e, const Entry *x, int operand, uint64_t seed)
{
    const Operand *o = &x->naive->operand.at[operand];
    int64_t n = kernel_span(x->naive, operand, x->syms);
    char *data = arena_alloc_n(&e->model, (size_t)n + 16, (size_t)dtype_bytes(o->dtype));
    Rng r;
    rng_seed(&r, seed + (uint64_t)operand);
    for (int64_t i = 0; i < n; i++) {
        Value v = {.i = (int64_t)rng_below(&r, 2)};
        if (o->dtype == DT_F32) {
            v.f = (float)((double)(rng_u64(&r) >> 11) * 0x1p-53 - 0.5);
            uint32_t bits;
            memcpy(&bits, &v.f, sizeof bits);
            bits &= o->from_bf16 ? 0xffff0000u : 0xffffffffu;
            memcpy(&v.f, &bits, sizeof bits);
        }
        value_store(data, o->dtype, i, v);
    }
    return data;
}

static size_t constant_bytes(const Entry *x)
{
    size_t bytes = 0;
    for (int i = 1; i < x->naive->operand.n; i++) {
        const Operand *o = &x->k->operand.at[i];
        bytes +=
            o->constant ? (size_t)kernel_span(x->k, i, x->syms) * (size_t)operand_bytes(o) : 0;
    }
    return bytes;
}

static void constant_into_ring(Env *e, Entry *x, int operand, const void *plain, int n_copies,
                               Pool *pool)
{
    const Operand *o = &x->k->operand.at[operand];
    size_t bytes = (size_t)kernel_span(x->k, operand, x->syms) * (size_t)operand_bytes(o);
    void *packed = NULL;
    if (o->pack && posix_memalign(&packed, 64, bytes ? bytes : 1)) {
        fail(e, E_NOMEM, "There is no memory for %zu bytes of panels.", bytes);
    }
    bool lossy = packed && x->pack[operand](packed, plain, x->syms) < 0;
    if (!lossy) {
        ring_init(e, &x->ring[operand], packed ? packed : plain, bytes, n_copies, true, pool);
    }
    free(packed);
    if (lossy) {
        fail(e, E_INPUT, "Operand %s is no bf16.", o->name);
    }
}

void entry_fill(Env *e, Entry *x, const Place *at, void *const *shared)
{
    int n = x->naive->operand.n, n_copies = 1;
    RingPlan plan;
    Err err;
    x->pool = x->k->parallel ? at->pool : NULL;
    x->param = arena_array(&e->model, void *, n);
    x->ring = arena_array(&e->model, Ring, n);
    if (at->cold && constant_bytes(x)) {
        if (!ring_plan(constant_bytes(x), ring_want_bytes(at->machine), at->ring_limit_bytes,
                       &plan, &err)) {
            fail_err(e, &err);
        }
        n_copies = plan.n_copies;
    }
    for (int i = 0; i < n; i++) {
        x->param[i] = shared && shared[i] ? shared[i] : filled(e, x, i, at->seed);
        if (i > 0 && x->k->operand.at[i].constant) {
            constant_into_ring(e, x, i, x->param[i], n_copies, at->pool);
        }
    }
}

void entry_release(Entry *x)
{
    for (int i = 0; x->ring && i < x->naive->operand.n; i++) {
        if (x->ring[i].n_copies) {
            ring_release(&x->ring[i]);
        }
    }
}

void entry_run(void *ctx)
{
    Entry *x = ctx;
    void *param[32];
    int n = x->naive->operand.n;
    check(n <= (int)countof(param));
    for (int i = 0; i < n; i++) {
        param[i] = x->ring[i].n_copies ? (void *)ring_next(&x->ring[i]) : x->param[i];
    }
    if (x->pool) {
        pool_kernel(x->pool, x->fn, param, x->syms);
    } else {
        x->fn(param, x->syms, 0, 1);
    }
}

void entry_verify(Env *e, const Entry *x, uint64_t seed)
{
    BuiltKernel built = {.k = x->k, .fn = x->fn, .pack = x->pack, .n_parts = 2};
    VerifyOptions o = {.syms = x->syms, .seed = seed, .in_process = true};
    Verdict v;
    if (!verify_kernel(e, x->naive, &built, &o, &v)) {
        fail(e, E_RANGE, "%s is wrong: %s", x->name, v.text);
    }
}
