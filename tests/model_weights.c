/* model_weights.c - weights against the config: heads (CASES 4), widening, what is listed. */
#include "tests/fault.h"
#include "tests/model_util.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a checkpoint made from the expected list -------------------------------------- */

typedef struct Extra { /* one more tensor, or another one in place of an expected one */
    const char *name, *dtype, *shape;
    const float *value; /* F32 data, or NULL: zeros */
    int n;              /* elements */
} Extra;

typedef struct Made {
    Env e;
    TempDir d;
    Config c;
    Weights w;
} Made;

static void put(Buf *header, Buf *data, const char *name, const char *dtype, const char *shape,
                const float *value, int n)
{
    size_t begin = data->len;
    for (int i = 0; i < n; i++) {
        float v = value ? value[i] : 0;
        buf_bytes(data, &v, sizeof v);
    }
    buf_printf(header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
               header->len > 1 ? "," : "", name, dtype, shape, begin, data->len);
}

/* Element i of a tensor: depends on its place in the list, so that mix-ups show. */
static float element(int tensor, int64_t i)
{
    return (float)tensor + (float)(i % 13) / 16;
}

/* The folder of a config: its expected tensors in F32 but for skip, and an extra one. */
static void make(Made *m, const char *text, const char *skip, const Extra *extra)
{
    env_init(&m->e);
    m->d = temp_dir();
    m->c = config_of(&m->e, text);
    write_text(temp_path(&m->d, "config.json"), text);
    Buf header, data;
    buf_init(&header, &m->e.model);
    buf_init(&data, &m->e.model);
    buf_char(&header, '{');
    int n;
    TensorSpec *spec = config_tensors(&m->e, &m->c, &n);
    for (int i = 0; i < n; i++) {
        char shape[48];
        float value[4096];
        int64_t count = tensor_spec_count(&spec[i]);
        cr_assert_leq(count, 4096);
        for (int64_t k = 0; k < count; k++) {
            value[k] = element(i, k);
        }
        snprintf(shape, sizeof shape, spec[i].rank == 1 ? "[%d]" : "[%d,%d]",
                 (int)spec[i].dim[0], (int)spec[i].dim[1]);
        if (!skip || strcmp(skip, spec[i].name) != 0) {
            put(&header, &data, spec[i].name, "F32", shape, value, (int)count);
        }
    }
    if (extra) {
        put(&header, &data, extra->name, extra->dtype, extra->shape, extra->value, extra->n);
    }
    buf_char(&header, '}');
    while (header.len % 8) {
        buf_char(&header, ' ');
    }
    write_tensors(temp_path(&m->d, "model.safetensors"), header.at, data.at, data.len);
}

static void load_body(Env *e, void *arg)
{
    Made *m = arg;
    weights_load(e, &m->w, &m->c, m->d.path, 2, NULL, NULL);
}

static void unmake(Made *m)
{
    weights_release(&m->w);
    temp_remove(&m->d);
    env_release(&m->e);
}

static void load_refused(const char *text, const char *skip, const Extra *extra,
                         const char *words)
{
    Made m = {0};
    make(&m, text, skip, extra);
    must_fail(&m.e, load_body, &m, E_INPUT, words);
    cr_assert_null(m.w.memory);
    cr_assert_eq(m.w.file.shards.n, 0);
    unmake(&m);
}

/* ---- what fits and what does not --------------------------------------------------- */

Test(model_weights, aligned_f32_is_used_in_place)
{
    Made m = {0};
    make(&m, config_text(NULL), NULL, NULL);
    must_work(&m.e, load_body, &m);
    cr_assert_eq(m.w.n, 26);
    cr_assert_null(m.w.memory);
    cr_assert_null(m.w.note);
    cr_assert_eq(m.w.f32_bytes, 4 * (size_t)config_parameters(&m.c));
    for (int i = 0; i < m.w.n; i++) {
        const Tensor *t = &m.w.tensor[i].t;
        cr_assert_eq((const void *)t->data, (const void *)m.w.source[i]->data);
        for (int64_t k = 0; k < tensor_count(t); k++) {
            cr_assert_eq(((float *)t->data)[k], element(i, k));
        }
    }
    unmake(&m);
}

