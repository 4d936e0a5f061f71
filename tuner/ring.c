/* ring.c - constant operands as a model finds them: cold.
 *
 * Between two uses of a weight a model reads all its other weights. Overwriting a big buffer
 * instead does not do it: the operand comes back from the last-level cache at twice the
 * memory's speed. So a ring of copies, each used once a turn, totals eight times that cache;
 * from there on the bandwidth no longer falls. Memory is anonymous, since mapped files may be
 * paged out, and the page kind is asked for and recorded, since it must be the one that the
 * model's library has. */
#include "tuner/tuner.h"

#include <limits.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LINE_BYTES = 64,
    PAGE_BYTES = 4096,
    HUGE_BYTES = 2 << 20,
    UNKNOWN_WANT_BYTES = 256 << 20
};

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- how many copies --------------------------------------------------------------------- */

size_t ring_want_bytes(const Machine *m)
{
    int64_t cache = m->l3_bytes > 0 ? m->l3_bytes : m->l2_bytes;
    return cache > 0 ? (size_t)cache * RING_CACHES : UNKNOWN_WANT_BYTES;
}

bool ring_plan(size_t bytes, size_t want_bytes, size_t limit_bytes, RingPlan *plan, Err *err)
{
    check(bytes > 0 && bytes < SIZE_MAX / 4 && want_bytes < SIZE_MAX / 4);
    size_t step = round_up(bytes, LINE_BYTES);
    size_t want = (want_bytes + step - 1) / step, fit = limit_bytes / step;
    want = want < 2 ? 2 : want;
    check(want <= INT_MAX);
    if (fit < 2) {
        return err_set(
            err, E_NOMEM,
            "Two copies of constant operands of %zu bytes exceed the limit of %zu bytes; "
            "a cold measurement needs more memory.",
            bytes, limit_bytes);
    }
    plan->capped = fit < want;
    plan->n_copies = (int)(plan->capped ? fit : want);
    return true;
}

/* ---- the memory -------------------------------------------------------------------------- */

typedef struct Fill {
    const Ring *ring;
    const char *source;
} Fill;

/* Shares end at pages, so that each page is first touched by the one thread that reads it. */
static void fill_part(void *ctx, int part, int n_parts)
{
    const Fill *f = ctx;
    size_t bytes = f->ring->bytes, pages = (bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    size_t first = pages * (size_t)part / (size_t)n_parts * PAGE_BYTES;
    size_t end = pages * (size_t)(part + 1) / (size_t)n_parts * PAGE_BYTES;
    end = end < bytes ? end : bytes;
    for (int i = 0; i < f->ring->n_copies && first < end; i++) {
        char *to = f->ring->at + (size_t)i * f->ring->step_bytes + first;
        if (f->source) {
            memcpy(to, f->source + first, end - first);
        } else {
            memset(to, 1, end - first); /* untouched pages would all be the one zero page */
        }
    }
}

static void fill(const Ring *r, const void *source, Pool *pool)
{
    Fill fill = {r, source};
    if (pool) {
        pool_run(pool, fill_part, &fill);
    } else {
        fill_part(&fill, 0, 1);
    }
}

void ring_init(Env *e, Ring *r, const void *source, size_t bytes, int n_copies, bool huge,
               Pool *pool)
{
    check(bytes > 0 && n_copies >= 1 && bytes < SIZE_MAX / 4 / (size_t)n_copies);
    *r =
        (Ring){.bytes = bytes, .step_bytes = round_up(bytes, LINE_BYTES), .n_copies = n_copies};
    r->map_bytes = r->step_bytes * (size_t)n_copies + HUGE_BYTES;
    r->map =
        os.mmap(NULL, r->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r->map == MAP_FAILED) {
        r->map = NULL;
        fail(e, E_NOMEM, "Out of memory: a ring of %d copies of %zu bytes.", n_copies, bytes);
    }
    r->at = (char *)round_up((uintptr_t)r->map, HUGE_BYTES);
    int advice =
        huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE; /* or the system's own setting decides */
    r->huge = os.madvise(r->map, r->map_bytes, advice) == 0 && huge;
    fill(r, source, pool);
}

bool ring_refill(Ring *r, const void *source, size_t bytes, int n_copies, Pool *pool)
{
    size_t step = round_up(bytes, LINE_BYTES);
    if (!r->map || (r->map_bytes - HUGE_BYTES) / step < (size_t)n_copies ||
        mprotect(r->map, r->map_bytes, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    r->bytes = bytes, r->step_bytes = step, r->n_copies = n_copies, r->next = 0;
    fill(r, source, pool);
    return true;
}

void ring_release(Ring *r)
{
    if (r->map) {
        os.munmap(r->map, r->map_bytes);
    }
    *r = (Ring){0};
}

/* ---- out of all caches ------------------------------------------------------------------- */

static void flush_line(const char *at)
{
#if defined __x86_64__
    __builtin_ia32_clflush(at);
#elif defined __aarch64__
    __asm__ volatile("dc civac, %0" : : "r"(at) : "memory");
#else
    (void)at;
#endif
}

static void flush_part(void *ctx, int part, int n_parts)
{
    const Ring *r = ctx;
    size_t n_lines = r->step_bytes * (size_t)r->n_copies / LINE_BYTES;
    size_t first = n_lines * (size_t)part / (size_t)n_parts,
           end = n_lines * ((size_t)part + 1) / (size_t)n_parts;
    for (size_t i = first; i < end; i++) {
        flush_line(r->at + i * LINE_BYTES);
    }
    __sync_synchronize();
}

void ring_flush(Ring *r, Pool *pool)
{
    if (pool) {
        pool_run(pool, flush_part, r);
    } else {
        flush_part(r, 0, 1);
    }
}

const void *ring_next(Ring *r)
{
    const void *copy = r->at + (size_t)r->next * r->step_bytes;
    r->next = r->next + 1 < r->n_copies ? r->next + 1 : 0;
    return copy;
}
