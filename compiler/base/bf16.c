/* bf16.c - bfloat16, the upper half of an f32, and IEEE's half: ways to store values and never types
 * to compute in. Widening is exact, and narrowing is only for values that were widened once.
 * The loops are plain enough for the C compiler to vectorise. Built libraries carry this file. */
#include "base/base.h"

#include <string.h>

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float bf16_float(uint16_t h)
{
    return float_of((uint32_t)h << 16);
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

/* Shifted into f32's fields, a half is 2^112 too small, subnormals included; infinities and
 * NaNs need the full exponent. */
void half_widen(float *to, const void *from, int64_t n)
{
    const char *at = from;
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, at + 2 * i, sizeof h);
        uint32_t magnitude = (uint32_t)(h & 0x7FFF) << 13, sign = (uint32_t)(h & 0x8000) << 16;
        uint32_t scaled;
        float f = float_of(magnitude) * 0x1p112f;
        memcpy(&scaled, &f, sizeof scaled);
        bool special = magnitude >= 0x7C00u << 13;
        to[i] = float_of((special ? magnitude | 0x7F800000u : scaled) | sign);
    }
}
