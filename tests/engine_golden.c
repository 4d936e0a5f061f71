/* engine_golden.c - trained models against what another framework computed in double
 * precision: logits of every position, greedy tokens, text and perplexity, by every way to
 * run a model. (model_golden.c has the interpreter's logits.) spec: data/README, lessons 4 */
#include "tests/compile_util.h"
#include "tests/engine_util.h"

#include <math.h>
#include <string.h>

TestSuite(engine_golden, .timeout = 600);

typedef struct HowTo {
    const char *name;
    EngineWay way;
    unsigned without;
    bool scheduled;
    int n_tokens; /* greedy, of each golden prompt; the nest interpreter takes its time */
} HowTo;

static const HowTo scheduled_c = {"scheduled C", BY_C, 0, true, 48};
static const HowTo fused_c = {"fused C", BY_C, 0, false, 48};
static const HowTo unfused_c = {"unfused C", BY_C, ALL_STAGES, false, 48};
static const HowTo interpreter = {"graph interpreter", BY_INTERP, 0, false, 48};
static const HowTo fused_nests = {"fused nests", BY_NEST, 0, false, 12};
static const HowTo unfused_nests = {"unfused nests", BY_NEST, ALL_STAGES, false, 4};
static const HowTo *const in_c[] = {&scheduled_c, &fused_c, &unfused_c};

static Engine *engine_for(TestModel *m, const HowTo *how)
{
    return how->scheduled ? scheduled_engine(m) : test_engine(m, how->way, how->without);
}

/* ---- tiny-qwen2 ---------------------------------------------------------------------- */

static void logits_of_every_position(const HowTo *how)
{
    TestModel m;
    test_model_open(&m, TINY);
    Engine *g = engine_for(&m, how);
    json_t *golden = golden_json(&m.e, TINY), *one;
    const float *want = golden_floats(&m.e, TINY);
    size_t i;
    json_array_foreach (json_object_get(golden, "cases"), i, one) {
        Ids ids = ids_of(&m.e, json_object_get(one, "ids"));
        engine_stepper(g)->restart(engine_stepper(g));
        const float *got = must_feed(g, ids.at, ids.n, true);
        double d = worst_difference(
            got, want + json_integer_value(json_object_get(one, "logits_offset_floats")),
            ids.n * m.c.vocab_size);
        cr_assert_lt(d, 2e-4, "%s, case %zu: off by %g", how->name, i, d);
    }
    cr_assert_eq(i, 5);
    json_decref(golden);
    engine_free(g);
    test_model_close(&m);
}

Test(engine_golden, tiny_logits_of_every_position_by_scheduled_c)
{
    logits_of_every_position(&scheduled_c);
}

Test(engine_golden, tiny_logits_of_every_position_by_fused_c)
{
    logits_of_every_position(&fused_c);
}

Test(engine_golden, tiny_logits_of_every_position_by_unfused_c)
{
    logits_of_every_position(&unfused_c);
}

Test(engine_golden, tiny_logits_of_every_position_by_fused_nests)
{
    logits_of_every_position(&fused_nests);
}

static void greedy_tokens(const HowTo *how)
{
    TestModel m;
    test_model_open(&m, TINY);
    Engine *g = engine_for(&m, how);
    json_t *golden = golden_json(&m.e, TINY), *one;
    size_t i;
    json_array_foreach (json_object_get(golden, "cases"), i, one) {
        Ids prompt = ids_of(&m.e, json_object_get(one, "ids"));
        Ids want = ids_of(&m.e, json_object_get(one, "greedy"));
        cr_assert_eq(want.n, 48);
        want.n = how->n_tokens;
        Ids got = greedy(&m.e, g, &prompt, how->n_tokens);
        ids_must_equal(&m.e, &got, &want, how->name);
    }
    json_decref(golden);
    engine_free(g);
    test_model_close(&m);
}

Test(engine_golden, tiny_greedy_tokens_by_scheduled_c)
{
    greedy_tokens(&scheduled_c);
}

Test(engine_golden, tiny_greedy_tokens_by_fused_c)
{
    greedy_tokens(&fused_c);
}

Test(engine_golden, tiny_greedy_tokens_by_unfused_c)
{
    greedy_tokens(&unfused_c);
}

Test(engine_golden, tiny_greedy_tokens_by_the_graph_interpreter)
{
    greedy_tokens(&interpreter);
}

Test(engine_golden, tiny_greedy_tokens_by_fused_nests)
{
    greedy_tokens(&fused_nests);
}

Test(engine_golden, tiny_greedy_tokens_by_unfused_nests)
{
    greedy_tokens(&unfused_nests);
}

static void text_body(Env *e, void *arg)
{
    TestModel *m = arg;
    Tokenizer *t = tokenizer_load(e, m->dir, m->c.vocab_size);
    Engine *g = test_engine(m, BY_C, 0);
    json_t *golden = golden_json(e, m->dir), *one;
    size_t i;
    json_array_foreach (json_object_get(golden, "cases"), i, one) {
        const char *prompt = json_string_value(json_object_get(one, "prompt"));
        Ids all = {.arena = &e->model};
        Buf text;
        tokenizer_encode(t, prompt, strlen(prompt), false, &all);
        Ids made = greedy(e, g, &all, 48);
        for (int k = 0; k < made.n; k++) {
            *vec_push(all.arena, &all) = made.at[k];
        }
        buf_init(&text, &e->model);
        tokenizer_decode(t, all.at, all.n, false, &text);
        cr_assert_str_eq(text.at, json_string_value(json_object_get(one, "text")));
    }
    json_decref(golden);
    engine_free(g);
    tokenizer_release(t);
}

