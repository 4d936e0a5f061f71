/* engine_reference.c - the compiled model against the same model in double precision,
 * written another way (engine_double.c): long prompts, odd shapes, and every silent bug that
 * is known. spec: lessons 4, CASES 1, 3, 5 and 7 */
#include "tests/engine_double.h"
#include "tests/engine_util.h"
#include "tests/model_util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(engine_reference, .timeout = 600);

static double off_by(const float *got, const double *want, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - want[i]);
        cr_assert_not(isnan(d));
        most = fmax(most, d);
    }
    return most;
}

/* ---- the trained model, behind prompts that are long --------------------------------- */

Test(engine_reference, every_row_of_a_prompt_of_300_tokens)
{
    enum { N = 300 };
    TestModel m;
    test_model_open(&m, TINY);
    Ids ids = heldout_ids(&m.e, N);
    const double *want = double_logits(&m.e.model, &m.c, m.w.tensor, ids.at, N, NO_MISTAKE);
    for (int i = 0; i < 2; i++) {
        Engine *g = i ? scheduled_engine(&m) : test_engine(&m, BY_C, 0);
        double d = off_by(must_feed(g, ids.at, N, true), want, N * m.c.vocab_size);
        cr_assert_lt(d, 2e-4, "%s C is off by %g", i ? "scheduled" : "naive", d);
        engine_free(g);
    }
    test_model_close(&m);
}

/* CASES 1: what a default of 10000 does to this model. It still speaks, but says other
 * things. */
Test(engine_reference, the_rope_theta_of_the_config_reaches_the_numbers)
{
    enum { N = 200 };
    TestModel m;
    test_model_open(&m, TINY);
    Engine *right = test_engine(&m, BY_C, 0);
    m.c.rope_theta = 10000;
    Engine *wrong = test_engine(&m, BY_C, 0);
    Ids ids = heldout_ids(&m.e, N);
    const float *a = must_feed(right, ids.at, N, true), *b = must_feed(wrong, ids.at, N, true);
    int n_flipped = 0;
    for (int i = 0; i < N; i++) {
        int64_t row = i * m.c.vocab_size;
        n_flipped += row_argmax(a + row, m.c.vocab_size) != row_argmax(b + row, m.c.vocab_size);
    }
    cr_assert_gt(n_flipped, N / 4, "only %d of %d tokens are others", n_flipped, N);
    engine_free(right);
    engine_free(wrong);
    test_model_close(&m);
}

static Config config_without(Env *e, const char *path, const char *const *keys)
{
    json_t *root = json_load_file(path, 0, NULL);
    for (int i = 0; keys[i]; i++) {
        cr_assert_eq(json_object_del(root, keys[i]), 0, "%s is not there to take away",
                     keys[i]);
    }
    char *text = json_dumps(root, 0);
    Config c = config_of(e, text);
    free(text);
    json_decref(root);
    return c;
}

/* CASES 3: keys of a sliding window that is not in use change no bit, behind 300 tokens
 * either. */
Test(engine_reference, a_sliding_window_not_in_use_changes_no_bit)
{
    enum { N = 300 };
    static const char *const keys[] = {"sliding_window", "use_sliding_window",
                                       "max_window_layers", NULL};
    TestModel m;
    test_model_open(&m, TINY);
    Engine *with = test_engine(&m, BY_C, 0);
    m.c = config_without(&m.e, TINY "/config.json", keys);
    Engine *without = test_engine(&m, BY_C, 0);
    Ids ids = heldout_ids(&m.e, N);
    size_t bytes = (size_t)(N * m.c.vocab_size) * sizeof(float);
    const float *a = must_feed(with, ids.at, N, true), *b = must_feed(without, ids.at, N, true);
    cr_assert_eq(memcmp(a, b, bytes), 0);
    engine_free(with);
    engine_free(without);
    test_model_close(&m);
}

/* ---- odd shapes, with weights in which every part matters ---------------------------- */

typedef struct Case {
    const char *name, *config;
} Case;

#define BASE                                                                      \
    "\"hidden_act\": \"silu\", \"rope_theta\": 500.0, \"num_hidden_layers\": 2, " \
    "\"vocab_size\": 17,"
#define QWEN2 "{\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\"," BASE
#define LLAMA "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\"," BASE

