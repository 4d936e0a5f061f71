/* engine_cache.c - the cache of keys and values: however a prompt is cut, the same tokens
 * follow; fused and unfused C leave the same bits in it; a step that fails leaves it as it
 * was. spec: lessons 4 */
#include "tests/compile_util.h"
#include "tests/engine_util.h"
#include "tests/fault.h"

#include <stdlib.h>
#include <string.h>

TestSuite(engine_cache, .timeout = 600);

enum { N_PROMPT = 240, N_MORE = 24 };

/* ---- ways to cut a prompt ------------------------------------------------------------ */

typedef struct Cut {
    const char *name;
    int size[8]; /* of the pieces, in turn, again and again; 0: the end of the list */
} Cut;

static const Cut cuts[] = {{"one shot", {N_PROMPT}},
                           {"one at a time", {1}},
                           {"halves", {N_PROMPT / 2}},
                           {"prompt, then one at a time", {N_PROMPT - 5, 1}},
                           {"ragged chunks", {7, 1, 64, 2, 33, 1, 1, 17}}};

/* Feeds the ids in pieces; every row of logits must be the one-shot's within 1e-4. */
static void feed_cut(Engine *g, const Cut *cut, const Ids *ids, const float *want)
{
    Stepper *s = engine_stepper(g);
    s->restart(s);
    for (int at = 0, turn = 0; at < ids->n; turn++) {
        int n_sizes = 0;
        while (n_sizes < (int)countof(cut->size) && cut->size[n_sizes]) {
            n_sizes++;
        }
        int n = cut->size[turn % n_sizes], left = ids->n - at;
        n = n < left ? n : left;
        const float *got = must_feed(g, ids->at + at, n, true);
        double d = worst_difference(got, want + at * s->n_vocab, n * s->n_vocab);
        cr_assert_lt(d, 1e-4, "%s, at %d: off by %g", cut->name, at, d);
        at += n;
        cr_assert_eq(s->n_fed, at);
    }
}

/* Goes on from what is in the cache. */
static Ids continued(TestModel *m, Engine *g, int32_t first)
{
    Ids made = {.arena = &m->e.model};
    for (int32_t id = first; made.n < N_MORE;) {
        *vec_push(made.arena, &made) = id;
        id = row_argmax(must_feed(g, &id, 1, false), m->c.vocab_size);
    }
    return made;
}

static void same_tokens_however_cut(Engine *make(TestModel *m))
{
    TestModel m;
    test_model_open(&m, TINY);
    Engine *g = make(&m);
    Ids ids = heldout_ids(&m.e, N_PROMPT), first = {0};
    size_t n_floats = N_PROMPT * (size_t)m.c.vocab_size;
    const float *want = must_feed(g, ids.at, ids.n, true);
    want = arena_dup(&m.e.model, want, n_floats * sizeof *want);
    for (size_t i = 0; i < countof(cuts); i++) {
        feed_cut(g, &cuts[i], &ids, want);
        Ids made =
            continued(&m, g, row_argmax(want + n_floats - m.c.vocab_size, m.c.vocab_size));
        first = i ? first : made;
        ids_must_equal(&m.e, &made, &first, cuts[i].name);
    }
    engine_free(g);
    test_model_close(&m);
}

static Engine *fused(TestModel *m)
{
    return test_engine(m, BY_C, 0);
}

static Engine *unfused(TestModel *m)
{
    return test_engine(m, BY_C, ALL_STAGES);
}

/* The plain graph, for any number of tokens. */
static Engine *joined(TestModel *m)
{
    EngineOptions o = {.way = BY_C, .join_history = true, .any_length = true, .n_threads = 2};
    return engine_new(&m->e, &m->c, &m->w, &o);
}

static Engine *interpreted(TestModel *m)
{
    return test_engine(m, BY_INTERP, 0);
}

Test(engine_cache, same_tokens_however_a_long_prompt_is_cut_by_scheduled_c)
{
    same_tokens_however_cut(scheduled_engine);
}

Test(engine_cache, same_tokens_however_a_long_prompt_is_cut_by_fused_c)
{
    same_tokens_however_cut(fused);
}

Test(engine_cache, same_tokens_however_a_long_prompt_is_cut_by_unfused_c)
{
    same_tokens_however_cut(unfused);
}

Test(engine_cache, same_tokens_however_a_long_prompt_is_cut_by_c_of_the_plain_graph)
{
    same_tokens_however_cut(joined);
}

