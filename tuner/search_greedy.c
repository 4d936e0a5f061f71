/* search_greedy.c - from the best of a few at random to the first better neighbour, and on from
 * there. Where no neighbour is left to try it starts again: from the best of a few that are some
 * steps away from the best so far, or anywhere. */
#include "tuner/search_int.h"

#include <math.h>

enum { AGAIN_DRAWS = 3, KICK_STEPS = 3 };

typedef struct Greedy {
    uint64_t centre, start; /* start: the best of the draws so far */
    double cost, start_cost;
    int draws_left; /* before the next centre is chosen */
} Greedy;

static void begin(Greedy *g, int n_draws)
{
    *g = (Greedy){.cost = INFINITY, .start_cost = INFINITY, .draws_left = n_draws};
}

static void *start(Search *s)
{
    Greedy *g = arena_new(s->arena, Greedy);
    begin(g, FIRST_DRAWS);
    return g;
}

static uint64_t pick(Search *s, void *state, Rng *r)
{
    Greedy *g = state;
    uint64_t index;
    if (g->draws_left == 0 && draw_near(s, g->centre, r, &index)) {
        return index;
    }
    if (s->n_heard < FIRST_DRAWS || s->in->n_leaders == 0 || rng_below(r, 2)) {
        return draw_random(s);
    }
    return draw_kick(s, s->trial.at[s->in->leader[0]].index, KICK_STEPS, r);
}

static void move_to(Greedy *g, uint64_t index, double cost)
{
    *g = (Greedy){.centre = index, .cost = cost};
}

static void hear(Search *s, void *state, int trial, bool own, Rng *r)
{
    (void)r;
    Greedy *g = state;
    uint64_t index = s->trial.at[trial].index;
    double cost = search_cost(s, trial);
    if (g->draws_left == 0 && cost < g->cost) {
        move_to(g, index, cost);
    } else if (g->draws_left > 0) {
        if (cost < g->start_cost) {
            g->start = index;
            g->start_cost = cost;
        }
        g->draws_left -= own || s->n_heard <= FIRST_DRAWS;
        if (g->draws_left == 0 && isfinite(g->start_cost)) {
            move_to(g, g->start, g->start_cost);
        } else if (g->draws_left == 0) {
            begin(g, AGAIN_DRAWS);
        }
    }
    if (g->draws_left == 0 && !near_left(s, g->centre)) {
        begin(g, AGAIN_DRAWS);
    }
}

const StrategyRow strategy_greedy = {.start = start, .pick = pick, .hear = hear};
