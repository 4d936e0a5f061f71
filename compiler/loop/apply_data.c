/* apply_data.c - steps that change where values lie: pack, store, prefetch, keep. */
#include <string.h>

#include "loop/apply_int.h"

static void find_access(const Expr *x, void *ctx)
{
    Access *f = ctx;
    if (x->kind == X_LOAD && x->id == f->operand) {
        f->several = f->several || (f->index && !expr_eq(f->index, x->a));
        f->index = x->a;
    }
}

static void find_access_slot(const Expr **slot, void *ctx)
{
    expr_visit(*slot, find_access, ctx);
}

Access access_of(Apply *a, int operand)
{
    Access f = {.operand = operand};
    nest_exprs(&a->k->nest, find_access_slot, &f);
    return f;
}

/* ---- pack ---- */

typedef struct Outside { /* axes of an index that a layout does not name */
    Apply *a;
    const Pack *pack;
    int missing;
} Outside;

static bool pack_has(const Pack *p, int axis)
{
    for (int i = 0; i < p->n; i++) {
        if (p->axis[i] == axis) {
            return true;
        }
    }
    return false;
}

static void need_leaf(Outside *o, int axis)
{
    const Axis *x = axis_of_nest(o->a, axis);
    if (x->outer) {
        need_leaf(o, x->outer);
        need_leaf(o, x->inner);
    } else if (!pack_has(o->pack, axis) && !axis_is_unit(&o->a->k->nest, axis)) {
        o->missing = axis;
    }
}

static void need_axis(const Expr *x, void *ctx)
{
    if (x->kind == X_AXIS) {
        need_leaf(ctx, x->id);
    }
}

static Pack *parse_layout(Apply *a, const char *layout)
{
    Pack *p = arena_new(a->m, Pack);
    char *rest = arena_str(a->m, layout), *name;
    while ((name = strsep(&rest, ","))) {
        if (p->n == MAX_RANK) {
            refuse(a, "a layout has at most %d axes", MAX_RANK);
        }
        int axis = axis_named(a, name);
        if (pack_has(p, axis)) {
            refuse(a, "axis %s is named twice", name);
        }
        const Axis *x = axis_of_nest(a, axis);
        p->axis[p->n] = axis;
        p->extent[p->n++] = axis_peels(&a->k->nest, axis)
                                ? x_op(a->m, S_ADD, x->extent, x_int(a->m, 1))
                                : x->extent;
    }
    return p;
}

/* Row-major over the layout's axes. */
static const Expr *panel_index(Apply *a, Pack *p)
{
    const Expr *index = x_int(a->m, 0);
    p->count = x_int(a->m, 1);
    for (int i = 0; i < p->n; i++) {
        index =
            x_op(a->m, S_ADD, x_op(a->m, S_MUL, index, p->extent[i]), x_axis(a->m, p->axis[i]));
        p->count = x_op(a->m, S_MUL, p->count, p->extent[i]);
    }
    return index;
}

typedef struct Repack {
    Arena *m;
    int operand, with;
    const Expr *index;
} Repack;

static const Expr *replace_load(const Repack *r, const Expr *x)
{
    if (!x) {
        return NULL;
    }
    if (x->kind == X_LOAD && x->id == r->operand) {
        return x_load(r->m, r->with, x->dtype, r->index);
    }
    Expr y = *x;
    y.a = replace_load(r, x->a);
    y.b = replace_load(r, x->b);
    y.c = replace_load(r, x->c);
    bool same = y.a == x->a && y.b == x->b && y.c == x->c;
    return same ? x : arena_dup(r->m, &y, sizeof y);
}

static void replace_slot(const Expr **slot, void *ctx)
{
    *slot = replace_load(ctx, *slot);
}

void replace_index(Apply *a, int operand, int with, const Expr *index)
{
    Repack r = {a->m, operand, with, index};
    nest_exprs(&a->k->nest, replace_slot, &r);
}

