/* layouts.c - what a library's memory of weights is made from and made of: the model's files as they are
 * now, a list of what lies there, and a hash that changes with any byte or place of it.
 * needs: tables whose weights and panels are complete. */
#include "run/run_int.h"

#include <inttypes.h>
#include <string.h>

const NcShard *shards_list(Env *e, const Checkpoint *file)
{
    NcShard *out = arena_array(&e->model, NcShard, file->shards.n);
    for (int i = 0; i < file->shards.n; i++) {
        const Shard *s = &file->shards.at[i];
        const char *slash = strrchr(s->path, '/');
        int64_t header = (int64_t)s->header_bytes;
        out[i] = (NcShard){slash ? slash + 1 : s->path, (int64_t)s->n_bytes, header,
                           weights_print(s->map, (int64_t)s->n_bytes, header)};
    }
    return out;
}

const nc_layout *layouts_list(Env *e, const LibraryText *l, int *n)
{
    const NcTables *t = l->tables;
    nc_layout *out = arena_array(&e->model, nc_layout, t->n_weights + t->n_panels);
    *n = 0;
    for (int i = 0; i < t->n_weights; i++) {
        if (t->weight[i].kept) {
            out[(*n)++] = (nc_layout){t->weight[i].name, "", weight_bytes(&t->weight[i])};
        }
    }
    for (int i = 0; i < t->n_panels; i++) {
        const NcPlace *from = &t->panel[i].from;
        out[(*n)++] = (nc_layout){from->base == NC_WEIGHT ? t->weight[from->index].name : "",
                                  l->fill[i], nc_lines(t->panel[i].n_bytes)};
    }
    return out;
}

static void put_files(const NcTables *t, Buf *b)
{
    for (int i = 0; i < t->n_shards; i++) {
        const NcShard *s = &t->shard[i];
        buf_printf(b, "%s %" PRId64 " %" PRId64 " %" PRIx64 "\n", s->file, s->n_bytes,
                   s->header_bytes, s->print);
    }
}

static void put_weights(const NcTables *t, Buf *b)
{
    for (int i = 0; i < t->n_weights; i++) {
        const NcWeight *w = &t->weight[i];
        buf_printf(b, "%d %" PRId64 " %" PRId64 " %d %d %d\n", w->shard, w->offset, w->count,
                   w->source, w->stored, w->kept);
    }
}

uint64_t layouts_hash(Env *e, const LibraryText *l, const Hash *panel)
{
    const NcTables *t = l->tables;
    Buf b;
    buf_init(&b, &e->kernel);
    buf_printf(&b, "%s %s %s\n", t->facts->version, t->facts->cpu, t->facts->toolchain);
    put_files(t, &b);
    put_weights(t, &b);
    for (int i = 0; i < l->n_fixed; i++) {
        const Buffer *f = l->fixed[i];
        buf_bytes(&b, f->value, (size_t)f->count.k * (size_t)dtype_bytes(f->dtype));
    }
    for (int i = 0; i < t->n_panels; i++) {
        buf_printf(&b, "%s %" PRIx64 " %" PRId64 "\n", l->fill[i], panel[i].lo,
                   t->panel[i].n_bytes);
    }
    return hash_bytes(b.at, b.len).lo;
}
