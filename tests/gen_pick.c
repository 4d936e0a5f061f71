/* gen_pick.c - which values a random step takes: small ones, more often recent ones, and ones
 * that fit together. */
#include "tests/gen_int.h"

int64_t gen_least(Gen *g, Dim d)
{
    int64_t v = 0;
    check(dim_eval(g->e, d, &g->smallest, &v, NULL));
    return v;
}

bool gen_small(Gen *g, const Shape *s)
{
    int64_t count = 1;
    for (int i = 0; i < s->rank; i++) {
        int64_t v;
        if (!dim_eval(g->e, s->dim[i], &g->largest, &v, NULL) || s->dim[i].n > 6) {
            return false;
        }
        count *= v > 1 ? v : 1;
    }
    return s->rank <= GEN_RANK && count <= MAX_ELEMENTS;
}

Node *gen_take(Gen *g, int i)
{
    g->used[i] = true;
    return g->value[i];
}

/* A value of this kind, more often a recent one; NULL: none was met. */
Node *gen_pick(Gen *g, Want want)
{
    for (int tries = 0; tries < 24; tries++) {
        int recent = chance(g, 50) && g->n_values > 4 ? g->n_values - 4 : 0;
        int i = recent + below(g, g->n_values - recent);
        if (want(g, g->value[i])) {
            return gen_take(g, i);
        }
    }
    return NULL;
}

bool gen_compatible(Gen *g, const Shape *a, const Shape *b)
{
    Shape both = a->rank >= b->rank ? *a : *b;
    for (int i = 1; i <= a->rank && i <= b->rank; i++) {
        Dim x = a->dim[a->rank - i], y = b->dim[b->rank - i];
        if (!dim_eq(x, y) && !dim_is(x, 1) && !dim_is(y, 1)) {
            return false;
        }
        both.dim[both.rank - i] = dim_is(x, 1) ? y : x;
    }
    return gen_small(g, &both);
}

/* Another value of this dtype that broadcasts with x, or x itself. */
Node *gen_partner(Gen *g, Node *x, Dtype t)
{
    for (int tries = 0; tries < 12; tries++) {
        int i = below(g, g->n_values);
        if (g->value[i]->dtype == t && gen_compatible(g, &x->shape, &g->value[i]->shape)) {
            return gen_take(g, i);
        }
    }
    return x->dtype == t ? x : f_cast(&g->f, x, t);
}

void gen_add(Gen *g, Node *n)
{
    if (n && g->n_values < MAX_VALUES && gen_small(g, &n->shape)) {
        g->value[g->n_values++] = n;
    }
}
