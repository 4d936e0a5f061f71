/* tune_program.h - where benchmarks find the program whose children measure. */
#ifndef NC_TESTS_BENCH_TUNE_PROGRAM_H
#define NC_TESTS_BENCH_TUNE_PROGRAM_H

#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"

/* Dies where it is not there. Memory is static. */
static inline const char *tune_program(void)
{
    static char tune[4096];
    const char *build = getenv("NC_BUILD");
    snprintf(tune, sizeof tune, "%s/tune", build ? build : "build/release");
    if (access(tune, X_OK)) {
        die("%s cannot be run: %m; NC_BUILD names the folder with the built programs.", tune);
    }
    return tune;
}

#endif
