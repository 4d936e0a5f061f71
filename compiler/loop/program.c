/* program.c - the Program: a model as calls of distinct kernels over buffers.
 *
 * Lowering hands in one kernel a call. Equal text is the same kernel, so 24 equal layers add
 * calls but no C. Kernels are numbered by first use, which keeps the emitted C the same for the
 * same graph. Lifetimes are what the arena plan needs: which call first writes a temporary, and
 * which region touches it last: calls of one region run at the same time. */
#include "loop/loop.h"

#include <string.h>

static int kernel_index(const Program *p, const Kernel *k)
{
    for (int i = 0; i < p->kernel.n; i++) {
        if (p->kernel.at[i] == k) {
            return i;
        }
    }
    bug("kernel %s is in the map but not in the program", k->symbol);
}

int program_kernel(Env *e, Program *p, Kernel *k)
{
    if (!p->by_hash.arena) {
        map_init(&p->by_hash, &e->model);
    }
    const Kernel *have = map_get(&p->by_hash, k->hash);
    if (have) {
        check(strcmp(have->text, k->text) == 0);
        return kernel_index(p, have);
    }
    map_put(&p->by_hash, k->hash, k);
    *vec_push(&e->model, &p->kernel) = k;
    return p->kernel.n - 1;
}

/* The last call of the region that c belongs to. */
static int region_end(const Program *p, int c)
{
    while (p->call.at[c].with_next) {
        c++;
    }
    return c;
}

void program_lifetimes(Program *p)
{
    for (int b = 0; b < p->buffer.n; b++) {
        p->buffer.at[b].first = p->buffer.at[b].last = -1;
    }
    for (int c = 0; c < p->call.n; c++) {
        const Call *call = &p->call.at[c];
        const int end = region_end(p, c);
        Buffer *out = &p->buffer.at[call->arg.at[0].buffer];
        if (out->first < 0) {
            out->first = c;
        }
        for (int i = 0; i < call->arg.n; i++) {
            Buffer *b = &p->buffer.at[call->arg.at[i].buffer];
            check(b->kind != BUF_TEMP || b->first >= 0);
            b->last = end;
        }
    }
}
