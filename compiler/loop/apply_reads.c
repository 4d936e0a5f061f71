/* apply_reads.c - reads that a step makes happen where the naive nest makes none: in both
 * branches of a select whose condition differs between lanes, in a tile that is staged whatever
 * a condition says, and beyond the end of a padded axis. They are legal where they surely stay
 * inside the operand, and refused elsewhere. */
#include <string.h>

#include "loop/apply_int.h"

/* The element lies in the operand for every point of the naive axes, whatever conditions
 * say. */
static bool surely_inside(Apply *a, const Expr *load)
{
    const Operand *o = &a->k->operand.at[load->id];
    Nest whole = a->k->nest;
    whole.axis.at =
        arena_dup(&a->e->kernel, whole.axis.at, (size_t)whole.axis.n * sizeof *whole.axis.at);
    for (int i = 0; i < whole.axis.n; i++) {
        whole.axis.at[i].outer = whole.axis.at[i].inner =
            0; /* tails are guarded: only true points count */
    }
    if (index_below(&a->e->kernel, &whole, load->a, x_int(&a->e->kernel, 0)) >= 0) {
        return false;
    }
    for (int i = 0; i < o->span.n; i++) {
        if (index_below(&a->e->kernel, &whole, load->a, o->span.at[i]) > 0) {
            return true;
        }
    }
    return false;
}

static void need_inside(const Expr *x, void *ctx)
{
    Apply *a = ctx;
    if (x->kind == X_LOAD && !surely_inside(a, x)) {
        refuse(a, "%s is read only where a condition holds that differs between lanes",
               a->k->operand.at[x->id].name);
    }
}

void need_reads_inside(Apply *a, const Expr *x)
{
    expr_visit(x, need_inside, a);
}

/* ---- stage ---- */

typedef struct Branches {
    Apply *a;
    int operand;
} Branches;

static void need_branch_inside(const Expr *x, void *ctx)
{
    const Branches *b = ctx;
    if (x->kind == X_LOAD && x->id == b->operand && !surely_inside(b->a, x)) {
        refuse(b->a, "%s is read only where a condition holds, a tile of it everywhere",
               b->a->k->operand.at[b->operand].name);
    }
}

static void look_into_branches(const Expr *x, void *ctx)
{
    if (x->kind == X_SELECT) {
        expr_visit(x->b, need_branch_inside, ctx);
        expr_visit(x->c, need_branch_inside, ctx);
    }
}

static void look_into_slot(const Expr **slot, void *ctx)
{
    expr_visit(*slot, look_into_branches, ctx);
}

void need_read_everywhere(Apply *a, int operand)
{
    Branches b = {a, operand};
    nest_exprs(&a->k->nest, look_into_slot, &b);
}

/* ---- pad ---- */

typedef struct Padded {
    Apply *a;
    int root; /* the naive axis that a padded one is part of: only indices outside panels name it */
} Padded;

static void find_root(const Expr *x, void *ctx)
{
    Padded *p = ctx;
    p->root = x->kind == X_AXIS && x->id == p->root ? -1 : p->root;
}

static void need_panel(const Expr *x, void *ctx)
{
    const Padded *p = ctx;
    Padded inside = *p;
    if (x->kind == X_LOAD) {
        expr_visit(x->a, find_root, &inside);
        if (inside.root < 0) {
            refuse(p->a, "%s is read beyond the end of %s: only panels are padded",
                   p->a->k->operand.at[x->id].name, axis_of_nest(p->a, p->root)->name);
        }
    }
}

void check_pads(Apply *a)
{
    for (int i = 0; i < a->k->nest.axis.n; i++) {
        Padded p = {a, i};
        while (axis_of_nest(a, p.root)->half_of) {
            p.root = axis_of_nest(a, p.root)->half_of - 1;
        }
        for (int k = 0; axis_of_nest(a, i)->tail == TAIL_PAD && k < a->k->nest.phase.n; k++) {
            const Phase *q = &a->k->nest.phase.at[k];
            for (int s = 0; s < q->body.n; s++) {
                expr_visit(q->body.at[s].value, need_panel, &p);
            }
            for (int s = 0; s < q->acc.n; s++) {
                expr_visit(q->acc.at[s].update, need_panel, &p);
            }
        }
    }
}
