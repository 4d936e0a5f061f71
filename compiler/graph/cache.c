/* cache.c - the KV cache appended in place instead of joined anew at every step.
 *
 *     past_X [layers, .., past, ..]             cache_X [layers, .., capacity, ..]
 *       slice l, reshape, concat with fresh_l     update at [l, .., past, ..] with fresh_l
 *         -> what attention reads                   slice l, reshape, slice 0 .. past + fresh
 *     output: concat over l of fresh_l          output: the last update
 *
 * Each layer's update takes the one before it, so there is one cache, in versions; lowering
 * writes them all into one buffer. That there is room is a SizeCheck of every update.
 * needs: a finished graph, before or after other passes. keeps: what attention reads, bitwise.
 * changes: inputs and outputs as above; `past` is bound by an input that has no elements. */
#include <string.h>

#include "graph/graph.h"

typedef struct Side { /* one past_X, keys or values */
    const Node *past;
    int axis;           /* along which fresh values are joined; in past_X one further right */
    const Node **fresh; /* by layer */
    int output;         /* which collects them */
    Node *cache;        /* in the new graph: its newest version */
} Side;

typedef struct Pass {
    const Graph *g;
    Env *e;
    int *n_users;      /* by node id; outputs do not count */
    const Node **user; /* by node id: one of them */
    Vec(Side) side;
    Dim capacity;
} Pass;

/* ---- what is looked for ---- */

static const Node *only_user(const Pass *p, const Node *n, Op op)
{
    const Node *user = p->n_users[n->id] == 1 ? p->user[n->id] : NULL;
    return user && user->op == op ? user : NULL;
}

static bool is_axis(const Pass *p, const Node *n, int axis)
{
    return axis_of(p->e, n, n->shape.rank) == axis;
}

/* s with a 1 in front. */
static Shape stacked(const Shape *s)
{
    Shape out = {.rank = s->rank + 1, .dim = {dim_int(1)}};
    memcpy(&out.dim[1], s->dim, sizeof *s->dim * (size_t)s->rank);
    return out;
}

/* s without its first dim. */
static Shape unstacked(const Shape *s)
{
    return shape_of(s->rank - 1, &s->dim[1]);
}

/* One layer: slice l .. l + 1 of past_X, only reshaped, then only joined to fresh values. */
static bool find_layer(const Pass *p, Side *s, const Node *slice)
{
    const Node *row = only_user(p, slice, OP_RESHAPE);
    const Node *join = row ? only_user(p, row, OP_CONCAT) : NULL;
    Shape want = unstacked(&s->past->shape);
    Dim l = slice->attr.start;
    if (slice->op != OP_SLICE || !join || !is_axis(p, slice, 0) || !dim_is_const(l) ||
        !dim_is(slice->attr.stop, l.k + 1) || !shape_eq(&row->shape, &want) ||
        join->n_in != 2 || join->in[0] != row || s->fresh[l.k]) {
        return false;
    }
    int axis = axis_of(p->e, join, join->shape.rank);
    Sym past;
    s->fresh[l.k] = join->in[1];
    s->axis = s->axis < 0 ? axis : s->axis;
    return axis == s->axis && dim_as_sym(want.dim[axis], &past);
}

static bool collects(const Pass *p, const Side *s, const Node *n)
{
    bool found = n->op == OP_CONCAT && p->n_users[n->id] == 0 && is_axis(p, n, 0) &&
                 dim_is(s->past->shape.dim[0], n->n_in);
    for (int l = 0; found && l < n->n_in; l++) {
        Shape want = stacked(&s->fresh[l]->shape);
        found = n->in[l]->op == OP_RESHAPE && n->in[l]->in[0] == s->fresh[l] &&
                shape_eq(&n->in[l]->shape, &want);
    }
    return found;
}

static bool find_output(const Pass *p, Side *s)
{
    int n_found = 0;
    for (int i = 0; i < p->g->outputs.n; i++) {
        if (collects(p, s, p->g->outputs.at[i].node)) {
            s->output = i;
            n_found++;
        }
    }
    return n_found == 1;
}

/* Every use of the input is a layer's, and every layer is there. */
static bool find_side(const Pass *p, Side *s)
{
    Dim layers = s->past->shape.rank >= 2 ? s->past->shape.dim[0] : dim_int(0);
    bool named = !strncmp(s->past->attr.name, "past_", strlen("past_"));
    if (!named || !dim_is_const(layers) || layers.k < 1 ||
        p->n_users[s->past->id] != layers.k) {
        return false;
    }
    s->fresh = arena_array(&p->e->kernel, const Node *, layers.k);
    for (int i = 0; i < p->g->nodes.n; i++) {
        const Node *n = p->g->nodes.at[i];
        if (n->n_in > 0 && n->in[0] == s->past && !find_layer(p, s, n)) {
            return false;
        }
    }
    return s->axis >= 0 && find_output(p, s);
}

static Side *side_of(const Pass *p, const Node *past)
{
    for (int i = 0; i < p->side.n; i++) {
        if (p->side.at[i].past == past) {
            return &p->side.at[i];
        }
    }
    return NULL;
}

static Dim past_of(const Side *s)
{
    return s->past->shape.dim[s->axis + 1];
}

/* ---- names ---- */

static const char *cache_name(const Pass *p, const Node *past)
{
    return arena_printf(&p->e->model, "cache_%s", past->attr.name + strlen("past_"));
}

static const char *past_name(const Pass *p, const Side *s)
{
    Sym past;
    check(dim_as_sym(past_of(s), &past));
    return p->e->symbol[past];
}

