/* cli_util.h - runs the built program as a user does. */
#ifndef NC_TESTS_CLI_UTIL_H
#define NC_TESTS_CLI_UTIL_H

#include "tests/helpers.h"

#define MAX_WORDS 32

typedef struct Ran {
    int status;      /* exit status; -1: killed by a signal */
    const char *out; /* stdout and stderr together */
} Ran;

/* words: the arguments behind "nanocompile", NULL at the end. */
/* Its path. Sets a cache of the tests and no database, for whatever is started from now on. */
char *nanocompile_program(Env *e);
Ran nanocompile(Env *e, const char *const *words);
#define NC(e, ...) nanocompile((e), (const char *const[]){__VA_ARGS__, NULL})

void shows(Ran r, const char *words); /* status 0, and these words are in what it says */
/* This status, and one sentence (with usage, status 2: the first of several) that holds these words. */
void refused(Ran r, int status, const char *words);

/* Writes a file of the folder; gives its path, which the Env keeps. */
const char *file_in(Env *e, const TempDir *d, const char *name, const char *text);

#endif
