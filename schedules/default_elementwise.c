/* default_elementwise.c - kernels without reductions: two vectors along the last axis where that is legal, the
 * first axis with work for every thread outermost. Gathers take the same plan (default_gather.c).
 * needs: a kernel of class elementwise. breaks: nothing. */
#include "schedules/schedules_int.h"

#define SMALL_WORK 16000 /* elements that take less than waking another thread */

/* 1 + place of the axis to spread; 0: the kernel is too small. */
static int axis_to_spread(const Points *p, const PickHint *hint)
{
    const AxisList *axes = p->outer.n ? &p->outer : &p->inner;
    int64_t threads = hint->n_threads < 1 ? 2 : hint->n_threads, work = 1, most = 1;
    int best = 0, n_axes = p->outer.n ? 1 : axes->n;
    for (int i = 0; i < p->k->nest.axis.n && work < SMALL_WORK; i++) {
        int64_t n = axis_extent(p->k, hint, i);
        work = n < 0 ? SMALL_WORK : n == 0 ? work : n < SMALL_WORK ? work * n : SMALL_WORK;
    }
    if (threads == 1 || work < SMALL_WORK) {
        return 0;
    }
    for (int i = 0; i < n_axes; i++) {
        int64_t n = axis_extent(p->k, hint, axes->at[i]);
        if (n < 0 || n >= threads) {
            return i + 1;
        }
        best = n > most ? i + 1 : best;
        most = n > most ? n : most;
    }
    return best;
}

static void keep_if_legal(Env *e, const Points *p, PointPlan *now, PointPlan wish)
{
    Schedule s;
    point_schedule(p, &wish, &s);
    if (schedule_legal(e, p->k, &s, NULL)) {
        *now = wish;
    }
}

bool default_elementwise(Env *e, const Kernel *k, const PickHint *hint, Schedule *out)
{
    Points p;
    PointPlan plan = {0}, wish = {0};
    points_look(k, &p);
    int64_t widest = 2 * hint_target(hint)->lanes;
    int64_t last = p.inner.n ? axis_constant(k, p.inner.at[p.inner.n - 1]) : 1;
    for (wish.lanes = (int)power_below(last < 0 ? widest : last < 1 ? 1 : last, widest);
         wish.lanes > 1 && !plan.lanes; wish.lanes /= 2) {
        keep_if_legal(e, &p, &plan, wish);
    }
    wish = plan;
    wish.approx = p.exp;
    keep_if_legal(e, &p, &plan, wish);
    wish = plan;
    wish.par = axis_to_spread(&p, hint);
    keep_if_legal(e, &p, &plan, wish);
    point_schedule(&p, &plan, out);
    return out->n > 0;
}
