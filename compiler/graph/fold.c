/* fold.c - constant folding: a node whose operands are all constants becomes a constant.
 * needs: a finished graph. keeps: every value, bitwise, because the interpreter's own evaluation is
 * used. iota and dim have no operands and are never folded; large results stay computed. */
#include "graph/graph.h"

#define FOLD_LIMIT 65536 /* elements of a folded result */

static bool foldable(const Node *n, Node *const *in, int64_t *count)
{
    if (op_info[n->op].family == FAMILY_LEAF) {
        return false;
    }
    for (int i = 0; i < n->n_in; i++) {
        if (in[i]->op != OP_CONST) {
            return false;
        }
    }
    *count = 1;
    for (int i = 0; i < n->shape.rank; i++) {
        Dim d = n->shape.dim[i];
        if (!dim_is_const(d) || d.k > FOLD_LIMIT || (*count *= d.k) > FOLD_LIMIT) {
            return false;
        }
    }
    return true;
}

static Tensor const_tensor(const Node *n)
{
    Tensor t = {.dtype = n->dtype, .rank = n->shape.rank, .data = (void *)n->attr.value};
    for (int i = 0; i < t.rank; i++) {
        t.dim[i] = n->shape.dim[i].k;
    }
    return t;
}

static Node *fold(void *ctx, const Node *n, Node *const *in)
{
    const Graph *g = ctx;
    Env *e = g->env;
    int64_t count;
    if (!foldable(n, in, &count)) {
        return node_make(e, n->op, in, n->n_in, &n->attr, n->line);
    }
    Tensor *operand = arena_array(&e->kernel, Tensor, n->n_in);
    const Tensor **operands = arena_array(&e->kernel, const Tensor *, n->n_in);
    for (int i = 0; i < n->n_in; i++) {
        operand[i] = const_tensor(in[i]);
        operands[i] = &operand[i];
    }
    Tensor out = {.dtype = n->dtype, .rank = n->shape.rank};
    for (int i = 0; i < out.rank; i++) {
        out.dim[i] = n->shape.dim[i].k;
    }
    out.data = arena_alloc_n(&e->kernel, (size_t)count, (size_t)dtype_bytes(n->dtype));
    Sizes none = {0};
    Err err;
    if (!node_eval(g, n, &none, operands, NULL, &out, &err)) {
        /* A gather out of range must fail when it runs, as the unfolded graph does. */
        return node_make(e, n->op, in, n->n_in, &n->attr, n->line);
    }
    Attr attr = {.dtype = n->dtype, .shape = n->shape, .value = out.data};
    return node_make(e, OP_CONST, NULL, 0, &attr, n->line);
}

Graph *graph_fold(const Graph *g)
{
    return graph_rewrite(g, fold, (void *)g);
}
