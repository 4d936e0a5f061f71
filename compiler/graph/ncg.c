/* ncg.c - the complete text form of a graph: the printer, and equality of graphs.
 *
 *   graph swiglu
 *   x = input f32[seq, 4]
 *   w = weight "mlp.up weight" f32[4, 8]
 *   %2 = matmul x, w
 *   %3 = reduce_sum %2 axis=-1
 *   return out=%3
 *
 * One statement a line, in list order. A node is called by its number; inputs and weights by
 * their own names where these are words that no other node has claimed. What is printed
 * reads back (ncg_parse.c) as an equal graph, NaN payloads included. */
#include "graph/ncg_int.h"

#include <string.h>

/* ---- printing ----------------------------------------------------------- */

typedef struct Printer {
    const Graph *g;
    Buf *out;
    bool *by_name; /* by node id: called by its own name */
} Printer;

/* A quoted name; quotes, backslashes and control characters are escaped. */
static void put_string(Buf *out, const char *s)
{
    buf_char(out, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') {
            buf_char(out, '\\');
            buf_char(out, *s);
        } else if ((unsigned char)*s < ' ' || *s == 0x7f) {
            buf_printf(out, "\\x%02x", (unsigned char)*s);
        } else {
            buf_char(out, *s);
        }
    }
    buf_char(out, '"');
}

/* A name where a word is allowed too. */
static void put_name(Buf *out, const char *s)
{
    if (ncg_word(s, strlen(s))) {
        buf_str(out, s);
    } else {
        put_string(out, s);
    }
}

static void put_node(const Printer *p, const Node *n)
{
    if (p->by_name[n->id]) {
        buf_str(p->out, n->attr.name);
    } else {
        buf_printf(p->out, "%%%d", n->id);
    }
}

/* value_print shows every NaN alike; here the bits count. */
static void put_value(Buf *out, const Node *n, int64_t i)
{
    if (n->dtype == DT_F32) {
        uint32_t bits;
        memcpy(&bits, (const char *)n->attr.value + 4 * i, sizeof bits);
        if ((bits & 0x7fffffff) > 0x7f800000 && bits != NCG_NAN) {
            buf_printf(out, "nan:0x%08x", bits);
            return;
        }
    }
    value_print(value_load(n->attr.value, n->dtype, i), n->dtype, out);
}

static void put_values(Buf *out, const Node *n)
{
    int64_t count = 1;
    for (int i = 0; i < n->shape.rank; i++) {
        count *= n->shape.dim[i].k;
    }
    for (int64_t i = 0; i < count; i++) {
        buf_str(out, i > 0 ? ", " : " ");
        put_value(out, n, i);
    }
}

static void put_leaf(const Printer *p, const Node *n)
{
    unsigned attrs = op_info[n->op].attrs;
    Buf *out = p->out;
    if (attrs & A_NAME && !p->by_name[n->id]) {
        buf_char(out, ' ');
        put_string(out, n->attr.name);
    }
    if (attrs & (A_TYPE | A_VALUE)) {
        buf_char(out, ' ');
        type_print(p->g->env, n->attr.dtype, &n->attr.shape, out);
    }
    if (attrs & A_VALUE) {
        put_values(out, n);
    }
    if (attrs & A_EXPR) {
        buf_char(out, ' ');
        dim_print(p->g->env, n->attr.expr, out);
    }
}

static void put_attributes(const Printer *p, const Node *n)
{
    unsigned attrs = op_info[n->op].attrs;
    Env *e = p->g->env;
    if (attrs & A_AXIS) {
        buf_printf(p->out, " axis=%d", n->attr.axis);
    }
    if (attrs & A_DTYPE) {
        buf_printf(p->out, " dtype=%s", dtype_name(n->attr.dtype));
    }
    if (attrs & A_SHAPE) {
        buf_str(p->out, " shape=");
        shape_print(e, &n->attr.shape, p->out);
    }
    if (attrs & A_PERM) {
        buf_str(p->out, " perm=[");
        for (int i = 0; i < n->attr.n_perm; i++) {
            buf_printf(p->out, "%s%d", i > 0 ? ", " : "", n->attr.perm[i]);
        }
        buf_char(p->out, ']');
    }
    if (attrs & A_RANGE) {
        buf_str(p->out, " start=");
        dim_print(e, n->attr.start, p->out);
        buf_str(p->out, " stop=");
        dim_print(e, n->attr.stop, p->out);
    }
    if (attrs & A_AT) {
        buf_str(p->out, " at=");
        shape_print(e, &n->attr.at, p->out);
    }
    if (attrs & A_FROM && n->attr.from_bf16) {
        buf_str(p->out, " from=bf16");
    }
}

static void put_statement(const Printer *p, const Node *n)
{
    put_node(p, n);
    buf_printf(p->out, " = %s", op_info[n->op].name);
    put_leaf(p, n);
    for (int i = 0; i < n->n_in; i++) {
        buf_str(p->out, i > 0 ? ", " : " ");
        put_node(p, n->in[i]);
    }
    put_attributes(p, n);
    buf_char(p->out, '\n');
}

