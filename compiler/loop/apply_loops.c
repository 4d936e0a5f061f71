/* apply_loops.c - steps that change which loops there are and in what order: split, order, unroll, par.
 * keeps: every expression; only the axis table and the loop lists change. */
#include <string.h>

#include "loop/apply_int.h"

#define MAX_FACTOR 4096
#define MAX_UNROLL 64

/* ---- what holds for the loops of a phase ---- */

static void check_tile(Apply *a, const int *list, int n)
{
    bool inside = false;
    for (int i = 0; i < n; i++) {
        const Axis *x = axis_of_nest(a, list[i]);
        inside = inside || (x->kind == AXIS_REDUCE && !x->resumed);
        if (inside && x->kind == AXIS_SPACE && x->extent->kind != X_CONST) {
            refuse(a,
                   "space axis %s stands inside the reduction, and its extent is not constant",
                   x->name);
        }
        if (inside && x->kind == AXIS_SPACE && x->half_of &&
            axis_of_nest(a, x->half_of - 1)->outer == list[i]) {
            refuse(a, "the outer half %s stands inside the reduction", x->name);
        }
    }
}

/* ---- split ---- */

static Tail tail_word(Apply *a, const char *word)
{
    static const char *const names[] = {
        [TAIL_NONE] = "",   [TAIL_PEEL] = "peel",       [TAIL_MASK] = "mask",
        [TAIL_PAD] = "pad", [TAIL_OVERLAP] = "overlap", [TAIL_SWITCH] = "switch"};
    for (size_t i = 1; i < countof(names); i++) {
        if (!strcmp(names[i], word)) {
            return (Tail)i;
        }
    }
    refuse(a, "a tail is peel, mask, pad, overlap or switch, not '%s'", word);
}

static void replace_in(Apply *a, int *list, int *n, int *cap, int **at, int axis, int outer,
                       int inner)
{
    for (int i = 0; i < *n; i++) {
        if (list[i] == axis) {
            if (*n == *cap) {
                *at = arena_grow(a->m, *at, *n, cap, sizeof **at);
            }
            memmove(*at + i + 2, *at + i + 1, (size_t)(*n - i - 1) * sizeof **at);
            (*at)[i] = outer;
            (*at)[i + 1] = inner;
            ++*n;
            return;
        }
    }
}

static int add_half(Apply *a, int whole, const char *suffix, const Expr *extent)
{
    const Axis *w = axis_of_nest(a, whole);
    *vec_push(a->m, &a->k->nest.axis) =
        (Axis){.name = arena_printf(a->m, "%s.%s", w->name, suffix),
               .kind = w->kind,
               .extent = extent,
               .half_of = whole + 1};
    return a->k->nest.axis.n - 1;
}

/* In some tail it is shorter than its extent says. */
static bool shortens(Apply *a, int axis)
{
    int whole = axis_of_nest(a, axis)->half_of - 1;
    if (whole < 0) {
        return false;
    }
    const Axis *w = axis_of_nest(a, whole);
    bool tail = w->tail == TAIL_PEEL || w->tail == TAIL_SWITCH;
    bool inner = w->inner == axis;
    return (inner && tail) || ((!inner || w->tail == TAIL_NONE) && shortens(a, whole));
}

/* Behind an outer half comes a tail of code of its own, which further halves would lose. */
static void check_no_tail(Apply *a, int axis)
{
    const Axis *x = axis_of_nest(a, axis);
    int whole = x->half_of - 1;
    if (whole < 0 || axis_of_nest(a, whole)->outer != axis) {
        return;
    }
    bool none = axis_of_nest(a, whole)->tail == TAIL_NONE;
    if (axis_peels(&a->k->nest, axis) || (none && shortens(a, whole))) {
        refuse(a, "behind %s comes the tail of %s", x->name, axis_of_nest(a, whole)->name);
    }
}