Test(engine_golden, tiny_text_from_prompt_to_text)
{
    TestModel m;
    test_model_open(&m, TINY);
    must_work(&m.e, text_body, &m);
    test_model_close(&m);
}

Test(engine_golden, tiny_perplexity_of_the_held_out_text)
{
    TestModel m;
    test_model_open(&m, TINY);
    Ids ids = heldout_ids(&m.e, 685);
    json_t *golden = golden_json(&m.e, TINY), *want = json_object_get(golden, "perplexity");
    for (size_t i = 0; i < countof(in_c); i++) {
        Engine *g = engine_for(&m, in_c[i]);
        Perplexity p;
        Err err;
        cr_assert(perplexity(engine_stepper(g), ids.at, ids.n, 128, &p, &err), "%s", err.text);
        double ppl = json_real_value(json_object_get(want, "ppl"));
        cr_assert_eq(p.n_scored, json_integer_value(json_object_get(want, "scored")));
        cr_assert_eq(p.n_chunks, 6);
        cr_assert_lt(fabs(p.perplexity / ppl - 1), 1e-3, "%.10g instead of %.10g", p.perplexity,
                     ppl);
        cr_assert_float_eq(p.perplexity, exp(p.mean_nll), 1e-9 * ppl);
        engine_free(g);
    }
    json_decref(golden);
    test_model_close(&m);
}

/* ---- stories260K: a public model under four roofs ------------------------------------ */

static void stories_logits(TestModel *m, Engine *g, const Ids *ids)
{
    engine_stepper(g)->restart(engine_stepper(g));
    const float *got = must_feed(g, ids->at, ids->n, true);
    double d = worst_difference(got, golden_floats(&m->e, m->dir), ids->n * m->c.vocab_size);
    cr_assert_lt(d, 1e-3, "logits are off by %g", d);
}

/* The first id is the prompt; the token behind the last is the golden logits' own. */
static void stories_tokens(TestModel *m, Engine *g, const Ids *ids)
{
    Ids prompt = {.at = ids->at, .n = 1};
    Ids want = {.arena = &m->e.model};
    const float *last = golden_floats(&m->e, m->dir) + (ids->n - 1) * m->c.vocab_size;
    for (int i = 1; i < ids->n; i++) {
        *vec_push(want.arena, &want) = ids->at[i];
    }
    *vec_push(want.arena, &want) = row_argmax(last, m->c.vocab_size);
    Ids got = greedy(&m->e, g, &prompt, want.n);
    ids_must_equal(&m->e, &got, &want, m->dir);
}

static void stories(const char *rel, int n_ids)
{
    char dir[PATH_MAX];
    need_shared(rel, dir);
    TestModel m;
    test_model_open(&m, dir);
    json_t *golden = golden_json(&m.e, dir);
    Ids ids = ids_of(&m.e, json_object_get(golden, "greedy_ids"));
    cr_assert_eq(ids.n, n_ids);
    for (size_t i = 0; i < countof(in_c); i++) {
        Engine *g = engine_for(&m, in_c[i]);
        stories_tokens(&m, g, &ids);
        stories_logits(&m, g, &ids);
        engine_free(g);
    }
    json_decref(golden);
    test_model_close(&m);
}

Test(engine_golden, stories_qwen2_f32)
{
    stories("data/stories260K/qwen2-f32", 256);
}

Test(engine_golden, stories_qwen2_bf16)
{
    stories("data/stories260K/qwen2-bf16", 256);
}

Test(engine_golden, stories_qwen2_with_biases)
{
    stories("data/stories260K/qwen2-bias-bf16", 201);
}

Test(engine_golden, stories_llama_f32)
{
    stories("data/stories260K/llama-f32", 256);
}

/* It has no golden values of its own, but it is qwen2-bf16 without the biases, which are
 * zero there. */
Test(engine_golden, stories_llama_bf16_says_what_qwen2_bf16_says)
{
    char dir[PATH_MAX], same[PATH_MAX];
    need_shared("data/stories260K/llama-bf16", dir);
    need_shared("data/stories260K/qwen2-bf16", same);
    TestModel m;
    test_model_open(&m, dir);
    json_t *golden = golden_json(&m.e, same);
    Ids ids = ids_of(&m.e, json_object_get(golden, "greedy_ids"));
    Ids prompt = {.at = ids.at, .n = 1}, want = {.at = ids.at + 1, .n = ids.n - 1};
    Engine *g = scheduled_engine(&m);
    Ids got = greedy(&m.e, g, &prompt, want.n);
    ids_must_equal(&m.e, &got, &want, dir);
    json_decref(golden);
    engine_free(g);
    test_model_close(&m);
}
