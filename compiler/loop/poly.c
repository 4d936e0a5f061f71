/* poly.c - integer index arithmetic as a sum of products of atoms, so that terms meet, unrolled axes
 * disappear into constants, and a / or % by a constant resolves where the axes' extents allow it.
 * needs: a nest's axis table (split axes are written as their halves). keeps: the value.
 *
 *     atoms    an axis, a symbol, a variable, or a / % or other expression that stays as it is
 *     ranges   an axis lies in 0 .. extent - 1; symbols are >= 0; a % c lies in 0 .. c - 1 */
#include "loop/schedule.h"

#include <string.h>

#define MAX_FACTORS 4
#define MAX_SUM 24

typedef struct Product {
    int64_t coef;
    int n;
    const Expr *atom[MAX_FACTORS]; /* in order of atom_before */
} Product;

typedef struct Sum {
    int n;
    Product at[MAX_SUM];
    bool overflow; /* too many terms: the expression is kept as one atom by the caller */
} Sum;

typedef struct Ctx {
    Arena *m;
    const Nest *n;
} Ctx;

static Sum sum_of(Ctx *c, const Expr *x);
static const Expr *expr_of(Ctx *c, const Sum *s);

/* ---- sums ---- */

static Sum constant(int64_t k)
{
    Sum s = {.n = k != 0};
    s.at[0] = (Product){.coef = k};
    return s;
}

static Sum atom(const Expr *x)
{
    return (Sum){.n = 1, .at = {{.coef = 1, .n = 1, .atom = {x}}}};
}

static bool same_atoms(const Product *a, const Product *b)
{
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++) {
        same = expr_eq(a->atom[i], b->atom[i]);
    }
    return same;
}

static void add_product(Sum *s, Product p)
{
    for (int i = 0; i < s->n; i++) {
        if (same_atoms(&s->at[i], &p)) {
            s->at[i].coef += p.coef;
            if (s->at[i].coef == 0) {
                memmove(&s->at[i], &s->at[i + 1], (size_t)(s->n - i - 1) * sizeof p);
                s->n--;
            }
            return;
        }
    }
    if (p.coef == 0) {
        return;
    }
    if (s->n == MAX_SUM) {
        s->overflow = true;
        return;
    }
    s->at[s->n++] = p;
}

static Sum plus(Sum a, const Sum *b, int64_t times)
{
    a.overflow = a.overflow || b->overflow;
    for (int i = 0; i < b->n; i++) {
        Product p = b->at[i];
        p.coef *= times;
        add_product(&a, p);
    }
    return a;
}

static Sum times(const Sum *a, const Sum *b)
{
    Sum out = {.overflow = a->overflow || b->overflow};
    for (int i = 0; i < a->n; i++) {
        for (int k = 0; k < b->n; k++) {
            Product p = a->at[i];
            const Product *q = &b->at[k];
            p.coef *= q->coef;
            out.overflow = out.overflow || p.n + q->n > MAX_FACTORS;
            for (int f = 0; f < q->n && p.n < MAX_FACTORS; f++) {
                p.atom[p.n++] = q->atom[f];
            }
            add_product(&out, p);
        }
    }
    return out;
}

/* ---- ranges ---- */

typedef struct Range {
    bool known; /* least <= value <= most */
    int64_t least, most;
} Range;

static Range atom_range(Ctx *c, const Expr *x);

static Range sum_range(Ctx *c, const Sum *s)
{
    Range r = {.known = !s->overflow};
    for (int i = 0; r.known && i < s->n; i++) {
        const Product *p = &s->at[i];
        Range a = p->n == 0   ? (Range){true, 1, 1}
                  : p->n == 1 ? atom_range(c, p->atom[0])
                              : (Range){0};
        r.known = a.known;
        r.least += p->coef * (p->coef > 0 ? a.least : a.most);
        r.most += p->coef * (p->coef > 0 ? a.most : a.least);
    }
    return r;
}

