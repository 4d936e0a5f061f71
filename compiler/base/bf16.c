/* bf16.c - bfloat16: the upper half of an f32. It is a way to store values and never a type to
 * compute in, so widening is exact, and narrowing is only for values that were widened once.
 * The loops are plain enough for the C compiler to vectorise. */
#include "base/base.h"

#include <string.h>

float bf16_float(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

void bf16_widen(float *to, const void *from, int64_t n)
{
    const char *at = from;
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, at + 2 * i, sizeof h);
        to[i] = bf16_float(h);
    }
}

bool bf16_narrow(uint16_t *to, const float *from, int64_t n)
{
    uint32_t lost = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        to[i] = (uint16_t)(bits >> 16);
        lost |= bits;
    }
    return !(lost & 0xffff);
}
