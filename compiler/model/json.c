/* json.c - strict JSON for files we did not write.
 *
 * jansson parses; this file adds what it leaves open: a depth limit with the field's name in
 * the message, no NUL bytes, an object on top, and a boundary that frees the tree even when
 * the reader fails halfway (a json_t is the one piece of memory that no arena owns).
 * Needs: the text in memory. Breaks nothing. */
#include "model/model_int.h"

#include <string.h>

const char *quoted(Env *e, const char *s, size_t len)
{
    enum { MOST = 60 };
    Buf b;
    buf_init(&b, &e->kernel);
    buf_json(&b, s, len < MOST ? len : MOST);
    if (len > MOST) {
        buf_printf(&b, "... (%zu bytes)", len);
    }
    return b.at;
}

/* Where a string that starts behind the quote at s ends: its closing quote, or end. */
static const char *string_end(const char *s, const char *end)
{
    while (s < end && *s != '"') {
        s += *s == '\\' && s + 1 < end ? 2 : 1;
    }
    return s < end ? s : end;
}

/* A place in the text: how deep it is, and in which member of the top object. */
typedef struct Place {
    const char *at;
    int depth;
    const char *field;
    size_t field_len;
} Place;

static bool is_key(const char *close, const char *end)
{
    const char *s = close + 1;
    while (s < end && strchr(" \t\r\n", *s)) {
        s++;
    }
    return s < end && *s == ':';
}

/* Reads brackets and strings, up to end or to where the depth exceeds the limit. */
static Place walk(const char *text, const char *end)
{
    Place p = {.at = text, .field = text};
    for (; p.at < end && p.depth <= JSON_MAX_DEPTH; p.at++) {
        if (*p.at == '"') {
            const char *close = string_end(p.at + 1, end);
            if (p.depth == 1 && is_key(close, end)) {
                p.field = p.at + 1;
                p.field_len = (size_t)(close - p.field);
            }
            p.at = close < end ? close : end - 1;
        }
        p.depth += (*p.at == '{' || *p.at == '[') - (*p.at == '}' || *p.at == ']');
    }
    return p;
}

typedef struct Visit {
    const char *file;
    JsonBody *body;
    json_t *root;
    void *arg;
} Visit;

static void visit(Env *e, void *arg)
{
    Visit *v = arg;
    if (!json_is_object(v->root)) {
        fail(e, E_SYNTAX, "%s: the top value is not an object.", v->file);
    }
    v->body(e, v->file, v->root, v->arg);
}

void json_visit(Env *e, const char *file, const char *text, size_t len, JsonBody *body,
                void *arg)
{
    const char *nul = memchr(text, 0, len);
    if (nul) {
        fail(e, E_SYNTAX, "%s: byte %zu is NUL, which JSON does not allow.", file,
             (size_t)(nul - text));
    }
    Place p = walk(text, text + len);
    if (p.depth > JSON_MAX_DEPTH) { /* before the parser, which recurses */
        fail(e, E_SYNTAX, "%s: %s nests deeper than %d levels.", file,
             quoted(e, p.field, p.field_len), JSON_MAX_DEPTH);
    }
    json_error_t error;
    json_t *root = json_loadb(
        text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!root) {
        size_t at =
            error.position > 0 && (size_t)error.position < len ? (size_t)error.position : len;
        p = walk(text, text + at);
        fail(e, E_SYNTAX, "%s:%d:%d: not JSON, in %s: %s.", file, error.line, error.column,
             quoted(e, p.field, p.field_len), quoted(e, error.text, strlen(error.text)));
    }
    Visit v = {.file = file, .body = body, .root = root, .arg = arg};
    bool ok = env_try(e, visit, &v);
    json_decref(root);
    if (!ok) {
        Err err = e->err;
        fail_err(e, &err);
    }
}
