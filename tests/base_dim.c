/* base_dim.c - tests of symbolic dimensions: canonical form, printing order, limits, text. */
#include "tests/env_fixture.h"
#include "tests/helpers.h"

#include <string.h>

TestSuite(base_dim, .init = start, .fini = stop);

#define prints(dim, text) cr_assert_str_eq(dim_text(&env, (dim)), (text))

Test(base_dim, prints_in_the_order_of_the_spec)
{
    Dim seq = dim_named(&env, "seq"), past = dim_named(&env, "past"); /* not in name order */
    Dim total = dim_add(&env, seq, past);
    prints(dim_addk(&env, total, -1), "past + seq - 1");
    prints(dim_mulk(&env, seq, 14), "14*seq");
    prints(dim_sub(&env, dim_int(1), seq), "-seq + 1");
    Dim d = dim_mulk(&env, dim_mul(&env, seq, total), 18966);
    d = dim_add(&env, d, dim_mulk(&env, past, 417792));
    prints(dim_addk(&env, d, 5), "18966*past*seq + 18966*seq*seq + 417792*past + 5");
    prints(dim_int(0), "0");
    prints(dim_int(INT64_MIN), "-9223372036854775808");
}

Test(base_dim, equal_polynomials_are_equal_however_they_were_made)
{
    Dim a = dim_named(&env, "a"), b = dim_named(&env, "b"), c = dim_named(&env, "c");
    Dim left = dim_mul(&env, dim_add(&env, a, b), dim_sub(&env, a, b));
    Dim right = dim_sub(&env, dim_mul(&env, a, a), dim_mul(&env, b, b));
    cr_assert(dim_eq(left, right));
    prints(left, "a*a - b*b");
    cr_assert(
        dim_eq(dim_mul(&env, dim_mul(&env, c, a), b), dim_mul(&env, b, dim_mul(&env, a, c))));
    prints(dim_mul(&env, dim_mul(&env, c, a), b), "a*b*c");
    cr_assert_not(dim_eq(left, dim_addk(&env, right, 1)));
    cr_assert_not(dim_eq(a, b));
    cr_assert_not(dim_eq(dim_mul(&env, a, a), dim_mul(&env, a, b)));
}

Test(base_dim, what_has_no_symbol_is_a_plain_integer)
{
    Dim seq = dim_named(&env, "seq");
    Dim zero = dim_sub(&env, seq, seq);
    cr_assert(dim_is_const(zero) && dim_is(zero, 0));
    cr_assert(dim_is(dim_sub(&env, dim_addk(&env, seq, 7), seq), 7));
    cr_assert(dim_is(dim_mulk(&env, seq, 0), 0));
    cr_assert(dim_is(dim_mul(&env, dim_int(6), dim_int(7)), 42));
    cr_assert_not(dim_is(seq, 0));
}

Test(base_dim, integers_allocate_nothing)
{
    size_t before = env.model.used_bytes + env.kernel.used_bytes;
    Dim d = dim_int(3);
    for (int i = 0; i < 30; i++) {
        d = dim_add(&env, dim_mul(&env, d, dim_int(2)), dim_sub(&env, dim_int(5), d));
    }
    Shape s = shape_of(2, (Dim[]){dim_int(4), dim_int(5)});
    cr_assert(dim_is(shape_count(&env, &s), 20));
    cr_assert_eq(env.model.used_bytes + env.kernel.used_bytes, before);
}

Test(base_dim, a_plain_symbol_is_one_term_of_degree_and_coefficient_one)
{
    Sym s = 99;
    Dim seq = dim_named(&env, "seq"), past = dim_named(&env, "past");
    cr_assert(dim_as_sym(past, &s));
    cr_assert_str_eq(env.symbol[s], "past");
    cr_assert_not(dim_as_sym(dim_mulk(&env, seq, 2), &s));
    cr_assert_not(dim_as_sym(dim_add(&env, seq, past), &s));
    cr_assert_not(dim_as_sym(dim_mul(&env, seq, seq), &s));
    cr_assert_not(dim_as_sym(dim_int(1), &s));
}

Test(base_dim, coefficients_are_found_by_monomial)
{
    Dim d = dim_of(&env, "3*seq*past - 2*seq + 9");
    Sym past = sym_intern(&env, "past", 4), seq = sym_intern(&env, "seq", 3);
    cr_assert_eq(dim_coef(d, (Sym[]){past, seq}, 2), 3);
    cr_assert_eq(dim_coef(d, (Sym[]){seq}, 1), -2);
    cr_assert_eq(dim_coef(d, (Sym[]){past}, 1), 0);
    cr_assert_eq(dim_coef(d, NULL, 0), 9);
    cr_assert_eq(dim_coef(dim_int(5), NULL, 0), 5);
    bool used[MAX_SYMBOLS] = {false};
    dim_symbols(d, used);
    cr_assert(used[past] && used[seq] && !used[2]);
}

