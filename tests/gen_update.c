/* gen_update.c - updates for random graphs: of inputs and of other updates, which are
 * written in place, and of values that are not; with values that read what they overwrite,
 * that anything computes, that are turned around on the way. Rooms and offsets hold at every
 * size. */
#include "tests/gen_int.h"

/* What lowering can write into. */
static bool in_memory(Gen *g, const Node *n)
{
    (void)g;
    return n->op == OP_INPUT || n->op == OP_UPDATE;
}

static bool any(Gen *g, const Node *n)
{
    (void)g, (void)n;
    return true;
}

/* A window of x as a node of its own, and where it begins. */
static Node *window(Gen *g, Node *x, Shape *at)
{
    Node *part = x;
    *at = (Shape){.rank = x->shape.rank};
    for (int i = 0; i < x->shape.rank; i++) {
        Dim stop;
        gen_bounds(g, x->shape.dim[i], &at->dim[i], &stop);
        part = f_slice(&g->f, part, i, at->dim[i], stop);
    }
    return part;
}

/* Something else of the same type, or made of the window itself. */
static Node *fresh_value(Gen *g, Node *part)
{
    int rank = part->shape.rank;
    if (rank > 0 && chance(g, 40)) {
        Node *rows = f_iota(&g->f, DT_I64, part->shape, below(g, rank));
        return f_cast(&g->f, rows, part->dtype);
    }
    if (dtype_numeric(part->dtype) && chance(g, 40)) {
        return f_broadcast_to(&g->f, f_scalar(&g->f, part->dtype, below(g, 9)), part->shape);
    }
    if (dtype_numeric(part->dtype) && chance(g, 70)) {
        return f_unary(&g->f, OP_NEG, part);
    }
    return part;
}

/* Through a permute of something computed, back to the shape it had. */
static Node *turned(Gen *g, Node *x)
{
    int rank = x->shape.rank;
    if (rank < 2 || !dtype_numeric(x->dtype) || chance(g, 60)) {
        return x;
    }
    int perm[GEN_RANK], back[GEN_RANK], first = below(g, rank);
    for (int i = 0; i < rank; i++) {
        perm[i] = (first + i) % rank;
        back[perm[i]] = i;
    }
    Node *y = f_unary(&g->f, OP_NEG, f_permute(&g->f, x, rank, perm));
    return f_permute(&g->f, y, rank, back);
}

/* Whether v fits into x at every size; at: where, at the beginning or the end of each axis. */
static bool fits(Gen *g, const Node *x, const Node *v, Shape *at)
{
    bool ok = x->dtype == v->dtype && x->shape.rank == v->shape.rank;
    *at = (Shape){.rank = x->shape.rank};
    for (int i = 0; ok && i < x->shape.rank; i++) {
        Dim room = dim_sub(g->e, x->shape.dim[i], v->shape.dim[i]);
        at->dim[i] = chance(g, 50) ? room : dim_int(0);
        ok = dim_never_negative(room);
    }
    return ok;
}

Node *gen_update(Gen *g)
{
    Shape at;
    if (chance(g, 50)) {
        Node *v = gen_pick(g, any);
        for (int tries = 0; tries < 12; tries++) {
            int i = below(g, g->n_values);
            if (fits(g, g->value[i], v, &at)) {
                return f_update(&g->f, gen_take(g, i), turned(g, v), at);
            }
        }
        return NULL;
    }
    Node *x = gen_pick(g, in_memory);
    x = x && chance(g, 85) ? x : gen_pick(g, any);
    Node *part = window(g, x, &at);
    part = turned(g, fresh_value(g, part));
    return f_update(&g->f, x, part, at);
}
