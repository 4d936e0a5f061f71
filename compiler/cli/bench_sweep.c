/* bench_sweep.c - a small sweep of a kernel's space: the default and others at random, then the
 * neighbours of the best, each timed alone and briefly. It proposes a contender and proves nothing: the race that follows
 * does that, and the tuner is what searches with evidence. */
#include <math.h>

#include "cli/bench.h"

typedef struct Sweep {
    Env *e;
    const Entry *like; /* kernel, sizes, operands that are no constants */
    const Place *at;
    const Space *space;
    Rng rng;
    int n_left;
    Vec(Point) tried;
    double best_ns;
    Point best;
} Sweep;

static double time_entry(Sweep *s, Entry *x)
{
    MeasurePlan plan = measure_plan(s->at->seed);
    Contender c = {x->name, runnable_call, &x->r};
    Measured m;
    plan.n_blocks = 1;
    plan.max_rounds = 7;
    plan.block_ns = 4000000;
    plan.warm_ns = 1000000;
    plan.stop = &interrupted;
    entry_fill(s->e, x, s->at, s->like->r.param);
    measure(s->e, &c, 1, &plan, NULL, &m);
    double ns = m.n_blocks ? measure_summary(s->e, &m, 0).median_ns : INFINITY;
    runnable_release(&x->r);
    return ns;
}

static bool is_new(Sweep *s, const Point *p)
{
    for (int i = 0; i < s->tried.n; i++) {
        if (point_eq(s->space, &s->tried.at[i], p)) {
            return false;
        }
    }
    *vec_push(&s->e->model, &s->tried) = *p;
    return true;
}

/* Moves those that are new to the front; how many. */
static int new_points(Sweep *s, Point *p, int n)
{
    int n_new = 0;
    for (int i = 0; i < n && n_new < s->n_left; i++) {
        if (is_new(s, &p[i])) {
            p[n_new++] = p[i];
        }
    }
    return n_new;
}

static void try_points(Sweep *s, Point *p, int n)
{
    Library lib;
    n = new_points(s, p, n);
    Entry *x = arena_array(&s->e->model, Entry, n);
    for (int i = 0; i < n; i++) {
        Schedule steps;
        Err why;
        space_schedule(s->space, &p[i], &steps);
        x[i] =
            (Entry){.name = "swept", .naive = s->like->naive, .r = {.syms = s->like->r.syms}};
        x[i].r.k = kernel_schedule(s->e, &s->e->model, x[i].naive, &steps, steps.n, &why);
        if (!x[i].r.k) {
            fail_err(s->e, &why);
        }
    }
    if (n == 0) {
        return;
    }
    entries_build(s->e, x, n, &lib);
    for (int i = 0; i < n && !interrupted; i++) {
        double ns = time_entry(s, &x[i]);
        if (ns < s->best_ns) {
            s->best_ns = ns;
            s->best = p[i];
        }
    }
    library_release(&lib);
    s->n_left -= n;
}

void sweep_space(Env *e, const Entry *like, const Place *at, const Space *space, int n,
                 Schedule *best)
{
    Sweep s = {
        .e = e, .like = like, .at = at, .space = space, .n_left = n, .best_ns = INFINITY};
    Point *p = arena_array(&e->model, Point,
                           MAX_KNOBS * MAX_CHOICES > n ? MAX_KNOBS * MAX_CHOICES : n);
    int n_random = (n + 1) / 2, first = space_default(e, space, &p[0]);
    rng_seed(&s.rng, at->seed);
    for (int i = first; i < n_random; i++) {
        space_sample(space, &s.rng, &p[i]);
    }
    try_points(&s, p, n_random);
    for (double before = INFINITY; s.n_left > 0 && s.best_ns < before && !interrupted;) {
        before = s.best_ns;
        try_points(&s, p, space_neighbours(space, &s.best, p));
    }
    space_schedule(space, &s.best, best);
}
