/* apply_math.c - steps that change arithmetic or its width: vec, acc, fma, dot, approx. */
#include <string.h>

#include "loop/apply_int.h"

#define MAX_LANES 256
#define MAX_PRIVATE 256

/* ---- vec ---- */

void step_vec(Apply *a)
{
    need_words(a, 1, 1);
    int axis = axis_named(a, a->word[0]);
    Axis *x = axis_of_nest(a, axis);
    const Phase *p = phase_of(a, axis);
    int64_t n = x->extent->kind == X_CONST ? x->extent->value.i : 0;
    if (n < 2 || n > MAX_LANES || (n & (n - 1))) {
        refuse(a, "axis %s has no constant extent that is a power of two from 2 to %d", x->name,
               MAX_LANES);
    }
    if (x->unroll || x->par) {
        refuse(a, "axis %s already has another annotation", x->name);
    }
    if (!p) {
        refuse(a, "axis %s is around several phases", x->name);
    }
    for (int i = 0; i < a->k->nest.phase.n; i++) {
        const Phase *q = &a->k->nest.phase.at[i];
        for (int k = 0; k < q->loops.n; k++) {
            if (axis_of_nest(a, q->loops.at[k])->vec && q == p) {
                refuse(a, "axis %s is already in lanes", axis_of_nest(a, q->loops.at[k])->name);
            }
        }
    }
    int last = p->loops.n - 1;
    last -= axis_of_nest(a, p->loops.at[last])->dot;
    if (last < 0 || p->loops.at[last] != axis) {
        refuse(a, "axis %s is not the innermost loop", x->name);
    }
    if (x->kind == AXIS_REDUCE && !x->priv) {
        refuse(a, "reduce axis %s needs accumulators of its own: acc %s first", x->name,
               x->name);
    }
    x->vec = true;
}

/* ---- acc ---- */

static void count_reads(const Expr *x, void *ctx)
{
    int *var = ctx; /* [0] which, [1] how often */
    var[1] += x->kind == X_VAR && x->id == var[0];
}

/* Partial results start and combine as one would: a sum from 0, of terms that it has no part in. */
static void check_partial(Apply *a, const Accum *acc, bool sum)
{
    const char *name = a->k->nest.var.at[acc->var].name;
    bool zero =
        acc->init->kind == X_CONST &&
        (acc->init->dtype == DT_F32 ? acc->init->value.f == 0 : acc->init->value.i == 0);
    int reads[2] = {acc->var, 0};
    expr_visit(acc->update, count_reads, reads);
    if (sum && !zero) {
        refuse(a, "%s does not start at 0, and each private sum would add its start", name);
    }
    if (sum && reads[1] > 1) {
        refuse(a, "what is added to %s depends on it", name);
    }
}

/* Only the tail of a phase's outermost reduce loop comes after its private sums. */
void check_private_tails(Apply *a)
{
    for (int i = 0; i < a->k->nest.phase.n; i++) {
        const Phase *p = &a->k->nest.phase.at[i];
        const Axis *priv = NULL, *inner = NULL;
        bool first = true;
        for (int k = 0; k < p->loops.n; k++) {
            const Axis *x = axis_of_nest(a, p->loops.at[k]);
            bool reduce = x->kind == AXIS_REDUCE;
            inner = reduce && !first && axis_peels(&a->k->nest, p->loops.at[k]) ? x : inner;
            priv = x->priv ? x : priv;
            first = first && !reduce;
        }
        if (priv && inner) {
            refuse(a,
                   "%s has private sums, and the tail of %s inside the reduction has no part "
                   "in them",
                   priv->name, inner->name);
        }
    }
}

