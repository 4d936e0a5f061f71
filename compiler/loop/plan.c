/* plan.c - where each temporary lives in the arena. spec: loop-ir 7
 *
 * Calls are walked in order. A call's output is placed before the buffers it reads last are
 * released, so no kernel's output overlaps its operands: that is what makes `restrict` in the
 * emitted C true. Placement is best fit: the smallest free block that suffices, the lowest
 * where several do, else the top of the arena grows.
 *
 * Sizes change with every decoded token, so planning is on the steady path: everything that
 * does not depend on sizes is laid out once by plan_init, equal sizes are computed once, and
 * plan_update allocates nothing.
 *
 * needs: program_lifetimes. */
#include "loop/loop.h"

#include <string.h>

enum { ALIGN_BYTES = 64 };

/* ---- what does not depend on sizes ------------------------------------------------------ */

static int size_class(Plan *p, const Buffer *b)
{
    int bytes = dtype_bytes(b->dtype);
    for (int i = 0; i < p->n_sizes; i++) {
        if (p->size[i].elem_bytes == bytes && dim_eq(p->size[i].count, b->count)) {
            return i;
        }
    }
    p->size[p->n_sizes] = (PlanSize){.count = b->count, .elem_bytes = bytes};
    return p->n_sizes++;
}

/* dead[dead_from[c]] .. dead[dead_from[c + 1] - 1]: the temporaries call c touches last. */
static void sort_by_last_use(Plan *p, const Program *prog)
{
    for (int b = 0; b < prog->buffer.n; b++) {
        if (p->class_of[b] >= 0) {
            p->dead_from[prog->buffer.at[b].last]++;
        }
    }
    for (int c = 1; c <= prog->call.n; c++) {
        p->dead_from[c] += p->dead_from[c - 1];
    }
    for (int b = prog->buffer.n - 1; b >= 0; b--) { /* ranges fill from their ends */
        if (p->class_of[b] >= 0) {
            p->dead[--p->dead_from[prog->buffer.at[b].last]] = b;
        }
    }
}

void plan_init(Plan *p, const Program *prog, Arena *m)
{
    int n = prog->buffer.n, n_calls = prog->call.n;
    *p = (Plan){
        .offset = arena_array(m, int64_t, n),
        .bytes = arena_array(m, int64_t, n),
        .size = arena_array(m, PlanSize, n),
        .class_of = arena_array(m, int, n),
        .born = arena_array(m, int, n_calls),
        .dead = arena_array(m, int, n),
        .dead_from = arena_array(m, int, n_calls + 1),
        .free = arena_array(m, PlanBlock, n + 1),
    };
    memset(p->born, -1, sizeof *p->born * (size_t)n_calls);
    for (int i = 0; i < n; i++) {
        const Buffer *b = &prog->buffer.at[i];
        bool temp = b->kind == BUF_TEMP && b->first >= 0;
        p->offset[i] = -1;
        p->class_of[i] = temp ? size_class(p, b) : -1;
        if (temp) {
            p->born[b->first] = i;
        }
    }
    sort_by_last_use(p, prog);
}

/* ---- sizes ------------------------------------------------------------------------------ */

/* Bytes of count elements, at least 1, rounded up to the alignment. False: over 2^63. */
static bool rounded_bytes(const PlanSize *s, const int64_t sizes[MAX_SYMBOLS], int64_t *out)
{
    int64_t count = s->count.k;
    for (int i = 0; i < s->count.n; i++) {
        const Term *t = &s->count.term[i];
        int64_t product = t->coef;
        for (int j = 0; j < t->degree; j++) {
            if (__builtin_mul_overflow(product, sizes[t->sym[j]], &product)) {
                return false;
            }
        }
        if (__builtin_add_overflow(count, product, &count)) {
            return false;
        }
    }
    int64_t bytes;
    if (__builtin_mul_overflow(count, (int64_t)s->elem_bytes, &bytes) ||
        bytes > INT64_MAX - ALIGN_BYTES) {
        return false;
    }
    bytes = bytes < 1 ? 1 : bytes;
    *out = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    return true;
}

static bool update_sizes(Plan *p, const Program *prog, const int64_t sizes[MAX_SYMBOLS])
{
    for (int i = 0; i < p->n_sizes; i++) {
        if (!rounded_bytes(&p->size[i], sizes, &p->size[i].bytes)) {
            return false;
        }
    }
    p->total_bytes = 0;
    for (int b = 0; b < prog->buffer.n; b++) {
        int class = p->class_of[b];
        if (class >= 0) {
            p->bytes[b] = p->size[class].bytes;
            if (__builtin_add_overflow(p->total_bytes, p->bytes[b], &p->total_bytes)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- placement: free blocks by ascending address, no two of them adjacent --------------- */

static void free_delete(Plan *p, int i)
{
    p->n_free--;
    memmove(&p->free[i], &p->free[i + 1], sizeof *p->free * (size_t)(p->n_free - i));
}

static void free_insert(Plan *p, int i, PlanBlock block)
{
    memmove(&p->free[i + 1], &p->free[i], sizeof *p->free * (size_t)(p->n_free - i));
    p->free[i] = block;
    p->n_free++;
}

static int64_t place(Plan *p, int64_t bytes)
{
    int best = -1;
    for (int i = 0; i < p->n_free; i++) {
        if (p->free[i].bytes >= bytes && (best < 0 || p->free[i].bytes < p->free[best].bytes)) {
            best = i;
        }
    }
    if (best < 0) {
        int64_t at = p->arena_bytes;
        p->arena_bytes += bytes;
        return at;
    }
    PlanBlock *block = &p->free[best];
    int64_t at = block->at;
    if (block->bytes == bytes) {
        free_delete(p, best);
    } else {
        block->at += bytes;
        block->bytes -= bytes;
    }
    return at;
}

static void release(Plan *p, PlanBlock block)
{
    int i = p->n_free;
    while (i > 0 && p->free[i - 1].at > block.at) {
        i--;
    }
    if (i < p->n_free && block.at + block.bytes == p->free[i].at) {
        block.bytes += p->free[i].bytes;
        free_delete(p, i);
    }
    if (i > 0 && p->free[i - 1].at + p->free[i - 1].bytes == block.at) {
        p->free[i - 1].bytes += block.bytes;
    } else {
        free_insert(p, i, block);
    }
}

bool plan_update(Plan *p, const Program *prog, const int64_t sizes[MAX_SYMBOLS])
{
    p->n_free = 0;
    p->arena_bytes = 0;
    if (!update_sizes(p, prog, sizes)) {
        return false;
    }
    for (int c = 0; c < prog->call.n; c++) {
        int out = p->born[c];
        if (out >= 0) {
            p->offset[out] = place(p, p->bytes[out]);
        }
        for (int i = p->dead_from[c]; i < p->dead_from[c + 1]; i++) {
            int b = p->dead[i];
            release(p, (PlanBlock){p->offset[b], p->bytes[b]});
        }
    }
    return true;
}
