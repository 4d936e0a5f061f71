/* run_util.h - what the tests of compiler/run share: a cache of their own, small kernels,
 * made-up C compilers, and a look at what a build left behind. */
#ifndef NC_TESTS_RUN_UTIL_H
#define NC_TESTS_RUN_UTIL_H

#include "run/run.h"
#include "tests/helpers.h"

typedef struct Workshop {
    Env e;
    TempDir dir; /* cache/ is NANOCOMPILE_CACHE and is not made yet */
    const char *cache_dir;
    Toolchain tc;
    Cache cache;
    const char *const *object; /* of the last build_kernels */
    const char *library;
    Library lib;
} Workshop;

void workshop_init(Workshop *w);
void workshop_release(Workshop *w);

/* y[i] = x0[i] * factor for i < s0; factors make kernels distinct. */
Kernel *scale_kernel(Env *e, float factor);
enum { N_KERNELS = 2 };
Kernel *const *some_kernels(Env *e); /* N_KERNELS of them: factors 2 and 3 */

/* Bodies for must_work and must_fail; arg is the Workshop. Each does all before it. */
void find_compiler(Env *e, void *workshop);
void build_objects(Env *e, void *workshop);
void build_library(Env *e, void *workshop);
void load_library(Env *e, void *workshop);
/* Loads and runs kernel 0 and 1, asserts 2x and 3x, and releases the library. */
void assert_kernels_run(Workshop *w);

/* An executable shell script name in the workshop's folder; gives its path. */
const char *script(Workshop *w, const char *name, const char *text);
/* Points CC at a script; words in text may use the real compiler: "exec gcc \"$@\"". */
void script_as_cc(Workshop *w, const char *text);

/* A scratch folder or temporary file in the workshop's cache; NULL: only what was finished. */
const char *leftover(Workshop *w);
void assert_no_leftovers(Workshop *w);

/* Its path; asserts that it is the only one. */
const char *only_file(Workshop *w, const char *folder);

/* A child's answer: how the body ended there (E_OK: it returned), or that it left files
 * behind. The test asserts on it; a child must not, since it speaks for the whole test. */
typedef void Body(Env *e, void *workshop);
Err as_other_user(Workshop *w, Body *body); /* as nobody, where this process is root */
/* With a tmpfs on the cache directory (options: "size=64k"). Skips where that is not
 * allowed. */
Err on_tmpfs(Workshop *w, unsigned long flags, const char *options, Body *body);

#endif
