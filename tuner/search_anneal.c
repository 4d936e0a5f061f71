/* search_anneal.c - simulated annealing: a walk among neighbours that always takes what is
 * better, and what is worse with a probability that falls with the temperature. The scale of
 * temperatures is that of the first draws. No budget is known, so it cools in rounds, each twice as
 * long as the one before and from the best so far. */
#include "tuner/search_int.h"

#include <math.h>

enum { FIRST_ROUND = 40 };
static const double HOT = 0.5, COLD = 0.01; /* parts of the scale */

typedef struct Anneal {
    uint64_t at;
    double cost, scale;
    int step, round; /* of own trials: done, and in all, of this round */
} Anneal;

static void *start(Search *s)
{
    Anneal *a = arena_new(s->arena, Anneal);
    *a = (Anneal){.cost = INFINITY, .round = FIRST_ROUND};
    return a;
}

static uint64_t pick(Search *s, void *state, Rng *r)
{
    Anneal *a = state;
    return isfinite(a->cost) ? draw_walk(s, a->at, r) : draw_random(s);
}

static void begin(const Search *s, Anneal *a)
{
    int best = s->in->leader[0];
    a->at = s->trial.at[best].index;
    a->cost = search_cost(s, best);
    a->step = 0;
}

/* How much the trials so far are worse than the best, on average; failures left out. */
static double scale_of(const Search *s)
{
    double sum = 0, best = search_cost(s, s->in->leader[0]);
    int n = 0;
    for (int i = 0; i < s->n_heard; i++) {
        if (isfinite(search_cost(s, i))) {
            sum += search_cost(s, i) - best;
            n++;
        }
    }
    return sum / n;
}

static double temperature(const Anneal *a)
{
    return a->scale * HOT * pow(COLD / HOT, (double)a->step / a->round);
}

static void hear(Search *s, void *state, int trial, bool own, Rng *r)
{
    Anneal *a = state;
    double cost = search_cost(s, trial);
    if (!isfinite(a->cost)) {
        if (s->n_heard >= FIRST_DRAWS && s->in->n_leaders > 0) {
            a->scale = scale_of(s);
            begin(s, a);
        }
        return;
    }
    bool worse_taken = own && rng_unit(r) < exp((a->cost - cost) / temperature(a));
    if (cost < a->cost || worse_taken) {
        a->at = s->trial.at[trial].index;
        a->cost = cost;
    }
    a->step += own;
    if (a->step >= a->round) {
        begin(s, a);
        a->round *= 2;
    }
}

const StrategyRow strategy_anneal = {.start = start, .pick = pick, .hear = hear};
