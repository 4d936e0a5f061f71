/* dim.c - dimensions: integer polynomials in named symbols, kept canonical, so that equal
 * means equal terms. There is no division and no comparison: nothing needs a prover.
 *
 * Plain integers, by far the most common, take the short way out of every operation and
 * allocate nothing. Terms are in printing order, which is a monomial order (degree, then
 * alphabetical): multiplying all terms by one monomial keeps them sorted. Their text is in
 * dim_text.c. */
#include "base/base.h"

#include <string.h>

enum { MAX_SYMBOL_NAME = 64 };

/* ---- symbols --------------------------------------------------------------- */

static bool is_name(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char lower = (char)(s[i] | 0x20);
        bool letter = (lower >= 'a' && lower <= 'z') || s[i] == '_';
        bool digit = s[i] >= '0' && s[i] <= '9';
        if (!letter && !(digit && i > 0)) {
            return false;
        }
    }
    return len > 0 && len <= MAX_SYMBOL_NAME;
}

Sym sym_intern(Env *e, const char *name, size_t len)
{
    for (int i = 0; i < e->n_symbols; i++) {
        if (strlen(e->symbol[i]) == len && memcmp(e->symbol[i], name, len) == 0) {
            return (Sym)i;
        }
    }
    if (!is_name(name, len)) {
        fail(e, E_SYNTAX,
             "\"%.*s\" is not a symbol: a name is at most %d letters, digits and underscores, "
             "and does not start with a digit.",
             (int)(len < 80 ? len : 80), name, MAX_SYMBOL_NAME);
    }
    if (e->n_symbols == MAX_SYMBOLS) {
        fail(e, E_GRAPH,
             "Symbol \"%.*s\" is one too many: at most %d different symbols are allowed.",
             (int)len, name, MAX_SYMBOLS);
    }
    e->symbol[e->n_symbols] = arena_strn(&e->model, name, len);
    return (Sym)e->n_symbols++;
}

/* ---- terms ----------------------------------------------------------------- */

typedef struct Poly { /* under construction: sorted, no zero coefficients */
    int n;
    Term term[MAX_TERMS];
} Poly;

/* The terms of any dim; an integer's only term is written to *own. */
static const Term *terms(Dim d, Term *own, int *n)
{
    if (d.n > 0) {
        *n = d.n;
        return d.term;
    }
    *own = (Term){.coef = d.k};
    *n = d.k != 0;
    return own;
}

static bool same_monomial(const Term *a, const Term *b)
{
    return a->degree == b->degree && memcmp(a->sym, b->sym, sizeof a->sym) == 0;
}

/* Printing order: < 0 if a stands before b. */
static int order(const Env *e, const Term *a, const Term *b)
{
    if (a->degree != b->degree) {
        return b->degree - a->degree;
    }
    for (int i = 0; i < a->degree; i++) {
        if (a->sym[i] != b->sym[i]) {
            return strcmp(e->symbol[a->sym[i]], e->symbol[b->sym[i]]);
        }
    }
    return 0;
}

static void push(Env *e, Poly *p, Term t)
{
    if (t.coef == 0) {
        return;
    }
    if (p->n == MAX_TERMS) {
        fail(e, E_SHAPE, "A symbolic dimension would have more than %d terms.", MAX_TERMS);
    }
    p->term[p->n++] = t;
}

static _Noreturn void overflow(Env *e, const char *what)
{
    fail(e, E_SHAPE, "A dimension overflows: %s does not fit 64 bits.", what);
}

/* out = a + sign * b, both sorted; sign is 1 or -1. */
static void merge(Env *e, Poly *out, const Term *a, int na, const Term *b, int nb, int sign)
{
    out->n = 0;
    for (int i = 0, j = 0; i < na || j < nb;) {
        int cmp = i == na ? 1 : j == nb ? -1 : order(e, &a[i], &b[j]);
        Term t = cmp <= 0 ? a[i] : b[j];
        int64_t left = cmp <= 0 ? a[i].coef : 0, right = cmp >= 0 ? b[j].coef : 0;
        if (sign > 0 ? __builtin_add_overflow(left, right, &t.coef)
                     : __builtin_sub_overflow(left, right, &t.coef)) {
            overflow(e, sign > 0 ? "the sum of two coefficients"
                                 : "the difference of two coefficients");
        }
        push(e, out, t);
        i += cmp <= 0;
        j += cmp >= 0;
    }
}

static Dim canonical(Env *e, const Poly *p)
{
    if (p->n == 0) {
        return dim_int(0);
    }
    if (p->term[0].degree == 0) {
        return dim_int(p->term[0].coef);
    }
    size_t bytes = (size_t)p->n * sizeof *p->term;
    return (Dim){.n = p->n, .term = arena_dup(&e->model, p->term, bytes)};
}

