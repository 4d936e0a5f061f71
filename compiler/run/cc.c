/* cc.c - finds the system's C compiler and says how it is called.
 *
 * $CC is split at blanks (it may say "ccache gcc"), else gcc, clang or cc from PATH.
 * Programs are found here and called by argument vectors: no shell ever sees a name. The
 * child's language is C, so that its messages can be read and quoted. What the compiler is
 * and accepts: probe.c. */
#include "run/run_int.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TIMEOUT_S = 60,
    SAID_LINE = 300, /* of the compiler's words in a message */
};

/* ---- programs --------------------------------------------------------------------------- */

static bool is_program(const char *path)
{
    struct stat st;
    return os.stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111);
}

/* The program that a word names, as execvp would find it; NULL: none. */
const char *program_find(Env *e, const char *word)
{
    if (strchr(word, '/')) {
        return is_program(word) ? word : NULL;
    }
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/usr/bin:/bin"; word[0];) {
        size_t len = strcspn(at, ":");
        const char *dir = len ? arena_strn(&e->model, at, len) : ".";
        const char *file = arena_printf(&e->model, "%s/%s", dir, word);
        if (is_program(file)) {
            return file;
        }
        if (!at[len]) {
            break;
        }
        at += len + 1;
    }
    return NULL;
}

typedef Vec(char *) Words;

static void split_words(Env *e, const char *text, Words *words)
{
    for (const char *at = text; *at;) {
        at += strspn(at, " \t");
        size_t len = strcspn(at, " \t");
        if (len > 0) {
            *vec_push(&e->model, words) = arena_strn(&e->model, at, len);
        }
        at += len;
    }
}

static void words_from_cc(Env *e, const char *cc, Words *words)
{
    if (is_program(cc)) { /* a path with blanks in it */
        *vec_push(&e->model, words) = arena_str(&e->model, cc);
        return;
    }
    split_words(e, cc, words);
}

static void find_words(Env *e, Toolchain *tc)
{
    static const char *const usual[] = {"gcc", "clang", "cc"};
    const char *cc = getenv("CC");
    Words words = {0};
    if (cc && cc[strspn(cc, " \t")]) {
        words_from_cc(e, cc, &words);
        tc->path = program_find(e, words.at[0]);
        if (!tc->path) {
            fail(e, E_BUILD,
                 "The C compiler \"%.300s\" that CC names was not found; set CC to a "
                 "working compiler, or unset it to use gcc, clang or cc.",
                 cc);
        }
    }
    for (size_t i = 0; i < countof(usual) && !tc->path; i++) {
        tc->path = program_find(e, usual[i]);
        if (tc->path) {
            *vec_push(&e->model, &words) = NULL;
        }
    }
    if (!tc->path) {
        fail(e, E_BUILD,
             "No C compiler was found: gcc, clang and cc are not in PATH; install gcc "
             "or set CC.");
    }
    words.at[0] = arena_str(&e->model, tc->path);
    tc->argv = words.at;
    tc->n_argv = words.n;
}

static void find_env(Env *e, Toolchain *tc)
{
    Vec(char *) env = {0};
    for (char **at = environ; at && *at; at++) {
        bool language = strncmp(*at, "LC_", 3) == 0 || strncmp(*at, "LANG", 4) == 0;
        if (!language) {
            *vec_push(&e->model, &env) = *at;
        }
    }
    *vec_push(&e->model, &env) = arena_str(&e->model, "LC_ALL=C");
    *vec_push(&e->model, &env) = NULL;
    tc->env = env.at;
}

static void find_timeout(Toolchain *tc)
{
    const char *text = getenv("NANOCOMPILE_CC_TIMEOUT");
    double s = text ? strtod(text, NULL) : TIMEOUT_S;
    s = s >= 0.001 && s <= 86400 ? s : TIMEOUT_S;
    tc->timeout_ms = (int)(s * 1000);
}

/* ---- running it ------------------------------------------------------------------------- */

char *const *toolchain_argv(Env *e, const Toolchain *tc, const char *const *more, int n_more)
{
    char **argv = arena_array(&e->kernel, char *, tc->n_argv + tc->n_flags + n_more + 1);
    int n = 0;
    for (int i = 0; i < tc->n_argv; i++) {
        argv[n++] = tc->argv[i];
    }
    for (int i = 0; i < tc->n_flags; i++) {
        argv[n++] = arena_str(&e->kernel, tc->flags[i]);
    }
    for (int i = 0; i < n_more; i++) {
        argv[n++] = arena_str(&e->kernel, more[i]);
    }
    return argv;
}

/* The line of its output that says what went wrong: the first with "error", else the first. */
static const char *error_line(Env *e, const Job *job)
{
    const char *first = NULL;
    for (const char *at = job->said; *at;) {
        size_t len = strcspn(at, "\n");
        const char *line = arena_strn(&e->kernel, at, len < SAID_LINE ? len : SAID_LINE);
        if (strstr(line, "error") || strstr(line, "Error")) {
            return line;
        }
        first = first || len == 0 ? first : line;
        at += len + (at[len] == '\n');
    }
    return first ? first : "it said nothing";
}

void toolchain_fail(Env *e, const Toolchain *tc, const Job *job, const char *what,
                    const char *see, const Err *err)
{
    fail(e, err->code, "The C compiler %.300s %s on %s: %s%s.", tc->path, err->text, what,
         error_line(e, job), see);
}

/* ---- all of it -------------------------------------------------------------------------- */

static void set_identity(Env *e, Toolchain *tc, const char *isa)
{
    Buf b;
    buf_init(&b, &e->kernel);
    for (int i = 0; i < tc->n_argv; i++) {
        buf_printf(&b, "%s\n", tc->argv[i]);
    }
    buf_printf(&b, "%s\n", tc->version);
    for (int i = 0; i < tc->n_flags; i++) {
        buf_printf(&b, "%s\n", tc->flags[i]);
    }
    buf_str(&b, isa);
    tc->identity = hash_bytes(b.at, b.len);
}

void toolchain_find(Env *e, Toolchain *tc)
{
    *tc = (Toolchain){0};
    find_words(e, tc);
    find_env(e, tc);
    find_timeout(tc);
    Machine machine;
    machine_read(e, "", &machine);
    Buf isa;
    buf_init(&isa, &e->kernel);
    machine_isa(&machine, &isa);
    tc->target = target_of(&machine);
    toolchain_probe(e, tc, &machine, isa.at);
    set_identity(e, tc, isa.at);
}

Toolchain toolchain_baseline(Env *e, const Toolchain *tc)
{
    static const char *const more[] = {"-ftree-vectorize", "-fvisibility=hidden", "-pthread",
                                       "-D_GNU_SOURCE", "-pipe"};
    Toolchain out = *tc;
    Vec(const char *) flags = {0};
    for (int i = 0; emit_flags[i]; i++) {
        *vec_push(&e->model, &flags) = emit_flags[i];
    }
    for (size_t i = 0; i < countof(more); i++) {
        *vec_push(&e->model, &flags) = more[i];
    }
    out.flags = flags.at;
    out.n_flags = flags.n;
    set_identity(e, &out, "baseline");
    return out;
}