Test(engine_cache, same_tokens_however_a_long_prompt_is_cut_by_the_interpreter)
{
    same_tokens_however_cut(interpreted);
}

Test(engine_cache, the_last_row_is_the_last_of_all_rows)
{
    TestModel m;
    test_model_open(&m, TINY);
    Engine *g = test_engine(&m, BY_C, 0);
    Ids ids = heldout_ids(&m.e, N_PROMPT);
    const float *all = must_feed(g, ids.at, ids.n, true) + (ids.n - 1) * m.c.vocab_size;
    all = arena_dup(&m.e.model, all, (size_t)m.c.vocab_size * sizeof *all);
    engine_stepper(g)->restart(engine_stepper(g));
    const float *last = must_feed(g, ids.at, ids.n, false);
    cr_assert_eq(memcmp(all, last, (size_t)m.c.vocab_size * sizeof *all), 0);
    engine_free(g);
    test_model_close(&m);
}

/* ---- fused and unfused: the same bits ------------------------------------------------ */

typedef struct Both {
    TestModel m;
    const Graph *g;
    Compile c[2];
    Program *p[2]; /* fused, unfused */
    Library lib[2];
} Both;

/* A step by both programs: logits, new keys and new values must agree in every bit. */
static Tensor *step_both(Both *b, int64_t *ids, int n, Tensor keys, Tensor values)
{
    NamedTensor input[] = {
        {"token_ids", {DT_I64, 1, {n}, ids}}, {"past_keys", keys}, {"past_values", values}};
    Args args = {input, countof(input), b->m.w.tensor, b->m.w.n};
    Tensor *fused = run_program(&b->m.e, b->c[0].graph, b->p[0], &b->lib[0], &args);
    Tensor *unfused = run_program(&b->m.e, b->c[1].graph, b->p[1], &b->lib[1], &args);
    assert_same_bits(b->g, fused, unfused, "fused and unfused C");
    return fused;
}

static void same_bits_body(Env *e, void *arg)
{
    Both *b = arg;
    Ids ids32 = heldout_ids(e, 201);
    int64_t ids[201];
    for (int i = 0; i < 201; i++) {
        ids[i] = ids32.at[i];
    }
    Tensor none = {DT_F32, 4, {b->m.c.n_layers, b->m.c.n_kv_heads, 0, b->m.c.head_dim}, ids};
    for (int last_only = 0; last_only < 2; last_only++) {
        b->g = qwen2_build(e, &b->m.c, -1, last_only);
        for (int i = 0; i < 2; i++) {
            b->p[i] = compiled(e, b->g, i ? ALL_STAGES : 0, &b->c[i]);
            build_program(e, b->p[i], &b->lib[i]);
        }
        Tensor *out = step_both(b, ids, 200, none, none);
        step_both(b, ids + 200, 1, out[1], out[2]);
        library_release(&b->lib[0]);
        library_release(&b->lib[1]);
    }
}

Test(engine_cache, fused_and_unfused_c_agree_in_every_bit_of_logits_and_caches)
{
    Both b = {0};
    test_model_open(&b.m, TINY);
    must_work(&b.m.e, same_bits_body, &b);
    test_model_close(&b.m);
}

/* Naive nests add in one order, however many tokens they are compiled for. */
Test(engine_cache, in_place_and_joined_anew_agree_in_every_bit)
{
    static const int pieces[] = {1, 70, 1, 1, 129, 1};
    TestModel m;
    test_model_open(&m, TINY);
    Engine *a = fused(&m), *b = joined(&m);
    Ids ids = heldout_ids(&m.e, N_PROMPT);
    size_t bytes = (size_t)m.c.vocab_size * sizeof(float);
    for (size_t i = 0, at = 0; i < countof(pieces); at += (size_t)pieces[i++]) {
        const float *want = must_feed(b, ids.at + at, pieces[i], false);
        const float *got = must_feed(a, ids.at + at, pieces[i], false);
        cr_assert_eq(memcmp(got, want, bytes), 0, "piece %zu", i);
    }
    engine_free(a);
    engine_free(b);
    test_model_close(&m);
}

/* ---- steps that fail ----------------------------------------------------------------- */

