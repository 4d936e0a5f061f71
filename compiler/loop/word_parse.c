/* word_parse.c - words, names and numbers of kernel text, for expr_parse.c and
 * kernel_parse.c.
 *
 * Names end up as variables of emitted C, so what C or its headers could take is refused
 * here: keywords, the function's own parameters, capitals (macros), types, the helpers of
 * emit. */
#include "loop/loop_int.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 64 };

void parse_fail(const Parser *p, const char *at, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fail(p->e, E_SYNTAX, "%s:%d:%d: %s", p->file, p->line, (int)(at - p->start) + 1, text);
}

/* ---- words ---- */

/* Words of the text, of C, and of the emitted function. Capitals and what is_reserved matches are
 * refused by rule. */
static const char *const reserved[] = {
    "kernel",   "axis",     "space",    "reduce", "outer",    "phase",  "fail",   "max",
    "nan",      "inf",      "true",     "false",  "params",   "syms",   "part",   "n_parts",
    "expf",     "sqrtf",    "sinf",     "cosf",   "auto",     "break",  "case",   "char",
    "const",    "continue", "default",  "do",     "double",   "else",   "enum",   "extern",
    "float",    "for",      "goto",     "if",     "inline",   "int",    "long",   "register",
    "restrict", "return",   "short",    "signed", "sizeof",   "static", "struct", "switch",
    "typedef",  "union",    "unsigned", "void",   "volatile", "while",  "asm",    "typeof",
    "linux",    "unix",
};

static Hash word_key(const char *s, size_t len)
{
    return hash_bytes(s, len);
}

static void set_word(Parser *p, const char *s, size_t len, WordKind kind, int id)
{
    Word word = {kind, id};
    map_put(&p->words, word_key(s, len), arena_dup(p->m, &word, sizeof word));
}

void parse_words(Parser *p)
{
    map_init(&p->words, p->m);
    for (size_t i = 0; i < countof(reserved); i++) {
        set_word(p, reserved[i], strlen(reserved[i]), W_RESERVED, 0);
    }
    for (int i = 0; i < N_SCALAR_OPS; i++) {
        const char *name = scalar_info[i].name;
        if (scalar_info[i].arity == 1) {
            set_word(p, name, strlen(name), i == S_NEG ? W_RESERVED : W_FUNCTION, i);
        }
    }
}

Word parse_lookup(const Parser *p, const char *s, size_t len)
{
    const Word *word = map_get(&p->words, word_key(s, len));
    return word ? *word : (Word){W_FREE, 0};
}

size_t parse_symbol_digits(const char *s, size_t len)
{
    size_t n = 1;
    while (n < len && isdigit((unsigned char)s[n])) {
        n++;
    }
    return len > 1 && *s == 's' && n == len ? len - 1 : 0;
}

static bool starts_with(const char *s, size_t len, const char *prefix)
{
    size_t n = strlen(prefix);
    return len >= n && memcmp(s, prefix, n) == 0;
}

static bool is_reserved(const char *s, size_t len)
{
    bool is_type = len > 2 && memcmp(s + len - 2, "_t", 2) == 0;
    return is_type || parse_symbol_digits(s, len) || starts_with(s, len, "nc_") ||
           starts_with(s, len, "f32_to_");
}

static bool name_char(char c)
{
    return isdigit((unsigned char)c) || islower((unsigned char)c) || c == '_';
}

size_t parse_word_len(const Parser *p)
{
    size_t n = 0;
    while (p->at + n < p->end && (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')) {
        n++;
    }
    return n > 0 && isdigit((unsigned char)*p->at) ? 0 : n;
}

const char *parse_new_name(Parser *p, WordKind kind, int id)
{
    const char *s = parse_peek(p);
    size_t len = parse_word_len(p);
    if (len == 0) {
        parse_fail(p, s, "a name is missing");
    }
    if (len > MAX_NAME) {
        parse_fail(p, s, "the name has %zu characters; at most %d are allowed", len, MAX_NAME);
    }
    bool legal = islower((unsigned char)*s);
    for (size_t i = 0; i < len; i++) {
        legal = legal && name_char(s[i]);
    }
    if (!legal) {
        parse_fail(p, s,
                   "\"%.*s\" is no name: names are a lower-case letter, then lower-case "
                   "letters, digits and _",
                   (int)len, s);
    }
    WordKind taken = is_reserved(s, len) ? W_RESERVED : parse_lookup(p, s, len).kind;
    if (taken != W_FREE) {
        parse_fail(p, s,
                   taken < W_OPERAND ? "\"%.*s\" is reserved and cannot be a name"
                                     : "the name \"%.*s\" is already taken",
                   (int)len, s);
    }
    set_word(p, s, len, kind, id);
    p->at += len;
    return arena_strn(p->m, s, len);
}

/* ---- tokens ---- */

const char *parse_peek(Parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')) {
        p->at++;
    }
    return p->at;
}

