/* cache_steps.c - a small model fed step by step, with the cache appended in place:
 * interpreted, by nests and by C, fused and not, compiled for any seq and for seq = 1. After
 * every step the logits have the bits of the plain graph, and each cache holds the plain
 * graph's keys and values and else what it held. */
#include "tests/compile_util.h"

#include <string.h>

enum {
    CAPACITY = 16,
    LAYERS = 2,
    HEADS = 2,
    DEPTH = 4,
    ROW = CAPACITY * DEPTH,
    SIZE = LAYERS * HEADS * ROW
};

typedef struct Memory { /* [layers, heads, capacity, depth]; what is not filled is NaN */
    float keys[SIZE], values[SIZE];
} Memory;

typedef struct Way {
    const char *name;
    bool one_token;     /* compiled for seq = 1 */
    const Graph *graph; /* what it computes */
    Compile c;
    Program *p; /* NULL: by the interpreter */
    Exec *exec;
    Memory memory;
} Way;

enum { N_PROGRAMS = 4, N_WAYS = 2 + 2 * N_PROGRAMS };

typedef struct Model {
    Env *e;
    const Graph *plain;
    Args args; /* weights */
    int64_t past;
    int64_t ids[CAPACITY + 1];
    Memory memory; /* by the plain graph */
    Together together;
    Way way[N_WAYS];
} Model;

/* ---- the plain graph's step ---- */

static Tensor history(Env *e, const float *cache, int64_t past)
{
    Tensor t =
        tensor_new(e, &e->model, DT_F32, 4, (const int64_t[]){LAYERS, HEADS, past, DEPTH});
    for (int i = 0; i < LAYERS * HEADS; i++) {
        memcpy((float *)t.data + i * past * DEPTH, cache + i * ROW,
               (size_t)(past * DEPTH) * sizeof(float));
    }
    return t;
}

static void append(float *cache, const Tensor *fresh, int64_t past)
{
    int64_t n = fresh->dim[2] * DEPTH;
    for (int i = 0; i < LAYERS * HEADS; i++) {
        memcpy(cache + i * ROW + past * DEPTH, (float *)fresh->data + i * n,
               (size_t)n * sizeof(float));
    }
}

static Tensor plain_step(Model *m, int64_t n)
{
    Env *e = m->e;
    Tensor out[3];
    Err err;
    NamedTensor input[] = {{"token_ids", {DT_I64, 1, {n}, &m->ids[m->past]}},
                           {"past_keys", history(e, m->memory.keys, m->past)},
                           {"past_values", history(e, m->memory.values, m->past)}};
    Args args = {input, countof(input), m->args.weight, m->args.n_weights};
    cr_assert(graph_interpret(m->plain, &args, NULL, &e->model, out, &err), "%s", err.text);
    append(m->memory.keys, &out[1], m->past);
    append(m->memory.values, &out[2], m->past);
    return out[0];
}

/* ---- a way's step ---- */

static bool run_way(Model *m, Way *w, int64_t n, Tensor out[3], Err *err)
{
    Tensor keys = {DT_F32, 4, {LAYERS, HEADS, CAPACITY, DEPTH}, w->memory.keys}, values = keys;
    values.data = w->memory.values;
    NamedTensor input[] = {{"token_ids", {DT_I64, 1, {n}, &m->ids[m->past]}},
                           {"cache_keys", keys},
                           {"cache_values", values},
                           {"past", {DT_BOOL, 2, {m->past, 0}, NULL}}};
    Args args = {input, countof(input), m->args.weight, m->args.n_weights};
    if (w->p) {
        return exec_bind(w->exec, &args, out, err) && exec_call(w->exec, err);
    }
    return graph_interpret(w->graph, &args, NULL, &m->e->model, out, err);
}

static void check_way(Model *m, Way *w, int64_t n, const Tensor *logits)
{
    Tensor out[3] = {{0}};
    Err err;
    cr_assert(run_way(m, w, n, out, &err), "%s: %s", w->name, err.text);
    if (w->p) {
        cr_assert_eq(out[1].data, w->memory.keys);
        cr_assert_eq(out[2].data, w->memory.values);
    } else {
        memcpy(w->memory.keys, out[1].data, sizeof w->memory.keys);
        memcpy(w->memory.values, out[2].data, sizeof w->memory.values);
    }
    int64_t count = tensor_count(logits);
    cr_assert_eq(count, tensor_count(&out[0]));
    for (int64_t i = 0; i < count; i++) {
        cr_assert(value_same(value_load(logits->data, DT_F32, i),
                             value_load(out[0].data, DT_F32, i), DT_F32),
                  "%s: logit %d differs at past %d", w->name, (int)i, (int)m->past);
    }
    cr_assert(!memcmp(&w->memory, &m->memory, sizeof m->memory),
              "%s: the cache differs at past %d", w->name, (int)m->past);
}