static void must_refuse(Engine *g, const int32_t *ids, int n, ErrCode code, const char *words)
{
    Stepper *s = engine_stepper(g);
    int64_t before = s->n_fed;
    const float *logits;
    Err err;
    cr_assert_not(s->feed(s, ids, n, false, &logits, &err), "it did not fail: %s", words);
    cr_assert_eq(err.code, code, "%s", err.text);
    cr_assert(strstr(err.text, words), "\"%s\" is not in \"%s\"", words, err.text);
    cr_assert_eq(s->n_fed, before);
}

Test(engine_cache, a_step_that_is_refused_changes_nothing)
{
    TestModel m;
    test_model_open(&m, TINY);
    volatile int stop = 0;
    EngineOptions o = {.way = BY_C, .n_threads = 2, .stop = &stop};
    Engine *g = engine_new(&m.e, &m.c, &m.w, &o), *other = test_engine(&m, BY_C, 0);
    Ids ids = heldout_ids(&m.e, 513);
    size_t bytes = (size_t)m.c.vocab_size * sizeof(float);
    must_feed(g, ids.at, 9, false);
    must_refuse(g, ids.at, 0, E_INPUT, "There are no tokens to feed");
    must_refuse(g, (int32_t[]){5, 2048}, 2, E_INPUT,
                "Token 2048 is outside the model's vocabulary, 0..2047");
    must_refuse(g, (int32_t[]){-1}, 1, E_INPUT, "Token -1 is outside");
    must_refuse(g, ids.at, 504, E_INPUT,
                "The model has 512 positions, too few for 504 tokens behind 9");
    stop = 1;
    must_refuse(g, ids.at, 3, E_INTERRUPT, "Stopped");
    stop = 0;
    const float *got = must_feed(g, ids.at + 9, 3, false);
    must_feed(other, ids.at, 9, false);
    cr_assert_eq(memcmp(got, must_feed(other, ids.at + 9, 3, false), bytes), 0);
    engine_free(g);
    engine_free(other);
    test_model_close(&m);
}

Test(engine_cache, the_context_can_be_filled_to_the_last_position)
{
    TestModel m;
    test_model_open(&m, TINY);
    Engine *g = test_engine(&m, BY_C, 0);
    Ids ids = heldout_ids(&m.e, 513);
    must_refuse(g, ids.at, 513, E_INPUT, "too few for 513 tokens");
    must_feed(g, ids.at, 511, false);
    must_feed(g, ids.at + 511, 1, false);
    must_refuse(g, ids.at, 1, E_INPUT, "512 positions");
    engine_free(g);
    test_model_close(&m);
}

Test(engine_cache, a_compilation_can_be_stopped)
{
    TestModel m;
    TempDir d = temp_dir();
    Err err;
    volatile int stop = 1;
    test_model_open(&m, TINY);
    setenv("NANOCOMPILE_CACHE", d.path, 1);
    EngineOptions o = {.way = BY_C, .n_threads = 2, .stop = &stop};
    Engine *g = engine_new(&m.e, &m.c, &m.w, &o);
    cr_assert_not(engine_prepare(g, false, &err));
    cr_assert_eq(err.code, E_INTERRUPT, "%s", err.text);
    stop = 0;
    must_feed(g, (int32_t[]){1, 2, 3}, 3, false);
    engine_free(g);
    test_model_close(&m);
    temp_remove(&d);
}

/* Two prompts by a new engine: its memory, its cache's, the program's. */
static bool two_steps(void *ctx, Err *err)
{
    TestModel *m = ctx;
    Engine *g = test_engine(m, BY_C, 0);
    Stepper *s = engine_stepper(g);
    const float *logits;
    bool ok = s->feed(s, (int32_t[]){1, 2, 3}, 3, false, &logits, err) &&
              s->feed(s, (int32_t[]){4, 5, 6, 7}, 4, false, &logits, err);
    engine_free(g);
    return ok;
}

/* In a cache of its own: a file that cannot be read is put aside, and other tests use theirs. */
Test(engine_cache, a_call_that_fails_is_reported)
{
    static const char *const calls[] = {"realloc", "mmap", "dlopen", "open"};
    TestModel m;
    TempDir d = temp_dir();
    Err err;
    test_model_open(&m, TINY);
    setenv("NANOCOMPILE_CACHE", d.path, 1);
    cr_assert(two_steps(&m, &err), "%s", err.text);
    for (size_t i = 0; i < countof(calls); i++) {
        cr_assert_gt(fault_loop(calls[i], two_steps, &m), 0, "%s is not called", calls[i]);
    }
    test_model_close(&m);
    temp_remove(&d);
}
