/* fold.c - constant folding: a node whose operands are all constants becomes a constant.
 * needs: a finished graph. keeps: every value, bitwise, because the interpreter's own evaluation is
 * used. iota and dim have no operands and are never folded; large results stay computed. */
#include "graph/graph.h"

enum {
    MAX_FOLDED = 65536,          /* elements of one result */
    MAX_FOLDED_BYTES = 64 << 20, /* of all: a small text must not ask for all memory there is */
};

typedef struct Fold {
    const Graph *g;
    int64_t folded_bytes;
} Fold;

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
        if (!dim_is_const(d) || d.k > MAX_FOLDED || (*count *= d.k) > MAX_FOLDED) {
            return false;
        }
    }
    return true;
}

/* Without symbols: only constants and what is made of them comes here. */
static Tensor concrete_tensor(const Node *n, void *data)
{
    static const int64_t no_symbols[MAX_SYMBOLS];
    Tensor t = tensor_of_node(n, no_symbols);
    t.data = data;
    return t;
}

static Node *fold(void *ctx, const Node *n, Node *const *in)
{
    Fold *f = ctx;
    Env *e = f->g->env;
    int64_t count;
    if (!foldable(n, in, &count) ||
        f->folded_bytes + count * dtype_bytes(n->dtype) > MAX_FOLDED_BYTES) {
        return node_make(e, n->op, in, n->n_in, &n->attr, n->line);
    }
    Tensor *operand = arena_array(&e->kernel, Tensor, n->n_in);
    const Tensor **operands = arena_array(&e->kernel, const Tensor *, n->n_in);
    for (int i = 0; i < n->n_in; i++) {
        operand[i] = concrete_tensor(in[i], (void *)in[i]->attr.value);
        operands[i] = &operand[i];
    }
    size_t bytes = (size_t)count * (size_t)dtype_bytes(n->dtype);
    Tensor out = concrete_tensor(n, arena_alloc(&e->kernel, bytes));
    Sizes none = {0};
    Err err;
    if (!node_eval(f->g, n, &none, operands, NULL, &out, &err)) {
        /* A gather out of range must fail when it runs, as the unfolded graph does. */
        return node_make(e, n->op, in, n->n_in, &n->attr, n->line);
    }
    f->folded_bytes += count * dtype_bytes(n->dtype);
    Attr attr = {.dtype = n->dtype, .shape = n->shape, .value = out.data};
    return node_make(e, OP_CONST, NULL, 0, &attr, n->line);
}

Graph *graph_fold(const Graph *g)
{
    return graph_rewrite(g, fold, &(Fold){.g = g});
}
