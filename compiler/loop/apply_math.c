/* apply_math.c - steps that change arithmetic or its width: vec, acc, fma, approx. */
#include <string.h>

#include "loop/apply_int.h"

#define MAX_LANES 256
#define MAX_PRIVATE 256

/* ---- vec ---- */

typedef struct Lanes { /* looking through the expressions of one phase for what lanes cannot do */
    Apply *a;
    int axis;
    bool varies[512]; /* by variable: differs from lane to lane */
} Lanes;

static bool lanes_differ(Lanes *l, const Expr *x);

/* Every access along the axis has stride 1 or none. */
static void check_access(Lanes *l, const Expr *index, const char *operand)
{
    int64_t stride;
    const char *axis = axis_of_nest(l->a, l->axis)->name;
    if (!index_stride(l->a->e, &l->a->k->nest, index, l->axis, &stride)) {
        refuse(l->a, "the index of %s is not linear in %s", operand, axis);
    }
    if (stride != 0 && stride != 1) {
        refuse(l->a, "%s is accessed with stride %lld along %s", operand, (long long)stride, axis);
    }
}

static bool lanes_differ_load(Lanes *l, const Expr *x)
{
    int64_t stride = 0;
    check_access(l, x->a, l->a->k->operand.at[x->id].name);
    index_stride(l->a->e, &l->a->k->nest, x->a, l->axis, &stride);
    if (stride && x->dtype != DT_F32) {
        refuse(l->a, "%s holds %s: only f32 has lanes", l->a->k->operand.at[x->id].name, dtype_name(x->dtype));
    }
    return stride != 0;
}

/* An i64 comparison of the axis with something that is the same in all lanes: a mask of lanes. */
static bool lane_compare(Lanes *l, const Expr *x)
{
    int64_t stride;
    bool linear = x->kind == X_OP && (x->op == S_LE || x->op == S_LT) && x->a->dtype == DT_I64 &&
                  index_stride(l->a->e, &l->a->k->nest, x->a, l->axis, &stride);
    return linear && stride == 1 && !lanes_differ(l, x->b);
}

static bool lanes_differ(Lanes *l, const Expr *x)
{
    int64_t stride;
    if (!x || x->kind == X_CONST || x->kind == X_SYM) {
        return false;
    }
    if (x->kind == X_VAR) {
        return l->varies[x->id];
    }
    if (x->kind == X_LOAD) {
        return lanes_differ_load(l, x);
    }
    if (lane_compare(l, x)) {
        return true;
    }
    if (x->kind == X_AXIS) {
        if (!index_stride(l->a->e, &l->a->k->nest, x, l->axis, &stride) || stride) {
            refuse(l->a, "a value is computed from the index %s itself", axis_of_nest(l->a, l->axis)->name);
        }
        return false;
    }
    bool cond = x->kind == X_SELECT && lanes_differ(l, x->a);
    bool a = x->kind != X_SELECT && lanes_differ(l, x->a);
    bool b = lanes_differ(l, x->b), c = lanes_differ(l, x->c);
    if ((a || b || c || cond) && x->dtype != DT_F32 && x->dtype != DT_BOOL) {
        refuse(l->a, "a value of %s differs between lanes: only f32 has lanes", dtype_name(x->dtype));
    }
    if (x->kind == X_CAST && a) {
        refuse(l->a, "a cast differs between lanes");
    }
    return a || b || c || cond;
}

static void check_stmts(Lanes *l, const Stmt *s, int n)
{
    for (int i = 0; i < n; i++) {
        bool differs = lanes_differ(l, s[i].value);
        if (s[i].kind == STMT_LET) {
            l->varies[s[i].var] = differs;
        } else if (s[i].kind == STMT_FAIL && differs) {
            refuse(l->a, "whether the kernel fails differs between lanes");
        } else if (s[i].kind == STMT_STORE) {
            int64_t stride;
            check_access(l, s[i].index, l->a->k->operand.at[0].name);
            index_stride(l->a->e, &l->a->k->nest, s[i].index, l->axis, &stride);
            if (stride != 1) {
                refuse(l->a, "the output is the same element in all lanes");
            }
        }
    }
}

