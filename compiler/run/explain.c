/* explain.c - why a call of a program failed, in the interpreter's words. A kernel knows only one
 * failure, an index outside of its table, and answers with a code; which index it was, the
 * caller's own ids tell, where they reach the gather unchanged. */
#include "run/run_int.h"

/* The ids as the caller gave them; NULL: they were computed. */
static const Tensor *given_ids(const Graph *g, const Tensor *const *input, const Node *ids)
{
    while (ids->op == OP_RESHAPE || ids->op == OP_PERMUTE || ids->op == OP_BROADCAST) {
        ids = ids->in[0];
    }
    for (int i = 0; i < g->inputs.n; i++) {
        if (g->inputs.at[i] == ids) {
            return input[i];
        }
    }
    return NULL;
}

bool call_failed(const Graph *g, const Program *p, const Call *call, const Tensor *const *input,
                 const Sizes *z, int result, Err *err)
{
    const Node *n = g->nodes.at[call->node];
    if (n->op != OP_GATHER) {
        return err_set(err, E_RANGE, "Kernel %s failed with code %d (node %%%d).",
                       p->kernel.at[call->kernel]->symbol, result, n->id);
    }
    int64_t rows = dim_value(n->in[0]->shape.dim[0], z->value);
    const Tensor *ids = given_ids(g, input, n->in[1]);
    for (int64_t i = 0; ids && i < tensor_count(ids); i++) {
        int64_t id = value_load(ids->data, ids->dtype, i).i;
        if (id < 0 || id >= rows) {
            return err_set(err, E_RANGE,
                           "gather: the index %lld is outside 0..%lld (node %%%d).",
                           (long long)id, (long long)rows - 1, n->id);
        }
    }
    return err_set(err, E_RANGE, "gather: an index is outside 0..%lld (node %%%d).",
                   (long long)rows - 1, n->id);
}
