/* weights.c - a library's weights: from the model's files into memory, as kernels want them.
 *
 * The library was built from these very files: it knows where in them each tensor lies, so nothing
 * is parsed here. That they still are the same files is looked at first: length, header, and 256
 * pieces of the data. Everything then lies in one anonymous mapping, kept weights first, panels behind
 * them. Weights that only panels are made of pass through a scratch mapping, some hundred MB at a
 * time; the files' pages are let go behind the work, so that peak memory is little more than what stays.
 *
 * needs: tables whose offsets fit the lengths of their shards; the builder checked them. */
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SCRATCH_BYTES ((int64_t)256 << 20)
#define ROUND_BYTES ((int64_t)64 << 20) /* of files, between two reports */

enum { CHUNK = 1 << 18, SAMPLES = 256, SAMPLE_BYTES = 4096 };

typedef struct Reading {
    const NcTables *t;
    const nc_options *o;
    Pool *pool;
    NcWeights *w;
    const uint8_t **shard; /* mapped; NULL: not yet */
    char *scratch;
    int64_t scratch_bytes;
    void **at;            /* by weight: its elements now; NULL: not read */
    int from, to;         /* the weights of this round */
    int64_t done, all;    /* bytes of files */
    _Atomic int64_t next; /* piece of the work to be taken */
} Reading;

/* ---- are they the same files? ------------------------------------------------------------ */

static uint64_t print_bytes(uint64_t h, const uint8_t *p, int64_t n) /* FNV-1a */
{
    for (int64_t i = 0; i < n; i++) {
        h = (h ^ p[i]) * 0x100000001b3u;
    }
    return h;
}

uint64_t weights_print(const uint8_t *file, int64_t n_bytes, int64_t header_bytes)
{
    uint64_t h = print_bytes(0xcbf29ce484222325u, file, header_bytes);
    int64_t data = n_bytes - header_bytes, last = data - SAMPLE_BYTES;
    if (data <= (int64_t)SAMPLES * SAMPLE_BYTES) {
        return print_bytes(h, file + header_bytes, data);
    }
    for (int64_t i = 0; i < SAMPLES; i++) {
        h = print_bytes(h, file + header_bytes + last * i / (SAMPLES - 1), SAMPLE_BYTES);
    }
    return h;
}

static bool changed(const char *path, const char *how, nc_error *error)
{
    return nc_refuse(error, NC_FILE,
                     "%s is not the file that the library was built for: %s; build it again.",
                     path, how) == NC_OK;
}

static bool map_shard(const char *path, const NcShard *s, const uint8_t **map, nc_error *error)
{
    struct stat st;
    int fd = os.open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || os.fstat(fd, &st) != 0) {
        int why = errno;
        if (fd >= 0) {
            os.close(fd);
        }
        return nc_refuse(error, NC_FILE, "%s: %s.", path, strerror(why)) == NC_OK;
    }
    bool same = S_ISREG(st.st_mode) && st.st_size == s->n_bytes;
    void *p =
        same ? os.mmap(NULL, (size_t)s->n_bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    int why = errno;
    os.close(fd);
    if (!same) {
        return changed(path, "its length is another", error);
    }
    if (p == MAP_FAILED) {
        return nc_refuse(error, NC_FILE, "%s cannot be mapped: %s.", path, strerror(why)) ==
               NC_OK;
    }
    *map = p;
    return weights_print(p, s->n_bytes, s->header_bytes) == s->print ||
           changed(path, "its bytes have changed", error);
}

static bool map_shards(Reading *r, nc_error *error)
{
    const char *folder = r->o->weights ? r->o->weights : r->t->facts->model;
    for (int i = 0; i < r->t->n_shards; i++) {
        char path[4096];
        int n = snprintf(path, sizeof path, "%s/%s", folder, r->t->shard[i].file);
        if (n < 0 || (size_t)n >= sizeof path) {
            return nc_refuse(error, NC_FILE, "The path of the weights is too long.") == NC_OK;
        }
        if (!map_shard(path, &r->t->shard[i], &r->shard[i], error)) {
            return false;
        }
    }
    return true;
}

/* ---- where everything goes ---------------------------------------------------------------- */

static int64_t source_bytes(const NcWeight *w) /* of an element */
{
    return w->source == NC_F32 ? 4 : 2;
}

