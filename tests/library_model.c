/* library_model.c - a model as one library computes what the engine and the interpreter compute: the same
 * bits with the same schedules, the same tokens however prompt and decoding are split, on any number
 * of threads. */
#include "tests/library_util.h"

#include "schedules/schedules.h"

#include <math.h>
#include <string.h>

TestSuite(library_model, .timeout = 600);

enum { PROMPT = 24, MADE = 16 };

static TestModel model;
static Picker defaults;

static void open_scheduled(TestLibrary *l, const char *dir, int n_threads)
{
    test_model_open(&model, dir);
    defaults = picker_default();
    *l = (TestLibrary){.picker = &defaults, .options = {.n_threads = n_threads}};
    library_open_test(l, &model);
}

static void close_both(TestLibrary *l)
{
    built_model_close(&l->built);
    test_model_close(&model);
}

/* Greedy tokens behind a prompt that is fed in parts of these sizes. */
static Ids split_greedy(Stepper *s, const Ids *prompt, int part, int n)
{
    Ids out = {.arena = &model.e.model};
    const float *logits = NULL;
    Err err;
    s->restart(s);
    for (int at = 0; at < prompt->n; at += part) {
        int some = prompt->n - at < part ? prompt->n - at : part;
        cr_assert(s->feed(s, prompt->at + at, some, false, &logits, &err), "%s", err.text);
    }
    while (out.n < n) {
        int32_t id = row_argmax(logits, s->n_vocab);
        *vec_push(out.arena, &out) = id;
        cr_assert(s->feed(s, &id, 1, false, &logits, &err), "%s", err.text);
    }
    return out;
}

static void tokens_of_every_split(const char *dir, const Ids *prompt)
{
    TestLibrary l;
    open_scheduled(&l, dir, 2);
    Engine *oracle = test_engine(&model, BY_INTERP, 0);
    Ids want = split_greedy(engine_stepper(oracle), prompt, prompt->n, MADE);
    for (int part = 1; part <= prompt->n; part++) {
        Ids got = split_greedy(&l.built.stepper, prompt, part, MADE);
        ids_must_equal(&model.e, &got, &want, "fed in parts");
    }
    engine_free(oracle);
    close_both(&l);
}

Test(library_model, tiny_gives_the_interpreters_tokens_for_every_split)
{
    Env e;
    env_init(&e);
    Ids prompt = heldout_ids(&e, PROMPT);
    tokens_of_every_split(TINY, &prompt);
    env_release(&e);
}

Test(library_model, stories_give_the_interpreters_tokens_for_every_split)
{
    static int32_t ids[] = {1, 403, 407, 261, 378, 31, 298, 273, 280, 290};
    static const char *const roofs[] = {"data/stories260K/qwen2-f32",
                                        "data/stories260K/llama-bf16"};
    Ids prompt = {NULL, ids, countof(ids), 0};
    for (size_t i = 0; i < countof(roofs); i++) {
        char dir[PATH_MAX];
        need_shared(roofs[i], dir);
        tokens_of_every_split(dir, &prompt);
    }
}

/* ---- the engine's bits --------------------------------------------------------------------------- */

static void same_bits(const float *got, const float *want, int64_t n, const char *what)
{
    cr_assert(!memcmp(got, want, (size_t)n * sizeof *got), "%s: other bits", what);
}

Test(library_model, logits_are_the_engines_bit_for_bit)
{
    TestLibrary l;
    open_scheduled(&l, TINY, 2);
    Engine *g = in_place_engine(&model);
    Ids ids = heldout_ids(&model.e, 60);
    int64_t v = model.c.vocab_size;
    same_bits(library_feed(&l, ids.at, 41, false), must_feed(g, ids.at, 41, false), v,
              "prompt");
    for (int i = 41; i < 50; i++) {
        same_bits(library_feed(&l, &ids.at[i], 1, false), must_feed(g, &ids.at[i], 1, false), v,
                  "one token");
    }
    same_bits(library_feed(&l, &ids.at[50], 10, true), must_feed(g, &ids.at[50], 10, true),
              10 * v, "every row");
    engine_free(g);
    close_both(&l);
}

