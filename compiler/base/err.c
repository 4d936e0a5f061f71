/* err.c - the three words for failure, as text: an Err holds one sentence, bug() aborts,
 * die() and warn() are for programs. fail() itself lives in arena.c, beside its boundary.
 *
 * Messages quote names from files nobody has vetted. So no control character survives into
 * an Err: a hostile name cannot move the cursor or fake a second line. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

const char *program_name = "nanocompile";

const char *err_name(ErrCode code)
{
    static const char *const name[] = {
#define X(id, meaning) meaning,
        ERR_CODES(X)
#undef X
    };
    return (size_t)code < countof(name) ? name[code] : "unknown error";
}

/* C0, DEL, and C1 as UTF-8 spells it (C2 80 .. C2 9F). White space becomes a plain space. */
static void defuse(char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)s[0], next = (unsigned char)s[1];
        if (c == '\n' || c == '\t' || c == '\r') {
            *s = ' ';
        } else if (c < 0x20 || c == 0x7f) {
            *s = '?';
        } else if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
            s[0] = s[1] = '?';
        }
    }
}

/* Ends a full text with "...", never in the middle of a UTF-8 character. */
static void cut(char *text, size_t size)
{
    size_t end = size - sizeof "...";
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80) {
        end--;
    }
    memcpy(text + end, "...", sizeof "...");
}

/* Formats aside first: an argument may be err->text itself. */
bool err_vset(Err *err, ErrCode code, const char *fmt, va_list ap)
{
    if (!err) {
        return false;
    }
    char text[sizeof err->text];
    int n = vsnprintf(text, sizeof text, fmt, ap);
    if (n < 0) {
        snprintf(text, sizeof text, "%s (the message could not be formatted)", err_name(code));
    } else if ((size_t)n >= sizeof text) {
        cut(text, sizeof text);
    }
    defuse(text);
    err->code = code;
    memcpy(err->text, text, sizeof text);
    return false;
}

bool err_set(Err *err, ErrCode code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err_vset(err, code, fmt, ap);
    va_end(ap);
    return false;
}

static void say(const char *prefix, const char *fmt, va_list ap)
{
    Err err;
    err_vset(&err, E_OK, fmt, ap);
    fprintf(stderr, "%s: %s%s\n", program_name, prefix, err.text);
}

void bug_at(const char *file, int line, const char *fmt, ...)
{
    char prefix[256];
    snprintf(prefix, sizeof prefix, "bug at %s:%d: ", file, line);
    va_list ap;
    va_start(ap, fmt);
    say(prefix, fmt, ap);
    va_end(ap);
    abort();
}

void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("", fmt, ap);
    va_end(ap);
    exit(1);
}

void warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("warning: ", fmt, ap);
    va_end(ap);
}