Test(base_dim, substitution_replaces_all_at_once)
{
    Sym a = sym_intern(&env, "a", 1), b = sym_intern(&env, "b", 1);
    bool has[MAX_SYMBOLS] = {[0] = true, [1] = true};
    Dim with[MAX_SYMBOLS] = {[0] = dim_sym(&env, b), [1] = dim_sym(&env, a)};
    prints(dim_subst(&env, dim_of(&env, "a*a + 3*b"), has, with), "b*b + 3*a");
    with[0] = dim_int(4);
    has[1] = false;
    prints(dim_subst(&env, dim_of(&env, "a*a*b - 2*a"), has, with), "16*b - 8");
    has[0] = false;
    Dim d = dim_of(&env, "a + b");
    cr_assert_eq(dim_subst(&env, d, has, with).term, d.term);
}

/* ---- limits ---- */

static void parse_body(Env *e, void *arg)
{
    const char *s = arg;
    dim_parse(e, &s, "model.ncg:7");
}

static void fails(const char *text, ErrCode code, const char *words)
{
    must_fail(&env, parse_body, (void *)text, code, words);
}

Test(base_dim, overflow_is_an_error)
{
    fails("9223372036854775807 + 1", E_SHAPE, "overflow");
    fails("9223372036854775807*a + a", E_SHAPE, "overflow");
    fails("-9223372036854775808*a - a", E_SHAPE, "overflow");
    fails("4611686018427387904*a*2", E_SHAPE, "overflow");
    fails("9223372036854775808", E_SYNTAX, "does not fit 64 bits");
    fails("99999999999999999999999*a", E_SYNTAX, "does not fit 64 bits");
}

Test(base_dim, degree_and_terms_are_limited)
{
    prints(dim_of(&env, "a*a*a*a*a*a"), "a*a*a*a*a*a");
    fails("a*a*a*a*a*a*a", E_SHAPE, "more than 6 symbols");
    fails("(a+b+c+d+e+f+g+h+i)*(a+b+c+d+e+f+g+h+i)*(a+b+c)", E_SHAPE, "more than 64 terms");
}

Test(base_dim, symbols_are_identifiers_and_limited_in_number)
{
    char name[16];
    for (int i = 0; i < MAX_SYMBOLS; i++) {
        cr_assert_eq(sym_intern(&env, name, (size_t)snprintf(name, sizeof name, "s%d", i)), i);
    }
    cr_assert_eq(sym_intern(&env, "s17", 3), 17);
    fails("one_more", E_GRAPH, "at most 255");
}

static void intern_body(Env *e, void *arg)
{
    sym_intern(e, arg, strlen(arg));
}

Test(base_dim, names_that_are_no_identifiers_are_refused)
{
    static const char *const bad[] = {"", "1a", "a-b", "a b", "\u00e9", "a.b"};
    for (size_t i = 0; i < countof(bad); i++) {
        must_fail(&env, intern_body, (void *)bad[i], E_SYNTAX, "is not a symbol");
    }
    char longer[80];
    memset(longer, 'a', sizeof longer);
    longer[65] = 0;
    must_fail(&env, intern_body, longer, E_SYNTAX, "at most 64");
    longer[64] = 0;
    must_work(&env, intern_body, longer);
}

/* ---- text ---- */

Test(base_dim, reads_what_people_write)
{
    prints(dim_of(&env, " 2*seq+past * 3 - 1"), "3*past + 2*seq - 1");
    prints(dim_of(&env, "(seq + past)*(seq - past)"), "-past*past + seq*seq");
    prints(dim_of(&env, "-(seq - 1)*2"), "-2*seq + 2");
    prints(dim_of(&env, "2*3*4"), "24");
    prints(dim_of(&env, "a - b - c"), "a - b - c");
}

Test(base_dim, stops_behind_the_last_token)
{
    const char *text = "seq + 1, 4]", *s = text;
    prints(dim_parse(&env, &s, "x"), "seq + 1");
    cr_assert_eq(s - text, 7);
}

Test(base_dim, says_where_and_what_it_found)
{
    fails("seq + ]", E_SYNTAX,
          "model.ncg:7: expected a number, a symbol or '(' in a dimension, "
          "found ']'");
    fails("(seq + 1", E_SYNTAX, "expected ')' in a dimension, found the end of the line");
    fails("", E_SYNTAX, "found the end of the line");
    fails("2 * -3", E_SYNTAX, "found '-'");
}

Test(base_dim, depth_and_length_are_limited)
{
    char deep[10001];
    memset(deep, '(', 10000);
    deep[10000] = 0;
    fails(deep, E_SYNTAX, "more than 32 deep");
    Buf b;
    buf_init(&b, &env.model);
    for (int i = 0; i < 300; i++) {
        buf_str(&b, i ? "+a" : "a");
    }
    fails(b.at, E_SYNTAX, "more than 256");
}