static void choose_names(Printer *p)
{
    Env *e = p->g->env;
    p->by_name = arena_array(&e->kernel, bool, p->g->nodes.n);
    Map claimed;
    map_init(&claimed, &e->kernel);
    for (int i = 0; i < p->g->nodes.n; i++) {
        Node *n = p->g->nodes.at[i];
        if (!(op_info[n->op].attrs & A_NAME) || !ncg_word(n->attr.name, strlen(n->attr.name))) {
            continue;
        }
        Hash key = hash_str(n->attr.name);
        if (!map_get(&claimed, key)) {
            map_put(&claimed, key, n);
            p->by_name[i] = true;
        }
    }
}

void ncg_print(const Graph *g, Buf *out)
{
    Printer p = {.g = g, .out = out};
    choose_names(&p);
    buf_str(out, "graph ");
    put_name(out, g->name);
    buf_char(out, '\n');
    for (int i = 0; i < g->nodes.n; i++) {
        put_statement(&p, g->nodes.at[i]);
    }
    for (int i = 0; i < g->outputs.n; i++) {
        buf_str(out, i > 0 ? ", " : "return ");
        put_name(out, g->outputs.at[i].name);
        buf_char(out, '=');
        put_node(&p, g->outputs.at[i].node);
    }
    buf_char(out, '\n');
}

/* ---- equality --------------------------------------------------------- */

/* Symbols are compared by name: two Envs may number them differently. */
typedef struct Pair {
    const Graph *a, *b;
} Pair;

static bool same_dim(const Pair *p, Dim x, Dim y)
{
    if (x.n != y.n || (x.n == 0 && x.k != y.k)) {
        return false;
    }
    for (int i = 0; i < x.n; i++) {
        const Term *s = &x.term[i], *t = &y.term[i];
        bool same = s->coef == t->coef && s->degree == t->degree;
        for (int j = 0; same && j < s->degree; j++) {
            same = strcmp(p->a->env->symbol[s->sym[j]], p->b->env->symbol[t->sym[j]]) == 0;
        }
        if (!same) {
            return false;
        }
    }
    return true;
}

static bool same_shape(const Pair *p, const Shape *x, const Shape *y)
{
    bool same = x->rank == y->rank;
    for (int i = 0; same && i < x->rank; i++) {
        same = same_dim(p, x->dim[i], y->dim[i]);
    }
    return same;
}

static bool same_value(const Node *x, const Node *y)
{
    size_t bytes = (size_t)dtype_bytes(x->dtype);
    for (int i = 0; i < x->shape.rank; i++) {
        bytes *= (size_t)x->shape.dim[i].k;
    }
    return bytes == 0 || memcmp(x->attr.value, y->attr.value, bytes) == 0;
}

/* Only the attributes that the op takes; types have been compared. */
static bool same_attributes(const Pair *p, const Node *x, const Node *y)
{
    unsigned attrs = op_info[x->op].attrs;
    const Attr *s = &x->attr, *t = &y->attr;
    return (!(attrs & A_NAME) || strcmp(s->name, t->name) == 0) &&
           (!(attrs & A_VALUE) || same_value(x, y)) &&
           (!(attrs & A_AXIS) || s->axis == t->axis) &&
           (!(attrs & A_EXPR) || same_dim(p, s->expr, t->expr)) &&
           (!(attrs & A_PERM) ||
            memcmp(s->perm, t->perm, sizeof *s->perm * (size_t)s->n_perm) == 0) &&
           (!(attrs & A_RANGE) ||
            (same_dim(p, s->start, t->start) && same_dim(p, s->stop, t->stop))) &&
           (!(attrs & A_AT) || same_shape(p, &s->at, &t->at)) &&
           (!(attrs & A_FROM) || s->from_bf16 == t->from_bf16);
}

static bool same_node(const Pair *p, const Node *x, const Node *y)
{
    bool same = x->op == y->op && x->dtype == y->dtype && x->n_in == y->n_in &&
                same_shape(p, &x->shape, &y->shape) && same_attributes(p, x, y);
    for (int i = 0; same && i < x->n_in; i++) {
        same = x->in[i]->id == y->in[i]->id;
    }
    return same;
}

bool graph_eq(const Graph *a, const Graph *b)
{
    Pair p = {a, b};
    bool same = strcmp(a->name, b->name) == 0 && a->inputs.n == b->inputs.n &&
                a->nodes.n == b->nodes.n && a->outputs.n == b->outputs.n;
    for (int i = 0; same && i < a->nodes.n; i++) {
        same = same_node(&p, a->nodes.at[i], b->nodes.at[i]);
    }
    for (int i = 0; same && i < a->inputs.n; i++) {
        same = a->inputs.at[i]->id == b->inputs.at[i]->id;
    }
    for (int i = 0; same && i < a->outputs.n; i++) {
        same = strcmp(a->outputs.at[i].name, b->outputs.at[i].name) == 0 &&
               a->outputs.at[i].node->id == b->outputs.at[i].node->id;
    }
    return same;
}