int64_t weight_bytes(const NcWeight *w)
{
    return nc_lines(w->count * (w->stored == NC_F32 ? 4 : 2));
}

int64_t weights_bytes(const NcTables *t, int64_t *panels)
{
    int64_t kept = 0, laid_out = 0;
    for (int i = 0; i < t->n_weights; i++) {
        kept += t->weight[i].kept ? weight_bytes(&t->weight[i]) : 0;
    }
    for (int i = 0; i < t->n_panels; i++) {
        laid_out += nc_lines(t->panel[i].n_bytes);
    }
    if (panels) {
        *panels = laid_out;
    }
    return kept + laid_out;
}

size_t weights_reserved(int64_t n_bytes)
{
    return n_bytes ? (size_t)n_bytes : 1;
}

bool weights_reserve(char **p, int64_t n_bytes, nc_error *error)
{
    size_t bytes = weights_reserved(n_bytes);
    void *got =
        os.mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) {
        return nc_refuse(error, NC_NOMEM, "There is no memory for %lld MB of weights.",
                         (long long)(n_bytes >> 20)) == NC_OK;
    }
    os.madvise(got, bytes, MADV_HUGEPAGE); /* they are read from end to end */
    *p = got;
    return true;
}

void weights_place(const NcTables *t, NcWeights *w, char *at)
{
    for (int i = 0; i < t->n_weights; i++) {
        if (t->weight[i].kept) {
            w->weight[i] = at;
            at += weight_bytes(&t->weight[i]);
        }
    }
    for (int i = 0; i < t->n_panels; i++) {
        w->panel[i] = at;
        at += nc_lines(t->panel[i].n_bytes);
    }
}

static bool place_all(Reading *r, nc_error *error)
{
    const NcTables *t = r->t;
    int64_t bytes = weights_bytes(t, NULL);
    for (int i = 0; i < t->n_weights; i++) {
        int64_t n = t->weight[i].kept ? 0 : weight_bytes(&t->weight[i]);
        r->scratch_bytes = n > r->scratch_bytes ? n : r->scratch_bytes;
        r->all += t->weight[i].count * source_bytes(&t->weight[i]);
    }
    r->w->n_bytes = weights_reserved(bytes); /* before anything may fail: weights_drop */
    bool any = r->scratch_bytes > 0;
    r->scratch_bytes =
        any && r->scratch_bytes < SCRATCH_BYTES ? SCRATCH_BYTES : r->scratch_bytes;
    if (!weights_reserve(&r->w->memory, bytes, error) ||
        (any && !weights_reserve(&r->scratch, r->scratch_bytes, error))) {
        return false;
    }
    weights_place(t, r->w, r->w->memory);
    return true;
}

/* ---- the work ---------------------------------------------------------------------------- */

/* Whole pages of the file that are not needed for now. */
static void let_pages_go(const uint8_t *from, int64_t n_bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    uintptr_t first = ((uintptr_t)from + page) & ~page,
              end = ((uintptr_t)from + (uintptr_t)n_bytes) & ~page;
    if (end > first) {
        os.madvise((void *)first, end - first, MADV_DONTNEED);
    }
}

static void read_chunk(const Reading *r, int weight, int64_t first)
{
    const NcWeight *w = &r->t->weight[weight];
    int64_t n = w->count - first < CHUNK ? w->count - first : CHUNK, size = source_bytes(w);
    const uint8_t *from = r->shard[w->shard] + w->offset + first * size;
    if (w->stored == w->source) {
        memcpy((char *)r->at[weight] + first * size, from, (size_t)(n * size));
    } else {
        (w->source == NC_BF16 ? bf16_widen : half_widen)((float *)r->at[weight] + first, from,
                                                         n);
    }
    let_pages_go(from, n * size);
}

static int64_t n_chunks(const NcWeight *w)
{
    return (w->count + CHUNK - 1) / CHUNK;
}

/* Chunks of this round's weights, one after another. */
static void read_part(void *ctx, int part, int n_parts)
{
    Reading *r = ctx;
    (void)part, (void)n_parts;
    int64_t mine = r->next++, first = 0;
    for (int i = r->from; i < r->to; i++) {
        int64_t n = n_chunks(&r->t->weight[i]);
        for (; mine < first + n; mine = r->next++) {
            read_chunk(r, i, (mine - first) * CHUNK);
        }
        first += n;
    }
}

