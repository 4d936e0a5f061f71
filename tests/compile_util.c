/* compile_util.c - graphs and programs of real models for tests, without weights on disk. */
#include "tests/compile_util.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const ModelSize size_05b = {896, 4864, 24, 14, 2, 151936};
const ModelSize size_tiny = {16, 32, 2, 4, 2, 64};

Graph *model_graph(Env *e, ModelSize s, bool last_only)
{
    const char *text = arena_printf(
        &e->model,
        "{\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\", "
        "\"hidden_act\": \"silu\","
        " \"hidden_size\": %d, \"intermediate_size\": %d, \"num_hidden_layers\": %d,"
        " \"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"vocab_size\": %d,"
        " \"rms_norm_eps\": 1e-06, \"rope_theta\": %s, \"tie_word_embeddings\": true}",
        s.hidden, s.inter, s.layers, s.heads, s.kv, s.vocab,
        s.hidden > 64 ? "1000000.0" : "10000.0");
    Config c = config_parse(e, text, strlen(text), "config.json");
    return qwen2_build(e, &c, -1, last_only);
}

Program *compiled(Env *e, const Graph *g, unsigned without, Compile *c)
{
    Compile own;
    c = c ? c : &own;
    *c = (Compile){.env = e, .without = without};
    return compile_model(c, g);
}

int calls_of_kind(const Program *p, const char *kind)
{
    int n = 0;
    for (int i = 0; i < p->call.n; i++) {
        n += !strcmp(p->kernel.at[p->call.at[i].kernel]->kind, kind);
    }
    return n;
}

int kernels_of_kind(const Program *p, const char *kind)
{
    int n = 0;
    for (int i = 0; i < p->kernel.n; i++) {
        n += !strcmp(p->kernel.at[i]->kind, kind);
    }
    return n;
}

const char *traffic(Env *e, const Program *p)
{
    return dim_text(e, program_bytes(e, p, NULL, NULL));
}

Sizes sizes_at(Env *e, int64_t seq, int64_t past)
{
    Sizes z = {0};
    Sym s = sym_intern(e, "seq", 3), p = sym_intern(e, "past", 4);
    z.bound[s] = z.bound[p] = true;
    z.value[s] = seq;
    z.value[p] = past;
    return z;
}

int64_t at_sizes(Env *e, Dim d, int64_t seq, int64_t past)
{
    Sizes z = sizes_at(e, seq, past);
    int64_t v;
    Err err;
    cr_assert(dim_eval(e, d, &z, &v, &err), "%s", err.text);
    return v;
}

void plan_at(Env *e, const Program *p, int64_t seq, int64_t past, Plan *plan)
{
    Sizes z = sizes_at(e, seq, past);
    plan_init(plan, p, &e->model);
    plan_update(plan, p, z.value);
}

static NamedTensor tensor_of(Env *e, const Node *n, const Sizes *z, uint64_t seed,
                             int64_t vocab)
{
    NamedTensor out = {.name = n->attr.name};
    Rng r;
    Tensor t = tensor_of_node(n, z->value);
    out.t = tensor_new(e, &e->model, t.dtype, t.rank, t.dim);
    rng_seed(&r, seed ^ hash_str(out.name).lo);
    float scale = t.rank == 2 ? 1.0f / sqrtf((float)t.dim[1]) : 0.5f;
    float offset = strstr(out.name, "norm") ? 1.0f : 0.0f;
    for (int64_t i = 0, count = tensor_count(&out.t); i < count; i++) {
        if (n->dtype == DT_I64) {
            ((int64_t *)out.t.data)[i] = (int64_t)rng_below(&r, (uint64_t)vocab);
        } else { /* uniform: a full-width model has half a billion of them */
            ((float *)out.t.data)[i] =
                offset + scale * ((float)(rng_u64(&r) >> 40) * 0x1p-23f - 1.0f);
        }
    }
    return out;
}

Args model_args(Env *e, const Graph *g, int64_t seq, int64_t past, uint64_t seed)
{
    Sizes z = sizes_at(e, seq, past);
    NamedTensor *input = arena_array(&e->model, NamedTensor, g->inputs.n);
    NamedTensor *weight = arena_array(&e->model, NamedTensor, g->weights.n);
    int64_t vocab = 1;
    for (int i = 0; i < g->weights.n; i++) {
        weight[i] = tensor_of(e, g->weights.at[i], &z, seed, 0);
        vocab = strstr(weight[i].name, "embed") ? weight[i].t.dim[0] : vocab;
    }
    for (int i = 0; i < g->inputs.n; i++) {
        input[i] = tensor_of(e, g->inputs.at[i], &z, seed, vocab);
    }
    return (Args){input, g->inputs.n, weight, g->weights.n};
}