Test(model_weights, missing_unexpected_and_misshapen_are_all_listed)
{
    Extra extra = {"model.layers.0.mlp.up_proj.weight", "F32", "[16,32]", NULL, 512};
    const char *text = config_text(NULL), *gone = "model.layers.0.mlp.up_proj.weight";
    load_refused(
        text, gone, &extra,
        "0 tensors missing, 0 unexpected, 1 of another shape or dtype: "
        "misshapen: \"model.layers.0.mlp.up_proj.weight\" F32[16, 32], expected F32, F16 or "
        "BF16 [32, 16]");
    extra.name = "model.other";
    load_refused(text, gone, &extra, "1 tensors missing, 1 unexpected, 0 of another");
    load_refused(text, gone, &extra,
                 "missing: model.layers.0.mlp.up_proj.weight [32, 16]; "
                 "unexpected: \"model.other\" F32[16, 32]");
}

Test(model_weights, other_dtypes_are_refused_by_name)
{
    Extra extra = {"model.norm.weight", "I32", "[16]", NULL, 16};
    load_refused(config_text(NULL), "model.norm.weight", &extra,
                 "dtype not supported: \"model.norm.weight\" I32[16]");
}

Test(model_weights, a_whole_other_model_is_reported_a_line_each)
{
    Made m = {0};
    make(&m, config_text(NULL), NULL, NULL);
    Config other =
        config_of(&m.e, config_text("num_hidden_layers", "3", "vocab_size", "65", NULL));
    Checkpoint ck;
    checkpoint_open(&m.e, &ck, m.d.path);
    Match match;
    weights_match(&m.e, &other, &ck, &match);
    cr_assert_eq(match.n_missing, 12);
    cr_assert_eq(match.n_unfit, 1);
    cr_assert_eq(match.n_unexpected, 0);
    int n_lines = 0;
    for (const char *s = match.report; (s = strchr(s, '\n')); s++) {
        n_lines++;
    }
    cr_assert_eq(n_lines, 13);
    checkpoint_release(&ck);
    unmake(&m);
}

Test(model_weights, buffers_of_old_llama_files_are_no_weights)
{
    Extra extra = {"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", "[2]", NULL, 2};
    Made m = {0};
    make(&m, config_text(NULL), NULL, &extra);
    must_work(&m.e, load_body, &m);
    unmake(&m);
}

/* ---- heads (CASES 4) --------------------------------------------------------------- */

Test(model_weights, a_tied_model_may_carry_an_equal_head_and_says_so)
{
    float head[1024];
    for (int i = 0; i < 1024; i++) {
        head[i] = element(0, i);
    }
    Extra extra = {"lm_head.weight", "F32", "[64,16]", head, 1024};
    Made m = {0};
    make(&m, config_text(NULL), NULL, &extra);
    must_work(&m.e, load_body, &m);
    cr_assert_eq(m.w.n, 26);
    cr_assert(m.w.note && strstr(m.w.note, "lm_head.weight equals the embedding"), "%s",
              m.w.note);
    cr_assert_not(strchr(m.w.note, '\n'));
    unmake(&m);
    head[1023] += 1;
    load_refused(
        config_text(NULL), NULL, &extra,
        "lm_head.weight differs from the embedding, but \"tie_word_embeddings\" is true");
}

Test(model_weights, an_untied_model_without_head_is_refused_with_the_remedy)
{
    static const char *const ties[] = {"false", NULL};
    for (size_t i = 0; i < countof(ties); i++) {
        load_refused(config_text("tie_word_embeddings", ties[i], NULL), "lm_head.weight", NULL,
                     "lm_head.weight is missing");
        load_refused(config_text("tie_word_embeddings", ties[i], NULL), "lm_head.weight", NULL,
                     "set \"tie_word_embeddings\": true");
    }
}

