/* utf8.c - UTF-8 as the Unicode standard defines it: no surrogates, nothing overlong.
 *
 * Needs: nothing. Everything behind it may assume valid text, which PCRE2 requires. */
#include "model/text_int.h"

#include <string.h>

/* What the first byte promises; 0: no character begins with it. */
static int length_of(uint8_t lead)
{
    if (lead < 0x80) {
        return 1;
    }
    if (lead < 0xC2 || lead > 0xF4) {
        return 0;
    }
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* Length of the sequence at s, which has left bytes; 0: not valid. */
static int sequence(const uint8_t *s, size_t left)
{
    uint8_t lead = s[0];
    int n = length_of(lead);
    if (n < 2) {
        return n;
    }
    if ((size_t)n > left) {
        return 0;
    }
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (s[1] < low || s[1] > high) {
        return 0;
    }
    for (int i = 2; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return n;
}

size_t utf8_valid(const char *s, size_t len)
{
    size_t i = 0;
    while (i < len) {
        uint64_t eight;
        if (len - i >= sizeof eight) {
            memcpy(&eight, s + i, sizeof eight);
            if (!(eight & 0x8080808080808080u)) {
                i += sizeof eight;
                continue;
            }
        }
        int n = sequence((const uint8_t *)s + i, len - i);
        if (n == 0) {
            return i;
        }
        i += (size_t)n;
    }
    return len;
}

int32_t utf8_next(const char *s, int *len)
{
    const uint8_t *u = (const uint8_t *)s;
    if (u[0] < 0x80) {
        *len = 1;
        return u[0];
    }
    if (u[0] < 0xE0) {
        *len = 2;
        return (u[0] & 0x1F) << 6 | (u[1] & 0x3F);
    }
    if (u[0] < 0xF0) {
        *len = 3;
        return (u[0] & 0x0F) << 12 | (u[1] & 0x3F) << 6 | (u[2] & 0x3F);
    }
    *len = 4;
    return (u[0] & 0x07) << 18 | (u[1] & 0x3F) << 12 | (u[2] & 0x3F) << 6 | (u[3] & 0x3F);
}
