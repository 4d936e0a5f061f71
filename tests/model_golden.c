/* model_golden.c - the interpreted graph of real, trained models against logits that another
 * framework computed in double precision: weights, builder and interpreter together. */
#include "tests/model_util.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

typedef struct Model {
    Env e;
    const char *dir;
    Config c;
    Weights w;
    Graph *g;
} Model;

static void open_body(Env *e, void *arg)
{
    Model *m = arg;
    m->c = config_read(e, m->dir);
    weights_load(e, &m->w, &m->c, m->dir, 2, NULL, NULL);
    m->g = qwen2_build(e, &m->c, -1, false);
}

static void model_open(Model *m, const char *dir)
{
    *m = (Model){.dir = dir};
    env_init(&m->e);
    must_work(&m->e, open_body, m);
}

static void model_close(Model *m)
{
    weights_release(&m->w);
    env_release(&m->e);
}

/* Logits [n, vocab] of a prompt without a past. */
static const float *logits_of(Model *m, int64_t *ids, int64_t n)
{
    Tensor cache = {DT_F32, 4, {m->c.n_layers, m->c.n_kv_heads, 0, m->c.head_dim}, ids};
    NamedTensor input[] = {
        {"token_ids", {DT_I64, 1, {n}, ids}}, {"past_keys", cache}, {"past_values", cache}};
    Args args = {input, 3, m->w.tensor, m->w.n};
    Tensor out[3];
    Err err;
    cr_assert(graph_interpret(m->g, &args, NULL, &m->e.model, out, &err), "%s", err.text);
    cr_assert_eq(out[0].dim[0], n);
    cr_assert_eq(out[0].dim[1], m->c.vocab_size);
    return out[0].data;
}

/* The largest difference; and no NaN. */
static double worst(const float *a, const float *b, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        cr_assert_not(isnan(d));
        most = d > most ? d : most;
    }
    return most;
}

static int64_t argmax(const float *row, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

static int64_t *ids_of(Env *e, json_t *list, int64_t *n)
{
    *n = (int64_t)json_array_size(list);
    int64_t *ids = arena_array(&e->model, int64_t, *n);
    for (int64_t i = 0; i < *n; i++) {
        ids[i] = json_integer_value(json_array_get(list, (size_t)i));
    }
    return ids;
}

static const float *read_floats(Env *e, const char *dir, const char *name)
{
    Err err;
    char *bytes;
    size_t len;
    const char *path = arena_printf(&e->model, "%s/%s", dir, name);
    cr_assert(os_read_file(&e->model, path, 1u << 28, &bytes, &len, &err), "%s", err.text);
    return (const float *)bytes;
}

static json_t *read_golden(Env *e, const char *dir)
{
    json_t *golden = json_load_file(arena_printf(&e->model, "%s/golden.json", dir), 0, NULL);
    cr_assert(golden, "%s has no golden.json", dir);
    return golden;
}

Test(model_golden, tiny_qwen2_logits_of_every_position)
{
    Model m;
    model_open(&m, "tests/data/tiny-qwen2");
    json_t *golden = read_golden(&m.e, m.dir), *one;
    const float *all = read_floats(&m.e, m.dir, "golden_logits.f32");
    size_t i;
    json_array_foreach (json_object_get(golden, "cases"), i, one) {
        int64_t n, n_vocab = m.c.vocab_size;
        int64_t *ids = ids_of(&m.e, json_object_get(one, "ids"), &n);
        const float *want =
            all + json_integer_value(json_object_get(one, "logits_offset_floats"));
        const float *got = logits_of(&m, ids, n);
        double d = worst(got, want, n * n_vocab);
        cr_assert_lt(d, 2e-4, "case %zu differs by %g", i, d);
        int64_t first = json_integer_value(json_array_get(json_object_get(one, "greedy"), 0));
        cr_assert_eq(argmax(got + (n - 1) * n_vocab, n_vocab), first);
    }
    cr_assert_eq(i, 5);
    json_decref(golden);
    model_close(&m);
}

/* All 256 (or 201) ids at once: row i must predict id i + 1. */
static void stories(const char *rel)
{
    char dir[PATH_MAX];
    need_shared(rel, dir);
    Model m;
    model_open(&m, dir);
    json_t *golden = read_golden(&m.e, dir);
    int64_t n, n_vocab = m.c.vocab_size;
    int64_t *ids = ids_of(&m.e, json_object_get(golden, "greedy_ids"), &n);
    const float *got = logits_of(&m, ids, n);
    double d = worst(got, read_floats(&m.e, dir, "golden_logits.f32"), n * n_vocab);
    cr_assert_lt(d, 1e-3, "logits differ by %g", d);
    for (int64_t i = 0; i + 1 < n; i++) {
        cr_assert_eq(argmax(got + i * n_vocab, n_vocab), ids[i + 1], "token %d", (int)i + 1);
    }
    json_decref(golden);
    model_close(&m);
}

Test(model_golden, stories260k_qwen2_f32)
{
    stories("data/stories260K/qwen2-f32");
}

Test(model_golden, stories260k_qwen2_bf16)
{
    stories("data/stories260K/qwen2-bf16");
}

Test(model_golden, stories260k_qwen2_with_biases)
{
    stories("data/stories260K/qwen2-bias-bf16");
}

Test(model_golden, stories260k_llama_f32)
{
    stories("data/stories260K/llama-f32");
}
