/* engine.c - a model that can be stepped: its graph, compiled or interpreted, its weights, and
 * the keys and values of what it was fed. Up to three graphs, each compiled when it is first
 * needed: logits of the last row (prompts), of all rows (scoring), and of a single token
 * (generation), where everything that depends on their number is a constant.
 *
 * A step that fails leaves the history as it was. */
#include <stdlib.h>
#include <string.h>

#include "run/run_int.h"

typedef enum VariantId { LAST_ROW, ALL_ROWS, ONE_TOKEN, N_VARIANTS } VariantId;

typedef struct Variant { /* one graph, ready to run */
    Graph *graph;
    Compile c;
    Program *program;
    Library lib;
    Exec *exec;
    bool ready;
} Variant;

struct Engine {
    Env *e;
    Config config;
    Weights *weights;
    EngineOptions o;
    Variant variant[N_VARIANTS];
    History history;
    int64_t *ids;
    int64_t ids_capacity;
    float *logits; /* the interpreter's, kept until the next step */
    Stepper stepper;
};

/* ---- preparing ----------------------------------------------------------------------- */

static void variant_release(Variant *v)
{
    exec_free(v->exec);
    library_release(&v->lib);
    *v = (Variant){0};
}

static VariantId variant_for(const Engine *g, int n, bool all)
{
    bool one = n == 1 && !all && g->o.way != BY_INTERP && !g->o.any_length;
    return all ? ALL_ROWS : one ? ONE_TOKEN : LAST_ROW;
}

typedef struct Prepare {
    Engine *g;
    VariantId id;
} Prepare;

static void compile_variant(Env *e, const Engine *g, VariantId id, Variant *v)
{
    v->c = (Compile){.env = e,
                     .without = g->o.without,
                     .cache = g->history.in_place,
                     .picker = g->o.way == BY_C ? g->o.picker : NULL,
                     .hint = g->o.hint,
                     .target = g->o.target};
    if (id == ONE_TOKEN) {
        compile_one_token(&v->c);
        /* panels are each variant's own, for a single row not worth it */
        v->c.hint.in_place = true;
    }
    v->program = compile_model(&v->c, v->graph);
}

static void widen_all(Env *e, Weights *w)
{
    Err err;
    for (int i = 0; i < w->n; i++) {
        if (!weights_widen(w, i, &err)) {
            fail_err(e, &err);
        }
    }
}

static void prepare(Env *e, void *arg)
{
    const Prepare *p = arg;
    Engine *g = p->g;
    Variant *v = &g->variant[p->id];
    v->graph = qwen2_build(e, &g->config, -1, p->id != ALL_ROWS);
    weights_mark(g->weights, v->graph);
    if (g->o.way == BY_INTERP) {
        widen_all(e, g->weights);
    } else {
        compile_variant(e, g, p->id, v);
    }
    if (g->o.way == BY_C) {
        library_build(e, v->program, g->o.n_threads, g->o.stop, &v->lib);
    }
    if (g->o.way != BY_INTERP) {
        v->exec = g->o.way == BY_C ? exec_with(e, v->c.graph, v->program, &v->lib)
                                   : exec_new(e, v->c.graph, v->program, NULL);
        exec_watch(v->exec, g->o.stop);
        exec_use_pool(v->exec, g->o.pool);
        exec_use_weights(v->exec, g->weights);
    }
    v->ready = true;
}

static bool prepare_variant(Engine *g, VariantId id, Err *err)
{
    Prepare p = {g, id};
    if (g->variant[id].ready || env_try(g->e, prepare, &p)) {
        return true;
    }
    variant_release(&g->variant[id]);
    return err_set(err, g->e->err.code, "%s", g->e->err.text);
}

bool engine_prepare(Engine *g, bool all, Err *err)
{
    return prepare_variant(g, variant_for(g, 2, all), err) &&
           prepare_variant(g, variant_for(g, 1, all), err);
}

/* ---- a step -------------------------------------------------------------------------- */

