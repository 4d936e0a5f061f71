/* search_random.c - every candidate, in random order: what any other strategy must beat, and
 * hard to beat where good candidates are many. */
#include "tuner/search_int.h"

static uint64_t pick(Search *s, void *state, Rng *r)
{
    (void)state, (void)r;
    return draw_random(s);
}

const StrategyRow strategy_random = {.pick = pick};
