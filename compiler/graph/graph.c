/* graph.c - making nodes, and making a graph of them.
 *
 * node_make is the only constructor: what it returns fits its primitive. graph_finish turns
 * declared inputs and outputs into a graph: it lists the nodes in post-order (inputs first,
 * then outputs; operands from left to right), numbers them, collects weights, symbols and size
 * checks, and validates. Only nodes reached from inputs and outputs are listed, so dead code is
 * gone. Everything lives in env->model; chains of any depth are walked without recursion. */
#include "graph/graph.h"

/* ---- nodes ---------------------------------------- */

const char *node_type_text(Env *e, const Node *n)
{
    Buf b;
    buf_init(&b, &e->kernel);
    type_print(e, n->dtype, &n->shape, &b);
    return b.at;
}

static size_t const_bytes(const Node *n)
{
    size_t bytes = (size_t)dtype_bytes(n->dtype);
    for (int i = 0; i < n->shape.rank; i++) {
        bytes *= (size_t)n->shape.dim[i].k;
    }
    return bytes;
}

/* The node's own copies of what its attributes point at. */
static void own_attributes(Env *e, Node *n)
{
    unsigned attrs = op_info[n->op].attrs;
    if (attrs & A_NAME) {
        check(n->attr.name);
        n->attr.name = arena_str(&e->model, n->attr.name);
    }
    if (attrs & A_VALUE) {
        size_t bytes = const_bytes(n);
        check(n->attr.value || !bytes);
        n->attr.value = arena_dup(&e->model, n->attr.value, bytes);
    }
}

Node *node_make(Env *e, Op op, Node *const *in, int n_in, const Attr *attr, int line)
{
    if ((unsigned)op >= N_OPS) {
        fail(e, E_TYPE, "there is no operation with number %d", (int)op);
    }
    check(n_in >= 0 && (attr || !op_info[op].attrs));
    Node *n = arena_new(&e->model, Node);
    n->op = op;
    n->n_in = n_in;
    n->in = arena_array(&e->model, Node *, n_in);
    for (int i = 0; i < n_in; i++) {
        check(in[i]);
        n->in[i] = in[i];
    }
    if (attr) {
        n->attr = *attr;
    }
    n->id = -1;
    n->line = line;
    node_infer(e, n, &n->dtype, &n->shape);
    own_attributes(e, n);
    return n;
}

/* ---- graphs ---------------------------------------- */

Graph *graph_new(Env *e, const char *name)
{
    Graph *g = arena_new(&e->model, Graph);
    g->env = e;
    g->name = arena_str(&e->model, name);
    return g;
}

void graph_input(Graph *g, Node *input)
{
    *vec_push(&g->env->model, &g->inputs) = input;
}

void graph_output(Graph *g, const char *name, Node *node)
{
    check(node);
    *vec_push(&g->env->model, &g->outputs) =
        (Output){.name = arena_str(&g->env->model, name), .node = node};
}

/* ---- the node list: iterative depth-first search, post-order ------------------- */

enum { UNVISITED = -1, ON_STACK = -2 }; /* Node.id while the list is being made */

typedef struct Visit {
    Node *node;
    int next; /* operand to visit next */
} Visit;

typedef Vec(Visit) Stack;

static void enter(Graph *g, Stack *stack, Node *n)
{
    if (n->id == ON_STACK) {
        fail(g->env, E_GRAPH, "graph %.100s: a node of %s depends on itself", g->name,
             op_info[n->op].name);
    }
    if (n->id == UNVISITED) {
        n->id = ON_STACK;
        *vec_push(&g->env->kernel, stack) = (Visit){.node = n};
        return;
    }
    bool listed_here = n->id < g->nodes.n && g->nodes.at[n->id] == n;
    check(listed_here); /* else it belongs to another graph */
}

static void list_from(Graph *g, Stack *stack, Node *root)
{
    enter(g, stack, root);
    while (stack->n) {
        Visit *top = &stack->at[stack->n - 1];
        if (top->next < top->node->n_in) {
            enter(g, stack, top->node->in[top->next++]);
            continue;
        }
        Node *n = top->node;
        stack->n--;
        n->id = g->nodes.n;
        *vec_push(&g->env->model, &g->nodes) = n;
    }
}

