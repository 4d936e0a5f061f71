/* bench_fixture.h - for each test an Env and a bench of scheduled kernels. Included once by a test file, which names
 * start and stop in its TestSuite. */
#ifndef NC_TESTS_BENCH_FIXTURE_H
#define NC_TESTS_BENCH_FIXTURE_H

#include "tests/schedule_util.h"

static Env env;
static Bench bench;

static void start(void)
{
    env_init(&env);
    bench = (Bench){.e = &env};
}

static void stop(void)
{
    env_release(&env);
}

#endif
