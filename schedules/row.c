/* row.c - the recipe of a row kernel as steps: lanes along the reductions with private sums,
 * lanes along the phases that use their results, rows shared by threads. Kept values are named
 * first, while axes are whole. needs: what look_rows found. breaks: nothing; whether it is
 * legal, the mechanism says. */
#include "schedules/schedules_int.h"

static const char *tail_word(const RowRecipe *p)
{
    return p->tail == TAIL_BY_MASK ? "mask" : "peel";
}

static void lanes_along(const Look *l, int axis, int lanes, const RowRecipe *p, bool reduce,
                        Schedule *out)
{
    const char *name = axis_text(l->k, axis);
    schedule_add(out, STEP_SPLIT, "%s %d %s", name, lanes, tail_word(p));
    if (reduce) {
        schedule_add(out, STEP_ACC, "%s.i", name);
    }
    schedule_add(out, STEP_VEC, "%s.i", name);
}

static int shared_axis(const Rows *r, const RowRecipe *p)
{
    return p->par > 0 && p->par <= r->outer.n ? r->outer.at[p->par - 1] : -1;
}

static int last_outer(const Rows *r)
{
    return r->outer.n ? r->outer.at[r->outer.n - 1] : -1;
}

/* One phase, and its last space axis in lanes: that goes inside the reduction. */
static bool lanes_inside(const Rows *r, const RowRecipe *p)
{
    return r->single && p->lanes_j && r->outer.n > 0;
}

int64_t row_turns(const Look *l, const PickHint *hint, const RowRecipe *p)
{
    int axis = shared_axis(&l->r, p);
    bool lanes = lanes_inside(&l->r, p) && axis == last_outer(&l->r);
    return blocks(axis_extent(l->k, hint, axis), lanes ? p->lanes_j : 1);
}

/* The outer axes, the shared one first; in a single phase also the reduction and what is
 * inside it. */
static void order_axes(const Look *l, const RowRecipe *p, Schedule *out)
{
    const Rows *r = &l->r;
    Words w = {""};
    int shared = shared_axis(r, p);
    bool inside = lanes_inside(r, p);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < r->outer.n; i++) {
            int axis = r->outer.at[i];
            if ((axis == shared) == (turn == 0)) {
                word_add(&w, ' ', axis_text(l->k, axis),
                         inside && axis == last_outer(r) ? ".o" : "");
            }
        }
    }
    if (r->single) {
        const char *red = axis_text(l->k, r->reduce.at[0]);
        word_add(&w, ' ', red, p->lanes_r ? ".o" : "");
        if (p->lanes_r) {
            word_add(&w, ' ', red, ".i");
        }
    }
    if (inside) {
        word_add(&w, ' ', axis_text(l->k, last_outer(r)), ".i");
    }
    schedule_add(out, STEP_ORDER, "%s", w.text);
}

void row_schedule(const Look *l, const Recipe *recipe, Schedule *out)
{
    const Rows *r = &l->r;
    const RowRecipe *p = &recipe->row;
    bool inside = lanes_inside(r, p);
    *out = (Schedule){0};
    if (p->keep && r->keep) {
        schedule_add(out, STEP_KEEP, "%s", r->keep);
    }
    for (int i = 0; p->lanes_r && i < r->reduce.n; i++) {
        lanes_along(l, r->reduce.at[i], p->lanes_r, p, true, out);
    }
    for (int i = 0; p->lanes_j && i < r->inner.n; i++) {
        lanes_along(l, r->inner.at[i], p->lanes_j, p, false, out);
    }
    if (inside) {
        schedule_add(out, STEP_SPLIT, "%s %d %s", axis_text(l->k, last_outer(r)), p->lanes_j,
                     tail_word(p));
    }
    if (inside || p->par > 1) {
        order_axes(l, p, out);
    }
    if (inside) {
        schedule_add(out, STEP_VEC, "%s.i", axis_text(l->k, last_outer(r)));
    }
    if (p->fma) {
        schedule_add(out, STEP_FMA, "%s", "");
    }
    add_exp(out, p->approx);
    int shared = shared_axis(r, p);
    if (shared >= 0) {
        schedule_add(out, STEP_PAR, "%s%s", axis_text(l->k, shared),
                     inside && shared == last_outer(r) ? ".o" : "");
    }
}
