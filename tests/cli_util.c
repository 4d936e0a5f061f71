/* cli_util.c - see cli_util.h. */
#include "tests/cli_util.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

enum { LIMIT_MS = 300000, MAX_SAID_BYTES = 64 << 20 };

/* ---- running ---- */

const char *built_program(Env *e, const char *name)
{
    const char *build = getenv("NC_BUILD");
    return arena_printf(&e->model, "%s/%s", build ? build : "build/release", name);
}

char **built_words(Env *e, const char *program, const char *const *words)
{
    char **argv = arena_array(&e->model, char *, MAX_WORDS + 4);
    argv[0] = (char *)built_program(e, program);
    for (int i = 0; words[i]; i++) {
        cr_assert_lt(i, MAX_WORDS);
        argv[i + 1] = (char *)words[i];
    }
    return argv;
}

static Ran run(Env *e, const char *program, char *const *argv)
{
    Buf out;
    int status;
    Err err;
    buf_init(&out, &e->model);
    cr_assert(os_run(argv, environ, LIMIT_MS, MAX_SAID_BYTES, &out, &status, &err), "%s",
              err.text);
    return (Ran){WIFEXITED(status) ? WEXITSTATUS(status) : -1, out.at, program};
}

Ran run_built(Env *e, const char *program, const char *const *words)
{
    return run(e, program, built_words(e, program, words));
}

char **tune_words(Env *e, const char *const *words)
{
    char **argv = built_words(e, "tune", words);
    int n = 0;
    while (argv[n]) {
        n++;
    }
    argv[n] = "--set";
    argv[n + 1] = "gate_most_s=0";
    return argv;
}

Ran run_tune(Env *e, const char *const *words)
{
    return run(e, "tune", tune_words(e, words));
}

Ran run_by_shell(Env *e, const char *program, const char *line, const char *word)
{
    char *argv[] = {"sh",         "-c", (char *)line, (char *)built_program(e, program),
                    (char *)word, NULL};
    return run(e, program, argv);
}

/* ---- what is said ---- */

static bool cuts_number(char inside, char outside)
{
    return isdigit((unsigned char)inside) && isdigit((unsigned char)outside);
}

const char *find_words(const char *text, const char *words)
{
    size_t len = strlen(words);
    for (const char *at = text; (at = strstr(at, words)); at++) {
        bool cut = len && ((at > text && cuts_number(at[0], at[-1])) ||
                           cuts_number(at[len - 1], at[len]));
        if (!cut) {
            return at;
        }
    }
    return NULL;
}

void has(Ran r, int status, const char *words)
{
    cr_expect_eq(r.status, status, "status %d: %s", r.status, r.out);
    cr_expect(find_words(r.out, words), "no '%s' in: %s", words, r.out);
}

void shows(Ran r, const char *words)
{
    has(r, 0, words);
}

void refused(Ran r, int status, const char *words)
{
    const char *end = strchr(r.out, '\n');
    size_t len = strlen(r.program);
    has(r, status, words);
    cr_expect(!strncmp(r.out, r.program, len) && strchr(": ", r.out[len]), "%s", r.out);
    cr_expect(end && (status == 2 || end[1] == '\0'), "more than one line: %s", r.out);
}

/* ---- around it ---- */

const char *file_in(Env *e, const TempDir *d, const char *name, const char *text)
{
    const char *path = arena_str(&e->model, temp_path(d, name));
    write_text(path, text);
    return path;
}

void without_leak_check(Env *e)
{
    const char *given = getenv("ASAN_OPTIONS");
    setenv("ASAN_OPTIONS", arena_printf(&e->model, "%s:detect_leaks=0", given ? given : ""), 1);
}
