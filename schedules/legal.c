/* legal.c - asking the mechanism whether a schedule is legal. Its answer is the only authority:
 * policies may guess, and then ask. needs: nothing but the kernel. keeps: no memory. */
#include "schedules/schedules_int.h"

bool schedule_legal(Env *e, const Kernel *k, const Schedule *s, Err *why)
{
    Arena scratch;
    Err err = {0};
    arena_init(&scratch, e);
    bool legal = kernel_schedule(e, &scratch, k, s, s->n, &err) != NULL;
    arena_release(&scratch);
    if (!legal && err.code != E_ILLEGAL) {
        fail_err(e, &err);
    }
    if (why) {
        *why = err;
    }
    return legal;
}

bool recipe_legal(Env *e, const Look *l, const Recipe *p)
{
    Schedule s;
    class_policy(l->class)->schedule(l, p, &s);
    return schedule_legal(e, l->k, &s, NULL);
}
