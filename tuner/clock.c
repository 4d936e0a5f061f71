/* clock.c - the clock that samples are taken with, and how long a sample must be for it.
 *
 * A sample's error is the clock's grain and the cost of reading it, so both are measured: they
 * are 10 and 21 ns on one machine and a microsecond on another, whose clock source is slow. */
#include "tuner/tuner.h"

enum { READINGS = 1000, PATIENCE = 1000000, FLOOR_NS = 10000, GRAINS = 1000, COSTS = 400 };

uint64_t clock_ns(void)
{
    struct timespec ts;
    if (os.clock_gettime(CLOCK_MONOTONIC_RAW, &ts) != 0) {
        bug("the clock cannot be read");
    }
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

ClockQuality clock_quality(void)
{
    double step_ns[READINGS];
    uint64_t grain_ns = UINT64_MAX, last = clock_ns();
    /* A coarse clock may not move at all in that time: then wait until it does. */
    for (int i = 0; i < READINGS || (grain_ns == UINT64_MAX && i < PATIENCE); i++) {
        uint64_t now = clock_ns(), ns = now - last;
        grain_ns = ns > 0 && ns < grain_ns ? ns : grain_ns;
        step_ns[i % READINGS] = (double)ns;
        last = now;
    }
    return (ClockQuality){.grain_ns = grain_ns == UINT64_MAX ? 1 : grain_ns,
                          .cost_ns = (uint64_t)stat_median(step_ns, READINGS)};
}

uint64_t clock_floor_ns(ClockQuality q)
{
    uint64_t floor_ns = FLOOR_NS;
    floor_ns = GRAINS * q.grain_ns > floor_ns ? GRAINS * q.grain_ns : floor_ns;
    return COSTS * q.cost_ns > floor_ns ? COSTS * q.cost_ns : floor_ns;
}
