/* apply_cut.c - cut: one phase becomes two, below and from an index on, so that what was chosen point by
 * point (a concatenation, the halves of a rotation) is settled for each. Values do not change. */
#include <stdlib.h>
#include <string.h>

#include "loop/apply_int.h"

/* A number, or a symbol of the kernel. */
static const Expr *bound_word(Apply *a, const char *word)
{
    char *end;
    long k = word[0] == 's' ? strtol(word + 1, &end, 10) : -1;
    if (k >= 0 && !*end && k < a->k->n_syms) {
        return x_sym(a->m, (int)k);
    }
    return x_int(a->m, number_word(a, word, 0, INT32_MAX));
}

static int add_axis(Apply *a, const Axis *like, const char *suffix, const Expr *extent)
{
    *vec_push(a->m, &a->k->nest.axis) =
        (Axis){.name = arena_printf(a->m, "%s.%s", like->name, suffix),
               .kind = like->kind,
               .extent = extent};
    return a->k->nest.axis.n - 1;
}

typedef struct Copy { /* how one of the two phases differs from the one that was cut */
    Apply *a;
    int axis;
    const Expr *index; /* in place of the axis */
    int first_var;     /* its variables are old + first_var; 0: the old ones */
    const Phase *phase;
} Copy;

static bool declared_in(const Phase *p, int var)
{
    bool found = false;
    for (int i = 0; i < p->acc.n; i++) {
        found = found || p->acc.at[i].var == var;
    }
    for (int i = 0; i < p->body.n; i++) {
        found = found || p->body.at[i].var == var;
    }
    for (int i = 0; i < p->finish.n; i++) {
        found = found || (p->finish.at[i].kind == STMT_LET && p->finish.at[i].var == var);
    }
    return found;
}

static int var_in(const Copy *c, int var)
{
    return declared_in(c->phase, var) ? var + c->first_var : var;
}

/* A condition that holds everywhere or nowhere leaves one branch. */
static const Expr *settled(const Copy *c, const Expr *x)
{
    const Expr *cond = x->kind == X_SELECT ? x->a : NULL;
    if (!cond || cond->kind != X_OP || cond->op != S_LT || cond->a->dtype != DT_I64) {
        return x;
    }
    int below = index_below(c->a->m, &c->a->k->nest, cond->a, cond->b);
    return below > 0 ? x->b : below < 0 ? x->c : x;
}

static const Expr *copied(const Copy *c, const Expr *x)
{
    if (!x || (x->kind == X_AXIS && x->id == c->axis)) {
        return x ? c->index : NULL;
    }
    if (x->kind == X_OP && x->b) {
        return x_op(c->a->m, x->op, copied(c, x->a), copied(c, x->b));
    }
    Expr y = *x;
    y.a = copied(c, x->a);
    y.b = copied(c, x->b);
    y.c = copied(c, x->c);
    y.id = x->kind == X_VAR ? var_in(c, x->id) : x->id;
    return settled(c, arena_dup(c->a->m, &y, sizeof y));
}

static Phase copy_phase(const Copy *c, int axis)
{
    const Phase *p = c->phase;
    Arena *m = c->a->m;
    Phase out = {0};
    for (int i = 0; i < p->loops.n; i++) {
        *vec_push(m, &out.loops) = p->loops.at[i] == c->axis ? axis : p->loops.at[i];
    }
    for (int i = 0; i < p->body.n; i++) {
        Stmt s = p->body.at[i];
        *vec_push(m, &out.body) =
            (Stmt){s.kind, var_in(c, s.var), copied(c, s.index), copied(c, s.value), s.code};
    }
    for (int i = 0; i < p->acc.n; i++) {
        Accum acc = p->acc.at[i];
        *vec_push(m, &out.acc) =
            (Accum){var_in(c, acc.var), copied(c, acc.init), copied(c, acc.update)};
    }
    for (int i = 0; i < p->finish.n; i++) {
        Stmt s = p->finish.at[i];
        *vec_push(m, &out.finish) =
            (Stmt){s.kind, s.kind == STMT_LET ? var_in(c, s.var) : s.var, copied(c, s.index),
                   copied(c, s.value), s.code};
    }
    return out;
}

static void check_cut(Apply *a, int axis, const Phase *p, const Expr *at)
{
    const Axis *x = axis_of_nest(a, axis);
    if (x->kind == AXIS_REDUCE) {
        refuse(a, "%s is a reduce axis, and its sum is one", x->name);
    }
    if (!p) {
        refuse(a, "%s is around several phases", x->name);
    }
    if (x->half_of || x->vec || x->unroll || x->par) {
        refuse(a, "%s is already split or annotated: cut it first", x->name);
    }
    if (index_below(a->m, &a->k->nest, at, x_op(a->m, S_ADD, x->extent, x_int(a->m, 1))) <= 0) {
        refuse(a, "%s does not surely have as many elements", x->name);
    }
}

void step_cut(Apply *a)
{
    need_words(a, 2, 2);
    need_no_stage(a);
    int axis = axis_named(a, a->word[0]);
    const Expr *at = bound_word(a, a->word[1]);
    Phase *p = phase_of(a, axis);
    check_cut(a, axis, p, at);
    const Axis whole = *axis_of_nest(a, axis);
    Nest *n = &a->k->nest;
    int low = add_axis(a, &whole, "0", at);
    int high = add_axis(a, &whole, "1", x_op(a->m, S_SUB, whole.extent, at));
    int n_vars = n->var.n, where = (int)(p - n->phase.at);
    for (int i = 0; i < n_vars; i++) {
        *vec_push(a->m, &n->var) =
            (Var){arena_printf(a->m, "%s.b", n->var.at[i].name), n->var.at[i].dtype};
    }
    Phase old = *p;
    Copy below = {a, axis, x_axis(a->m, low), 0, &old};
    Copy above = {a, axis, x_op(a->m, S_ADD, x_axis(a->m, high), at), n_vars, &old};
    vec_push(a->m, &n->phase);
    memmove(&n->phase.at[where + 1], &n->phase.at[where],
            (size_t)(n->phase.n - where - 1) * sizeof *n->phase.at);
    n->phase.at[where] = copy_phase(&below, low);
    n->phase.at[where + 1] = copy_phase(&above, high);
}
