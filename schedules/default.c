/* default.c - a schedule for every kernel without tuning: the policy of its class, each in a file of its own.
 * A policy proposes plans, best first, and the mechanism accepts or refuses; when all are refused the kernel
 * keeps its naive nest. needs: a finished naive kernel. breaks: nothing. */
#include <string.h>

#include "schedules/schedules_int.h"

static DefaultFn *const default_of[N_KERNEL_CLASSES] = {
    [CLASS_CONTRACTION] = default_contraction, [CLASS_ROW] = default_row,
    [CLASS_ELEMENTWISE] = default_elementwise, [CLASS_GATHER] = default_gather,
};

/* Only spread over threads, by the outermost loop. */
static bool default_other(Env *e, const Kernel *k, Schedule *out)
{
    const Nest *n = &k->nest;
    const int *loops = n->outer.n ? n->outer.at : n->phase.n ? n->phase.at[0].loops.at : NULL;
    *out = (Schedule){0};
    if (!loops || strlen(axis_text(k, loops[0])) > MAX_LOOK_NAME || axis_is_unit(n, loops[0])) {
        return false;
    }
    schedule_add(out, STEP_PAR, "%s", axis_text(k, loops[0]));
    return schedule_legal(e, k, out, NULL);
}

void schedule_default(Env *e, const Kernel *k, const PickHint *hint, Schedule *out)
{
    DefaultFn *fn = default_of[kernel_class(k)];
    if (!(fn && fn(e, k, hint, out)) && !default_other(e, k, out)) {
        *out = (Schedule){0};
    }
}

static void pick_default(void *ctx, Env *e, const Kernel *k, const PickHint *hint, Schedule *out)
{
    (void)ctx;
    schedule_default(e, k, hint, out);
}

Picker picker_default(void)
{
    return (Picker){pick_default, NULL};
}
