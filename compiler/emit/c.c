/* c.c - one kernel as a C file that compiles alone: the comment, the helpers it needs, the function, and
 * beside it a function for each packed operand. The output never aliases an operand (the arena's
 * rule), hence restrict. */
#include <inttypes.h>
#include <string.h>

#include "emit/emit_int.h"

/* Vectors are the schedule's business: with -O3 gcc 12 vectorises a select on bytes wrongly (a loop of
 * y[i] = bool ? a[i] : b[i] of extents 4, 4 and 2, on AVX2 and AVX-512), and the naive nest is the oracle. */
const char *const emit_flags[] = {
    "-std=gnu11",
    "-O3",
    "-fno-tree-vectorize",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-math-errno",
    "-fPIC",
    NULL,
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
    for (int i = 0; i < k->stage.n; i++) {
        expr_visit(k->stage.at[i].value, mark, &u);
    }
    return u;
}

/* ---- the kernel ---- */

static void write_params(Writer *w, const Used *used)
{
    const Kernel *k = w->k;
    for (int i = 0; i < k->operand.n; i++) {
        const Operand *o = &k->operand.at[i];
        if (o->local) {
            line(w, dtype_ctype(o->dtype));
            buf_printf(w->out, " %s[%" PRId64 "];\n", c_name(w, o->name),
                       o->span.at[0]->value.i);
        } else if (i == 0 || used->operand[i]) {
            line(w, i == 0 ? "" : "const ");
            buf_printf(w->out, "%s *restrict %s = params[%d];\n",
                       o->bf16 ? "uint16_t" : dtype_ctype(o->dtype), o->name, i);
        }
    }
    for (int i = 0; i < k->n_syms; i++) {
        if (used->sym[i]) {
            line(w, "const int64_t ");
            buf_printf(w->out, "s%d = syms[%d];\n", i, i);
            if (k->schedule) {
                line(w, "(void)");
                buf_printf(w->out, "s%d;\n", i);
            }
        }
    }
    if (used->n_syms == 0) {
        line(w, "(void)syms;\n");
    }
    if (k->parallel) {
        return;
    }
    line(w, "(void)n_parts;\n");
    line(w, "if (part != 0) {\n        return 0;\n    }\n");
}

static Writer writer_for(Env *e, const Kernel *k, const Target *t, const Used *used, Buf *out)
{
    Writer w = {.e = e,
                .m = &e->kernel,
                .k = k,
                .target = t,
                .out = out,
                .depth = 1,
                .vec = -1,
                .sums = {-1, 1},
                .apart_axis = -1};
    w.plain = !k->schedule;
    w.axis = arena_array(w.m, AxisAt, k->nest.axis.n);
    w.var = arena_array(w.m, VarAt, k->nest.var.n);
    w.used_var = used->var;
    return w;
}

static void write_function(Writer *w, const Used *used, const char *name)
{
    buf_printf(
        w->out,
        "int32_t %s(void *const *params, const int64_t *syms, int part, int n_parts)\n{\n",
        name);
    write_params(w, used);
    write_tree(w, nest_tree(w->e, w->m, w->k));
    buf_str(w->out, "    return 0;\n}\n");
}

/* ---- packing ---- */

static void mark_syms(const Expr *x, bool sym[MAX_SYMBOLS])
{
    Used u = {.operand = (bool[64]){0}};
    expr_visit(x, mark, &u);
    for (int i = 0; i < MAX_SYMBOLS; i++) {
        sym[i] = sym[i] || u.sym[i];
    }
}

static void write_element(Writer *w, const Operand *o, const Pack *p, const Expr *outside)
{
    bool widens = operand_takes_bf16(o) && !o->bf16;
    line(w, "*out++ = ");
    if (outside) {
        put(w, outside, " ? 0 : ");
    }
    if (widens) {
        aid(w, AID_LOAD_BF16, 1);
        buf_str(w->out, "bf16_(");
    }
    buf_printf(w->out, "%s[", o->name);
    put(w, p->source, widens ? "]);\n" : "];\n");
}

/* Do the layout's axes i and i + 1 make up one axis, without a rest? */
static bool halves(const Nest *n, const Pack *p, int i, int *whole)
{
    const Axis *outer = &n->axis.at[p->axis[i]];
    *whole = outer->half_of - 1;
    if (i + 1 >= p->n || *whole < 0) {
        return false;
    }
    const Axis *w = &n->axis.at[*whole];
    const Expr *turns = p->extent[i], *all = w->extent;
    return w->outer == p->axis[i] && w->inner == p->axis[i + 1] && turns->kind == X_CONST &&
           all->kind == X_CONST && turns->value.i * w->factor == all->value.i;
}

/* Halves that stand side by side become the axis that they are of, so that panels of one layout
 * have one text, however loops were split. */
static void join_halves(Nest *n, Pack *p)
{
    int whole;
    for (int i = 0; i < p->n;) {
        if (!halves(n, p, i, &whole)) {
            i++;
            continue;
        }
        n->axis.at[whole].outer = n->axis.at[whole].inner = 0;
        p->axis[i] = whole;
        p->extent[i] = n->axis.at[whole].extent;
        p->n--;
        for (int at = i + 1; at < p->n; at++) {
            p->axis[at] = p->axis[at + 1];
            p->extent[at] = p->extent[at + 1];
        }
        i = 0;
    }
}

