/* in_place.c - the default policy where memory is dearer than speed: constants stay as the graph has them, no
 * panels. A product then goes along its rows: lanes along the sum, four rows of weights at a time, which reads
 * weights once and reaches the memory's bandwidth for one row of input. */
#include "schedules/schedules.h"

static bool packs(const Schedule *s)
{
    for (int i = 0; i < s->n; i++) {
        if (s->step[i].kind == STEP_PACK) {
            return true;
        }
    }
    return false;
}

/* The first of these that is legal; the last has no steps. */
static void along_rows(Env *e, const Kernel *k, Schedule *out)
{
#define ROWS                                                                                   \
    "split k 32 peel; split n 4 peel; order n.o m k.o n.i k.i; acc k.i; vec k.i; unroll n.i; " \
    "fma; "
    static const char *const tries[] = {ROWS "approx exp; par n.o", ROWS "par n.o",
                                        "order n m k; par n", ""};
    Err err;
    for (size_t i = 0; i < countof(tries); i++) {
        check(schedule_parse(tries[i], out, &err));
        if (kernel_schedule(e, &e->kernel, k, out, out->n, &err)) {
            return;
        }
    }
}

static void pick(void *ctx, Env *e, const Kernel *k, const PickHint *hint, Schedule *out)
{
    (void)ctx;
    schedule_default(e, k, hint, out);
    if (packs(out)) {
        along_rows(e, k, out);
    }
}

Picker picker_in_place(void)
{
    return (Picker){.pick = pick};
}