bool parse_next_is(Parser *p, const char *token)
{
    const char *s = parse_peek(p);
    bool word = isalpha((unsigned char)*token);
    return starts_with(s, (size_t)(p->end - s), token) &&
           (!word || parse_word_len(p) == strlen(token));
}

bool parse_take(Parser *p, const char *token)
{
    if (!parse_next_is(p, token)) {
        return false;
    }
    p->at += strlen(token);
    return true;
}

void parse_expect(Parser *p, const char *token, const char *where)
{
    if (!parse_take(p, token)) {
        parse_fail(p, p->at, "expected \"%s\" %s", token, where);
    }
}

Dtype parse_dtype(Parser *p)
{
    const char *s = parse_peek(p);
    size_t len = parse_word_len(p);
    Dtype t;
    if (!dtype_parse(s, len, &t)) {
        parse_fail(p, s, "expected a dtype: f32, i64, i32, i8 or bool");
    }
    p->at += len;
    return t;
}

/* ---- numbers ---- */

/* Digits, letters, points, and a sign behind an exponent's letter. */
static size_t number_len(const char *s, const char *end)
{
    bool hex = end - s > 1 && s[0] == '0' && tolower((unsigned char)s[1]) == 'x';
    size_t n = 0;
    for (; s + n < end; n++) {
        char before = n > 0 ? (char)tolower((unsigned char)s[n - 1]) : 0;
        bool sign = (s[n] == '+' || s[n] == '-') && before == (hex ? 'p' : 'e');
        if (!sign && !isalnum((unsigned char)s[n]) && s[n] != '.') {
            break;
        }
    }
    return n;
}

static bool is_float(const char *s, size_t len)
{
    bool hex = len > 1 && tolower((unsigned char)s[1]) == 'x';
    for (size_t i = 0; i < len; i++) {
        if (strchr(hex ? ".pP" : ".eEf", s[i])) {
            return true;
        }
    }
    return false;
}

static const Expr *read_float(Parser *p, const char *s, size_t len, bool negative)
{
    char text[128], *end;
    if (len >= sizeof text) {
        parse_fail(p, s, "the number has %zu characters", len);
    }
    memcpy(text, s, len);
    text[len] = 0;
    float f = strtof(text, &end);
    if (*end == 'f') {
        end++;
    }
    if (end == text || *end) {
        parse_fail(p, s, "\"%s\" is no number", text);
    }
    if (isinf(f)) {
        parse_fail(p, s, "%s is beyond the range of f32", text);
    }
    return x_const(p->m, DT_F32, (Value){.f = negative ? -f : f});
}

static const Expr *read_int(Parser *p, const char *s, size_t len, bool negative)
{
    uint64_t magnitude = 0;
    size_t n = 0;
    bool fits = true;
    for (; n < len && isdigit((unsigned char)s[n]); n++) {
        uint64_t digit = (uint64_t)(s[n] - '0');
        fits = fits && !__builtin_mul_overflow(magnitude, 10u, &magnitude) &&
               !__builtin_add_overflow(magnitude, digit, &magnitude);
    }
    Dtype t = DT_I64;
    if (n < len && (!dtype_parse(s + n, len - n, &t) || dtype_class(t) != CLASS_INT)) {
        parse_fail(p, s, "\"%.*s\" is no number", (int)(len < 40 ? len : 40), s);
    }
    uint64_t most = ((uint64_t)1 << (dtype_bytes(t) * 8 - 1)) - !negative;
    if (!fits || magnitude > most) {
        parse_fail(p, s, "the number is beyond the range of %s", dtype_name(t));
    }
    return x_const(p->m, t, (Value){.i = (int64_t)(negative ? -magnitude : magnitude)});
}

const Expr *parse_number(Parser *p, bool negative)
{
    const char *s = parse_peek(p);
    if (p->at < p->end && (isdigit((unsigned char)*s) || *s == '.')) {
        size_t len = number_len(s, p->end);
        p->at += len;
        return is_float(s, len) ? read_float(p, s, len, negative)
                                : read_int(p, s, len, negative);
    }
    if (parse_take(p, "nan")) {
        return x_const(p->m, DT_F32, (Value){.f = NAN});
    }
    if (parse_take(p, "inf")) {
        return x_const(p->m, DT_F32, (Value){.f = negative ? -INFINITY : INFINITY});
    }
    return NULL;
}

int64_t parse_int(Parser *p, int64_t least, int64_t most, const char *what)
{
    const char *s = parse_peek(p);
    const Expr *x = parse_number(p, false);
    if (!x || x->dtype != DT_I64 || x->value.i < least || x->value.i > most) {
        parse_fail(p, s, "expected %s, a number from %lld to %lld", what, (long long)least,
                   (long long)most);
    }
    return x->value.i;
}
