/* ncg.c (fuzz) - any bytes are either refused with a place, or read as a graph that prints,
 * reads back as itself, and where it is small runs without fault. Seeds: tests/regress. */
#include "tests/gen.h"

#include <stdlib.h>
#include <string.h>

typedef struct Text {
    const char *at;
    size_t len;
    Graph *g;
} Text;

static void parse(Env *e, void *arg)
{
    Text *t = arg;
    t->g = ncg_parse(e, t->at, t->len, "fuzz.ncg");
}

static void require(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static Graph *round_trip(const Graph *g, Env *other)
{
    Buf b;
    buf_init(&b, &g->env->kernel);
    ncg_print(g, &b);
    Text t = {.at = b.at, .len = b.len};
    require(env_try(other, parse, &t), other->err.text);
    require(graph_eq(g, t.g), "the printed graph is another one");
    return t.g;
}

/* Few enough elements to evaluate in no time. */
static bool small(const Graph *g, const Sizes *z)
{
    double work = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        double count = 1;
        for (int k = 0; k < g->nodes.at[i]->shape.rank; k++) {
            int64_t size;
            if (!dim_eval(g->env, g->nodes.at[i]->shape.dim[k], z, &size, NULL) || size < 0) {
                return false;
            }
            count *= (double)size;
        }
        work += count;
    }
    return work < 20000;
}

static void run(Graph *g)
{
    Rng r;
    rng_seed(&r, (uint64_t)g->nodes.n);
    Sizes z;
    gen_sizes(&r, g, &z);
    Err err;
    if (!graph_check_sizes(g, &z, &err) || !small(g, &z)) {
        return;
    }
    Arena *a = &g->env->kernel;
    Args args = gen_args(a, &r, g, &z, true);
    Tensor *out = arena_array(a, Tensor, g->outputs.n);
    if (!graph_interpret(g, &args, NULL, a, out, &err)) {
        require(err.code == E_RANGE, err.text); /* an id of a gather */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Env e, other;
    env_init(&e);
    env_init(&other);
    Text t = {.at = (const char *)data, .len = size};
    if (env_try(&e, parse, &t)) {
        run(round_trip(t.g, &other));
    } else {
        require(strncmp(e.err.text, "fuzz.ncg:", 9) == 0, e.err.text);
    }
    env_release(&other);
    env_release(&e);
    return 0;
}
