/* cli_util.c - runs the built program as a user does. */
#include "tests/cli_util.h"

#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

Ran nanocompile(Env *e, const char *const *words)
{
    const char *build = getenv("NC_BUILD");
    char *argv[MAX_WORDS + 2] = {arena_printf(&e->model, "%s/nanocompile", build ? build : "build/release")};
    Buf out;
    int status;
    Err err;
    buf_init(&out, &e->model);
    for (int i = 0; words[i]; i++) {
        cr_assert(i < MAX_WORDS);
        argv[i + 1] = (char *)words[i];
    }
    setenv("NANOCOMPILE_CACHE", arena_printf(&e->model, "%s/test-cache", build ? build : "/tmp/nanocompile"), 0);
    cr_assert(os_run(argv, environ, 120000, 4 << 20, &out, &status, &err), "%s", err.text);
    return (Ran){WIFEXITED(status) ? WEXITSTATUS(status) : -1, out.at};
}