void step_pack(Apply *a)
{
    need_words(a, 2, 2);
    int operand = operand_named(a, a->word[0]);
    Operand *o = &a->k->operand.at[operand];
    Access f = access_of(a, operand);
    if (!o->constant) {
        refuse(a, "%s is not constant: it would be packed at every run", o->name);
    }
    if (o->pack || f.several || !f.index) {
        refuse(a, "%s is %s", o->name, o->pack ? "already packed" : "read by several indices");
    }
    Pack *p = parse_layout(a, a->word[1]);
    Outside out = {a, p, -1};
    expr_visit(f.index, need_axis, &out);
    if (out.missing >= 0) {
        refuse(a, "%s is read along %s, which the layout does not name", o->name,
               axis_of_nest(a, out.missing)->name);
    }
    for (int i = 0; i < p->n; i++) {
        for (const Axis *x = axis_of_nest(a, p->axis[i]); x->half_of;
             x = axis_of_nest(a, x->half_of - 1)) {
            if (axis_of_nest(a, x->half_of - 1)->tail == TAIL_OVERLAP) {
                refuse(a, "tiles of %s overlap", axis_of_nest(a, x->half_of - 1)->name);
            }
        }
    }
    p->source = f.index;
    replace_index(a, operand, operand, panel_index(a, p));
    o->pack = p;
    for (int i = 0; i < o->span.n; i++) {
        *vec_push(a->m, &p->span) = o->span.at[i];
    }
    o->span.n = 0;
    *vec_push(a->m, &o->span) = p->count;
}

/* ---- store ---- */

void step_store(Apply *a)
{
    need_words(a, 2, 2);
    Operand *o = &a->k->operand.at[operand_named(a, a->word[0])];
    if (strcmp(a->word[1], "bf16")) {
        refuse(a, "the only storage besides an operand's own is bf16, not '%s'", a->word[1]);
    }
    if (!o->from_bf16) {
        refuse(a, "%s does not come from bf16: storage must be lossless", o->name);
    }
    if (o->bf16) {
        refuse(a, "%s is stored as bf16 already", o->name);
    }
    o->bf16 = true;
}

/* ---- prefetch ---- */

void step_prefetch(Apply *a)
{
    need_words(a, 3, 3);
    int operand = operand_named(a, a->word[0]);
    int axis = axis_named(a, a->word[1]);
    int64_t ahead_bytes = number_word(a, a->word[2], 1, 1 << 20);
    Access f = access_of(a, operand);
    if (f.several || !f.index) {
        refuse(a, "%s is read by several indices", a->word[0]);
    }
    if (!phase_of(a, axis) && a->k->nest.phase.n > 1) {
        refuse(a, "axis %s is around several phases", a->word[1]);
    }
    *vec_push(a->m, &a->k->prefetch) = (Prefetch){operand, axis, ahead_bytes, f.index};
}

/* ---- keep ---- */

typedef struct Twin { /* a value of one phase against one of another, along two axes */
    const Phase *p, *q;
    int r, j;
} Twin;

static const Expr *let_of(const Stmt *s, int n, int var)
{
    for (int i = 0; i < n; i++) {
        if (s[i].kind == STMT_LET && s[i].var == var) {
            return s[i].value;
        }
    }
    return NULL;
}

/* The same computation, lets looked through, with p's axis r where q has j. */
static bool same_value(const Twin *t, const Expr *x, const Expr *y)
{
    if (!x || !y) {
        return x == y;
    }
    const Expr *in_p = x->kind == X_VAR ? let_of(t->p->body.at, t->p->body.n, x->id) : NULL;
    const Expr *in_q = y->kind == X_VAR ? let_of(t->q->finish.at, t->q->finish.n, y->id) : NULL;
    if (in_p || in_q) {
        return same_value(t, in_p ? in_p : x, in_q ? in_q : y);
    }
    if (x->kind == X_AXIS && x->id == t->r) {
        return y->kind == X_AXIS && y->id == t->j;
    }
    bool same = x->kind == y->kind && x->dtype == y->dtype && x->op == y->op && x->id == y->id;
    if (x->kind == X_CONST) {
        return same && value_same(x->value, y->value, x->dtype);
    }
    return same && same_value(t, x->a, y->a) && same_value(t, x->b, y->b) &&
           same_value(t, x->c, y->c);
}

static const Expr *axis_renamed(Arena *m, const Expr *x, int from, int to)
{
    if (!x || (x->kind == X_AXIS && x->id == from)) {
        return x ? x_axis(m, to) : NULL;
    }
    Expr y = *x;
    y.a = axis_renamed(m, x->a, from, to);
    y.b = axis_renamed(m, x->b, from, to);
    y.c = axis_renamed(m, x->c, from, to);
    return arena_dup(m, &y, sizeof y);
}

