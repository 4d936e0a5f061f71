/* cse.c - common subexpressions: nodes with the same op, operands and attributes become one.
 * needs: a finished graph. keeps: every value, bitwise. Inputs are never merged; axis=-1 and axis=2
 * are different attributes and do not merge; arrays compare by dtype, shape and bytes. */
#include <string.h>

#include "graph/graph.h"

typedef struct Cse {
    Env *env;
    Map seen; /* key of op, operand identities and attributes -> Node */
    Buf key;
} Cse;

static void key_int(Buf *key, int64_t v)
{
    buf_bytes(key, &v, sizeof v);
}

static void key_shape(Buf *key, const Shape *s)
{
    key_int(key, s->rank);
    for (int i = 0; i < s->rank; i++) {
        dim_hash_into(s->dim[i], key);
    }
}

static void key_attrs(Buf *key, const Node *n)
{
    unsigned attrs = op_info[n->op].attrs;
    const Attr *a = &n->attr;
    if (attrs & A_NAME) {
        buf_bytes(key, a->name, strlen(a->name));
    }
    if (attrs & (A_TYPE | A_VALUE | A_DTYPE)) {
        key_int(key, a->dtype);
    }
    if (attrs & (A_TYPE | A_VALUE | A_SHAPE)) {
        key_shape(key, &a->shape);
    }
    if (attrs & A_VALUE) {
        size_t count = 1;
        for (int i = 0; i < a->shape.rank; i++) {
            count *= (size_t)a->shape.dim[i].k;
        }
        buf_bytes(key, a->value, count * (size_t)dtype_bytes(a->dtype));
    }
    if (attrs & A_EXPR) {
        dim_hash_into(a->expr, key);
    }
    if (attrs & A_AXIS) {
        key_int(key, a->axis);
    }
    for (int i = 0; i < a->n_perm && (attrs & A_PERM); i++) {
        key_int(key, a->perm[i]);
    }
    if (attrs & A_RANGE) {
        dim_hash_into(a->start, key);
        dim_hash_into(a->stop, key);
    }
    if (attrs & A_AT) {
        key_shape(key, &a->at);
    }
    if (attrs & A_FROM) {
        key_int(key, a->from_bf16);
    }
}

static Node *merge(void *ctx, const Node *n, Node *const *in)
{
    Cse *c = ctx;
    if (n->op == OP_INPUT) {
        return node_make(c->env, n->op, in, n->n_in, &n->attr, n->line);
    }
    buf_clear(&c->key);
    key_int(&c->key, n->op);
    buf_bytes(&c->key, in, (size_t)n->n_in * sizeof *in);
    key_attrs(&c->key, n);
    Hash key = hash_bytes(c->key.at, c->key.len);
    Node *same = map_get(&c->seen, key);
    if (!same) {
        same = node_make(c->env, n->op, in, n->n_in, &n->attr, n->line);
        map_put(&c->seen, key, same);
    }
    return same;
}

Graph *graph_cse(const Graph *g)
{
    Cse c = {.env = g->env};
    map_init(&c.seen, &g->env->kernel);
    buf_init(&c.key, &g->env->kernel);
    return graph_rewrite(g, merge, &c);
}
