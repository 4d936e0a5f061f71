/* pretoken.c - text into pieces, by the split pattern and PCRE2.
 *
 * Compiled to machine code where PCRE2 can; where it cannot (no executable memory), or where
 * the code's small stack does not suffice, PCRE2 interprets. Memory comes from the arena, but
 * machine code does not: splitter_release gives it back.
 * Needs: a translated pattern and valid UTF-8. spec: tokenizer 3 */
#include "model/text_int.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { MOST_HEAP_KIB = 128 << 10 }; /* of the interpreter's backtracking */

struct Splitter {
    Env *env;
    const char *file;
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
};

static void *from_arena(size_t bytes, void *arena)
{
    return arena_alloc(arena, bytes);
}

static void keep(void *p, void *arena)
{
    (void)p, (void)arena; /* freed with the arena */
}

static _Noreturn void refused(Env *e, const char *file, const char *what, int error,
                              size_t offset)
{
    PCRE2_UCHAR text[256];
    pcre2_get_error_message(error, text, sizeof text);
    fail(e, E_SYNTAX, "%s: PCRE2 %s the split pattern at offset %zu: %s.", file, what, offset,
         (const char *)text);
}

Splitter *splitter_build(Env *e, const char *file, const char *pattern)
{
    const char *translated = pattern_translate(e, file, pattern);
    pcre2_general_context *memory = pcre2_general_context_create(from_arena, keep, &e->model);
    pcre2_compile_context *setup = pcre2_compile_context_create(memory);
    Splitter *s = arena_new(&e->model, Splitter);
    *s = (Splitter){.env = e, .file = file};
    int error;
    PCRE2_SIZE offset;
    s->limits = pcre2_match_context_create(memory);
    pcre2_set_heap_limit(s->limits, MOST_HEAP_KIB);
    s->code = pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP, &error, &offset, setup);
    if (!s->code) {
        refused(e, file, "refuses", error, offset);
    }
    s->match = pcre2_match_data_create(1, memory);
    pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE); /* failing, it is interpreted */
    return s;
}

void splitter_release(Splitter *s)
{
    if (s) {
        pcre2_code_free(s->code);
    }
}

/* False: no match in text[at..len). */
static bool find(Splitter *s, const char *text, size_t len, size_t at, Span *found)
{
    /* A run of blanks is gone back over once; far more steps mean a hostile pattern. */
    pcre2_set_match_limit(s->limits, 10000000 + 4 * (uint32_t)(len - at));
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    uint32_t how = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int n = pcre2_match(s->code, subject, len, at, how, s->match, s->limits);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT) {
        n = pcre2_match(s->code, subject, len, at, how | PCRE2_NO_JIT, s->match, s->limits);
    }
    if (n == PCRE2_ERROR_NOMATCH) {
        return false;
    }
    if (n < 0) {
        refused(s->env, s->file, "gave up on", n, at);
    }
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(s->match);
    *found = (Span){text + bounds[0], bounds[1] - bounds[0]};
    return bounds[1] > bounds[0];
}

bool splitter_next(Splitter *s, const char *text, size_t len, size_t *at, Span *piece)
{
    if (*at >= len) {
        return false;
    }
    const char *start = text + *at;
    Span found;
    if (!find(s, text, len, *at, &found)) {
        *piece = (Span){start, len - *at};
    } else if (found.at > start) {
        *piece = (Span){start, (size_t)(found.at - start)}; /* the match comes next time */
    } else {
        *piece = found;
    }
    *at += piece->len;
    return true;
}
