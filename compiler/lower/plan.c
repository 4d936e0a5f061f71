/* plan.c - fusion planning: which nodes get a kernel of their own, and which are computed inside another's.
 * In words: an elementwise value is inlined into exactly one kernel and never into a matmul's operand;
 * a reduction along rows joins the elementwise kernel that alone uses it (row); a matmul likewise when
 * nothing stands between them (epilogue). Decisions feed back, so rounds repeat until nothing changes.
 * needs: a finished graph. spec: loop-ir 5 */
#include "lower/fuse_int.h"

enum {
    INLINE_DEPTH = 128, /* longest chain of values in one kernel: keeps the stack flat */
    MAX_ROUNDS = 1000,  /* the model takes 5 */
};

/* The kernels that read a value, directly or through movement. */
typedef struct Readers {
    const Node *root; /* of one of them; NULL: there is none */
    bool several;     /* there are others */
    bool matmul;      /* some matmul reads it */
} Readers;

typedef struct Planner {
    FusePlan p;
    Readers *readers;                                 /* by node id, as of the last assign */
    const Node **claimed_by_row, **claimed_by_matmul; /* by target id: a fused node, or NULL */
    int *depth; /* by node id: nodes between it and the kernel that computes it */
} Planner;

bool is_reduction(const Node *n)
{
    return op_info[n->op].family == FAMILY_REDUCE;
}

static bool transcendental(const Node *n)
{
    return n->op == OP_EXP || n->op == OP_SIN || n->op == OP_COS;
}

static void find_free(FusePlan *p)
{
    for (int i = 0; i < p->g->nodes.n; i++) {
        const Node *n = p->g->nodes.at[i];
        bool is =
            n->op == OP_CONST || ((is_elementwise(n) || is_movement(n)) && !transcendental(n));
        for (int k = 0; k < n->n_in; k++) {
            is = is && p->free[n->in[k]->id];
        }
        p->free[i] = is && !p->ban[i].realize;
    }
}

static bool has_one_user(const FusePlan *p, const Node *n)
{
    return p->uses.direct[n->id].n == 1 && !p->uses.is_output[n->id];
}

/* The kernel of an update's value can store it in place itself, whatever its kind, where nobody else
 * wants the value and no element is repeated or left out on the way. */
static void find_into(FusePlan *p)
{
    for (int i = 0; i < p->g->nodes.n; i++) {
        const Node *n = p->in_place[i] ? p->g->nodes.at[i]->in[1] : NULL;
        while (n && has_one_user(p, n) && !p->ban[n->id].realize &&
               (n->op == OP_RESHAPE || n->op == OP_PERMUTE)) {
            n = n->in[0];
        }
        bool computed = n && op_info[n->op].family != FAMILY_LEAF && !is_movement(n);
        if (computed && has_one_user(p, n) && !p->free[n->id]) {
            p->into[n->id] = p->g->nodes.at[i];
        }
    }
}

/* What an update is written behind must be in memory. */
static void find_in_place(FusePlan *p, const bool *copied)
{
    updates_choose(p->g, copied, p->in_place);
    for (int i = 0; i < p->g->nodes.n; i++) {
        const Node *under = p->in_place[i] ? p->g->nodes.at[i]->in[0] : NULL;
        if (under && under->op == OP_UPDATE && !p->in_place[under->id]) {
            p->ban[under->id].realize = true;
        }
    }
}

static void add_readers(Readers *to, Readers more)
{
    bool another = to->root && more.root && to->root != more.root;
    to->several = to->several || more.several || another;
    to->matmul = to->matmul || more.matmul;
    to->root = to->root ? to->root : more.root;
}

/* A movement that is written to memory, as an update in place always is, reads its operand like a
 * kernel; through any other one, and through one that is an output, its own readers read it. */
static Readers readers_of(const Planner *pl, const Node *n)
{
    const FusePlan *p = &pl->p;
    const Nodes *users = &p->uses.direct[n->id];
    Readers all = {0};
    for (int i = 0; i < users->n; i++) {
        const Node *user = users->at[i];
        bool written = p->ban[user->id].realize || p->in_place[user->id];
        if (!is_movement(user) || written || p->uses.is_output[user->id]) {
            add_readers(&all,
                        (Readers){.root = p->root[user->id], .matmul = user->op == OP_MATMUL});
        }
        if (is_movement(user) && !written) {
            add_readers(&all, pl->readers[user->id]);
        }
    }
    return all;
}

static int depth_below(const Planner *pl, const Node *n)
{
    int depth = 0;
    const Nodes *users = &pl->p.uses.direct[n->id];
    for (int i = 0; i < users->n; i++) {
        int id = users->at[i]->id;
        if (!pl->p.realized[id] && pl->depth[id] > depth) {
            depth = pl->depth[id];
        }
    }
    return depth + 1;
}

static void assign_node(Planner *pl, const Node *n)
{
    FusePlan *p = &pl->p;
    const Readers *readers = &pl->readers[n->id];
    bool forced = p->uses.is_output[n->id] || p->ban[n->id].realize || p->in_place[n->id] ||
                  p->into[n->id];
    bool leaf = n->op == OP_INPUT || n->op == OP_WEIGHT || n->op == OP_CONST;
    const Node *root = NULL;
    if (leaf || (is_movement(n) && !forced)) {
        p->root[n->id] = NULL;
        p->realized[n->id] = false;
        return;
    }
    if (is_reduction(n) || n->op == OP_MATMUL) {
        root = p->target[n->id];
    } else if (!forced && n->op != OP_GATHER) {
        root = p->free[n->id] || readers->matmul || readers->several ? NULL : readers->root;
    }
    bool inlined = root || (p->free[n->id] && !forced);
    p->realized[n->id] = !inlined;
    p->root[n->id] = inlined ? root : n;
}

