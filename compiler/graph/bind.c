/* bind.c - arguments and sizes: does this call fit this graph?
 *
 * The interpreter and the compiled runtime share these checks verbatim, so both accept and
 * refuse the same calls. In order: names of inputs; symbols bound from the inputs' plain dims;
 * dtypes and full shapes; weights; every SizeCheck; the size of every node. Nothing has run yet
 * when one of them fails. spec: graph-ir 7
 *
 * Arguments usually come in the graph's own order, so names are looked up from where the last
 * one was found: a step over some 300 weights costs some 300 string comparisons. */
#include "graph/graph.h"

#include <string.h>

/* No value of a graph may be larger: what is beyond is a mistake, and every offset within
 * a value fits an int64_t with room to spare. */
#define MAX_ELEMENTS ((int64_t)1 << 40)
#define MAX_LISTED 5 /* names in one message */

int64_t tensor_count(const Tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) {
        n *= t->dim[i];
    }
    return n;
}

Tensor tensor_of_node(const Node *n, const int64_t value[MAX_SYMBOLS])
{
    Tensor t = {.dtype = n->dtype, .rank = n->shape.rank};
    for (int i = 0; i < t.rank; i++) {
        t.dim[i] = dim_value(n->shape.dim[i], value);
    }
    return t;
}

Tensor tensor_new(Env *e, Arena *a, Dtype t, int rank, const int64_t *dim)
{
    check(rank >= 0 && rank <= MAX_RANK);
    Tensor new = {.dtype = t, .rank = rank};
    double n = 1;
    for (int i = 0; i < rank; i++) {
        if (dim[i] < 0) {
            fail(e, E_INPUT, "A tensor cannot have the size %lld on axis %d.",
                 (long long)dim[i], i);
        }
        new.dim[i] = dim[i];
        n *= dim[i] > 0 ? (double)dim[i] : 1;
    }
    if (n > (double)MAX_ELEMENTS) {
        fail(e, E_INPUT, "A tensor of %.0f elements is refused: the limit is 2^40.", n);
    }
    new.data = arena_alloc_n(a, (size_t)tensor_count(&new), (size_t)dtype_bytes(t));
    return new;
}

/* ---- one call ----------------------------------------------------------- */

typedef struct Bind {
    const Graph *g;
    const Args *args;
    Sizes *z;
    const Tensor **input, **weight; /* found so far; NULL: missing */
} Bind;

static const Tensor *find(const NamedTensor *list, int n, const char *name, int *cursor)
{
    for (int tried = 0; tried < n; tried++) {
        int i = *cursor < n ? *cursor : 0;
        *cursor = i + 1;
        if (strcmp(list[i].name, name) == 0) {
            return &list[i].t;
        }
    }
    return NULL;
}

