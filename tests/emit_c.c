/* emit_c.c - emitted C: its text, its hash, and that it equals the nest interpreter bitwise.
 * Every library here is compiled with warnings as errors. */
#include "tests/loop_util.h"

#include <math.h>
#include <string.h>

static const char *emitted(Env *e, const Kernel *k)
{
    Buf out;
    buf_init(&out, &e->model);
    emit_kernel(e, k, target_generic(), &out);
    return out.at;
}

Test(emit_c, a_matmul_reads_as_a_person_would_write_it)
{
    Env e;
    env_init(&e);
    Kernel *k = kernel_of(&e, matmul_text);
    const char *expected = arena_printf(
        &e.model,
        "/* matmul, key %s\n"
        " * y: f32[s0*5]\n"
        " * a: f32[s0*7]\n"
        " * b: const f32[35] */\n"
        "#include <math.h>\n"
        "#include <stdint.h>\n"
        "\n"
        "int32_t %s(void *const *params, const int64_t *syms, int part, int n_parts)\n"
        "{\n"
        "    float *restrict y = params[0];\n"
        "    const float *restrict a = params[1];\n"
        "    const float *restrict b = params[2];\n"
        "    const int64_t s0 = syms[0];\n"
        "    (void)n_parts;\n"
        "    if (part != 0) {\n"
        "        return 0;\n"
        "    }\n"
        "    for (int64_t m = 0; m < s0; m++) {\n"
        "        for (int64_t n = 0; n < 5; n++) {\n"
        "            float acc0 = 0.0f;\n"
        "            for (int64_t k = 0; k < 7; k++) {\n"
        "                acc0 = acc0 + a[m*7 + k] * b[n*7 + k];\n"
        "            }\n"
        "            y[m*5 + n] = acc0;\n"
        "        }\n"
        "    }\n"
        "    return 0;\n"
        "}\n",
        k->symbol + 3, k->symbol);
    cr_assert_str_eq(emitted(&e, k), expected, "%s", emitted(&e, k));
    env_release(&e);
}

Test(emit_c, only_what_is_used_is_declared)
{
    Env e;
    env_init(&e);
    Kernel *k =
        kernel_of(&e, "kernel dim\ny: i64[1]\nx0: f32[s1]\nx1: f32[s0]\naxis i space 1\n"
                      "phase i\nt0: i64 = s0 + 1\nt1: i32 = i32(1.5f)\ny[0] = s0\n");
    const char *c = emitted(&e, k);
    cr_expect_not(strstr(c, "x0 ="));
    cr_expect_not(strstr(c, "s0 ="));
    cr_expect(strstr(c, "const int64_t s1 = syms[1];"));
    cr_expect(strstr(c, "(void)t0;"));
    cr_expect(strstr(c, "f32_to_i32(float x)"));
    cr_expect_not(strstr(c, "f32_to_i64"));
    cr_expect_not(strstr(c, "(void)syms"));
    cr_expect_not(strstr(c, "for ("));
    k = kernel_of(&e, "kernel dim\ny: i64[1]\nphase\ny[0] = 3\n");
    cr_expect(strstr(emitted(&e, k), "(void)syms;"));
    env_release(&e);
}

Test(emit_c, literals_are_exact_and_have_the_right_type)
{
    static const struct {
        const char *dtype, *written, *c;
    } rows[] = {
        {"f32", "nan", "NAN"},
        {"f32", "inf", "INFINITY"},
        {"f32", "-inf", "(-INFINITY)"},
        {"f32", "-0.0f", "-0.0f"},
        {"f32", "0.1f", "0x1.99999ap-4f"},
        {"i64", "2147483647", "2147483647"},
        {"i64", "2147483648", "INT64_C(2147483648)"},
        {"i64", "-2147483647", "-2147483647"},
        {"i64", "-2147483648", "INT64_C(-2147483648)"},
        {"i64", "-9223372036854775808", "INT64_MIN"},
        {"i64", "s0 < 3 ? 1 : 2", "s0 < 3 ? INT64_C(1) : INT64_C(2)"},
        {"i64", "-(7)", "-(INT64_C(7))"},
        {"i32", "-2147483648i32", "INT32_MIN"},
        {"bool", "true", "1"},
        {"f32", "reciprocal(-f32(s0))", "1.0f / -((float)s0)"},
        {"f32", "-(f32(s0) + 1.0f)", "-((float)s0 + 0x1p+0f)"},
        {"f32", "f32(i8(sqrt(2.0f)))", "(float)f32_to_i8(sqrtf(0x1p+1f))"},
        {"i8", "i8(s0) * 3i8", "(int8_t)((int8_t)s0 * 3)"},
        {"i32", "i32(s0) * 3i32", "(int32_t)s0 * 3"},
    };
    Env e;
    env_init(&e);
    for (size_t i = 0; i < countof(rows); i++) {
        Kernel *k =
            kernel_of(&e, arena_printf(&e.model, "kernel k\ny: %s[s0]\nphase\ny[s0] = %s\n",
                                       rows[i].dtype, rows[i].written));
        const char *line = arena_printf(&e.model, "y[s0] = %s;\n", rows[i].c);
        cr_expect(strstr(emitted(&e, k), line), "%s is not in\n%s", line, emitted(&e, k));
    }
    env_release(&e);
}

