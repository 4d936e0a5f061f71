/* compile_random.c - random valid graphs through everything at once: the interpreter, the nests and compiled C,
 * with every subset of the stages switched off, give the same bits. 300 graphs in `make test`, 20,000 with
 * NC_FULL. A failure names the seed; NC_SEED=N runs that one alone. */
#include "tests/compile_util.h"
#include "tests/gen.h"

#include <stdlib.h>
#include <string.h>

#define BATCH 50 /* graphs whose kernels are compiled together */
#define N_SUBSETS (1 << N_STAGES)
#define N_SIZES 3 /* bindings of the symbols tried for each graph */

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
    Together together;
} Batch;

static void make_cases(Env *e, Batch *b)
{
    together_init(e, &b->together);
    for (int i = 0; i < b->n; i++) {
        Case *c = &b->at[i];
        Rng r;
        c->seed = b->first + (uint64_t)i;
        rng_seed(&r, c->seed);
        c->g = gen_graph(e, &r);
        for (unsigned without = 0; without < N_SUBSETS; without++) {
            c->p[without] = compiled(e, c->g, without, &c->c[without]);
            together_add(e, &b->together, c->p[without]);
        }
    }
}

static void find_functions(Env *e, Batch *b)
{
    for (int i = 0; i < b->n * N_SUBSETS; i++) {
        Case *c = &b->at[i / N_SUBSETS];
        c->fn[i % N_SUBSETS] = together_functions(e, &b->together, c->p[i % N_SUBSETS]);
    }
}

static bool run(Env *e, const Case *c, int subset, bool in_c, const Args *args, Tensor *out,
                Err *err)
{
    Args own = own_inputs(e, args);
    Exec *x = exec_new(e, c->c[subset].graph, c->p[subset], in_c ? c->fn[subset] : NULL);
    bool ok = exec_run(x, &own, &e->model, out, err);
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
        const char *what =
            arena_printf(&e->model, "NC_SEED=%llu, %s, without stages %d",
                         (unsigned long long)c->seed, way % 2 ? "C" : "nests", subset);
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
    together_compile(e, &b->together);
    find_functions(e, b);
    for (int i = 0; i < b->n; i++) {
        Rng r;
        rng_seed(&r, ~b->at[i].seed);
        for (int k = 0; k < N_SIZES; k++) {
            compare_case(e, &b->at[i], &r);
        }
    }
    together_release(&b->together);
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
