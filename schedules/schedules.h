/* schedules.h - policy: which steps a kernel's nest should take. Knows kernel classes by the look of their
 * nests; changes no nest itself. Sections are named after the .c files that define them. DESIGN 5 */
#ifndef NC_SCHEDULES_H
#define NC_SCHEDULES_H

#include "compile.h"

/* ---- classify.c: what a nest looks like ---------------------------------------------------------- */

/* Columns: id, name, what its nest looks like */
#define KERNEL_CLASSES(X)                                                                            \
    X(CONTRACTION, "contraction", "sums of products over one reduce axis, both factors reused")      \
    X(ROW, "row", "reductions, and what each row does with their results")                           \
    X(ELEMENTWISE, "elementwise", "one statement a point, no reduction")                             \
    X(GATHER, "gather", "rows looked up by an index that is data")                                   \
    X(OTHER, "other", "anything else: only spread over threads")

typedef enum KernelClass {
#define X(id, name, meaning) CLASS_##id,
    KERNEL_CLASSES(X)
#undef X
    N_KERNEL_CLASSES
} KernelClass;

const char *class_name(KernelClass c);
KernelClass kernel_class(const Kernel *k);

/* ---- default.c: a legal schedule that needs no tuning ------------------------------------------------ */

/* Chosen from the target's registers and lanes, the threads, and the sizes where they are known; right at
 * every size. No steps where nothing else is legal. */
void schedule_default(Env *e, const Kernel *k, const PickHint *hint, Schedule *out);
Picker picker_default(void);

#endif
