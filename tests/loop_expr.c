/* loop_expr.c - what the constructors of expressions fold, and how expressions are printed. */
#include "tests/loop_util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One axis m, one symbol s0, operands a (f32) and g (i32): enough to write any expression. */
static const char frame[] = "kernel elementwise\n"
                            "y: %s[s0]\n"
                            "a: f32[s0]\n"
                            "g: i32[s0]\n"
                            "h: i8[s0]\n"
                            "axis m space s0\n"
                            "axis n space s0\n"
                            "phase m n\n"
                            "    y[m] = %s\n";

/* The canonical text of an expression of dtype t. */
static const char *canonical(Env *e, const char *t, const char *written)
{
    Kernel *k = kernel_of(e, arena_printf(&e->kernel, frame, t, written));
    char *last = strstr(k->text, "y[m] = ") + strlen("y[m] = ");
    return arena_strn(&e->kernel, last, strcspn(last, "\n"));
}

typedef struct Row {
    const char *dtype, *written, *canonical;
} Row;

static void check_rows(const Row *row, size_t n)
{
    Env e;
    env_init(&e);
    for (size_t i = 0; i < n; i++) {
        const char *got = canonical(&e, row[i].dtype, row[i].written);
        cr_expect_str_eq(got, row[i].canonical, "%s is printed as %s, not as %s",
                         row[i].written, got, row[i].canonical);
    }
    env_release(&e);
}

Test(loop_expr, integers_fold_by_the_table)
{
    static const Row rows[] = {
        {"i64", "2 + 3", "5"},
        {"i64", "2 - 3", "-1"},
        {"i64", "-2*3", "-6"},
        {"i64", "7 / 2", "3"},
        {"i64", "7 % 4", "3"},
        {"i64", "0 + m", "m"},
        {"i64", "m + 0", "m"},
        {"i64", "m - 0", "m"},
        {"i64", "0 - m", "0 - m"},
        {"i64", "m + 2 <= m + 2 ? 1 : m", "true ? 1 : m"},
        {"i64", "m*2 < m*2 ? 1 : m", "false ? 1 : m"},
        {"i64", "m != m ? 1 : m", "false ? 1 : m"},
        {"i64", "0*m", "0"},
        {"i64", "m*0", "0"},
        {"i64", "1*m", "m"},
        {"i64", "m*1", "m"},
        {"i64", "m / 1", "m"},
        {"i64", "m % 1", "0"},
        {"i64", "m*(3 - 2) + (4 - 4)*n", "m"},
        {"i64", "m + 2 + 3", "m + 2 + 3"},
        {"i64", "9223372036854775807 + 1", "-9223372036854775808"},
        {"i8", "100i8 + 100i8", "-56i8"},
        {"i8", "h[m]*0i8", "0i8"},
        {"i32", "2147483647i32 * 2i32", "-2i32"},
        {"i32", "g[m] + 0i32", "g[m]"},
        {"bool", "1 < 2", "1 < 2"},
        {"i64", "-(5)", "-(5)"},
    };
    check_rows(rows, countof(rows));
}

Test(loop_expr, floats_never_fold)
{
    static const Row rows[] = {
        {"f32", "1.0f + 2.0f", "0x1p+0f + 0x1p+1f"}, {"f32", "a[m] + 0.0f", "a[m] + 0.0f"},
        {"f32", "0.0f * a[m]", "0.0f * a[m]"},       {"f32", "a[m] * 1.0f", "a[m] * 0x1p+0f"},
        {"f32", "a[m] / 1.0f", "a[m] / 0x1p+0f"},    {"f32", "-(1.0f)", "-(0x1p+0f)"},
        {"f32", "exp(0.0f)", "exp(0.0f)"},
    };
    check_rows(rows, countof(rows));
}

Test(loop_expr, casts_to_the_same_dtype_vanish_and_to_bool_compare)
{
    static const Row rows[] = {
        {"f32", "f32(a[m])", "a[m]"},           {"i64", "i64(m)", "m"},
        {"bool", "bool(a[m])", "a[m] != 0.0f"}, {"bool", "bool(g[m])", "g[m] != 0i32"},
        {"bool", "bool(m < n)", "m < n"},       {"f32", "f32(i8(a[m]))", "f32(i8(a[m]))"},
    };
    check_rows(rows, countof(rows));
}

