/* search_evolve.c - evolution in which the fittest never die: the best trials are the parents.
 * A child begins at one of them and walks over neighbours that look more like another, part of
 * the way: what two good candidates have in common it keeps, of the rest it has some of each.
 * Then it mutates by a step or two. Only neighbours and features are used, no knobs. */
#include "tuner/search_int.h"

enum { CROSS_PERCENT = 60, RANDOM_PERCENT = 5 };

/* The better of two of the best quarter, of the leaders at most. */
static uint64_t parent(const Search *s, Rng *r)
{
    int part = s->n_heard / 4, n_all = s->in->n_leaders;
    uint64_t n = (uint64_t)(part < n_all ? part : n_all);
    uint64_t a = rng_below(r, n), b = rng_below(r, n);
    return s->trial.at[s->in->leader[a < b ? a : b]].index;
}

/* In how many features an index differs. */
static int distance(const Search *s, uint64_t index, const double *to)
{
    double feature[MAX_FEATURES];
    int n = s->space.features(s->space.ctx, index, feature), differ = 0;
    for (int i = 0; i < n; i++) {
        differ += feature[i] != to[i];
    }
    return differ;
}

/* One of the neighbours that are nearer. False: none is. */
static bool step_towards(const Search *s, uint64_t *index, const double *to, Rng *r)
{
    uint64_t near[MAX_NEAR];
    int now = distance(s, *index, to), nearer = 0;
    int n = s->space.neighbours(s->space.ctx, *index, near);
    for (int i = 0; i < n; i++) {
        if (distance(s, near[i], to) < now) {
            near[nearer++] = near[i];
        }
    }
    if (nearer > 0) {
        *index = near[rng_below(r, (uint64_t)nearer)];
    }
    return nearer > 0;
}

static uint64_t cross(const Search *s, uint64_t a, uint64_t b, Rng *r)
{
    double to[MAX_FEATURES];
    s->space.features(s->space.ctx, b, to);
    double part = 0.25 + 0.5 * rng_unit(r), whole = distance(s, a, to);
    while (distance(s, a, to) > part * whole && step_towards(s, &a, to, r)) {
    }
    return a;
}

static uint64_t pick(Search *s, void *state, Rng *r)
{
    (void)state;
    if (s->n_heard < FIRST_DRAWS || s->in->n_leaders < 2 ||
        rng_below(r, 100) < RANDOM_PERCENT) {
        return draw_random(s);
    }
    uint64_t child = parent(s, r);
    bool crossed = rng_below(r, 100) < CROSS_PERCENT;
    if (crossed) {
        child = cross(s, child, parent(s, r), r);
    }
    int n_mutations = (int)rng_below(r, 2) + !crossed;
    return draw_kick(s, child, n_mutations, r);
}

const StrategyRow strategy_evolve = {.pick = pick};