static void step(Model *m, int64_t n)
{
    Tensor logits = plain_step(m, n);
    for (int i = 0; i < N_WAYS; i++) {
        if (n == 1 || !m->way[i].one_token) {
            check_way(m, &m->way[i], n, &logits);
        } else {
            m->way[i].memory = m->memory;
        }
    }
    m->past += n;
}

/* ---- setting up ---- */

static Program *compile_way(Model *m, Way *w, bool unfused, bool one_token)
{
    Sym seq = sym_intern(m->e, "seq", 3);
    w->c = (Compile){.env = m->e, .without = unfused ? ALL_STAGES : 0, .cache = true};
    w->c.known.bound[seq] = one_token;
    w->c.known.value[seq] = 1;
    w->one_token = one_token;
    return compile_model(&w->c, m->plain);
}

static void make_programs(Model *m)
{
    for (int i = 0; i < N_PROGRAMS; i++) {
        Way *nests = &m->way[2 + 2 * i], *c = nests + 1;
        nests->p = compile_way(m, nests, i % 2, i / 2);
        *c = *nests;
        nests->name = arena_printf(&m->e->model, "nests of program %d", i);
        c->name = arena_printf(&m->e->model, "C of program %d", i);
        together_add(m->e, &m->together, nests->p);
    }
    together_compile(m->e, &m->together);
    for (int i = 2; i < N_WAYS; i++) {
        Way *w = &m->way[i];
        KernelFn *fn = i % 2 ? together_functions(m->e, &m->together, w->p) : NULL;
        w->exec = exec_new(m->e, w->c.graph, w->p, fn);
    }
}

static Model *new_model(Env *e, bool last_only)
{
    Model *m = arena_new(&e->model, Model);
    *m = (Model){.e = e, .plain = model_graph(e, size_tiny, last_only)};
    Rng r;
    rng_seed(&r, 5);
    for (size_t i = 0; i < countof(m->ids); i++) {
        m->ids[i] = (int64_t)rng_below(&r, (uint64_t)size_tiny.vocab);
    }
    m->args = model_args(e, m->plain, 1, 0, 5);
    m->way[0].graph = graph_cache(m->plain);
    m->way[0].name = "interpreter";
    m->way[1].graph = graph_specialise(m->way[0].graph, sym_intern(e, "seq", 3), 1);
    m->way[1].name = "interpreter of seq = 1";
    m->way[1].one_token = true;
    together_init(e, &m->together);
    make_programs(m);
    memset(&m->memory, 0xff, sizeof m->memory); /* NaNs: whoever reads them shows it */
    for (int i = 0; i < N_WAYS; i++) {
        m->way[i].memory = m->memory;
    }
    return m;
}

static void free_model(Model *m)
{
    for (int i = 2; i < N_WAYS; i++) {
        exec_free(m->way[i].exec);
    }
    together_release(&m->together);
}

/* ---- the steps ---- */

static void is_full(Model *m, Way *w)
{
    Tensor out[3] = {{0}};
    Err err;
    cr_assert_not(run_way(m, w, 1, out, &err), "%s", w->name);
    const char *words =
        w->one_token ? "update: room for the value, capacity - past - 1, is -1 with capacity = "
                       "16, past = 16, "
                       "and must not be negative (node %"
                     : "update: room for the value, capacity - past - seq, is -1 with seq = 1, "
                       "capacity = 16, past = 16, and must not be negative (node %";
    cr_expect_eq(err.code, E_RANGE);
    cr_expect(!strncmp(err.text, words, strlen(words)), "%s: %s", w->name, err.text);
    cr_expect(!memcmp(&w->memory, &m->memory, sizeof m->memory), "%s", w->name);
}

static void feed(Env *e, void *arg)
{
    static const int tokens[] = {5, 1, 1, 3, 1, 1, 2, 1, 1};
    Model *m = new_model(e, *(const bool *)arg);
    for (size_t i = 0; i < countof(tokens); i++) {
        step(m, tokens[i]);
    }
    cr_assert_eq(m->past, CAPACITY);
    for (int i = 0; i < N_WAYS; i++) {
        is_full(m, &m->way[i]);
    }
    free_model(m);
}

static void feed_model(bool last_only)
{
    Env e;
    env_init(&e);
    must_work(&e, feed, &last_only);
    env_release(&e);
}

Test(cache_steps, of_the_tiny_model_until_the_cache_is_full)
{
    feed_model(true);
}

Test(cache_steps, with_logits_of_every_row)
{
    feed_model(false);
}

/* The first step of all is a single token: nothing is cached yet. */
static void from_nothing(Env *e, void *arg)
{
    (void)arg;
    Model *m = new_model(e, true);
    step(m, 1);
    step(m, 1);
    step(m, CAPACITY - 2);
    free_model(m);
}

Test(cache_steps, from_an_empty_cache_by_one_token)
{
    Env e;
    env_init(&e);
    must_work(&e, from_nothing, NULL);
    env_release(&e);
}
