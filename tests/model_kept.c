/* model_kept.c - BF16 weights that are kept as they are, and graphs that are marked with what
 * comes as BF16. */
#include "model/model.h"
#include "tests/helpers.h"

#include <string.h>

#define DIR "tests/data/tiny-qwen2"

typedef struct Tiny {
    Config c;
    Weights w;
} Tiny;

static void keep_tiny(Env *e, void *arg)
{
    Tiny *t = arg;
    t->c = config_read(e, DIR);
    weights_keep(e, &t->w, &t->c, DIR, 3, NULL, NULL);
}

Test(model_kept, bf16_may_be_kept_as_it_is_and_widened_when_somebody_asks)
{
    Env e;
    env_init(&e);
    Tiny t = {.w = {0}};
    must_work(&e, keep_tiny, &t);
    cr_assert_eq(t.w.bf16_bytes, 2 * 2124896);
    cr_assert_lt(t.w.memory_bytes, t.w.bf16_bytes + 64 * 50);
    for (int i = 0; i < t.w.n; i++) {
        Tensor *x = &t.w.tensor[i].t;
        const uint16_t *kept = weights_bf16(&t.w, i);
        cr_assert_null(x->data);
        cr_assert_eq((uintptr_t)kept % 64, 0);
        cr_assert(!memcmp(kept, t.w.source[i]->data, 2 * (size_t)tensor_count(x)));
        cr_assert_eq(weights_find(&t.w, t.w.tensor[i].name), i);
        cr_assert(weights_widen(&t.w, i, NULL));
        const float *once = x->data;
        cr_assert(weights_widen(&t.w, i, NULL));
        cr_assert_eq(x->data, once);
        for (int64_t k = 0; k < tensor_count(x); k++) {
            uint32_t bits;
            memcpy(&bits, &once[k], sizeof bits);
            cr_assert_eq(bits, (uint32_t)kept[k] << 16);
        }
    }
    cr_assert_eq(weights_find(&t.w, "model.embed"), -1);
    weights_release(&t.w);
    env_release(&e);
}

static int n_marked(const Graph *g)
{
    int n = 0;
    for (int i = 0; i < g->weights.n; i++) {
        n += g->weights.at[i]->attr.from_bf16;
    }
    return n;
}

static void mark_tiny(Env *e, void *arg)
{
    Tiny *t = arg;
    Graph *of_weights = qwen2_build(e, &t->c, -1, true), *of_file, *all, *none;
    weights_mark(&t->w, of_weights);
    cr_expect_eq(n_marked(of_weights), 50);
    of_file = qwen2_build(e, &t->c, -1, true);
    graph_mark_from(e, of_file, DIR);
    cr_expect_eq(n_marked(of_file), 50);
    all = qwen2_build(e, &t->c, -1, true);
    graph_mark_bf16(all);
    cr_expect_eq(n_marked(all), 50);
    none = qwen2_build(e, &t->c, -1, true);
    graph_mark_from(e, none, "tests"); /* has no weights */
    cr_expect_eq(n_marked(none), 0);
}

Test(model_kept, graphs_are_marked_with_what_comes_as_bf16)
{
    Env e;
    env_init(&e);
    Tiny t = {.w = {0}};
    must_work(&e, keep_tiny, &t);
    must_work(&e, mark_tiny, &t);
    weights_release(&t.w);
    env_release(&e);
}
