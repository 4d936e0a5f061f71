/* base_text.c - tests of growing text, hashes, the map, random numbers and dtypes. */
#include "tests/helpers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static Env env;
static Buf buf;

static void start(void)
{
    env_init(&env);
    buf_init(&buf, &env.model);
}

static void stop(void)
{
    env_release(&env);
}

TestSuite(base_buf, .init = start, .fini = stop);
TestSuite(base_hash, .init = start, .fini = stop);

Test(base_buf, is_terminated_from_the_start_and_after_clear)
{
    cr_assert_str_eq(buf.at, "");
    buf_str(&buf, "abc");
    buf_clear(&buf);
    cr_assert_str_eq(buf.at, "");
    cr_assert_eq(buf.len, 0);
}

Test(base_buf, grows_over_every_boundary)
{
    for (size_t i = 0; i < 5000; i++) {
        buf_char(&buf, (char)('a' + i % 26));
        cr_assert_eq(buf.len, i + 1);
        cr_assert_eq(buf.at[i + 1], 0);
    }
    for (size_t i = 0; i < 5000; i++) {
        cr_assert_eq(buf.at[i], (char)('a' + i % 26));
    }
}

Test(base_buf, printf_that_does_not_fit_keeps_what_was_there)
{
    for (int width = 0; width < 300; width++) {
        buf_init(&buf, &env.model);
        buf_str(&buf, "head");
        buf_printf(&buf, "%*d", width, 7);
        size_t body = width ? (size_t)width : 1;
        cr_assert_eq(buf.len, 4 + body);
        cr_assert_eq(strlen(buf.at), 4 + body);
        cr_assert(memcmp(buf.at, "head", 4) == 0 && buf.at[buf.len - 1] == '7');
    }
}

Test(base_buf, pads_to_a_column_of_the_line)
{
    buf_str(&buf, "first\n");
    size_t line = buf.len;
    buf_str(&buf, "ab");
    buf_pad(&buf, 5, line);
    buf_str(&buf, ":");
    buf_pad(&buf, 3, line);
    cr_assert_str_eq(buf.at, "first\nab   :");
}

Test(base_buf, json_escapes_what_must_be_escaped)
{
    static const char text[] = "a\"\\\n\t\x01\x7f\0z\u00e9\u20ac\U0001f600";
    buf_json(&buf, text, sizeof text - 1);
    cr_assert_str_eq(buf.at, "\"a\\\"\\\\\\n\\t\\u0001\\u007f\\u0000z\u00e9\u20ac\U0001f600\"");
}

Test(base_buf, json_replaces_what_is_no_utf8)
{
    static const char *const bad[] = {"\x80",         "\xc0\xaf",         "\xe2\x82",
                                      "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xf4\x90\x80\x80"};
    static const int replaced[] = {1, 2, 2, 3, 4, 4};
    for (size_t i = 0; i < countof(bad); i++) {
        buf_clear(&buf);
        buf_json(&buf, bad[i], strlen(bad[i]));
        int n = how_often(buf.at, "\\ufffd");
        cr_assert_eq(n, replaced[i], "%zu: %s", i, buf.at);
        cr_assert_eq(buf.len, 2 + 6 * (size_t)n);
    }
}

Test(base_buf, a_text_ends_with_its_end_and_with_nothing_longer)
{
    cr_expect(text_ends_with("model.so", ".so"));
    cr_expect(text_ends_with(".so", ".so"));
    cr_expect(text_ends_with("model.so", ""));
    cr_expect_not(text_ends_with("so", ".so"));
    cr_expect_not(text_ends_with("model.so.1", ".so"));
}

/* ---- hash ---- */

Test(base_hash, is_xxh3_128)
{
    char hex[33];
    hash_hex(hash_bytes("", 0), hex);
    cr_assert_str_eq(hex, "99aa06d3014798d86001c324468d497f");
    hash_hex(hash_str("abc"), hex);
    cr_assert_str_eq(hex, "06b05ab6733a618578af5f94892f3950");
    cr_assert(hash_eq(hash_str("abc"), hash_bytes("abcd", 3)));
    cr_assert_not(hash_eq(hash_str("abc"), hash_str("abd")));
}

Test(base_hash, a_map_finds_what_was_put_and_nothing_else)
{
    enum { N = 5000 };
    static int value[N];
    Map m;
    map_init(&m, &env.model);
    cr_assert_null(map_get(&m, hash_str("0")));
    for (int i = 0; i < N; i++) {
        map_put(&m, hash_bytes(&i, sizeof i), &value[i]);
    }
    cr_assert_eq(m.n, N);
    for (int i = 0; i < N; i++) {
        int other = -1 - i;
        cr_assert_eq(map_get(&m, hash_bytes(&i, sizeof i)), &value[i]);
        cr_assert_null(map_get(&m, hash_bytes(&other, sizeof other)));
    }
}

