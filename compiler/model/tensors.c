/* tensors.c - which weights a model has: names and shapes, from one table.
 *
 * MODEL_WEIGHTS in model.h is the list; the graph builder, the loader's comparison with the
 * file and the generator of synthetic models all read it here.
 * Needs: a config that config.c has checked (no product overflows). */
#include "model/model.h"

typedef enum Scope { SCOPE_MODEL, SCOPE_LAYER, SCOPE_BIAS, SCOPE_UNTIED } Scope;
typedef enum Width {
    WIDTH_NONE,
    WIDTH_VOCAB,
    WIDTH_HIDDEN,
    WIDTH_INTER,
    WIDTH_Q,
    WIDTH_KV
} Width;

typedef struct WeightRow {
    const char *name;
    Scope scope; /* BIAS: in a block, where the architecture has biases */
    Width rows, cols;
} WeightRow;

static const WeightRow weight_rows[N_WEIGHT_IDS] = {
#define X(id, scope, name, rows, cols) {name, SCOPE_##scope, WIDTH_##rows, WIDTH_##cols},
    MODEL_WEIGHTS(X)
#undef X
};

static int64_t width(const Config *c, Width w)
{
    const int64_t of[] = {
        [WIDTH_NONE] = 1,
        [WIDTH_VOCAB] = c->vocab_size,
        [WIDTH_HIDDEN] = c->hidden_size,
        [WIDTH_INTER] = c->intermediate_size,
        [WIDTH_Q] = c->n_heads * c->head_dim,
        [WIDTH_KV] = c->n_kv_heads * c->head_dim,
    };
    return of[w];
}

static bool in_layer(WeightId id)
{
    return weight_rows[id].scope == SCOPE_LAYER || weight_rows[id].scope == SCOPE_BIAS;
}

bool config_has(const Config *c, WeightId id)
{
    switch (weight_rows[id].scope) {
    case SCOPE_BIAS: return arch_info[c->arch].qkv_bias;
    case SCOPE_UNTIED: return !c->tied;
    default: return true;
    }
}

TensorSpec config_tensor(Env *e, const Config *c, WeightId id, int64_t layer)
{
    const WeightRow *r = &weight_rows[id];
    TensorSpec t = {.rank = r->cols == WIDTH_NONE ? 1 : 2,
                    .dim = {width(c, r->rows), width(c, r->cols)}};
    t.name = in_layer(id)
                 ? arena_printf(&e->model, "model.layers.%lld.%s", (long long)layer, r->name)
                 : r->name;
    return t;
}

int64_t tensor_spec_count(const TensorSpec *t)
{
    return t->rank == 1 ? t->dim[0] : t->dim[0] * t->dim[1];
}

/* The ids from first on that belong to the same part of the model (a block, or outside). */
static WeightId part_end(WeightId first)
{
    WeightId id = first;
    while (id < N_WEIGHT_IDS && in_layer(id) == in_layer(first)) {
        id++;
    }
    return id;
}

TensorSpec *config_tensors(Env *e, const Config *c, int *n)
{
    Vec(TensorSpec) list = {0};
    for (WeightId first = 0, end; first < N_WEIGHT_IDS; first = end) {
        end = part_end(first);
        int64_t times = in_layer(first) ? c->n_layers : 1;
        for (int64_t layer = 0; layer < times; layer++) {
            for (WeightId id = first; id < end; id++) {
                if (config_has(c, id)) {
                    TensorSpec t = config_tensor(e, c, id, layer);
                    *vec_push(&e->model, &list) = t;
                }
            }
        }
    }
    *n = list.n;
    return list.at;
}

int64_t config_parameters(const Config *c)
{
    int64_t sum = 0;
    for (WeightId id = 0; id < N_WEIGHT_IDS; id++) {
        const WeightRow *r = &weight_rows[id];
        if (config_has(c, id)) {
            sum += width(c, r->rows) * width(c, r->cols) * (in_layer(id) ? c->n_layers : 1);
        }
    }
    return sum;
}
