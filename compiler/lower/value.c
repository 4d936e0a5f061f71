/* value.c - the value of a node at an index, inside a fused kernel: an accumulator, a literal, a load
 * through a view, a movement of indices, or an operation on other values.
 * breaks: nothing. refuses: a fused result read elsewhere than at its own row or element, and
 * expressions that sharing would blow up. spec: loop-ir 6 */
#include "lower/value.h"

#include <string.h>

#define MAX_PURE 400  /* tree nodes of an expression inside a select's branch */
#define MAX_INDEX 200 /* tree nodes of one index */

void gen_ban(Gen *g, bool *ban)
{
    *ban = true;
    g->refused = true;
}

/* ---- what there is already: found by hashing, since a kernel may have thousands of values ---- */

void gen_begin(Gen *g)
{
    Arena *m = &g->l.e->kernel;
    g->acc.n = g->loaded.n = 0;
    g->hint = NULL;
    g->given_up = false;
    memset(g->n_named, 0, sizeof g->n_named);
    map_init(&g->loaded_by_buffer, m);
    map_init(&g->views_seen, m);
    map_init(&g->operands, m);
    buf_init(&g->key, m);
}

void gen_block(Gen *g, bool in_body)
{
    g->in_body = in_body;
    map_init(&g->known, &g->l.e->kernel);
}

static Hash key_of_ints(int a, int b)
{
    return hash_bytes((const int[]){a, b}, 2 * sizeof(int));
}

static Hash key_of_place(Gen *g, int buffer, Dim offset)
{
    buf_clear(&g->key);
    buf_bytes(&g->key, &buffer, sizeof buffer);
    dim_hash_into(offset, &g->key);
    return hash_bytes(g->key.at, g->key.len);
}

static Hash key_of_view(Gen *g, const View *v)
{
    key_of_place(g, v->buffer, v->offset);
    for (int i = 0; i < v->shape.rank; i++) {
        dim_hash_into(v->shape.dim[i], &g->key);
        dim_hash_into(v->stride[i], &g->key);
    }
    return hash_bytes(g->key.at, g->key.len);
}

/* Whether the expression, written out as a tree, has more than *left nodes. */
static bool too_big(const Expr *x, int *left)
{
    if (!x) {
        return false;
    }
    return --*left < 0 || too_big(x->a, left) || too_big(x->b, left) || too_big(x->c, left);
}

static bool bigger(const Expr *x, int limit)
{
    return too_big(x, &limit);
}

static bool same_index(int rank, const Expr *const *a, const Expr *const *b)
{
    for (int i = 0; i < rank; i++) {
        if (!expr_eq(a[i], b[i])) {
            return false;
        }
    }
    return true;
}

static const Expr *placeholder(Gen *g, const Node *n)
{
    return x_const(g->l.m, n->dtype, (Value){.i = 0});
}

/* a b: a contraction's operands, then a1 b1 ...; x0 x1 ...: all others, in order of first load. */
static const char *new_operand_name(Gen *g)
{
    const char *prefix = g->hint ? g->hint : "x";
    int same = g->n_named[(unsigned char)prefix[0]]++;
    return g->hint && !same ? prefix : arena_printf(g->l.m, "%s%d", prefix, same);
}

const Expr *gen_load(Gen *g, const View *v, const Expr *const *index)
{
    Hash key = key_of_place(g, v->buffer, v->offset);
    int operand = (int)(intptr_t)map_get(&g->operands, key); /* never 0, the output */
    if (!operand) {
        operand = build_operand(&g->b, new_operand_name(g), v);
        map_put(&g->operands, key, (void *)(intptr_t)operand);
    }
    build_span(&g->b, operand, v);
    return build_load(&g->b, operand, v, index);
}

static Loaded *loaded_of(Gen *g, int buffer)
{
    Arena *m = &g->l.e->kernel;
    Loaded *all = map_get(&g->loaded_by_buffer, key_of_ints(buffer, 0));
    if (!all) {
        all = arena_new(m, Loaded);
        *all = (Loaded){.buffer = buffer, .elements = dim_int(0)};
        map_put(&g->loaded_by_buffer, key_of_ints(buffer, 0), all);
        *vec_push(m, &g->loaded) = all;
    }
    return all;
}

/* Each different view of a buffer counts once. */
static const Expr *load_counted(Gen *g, const View *v, const Expr *const *index)
{
    Env *e = g->l.e;
    Hash key = key_of_view(g, v);
    if (!map_get(&g->views_seen, key)) {
        Loaded *all = loaded_of(g, v->buffer);
        Dim distinct = view_distinct(e, v);
        all->elements = dim_add(e, all->elements, distinct);
        all->covered = all->covered || dim_eq(distinct, g->l.p->buffer.at[v->buffer].count);
        map_put(&g->views_seen, key, all);
    }
    return gen_load(g, v, index);
}

