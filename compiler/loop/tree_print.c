/* tree_print.c - the statement tree as people read it: one loop or statement a line, indented. A naive nest
 * reads as its loops; each schedule step shows up as what it does to them. */
#include <string.h>

#include "loop/loop_int.h"
#include "loop/tree.h"

typedef struct Printer {
    const Kernel *k;
    Buf *out;
    int depth;
    VarShape *shape; /* by variable: its instances here */
} Printer;

/* ---- expressions: variables with the instance that is meant ---- */

static void put_axis(Buf *out, const void *ctx, int axis)
{
    buf_str(out, ((const Printer *)ctx)->k->nest.axis.at[axis].name);
}

static void put_var(Buf *out, const void *ctx, int var)
{
    const Printer *p = ctx;
    const VarShape *v = &p->shape[var];
    buf_str(out, p->k->nest.var.at[var].name);
    for (int i = 0; i < v->n; i++) {
        buf_printf(out, "%s%s", i ? ", " : "[", p->k->nest.axis.at[v->axis[i]].name);
    }
    buf_str(out, v->n ? "]" : "");
}

static void put_load(Buf *out, const void *ctx, int operand)
{
    buf_str(out, ((const Printer *)ctx)->k->operand.at[operand].name);
}

static void put_expr(const Printer *p, const char *before, const Expr *x)
{
    ExprStyle style = text_style;
    style.axis = put_axis;
    style.var = put_var;
    style.load = put_load;
    buf_str(p->out, before);
    expr_print(p->out, &style, p, x);
}

/* ---- lines ---- */

static void indent(const Printer *p)
{
    for (int i = 0; i < p->depth; i++) {
        buf_str(p->out, "    ");
    }
}

static void put_tree(Printer *p, const Tree *t);

static void put_children(Printer *p, const Tree *t)
{
    for (int i = 0; i < t->child.n; i++) {
        put_tree(p, t->child.at[i]);
    }
}

static void put_inside(Printer *p, const Tree *t)
{
    p->depth++;
    put_children(p, t);
    p->depth--;
}

/* A unit axis of the naive nest has no loop: its index is written as 0. */
static void put_for(Printer *p, const Tree *t)
{
    const Axis *a = &p->k->nest.axis.at[t->axis];
    if (!a->half_of && axis_is_unit(&p->k->nest, t->axis)) {
        put_children(p, t);
        return;
    }
    indent(p);
    buf_printf(p->out, "%s %s in ",
               a->vec      ? "vec"
               : a->unroll ? "unroll"
               : a->par    ? "par"
                           : "for",
               a->name);
    put_expr(p, "", t->value);
    buf_str(p->out, ":\n");
    put_inside(p, t);
}

static void put_assign(const Printer *p, int var, const Expr *value)
{
    indent(p);
    put_var(p->out, p, var);
    put_expr(p, " = ", value);
    buf_char(p->out, '\n');
}

static void put_bind(const Printer *p, const Tree *t)
{
    indent(p);
    put_axis(p->out, p, t->axis);
    put_expr(p, " = ", t->value);
    buf_char(p->out, '\n');
}

static void put_if(Printer *p, const Tree *t)
{
    indent(p);
    if (t->last_part) {
        buf_str(p->out, "if last part");
    } else {
        put_expr(p, t->negated ? "unless " : "if ", t->value);
    }
    buf_str(p->out, ":\n");
    put_inside(p, t);
}

/* The copies differ in one extent only. */
static void put_switch(Printer *p, const Tree *t)
{
    indent(p);
    put_expr(p, "switch ", t->value);
    buf_printf(p->out, ": # case 1; cases to %d are the same with that many\n", t->child.n);
    if (t->child.n) {
        put_inside(p, t->child.at[0]);
    }
}

static void put_acc(Printer *p, const Tree *t)
{
    for (int i = 0; i < t->phase->acc.n; i++) {
        int var = t->phase->acc.at[i].var;
        p->shape[var] = t->shape;
        if (!t->shape.n) {
            continue;
        }
        indent(p);
        buf_printf(p->out, "%s: %s of", p->k->nest.var.at[var].name,
                   dtype_name(p->k->nest.var.at[var].dtype));
        for (int d = 0; d < t->shape.n; d++) {
            buf_printf(p->out, "%s %s %lld", d ? "," : "",
                       p->k->nest.axis.at[t->shape.axis[d]].name,
                       (long long)t->shape.extent[d]);
        }
        buf_char(p->out, '\n');
    }
}

static void put_combine(Printer *p, const Tree *t)
{
    for (int i = 0; i < t->phase->acc.n; i++) {
        int var = t->phase->acc.at[i].var;
        indent(p);
        buf_printf(p->out, "%s over", p->k->nest.var.at[var].name);
        for (int d = 0; d < t->priv.n; d++) {
            buf_printf(p->out, " %s", p->k->nest.axis.at[t->priv.axis[d]].name);
        }
        buf_str(p->out, " becomes one, in a tree\n");
        p->shape[var] = t->shape;
    }
}

static void put_stmt(const Printer *p, const Stmt *s)
{
    if (s->kind == STMT_LET) {
        put_assign(p, s->var, s->value);
        return;
    }
    indent(p);
    if (s->kind == STMT_STORE) {
        put_load(p->out, p, 0);
        put_expr(p, "[", s->index);
        put_expr(p, "] = ", s->value);
    } else {
        put_expr(p, "if ", s->value);
        buf_printf(p->out, ": fail %d", s->code);
    }
    buf_char(p->out, '\n');
}

static void put_prefetch(const Printer *p, const Prefetch *f)
{
    indent(p);
    buf_str(p->out, "prefetch ");
    put_load(p->out, p, f->operand);
    buf_printf(p->out, ", %lld bytes ahead\n", (long long)f->ahead_bytes);
}

static void put_fill(const Printer *p, const Staged *s)
{
    indent(p);
    put_load(p->out, p, s->local);
    put_expr(p, "[", s->index);
    put_expr(p, "] = ", s->value);
    buf_char(p->out, '\n');
}

static void put_tree(Printer *p, const Tree *t)
{
    switch (t->kind) {
    case TREE_BLOCK: put_children(p, t); break;
    case TREE_FOR: put_for(p, t); break;
    case TREE_BIND: put_bind(p, t); break;
    case TREE_IF: put_if(p, t); break;
    case TREE_SWITCH: put_switch(p, t); break;
    case TREE_ACC: put_acc(p, t); break;
    case TREE_INIT:
    case TREE_UPDATE:
        for (int i = 0; i < t->phase->acc.n; i++) {
            const Accum *acc = &t->phase->acc.at[i];
            put_assign(p, acc->var, t->kind == TREE_INIT ? acc->init : acc->update);
        }
        break;
    case TREE_COMBINE: put_combine(p, t); break;
    case TREE_LET:
    case TREE_STORE:
    case TREE_FAIL: put_stmt(p, t->stmt); break;
    case TREE_PREFETCH: put_prefetch(p, t->prefetch); break;
    case TREE_FILL: put_fill(p, t->stage); break;
    }
}

void nest_print(Env *e, const Kernel *k, Buf *out)
{
    Printer p = {.k = k, .out = out};
    p.shape = arena_array(&e->kernel, VarShape, k->nest.var.n);
    put_tree(&p, nest_tree(e, &e->kernel, k));
}