Test(loop_expr, parentheses_are_the_fewest_that_keep_the_tree)
{
    static const Row rows[] = {
        {"i64", "((m + n)) + s0", "m + n + s0"},
        {"i64", "m + (n + s0)", "m + (n + s0)"},
        {"i64", "m - (n - s0)", "m - (n - s0)"},
        {"i64", "(m*n)*s0", "m*n*s0"},
        {"i64", "m*(n*s0)", "m*(n*s0)"},
        {"i64", "m*(n/s0)", "m*(n/s0)"},
        {"i64", "m + (n*s0)", "m + n*s0"},
        {"i64", "(m + n)*s0", "(m + n)*s0"},
        {"i64", "(m / 7) % 3", "m/7%3"},
        {"bool", "(m + 1 < n) || (n != 3)", "m + 1 < n || n != 3"},
        {"bool", "(m < n) || ((n < m) || (m < 1))", "m < n || (n < m || m < 1)"},
        {"bool", "(m < n) != (n < m)", "(m < n) != (n < m)"},
        {"f32", "a[m]*(a[n] / a[m])", "a[m] * (a[n] / a[m])"},
        {"i64", "(m < n) ? m : (n < m ? n : 3)", "m < n ? m : n < m ? n : 3"},
        {"i64", "m < n ? (n < m ? n : 3) : m", "m < n ? (n < m ? n : 3) : m"},
        {"i64", "(m < n ? m : n) + 1", "(m < n ? m : n) + 1"},
        {"f32", "f32((m + 1))", "f32(m + 1)"},
    };
    check_rows(rows, countof(rows));
}

Test(loop_expr, unary_operands_are_printed_at_the_tightest_level)
{
    static const Row rows[] = {
        {"f32", "-(a[m] + a[n])", "-(a[m] + a[n])"},
        {"f32", "-(a[m] * a[n])", "-(a[m] * a[n])"},
        {"f32", "- -a[m]", "-(-a[m])"},
        {"f32", "a[m] - -a[n]", "a[m] - -a[n]"},
        {"f32", "-a[m] * a[n]", "-a[m] * a[n]"},
        {"f32", "-1.5f", "-0x1.8p+0f"},
        {"f32", "-(-1.5f)", "-(-0x1.8p+0f)"},
        {"f32", "-exp(a[m])", "-exp(a[m])"},
        {"i64", "m - -3", "m - -3"},
    };
    check_rows(rows, countof(rows));
}

Test(loop_expr, constants_are_exact_and_read_back)
{
    static const Row rows[] = {
        {"f32", "0.1f", "0x1.99999ap-4f"},
        {"f32", "1e-6", "0x1.0c6f7ap-20f"},
        {"f32", "0x1.99999ap-4f", "0x1.99999ap-4f"},
        {"f32", "1e-45f", "0x0.000002p-126f"},
        {"f32", "0x0.000002p-126f", "0x0.000002p-126f"},
        {"f32", "3.4028235e38", "0x1.fffffep+127f"},
        {"f32", "-0.0f", "-0.0f"},
        {"f32", "nan", "nan"},
        {"f32", "-inf", "-inf"},
        {"f32", "16777216.0", "0x1p+24f"},
        {"bool", "true", "true"},
        {"i8", "-128i8", "-128i8"},
        {"i64", "-9223372036854775808", "-9223372036854775808"},
    };
    check_rows(rows, countof(rows));
}

Test(loop_expr, print_f32_is_exact_on_random_bits)
{
    Env e;
    env_init(&e);
    Rng rng;
    rng_seed(&rng, 1);
    Buf out;
    buf_init(&out, &e.kernel);
    for (int i = 0; i < 20000; i++) {
        uint32_t bits = (uint32_t)rng_u64(&rng);
        float f, back;
        memcpy(&f, &bits, sizeof f);
        if (!isfinite(f)) {
            continue;
        }
        buf_clear(&out);
        print_f32(&out, f);
        char *end;
        back = strtof(out.at, &end);
        cr_assert(memcmp(&f, &back, sizeof f) == 0 && strcmp(end, "f") == 0, "%a is %s",
                  (double)f, out.at);
    }
    env_release(&e);
}

Test(loop_expr, equality_is_of_trees_and_nans_are_alike)
{
    Env e;
    env_init(&e);
    Arena *m = &e.kernel;
    const Expr *a = x_op(m, S_ADD, x_axis(m, 0), x_int(m, 2));
    const Expr *b = x_op(m, S_ADD, x_axis(m, 0), x_int(m, 2));
    const Expr *c = x_op(m, S_ADD, x_axis(m, 1), x_int(m, 2));
    const Expr *nan = x_const(m, DT_F32, (Value){.f = NAN});
    const Expr *nan2 = x_const(m, DT_F32, (Value){.f = -NAN});
    const Expr *zero = x_const(m, DT_F32, (Value){.f = 0.0f});
    const Expr *minus_zero = x_const(m, DT_F32, (Value){.f = -0.0f});
    cr_expect(expr_eq(a, b));
    cr_expect(!expr_eq(a, c));
    cr_expect(expr_eq(nan, nan2));
    cr_expect(!expr_eq(zero, minus_zero));
    cr_expect(expr_is_int(x_int(m, 7), 7));
    cr_expect(!expr_is_int(x_const(m, DT_I32, (Value){.i = 7}), 7));
    env_release(&e);
}

/* ---- random integer expressions: text, C and the nest interpreter agree ---- */

