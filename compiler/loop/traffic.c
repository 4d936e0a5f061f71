/* traffic.c - exact counts: bytes moved and float operations, as polynomials in the symbols.
 * Bytes are counted by lowering, call by call, and only summed here; operations are read off the nest.
 * spec: loop-ir 3 */
#include "loop/loop.h"

Dim program_bytes(Env *e, const Program *p, Dim *read, Dim *written)
{
    Dim r = dim_int(0), w = dim_int(0);
    for (int i = 0; i < p->call.n; i++) {
        r = dim_add(e, r, p->call.at[i].read_bytes);
        w = dim_add(e, w, p->call.at[i].write_bytes);
    }
    if (read) {
        *read = r;
    }
    if (written) {
        *written = w;
    }
    return dim_add(e, r, w);
}

int64_t call_bytes(const Program *p, const Call *c, const int64_t *size)
{
    static const int64_t none[MAX_SYMBOLS]; /* spans of weights depend on none */
    const Kernel *k = p->kernel.at[c->kernel];
    int64_t read = dim_value(c->read_bytes, size), saved = 0;
    for (int i = 1; i < k->operand.n; i++) {
        if (k->operand.at[i].bf16) {
            int64_t all = kernel_span(k, i, none) * dtype_bytes(k->operand.at[i].dtype);
            saved += (all < read ? all : read) / 2;
        }
    }
    return read - saved + dim_value(c->write_bytes, size);
}

/* An extent of constants and symbols as a Dim over the named symbols. Lowering writes polynomials only;
 * kernel text from elsewhere, and steps that split, may divide. */
static Dim dim_of_expr(Env *e, const Expr *x, const Dim *symbol)
{
    if (x->kind == X_CONST) {
        return dim_int(x->value.i);
    }
    if (x->kind == X_SYM) {
        return symbol[x->id];
    }
    if (x->kind != X_OP || (x->op != S_ADD && x->op != S_MUL && x->op != S_SUB)) {
        fail(
            e, E_ILLEGAL,
            "Float operations cannot be counted: an axis has an extent that is no polynomial.");
    }
    Dim a = dim_of_expr(e, x->a, symbol), b = dim_of_expr(e, x->b, symbol);
    return x->op == S_ADD   ? dim_add(e, a, b)
           : x->op == S_SUB ? dim_sub(e, a, b)
                            : dim_mul(e, a, b);
}

/* Float operations written in one expression: the integer arithmetic of indices is free. */
static int64_t expr_flops(const Expr *x)
{
    if (!x) {
        return 0;
    }
    bool counts = x->kind == X_OP && x->a->dtype == DT_F32;
    int own = x->kind == X_FMA ? 2 : counts;
    return own + expr_flops(x->a) + expr_flops(x->b) + expr_flops(x->c);
}

static Dim points(Env *e, const Nest *n, const Phase *p, bool reduced, const Dim *symbol)
{
    Dim count = dim_int(1);
    for (int i = 0; i < n->outer.n; i++) {
        count = dim_mul(e, count, dim_of_expr(e, n->axis.at[n->outer.at[i]].extent, symbol));
    }
    for (int i = 0; i < p->loops.n; i++) {
        const Axis *a = &n->axis.at[p->loops.at[i]];
        if (reduced || a->kind == AXIS_SPACE) {
            count = dim_mul(e, count, dim_of_expr(e, a->extent, symbol));
        }
    }
    return count;
}

static int64_t stmts_flops(const Stmt *s, int n)
{
    int64_t flops = 0;
    for (int i = 0; i < n; i++) {
        flops += expr_flops(s[i].value);
    }
    return flops;
}

static Dim nest_flops(Env *e, const Nest *n, const Dim *symbol)
{
    Dim sum = dim_int(0);
    for (int i = 0; i < n->phase.n; i++) {
        const Phase *p = &n->phase.at[i];
        int64_t inner = stmts_flops(p->body.at, p->body.n);
        for (int k = 0; k < p->acc.n; k++) {
            inner += expr_flops(p->acc.at[k].update);
        }
        Dim steps = dim_mulk(e, points(e, n, p, true, symbol), inner);
        int64_t finish = stmts_flops(p->finish.at, p->finish.n);
        Dim ends = dim_mulk(e, points(e, n, p, false, symbol), finish);
        sum = dim_add(e, sum, dim_add(e, steps, ends));
    }
    return sum;
}

Dim kernel_flops(Env *e, const Kernel *k)
{
    Dim symbol[MAX_SYMBOLS];
    for (int i = 0; i < k->n_syms; i++) {
        symbol[i] = dim_named(e, arena_printf(&e->kernel, "s%d", i));
    }
    return nest_flops(e, &k->nest, symbol);
}

bool kernel_flops_at(Env *e, const Kernel *k, const int64_t *syms, int64_t *flops, Err *err)
{
    Sizes z = {0};
    for (int i = 0; i < k->n_syms; i++) {
        Sym id;
        dim_as_sym(dim_named(e, arena_printf(&e->kernel, "s%d", i)), &id);
        z.bound[id] = true;
        z.value[id] = syms[i];
    }
    return dim_eval(e, kernel_flops(e, k), &z, flops, err);
}

Dim program_flops(Env *e, const Program *p)
{
    Dim sum = dim_int(0), symbol[MAX_SYMBOLS];
    for (int i = 0; i < p->call.n; i++) {
        const Call *c = &p->call.at[i];
        for (int s = 0; s < c->sym.n; s++) {
            symbol[s] = dim_sym(e, c->sym.at[s]);
        }
        sum = dim_add(e, sum, nest_flops(e, &p->kernel.at[c->kernel]->nest, symbol));
    }
    return sum;
}
