/* session_fixture.h - sessions in a made-up world, and the log of what they told. Included once by a test
 * file, which names start and stop in its TestSuite. */
#ifndef NC_TESTS_SESSION_FIXTURE_H
#define NC_TESTS_SESSION_FIXTURE_H

#include "tests/session_util.h"

static Env env;
static World world;
static Log logged;

static const Budget no_limit = {0};

static void start(void)
{
    env_init(&env);
    log_init(&logged);
    world = world_plain();
}

static void stop(void)
{
    log_release(&logged);
    env_release(&env);
}

static SessionResult run(Budget budget, uint64_t order)
{
    return world_run(&env, &world, &logged, NULL, budget, order, NULL);
}

#endif
