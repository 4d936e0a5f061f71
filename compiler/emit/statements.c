/* statements.c - the statement tree as C: loops, tails, and each statement once for every written-out point
 * and vector of it. An unrolled axis becomes constants, an axis in lanes becomes vectors. What happens to
 * accumulators is written by accumulators.c. */
#include <inttypes.h>

#include "emit/emit_int.h"

/* What one of them leaves in lanes is so for those after it. */
static void write_children(Writer *w, const Tree *t)
{
    SumsAt before = w->sums;
    for (int i = 0; i < t->child.n; i++) {
        write_tree(w, t->child.at[i]);
    }
    w->sums = before;
}

static void close_brace(Writer *w)
{
    w->depth--;
    line(w, "}\n");
}

/* ---- loops ---- */

/* Lets inside would be declared twice in one block. */
static bool declares(const Tree *t)
{
    for (int i = 0; i < t->child.n; i++) {
        const Tree *c = t->child.at[i];
        bool through = c->kind == TREE_FOR && c->value->kind == X_CONST;
        if (c->kind == TREE_LET || c->kind == TREE_ACC || (through && declares(c))) {
            return true;
        }
    }
    return false;
}

static void write_instance(Writer *w, const Tree *t)
{
    bool block = declares(t);
    if (block) {
        line(w, "{\n");
        w->depth++;
    }
    write_children(w, t);
    if (block) {
        close_brace(w);
    }
}

static void write_unrolled(Writer *w, const Tree *t, int64_t n)
{
    AxisAt before = w->axis[t->axis];
    for (int64_t i = 0; i < n; i++) {
        w->axis[t->axis] = (AxisAt){MODE_CONST, i, 1};
        write_instance(w, t);
    }
    w->axis[t->axis] = before;
}

static void write_vectors(Writer *w, const Tree *t, int64_t n, int width)
{
    AxisAt before = w->axis[t->axis];
    w->vec = t->axis;
    for (int64_t i = 0; i < n; i += width) {
        w->axis[t->axis] = (AxisAt){MODE_LANES, i, width};
        write_instance(w, t);
    }
    w->vec = -1;
    w->axis[t->axis] = before;
}

static void open_loop(Writer *w, const Tree *t)
{
    const Axis *a = axis_info(w, t->axis);
    const char *name = c_name(w, a->name);
    line(w, "");
    if (a->par) {
        const char *n = scalar_text(w, t->value);
        buf_printf(w->out,
                   "for (int64_t %s = (%s) * part / n_parts; %s < (%s) * (part + 1) / n_parts; "
                   "%s++) {\n",
                   name, n, name, n, name);
    } else {
        buf_printf(w->out, "for (int64_t %s = 0; %s < ", name, name);
        put(w, t->value, "; ");
        buf_printf(w->out, "%s++) {\n", name);
    }
    w->depth++;
}

static void write_loop(Writer *w, const Tree *t)
{
    AxisAt before = w->axis[t->axis];
    open_loop(w, t);
    w->axis[t->axis].mode = MODE_LOOP;
    write_children(w, t);
    w->axis[t->axis] = before;
    close_brace(w);
}

static void write_for(Writer *w, const Tree *t)
{
    const Axis *a = axis_info(w, t->axis);
    int64_t n = t->value->kind == X_CONST ? t->value->value.i : -1;
    if (t->copies) {
        write_loop(w, t);
        return;
    }
    int width = n > 1 && a->vec && w->k->in_lanes && !t->joined ? width_for(w, n) : 1;
    width = t->axis == w->sums.axis ? w->sums.width : width;
    if (width > 1) {
        write_vectors(w, t, n, width);
    } else if (a->dot && w->vec >= 0) { /* the four products are one operation */
        AxisAt before = w->axis[t->axis];
        w->axis[t->axis] = (AxisAt){MODE_CONST, 0, 1};
        w->dot = true;
        write_children(w, t);
        w->dot = false;
        w->axis[t->axis] = before;
    } else if (n == 1 && !a->par) { /* no loop: its index is 0, or written as a constant */
        AxisAt before = w->axis[t->axis];
        w->axis[t->axis] = (AxisAt){MODE_CONST, 0, 1};
        write_children(w, t);
        w->axis[t->axis] = before;
    } else if (n >= 0 && a->unroll) {
        write_unrolled(w, t, n);
    } else {
        write_loop(w, t);
    }
}

