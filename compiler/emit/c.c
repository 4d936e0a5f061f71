/* c.c - one kernel as a C file that compiles alone.
 *
 * The nest is printed as it stands: a loop an axis, named by the axis; a variable a let or an
 * accumulator. Expressions come from expr_print with the C style below. The arithmetic is
 * exactly the nest interpreter's: f32 operations stay float, integers are cut to their width,
 * float to integer saturates. The output never aliases an operand (the arena's rule), hence
 * restrict. */
#include "emit/emit.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *const emit_flags[] = {
    "-std=gnu11", "-O3", "-ffp-contract=off", "-fwrapv", "-fno-math-errno", "-fPIC", NULL,
};

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
static void c_constant(Buf *out, Dtype t, Value v, bool typed)
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
    buf_str(out, ((const Kernel *)ctx)->nest.axis.at[axis].name);
}

static void c_sym(Buf *out, const void *ctx, int slot)
{
    (void)ctx;
    buf_printf(out, "s%d", slot);
}

static void c_var(Buf *out, const void *ctx, int var)
{
    buf_str(out, ((const Kernel *)ctx)->nest.var.at[var].name);
}

static void c_load(Buf *out, const void *ctx, int operand)
{
    buf_str(out, ((const Kernel *)ctx)->operand.at[operand].name);
}

/* Float to integer: C leaves what does not fit undefined, so these saturate; NaN is 0. */
typedef struct Helper {
    const char *opening; /* of a call */
    const char *text;    /* the definition */
} Helper;

/* Guarded, so that the C of many kernels may stand in one file. */
#define SATURATE(t, ctype, bound, MIN, MAX)                                            \
    {                                                                                  \
        "f32_to_" t "(", "#ifndef NC_TO_" MIN "\n#define NC_TO_" MIN "\n"              \
                         "static inline " ctype " f32_to_" t "(float x)\n{\n"          \
                         "    if (x >= " bound ") {\n        return " MAX ";\n    }\n" \
                         "    if (x < -" bound ") {\n        return " MIN ";\n    }\n" \
                         "    return x == x ? (" ctype ")x : 0;\n}\n#endif\n\n"        \
    }

static const Helper helpers[N_DTYPES] = {
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
    return from == DT_F32 ? helpers[to].opening : prefix[to];
}

static const ExprStyle c_style = {
    .constant = c_constant,
    .axis = c_axis,
    .sym = c_sym,
    .var = c_var,
    .load = c_load,
    .cast = c_cast,
    .c = true,
};

/* ---- what the code mentions, so that nothing else is declared ---- */

typedef struct Used {
    bool sym[MAX_SYMBOLS];
    bool helper[N_DTYPES];
    bool *operand, *var;
    int n_syms; /* how many symbols */
} Used;

static void mark(const Expr *x, void *ctx)
{
    Used *u = ctx;
    switch (x->kind) {
    case X_SYM:
        u->n_syms += !u->sym[x->id];
        u->sym[x->id] = true;
        break;
    case X_LOAD: u->operand[x->id] = true; break;
    case X_VAR: u->var[x->id] = true; break;
    case X_CAST: u->helper[x->dtype] |= x->a->dtype == DT_F32; break;
    default: break;
    }
}

static void mark_slot(const Expr **slot, void *ctx)
{
    expr_visit(*slot, mark, ctx);
}

static Used find_used(Env *e, const Kernel *k)
{
    Used u = {
        .operand = arena_array(&e->kernel, bool, k->operand.n),
        .var = arena_array(&e->kernel, bool, k->nest.var.n),
    };
    Nest nest = k->nest; /* nest_exprs may write; mark does not */
    nest_exprs(&nest, mark_slot, &u);
    return u;
}

/* ---- statements ---- */

typedef struct Writer {
    const Kernel *k;
    const Used *used;
    Buf *out;
    int depth;
} Writer;

static void line(const Writer *w, const char *text)
{
    for (int i = 0; i < w->depth; i++) {
        buf_str(w->out, "    ");
    }
    buf_str(w->out, text);
}

static void put(const Writer *w, const Expr *x, const char *after)
{
    expr_print(w->out, &c_style, w->k, x);
    buf_str(w->out, after);
}

static void open_loops(Writer *w, const int *axes, int n, AxisKind kind)
{
    const Nest *nest = &w->k->nest;
    for (int i = 0; i < n; i++) {
        const Axis *a = &nest->axis.at[axes[i]];
        if (a->kind == kind && !axis_is_unit(nest, axes[i])) {
            line(w, "");
            buf_printf(w->out, "for (int64_t %s = 0; %s < ", a->name, a->name);
            put(w, a->extent, "");
            buf_printf(w->out, "; %s++) {\n", a->name);
            w->depth++;
        }
    }
}

