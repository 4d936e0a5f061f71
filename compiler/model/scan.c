/* scan.c - a strict JSON scanner that builds no tree.
 *
 * The header of a safetensors file may be 100 MB of hostile text. It is read in one pass: the
 * caller pulls strings and integers in the order it expects them and skips the rest. Depth is
 * bounded. The keys of an object are sorted when it closes: that finds duplicates in time that
 * no choice of keys can spoil, as it could with a hash.
 * Needs: valid UTF-8 (the caller checks). Keeps: pointers into the text. */
#include "model/model_int.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void scan_init(Scan *s, Env *e, const char *file, const char *text, size_t len)
{
    *s = (Scan){.e = e, .file = file, .start = text, .at = text, .end = text + len};
}

void scan_fail(Scan *s, const char *fmt, ...)
{
    Buf b;
    buf_init(&b, &s->e->kernel);
    buf_printf(&b, "%s: ", s->file);
    if (s->subject.at) {
        buf_printf(&b, "tensor %s: ", quoted(s->e, s->subject.at, s->subject.len));
    }
    va_list ap;
    va_start(ap, fmt);
    char text[256];
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fail(s->e, E_SYNTAX, "%s%s (header byte %zu).", b.at, text, (size_t)(s->at - s->start));
}

bool text_is(Text t, const char *s)
{
    return t.len == strlen(s) && memcmp(t.at, s, t.len) == 0;
}

char scan_peek(Scan *s)
{
    while (s->at < s->end &&
           (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t')) {
        s->at++;
    }
    return s->at < s->end ? *s->at : 0;
}

static bool take(Scan *s, char c)
{
    bool is = scan_peek(s) == c;
    s->at += is;
    return is;
}

static void expect(Scan *s, char c)
{
    if (!take(s, c)) {
        scan_fail(s, "not JSON: expected '%c'%s", c,
                  s->at == s->end ? " but the text ends" : "");
    }
}

/* The character here, without skipping blanks; NUL: the end. */
static char here(const Scan *s)
{
    return s->at < s->end ? *s->at : 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ---- strings ----------------------------------------------------------------------- */

static uint32_t hex4(Scan *s)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        char c = here(s), lower = (char)(c | 0x20);
        bool letter = lower >= 'a' && lower <= 'f';
        if (!letter && !is_digit(c)) {
            scan_fail(s, "not JSON: a \\u escape needs four hexadecimal digits");
        }
        v = v * 16 + (uint32_t)(letter ? lower - 'a' + 10 : c - '0');
        s->at++;
    }
    return v;
}

/* The character of a \u escape; surrogates must come as a pair. */
static char *put_unicode(Scan *s, char *to)
{
    uint32_t c = hex4(s);
    if (c >= 0xD800 && c < 0xDC00 && s->end - s->at >= 2 && s->at[0] == '\\' &&
        s->at[1] == 'u') {
        s->at += 2;
        uint32_t low = hex4(s);
        if (low >= 0xDC00 && low < 0xE000) {
            c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        }
    }
    if (c >= 0xD800 && c < 0xE000) {
        scan_fail(s, "not JSON: a lone surrogate (\\u%04x) is no character", c);
    }
    return to + utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)to);
}

static char *put_escape(Scan *s, char *to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    char c = here(s);
    const char *known = c ? strchr(from, c) : NULL;
    s->at++;
    if (c == 'u') {
        return put_unicode(s, to);
    }
    if (!known) {
        scan_fail(s, "not JSON: an unknown escape in a string");
    }
    *to = into[known - from];
    return to + 1;
}

/* Decoding never lengthens a string, so its raw length bounds the copy. */
static Text decode(Scan *s, const char *close)
{
    char *text = arena_alloc(&s->e->model, (size_t)(close - s->at) + 1), *to = text;
    while (s->at < close) {
        if (*s->at == '\\') {
            s->at++;
            to = put_escape(s, to);
        } else {
            *to++ = *s->at++;
        }
    }
    s->at++;
    return (Text){text, (size_t)(to - text)};
}

Text scan_string(Scan *s)
{
    expect(s, '"');
    const char *close = s->at;
    bool escapes = false;
    for (; close < s->end && *close != '"'; close++) {
        if ((unsigned char)*close < 0x20) {
            s->at = close;
            scan_fail(s, "not JSON: control character %d in a string", *close);
        }
        escapes = escapes || *close == '\\';
        close += *close == '\\' && close + 1 < s->end;
    }
    if (close == s->end) {
        scan_fail(s, "not JSON: a string does not end");
    }
    if (escapes) {
        return decode(s, close);
    }
    Text t = {s->at, (size_t)(close - s->at)};
    s->at = close + 1;
    return t;
}