static bool declared(const Graph *g, const char *name, int *cursor)
{
    for (int tried = 0; tried < g->inputs.n; tried++) {
        int i = *cursor < g->inputs.n ? *cursor : 0;
        *cursor = i + 1;
        if (strcmp(g->inputs.at[i]->attr.name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds one name to a list that shows the first few and counts the others. */
static void list_name(Buf *b, const char *name, int n_before)
{
    if (n_before < MAX_LISTED) {
        buf_printf(b, "%s\"%.64s\"", n_before > 0 ? ", " : "", name);
    }
}

static void list_end(Buf *b, int n)
{
    if (n > MAX_LISTED) {
        buf_printf(b, " and %d more", n - MAX_LISTED);
    }
}

static void list_inputs(const Graph *g, Buf *b)
{
    for (int i = 0; i < g->inputs.n; i++) {
        list_name(b, g->inputs.at[i]->attr.name, i);
    }
    list_end(b, g->inputs.n);
}

/* Names that the graph has and the call lacks, and the other way round, in one message. */
_Noreturn static void refuse_names(const Bind *b, int n_missing)
{
    Env *e = b->g->env;
    Buf text;
    buf_init(&text, &e->kernel);
    int n = 0;
    for (int i = 0; i < b->g->inputs.n; i++) {
        if (!b->input[i]) {
            buf_str(&text, n == 0 ? "missing input " : "");
            list_name(&text, b->g->inputs.at[i]->attr.name, n++);
        }
    }
    list_end(&text, n);
    int n_unknown = 0;
    for (int i = 0, cursor = 0; i < b->args->n_inputs; i++) {
        if (!declared(b->g, b->args->input[i].name, &cursor)) {
            buf_str(&text, n_unknown > 0   ? ""
                           : n_missing > 0 ? "; unknown input "
                                           : "unknown input ");
            list_name(&text, b->args->input[i].name, n_unknown++);
        }
    }
    list_end(&text, n_unknown);
    if (n_missing + n_unknown == 0) {
        buf_str(&text, "an input is given twice");
    }
    buf_str(&text, "; the graph takes ");
    list_inputs(b->g, &text);
    fail(e, E_INPUT, "The arguments do not fit graph \"%.64s\": %s.", b->g->name, text.at);
}

static void match_inputs(Bind *b)
{
    int n_missing = 0;
    for (int i = 0, cursor = 0; i < b->g->inputs.n; i++) {
        const char *name = b->g->inputs.at[i]->attr.name;
        b->input[i] = find(b->args->input, b->args->n_inputs, name, &cursor);
        n_missing += !b->input[i];
    }
    if (n_missing > 0 || b->args->n_inputs != b->g->inputs.n) {
        refuse_names(b, n_missing);
    }
}

static void bind_axis(Bind *b, const Node *n, int axis, int64_t size)
{
    Env *e = b->g->env;
    const char *name = n->attr.name;
    if (size < 0) {
        fail(e, E_INPUT, "Input \"%.64s\": axis %d has the negative size %lld.", name, axis,
             (long long)size);
    }
    Sym s;
    if (!dim_as_sym(n->shape.dim[axis], &s)) {
        return;
    }
    if (b->z->bound[s] && b->z->value[s] != size) {
        fail(e, E_INPUT,
             "Input \"%.64s\": axis %d has size %lld, but %s is already bound to %lld.", name,
             axis, (long long)size, e->symbol[s], (long long)b->z->value[s]);
    }
    b->z->bound[s] = true;
    b->z->value[s] = size;
}

static void bind_symbols(Bind *b)
{
    Env *e = b->g->env;
    for (int s = 0; s < e->n_symbols; s++) {
        if (b->z->bound[s] && b->z->value[s] < 0) {
            fail(e, E_INPUT, "The symbol %s is bound to the negative size %lld.", e->symbol[s],
                 (long long)b->z->value[s]);
        }
    }
    for (int i = 0; i < b->g->inputs.n; i++) {
        const Node *n = b->g->inputs.at[i];
        if (b->input[i]->rank != n->shape.rank) {
            continue; /* match_type says it better */
        }
        for (int axis = 0; axis < n->shape.rank; axis++) {
            bind_axis(b, n, axis, b->input[i]->dim[axis]);
        }
    }
}

/* ---- dtypes and shapes -------------------------------------------------- */

static bool same_type(Env *e, const Node *n, const Tensor *t, const Sizes *z)
{
    if (t->dtype != n->dtype || t->rank != n->shape.rank) {
        return false;
    }
    for (int i = 0; i < t->rank; i++) {
        int64_t size;
        Err err;
        if (!dim_eval(e, n->shape.dim[i], z, &size, &err)) {
            fail(e, err.code, "%s \"%.64s\": %.400s", op_info[n->op].name, n->attr.name,
                 err.text);
        }
        if (size != t->dim[i]) {
            return false;
        }
    }
    return true;
}

static void print_tensor_type(Env *e, const Tensor *t, Buf *out)
{
    Shape s = {.rank = t->rank};
    for (int i = 0; i < t->rank; i++) {
        s.dim[i] = dim_int(t->dim[i]);
    }
    type_print(e, t->dtype, &s, out);
}

static void match_type(const Bind *b, const Node *n, const Tensor *t)
{
    Env *e = b->g->env;
    const char *kind = op_info[n->op].name;
    if (t->rank < 0 || t->rank > MAX_RANK) {
        fail(e, E_INPUT, "The %s \"%.64s\" has rank %d; the limit is %d.", kind, n->attr.name,
             t->rank, MAX_RANK);
    }
    if (!same_type(e, n, t, b->z)) {
        Buf is, want;
        buf_init(&is, &e->kernel);
        buf_init(&want, &e->kernel);
        print_tensor_type(e, t, &is);
        type_print(e, n->dtype, &n->shape, &want);
        fail(e, E_INPUT, "The %s \"%.64s\" is %.200s, but the graph declares %.200s.", kind,
             n->attr.name, is.at, want.at);
    }
    if (!t->data && tensor_count(t) > 0 && !n->attr.from_bf16) {
        fail(e, E_INPUT, "The %s \"%.64s\" has no data.", kind, n->attr.name);
    }
}

static void match_weights(Bind *b)
{
    Env *e = b->g->env;
    int n_missing = 0;
    for (int i = 0, cursor = 0; i < b->g->weights.n; i++) {
        const char *name = b->g->weights.at[i]->attr.name;
        b->weight[i] = find(b->args->weight, b->args->n_weights, name, &cursor);
        n_missing += !b->weight[i];
    }
    if (n_missing > 0) {
        Buf names;
        buf_init(&names, &e->kernel);
        for (int i = 0, n = 0; i < b->g->weights.n; i++) {
            if (!b->weight[i]) {
                list_name(&names, b->g->weights.at[i]->attr.name, n++);
            }
        }
        list_end(&names, n_missing);
        fail(e, E_INPUT, "Graph \"%.64s\" lacks %d of its %d weights: %s.", b->g->name,
             n_missing, b->g->weights.n, names.at);
    }
    for (int i = 0; i < b->g->weights.n; i++) {
        match_type(b, b->g->weights.at[i], b->weight[i]);
    }
}

/* ---- sizes -------------------------------------------------------------- */

/* "seq = 1, past = 0", for messages. */
static const char *sizes_text(const Graph *g, const Sizes *z)
{
    Buf b;
    buf_init(&b, &g->env->kernel);
    for (int i = 0; i < g->symbols.n; i++) {
        Sym s = g->symbols.at[i];
        buf_printf(&b, "%s%s = %lld", i > 0 ? ", " : "", g->env->symbol[s],
                   (long long)z->value[s]);
    }
    return g->symbols.n > 0 ? b.at : "no symbols";
}

/* "node %3", or "node %3, line 5" where it was read from a file. */
static const char *place(const Graph *g, const Node *n)
{
    const char *line = n->line > 0 ? arena_printf(&g->env->kernel, ", line %d", n->line) : "";
    return arena_printf(&g->env->kernel, "node %%%d%s", n->id, line);
}

/* Near enough: limits are far below where a double skips integers that matter. */
static double approximate(Dim d, const Sizes *z)
{
    if (d.n == 0) {
        return (double)d.k;
    }
    double sum = 0;
    for (int i = 0; i < d.n; i++) {
        double product = (double)d.term[i].coef;
        for (int j = 0; j < d.term[i].degree; j++) {
            product *= (double)z->value[d.term[i].sym[j]];
        }
        sum += product;
    }
    return sum;
}

static void check_node_size(const Graph *g, const Node *n, const Sizes *z)
{
    double count = 1;
    for (int i = 0; i < n->shape.rank; i++) {
        double size = approximate(n->shape.dim[i], z);
        if (size < 0) {
            fail(g->env, E_RANGE, "%s: dimension %d, %.200s, is %.0f with %.200s (%s).",
                 op_info[n->op].name, i, dim_text(g->env, n->shape.dim[i]), size,
                 sizes_text(g, z), place(g, n));
        }
        count *= size > 1 ? size : 1;
    }
    if (count > (double)MAX_ELEMENTS) {
        fail(g->env, E_RANGE, "%s: %.200s has more than 2^40 elements with %.200s (%s).",
             op_info[n->op].name, shape_text(g->env, &n->shape), sizes_text(g, z), place(g, n));
    }
}

static void check_sizes(const Graph *g, const Sizes *z)
{
    Env *e = g->env;
    for (int i = 0; i < g->checks.n; i++) {
        const SizeCheck *c = &g->checks.at[i];
        int64_t value;
        Err err;
        if (!dim_eval(e, c->at_least_zero, z, &value, &err)) {
            fail(e, E_RANGE, "%s (%s): %.700s", c->what, place(g, c->node), err.text);
        }
        if (value < 0) {
            fail(e, E_RANGE, "%s, %.200s, is %lld with %.200s, and must not be negative (%s).",
                 c->what, dim_text(e, c->at_least_zero), (long long)value, sizes_text(g, z),
                 place(g, c->node));
        }
    }
    for (int i = 0; i < g->nodes.n; i++) {
        check_node_size(g, g->nodes.at[i], z);
    }
}

/* ---- the two doors ------------------------------------------------------ */

static void bind_all(Env *e, void *arg)
{
    (void)e;
    Bind *b = arg;
    match_inputs(b);
    bind_symbols(b);
    for (int i = 0; i < b->g->inputs.n; i++) {
        match_type(b, b->g->inputs.at[i], b->input[i]);
    }
    match_weights(b);
    check_sizes(b->g, b->z);
}

static bool report(Env *e, bool ok, Err *err)
{
    if (!ok && err) {
        *err = e->err;
    }
    return ok;
}

bool graph_bind(const Graph *g, const Args *args, Sizes *z, const Tensor **input,
                const Tensor **weight, Err *err)
{
    Bind b = {.g = g, .args = args, .z = z, .input = input, .weight = weight};
    return report(g->env, env_try(g->env, bind_all, &b), err);
}

static void check_all(Env *e, void *arg)
{
    (void)e;
    const Bind *b = arg;
    check_sizes(b->g, b->z);
}

bool graph_check_sizes(const Graph *g, const Sizes *z, Err *err)
{
    Sizes copy = *z;
    Bind b = {.g = g, .z = &copy};
    return report(g->env, env_try(g->env, check_all, &b), err);
}
