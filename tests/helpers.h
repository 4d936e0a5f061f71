/* helpers.h - what tests of every folder need: a folder of their own, files, the shared data,
 * bodies that may fail, seeded numbers. Every helper asserts instead of returning an error. */
#ifndef NC_TESTS_HELPERS_H
#define NC_TESTS_HELPERS_H

#include "base/base.h"

#include <criterion/criterion.h>
#include <limits.h>

typedef struct TempDir {
    char path[64];
} TempDir;

TempDir temp_dir(void);             /* a new empty folder in TMPDIR or /tmp */
void temp_remove(const TempDir *d); /* and all that is in it */
/* The path of a name in the folder, in one of four buffers that are reused in turn. */
const char *temp_path(const TempDir *d, const char *name);
int folder_entries(const char *path); /* files and folders in it; -1: no such folder */

void write_text(const char *path, const char *text); /* makes the folders on the way */
char *read_text(Env *e, const char *path);           /* the whole file, NUL-terminated */

/* The compile cache that all tests share, in the build folder. Before main every test has this one, unless
 * NANOCOMPILE_CACHE is given, and no schedule database: none writes, or reads, where the user's are. */
void use_test_cache(void);

/* The place of rel in the shared data (NC_SHARED, else "../shared"); false where absent. */
bool shared_path(const char *rel, char out[PATH_MAX]);
#define need_shared(rel, out)                                      \
    do {                                                           \
        if (!shared_path((rel), (out))) {                          \
            cr_skip_test("the shared data has no %s here", (rel)); \
        }                                                          \
    } while (0)

/* Runs body and asserts that it returns. */
void must_work(Env *e, void (*body)(Env *e, void *arg), void *arg);
/* Runs body and asserts that it fails with this code and that the text holds these words. */
void must_fail(Env *e, void (*body)(Env *e, void *arg), void *arg, ErrCode code,
               const char *words);

Dim dim_of(Env *e, const char *text); /* parsed to its end */

void fill_normal(float *p, size_t n, uint64_t seed); /* N(0, 1) */

int how_often(const char *text, const char *part); /* it is in it */
int open_descriptors(void);

#endif