static const Case cases[] = {
    {"three query heads a group, tied", QWEN2
     "\"hidden_size\": 24, \"intermediate_size\": 13, \"num_attention_heads\": 6,"
     "\"num_key_value_heads\": 2, \"rms_norm_eps\": 0.05, \"tie_word_embeddings\": true}"},
    {"explicit head_dim, untied",
     QWEN2 "\"hidden_size\": 19, \"intermediate_size\": 31, \"num_attention_heads\": 4,"
           "\"num_key_value_heads\": 2, \"head_dim\": 6, \"rms_norm_eps\": 0.05,"
           "\"tie_word_embeddings\": false}"},
    {"one kv head", QWEN2
     "\"hidden_size\": 20, \"intermediate_size\": 16, \"num_attention_heads\": 5,"
     "\"num_key_value_heads\": 1, \"rms_norm_eps\": 0.05, \"tie_word_embeddings\": true}"},
    {"a kv head for each",
     QWEN2 "\"hidden_size\": 12, \"intermediate_size\": 7, \"num_attention_heads\": 3,"
           "\"rms_norm_eps\": 0.05, \"tie_word_embeddings\": true}"},
    {"llama, untied, explicit head_dim",
     LLAMA "\"hidden_size\": 15, \"intermediate_size\": 11, \"num_attention_heads\": 6,"
           "\"num_key_value_heads\": 3, \"head_dim\": 4, \"rms_norm_eps\": 0.05}"},
};

/* Gains around 1, biases that count, matrices that keep the scale. */
static void random_weights(TestModel *m, uint64_t seed)
{
    Rng r;
    int n;
    TensorSpec *spec = config_tensors(&m->e, &m->c, &n);
    rng_seed(&r, seed);
    m->w = (Weights){.tensor = arena_array(&m->e.model, NamedTensor, n), .n = n};
    for (int i = 0; i < n; i++) {
        bool gain = strstr(spec[i].name, "norm");
        double scale = spec[i].rank == 1 ? 0.4 : 1.5 / sqrt((double)spec[i].dim[1]);
        Tensor t = tensor_new(&m->e, &m->e.model, DT_F32, spec[i].rank, spec[i].dim);
        for (int64_t k = 0; k < tensor_count(&t); k++) {
            ((float *)t.data)[k] = (float)(gain + scale * rng_normal(&r));
        }
        m->w.tensor[i] = (NamedTensor){spec[i].name, t};
    }
}

typedef struct Odd {
    TestModel m;
    int32_t ids[40];
    Engine *g;
} Odd;

static void odd_open(Odd *o, const Case *c, bool scheduled)
{
    Rng r;
    test_model_open(&o->m, TINY); /* the caches' place; its weights are replaced */
    weights_release(&o->m.w);
    o->m.c = config_of(&o->m.e, c->config);
    random_weights(&o->m, 11);
    rng_seed(&r, 12);
    for (size_t i = 0; i < countof(o->ids); i++) {
        o->ids[i] = (int32_t)rng_below(&r, 17);
    }
    o->g = scheduled ? scheduled_engine(&o->m) : test_engine(&o->m, BY_C, 0);
}

static void odd_close(Odd *o)
{
    engine_free(o->g);
    test_model_close(&o->m);
}

static void in_ragged_pieces(const Case *c, bool scheduled)
{
    static const int piece[] = {1, 13, 2, 1, 23};
    Odd o;
    odd_open(&o, c, scheduled);
    const double *want =
        double_logits(&o.m.e.model, &o.m.c, o.m.w.tensor, o.ids, countof(o.ids), NO_MISTAKE);
    for (int i = 0, at = 0; i < (int)countof(piece); at += piece[i++]) {
        const float *got = must_feed(o.g, o.ids + at, piece[i], true);
        double d = off_by(got, want + at * 17, piece[i] * 17);
        cr_assert_lt(d, 5e-5, "%s, at %d: off by %g", c->name, at, d);
    }
    odd_close(&o);
}

Test(engine_reference, odd_shapes_in_ragged_pieces_by_naive_c)
{
    for (size_t i = 0; i < countof(cases); i++) {
        in_ragged_pieces(&cases[i], false);
    }
}

Test(engine_reference, odd_shapes_in_ragged_pieces_by_scheduled_c)
{
    for (size_t i = 0; i < countof(cases); i++) {
        in_ragged_pieces(&cases[i], true);
    }
}

/* The comparison above has teeth: a model with any of the mistakes is another one. */
Test(engine_reference, every_known_mistake_would_be_seen)
{
    Odd o;
    odd_open(&o, &cases[0], false);
    int n = countof(o.ids);
    const float *got = must_feed(o.g, o.ids, n, true);
    for (Mistake mistake = NO_MISTAKE + 1; mistake < N_MISTAKES; mistake++) {
        const double *wrong =
            double_logits(&o.m.e.model, &o.m.c, o.m.w.tensor, o.ids, n, mistake);
        double d = off_by(got, wrong, n * 17);
        if (mistake ==
            ROPE_STARTS_AT_1) { /* rotary positions are relative: no difference at all */
            cr_assert_lt(d, 5e-5, "off by %g", d);
        } else {
            cr_assert_gt(d, 0.02, "mistake %d is off by %g only", mistake, d);
        }
    }
    odd_close(&o);
}
