/* tune_util.c - see tune_util.h. */
#include "tests/tune_util.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

enum { MOST_WORDS = 40, LIMIT_MS = 200000, MAX_SAID_BYTES = 1 << 20 };

char *const *tune_words(Env *e, const char *const *words)
{
    static char *argv[MOST_WORDS];
    const char *build = getenv("NC_BUILD");
    int n = 0;
    argv[n++] = arena_printf(&e->model, "%s/tune", build ? build : "build/release");
    for (; words[n - 1]; n++) {
        cr_assert_lt(n, MOST_WORDS - 3);
        argv[n] = (char *)words[n - 1];
    }
    argv[n++] = "--set"; /* tests run beside each other, and wait for no quieter machine */
    argv[n++] = "gate_most_s=0";
    argv[n] = NULL;
    return argv;
}

Ran tune(Env *e, const char *const *words)
{
    Buf out;
    int status;
    Err err;
    buf_init(&out, &e->model);
    cr_assert(
        os_run(tune_words(e, words), environ, LIMIT_MS, MAX_SAID_BYTES, &out, &status, &err),
        "%s", err.text);
    return (Ran){WIFEXITED(status) ? WEXITSTATUS(status) : -1, out.at};
}

void has(Ran r, int status, const char *words)
{
    cr_expect_eq(r.status, status, "status %d: %s", r.status, r.out);
    cr_expect(strstr(r.out, words), "no '%s' in: %s", words, r.out);
}
