/* env_fixture.h - what most suites begin with: an Env for each test. Included once by a test file, which
 * names start and stop in its TestSuite. */
#ifndef NC_TESTS_ENV_FIXTURE_H
#define NC_TESTS_ENV_FIXTURE_H

#include "tests/helpers.h"

static Env env;

static void start(void)
{
    env_init(&env);
}

static void stop(void)
{
    env_release(&env);
}

#endif
