/* validate.c - what holds of every whole graph, when it is built and after every pass.
 *
 * 1. Declared inputs are input nodes, each name once; there is an output, each name once.
 * 2. Every input node that is used is declared.
 * 3. No two weights share a name.
 * 4. Every operand stands before its user in the list.
 * 5. Every node's dtype and shape are what its operands and attributes imply.
 * 6. Every symbol is bound by some input: it is, alone, one of its dimensions.
 *
 * needs: the lists of graph_finish. Changes nothing. spec: graph-ir 3 */
#include "graph/graph.h"

#define malformed(g, fmt, ...) \
    fail((g)->env, E_GRAPH, "graph %.100s: " fmt, (g)->name, ##__VA_ARGS__)

/* Puts name -> value; false where another value has the name already. */
static bool claim_name(Map *names, const char *name, const void *value)
{
    Hash key = hash_str(name);
    const void *old = map_get(names, key);
    if (!old) {
        map_put(names, key, (void *)value);
    }
    return !old || old == value;
}

static Map new_names(const Graph *g)
{
    Map names;
    map_init(&names, &g->env->kernel);
    return names;
}

/* ---- rule 1 ---------------------------------------- */

static void check_inputs(const Graph *g)
{
    Map names = new_names(g);
    for (int i = 0; i < g->inputs.n; i++) {
        const Node *n = g->inputs.at[i];
        if (n->op != OP_INPUT) {
            malformed(g, "declared input %d is a node of %s, not an input", i,
                      op_info[n->op].name);
        }
        if (!claim_name(&names, n->attr.name, &g->inputs.at[i])) {
            malformed(g, "input \"%.200s\" is declared twice", n->attr.name);
        }
    }
}

static void check_outputs(const Graph *g)
{
    if (!g->outputs.n) {
        malformed(g, "it has no outputs");
    }
    Map names = new_names(g);
    for (int i = 0; i < g->outputs.n; i++) {
        const Output *out = &g->outputs.at[i];
        if (!claim_name(&names, out->name, out)) {
            malformed(g, "output \"%.200s\" is declared twice", out->name);
        }
    }
}

/* ---- rules 2 to 5 ---------------------------------------- */

static void check_declared(const Graph *g)
{
    Map declared = new_names(g);
    for (int i = 0; i < g->inputs.n; i++) {
        claim_name(&declared, g->inputs.at[i]->attr.name, g->inputs.at[i]);
    }
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op == OP_INPUT && map_get(&declared, hash_str(n->attr.name)) != n) {
            malformed(g, "input \"%.200s\" is used but not declared", n->attr.name);
        }
    }
}

static void check_weights(const Graph *g)
{
    Map names = new_names(g);
    for (int i = 0; i < g->weights.n; i++) {
        const Node *n = g->weights.at[i];
        if (!claim_name(&names, n->attr.name, n)) {
            malformed(g, "two weights are named \"%.200s\"", n->attr.name);
        }
    }
}

static void check_order(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        int id = n->in[i]->id;
        if (id < 0 || id >= n->id || g->nodes.at[id] != n->in[i]) {
            malformed(g, "operand %d of %%%d (%s) does not come before it", i, n->id,
                      op_info[n->op].name);
        }
    }
}

static void check_type(const Graph *g, const Node *n)
{
    Node implied = *n;
    node_infer(g->env, n, &implied.dtype, &implied.shape);
    if (implied.dtype != n->dtype || !shape_eq(&implied.shape, &n->shape)) {
        malformed(g, "%%%d (%s) is stored as %s, but its operands and attributes make it %s",
                  n->id, op_info[n->op].name, node_type_text(g->env, n),
                  node_type_text(g->env, &implied));
    }
}

/* ---- rule 6 ---------------------------------------- */

static void check_bound(const Graph *g, const Node *n, Dim d, const bool bound[MAX_SYMBOLS])
{
    for (int i = 0; i < d.n; i++) {
        for (int k = 0; k < d.term[i].degree; k++) {
            Sym s = d.term[i].sym[k];
            if (!bound[s]) {
                malformed(g, "%%%d (%s) uses the symbol %s, which no input shape binds", n->id,
                          op_info[n->op].name, g->env->symbol[s]);
            }
        }
    }
}

static void check_symbols(const Graph *g, const Node *n, const bool bound[MAX_SYMBOLS])
{
    unsigned attrs = op_info[n->op].attrs;
    for (int i = 0; i < n->shape.rank; i++) {
        check_bound(g, n, n->shape.dim[i], bound);
    }
    if (attrs & A_EXPR) {
        check_bound(g, n, n->attr.expr, bound);
    }
    if (attrs & A_RANGE) {
        check_bound(g, n, n->attr.start, bound);
        check_bound(g, n, n->attr.stop, bound);
    }
    for (int i = 0; attrs & A_AT && i < n->attr.at.rank; i++) {
        check_bound(g, n, n->attr.at.dim[i], bound);
    }
}

void graph_validate(const Graph *g)
{
    check_inputs(g);
    check_outputs(g);
    check_declared(g);
    check_weights(g);
    bool bound[MAX_SYMBOLS] = {false};
    for (int i = 0; i < g->symbols.n; i++) {
        bound[g->symbols.at[i]] = true;
    }
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->id != i) {
            malformed(g, "the node at %d (%s) is numbered %d", i, op_info[n->op].name, n->id);
        }
        check_order(g, n);
        check_type(g, n);
        check_symbols(g, n, bound);
    }
}