/* Everything from the outputs back. A chain that grows too deep is cut by a buffer. */
static void assign(Planner *pl)
{
    FusePlan *p = &pl->p;
    for (int i = p->g->nodes.n - 1; i >= 0; i--) {
        const Node *n = p->g->nodes.at[i];
        pl->readers[i] = readers_of(pl, n);
        assign_node(pl, n);
        pl->depth[i] = p->realized[i] ? 0 : depth_below(pl, n);
    }
}

static bool cut_deep_chains(Planner *pl)
{
    FusePlan *p = &pl->p;
    bool cut = false;
    for (int i = p->g->nodes.n - 1; i >= 0; i--) {
        const Node *n = p->g->nodes.at[i];
        if (pl->depth[i] > 0 && pl->depth[i] % INLINE_DEPTH == 0 &&
            (is_elementwise(n) || is_movement(n))) {
            p->ban[i].realize = true;
            cut = true;
        }
    }
    return cut;
}

/* The realized elementwise node that alone uses n, or NULL. */
static const Node *unique_root(const Planner *pl, const Node *n)
{
    const Readers *readers = &pl->readers[n->id];
    const Node *t = readers->several || readers->matmul ? NULL : readers->root;
    return t && pl->p.realized[t->id] && is_elementwise(t) ? t : NULL;
}

static bool row_fits(const Planner *pl, const Node *n, const Node *t)
{
    const Shape *from = &n->in[0]->shape, *to = &t->shape;
    int last = to->rank - 1;
    if (pl->claimed_by_matmul[t->id] || from->rank != to->rank || last < 0 ||
        axis_of(pl->p.g->env, n, from->rank) != last) {
        return false;
    }
    return shape_eq(from, to);
}

static bool epilogue_fits(const Planner *pl, const Node *n, const Node *t)
{
    const Nodes *users = &pl->p.uses.direct[n->id];
    for (int i = 0; i < users->n; i++) {
        if (!is_elementwise(users->at[i])) {
            return false;
        }
    }
    if (pl->claimed_by_row[t->id] || !shape_eq(&n->shape, &t->shape)) {
        return false;
    }
    const Node *other = pl->claimed_by_matmul[t->id];
    int k = n->in[0]->shape.rank - 1;
    return !other || dim_eq(other->in[0]->shape.dim[k], n->in[0]->shape.dim[k]);
}

static void try_fuse(Planner *pl, const Node *n, bool *changed)
{
    FusePlan *p = &pl->p;
    bool candidate = is_reduction(n) || n->op == OP_MATMUL;
    if (!candidate || p->target[n->id] || p->uses.is_output[n->id] || p->ban[n->id].fuse) {
        return;
    }
    const Node *t = unique_root(pl, n);
    if (!t || !(is_reduction(n) ? row_fits : epilogue_fits)(pl, n, t)) {
        return;
    }
    p->target[n->id] = t;
    (is_reduction(n) ? pl->claimed_by_row : pl->claimed_by_matmul)[t->id] = n;
    *changed = true;
}

/* A decision whose kernel is gone is forgotten; claims are counted afresh. */
static void drop_stale(Planner *pl, bool *changed)
{
    FusePlan *p = &pl->p;
    for (int i = 0; i < p->g->nodes.n; i++) {
        pl->claimed_by_row[i] = pl->claimed_by_matmul[i] = NULL;
    }
    for (int i = 0; i < p->g->nodes.n; i++) {
        const Node *t = p->target[i];
        if (t && !p->realized[t->id]) {
            p->target[i] = NULL;
            *changed = true;
        } else if (t) {
            bool row = is_reduction(p->g->nodes.at[i]);
            (row ? pl->claimed_by_row : pl->claimed_by_matmul)[t->id] = p->g->nodes.at[i];
        }
    }
}

static void settle(Planner *pl)
{
    FusePlan *p = &pl->p;
    bool changed = true;
    for (int round = 0; changed && round < MAX_ROUNDS; round++) {
        changed = false;
        assign(pl);
        drop_stale(pl, &changed);
        for (int i = p->g->nodes.n - 1; i >= 0; i--) {
            try_fuse(pl, p->g->nodes.at[i], &changed);
        }
    }
    if (changed) { /* never seen; an unfused reduction is always right */
        for (int i = 0; i < p->g->nodes.n; i++) {
            p->target[i] = NULL;
        }
        assign(pl);
    }
}

FusePlan fuse_plan(const Graph *g, Ban *ban, const bool *copied)
{
    Arena *m = &g->env->kernel;
    int n = g->nodes.n;
    Planner pl = {.p = {.g = g, .ban = ban}};
    pl.p.free = arena_array(m, bool, n);
    pl.p.realized = arena_array(m, bool, n);
    pl.p.root = arena_array(m, const Node *, n);
    pl.p.target = arena_array(m, const Node *, n);
    pl.claimed_by_row = arena_array(m, const Node *, n);
    pl.claimed_by_matmul = arena_array(m, const Node *, n);
    pl.depth = arena_array(m, int, n);
    pl.readers = arena_array(m, Readers, n);
    pl.p.in_place = arena_array(m, bool, n);
    pl.p.uses = uses_of(g);
    find_in_place(&pl.p, copied);
    do {
        find_free(&pl.p);
        pl.p.into = arena_array(m, const Node *, n);
        find_into(&pl.p);
        settle(&pl);
    } while (cut_deep_chains(&pl));
    return pl.p;
}
