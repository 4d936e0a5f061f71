/* compile_random.c - random valid graphs through everything at once: the interpreter, the nests and compiled C,
 * with every subset of the stages switched off, give the same bits. 300 graphs in `make test`, 20,000 with
 * NC_FULL. A failure names the seed; NC_SEED=N runs that one alone. */
#include "tests/compile_util.h"
#include "tests/gen.h"

#include <stdlib.h>
#include <string.h>

#define BATCH 50       /* graphs whose kernels are compiled together */
#define N_SUBSETS (1 << N_STAGES)
#define N_SIZES 3      /* bindings of the symbols tried for each graph */

typedef struct Case {
    uint64_t seed;
    Graph *g;
    Compile c[N_SUBSETS];
    Program *p[N_SUBSETS];
    KernelFn *fn[N_SUBSETS];
} Case;

typedef struct Batch {
    uint64_t first;
    int n;
    Case at[BATCH];
    Map kernels;      /* hash -> Kernel, of all programs */
    Buf text;         /* their C */
    void *lib;
    TempDir dir;
} Batch;

static void add_program(Env *e, Batch *b, const Program *p)
{
    for (int i = 0; i < p->kernel.n; i++) {
        Kernel *k = p->kernel.at[i];
        if (!map_get(&b->kernels, k->hash)) {
            map_put(&b->kernels, k->hash, k);
            emit_kernel(e, k, &b->text);
        }
    }
}

static void make_cases(Env *e, Batch *b)
{
    map_init(&b->kernels, &e->model);
    buf_init(&b->text, &e->model);
    for (int i = 0; i < b->n; i++) {
        Case *c = &b->at[i];
        Rng r;
        c->seed = b->first + (uint64_t)i;
        rng_seed(&r, c->seed);
        c->g = gen_graph(e, &r);
        for (unsigned without = 0; without < N_SUBSETS; without++) {
            c->p[without] = compiled(e, c->g, without, &c->c[without]);
            add_program(e, b, c->p[without]);
        }
    }
}

/* One compiler run for the whole batch; -O1 unless the campaign is the long one. */
static void compile_batch(Env *e, Batch *b)
{
    Toolchain tc;
    Err err;
    Buf out;
    int status, n = 0;
    toolchain_find(e, &tc);
    b->dir = temp_dir();
    const char *c = arena_str(&e->model, temp_path(&b->dir, "batch.c"));
    const char *so = arena_str(&e->model, temp_path(&b->dir, "batch.so"));
    cr_assert(os_write_file(c, b->text.at, b->text.len, &err), "%s", err.text);
    char **argv = arena_array(&e->model, char *, tc.n_argv + tc.n_flags + 8);
    for (int i = 0; i < tc.n_argv; i++) {
        argv[n++] = tc.argv[i];
    }
    for (int i = 0; i < tc.n_flags; i++) {
        argv[n++] = (char *)tc.flags[i];
    }
    argv[n++] = getenv("NC_FULL") ? "-O3" : "-O1";
    argv[n++] = "-shared";
    argv[n++] = "-o";
    argv[n++] = (char *)so;
    argv[n++] = (char *)c;
    argv[n++] = "-lm";
    buf_init(&out, &e->model);
    cr_assert(os_run(argv, tc.env, 600000, 65536, &out, &status, &err), "%s", err.text);
    cr_assert_eq(status, 0, "%s", out.at);
    b->lib = os.dlopen(so, 2 /* RTLD_NOW */);
    cr_assert(b->lib);
    temp_remove(&b->dir);
}

static void find_functions(Env *e, Batch *b)
{
    for (int i = 0; i < b->n * N_SUBSETS; i++) {
        Case *c = &b->at[i / N_SUBSETS];
        const Program *p = c->p[i % N_SUBSETS];
        KernelFn *fn = arena_array(&e->model, KernelFn, p->kernel.n);
        for (int k = 0; k < p->kernel.n; k++) {
            *(void **)&fn[k] = os.dlsym(b->lib, p->kernel.at[k]->symbol);
            cr_assert(fn[k], "%s", p->kernel.at[k]->symbol);
        }
        c->fn[i % N_SUBSETS] = fn;
    }
}

static bool run(Env *e, const Case *c, int subset, bool in_c, const Args *args, Tensor *out, Err *err)
{
    Exec *x = exec_new(e, c->c[subset].graph, c->p[subset], in_c ? c->fn[subset] : NULL);
    bool ok = exec_run(x, args, &e->model, out, err);
    exec_free(x);
    return ok;
}

static void compare_case(Env *e, const Case *c, Rng *r)
{
    Sizes z;
    Err want = {0}, got = {0};
    Tensor *expect = arena_array(&e->model, Tensor, c->g->outputs.n);
    Tensor *out = arena_array(&e->model, Tensor, c->g->outputs.n);
    gen_sizes(r, c->g, &z);
    Args args = gen_args(&e->model, r, c->g, &z, rng_below(r, 2));
    bool ok = graph_interpret(c->g, &args, NULL, &e->model, expect, &want);
    for (int way = 0; way < 2 * N_SUBSETS; way++) {
        int subset = way / 2;
        const char *what = arena_printf(&e->model, "NC_SEED=%llu, %s, without stages %d", (unsigned long long)c->seed,
                                        way % 2 ? "C" : "nests", subset);
        bool same = run(e, c, subset, way % 2, &args, out, &got) == ok;
        cr_assert(same, "%s: %s", what, ok ? got.text : want.text);
        if (ok) {
            assert_same_bits(c->g, expect, out, what);
        }
    }
}

static void run_batch(Env *e, void *arg)
{
    Batch *b = arg;
    make_cases(e, b);
    compile_batch(e, b);
    find_functions(e, b);
    for (int i = 0; i < b->n; i++) {
        Rng r;
        rng_seed(&r, ~b->at[i].seed);
        for (int k = 0; k < N_SIZES; k++) {
            compare_case(e, &b->at[i], &r);
        }
    }
    os.dlclose(b->lib);
}

static void campaign(uint64_t part, uint64_t parts)
{
    uint64_t n = (getenv("NC_FULL") ? 20000 : 300) / parts;
    const char *one = getenv("NC_SEED");
    for (uint64_t at = part * n; at < (part + 1) * n; at += BATCH) {
        Env e;
        Batch *b = calloc(1, sizeof *b);
        b->first = one ? strtoull(one, NULL, 0) : at;
        b->n = one ? 1 : BATCH;
        env_init(&e);
        must_work(&e, run_batch, b);
        env_release(&e);
        free(b);
        if (one) {
            return;
        }
    }
}

Test(random_graphs, agree_in_all_three_implementations_first_half)
{
    campaign(0, 2);
}

Test(random_graphs, agree_in_all_three_implementations_second_half)
{
    campaign(1, 2);
}
