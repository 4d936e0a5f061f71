/* sums.c - an accumulator of the naive nest, in double and in all lanes, with a bound of what the candidate's order
 * of additions may change.
 *
 * A sum of terms t1 ... tn, added in any tree, is off by at most the errors of the terms and u |s| for each
 * partial sum s on the way (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 3.3 and 4.2). The
 * partial sums are those of the candidate's schedule: one for each private point, then their combination, then the
 * tail. So the bound is that of the terms that are there, some hundred times less than n u sum |t|, and a product
 * of 5,000 that is dropped is seen. Where all terms are multiples of a unit and sum |t| <= 2^24 units, every order
 * is exact and the bound is 0. Where finite terms can overflow on the way, an infinite sum may become NaN
 * in another order, and nothing is said of it. */
#include <float.h>
#include <math.h>

#include "run/verify_int.h"

static double *part_of(Sum *s, int group)
{
    return s->part + (size_t)group * LANES;
}

void sum_start(Points *p, Sum *s)
{
    const Near *init = near_eval(p, s->init, near_lanes(p));
    s->value = *init;
    s->whole = s->unit > 0 && init->sure;
    s->joined = s->n_parts == 1;
    s->n_terms = 0;
    for (int l = 0; s->kind == SUM_TERMS && l < p->n; l++) {
        s->err[l] = near_error(init, l);
        s->size[l] = fabs(init->v[l]);
        s->finite[l] = isfinite(init->v[l]) ? s->size[l] : 0;
        s->open[l] = false;
        for (int g = 0; g < s->n_parts; g++) {
            part_of(s, g)[l] = g == 0 ? init->v[l] : 0;
        }
    }
}

/* ---- terms ---- */

/* The private sums become one, pairwise: each level adds up what all sums have together at the most. */
static void join(Sum *s, int n)
{
    int levels = 0;
    while (1 << levels < s->n_parts) {
        levels++;
    }
    for (int l = 0; l < n; l++) {
        double sum = 0, size = 0;
        for (int g = 0; g < s->n_parts; g++) {
            sum += part_of(s, g)[l];
            size += fabs(part_of(s, g)[l]);
        }
        part_of(s, 0)[l] = sum;
        s->err[l] += levels * UNIT_ROUNDOFF * (size + s->err[l]);
    }
    s->joined = true;
}

static bool multiples(const Near *t, int n, double unit)
{
    const double magic =
        0x1.8p52 * unit; /* what is added to it is rounded to a multiple of unit */
    bool all = t->sure;
    for (int l = 0; all && l < n; l++) {
        all = (t->v[l] + magic) - magic == t->v[l];
    }
    return all;
}

static void add_term(Sum *s, const Near *t, int n, int group)
{
    if (group < 0 && !s->joined) {
        join(s, n);
    }
    double *part = part_of(s, s->joined ? 0 : group);
    s->whole = s->whole && multiples(t, n, s->unit);
    s->n_terms++;
    const double floor_of_product =
        s->factor[0] ? DENORMAL_HALF : 0; /* sums of two f32 do not underflow */
    for (int l = 0; l < n && !t->sure; l++) {
        s->err[l] += t->err[l];
        s->open[l] = s->open[l] || isinf(t->err[l]);
    }
    for (int l = 0; l < n; l++) {
        part[l] += t->v[l];
        s->err[l] += UNIT_ROUNDOFF * (fabs(part[l]) + s->err[l]) + floor_of_product;
        s->size[l] += fabs(t->v[l]);
        s->finite[l] += isfinite(t->v[l]) ? fabs(t->v[l]) : 0;
    }
}

/* The exact product of two factors, as a fused operation adds it. */
static const Near *exact_product(Points *p, Sum *s)
{
    const Near *a = near_eval(p, s->factor[0], near_lanes(p));
    const Near *b = near_eval(p, s->factor[1], near_lanes(p));
    s->product.sure = a->sure && b->sure;
    for (int l = 0; l < p->n; l++) {
        s->product.v[l] = a->v[l] * b->v[l];
    }
    for (int l = 0; l < p->n && !s->product.sure; l++) {
        double x = a->v[l], y = b->v[l], ex = near_error(a, l), ey = near_error(b, l);
        double err = fabs(x) * ey + fabs(y) * ex + ex * ey;
        bool nan = isnan(x) || isnan(y);
        s->product.err[l] = nan || ex + ey == 0 ? 0 : isfinite(err) ? err : INFINITY;
        s->product.v[l] = isinf(s->product.err[l]) ? 0 : x * y;
    }
    return &s->product;
}