static bool check_step(const Engine *g, const int32_t *ids, int n, Err *err)
{
    const Stepper *s = &g->stepper;
    if (n < 1) {
        return err_set(err, E_INPUT, "There are no tokens to feed.");
    }
    if (s->max_positions && n > s->max_positions - s->n_fed) {
        return err_set(err, E_INPUT,
                       "The model has %lld positions, too few for %d tokens behind %lld.",
                       (long long)s->max_positions, n, (long long)s->n_fed);
    }
    for (int i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= g->config.vocab_size) {
            return err_set(err, E_INPUT, "Token %d is outside the model's vocabulary, 0..%lld.",
                           ids[i], (long long)g->config.vocab_size - 1);
        }
    }
    return !g->o.stop || !*g->o.stop || err_set(err, E_INTERRUPT, "Stopped.");
}

static bool take_ids(Engine *g, const int32_t *ids, int n, Err *err)
{
    if (n > g->ids_capacity) {
        int64_t *more = os.realloc(g->ids, (size_t)n * sizeof *more);
        if (!more) {
            return err_set(err, E_NOMEM, "There is no memory for %d tokens.", n);
        }
        g->ids = more;
        g->ids_capacity = n;
    }
    for (int i = 0; i < n; i++) {
        g->ids[i] = ids[i];
    }
    return true;
}

/* Everything that can be refused or refused memory, before anything runs. */
static bool begin_step(Engine *g, const int32_t *ids, int n, bool all, Err *err)
{
    int64_t positions = g->stepper.n_fed + n;
    return check_step(g, ids, n, err) && prepare_variant(g, variant_for(g, n, all), err) &&
           take_ids(g, ids, n, err) &&
           history_reserve(&g->history, g->stepper.n_fed, positions, err);
}

static bool run_variant(Engine *g, const Variant *v, const Args *args, Arena *a, Tensor out[3],
                        Err *err)
{
    if (g->o.way != BY_INTERP) {
        return exec_bind(v->exec, args, out, err) && exec_call(v->exec, err);
    }
    if (!graph_interpret(v->graph, args, g->o.gemm, a, out, err)) {
        return false;
    }
    size_t bytes = (size_t)tensor_count(&out[0]) * sizeof(float);
    float *kept = os.realloc(g->logits, bytes);
    if (!kept) {
        return err_set(err, E_NOMEM, "There is no memory for the logits.");
    }
    g->logits = kept;
    out[0].data = memcpy(kept, out[0].data, bytes);
    return true;
}

static bool feed(Stepper *s, const int32_t *ids, int n, bool all, const float **logits,
                 Err *err)
{
    Engine *g = s->ctx;
    Arena scratch;
    Tensor out[3] = {{0}};
    if (!begin_step(g, ids, n, all, err)) {
        return false;
    }
    NamedTensor input[4] = {{"token_ids", {DT_I64, 1, {n}, g->ids}}};
    int n_inputs = 1 + history_inputs(&g->history, s->n_fed, input + 1);
    Args args = {input, n_inputs, g->weights->tensor, g->weights->n};
    arena_init(&scratch, g->e);
    bool ok = run_variant(g, &g->variant[variant_for(g, n, all)], &args, &scratch, out, err);
    if (ok) {
        history_append(&g->history, s->n_fed, out + 1);
        s->n_fed += n;
        *logits = out[0].data;
    }
    arena_release(&scratch);
    return ok;
}

static void restart(Stepper *s)
{
    s->n_fed = 0;
}

/* ---- lifetime ------------------------------------------------------------------------ */

Engine *engine_new(Env *e, const Config *c, Weights *w, const EngineOptions *o)
{
    Engine *g = arena_new(&e->model, Engine);
    *g = (Engine){.e = e, .config = *c, .weights = w, .o = *o};
    g->history = (History){.in_place = o->way != BY_INTERP && !o->join_history,
                           .n_layers = c->n_layers,
                           .n_heads = c->n_kv_heads,
                           .depth = c->head_dim};
    g->stepper = (Stepper){g, c->vocab_size, c->max_positions, 0, feed, restart};
    return g;
}

Stepper *engine_stepper(Engine *g)
{
    return &g->stepper;
}

void engine_free(Engine *g)
{
    if (!g) {
        return;
    }
    for (int i = 0; i < N_VARIANTS; i++) {
        variant_release(&g->variant[i]);
    }
    history_free(&g->history);
    free(g->ids);
    free(g->logits);
}
