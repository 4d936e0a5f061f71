/* tree.c - from a nest to its statement tree: who runs inside whom, and what happens in the tails of
 * splits. Knows what steps mean for control flow, and nothing of vectors or C.
 *
 *     outer loops { for each phase:
 *         space loops outside the reduction {
 *             accumulators with one instance for each point of the space axes inside it: init
 *             the loops from the first reduce axis on { body; update }
 *             combine, where some are private to points of a reduce axis
 *             the space axes inside the reduction again { finish } } } */
#include "loop/tree.h"

#include "loop/loop_int.h"

typedef struct Builder {
    Arena *m;
    const Kernel *k;
    const Nest *n;
    const Expr **extent;   /* by axis: in this place; a tail makes an inner half smaller */
    bool *open;            /* by axis: it has a value here */
    const Staged *filling; /* the loops written copy its tile; NULL: they are the nest's own */
    bool
        around; /* they start or finish accumulators: what the reduction copies is not for them */
} Builder;

typedef void (*Inside)(Builder *b, Tree *into, const Phase *p);

static Tree *add(Builder *b, Tree *into, TreeKind kind)
{
    Tree *t = arena_new(b->m, Tree);
    t->kind = kind;
    *vec_push(b->m, &into->child) = t;
    return t;
}

static const Axis *axis_at(const Builder *b, int axis)
{
    return &b->n->axis.at[axis];
}

/* ---- loops and tails ---- */

typedef struct Loops {
    const int *at;
    int n;
    Inside inside;
    const Phase *p;
    /* The tail of the outermost reduce axis comes later, after the private sums. */
    bool no_tail;
    bool joined; /* that is now */
} Loops;

static void loops_into(Builder *b, Tree *into, Loops l);

/* A split axis has its value as soon as both halves have theirs. */
static void bind_whole(Builder *b, Tree *into, int half)
{
    int whole = axis_at(b, half)->half_of - 1;
    if (whole < 0 || b->open[whole]) {
        return;
    }
    const Axis *a = axis_at(b, whole);
    if (!b->open[a->outer] || !b->open[a->inner]) {
        return;
    }
    const Expr *from = x_op(b->m, S_MUL, x_axis(b->m, a->outer), x_int(b->m, a->factor));
    if (a->tail == TAIL_OVERLAP) {
        const Expr *last = x_op(b->m, S_SUB, b->extent[whole], x_int(b->m, a->factor));
        from = x_select(b->m, x_op(b->m, S_LT, from, last), from, last);
    }
    Tree *bind = add(b, into, TREE_BIND);
    bind->axis = whole;
    bind->value = x_op(b->m, S_ADD, from, x_axis(b->m, a->inner));
    b->open[whole] = true;
    bind_whole(b, into, whole);
}

/* Everything that was bound because of this axis is open no longer. */
static void close_axis(Builder *b, int axis)
{
    b->open[axis] = false;
    int whole = axis_at(b, axis)->half_of - 1;
    if (whole >= 0 && b->open[whole]) {
        close_axis(b, whole);
    }
}

static bool code_of_its_own(Tail tail)
{
    return tail == TAIL_PEEL || tail == TAIL_SWITCH || tail == TAIL_NONE;
}

/* Turns of this loop here. */
static const Expr *turns(Builder *b, int axis)
{
    const Axis *a = axis_at(b, axis);
    int whole = a->half_of - 1;
    if (whole < 0 || axis_at(b, whole)->inner == axis) {
        return b->extent[axis];
    }
    const Axis *w = axis_at(b, whole);
    const Expr *n = b->extent[whole], *f = x_int(b->m, w->factor);
    if (!code_of_its_own(w->tail)) {
        n = x_op(b->m, S_ADD, n, x_int(b->m, w->factor - 1));
    }
    return x_op(b->m, S_IDIV, n, f);
}

static Tree *guarded(Builder *b, Tree *into, bool reduced, bool pads_too);

static void fill(Builder *b, Tree *into, const Phase *unused)
{
    (void)unused;
    add(b, guarded(b, into, true, true), TREE_FILL)->stage = b->filling;
}

/* What a turn of an axis does before all else: prefetches, and tiles that are copied. */
static void before_inside(Builder *b, Tree *into, int axis)
{
    for (int i = 0; i < b->k->prefetch.n; i++) {
        if (b->k->prefetch.at[i].axis == axis) {
            add(b, into, TREE_PREFETCH)->prefetch = &b->k->prefetch.at[i];
        }
    }
    for (int i = 0; i < b->k->stage.n; i++) {
        const Staged *s = &b->k->stage.at[i];
        if (s->axis == axis) {
            b->filling = s;
            loops_into(b, into, (Loops){s->loops.at, s->loops.n, fill, NULL, false, false});
            b->filling = NULL;
        }
    }
}

