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

/* Bounds the recursion of the parser before it starts. The field is the last string at the top
 * level: the key whose value nests too deeply. */
static void check_depth(Env *e, const char *file, const char *text, size_t len)
{
    const char *end = text + len, *field = text;
    size_t field_len = 0;
    int depth = 0;
    for (const char *s = text; s < end; s++) {
        if (*s == '"') {
            const char *close = string_end(s + 1, end);
            if (depth == 1) {
                field = s + 1;
                field_len = (size_t)(close - field);
            }
            s = close;
        } else if (*s == '{' || *s == '[') {
            if (++depth > JSON_MAX_DEPTH) {
                fail(e, E_SYNTAX, "%s: %s nests deeper than %d levels.", file,
                     quoted(e, field, field_len), JSON_MAX_DEPTH);
            }
        } else if (*s == '}' || *s == ']') {
            depth--;
        }
    }
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

void json_visit(Env *e, const char *file, const char *text, size_t len, JsonBody *body, void *arg)
{
    const char *nul = memchr(text, 0, len);
    if (nul) {
        fail(e, E_SYNTAX, "%s: byte %zu is NUL, which JSON does not allow.", file,
             (size_t)(nul - text));
    }
    check_depth(e, file, text, len);
    json_error_t error;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
                              &error);
    if (!root) {
        const char *why = quoted(e, error.text, strlen(error.text));
        fail(e, E_SYNTAX, "%s:%d:%d: not JSON: %s.", file, error.line, error.column, why);
    }
    Visit v = {.file = file, .body = body, .root = root, .arg = arg};
    bool ok = env_try(e, visit, &v);
    json_decref(root);
    if (!ok) {
        Err err = e->err;
        fail_err(e, &err);
    }
}