/* ---- numbers ----------------------------------------------------------------------- */

static void skip_digits(Scan *s)
{
    if (!is_digit(here(s))) {
        scan_fail(s, "not JSON: a number without digits");
    }
    while (is_digit(here(s))) {
        s->at++;
    }
}

static void check_leading_zero(Scan *s)
{
    if (here(s) == '0' && s->at + 1 < s->end && is_digit(s->at[1])) {
        scan_fail(s, "not JSON: a number with a leading zero");
    }
}

static void skip_number(Scan *s)
{
    s->at += here(s) == '-';
    check_leading_zero(s);
    skip_digits(s);
    if (here(s) == '.') {
        s->at++;
        skip_digits(s);
    }
    if ((here(s) | 0x20) == 'e') {
        s->at++;
        s->at += here(s) == '+' || here(s) == '-';
        skip_digits(s);
    }
}

uint64_t scan_integer(Scan *s, const char *what)
{
    char c = scan_peek(s);
    if (c == '-') {
        scan_fail(s, "%s is negative", what);
    }
    if (!is_digit(c)) {
        scan_mismatch(s, what, "an integer");
    }
    check_leading_zero(s);
    uint64_t v = 0;
    for (; is_digit(here(s)); s->at++) {
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*s->at - '0'), &v)) {
            scan_fail(s, "%s overflows 64 bits (u64)", what);
        }
    }
    if (here(s) == '.' || (here(s) | 0x20) == 'e') {
        scan_fail(s, "%s is not an integer", what);
    }
    return v;
}

/* ---- objects and lists ------------------------------------------------------------- */

void scan_enter(Scan *s, char open)
{
    expect(s, open);
    if (s->depth == JSON_MAX_DEPTH) {
        scan_fail(s, "nesting is deeper than %d levels", JSON_MAX_DEPTH);
    }
    s->first_key[s->depth++] = s->keys.n;
}

Text scan_key(Scan *s)
{
    if (s->keys.n == SCAN_MAX_KEYS) {
        scan_fail(s, "more than %d keys", SCAN_MAX_KEYS);
    }
    Text t = scan_string(s);
    *vec_push(&s->e->kernel, &s->keys) = t;
    expect(s, ':');
    return t;
}

/* Any total order serves. */
static int by_text(const void *pa, const void *pb)
{
    const Text *a = pa, *b = pb;
    if (a->len != b->len) {
        return a->len < b->len ? -1 : 1;
    }
    return memcmp(a->at, b->at, a->len);
}

/* Closes the innermost object or list. */
static void leave(Scan *s)
{
    int first = s->first_key[--s->depth], n = s->keys.n - first;
    if (n == 0) {
        return;
    }
    Text *key = s->keys.at + first;
    qsort(key, (size_t)n, sizeof *key, by_text);
    for (int i = 1; i < n; i++) {
        if (by_text(&key[i - 1], &key[i]) == 0) {
            scan_fail(s, "duplicate key %s", quoted(s->e, key[i].at, key[i].len));
        }
    }
    s->keys.n = first;
}

bool scan_more(Scan *s, char close, bool first)
{
    if (take(s, close)) {
        leave(s);
        return false;
    }
    if (!first) {
        expect(s, ',');
    }
    return true;
}

static void skip_members(Scan *s, char open, char close)
{
    scan_enter(s, open);
    for (bool first = true; scan_more(s, close, first); first = false) {
        if (open == '{') {
            scan_key(s);
        }
        scan_skip(s);
    }
}

static void skip_word(Scan *s)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < countof(words); i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(s->end - s->at) >= n && memcmp(s->at, words[i], n) == 0) {
            s->at += n;
            return;
        }
    }
    scan_fail(s, "not JSON: expected a value");
}

void scan_mismatch(Scan *s, const char *what, const char *kind)
{
    scan_skip(s);
    scan_fail(s, "%s is not %s", what, kind);
}

void scan_skip(Scan *s)
{
    char c = scan_peek(s);
    if (c == '{' || c == '[') {
        skip_members(s, c, c == '{' ? '}' : ']');
    } else if (c == '"') {
        scan_string(s);
    } else if (c == '-' || is_digit(c)) {
        skip_number(s);
    } else {
        skip_word(s);
    }
}

void scan_end(Scan *s)
{
    scan_peek(s);
    if (s->at < s->end) {
        scan_fail(s, "%s follows the closing brace; only blanks may",
                  *s->at == 0 ? "NUL padding" : "more text");
    }
}
