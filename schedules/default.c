/* default.c - a schedule for every kernel without tuning: the recipe of its class, each in a
 * file of its own. A class proposes recipes, best first, and the mechanism accepts or refuses;
 * where nothing is accepted the kernel keeps its naive nest. needs: a finished naive kernel.
 * breaks: nothing. */
#include "schedules/schedules_int.h"

void schedule_default(Env *e, const Kernel *k, const PickHint *hint, Schedule *out)
{
    Look l;
    Recipe p = {0};
    *out = (Schedule){0};
    kernel_look(e, k, &l);
    if (class_policy(l.class)->recipe(e, &l, hint, &p)) {
        class_policy(l.class)->schedule(&l, &p, out);
    }
}

static void pick_default(void *ctx, Env *e, const Kernel *k, const PickHint *hint,
                         Schedule *out)
{
    (void)ctx;
    schedule_default(e, k, hint, out);
}

Picker picker_default(void)
{
    return (Picker){pick_default, NULL};
}