/* Whole axes are written as their halves wherever they are used; an outer half in a tail has a value. */
static void write_bind(Writer *w, const Tree *t)
{
    if (axis_info(w, t->axis)->outer) {
        return;
    }
    w->axis[t->axis].mode = MODE_LOOP;
    line(w, "const int64_t ");
    buf_printf(w->out, "%s = ", c_name(w, axis_info(w, t->axis)->name));
    put(w, t->value, ";\n");
    line(w, "(void)");
    buf_printf(w->out, "%s;\n", c_name(w, axis_info(w, t->axis)->name));
}

/* ---- conditions ---- */

static void open_if(Writer *w, const char *cond)
{
    line(w, "");
    buf_printf(w->out, "if (%s) {\n", cond);
    w->depth++;
}

static const char *if_text(Writer *w, const Tree *t)
{
    const char *cond = scalar_text(w, t->value);
    return t->negated ? arena_printf(w->m, "!(%s)", cond) : cond;
}

/* Variables in lanes that the statements read one by one go to an array first. */
static void spill_var(const Expr *x, void *ctx)
{
    Writer *w = ctx;
    if (x->kind != X_VAR || w->var[x->id].in_memory || w->var[x->id].inside ||
        !lanes_vary(w, x)) {
        return;
    }
    int width = w->axis[w->vec].width;
    const char *name = plain_name(w, x->id);
    bool ints = x->dtype == DT_I32;
    line(w, ints ? "int32_t" : "float");
    buf_printf(w->out, " %s_lane[%d];\n", name, width);
    line(w, aid(w, ints ? AID_STORE_I32 : AID_STORE, width));
    buf_printf(w->out, "(%s_lane, %s);\n", name, var_name(w, x->id));
    w->var[x->id].in_memory = true;
}

static void spill_vars(Writer *w, const Tree *t)
{
    for (int i = 0; i < t->child.n; i++) {
        const Tree *c = t->child.at[i];
        if (c->kind == TREE_LET) {
            w->var[c->stmt->var].inside = true;
        }
        if (c->stmt) {
            expr_visit(c->stmt->value, spill_var, w);
        }
        for (int a = 0; c->kind == TREE_UPDATE && a < c->phase->acc.n; a++) {
            expr_visit(c->phase->acc.at[a].update, spill_var, w);
        }
    }
}

/* Accumulators that were updated one by one become vectors again. */
static void join_vars(Writer *w, const Tree *t)
{
    int width = w->axis[w->vec].width;
    for (int i = 0; i < t->child.n; i++) {
        const Tree *c = t->child.at[i];
        for (int a = 0; c->kind == TREE_UPDATE && a < c->phase->acc.n; a++) {
            int var = c->phase->acc.at[a].var;
            if (w->var[var].in_memory) {
                w->var[var].in_memory = false;
                line(w, var_name(w, var));
                buf_printf(w->out, " = %s(%s_lane);\n", aid(w, AID_LOAD, width),
                           plain_name(w, var));
            }
        }
    }
}

/* Lane by lane: the axis is a variable, and so is what is read of vectors. */
static void write_lanes_apart(Writer *w, const Tree *t)
{
    AxisAt before = w->axis[w->vec];
    int axis = w->vec;
    const char *name = c_name(w, axis_info(w, axis)->name);
    spill_vars(w, t);
    line(w, "");
    buf_printf(w->out, "for (int64_t %s = %" PRId64 "; %s < %" PRId64 "; %s++) {\n", name,
               before.value, name, before.value + before.width, name);
    w->depth++;
    w->apart = before;
    w->apart_axis = axis;
    w->vec = -1;
    w->axis[axis].mode = MODE_LOOP;
    open_if(w, if_text(w, t));
    write_children(w, t);
    close_brace(w);
    close_brace(w);
    w->axis[axis] = before;
    w->vec = axis;
    w->apart_axis = -1;
    join_vars(w, t);
    for (int i = 0; i < w->k->nest.var.n; i++) {
        w->var[i].in_memory = w->var[i].inside = false;
    }
}

/* A vector that lies inside as a whole needs no questions: the last lane answers for all. */
static void write_guarded_vector(Writer *w, const Tree *t)
{
    AxisAt here = w->axis[w->vec];
    w->axis[w->vec].value = here.value + here.width - 1;
    const char *last_inside = if_text(w, t);
    w->axis[w->vec] = here;
    open_if(w, last_inside);
    write_children(w, t);
    w->depth--;
    line(w, "} else {\n");
    w->depth++;
    write_lanes_apart(w, t);
    close_brace(w);
}

