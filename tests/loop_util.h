/* loop_util.h - kernels for the tests of compiler/loop and compiler/emit, written as kernel
 * text, and C files compiled by the system's compiler. */
#ifndef NC_TESTS_LOOP_UTIL_H
#define NC_TESTS_LOOP_UTIL_H

#include "emit/emit.h"
#include "tests/helpers.h"

/* One each of the shapes that lowering makes. */
extern const char matmul_text[];  /* y[s0, 5] = a[s0, 7] b[5, 7]^T */
extern const char product_text[]; /* y[s0, 45] = a[s0, 37] b[45, 37]^T, b constant */
extern const char widened_text[]; /* product_text, b from bf16 */
extern const char
    softmax_text[];              /* y[s0, s1] = softmax of x0[s0, s1]: max, sum, then the row */
extern const char gather_text[]; /* y[s0, 4] = rows of table[6, 4]; fails with 1 outside */
extern const char concat_text[]; /* y[3, s0 + s1] = x0[3, s0] beside x1[3, s1] */

Kernel *kernel_of(Env *e, const char *text); /* parsed; asserts that it is well formed */

/* nest_run inside the boundary: asserts that nothing failed. Returns the kernel's code. */
int run_nest(Env *e, const Kernel *k, void *const *params, const int64_t *n_elems,
             const int64_t *syms);

typedef struct Compiled {
    TempDir dir;
    void *lib;
} Compiled;

/* Emits kernels and compiles them into one library; warnings: "-Wall" (as errors) or "-w". */
Compiled compile_kernels(Env *e, Kernel *const *k, int n, const char *warnings);
KernelFn compiled_kernel(const Compiled *c, const Kernel *k);
void compiled_release(Compiled *c);

#endif