/* One term times another: the symbols of both, merged by name. */
static Term product(Env *e, const Term *a, const Term *b)
{
    Term t = {.degree = (uint8_t)(a->degree + b->degree)};
    if (t.degree > MAX_DEGREE) {
        fail(e, E_SHAPE, "A symbolic dimension would multiply more than %d symbols.",
             MAX_DEGREE);
    }
    if (__builtin_mul_overflow(a->coef, b->coef, &t.coef)) {
        overflow(e, "the product of two coefficients");
    }
    for (int i = 0, j = 0; i < a->degree || j < b->degree;) {
        bool left = j == b->degree ||
                    (i < a->degree && (a->sym[i] == b->sym[j] ||
                                       strcmp(e->symbol[a->sym[i]], e->symbol[b->sym[j]]) < 0));
        t.sym[i + j] = left ? a->sym[i] : b->sym[j];
        i += left;
        j += !left;
    }
    return t;
}

/* ---- arithmetic ------------------------------------------------------------ */

Dim dim_int(int64_t k)
{
    return (Dim){.k = k};
}

Dim dim_sym(Env *e, Sym s)
{
    check(s < e->n_symbols);
    Term *t = arena_new(&e->model, Term);
    *t = (Term){.coef = 1, .degree = 1, .sym = {s}};
    return (Dim){.n = 1, .term = t};
}

Dim dim_named(Env *e, const char *name)
{
    return dim_sym(e, sym_intern(e, name, strlen(name)));
}

/* a + sign * b */
static Dim combine(Env *e, Dim a, Dim b, int sign)
{
    Term own_a, own_b;
    int na, nb;
    const Term *ta = terms(a, &own_a, &na), *tb = terms(b, &own_b, &nb);
    Poly sum;
    merge(e, &sum, ta, na, tb, nb, sign);
    return canonical(e, &sum);
}

static bool both_const(Dim a, Dim b)
{
    return a.n == 0 && b.n == 0;
}

Dim dim_add(Env *e, Dim a, Dim b)
{
    int64_t k;
    if (both_const(a, b) && !__builtin_add_overflow(a.k, b.k, &k)) {
        return dim_int(k);
    }
    if (dim_is(a, 0)) {
        return b;
    }
    return dim_is(b, 0) ? a : combine(e, a, b, 1);
}

Dim dim_sub(Env *e, Dim a, Dim b)
{
    int64_t k;
    if (both_const(a, b) && !__builtin_sub_overflow(a.k, b.k, &k)) {
        return dim_int(k);
    }
    return dim_is(b, 0) ? a : combine(e, a, b, -1);
}

static Dim multiply(Env *e, Dim a, Dim b)
{
    Term own_a, own_b;
    int na, nb;
    const Term *ta = terms(a, &own_a, &na), *tb = terms(b, &own_b, &nb);
    Poly sum[2], row; /* the sum so far and the next one, in turn */
    int now = 0;
    sum[now].n = 0;
    for (int i = 0; i < na; i++, now = !now) {
        row.n = 0;
        for (int j = 0; j < nb; j++) {
            push(e, &row, product(e, &ta[i], &tb[j]));
        }
        merge(e, &sum[!now], sum[now].term, sum[now].n, row.term, row.n, 1);
    }
    return canonical(e, &sum[now]);
}

Dim dim_mul(Env *e, Dim a, Dim b)
{
    int64_t k;
    if (both_const(a, b) && !__builtin_mul_overflow(a.k, b.k, &k)) {
        return dim_int(k);
    }
    if (dim_is(a, 1)) {
        return b;
    }
    return dim_is(b, 1) ? a : multiply(e, a, b);
}

Dim dim_addk(Env *e, Dim a, int64_t k)
{
    return dim_add(e, a, dim_int(k));
}

Dim dim_mulk(Env *e, Dim a, int64_t k)
{
    return dim_mul(e, a, dim_int(k));
}

Dim dim_subst(Env *e, Dim d, const bool has[MAX_SYMBOLS], const Dim with[MAX_SYMBOLS])
{
    Dim sum = dim_int(0);
    bool changed = false;
    for (int i = 0; i < d.n; i++) {
        Dim term = dim_int(d.term[i].coef);
        for (int j = 0; j < d.term[i].degree; j++) {
            Sym s = d.term[i].sym[j];
            term = dim_mul(e, term, has[s] ? with[s] : dim_sym(e, s));
            changed |= has[s];
        }
        sum = dim_add(e, sum, term);
    }
    return changed ? sum : d;
}

/* ---- questions ------------------------------------------------------------- */

bool dim_eq(Dim a, Dim b)
{
    if (a.n != b.n || a.k != b.k) {
        return false;
    }
    for (int i = 0; i < a.n && a.term != b.term; i++) {
        if (a.term[i].coef != b.term[i].coef || !same_monomial(&a.term[i], &b.term[i])) {
            return false;
        }
    }
    return true;
}

