/* engine_storage.c - weights that are kept as BF16 give the logits of weights widened to f32, bit
 * for bit, whatever runs them; and what was kept is not widened behind one's back. */
#include "tests/engine_util.h"

#include <linux/limits.h>
#include <string.h>

TestSuite(engine_storage, .timeout = 600);

enum { N_PROMPT = 11, N_TOKENS = 4, N_ALL = 7 };

typedef struct Logits {
    Arena *arena;
    float *at;
    int n, cap;
} Logits;

static void add_row(Logits *l, const float *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        *vec_push(l->arena, l) = row[i];
    }
}

/* A prompt, tokens one by one behind it, and scores of every row. */
static Logits logits_of(TestModel *m, Engine *g)
{
    Logits l = {.arena = &m->e.model};
    int64_t vocab = m->c.vocab_size;
    int32_t ids[N_PROMPT], next = 3;
    for (int i = 0; i < N_PROMPT; i++) {
        ids[i] = (17 * i + 5) % (int32_t)vocab;
    }
    add_row(&l, must_feed(g, ids, N_PROMPT, false), vocab);
    for (int i = 0; i < N_TOKENS; i++) {
        const float *row = must_feed(g, &next, 1, false);
        add_row(&l, row, vocab);
        next = row_argmax(row, vocab);
    }
    engine_stepper(g)->restart(engine_stepper(g));
    add_row(&l, must_feed(g, ids, N_ALL, true), N_ALL * vocab);
    return l;
}

typedef Engine *Maker(TestModel *m);

static Engine *naive_c(TestModel *m)
{
    return test_engine(m, BY_C, 0);
}

static Engine *by_nests(TestModel *m)
{
    return test_engine(m, BY_NEST, 0);
}

static Engine *by_interpreter(TestModel *m)
{
    return test_engine(m, BY_INTERP, 0);
}

/* Elements of matrices that have become f32, and of all matrices. */
static int64_t widened_elements(const Weights *w, int64_t *all)
{
    int64_t n = 0;
    *all = 0;
    for (int i = 0; i < w->n; i++) {
        const Tensor *t = &w->tensor[i].t;
        *all += t->rank == 2 ? tensor_count(t) : 0;
        n += t->rank == 2 && t->data ? tensor_count(t) : 0;
    }
    return n;
}

static void same_logits(const char *dir, Maker *make, bool widens)
{
    TestModel loaded, kept;
    int64_t all;
    test_model_open(&loaded, dir);
    test_model_keep(&kept, dir);
    Engine *f32 = make(&loaded), *bf16 = make(&kept);
    cr_assert_eq(widened_elements(&kept.w, &all), 0);
    Logits want = logits_of(&loaded, f32), got = logits_of(&kept, bf16);
    cr_assert_eq(want.n, got.n);
    cr_assert(!memcmp(want.at, got.at, (size_t)want.n * sizeof *want.at));
    cr_assert_eq(widened_elements(&kept.w, &all), widens ? all : 0);
    engine_free(f32);
    engine_free(bf16);
    test_model_close(&loaded);
    test_model_close(&kept);
}

Test(engine_storage, in_place)
{
    same_logits(TINY, in_place_engine, false);
}

Test(engine_storage, in_panels)
{
    same_logits(TINY, scheduled_engine, false);
}

Test(engine_storage, naive_kernels_take_f32)
{
    same_logits(TINY, naive_c, true);
}

Test(engine_storage, nests_take_f32)
{
    same_logits(TINY, by_nests, true);
}

Test(engine_storage, the_interpreter_takes_f32)
{
    same_logits(TINY, by_interpreter, true);
}

Test(engine_storage, stories_with_biases_in_place)
{
    char dir[PATH_MAX];
    need_shared("data/stories260K/qwen2-bias-bf16", dir);
    same_logits(dir, in_place_engine, false);
}

Test(engine_storage, what_comes_as_f32_is_not_kept)
{
    char dir[PATH_MAX];
    need_shared("data/stories260K/qwen2-f32", dir);
    TestModel m;
    test_model_keep(&m, dir);
    cr_assert_eq(m.w.bf16_bytes, 0);
    for (int i = 0; i < m.w.n; i++) {
        cr_assert_not_null(m.w.tensor[i].t.data);
        cr_assert_null(weights_bf16(&m.w, i));
    }
    test_model_close(&m);
}
