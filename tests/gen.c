/* gen.c - random valid graphs: inputs, some random steps (gen_steps.c, gen_update.c), and what nothing uses
 * as outputs. Also sizes and arguments for any graph.
 *
 * No expression draws twice where C leaves the order open: gcc and clang make the same graphs.
 * Every dimension grows with the symbols (slices cut constants off, or keep them), so a dim is
 * smallest at seq 1, past 0 and largest, for our sizes, at seq 7, past 5. */
#include "tests/gen_int.h"

#include <float.h>
#include <math.h>

/* ---- the graph ---------------------------------------------------------- */

/* The first input binds seq; past, where there is one, has an input of its own. */
static void declare_inputs(Gen *g)
{
    Dim width = dim_int(2 + below(g, 4));
    gen_add(g, f_input(&g->f, "x", DT_F32, shape_of(2, (Dim[]){g->seq, width})));
    if (chance(g, 70)) {
        g->past = dim_named(g->e, "past");
        Dim heads = dim_int(1 + below(g, 2));
        bool cache = chance(g, 50);
        gen_add(g, f_input(&g->f, "cache", DT_F32,
                           cache ? shape_of(3, (Dim[]){heads, g->past, width})
                                 : shape_of(2, (Dim[]){g->past, width})));
    }
    if (chance(g, 40)) {
        gen_add(g,
                f_input(&g->f, "ids", chance(g, 70) ? DT_I64 : DT_I32, shape_of(1, &g->seq)));
    }
    if (chance(g, 30)) {
        gen_add(g, f_input(&g->f, "bytes", DT_I8, shape_of(2, (Dim[]){dim_int(1), g->seq})));
    }
    if (chance(g, 20)) {
        gen_add(g, f_input(&g->f, "scale", DT_F32, shape_of(0, NULL)));
    }
}

/* What nothing uses becomes an output, the newest first; now and then a shared value too. */
static void declare_outputs(Gen *g)
{
    int n = 0;
    for (int i = g->n_values - 1; i >= 0 && n < MAX_OUTPUTS; i--) {
        bool last = i == g->n_values - 1, leaf = op_info[g->value[i]->op].family == FAMILY_LEAF;
        if (last || (!leaf && !g->used[i]) || (!leaf && chance(g, 5))) {
            graph_output(g->f.g, arena_printf(&g->e->kernel, "y%d", n), g->value[i]);
            n++;
        }
    }
}

Graph *gen_graph(Env *e, Rng *r)
{
    Gen g = {.e = e, .r = r, .seq = dim_named(e, "seq"), .past = dim_int(0)};
    Sym seq = sym_intern(e, "seq", 3), past = sym_intern(e, "past", 4);
    g.smallest.bound[seq] = g.smallest.bound[past] = true;
    g.largest.bound[seq] = g.largest.bound[past] = true;
    g.smallest.value[seq] = 1;
    g.largest.value[seq] = 7;
    g.largest.value[past] = 5;
    front_init(&g.f, e, "random");
    declare_inputs(&g);
    for (int n = 5 + below(&g, 14); n > 0; n--) {
        gen_step(&g);
    }
    declare_outputs(&g);
    graph_finish(g.f.g);
    return g.f.g;
}

/* ---- sizes and arguments ------------------------------------------------ */

/* Common values, and the ones that break things. */
Value gen_element(Rng *r, Dtype t, bool specials)
{
    static const float f32[] = {0.0f,      -0.0f,    1.0f,        INFINITY,
                                -INFINITY, NAN,      FLT_MIN / 4, -FLT_MIN / 4,
                                FLT_MAX,   -FLT_MAX, 0x1p24f,     1e-30f};
    bool special = specials && rng_below(r, 8) == 0;
    if (t == DT_F32) {
        float normal = (float)rng_normal(r);
        return (Value){.f = special ? f32[rng_below(r, countof(f32))] : normal};
    }
    if (t == DT_BOOL) {
        return (Value){.i = (int64_t)rng_below(r, 2)};
    }
    int64_t highest = INT64_MAX >> (64 - 8 * dtype_bytes(t));
    int64_t extreme[] = {0, -1, highest, -highest - 1};
    int64_t common = (int64_t)rng_below(r, 17) - 8;
    return (Value){.i = special ? extreme[rng_below(r, countof(extreme))] : common};
}

void gen_sizes(Rng *r, const Graph *g, Sizes *z)
{
    static const int seq[] = {1, 3, 7}, past[] = {0, 1, 3, 5};
    Sym s = sym_intern(g->env, "seq", 3), p = sym_intern(g->env, "past", 4);
    *z = (Sizes){0};
    for (int i = 0; i < g->symbols.n; i++) {
        Sym at = g->symbols.at[i];
        z->bound[at] = true;
        z->value[at] = at == s   ? seq[rng_below(r, countof(seq))]
                       : at == p ? past[rng_below(r, countof(past))]
                                 : 1 + (int64_t)rng_below(r, 7);
    }
}

static NamedTensor argument(Arena *a, Rng *r, const Node *n, const Sizes *z, bool specials)
{
    int64_t dim[MAX_RANK];
    for (int i = 0; i < n->shape.rank; i++) {
        check(dim_eval(a->env, n->shape.dim[i], z, &dim[i], NULL));
    }
    Tensor t = tensor_new(a->env, a, n->dtype, n->shape.rank, dim);
    int64_t count = tensor_count(&t);
    for (int64_t i = 0; i < count; i++) {
        value_store(t.data, t.dtype, i, gen_element(r, t.dtype, specials));
    }
    return (NamedTensor){.name = n->attr.name, .t = t};
}

Args gen_args(Arena *a, Rng *r, const Graph *g, const Sizes *z, bool specials)
{
    NamedTensor *input = arena_array(a, NamedTensor, g->inputs.n);
    NamedTensor *weight = arena_array(a, NamedTensor, g->weights.n);
    for (int i = 0; i < g->inputs.n; i++) {
        input[i] = argument(a, r, g->inputs.at[i], z, specials);
    }
    for (int i = 0; i < g->weights.n; i++) {
        weight[i] = argument(a, r, g->weights.at[i], z, specials);
    }
    return (Args){
        .input = input, .n_inputs = g->inputs.n, .weight = weight, .n_weights = g->weights.n};
}
