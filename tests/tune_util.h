/* tune_util.h - runs the built program tune as its user does. */
#ifndef NC_TESTS_TUNE_UTIL_H
#define NC_TESTS_TUNE_UTIL_H

#include "tests/cli_util.h"

/* argv of it with these words, NULL at their end; until the next call. */
char *const *tune_words(Env *e, const char *const *words);
Ran tune(Env *e, const char *const *words);
#define TUNE(e, ...) tune((e), (const char *const[]){__VA_ARGS__, NULL})

void has(Ran r, int status, const char *words); /* this status, and these words in what it says */

#endif
