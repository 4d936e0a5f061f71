/* updates.c - which updates are written straight into their operand's buffer, and the proof that they may.
 *
 * The versions of a buffer - the input, then one update behind another - share its memory, so a call that
 * reads an older version must come before the call that overwrites what it reads, or read elsewhere in
 * the buffer. Lowering assumes the best, notes what each call reads and writes, and asks here at the end;
 * an update that is to blame is done as a copy in the next attempt. Elements are compared as intervals
 * of the buffer, by the form of their bounds: what cannot be decided counts as overlapping.
 * needs: notes in the order of the calls. The model's own cache never copies. */
#include "lower/lower_int.h"

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

void updates_read(Lower *l, const View *v, int call)
{
    if (v->version >= 0) {
        *vec_push(&l->e->kernel, &l->reads) = (Touch){call, *v};
    }
}

void updates_write(Lower *l, const View *to)
{
    Buffer *b = &l->p->buffer.at[to->buffer];
    b->written = b->kind == BUF_INPUT;
    *vec_push(&l->e->kernel, &l->writes) = (Touch){l->p->call.n, *to};
}

/* Whether the update was made from that version, directly or through others. */
static bool older(const Graph *g, int version, int update)
{
    const Node *n = g->nodes.at[update];
    while (n->op == OP_UPDATE && n->id != version) {
        n = n->in[0];
    }
    return n->id == version && version != update;
}

static bool ends_before(Env *e, const View *a, const View *b)
{
    Dim end = dim_add(e, a->offset, view_span(e, a));
    return dim_never_negative(dim_sub(e, b->offset, end));
}

static bool spoils(const Lower *l, const Touch *write, const Touch *read)
{
    const View *w = &write->view, *r = &read->view;
    return w->buffer == r->buffer && read->call >= write->call &&
           older(l->g, r->version, w->version) && !ends_before(l->e, w, r) &&
           !ends_before(l->e, r, w);
}

bool updates_safe(const Lower *l, bool *copied)
{
    bool safe = true;
    for (int i = 0; i < l->writes.n; i++) {
        const Touch *write = &l->writes.at[i];
        for (int k = 0; k < l->reads.n && !copied[write->view.version]; k++) {
            copied[write->view.version] = spoils(l, write, &l->reads.at[k]);
        }
        safe = safe && !copied[write->view.version];
    }
    return safe;
}