/* ---- widening ---------------------------------------------------------------------- */

/* Every 16-bit pattern, as one tensor of that dtype at an odd address. */
static float *widened(Env *e, const char *dtype, const TempDir *d)
{
    enum { N = 1 << 16 };
    const char *path = temp_path(d, "x.safetensors");
    static uint8_t data[2 * N + 1];
    char header[256];
    for (int i = 0; i < N; i++) {
        uint16_t h = (uint16_t)i;
        memcpy(data + 1 + 2 * i, &h, 2);
    }
    snprintf(header, sizeof header,
             "{\"pad\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
             "\"a\":{\"dtype\":\"%s\",\"shape\":[65536],\"data_offsets\":[1,131073]}} ",
             dtype);
    write_tensors(path, header, data, sizeof data);
    Checkpoint ck;
    checkpoint_open(e, &ck, path);
    const FileTensor *t = checkpoint_find(&ck, "a");
    float *out = arena_array(&e->model, float, N);
    file_tensor_widen(t, 0, N, out);
    checkpoint_release(&ck);
    return out;
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

Test(model_weights, every_bf16_is_widened_to_the_same_bits)
{
    Env e;
    env_init(&e);
    TempDir d = temp_dir();
    const float *v = widened(&e, "BF16", &d);
    for (uint32_t i = 0; i < 1 << 16; i++) {
        cr_assert_eq(bits_of(v[i]), i << 16);
    }
    temp_remove(&d);
    env_release(&e);
}

/* The value by definition: sign, 2^(exponent - 15), ten bits of fraction. */
static double half_value(uint32_t h)
{
    int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
    double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                       : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                      : ldexp(fraction, -24);
    return h >> 15 ? -magnitude : magnitude;
}

Test(model_weights, every_f16_is_widened_to_its_value)
{
    Env e;
    env_init(&e);
    TempDir d = temp_dir();
    const float *v = widened(&e, "F16", &d);
    for (uint32_t i = 0; i < 1 << 16; i++) {
        double want = half_value(i);
        cr_assert(isnan(want) ? isnan(v[i]) : v[i] == want, "%04x: %g, not %g", i, v[i], want);
        cr_assert_eq(signbit(v[i]) != 0, i >> 15 == 1);
    }
    temp_remove(&d);
    env_release(&e);
}

typedef struct Ticks {
    int n;
    int64_t last, total;
} Ticks;

static void count_ticks(void *ctx, int64_t done, int64_t total)
{
    Ticks *t = ctx;
    cr_assert_geq(done, t->last);
    *t = (Ticks){t->n + 1, done, total};
}

typedef struct Tiny {
    Config c;
    Weights w;
    Ticks ticks;
    int n_threads;
    bool keep;
} Tiny;

static void load_tiny(Env *e, void *arg)
{
    Tiny *t = arg;
    t->c = config_read(e, "tests/data/tiny-qwen2");
    (t->keep ? weights_keep : weights_load)(e, &t->w, &t->c, "tests/data/tiny-qwen2",
                                            t->n_threads, count_ticks, &t->ticks);
}

Test(model_weights, bf16_weights_are_widened_and_their_source_stays_known)
{
    Env e;
    env_init(&e);
    Tiny t = {.n_threads = 3};
    must_work(&e, load_tiny, &t);
    cr_assert_eq(t.w.n, 50);
    cr_assert_eq(t.w.f32_bytes, 4 * 2124896);
    cr_assert_geq(t.w.memory_bytes, t.w.f32_bytes);
    for (int i = 0; i < t.w.n; i++) {
        const Tensor *x = &t.w.tensor[i].t;
        cr_assert_eq(t.w.source[i]->dtype, FD_BF16);
        cr_assert_eq((uintptr_t)x->data % 64, 0);
        for (int64_t k = 0; k < tensor_count(x); k++) {
            uint16_t h;
            memcpy(&h, t.w.source[i]->data + 2 * k, 2);
            cr_assert_eq(bits_of(((float *)x->data)[k]), (uint32_t)h << 16);
        }
    }
    weights_release(&t.w);
    env_release(&e);
}

Test(model_weights, progress_ends_at_the_total)
{
    Env e;
    env_init(&e);
    Tiny t = {.n_threads = 1};
    must_work(&e, load_tiny, &t);
    cr_assert_gt(t.ticks.n, 1);
    cr_assert_eq(t.ticks.last, t.ticks.total);
    cr_assert_eq(t.ticks.total, (int64_t)t.w.memory_bytes);
    weights_release(&t.w);
    env_release(&e);
}

/* ---- memory ------------------------------------------------------------------------------ */

/* A line of /proc/self/status in bytes. */
static double status_bytes(const char *name)
{
    char line[256];
    double kilobytes = -1;
    FILE *f = fopen("/proc/self/status", "r");
    cr_assert(f);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            kilobytes = atof(line + strlen(name) + 1);
        }
    }
    fclose(f);
    return kilobytes * 1024;
}

