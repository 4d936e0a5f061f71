/* apply_data.c - steps that change where operands lie: pack, store, prefetch. */
#include <string.h>

#include "loop/apply_int.h"

typedef struct Access { /* the one index by which an operand is read */
    int operand;
    const Expr *index;
    bool several;
} Access;

static void find_access(const Expr *x, void *ctx)
{
    Access *f = ctx;
    if (x->kind == X_LOAD && x->id == f->operand) {
        f->several = f->several || (f->index && !expr_eq(f->index, x->a));
        f->index = x->a;
    }
}

static void find_access_slot(const Expr **slot, void *ctx)
{
    expr_visit(*slot, find_access, ctx);
}

static Access access_of(Apply *a, int operand)
{
    Access f = {.operand = operand};
    nest_exprs(&a->k->nest, find_access_slot, &f);
    return f;
}

/* ---- pack ---- */

typedef struct Outside { /* axes of an index that a layout does not name */
    Apply *a;
    const Pack *pack;
    int missing;
} Outside;

static bool pack_has(const Pack *p, int axis)
{
    for (int i = 0; i < p->n; i++) {
        if (p->axis[i] == axis) {
            return true;
        }
    }
    return false;
}

static void need_leaf(Outside *o, int axis)
{
    const Axis *x = axis_of_nest(o->a, axis);
    if (x->outer) {
        need_leaf(o, x->outer);
        need_leaf(o, x->inner);
    } else if (!pack_has(o->pack, axis) && !axis_is_unit(&o->a->k->nest, axis)) {
        o->missing = axis;
    }
}

static void need_axis(const Expr *x, void *ctx)
{
    if (x->kind == X_AXIS) {
        need_leaf(ctx, x->id);
    }
}

static Pack *parse_layout(Apply *a, const char *layout)
{
    Pack *p = arena_new(a->m, Pack);
    char *rest = arena_str(a->m, layout), *name;
    while ((name = strsep(&rest, ","))) {
        if (p->n == MAX_RANK) {
            refuse(a, "a layout has at most %d axes", MAX_RANK);
        }
        int axis = axis_named(a, name);
        if (pack_has(p, axis)) {
            refuse(a, "axis %s is named twice", name);
        }
        const Axis *x = axis_of_nest(a, axis);
        p->axis[p->n] = axis;
        p->extent[p->n++] = axis_peels(&a->k->nest, axis) ? x_op(a->m, S_ADD, x->extent, x_int(a->m, 1)) : x->extent;
    }
    return p;
}

/* Row-major over the layout's axes. */
static const Expr *panel_index(Apply *a, Pack *p)
{
    const Expr *index = x_int(a->m, 0);
    p->count = x_int(a->m, 1);
    for (int i = 0; i < p->n; i++) {
        index = x_op(a->m, S_ADD, x_op(a->m, S_MUL, index, p->extent[i]), x_axis(a->m, p->axis[i]));
        p->count = x_op(a->m, S_MUL, p->count, p->extent[i]);
    }
    return index;
}

typedef struct Repack {
    int operand;
    const Expr *index;
} Repack;

static const Expr *replace_load(Arena *m, const Expr *x, const Repack *r)
{
    if (!x) {
        return NULL;
    }
    Expr y = *x;
    y.a = x->kind == X_LOAD && x->id == r->operand ? r->index : replace_load(m, x->a, r);
    y.b = replace_load(m, x->b, r);
    y.c = replace_load(m, x->c, r);
    bool same = y.a == x->a && y.b == x->b && y.c == x->c;
    return same ? x : arena_dup(m, &y, sizeof y);
}

typedef struct Slots {
    Arena *m;
    Repack r;
} Slots;

static void replace_slot(const Expr **slot, void *ctx)
{
    Slots *s = ctx;
    *slot = replace_load(s->m, *slot, &s->r);
}

void step_pack(Apply *a)
{
    need_words(a, 2, 2);
    int operand = operand_named(a, a->word[0]);
    Operand *o = &a->k->operand.at[operand];
    Access f = access_of(a, operand);
    if (!o->constant) {
        refuse(a, "%s is not constant: it would be packed at every run", o->name);
    }
    if (o->pack || f.several || !f.index) {
        refuse(a, "%s is %s", o->name, o->pack ? "already packed" : "read by several indices");
    }
    Pack *p = parse_layout(a, a->word[1]);
    Outside out = {a, p, -1};
    expr_visit(f.index, need_axis, &out);
    if (out.missing >= 0) {
        refuse(a, "%s is read along %s, which the layout does not name", o->name, axis_of_nest(a, out.missing)->name);
    }
    for (int i = 0; i < p->n; i++) {
        for (const Axis *x = axis_of_nest(a, p->axis[i]); x->half_of; x = axis_of_nest(a, x->half_of - 1)) {
            if (axis_of_nest(a, x->half_of - 1)->tail == TAIL_OVERLAP) {
                refuse(a, "tiles of %s overlap", axis_of_nest(a, x->half_of - 1)->name);
            }
        }
    }
    p->source = f.index;
    Slots s = {a->m, {operand, panel_index(a, p)}};
    nest_exprs(&a->k->nest, replace_slot, &s);
    o->pack = p;
    o->span.n = 0;
    *vec_push(a->m, &o->span) = p->count;
}

/* ---- store ---- */

void step_store(Apply *a)
{
    need_words(a, 2, 2);
    const Operand *o = &a->k->operand.at[operand_named(a, a->word[0])];
    refuse(a, "%s has no source of dtype %s: storage must be lossless", o->name, a->word[1]);
}

/* ---- prefetch ---- */

void step_prefetch(Apply *a)
{
    need_words(a, 3, 3);
    int operand = operand_named(a, a->word[0]);
    int axis = axis_named(a, a->word[1]);
    int64_t ahead_bytes = number_word(a, a->word[2], 1, 1 << 20);
    Access f = access_of(a, operand);
    if (f.several || !f.index) {
        refuse(a, "%s is read by several indices", a->word[0]);
    }
    if (!phase_of(a, axis) && a->k->nest.phase.n > 1) {
        refuse(a, "axis %s is around several phases", a->word[1]);
    }
    *vec_push(a->m, &a->k->prefetch) = (Prefetch){operand, axis, ahead_bytes, f.index};
}
