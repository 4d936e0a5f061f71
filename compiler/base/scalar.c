/* scalar.c - what the scalar operations mean, one value at a time, and how one value is
 * written and read. The graph interpreter, the loop interpreter and constant folding all end
 * here; the C printer spells the same table.
 *
 * f32 operations are single float operations, never double; integers wrap in their own width.
 * Every operation is total, so that no text from a file can trap: x / 0 and x % 0 are 0. */
#include "base/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const ScalarInfo scalar_info[N_SCALAR_OPS] = {
#define TO_SAME false
#define TO_BOOL true
#define X(id, name, arity, c, prec, result, meaning) \
    {name, arity, c, PREC_##prec, TO_##result, meaning},
    SCALAR_OPS(X)
#undef X
#undef TO_SAME
#undef TO_BOOL
};

/* ---- evaluation ------------------------------------------------------------
 * Rows: operation, result in terms of a and b. */

/* clang-format off */
#define FLOAT_OPS(X)          \
    X(ADD, a + b)             \
    X(SUB, a - b)             \
    X(MUL, a * b)             \
    X(DIV, a / b)             \
    X(NEG, -a)                \
    X(EXP, expf(a))           \
    X(SQRT, sqrtf(a))         \
    X(RECIPROCAL, 1.0f / a)   \
    X(SIN, sinf(a))           \
    X(COS, cosf(a))           \
    X(EXP_APPROX, exp_polynomial(a, false)) \
    X(EXP_FUSED, exp_polynomial(a, true))

#define FLOAT_COMPARES(X) \
    X(LE, a <= b)         \
    X(LT, a < b)          \
    X(NE, a != b)

/* Sums and products in uint64_t: the low bits are those of any narrower width. */
#define INT_OPS(X)                                                        \
    X(ADD, (int64_t)((uint64_t)a + (uint64_t)b))                          \
    X(SUB, (int64_t)((uint64_t)a - (uint64_t)b))                          \
    X(MUL, (int64_t)((uint64_t)a * (uint64_t)b))                          \
    X(NEG, (int64_t)-(uint64_t)a)                                         \
    X(IDIV, b == 0 ? 0 : b == -1 ? (int64_t)-(uint64_t)a : a / b)         \
    X(MOD, b == 0 || b == -1 ? 0 : a % b)                                 \
    X(LE, a <= b)                                                         \
    X(LT, a < b)                                                          \
    X(NE, a != b)                                                         \
    X(OR, a || b)
/* clang-format on */

static Value int_value(int64_t i)
{
    return (Value){.i = i};
}

static Value float_value(float f)
{
    Value v = {.i = 0}; /* no stray upper bytes */
    v.f = f;
    return v;
}

static int64_t wrap(int64_t i, Dtype t)
{
    switch (t) {
    case DT_I32: return (int32_t)i;
    case DT_I8: return (int8_t)i;
    case DT_BOOL: return i != 0;
    default: return i;
    }
}

static _Noreturn void undefined_op(ScalarOp op, Dtype t)
{
    bug("%s has no meaning for %s", scalar_info[op].name, dtype_name(t));
}

static float mul_add(bool fused, float a, float b, float c)
{
    return fused ? fmaf(a, b, c) : a * b + c;
}

/* Cephes' polynomial, its multiplies and adds apart or fused, so that every machine and every
 * number of lanes gives the same bits as the C that is emitted: x = n ln 2 + r, 2^n by its
 * exponent bits. */
static float exp_polynomial(float x, bool fused)
{
    static const float c[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                              1.6666665459e-1f, 5.0000001201e-1f};
    if (!(x <= 88.72283f)) {
        return isnan(x) ? x : INFINITY;
    }
    if (x < -87.0f) {
        return 0.0f;
    }
    float t = mul_add(fused, x, 1.44269504f, 12582912.0f); /* n in the low bits of t */
    float n = t - 12582912.0f;
    float r = mul_add(fused, n, -0.693359375f, x);
    r = mul_add(fused, n, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    for (size_t i = 0; i < countof(c); i++) {
        p = mul_add(fused, p, r, c[i]);
    }
    p = mul_add(fused, p, r * r, r);
    p = p + 1.0f;
    int32_t bits, power;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&power, &t, sizeof power);
    bits += (int32_t)((uint32_t)power << 23);
    memcpy(&p, &bits, sizeof p);
    return p;
}

static Value eval_float(ScalarOp op, float a, float b)
{
    switch (op) {
#define X(id, result) \
    case S_##id: return float_value(result);
        FLOAT_OPS(X)
#undef X
#define X(id, result) \
    case S_##id: return int_value(result);
        FLOAT_COMPARES(X)
#undef X
    default: undefined_op(op, DT_F32);
    }
}

static int64_t eval_int(ScalarOp op, Dtype t, int64_t a, int64_t b)
{
    switch (op) {
#define X(id, result) \
    case S_##id: return result;
        INT_OPS(X)
#undef X
    default: undefined_op(op, t);
    }
}

