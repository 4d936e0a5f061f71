/* ncg_lex.c - words, names, numbers and shapes of one line of the text form.
 *
 * Reads text that anyone may have written: every name, nesting and number is limited before
 * anything is made of it, and every message says file, line, column and the token it met. */
#include "graph/ncg_int.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { MAX_SHOWN = 40, MAX_LITERAL = 64 };

static bool letter(char c)
{
    char lower = (char)(c | 0x20);
    return (lower >= 'a' && lower <= 'z') || c == '_';
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool word_char(char c)
{
    return letter(c) || digit(c) || c == '.';
}

bool ncg_word(const char *s, size_t len)
{
    bool ok = len > 0 && len <= NCG_MAX_NAME && letter(s[0]);
    for (size_t i = 1; ok && i < len; i++) {
        ok = word_char(s[i]);
    }
    return ok;
}

bool word_is(Word w, const char *s)
{
    return strlen(s) == w.len && memcmp(s, w.at, w.len) == 0;
}

/* ---- messages ----------------------------------------------------------- */

const char *lex_where(const Lexer *l, const char *at)
{
    return arena_printf(&l->e->kernel, "%s:%d:%d", l->file, l->line,
                        (int)(at - l->line_at) + 1);
}

void lex_fail(const Lexer *l, const char *at, const char *fmt, ...)
{
    Err err;
    va_list ap;
    va_start(ap, fmt);
    err_vset(&err, E_SYNTAX, fmt, ap);
    va_end(ap);
    fail(l->e, E_SYNTAX, "%s: %s", lex_where(l, at), err.text);
}

static size_t token_length(const char *s)
{
    if (*s == '"') {
        size_t n = 1 + strcspn(s + 1, "\"");
        return n + (s[n] == '"');
    }
    size_t n = *s == '%';
    while (word_char(s[n])) {
        n++;
    }
    return n > 0 ? n : 1;
}

/* The token at s as a message shows it: cut, and with bytes that are not ASCII spelt out. */
static const char *shown(const Lexer *l, const char *s)
{
    if (!*s || *s == '#') {
        return "the end of the line";
    }
    Buf b;
    buf_init(&b, &l->e->kernel);
    size_t len = token_length(s);
    buf_char(&b, '\'');
    for (size_t i = 0; i < len && i < MAX_SHOWN; i++) {
        bool plain = s[i] >= ' ' && s[i] < 0x7f;
        buf_printf(&b, plain ? "%c" : "\\x%02x", plain ? s[i] : (unsigned char)s[i]);
    }
    buf_str(&b, len > MAX_SHOWN ? "...'" : "'");
    return b.at;
}

void lex_unexpected(Lexer *l, const char *what)
{
    lex_peek(l);
    lex_fail(l, l->s, "expected %s, found %s.", what, shown(l, l->s));
}

/* ---- words and names ---------------------------------------------------- */

char lex_peek(Lexer *l)
{
    l->s += strspn(l->s, " \t");
    return *l->s == '#' ? 0 : *l->s;
}

bool lex_accept(Lexer *l, char c)
{
    bool found = lex_peek(l) == c;
    l->s += found;
    return found;
}

void lex_expect(Lexer *l, char c)
{
    if (!lex_accept(l, c)) {
        lex_unexpected(l, (char[]){'\'', c, '\'', 0});
    }
}

static Word take(Lexer *l, size_t len)
{
    Word w = {l->s, len};
    if (len > NCG_MAX_NAME) {
        lex_fail(l, l->s, "the name %s has %zu bytes; at most %d are allowed.", shown(l, l->s),
                 len, NCG_MAX_NAME);
    }
    l->s += len;
    return w;
}

Word lex_word(Lexer *l, const char *what)
{
    if (!letter(lex_peek(l))) {
        lex_unexpected(l, what);
    }
    return take(l, token_length(l->s));
}

Word lex_node(Lexer *l, const char *what)
{
    if (lex_peek(l) != '%') {
        return lex_word(l, what);
    }
    if (!word_char(l->s[1])) {
        lex_unexpected(l, what);
    }
    return take(l, token_length(l->s));
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef",
               *at = c ? strchr(digits, c | (c > '9' ? 0x20 : 0)) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* What follows a backslash: a quote, a backslash, or xHH. */
static char escaped(Lexer *l)
{
    const char *at = l->s++;
    if (*l->s == '"' || *l->s == '\\') {
        return *l->s++;
    }
    int high = *l->s == 'x' ? hex_digit(l->s[1]) : -1;
    int low = high >= 0 ? hex_digit(l->s[2]) : -1;
    if (low < 0 || high + low == 0) {
        lex_fail(l, at, "a name escapes only \\\", \\\\ and \\xHH with HH from 01 to ff.");
    }
    l->s += 3;
    return (char)(high * 16 + low);
}

static bool valid_utf8(const char *s)
{
    utf8proc_int32_t code;
    for (utf8proc_ssize_t n = 1; n > 0 && *s; s += n) {
        n = utf8proc_iterate((const utf8proc_uint8_t *)s, -1, &code);
        if (n < 0) {
            return false;
        }
    }
    return true;
}

const char *lex_string(Lexer *l)
{
    const char *start = l->s++;
    char name[NCG_MAX_NAME + 1];
    size_t len = 0;
    while (*l->s != '"') {
        if (!*l->s) {
            lex_fail(l, start, "the name %s has no closing quote.", shown(l, start));
        }
        if (len == NCG_MAX_NAME) {
            lex_fail(l, start, "the name %s has more than %d bytes.", shown(l, start),
                     NCG_MAX_NAME);
        }
        name[len++] = *l->s == '\\' ? escaped(l) : *l->s++;
    }
    l->s++;
    name[len] = 0;
    if (len == 0) {
        lex_fail(l, start, "a name must not be empty.");
    }
    if (!valid_utf8(name)) {
        lex_fail(l, start, "the name %s is not valid UTF-8.", shown(l, start));
    }
    return arena_strn(&l->e->model, name, len);
}

const char *lex_name(Lexer *l, const char *what)
{
    if (lex_peek(l) == '"') {
        return lex_string(l);
    }
    Word w = lex_word(l, what);
    return arena_strn(&l->e->model, w.at, w.len);
}

/* ---- numbers and types -------------------------------------------------- */

int lex_integer(Lexer *l, const char *what)
{
    lex_peek(l);
    const char *at = l->s;
    char *end;
    errno = 0;
    long long v = digit(at[*at == '-']) ? strtoll(at, &end, 10) : (end = (char *)at, 0);
    if (end == at || errno == ERANGE || v < -1000000 || v > 1000000) {
        lex_unexpected(l, what);
    }
    l->s = end;
    return (int)v;
}

Dim lex_dim(Lexer *l)
{
    lex_peek(l);
    return dim_parse(l->e, &l->s, lex_where(l, l->s));
}

Shape lex_shape(Lexer *l)
{
    Shape shape = {0};
    lex_expect(l, '[');
    while (!lex_accept(l, ']')) {
        if (shape.rank > 0) {
            lex_expect(l, ',');
        }
        if (shape.rank == MAX_RANK) {
            lex_fail(l, l->s, "a shape has more than %d axes.", MAX_RANK);
        }
        shape.dim[shape.rank++] = lex_dim(l);
    }
    return shape;
}

Dtype lex_dtype(Lexer *l)
{
    lex_peek(l);
    const char *at = l->s;
    Word w = lex_word(l, "a dtype");
    Dtype t;
    if (!dtype_parse(w.at, w.len, &t)) {
        Guess g = guess_start(w);
        for (int i = 0; i < N_DTYPES; i++) {
            guess_try(&g, (Word){dtype_name((Dtype)i), strlen(dtype_name((Dtype)i))});
        }
        lex_fail(l, at, "there is no dtype %s%s", shown(l, at), guess_text(l->e, &g));
    }
    return t;
}

/* Finite decimals, inf, -inf, nan and nan:0xBITS; strtof would take more. */
static bool read_f32(const char *s, float *f)
{
    uint32_t bits = NCG_NAN;
    char *end = (char *)s;
    if (strncmp(s, "nan", 3) == 0) {
        if (strncmp(s, "nan:0x", 6) == 0 && hex_digit(s[6]) >= 0 && strlen(s) <= 14) {
            bits = (uint32_t)strtoul(s + 6, &end, 16);
        } else {
            end += 3;
        }
        memcpy(f, &bits, sizeof bits);
        return *end == 0 && isnan(*f);
    }
    if (strcmp(s, "inf") == 0 || strcmp(s, "-inf") == 0) {
        *f = *s == '-' ? -INFINITY : INFINITY;
        return true;
    }
    bool decimal = digit(s[*s == '-']) && s[strspn(s, "0123456789.eE+-")] == 0;
    *f = decimal ? strtof(s, &end) : 0;
    return decimal && *end == 0 && isfinite(*f);
}

static bool read_value(const char *s, Dtype t, Value *v)
{
    if (t == DT_F32) {
        return read_f32(s, &v->f);
    }
    if (t == DT_BOOL) {
        v->i = strcmp(s, "true") == 0;
        return v->i || strcmp(s, "false") == 0;
    }
    char *end = (char *)s;
    errno = 0;
    v->i = digit(s[*s == '-']) ? strtoll(s, &end, 10) : 0;
    int64_t highest = INT64_MAX >> (64 - 8 * dtype_bytes(t));
    return end > s && *end == 0 && errno == 0 && v->i <= highest && v->i >= -highest - 1;
}

void lex_value(Lexer *l, Dtype t, Buf *out)
{
    lex_peek(l);
    char text[MAX_LITERAL + 1] = {0};
    size_t len = strcspn(l->s, ", \t#");
    memcpy(text, l->s, len <= MAX_LITERAL ? len : 0);
    Value v;
    if (!read_value(text, t, &v)) {
        char what[48];
        snprintf(what, sizeof what, "a value of dtype %s", dtype_name(t));
        lex_unexpected(l, what);
    }
    l->s += len;
    char bytes[8];
    value_store(bytes, t, 0, v);
    buf_bytes(out, bytes, (size_t)dtype_bytes(t));
}

/* ---- did you mean ------------------------------------------------------- */

enum { MAX_GUESS = 32 };

/* Levenshtein's distance of short words. */
static int distance(Word a, Word b)
{
    int row[MAX_GUESS + 1];
    for (size_t j = 0; j <= b.len; j++) {
        row[j] = (int)j;
    }
    for (size_t i = 0; i < a.len; i++) {
        int diagonal = row[0];
        row[0] = (int)i + 1;
        for (size_t j = 0; j < b.len; j++) {
            int change = diagonal + (a.at[i] != b.at[j]);
            int step = 1 + (row[j] < row[j + 1] ? row[j] : row[j + 1]);
            diagonal = row[j + 1];
            row[j + 1] = change < step ? change : step;
        }
    }
    return row[b.len];
}

Guess guess_start(Word w)
{
    return (Guess){.w = w,
                   .distance = w.len < 3 ? 2 : 3}; /* beyond two letters it is no typo */
}

void guess_try(Guess *g, Word candidate)
{
    if (g->w.len > MAX_GUESS || candidate.len > MAX_GUESS) {
        return;
    }
    int d = distance(g->w, candidate);
    if (d < g->distance && (size_t)d < candidate.len) {
        g->distance = d;
        g->best = candidate;
    }
}

const char *guess_text(Env *e, const Guess *g)
{
    return g->best.len > 0 ? arena_printf(&e->kernel, "; did you mean '%.*s'?",
                                          (int)g->best.len, g->best.at)
                           : ".";
}
