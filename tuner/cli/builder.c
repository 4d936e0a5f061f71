/* builder.c - candidates by number: the space turns a number into a schedule, the compiler's own cache
 * turns that into the library that a build would link. Libraries stay in the cache: equal code shares one. */
#include <string.h>

#include "tuner/cli/tune.h"

static void schedule_of(const TaskBuilder *b, uint64_t index, Schedule *out)
{
    Point p;
    if (index == INDEX_DEFAULT || index == INDEX_COPY) {
        *out = b->item->base;
    } else {
        space_unrank(&b->item->space, index, &p);
        space_schedule(&b->item->space, &p, out);
    }
}

static void build(void *ctx, Env *e, Arena *m, Build *batch, int n, uint64_t limit_ns)
{
    TaskBuilder *b = ctx;
    Schedule *s = arena_array(m, Schedule, n);
    Attempt *out = arena_array(m, Attempt, n);
    uint64_t start_ns = clock_ns();
    Cache cache = b->w->cache;
    Toolchain tc = b->w->tc;
    tc.until_ns = os_now_ns() + limit_ns;
    for (int i = 0; i < n; i++) {
        schedule_of(b, batch[i].index, &s[i]);
    }
    candidates_build(e, m, &cache, &tc, b->item->kernel, s, n, b->w->n_jobs, out);
    uint64_t took_ns = clock_ns() - start_ns;
    for (int i = 0; i < n; i++) {
        batch[i].status = out[i].status;
        batch[i].why = out[i].why;
        batch[i].built = out[i].built;
        batch[i].took_ns = took_ns / (uint64_t)n;
        if (batch[i].index == INDEX_COPY && out[i].status == STATUS_OK) {
            batch[i].built = built_copy(e, m, &cache, &out[i].built);
        }
    }
}

Builder task_builder(TaskBuilder *b)
{
    return (Builder){.ctx = b, .build = build};
}
