/* lists.c - the vocabulary and the merges of tokenizer.json, scanned in one pass.
 *
 * These two lists are nearly all of the file: 300,000 strings in 7 MB. A JSON tree of them
 * takes jansson 130 ms to build and free, more than the whole start may take; this scan takes
 * 18. So it notes where each string lies, and hands everything else, with {} and [] in the
 * lists' places, to the strict reader of json.c, which also finds duplicate keys among them.
 * Needs: the text, with a NUL behind its last byte. */
#include "model/text_int.h"

#include <string.h>

typedef struct Scan {
    Env *env;
    const char *file, *text;
    const char *s, *end; /* *end is NUL */
    size_t n_lines;      /* line feeds passed between values */
} Scan;

static _Noreturn void malformed(Scan *c, const char *what)
{
    int line = 1;
    for (const char *s = c->text; s < c->s; s++) {
        line += *s == '\n';
    }
    fail(c->env, E_SYNTAX, "%s:%d: %s.", c->file, line, what);
}

static char peek(Scan *c)
{
    for (;; c->s++) {
        if (*c->s == '\n') {
            c->n_lines++;
        } else if (*c->s != ' ' && *c->s != '\t' && *c->s != '\r') {
            return *c->s;
        }
    }
}

static bool take(Scan *c, char want)
{
    bool there = peek(c) == want;
    c->s += there;
    return there;
}

static void expect(Scan *c, char want, const char *what)
{
    if (!take(c, want)) {
        malformed(c, what);
    }
}

static Span string(Scan *c, const char *what)
{
    expect(c, '"', what);
    const char *start = c->s;
    while (*c->s != '"') {
        c->s += *c->s == '\\' ? 2 : 1;
        if (c->s >= c->end) {
            c->s = start;
            malformed(c, "a string is not closed");
        }
    }
    return (Span){start, (size_t)(c->s++ - start)};
}

static Piece piece(const Scan *c, Span s)
{
    return (Piece){(uint32_t)(s.at - c->text), (uint32_t)s.len};
}

Span lists_span(const Lists *l, Piece p)
{
    return (Span){l->text + p.at, p.len};
}

static int64_t integer(Scan *c)
{
    enum { MOST_DIGITS = 18 };
    int64_t value = 0;
    peek(c);
    const char *start = c->s;
    for (; *c->s >= '0' && *c->s <= '9' && c->s - start < MOST_DIGITS; c->s++) {
        value = value * 10 + (*c->s - '0');
    }
    bool ends = *c->s && strchr(",} \n\r\t", *c->s);
    if (c->s == start || !ends || (*start == '0' && c->s > start + 1)) {
        malformed(c, "a token id in model.vocab is not a whole number of at most 18 digits");
    }
    return value;
}

static void scan_vocab(Scan *c, Lists *out)
{
    c->s++;
    out->has_vocab = true;
    if (take(c, '}')) {
        return;
    }
    do {
        Span key = string(c, "a token in model.vocab is not a string");
        expect(c, ':', "a token in model.vocab has no \":\" behind it");
        *vec_push(&c->env->kernel, &out->vocab) = (VocabEntry){piece(c, key), integer(c)};
    } while (take(c, ','));
    expect(c, '}', "model.vocab is not closed");
}

static MergeEntry scan_merge(Scan *c)
{
    static const char *const what =
        "an entry of model.merges is not a string or a list of two strings";
    MergeEntry m = {0};
    if (!take(c, '[')) {
        m.part[0] = piece(c, string(c, what));
        return m;
    }
    m.part[0] = piece(c, string(c, what));
    expect(c, ',', what);
    m.part[1] = piece(c, string(c, what));
    expect(c, ']', what);
    return m;
}

static void scan_merges(Scan *c, Lists *out)
{
    c->s++;
    out->has_merges = true;
    if (take(c, ']')) {
        return;
    }
    do {
        *vec_push(&c->env->kernel, &out->merges) = scan_merge(c);
    } while (take(c, ','));
    expect(c, ']', "model.merges is not closed");
}

/* To the end of a value that is not ours to judge: brackets are counted, strings skipped. */
static void skip_value(Scan *c)
{
    int depth = 0;
    peek(c);
    while (c->s < c->end) {
        char ch = *c->s;
        if (ch == '"') {
            string(c, "");
            if (depth == 0) {
                return;
            }
            continue;
        }
        if (depth == 0 && (ch == ',' || ch == '}' || ch == ']')) {
            return;
        }
        depth += (ch == '{' || ch == '[') - (ch == '}' || ch == ']');
        c->s++;
        if (depth == 0 && (ch == '}' || ch == ']')) {
            return;
        }
    }
}