static Range atom_range(Ctx *c, const Expr *x)
{
    if (x->kind == X_AXIS) {
        const Axis *a = &c->n->axis.at[x->id];
        int64_t past = axis_peels(c->n, x->id) ? 1 : 0; /* the tail is one turn more */
        return (Range){a->extent->kind == X_CONST, 0, a->extent->value.i - 1 + past};
    }
    if (x->kind == X_OP && x->op == S_MOD && x->b->kind == X_CONST) {
        return (Range){true, 0, x->b->value.i - 1};
    }
    if (x->kind == X_OP && x->op == S_IDIV && x->b->kind == X_CONST && x->b->value.i > 0) {
        Sum s = sum_of(c, x->a);
        Range r = sum_range(c, &s);
        return (Range){r.known, r.least / x->b->value.i, r.most / x->b->value.i};
    }
    return (Range){0};
}

/* ---- division by a constant ---- */

/* s = g*u + r with 0 <= r < g: high parts are divided by g, the rest is r. */
static bool separates(Ctx *c, const Sum *s, int64_t g, Sum *u, Sum *r)
{
    Sum high = {0}, low = {0};
    for (int i = 0; i < s->n; i++) {
        Product p = s->at[i];
        bool divides = p.n > 0 && p.coef % g == 0;
        p.coef /= divides ? g : 1;
        add_product(divides ? &high : &low, p);
    }
    Range range = sum_range(c, &low);
    *u = high;
    *r = low;
    return range.known && range.least >= 0 && range.most < g;
}

/* The largest divisor g > 1 of d that separates s. False: there is none. */
static bool separate(Ctx *c, const Sum *s, int64_t d, int64_t *g, Sum *u, Sum *r)
{
    int64_t root = 1;
    for (; root <= d / root; root++) {
        *g = d / root;
        if (d % root == 0 && *g > 1 && separates(c, s, *g, u, r)) {
            return true;
        }
    }
    for (*g = root - 1; *g > 1; --*g) {
        if (d % *g == 0 && separates(c, s, *g, u, r)) {
            return true;
        }
    }
    return false;
}

static Sum division(Ctx *c, const Expr *x)
{
    Sum s = sum_of(c, x->a), u, r;
    int64_t d = x->b->kind == X_CONST ? x->b->value.i : 0, g;
    bool div = x->op == S_IDIV;
    if (s.overflow || d <= 1 || !separate(c, &s, d, &g, &u, &r)) {
        const Expr *y = x_op(c->m, x->op, expr_of(c, &s), index_simplify(c->m, c->n, x->b));
        return y->kind == X_CONST ? constant(y->value.i) : atom(y);
    }
    /* (g*u + r) / d is u / (d/g), and % is g * (u % (d/g)) + r. */
    const Expr *y = x_op(c->m, x->op, expr_of(c, &u), x_int(c->m, d / g));
    Sum q = y->kind == X_CONST ? constant(y->value.i) : d == g ? u : atom(y);
    return div ? q : plus(r, &q, g);
}

/* ---- to and fro ---- */

static Sum axis_sum(Ctx *c, int id)
{
    const Axis *a = &c->n->axis.at[id];
    if (axis_is_unit(c->n, id) && !axis_peels(c->n, id)) {
        return constant(0);
    }
    if (!a->outer) {
        return atom(x_axis(c->m, id));
    }
    Sum outer = axis_sum(c, a->outer), inner = axis_sum(c, a->inner);
    if (a->tail == TAIL_OVERLAP) { /* the last tile is moved back: min(outer * f, extent - f) */
        Sum f = constant(a->factor), extent = sum_of(c, a->extent);
        Sum from = times(&outer, &f), last = plus(extent, &f, -1);
        const Expr *x = expr_of(c, &from), *y = expr_of(c, &last);
        return plus(atom(x_select(c->m, x_op(c->m, S_LT, x, y), x, y)), &inner, 1);
    }
    return plus(inner, &outer, a->factor);
}

static Sum sum_of(Ctx *c, const Expr *x)
{
    Sum s = {.overflow = true};
    if (x->dtype != DT_I64) {
        return atom(x);
    }
    if (x->kind == X_CONST) {
        return constant(x->value.i);
    }
    if (x->kind == X_AXIS) {
        return axis_sum(c, x->id);
    }
    if (x->kind == X_OP && (x->op == S_IDIV || x->op == S_MOD)) {
        s = division(c, x);
    } else if (x->kind == X_OP && (x->op == S_ADD || x->op == S_SUB)) {
        Sum b = sum_of(c, x->b);
        s = plus(sum_of(c, x->a), &b, x->op == S_ADD ? 1 : -1);
    } else if (x->kind == X_OP && x->op == S_MUL) {
        Sum a = sum_of(c, x->a), b = sum_of(c, x->b);
        s = times(&a, &b);
    } else {
        return atom(x);
    }
    return s.overflow ? atom(x) : s;
}

