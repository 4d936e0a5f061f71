/* row.c - the plan of a row kernel as steps: lanes along the reductions with private sums, lanes along the
 * phases that use their results, rows spread over threads.
 * needs: what rows_look found. breaks: nothing; the mechanism says whether the steps are legal. */
#include "schedules/schedules_int.h"

static void lanes_along(const Rows *r, int axis, int lanes, bool reduce, Schedule *out)
{
    const char *name = axis_text(r->k, axis);
    schedule_add(out, STEP_SPLIT, "%s %d peel", name, lanes);
    if (reduce) {
        schedule_add(out, STEP_ACC, "%s.i", name);
    }
    schedule_add(out, STEP_VEC, "%s.i", name);
}

/* One phase without lanes along its reduction: the last space axis goes inside it. */
static void lanes_inside(const Rows *r, int lanes, Schedule *out)
{
    char order[MAX_STEP_ARGS] = "";
    int last = r->outer.at[r->outer.n - 1], len = 0;
    const char *name = axis_text(r->k, last);
    schedule_add(out, STEP_SPLIT, "%s %d peel", name, lanes);
    for (int i = 0; i < r->outer.n; i++) {
        bool is_last = r->outer.at[i] == last;
        len += snprintf(order + len, sizeof order - (size_t)len, "%s%s ", axis_text(r->k, r->outer.at[i]),
                        is_last ? ".o" : "");
    }
    schedule_add(out, STEP_ORDER, "%s%s %s.i", order, axis_text(r->k, r->reduce.at[0]), name);
    schedule_add(out, STEP_VEC, "%s.i", name);
}

void row_schedule(const Rows *r, const RowPlan *p, Schedule *out)
{
    bool inside = r->single && p->lanes_j && r->outer.n > 0;
    *out = (Schedule){0};
    for (int i = 0; p->lanes_r && i < r->reduce.n; i++) {
        lanes_along(r, r->reduce.at[i], p->lanes_r, true, out);
    }
    if (inside) {
        lanes_inside(r, p->lanes_j, out);
    }
    for (int i = 0; p->lanes_j && i < r->inner.n; i++) {
        lanes_along(r, r->inner.at[i], p->lanes_j, false, out);
    }
    if (p->fma) {
        schedule_add(out, STEP_FMA, "%s", "");
    }
    if (p->approx) {
        schedule_add(out, STEP_APPROX, "exp");
    }
    if (p->par && r->outer.n > 0) {
        bool split = inside && r->outer.n == 1;
        schedule_add(out, STEP_PAR, "%s%s", axis_text(r->k, r->outer.at[0]), split ? ".o" : "");
    }
}