static void close_loops(Writer *w, int depth)
{
    while (w->depth > depth) {
        w->depth--;
        line(w, "}\n");
    }
}

static void declare(const Writer *w, const char *qualifier, int var, const Expr *value)
{
    const Var *v = &w->k->nest.var.at[var];
    line(w, qualifier);
    buf_printf(w->out, "%s %s = ", dtype_ctype(v->dtype), v->name);
    put(w, value, ";\n");
    if (!w->used->var[var]) {
        line(w, "(void)");
        buf_printf(w->out, "%s;\n", v->name);
    }
}

static void write_stmt(const Writer *w, const Stmt *s)
{
    switch (s->kind) {
    case STMT_LET: declare(w, "const ", s->var, s->value); break;
    case STMT_STORE:
        line(w, w->k->operand.at[0].name);
        buf_char(w->out, '[');
        put(w, s->index, "] = ");
        put(w, s->value, ";\n");
        break;
    case STMT_FAIL:
        line(w, "if (");
        put(w, s->value, ") {\n");
        line(w, "    return ");
        buf_printf(w->out, "%d;\n", s->code);
        line(w, "}\n");
        break;
    }
}

static void write_phase(Writer *w, const Phase *p)
{
    int outside = w->depth;
    open_loops(w, p->loops.at, p->loops.n, AXIS_SPACE);
    for (int i = 0; i < p->acc.n; i++) {
        declare(w, "", p->acc.at[i].var, p->acc.at[i].init);
    }
    int point = w->depth;
    open_loops(w, p->loops.at, p->loops.n, AXIS_REDUCE);
    for (int i = 0; i < p->body.n; i++) {
        write_stmt(w, &p->body.at[i]);
    }
    for (int i = 0; i < p->acc.n; i++) {
        line(w, w->k->nest.var.at[p->acc.at[i].var].name);
        buf_str(w->out, " = ");
        put(w, p->acc.at[i].update, ";\n");
    }
    close_loops(w, point);
    for (int i = 0; i < p->finish.n; i++) {
        write_stmt(w, &p->finish.at[i]);
    }
    close_loops(w, outside);
}

/* ---- the function ---- */

static void write_params(const Writer *w)
{
    const Kernel *k = w->k;
    for (int i = 0; i < k->operand.n; i++) {
        const Operand *o = &k->operand.at[i];
        if (i == 0 || w->used->operand[i]) {
            line(w, i == 0 ? "" : "const ");
            buf_printf(w->out, "%s *restrict %s = params[%d];\n", dtype_ctype(o->dtype),
                       o->name, i);
        }
    }
    for (int i = 0; i < k->n_syms; i++) {
        if (w->used->sym[i]) {
            line(w, "");
            buf_printf(w->out, "const int64_t s%d = syms[%d];\n", i, i);
        }
    }
    if (w->used->n_syms == 0) {
        line(w, "(void)syms;\n");
    }
    line(w, "(void)n_parts;\n");
    line(w, "if (part != 0) {\n        return 0;\n    }\n");
}

static void write_file(Env *e, const Kernel *k, const char *name, Buf *out)
{
    Used used = find_used(e, k);
    Writer w = {.k = k, .used = &used, .out = out};
    buf_str(out, "#include <math.h>\n#include <stdint.h>\n\n");
    for (int i = 0; i < N_DTYPES; i++) {
        if (used.helper[i]) {
            buf_str(out, helpers[i].text);
        }
    }
    buf_printf(
        out, "int32_t %s(void *const *params, const int64_t *syms, int part, int n_parts)\n{\n",
        name);
    w.depth = 1;
    write_params(&w);
    open_loops(&w, k->nest.outer.at, k->nest.outer.n, AXIS_SPACE);
    for (int i = 0; i < k->nest.phase.n; i++) {
        write_phase(&w, &k->nest.phase.at[i]);
    }
    close_loops(&w, 1);
    buf_str(out, "    return 0;\n}\n");
}

/* Kind, key and operands; the first lines of the canonical text are those of the operands. */
static void write_comment(const Kernel *k, Buf *out)
{
    buf_printf(out, "/* %s, key %s\n", k->kind, k->symbol + 3);
    const char *s = strchr(k->text, '\n') + 1;
    for (int i = 0; i < k->operand.n; i++) {
        size_t len = strcspn(s, "\n");
        buf_printf(out, " * %.*s%s\n", (int)len, s, i == k->operand.n - 1 ? " */" : "");
        s += len + 1;
    }
}

void emit_kernel(Env *e, const Kernel *k, Buf *out)
{
    write_comment(k, out);
    write_file(e, k, k->symbol, out);
}

Hash emit_hash(Env *e, const Kernel *k)
{
    Buf text;
    buf_init(&text, &e->kernel);
    write_file(e, k, "kernel", &text);
    return hash_bytes(text.at, text.len);
}
