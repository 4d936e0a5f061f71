/* view.c - strided views, the counted memory behind them, and the walk over several at once.
 *
 * The interpreter's values live here rather than in an arena because they are freed after their
 * last use: a model's step makes far more bytes of values than it ever holds. A Pool knows all
 * that live, so that a failing interpretation frees them too. Offsets cannot overflow: bind.c
 * refuses values of more than 2^40 elements. */
#include "graph/eval_int.h"

#include <stdlib.h>
#include <string.h>

struct Chunk {
    Chunk *next, *prev;
    int n_holders;
    _Alignas(16) char data[];
};

static Chunk *chunk_new(Pool *p, size_t bytes)
{
    Chunk *c = os.alloc(sizeof *c + bytes);
    if (!c) {
        fail(p->env, E_NOMEM, "There is no memory for a value of %zu bytes.", bytes);
    }
    *c = (Chunk){.next = p->first, .n_holders = 1};
    if (p->first) {
        p->first->prev = c;
    }
    p->first = c;
    return c;
}

static void chunk_free(Pool *p, Chunk *c)
{
    if (c->next) {
        c->next->prev = c->prev;
    }
    *(c->prev ? &c->prev->next : &p->first) = c->next;
    free(c);
}

void pool_release(Pool *p)
{
    while (p->first) {
        chunk_free(p, p->first);
    }
}

/* ---- views -------------------------------------------------------------- */

View view_of(Dtype t, int rank, const int64_t *dim, const void *data)
{
    View v = {.dtype = t, .rank = rank, .at = (char *)data};
    int64_t stride = dtype_bytes(t);
    for (int i = rank - 1; i >= 0; i--) {
        v.dim[i] = dim[i];
        v.stride[i] = stride;
        stride *= dim[i];
    }
    return v;
}

View view_new(Pool *p, Dtype t, int rank, const int64_t *dim)
{
    size_t bytes = (size_t)dtype_bytes(t);
    for (int i = 0; i < rank; i++) {
        if (__builtin_mul_overflow(bytes, (size_t)dim[i], &bytes)) {
            fail(p->env, E_NOMEM, "A value has more bytes than can be counted.");
        }
    }
    Chunk *c = chunk_new(p, bytes);
    View v = view_of(t, rank, dim, c->data);
    v.chunk = c;
    return v;
}

void view_keep(View *v)
{
    if (v->chunk) {
        v->chunk->n_holders++;
    }
}

void view_drop(Pool *p, View *v)
{
    if (v->chunk && --v->chunk->n_holders == 0) {
        chunk_free(p, v->chunk);
    }
    v->chunk = NULL;
    v->at = NULL;
}

bool view_contiguous(const View *v)
{
    int64_t stride = dtype_bytes(v->dtype);
    bool dense = true;
    for (int i = v->rank - 1; i >= 0; i--) {
        if (v->dim[i] == 0) {
            return true;
        }
        dense = dense && (v->dim[i] == 1 || v->stride[i] == stride);
        stride *= v->dim[i];
    }
    return dense;
}

View view_copy(Pool *p, const View *v)
{
    View copy = view_new(p, v->dtype, v->rank, v->dim);
    view_fill(&copy, v);
    return copy;
}

/* ---- the walk ----------------------------------------------------------- */

static bool mergeable(const Walk *w, int n_views, const View *const *view, int axis)
{
    for (int v = 0; v < n_views; v++) {
        if (w->stride[v][w->rank - 1] != view[v]->stride[axis] * view[0]->dim[axis]) {
            return false;
        }
    }
    return true;
}

static void add_axis(Walk *w, const View *const *view, int axis)
{
    int64_t dim = view[0]->dim[axis];
    if (w->rank > 0 && mergeable(w, w->n_views, view, axis)) {
        w->dim[w->rank - 1] *= dim;
    } else {
        w->dim[w->rank++] = dim;
    }
    for (int v = 0; v < w->n_views; v++) {
        w->stride[v][w->rank - 1] = view[v]->stride[axis];
    }
}

void walk_init(Walk *w, int n_views, const View *const *view)
{
    *w = (Walk){.n_views = n_views, .n = 1};
    for (int axis = 0; axis < view[0]->rank; axis++) {
        w->ended = w->ended || view[0]->dim[axis] == 0;
        if (view[0]->dim[axis] != 1) {
            add_axis(w, view, axis);
        }
    }
    bool has_run = w->rank > 0;
    w->rank -= has_run;
    w->n = has_run ? w->dim[w->rank] : 1;
    for (int v = 0; v < n_views; v++) {
        w->step[v] = has_run ? w->stride[v][w->rank] : 0;
        w->at[v] = view[v]->at;
    }
}

bool walk_next(Walk *w)
{
    if (!w->begun || w->ended) {
        w->begun = true;
        return !w->ended;
    }
    for (int axis = w->rank - 1; axis >= 0; axis--) {
        bool more = ++w->index[axis] < w->dim[axis];
        int64_t moves = more ? 1 : 1 - w->dim[axis];
        for (int v = 0; v < w->n_views; v++) {
            w->at[v] += moves * w->stride[v][axis];
        }
        if (more) {
            return true;
        }
        w->index[axis] = 0;
    }
    w->ended = true;
    return false;
}

/* ---- copies ------------------------------------------------------------- */

#define COPY_RUN(T)                                                                            \
    static void copy_##T(int64_t n, char *to, int64_t to_step, const char *from, int64_t step) \
    {                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                      \
            memcpy(to + i * to_step, from + i * step, sizeof(T));                              \
        }                                                                                      \
    }
COPY_RUN(uint8_t)
COPY_RUN(uint32_t)
COPY_RUN(uint64_t)
#undef COPY_RUN

void view_fill(const View *to, const View *from)
{
    int64_t bytes = dtype_bytes(to->dtype);
    Walk w;
    walk_init(&w, 2, (const View *const[]){to, from});
    while (walk_next(&w)) {
        if (w.n == 1 || (w.step[0] == bytes && w.step[1] == bytes)) {
            memcpy(w.at[0], w.at[1], (size_t)(w.n * bytes));
        } else {
            (bytes == 1   ? copy_uint8_t
             : bytes == 4 ? copy_uint32_t
                          : copy_uint64_t)(w.n, w.at[0], w.step[0], w.at[1], w.step[1]);
        }
    }
}
