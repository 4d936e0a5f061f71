/* cli_util.c - runs the built program as a user does. */
#include "tests/cli_util.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

char *nanocompile_program(Env *e)
{
    const char *build = getenv("NC_BUILD");
    setenv("NANOCOMPILE_CACHE",
           arena_printf(&e->model, "%s/test-cache", build ? build : "/tmp/nanocompile"), 0);
    setenv("NANOCOMPILE_DB", "no/such.db", 0);
    return arena_printf(&e->model, "%s/nanocompile", build ? build : "build/release");
}

Ran nanocompile(Env *e, const char *const *words)
{
    char *argv[MAX_WORDS + 2] = {nanocompile_program(e)};
    Buf out;
    int status;
    Err err;
    buf_init(&out, &e->model);
    for (int i = 0; words[i]; i++) {
        cr_assert(i < MAX_WORDS);
        argv[i + 1] = (char *)words[i];
    }
    cr_assert(os_run(argv, environ, 120000, 4 << 20, &out, &status, &err), "%s", err.text);
    return (Ran){WIFEXITED(status) ? WEXITSTATUS(status) : -1, out.at};
}

void shows(Ran r, const char *words)
{
    cr_expect_eq(r.status, 0, "status %d: %s", r.status, r.out);
    cr_expect(strstr(r.out, words), "no '%s' in: %s", words, r.out);
}

void refused(Ran r, int status, const char *words)
{
    const char *end = strchr(r.out, '\n');
    cr_expect_eq(r.status, status, "status %d: %s", r.status, r.out);
    cr_expect(strstr(r.out, words), "no '%s' in: %s", words, r.out);
    cr_expect(!strncmp(r.out, "nanocompile", 11), "%s", r.out);
    cr_expect(end && (status == 2 || end[1] == '\0'), "more than one line: %s", r.out);
}

const char *file_in(Env *e, const TempDir *d, const char *name, const char *text)
{
    const char *path = arena_str(&e->model, temp_path(d, name));
    write_text(path, text);
    return path;
}
