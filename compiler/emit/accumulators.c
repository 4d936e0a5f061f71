/* accumulators.c - accumulators as C: one named scalar or vector for each written-out point or vector of
 * their axes (an array would be spilled), how they start and go on, and how the private ones of a point
 * join: in the same fixed tree as in the nest interpreter, whether points join one by one or
 * many at once into the lanes of one vector. */
#include <inttypes.h>

#include "emit/emit_int.h"

/* ---- instances ---- */

/* Calls each for every named instance: written-out axes and vectors run through their values. points:
 * axes that are loops do too, else they stay variables. */
static void each_instance(Writer *w, const VarShape *v, int from, bool points,
                          void (*each)(Writer *w, const void *ctx), const void *ctx)
{
    if (from == v->n) {
        each(w, ctx);
        return;
    }
    int axis = v->axis[from], width = shape_width(w, v, from);
    AxisAt before = w->axis[axis];
    bool named = width > 0 || points;
    width = width > 0 ? width : 1;
    int vec = w->vec;
    for (int64_t i = 0; i < (named ? v->extent[from] : 1); i += width) {
        w->axis[axis] = named ? (AxisAt){width > 1 ? MODE_LANES : MODE_CONST, i, width}
                              : (AxisAt){MODE_LOOP, 0, 1};
        w->vec = width > 1 ? axis : vec;
        each_instance(w, v, from + 1, points, each, ctx);
    }
    w->vec = vec;
    w->axis[axis] = before;
}

static const char *var_type(Writer *w, int var)
{
    Dtype t = w->k->nest.var.at[var].dtype;
    if (w->vec < 0) {
        return dtype_ctype(t);
    }
    int width = w->axis[w->vec].width;
    const char *floats = aid(w, AID_TYPES, width);
    return t == DT_I32 ? arena_printf(w->m, "i32x%d", width) : floats;
}

static bool in_array(const Writer *w, const VarShape *v)
{
    for (int i = 0; i < v->n; i++) {
        if (shape_width(w, v, i) == 0) {
            return true;
        }
    }
    return false;
}

/* Dimensions of the axes that stay loops: "acc0[m_i]" is declared as "acc0[4]". */
static void declare_array(Writer *w, const void *ctx)
{
    int var = *(const int *)ctx;
    const VarShape *v = &w->var[var].shape;
    line(w, var_type(w, var));
    buf_printf(w->out, " %s", plain_name(w, var));
    for (int i = 0; i < v->n; i++) {
        if (shape_width(w, v, i) == 0) {
            buf_printf(w->out, "[%" PRId64 "]", v->extent[i]);
        }
    }
    buf_str(w->out, ";\n");
}

/* Named instances are declared where they start. */
void write_acc(Writer *w, const Tree *t)
{
    for (int i = 0; i < t->phase->acc.n; i++) {
        int var = t->phase->acc.at[i].var;
        w->var[var] = (VarAt){.shape = t->shape};
        for (int d = 0; d < t->shape.n; d++) {
            w->var[var].priv = w->var[var].priv || axis_info(w, t->shape.axis[d])->priv;
        }
        if (in_array(w, &t->shape)) {
            each_instance(w, &t->shape, 0, false, declare_array, &var);
        }
    }
}

void write_init(Writer *w, const Tree *t)
{
    bool declared = in_array(w, &t->shape) || t->again;
    for (int i = 0; i < t->phase->acc.n; i++) {
        const Accum *acc = &t->phase->acc.at[i];
        line(w, declared ? "" : var_type(w, acc->var));
        buf_printf(w->out, "%s%s = ", declared ? "" : " ", var_name(w, acc->var));
        write_value(w, acc->init, w->vec >= 0);
        buf_str(w->out, ";\n");
        if (!w->used_var[acc->var] && !t->again) {
            line(w, "(void)");
            buf_printf(w->out, "%s;\n", var_name(w, acc->var));
        }
    }
}

void write_update(Writer *w, const Tree *t)
{
    for (int i = 0; i < t->phase->acc.n; i++) {
        const Accum *acc = &t->phase->acc.at[i];
        const char *name = var_name(w, acc->var);
        line(w, name);
        buf_str(w->out, " = ");
        if (w->dot) {
            buf_str(w->out, dot_text(w, acc));
        } else {
            write_value(w, acc->update, w->vec >= 0);
        }
        buf_str(w->out, ";\n");
    }
}

/* ---- sums that become the lanes of one vector ---- */

/* Whether points beside each other along the axis may be computed in lanes: all f32, next to each other in memory
 * or the same for all. */
static bool goes_in_lanes(Writer *w, const Expr *x, int axis)
{
    int64_t stride;
    if (!x || x->kind == X_CONST) {
        return true;
    }
    if (x->dtype != DT_F32) {
        return false;
    }
    if (x->kind == X_LOAD) {
        return index_stride(w->e, &w->k->nest, x->a, axis, &stride) &&
               (stride == 0 || stride == 1);
    }
    bool known = x->kind == X_VAR || x->kind == X_OP || x->kind == X_FMA;
    return known && goes_in_lanes(w, x->a, axis) && goes_in_lanes(w, x->b, axis) &&
           goes_in_lanes(w, x->c, axis);
}

static bool finish_goes_in_lanes(Writer *w, const Phase *p, int axis)
{
    for (int i = 0; i < p->finish.n; i++) {
        const Stmt *s = &p->finish.at[i];
        int64_t stride;
        if (s->kind == STMT_FAIL || !goes_in_lanes(w, s->value, axis)) {
            return false;
        }
        if (s->kind == STMT_STORE &&
            !(index_stride(w->e, &w->k->nest, s->index, axis, &stride) && stride == 1)) {
            return false;
        }
    }
    return true;
}

