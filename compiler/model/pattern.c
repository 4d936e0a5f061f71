/* pattern.c - the split pattern of tokenizer.json, rewritten for PCRE2.
 *
 * The reference runs it by Oniguruma with the letters and numbers of Unicode 16. Classes are
 * therefore spelled out: \s, \p{L} and \p{N} become sets of unicode_tables.h. Whatever the two
 * libraries may read differently (anchors, ".", most escapes, nested classes) is refused by
 * name: a wrong split is silent, it only makes the model worse. Needs: valid UTF-8. */
#include "model/model_int.h"
#include "model/text_int.h"
#include "model/unicode_tables.h"

#include <string.h>

typedef struct Rewrite {
    Env *env;
    const char *file, *pattern;
    const char *s; /* what is read next */
    bool in_class;
    Buf out;
} Rewrite;

static _Noreturn void refuse(Rewrite *r, const char *what, size_t len)
{
    fail(r->env, E_SYNTAX,
         "%s: the split pattern has %s at offset %zu, which is not supported.", r->file,
         quoted(r->env, what, len), (size_t)(r->s - r->pattern));
}

/* A set of characters: its members inside a class, a class of its own outside. */
static void put_set(Rewrite *r, const char *members, bool negated)
{
    if (!r->in_class) {
        buf_str(&r->out, negated ? "[^" : "[");
    }
    buf_str(&r->out, members);
    if (!r->in_class) {
        buf_char(&r->out, ']');
    }
}

static const char *members_of(char property)
{
    return property == 'L' ? class_letter : property == 'N' ? class_number : NULL;
}

/* The name of the property whose p is at s, in braces or a letter; moves s behind it. */
static Span take_name(Rewrite *r)
{
    const char *name = r->s + 1, *close;
    if (*name != '{') {
        r->s = name + (*name != 0);
        return (Span){name, *name != 0};
    }
    close = strchr(name, '}');
    if (!close) {
        fail(r->env, E_SYNTAX,
             "%s: the split pattern has an unterminated property at offset %zu.", r->file,
             (size_t)(r->s - r->pattern));
    }
    r->s = close + 1;
    return (Span){name + 1, (size_t)(close - name) - 1};
}

/* \p{..}, \P{..}, \pL. s is at the letter behind the backslash. */
static void put_property(Rewrite *r)
{
    const char *start = r->s;
    Span name = take_name(r);
    const char *members = name.len == 1 ? members_of(*name.at) : NULL;
    if ((members && *start == 'P' && r->in_class) || name.len == 0 || *name.at == '^') {
        refuse(r, start, (size_t)(r->s - start));
    }
    if (members) {
        put_set(r, members, *start == 'P');
    } else { /* PCRE2 knows it, or refuses it */
        buf_printf(&r->out, "\\%c{%.*s}", *start, (int)name.len, name.at);
    }
}

static void put_escape(Rewrite *r)
{
    char c = *++r->s;
    if (c == 'p' || c == 'P') {
        put_property(r);
        return;
    }
    if (c == 's' || (c == 'S' && !r->in_class)) {
        put_set(r, CLASS_SPACE, c == 'S');
    } else if (c && (strchr("rntf", c) || strchr("\\|()[]{}^$.*+?-/'\"#&~", c))) {
        buf_char(&r->out, '\\');
        buf_char(&r->out, c);
    } else {
        refuse(r, r->s - 1, c ? 2 : 1);
    }
    r->s++;
}

/* At "[". Leaves s behind the "^" where there is one. */
static void open_class(Rewrite *r)
{
    r->in_class = true;
    buf_char(&r->out, *r->s++);
    if (*r->s == '^') {
        buf_char(&r->out, *r->s++);
    }
    if (*r->s == ']') {
        refuse(r, r->s, 1);
    }
}

static void put_plain(Rewrite *r)
{
    char c = *r->s;
    if (c == '(' && r->s[1] == '*' && !r->in_class) { /* PCRE2's verbs */
        refuse(r, r->s, 2);
    }
    if (r->in_class ? c == '[' || (c == '&' && r->s[1] == '&')
                    : c == '.' || c == '^' || c == '$') {
        refuse(r, r->s, 1);
    }
    if (c == '[') {
        open_class(r);
        return;
    }
    r->in_class &= c != ']';
    buf_char(&r->out, c);
    r->s++;
}

const char *pattern_translate(Env *e, const char *file, const char *pattern)
{
    Rewrite r = {.env = e, .file = file, .pattern = pattern, .s = pattern};
    buf_init(&r.out, &e->kernel);
    while (*r.s) {
        if (*r.s == '\\') {
            put_escape(&r);
        } else {
            put_plain(&r);
        }
    }
    if (r.in_class) {
        fail(e, E_SYNTAX, "%s: the split pattern has an unterminated class.", file);
    }
    return r.out.at;
}