/* idx < end_0 ? operand 0 : (idx < end_1 ? operand 1 : ... last): only the chosen one is loaded. */
static const Expr *value_of_concat(Gen *g, const Node *n, const Expr *const *index)
{
    Arena *m = g->l.m;
    int axis = axis_of(g->l.e, n, n->shape.rank);
    const Expr *value = NULL;
    Dim end = n->shape.dim[axis];
    for (int i = n->n_in - 1; i >= 0; i--) {
        Dim begin = dim_sub(g->l.e, end, n->in[i]->shape.dim[axis]);
        const Expr *at[MAX_RANK];
        for (int k = 0; k < n->shape.rank; k++) {
            at[k] = k == axis ? x_op(m, S_SUB, index[k], dim_expr(m, begin)) : index[k];
        }
        const Expr *branch = gen_value(g, n->in[i], at, true);
        value = !value
                    ? branch
                    : x_select(m, x_op(m, S_LT, index[axis], dim_expr(m, end)), branch, value);
        end = begin;
    }
    return value;
}

static const Expr *value_of_update(Gen *g, const Node *n, const Expr *const *index)
{
    const Expr *at[MAX_RANK];
    const Expr *outside = reindex_update(g->l.e, g->l.m, n, index, at);
    const Expr *value = gen_value(g, n->in[1], at, true);
    return outside ? x_select(g->l.m, outside, gen_value(g, n->in[0], index, true), value)
                   : value;
}

/* Where both branches are made of one value, each such node doubles the expression and the
 * work: so the first that is too big ends it for this kernel. */
static const Expr *value_of_choice(Gen *g, const Node *n, const Expr *const *index)
{
    const Expr *value =
        n->op == OP_CONCAT ? value_of_concat(g, n, index) : value_of_update(g, n, index);
    if (n != g->root && bigger(value, MAX_PURE)) {
        gen_ban(g, &g->plan->ban[n->id].realize);
        g->given_up = true;
    }
    return value;
}

static const Expr *value_of_movement(Gen *g, const Node *n, const Expr *const *index, bool pure)
{
    const Expr *from[MAX_RANK];
    if (n->op == OP_CONCAT || n->op == OP_UPDATE) {
        return value_of_choice(g, n, index);
    }
    reindex(g->l.e, g->l.m, n, index, from);
    for (int i = 0; i < n->in[0]->shape.rank; i++) {
        if (bigger(from[i], MAX_INDEX)) {
            gen_ban(g, &g->plan->ban[n->id].realize);
            return placeholder(g, n);
        }
    }
    return gen_value(g, n->in[0], from, pure);
}

static const Expr *value_of_elementwise(Gen *g, const Node *n, const Expr *const *index,
                                        bool pure)
{
    Arena *m = g->l.m;
    const Expr *in[3];
    if (n->op == OP_IOTA) {
        return x_cast(m, index[axis_of(g->l.e, n, n->shape.rank)], n->dtype);
    }
    if (n->op == OP_DIM) {
        return dim_expr(m, n->attr.expr);
    }
    for (int i = 0; i < n->n_in; i++) {
        in[i] = gen_value(g, n->in[i], index, pure);
    }
    const Expr *x = elementwise(m, n, in);
    if (n == g->root) {
        return x;
    }
    if (!pure) {
        return build_let(&g->b, g->in_body, x);
    }
    if (bigger(x, MAX_PURE)) {
        gen_ban(g, &g->plan->ban[n->id].realize);
        return placeholder(g, n);
    }
    return x;
}

/* A fused reduction or matmul: its variable, at its own index only; anywhere else it is refused. */
static const Expr *value_of_fused(Gen *g, const Node *n, const Expr *const *index)
{
    for (int i = 0; i < g->acc.n; i++) {
        if (g->acc.at[i].n == n && same_index(n->shape.rank, g->acc.at[i].index, index)) {
            return g->acc.at[i].var;
        }
    }
    gen_ban(g, &g->plan->ban[n->id].fuse);
    return placeholder(g, n);
}

static const Expr *value_anew(Gen *g, const Node *n, const Expr *const *index, bool pure)
{
    const View *v = &g->l.view[n->id];
    if (g->plan->target[n->id]) {
        return value_of_fused(g, n, index);
    }
    if (n->op == OP_CONST && v->buffer < 0) {
        return x_const(g->l.m, n->dtype, value_load(n->attr.value, n->dtype, 0));
    }
    if (n != g->root && v->buffer >= 0) {
        return load_counted(g, v, index);
    }
    if (is_movement(n)) {
        return value_of_movement(g, n, index, pure);
    }
    check(is_elementwise(n));
    return value_of_elementwise(g, n, index, pure);
}

const Expr *gen_value(Gen *g, const Node *n, const Expr *const *index, bool pure)
{
    Arena *m = &g->l.e->kernel;
    Hash key = key_of_ints(n->id, pure);
    if (g->given_up) {
        return placeholder(g, n);
    }
    for (const Known *k = map_get(&g->known, key); k; k = k->earlier) {
        if (same_index(n->shape.rank, k->index, index)) {
            return k->value;
        }
    }
    Known *known = arena_new(m, Known);
    known->value = value_anew(g, n, index, pure);
    known->index = arena_dup(m, index, (size_t)n->shape.rank * sizeof *index);
    known->earlier = map_get(&g->known, key);
    map_put(&g->known, key, known);
    return known->value;
}
