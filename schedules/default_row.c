/* default_row.c - rows: two vectors along the reductions, four where exp is summed, one along
 * what follows them, exp once and by the polynomial, rows shared by threads. What the mechanism refuses is left out, one
 * wish at a time. needs: a kernel of class row. breaks: nothing. */
#include "schedules/schedules_int.h"

#define SMALL_WORK 16000 /* elements that take less than waking another thread */

int row_lanes(const Look *l, const AxisList *axes, int64_t widest)
{
    for (int i = 0; i < axes->n; i++) {
        int64_t n = axis_constant(l->k, axes->at[i]);
        widest = n >= 0 && n < widest ? n : widest;
    }
    return axes->n == 0 || widest < 2 ? 0 : (int)power_below(widest, widest);
}

/* 1 + place of the outer axis with rows for every thread; 0: none is worth it. */
static int axis_to_share(const Look *l, const PickHint *hint, RowRecipe p)
{
    int64_t most = 1;
    int best = 0;
    if (hint_threads(hint) == 1 || kernel_work(l->k, hint, SMALL_WORK) < SMALL_WORK) {
        return 0;
    }
    for (p.par = 1; p.par <= l->r.outer.n && most < hint_threads(hint); p.par++) {
        int64_t n = row_turns(l, hint, &p);
        best = n > most ? p.par : best;
        most = n > most ? n : most;
    }
    return best;
}

static bool try(Env *e, const Look *l, Recipe *now, RowRecipe wish)
{
    Recipe p = {.row = wish};
    bool legal = recipe_legal(e, l, &p);
    *now = legal ? p : *now;
    return legal;
}

/* In a single phase, lanes along a space axis leave the order of the sums as it is: these
 * come first. */
static void choose_lanes(Env *e, const Look *l, int64_t vector, Recipe *out)
{
    const Rows *r = &l->r;
    AxisList last = {.n = r->outer.n > 0, .at = {r->outer.n ? r->outer.at[r->outer.n - 1] : 0}};
    int lanes_j = row_lanes(l, r->single ? &last : &r->inner, r->single ? 2 * vector : vector);
    int lanes_r = row_lanes(l, &r->reduce, (r->exp ? 4 : 2) * vector);
    RowRecipe p = {.lanes_j = lanes_j};
    if (lanes_j && try(e, l, out, p) && r->single) {
        return;
    }
    p = out->row;
    p.lanes_r = lanes_r;
    try(e, l, out, p);
}

bool default_row(Env *e, const Look *l, const PickHint *hint, Recipe *out)
{
    RowRecipe p;
    out->row = (RowRecipe){0};
    choose_lanes(e, l, hint_target(hint)->lanes, out);
    p = out->row;
    p.keep = l->r.keep != NULL;
    try(e, l, out, p);
    p = out->row;
    p.fma = l->r.product && hint_target(hint)->fused;
    try(e, l, out, p);
    p = out->row;
    p.approx = exp_for(hint, l->r.exp);
    try(e, l, out, p);
    p = out->row;
    p.par = axis_to_share(l, hint, p);
    try(e, l, out, p);
    return true;
}