static void open_in(Builder *b, Tree *into, int axis, Loops l)
{
    b->open[axis] = true;
    bind_whole(b, into, axis);
    if (!b->filling && !b->around) {
        before_inside(b, into, axis);
    }
    loops_into(b, into, l);
    close_axis(b, axis);
}

/* One copy of the rest of the loops, where the inner half has this extent. */
static void tail_copy(Builder *b, Tree *into, int outer, const Expr *rest, Loops l)
{
    const Axis *w = axis_at(b, axis_at(b, outer)->half_of - 1);
    const Expr *full = b->extent[w->inner];
    Tree *bind = add(b, into, TREE_BIND);
    bind->axis = outer;
    bind->value = turns(b, outer);
    b->extent[w->inner] = rest;
    open_in(b, into, outer, l);
    b->extent[w->inner] = full;
}

static void tail_into(Builder *b, Tree *into, int outer, Loops l)
{
    const Axis *w = axis_at(b, axis_at(b, outer)->half_of - 1);
    const Expr *n = b->extent[axis_at(b, outer)->half_of - 1];
    const Expr *rest = x_op(b->m, S_MOD, n, x_int(b->m, w->factor));
    if (expr_is_int(rest, 0)) {
        return;
    }
    if (axis_at(b, outer)->par) {
        into = add(b, into, TREE_IF);
        into->last_part = true;
    }
    if (rest->kind == X_CONST) {
        tail_copy(b, add(b, into, TREE_BLOCK), outer, rest, l);
    } else if (w->tail == TAIL_SWITCH) {
        Tree *choice = add(b, into, TREE_SWITCH);
        choice->value = rest;
        for (int64_t i = 1; i < w->factor; i++) {
            tail_copy(b, add(b, choice, TREE_BLOCK), outer, x_int(b->m, i), l);
        }
    } else {
        Tree *some = add(b, into, TREE_IF);
        some->value = x_op(b->m, S_LT, x_int(b->m, 0), rest);
        tail_copy(b, some, outer, rest, l);
    }
}

static bool has_tail_code(const Builder *b, int axis)
{
    int whole = axis_at(b, axis)->half_of - 1;
    return whole >= 0 && axis_at(b, whole)->outer == axis &&
           code_of_its_own(axis_at(b, whole)->tail);
}

static void loops_into(Builder *b, Tree *into, Loops l)
{
    if (l.n == 0) {
        l.inside(b, into, l.p);
        return;
    }
    int axis = l.at[0];
    bool tail = has_tail_code(b, axis) && !(l.no_tail && axis_at(b, axis)->kind == AXIS_REDUCE);
    Loops rest = {l.at + 1, l.n - 1, l.inside, l.p, l.no_tail, l.joined};
    Tree *loop = add(b, into, TREE_FOR);
    loop->axis = axis;
    loop->value = turns(b, axis);
    loop->joined = l.joined;
    loop->copies = b->filling != NULL;
    open_in(b, loop, axis, rest);
    if (tail) {
        tail_into(b, into, axis, rest);
    }
}

/* ---- statements ---- */

/* The points that a mask or pad leaves out: a condition of all open axes with that tail, or NULL. */
static const Expr *inside_all(Builder *b, bool reduced, bool pads_too)
{
    const Expr *outside = NULL;
    for (int i = 0; i < b->n->axis.n; i++) {
        const Axis *a = axis_at(b, i);
        bool guarded = a->tail == TAIL_MASK || (a->tail == TAIL_PAD && pads_too);
        if (!a->outer || !guarded || !b->open[i] || (a->kind == AXIS_REDUCE && !reduced)) {
            continue;
        }
        const Expr *past = x_op(b->m, S_LE, b->extent[i], x_axis(b->m, i));
        outside = outside ? x_op(b->m, S_OR, outside, past) : past;
    }
    return outside;
}

/* The block in which statements go that are guarded here. */
static Tree *guarded(Builder *b, Tree *into, bool reduced, bool pads_too)
{
    const Expr *outside = inside_all(b, reduced, pads_too);
    if (!outside) {
        return into;
    }
    Tree *guard = add(b, into, TREE_IF);
    guard->value = outside;
    guard->negated = true;
    return guard;
}

