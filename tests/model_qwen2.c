/* model_qwen2.c - the graph has exactly the published nodes. spec: graph-ir 9 */
#include "tests/model_util.h"

#include <string.h>

typedef struct Built {
    Env e;
    Config c;
    Graph *g;
    int n_layers;
    bool last_only;
} Built;

static void build_body(Env *e, void *arg)
{
    Built *b = arg;
    b->g = qwen2_build(e, &b->c, b->n_layers, b->last_only);
}

/* text NULL: Qwen2.5-0.5B. */
static void build(Built *b, const char *text, int n_layers, bool last_only)
{
    env_init(&b->e);
    b->n_layers = n_layers;
    b->last_only = last_only;
    b->c = config_of(&b->e, text ? text : read_text(&b->e, "tests/data/qwen2.5/config.json"));
    must_work(&b->e, build_body, b);
}

static int count_op(const Graph *g, const char *name)
{
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        n += strcmp(op_info[g->nodes.at[i]->op].name, name) == 0;
    }
    return n;
}

static void assert_type(Built *b, const Node *n, const char *type)
{
    Buf text;
    buf_init(&text, &b->e.model);
    type_print(&b->e, n->dtype, &n->shape, &text);
    cr_assert_str_eq(text.at, type);
}

Test(model_qwen2, qwen2_5_has_3656_nodes)
{
    Built b;
    build(&b, NULL, -1, false);
    cr_assert_eq(b.g->nodes.n, 3656);
    cr_assert_eq(b.g->weights.n, 290);
    cr_assert_str_eq(b.g->name, "qwen2");
    env_release(&b.e);
}

Test(model_qwen2, last_only_has_one_node_more)
{
    Built b;
    build(&b, NULL, -1, true);
    cr_assert_eq(b.g->nodes.n, 3657);
    cr_assert_str_eq(b.g->name, "qwen2_last");
    assert_type(&b, b.g->outputs.at[0].node, "f32[1, 151936]");
    env_release(&b.e);
}

Test(model_qwen2, inputs_outputs_and_symbols_are_in_order)
{
    Built b;
    build(&b, NULL, -1, false);
    cr_assert_eq(b.g->inputs.n, 3);
    cr_assert_str_eq(b.g->inputs.at[0]->attr.name, "token_ids");
    assert_type(&b, b.g->inputs.at[0], "i64[seq]");
    cr_assert_str_eq(b.g->inputs.at[1]->attr.name, "past_keys");
    assert_type(&b, b.g->inputs.at[1], "f32[24, 2, past, 64]");
    cr_assert_str_eq(b.g->inputs.at[2]->attr.name, "past_values");
    assert_type(&b, b.g->inputs.at[2], "f32[24, 2, past, 64]");
    cr_assert_eq(b.g->outputs.n, 3);
    cr_assert_str_eq(b.g->outputs.at[0].name, "logits");
    assert_type(&b, b.g->outputs.at[0].node, "f32[seq, 151936]");
    cr_assert_str_eq(b.g->outputs.at[1].name, "keys");
    assert_type(&b, b.g->outputs.at[1].node, "f32[24, 2, seq, 64]");
    cr_assert_str_eq(b.g->outputs.at[2].name, "values");
    cr_assert_eq(b.g->symbols.n, 2);
    cr_assert_str_eq(b.e.symbol[b.g->symbols.at[0]], "seq");
    cr_assert_str_eq(b.e.symbol[b.g->symbols.at[1]], "past");
    env_release(&b.e);
}

typedef struct OpCount {
    const char *op;
    int per_block, outside;
} OpCount;

/* clang-format off */
static const OpCount published[] = {
    {"reshape", 30, 9}, {"broadcast", 24, 10}, {"mul", 13, 4},       {"weight", 12, 2},
    {"permute", 12, 1}, {"add", 11, 3},        {"matmul", 9, 1},     {"const", 8, 5},
    {"slice", 6, 0},    {"div", 4, 1},         {"concat", 4, 3},     {"reduce_sum", 3, 1},
    {"neg", 3, 0},      {"sqrt", 2, 1},        {"reciprocal", 2, 1}, {"where", 2, 1},
    {"exp", 2, 0},      {"less_equal", 1, 1},  {"reduce_max", 1, 0}, {"sub", 1, 0},
    {"input", 0, 3},    {"iota", 0, 3},        {"dim", 0, 2},        {"gather", 0, 1},
    {"cast", 0, 1},     {"cos", 0, 1},         {"sin", 0, 1},
};
/* clang-format on */

