/* interp.c - the graph interpreter: the definition of what a graph means.
 *
 * Evaluates nodes in order, checks every result against inference, and frees values after
 * their last use. Never optimised beyond that, never deleted: everything else in the project
 * is measured against it. All its memory is one scratch arena and one Pool, released on every
 * path. spec: graph-ir 4 and 7 */
#include "graph/eval_int.h"

typedef struct Interp {
    const Graph *g;
    const Args *args;
    Gemm gemm;
    Arena *results; /* the caller's: outputs go here */
    Tensor *out;
    Arena scratch; /* the arrays below */
    Pool pool;
    Sizes z;
    const Tensor **given; /* by node id: the argument of an input or weight */
    View *value;          /* by node id */
    int *n_uses;          /* by node id: uses still to come */
} Interp;

/* Inference is a promise about every size; a result that breaks it is a bug in eval.c. */
static void check_result(const Call *c, const View *v)
{
    bool same = v->dtype == c->n->dtype && v->rank == c->n->shape.rank;
    for (int i = 0; same && i < v->rank; i++) {
        int64_t size;
        same = dim_eval(c->env, c->n->shape.dim[i], c->z, &size, NULL) && size == v->dim[i];
    }
    if (!same) {
        bug("%s (node %%%d): the result is not the inferred %s%s", op_info[c->n->op].name,
            c->n->id, dtype_name(c->n->dtype), shape_text(c->env, &c->n->shape));
    }
}

/* ---- a whole graph ------------------------------------------------------ */

static void bind(Interp *it)
{
    const Graph *g = it->g;
    Arena *a = &it->scratch;
    const Tensor **input = arena_array(a, const Tensor *, g->inputs.n);
    const Tensor **weight = arena_array(a, const Tensor *, g->weights.n);
    Err err;
    if (!graph_bind(g, it->args, &it->z, input, weight, &err)) {
        fail_err(g->env, &err);
    }
    it->given = arena_array(a, const Tensor *, g->nodes.n);
    for (int i = 0; i < g->inputs.n; i++) {
        it->given[g->inputs.at[i]->id] = input[i];
    }
    for (int i = 0; i < g->weights.n; i++) {
        if (!weight[i]->data && tensor_count(weight[i]) > 0) {
            fail(g->env, E_INPUT, "The weight \"%.64s\" has no data.",
                 g->weights.at[i]->attr.name);
        }
        it->given[g->weights.at[i]->id] = weight[i];
    }
}

static void count_uses(Interp *it)
{
    const Graph *g = it->g;
    it->n_uses = arena_array(&it->scratch, int, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) {
        for (int j = 0; j < g->nodes.at[i]->n_in; j++) {
            it->n_uses[g->nodes.at[i]->in[j]->id]++;
        }
    }
    for (int i = 0; i < g->outputs.n; i++) {
        it->n_uses[g->outputs.at[i].node->id]++;
    }
}

static void used(Interp *it, const Node *n)
{
    if (--it->n_uses[n->id] == 0) {
        view_drop(&it->pool, &it->value[n->id]);
    }
}

static void run_node(Interp *it, const Node *n, const View **in)
{
    for (int j = 0; j < n->n_in; j++) {
        in[j] = &it->value[n->in[j]->id];
    }
    Call c = {.n = n,
              .z = &it->z,
              .given = it->given[n->id],
              .in = in,
              .gemm = it->gemm,
              .pool = &it->pool,
              .env = it->g->env};
    View v = eval_node(&c);
    check_result(&c, &v);
    it->value[n->id] = v;
    for (int j = 0; j < n->n_in; j++) {
        used(it, n->in[j]);
    }
}

static void return_output(Interp *it, int i)
{
    const Node *n = it->g->outputs.at[i].node;
    const View *v = &it->value[n->id];
    it->out[i] = tensor_new(it->g->env, it->results, v->dtype, v->rank, v->dim);
    View to = view_of(v->dtype, v->rank, v->dim, it->out[i].data);
    view_fill(&to, v);
    used(it, n);
}

static int widest(const Graph *g)
{
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        n = g->nodes.at[i]->n_in > n ? g->nodes.at[i]->n_in : n;
    }
    return n;
}

static void run(Env *e, void *arg)
{
    (void)e;
    Interp *it = arg;
    const Graph *g = it->g;
    bind(it);
    count_uses(it);
    it->value = arena_array(&it->scratch, View, g->nodes.n);
    const View **in = arena_array(&it->scratch, const View *, widest(g));
    for (int i = 0; i < g->nodes.n; i++) {
        run_node(it, g->nodes.at[i], in);
    }
    for (int i = 0; i < g->outputs.n; i++) {
        return_output(it, i);
    }
}

bool graph_interpret(const Graph *g, const Args *args, Gemm gemm, Arena *a, Tensor *out,
                     Err *err)
{
    Interp it = {
        .g = g, .args = args, .gemm = gemm, .results = a, .out = out, .pool = {.env = g->env}};
    arena_init(&it.scratch, g->env);
    bool ok = env_try(g->env, run, &it);
    if (!ok && err) {
        *err = g->env->err;
    }
    pool_release(&it.pool);
    arena_release(&it.scratch);
    return ok;
}

/* ---- one node ----------------------------------------------------------- */

typedef struct Single {
    Call call;
    const Tensor *const *in;
    Tensor *out;
    Arena scratch;
    Pool pool;
} Single;

static void run_single(Env *e, void *arg)
{
    (void)e;
    Single *s = arg;
    int n_in = s->call.n->n_in;
    View *value = arena_array(&s->scratch, View, n_in);
    const View **in = arena_array(&s->scratch, const View *, n_in);
    for (int j = 0; j < n_in; j++) {
        value[j] = view_of(s->in[j]->dtype, s->in[j]->rank, s->in[j]->dim, s->in[j]->data);
        in[j] = &value[j];
    }
    s->call.in = in;
    View v = eval_node(&s->call);
    check_result(&s->call, &v);
    View to = view_of(s->out->dtype, s->out->rank, s->out->dim, s->out->data);
    view_fill(&to, &v);
}

bool node_eval(const Graph *g, const Node *n, const Sizes *z, const Tensor *const *in,
               Gemm gemm, Tensor *out, Err *err)
{
    Single s = {.in = in, .out = out, .pool = {.env = g->env}};
    s.call = (Call){.n = n, .z = z, .gemm = gemm, .pool = &s.pool, .env = g->env};
    arena_init(&s.scratch, g->env);
    bool ok = env_try(g->env, run_single, &s);
    if (!ok && err) {
        *err = g->env->err;
    }
    pool_release(&s.pool);
    arena_release(&s.scratch);
    return ok;
}