/* Joining many sums at once costs a third of joining each by itself, where they may stay in lanes for what
 * follows: the innermost written-out axis along which they do. */
static SumsAt sums_in_lanes(Writer *w, const Tree *t)
{
    const Expr *addend;
    int width = 1;
    for (int i = 0; i < t->priv.n; i++) {
        int here = shape_width(w, &t->priv, i);
        width = here > 1 ? here : width;
    }
    for (int i = 0; i < t->phase->acc.n; i++) {
        width = acc_is_sum(&t->phase->acc.at[i], &addend) ? width : 1;
    }
    for (int i = t->shape.n - 1; i >= 0 && width > 1 && t->last; i--) {
        bool written_out = shape_width(w, &t->shape, i) == 1 && t->shape.extent[i] % width == 0;
        if (written_out && finish_goes_in_lanes(w, t->phase, t->shape.axis[i])) {
            return (SumsAt){t->shape.axis[i], width};
        }
    }
    return (SumsAt){-1, 1};
}

/* ---- combining private accumulators ---- */

typedef struct Combine {
    const Tree *t;
    const Accum *acc;
    const char *part[256]; /* names of the private instances of one tile point */
    int n;
    int width; /* lanes in each: 1 for scalars */
} Combine;

static void collect_part(Writer *w, const void *ctx)
{
    Combine *c = (Combine *)ctx;
    c->part[c->n++] = var_name(w, c->acc->var);
    c->width = w->vec >= 0 ? w->axis[w->vec].width : 1;
}

static void write_join(Writer *w, const Combine *c, const char *into, const char *from)
{
    const Expr *value;
    line(w, into);
    if (acc_is_sum(c->acc, &value)) {
        buf_printf(w->out, " = %s + %s;\n", into, from);
    } else if (c->width > 1) {
        buf_printf(w->out, " = %s((%s < %s) | (%s != %s), %s, %s);\n",
                   aid(w, AID_SELECT, c->width), into, from, from, from, from, into);
    } else {
        buf_printf(w->out, " = %s < %s || %s != %s ? %s : %s;\n", into, from, from, from, from,
                   into);
    }
}

/* The upper half joins the lower until one is left: its name. Its lanes are still apart. */
static const char *join_parts(Writer *w, Combine *c)
{
    c->n = 0;
    each_instance(w, &c->t->priv, 0, true, collect_part, c);
    for (int n = c->n; n > 1; n = (n + 1) / 2) {
        for (int i = 0; i < n / 2; i++) {
            write_join(w, c, c->part[i], c->part[i + (n + 1) / 2]);
        }
    }
    return c->part[0];
}

/* The instance at this place, declared unless it lies in an array, is what value says. */
static void write_combined(Writer *w, const Combine *c, const char *value)
{
    int var = c->acc->var;
    VarAt before = w->var[var];
    w->var[var] = (VarAt){.shape = c->t->shape};
    bool declared = in_array(w, &c->t->shape);
    line(w, declared ? "" : var_type(w, var));
    buf_printf(w->out, "%s%s = %s;\n", declared ? "" : " ", var_name(w, var), value);
    w->var[var] = before;
}

/* One point by itself: the lanes of its last part join in the same tree. */
static void combine_point(Writer *w, const void *ctx)
{
    Combine *c = (Combine *)ctx;
    const Expr *value;
    const char *last = join_parts(w, c);
    Aid id = acc_is_sum(c->acc, &value) ? AID_SUM : AID_MAX;
    write_combined(
        w, c, c->width > 1 ? arena_printf(w->m, "%s(%s)", aid(w, id, c->width), last) : last);
}

/* As many points side by side as each has lanes: they become the lanes of one vector. */
static void combine_points(Writer *w, const void *ctx)
{
    Combine *c = (Combine *)ctx;
    SumsAt sums = w->sums;
    AxisAt here = w->axis[sums.axis];
    Buf call;
    buf_init(&call, w->m);
    buf_printf(&call, "%s(", aid(w, AID_SUMS, sums.width));
    w->sums = (SumsAt){-1, 1}; /* the parts are still those of single points */
    w->vec = -1;
    for (int i = 0; i < sums.width; i++) {
        w->axis[sums.axis] = (AxisAt){MODE_CONST, here.value + i, 1};
        buf_printf(&call, "%s%s", i > 0 ? ", " : "", join_parts(w, c));
    }
    buf_char(&call, ')');
    w->sums = sums;
    w->vec = sums.axis;
    w->axis[sums.axis] = here;
    write_combined(w, c, call.at);
}

static void write_combine_of(Writer *w, const Tree *t, const Accum *acc)
{
    Combine c = {.t = t, .acc = acc};
    int var = acc->var;
    VarAt before = w->var[var];
    w->var[var] = (VarAt){.shape = t->shape};
    if (in_array(w, &t->shape)) {
        each_instance(w, &t->shape, 0, false, declare_array, &var);
    }
    w->var[var] = before;
    each_instance(w, &t->shape, 0, true, w->sums.axis >= 0 ? combine_points : combine_point,
                  &c);
    w->var[var] = (VarAt){.shape = t->shape};
}

void write_combine(Writer *w, const Tree *t)
{
    w->sums = sums_in_lanes(w, t);
    for (int i = 0; i < t->phase->acc.n; i++) {
        write_combine_of(w, t, &t->phase->acc.at[i]);
    }
}