Value scalar_eval(ScalarOp op, Dtype t, Value a, Value b)
{
    if (t == DT_F32) {
        return eval_float(op, a.f, b.f);
    }
    int64_t i = eval_int(op, t, a.i, b.i);
    return int_value(scalar_info[op].to_bool ? i : wrap(i, t));
}

/* ---- conversion ------------------------------------------------------------ */

/* Toward zero; what does not fit becomes the nearest end of the range, NaN becomes 0. Both
 * bounds are powers of two, so exact as floats. */
static int64_t truncate_to(float f, Dtype to)
{
    int bits = dtype_bytes(to) * 8 - 1;
    float bound = ldexpf(1.0f, bits);
    int64_t max = (int64_t)(((uint64_t)1 << bits) - 1);
    if (isnan(f)) {
        return 0;
    }
    if (f >= bound) {
        return max;
    }
    return f <= -bound ? -max - 1 : (int64_t)f;
}

Value scalar_cast(Value a, Dtype from, Dtype to)
{
    if (from != DT_F32) {
        return to == DT_F32 ? float_value((float)a.i) : int_value(wrap(a.i, to));
    }
    if (to == DT_F32) {
        return a;
    }
    return int_value(to == DT_BOOL ? a.f != 0 : truncate_to(a.f, to));
}

Value value_load(const void *p, Dtype t, int64_t index)
{
    switch (t) {
    case DT_F32: return float_value(((const float *)p)[index]);
    case DT_I64: return int_value(((const int64_t *)p)[index]);
    case DT_I32: return int_value(((const int32_t *)p)[index]);
    case DT_I8: return int_value(((const int8_t *)p)[index]);
    default: return int_value(((const uint8_t *)p)[index] != 0);
    }
}

void value_store(void *p, Dtype t, int64_t index, Value v)
{
    switch (t) {
    case DT_F32: ((float *)p)[index] = v.f; break;
    case DT_I64: ((int64_t *)p)[index] = v.i; break;
    case DT_I32: ((int32_t *)p)[index] = (int32_t)v.i; break;
    case DT_I8: ((int8_t *)p)[index] = (int8_t)v.i; break;
    default: ((uint8_t *)p)[index] = v.i != 0;
    }
}

bool value_same(Value a, Value b, Dtype t)
{
    if (t != DT_F32) {
        return a.i == b.i;
    }
    return (isnan(a.f) && isnan(b.f)) || memcmp(&a.f, &b.f, sizeof a.f) == 0;
}

/* ---- printing --------------------------------------------------------------
 * Floats as NumPy writes them: the fewest digits that read back, positional from 1e-4 up to
 * below 1e16, else scientific with an exponent of at least two digits. */

enum { F32_DIGITS = 9 }; /* enough for any float */

/* The digits without a point, and the exponent of the first. The locale's decimal point, which
 * may be any bytes, is skipped: what is left are digits and "e". */
static int shortest(float magnitude, char digits[F32_DIGITS + 1])
{
    char text[64];
    for (int n = 0; n < F32_DIGITS; n++) {
        snprintf(text, sizeof text, "%.*e", n, (double)magnitude);
        if (strtof(text, NULL) == magnitude) {
            break;
        }
    }
    char *exponent = strchr(text, 'e');
    int n = 0;
    for (char *s = text; s < exponent; s++) {
        if (*s >= '0' && *s <= '9') {
            digits[n++] = *s;
        }
    }
    digits[n] = 0;
    return atoi(exponent + 1);
}

static void print_positional(const char *digits, int exponent, Buf *out)
{
    int n = (int)strlen(digits);
    if (exponent < 0) {
        buf_printf(out, "0.%.*s%s", -exponent - 1, "0000", digits);
        return;
    }
    for (int i = 0; i <= exponent || i < n; i++) {
        buf_str(out, i == exponent + 1 ? "." : "");
        buf_char(out, i < n ? digits[i] : '0');
    }
    buf_str(out, exponent >= n - 1 ? ".0" : "");
}

static void print_float(float f, Buf *out)
{
    if (isnan(f)) {
        buf_str(out, "nan");
        return;
    }
    float magnitude = fabsf(f);
    buf_str(out, signbit(f) ? "-" : "");
    if (isinf(f)) {
        buf_str(out, "inf");
        return;
    }
    char digits[F32_DIGITS + 1];
    int exponent = shortest(magnitude, digits);
    if (magnitude == 0 || ((double)magnitude >= 1e-4 && (double)magnitude < 1e16)) {
        print_positional(digits, exponent, out);
        return;
    }
    buf_char(out, digits[0]);
    if (digits[1]) {
        buf_char(out, '.');
        buf_str(out, digits + 1);
    }
    buf_printf(out, "e%+03d", exponent);
}

void value_print(Value v, Dtype t, Buf *out)
{
    if (t == DT_F32) {
        print_float(v.f, out);
    } else if (t == DT_BOOL) {
        buf_str(out, v.i ? "true" : "false");
    } else {
        buf_printf(out, "%lld", (long long)v.i);
    }
}
