/* default_row.c - rows: two vectors along the reductions and along what follows them, the polynomial exp, rows
 * over threads. What the mechanism refuses is left out, one wish at a time.
 * needs: a kernel of class row. breaks: nothing. */
#include "schedules/schedules_int.h"

#define SMALL_WORK 16000 /* elements that take less than waking another thread */

static int64_t least_extent(const Rows *r, const AxisList *axes, int64_t most)
{
    for (int i = 0; i < axes->n; i++) {
        int64_t n = axis_constant(r->k, axes->at[i]);
        most = n >= 0 && n < most ? n : most;
    }
    return most < 1 ? 1 : most;
}

static bool worth_threads(const Rows *r, const PickHint *hint)
{
    int64_t work = 1;
    if (hint->n_threads == 1 || r->outer.n == 0 || axis_extent(r->k, hint, r->outer.at[0]) == 1) {
        return false;
    }
    for (int i = 0; i < r->k->nest.axis.n && work < SMALL_WORK; i++) {
        int64_t n = axis_extent(r->k, hint, i);
        work = n < 0 ? SMALL_WORK : n == 0 ? work : n < SMALL_WORK ? work * n : SMALL_WORK;
    }
    return work >= SMALL_WORK;
}

static void keep_if_legal(Env *e, const Rows *r, RowPlan *now, RowPlan wish)
{
    Schedule s;
    row_schedule(r, &wish, &s);
    if (schedule_legal(e, r->k, &s, NULL)) {
        *now = wish;
    }
}

bool default_row(Env *e, const Kernel *k, const PickHint *hint, Schedule *out)
{
    Rows r;
    RowPlan p = {0}, wish;
    rows_look(k, &r);
    int widest = 2 * hint_target(hint)->lanes;
    AxisList last = {.n = r.single && r.outer.n, .at = {r.outer.n ? r.outer.at[r.outer.n - 1] : 0}};
    int lanes_r = (int)power_below(least_extent(&r, &r.reduce, widest), widest);
    int lanes_j = (int)power_below(least_extent(&r, r.single ? &last : &r.inner, widest), widest);
    if (lanes_j > 1) { /* in a single phase this leaves the order of sums as it is: tried first */
        wish = (RowPlan){.lanes_j = lanes_j};
        keep_if_legal(e, &r, &p, wish);
    }
    if (lanes_r > 1 && !(r.single && p.lanes_j)) {
        wish = p;
        wish.lanes_r = lanes_r;
        keep_if_legal(e, &r, &p, wish);
    }
    wish = p;
    wish.fma = r.product;
    keep_if_legal(e, &r, &p, wish);
    wish = p;
    wish.approx = r.exp;
    keep_if_legal(e, &r, &p, wish);
    wish = p;
    wish.par = worth_threads(&r, hint);
    keep_if_legal(e, &r, &p, wish);
    row_schedule(&r, &p, out);
    return out->n > 0;
}
