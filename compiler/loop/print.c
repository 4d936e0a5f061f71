/* print.c - expressions in infix, and the statement tree as people read it.
 *
 * expr_print is the one engine behind kernel text, nest_print and emitted C: the style spells
 * the leaves, the engine knows precedence. It prints the fewest parentheses that keep the
 * tree: the right operand at an equal level always has them (float arithmetic does not
 * associate), operands of unary operations are printed at the tightest level, comparisons
 * never chain. Index multiplication is printed tight, a[m*64 + k], because that is how people
 * write it. */
#include "loop/loop_int.h"

#include <math.h>
#include <string.h>

typedef struct Printer {
    Buf *out;
    const ExprStyle *style;
    const void *ctx;
} Printer;

static void print(const Printer *p, const Expr *x, Prec least);

/* ---- the engine ---- */

static bool is_negative(const Expr *x)
{
    if (dtype_class(x->dtype) == CLASS_FLOAT) {
        return signbit(x->value.f) && !isnan(x->value.f);
    }
    return x->value.i < 0;
}

/* C computes small integers as int: the result has to be cut back to its own width. */
static bool wraps(const Printer *p, const Expr *x)
{
    return p->style->c && x->dtype == DT_I8;
}

static bool ends_with(const char *s, char c)
{
    return s[strlen(s) - 1] == c;
}

static bool is_zero(const Expr *x)
{
    return x->kind == X_CONST && x->dtype == DT_F32 && x->value.f == 0 && !is_negative(x);
}

static Prec level(const Printer *p, const Expr *x)
{
    switch (x->kind) {
    case X_CONST: return is_negative(x) ? PREC_UNARY : PREC_CALL;
    case X_SELECT: return PREC_SELECT;
    case X_CAST:
        return ends_with(p->style->cast(x->a->dtype, x->dtype), '(') ? PREC_CALL : PREC_UNARY;
    case X_OP:
        if (wraps(p, x)) {
            return PREC_UNARY;
        }
        return x->op == S_RECIPROCAL && !p->style->c ? PREC_CALL : scalar_info[x->op].prec;
    default: return PREC_CALL;
    }
}

/* An integer literal is an int in C: where no other operand widens it, it says its type. */
static void print_typed(const Printer *p, const Expr *x, Prec least)
{
    if (x->kind == X_CONST) {
        p->style->constant(p->out, x->dtype, x->value, true);
    } else {
        print(p, x, least);
    }
}

static void print_binary(const Printer *p, const Expr *x)
{
    const ScalarInfo *info = &scalar_info[x->op];
    bool tight = x->dtype == DT_I64 && info->prec == PREC_MUL;
    Prec left = info->prec == PREC_COMPARE ? info->prec + 1 : info->prec;
    if (p->style->c && x->op == S_SUB && is_zero(x->a)) {
        buf_str(p->out,
                "(float){0}"); /* gcc 12 makes -(float)i of 0.0f - (float)i: -0 for +0 */
    } else {
        print(p, x->a, left);
    }
    buf_printf(p->out, tight ? "%s" : " %s ", info->c);
    print(p, x->b, info->prec + 1);
}

static void print_call(const Printer *p, const char *name, const Expr *x)
{
    buf_printf(p->out, "%s(", name);
    print(p, x, PREC_SELECT);
    buf_char(p->out, ')');
}

static void print_unary(const Printer *p, const Expr *x)
{
    const ScalarInfo *info = &scalar_info[x->op];
    if (x->op == S_NEG) {
        buf_char(p->out, '-');
        bool constant = x->a->kind == X_CONST; /* -(1): a negation, not the constant -1 */
        buf_str(p->out, constant ? "(" : "");
        print_typed(p, x->a, PREC_CALL);
        buf_str(p->out, constant ? ")" : "");
    } else if (!p->style->c) {
        print_call(p, info->name, x->a);
    } else if (x->op == S_RECIPROCAL) {
        buf_printf(p->out, "%s ", info->c);
        print(p, x->a, PREC_UNARY);
    } else {
        print_call(p, info->c, x->a);
    }
}

static void print_op(const Printer *p, const Expr *x)
{
    if (wraps(p, x)) {
        buf_printf(p->out, "(%s)(", dtype_ctype(x->dtype));
    }
    if (x->b) {
        print_binary(p, x);
    } else {
        print_unary(p, x);
    }
    if (wraps(p, x)) {
        buf_char(p->out, ')');
    }
}

static void print_select(const Printer *p, const Expr *x)
{
    print(p, x->a, PREC_OR);
    buf_str(p->out, " ? ");
    print_typed(p, x->b, PREC_OR);
    buf_str(p->out, " : ");
    print_typed(p, x->c, PREC_SELECT);
}

