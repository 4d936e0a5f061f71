/* emit.h - C text from kernels. Knows no kernel class. spec: loop-ir 8 */
#ifndef NC_EMIT_H
#define NC_EMIT_H

#include "base/base.h"
#include "loop/loop.h"
#include "runtime/runtime.h"

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
/* The text of one packed operand's function, under any name: equal text, equal panels. */
void emit_pack(Env *e, const Kernel *k, const Target *t, int operand, const char *name,
               Buf *out);
/* Of that text: equal panels. Memory is e's, of the kernel. */
Hash emit_pack_hash(Env *e, const Kernel *k, const Target *t, int operand);

/* ---- carried.c: compiler/runtime as text ----------------------------------------------------- */
void emit_api(Buf *out); /* what a library's own header says beside shapes */
void emit_runtime_header(
    Buf *out);               /* of all files that use tables; it includes no other of ours */
void emit_runtime(Buf *out); /* what stands behind it in runtime.c */
void emit_needs(Buf *out);   /* needs.c, which says what kernels' flags allow */

/* ---- library.c: a model's tables as C ---------------------------------------------------------- */
typedef struct LibraryText {
    const NcTables *tables;      /* functions are NULL, facts complete */
    const Kernel *const *kernel; /* all distinct ones */
    int n_kernels;
    const char *const *fill;    /* by panel: the function that fills it */
    const Buffer *const *fixed; /* by NC_FIXED: the constant */
    int n_fixed;
} LibraryText;
void emit_tables(const LibraryText *l, Buf *out);

#endif