Test(base_dim, random_polynomials_print_and_read_back)
{
    Rng r;
    rng_seed(&r, 5);
    static const char *const names[] = {"z", "a", "mm", "q"};
    for (int round = 0; round < 500; round++) {
        Dim d = dim_int((int64_t)rng_u64(&r));
        for (int i = 0; i < 6; i++) {
            Dim term = dim_named(&env, names[rng_below(&r, 4)]);
            for (uint64_t k = rng_below(&r, 3); k > 0; k--) {
                term = dim_mul(&env, term, dim_named(&env, names[rng_below(&r, 4)]));
            }
            int64_t coef = (int64_t)(rng_u64(&r) >> (4 + rng_below(&r, 60)));
            d = dim_add(&env, d, dim_mulk(&env, term, i % 2 ? coef : -coef));
        }
        cr_assert(dim_eq(dim_of(&env, dim_text(&env, d)), d), "%s", dim_text(&env, d));
    }
}

/* ---- values ---- */

Test(base_dim, eval_names_unbound_symbols_sorted)
{
    Sizes z = {0};
    Err err;
    int64_t v;
    Dim d = dim_of(&env, "seq*past + a");
    cr_assert_not(dim_eval(&env, d, &z, &v, &err));
    cr_assert_eq(err.code, E_INPUT);
    cr_assert_str_eq(err.text, "No value is bound to a, past, seq.");
    z.bound[sym_intern(&env, "past", 4)] = true;
    cr_assert_not(dim_eval(&env, d, &z, &v, &err));
    cr_assert_str_eq(err.text, "No value is bound to a, seq.");
}

Test(base_dim, eval_and_value_agree)
{
    Dim d = dim_of(&env, "3*seq*past - seq + 5");
    Sizes z = {.bound = {true, true}, .value = {10, 4}}; /* seq, past */
    Err err;
    int64_t v;
    cr_assert(dim_eval(&env, d, &z, &v, &err));
    cr_assert_eq(v, 115);
    cr_assert_eq(dim_value(d, z.value), 115);
    cr_assert(dim_eval(&env, dim_int(-8), &z, &v, &err) && v == -8);
}

Test(base_dim, eval_reports_overflow_of_the_result_only)
{
    Sizes z = {.bound = {true, true}, .value = {INT64_MAX, 2}};
    Err err;
    int64_t v;
    Dim a = dim_named(&env, "a"), b = dim_named(&env, "b");
    cr_assert_not(dim_eval(&env, dim_mul(&env, a, b), &z, &v, &err));
    cr_assert(strstr(err.text, "overflow"));
    cr_assert_not(dim_eval(&env, dim_add(&env, a, b), &z, &v, &err));
    Dim d = dim_of(&env, "a + b - 3"); /* a + b alone does not fit */
    cr_assert(dim_eval(&env, d, &z, &v, &err));
    cr_assert_eq(v, INT64_MAX - 1);
    cr_assert_eq(dim_value(d, z.value), INT64_MAX - 1);
    z.value[1] = 0;
    cr_assert(dim_eval(&env, dim_of(&env, "2*a*b"), &z, &v, &err) && v == 0);
}

/* ---- shapes ---- */

Test(base_dim, shapes_print_compare_and_count)
{
    Dim seq = dim_named(&env, "seq");
    Shape s = shape_of(2, (Dim[]){seq, dim_int(4)}), scalar = shape_of(0, NULL);
    cr_assert_str_eq(shape_text(&env, &s), "[seq, 4]");
    cr_assert_str_eq(shape_text(&env, &scalar), "[]");
    Buf b;
    buf_init(&b, &env.model);
    type_print(&env, DT_F32, &s, &b);
    buf_char(&b, ' ');
    type_print(&env, DT_I64, &scalar, &b);
    cr_assert_str_eq(b.at, "f32[seq, 4] i64[]");
    prints(shape_count(&env, &s), "4*seq");
    cr_assert(dim_is(shape_count(&env, &scalar), 1));
    Shape same = shape_of(2, (Dim[]){dim_named(&env, "seq"), dim_int(4)});
    cr_assert(shape_eq(&s, &same) && !shape_eq(&s, &scalar));
}

Test(base_dim, keys_differ_where_dims_differ)
{
    static const char *const text[] = {"0",   "1",     "a",   "b",    "2*a",
                                       "a*a", "a + 1", "a*b", "a + b"};
    Hash hash[countof(text)];
    for (size_t i = 0; i < countof(text); i++) {
        Buf b;
        buf_init(&b, &env.model);
        dim_hash_into(dim_of(&env, text[i]), &b);
        hash[i] = hash_bytes(b.at, b.len);
        for (size_t j = 0; j < i; j++) {
            cr_assert_not(hash_eq(hash[i], hash[j]), "%s and %s", text[i], text[j]);
        }
    }
}
