/* qwen2.c - the graph of Qwen2 (and Llama, which is Qwen2 without q/k/v biases).
 *
 * One function per piece of the model, each the sequence of spec graph-ir 8 and 9, so that the
 * graph has exactly the published nodes: 150 a block, 56 outside, 3,656 for Qwen2.5-0.5B.
 * Needs: a checked config. Order of operands matters: it fixes the numbering of the nodes. */
#include "model/model.h"

#include <math.h>

typedef struct Builder {
    Front f;
    const Config *c;
    int64_t n_layers;
    Dim seq, past;
    Node *past_keys, *past_values;
    Node *cos, *sin; /* rope tables, shared by all blocks */
    Node *mask;
    Node **keys, **values; /* per block [1, kv, seq, d]: the new tokens */
} Builder;

static Shape shape2(Dim a, Dim b)
{
    return shape_of(2, (Dim[]){a, b});
}

static Shape shape3(int64_t a, Dim b, int64_t c)
{
    return shape_of(3, (Dim[]){dim_int(a), b, dim_int(c)});
}

static Shape shape4(int64_t a, int64_t b, Dim c, int64_t d)
{
    return shape_of(4, (Dim[]){dim_int(a), dim_int(b), c, dim_int(d)});
}

/* A weight of the model; NULL where this architecture has none. */
static Node *weight(Builder *b, WeightId id, int64_t layer)
{
    if (!config_has(b->c, id)) {
        return NULL;
    }
    TensorSpec t = config_tensor(b->f.g->env, b->c, id, layer);
    Dim dim[2] = {dim_int(t.dim[0]), dim_int(t.dim[1])};
    return f_weight(&b->f, t.name, DT_F32, shape_of(t.rank, dim));
}

/* [seq, heads * d] -> [heads, seq, d] */
static Node *split_heads(Builder *b, Node *x, int64_t n_heads)
{
    Shape split = shape_of(3, (Dim[]){b->seq, dim_int(n_heads), dim_int(b->c->head_dim)});
    return f_permute(&b->f, f_reshape(&b->f, x, split), 3, (const int[]){1, 0, 2});
}

/* The cached [kv, past, d] of one block in front of the new [kv, seq, d]. */
static Node *with_past(Builder *b, Node *cache, Node *fresh, int64_t layer)
{
    Node *row = f_slice(&b->f, cache, 0, dim_int(layer), dim_int(layer + 1));
    Node *old = f_reshape(&b->f, row, shape3(b->c->n_kv_heads, b->past, b->c->head_dim));
    return f_concat(&b->f, (Node *[]){old, fresh}, 2, 1);
}

static Node *project(Builder *b, Node *x, WeightId w, WeightId bias, int64_t layer)
{
    return c_linear(&b->f, x, weight(b, w, layer), weight(b, bias, layer));
}

static Node *attention(Builder *b, Node *x, int64_t layer)
{
    Front *f = &b->f;
    const Config *c = b->c;
    Node *q = split_heads(b, project(b, x, W_Q, W_Q_BIAS, layer), c->n_heads);
    Node *k = split_heads(b, project(b, x, W_K, W_K_BIAS, layer), c->n_kv_heads);
    Node *v = split_heads(b, project(b, x, W_V, W_V_BIAS, layer), c->n_kv_heads);
    q = c_rope(f, q, b->cos, b->sin);
    k = c_rope(f, k, b->cos, b->sin);
    Shape stacked = shape4(1, c->n_kv_heads, b->seq, c->head_dim);
    b->keys[layer] = f_reshape(f, k, stacked);
    b->values[layer] = f_reshape(f, v, stacked);

    int groups = (int)(c->n_heads / c->n_kv_heads);
    Node *all_k = c_repeat_kv(f, with_past(b, b->past_keys, k, layer), groups);
    Node *all_v = c_repeat_kv(f, with_past(b, b->past_values, v, layer), groups);
    Node *dots = f_matmul(f, q, f_permute(f, all_k, 3, (const int[]){0, 2, 1}));
    Node *scores = f_binary_k(f, OP_MUL, dots, pow((double)c->head_dim, -0.5));
    Node *w = c_softmax(f, f_binary(f, OP_ADD, scores, b->mask));
    Node *heads = f_permute(f, f_matmul(f, w, all_v), 3, (const int[]){1, 0, 2});
    Node *joined = f_reshape(f, heads, shape2(b->seq, dim_int(c->n_heads * c->head_dim)));
    return c_linear(f, joined, weight(b, W_O, layer), NULL);
}

