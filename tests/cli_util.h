/* cli_util.h - runs programs of the build as a user does, and looks at what they say. */
#ifndef NC_TESTS_CLI_UTIL_H
#define NC_TESTS_CLI_UTIL_H

#include "tests/helpers.h"

#define MAX_WORDS 40

typedef struct Ran {
    int status;          /* exit status; -1: killed by a signal */
    const char *out;     /* stdout and stderr together */
    const char *program; /* its name */
} Ran;

/* Its path: in the build folder (NC_BUILD, else build/release). */
const char *built_program(Env *e, const char *name);
/* argv of it with these words, NULL at their end; in the Env. */
char **built_words(Env *e, const char *program, const char *const *words);
Ran run_built(Env *e, const char *program, const char *const *words);
/* Likewise tune: tests run beside each other, and wait for no quieter machine. */
char **tune_words(Env *e, const char *const *words);
Ran run_tune(Env *e, const char *const *words);
/* Likewise, by a line of shell: $0 is the program's path, $1 a word. */
Ran run_by_shell(Env *e, const char *program, const char *line, const char *word);

#define RUN(e, program, ...) \
    run_built((e), (program), (const char *const[]){__VA_ARGS__, NULL})
#define NC(e, ...) RUN(e, "nanocompile", __VA_ARGS__)
#define TUNE(e, ...) run_tune((e), (const char *const[]){__VA_ARGS__, NULL})
#define SCHEDB(e, ...) RUN(e, "schedb", __VA_ARGS__)

/* The words in the text, where a number at their edge is a whole one: "1 run" is not in "11 runs". */
const char *find_words(const char *text, const char *words);
void has(Ran r, int status, const char *words); /* this status, and these words in what it says */
void shows(Ran r, const char *words);           /* likewise, status 0 */
/* This status, and one sentence of the program (with usage, status 2: the first of several lines) that holds
 * these words. */
void refused(Ran r, int status, const char *words);

/* Writes a file of the folder; gives its path, which the Env keeps. */
const char *file_in(Env *e, const TempDir *d, const char *name, const char *text);

/* For programs in which a library's OpenMP leaves threads behind: the leak checker dies of them. */
void without_leak_check(Env *e);

#endif