/* Leaves a list out of the rest, which holds the text up to *kept. */
static void cut(Scan *c, Lists *out, const char **kept, const char *empty,
                void (*scan)(Scan *c, Lists *out))
{
    buf_bytes(&out->rest, *kept, (size_t)(c->s - *kept));
    size_t lines_before = c->n_lines;
    scan(c, out);
    *kept = c->s;
    buf_str(&out->rest, empty);
    for (size_t i = lines_before; i < c->n_lines; i++) {
        buf_char(&out->rest, '\n');
    }
}

static bool is_key(Span key, const char *name)
{
    return key.len == strlen(name) && memcmp(key.at, name, key.len) == 0;
}

static void scan_model(Scan *c, Lists *out, const char **kept)
{
    c->s++;
    while (peek(c) == '"') {
        Span key = string(c, "");
        if (!take(c, ':')) {
            return;
        }
        char first = peek(c);
        if (is_key(key, "vocab") && first == '{' && !out->has_vocab) {
            cut(c, out, kept, "{}", scan_vocab);
        } else if (is_key(key, "merges") && first == '[' && !out->has_merges) {
            cut(c, out, kept, "[]", scan_merges);
        } else {
            skip_value(c);
        }
        if (!take(c, ',')) {
            break;
        }
    }
    take(c, '}');
}

void lists_scan(Env *e, const char *file, const char *text, size_t len, Lists *out)
{
    Scan c = {.env = e, .file = file, .text = text, .s = text, .end = text + len};
    const char *kept = text;
    *out = (Lists){.text = text};
    buf_init(&out->rest, &e->kernel);
    if (take(&c, '{')) {
        while (peek(&c) == '"') {
            Span key = string(&c, "");
            if (!take(&c, ':')) {
                break;
            }
            if (is_key(key, "model") && peek(&c) == '{') {
                scan_model(&c, out, &kept);
            } else {
                skip_value(&c);
            }
            if (!take(&c, ',')) {
                break;
            }
        }
    }
    buf_bytes(&out->rest, kept, (size_t)(c.end - kept));
}

static int hex4(const char *s, const char *end)
{
    int value = 0;
    if (end - s < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        int c = s[i] | 0x20;
        if (s[i] >= '0' && s[i] <= '9') {
            value = value * 16 + (s[i] - '0');
        } else if (c >= 'a' && c <= 'f') {
            value = value * 16 + (c - 'a' + 10);
        } else {
            return -1;
        }
    }
    return value;
}

static size_t put_utf8(int32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6) {
        out[i] = (char)(0x80 | (c & 0x3F));
    }
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    out[0] = (char)(lead[n] | c);
    return (size_t)n;
}

/* \uXXXX at *s (behind the u), with the other half of a surrogate pair; -1: it is broken. */
static int32_t unicode_escape(const char **s, const char *end)
{
    int32_t c = hex4(*s, end);
    if (c < 0 || (c >= 0xDC00 && c < 0xE000)) {
        return -1;
    }
    *s += 4;
    if (c < 0xD800 || c >= 0xE000) {
        return c;
    }
    int32_t low = end - *s >= 6 && (*s)[0] == '\\' && (*s)[1] == 'u' ? hex4(*s + 2, end) : -1;
    if (low < 0xDC00 || low >= 0xE000) {
        return -1;
    }
    *s += 6;
    return 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
}

ptrdiff_t json_unescape(Span in, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *s = in.at, *end = s + in.len;
    size_t n = 0;
    while (s < end) {
        if ((uint8_t)*s < 0x20) {
            return -1;
        }
        if (*s != '\\') {
            out[n++] = *s++;
            continue;
        }
        s++;
        const char *simple = s < end && *s ? strchr(from, *s) : NULL;
        if (simple) {
            out[n++] = to[simple - from];
            s++;
            continue;
        }
        if (s >= end || *s++ != 'u') {
            return -1;
        }
        int32_t c = unicode_escape(&s, end);
        if (c < 0) {
            return -1;
        }
        n += put_utf8(c, out + n);
    }
    return (ptrdiff_t)n;
}
