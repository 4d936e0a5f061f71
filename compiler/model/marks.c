/* marks.c - which weights of a graph were widened from BF16 (Attr.from_bf16), so that their
 * kernels may be scheduled to read them as they came. Marks are part of a kernel's text: what
 * is tuned, listed and run must be marked from the same file. Needs: a graph that nothing has
 * been compiled from yet. */
#include "model/model_int.h"

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

void graph_mark_bf16(Graph *g)
{
    for (int i = 0; i < g->weights.n; i++) {
        g->weights.at[i]->attr.from_bf16 = true;
    }
}

void graph_mark_file(const Checkpoint *c, Graph *g)
{
    for (int i = 0; i < g->weights.n; i++) {
        const FileTensor *t = checkpoint_find(c, name_of(g->weights.at[i]));
        g->weights.at[i]->attr.from_bf16 = t && t->dtype == FD_BF16;
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
    graph_mark_file(&m->file, m->g);
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