static void write_if(Writer *w, const Tree *t)
{
    if (t->last_part) {
        open_if(w, "part == n_parts - 1");
    } else if (w->vec >= 0 && lanes_vary(w, t->value)) {
        write_guarded_vector(w, t);
        return;
    } else {
        open_if(w, if_text(w, t));
    }
    write_children(w, t);
    close_brace(w);
}

static void write_switch(Writer *w, const Tree *t)
{
    line(w, "switch (");
    put(w, t->value, ") {\n");
    for (int i = 0; i < t->child.n; i++) {
        line(w, "case ");
        buf_printf(w->out, "%d: {\n", i + 1);
        w->depth++;
        write_tree(w, t->child.at[i]);
        line(w, "break;\n");
        close_brace(w);
    }
    line(w, "default: break;\n");
    line(w, "}\n");
}

static void write_block(Writer *w, const Tree *t)
{
    bool braces = t->child.n > 0 && t->child.at[0]->kind == TREE_BIND;
    if (braces) {
        line(w, "{\n");
        w->depth++;
    }
    write_children(w, t);
    if (braces) {
        close_brace(w);
    }
}

/* ---- statements ---- */

static void write_let(Writer *w, const Stmt *s)
{
    const Var *v = &w->k->nest.var.at[s->var];
    bool in_lanes = lanes_vary(w, s->value);
    int width = in_lanes ? w->axis[w->vec].width : 0;
    const char *type = dtype_ctype(v->dtype);
    if (in_lanes) {
        aid(w, AID_TYPES, width);
        type = arena_printf(w->m, v->dtype == DT_BOOL ? "i32x%d" : "f32x%d", width);
    }
    w->var[s->var] = (VarAt){.lanes = width};
    line(w, "const ");
    const char *name = c_name(w, v->name);
    buf_printf(w->out, "%s %s = ", type, name);
    write_value(w, s->value, in_lanes);
    buf_str(w->out, ";\n");
    if (!w->used_var[s->var]) {
        line(w, "(void)");
        buf_printf(w->out, "%s;\n", name);
    }
}

static void write_store(Writer *w, const Stmt *s)
{
    const char *name = w->k->operand.at[0].name;
    if (w->vec >= 0) {
        bool ints = w->k->operand.at[0].dtype == DT_I32;
        line(w, aid(w, ints ? AID_STORE_I32 : AID_STORE, w->axis[w->vec].width));
        buf_printf(w->out, "(&%s[", name);
        put(w, s->index, "], ");
        write_value(w, s->value, true);
        buf_str(w->out, ");\n");
        return;
    }
    line(w, name);
    buf_char(w->out, '[');
    put(w, s->index, "] = ");
    put(w, s->value, ";\n");
}

static void write_fail(Writer *w, const Stmt *s)
{
    line(w, "if (");
    put(w, s->value, ") {\n");
    line(w, "    return ");
    buf_printf(w->out, "%d;\n", s->code);
    line(w, "}\n");
}

static void write_prefetch(Writer *w, const Prefetch *p)
{
    line(w, "__builtin_prefetch((const char *)&");
    buf_printf(w->out, "%s[", w->k->operand.at[p->operand].name);
    put(w, p->index, "] + ");
    buf_printf(w->out, "%" PRId64 ");\n", p->ahead_bytes);
}

static void write_fill(Writer *w, const Staged *s)
{
    line(w, c_name(w, w->k->operand.at[s->local].name));
    buf_char(w->out, '[');
    put(w, s->index, "] = ");
    put(w, s->value, ";\n");
}

void write_tree(Writer *w, const Tree *t)
{
    switch (t->kind) {
    case TREE_BLOCK: write_block(w, t); break;
    case TREE_FOR: write_for(w, t); break;
    case TREE_BIND: write_bind(w, t); break;
    case TREE_IF: write_if(w, t); break;
    case TREE_SWITCH: write_switch(w, t); break;
    case TREE_ACC: write_acc(w, t); break;
    case TREE_INIT: write_init(w, t); break;
    case TREE_UPDATE: write_update(w, t); break;
    case TREE_COMBINE: write_combine(w, t); break;
    case TREE_LET: write_let(w, t->stmt); break;
    case TREE_STORE: write_store(w, t->stmt); break;
    case TREE_FAIL: write_fail(w, t->stmt); break;
    case TREE_PREFETCH: write_prefetch(w, t->prefetch); break;
    case TREE_FILL: write_fill(w, t->stage); break;
    }
}
