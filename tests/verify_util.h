/* verify_util.h - candidates for verification: scheduled kernels compiled by the system's compiler, with
 * their faults planted around them. */
#ifndef NC_TESTS_VERIFY_UTIL_H
#define NC_TESTS_VERIFY_UTIL_H

#include "tests/loop_util.h"
#include "tests/schedule_util.h"

extern const char long_text[];    /* y[s0, 6] = a[s0, 4864] b[6, 4864]^T + x0[s0, 6] */
extern const char swiglu_text[];  /* y[s0, 33]: two products of 20 terms, silu(acc0) * acc1 */
extern const char rows_text[];    /* y[s0, s1] = softmax of the rows of x0 */
extern const char norm_text[];    /* y[s0, 40] = x0 / sqrt(mean of squares) * x1 */
extern const char score_text[];   /* 4 heads, two of keys; keys from a cache and from now */
extern const char rope_text[];    /* y[s0, 16] = cos of position times frequency */
extern const char lookup_text[];  /* rows of a table of 11; fails with 1 outside */
extern const char strided_text[]; /* y[s0, 8] of which only 5 columns are stored */

/* One kernel under one schedule, in a library of its own. */
typedef struct Built {
    Bench bench;
    BuiltKernel kernel;
} Built;
void build(Env *e, Built *b, const char *text, const char *schedule);
void built_close(Built *b);

/* verify_kernel inside the boundary, in this process; asserts that it ran. */
Verdict verified(Env *e, const Kernel *naive, const BuiltKernel *k, const int64_t *syms);

#endif
