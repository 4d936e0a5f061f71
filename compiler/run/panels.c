/* panels.c - constant operands laid out as their kernels' schedules want them: once, when the constants are
 * first bound, in parallel; again only when one has moved. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "run/run_int.h"

void panels_add(Env *e, Panels *p, const Kernel *k, int operand, PackFn fn, int slot,
                const int64_t *sym)
{
    *vec_push(&e->model, &p->at) =
        (Panel){.k = k, .operand = operand, .fn = fn, .slot = slot, .sym = sym};
}

static void release(Panel *p)
{
    if (p->memory) {
        os.munmap(p->memory, p->bytes);
    }
    p->memory = NULL;
    p->from = NULL;
}

/* Huge pages where the system gives them: panels are read from end to end. */
static bool reserve(Panel *p, Err *err)
{
    size_t bytes = operand_stored_bytes(p->k, p->operand, p->sym);
    release(p);
    bytes = bytes ? bytes : 1;
    void *memory =
        os.mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return err_set(err, E_NOMEM,
                       "There is no memory for %zu bytes of panels of kernel %s: %s.", bytes,
                       p->k->symbol, strerror(errno));
    }
    os.madvise(memory, bytes, MADV_HUGEPAGE);
    p->memory = memory;
    p->bytes = bytes;
    return true;
}

typedef struct Filling {
    Panel *const *panel;
    int n;
} Filling;

static void fill_part(void *ctx, int part, int n_parts)
{
    const Filling *f = ctx;
    for (int i = part; i < f->n; i += n_parts) {
        Panel *p = f->panel[i];
        p->fn(p->memory, p->from, p->sym);
    }
}

static void fill(Env *e, Filling *f, Pool *pool)
{
    if (f->n && !f->panel[0]->fn) {
        for (int i = 0; i < f->n; i++) {
            Panel *p = f->panel[i];
            nest_pack(e, p->k, p->operand, p->memory, p->from, p->sym);
        }
    } else if (pool) {
        pool_run(pool, fill_part, f);
    } else {
        fill_part(f, 0, 1);
    }
}

static int n_moved(const Panels *p, void *const *param)
{
    int n = 0;
    for (int i = 0; i < p->at.n; i++) {
        n += p->at.at[i].from != param[p->at.at[i].slot];
    }
    return n;
}

static bool refill(Env *e, Panels *p, void *const *param, int n, Pool *pool, Err *err)
{
    Panel **fresh = arena_array(&e->kernel, Panel *, n);
    Filling f = {fresh, 0};
    for (int i = 0; i < p->at.n; i++) {
        Panel *panel = &p->at.at[i];
        const void *from = param[panel->slot];
        if (panel->from != from) {
            if (!reserve(panel, err)) {
                return false;
            }
            panel->from = from;
            fresh[f.n++] = panel;
        }
    }
    fill(e, &f, pool);
    return true;
}

bool panels_update(Env *e, Panels *p, void **param, int64_t *n_elems, Pool *pool, Err *err)
{
    int moved = n_moved(p, param);
    if (moved && !refill(e, p, param, moved, pool, err)) {
        return false;
    }
    for (int i = 0; i < p->at.n; i++) {
        const Panel *panel = &p->at.at[i];
        n_elems[panel->slot] = kernel_span(panel->k, panel->operand, panel->sym);
        param[panel->slot] = panel->memory;
    }
    return true;
}

void panels_release(Panels *p)
{
    for (int i = 0; i < p->at.n; i++) {
        release(&p->at.at[i]);
    }
}
