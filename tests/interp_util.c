/* interp_util.c - runs small graphs through the interpreter, asserting success. */
#include "interp_util.h"

#include <float.h>
#include <math.h>
#include <string.h>

Tensor vector_of(World *w, Dtype t, int64_t n, const void *data)
{
    Tensor v = tensor_new(&w->e, &w->e.model, t, 1, &n);
    memcpy(v.data, data, (size_t)(n * dtype_bytes(t)));
    return v;
}

void fill_special(Tensor *t, uint64_t seed)
{
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, FLT_MIN / 8, 1.0f};
    Rng r;
    rng_seed(&r, seed);
    int64_t n = tensor_count(t);
    for (int64_t i = 0; i < n; i++) {
        Value v = {.i = (int64_t)rng_below(&r, 256) - 128};
        if (t->dtype == DT_BOOL) {
            v.i &= 1;
        }
        if (t->dtype == DT_F32) {
            bool odd = rng_below(&r, 6) == 0;
            v.f = odd ? special[rng_below(&r, countof(special))] : (float)rng_normal(&r);
        }
        value_store(t->data, t->dtype, i, v);
    }
}

bool try_given(World *w, Graph *g, const Tensor *in, Tensor *out, Err *err)
{
    NamedTensor *named = arena_array(&w->e.model, NamedTensor, g->inputs.n);
    for (int i = 0; i < g->inputs.n; i++) {
        named[i] = (NamedTensor){.name = g->inputs.at[i]->attr.name, .t = in[i]};
    }
    Args args = {.input = named, .n_inputs = g->inputs.n};
    return graph_interpret(g, &args, NULL, &w->e.model, out, err);
}

Tensor eval_given(World *w, Node *y, const Tensor *in)
{
    Tensor out;
    Err err;
    cr_assert(try_given(w, finished(&w->f, y), in, &out, &err), "%s", err.text);
    return out;
}

Tensor eval_random(World *w, Node *y, int64_t seq, Tensor *in)
{
    Sizes z = {0};
    Sym s = sym_intern(&w->e, "seq", 3);
    z.bound[s] = true;
    z.value[s] = seq;
    for (int i = 0; i < w->f.g->inputs.n; i++) {
        const Node *n = w->f.g->inputs.at[i];
        int64_t dim[MAX_RANK];
        for (int axis = 0; axis < n->shape.rank; axis++) {
            cr_assert(dim_eval(&w->e, n->shape.dim[axis], &z, &dim[axis], NULL));
        }
        in[i] = tensor_new(&w->e, &w->e.model, n->dtype, n->shape.rank, dim);
        fill_special(&in[i], 100 * (uint64_t)seq + (uint64_t)i);
    }
    return eval_given(w, y, in);
}

void assert_elements(Dtype t, const void *got, const void *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        Value a = value_load(got, t, i), b = value_load(want, t, i);
        cr_assert(value_same(a, b, t), "element %lld is %.9g (%lld), not %.9g (%lld)",
                  (long long)i, (double)a.f, (long long)a.i, (double)b.f, (long long)b.i);
    }
}
