/* points.c - the plan of a kernel without reductions as steps: lanes along the last axis, one axis moved
 * outermost and spread over threads. Serves elementwise kernels, copies and gathers.
 * needs: what points_look found. breaks: nothing; the mechanism says whether the steps are legal. */
#include "schedules/schedules_int.h"

/* The axes in their order, the one that is spread first; the last one's halves where it is in lanes. */
static void order_axes(const Points *p, const PointPlan *plan, int par, Schedule *out)
{
    char text[MAX_STEP_ARGS] = "";
    int len = 0, last = p->inner.at[p->inner.n - 1];
    const char *half = plan->lanes ? ".o" : "";
    len += snprintf(text, sizeof text, "%s%s", axis_text(p->k, par), par == last ? half : "");
    for (int i = 0; i < p->inner.n; i++) {
        int axis = p->inner.at[i];
        if (axis != par) {
            len += snprintf(text + len, sizeof text - (size_t)len, " %s%s", axis_text(p->k, axis),
                            axis == last ? half : "");
        }
    }
    if (plan->lanes) {
        snprintf(text + len, sizeof text - (size_t)len, " %s.i", axis_text(p->k, last));
    }
    schedule_add(out, STEP_ORDER, "%s", text);
}

void point_schedule(const Points *p, const PointPlan *plan, Schedule *out)
{
    const AxisList *axes = p->outer.n ? &p->outer : &p->inner;
    int last = p->inner.n ? p->inner.at[p->inner.n - 1] : -1;
    int par = plan->par ? axes->at[plan->par - 1] : -1;
    bool lanes = plan->lanes && last >= 0;
    *out = (Schedule){0};
    if (lanes) {
        schedule_add(out, STEP_SPLIT, "%s %d peel", axis_text(p->k, last), plan->lanes);
    }
    if (plan->par > 1 && axes == &p->inner) {
        order_axes(p, plan, par, out);
    }
    if (lanes) {
        schedule_add(out, STEP_VEC, "%s.i", axis_text(p->k, last));
    }
    if (plan->approx) {
        schedule_add(out, STEP_APPROX, "exp");
    }
    if (par >= 0) {
        schedule_add(out, STEP_PAR, "%s%s", axis_text(p->k, par), lanes && par == last ? ".o" : "");
    }
}
