/* report_util.h - a schedule database in which everything happened that reports tell of: a run that
 * found a winner along a chain of incumbents, one that found another, one that kept the default; failures,
 * calibrations, a rival, an ablation, a tie, a build with misses. Raw pairs are made first, and
 * what is stored of them follows. */
#ifndef NC_TESTS_REPORT_UTIL_H
#define NC_TESTS_REPORT_UTIL_H

#include "tests/db_util.h"

enum { RUN_FIRST = 1001, RUN_SECOND = 2002, RUN_KEPT = 3003 };

typedef struct Scene {
    int64_t matmul, norm; /* tasks */
    int title;            /* duel of RUN_FIRST that its winner stands on */
    int rival;            /* likewise, against OpenBLAS */
} Scene;

Scene scene_make(Env *e, const char *path);

/* report with these words and --db path. */
Ran report_run(Env *e, const char *path, const char *const *words);
#define REPORT(e, path, ...) report_run((e), (path), (const char *const[]){__VA_ARGS__, NULL})

const char *line_with(Env *e, Ran r,
                      const char *words); /* the first of its lines that has them; asserts */
void line_has(const char *line, const char *words);

#endif
