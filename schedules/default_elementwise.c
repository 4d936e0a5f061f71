/* default_elementwise.c - kernels without reductions: the last axis cut where conditions on it end, two vectors
 * along what results, the first axis with work for every thread outermost. Gathers take the same recipe.
 * needs: a kernel of class elementwise or gather. breaks: nothing. */
#include "schedules/schedules_int.h"

#define SMALL_WORK 16000 /* elements that take less than waking another thread */

/* 1 + place of the axis; 0: none is worth it. Outside several phases only the outer axes can be shared. */
static int axis_to_share(const Look *l, const PickHint *hint)
{
    const AxisList *axes = l->p.outer.n ? &l->p.outer : &l->p.inner;
    int64_t most = 1;
    int best = 0;
    if (hint_threads(hint) == 1 || kernel_work(l->k, hint, SMALL_WORK) < SMALL_WORK) {
        return 0;
    }
    for (int i = 0; i < axes->n && most < hint_threads(hint); i++) {
        int64_t n = blocks(axis_extent(l->k, hint, axes->at[i]), 1);
        best = n > most ? i + 1 : best;
        most = n > most ? n : most;
    }
    return best;
}

static bool try(Env *e, const Look *l, Recipe *now, PointRecipe wish)
{
    Recipe p = {.point = wish};
    bool legal = recipe_legal(e, l, &p);
    *now = legal ? p : *now;
    return legal;
}

static void choose_lanes(Env *e, const Look *l, int lanes, Recipe *out)
{
    bool found = false;
    for (; lanes > 1 && !found; lanes /= 2) {
        found = (l->p.n_cuts && try(e, l, out, (PointRecipe){.lanes = lanes, .cut = 1})) ||
                try(e, l, out, (PointRecipe){.lanes = lanes});
    }
}

bool default_elementwise(Env *e, const Look *l, const PickHint *hint, Recipe *out)
{
    PointRecipe p;
    int64_t widest = 2 * hint_target(hint)->lanes;
    int64_t n = l->p.inner.n ? axis_constant(l->k, l->p.inner.at[l->p.inner.n - 1]) : 1;
    *out = (Recipe){0};
    choose_lanes(e, l, (int)power_below(n < 0 ? widest : n < 1 ? 1 : n, widest), out);
    p = out->point;
    p.approx = l->p.exp;
    try(e, l, out, p);
    p = out->point;
    p.par = axis_to_share(l, hint);
    try(e, l, out, p);
    return true;
}

bool default_other(Env *e, const Look *l, const PickHint *hint, Recipe *out)
{
    out->point = (PointRecipe){.par = hint_threads(hint) > 1};
    return recipe_legal(e, l, out);
}