static void check_split(Apply *a, int axis, Tail tail)
{
    const Axis *x = axis_of_nest(a, axis);
    check_no_tail(a, axis);
    if (x->vec || x->unroll || x->par || x->priv || x->resumed) {
        refuse(a, "axis %s already has an annotation; split it first", x->name);
    }
    if (tail == TAIL_OVERLAP && shortens(a, axis)) {
        refuse(a, "in some tail %s is shorter, so a tile may not fit to be moved back",
               x->name);
    }
    if (tail == TAIL_PAD && x->kind == AXIS_REDUCE) {
        refuse(a, "a reduce axis cannot be padded: what is added would be summed");
    }
    if (tail == TAIL_OVERLAP && x->kind == AXIS_REDUCE) {
        refuse(a, "a reduce axis cannot overlap: elements would be summed twice");
    }
    if (tail == TAIL_OVERLAP && x->extent->kind != X_CONST) {
        refuse(a, "the extent of %s is not constant, so a tile may not fit to be moved back",
               x->name);
    }
}

void step_split(Apply *a)
{
    need_words(a, 2, 3);
    need_no_stage(a);
    int axis = axis_named(a, a->word[0]);
    int64_t f = number_word(a, a->word[1], 1, MAX_FACTOR);
    const Expr *extent = axis_of_nest(a, axis)->extent;
    bool divides = extent->kind == X_CONST && extent->value.i % f == 0;
    Tail tail = a->n_words > 2 ? tail_word(a, a->word[2]) : TAIL_NONE;
    check_split(a, axis, tail);
    if (!divides && tail == TAIL_NONE) {
        refuse(a, "%lld does not divide the extent of %s: say what happens to the tail",
               (long long)f, a->word[0]);
    }
    if (tail == TAIL_OVERLAP && extent->value.i < f) {
        refuse(a, "%s has only %lld elements: a tile of %lld cannot be moved back", a->word[0],
               (long long)extent->value.i, (long long)f);
    }
    tail = divides ? TAIL_NONE : tail;
    bool own_code = tail == TAIL_NONE || tail == TAIL_PEEL || tail == TAIL_SWITCH;
    const Expr *n = own_code ? extent : x_op(a->m, S_ADD, extent, x_int(a->m, f - 1));
    int outer = add_half(a, axis, "o", x_op(a->m, S_IDIV, n, x_int(a->m, f)));
    int inner = add_half(a, axis, "i", x_int(a->m, f));
    Axis *x = axis_of_nest(a, axis);
    x->outer = outer;
    x->inner = inner;
    x->factor = f;
    x->tail = tail;
    Nest *nest = &a->k->nest;
    replace_in(a, nest->outer.at, &nest->outer.n, &nest->outer.cap, &nest->outer.at, axis,
               outer, inner);
    for (int i = 0; i < nest->phase.n; i++) {
        Phase *p = &nest->phase.at[i];
        replace_in(a, p->loops.at, &p->loops.n, &p->loops.cap, &p->loops.at, axis, outer,
                   inner);
        check_tile(a, p->loops.at, p->loops.n);
    }
    check_private_tails(a);
}

/* ---- order ---- */

static int place_of(const int *list, int n, int axis)
{
    for (int i = 0; i < n; i++) {
        if (list[i] == axis) {
            return i;
        }
    }
    return -1;
}

static bool is_part_of(Apply *a, int axis, int whole)
{
    while (axis != whole && axis_of_nest(a, axis)->half_of) {
        axis = axis_of_nest(a, axis)->half_of - 1;
    }
    return axis == whole;
}

/* Halves stay nested: nothing of an outer half stands inside anything of the inner one. */
static void check_order(Apply *a, const int *list, int n)
{
    for (int i = 0; i < n; i++) {
        for (int half = list[i], w; (w = axis_of_nest(a, half)->half_of - 1) >= 0; half = w) {
            const Axis *whole = axis_of_nest(a, w);
            for (int k = i + 1; k < n && whole->inner == half; k++) {
                if (is_part_of(a, list[k], whole->outer)) {
                    refuse(a, "%s stands inside %s, its other half",
                           axis_of_nest(a, list[k])->name, axis_of_nest(a, list[i])->name);
                }
            }
        }
    }
}

