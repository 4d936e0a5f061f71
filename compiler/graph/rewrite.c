/* rewrite.c - rebuilds a graph bottom-up through a mapping of nodes: what every graph pass is.
 * needs: a finished graph. gives: a new finished, validated graph; inputs keep their declaration and
 * order; what no output reaches is gone. */
#include "graph/graph.h"

Graph *graph_rewrite_open(const Graph *g, NodeMap map, void *ctx)
{
    Env *e = g->env;
    Graph *out = graph_new(e, g->name);
    Node **now = arena_array(&e->kernel, Node *, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        Node **in = arena_array(&e->kernel, Node *, n->n_in);
        for (int k = 0; k < n->n_in; k++) {
            in[k] = now[n->in[k]->id];
        }
        now[i] = map(ctx, n, in);
    }
    for (int i = 0; i < g->inputs.n; i++) {
        graph_input(out, now[g->inputs.at[i]->id]);
    }
    for (int i = 0; i < g->outputs.n; i++) {
        graph_output(out, g->outputs.at[i].name, now[g->outputs.at[i].node->id]);
    }
    return out;
}

Graph *graph_rewrite(const Graph *g, NodeMap map, void *ctx)
{
    Graph *out = graph_rewrite_open(g, map, ctx);
    graph_finish(out);
    return out;
}