static void print_cast(const Printer *p, const Expr *x)
{
    const char *opening = p->style->cast(x->a->dtype, x->dtype);
    buf_str(p->out, opening);
    if (ends_with(opening, '(')) {
        print(p, x->a, PREC_SELECT);
        buf_char(p->out, ')');
    } else {
        print(p, x->a, PREC_CALL);
    }
}

static void print_load(const Printer *p, const Expr *x)
{
    const char *widen = p->style->widen ? p->style->widen(p->ctx, x->id) : NULL;
    buf_str(p->out, widen ? widen : "");
    p->style->load(p->out, p->ctx, x->id);
    buf_char(p->out, '[');
    print(p, x->a, PREC_SELECT);
    buf_str(p->out, widen ? "])" : "]");
}

static void print_fma(const Printer *p, const Expr *x)
{
    buf_str(p->out, p->style->c ? "nc_fmaf(" : "fma(");
    print_typed(p, x->a, PREC_SELECT);
    buf_str(p->out, ", ");
    print_typed(p, x->b, PREC_SELECT);
    buf_str(p->out, ", ");
    print_typed(p, x->c, PREC_SELECT);
    buf_char(p->out, ')');
}

static void print_bare(const Printer *p, const Expr *x)
{
    switch (x->kind) {
    case X_CONST: p->style->constant(p->out, x->dtype, x->value, false); break;
    case X_AXIS: p->style->axis(p->out, p->ctx, x->id); break;
    case X_SYM: p->style->sym(p->out, p->ctx, x->id); break;
    case X_VAR: p->style->var(p->out, p->ctx, x->id); break;
    case X_LOAD: print_load(p, x); break;
    case X_OP: print_op(p, x); break;
    case X_SELECT: print_select(p, x); break;
    case X_CAST: print_cast(p, x); break;
    case X_FMA: print_fma(p, x); break;
    }
}

static void print(const Printer *p, const Expr *x, Prec least)
{
    bool parens = level(p, x) < least;
    buf_str(p->out, parens ? "(" : "");
    print_bare(p, x);
    buf_str(p->out, parens ? ")" : "");
}

void expr_print(Buf *out, const ExprStyle *style, const void *ctx, const Expr *x)
{
    print(&(Printer){out, style, ctx}, x, PREC_SELECT);
}

/* ---- the text style ---- */

/* Hex digits straight from the bits: exact, and the same in every locale. */
void print_f32(Buf *out, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    buf_str(out, bits >> 31 ? "-" : "");
    int exponent = (int)(bits >> 23 & 0xff);
    uint32_t fraction = (bits & 0x7fffff) << 1; /* six hex digits */
    if (exponent == 0 && fraction == 0) {
        buf_str(out, "0.0f");
        return;
    }
    buf_printf(out, "0x%d", exponent > 0);
    if (fraction) {
        char digits[8];
        int n = snprintf(digits, sizeof digits, "%06x", (unsigned)fraction);
        while (digits[n - 1] == '0') {
            n--;
        }
        buf_printf(out, ".%.*s", n, digits);
    }
    buf_printf(out, "p%+df", exponent > 0 ? exponent - 127 : -126);
}

static void text_constant(Buf *out, Dtype t, Value v, bool typed)
{
    (void)typed;
    if (t == DT_F32) {
        if (isfinite(v.f)) {
            print_f32(out, v.f);
        } else {
            buf_str(out, isnan(v.f) ? "nan" : v.f > 0 ? "inf" : "-inf");
        }
    } else if (t == DT_BOOL) {
        buf_str(out, v.i ? "true" : "false");
    } else {
        buf_printf(out, "%lld%s", (long long)v.i, t == DT_I64 ? "" : dtype_name(t));
    }
}

static void text_axis(Buf *out, const void *ctx, int axis)
{
    buf_str(out, ((const Kernel *)ctx)->nest.axis.at[axis].name);
}

static void text_sym(Buf *out, const void *ctx, int slot)
{
    (void)ctx;
    buf_printf(out, "s%d", slot);
}

static void text_var(Buf *out, const void *ctx, int var)
{
    buf_str(out, ((const Kernel *)ctx)->nest.var.at[var].name);
}

static void text_load(Buf *out, const void *ctx, int operand)
{
    buf_str(out, ((const Kernel *)ctx)->operand.at[operand].name);
}

static const char *text_cast(Dtype from, Dtype to)
{
    static const char *const opening[N_DTYPES] = {
        [DT_F32] = "f32(",
        [DT_I64] = "i64(",
        [DT_I32] = "i32(",
        [DT_I8] = "i8(",
    };
    (void)from;
    return opening[to];
}

const ExprStyle text_style = {
    .constant = text_constant,
    .axis = text_axis,
    .sym = text_sym,
    .var = text_var,
    .load = text_load,
    .cast = text_cast,
};