Test(emit_c, the_hash_ignores_name_and_comments_and_nothing_else)
{
    Env e;
    env_init(&e);
    Kernel *a = kernel_of(&e, matmul_text);
    char *other = arena_str(&e.model, matmul_text);
    memcpy(strstr(other, "kernel matmul"), "kernel reduce", 13); /* another key, the same C */
    Kernel *b = kernel_of(&e, other);
    memcpy(strstr(other, "* b["), "/ b[", 4);
    Kernel *c = kernel_of(&e, other);
    cr_expect(!hash_eq(a->hash, b->hash));
    cr_expect(hash_eq(emit_hash(&e, a, target_generic()), emit_hash(&e, b, target_generic())));
    cr_expect(!hash_eq(emit_hash(&e, b, target_generic()), emit_hash(&e, c, target_generic())));
    env_release(&e);
}

/* ---- C against the nest interpreter ---- */

static void expect_same_bits(const void *nest, const void *c, Dtype t, int64_t n,
                             const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        cr_assert(value_same(value_load(nest, t, i), value_load(c, t, i), t),
                  "%s: element %lld differs between nest and C", what, (long long)i);
    }
}

Test(emit_c, hand_built_nests_equal_the_interpreter)
{
    enum { M = 6, N = 11 };
    float x[M * N], w[64], nest[128], c[128];
    int32_t ids[M] = {5, 0, 3, 3, 1, 2};
    fill_normal(x, countof(x), 5);
    fill_normal(w, countof(w), 6);
    Env e;
    env_init(&e);
    const struct {
        const char *text;
        void *in[2];
        int64_t n_elems[3], syms[2];
    } rows[] = {
        {matmul_text, {x, w}, {M * 5, M * 7, 35}, {M, 0}},
        {softmax_text, {x, NULL}, {M * N, M * N, 0}, {M, N}},
        {gather_text, {ids, w}, {M * 4, M, 24}, {M, 0}},
        {concat_text, {x, w}, {3 * M + 3 * N, 3 * M, 3 * N}, {M, N}},
    };
    Kernel *k[countof(rows)];
    for (size_t i = 0; i < countof(rows); i++) {
        k[i] = kernel_of(&e, rows[i].text);
    }
    Compiled lib = compile_kernels(&e, k, countof(k), "-Wall");
    for (size_t i = 0; i < countof(rows); i++) {
        void *to_nest[] = {nest, rows[i].in[0], rows[i].in[1]};
        void *to_c[] = {c, rows[i].in[0], rows[i].in[1]};
        KernelFn fn = compiled_kernel(&lib, k[i]);
        cr_assert_eq(run_nest(&e, k[i], to_nest, rows[i].n_elems, rows[i].syms), 0);
        cr_assert_eq(fn(to_c, rows[i].syms, 0, 2), 0);
        expect_same_bits(nest, c, DT_F32, rows[i].n_elems[0], k[i]->kind);
        c[0] = 42.0f;
        cr_assert_eq(fn(to_c, rows[i].syms, 1, 2), 0);
        cr_expect_eq(c[0], 42.0f, "part 1 of 2 does nothing");
    }
    ids[2] = 6;
    cr_expect_eq(compiled_kernel(&lib, k[2])((void *[]){c, ids, w}, rows[2].syms, 0, 1), 1);
    compiled_release(&lib);
    env_release(&e);
}

/* ---- every operation on special values ----
 * One kernel for every dtype of operands and of the result: y[op][i][j] = op(x0[i], x1[j]). */

enum { N_SPECIAL = 24 };

static int fill_special(Dtype t, void *p)
{
    static const float floats[] = {0.0f,     -0.0f,         1.0f,           -1.0f,   0.5f,
                                   -2.5f,    1e-45f,        -1e-40f,        1e-38f,  3.4e38f,
                                   -3.4e38f, INFINITY,      -INFINITY,      NAN,     127.5f,
                                   -128.9f,  2147483648.0f, -2147483904.0f, 9.3e18f, -9.3e18f,
                                   100.7f,   -88.5f,        3.1415927f,     1e9f};
    static const int64_t ints[] = {
        0,         1,         -1,       2,         7,         -7,        127,       -128,
        128,       255,       32767,    -32768,    INT32_MAX, INT32_MIN, 1LL << 31, 1LL << 32,
        INT64_MAX, INT64_MIN, 16777217, -16777217, 33554435,  3,         5,         100};
    _Static_assert(countof(floats) == N_SPECIAL && countof(ints) == N_SPECIAL, "one size");
    for (int i = 0; i < N_SPECIAL; i++) {
        Value v = t == DT_F32 ? (Value){.f = floats[i]}
                              : scalar_cast((Value){.i = ints[i]}, DT_I64, t);
        value_store(p, t, i, v);
    }
    return N_SPECIAL;
}

