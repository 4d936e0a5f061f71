/* synth.c - a model folder with random weights, for machines without the real ones.
 *
 * Weights are draws from a table of N(0, 1), scaled by 1/sqrt(fan in) so that activations stay
 * finite at any depth; norm gains are 1. A block of a tensor depends on the seed, the tensor
 * and the block alone, so that the bytes do not depend on the number of threads. Blocks are
 * made in parallel and written in order to a file beside the final one, which is then renamed.
 * Needs: a config that config.c accepts. */
#include "model/model_int.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>

enum {
    BLOCK = 1 << 20,   /* elements */
    BATCH = 16,        /* blocks made before they are written */
    N_DRAWS = 1 << 16, /* table of normal draws: 16 random bits choose one */
    MAX_COPY_BYTES = 64 << 20,
};

typedef struct Block16 { /* the next piece of the file */
    const TensorSpec *t;
    int tensor;
    int64_t first, n; /* elements */
    uint16_t *at;
} Block16;

typedef struct Synth {
    Env *e;
    uint64_t seed;
    int n_threads;
    const TensorSpec *spec;
    int n_specs;
    float *draw;      /* N_DRAWS of N(0, 1), mean exactly 0 */
    uint16_t *memory; /* BATCH blocks */
    Block16 batch[BATCH];
    const char *path;
    int fd;
    int64_t done_bytes, total_bytes;
    LoadProgress *progress;
    void *ctx;
} Synth;

/* Round to nearest even. */
static uint16_t bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

static void make_draws(Synth *s)
{
    Rng r;
    rng_seed(&r, s->seed);
    s->draw = arena_array(&s->e->model, float, N_DRAWS);
    for (int i = 0; i < N_DRAWS; i += 2) {
        s->draw[i] = (float)rng_normal(&r);
        s->draw[i + 1] = -s->draw[i];
    }
}

static bool is_gain(const TensorSpec *t)
{
    static const char tail[] = "norm.weight";
    size_t n = strlen(t->name), k = sizeof tail - 1;
    return n >= k && strcmp(t->name + n - k, tail) == 0;
}

/* Sums over the columns then have variance 1; biases are small against that. */
static float scale(const TensorSpec *t)
{
    return t->rank == 1 ? 0.05f : 1.0f / sqrtf((float)t->dim[1]);
}

static void fill(void *ctx, int64_t i)
{
    Synth *s = ctx;
    Block16 *b = &s->batch[i];
    if (is_gain(b->t)) {
        for (int64_t k = 0; k < b->n; k++) {
            b->at[k] = bf16(1.0f);
        }
        return;
    }
    const int64_t key[] = {(int64_t)s->seed, b->tensor, b->first};
    Rng r;
    rng_seed(&r, hash_bytes(key, sizeof key).lo);
    float factor = scale(b->t);
    uint64_t bits = 0;
    for (int64_t k = 0; k < b->n; k++) {
        bits = k % 4 == 0 ? rng_u64(&r) : bits >> 16;
        b->at[k] = bf16(s->draw[bits & (N_DRAWS - 1)] * factor);
    }
}

/* ---- the file ---------------------------------------------------------------------- */

static void write_all(Synth *s, const void *p, size_t n)
{
    const char *at = p;
    while (n > 0) {
        ssize_t k = os.write(s->fd, at, n);
        if (k < 0 && errno == EINTR) {
            continue;
        }
        if (k <= 0) {
            fail(s->e, E_IO, "%s: %s.", s->path, strerror(k < 0 ? errno : ENOSPC));
        }
        at += k;
        n -= (size_t)k;
    }
}

static void write_header(Synth *s)
{
    Buf b;
    buf_init(&b, &s->e->kernel);
    buf_str(&b, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = 0; i < s->n_specs; i++) {
        const TensorSpec *t = &s->spec[i];
        int64_t bytes = 2 * tensor_spec_count(t);
        buf_printf(&b, ",\"%s\":{\"dtype\":\"BF16\",\"shape\":[%lld", t->name,
                   (long long)t->dim[0]);
        if (t->rank == 2) {
            buf_printf(&b, ",%lld", (long long)t->dim[1]);
        }
        buf_printf(&b, "],\"data_offsets\":[%lld,%lld]}", (long long)s->total_bytes,
                   (long long)(s->total_bytes + bytes));
        s->total_bytes += bytes;
    }
    buf_char(&b, '}');
    while (b.len % 64 != 56) { /* so that the data start on a cache line */
        buf_char(&b, ' ');
    }
    uint8_t length[8];
    for (int i = 0; i < 8; i++) {
        length[i] = (uint8_t)(b.len >> (8 * i));
    }
    write_all(s, length, sizeof length);
    write_all(s, b.at, b.len);
}

