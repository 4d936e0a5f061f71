/* updates.c - which updates are written straight into their operand's buffer, and the proof.
 *
 * The versions of a buffer - the input, then one update behind another - share its memory,
 * so a call that reads an older version must come before the call that overwrites what it
 * reads, or read elsewhere in the buffer. Lowering assumes the best, notes what each call
 * reads and writes, and asks here at the end; an update that is to blame is done as a copy
 * in the next attempt. Elements are compared as intervals of the buffer, by the form of
 * their bounds: what cannot be decided counts as overlapping.
 * needs: notes in the order of the calls. The model's own cache never copies. */
#include "lower/lower_int.h"

#include <limits.h>

/* Of several updates of one value only the last can have its memory. */
void updates_choose(const Graph *g, const bool *copied, bool *in_place)
{
    const Node **latest = arena_array(&g->env->kernel, const Node *, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        in_place[i] = n->op == OP_UPDATE && !copied[i] &&
                      (n->in[0]->op == OP_INPUT || n->in[0]->op == OP_UPDATE);
        if (in_place[i]) {
            const Node **before = &latest[n->in[0]->id];
            if (*before) {
                in_place[(*before)->id] = false;
            }
            *before = n;
        }
    }
}

View update_place(Env *e, const Node *n, const View *buffer)
{
    View to = *buffer;
    to.shape = n->in[1]->shape;
    to.version = n->id;
    for (int i = 0; i < to.shape.rank; i++) {
        to.offset = dim_add(e, to.offset, dim_mul(e, n->attr.at.dim[i], to.stride[i]));
    }
    return to;
}

void updates_read(Lower *l, const View *v)
{
    if (l->any_in_place && v->version >= 0) {
        *vec_push(&l->e->kernel, &l->reads) = (Touch){l->p->call.n, *v};
    }
}

void updates_write(Lower *l, const View *to)
{
    Buffer *b = &l->p->buffer.at[to->buffer];
    b->written = b->kind == BUF_INPUT;
    *vec_push(&l->e->kernel, &l->writes) = (Touch){l->p->call.n, *to};
}

static bool ends_before(Env *e, const View *a, const View *b)
{
    Dim end = dim_add(e, a->offset, view_span(e, a));
    return dim_never_negative(dim_sub(e, b->offset, end));
}

/* Versions of one buffer are made one behind another, so older ones have lower numbers. */
static bool spoils(Env *e, const View *written, const View *read)
{
    return written->buffer == read->buffer && read->version < written->version &&
           !ends_before(e, written, read) && !ends_before(e, read, written);
}

/* Some read from `first` on is of what is overwritten. */
static bool spoils_any(const Lower *l, const View *written, int first)
{
    bool any = false;
    for (int k = first; k < l->reads.n && !any; k++) {
        any = spoils(l->e, written, &l->reads.at[k].view);
    }
    return any;
}

/* Backwards: a write meets the reads of its own call and of all behind it. */
bool updates_safe(const Lower *l, bool *copied)
{
    bool safe = true;
    int first = l->reads.n; /* the reads that the write meets */
    int *oldest = arena_array(&l->e->kernel, int, l->p->buffer.n); /* version that they read */
    for (int b = 0; b < l->p->buffer.n; b++) {
        oldest[b] = INT_MAX;
    }
    for (int i = l->writes.n - 1; i >= 0; i--) {
        const Touch *write = &l->writes.at[i];
        int b = write->view.buffer, version = write->view.version;
        while (first > 0 && l->reads.at[first - 1].call >= write->call) {
            const View *r = &l->reads.at[--first].view;
            oldest[r->buffer] = r->version < oldest[r->buffer] ? r->version : oldest[r->buffer];
        }
        copied[version] =
            copied[version] || (oldest[b] < version && spoils_any(l, &write->view, first));
        safe = safe && !copied[version];
    }
    return safe;
}
