/* clock_fixture.h - an Env for each test, and a made-up clock that moves only when fake_ns is moved or the clock is
 * read. Included once by a test file, which names start and stop in its TestSuite. */
#ifndef NC_TESTS_CLOCK_FIXTURE_H
#define NC_TESTS_CLOCK_FIXTURE_H

#include "tests/helpers.h"

static Env env;
static uint64_t fake_ns;

static int fake_clock(clockid_t clock, struct timespec *ts)
{
    (void)clock;
    fake_ns++; /* or who waits for time to pass would wait for ever */
    *ts = (struct timespec){(time_t)(fake_ns / 1000000000u), (long)(fake_ns % 1000000000u)};
    return 0;
}

static void start(void)
{
    env_init(&env);
    fake_ns = 0;
    os.clock_gettime = fake_clock;
}

static void stop(void)
{
    os = os_system;
    env_release(&env);
}

#endif