bool dim_is_const(Dim d)
{
    return d.n == 0;
}

bool dim_is(Dim d, int64_t k)
{
    return d.n == 0 && d.k == k;
}

bool dim_never_negative(Dim d)
{
    bool never = d.n > 0 || d.k >= 0;
    for (int i = 0; i < d.n; i++) {
        never = never && d.term[i].coef > 0;
    }
    return never;
}

bool dim_as_sym(Dim d, Sym *s)
{
    if (d.n != 1 || d.term[0].degree != 1 || d.term[0].coef != 1) {
        return false;
    }
    *s = d.term[0].sym[0];
    return true;
}

int64_t dim_coef(Dim d, const Sym *sym, int degree)
{
    if (degree > MAX_DEGREE) {
        return 0;
    }
    Term want = {.degree = (uint8_t)degree}, own;
    if (degree > 0) {
        memcpy(want.sym, sym, (size_t)degree);
    }
    int n;
    const Term *t = terms(d, &own, &n);
    for (int i = 0; i < n; i++) {
        if (same_monomial(&t[i], &want)) {
            return t[i].coef;
        }
    }
    return 0;
}

void dim_symbols(Dim d, bool used[MAX_SYMBOLS])
{
    for (int i = 0; i < d.n; i++) {
        for (int j = 0; j < d.term[i].degree; j++) {
            used[d.term[i].sym[j]] = true;
        }
    }
}

/* ---- values ---------------------------------------------------------------- */

/* "past, seq": the symbols of d without a value, by name. False if there are none. */
static bool unbound(Env *e, Dim d, const Sizes *z, char *names, size_t size)
{
    bool used[MAX_SYMBOLS] = {false};
    dim_symbols(d, used);
    size_t len = 0;
    for (;;) {
        int first = -1;
        for (int s = 0; s < e->n_symbols; s++) {
            bool missing = used[s] && !z->bound[s];
            if (missing && (first < 0 || strcmp(e->symbol[s], e->symbol[first]) < 0)) {
                first = s;
            }
        }
        if (first < 0) {
            return len > 0;
        }
        used[first] = false;
        if (len < size) {
            len += (size_t)snprintf(names + len, size - len, "%s%s", len ? ", " : "",
                                    e->symbol[first]);
        }
    }
}

static bool term_value(const Term *t, const int64_t value[MAX_SYMBOLS], int64_t *out)
{
    *out = t->coef;
    for (int i = 0; i < t->degree; i++) {
        if (value[t->sym[i]] == 0) {
            *out = 0;
            return true;
        }
    }
    for (int i = 0; i < t->degree; i++) {
        if (__builtin_mul_overflow(*out, value[t->sym[i]], out)) {
            return false;
        }
    }
    return true;
}

bool dim_eval(Env *e, Dim d, const Sizes *z, int64_t *out, Err *err)
{
    if (d.n == 0) {
        *out = d.k;
        return true;
    }
    char names[512];
    if (unbound(e, d, z, names, sizeof names)) {
        return err_set(err, E_INPUT, "No value is bound to %s.", names);
    }
    __int128 sum = 0; /* MAX_TERMS values of 64 bits always fit */
    bool fits = true;
    for (int i = 0; i < d.n && fits; i++) {
        int64_t value = 0;
        fits = term_value(&d.term[i], z->value, &value);
        sum += value;
    }
    *out = (int64_t)sum;
    return (fits && *out == sum) ||
           err_set(err, E_INPUT, "A dimension overflows 64 bits with these sizes.");
}

/* Unsigned, because a partial sum may pass the range that the whole sum is known to be in. */
int64_t dim_value(Dim d, const int64_t value[MAX_SYMBOLS])
{
    uint64_t sum = (uint64_t)d.k;
    for (int i = 0; i < d.n; i++) {
        uint64_t term = (uint64_t)d.term[i].coef;
        for (int j = 0; j < d.term[i].degree; j++) {
            term *= (uint64_t)value[d.term[i].sym[j]];
        }
        sum += term;
    }
    return (int64_t)sum;
}

/* ---- shapes ---------------------------------------------------------------- */

Shape shape_of(int rank, const Dim *dim)
{
    check(rank >= 0 && rank <= MAX_RANK);
    Shape s = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        s.dim[i] = dim[i];
    }
    return s;
}

bool shape_eq(const Shape *a, const Shape *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; i < a->rank && same; i++) {
        same = dim_eq(a->dim[i], b->dim[i]);
    }
    return same;
}

Dim shape_count(Env *e, const Shape *s)
{
    Dim count = dim_int(1);
    for (int i = 0; i < s->rank; i++) {
        count = dim_mul(e, count, s->dim[i]);
    }
    return count;
}