static void count_var(const Expr *x, void *ctx)
{
    int *var = ctx; /* [0] which, [1] how often */
    var[1] += x->kind == X_VAR && x->id == var[0];
}

/* Lets of the finish that nothing reads any more. */
static void drop_dead_lets(Phase *q)
{
    for (int i = q->finish.n - 1; i >= 0; i--) {
        int var[2] = {q->finish.at[i].var, 0};
        for (int k = i + 1; k < q->finish.n; k++) {
            expr_visit(q->finish.at[k].value, count_var, var);
        }
        if (q->finish.at[i].kind == STMT_LET && !var[1]) {
            memmove(&q->finish.at[i], &q->finish.at[i + 1],
                    (size_t)(q->finish.n - i - 1) * sizeof *q->finish.at);
            q->finish.n--;
        }
    }
}

static int any_axis_named(Apply *a, const char *name)
{
    for (int i = 0; i < a->k->nest.axis.n; i++) {
        if (!strcmp(axis_of_nest(a, i)->name, name)) {
            return i;
        }
    }
    refuse(a, "there is no axis '%s'", name);
}

/* The phase that computes the named value in its reduction, and where. */
static Phase *keeper(Apply *a, const char *name, int *at)
{
    for (int i = 0; i < a->k->nest.phase.n; i++) {
        Phase *p = &a->k->nest.phase.at[i];
        for (*at = 0; *at < p->body.n; ++*at) {
            if (!strcmp(a->k->nest.var.at[p->body.at[*at].var].name, name)) {
                return p;
            }
        }
    }
    refuse(a, "no reduction computes a value '%s'", name);
}

/* The whole space axis of the last phase that turns as often as r. */
static int row_axis(Apply *a, const Phase *q, int r)
{
    for (int i = 0; i < q->loops.n; i++) {
        int axis = q->loops.at[i];
        while (axis_of_nest(a, axis)->half_of) {
            axis = axis_of_nest(a, axis)->half_of - 1;
        }
        if (expr_eq(axis_of_nest(a, axis)->extent, axis_of_nest(a, r)->extent)) {
            return axis;
        }
    }
    refuse(a, "the last phase has no axis as long as %s", axis_of_nest(a, r)->name);
}

static const Expr *stored_index(Apply *a, const Phase *q)
{
    for (int i = 0; i < q->finish.n; i++) {
        if (q->finish.at[i].kind == STMT_STORE) {
            return q->finish.at[i].index;
        }
    }
    refuse(a, "the last phase stores nothing");
}

void step_keep(Apply *a)
{
    int at, found = 0;
    need_words(a, 2, 2);
    Phase *p = keeper(a, a->word[0], &at), *q = &a->k->nest.phase.at[a->k->nest.phase.n - 1];
    int r = any_axis_named(a, a->word[1]);
    if (axis_of_nest(a, r)->kind != AXIS_REDUCE || p == q) {
        refuse(a, "%s is not the axis of a reduction before the last phase", a->word[1]);
    }
    Stmt let = p->body.at[at];
    if (let.value->dtype != a->k->operand.at[0].dtype) {
        refuse(a, "%s is %s, and the output is not", a->word[0], dtype_name(let.value->dtype));
    }
    Twin t = {p, q, r, row_axis(a, q, r)};
    const Expr *index = stored_index(a, q);
    for (int i = 0; i < q->finish.n; i++) {
        Stmt *s = &q->finish.at[i];
        if (s->kind == STMT_LET && same_value(&t, let.value, s->value)) {
            s->value = x_load(a->m, 0, let.value->dtype, index);
            found++;
        }
    }
    if (!found) {
        refuse(a, "the last phase does not compute %s again", a->word[0]);
    }
    drop_dead_lets(q);
    vec_push(a->m, &p->body);
    memmove(&p->body.at[at + 2], &p->body.at[at + 1],
            (size_t)(p->body.n - at - 2) * sizeof *p->body.at);
    p->body.at[at + 1] = (Stmt){.kind = STMT_STORE,
                                .index = axis_renamed(a->m, index, t.j, r),
                                .value = x_var(a->m, let.var, let.value->dtype)};
}
