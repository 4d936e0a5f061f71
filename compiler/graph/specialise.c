/* specialise.c - a symbol whose size is known becomes that number, as seq becomes 1 for decode.
 * needs: a finished graph. keeps: every value, bitwise, at that size; inputs and their order.
 * The symbol is gone from all shapes and attributes, so no input binds it and none has to. */
#include "graph/graph.h"

typedef struct Known {
    Env *e;
    bool has[MAX_SYMBOLS];
    Dim with[MAX_SYMBOLS];
} Known;

static void subst(const Known *k, Dim *d)
{
    *d = dim_subst(k->e, *d, k->has, k->with);
}

static void subst_shape(const Known *k, Shape *s)
{
    for (int i = 0; i < s->rank; i++) {
        subst(k, &s->dim[i]);
    }
}

/* Attributes that the op does not take are empty, and empty stays empty. */
static Node *specialise(void *ctx, const Node *n, Node *const *in)
{
    const Known *k = ctx;
    Attr a = n->attr;
    subst_shape(k, &a.shape);
    subst_shape(k, &a.at);
    subst(k, &a.expr);
    subst(k, &a.start);
    subst(k, &a.stop);
    if (n->op == OP_DIM && dim_is_const(a.expr)) {
        Attr value = {.dtype = DT_I64, .shape = shape_of(0, NULL), .value = &a.expr.k};
        return node_make(k->e, OP_CONST, NULL, 0, &value, n->line);
    }
    return node_make(k->e, n->op, in, n->n_in, &a, n->line);
}

Graph *graph_specialise(const Graph *g, Sym s, int64_t value)
{
    Known k = {.e = g->env};
    bool bound = false;
    for (int i = 0; i < g->symbols.n; i++) {
        bound = bound || g->symbols.at[i] == s;
    }
    if (!bound || value < 0) {
        fail(g->env, E_INPUT, "Graph \"%.64s\" cannot be specialised to %.64s = %lld: %s.",
             g->name, g->env->symbol[s], (long long)value,
             bound ? "a size is not negative" : "it has no such symbol");
    }
    k.has[s] = true;
    k.with[s] = dim_int(value);
    return graph_rewrite(g, specialise, &k);
}