static void end_terms(const Points *p, Sum *s)
{
    double exact = s->unit * 0x1p24;
    if (!s->joined) {
        join(s, p->n);
    }
    s->value.sure = false;
    for (int l = 0; l < p->n; l++) {
        double v = part_of(s, 0)[l], err = s->err[l];
        if (s->whole && s->size[l] <= exact) {
            err = 0;
        } else if (s->how.n_groups == 0) { /* any order: n u sum |t| it is */
            err += (double)s->n_terms * 2 * UNIT_ROUNDOFF * (s->size[l] + err);
        }
        bool plain = fabs(v) + err <= FLT_MAX && s->size[l] <= FLT_MAX;
        bool stays =
            !s->open[l] && s->finite[l] <= FLT_MAX; /* no partial sum becomes the other */
        bool known = isnan(v) || (isinf(v) && stays);
        s->value.v[l] = plain || known ? v : 0;
        s->value.err[l] = plain ? err : known ? 0 : INFINITY;
    }
}

/* ---- maxima ---- */

/* acc < t || t != t ? t : acc. Each is off by its own error at the most, so the larger is too. */
static void add_max(Sum *s, const Near *t, int n)
{
    Near *m = &s->value;
    for (int l = 0; l < n; l++) {
        double a = m->v[l], b = t->v[l], ea = near_error(m, l), eb = near_error(t, l);
        bool nan = isnan(a) || isnan(b), first = a - ea >= b + eb, second = b - eb > a + ea;
        m->v[l] = a < b || b != b ? b : a;
        m->err[l] = nan ? 0 : first ? ea : second ? eb : fmax(ea, eb);
    }
    m->sure = m->sure && t->sure;
}

/* ---- any of them ---- */

void sum_step(Points *p, Sum *s, const int64_t *axis_value)
{
    const Near *t = s->factor[0] ? exact_product(p, s) : near_eval(p, s->update, near_lanes(p));
    if (s->kind == SUM_TERMS) {
        add_term(s, t, p->n, grouping_at(&s->how, axis_value));
    } else if (s->kind == SUM_MAX) {
        add_max(s, t, p->n);
    } else {
        s->value = *t;
    }
}

void sum_end(const Points *p, Sum *s)
{
    if (s->kind == SUM_TERMS) {
        end_terms(p, s);
    }
}

typedef struct Seek {
    int var;
    bool found;
} Seek;

static void seek(const Expr *x, void *ctx)
{
    Seek *s = ctx;
    s->found = s->found || (x->kind == X_VAR && x->id == s->var);
}

static bool reads_var(const Expr *x, int var)
{
    Seek s = {var, false};
    expr_visit(x, seek, &s);
    return s.found;
}

/* Where the candidate adds products by fused operations: a let in the body is the product, too. */
static void find_factors(Points *p, Sum *s, const Phase *phase, const Expr *term)
{
    for (int i = 0; term->kind == X_VAR && i < phase->body.n; i++) {
        term = phase->body.at[i].var == term->id ? phase->body.at[i].value : term;
    }
    if (s->how.fused && term->kind == X_OP && term->op == S_MUL) {
        s->factor[0] = near_node(p, term->a);
        s->factor[1] = near_node(p, term->b);
    }
}

void sum_init(Points *p, Sum *s, const Question *q, const Phase *phase, const Accum *acc)
{
    const Expr *term = NULL, *update = acc->update;
    bool f32 = acc->init->dtype == DT_F32;
    s->how = grouping_of(q->naive, q->scheduled, acc, q->syms);
    s->unit = q->unit;
    if (f32 && !s->how.in_order && acc_is_sum(acc, &term) && !reads_var(term, acc->var)) {
        s->kind = SUM_TERMS;
        update = term;
        find_factors(p, s, phase, term);
    } else if (f32 && acc_is_max(acc, &term) && !reads_var(term, acc->var)) {
        s->kind = SUM_MAX;
        update = term;
    }
    s->n_parts = s->how.n_groups ? s->how.n_groups : 1;
    s->part = arena_array(&p->e->kernel, double, s->n_parts *LANES);
    s->init = near_node(p, acc->init);
    s->update = near_node(p, update);
}
