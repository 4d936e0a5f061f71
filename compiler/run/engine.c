/* engine.c - a model that can be stepped: its graph, compiled or interpreted, its weights,
 * and the cache of keys and values that a step reads and extends. Two graphs: logits of the
 * last row (generation) and of all rows (scoring), each compiled when it is first needed.
 *
 * The cache is two buffers of [layers, kv heads, past, head dim] each for keys and values: a
 * step writes old and new together into the other one, because the graph's input has no
 * gaps. A step that fails leaves the cache as it was. */
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

typedef struct Side { /* keys or values */
    float *now, *next;
    int64_t capacity; /* positions in each */
} Side;

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
    const Weights *weights;
    EngineOptions o;
    Variant variant[2]; /* last row, all rows */
    Side keys, values;
    int64_t *ids;
    int64_t ids_capacity;
    float *logits; /* the interpreter's, kept until the next step */
    Stepper stepper;
};

static int64_t blocks(const Engine *g) /* rows of the cache that grow */
{
    return g->config.n_layers * g->config.n_kv_heads;
}

/* ---- preparing ----------------------------------------------------------------------- */

static void variant_release(Variant *v)
{
    exec_free(v->exec);
    library_release(&v->lib);
    *v = (Variant){0};
}

typedef struct Prepare {
    Engine *g;
    bool all;
} Prepare;

static void prepare(Env *e, void *arg)
{
    const Prepare *p = arg;
    Engine *g = p->g;
    Variant *v = &g->variant[p->all];
    v->graph = qwen2_build(e, &g->config, -1, !p->all);
    if (g->o.way != BY_INTERP) {
        bool scheduled = g->o.way == BY_C;
        v->c = (Compile){.env = e,
                         .without = g->o.without,
                         .picker = scheduled ? g->o.picker : NULL,
                         .hint = g->o.hint,
                         .target = g->o.target};
        v->program = compile_model(&v->c, v->graph);
    }
    if (g->o.way == BY_C) {
        library_build(e, v->program, g->o.n_threads, g->o.stop, &v->lib);
    }
    if (g->o.way != BY_INTERP) {
        v->exec = g->o.way == BY_C ? exec_with(e, v->c.graph, v->program, &v->lib)
                                   : exec_new(e, v->c.graph, v->program, NULL);
        exec_watch(v->exec, g->o.stop);
        exec_use_pool(v->exec, g->o.pool);
    }
    v->ready = true;
}

bool engine_prepare(Engine *g, bool all, Err *err)
{
    Prepare p = {g, all};
    if (g->variant[all].ready || env_try(g->e, prepare, &p)) {
        return true;
    }
    variant_release(&g->variant[all]);
    return err_set(err, g->e->err.code, "%s", g->e->err.text);
}

/* ---- the cache ----------------------------------------------------------------------- */

static bool side_reserve(const Engine *g, Side *s, int64_t positions, Err *err)
{
    if (positions <= s->capacity) {
        return true;
    }
    int64_t capacity = positions > 2 * s->capacity ? positions : 2 * s->capacity;
    size_t row_bytes = (size_t)(blocks(g) * g->config.head_dim) * sizeof(float);
    size_t bytes = row_bytes * (size_t)capacity;
    float *now = os.alloc(bytes), *next = os.alloc(bytes);
    if (!now || !next) {
        free(now);
        free(next);
        return err_set(err, E_NOMEM, "There is no memory for a cache of %lld positions.",
                       (long long)positions);
    }
    if (s->now) {
        memcpy(now, s->now, row_bytes * (size_t)g->stepper.n_fed);
    }
    free(s->now);
    free(s->next);
    *s = (Side){now, next, capacity};
    return true;
}

static void side_append(const Engine *g, Side *s, const float *fresh, int n)
{
    size_t old = (size_t)(g->stepper.n_fed * g->config.head_dim);
    size_t more = (size_t)(n * g->config.head_dim);
    for (int64_t b = 0; b < blocks(g); b++) {
        float *to = s->next + (size_t)b * (old + more);
        memcpy(to, s->now + (size_t)b * old, old * sizeof(float));
        memcpy(to + old, fresh + (size_t)b * more, more * sizeof(float));
    }
    float *swap = s->now;
    s->now = s->next;
    s->next = swap;
}

static void side_free(Side *s)
{
    free(s->now);
    free(s->next);
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
    return check_step(g, ids, n, err) && engine_prepare(g, all, err) &&
           take_ids(g, ids, n, err) && side_reserve(g, &g->keys, positions, err) &&
           side_reserve(g, &g->values, positions, err);
}

static Tensor past_tensor(const Engine *g, const Side *s)
{
    const Config *c = &g->config;
    int64_t past = g->stepper.n_fed;
    return (Tensor){DT_F32, 4, {c->n_layers, c->n_kv_heads, past, c->head_dim}, s->now};
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
    NamedTensor input[] = {{"token_ids", {DT_I64, 1, {n}, g->ids}},
                           {"past_keys", past_tensor(g, &g->keys)},
                           {"past_values", past_tensor(g, &g->values)}};
    Args args = {input, countof(input), g->weights->tensor, g->weights->n};
    arena_init(&scratch, g->e);
    bool ok = run_variant(g, &g->variant[all], &args, &scratch, out, err);
    if (ok) {
        side_append(g, &g->keys, out[1].data, n);
        side_append(g, &g->values, out[2].data, n);
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

Engine *engine_new(Env *e, const Config *c, const Weights *w, const EngineOptions *o)
{
    Engine *g = arena_new(&e->model, Engine);
    *g = (Engine){.e = e, .config = *c, .weights = w, .o = *o};
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
    for (int i = 0; i < 2; i++) {
        variant_release(&g->variant[i]);
    }
    side_free(&g->keys);
    side_free(&g->values);
    free(g->ids);
    free(g->logits);
}
