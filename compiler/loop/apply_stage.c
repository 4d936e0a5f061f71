/* apply_stage.c - stage: the tile of an operand that one turn of a loop reads is copied to a local buffer
 * first, in the order of the loops inside, so that what is strided becomes contiguous. Values stay. */
#include "loop/apply_int.h"

#define MAX_STAGED 16384 /* elements: the buffer is on the kernel's stack */

void need_no_stage(Apply *a)
{
    if (a->k->stage.n) {
        refuse(a, "an operand is already staged: split, cut and order come first");
    }
}

typedef struct Depends {
    Apply *a;
    int axis;
    bool found;
} Depends;

static bool made_of(Apply *a, int whole, int leaf)
{
    const Axis *x = axis_of_nest(a, whole);
    return whole == leaf ||
           (x->outer && (made_of(a, x->outer, leaf) || made_of(a, x->inner, leaf)));
}

static void find_axis(const Expr *x, void *ctx)
{
    Depends *d = ctx;
    d->found = d->found || (x->kind == X_AXIS && made_of(d->a, x->id, d->axis));
}

static bool depends(Apply *a, const Expr *x, int leaf)
{
    Depends d = {a, leaf, false};
    expr_visit(x, find_axis, &d);
    return d.found;
}

/* The loops inside axis that the index depends on, as loops of the copy. */
static void choose_loops(Apply *a, Staged *s, const Phase *p, const Expr *index)
{
    bool inside = false;
    for (int i = 0; i < p->loops.n; i++) {
        int leaf = p->loops.at[i];
        const Axis *x = axis_of_nest(a, leaf);
        if (inside && depends(a, index, leaf)) {
            if (x->extent->kind != X_CONST) {
                refuse(a, "the tile is as long as %s, whose extent is not constant", x->name);
            }
            *vec_push(a->m, &s->loops) = leaf;
        }
        inside = inside || leaf == s->axis;
    }
}

typedef struct Reads { /* of one operand */
    int operand, n;
} Reads;

static void count_reads(const Expr *x, void *ctx)
{
    Reads *r = ctx;
    r->n += x->kind == X_LOAD && x->id == r->operand;
}

static void count_in_slot(const Expr **slot, void *ctx)
{
    expr_visit(*slot, count_reads, ctx);
}

static int reads_of(const Expr *x, int operand)
{
    Reads r = {operand, 0};
    if (x) {
        expr_visit(x, count_reads, &r);
    }
    return r.n;
}

static int phases_with(Apply *a, int axis)
{
    int n = 0;
    for (int i = 0; i < a->k->nest.phase.n; i++) {
        const Phase *p = &a->k->nest.phase.at[i];
        for (int k = 0; k < p->loops.n; k++) {
            n += p->loops.at[k] == axis;
        }
    }
    return n;
}

static bool inside_reduction(Apply *a, const Phase *p, int axis)
{
    bool reduced = false;
    for (int i = 0; i < p->loops.n; i++) {
        reduced = reduced || axis_of_nest(a, p->loops.at[i])->kind == AXIS_REDUCE;
        if (p->loops.at[i] == axis) {
            return reduced;
        }
    }
    return false;
}

/* The copy is there wherever the operand is read: in this phase, and inside the axis. */
static void need_reads_inside_axis(Apply *a, int operand, const Phase *p, int axis)
{
    Reads all = {operand, 0};
    int here = 0;
    nest_exprs(&a->k->nest, count_in_slot, &all);
    for (int i = 0; i < p->body.n; i++) {
        here += reads_of(p->body.at[i].value, operand);
    }
    for (int i = 0; i < p->acc.n; i++) {
        here += reads_of(p->acc.at[i].update, operand);
    }
    for (int i = 0; i < p->finish.n && !inside_reduction(a, p, axis); i++) {
        here += reads_of(p->finish.at[i].value, operand);
    }
    if (here != all.n) {
        refuse(a, "%s is also read outside of %s", a->word[0], a->word[1]);
    }
}

void step_stage(Apply *a)
{
    need_words(a, 2, 2);
    int operand = operand_named(a, a->word[0]);
    Access f = access_of(a, operand);
    Staged s = {.axis = axis_named(a, a->word[1])};
    const Phase *p = phase_of(a, s.axis);
    if (f.several || !f.index) {
        refuse(a, "%s is read by several indices", a->word[0]);
    }
    if (!p || phases_with(a, s.axis) > 1) {
        refuse(a, "axis %s is %s several phases", a->word[1], p ? "in" : "around");
    }
    if (a->k->operand.at[operand].local) {
        refuse(a, "%s is a copy already", a->word[0]);
    }
    need_reads_inside_axis(a, operand, p, s.axis);
    need_read_everywhere(a, operand);
    choose_loops(a, &s, p, f.index);
    int64_t n = 1;
    s.index = x_int(a->m, 0);
    for (int i = 0; i < s.loops.n; i++) {
        const Axis *x = axis_of_nest(a, s.loops.at[i]);
        int64_t turns = x->extent->value.i + axis_peels(&a->k->nest, s.loops.at[i]);
        s.index = x_op(a->m, S_ADD, x_op(a->m, S_MUL, s.index, x_int(a->m, turns)),
                       x_axis(a->m, s.loops.at[i]));
        n = n > MAX_STAGED ? n : n * turns;
    }
    if (n > MAX_STAGED) {
        refuse(a, "the tile has more than %d elements", MAX_STAGED);
    }
    const Operand from = a->k->operand.at[operand];
    s.value = x_load(a->m, operand, from.dtype, f.index);
    s.local = a->k->operand.n;
    Operand *local = vec_push(a->m, &a->k->operand);
    *local = (Operand){
        .name = arena_printf(a->m, "%s.s", from.name), .dtype = from.dtype, .local = true};
    *vec_push(a->m, &local->span) = x_int(a->m, n);
    replace_index(a, operand, s.local, s.index);
    *vec_push(a->m, &a->k->stage) = s;
}
