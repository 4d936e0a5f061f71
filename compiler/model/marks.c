/* marks.c - which weights of a graph were widened from BF16 (Attr.from_bf16), so that their
 * kernels may be scheduled to read them as they came. Marks are part of a kernel's text: what
 * is tuned, listed and run must be marked from the same file. Needs: a graph that nothing has
 * been compiled from yet. */
#include "model/model_int.h"

#include <string.h>

static const char *name_of(const Node *weight)
{
    return weight->attr.name;
}

void weights_mark(const Weights *w, Graph *g)
{
    for (int i = 0; i < g->weights.n; i++) {
        int at = weights_find(w, name_of(g->weights.at[i]));
        g->weights.at[i]->attr.from_bf16 = at >= 0 && weights_bf16(w, at);
    }
}

void match_mark(const Match *m, Graph *g)
{
    for (int i = 0; i < g->weights.n; i++) {
        Attr *a = &g->weights.at[i]->attr;
        for (int k = 0; k < m->n; k++) {
            if (m->found[k] && !strcmp(m->spec[k].name, a->name)) {
                a->from_bf16 = m->found[k]->dtype == FD_BF16;
            }
        }
    }
}

void graph_mark_bf16(Graph *g)
{
    for (int i = 0; i < g->weights.n; i++) {
        g->weights.at[i]->attr.from_bf16 = true;
    }
}

typedef struct Marking {
    const char *path;
    Graph *g;
    Checkpoint file;
} Marking;

static void mark(Env *e, void *arg)
{
    Marking *m = arg;
    checkpoint_open(e, &m->file, m->path);
    for (int i = 0; i < m->g->weights.n; i++) {
        const FileTensor *t = checkpoint_find(&m->file, name_of(m->g->weights.at[i]));
        m->g->weights.at[i]->attr.from_bf16 = t && t->dtype == FD_BF16;
    }
}

static void close_file(void *arg)
{
    checkpoint_release(&((Marking *)arg)->file);
}

void graph_mark_from(Env *e, Graph *g, const char *dir)
{
    Marking m = {.path = dir, .g = g};
    if (checkpoint_there(e, dir)) {
        env_finally(e, mark, close_file, &m);
    }
}