Test(model_qwen2, ops_per_block_and_outside_are_the_published_ones)
{
    Built one, two;
    build(&one, NULL, 1, false);
    build(&two, NULL, 2, false);
    int per_block = two.g->nodes.n - one.g->nodes.n, sum = 0;
    cr_assert_eq(per_block, 150);
    cr_assert_eq(one.g->nodes.n - per_block, 56);
    for (size_t i = 0; i < countof(published); i++) {
        const OpCount *p = &published[i];
        int n1 = count_op(one.g, p->op), n2 = count_op(two.g, p->op);
        cr_assert_eq(n2 - n1, p->per_block, "%s: %d per block", p->op, n2 - n1);
        cr_assert_eq(2 * n1 - n2, p->outside, "%s: %d outside", p->op, 2 * n1 - n2);
        sum += n1;
    }
    cr_assert_eq(sum, one.g->nodes.n, "an op is in the graph that the table does not have");
    env_release(&one.e);
    env_release(&two.e);
}

Test(model_qwen2, the_tiny_test_model_has_356_nodes)
{
    Built b;
    build(&b, config_text(NULL), -1, false);
    cr_assert_eq(b.g->nodes.n, 356);
    env_release(&b.e);
    build(&b, config_text(NULL), -1, true);
    cr_assert_eq(b.g->nodes.n, 357);
    env_release(&b.e);
}

Test(model_qwen2, an_untied_head_is_a_weight_of_its_own)
{
    Built b;
    build(&b, config_text("tie_word_embeddings", "false", NULL), -1, false);
    cr_assert_eq(b.g->nodes.n, 357);
    cr_assert_str_eq(b.g->weights.at[b.g->weights.n - 1]->attr.name, "lm_head.weight");
    env_release(&b.e);
}

Test(model_qwen2, llama_has_no_bias_nodes)
{
    Built b;
    build(
        &b,
        config_text("architectures", "[\"LlamaForCausalLM\"]", "model_type", "\"llama\"", NULL),
        -1, false);
    cr_assert_eq(b.g->nodes.n, 356 - 2 * 12); /* per bias: weight, reshape, broadcast, add */
    cr_assert_str_eq(b.g->name, "llama");
    env_release(&b.e);
}

Test(model_qwen2, explicit_head_dim_changes_shapes_but_no_nodes)
{
    Built b;
    build(&b, config_text("head_dim", "8", NULL), -1, false);
    cr_assert_eq(b.g->nodes.n, 356);
    assert_type(&b, b.g->inputs.at[1], "f32[2, 2, past, 8]");
    assert_type(&b, b.g->outputs.at[0].node, "f32[seq, 64]");
    env_release(&b.e);
}

Test(model_qwen2, equal_heads_repeat_nothing)
{
    Built b;
    build(&b, config_text("num_key_value_heads", "4", NULL), -1, false);
    cr_assert_eq(b.g->nodes.n, 356 - 2 * 6); /* per block twice: reshape, broadcast, reshape */
    env_release(&b.e);
}

Test(model_qwen2, shapes_of_72b_build)
{
    Built b;
    build(&b,
          config_text("hidden_size", "8192", "intermediate_size", "29568", "num_hidden_layers",
                      "80", "num_attention_heads", "64", "num_key_value_heads", "8",
                      "vocab_size", "152064", "tie_word_embeddings", "false", NULL),
          -1, false);
    cr_assert_eq(b.g->nodes.n, 80 * 150 + 57);
    cr_assert_eq(b.g->weights.n, 963);
    assert_type(&b, b.g->outputs.at[1].node, "f32[80, 8, seq, 128]");
    env_release(&b.e);
}

Test(model_qwen2, weights_are_exactly_the_expected_tensors)
{
    Built b;
    build(&b, NULL, -1, false);
    int n, n_found = 0;
    TensorSpec *spec = config_tensors(&b.e, &b.c, &n);
    cr_assert_eq(n, b.g->weights.n);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < b.g->weights.n; k++) {
            const Node *w = b.g->weights.at[k];
            if (strcmp(w->attr.name, spec[i].name) == 0) {
                n_found++;
                cr_assert_eq(w->shape.rank, spec[i].rank);
                cr_assert_eq(w->shape.dim[0].k, spec[i].dim[0]);
                cr_assert(spec[i].rank == 1 || w->shape.dim[1].k == spec[i].dim[1]);
            }
        }
    }
    cr_assert_eq(n_found, n);
    env_release(&b.e);
}
