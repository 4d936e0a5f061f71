/* grouping.c - how a candidate's schedule adds up an accumulator: which terms share a partial sum, and from
 * where on they join the combined one. A schedule keeps the order of the terms that meet in one sum, so this
 * says all that the bound of a sum needs.
 * needs: axes of the naive nest keep their numbers in the scheduled one. */
#include "run/verify_int.h"

#define MAX_GROUPS 1024 /* more are bounded as if no order were known */

typedef struct Place { /* an accumulator in a scheduled nest */
    const Phase *phase;
    const Accum *acc;
} Place;

static Place place_of(const Nest *n, int var)
{
    for (int i = 0; i < n->phase.n; i++) {
        const Phase *p = &n->phase.at[i];
        for (int k = 0; k < p->acc.n; k++) {
            if (p->acc.at[k].var == var) {
                return (Place){p, &p->acc.at[k]};
            }
        }
    }
    return (Place){0};
}

static int root_of(const Nest *n, int axis)
{
    while (n->axis.at[axis].half_of) {
        axis = n->axis.at[axis].half_of - 1;
    }
    return axis;
}

/* Terms in the tail of the outermost reduce loop are added after the private sums are combined. */
static void find_tail(Grouping *g, const Phase *p, const int64_t *syms)
{
    for (int i = 0; i < p->loops.n; i++) {
        const Axis *a = &g->nest->axis.at[p->loops.at[i]];
        if (a->kind == AXIS_REDUCE) {
            if (axis_peels(g->nest, p->loops.at[i])) {
                const Axis *whole = &g->nest->axis.at[a->half_of - 1];
                g->tail_of = a->half_of - 1;
                g->tail_from = expr_value(whole->extent, syms) / whole->factor * whole->factor;
            }
            return;
        }
    }
}

Grouping grouping_of(const Kernel *naive, const Kernel *scheduled, const Accum *acc,
                     const int64_t *syms)
{
    Grouping g = {.n_groups = 0, .tail_of = -1};
    if (!scheduled) {
        return g;
    }
    g.nest = &scheduled->nest;
    g.n_groups = 1;
    Place at = place_of(g.nest, acc->var);
    if (!at.acc) {
        g.n_groups = 0;
        return g;
    }
    for (int i = 0; i < at.phase->loops.n && g.n_groups; i++) {
        int axis = at.phase->loops.at[i];
        const Axis *a = &g.nest->axis.at[axis];
        if (a->priv) {
            int64_t groups = g.n_groups * expr_value(a->extent, syms);
            bool known = root_of(g.nest, axis) < naive->nest.axis.n && g.n_priv < MAX_LOOPS - 1;
            g.priv[g.n_priv] = axis;
            g.extent[g.n_priv++] = expr_value(a->extent, syms);
            g.n_groups = known && groups <= MAX_GROUPS ? (int)groups : 0;
        }
    }
    g.fused = at.acc->update->kind == X_FMA;
    g.in_order = !g.fused && !g.n_priv;
    find_tail(&g, at.phase, syms);
    return g;
}

/* The value of a scheduled axis where the naive axes have these values. */
static int64_t coordinate(const Nest *n, int axis, const int64_t *value)
{
    int whole = n->axis.at[axis].half_of - 1;
    if (whole < 0) {
        return value[axis];
    }
    int64_t at = coordinate(n, whole, value), f = n->axis.at[whole].factor;
    return n->axis.at[whole].outer == axis ? at / f : at % f;
}

int grouping_at(const Grouping *g, const int64_t *axis_value)
{
    int group = 0;
    if (g->tail_of >= 0 && coordinate(g->nest, g->tail_of, axis_value) >= g->tail_from) {
        return -1;
    }
    for (int i = 0; i < g->n_priv && g->n_groups; i++) {
        group = group * (int)g->extent[i] + (int)coordinate(g->nest, g->priv[i], axis_value);
    }
    return group;
}
