/* added.c - added tokens ("<|im_end|>") in raw text: leftmost first, the longest where several
 * begin at one place.
 *
 * The contents are sorted, so that those sharing a prefix are neighbours and reading a further
 * byte narrows a range. The search never depends on how many there are, and a content has at
 * most 256 bytes, so hostile files cannot make it slow. Breaks: the order of the file. */
#include "model/model_int.h"
#include "model/text_int.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 256 };

static int by_content(const void *x, const void *y)
{
    const AddedToken *a = x, *b = y;
    size_t len = a->content.len < b->content.len ? a->content.len : b->content.len;
    int order = memcmp(a->content.at, b->content.at, len);
    return order ? order
                 : (a->content.len > b->content.len) - (a->content.len < b->content.len);
}

void added_sort(Env *e, const char *file, Added *a)
{
    for (size_t i = 0; i < a->n; i++) {
        Span content = a->at[i].content;
        if (content.len == 0 || content.len > MOST_BYTES) {
            fail(e, E_SYNTAX,
                 "%s: the content of an added token has %zu bytes; 1 to %d are allowed.", file,
                 content.len, MOST_BYTES);
        }
        a->first[(uint8_t)content.at[0]] = true;
    }
    if (a->n > 0) {
        qsort(a->at, a->n, sizeof *a->at, by_content);
    }
    for (size_t i = 1; i < a->n; i++) {
        if (by_content(&a->at[i - 1], &a->at[i]) == 0) {
            fail(e, E_SYNTAX, "%s: the added token %s is listed twice.", file,
                 quoted(e, a->at[i].content.at, a->at[i].content.len));
        }
    }
}

/* First of at[low..high) whose byte at depth is not below c. All of them have that byte, or end
 * before it, and those that end come first. */
static size_t lower_bound(const Added *a, size_t low, size_t high, size_t depth, int c)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        Span content = a->at[middle].content;
        int byte = content.len > depth ? (uint8_t)content.at[depth] : -1;
        if (byte < c) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static const AddedToken *longest_at(const Added *a, const char *text, size_t len)
{
    const AddedToken *found = NULL;
    size_t low = 0, high = a->n;
    for (size_t depth = 0; depth < len && low < high; depth++) {
        int c = (uint8_t)text[depth];
        low = lower_bound(a, low, high, depth, c);
        high = lower_bound(a, low, high, depth, c + 1);
        if (low < high && a->at[low].content.len == depth + 1) {
            found = &a->at[low];
        }
    }
    return found;
}

const AddedToken *added_find(const Added *a, const char *text, size_t len, size_t from,
                             size_t *at)
{
    for (size_t i = from; i < len; i++) {
        const AddedToken *found =
            a->first[(uint8_t)text[i]] ? longest_at(a, text + i, len - i) : NULL;
        if (found) {
            *at = i;
            return found;
        }
    }
    return NULL;
}
