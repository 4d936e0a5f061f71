/* stored.c - a program's weights in the storage that its kernels take: f32, or bfloat16 where a
 * schedule reads or packs that. A model's own weights are used as they lie, and widened only
 * where some kernel takes f32; arguments that are f32 alone are narrowed once, and again only
 * when they have moved. needs: values that come from bfloat16 where the graph says so; says
 * which do not. */
#include "run/run_int.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

void stored_init(Env *e, Stored *s, const Graph *g)
{
    *s = (Stored){.g = g, .at = arena_array(&e->model, StoredWeight, g->weights.n)};
}

void stored_want(Stored *s, int weight, bool bf16)
{
    s->at[weight].as_f32 |= !bf16;
    s->at[weight].as_bf16 |= bf16;
}

static const char *name_of(const Stored *s, int weight)
{
    return s->g->weights.at[weight]->attr.name;
}

void stored_use(Stored *s, Weights *w)
{
    s->weights = w;
    for (int i = 0; i < s->g->weights.n; i++) {
        s->at[i].known = 1 + weights_find(w, name_of(s, i));
    }
}

static void release(StoredWeight *w)
{
    if (w->own) {
        os.munmap(w->own, w->own_bytes);
    }
    w->own = NULL;
    w->own_from = NULL;
}

/* At a new address, even where the old one is free again: panels are told by it that they are stale. */
static bool narrow(const Stored *s, int weight, const Tensor *t, Err *err)
{
    StoredWeight *w = &s->at[weight];
    int64_t n = tensor_count(t);
    size_t bytes = (size_t)(n ? n : 1) * sizeof *w->own;
    void *own =
        os.mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED) {
        return err_set(err, E_NOMEM, "There is no memory for weight \"%.64s\" as bf16: %s.",
                       name_of(s, weight), strerror(errno));
    }
    release(w);
    w->own = own;
    w->own_bytes = bytes;
    if (!bf16_narrow(own, t->data, n)) {
        return err_set(
            err, E_INPUT,
            "The weight \"%.64s\" is said to come from bf16, but some value is none.",
            name_of(s, weight));
    }
    w->own_from = t->data;
    return true;
}

static bool has_data(const Tensor *t)
{
    return t->data || tensor_count(t) == 0;
}

static bool refuse(const Stored *s, int weight, Err *err)
{
    return err_set(err, E_INPUT, "The weight \"%.64s\" has no data.", name_of(s, weight));
}

static bool need_f32(const Stored *s, int weight, const Tensor *t, Err *err)
{
    int known = s->at[weight].known;
    if (!has_data(t) && known && !weights_widen(s->weights, known - 1, err)) {
        return false;
    }
    return has_data(t) || refuse(s, weight, err); /* no: the arguments are not those weights */
}

static bool need_bf16(const Stored *s, int weight, const Tensor *t, Err *err)
{
    StoredWeight *w = &s->at[weight];
    const uint16_t *kept = w->known ? weights_bf16(s->weights, w->known - 1) : NULL;
    if (kept && (!t->data || t->data == s->weights->tensor[w->known - 1].t.data)) {
        w->bf16 = kept;
        return true;
    }
    if (!has_data(t)) {
        return refuse(s, weight, err);
    }
    if ((!w->own || w->own_from != t->data) && !narrow(s, weight, t, err)) {
        return false;
    }
    w->bf16 = w->own;
    return true;
}

bool stored_update(Stored *s, const Tensor *const *weight, Err *err)
{
    for (int i = 0; i < s->g->weights.n; i++) {
        const StoredWeight *w = &s->at[i];
        if ((w->as_f32 && !need_f32(s, i, weight[i], err)) ||
            (w->as_bf16 && !need_bf16(s, i, weight[i], err))) {
            return false;
        }
    }
    return true;
}

const uint16_t *stored_bf16(const Stored *s, int weight)
{
    return s->at[weight].bf16;
}

void stored_release(Stored *s)
{
    for (int i = 0; s->g && i < s->g->weights.n; i++) {
        release(&s->at[i]);
    }
}