/* Makes the first n blocks of the batch in parallel and writes them in order. */
static void flush(Synth *s, int n)
{
    each_item(s->n_threads, n, fill, NULL, s);
    for (int i = 0; i < n; i++) {
        size_t bytes = (size_t)s->batch[i].n * 2;
        write_all(s, s->batch[i].at, bytes);
        s->done_bytes += (int64_t)bytes;
    }
    if (s->progress) {
        s->progress(s->ctx, s->done_bytes, s->total_bytes);
    }
}

static void write_data(Synth *s)
{
    int n_batch = 0;
    s->memory = arena_array(&s->e->model, uint16_t, (int64_t)BATCH * BLOCK);
    for (int i = 0; i < s->n_specs; i++) {
        int64_t n = tensor_spec_count(&s->spec[i]);
        for (int64_t first = 0; first < n; first += BLOCK) {
            int64_t rest = n - first;
            s->batch[n_batch] = (Block16){&s->spec[i], i, first, rest < BLOCK ? rest : BLOCK,
                                          s->memory + (int64_t)n_batch * BLOCK};
            if (++n_batch == BATCH) {
                flush(s, BATCH);
                n_batch = 0;
            }
        }
    }
    if (n_batch > 0) {
        flush(s, n_batch);
    }
}

static void write_body(Env *e, void *arg)
{
    Synth *s = arg;
    write_header(s);
    make_draws(s);
    write_data(s);
    if (os.fsync(s->fd) < 0) {
        fail(e, E_IO, "%s: %s.", s->path, strerror(errno));
    }
}

/* Writes beside path and renames: what is there under this name is always complete. */
static void write_model(Env *e, Synth *s)
{
    const char *part = arena_printf(&e->kernel, "%s.part", s->path);
    s->fd = os.open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (s->fd < 0) {
        fail(e, E_IO, "%s: %s.", part, strerror(errno));
    }
    bool ok = env_try(e, write_body, s);
    if (os.close(s->fd) < 0 && ok) {
        ok = err_set(&e->err, E_IO, "%s: %s.", part, strerror(errno));
    }
    if (ok && os.rename(part, s->path) < 0) {
        ok = err_set(&e->err, E_IO, "%s cannot be renamed to %s: %s.", part, s->path,
                     strerror(errno));
    }
    if (!ok) {
        Err err = e->err;
        os.unlink(part);
        fail_err(e, &err);
    }
}

/* ---- the folder -------------------------------------------------------------------- */

/* config.json, and what lies beside it that a model folder has, where it has it. */
static void copy_texts(Env *e, const char *config_file, const char *dir)
{
    static const char *const names[] = {"config.json", "generation_config.json",
                                        "tokenizer.json", "tokenizer_config.json"};
    const char *slash = strrchr(config_file, '/');
    int n_folder = slash ? (int)(slash + 1 - config_file) : 0;
    for (size_t i = 0; i < countof(names); i++) {
        const char *from =
            i == 0 ? config_file
                   : arena_printf(&e->kernel, "%.*s%s", n_folder, config_file, names[i]);
        const char *to = arena_printf(&e->kernel, "%s/%s", dir, names[i]);
        char *text;
        size_t len;
        Err err;
        struct stat st;
        if (i > 0 && os.stat(from, &st) < 0) {
            continue;
        }
        if (!os_read_file(&e->kernel, from, MAX_COPY_BYTES, &text, &len, &err) ||
            !os_write_file(to, text, len, &err)) {
            fail_err(e, &err);
        }
    }
}

void synth_write(Env *e, const char *config, const char *dir, uint64_t seed, int n_threads,
                 LoadProgress *progress, void *ctx)
{
    Config c = config_read(e, config);
    Err err;
    if (!os_mkdirs(dir, &err)) {
        fail_err(e, &err);
    }
    Synth s = {.e = e, .seed = seed, .n_threads = n_threads, .progress = progress, .ctx = ctx};
    s.spec = config_tensors(e, &c, &s.n_specs);
    s.path = arena_printf(&e->model, "%s/model.safetensors", dir);
    copy_texts(e, c.path, dir);
    write_model(e, &s);
}
