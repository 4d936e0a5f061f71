/* search_exhaustive.c - every candidate, by number: for small spaces, whose best is then known. */
#include "tuner/search_int.h"

static uint64_t pick(Search *s, void *state, Rng *r)
{
    (void)state, (void)r;
    return draw_in_order(s);
}

const StrategyRow strategy_exhaustive = {.pick = pick};
