/* kernel.c - the Kernel: a nest with operands, its canonical text and its key.
 *
 * The text is complete (kernel_parse reads it back) and canonical: symbols are numbered by
 * first use, names are those that lowering gave, so equal text means the same kernel whatever
 * graph it came from. The text's hash names the kernel in the library, in the cache and in
 * the database.
 *
 *     kernel matmul                  its kind
 *     y: f32[s0*896]                 the output; [elements reached from its pointer]
 *     a: f32[s0*64]
 *     b: const f32[57344]
 *     axis m space s0
 *     axis n space 896
 *     axis k reduce 64
 *     outer m                        axes around all phases; left out where there are none
 *     phase n k                      this phase's loops, outermost first
 *         t0: f32 = a[m*64 + k]      lets inside the reduction, before the accumulators
 *         acc0: f32 = 0.0f -> acc0 + t0 * b[n*64 + k]
 *         fail 1 if acc0 != acc0     then the finish: lets, fails and stores
 *         y[m*896 + n] = acc0 */
#include "loop/loop_int.h"

#include <string.h>

/* ---- symbols, by first use ---- */

typedef struct Slots {
    Arena *arena;
    int *old;                /* by new slot */
    int to_new[MAX_SYMBOLS]; /* -1: not seen yet */
    int n;
} Slots;

static void number_node(const Expr *x, void *ctx)
{
    Slots *s = ctx;
    if (x->kind == X_SYM && s->to_new[x->id] < 0) {
        s->to_new[x->id] = s->n;
        s->old[s->n++] = x->id;
    }
}

static void number_slot(const Expr **slot, void *ctx)
{
    expr_visit(*slot, number_node, ctx);
}

/* The same tree with new numbers; what does not change is shared. */
static const Expr *renumber(const Slots *s, const Expr *x)
{
    if (!x) {
        return NULL;
    }
    Expr y = *x;
    if (x->kind == X_SYM) {
        y.id = s->to_new[x->id];
    }
    y.a = renumber(s, x->a);
    y.b = renumber(s, x->b);
    y.c = renumber(s, x->c);
    bool same = y.id == x->id && y.a == x->a && y.b == x->b && y.c == x->c;
    return same ? x : arena_dup(s->arena, &y, sizeof y);
}

static void renumber_slot(const Expr **slot, void *ctx)
{
    *slot = renumber(ctx, *slot);
}

static void kernel_exprs(Kernel *k, void (*visit)(const Expr **slot, void *ctx), void *ctx)
{
    for (int i = 0; i < k->operand.n; i++) {
        for (int j = 0; j < k->operand.at[i].span.n; j++) {
            visit(&k->operand.at[i].span.at[j], ctx);
        }
    }
    nest_exprs(&k->nest, visit, ctx);
}

/* ---- the check of what nest_check cannot see: operands ---- */

static void check_load(const Expr *x, void *ctx)
{
    const Kernel *k = ctx;
    if (x->kind == X_LOAD) {
        check(x->dtype == k->operand.at[x->id].dtype);
    }
}

static void check_loads(const Expr **slot, void *ctx)
{
    expr_visit(*slot, check_load, ctx);
}

static void check_span(const Expr *x, void *ctx)
{
    (void)ctx;
    check(x->dtype == DT_I64);
    check(x->kind == X_CONST || x->kind == X_SYM || x->kind == X_OP);
}

static void check_name(Map *seen, const char *name)
{
    check(name && *name && !map_get(seen, hash_str(name)));
    map_put(seen, hash_str(name), (void *)(uintptr_t)name);
}

/* In C operands, axes and variables are names of one scope. */
static void check_names(Env *e, const Kernel *k)
{
    Map seen;
    map_init(&seen, &e->kernel);
    for (int i = 0; i < k->operand.n; i++) {
        check_name(&seen, k->operand.at[i].name);
    }
    for (int i = 0; i < k->nest.axis.n; i++) {
        check_name(&seen, k->nest.axis.at[i].name);
    }
    for (int i = 0; i < k->nest.var.n; i++) {
        check_name(&seen, k->nest.var.at[i].name);
    }
}

static void check_kernel(Env *e, Kernel *k)
{
    check(k->kind && k->operand.n > 0);
    check_names(e, k);
    nest_check(e, &k->nest, k->operand.n, k->n_syms);
    kernel_exprs(k, check_loads, k);
    for (int i = 0; i < k->operand.n; i++) {
        const Operand *o = &k->operand.at[i];
        check(o->span.n > 0);
        for (int j = 0; j < o->span.n; j++) {
            expr_visit(o->span.at[j], check_span, NULL);
        }
    }
    for (int i = 0; i < k->nest.phase.n; i++) {
        const Phase *p = &k->nest.phase.at[i];
        for (int j = 0; j < p->finish.n; j++) {
            const Stmt *s = &p->finish.at[j];
            check(s->kind != STMT_STORE || s->value->dtype == k->operand.at[0].dtype);
        }
    }
}

/* ---- text ---- */

static void put(Buf *out, const Kernel *k, const Expr *x)
{
    expr_print(out, &text_style, k, x);
}

