/* buf.c - growing text in an arena. The text is NUL-terminated after every call. Growing
 * doubles and leaves the old copy to the arena, so a text costs at most twice its length. */
#include "base/base.h"

#include <string.h>

enum { FIRST_CAP = 128 };

void buf_init(Buf *b, Arena *a)
{
    *b = (Buf){.arena = a, .at = arena_alloc(a, FIRST_CAP), .cap = FIRST_CAP};
}

void buf_clear(Buf *b)
{
    b->len = 0;
    b->at[0] = 0;
}

/* Room for more bytes and the NUL. */
static void reserve(Buf *b, size_t more)
{
    size_t need;
    if (__builtin_add_overflow(b->len + 1, more, &need)) {
        fail(b->arena->env, E_NOMEM, "Out of memory: a text of %zu bytes cannot grow.", b->len);
    }
    if (need <= b->cap) {
        return;
    }
    size_t cap = need > b->cap * 2 ? need : b->cap * 2;
    char *at = arena_alloc(b->arena, cap);
    memcpy(at, b->at, b->len + 1);
    b->at = at;
    b->cap = cap;
}

void buf_bytes(Buf *b, const void *p, size_t len)
{
    reserve(b, len);
    if (len > 0) {
        memcpy(b->at + b->len, p, len);
    }
    b->len += len;
    b->at[b->len] = 0;
}

void buf_char(Buf *b, char c)
{
    buf_bytes(b, &c, 1);
}

void buf_str(Buf *b, const char *s)
{
    buf_bytes(b, s, strlen(s));
}

void buf_printf(Buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(b->at + b->len, b->cap - b->len, fmt, ap);
    va_end(ap);
    check(n >= 0);
    if ((size_t)n >= b->cap - b->len) {
        reserve(b, (size_t)n);
        vsnprintf(b->at + b->len, b->cap - b->len, fmt, again);
    }
    va_end(again);
    b->len += (size_t)n;
}

void buf_pad(Buf *b, size_t column, size_t line_start)
{
    size_t at = b->len - line_start;
    if (at >= column) {
        return;
    }
    reserve(b, column - at);
    memset(b->at + b->len, ' ', column - at);
    b->len += column - at;
    b->at[b->len] = 0;
}

/* Length of the UTF-8 character at s, or 0: none there, an overlong or a surrogate one. */
static size_t utf8_len(const unsigned char *s, size_t left)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (n == 0 || n > left || s[0] > 0xf4) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xed && s[1] >= 0xa0;
    bool too_large = s[0] == 0xf4 && s[1] >= 0x90;
    return overlong || surrogate || too_large ? 0 : n;
}

static void json_ascii(Buf *b, char c)
{
    static const char plain[] = "\"\\\n\t\r\b\f", escaped[] = "\"\\ntrbf";
    const char *hit = c ? strchr(plain, c) : NULL;
    if (hit) {
        buf_char(b, '\\');
        buf_char(b, escaped[hit - plain]);
    } else if ((unsigned char)c < 0x20 || c == 0x7f) {
        buf_printf(b, "\\u%04x", (unsigned)(unsigned char)c);
    } else {
        buf_char(b, c);
    }
}

/* A byte that is no UTF-8 becomes U+FFFD: the output is valid JSON whatever s holds. */
void buf_json(Buf *b, const char *s, size_t len)
{
    buf_char(b, '"');
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        n = utf8_len((const unsigned char *)s + i, len - i);
        if (n == 0) {
            buf_str(b, "\\ufffd");
        } else if (n == 1) {
            json_ascii(b, s[i]);
        } else {
            buf_bytes(b, s + i, n);
        }
    }
    buf_char(b, '"');
}

bool text_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}
