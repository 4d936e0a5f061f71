/* schedules_util.h - kernels of models and graphs under the schedules of a policy, checked in
 * bulk. */
#ifndef NC_TESTS_SCHEDULES_UTIL_H
#define NC_TESTS_SCHEDULES_UTIL_H

#include "schedules/schedules.h"
#include "tests/compile_util.h"
#include "tests/schedule_util.h"

extern const ModelSize size_odd; /* small, with widths that no vector divides */

typedef struct Origin { /* where a case of the bench comes from */
    const Program *p;
    int kernel;
} Origin;

typedef struct Bulk {
    Bench bench;
    Origin of[MAX_CASES];
} Bulk;

/* Every symbol is usually this; -1: any. */
PickHint hint_at(const Target *t, int n_threads, int64_t sym);
const Target *target_named(const char *name);
bool machine_has(Env *e, const Target *t);

/* Adds a kernel of the program under s, unless the bench has it; asserts that it is legal. */
void bulk_add(Bulk *b, const Program *p, int kernel, const Schedule *s);
/* Every kernel of it. */
void bulk_add_defaults(Bulk *b, const Program *p, const PickHint *hint);
/* Every case with these values of the graph's symbols seq and past (any other symbol: 2). */
void bulk_check(Bulk *b, int64_t seq, int64_t past, uint64_t seed);

#endif