static bool has_input(const Graph *g, const char *name)
{
    for (int i = 0; i < g->inputs.n; i++) {
        if (!strcmp(g->inputs.at[i]->attr.name, name)) {
            return true;
        }
    }
    return false;
}

/* Nothing in the graph is called as what is to be added. */
static bool names_are_free(const Pass *p)
{
    bool free = true;
    for (int i = 0; i < p->g->symbols.n; i++) {
        free = free && !dim_eq(dim_sym(p->e, p->g->symbols.at[i]), p->capacity);
    }
    for (int i = 0; i < p->side.n; i++) {
        const Side *s = &p->side.at[i];
        free = free && !has_input(p->g, cache_name(p, s->past)) &&
               !has_input(p->g, past_name(p, s));
    }
    return free;
}

/* ---- the rewrite ---- */

static Node *make(const Pass *p, Op op, Node *a, Node *b, Attr attr)
{
    return node_make(p->e, op, (Node *[]){a, b}, b ? 2 : 1, &attr, 0);
}

static Node *cache_input(const Pass *p, Side *s)
{
    Attr attr = s->past->attr;
    attr.name = cache_name(p, s->past);
    attr.shape.dim[s->axis + 1] = p->capacity;
    s->cache = node_make(p->e, OP_INPUT, NULL, 0, &attr, s->past->line);
    return s->cache;
}

/* Writes a layer's fresh values behind its past; gives both as one view of the cache. */
static Node *append(const Pass *p, Side *s, const Node *join, Node *fresh)
{
    Dim l = join->in[0]->in[0]->attr.start;
    Attr at = {.at = {.rank = s->past->shape.rank}}; /* offsets are 0 but for two */
    at.at.dim[0] = l;
    at.at.dim[s->axis + 1] = past_of(s);
    Node *value = make(p, OP_RESHAPE, fresh, NULL, (Attr){.shape = stacked(&fresh->shape)});
    s->cache = make(p, OP_UPDATE, s->cache, value, at);
    Attr layer = {.start = l, .stop = dim_addk(p->e, l, 1)};
    Node *row = make(p, OP_SLICE, s->cache, NULL, layer);
    row = make(p, OP_RESHAPE, row, NULL, (Attr){.shape = unstacked(&s->cache->shape)});
    Attr filled = {.axis = s->axis, .stop = join->shape.dim[s->axis]};
    return make(p, OP_SLICE, row, NULL, filled);
}

/* concat(reshape(slice(past_X)), fresh): the side, or NULL. */
static Side *joined_side(const Pass *p, const Node *n)
{
    bool fits =
        n->op == OP_CONCAT && n->in[0]->op == OP_RESHAPE && n->in[0]->in[0]->op == OP_SLICE;
    return fits ? side_of(p, n->in[0]->in[0]->in[0]) : NULL;
}

static Node *map(void *ctx, const Node *n, Node *const *in)
{
    const Pass *p = ctx;
    Side *s = n->op == OP_INPUT ? side_of(p, n) : joined_side(p, n);
    if (s) {
        return n->op == OP_INPUT ? cache_input(p, s) : append(p, s, n, in[1]);
    }
    bool read = n->op == OP_SLICE && side_of(p, n->in[0]);
    bool row = n->op == OP_RESHAPE && n->in[0]->op == OP_SLICE && side_of(p, n->in[0]->in[0]);
    return read || row ? NULL : node_make(p->e, n->op, in, n->n_in, &n->attr, n->line);
}

/* An input without elements, whose first dim is the past's symbol; unless another binds it. */
static void bind_past(const Pass *p, Graph *out, const Side *s)
{
    for (int i = 0; i < out->inputs.n; i++) {
        const Shape *shape = &out->inputs.at[i]->shape;
        for (int k = 0; k < shape->rank; k++) {
            if (dim_eq(shape->dim[k], past_of(s))) {
                return;
            }
        }
    }
    Attr attr = {.name = past_name(p, s), .dtype = DT_BOOL};
    attr.shape = shape_of(2, (Dim[]){past_of(s), dim_int(0)});
    graph_input(out, node_make(p->e, OP_INPUT, NULL, 0, &attr, 0));
}

static void find_users(Pass *p)
{
    p->n_users = arena_array(&p->e->kernel, int, p->g->nodes.n);
    p->user = arena_array(&p->e->kernel, const Node *, p->g->nodes.n);
    for (int i = 0; i < p->g->nodes.n; i++) {
        const Node *n = p->g->nodes.at[i];
        for (int k = 0; k < n->n_in; k++) {
            p->n_users[n->in[k]->id]++;
            p->user[n->in[k]->id] = n;
        }
    }
}

const Graph *graph_cache(const Graph *g)
{
    Pass p = {.g = g, .e = g->env, .capacity = dim_named(g->env, "capacity")};
    find_users(&p);
    for (int i = 0; i < g->inputs.n; i++) {
        Side s = {.past = g->inputs.at[i], .axis = -1};
        if (find_side(&p, &s)) {
            *vec_push(&p.e->kernel, &p.side) = s;
        }
    }
    if (!p.side.n || !names_are_free(&p)) {
        return g;
    }
    Graph *out = graph_rewrite_open(g, map, &p);
    for (int i = 0; i < p.side.n; i++) {
        out->outputs.at[p.side.at[i].output].node = p.side.at[i].cache;
        bind_past(&p, out, &p.side.at[i]);
    }
    graph_finish(out);
    return out;
}
