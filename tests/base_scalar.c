/* base_scalar.c - tests of what the scalar operations mean, and of printed values. */
#include "tests/helpers.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static Value f(float x)
{
    return (Value){.f = x};
}

static Value i(int64_t x)
{
    return (Value){.i = x};
}

static int64_t ints(ScalarOp op, Dtype t, int64_t a, int64_t b)
{
    return scalar_eval(op, t, i(a), i(b)).i;
}

static float floats(ScalarOp op, float a, float b)
{
    return scalar_eval(op, DT_F32, f(a), f(b)).f;
}

static int64_t compared(ScalarOp op, float a, float b)
{
    return scalar_eval(op, DT_F32, f(a), f(b)).i;
}

Test(base_scalar, integers_wrap_in_their_own_width)
{
    cr_assert_eq(ints(S_ADD, DT_I8, 100, 100), -56);
    cr_assert_eq(ints(S_NEG, DT_I8, -128, 0), -128);
    cr_assert_eq(ints(S_MUL, DT_I8, 16, 16), 0);
    cr_assert_eq(ints(S_SUB, DT_I8, -128, 1), 127);
    cr_assert_eq(ints(S_ADD, DT_I32, INT32_MAX, 1), INT32_MIN);
    cr_assert_eq(ints(S_MUL, DT_I32, 65536, 65536), 0);
    cr_assert_eq(ints(S_ADD, DT_I64, INT64_MAX, 1), INT64_MIN);
    cr_assert_eq(ints(S_MUL, DT_I64, INT64_MIN, -1), INT64_MIN);
    cr_assert_eq(ints(S_NEG, DT_I64, INT64_MIN, 0), INT64_MIN);
}

Test(base_scalar, index_division_is_total)
{
    cr_assert_eq(ints(S_IDIV, DT_I64, 17, 5), 3);
    cr_assert_eq(ints(S_MOD, DT_I64, 17, 5), 2);
    cr_assert_eq(ints(S_IDIV, DT_I64, 17, 0), 0);
    cr_assert_eq(ints(S_MOD, DT_I64, 17, 0), 0);
    cr_assert_eq(ints(S_IDIV, DT_I64, INT64_MIN, -1), INT64_MIN);
    cr_assert_eq(ints(S_MOD, DT_I64, INT64_MIN, -1), 0);
}

Test(base_scalar, comparisons_with_nan)
{
    cr_assert_eq(compared(S_LE, NAN, 1), 0);
    cr_assert_eq(compared(S_LE, 1, NAN), 0);
    cr_assert_eq(compared(S_LT, NAN, NAN), 0);
    cr_assert_eq(compared(S_NE, NAN, NAN), 1);
    cr_assert_eq(compared(S_LE, 2, 2), 1);
    cr_assert_eq(compared(S_LE, -0.0f, 0.0f), 1);
    cr_assert_eq(compared(S_NE, -0.0f, 0.0f), 0);
    cr_assert_eq(ints(S_LT, DT_I8, -1, 1), 1);
    cr_assert_eq(ints(S_OR, DT_BOOL, 0, 1), 1);
    cr_assert_eq(ints(S_OR, DT_BOOL, 0, 0), 0);
}

Test(base_scalar, floats_are_single_operations_in_float)
{
    cr_assert_eq(floats(S_ADD, 16777216.0f, 1.0f), 16777216.0f);
    cr_assert_eq(floats(S_DIV, 1.0f, 3.0f), 1.0f / 3.0f);
    cr_assert_eq(floats(S_RECIPROCAL, 0.0f, 0), INFINITY);
    cr_assert_eq(floats(S_EXP, 1.5f, 0), expf(1.5f));
    cr_assert_eq(floats(S_SIN, 2.5f, 0), sinf(2.5f));
    cr_assert_eq(floats(S_COS, 2.5f, 0), cosf(2.5f));
    cr_assert_eq(floats(S_SQRT, 2.0f, 0), 0x1.6a09e6p0f);
    cr_assert(isnan(floats(S_SQRT, -1.0f, 0)));
    cr_assert(signbit(floats(S_NEG, 0.0f, 0)));
    cr_assert_not(signbit(floats(S_ADD, -0.0f, 0.0f)));
}

Test(base_scalar, an_operation_without_meaning_is_a_bug, .signal = SIGABRT)
{
    scalar_eval(S_EXP, DT_I64, i(1), i(0));
}

Test(base_scalar, the_table_has_a_row_for_each_operation)
{
    cr_assert_str_eq(scalar_info[S_ADD].name, "add");
    cr_assert_str_eq(scalar_info[S_COS].c, "cosf");
    cr_assert_eq(scalar_info[S_NEG].arity, 1);
    cr_assert(scalar_info[S_LE].to_bool && !scalar_info[S_ADD].to_bool);
    cr_assert_eq(scalar_info[S_RECIPROCAL].prec, PREC_MUL);
}

/* ---- casts ---- */

static int64_t to_int(float x, Dtype t)
{
    return scalar_cast(f(x), DT_F32, t).i;
}

