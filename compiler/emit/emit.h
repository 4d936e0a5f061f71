/* emit.h - C text from kernels. Knows no kernel class. spec: loop-ir 8 */
#ifndef NC_EMIT_H
#define NC_EMIT_H

#include "base/base.h"
#include "loop/loop.h"

/* ---- c.c: one kernel as a C file that compiles alone -------------------------------------------
 * int32_t SYMBOL(void *const *params, const int64_t *syms, int part, int n_parts)
 * params[0] is the output, params[1..] the operands (already offset), syms the kernel's symbols by slot.
 * The body computes its part; without a parallel axis part 0 does all. Returns 0, or a FAIL's code. */
void emit_kernel(Env *e, const Kernel *k, Buf *out);
/* XXH3-128 of the C without function name and comments: what was measured is what is built. */
Hash emit_hash(Env *e, const Kernel *k);
/* Flags every kernel is compiled with: no contraction, no reassociation, integers wrap. NULL-ended. */
extern const char *const emit_flags[];

typedef int32_t (*KernelFn)(void *const *params, const int64_t *syms, int part, int n_parts);

#endif