static void statement(Builder *b, Tree *into, const Stmt *s)
{
    static const TreeKind kinds[] = {
        [STMT_LET] = TREE_LET, [STMT_STORE] = TREE_STORE, [STMT_FAIL] = TREE_FAIL};
    add(b, into, kinds[s->kind])->stmt = s;
}

static void finish(Builder *b, Tree *into, const Phase *p)
{
    into = guarded(b, into, false, true);
    for (int i = 0; i < p->finish.n; i++) {
        statement(b, into, &p->finish.at[i]);
    }
}

/* ---- the reduction ---- */

typedef struct Split { /* a phase's loops, by their place around its reduction */
    Vec(int) outside;  /* space axes around it, and a reduce axis whose turns resume it */
    Vec(int) inside;   /* from the first other reduce axis on */
    Vec(int) tile;     /* the space axes among these */
    Vec(int) priv;     /* the private reduce axes among these */
    Vec(int) all;      /* tile, then priv: an accumulator's instances while it runs */
} Split;

static Split split_of(Builder *b, const Phase *p)
{
    Split s = {0};
    for (int i = 0; i < p->loops.n; i++) {
        int axis = p->loops.at[i];
        const Axis *a = axis_at(b, axis);
        if ((a->kind == AXIS_SPACE || a->resumed) && s.inside.n == 0) {
            *vec_push(b->m, &s.outside) = axis;
        } else {
            *vec_push(b->m, &s.inside) = axis;
        }
        if (a->kind == AXIS_SPACE && s.inside.n > 0) {
            *vec_push(b->m, &s.tile) = axis;
        }
        if (a->priv) {
            *vec_push(b->m, &s.priv) = axis;
        }
    }
    for (int i = 0; i < s.tile.n; i++) {
        *vec_push(b->m, &s.all) = s.tile.at[i];
    }
    for (int i = 0; i < s.priv.n; i++) {
        *vec_push(b->m, &s.all) = s.priv.at[i];
    }
    return s;
}

static VarShape shape_here(Builder *b, const int *axes, int n)
{
    VarShape v = {.n = n};
    check(n <= MAX_SHAPE);
    for (int i = 0; i < n; i++) {
        const Expr *here = b->extent[axes[i]], *most = axis_at(b, axes[i])->extent;
        v.axis[i] = axes[i];
        v.fixed[i] = here->kind == X_CONST;
        v.extent[i] = v.fixed[i] ? here->value.i : most->value.i;
    }
    return v;
}

static void init(Builder *b, Tree *into, const Phase *p)
{
    Split s = split_of(b, p);
    Tree *t = add(b, into, TREE_INIT);
    t->phase = p;
    t->shape = shape_here(b, s.all.at, s.all.n);
}

static void update_as(Builder *b, Tree *into, const Phase *p, VarShape shape)
{
    into = guarded(b, into, true, false);
    for (int i = 0; i < p->body.n; i++) {
        statement(b, into, &p->body.at[i]);
    }
    Tree *t = add(b, into, TREE_UPDATE);
    t->phase = p;
    t->shape = shape;
}

static void update(Builder *b, Tree *into, const Phase *p)
{
    Split s = split_of(b, p);
    update_as(b, into, p, shape_here(b, s.all.at, s.all.n));
}

static void update_combined(Builder *b, Tree *into, const Phase *p)
{
    Split s = split_of(b, p);
    update_as(b, into, p, shape_here(b, s.tile.at, s.tile.n));
}

/* ---- sums that wait in the output ---- */

/* The phase as it is between turns of that axis: its sum starts and ends as an element of the
 * output. */
static const Phase *waiting(Builder *b, const Phase *p)
{
    const Stmt *store = p->finish.at;
    while (store->kind != STMT_STORE) {
        store++;
    }
    Phase *q = arena_dup(b->m, p, sizeof *p);
    Stmt *wait = arena_new(b->m, Stmt);
    Dtype t = b->n->var.at[p->acc.at[0].var].dtype;
    q->acc.at = arena_dup(b->m, p->acc.at, sizeof *p->acc.at);
    q->acc.at[0].init = x_load(b->m, 0, t, store->index);
    *wait = (Stmt){
        .kind = STMT_STORE, .index = store->index, .value = x_var(b->m, p->acc.at[0].var, t)};
    q->finish.at = wait;
    q->finish.n = q->finish.cap = 1;
    return q;
}