static void check_reduce_order(Apply *a, const int *before, const int *after, int n)
{
    int last = -1;
    for (int i = 0; i < n; i++) {
        if (axis_of_nest(a, after[i])->kind == AXIS_REDUCE) {
            int was = place_of(before, n, after[i]);
            if (was < last) {
                refuse(a, "reduce axis %s would add in another order",
                       axis_of_nest(a, after[i])->name);
            }
            last = was;
        }
    }
}

/* The phase whose loops hold all of these; else the one with the first. NULL: that is an outer axis. */
static Phase *phase_of_all(Apply *a, const int *list, int n)
{
    for (int i = 0; i < a->k->nest.phase.n; i++) {
        Phase *p = &a->k->nest.phase.at[i];
        bool all = true;
        for (int k = 0; k < n; k++) {
            all = all && place_of(p->loops.at, p->loops.n, list[k]) >= 0;
        }
        if (all) {
            return p;
        }
    }
    return phase_of(a, list[0]);
}

void step_order(Apply *a)
{
    int list[MAX_WORDS];
    need_words(a, 1, MAX_WORDS);
    need_no_stage(a);
    for (int i = 0; i < a->n_words; i++) {
        list[i] = axis_named(a, a->word[i]);
        if (place_of(list, i, list[i]) >= 0) {
            refuse(a, "axis %s is named twice", a->word[i]);
        }
    }
    Phase *p = phase_of_all(a, list, a->n_words);
    int n = p ? p->loops.n : a->k->nest.outer.n;
    int *old = p ? p->loops.at : a->k->nest.outer.at;
    for (int i = 0; i < n; i++) {
        if (place_of(list, a->n_words, old[i]) < 0) {
            refuse(a, "axis %s of the same loops is not named", axis_of_nest(a, old[i])->name);
        }
    }
    if (n != a->n_words) {
        refuse(a, "not all axes named are of the same loops");
    }
    for (int i = 1; i < n; i++) {
        if (axis_of_nest(a, list[i])->par) {
            refuse(a, "%s is split over threads: it stays the outermost loop",
                   axis_of_nest(a, list[i])->name);
        }
    }
    check_order(a, list, n);
    check_reduce_order(a, old, list, n);
    check_tile(a, list, n);
    memcpy(old, list, (size_t)n * sizeof *old);
}

/* ---- unroll, par ---- */

void step_unroll(Apply *a)
{
    need_words(a, 1, 1);
    Axis *x = axis_of_nest(a, axis_named(a, a->word[0]));
    if (x->extent->kind != X_CONST || x->extent->value.i > MAX_UNROLL) {
        refuse(a, "axis %s has no constant extent of at most %d", x->name, MAX_UNROLL);
    }
    if (x->vec || x->par) {
        refuse(a, "axis %s already has another annotation", x->name);
    }
    x->unroll = true;
}

void step_par(Apply *a)
{
    need_words(a, 1, 1);
    int axis = axis_named(a, a->word[0]);
    Axis *x = axis_of_nest(a, axis);
    const Nest *n = &a->k->nest;
    if (x->kind == AXIS_REDUCE) {
        refuse(a, "a reduction is never split over threads, and %s is a reduce axis", x->name);
    }
    if (x->vec || x->unroll || x->par) {
        refuse(a, "axis %s already has %s annotation", x->name, x->par ? "this" : "another");
    }
    const Phase *p = phase_of(a, axis);
    const int *list = n->outer.n ? n->outer.at : p->loops.at;
    if (list[0] != axis) {
        refuse(a, "axis %s is not the outermost loop", x->name);
    }
    for (int i = 0; i < n->phase.n && n->outer.n == 0;
         i++) { /* others would be run by every thread */
        const Phase *q = &n->phase.at[i];
        if (q->loops.n == 0 || q->loops.at[0] != axis) {
            refuse(a, "axis %s is not around all phases", x->name);
        }
    }
    int whole = x->half_of - 1;
    if (whole >= 0 && axis_of_nest(a, whole)->tail == TAIL_OVERLAP) {
        refuse(a, "tiles of %s overlap: two threads would write one element",
               axis_of_nest(a, whole)->name);
    }
    x->par = true;
    a->k->parallel = true;
}
