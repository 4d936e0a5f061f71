/* text.c - lines, names and scalar expressions as C at the place that is being written.
 *
 * The arithmetic is exactly the nest interpreter's: f32 operations stay float, integers are cut to their
 * width, float to integer saturates. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "emit/emit_int.h"

void line(const Writer *w, const char *text)
{
    for (int i = 0; i < w->depth; i++) {
        buf_str(w->out, "    ");
    }
    buf_str(w->out, text);
}

const Axis *axis_info(const Writer *w, int axis)
{
    return &w->k->nest.axis.at[axis];
}

const char *c_name(Writer *w, const char *name)
{
    char *c = arena_str(w->m, name);
    for (char *p = c; *p; p++) {
        *p = *p == '.' ? '_' : *p;
    }
    return c;
}

/* How an axis of an accumulator's shape appears here: lanes of a vector; 1: written out; 0: a loop. */
int shape_width(const Writer *w, const VarShape *v, int i)
{
    const Axis *a = &w->k->nest.axis.at[v->axis[i]];
    if (!v->fixed[i]) {
        return 0;
    }
    if (v->axis[i] == w->sums.axis) {
        return w->sums.width;
    }
    int width = a->vec && w->k->in_lanes ? width_for(w, v->extent[i]) : 1;
    return width > 1 ? width : a->unroll || v->extent[i] == 1 ? 1 : 0;
}

/* Written-out axes and vectors are part of the name; others index an array. */
const char *plain_name(Writer *w, int var)
{
    const VarAt *v = &w->var[var];
    const char *name =
        arena_printf(w->m, "%s%s", c_name(w, w->k->nest.var.at[var].name), v->priv ? "p" : "");
    for (int i = 0; i < v->shape.n; i++) {
        bool apart = v->shape.axis[i] == w->apart_axis;
        const AxisAt *a = apart ? &w->apart : &w->axis[v->shape.axis[i]];
        if (shape_width(w, &v->shape, i) > 0) {
            name =
                arena_printf(w->m, "%s_%" PRId64, name, a->value / (a->width ? a->width : 1));
        }
    }
    return name;
}

const char *var_name(Writer *w, int var)
{
    const VarAt *v = &w->var[var];
    const char *name = plain_name(w, var);
    if (v->in_memory) {
        const char *axis = c_name(w, w->k->nest.axis.at[w->apart_axis].name);
        return arena_printf(w->m, "%s_lane[%s - %" PRId64 "]", name, axis, w->apart.value);
    }
    for (int i = 0; i < v->shape.n; i++) {
        const AxisAt *a = &w->axis[v->shape.axis[i]];
        if (shape_width(w, &v->shape, i) > 0) {
            continue;
        }
        name = a->mode == MODE_LOOP
                   ? arena_printf(w->m, "%s[%s]", name,
                                  c_name(w, w->k->nest.axis.at[v->shape.axis[i]].name))
                   : arena_printf(w->m, "%s[%" PRId64 "]", name, a->value);
    }
    return name;
}

/* ---- the C style of expressions ---- */

static void c_float(Buf *out, float f)
{
    if (isfinite(f)) {
        print_f32(out, f);
    } else {
        buf_str(out, isnan(f) ? "NAN" : f > 0 ? "INFINITY" : "(-INFINITY)");
    }
}

/* The smallest values have no literal; C would read -2147483648 as the negation of a long. */
void c_constant(Buf *out, Dtype t, Value v, bool typed)
{
    if (t == DT_F32) {
        c_float(out, v.f);
    } else if (t == DT_I64 && v.i == INT64_MIN) {
        buf_str(out, "INT64_MIN");
    } else if (t == DT_I64 && (typed || v.i > INT32_MAX || v.i <= INT32_MIN)) {
        buf_printf(out, "INT64_C(%" PRId64 ")", v.i);
    } else if (t == DT_I32 && v.i == INT32_MIN) {
        buf_str(out, "INT32_MIN");
    } else {
        buf_printf(out, "%" PRId64, v.i);
    }
}

static void c_axis(Buf *out, const void *ctx, int axis)
{
    Writer *w = (Writer *)ctx;
    buf_str(out, c_name(w, w->k->nest.axis.at[axis].name));
}

static void c_sym(Buf *out, const void *ctx, int slot)
{
    (void)ctx;
    buf_printf(out, "s%d", slot);
}

static void c_var(Buf *out, const void *ctx, int var)
{
    buf_str(out, var_name((Writer *)ctx, var));
}

static void c_load(Buf *out, const void *ctx, int operand)
{
    Writer *w = (Writer *)ctx;
    buf_str(out, c_name(w, w->k->operand.at[operand].name));
}

static const char *c_widen(const void *ctx, int operand)
{
    return ((const Writer *)ctx)->k->operand.at[operand].bf16 ? "bf16_(" : NULL;
}