/* The axis whose turns resume the phase's sum; -1: it is summed at once. */
static int resumed_axis(const Builder *b, const Phase *p)
{
    for (int i = 0; i < p->loops.n; i++) {
        const Axis *a = axis_at(b, p->loops.at[i]);
        if (a->resumed && a->extent->value.i + axis_peels(b->n, p->loops.at[i]) > 1) {
            return p->loops.at[i];
        }
    }
    return -1;
}

static Tree *add_if(Builder *b, Tree *into, const Expr *value, bool negated)
{
    Tree *t = add(b, into, TREE_IF);
    t->value = value;
    t->negated = negated;
    return t;
}

static void init_again(Builder *b, Tree *into, const Phase *p)
{
    init(b, into, p);
    into->child.at[into->child.n - 1]->again = true;
}

/* From its second turn on. */
static void take_up(Builder *b, Tree *into, const Phase *p, const Split *s, int axis)
{
    const Expr *later = x_op(b->m, S_LT, x_int(b->m, 0), x_axis(b->m, axis));
    loops_into(b, add_if(b, into, later, false),
               (Loops){s->all.at, s->all.n, init_again, waiting(b, p), false, false});
}

/* Before its last turn. The rest goes into what is returned; where that is nothing else, all
 * turns are alike. */
static Tree *put_down(Builder *b, Tree *into, const Phase *p, const Split *s, int axis)
{
    if (p->finish.n == 1 && p->finish.at[0].value->kind == X_VAR) {
        return into;
    }
    int64_t last = axis_at(b, axis)->extent->value.i + axis_peels(b->n, axis) - 1;
    const Expr *earlier = x_op(b->m, S_LT, x_axis(b->m, axis), x_int(b->m, last));
    loops_into(b, add_if(b, into, earlier, false),
               (Loops){s->tile.at, s->tile.n, finish, waiting(b, p), false, false});
    return add_if(b, into, earlier, true);
}

static void reduce(Builder *b, Tree *into, const Phase *p)
{
    Split s = split_of(b, p);
    int resumed = resumed_axis(b, p);
    Tree *acc = add(b, into, TREE_ACC);
    acc->phase = p;
    acc->shape = shape_here(b, s.all.at, s.all.n);
    b->around = true;
    loops_into(b, into, (Loops){s.all.at, s.all.n, init, p, false, false});
    if (resumed >= 0) {
        take_up(b, into, p, &s, resumed);
    }
    b->around = false;
    loops_into(b, into, (Loops){s.inside.at, s.inside.n, update, p, s.priv.n > 0, false});
    if (s.priv.n > 0) { /* the tail joins in order, after the private sums */
        Tree *c = add(b, into, TREE_COMBINE);
        c->phase = p;
        c->shape = shape_here(b, s.tile.at, s.tile.n);
        c->priv = shape_here(b, s.priv.at, s.priv.n);
        int outer = s.inside.at[0];
        int before = into->child.n;
        if (has_tail_code(b, outer)) {
            tail_into(
                b, into, outer,
                (Loops){s.inside.at + 1, s.inside.n - 1, update_combined, p, false, true});
        }
        c->last = into->child.n == before && resumed < 0;
    }
    b->around = true;
    into = resumed >= 0 ? put_down(b, into, p, &s, resumed) : into;
    loops_into(b, into, (Loops){s.tile.at, s.tile.n, finish, p, false, false});
    b->around = false;
}

static void phase_into(Builder *b, Tree *into, const Phase *p)
{
    if (!phase_has(b->n, p, AXIS_REDUCE)) {
        loops_into(b, into, (Loops){p->loops.at, p->loops.n, finish, p, false, false});
        return;
    }
    Split s = split_of(b, p);
    loops_into(b, into, (Loops){s.outside.at, s.outside.n, reduce, p, false, false});
}

static void all_phases(Builder *b, Tree *into, const Phase *unused)
{
    (void)unused;
    for (int i = 0; i < b->n->phase.n; i++) {
        phase_into(b, into, &b->n->phase.at[i]);
    }
}

Tree *nest_tree(Env *e, Arena *m, const Kernel *k)
{
    const Nest *n = &k->nest;
    Builder b = {.m = m, .k = k, .n = n};
    Tree *root = arena_new(m, Tree);
    b.extent = arena_array(&e->kernel, const Expr *, n->axis.n);
    b.open = arena_array(&e->kernel, bool, n->axis.n);
    for (int i = 0; i < n->axis.n; i++) {
        b.extent[i] = n->axis.at[i].extent;
    }
    loops_into(&b, root, (Loops){n->outer.at, n->outer.n, all_phases, NULL, false, false});
    return root;
}
