/* compile.c - the table of contents: everything that happens between a graph and C, in order.
 *
 *     graph stages   cse  fold  cse          each can be left out, checked, watched and timed
 *     on request     cache  specialise       these change the graph's own inputs
 *     lowering       fuse, or one kernel for every node
 *     schedules      the picker says which steps each kernel's nest takes
 *     per kernel     C text                  compile_kernel: the one door for builds and tuner alike
 *
 * The core does no I/O, opens no database and reads no clock of its own. */
#include "compile.h"

#include <string.h>

typedef struct Stage {
    const char *name;
    Graph *(*run)(const Graph *g);
    StageBit bit;
} Stage;

static const Stage stages[] = {
    {"cse", graph_cse, STAGE_CSE},
    {"fold", graph_fold, STAGE_FOLD},
    {"cse again", graph_cse, STAGE_CSE},
};

static uint64_t now(const Compile *c)
{
    return c->now_ns ? c->now_ns() : 0;
}

static void note(Compile *c, const char *name, uint64_t start_ns, const Graph *g,
                 const Program *p)
{
    *vec_push(&c->env->model, &c->times) = (StageTime){.name = name,
                                                       .ns = now(c) - start_ns,
                                                       .nodes = g->nodes.n,
                                                       .kernels = p ? p->kernel.n : 0,
                                                       .calls = p ? p->call.n : 0};
    if (c->after) {
        c->after(c->after_ctx, name, g, p);
    }
}

static bool without(const Compile *c, StageBit bit)
{
    return c->without & (1u << bit);
}

PickHint hint_of_machine(const Machine *m, int n_threads)
{
    return (PickHint){.target = target_of(m),
                      .l1d_bytes = m->l1d_bytes,
                      .l2_bytes = m->l2_bytes,
                      .l3_bytes = m->l3_bytes,
                      .n_threads = n_threads};
}

void compile_one_token(Compile *c)
{
    Sym seq = sym_intern(c->env, "seq", 3);
    c->known.bound[seq] = true;
    c->known.value[seq] = 1;
}

Sym step_size(Env *e, int i)
{
    static const char *const name[N_STEP_SIZES] = {"seq", "past", "capacity"};
    return sym_intern(e, name[i], strlen(name[i]));
}

void step_sizes(Env *e, int64_t seq, int64_t past, int64_t capacity, int64_t value[MAX_SYMBOLS])
{
    const int64_t size[N_STEP_SIZES] = {seq, past, capacity};
    memset(value, 0, sizeof *value * MAX_SYMBOLS);
    for (int i = 0; i < N_STEP_SIZES; i++) {
        value[step_size(e, i)] = size[i];
    }
}

void compile_at_usual_sizes(Compile *c, int64_t n_tokens)
{
    step_sizes(c->env, n_tokens, n_tokens == 1 ? USUAL_PAST : 0, USUAL_CAPACITY, c->usual);
    for (int i = 0; i < N_STEP_SIZES; i++) {
        c->usual_known[step_size(c->env, i)] = true;
    }
}

static bool reads_weight(const Program *p, const Call *call, int buffer)
{
    for (int i = 0; i < call->arg.n; i++) {
        if (call->arg.at[i].buffer == buffer) {
            return p->buffer.at[buffer].kind == BUF_WEIGHT;
        }
    }
    return false;
}

static bool another_reads(const Program *p, int kernel, int buffer)
{
    for (int i = 0; i < p->call.n; i++) {
        if (p->call.at[i].kernel != kernel && reads_weight(p, &p->call.at[i], buffer)) {
            return true;
        }
    }
    return false;
}

bool weights_are_shared(const Program *p, int kernel)
{
    for (int i = 0; i < p->call.n; i++) {
        const Call *call = &p->call.at[i];
        for (int k = 0; call->kernel == kernel && k < call->arg.n; k++) {
            if (another_reads(p, kernel, call->arg.at[k].buffer)) {
                return true;
            }
        }
    }
    return false;
}

PickHint compile_hint(const Compile *c, const Program *p, int kernel)
{
    PickHint hint = c->hint;
    hint.in_place = hint.in_place || weights_are_shared(p, kernel);
    hint.target = c->target ? c->target : target_generic();
    for (int i = 0; i < MAX_SYMBOLS; i++) {
        hint.sym[i] = -1;
    }
    for (int i = 0; i < p->call.n; i++) {
        const Call *call = &p->call.at[i];
        for (int s = 0; call->kernel == kernel && s < call->sym.n; s++) {
            hint.sym[s] = c->usual_known[call->sym.at[s]] ? c->usual[call->sym.at[s]] : -1;
        }
    }
    return hint;
}

static void schedule_kernels(Compile *c, Program *p)
{
    Env *e = c->env;
    for (int i = 0; i < p->kernel.n; i++) {
        PickHint hint = compile_hint(c, p, i);
        Schedule s = {0};
        Err why;
        c->picker->pick(c->picker->ctx, e, p->kernel.at[i], &hint, &s);
        Kernel *k = kernel_schedule(e, &e->model, p->kernel.at[i], &s, s.n, &why);
        if (!k) {
            fail_err(e, &why);
        }
        p->kernel.at[i] = k;
    }
}

static const Graph *simplified(Compile *c, const Graph *g)
{
    for (size_t i = 0; i < countof(stages); i++) {
        if (!without(c, stages[i].bit)) {
            uint64_t start_ns = now(c);
            g = stages[i].run(g);
            note(c, stages[i].name, start_ns, g, NULL);
        }
    }
    return g;
}

/* Behind fold, which would write out as an array what a specialised axis only repeats. */
static const Graph *requested(Compile *c, const Graph *g)
{
    uint64_t start_ns = now(c);
    if (c->cache) {
        g = graph_cache(g);
        note(c, "cache", start_ns, g, NULL);
    }
    for (int s = 0; s < MAX_SYMBOLS; s++) {
        if (c->known.bound[s]) {
            start_ns = now(c);
            g = graph_specialise(g, (Sym)s, c->known.value[s]);
            note(c, "specialise", start_ns, g, NULL);
        }
    }
    return g;
}

Program *compile_model(Compile *c, const Graph *g)
{
    g = requested(c, simplified(c, g));
    uint64_t start_ns = now(c);
    c->graph = g;
    Program *p = without(c, STAGE_FUSE) ? lower_unfused(g) : lower_fused(g);
    note(c, without(c, STAGE_FUSE) ? "lower" : "fuse and lower", start_ns, g, p);
    if (c->picker) {
        start_ns = now(c);
        schedule_kernels(c, p);
        note(c, "schedule", start_ns, g, p);
    }
    return p;
}

void compile_kernel(Compile *c, const Kernel *k, Buf *out)
{
    emit_kernel(c->env, k, c->target ? c->target : target_generic(), out);
}
