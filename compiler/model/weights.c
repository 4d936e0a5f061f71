/* weights.c - a model's weights as f32, ready to be arguments of its graph.
 *
 * F32 that is aligned is used where it lies in the file. BF16 and F16 are widened once, in
 * parallel, into one anonymous mapping; the file's pages are let go behind the work, so that
 * peak memory is the f32 weights and little more.
 * Needs: a checked config. Keeps: the checkpoint open, because tensors point into it. */
#include "model/model_int.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { CHUNK = 1 << 20 }; /* elements: one work item */

typedef struct Piece { /* of one tensor */
    const FileTensor *from;
    float *to;
    int64_t first, n; /* elements */
} Piece;

typedef struct Load {
    Weights *w;
    const Config *config;
    const char *path;
    int n_threads;
    Vec(Piece) pieces;
    LoadProgress *progress;
    void *ctx;
} Load;

static bool in_place(const FileTensor *t)
{
    return t->dtype == FD_F32 && (uintptr_t)t->data % sizeof(float) == 0;
}

static void widen_piece(void *ctx, int64_t i)
{
    const Piece *p = &((Load *)ctx)->pieces.at[i];
    size_t size = (size_t)file_dtype_bits(p->from->dtype) / 8;
    file_tensor_widen(p->from, p->first, p->n, p->to + p->first);
    pages_drop(p->from->data + (size_t)p->first * size, (size_t)p->n * size);
}

static void tick(void *ctx, int64_t n_done)
{
    Load *x = ctx;
    int64_t total = (int64_t)x->w->memory_bytes;
    x->progress(x->ctx, (int64_t)((double)total * (double)n_done / x->pieces.n), total);
}

/* Room for a tensor, on its own cache lines. */
static size_t room(const TensorSpec *t)
{
    return ((size_t)tensor_spec_count(t) * sizeof(float) + 63) & ~(size_t)63;
}

static void reserve(Env *e, Weights *w, const Match *m)
{
    for (int i = 0; i < m->n; i++) {
        w->f32_bytes += (size_t)tensor_spec_count(&m->spec[i]) * sizeof(float);
        w->memory_bytes += in_place(m->found[i]) ? 0 : room(&m->spec[i]);
    }
    if (w->memory_bytes == 0) {
        return;
    }
    void *p = os.mmap(NULL, w->memory_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        fail(e, E_NOMEM, "%s: the weights need %zu MB as f32: %s.", w->file.path,
             w->memory_bytes >> 20, strerror(errno));
    }
    w->memory = p;
    os.madvise(p, w->memory_bytes, MADV_HUGEPAGE);
}

/* Gives every tensor its place and cuts the widening into pieces. */
static void lay_out(Env *e, Load *x, const Match *m)
{
    Weights *w = x->w;
    uint8_t *free_at = w->memory;
    w->n = m->n;
    w->source = m->found;
    w->tensor = arena_array(&e->model, NamedTensor, m->n);
    for (int i = 0; i < m->n; i++) {
        const TensorSpec *spec = &m->spec[i];
        const FileTensor *t = m->found[i];
        NamedTensor *to = &w->tensor[i];
        *to =
            (NamedTensor){spec->name, {DT_F32, spec->rank, {spec->dim[0], spec->dim[1]}, NULL}};
        if (in_place(t)) {
            to->t.data = (void *)t->data;
            continue;
        }
        to->t.data = free_at;
        free_at += room(spec);
        int64_t n = tensor_spec_count(spec);
        for (int64_t first = 0; first < n; first += CHUNK) {
            int64_t rest = n - first;
            Piece p = {t, to->t.data, first, rest < CHUNK ? rest : CHUNK};
            *vec_push(&e->kernel, &x->pieces) = p;
        }
    }
}

static void load(Env *e, void *arg)
{
    Load *x = arg;
    Weights *w = x->w;
    checkpoint_open(e, &w->file, x->path);
    Match m;
    weights_match(e, x->config, &w->file, &m);
    match_require(e, x->config, &w->file, &m);
    w->note = m.note;
    reserve(e, w, &m);
    lay_out(e, x, &m);
    bool told = x->progress && x->pieces.n > 0;
    each_item(x->n_threads, x->pieces.n, widen_piece, told ? tick : NULL, x);
}

void weights_load(Env *e, Weights *w, const Config *c, const char *path, int n_threads,
                  LoadProgress *progress, void *ctx)
{
    *w = (Weights){0};
    Load x = {.w = w,
              .config = c,
              .path = path,
              .n_threads = n_threads,
              .progress = progress,
              .ctx = ctx};
    if (!env_try(e, load, &x)) {
        Err err = e->err;
        weights_release(w);
        fail_err(e, &err);
    }
}

void weights_release(Weights *w)
{
    if (w->memory) {
        os.munmap(w->memory, w->memory_bytes);
    }
    checkpoint_release(&w->file);
    *w = (Weights){0};
}