static void same_as(TestLibrary *one, const nc_options *options)
{
    TestLibrary other = {.picker = &defaults, .options = *options};
    library_open_test(&other, &model);
    Ids ids = heldout_ids(&model.e, 50);
    int64_t v = model.c.vocab_size;
    one->built.stepper.restart(&one->built.stepper);
    for (int i = 0; i < 50; i += i < 40 ? 10 : 1) {
        bool all = i % 20 == 0;
        int n = i < 40 ? 10 : 1;
        same_bits(library_feed(one, &ids.at[i], n, all),
                  library_feed(&other, &ids.at[i], n, all), all ? n * v : v, "threads");
    }
    built_model_close(&other.built);
}

static void count_call(void *ctx, int site)
{
    (void)site;
    ++*(int *)ctx;
}

Test(library_model, any_number_of_threads_watched_or_not_gives_the_same_bits)
{
    TestLibrary one;
    int n_calls = 0;
    open_scheduled(&one, TINY, 1);
    same_as(&one, &(nc_options){.n_threads = 2});
    same_as(&one, &(nc_options){.n_threads = 3});
    same_as(&one, &(nc_options){.n_threads = 2, .watch = count_call, .watch_ctx = &n_calls});
    cr_assert_eq(n_calls, 14 * 57);
    close_both(&one);
}

static const NcWeight *weight_of(const TestLibrary *l, const char *name, NcStorage stored)
{
    const NcTables *t = l->made.text.tables;
    for (int i = 0; i < t->n_weights; i++) {
        if (!strcmp(t->weight[i].name, name) && t->weight[i].stored == stored) {
            return &t->weight[i];
        }
    }
    return NULL;
}

/* A token reads each matrix once, half as wide; of the embedding also its row, with its id. */
static void fewer_bytes(const TestLibrary *narrow, const TestLibrary *wide)
{
    const NcTables *t = narrow->made.text.tables;
    int64_t saved = 2 * model.c.hidden_size + (int64_t)sizeof(int64_t) / 2;
    for (int i = 0; i < t->n_weights; i++) {
        saved += t->weight[i].stored == NC_BF16 ? 2 * t->weight[i].count : 0;
    }
    cr_assert_eq(wide->built.facts->program[0].bytes_first -
                     narrow->built.facts->program[0].bytes_first,
                 saved);
}

/* The file has BF16: it is copied, or widened; and read as it is, or laid out anew. */
static void stored_both_ways(bool panels)
{
    static const char name[] = "model.layers.0.mlp.down_proj.weight";
    TestLibrary narrow, wide;
    test_model_open(&model, TINY);
    defaults = picker_default();
    narrow = (TestLibrary){.picker = &defaults, .panels = panels};
    wide = (TestLibrary){.picker = &defaults, .panels = panels, .f32 = true};
    library_open_test(&narrow, &model);
    library_open_test(&wide, &model);
    cr_assert(weight_of(&narrow, name, NC_BF16) && !weight_of(&narrow, name, NC_F32));
    cr_assert(weight_of(&wide, name, NC_F32) && !weight_of(&wide, name, NC_BF16));
    int64_t bytes = wide.built.facts->weight_bytes;
    cr_assert_lt(narrow.built.facts->weight_bytes, bytes * 2 / 3);
    fewer_bytes(&narrow, &wide);
    Ids ids = heldout_ids(&model.e, 60);
    int64_t v = model.c.vocab_size;
    same_bits(library_feed(&narrow, ids.at, 40, false), library_feed(&wide, ids.at, 40, false),
              v, "prompt");
    for (int i = 40; i < 50; i++) {
        same_bits(library_feed(&narrow, &ids.at[i], 1, false),
                  library_feed(&wide, &ids.at[i], 1, false), v, "one token");
    }
    same_bits(library_feed(&narrow, &ids.at[50], 10, true),
              library_feed(&wide, &ids.at[50], 10, true), 10 * v, "every row");
    built_model_close(&wide.built);
    close_both(&narrow);
}