/* How kernel text writes the operation, or NULL where it is left out: index division is defined
 * on non-negative operands only, and has a test of its own. */
static const char *spell(Env *e, ScalarOp op, Dtype t)
{
    const ScalarInfo *info = &scalar_info[op];
    static const bool on_floats[N_SCALAR_OPS] = {
        [S_DIV] = true, [S_EXP] = true, [S_SQRT] = true,       [S_RECIPROCAL] = true,
        [S_SIN] = true, [S_COS] = true, [S_EXP_APPROX] = true, [S_EXP_FUSED] = true,
    };
    bool bools = op == S_OR || (op == S_NE && t == DT_BOOL);
    if (op == S_IDIV || op == S_MOD || bools != (t == DT_BOOL) ||
        (on_floats[op] && t != DT_F32)) {
        return NULL;
    }
    if (info->arity == 2) {
        return arena_printf(&e->model, "x0[i] %s x1[j]", info->c);
    }
    return op == S_NEG ? "-x0[i]" : arena_printf(&e->model, "%s(x0[i])", info->name);
}

static void add_store(Buf *text, int *n, const char *value)
{
    buf_printf(text, "y[%d + i*24 + j] = %s\n", (*n)++ * N_SPECIAL * N_SPECIAL, value);
}

/* Operations that take t and give `to`, the cast among them. *n: how many. */
static Kernel *special_kernel(Env *e, Dtype t, Dtype to, int *n)
{
    Buf head, body;
    buf_init(&head, &e->model);
    buf_init(&body, &e->model);
    *n = 0;
    for (int op = 0; op < N_SCALAR_OPS; op++) {
        const char *value = spell(e, (ScalarOp)op, t);
        if (value && (scalar_info[op].to_bool ? DT_BOOL : t) == to) {
            add_store(&body, n, value);
        }
    }
    if (t != to) {
        add_store(&body, n, arena_printf(&e->model, "%s(x0[i])", dtype_name(to)));
    }
    add_store(&body, n,
              arena_printf(&e->model, "bool(x0[i]) ? %s(x1[j]) : %s(x0[j])", dtype_name(to),
                           dtype_name(to)));
    buf_printf(&head,
               "kernel elementwise\ny: %s[%d]\nx0: %s[24]\nx1: %s[24]\naxis i space 24\n"
               "axis j space 24\nphase i j\n%s",
               dtype_name(to), *n * N_SPECIAL * N_SPECIAL, dtype_name(t), dtype_name(t),
               body.at);
    return kernel_of(e, head.at);
}

Test(emit_c, every_operation_on_every_dtype_equals_the_interpreter)
{
    Env e;
    env_init(&e);
    Kernel *k[N_DTYPES * N_DTYPES];
    int n[countof(k)], n_ops = 0;
    for (int i = 0; i < (int)countof(k); i++) {
        k[i] = special_kernel(&e, (Dtype)(i / N_DTYPES), (Dtype)(i % N_DTYPES), &n[i]);
        n_ops += n[i];
    }
    cr_expect_eq(n_ops, 15 + 3 * 7 + 2 + 20 + 25); /* on f32, ints, bool; casts; selects */
    Compiled lib = compile_kernels(&e, k, countof(k), "-Wall");
    for (int i = 0; i < (int)countof(k); i++) {
        Dtype t = (Dtype)(i / N_DTYPES), to = (Dtype)(i % N_DTYPES);
        int64_t x[N_SPECIAL], count = n[i] * N_SPECIAL * N_SPECIAL;
        fill_special(t, x);
        void *nest = arena_array(&e.model, int64_t, count),
             *c = arena_array(&e.model, int64_t, count);
        int64_t n_elems[] = {count, N_SPECIAL, N_SPECIAL};
        cr_assert_eq(run_nest(&e, k[i], (void *[]){nest, x, x}, n_elems, NULL), 0);
        cr_assert_eq(compiled_kernel(&lib, k[i])((void *[]){c, x, x}, NULL, 0, 1), 0);
        expect_same_bits(nest, c, to, count, k[i]->text);
    }
    compiled_release(&lib);
    env_release(&e);
}

Test(emit_c, index_division_equals_the_interpreter)
{
    int64_t nest[400], c[400];
    Env e;
    env_init(&e);
    Kernel *k = kernel_of(
        &e, "kernel elementwise\ny: i64[400]\naxis i space 100\naxis d space 2\n"
            "phase i d\ny[i*4 + d*2] = i*37/(d + 3)\ny[i*4 + d*2 + 1] = i*37%(d + 3)\n");
    int64_t n_elems[] = {400};
    cr_assert_eq(run_nest(&e, k, (void *[]){nest}, n_elems, NULL), 0);
    Compiled lib = compile_kernels(&e, &k, 1, "-Wall");
    cr_assert_eq(compiled_kernel(&lib, k)((void *[]){c}, NULL, 0, 1), 0);
    expect_same_bits(nest, c, DT_I64, 400, "division");
    compiled_release(&lib);
    env_release(&e);
}