enum { N_RANDOM = 300, AT = 4 };

/* Divisors are at least 1, so that every operation has a meaning in C. */
static const Expr *random_expr(Arena *m, Rng *rng, int depth);

static const Expr *random_bool(Arena *m, Rng *rng, int depth)
{
    static const ScalarOp compare[] = {S_LE, S_LT, S_NE};
    if (depth > 1 && rng_below(rng, 4) == 0) {
        return x_op(m, S_OR, random_bool(m, rng, depth - 1), random_bool(m, rng, depth - 1));
    }
    const Expr *a = random_expr(m, rng, depth - 1);
    return x_op(m, compare[rng_below(rng, 3)], a, random_expr(m, rng, depth - 1));
}

static const Expr *random_leaf(Arena *m, Rng *rng)
{
    static const int64_t constant[] = {0,         1,        2, 7, -3, 2147483647, -2147483648LL,
                                       INT64_MAX, INT64_MIN};
    switch (rng_below(rng, 3)) {
    case 0: return x_int(m, constant[rng_below(rng, countof(constant))]);
    case 1: return x_axis(m, (int)rng_below(rng, 2));
    default: return x_sym(m, 0);
    }
}

static const Expr *random_expr(Arena *m, Rng *rng, int depth)
{
    static const ScalarOp arithmetic[] = {S_ADD, S_SUB, S_MUL};
    if (depth <= 0) {
        return random_leaf(m, rng);
    }
    const Expr *a = random_expr(m, rng, depth - 1);
    switch (rng_below(rng, 6)) {
    case 0: return x_op(m, S_NEG, a, NULL);
    case 1:
        return x_op(m, rng_below(rng, 2) ? S_IDIV : S_MOD, a,
                    x_int(m, 1 + (int64_t)rng_below(rng, 9)));
    case 2:
        return x_select(m, random_bool(m, rng, depth - 1), a, random_expr(m, rng, depth - 1));
    default: return x_op(m, arithmetic[rng_below(rng, 3)], a, random_expr(m, rng, depth - 1));
    }
}

/* A kernel that stores N_RANDOM expressions of two axes, one behind the other. */
static Kernel *random_kernel(Env *e, uint64_t seed)
{
    Arena *m = &e->model;
    Rng rng;
    rng_seed(&rng, seed);
    Kernel *k = arena_new(m, Kernel);
    k->kind = "elementwise";
    Operand y = {.name = "y", .dtype = DT_I64};
    *vec_push(m, &y.span) = x_int(m, N_RANDOM * AT * AT);
    *vec_push(m, &k->operand) = y;
    Phase *p = vec_push(m, &k->nest.phase);
    *p = (Phase){0};
    for (int i = 0; i < 2; i++) {
        *vec_push(m, &k->nest.axis) =
            (Axis){.name = i ? "n" : "m", .kind = AXIS_SPACE, .extent = x_int(m, AT)};
        *vec_push(m, &p->loops) = i;
    }
    for (int i = 0; i < N_RANDOM; i++) {
        const Expr *at =
            x_op(m, S_ADD, x_op(m, S_MUL, x_axis(m, 0), x_int(m, AT)), x_axis(m, 1));
        Stmt s = {.kind = STMT_STORE, .index = x_op(m, S_ADD, at, x_int(m, i * AT * AT))};
        s.value = random_expr(m, &rng, 1 + (int)rng_below(&rng, 5));
        *vec_push(m, &p->finish) = s;
    }
    int slots[MAX_SYMBOLS];
    kernel_finish(e, m, k, slots);
    return k;
}

Test(loop_expr, random_trees_survive_text_and_agree_with_c)
{
    static int64_t nest_out[N_RANDOM * AT * AT], c_out[N_RANDOM * AT * AT];
    Env e;
    env_init(&e);
    Kernel *k = random_kernel(&e, 7);
    Kernel *back = kernel_of(&e, k->text);
    cr_assert_str_eq(back->text, k->text);
    for (int i = 0; i < N_RANDOM; i++) {
        cr_assert(expr_eq(k->nest.phase.at[0].finish.at[i].value,
                          back->nest.phase.at[0].finish.at[i].value),
                  "expression %d", i);
    }
    int64_t syms[] = {11}, n_elems[] = {countof(nest_out)};
    cr_assert_eq(run_nest(&e, k, (void *[]){nest_out}, n_elems, syms), 0);
    Compiled c =
        compile_kernels(&e, &k, 1, "-w"); /* gcc finds nonsense such as m < m suspect */
    cr_assert_eq(compiled_kernel(&c, k)((void *[]){c_out}, syms, 0, 1), 0);
    for (size_t i = 0; i < countof(c_out); i++) {
        cr_assert_eq(nest_out[i], c_out[i], "element %zu: nest %lld, C %lld", i,
                     (long long)nest_out[i], (long long)c_out[i]);
    }
    compiled_release(&c);
    env_release(&e);
}