typedef struct Big {
    const char *config, *dir;
    bool keep;
    Config c;
    Weights w;
} Big;

static void make_big(Env *e, void *arg)
{
    Big *b = arg;
    synth_write(e, b->config, b->dir, 1, 2, NULL, NULL);
    b->c = config_read(e, b->dir);
}

static void load_big(Env *e, void *arg)
{
    Big *b = arg;
    (b->keep ? weights_keep : weights_load)(e, &b->w, &b->c, b->dir, 2, NULL, NULL);
}

/* Keeping the file's pages would make it 1.5, or 2. */
static void check_peak(bool keep)
{
    Env e, before;
    env_init(&e);
    env_init(&before);
    TempDir d = temp_dir();
    write_text(temp_path(&d, "config.json"),
               config_text("hidden_size", "512", "intermediate_size", "2048",
                           "num_hidden_layers", "6", "vocab_size", "20000", NULL));
    Big b = {.config = temp_path(&d, "config.json"), .dir = temp_path(&d, "m"), .keep = keep};
    must_work(&before, make_big, &b);
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f || fputs("5", f) < 0 || fclose(f) != 0) {
        cr_skip_test("the peak of the memory cannot be reset here");
    }
    double start = status_bytes("VmRSS:");
    must_work(&e, load_big, &b);
    double grown = status_bytes("VmHWM:") - start;
    double weights = (double)(keep ? b.w.bf16_bytes : b.w.f32_bytes);
    cr_assert_gt(weights, keep ? 60e6 : 120e6);
    cr_assert(grown > weights && grown < 1.15 * weights, "%g times the weights",
              grown / weights);
    weights_release(&b.w);
    env_release(&before);
    env_release(&e);
    temp_remove(&d);
}

Test(model_weights, peak_memory_is_the_f32_weights_and_at_most_15_percent)
{
    check_peak(false);
}

Test(model_weights, peak_memory_of_what_is_kept_is_half_of_that)
{
    check_peak(true);
}

/* ---- faults ------------------------------------------------------------------------ */

static bool load_once(void *ctx, Err *err)
{
    const bool *keep = ctx;
    Env e;
    env_init(&e);
    Tiny t = {.n_threads = 2, .keep = keep != NULL};
    bool loaded = env_try(&e, load_tiny, &t), ok = loaded && weights_widen(&t.w, 0, err);
    if (!loaded) {
        *err = e.err;
    }
    if (loaded) {
        weights_release(&t.w);
    } else {
        *err = e.err;
    }
    env_release(&e);
    return ok;
}

Test(model_weights, a_call_that_fails_is_reported_and_leaves_nothing_open)
{
    static const char *const calls[] = {"open", "fstat",   "stat",   "mmap",
                                        "read", "madvise", "munmap", "alloc"};
    for (size_t i = 0; i < countof(calls); i++) {
        cr_assert_gt(fault_loop(calls[i], load_once, NULL), 0, "%s is not called", calls[i]);
        cr_assert_gt(fault_loop(calls[i], load_once, &(bool){true}), 0);
    }
}
