/* nfc.c - Normalization Form C as the reference computes it: in the data of Unicode 9.
 *
 * Only "unstable" code points (combining marks, what decomposes for good, second halves of
 * compositions) and the one character before them can change, and text is normal between
 * them. Such stretches, short in any language, go through utf8proc. Its data are newer: but a
 * character that Unicode 9 does not know can only begin a stretch, and then stays out of it.
 * Needs: valid UTF-8. spec: tokenizer 4 */
#include "model/text_int.h"
#include "model/unicode_tables.h"

#include <utf8proc.h>

static bool is_unstable(int32_t c)
{
    if (c < nfc_unstable[0].first || (c >= 0x3100 && c < 0xA66F) ||
        (c >= 0xAC00 && c < 0xD800)) {
        return false;
    }
    size_t low = 0, high = countof(nfc_unstable);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (nfc_unstable[middle].last < c) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < countof(nfc_unstable) && nfc_unstable[low].first <= c;
}

/* Is c, which is stable in Unicode 9, a mark or half of a composition in newer data? */
static bool is_new(int32_t c)
{
    for (size_t i = 0; i < countof(nfc_new_starter); i++) {
        if (nfc_new_starter[i] == c) {
            return true;
        }
    }
    return utf8proc_get_property(c)->combining_class != 0;
}

static int class_of(utf8proc_int32_t c)
{
    return utf8proc_get_property(c)->combining_class;
}

/* Sorts marks by combining class, equal ones in their order. (utf8proc's sort is quadratic.) */
static void sort_marks(Nfc *f, int32_t *mark, int n)
{
    int start[256 + 1] = {0};
    bool sorted = true;
    f->old.n = 0;
    for (int i = 0; i < n; i++) {
        start[class_of(mark[i]) + 1]++;
        sorted &= i == 0 || class_of(mark[i - 1]) <= class_of(mark[i]);
        *vec_push(f->arena, &f->old) = mark[i];
    }
    for (int c = 0; c < 256 && !sorted; c++) {
        start[c + 1] += start[c];
    }
    for (int i = 0; i < n && !sorted; i++) {
        mark[start[class_of(f->old.at[i])]++] = f->old.at[i];
    }
}

static void decompose(Nfc *f, const char *s, const char *end)
{
    enum { MOST = 8 }; /* the longest canonical decomposition has 4 */
    const utf8proc_option_t how = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE;
    f->point.n = 0;
    while (s < end) {
        int len;
        utf8proc_int32_t part[MOST];
        int32_t c = utf8_next(s, &len);
        utf8proc_ssize_t n = utf8proc_decompose_char(c, part, MOST, how, NULL);
        for (utf8proc_ssize_t i = 0; i < n; i++) {
            *vec_push(f->arena, &f->point) = part[i];
        }
        s += len;
    }
}

/* NFC of a whole stretch, [s, end), to the end of f->text. */
static void normalize(Nfc *f, const char *s, const char *end)
{
    decompose(f, s, end);
    int32_t *point = f->point.at;
    for (int i = 0; i < f->point.n; i++) {
        int first = i;
        while (i < f->point.n && class_of(point[i]) > 0) {
            i++;
        }
        if (i - first > 1) {
            sort_marks(f, &point[first], i - first);
        }
    }
    utf8proc_ssize_t n =
        utf8proc_normalize_utf32(point, f->point.n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        utf8proc_uint8_t bytes[4];
        buf_bytes(&f->text, bytes, (size_t)utf8proc_encode_char(point[i], bytes));
    }
}

/* The next unstable code point at or behind s, or end. *before is the code point before it, s
 * itself where there is none. */
static const char *find_unstable(const char *s, const char *end, const char **before)
{
    *before = s;
    while (s < end) {
        if ((uint8_t)*s < 0xCC) { /* below U+0300 */
            *before = s;
            s += (uint8_t)*s < 0x80 ? 1 : 2;
            continue;
        }
        int len;
        if (is_unstable(utf8_next(s, &len))) {
            return s;
        }
        *before = s;
        s += len;
    }
    return end;
}

static const char *skip_unstable(const char *s, const char *end)
{
    int len;
    while (s < end && is_unstable(utf8_next(s, &len))) {
        s += len;
    }
    return s;
}

void nfc_init(Nfc *f, Arena *a)
{
    *f = (Nfc){.arena = a};
    buf_init(&f->text, a);
}

Span nfc(Nfc *f, Span in)
{
    const char *end = in.at + in.len, *kept = in.at, *before;
    const char *s = find_unstable(in.at, end, &before);
    if (s == end) {
        return in;
    }
    buf_clear(&f->text);
    for (; s < end; s = find_unstable(kept, end, &before)) {
        int len;
        if (before < s && is_new(utf8_next(before, &len))) {
            before = s;
        }
        const char *behind = skip_unstable(s, end);
        buf_bytes(&f->text, kept, (size_t)(before - kept));
        normalize(f, before, behind);
        kept = behind;
    }
    buf_bytes(&f->text, kept, (size_t)(end - kept));
    return (Span){f->text.at, f->text.len};
}