static void check_lanes(Apply *a, int axis, const Phase *p)
{
    Lanes l = {.a = a, .axis = axis};
    bool reduce = axis_of_nest(a, axis)->kind == AXIS_REDUCE;
    check(a->k->nest.var.n <= (int)countof(l.varies));
    for (int i = 0; i < p->acc.n; i++) {
        l.varies[p->acc.at[i].var] = true;
    }
    check_stmts(&l, p->body.at, p->body.n);
    for (int i = 0; i < p->acc.n; i++) {
        lanes_differ(&l, p->acc.at[i].update);
    }
    if (!reduce) {
        check_stmts(&l, p->finish.at, p->finish.n);
    }
}

void step_vec(Apply *a)
{
    need_words(a, 1, 1);
    int axis = axis_named(a, a->word[0]);
    Axis *x = axis_of_nest(a, axis);
    const Phase *p = phase_of(a, axis);
    int64_t n = x->extent->kind == X_CONST ? x->extent->value.i : 0;
    if (n < 2 || n > MAX_LANES || (n & (n - 1))) {
        refuse(a, "axis %s has no constant extent that is a power of two from 2 to %d", x->name, MAX_LANES);
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
    if (p->loops.at[p->loops.n - 1] != axis) {
        refuse(a, "axis %s is not the innermost loop", x->name);
    }
    if (x->kind == AXIS_REDUCE && !x->priv) {
        refuse(a, "reduce axis %s needs accumulators of its own: acc %s first", x->name, x->name);
    }
    x->vec = true;
}

/* Asked when all steps are done: a later pack may give an access its stride. */
void check_all_lanes(Apply *a)
{
    for (int i = 0; i < a->k->nest.phase.n; i++) {
        const Phase *p = &a->k->nest.phase.at[i];
        for (int k = 0; k < p->loops.n; k++) {
            const Axis *x = axis_of_nest(a, p->loops.at[k]);
            if (x->vec) {
                a->word[0] = x->name;
                check_lanes(a, p->loops.at[k], p);
            }
        }
    }
    a->k->in_lanes = true;
}

/* ---- acc ---- */

void step_acc(Apply *a)
{
    const Expr *value;
    need_words(a, 1, 1);
    int axis = axis_named(a, a->word[0]);
    Axis *x = axis_of_nest(a, axis);
    if (x->kind != AXIS_REDUCE || x->extent->kind != X_CONST || x->extent->value.i > MAX_PRIVATE) {
        refuse(a, "axis %s is not a reduce axis with a constant extent of at most %d", x->name, MAX_PRIVATE);
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
                refuse(a, "%s is neither a sum nor a maximum", a->k->nest.var.at[p->acc.at[k].var].name);
            }
            a->k->exact = a->k->exact && !(sum && a->k->nest.var.at[p->acc.at[k].var].dtype == DT_F32);
        }
    }
    x->priv = true;
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
            if (product && product->kind == X_OP && product->op == S_MUL && product->dtype == DT_F32) {
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

/* ---- approx ---- */

static const Expr *approximated(Apply *a, const Expr *x)
{
    if (x->kind != X_OP || x->op != S_EXP) {
        return x;
    }
    a->n_words++; /* found */
    return x_op(a->m, S_EXP_APPROX, x->a, NULL);
}

void step_approx(Apply *a)
{
    need_words(a, 1, 1);
    if (strcmp(a->word[0], "exp")) {
        refuse(a, "only exp has an approximation, not '%s'", a->word[0]);
    }
    map_exprs(a, approximated);
    if (a->n_words == 1) {
        refuse(a, "the kernel computes no exp");
    }
    a->k->exact = false;
}
