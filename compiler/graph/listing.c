/* listing.c - a graph to read, and the same for programs: text and JSON. Also ops.h as a table.
 *
 * The text shows one node a line: its number, op, name or value, operands, the attributes that
 * its type does not show, and behind column 42 its type. It is deterministic and is not parsed
 * back (ncg.c is the form that is); the JSON is complete. spec: graph-ir 6 */
#include "graph/graph.h"

#include <math.h>
#include <string.h>

static void put_quoted(Buf *out, const char *s)
{
    buf_json(out, s, strlen(s));
}

/* ---- attributes ---------------------------------------- */

/* An expression, in parentheses where it has spaces. */
static void put_dim(Env *e, Dim d, Buf *out)
{
    const char *text = dim_text(e, d);
    bool bare = !strchr(text, ' ');
    buf_printf(out, bare ? "%s" : "(%s)", text);
}

static void put_perm(const Attr *a, Buf *out)
{
    for (int i = 0; i < a->n_perm; i++) {
        buf_printf(out, "%s%d", i ? ", " : "", a->perm[i]);
    }
}

static void list_attributes(Env *e, const Node *n, Buf *out)
{
    unsigned attrs = op_info[n->op].attrs;
    const Attr *a = &n->attr;
    if (attrs & A_AXIS) {
        buf_printf(out, " axis=%d", a->axis);
    }
    if (attrs & A_DTYPE) {
        buf_printf(out, " dtype=%s", dtype_name(a->dtype));
    }
    if (attrs & A_SHAPE) {
        buf_str(out, " shape=");
        shape_print(e, &a->shape, out);
    }
    if (attrs & A_PERM) {
        buf_str(out, " perm=(");
        put_perm(a, out);
        buf_char(out, ')');
    }
    if (attrs & A_RANGE) {
        buf_str(out, " start=");
        put_dim(e, a->start, out);
        buf_str(out, " stop=");
        put_dim(e, a->stop, out);
    }
    if (attrs & A_AT) {
        buf_str(out, " at=");
        shape_print(e, &a->at, out);
    }
    if (attrs & A_FROM && a->from_bf16) {
        buf_str(out, " from=bf16");
    }
}

/* ---- the text ---------------------------------------- */

static int64_t n_values(const Node *n)
{
    int64_t count = 1;
    for (int i = 0; i < n->shape.rank; i++) {
        count *= n->shape.dim[i].k;
    }
    return count;
}

/* What stands for the operands of a leaf: its name, value or expression. */
static void list_leaf(Env *e, const Node *n, Buf *out)
{
    unsigned attrs = op_info[n->op].attrs;
    if (attrs & A_NAME) {
        buf_char(out, ' ');
        put_quoted(out, n->attr.name);
    }
    if (attrs & A_VALUE && n->shape.rank == 0) {
        buf_char(out, ' ');
        value_print(value_load(n->attr.value, n->dtype, 0), n->dtype, out);
    } else if (attrs & A_VALUE) {
        buf_printf(out, " <%lld values>", (long long)n_values(n));
    }
    if (attrs & A_EXPR) {
        buf_char(out, ' ');
        put_dim(e, n->attr.expr, out);
    }
}

enum { INDENT = 2, BODY = 40 }; /* columns */

static void list_node(Env *e, const Node *n, Buf *out)
{
    size_t line = out->len;
    buf_printf(out, "%*s%%%d = %s", INDENT, "", n->id, op_info[n->op].name);
    list_leaf(e, n, out);
    for (int i = 0; i < n->n_in; i++) {
        buf_printf(out, "%s%%%d", i ? ", " : " ", n->in[i]->id);
    }
    list_attributes(e, n, out);
    buf_pad(out, INDENT + BODY, line);
    buf_str(out, " : ");
    type_print(e, n->dtype, &n->shape, out);
    buf_char(out, '\n');
}

void graph_listing(const Graph *g, Buf *out)
{
    Env *e = g->env;
    buf_printf(out, "graph %s(", g->name);
    for (int i = 0; i < g->inputs.n; i++) {
        const Node *n = g->inputs.at[i];
        buf_printf(out, "%s%s: ", i ? ", " : "", n->attr.name);
        type_print(e, n->dtype, &n->shape, out);
    }
    buf_str(out, ") {\n");
    for (int i = 0; i < g->nodes.n; i++) {
        list_node(e, g->nodes.at[i], out);
    }
    buf_printf(out, "%*sreturn", INDENT, "");
    for (int i = 0; i < g->outputs.n; i++) {
        const Output *o = &g->outputs.at[i];
        buf_printf(out, "%s%s=%%%d", i ? ", " : " ", o->name, o->node->id);
    }
    buf_str(out, "\n}\n");
}

/* ---- JSON ---------------------------------------- */

static void json_dim(Env *e, Dim d, Buf *out)
{
    buf_printf(out, dim_is_const(d) ? "%s" : "\"%s\"", dim_text(e, d));
}

static void json_dims(Env *e, const Shape *s, Buf *out)
{
    buf_char(out, '[');
    for (int i = 0; i < s->rank; i++) {
        buf_str(out, i ? ", " : "");
        json_dim(e, s->dim[i], out);
    }
    buf_char(out, ']');
}