static bool of_this_round(const Reading *r, const NcPanel *p)
{
    bool weight = p->from.base == NC_WEIGHT;
    return weight ? p->from.index >= r->from && p->from.index < r->to : r->from == 0;
}

static void fill_part(void *ctx, int part, int n_parts)
{
    Reading *r = ctx;
    (void)part, (void)n_parts;
    static const int64_t no_syms[N_NC_SIZES]; /* sizes of constants depend on none */
    for (int64_t i = r->next++; i < r->t->n_panels; i = r->next++) {
        const NcPanel *p = &r->t->panel[i];
        if (of_this_round(r, p)) {
            const char *from =
                p->from.base == NC_WEIGHT ? r->at[p->from.index] : r->t->fixed[p->from.index];
            p->fill(r->w->panel[i], from + p->from.at, no_syms);
        }
    }
}

static void on_all_threads(Reading *r, PoolPart *part)
{
    r->next = 0;
    pool_run(r->pool, part, r);
}

/* The next weights that fit the scratch memory together, some at a time; each has its place then. */
static void begin_round(Reading *r)
{
    int64_t used = 0, read = 0;
    r->from = r->to;
    for (; r->to < r->t->n_weights; r->to++) {
        const NcWeight *w = &r->t->weight[r->to];
        int64_t n = w->kept ? 0 : weight_bytes(w);
        if (used + n > r->scratch_bytes || read > ROUND_BYTES) {
            break;
        }
        r->at[r->to] = w->kept ? r->w->weight[r->to] : r->scratch + used;
        used += n;
        read += w->count * source_bytes(w);
    }
}

static void count_done(Reading *r)
{
    for (int i = r->from; i < r->to; i++) {
        r->done += r->t->weight[i].count * source_bytes(&r->t->weight[i]);
    }
}

static bool read_all(Reading *r, nc_error *error)
{
    while (r->to < r->t->n_weights) {
        if (r->o->stop && *r->o->stop) {
            return nc_refuse(error, NC_STOPPED, "Stopped.") == NC_OK;
        }
        begin_round(r);
        on_all_threads(r, read_part);
        on_all_threads(r, fill_part);
        count_done(r);
        if (r->o->progress) {
            r->o->progress(r->o->progress_ctx, r->done, r->all);
        }
    }
    return true;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void end_reading(Reading *r)
{
    for (int i = 0; r->shard && i < r->t->n_shards; i++) {
        if (r->shard[i]) {
            os.munmap((void *)r->shard[i], (size_t)r->t->shard[i].n_bytes);
        }
    }
    if (r->scratch) {
        os.munmap(r->scratch, (size_t)r->scratch_bytes);
    }
    free(r->shard);
    free(r->at);
}

static void *pointers(int n)
{
    void *p = os.alloc(((size_t)n + 1) * sizeof(void *));
    return p ? memset(p, 0, ((size_t)n + 1) * sizeof(void *)) : NULL;
}

bool weights_read(const NcTables *t, const nc_options *o, Pool *pool, NcWeights *w,
                  nc_error *error)
{
    Reading r = {.t = t, .o = o, .pool = pool, .w = w};
    *w = (NcWeights){.weight = pointers(t->n_weights), .panel = pointers(t->n_panels)};
    r.shard = pointers(t->n_shards);
    r.at = pointers(t->n_weights);
    bool ok = w->weight && w->panel && r.shard && r.at;
    if (!ok) {
        nc_refuse(error, NC_NOMEM, "There is no memory to read the weights.");
    }
    ok = ok && map_shards(&r, error);
    PackState pack = ok && o->pack ? pack_take(t, o, pool, w) : PACK_FOREIGN;
    if (pack != PACK_TAKEN) {
        ok = ok && place_all(&r, error) && read_all(&r, error);
    }
    end_reading(&r);
    if (ok && pack == PACK_STALE) {
        pack_keep(t, o, pool, w);
    }
    if (!ok) {
        weights_drop(w);
    }
    return ok;
}

void weights_drop(NcWeights *w)
{
    if (w->memory) {
        os.munmap(w->memory, w->n_bytes);
    }
    free(w->weight);
    free(w->panel);
    *w = (NcWeights){0};
}