Test(base_cast, floats_truncate_and_saturate)
{
    cr_assert_eq(to_int(2.9f, DT_I64), 2);
    cr_assert_eq(to_int(-2.9f, DT_I8), -2);
    cr_assert_eq(to_int(127.9f, DT_I8), 127);
    cr_assert_eq(to_int(128.0f, DT_I8), 127);
    cr_assert_eq(to_int(-128.9f, DT_I8), -128);
    cr_assert_eq(to_int(-1e30f, DT_I8), -128);
    cr_assert_eq(to_int(2147483648.0f, DT_I32), INT32_MAX);
    cr_assert_eq(to_int(-2147483648.0f, DT_I32), INT32_MIN);
    cr_assert_eq(to_int(9.3e18f, DT_I64), INT64_MAX);
    cr_assert_eq(to_int(-INFINITY, DT_I64), INT64_MIN);
    cr_assert_eq(to_int(NAN, DT_I32), 0);
}

Test(base_cast, anything_but_zero_is_true)
{
    cr_assert_eq(to_int(NAN, DT_BOOL), 1);
    cr_assert_eq(to_int(-0.0f, DT_BOOL), 0);
    cr_assert_eq(to_int(0.25f, DT_BOOL), 1);
    cr_assert_eq(scalar_cast(i(256), DT_I64, DT_BOOL).i, 1);
    cr_assert_eq(scalar_cast(i(1), DT_BOOL, DT_F32).f, 1.0f);
}

Test(base_cast, integers_keep_their_low_bits_and_round_to_even)
{
    cr_assert_eq(scalar_cast(i(300), DT_I64, DT_I8).i, 44);
    cr_assert_eq(scalar_cast(i(INT64_C(1) << 32), DT_I64, DT_I32).i, 0);
    cr_assert_eq(scalar_cast(i(-5), DT_I8, DT_I64).i, -5);
    cr_assert_eq(scalar_cast(i(16777217), DT_I64, DT_F32).f, 16777216.0f);
    cr_assert_eq(scalar_cast(i(16777219), DT_I64, DT_F32).f, 16777220.0f);
}

/* ---- arrays ---- */

Test(base_value, stores_and_loads_every_dtype)
{
    char memory[32] = {0};
    static const int64_t value[N_DTYPES] = {0, INT64_MIN, INT32_MIN, INT8_MIN, 1};
    for (int t = DT_I64; t < N_DTYPES; t++) {
        _Alignas(16) char array[32] = {0};
        value_store(array, (Dtype)t, 1, i(value[t]));
        cr_assert_eq(value_load(array, (Dtype)t, 1).i, value[t]);
        cr_assert_eq(value_load(array, (Dtype)t, 0).i, 0);
        cr_assert(memcmp(array + 2 * dtype_bytes((Dtype)t), memory, 8) == 0);
    }
    float x[2] = {0};
    value_store(x, DT_F32, 1, f(-0.0f));
    cr_assert(signbit(value_load(x, DT_F32, 1).f) && !signbit(x[0]));
}

Test(base_value, same_means_same_bits_but_all_nans_are_alike)
{
    cr_assert(value_same(f(NAN), f(-NAN), DT_F32));
    cr_assert_not(value_same(f(0.0f), f(-0.0f), DT_F32));
    cr_assert(value_same(f(1.5f), f(1.5f), DT_F32));
    cr_assert_not(value_same(i(1), i(2), DT_I64));
}

/* ---- printing ---- */

static const char *shown(Env *e, Value v, Dtype t)
{
    Buf b;
    buf_init(&b, &e->model);
    value_print(v, t, &b);
    return b.at;
}

Test(base_value, prints_as_numpy_does)
{
    static const struct {
        float x;
        const char *text;
    } row[] = {
        {1e-6f, "1e-06"},
        {4, "4.0"},
        {0.125f, "0.125"},
        {1e16f, "1e+16"},
        {-INFINITY, "-inf"},
        {INFINITY, "inf"},
        {NAN, "nan"},
        {-0.0f, "-0.0"},
        {0, "0.0"},
        {0.1f, "0.1"},
        {1.0f / 3, "0.33333334"},
        {123456789.f, "123456790.0"},
        {0.00125f, "0.00125"},
        {0.001f, "0.001"},
        {5e15f, "5000000000000000.0"},
        {1e-4f, "1e-04"},
        {0.00011f, "0.00011"},
        {1e15f, "1000000000000000.0"},
        {3.4028235e38f, "3.4028235e+38"},
        {1e-45f, "1e-45"},
        {-1.25e-7f, "-1.25e-07"},
        {16777216, "16777216.0"},
        {100.5f, "100.5"},
    };
    Env e;
    env_init(&e);
    for (size_t k = 0; k < countof(row); k++) {
        cr_assert_str_eq(shown(&e, f(row[k].x), DT_F32), row[k].text);
    }
    cr_assert_str_eq(shown(&e, i(INT64_MIN), DT_I64), "-9223372036854775808");
    cr_assert_str_eq(shown(&e, i(-56), DT_I8), "-56");
    cr_assert_str_eq(shown(&e, i(1), DT_BOOL), "true");
    cr_assert_str_eq(shown(&e, i(0), DT_BOOL), "false");
    env_release(&e);
}

Test(base_value, every_printed_float_reads_back)
{
    Env e;
    env_init(&e);
    Rng r;
    rng_seed(&r, 9);
    for (int k = 0; k < 20000; k++) {
        uint32_t bits = (uint32_t)rng_u64(&r);
        float x;
        memcpy(&x, &bits, sizeof x);
        const char *text = shown(&e, f(x), DT_F32);
        cr_assert(value_same(f(strtof(text, NULL)), f(x), DT_F32), "%s is not %a", text,
                  (double)x);
        env_release(&e);
        env_init(&e);
    }
    env_release(&e);
}
