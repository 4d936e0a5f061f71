/* explain_sites.c - the call sites that are asked about: the tasks that tune would search, selected as
 * tune does, or the kernels of a graph or model as the other commands compile it. */
#include <string.h>

#include "cli/explain.h"
#include "tuner/cli/tune.h"

/* ---- tune's tasks ------------------------------------------------------------------------ */

static void tasks(const Here *h, Sites *out)
{
    const ExplainOptions *o = h->o;
    TuneOptions options = {.m = o->m,
                           .n = o->n,
                           .k = o->k,
                           .kernel = o->kernel,
                           .model = o->model,
                           .regime = o->regime,
                           .regime_given = o->regime_given};
    Workplace w = {.e = h->e,
                   .o = &options,
                   .machine = h->machine,
                   .tc = h->tc,
                   .n_threads = h->n_threads};
    Items items;
    items_find(&w, &items);
    for (int i = 0; i < items.n; i++) {
        const Item *it = &items.at[i];
        if (!it->selected) {
            continue;
        }
        Site *s = vec_push(&h->e->model, out);
        *s = (Site){.label = it->label,
                    .kernel = it->kernel,
                    .n_threads = it->task.n_threads,
                    .regime = regime_name[it->task.regime],
                    .n_calls = it->calls,
                    .hint = it->space.hint};
        memcpy(s->sym, it->task.sym, sizeof s->sym);
    }
}

/* ---- the calls of a program -------------------------------------------------------------- */

static bool same_place(const Site *s, const Kernel *k, const int64_t *sym)
{
    return s->kernel == k && !memcmp(s->sym, sym, sizeof *sym * (size_t)k->n_syms);
}

static void add_call(const Here *h, const Program *p, int kernel, const int64_t *sym,
                     const char *label, Sites *out)
{
    const Kernel *k = p->kernel.at[kernel];
    for (int i = 0; i < out->n; i++) {
        if (same_place(&out->at[i], k, sym)) {
            out->at[i].n_calls++;
            return;
        }
    }
    Site *s = vec_push(&h->e->model, out);
    *s = (Site){.label = label,
                .kernel = k,
                .n_threads = h->n_threads,
                .regime = regime_name[h->o->regime_given ? h->o->regime : REGIME_COLD],
                .n_calls = 1,
                .hint = hint_of_machine(&h->machine, h->n_threads)};
    s->hint.target = h->tc.target;
    s->hint.in_place = weights_are_shared(p, kernel);
    memset(s->hint.sym, 0xff, sizeof s->hint.sym);
    memcpy(s->hint.sym, sym, sizeof *sym * (size_t)k->n_syms);
    memcpy(s->sym, sym, sizeof *sym * (size_t)k->n_syms);
}

static void calls(const Here *h, Sites *out)
{
    Env *e = h->e;
    const ExplainOptions *o = h->o;
    Compile c;
    Sizes z;
    const Graph *g = source_graph(e, &o->source);
    source_meaning(e, &o->source, g);
    const Program *p = source_compile(e, &o->source, g, &c);
    source_sizes(e, &o->source, c.graph, &z);
    for (int i = 0; i < p->call.n; i++) {
        const Call *call = &p->call.at[i];
        const Kernel *k = p->kernel.at[call->kernel];
        int64_t sym[MAX_SYMBOLS] = {0};
        for (int s = 0; s < call->sym.n; s++) {
            sym[s] = z.value[call->sym.at[s]];
        }
        const char *label = kernel_label(&e->model, k, sym, "");
        bool in_label = o->kernel && strstr(label, o->kernel);
        if (in_label || kernel_named(p, call->kernel, o->kernel)) {
            add_call(h, p, call->kernel, sym, label, out);
        }
    }
    if (out->n == 0) {
        fail(e, E_INPUT,
             "%s: no kernel has the number, kind or hash '%s', or it in its label; `dump "
             "kernels` lists them.",
             o->source.path, o->kernel ? o->kernel : "");
    }
}

void sites_find(const Here *h, Sites *out)
{
    *out = (Sites){0};
    if (h->o->source.path) {
        calls(h, out);
    } else {
        tasks(h, out);
    }
}
