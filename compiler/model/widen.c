/* widen.c - the float dtypes of files as f32, exactly: every F16 and BF16 is an f32.
 *
 * Data may lie at any address, so elements are copied out; the loops are plain enough for the C
 * compiler to vectorise. Needs: a checked tensor of one of the three dtypes. */
#include "model/model_int.h"

#include <string.h>

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void widen_f32(const uint8_t *from, float *to, int64_t n)
{
    memcpy(to, from, (size_t)n * sizeof *to);
}

static void widen_bf16(const uint8_t *from, float *to, int64_t n)
{
    bf16_widen(to, from, n);
}

/* Shifted into f32's fields, a half is 2^112 too small, subnormals included; infinities and
 * NaNs need the full exponent. */
static void widen_f16(const uint8_t *from, float *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, from + 2 * i, sizeof h);
        uint32_t magnitude = (uint32_t)(h & 0x7FFF) << 13, sign = (uint32_t)(h & 0x8000) << 16;
        uint32_t scaled;
        float f = float_of(magnitude) * 0x1p112f;
        memcpy(&scaled, &f, sizeof scaled);
        bool special = magnitude >= 0x7C00u << 13;
        to[i] = float_of((special ? magnitude | 0x7F800000u : scaled) | sign);
    }
}

static void (*const wideners[N_FILE_DTYPES])(const uint8_t *from, float *to, int64_t n) = {
    [FD_F32] = widen_f32,
    [FD_BF16] = widen_bf16,
    [FD_F16] = widen_f16,
};

bool file_dtype_widens(FileDtype t)
{
    return wideners[t] != NULL;
}

void file_tensor_widen(const FileTensor *t, int64_t first, int64_t n, float *to)
{
    check(file_dtype_widens(t->dtype));
    wideners[t->dtype](t->data + first * file_dtype_bits(t->dtype) / 8, to, n);
}