static void json_type(Env *e, Dtype t, const Shape *s, Buf *out)
{
    buf_printf(out, "\"dtype\": \"%s\", \"shape\": ", dtype_name(t));
    json_dims(e, s, out);
}

/* JSON has no infinities and no NaN: they are strings. */
static void json_value(Value v, Dtype t, Buf *out)
{
    bool quoted = dtype_class(t) == CLASS_FLOAT && !isfinite(v.f);
    buf_str(out, quoted ? "\"" : "");
    value_print(v, t, out);
    buf_str(out, quoted ? "\"" : "");
}

static void json_values(const Node *n, Buf *out)
{
    buf_str(out, ", \"values\": [");
    int64_t count = n_values(n);
    for (int64_t i = 0; i < count; i++) {
        buf_str(out, i ? ", " : "");
        json_value(value_load(n->attr.value, n->dtype, i), n->dtype, out);
    }
    buf_char(out, ']');
}

/* Attributes that the node's own dtype and shape repeat are left out. */
static void json_attributes(Env *e, const Node *n, Buf *out)
{
    unsigned attrs = op_info[n->op].attrs;
    const Attr *a = &n->attr;
    if (attrs & A_NAME) {
        buf_str(out, ", \"name\": ");
        put_quoted(out, a->name);
    }
    if (attrs & A_VALUE) {
        json_values(n, out);
    }
    if (attrs & A_AXIS) {
        buf_printf(out, ", \"axis\": %d", a->axis);
    }
    if (attrs & A_EXPR) {
        buf_str(out, ", \"expr\": ");
        json_dim(e, a->expr, out);
    }
    if (attrs & A_PERM) {
        buf_str(out, ", \"perm\": [");
        put_perm(a, out);
        buf_char(out, ']');
    }
    if (attrs & A_RANGE) {
        buf_str(out, ", \"start\": ");
        json_dim(e, a->start, out);
        buf_str(out, ", \"stop\": ");
        json_dim(e, a->stop, out);
    }
    if (attrs & A_AT) {
        buf_str(out, ", \"at\": ");
        json_dims(e, &a->at, out);
    }
    if (attrs & A_FROM && a->from_bf16) {
        buf_str(out, ", \"from\": \"bf16\"");
    }
}

static void json_node(Env *e, const Node *n, Buf *out)
{
    buf_printf(out, "{\"id\": %d, \"op\": \"%s\", \"operands\": [", n->id, op_info[n->op].name);
    for (int i = 0; i < n->n_in; i++) {
        buf_printf(out, "%s%d", i ? ", " : "", n->in[i]->id);
    }
    buf_str(out, "]");
    json_attributes(e, n, out);
    buf_str(out, ", ");
    json_type(e, n->dtype, &n->shape, out);
    buf_char(out, '}');
}

static void json_inputs(const Graph *g, Buf *out)
{
    buf_str(out, ",\n \"inputs\": [");
    for (int i = 0; i < g->inputs.n; i++) {
        const Node *n = g->inputs.at[i];
        buf_str(out, i ? ",\n  {\"name\": " : "\n  {\"name\": ");
        put_quoted(out, n->attr.name);
        buf_printf(out, ", \"node\": %d, ", n->id);
        json_type(g->env, n->dtype, &n->shape, out);
        buf_char(out, '}');
    }
    buf_char(out, ']');
}

static void json_outputs(const Graph *g, Buf *out)
{
    buf_str(out, ",\n \"outputs\": [");
    for (int i = 0; i < g->outputs.n; i++) {
        const Output *o = &g->outputs.at[i];
        buf_str(out, i ? ",\n  {\"name\": " : "\n  {\"name\": ");
        put_quoted(out, o->name);
        buf_printf(out, ", \"node\": %d, ", o->node->id);
        json_type(g->env, o->node->dtype, &o->node->shape, out);
        buf_char(out, '}');
    }
    buf_char(out, ']');
}

static void json_symbols(const Graph *g, Buf *out)
{
    buf_str(out, ",\n \"symbols\": [");
    for (int i = 0; i < g->symbols.n; i++) {
        buf_str(out, i ? ", " : "");
        put_quoted(out, g->env->symbol[g->symbols.at[i]]);
    }
    buf_str(out, "],\n \"at_least_zero\": [");
    for (int i = 0; i < g->checks.n; i++) {
        const SizeCheck *c = &g->checks.at[i];
        buf_str(out, i ? ",\n  {\"expr\": " : "\n  {\"expr\": ");
        json_dim(g->env, c->at_least_zero, out);
        buf_printf(out, ", \"node\": %d, \"what\": \"%s\"}", c->node->id, c->what);
    }
    buf_char(out, ']');
}

void graph_json(const Graph *g, Buf *out)
{
    buf_str(out, "{\"graph\": ");
    put_quoted(out, g->name);
    json_inputs(g, out);
    json_outputs(g, out);
    json_symbols(g, out);
    buf_str(out, ",\n \"nodes\": [");
    for (int i = 0; i < g->nodes.n; i++) {
        buf_str(out, i ? ",\n  " : "\n  ");
        json_node(g->env, g->nodes.at[i], out);
    }
    buf_str(out, "]}\n");
}
