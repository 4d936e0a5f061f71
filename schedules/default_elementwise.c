/* default_elementwise.c - kernels without reductions: the last axis cut where conditions on it
 * end, two vectors along what results, the first axis with work for every thread outermost.
 * Gathers take the same recipe. needs: a kernel of class elementwise or gather. breaks:
 * nothing. */
#include "schedules/schedules_int.h"

#define SMALL_WORK 16000 /* elements that take less than waking another thread */

/* 1 + place of the axis; 0: none is worth it. */
static int axis_to_share(const Look *l, const PickHint *hint, PointRecipe p)
{
    const AxisList *axes = l->p.outer.n ? &l->p.outer : &l->p.inner;
    int64_t most = 1;
    int best = 0;
    if (hint_threads(hint) == 1 || kernel_work(l->k, hint, SMALL_WORK) < SMALL_WORK) {
        return 0;
    }
    for (p.par = 1; p.par <= axes->n && most < hint_threads(hint); p.par++) {
        int64_t n = point_turns(l, hint, &p);
        best = n > most ? p.par : best;
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

/* The widest lanes that are legal, no wider than what they lie along. */
static bool choose_lanes(Env *e, const Look *l, bool cut, const Target *t, Recipe *out)
{
    int least = point_least_lanes(l, t);
    for (int lanes = point_lanes(l, cut, 2 * t->lanes); lanes >= least; lanes /= 2) {
        if (try(e, l, out, (PointRecipe){.lanes = lanes, .cut = cut})) {
            return true;
        }
    }
    return false;
}

bool default_elementwise(Env *e, const Look *l, const PickHint *hint, Recipe *out)
{
    PointRecipe p;
    const Target *t = hint_target(hint);
    *out = (Recipe){0};
    if (l->p.n_cuts == 0 || !choose_lanes(e, l, true, t, out)) {
        choose_lanes(e, l, false, t, out);
    }
    p = out->point;
    p.approx = exp_for(hint, l->p.exp);
    p.bf16 = points_from_bf16(l->k);
    try(e, l, out, p);
    p = out->point;
    p.par = axis_to_share(l, hint, p);
    try(e, l, out, p);
    return true;
}

bool default_other(Env *e, const Look *l, const PickHint *hint, Recipe *out)
{
    int axis = kernel_outermost(l->k);
    bool turns =
        axis >= 0 && (uint64_t)axis_constant(l->k, axis) > 1; /* or as often as a symbol says */
    out->point = (PointRecipe){.par = hint_threads(hint) > 1 && turns};
    out->point.par = out->point.par && recipe_legal(e, l, out);
    return true;
}
