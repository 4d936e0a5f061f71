/* folder_fixture.h - an Env and a folder of its own for each test. Included once by a test file, which names
 * start and stop in its TestSuite. */
#ifndef NC_TESTS_FOLDER_FIXTURE_H
#define NC_TESTS_FOLDER_FIXTURE_H

#include "tests/helpers.h"

static Env env;
static TempDir dir;

static void start(void)
{
    env_init(&env);
    dir = temp_dir();
}

static void stop(void)
{
    temp_remove(&dir);
    env_release(&env);
}

#endif
