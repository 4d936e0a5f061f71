/* db_fixture.h - for each test a folder and, in it, the path of a database that is not there yet. Included
 * once by a test file, which names start and stop in its TestSuite. */
#ifndef NC_TESTS_DB_FIXTURE_H
#define NC_TESTS_DB_FIXTURE_H

#include "tests/helpers.h"

static Env env;
static TempDir dir;
static const char *path;

static void start(void)
{
    env_init(&env);
    dir = temp_dir();
    path = arena_str(&env.model, temp_path(&dir, "schedules.db"));
}

static void stop(void)
{
    temp_remove(&dir);
    env_release(&env);
}

#endif
