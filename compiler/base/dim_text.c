/* dim_text.c - the text of dimensions, shapes and types: "past + seq - 1", "[seq, 4]",
 * "f32[seq, 4]". What is printed reads back as the same dimension.
 *
 * The reader takes text from files: depth and length are limited, every step is checked. */
#include "base/base.h"

#include <string.h>

enum { MAX_DEPTH = 32, MAX_FACTORS = 256 };

/* ---- printing -------------------------------------------------------------- */

static void print_term(Env *e, const Term *t, bool first, Buf *out)
{
    bool negative = t->coef < 0;
    uint64_t magnitude = negative ? -(uint64_t)t->coef : (uint64_t)t->coef;
    buf_str(out, first ? (negative ? "-" : "") : (negative ? " - " : " + "));
    const char *star = "";
    if (t->degree == 0 || magnitude != 1) {
        buf_printf(out, "%llu", (unsigned long long)magnitude);
        star = "*";
    }
    for (int i = 0; i < t->degree; i++, star = "*") {
        buf_str(out, star);
        buf_str(out, e->symbol[t->sym[i]]);
    }
}

void dim_print(Env *e, Dim d, Buf *out)
{
    if (d.n == 0) {
        buf_printf(out, "%lld", (long long)d.k);
    }
    for (int i = 0; i < d.n; i++) {
        print_term(e, &d.term[i], i == 0, out);
    }
}

const char *dim_text(Env *e, Dim d)
{
    Buf out;
    buf_init(&out, &e->kernel);
    dim_print(e, d, &out);
    return out.at;
}

void shape_print(Env *e, const Shape *s, Buf *out)
{
    buf_char(out, '[');
    for (int i = 0; i < s->rank; i++) {
        buf_str(out, i ? ", " : "");
        dim_print(e, s->dim[i], out);
    }
    buf_char(out, ']');
}

const char *shape_text(Env *e, const Shape *s)
{
    Buf out;
    buf_init(&out, &e->kernel);
    shape_print(e, s, &out);
    return out.at;
}

void type_print(Env *e, Dtype t, const Shape *s, Buf *out)
{
    buf_str(out, dtype_name(t));
    shape_print(e, s, out);
}

/* Symbols by id: a key is good within one Env. */
void dim_hash_into(Dim d, Buf *out)
{
    buf_bytes(out, &d.n, sizeof d.n);
    buf_bytes(out, &d.k, sizeof d.k);
    for (int i = 0; i < d.n; i++) {
        buf_bytes(out, &d.term[i].coef, sizeof d.term[i].coef);
        buf_bytes(out, &d.term[i].degree, sizeof d.term[i].degree);
        buf_bytes(out, d.term[i].sym, sizeof d.term[i].sym);
    }
}

/* ---- reading ---------------------------------------------------------------
 * sum:    ['-'] product (('+' | '-') product)*
 * product: factor ('*' factor)*
 * factor: integer | name | '(' sum ')' */

typedef struct Reader {
    Env *e;
    const char *s;     /* next character */
    const char *where; /* prefix of messages */
    int depth, factors;
} Reader;

static Dim read_sum(Reader *r);

static char peek(Reader *r)
{
    r->s += strspn(r->s, " \t");
    return *r->s;
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool name_char(char c)
{
    char lower = (char)(c | 0x20);
    return (lower >= 'a' && lower <= 'z') || c == '_' || digit(c);
}

static _Noreturn void unexpected(Reader *r, const char *wanted)
{
    char c = peek(r);
    if (!c || c == '\n') {
        fail(r->e, E_SYNTAX, "%s: expected %s, found the end of the line.", r->where, wanted);
    }
    fail(r->e, E_SYNTAX, "%s: expected %s, found '%c'.", r->where, wanted, c);
}

/* Grows downward, because -2^63 has no positive counterpart. */
static Dim read_int(Reader *r, bool negative)
{
    int64_t v = 0;
    bool fits = true;
    for (; digit(*r->s); r->s++) {
        fits = fits && !__builtin_mul_overflow(v, 10, &v) &&
               !__builtin_sub_overflow(v, *r->s - '0', &v);
    }
    if (!fits || (!negative && v == INT64_MIN)) {
        fail(r->e, E_SYNTAX, "%s: an integer does not fit 64 bits.", r->where);
    }
    return dim_int(negative ? v : -v);
}

static Dim negate_if(Reader *r, bool negative, Dim d)
{
    return negative ? dim_sub(r->e, dim_int(0), d) : d;
}

static Dim read_factor(Reader *r, bool negative)
{
    char c = peek(r);
    if (++r->factors > MAX_FACTORS) {
        fail(r->e, E_SYNTAX, "%s: a dimension has more than %d numbers and names.", r->where,
             MAX_FACTORS);
    }
    if (digit(c)) {
        return read_int(r, negative);
    }
    if (name_char(c)) {
        const char *name = r->s;
        while (name_char(*r->s)) {
            r->s++;
        }
        Sym sym = sym_intern(r->e, name, (size_t)(r->s - name));
        return negate_if(r, negative, dim_sym(r->e, sym));
    }
    if (c != '(') {
        unexpected(r, "a number, a symbol or '(' in a dimension");
    }
    if (++r->depth > MAX_DEPTH) {
        fail(r->e, E_SYNTAX, "%s: parentheses are nested more than %d deep.", r->where,
             MAX_DEPTH);
    }
    r->s++;
    Dim d = read_sum(r);
    if (peek(r) != ')') {
        unexpected(r, "')' in a dimension");
    }
    r->s++;
    r->depth--;
    return negate_if(r, negative, d);
}

/* The sign belongs to the first factor: so -9223372036854775808*seq reads back. */
static Dim read_product(Reader *r, bool negative)
{
    Dim d = read_factor(r, negative);
    while (peek(r) == '*') {
        r->s++;
        d = dim_mul(r->e, d, read_factor(r, false));
    }
    return d;
}

static Dim read_sum(Reader *r)
{
    bool negative = peek(r) == '-';
    r->s += negative;
    Dim d = read_product(r, negative);
    for (char c = peek(r); c == '+' || c == '-'; c = peek(r)) {
        r->s++;
        d = dim_add(r->e, d, read_product(r, c == '-'));
    }
    return d;
}

Dim dim_parse(Env *e, const char **s, const char *where)
{
    Reader r = {.e = e, .s = *s, .where = where};
    Dim d = read_sum(&r);
    *s = r.s;
    return d;
}