static void operand_text(Buf *out, const Kernel *k, const Operand *o)
{
    buf_printf(out, "%s: %s%s%s[", o->name, o->constant ? "const " : "", dtype_name(o->dtype),
               o->from_bf16 ? " from bf16" : "");
    bool several = o->span.n > 1;
    buf_str(out, several ? "max(" : "");
    for (int i = 0; i < o->span.n; i++) {
        buf_str(out, i > 0 ? ", " : "");
        put(out, k, o->span.at[i]);
    }
    buf_str(out, several ? ")]\n" : "]\n");
}

static void loops_text(Buf *out, const Kernel *k, const char *word, const int *axes, int n)
{
    buf_str(out, word);
    for (int i = 0; i < n; i++) {
        buf_printf(out, " %s", k->nest.axis.at[axes[i]].name);
    }
    buf_char(out, '\n');
}

static void declared_text(Buf *out, const Kernel *k, int var)
{
    const Var *v = &k->nest.var.at[var];
    buf_printf(out, "%s: %s = ", v->name, dtype_name(v->dtype));
}

static void stmt_text(Buf *out, const Kernel *k, const Stmt *s)
{
    buf_str(out, "    ");
    switch (s->kind) {
    case STMT_LET: declared_text(out, k, s->var); break;
    case STMT_STORE:
        buf_printf(out, "%s[", k->operand.at[0].name);
        put(out, k, s->index);
        buf_str(out, "] = ");
        break;
    case STMT_FAIL: buf_printf(out, "fail %d if ", s->code); break;
    }
    put(out, k, s->value);
    buf_char(out, '\n');
}

static void phase_text(Buf *out, const Kernel *k, const Phase *p)
{
    loops_text(out, k, "phase", p->loops.at, p->loops.n);
    for (int i = 0; i < p->body.n; i++) {
        stmt_text(out, k, &p->body.at[i]);
    }
    for (int i = 0; i < p->acc.n; i++) {
        buf_str(out, "    ");
        declared_text(out, k, p->acc.at[i].var);
        put(out, k, p->acc.at[i].init);
        buf_str(out, " -> ");
        put(out, k, p->acc.at[i].update);
        buf_char(out, '\n');
    }
    for (int i = 0; i < p->finish.n; i++) {
        stmt_text(out, k, &p->finish.at[i]);
    }
}

void kernel_text(Env *e, const Kernel *k, Buf *out)
{
    (void)e;
    buf_printf(out, "kernel %s\n", k->kind);
    for (int i = 0; i < k->operand.n; i++) {
        operand_text(out, k, &k->operand.at[i]);
    }
    const Nest *n = &k->nest;
    for (int i = 0; i < n->axis.n; i++) {
        const Axis *a = &n->axis.at[i];
        buf_printf(out, "axis %s %s ", a->name, a->kind == AXIS_SPACE ? "space" : "reduce");
        put(out, k, a->extent);
        buf_char(out, '\n');
    }
    if (n->outer.n > 0) {
        loops_text(out, k, "outer", n->outer.at, n->outer.n);
    }
    for (int i = 0; i < n->phase.n; i++) {
        phase_text(out, k, &n->phase.at[i]);
    }
}

void kernel_finish(Env *e, Arena *m, Kernel *k, int slots[MAX_SYMBOLS])
{
    Slots s = {.arena = m, .old = slots};
    memset(s.to_new, -1, sizeof s.to_new);
    kernel_exprs(k, number_slot, &s);
    kernel_exprs(k, renumber_slot, &s);
    k->n_syms = s.n;
    check_kernel(e, k);
    Buf text;
    buf_init(&text, m);
    kernel_text(e, k, &text);
    k->text = text.at;
    k->hash = hash_bytes(text.at, text.len);
    memcpy(k->symbol, "nc_", 3);
    hash_hex(k->hash, k->symbol + 3);
}

int operand_bytes(const Operand *o)
{
    return o->bf16 ? 2 : dtype_bytes(o->dtype);
}

bool operand_takes_bf16(const Operand *o)
{
    return o->bf16 || (o->pack && o->from_bf16);
}

int operand_given_bytes(const Operand *o)
{
    return operand_takes_bf16(o) ? 2 : dtype_bytes(o->dtype);
}

static int64_t longest(const Expr *const *span, int n, const int64_t *syms)
{
    int64_t most = 0;
    for (int i = 0; i < n; i++) {
        int64_t here = expr_value(span[i], syms);
        most = here > most ? here : most;
    }
    return most;
}

int64_t kernel_span(const Kernel *k, int operand, const int64_t *syms)
{
    const Operand *o = &k->operand.at[operand];
    return longest(o->span.at, o->span.n, syms);
}

size_t operand_stored_bytes(const Kernel *k, int operand, const int64_t *syms)
{
    return (size_t)kernel_span(k, operand, syms) *
           (size_t)operand_bytes(&k->operand.at[operand]);
}

int64_t kernel_given_span(const Kernel *k, int operand, const int64_t *syms)
{
    const Pack *p = k->operand.at[operand].pack;
    return p ? longest(p->span.at, p->span.n, syms) : kernel_span(k, operand, syms);
}