/* Float to integer: C leaves what does not fit undefined, so these saturate; NaN is 0. Guarded, so that
 * the C of many kernels may stand in one file. */
#define SATURATE(t, ctype, bound, MIN, MAX)                                            \
    {                                                                                  \
        "f32_to_" t "(", "#ifndef NC_TO_" MIN "\n#define NC_TO_" MIN "\n"              \
                         "static inline " ctype " f32_to_" t "(float x)\n{\n"          \
                         "    if (x >= " bound ") {\n        return " MAX ";\n    }\n" \
                         "    if (x < -" bound ") {\n        return " MIN ";\n    }\n" \
                         "    return x == x ? (" ctype ")x : 0;\n}\n#endif\n\n"        \
    }

const CastHelper cast_helpers[N_DTYPES] = {
    [DT_I64] = SATURATE("i64", "int64_t", "0x1p+63f", "INT64_MIN", "INT64_MAX"),
    [DT_I32] = SATURATE("i32", "int32_t", "0x1p+31f", "INT32_MIN", "INT32_MAX"),
    [DT_I8] = SATURATE("i8", "int8_t", "0x1p+7f", "INT8_MIN", "INT8_MAX"),
};

static const char *c_cast(Dtype from, Dtype to)
{
    static const char *const prefix[N_DTYPES] = {
#define X(id, name, bytes, ctype, class) [DT_##id] = "(" ctype ")",
        DTYPES(X)
#undef X
    };
    return from == DT_F32 ? cast_helpers[to].opening : prefix[to];
}

const ExprStyle c_style = {
    .constant = c_constant,
    .axis = c_axis,
    .sym = c_sym,
    .var = c_var,
    .load = c_load,
    .widen = c_widen,
    .cast = c_cast,
    .c = true,
};

/* ---- expressions at this place ---- */

static bool index_only(const Expr *x)
{
    if (!x) {
        return true;
    }
    bool leaf = x->kind == X_AXIS || x->kind == X_SYM || x->kind == X_CONST;
    return x->dtype == DT_I64 &&
           (leaf || (x->kind == X_OP && index_only(x->a) && index_only(x->b)));
}

static const Expr *axes_here(Writer *w, const Expr *x)
{
    if (!x) {
        return NULL;
    }
    if (x->kind == X_AXIS) {
        const AxisAt *a = &w->axis[x->id];
        bool variable = a->mode == MODE_LOOP || w->k->nest.axis.at[x->id].outer;
        return variable ? x : x_int(w->m, a->mode == MODE_ZERO ? 0 : a->value);
    }
    if (x->kind == X_OP && x->b) {
        return x_op(w->m, x->op, axes_here(w, x->a), axes_here(w, x->b));
    }
    Expr y = *x;
    y.a = axes_here(w, x->a);
    y.b = axes_here(w, x->b);
    y.c = axes_here(w, x->c);
    bool same = y.a == x->a && y.b == x->b && y.c == x->c;
    return same ? x : arena_dup(w->m, &y, sizeof y);
}

/* Split axes are written as their halves first; then these as constants or variables. */
static const Expr *index_here(Writer *w, const Expr *x)
{
    const Nest *n = &w->k->nest;
    return index_simplify(w->m, n, axes_here(w, index_simplify(w->m, n, x)));
}

const Expr *localize(Writer *w, const Expr *x)
{
    if (!x || w->plain) {
        return x;
    }
    if (index_only(x)) {
        return index_here(w, x);
    }
    Expr y = *x;
    y.a = localize(w, x->a);
    y.b = localize(w, x->b);
    y.c = localize(w, x->c);
    bool same = y.a == x->a && y.b == x->b && y.c == x->c;
    return same ? x : arena_dup(w->m, &y, sizeof y);
}

static void want_aids(const Expr *x, void *ctx)
{
    Writer *w = ctx;
    if (x->kind == X_OP && x->op == S_EXP_APPROX) {
        aid(w, AID_SCALAR_EXP, 1);
    }
    bool fused = x->kind == X_OP && x->op == S_EXP_FUSED;
    if (fused) {
        aid(w, AID_SCALAR_EXP_FUSED, 1);
    }
    if (fused || x->kind == X_FMA) {
        aid(w, AID_SCALAR_FMA, 1);
    }
    if (x->kind == X_LOAD && w->k->operand.at[x->id].bf16) {
        aid(w, AID_LOAD_BF16, 1);
    }
}

const char *scalar_text(Writer *w, const Expr *x)
{
    Buf b;
    buf_init(&b, w->m);
    expr_visit(x, want_aids, w);
    expr_print(&b, &c_style, w, localize(w, x));
    return b.at;
}

void put(Writer *w, const Expr *x, const char *after)
{
    buf_str(w->out, scalar_text(w, x));
    buf_str(w->out, after);
}