Test(library_model, bf16_in_memory_gives_the_bits_of_f32)
{
    stored_both_ways(false);
}

Test(library_model, panels_of_bf16_give_the_bits_of_f32)
{
    stored_both_ways(true);
}

/* One row, many rows and the gather read the same memory. */
Test(library_model, each_weight_lies_in_memory_once)
{
    TestLibrary l = {.picker = &defaults, .panels = true};
    test_model_open(&model, TINY);
    defaults = picker_default();
    library_make_test(&l, &model);
    const NcTables *t = l.made.text.tables;
    cr_assert_gt(t->n_panels, 0);
    for (int i = 0; i < t->n_weights; i++) {
        int n = t->weight[i].kept;
        for (int k = 0; k < t->n_panels; k++) {
            n += t->panel[k].from.base == NC_WEIGHT && t->panel[k].from.index == i;
        }
        cr_expect_eq(n, 1, "%s lies there %d times", t->weight[i].name, n);
    }
    test_model_close(&model);
}

Test(library_model, panels_do_not_change_the_golden_logits)
{
    TestLibrary l = {.picker = &defaults, .panels = true};
    test_model_open(&model, TINY);
    defaults = picker_default();
    library_open_test(&l, &model);
    cr_assert_gt(l.built.facts->panel_bytes, 0);
    json_t *golden = golden_json(&model.e, TINY), *one;
    const float *want = golden_floats(&model.e, TINY);
    size_t i;
    json_array_foreach (json_object_get(golden, "cases"), i, one) {
        Ids ids = ids_of(&model.e, json_object_get(one, "ids"));
        int64_t at = json_integer_value(json_object_get(one, "logits_offset_floats"));
        l.built.stepper.restart(&l.built.stepper);
        const float *got = library_feed(&l, ids.at, ids.n, true);
        double d = worst_difference(got, want + at, ids.n * model.c.vocab_size);
        cr_assert_lt(d, 2e-4, "case %zu: off by %g", i, d);
    }
    json_decref(golden);
    close_both(&l);
}

Test(library_model, naive_kernels_give_the_interpreters_bits)
{
    TestLibrary l = {.options = {.n_threads = 2}};
    test_model_open(&model, TINY);
    library_open_test(&l, &model);
    Engine *oracle = test_engine(&model, BY_C, 0);
    Ids ids = heldout_ids(&model.e, 12);
    same_bits(library_feed(&l, ids.at, 11, false), must_feed(oracle, ids.at, 11, false),
              model.c.vocab_size, "prompt");
    same_bits(library_feed(&l, &ids.at[11], 1, false), must_feed(oracle, &ids.at[11], 1, false),
              model.c.vocab_size, "one token");
    engine_free(oracle);
    close_both(&l);
}

/* Longer than any program takes at once: parts, with the same next token. */
Test(library_model, a_prompt_longer_than_a_program_is_fed_in_parts)
{
    TestLibrary l;
    open_scheduled(&l, TINY, 2);
    Ids ids = heldout_ids(&model.e, 200);
    const float *whole = library_feed(&l, ids.at, 200, false);
    float *kept = arena_dup(&model.e.model, whole, (size_t)model.c.vocab_size * sizeof *kept);
    l.built.stepper.restart(&l.built.stepper);
    const float *rows = library_feed(&l, ids.at, 200, true); /* 128 and 72 */
    double d = worst_difference(rows + 199 * model.c.vocab_size, kept, model.c.vocab_size);
    cr_assert_lt(d, 1e-4, "off by %g", d);
    close_both(&l);
}