Args own_inputs(Env *e, const Args *args)
{
    Args own = *args;
    NamedTensor *input =
        arena_dup(&e->model, args->input, (size_t)args->n_inputs * sizeof *input);
    for (int i = 0; i < args->n_inputs; i++) {
        Tensor *t = &input[i].t;
        t->data =
            arena_dup(&e->model, t->data, (size_t)(tensor_count(t) * dtype_bytes(t->dtype)));
    }
    own.input = input;
    return own;
}

Tensor *run_program(Env *e, const Graph *g, const Program *p, const Library *lib,
                    const Args *args)
{
    Tensor *out = arena_array(&e->model, Tensor, g->outputs.n);
    Err err = {0};
    Args own = own_inputs(e, args);
    Exec *x = exec_new(e, g, p, lib ? lib->fn : NULL);
    bool ok = exec_run(x, &own, &e->model, out, &err);
    exec_free(x);
    cr_assert(ok, "%s", err.text);
    return out;
}

void build_program(Env *e, const Program *p, Library *lib)
{
    library_build(e, p, 2, NULL, lib);
}

/* ---- many kernels at once ---- */

void together_init(Env *e, Together *t)
{
    *t = (Together){0};
    map_init(&t->kernels, &e->model);
    buf_init(&t->text, &e->model);
}

void together_add(Env *e, Together *t, const Program *p)
{
    for (int i = 0; i < p->kernel.n; i++) {
        Kernel *k = p->kernel.at[i];
        if (!map_get(&t->kernels, k->hash)) {
            map_put(&t->kernels, k->hash, k);
            emit_kernel(e, k, target_generic(), &t->text);
        }
    }
}

static void run_compiler(Env *e, const Toolchain *tc, const char *source, const char *library)
{
    const char *const more[] = {
        getenv("NC_FULL") ? "-O3" : "-O1", "-shared", "-o", library, source, "-lm"};
    char **argv =
        arena_array(&e->kernel, char *, tc->n_argv + tc->n_flags + (int)countof(more) + 1);
    Err err;
    Buf said;
    int status, n = 0;
    for (int i = 0; i < tc->n_argv; i++) {
        argv[n++] = tc->argv[i];
    }
    for (int i = 0; i < tc->n_flags; i++) {
        argv[n++] = (char *)tc->flags[i];
    }
    for (size_t i = 0; i < countof(more); i++) {
        argv[n++] = (char *)more[i];
    }
    buf_init(&said, &e->kernel);
    cr_assert(os_run(argv, tc->env, 600000, 65536, &said, &status, &err), "%s", err.text);
    cr_assert_eq(status, 0, "%s", said.at);
}

void together_compile(Env *e, Together *t)
{
    Toolchain tc;
    Err err;
    TempDir dir = temp_dir();
    const char *source = arena_str(&e->model, temp_path(&dir, "together.c"));
    const char *library = arena_str(&e->model, temp_path(&dir, "together.so"));
    toolchain_find(e, &tc);
    cr_assert(os_write_file(source, t->text.at, t->text.len, &err), "%s", err.text);
    run_compiler(e, &tc, source, library);
    t->lib = dlopen(library, RTLD_NOW);
    temp_remove(&dir);
    cr_assert(t->lib, "%s", dlerror());
}

KernelFn *together_functions(Env *e, const Together *t, const Program *p)
{
    KernelFn *fn = arena_array(&e->model, KernelFn, p->kernel.n);
    for (int i = 0; i < p->kernel.n; i++) {
        fn[i] = (KernelFn)dlsym(t->lib, p->kernel.at[i]->symbol);
        cr_assert(fn[i], "%s", p->kernel.at[i]->symbol);
    }
    return fn;
}

void together_release(Together *t)
{
    dlclose(t->lib);
}

void assert_same_bits(const Graph *g, const Tensor *a, const Tensor *b, const char *what)
{
    for (int i = 0; i < g->outputs.n; i++) {
        int64_t count = tensor_count(&a[i]);
        cr_assert_eq(count, tensor_count(&b[i]));
        for (int64_t k = 0; k < count; k++) {
            Value x = value_load(a[i].data, a[i].dtype, k),
                  y = value_load(b[i].data, b[i].dtype, k);
            cr_assert(value_same(x, y, a[i].dtype), "%s: output %s differs at element %lld",
                      what, g->outputs.at[i].name, (long long)k);
        }
    }
}