/* SwiGLU. */
static Node *feed_forward(Builder *b, Node *x, int64_t layer)
{
    Front *f = &b->f;
    Node *gate = c_silu(f, c_linear(f, x, weight(b, W_GATE, layer), NULL));
    Node *up = c_linear(f, x, weight(b, W_UP, layer), NULL);
    return c_linear(f, f_binary(f, OP_MUL, gate, up), weight(b, W_DOWN, layer), NULL);
}

static Node *norm(Builder *b, Node *x, WeightId gain, int64_t layer)
{
    return c_rms_norm(&b->f, x, weight(b, gain, layer), (float)b->c->rms_norm_eps);
}

static Node *block(Builder *b, Node *x, int64_t layer)
{
    x = f_binary(&b->f, OP_ADD, x, attention(b, norm(b, x, W_NORM_1, layer), layer));
    return f_binary(&b->f, OP_ADD, x, feed_forward(b, norm(b, x, W_NORM_2, layer), layer));
}

/* Declares the inputs and makes what all blocks share. Returns the ids. */
static Node *start(Builder *b, Env *e)
{
    Front *f = &b->f;
    b->seq = dim_named(e, "seq");
    b->past = dim_named(e, "past");
    Shape cache = shape4(b->n_layers, b->c->n_kv_heads, b->past, b->c->head_dim);
    Node *ids = f_input(f, "token_ids", DT_I64, shape_of(1, &b->seq));
    b->past_keys = f_input(f, "past_keys", DT_F32, cache);
    b->past_values = f_input(f, "past_values", DT_F32, cache);
    Node *inverse = c_rope_inverse(f, (int)b->c->head_dim, b->c->rope_theta);
    c_rope_tables(f, inverse, b->seq, b->past, &b->cos, &b->sin);
    b->mask = c_causal_mask(f, b->seq, b->past);
    b->keys = arena_array(&e->model, Node *, b->n_layers);
    b->values = arena_array(&e->model, Node *, b->n_layers);
    return ids;
}

Graph *qwen2_build(Env *e, const Config *c, int n_layers, bool last_only)
{
    Builder b = {.c = c, .n_layers = n_layers < 0 ? c->n_layers : n_layers};
    check(b.n_layers >= 1);
    Front *f = &b.f;
    const char *name = arch_info[c->arch].model_type;
    front_init(f, e, last_only ? arena_printf(&e->model, "%s_last", name) : name);
    Node *ids = start(&b, e);

    Node *embedding = weight(&b, W_EMBED, 0);
    Node *x = f_gather(f, embedding, ids);
    for (int64_t layer = 0; layer < b.n_layers; layer++) {
        x = block(&b, x, layer);
    }
    x = norm(&b, x, W_NORM, 0);
    if (last_only) {
        x = f_slice(f, x, 0, dim_addk(e, b.seq, -1), b.seq);
    }
    Node *head = c->tied ? embedding : weight(&b, W_HEAD, 0);
    graph_output(f->g, "logits", c_linear(f, x, head, NULL));
    graph_output(f->g, "keys", f_concat(f, b.keys, (int)b.n_layers, 0));
    graph_output(f->g, "values", f_concat(f, b.values, (int)b.n_layers, 0));
    graph_finish(f->g);
    return f->g;
}