static void write_panels(Writer *w, const char *name, int operand, const Pack *p)
{
    const Operand *o = &w->k->operand.at[operand];
    const char *type = dtype_ctype(o->dtype), *bf16 = "uint16_t";
    const Expr *outside = pack_outside(w->m, &w->k->nest, p);
    bool sym[MAX_SYMBOLS] = {0};
    mark_syms(p->source, sym);
    mark_syms(p->count, sym);
    if (outside) {
        mark_syms(outside, sym);
    }
    buf_printf(w->out, "\n/* Panels of %s; without `to` only their elements are counted. */\n",
               o->name);
    buf_printf(w->out,
               "int64_t %s_pack_%d(void *to, const void *from, const int64_t *syms)\n{\n", name,
               operand);
    buf_printf(w->out, "    %s *out = to;\n    const %s *%s = from;\n    (void)syms;\n",
               o->bf16 ? bf16 : type, operand_takes_bf16(o) ? bf16 : type, o->name);
    for (int i = 0; i < MAX_SYMBOLS; i++) {
        if (sym[i]) {
            buf_printf(w->out, "    const int64_t s%d = syms[%d];\n", i, i);
        }
    }
    buf_str(w->out, "    if (!out) {\n        return ");
    put(w, p->count, ";\n    }\n");
    for (int i = 0; i < p->n; i++) {
        const char *axis = c_name(w, w->k->nest.axis.at[p->axis[i]].name);
        line(w, "");
        buf_printf(w->out, "for (int64_t %s = 0; %s < ", axis, axis);
        put(w, p->extent[i], "; ");
        buf_printf(w->out, "%s++) {\n", axis);
        w->axis[p->axis[i]].mode = MODE_LOOP;
        w->depth++;
    }
    write_element(w, o, p, outside);
    while (w->depth > 1) {
        w->depth--;
        line(w, "}\n");
    }
    line(w, "return ");
    put(w, p->count, ";\n}\n");
}

static void write_pack(Writer *w, const char *name, int operand)
{
    const Kernel *own = w->k;
    Kernel k = *own;
    Pack p = *own->operand.at[operand].pack;
    k.nest.axis.at =
        arena_dup(w->m, own->nest.axis.at, (size_t)own->nest.axis.n * sizeof(Axis));
    join_halves(&k.nest, &p);
    w->k = &k;
    write_panels(w, name, operand, &p);
    w->k = own;
}

void emit_pack(Env *e, const Kernel *k, const Target *t, int operand, const char *name,
               Buf *out)
{
    Used used = find_used(e, k);
    Writer w = writer_for(e, k, t, &used, out);
    write_pack(&w, name, operand);
}

Hash emit_pack_hash(Env *e, const Kernel *k, const Target *t, int operand)
{
    Buf text;
    buf_init(&text, &e->kernel);
    emit_pack(e, k, t, operand, "pack", &text);
    return hash_bytes(text.at, text.len);
}

/* ---- the file ---- */

static void write_file(Env *e, const Kernel *k, const Target *t, const char *name, Buf *out)
{
    Used used = find_used(e, k);
    Buf body;
    buf_init(&body, &e->kernel);
    Writer w = writer_for(e, k, t, &used, &body);
    write_function(&w, &used, name);
    for (int i = 0; i < k->operand.n; i++) {
        if (k->operand.at[i].pack) {
            w.axis = arena_array(w.m, AxisAt, k->nest.axis.n);
            write_pack(&w, name, i);
        }
    }
    buf_str(out, "#include <math.h>\n#include <stdint.h>\n\n");
    for (int i = 0; i < N_DTYPES; i++) {
        if (used.helper[i]) {
            buf_str(out, cast_helpers[i].text);
        }
    }
    write_prelude(&w, out);
    buf_bytes(out, body.at, body.len);
}

/* Kind, key, operands and schedule; the first lines of the canonical text are those of the operands. */
static void write_comment(const Kernel *k, Buf *out)
{
    char hex[33];
    hash_hex(k->hash, hex);
    buf_printf(out, "/* %s, key %s\n", k->kind, hex);
    const char *s = strchr(k->text, '\n') + 1;
    int n = k->operand.n - k->stage.n; /* local buffers are no parameters */
    for (int i = 0; i < n; i++) {
        size_t len = strcspn(s, "\n");
        bool last = i == n - 1 && !k->schedule;
        buf_printf(out, " * %.*s%s\n", (int)len, s, last ? " */" : "");
        s += len + 1;
    }
    if (k->schedule) {
        buf_printf(out, " * schedule: %s */\n", k->schedule);
    }
}

void emit_kernel(Env *e, const Kernel *k, const Target *t, Buf *out)
{
    write_comment(k, out);
    write_file(e, k, t, k->symbol, out);
}

Hash emit_hash(Env *e, const Kernel *k, const Target *t)
{
    Buf text;
    buf_init(&text, &e->kernel);
    write_file(e, k, t, "kernel", &text);
    return hash_bytes(text.at, text.len);
}
