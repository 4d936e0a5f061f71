/* emit.h - C text from kernels. Knows no kernel class. spec: loop-ir 8 */
#ifndef NC_EMIT_H
#define NC_EMIT_H

#include "base/base.h"
#include "loop/loop.h"

/* ---- targets.c: what the vectors of scheduled kernels are made of ------------------------------- */
typedef struct Target {
    const char *name;
    int lanes;       /* f32 lanes of a vector; the bits do not depend on it */
    int n_registers; /* vector registers */
    bool fused;      /* multiplies and adds in one operation; else libm does, slowly */
    Feature feature; /* what it needs; N_FEATURES: nothing */
} Target;

extern const Target targets[]; /* best first; the last is generic, with name "generic" */
extern const int n_targets;
const Target *target_of(const Machine *m); /* the first that the machine has */
const Target *target_generic(void);

/* ---- c.c: one kernel as a C file that compiles alone -------------------------------------------
 * int32_t SYMBOL(void *const *params, const int64_t *syms, int part, int n_parts)
 * params[0] is the output, params[1..] the operands (already offset), syms the kernel's symbols by slot.
 * The body computes its part; without a parallel axis part 0 does all. Returns 0, or a FAIL's code.
 * Beside it, for each packed operand i: int64_t SYMBOL_pack_i(void *to, const void *from, syms), which
 * fills the panels (to NULL: only counts) and returns their elements. from: operand_takes_bf16. */
void emit_kernel(Env *e, const Kernel *k, const Target *t, Buf *out);
/* XXH3-128 of the C without function name and comments: what was measured is what is built. */
Hash emit_hash(Env *e, const Kernel *k, const Target *t);
/* Flags every kernel is compiled with: no contraction, no reassociation, integers wrap. NULL-ended. */
extern const char *const emit_flags[];

typedef int32_t (*KernelFn)(void *const *params, const int64_t *syms, int part, int n_parts);
/* Fills the panels of one operand and returns their elements; without `to` it only counts. */
typedef int64_t (*PackFn)(void *to, const void *from, const int64_t *syms);

#endif
