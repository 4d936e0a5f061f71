/* consumers.c - who reads a value, looking through reshape, permute, broadcast, slice and concat.
 * needs: a finished graph. spec: loop-ir 5 */
#include "lower/fuse_int.h"

static void add_once(Env *e, Nodes *list, const Node *n)
{
    for (int i = 0; i < list->n; i++) {
        if (list->at[i] == n) {
            return;
        }
    }
    *vec_push(&e->kernel, list) = n;
}

/* Whether movement n is written to memory: then it reads its operand like a kernel. */
static bool written(const Uses *u, const Ban *ban, const Node *n)
{
    return u->is_output[n->id] || ban[n->id].realize;
}

static void collect(const Graph *g, Uses *u, const Ban *ban, const Node *n)
{
    Nodes *all = &u->consumers[n->id];
    for (int i = 0; i < u->direct[n->id].n; i++) {
        const Node *user = u->direct[n->id].at[i];
        bool looks_through = is_movement(user) && !ban[user->id].realize;
        if (!is_movement(user) || written(u, ban, user)) {
            add_once(g->env, all, user);
        }
        for (int k = 0; looks_through && k < u->consumers[user->id].n; k++) {
            add_once(g->env, all, u->consumers[user->id].at[k]);
        }
    }
}

Uses uses_of(const Graph *g, const Ban *ban)
{
    Arena *m = &g->env->kernel;
    int n = g->nodes.n;
    Uses u = {arena_array(m, Nodes, n), arena_array(m, Nodes, n), arena_array(m, bool, n)};
    for (int i = 0; i < n; i++) {
        const Node *node = g->nodes.at[i];
        for (int k = 0; k < node->n_in; k++) {
            add_once(g->env, &u.direct[node->in[k]->id], node);
        }
    }
    for (int i = 0; i < g->outputs.n; i++) {
        u.is_output[g->outputs.at[i].node->id] = true;
    }
    for (int i = n - 1; i >= 0; i--) {
        collect(g, &u, ban, g->nodes.at[i]);
    }
    return u;
}