/* Constant last; a coefficient on the right, as lowering writes it. */
static const Expr *expr_of(Ctx *c, const Sum *s)
{
    const Expr *sum = x_int(c->m, 0), *k = x_int(c->m, 0);
    for (int i = 0; i < s->n; i++) {
        const Product *p = &s->at[i];
        const Expr *x = p->n ? p->atom[0] : NULL;
        for (int f = 1; f < p->n; f++) {
            x = x_op(c->m, S_MUL, x, p->atom[f]);
        }
        if (!x) {
            k = x_int(c->m, p->coef);
        } else {
            sum = x_op(c->m, S_ADD, sum, x_op(c->m, S_MUL, x, x_int(c->m, p->coef)));
        }
    }
    return x_op(c->m, S_ADD, sum, k);
}

const Expr *index_simplify(Arena *m, const Nest *n, const Expr *x)
{
    Ctx c = {m, n};
    Sum s = sum_of(&c, x);
    return expr_of(&c, &s);
}

static void mentions_axis(const Expr *x, void *ctx)
{
    int *axis = ctx;
    if (x->kind == X_AXIS && x->id == *axis) {
        *axis = -1;
    }
}

bool index_stride(Env *e, const Nest *n, const Expr *x, int axis, int64_t *stride)
{
    Ctx c = {&e->kernel, n};
    Sum s = sum_of(&c, x);
    *stride = 0;
    for (int i = 0; i < s.n; i++) {
        const Product *p = &s.at[i];
        for (int f = 0; f < p->n; f++) {
            int seen = axis;
            expr_visit(p->atom[f], mentions_axis, &seen);
            if (seen < 0 && (p->n > 1 || p->atom[0]->kind != X_AXIS)) {
                return false;
            }
            *stride += seen < 0 ? p->coef : 0;
        }
    }
    return true;
}

/* ---- comparing ---- */

/* The least (or most) that s can be, with every axis at the end of its range that makes it so: a sum over
 * symbols. False: it holds something that is neither. */
static bool extreme(Ctx *c, const Sum *s, bool least, Sum *out)
{
    *out = (Sum){0};
    for (int i = 0; i < s->n; i++) {
        Product p = s->at[i];
        int at = -1;
        for (int f = 0; f < p.n; f++) {
            if (p.atom[f]->kind != X_SYM && (p.atom[f]->kind != X_AXIS || at >= 0)) {
                return false;
            }
            at = p.atom[f]->kind == X_AXIS ? f : at;
        }
        if (at < 0) {
            add_product(out, p);
        } else if ((p.coef < 0) == least) { /* at its last turn; at the first it adds nothing */
            Sum last = sum_of(
                c, x_op(c->m, S_SUB, c->n->axis.at[p.atom[at]->id].extent, x_int(c->m, 1)));
            memmove(&p.atom[at], &p.atom[at + 1], (size_t)(p.n - at - 1) * sizeof *p.atom);
            p.n--;
            Sum rest = {.n = 1, .at = {p}}, product = times(&rest, &last);
            *out = plus(*out, &product, 1);
        }
    }
    return !out->overflow;
}

/* Whether a sum over symbols is >= at_least whatever they are. */
static bool surely(const Sum *s, int64_t sign, int64_t at_least)
{
    int64_t k = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->at[i].n == 0) {
            k = s->at[i].coef * sign;
        } else if (s->at[i].coef * sign < 0) {
            return false;
        }
    }
    return k >= at_least;
}

int index_below(Arena *m, const Nest *n, const Expr *x, const Expr *bound)
{
    Ctx c = {m, n};
    Sum a = sum_of(&c, bound), b = sum_of(&c, x), end;
    Sum room = plus(a, &b, -1);
    if (extreme(&c, &room, true, &end) && surely(&end, 1, 1)) {
        return 1;
    }
    return extreme(&c, &room, false, &end) && surely(&end, -1, 0) ? -1 : 0;
}
