/* fused.c - planning and generating until they agree: the generator is the authority, and a fusion it
 * refuses is banned before planning starts again. Every round bans something new, so it ends.
 * needs: a finished graph. keeps: every value, bitwise: no float operation is reordered or dropped. */
#include "lower/fuse_int.h"

Program *lower_fused(const Graph *g)
{
    Ban *ban = arena_array(&g->env->kernel, Ban, g->nodes.n);
    bool *copied = arena_array(&g->env->kernel, bool, g->nodes.n);
    Program *p = NULL;
    while (!p) {
        FusePlan plan = fuse_plan(g, ban, copied);
        p = fuse_generate(&plan, copied);
    }
    return p;
}
