/* uses.c - who has a value as an operand.
 * needs: a finished graph. Time and memory are linear in its edges. */
#include "lower/fuse_int.h"

/* Users are met in graph order, so one that uses a value twice is the newest in its list. */
static void add_user(Env *e, Nodes *users, const Node *n)
{
    if (!users->n || users->at[users->n - 1] != n) {
        *vec_push(&e->kernel, users) = n;
    }
}

Uses uses_of(const Graph *g)
{
    Arena *m = &g->env->kernel;
    Uses u = {arena_array(m, Nodes, g->nodes.n), arena_array(m, bool, g->nodes.n)};
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *node = g->nodes.at[i];
        for (int k = 0; k < node->n_in; k++) {
            add_user(g->env, &u.direct[node->in[k]->id], node);
        }
    }
    for (int i = 0; i < g->outputs.n; i++) {
        u.is_output[g->outputs.at[i].node->id] = true;
    }
    return u;
}