static void list_nodes(Graph *g)
{
    Stack stack = {0};
    for (int i = 0; i < g->inputs.n; i++) {
        list_from(g, &stack, g->inputs.at[i]);
    }
    for (int i = 0; i < g->outputs.n; i++) {
        list_from(g, &stack, g->outputs.at[i].node);
    }
}

/* ---- what is collected from the list ---------------------------------------- */

static void collect_weights(Graph *g)
{
    for (int i = 0; i < g->nodes.n; i++) {
        if (g->nodes.at[i]->op == OP_WEIGHT) {
            *vec_push(&g->env->model, &g->weights) = g->nodes.at[i];
        }
    }
}

static void collect_symbols(Graph *g)
{
    bool seen[MAX_SYMBOLS] = {false};
    for (int i = 0; i < g->inputs.n; i++) {
        const Shape *s = &g->inputs.at[i]->shape;
        for (int k = 0; k < s->rank; k++) {
            Sym sym;
            if (dim_as_sym(s->dim[k], &sym) && !seen[sym]) {
                seen[sym] = true;
                *vec_push(&g->env->model, &g->symbols) = sym;
            }
        }
    }
}

typedef struct Checks {
    Graph *g;
    Map seen; /* of polynomials */
    Buf key;
} Checks;

/* True where the polynomial is new and not safe by its form. */
static bool needs_check(Checks *c, Dim d, const Node *n)
{
    if (dim_never_negative(d)) {
        return false;
    }
    buf_clear(&c->key);
    dim_hash_into(d, &c->key);
    Hash key = hash_bytes(c->key.at, c->key.len);
    if (map_get(&c->seen, key)) {
        return false;
    }
    map_put(&c->seen, key, (void *)n);
    return true;
}

static void add_check(Checks *c, Dim d, const Node *n, const char *what)
{
    if (needs_check(c, d, n)) {
        *vec_push(&c->g->env->model, &c->g->checks) =
            (SizeCheck){.at_least_zero = d, .node = n, .what = what};
    }
}

static void check_slice(Checks *c, const Node *n)
{
    Env *e = c->g->env;
    const Shape *from = &n->in[0]->shape;
    int axis = axis_of(e, n, from->rank);
    add_check(c, n->attr.start, n, "slice: start");
    add_check(c, dim_sub(e, n->attr.stop, n->attr.start), n, "slice: stop - start");
    add_check(c, dim_sub(e, from->dim[axis], n->attr.stop), n, "slice: size - stop");
}

static void check_update(Checks *c, const Node *n)
{
    Env *e = c->g->env;
    for (int i = 0; i < n->shape.rank; i++) {
        Dim stop = dim_add(e, n->attr.at.dim[i], n->in[1]->shape.dim[i]);
        add_check(c, n->attr.at.dim[i], n, "update: offset");
        add_check(c, dim_sub(e, n->shape.dim[i], stop), n, "update: room for the value");
    }
}

static void check_node_sizes(Checks *c, const Node *n)
{
    Env *e = c->g->env;
    if (n->op == OP_SLICE) {
        check_slice(c, n);
    }
    if (n->op == OP_UPDATE) {
        check_update(c, n);
    }
    if (n->op == OP_REDUCE_MAX) {
        const Shape *from = &n->in[0]->shape;
        int axis = axis_of(e, n, from->rank);
        add_check(c, dim_addk(e, from->dim[axis], -1), n, "reduce_max: size - 1");
    }
    for (int i = 0; i < n->shape.rank; i++) {
        if (!dim_never_negative(n->shape.dim[i])) {
            add_check(c, n->shape.dim[i], n,
                      arena_printf(&e->model, "dimension %d of %s", i, op_info[n->op].name));
        }
    }
}

static void collect_checks(Graph *g)
{
    Checks c = {.g = g};
    map_init(&c.seen, &g->env->kernel);
    buf_init(&c.key, &g->env->kernel);
    for (int i = 0; i < g->nodes.n; i++) {
        check_node_sizes(&c, g->nodes.at[i]);
    }
}

void graph_finish(Graph *g)
{
    check(!g->nodes.n);
    list_nodes(g);
    collect_weights(g);
    collect_symbols(g);
    graph_validate(g);
    collect_checks(g);
}
