/* arguments.c - a graph's inputs and weights: from NumPy files where they are given, weights
 * from the model's own folder, the rest from a seed. */
#include <math.h>
#include <string.h>

#include "cli/cli.h"

static const Given *given_for(const Given *given, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (!strcmp(given[i].name, name)) {
            return &given[i];
        }
    }
    return NULL;
}

static Tensor tensor_for(Env *e, const Node *n, const Sizes *z)
{
    Tensor t = tensor_of_node(n, z->value);
    return tensor_new(e, &e->model, t.dtype, t.rank, t.dim);
}

/* Integers stay below every table that they index; 8 where they index none. */
static int64_t integer_bound(const Graph *g, const Node *input, const Sizes *z)
{
    int64_t bound = 8;
    bool indexes = false;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op == OP_GATHER && n->in[1] == input) {
            int64_t rows = dim_value(n->in[0]->shape.dim[0], z->value);
            bound = !indexes || rows < bound ? rows : bound;
            indexes = true;
        }
    }
    return bound < 1 ? 1 : bound;
}

/* Values of node n: its own stream, so that adding an input changes no other. */
static void fill_seeded(const Tensor *t, const char *name, uint64_t seed, double scale,
                        double offset, int64_t bound)
{
    Rng r;
    Hash h = hash_str(name);
    int64_t count = tensor_count(t);
    rng_seed(&r, seed ^ h.lo);
    for (int64_t i = 0; i < count; i++) {
        Value v = {.i = 0};
        if (t->dtype == DT_F32) {
            v.f = (float)(offset + scale * rng_normal(&r));
        } else {
            v.i = (int64_t)rng_below(&r, (uint64_t)(t->dtype == DT_BOOL ? 2 : bound));
        }
        value_store(t->data, t->dtype, i, v);
    }
}

/* A matrix is scaled by its width, a norm's gain is around 1. */
static void fill_weight(const Tensor *t, const char *name, uint64_t seed)
{
    bool gain = t->rank == 1 && strstr(name, "norm");
    double scale = t->rank > 1 ? 1.0 / sqrt((double)(t->dim[t->rank - 1] + 1)) : 0.05;
    fill_seeded(t, name, seed, scale, gain ? 1.0 : 0.0, 8);
}

/* A model folder's own weights; a config.json alone, or a folder without weights, has none. */
static void load_weights(Env *e, const Source *s, Weights *w)
{
    Machine machine;
    if (checkpoint_there(e, s->path)) {
        Config c = config_read(e, s->path);
        machine_read(e, "", &machine);
        weights_load(e, w, &c, s->path, machine.n_threads, terminal_progress(),
                     "reading weights");
    }
}

static const Tensor *loaded_weight(const Weights *w, const char *name)
{
    for (int i = 0; i < w->n; i++) {
        if (!strcmp(w->tensor[i].name, name)) {
            return &w->tensor[i].t;
        }
    }
    return NULL;
}

static Tensor weight_tensor(Env *e, const Node *n, const Sizes *z, uint64_t seed,
                            const Given *given, const Weights *w)
{
    const Tensor *loaded = loaded_weight(w, n->attr.name);
    if (given) {
        return npy_read(e, &e->model, given->path);
    }
    if (loaded) {
        return *loaded;
    }
    Tensor t = tensor_for(e, n, z);
    fill_weight(&t, n->attr.name, seed);
    return t;
}

static NamedTensor input_tensor(Env *e, const Graph *g, const Node *n, const Sizes *z,
                                uint64_t seed, const Given *given)
{
    NamedTensor out = {.name = n->attr.name};
    if (given) {
        out.t = npy_read(e, &e->model, given->path);
    } else {
        out.t = tensor_for(e, n, z);
        fill_seeded(&out.t, n->attr.name, seed, 1.0, 0.0, integer_bound(g, n, z));
    }
    return out;
}

static void need_names(Env *e, const Graph *g, const Given *given, int n_given)
{
    for (int i = 0; i < n_given; i++) {
        bool found = false;
        for (int k = 0; k < g->inputs.n; k++) {
            found = found || !strcmp(g->inputs.at[k]->attr.name, given[i].name);
        }
        for (int k = 0; k < g->weights.n; k++) {
            found = found || !strcmp(g->weights.at[k]->attr.name, given[i].name);
        }
        if (!found) {
            fail(e, E_INPUT, "--input %s=%s: the graph has no input or weight of that name.",
                 given[i].name, given[i].path);
        }
    }
}

void arguments_make(Env *e, const Source *s, const Graph *g, const Sizes *z, uint64_t seed,
                    const Given *given, int n_given, Weights *w, Args *args)
{
    NamedTensor *input = arena_array(&e->model, NamedTensor, g->inputs.n);
    NamedTensor *weight = arena_array(&e->model, NamedTensor, g->weights.n);
    need_names(e, g, given, n_given);
    load_weights(e, s, w);
    for (int i = 0; i < g->inputs.n; i++) {
        const Node *n = g->inputs.at[i];
        input[i] = input_tensor(e, g, n, z, seed, given_for(given, n_given, n->attr.name));
    }
    for (int i = 0; i < g->weights.n; i++) {
        const Node *n = g->weights.at[i];
        weight[i].name = n->attr.name;
        weight[i].t = weight_tensor(e, n, z, seed, given_for(given, n_given, n->attr.name), w);
    }
    *args = (Args){input, g->inputs.n, weight, g->weights.n};
}