void step_acc(Apply *a)
{
    const Expr *value;
    need_words(a, 1, 1);
    int axis = axis_named(a, a->word[0]);
    Axis *x = axis_of_nest(a, axis);
    if (x->kind != AXIS_REDUCE || x->extent->kind != X_CONST ||
        x->extent->value.i > MAX_PRIVATE) {
        refuse(a, "axis %s is not a reduce axis with a constant extent of at most %d", x->name,
               MAX_PRIVATE);
    }
    if (axis_peels(&a->k->nest, axis)) {
        refuse(a, "behind %s comes the tail of %s, which has no sum of its own", x->name,
               axis_of_nest(a, x->half_of - 1)->name);
    }
    for (int i = 0; i < a->k->nest.phase.n; i++) {
        Phase *p = &a->k->nest.phase.at[i];
        bool here = false;
        for (int k = 0; k < p->loops.n; k++) {
            here = here || p->loops.at[k] == axis;
        }
        for (int k = 0; here && k < p->acc.n; k++) {
            bool sum = acc_is_sum(&p->acc.at[k], &value);
            if (!sum && !acc_is_max(&p->acc.at[k], &value)) {
                refuse(a, "%s is neither a sum nor a maximum",
                       a->k->nest.var.at[p->acc.at[k].var].name);
            }
            check_partial(a, &p->acc.at[k], sum);
            a->k->exact =
                a->k->exact && !(sum && a->k->nest.var.at[p->acc.at[k].var].dtype == DT_F32);
        }
    }
    x->priv = true;
    check_private_tails(a);
}

/* ---- fma ---- */

static const Expr *let_value(const Phase *p, const Expr *x)
{
    for (int i = 0; x->kind == X_VAR && i < p->body.n; i++) {
        if (p->body.at[i].var == x->id) {
            return p->body.at[i].value;
        }
    }
    return x;
}

void step_fma(Apply *a)
{
    int found = 0;
    need_words(a, 0, 0);
    for (int i = 0; i < a->k->nest.phase.n; i++) {
        Phase *p = &a->k->nest.phase.at[i];
        for (int k = 0; k < p->acc.n; k++) {
            const Expr *addend;
            Accum *acc = &p->acc.at[k];
            bool sum = acc_is_sum(acc, &addend) && addend;
            const Expr *product = sum ? let_value(p, addend) : NULL;
            if (product && product->kind == X_OP && product->op == S_MUL &&
                product->dtype == DT_F32) {
                acc->update = x_fma(a->m, product->a, product->b, acc->update->a);
                found++;
            }
        }
    }
    if (!found) {
        refuse(a, "no accumulator adds a product");
    }
    a->k->exact = false;
}

/* ---- dot ---- */

static bool is_byte(const Expr *x)
{
    return x->kind == X_CAST && x->dtype == DT_I32 && x->a->kind == X_LOAD &&
           x->a->dtype == DT_I8;
}

bool dot_factors(const Accum *acc, const Expr **x, const Expr **w)
{
    const Expr *product;
    if (!acc_is_sum(acc, &product) || !product || product->kind != X_OP ||
        product->op != S_MUL) {
        return false;
    }
    *x = product->a;
    *w = product->b;
    return is_byte(*x) && is_byte(*w);
}

void step_dot(Apply *a)
{
    const Expr *x, *w;
    need_words(a, 1, 1);
    int axis = axis_named(a, a->word[0]);
    Axis *d = axis_of_nest(a, axis);
    const Phase *p = phase_of(a, axis);
    if (d->kind != AXIS_REDUCE || !expr_is_int(d->extent, 4)) {
        refuse(a, "axis %s is not a reduce axis of extent 4", d->name);
    }
    if (p->loops.at[p->loops.n - 1] != axis || p->body.n) {
        refuse(a, "axis %s is not the innermost loop of products alone", d->name);
    }
    for (int i = 0; i < p->acc.n; i++) {
        if (!dot_factors(&p->acc.at[i], &x, &w)) {
            refuse(a, "%s is no i32 sum of products of i8",
                   a->k->nest.var.at[p->acc.at[i].var].name);
        }
    }
    d->dot = true;
}

/* ---- approx ---- */

static const Expr *approximated(Apply *a, const Expr *x)
{
    if (x->kind != X_OP || x->op != S_EXP) {
        return x;
    }
    a->n_found++;
    return x_op(a->m, a->n_words > 1 ? S_EXP_FUSED : S_EXP_APPROX, x->a, NULL);
}

void step_approx(Apply *a)
{
    need_words(a, 1, 2);
    if (strcmp(a->word[0], "exp")) {
        refuse(a, "only exp has an approximation, not '%s'", a->word[0]);
    }
    if (a->n_words > 1 && strcmp(a->word[1], "fma")) {
        refuse(a, "its multiplies and adds can only be fused, by fma, not '%s'", a->word[1]);
    }
    map_exprs(a, approximated);
    if (a->n_found == 0) {
        refuse(a, "the kernel computes no exp");
    }
    a->k->exact = false;
}
