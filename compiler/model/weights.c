/* weights.c - a model's weights, ready to be arguments of its graph.
 *
 * F32 that is aligned is used where it lies in the file. BF16 and F16 are widened, or BF16 is
 * copied as it is, once and in parallel, into one anonymous mapping, whose huge pages are read
 * faster than a file's; the file's pages are let go behind the work, so that peak memory is
 * what the weights take and little more. What is kept as BF16 is widened when somebody asks.
 * Needs: a checked config. Keeps: the checkpoint open, because tensors point into it. */
#include "model/model_int.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum { CHUNK = 1 << 20 }; /* elements: one work item */

typedef struct Piece { /* of one tensor */
    const FileTensor *from;
    float *to; /* NULL: kept */
    uint16_t *kept;
    int64_t first, n; /* elements */
} Piece;

typedef struct Load {
    Weights *w;
    const Config *config;
    const char *path;
    int n_threads;
    bool keep; /* BF16 as it is */
    Vec(Piece) pieces;
    LoadProgress *progress;
    void *ctx;
} Load;

static bool kept(const Load *x, const FileTensor *t)
{
    return x->keep && t->dtype == FD_BF16;
}

static size_t stored_bytes(const Load *x, const FileTensor *t) /* of an element */
{
    return kept(x, t) ? sizeof(uint16_t) : sizeof(float);
}

static bool in_place(const FileTensor *t)
{
    return t->dtype == FD_F32 && (uintptr_t)t->data % sizeof(float) == 0;
}

static void take_piece(void *ctx, int64_t i)
{
    const Piece *p = &((Load *)ctx)->pieces.at[i];
    size_t size = (size_t)file_dtype_bits(p->from->dtype) / 8;
    const uint8_t *from = p->from->data + (size_t)p->first * size;
    if (p->kept) {
        memcpy(p->kept + p->first, from, (size_t)p->n * size);
    } else {
        file_tensor_widen(p->from, p->first, p->n, p->to + p->first);
    }
    pages_drop(from, (size_t)p->n * size);
}

static void tick(void *ctx, int64_t n_done)
{
    Load *x = ctx;
    int64_t total = (int64_t)x->w->memory_bytes;
    x->progress(x->ctx, (int64_t)((double)total * (double)n_done / x->pieces.n), total);
}

/* Room for a tensor, on its own cache lines. */
static size_t room(const Load *x, const FileTensor *t)
{
    return ((size_t)file_tensor_count(t) * stored_bytes(x, t) + 63) & ~(size_t)63;
}

static void *map_memory(size_t n_bytes)
{
    void *p =
        os.mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    os.madvise(p, n_bytes, MADV_HUGEPAGE);
    return p;
}

static void reserve(Env *e, const Load *x, const Match *m)
{
    Weights *w = x->w;
    for (int i = 0; i < m->n; i++) {
        const FileTensor *t = m->found[i];
        size_t n = (size_t)file_tensor_count(t);
        w->f32_bytes += n * sizeof(float);
        w->bf16_bytes += kept(x, t) ? n * sizeof(uint16_t) : 0;
        w->memory_bytes += in_place(t) ? 0 : room(x, t);
    }
    w->memory = w->memory_bytes ? map_memory(w->memory_bytes) : NULL;
    if (w->memory_bytes && !w->memory) {
        fail(e, E_NOMEM, "%s: the weights need %zu MB: %s.", w->file.path,
             w->memory_bytes >> 20, strerror(errno));
    }
}

static void cut_pieces(Env *e, Load *x, const FileTensor *t, void *to)
{
    int64_t n = file_tensor_count(t);
    for (int64_t first = 0; first < n; first += CHUNK) {
        int64_t rest = n - first;
        Piece p = {.from = t, .first = first, .n = rest < CHUNK ? rest : CHUNK};
        p.kept = kept(x, t) ? to : NULL;
        p.to = kept(x, t) ? NULL : to;
        *vec_push(&e->kernel, &x->pieces) = p;
    }
}

/* Gives every tensor its place and cuts the work into pieces. */
static void lay_out(Env *e, Load *x, const Match *m)
{
    Weights *w = x->w;
    uint8_t *free_at = w->memory;
    w->n = m->n;
    w->source = m->found;
    w->tensor = arena_array(&e->model, NamedTensor, m->n);
    w->bf16 = arena_array(&e->model, const uint16_t *, m->n);
    w->widened = arena_array(&e->model, void *, m->n);
    for (int i = 0; i < m->n; i++) {
        const TensorSpec *spec = &m->spec[i];
        const FileTensor *t = m->found[i];
        void *at = in_place(t) ? (void *)t->data : free_at;
        w->tensor[i] =
            (NamedTensor){spec->name, {DT_F32, spec->rank, {spec->dim[0], spec->dim[1]}, NULL}};
        w->bf16[i] = kept(x, t) ? at : NULL;
        w->tensor[i].t.data = kept(x, t) ? NULL : at;
        if (!in_place(t)) {
            free_at += room(x, t);
            cut_pieces(e, x, t, at);
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
    reserve(e, x, &m);
    lay_out(e, x, &m);
    bool told = x->progress && x->pieces.n > 0;
    each_item(x->n_threads, x->pieces.n, take_piece, told ? tick : NULL, x);
}

static void open_weights(Env *e, Load *x)
{
    *x->w = (Weights){0};
    if (!env_try(e, load, x)) {
        Err err = e->err;
        weights_release(x->w);
        fail_err(e, &err);
    }
}

void weights_load(Env *e, Weights *w, const Config *c, const char *path, int n_threads,
                  LoadProgress *progress, void *ctx)
{
    Load x = {w, c, path, n_threads, .progress = progress, .ctx = ctx};
    open_weights(e, &x);
}

void weights_keep(Env *e, Weights *w, const Config *c, const char *path, int n_threads,
                  LoadProgress *progress, void *ctx)
{
    Load x = {w, c, path, n_threads, .keep = true, .progress = progress, .ctx = ctx};
    open_weights(e, &x);
}

int weights_find(const Weights *w, const char *name)
{
    for (int i = 0; i < w->n; i++) {
        if (!strcmp(w->tensor[i].name, name)) {
            return i;
        }
    }
    return -1;
}

const uint16_t *weights_bf16(const Weights *w, int tensor)
{
    return w->bf16 ? w->bf16[tensor] : NULL;
}

static size_t widened_bytes(const Tensor *t)
{
    return (size_t)tensor_count(t) * sizeof(float);
}

bool weights_widen(Weights *w, int i, Err *err)
{
    Tensor *t = &w->tensor[i].t;
    if (t->data || widened_bytes(t) == 0) {
        return true;
    }
    void *p = map_memory(widened_bytes(t));
    if (!p) {
        return err_set(err, E_NOMEM, "There is no memory for weight \"%.64s\" as f32: %s.",
                       w->tensor[i].name, strerror(errno));
    }
    bf16_widen(p, w->bf16[i], tensor_count(t));
    w->widened[i] = t->data = p;
    return true;
}

void weights_release(Weights *w)
{
    for (int i = 0; w->widened && i < w->n; i++) {
        if (w->widened[i]) {
            os.munmap(w->widened[i], widened_bytes(&w->tensor[i].t));
        }
    }
    if (w->memory) {
        os.munmap(w->memory, w->memory_bytes);
    }
    checkpoint_release(&w->file);
    *w = (Weights){0};
}
