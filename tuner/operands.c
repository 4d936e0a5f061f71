/* operands.c - a compiled kernel made ready to be called over and over, as a model calls it:
 * activations and output in place, constants laid out as its schedule wants them, in rings of
 * copies where the caches shall not hold them. Two schedules of one kernel share activations,
 * and the rings of what both lay out alike. */
#include <stdlib.h>
#include <string.h>

#include "tuner/tuner.h"

enum { LINE_BYTES = 64, LINES_APART = 64, MAX_OPERANDS = 64 };

/* ---- values -------------------------------------------------------------------------- */

static void fill_floats(Rng *r, bool bf16, uint32_t *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float v = (float)((double)(rng_u64(r) >> 11) * 0x1p-53 - 0.5);
        memcpy(&to[i], &v, sizeof v);
        to[i] &= bf16 ? 0xffff0000u : 0xffffffffu;
    }
}

static void *filled(Env *e, const Kernel *naive, int operand, const int64_t *syms,
                    uint64_t seed)
{
    const Operand *o = &naive->operand.at[operand];
    int64_t n = kernel_span(naive, operand, syms);
    size_t bytes = operand_stored_bytes(naive, operand, syms);
    Rng r;
    rng_seed(&r, seed + (uint64_t)operand);
    uintptr_t at = (uintptr_t)arena_alloc(&e->model, bytes + LINE_BYTES * (LINES_APART + 1));
    at = (at + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    void *data = (void *)(at + LINE_BYTES * rng_below(&r, LINES_APART));
    if (o->dtype == DT_F32) {
        fill_floats(&r, o->from_bf16, data, n);
        return data;
    }
    for (int64_t i = 0; i < n; i++) {
        value_store(data, o->dtype, i, (Value){.i = (int64_t)rng_below(&r, 2)});
    }
    return data;
}

void operands_fill(Env *e, const Kernel *naive, const int64_t *syms, uint64_t seed,
                   void **param)
{
    for (int i = 0; i < naive->operand.n; i++) {
        param[i] = param[i] ? param[i] : filled(e, naive, i, syms, seed);
    }
}

/* ---- what rotates -------------------------------------------------------------------- */

bool operand_rotates(const Kernel *k, int operand, uint64_t rotates)
{
    const Operand *o = &k->operand.at[operand];
    bool asked = operand < MAX_OPERANDS && (rotates >> operand & 1);
    return operand > 0 && !o->local && (o->constant || asked);
}

uint64_t call_caches(const Program *p, const Call *call)
{
    uint64_t caches = 0;
    for (int i = 1; i < call->arg.n && i < MAX_OPERANDS; i++) {
        const Buffer *b = &p->buffer.at[call->arg.at[i].buffer];
        caches |= (uint64_t)(b->kind == BUF_INPUT && b->written) << i;
    }
    return caches;
}

size_t operands_rotating_bytes(const Kernel *k, const int64_t *syms, uint64_t rotates)
{
    size_t bytes = 0;
    for (int i = 1; i < k->operand.n; i++) {
        bytes += operand_rotates(k, i, rotates) ? operand_stored_bytes(k, i, syms) : 0;
    }
    return bytes;
}

/* ---- rings --------------------------------------------------------------------------- */

typedef struct Laid { /* one copy of an operand, as it is stored */
    const void *at;   /* NULL: it does not rotate */
    size_t bytes;
    void *own;         /* to be freed; NULL: the operand itself, or another's */
    Ring *const *like; /* another's ring serves; NULL: its own */
    bool shared;       /* that is the other Runnable's */
} Laid;

/* Room for what the operand becomes next. */
static void *reserve(Env *e, const Operand *o, size_t bytes)
{
    void *p;
    if (posix_memalign(&p, LINE_BYTES, bytes)) {
        fail(e, E_NOMEM, "There is no memory to store operand %s in %zu bytes.", o->name,
             bytes);
    }
    return p;
}

static void laid_become(Laid *l, void *own)
{
    free(l->own);
    l->at = l->own = own;
}

static void narrow(Env *e, const Operand *o, Laid *l, int64_t n)
{
    uint16_t *bf16 = reserve(e, o, (size_t)n * sizeof *bf16);
    bool lossless = bf16_narrow(bf16, l->at, n);
    laid_become(l, bf16);
    if (!lossless) {
        fail(e, E_INPUT, "Operand %s is said to come from bf16, but some value is none.",
             o->name);
    }
}

static void lay_out(Env *e, Runnable *r, int operand)
{
    const Operand *o = &r->k->operand.at[operand];
    Laid *l = &r->laid[operand];
    if (r->given && r->given[operand]) {
        Ring *const *given = &r->given[operand];
        *l = (Laid){.at = (*given)->at, .bytes = (*given)->bytes, .like = given};
        return;
    }
    bool by_rival = r->rival && r->rival->packed == operand;
    *l = (Laid){.at = r->param[operand],
                .bytes = by_rival ? r->rival->packed_bytes
                                  : operand_stored_bytes(r->k, operand, r->syms)};
    if (!l->bytes) {
        return;
    }
    if (by_rival) {
        void *packed = reserve(e, o, l->bytes);
        r->rival->pack(r->rival->ctx, packed, l->at);
        laid_become(l, packed);
        return;
    }
    if (operand_takes_bf16(o)) {
        narrow(e, o, l, kernel_given_span(r->k, operand, r->syms));
    }
    if (o->pack) {
        void *panels = reserve(e, o, l->bytes);
        r->pack[operand](panels, l->at, r->syms);
        laid_become(l, panels);
    }
}

static bool same_bytes(const Laid *a, const Laid *b)
{
    return a->at && a->bytes == b->bytes && (a->at == b->at || !memcmp(a->at, b->at, a->bytes));
}

size_t runnable_lay(Env *e, Runnable *r, uint64_t rotates, const Runnable *with)
{
    int n = r->k->operand.n;
    size_t bytes = 0;
    r->laid = arena_array(&e->model, Laid, n);
    r->ring = arena_array(&e->model, Ring *, n);
    r->own = arena_array(&e->model, Ring, n);
    for (int i = 1; i < n; i++) {
        if (operand_rotates(r->k, i, rotates)) {
            Laid *l = &r->laid[i];
            lay_out(e, r, i);
            l->shared = with && same_bytes(&with->laid[i], l);
            l->like = l->shared ? &with->ring[i] : l->like;
            bytes += l->shared ? 0 : l->bytes;
        }
    }
    return bytes;
}

static void drop_copies(Runnable *r)
{
    for (int i = 0; r->laid && i < r->k->operand.n; i++) {
        free(r->laid[i].own);
        r->laid[i].own = NULL;
    }
}

void runnable_rings(Env *e, Runnable *r, int n_copies, Pool *pool)
{
    for (int i = 1; i < r->k->operand.n; i++) {
        const Laid *l = &r->laid[i];
        if (l->like) {
            r->ring[i] = *l->like;
        } else if (l->at && l->bytes) {
            ring_init(e, &r->own[i], l->at, l->bytes, n_copies, true, pool);
            r->ring[i] = &r->own[i];
        }
    }
    drop_copies(r);
}

size_t runnable_own_bytes(const Runnable *r)
{
    size_t bytes = 0;
    for (int i = 1; i < r->k->operand.n; i++) {
        bytes += r->laid[i].like ? 0 : r->laid[i].bytes;
    }
    return bytes;
}

static Ring *its_ring(const Runnable *r, int operand)
{
    return r->laid[operand].shared ? NULL : r->ring[operand];
}

size_t runnable_ring_bytes(const Runnable *r, bool *huge)
{
    size_t bytes = 0;
    *huge = true;
    for (int i = 1; i < r->k->operand.n; i++) {
        const Ring *ring = its_ring(r, i);
        bytes += ring ? ring->step_bytes * (size_t)ring->n_copies : 0;
        *huge = *huge && (!ring || ring->huge);
    }
    return bytes;
}

void runnable_flush(Runnable *r, Pool *pool)
{
    for (int i = 1; i < r->k->operand.n; i++) {
        Ring *ring = its_ring(r, i);
        if (ring && ring->n_copies > 1) {
            ring_flush(ring, pool);
        }
    }
}

void runnable_release(Runnable *r)
{
    drop_copies(r);
    for (int i = 0; r->own && i < r->k->operand.n; i++) {
        ring_release(&r->own[i]);
    }
}

const void *runnable_laid(const Runnable *r, int operand)
{
    return r->laid[operand].at;
}

static void *argument(const Runnable *r, int operand)
{
    const Laid *l = r->laid ? &r->laid[operand] : NULL;
    Ring *ring = r->ring ? r->ring[operand] : NULL;
    ring = !ring && l && l->like ? *l->like : ring;
    return ring ? (void *)ring_next(ring) : l && l->own ? l->own : r->param[operand];
}

void runnable_call(void *runnable)
{
    const Runnable *r = runnable;
    void *param[MAX_OPERANDS];
    int n = r->k->operand.n;
    check(n <= MAX_OPERANDS);
    for (int i = 0; i < n; i++) {
        param[i] = argument(r, i);
    }
    if (r->rival) {
        rival_call(r->rival, r->pool, param, r->syms);
    } else if (r->pool) {
        pool_kernel(r->pool, r->fn, param, r->syms);
    } else {
        r->fn(param, r->syms, 0, 1);
    }
}
