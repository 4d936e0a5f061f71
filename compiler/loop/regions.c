/* regions.c - which neighbouring calls of a program share one parallel region.
 *
 * A region's calls run one after another on each thread, without a meeting between them: none may
 * read or write what another of them writes. So a call's region is one behind the last that it
 * depends on. Calls are sorted by region and else keep their order, which keeps every order that
 * matters: q, k and v come together, though attention stood between them. There are as few regions
 * as the longest chain of dependent calls has members.
 *
 * needs: program_lifetimes before; renews them, since all of a region is alive together. Buffers are
 * compared as wholes: two layers' parts of one cache count as one. */
#include "loop/loop.h"

#include <string.h>

static bool touches(const Call *c, int buffer)
{
    for (int i = 0; i < c->arg.n; i++) {
        if (c->arg.at[i].buffer == buffer) {
            return true;
        }
    }
    return false;
}

static bool depend(const Call *a, const Call *b)
{
    return touches(a, b->arg.at[0].buffer) || touches(b, a->arg.at[0].buffer);
}

/* By call; returns their number. */
static int number_regions(const Program *p, int *region)
{
    int n = 0;
    for (int c = 0; c < p->call.n; c++) {
        region[c] = 0;
        for (int before = 0; before < c; before++) {
            if (region[before] >= region[c] && depend(&p->call.at[before], &p->call.at[c])) {
                region[c] = region[before] + 1;
            }
        }
        n = region[c] >= n ? region[c] + 1 : n;
    }
    return n;
}

void program_regions(Env *e, Program *p)
{
    int *region = arena_array(&e->kernel, int, p->call.n);
    Call *sorted = arena_array(&e->kernel, Call, p->call.n);
    int n_regions = number_regions(p, region), n = 0;
    for (int r = 0; r < n_regions; r++) {
        for (int c = 0; c < p->call.n; c++) {
            if (region[c] == r) {
                sorted[n] = p->call.at[c];
                sorted[n++].with_next = true;
            }
        }
        sorted[n - 1].with_next = false;
    }
    memcpy(p->call.at, sorted, sizeof *sorted * (size_t)n);
    program_lifetimes(p);
}