Test(base_hash, putting_again_replaces)
{
    int a, b;
    Map m;
    map_init(&m, &env.model);
    map_put(&m, hash_str("k"), &a);
    map_put(&m, hash_str("k"), &b);
    cr_assert_eq(m.n, 1);
    cr_assert_eq(map_get(&m, hash_str("k")), &b);
}

Test(base_hash, equal_low_halves_do_not_mix)
{
    int a, b;
    Map m;
    map_init(&m, &env.model);
    map_put(&m, (Hash){1, 7}, &a);
    map_put(&m, (Hash){2, 7}, &b);
    cr_assert_eq(map_get(&m, (Hash){1, 7}), &a);
    cr_assert_eq(map_get(&m, (Hash){2, 7}), &b);
    cr_assert_null(map_get(&m, (Hash){3, 7}));
}

/* ---- rng ---- */

Test(base_rng, gives_the_published_numbers)
{
    static const uint64_t want[] = {0x99ec5f36cb75f2b4, 0xbf6e1f784956452a, 0x1a5f849d4933e6e0,
                                    0x6aa594f1262d2d2c};
    Rng r;
    rng_seed(&r, 0);
    cr_assert_eq(r.s[0], 0xe220a8397b1dcdaf);
    for (size_t i = 0; i < countof(want); i++) {
        cr_assert_eq(rng_u64(&r), want[i]);
    }
}

Test(base_rng, one_seed_one_sequence)
{
    Rng a, b;
    rng_seed(&a, 42);
    rng_seed(&b, 42);
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(rng_u64(&a), rng_u64(&b));
    }
    rng_seed(&b, 43);
    cr_assert_neq(rng_u64(&a), rng_u64(&b));
}

Test(base_rng, below_stays_below_and_reaches_everything)
{
    Rng r;
    rng_seed(&r, 1);
    bool seen[7] = {false};
    for (int i = 0; i < 1000; i++) {
        uint64_t x = rng_below(&r, 7);
        cr_assert_lt(x, 7);
        seen[x] = true;
        cr_assert_eq(rng_below(&r, 1), 0);
        cr_assert_lt(rng_below(&r, (UINT64_C(1) << 63) + 1), (UINT64_C(1) << 63) + 1);
    }
    for (int i = 0; i < 7; i++) {
        cr_assert(seen[i]);
    }
}

Test(base_rng, below_is_even_where_a_modulo_is_not)
{
    enum { N = 30000 };
    Rng r;
    rng_seed(&r, 3);
    int low = 0;
    for (int i = 0; i < N; i++) {
        low += rng_below(&r, UINT64_C(3) << 62) < UINT64_C(1) << 62;
    }
    cr_assert_lt(abs(low - N / 3), 500); /* a modulo would give N / 2 */
}

Test(base_rng, unit_and_normal_have_their_moments)
{
    enum { N = 100000 };
    Rng r;
    rng_seed(&r, 2);
    double unit = 0, sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        double u = rng_unit(&r), x = rng_normal(&r);
        cr_assert(u >= 0 && u < 1);
        unit += u;
        sum += x;
        squares += x * x;
    }
    cr_assert_lt(fabs(unit / N - 0.5), 0.005);
    cr_assert_lt(fabs(sum / N), 0.015);
    cr_assert_lt(fabs(squares / N - 1), 0.02);
}

/* ---- dtype ---- */

Test(base_dtype, names_read_back)
{
    for (int t = 0; t < N_DTYPES; t++) {
        Dtype back;
        const char *name = dtype_name((Dtype)t);
        cr_assert(dtype_parse(name, strlen(name), &back));
        cr_assert_eq(back, (Dtype)t);
    }
    Dtype none;
    cr_assert_not(dtype_parse("f3", 2, &none));
    cr_assert_not(dtype_parse("bf16", 4, &none));
    cr_assert_not(dtype_parse("", 0, &none));
}

Test(base_dtype, classes_and_sizes)
{
    cr_assert_eq(dtype_bytes(DT_F32), sizeof(float));
    cr_assert_eq(dtype_bytes(DT_I64), 8);
    cr_assert_eq(dtype_bytes(DT_BOOL), 1);
    cr_assert_str_eq(dtype_ctype(DT_I8), "int8_t");
    cr_assert(dtype_numeric(DT_F32) && dtype_numeric(DT_I8) && !dtype_numeric(DT_BOOL));
    cr_assert_eq(dtype_class(DT_I32), CLASS_INT);
}
