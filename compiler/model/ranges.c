/* ranges.c - smallest and largest element of a tensor in a file, its NaNs and infinities.
 *
 * Runs over the mapping once, a block at a time, and lets the pages go behind itself. Elements
 * are read by a row a dtype; dtypes without plain numbers have none.
 * Needs: a tensor of an open checkpoint. */
#include "model/model_int.h"

#include <math.h>
#include <string.h>

typedef double LoadElement(const uint8_t *p);

#define LOADER(id, T)                         \
    static double load_##id(const uint8_t *p) \
    {                                         \
        T v;                                  \
        memcpy(&v, p, sizeof v);              \
        return (double)v;                     \
    }
LOADER(U8, uint8_t)
LOADER(I8, int8_t)
LOADER(I16, int16_t)
LOADER(U16, uint16_t)
LOADER(I32, int32_t)
LOADER(U32, uint32_t)
LOADER(F32, float)
LOADER(F64, double)
LOADER(I64, int64_t)
LOADER(U64, uint64_t)

static double load_half(FileDtype t, const uint8_t *p)
{
    float v;
    file_tensor_widen(&(FileTensor){.dtype = t, .data = p}, 0, 1, &v);
    return v;
}

static double load_BF16(const uint8_t *p)
{
    return load_half(FD_BF16, p);
}

static double load_F16(const uint8_t *p)
{
    return load_half(FD_F16, p);
}

static LoadElement *const loaders[N_FILE_DTYPES] = {
    [FD_BOOL] = load_U8, [FD_U8] = load_U8,   [FD_I8] = load_I8,   [FD_I16] = load_I16,
    [FD_U16] = load_U16, [FD_I32] = load_I32, [FD_U32] = load_U32, [FD_F32] = load_F32,
    [FD_F64] = load_F64, [FD_I64] = load_I64, [FD_U64] = load_U64, [FD_BF16] = load_BF16,
    [FD_F16] = load_F16,
};

static void take_in(Range *r, double v)
{
    if (isnan(v)) {
        r->n_nan++;
    } else if (isinf(v)) {
        r->n_inf++;
    } else {
        r->min = v < r->min ? v : r->min;
        r->max = v > r->max ? v : r->max;
    }
}

Range file_tensor_range(const FileTensor *t)
{
    enum { BLOCK = 1 << 20 };
    Range r = {.known = loaders[t->dtype] != NULL, .min = INFINITY, .max = -INFINITY};
    if (!r.known) {
        return r;
    }
    size_t size = (size_t)file_dtype_bits(t->dtype) / 8, n_bytes = (size_t)(t->end - t->begin);
    for (size_t at = 0; at < n_bytes; at += BLOCK) {
        size_t stop = n_bytes - at < BLOCK ? n_bytes : at + BLOCK;
        for (size_t i = at; i < stop; i += size) {
            take_in(&r, loaders[t->dtype](t->data + i));
        }
        pages_drop(t->data + at, stop - at);
    }
    return r;
}
