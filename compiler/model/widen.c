/* widen.c - the float dtypes of files as f32, exactly: every F16 and BF16 is an f32.
 *
 * Data may lie at any address. Needs: a checked tensor of one of the three dtypes. */
#include "model/model_int.h"

#include <string.h>

static void widen_f32(float *to, const void *from, int64_t n)
{
    memcpy(to, from, (size_t)n * sizeof *to);
}

static void (*const wideners[N_FILE_DTYPES])(float *to, const void *from, int64_t n) = {
    [FD_F32] = widen_f32,
    [FD_BF16] = bf16_widen,
    [FD_F16] = half_widen,
};

bool file_dtype_widens(FileDtype t)
{
    return wideners[t] != NULL;
}

void file_tensor_widen(const FileTensor *t, int64_t first, int64_t n, float *to)
{
    check(file_dtype_widens(t->dtype));
    wideners[t->dtype](to, t->data + first * file_dtype_bits(t->dtype) / 8, n);
}
