/* The interpreter's elementwise operations, casts, reductions and leaves, against plain
 * loops and the semantics list of spec graph-ir 4. */
#include "interp_util.h"

#include <math.h>
#include <string.h>

/* ---- elementwise -------------------------------------------------------- */

#define PLAIN(name, expr)                       \
    static float plain_##name(float a, float b) \
    {                                           \
        return (void)b, expr;                   \
    }
PLAIN(add, a + b)
PLAIN(sub, a - b)
PLAIN(mul, a *b)
PLAIN(div, a / b)
PLAIN(neg, copysignf(a, signbit(a) ? 1.0f : -1.0f))
PLAIN(exp, expf(a))
PLAIN(sqrt, sqrtf(a))
PLAIN(reciprocal, 1.0f / a)
PLAIN(sin, sinf(a))
PLAIN(cos, cosf(a))

static const struct {
    Op op;
    float (*plain)(float a, float b);
} floats[] = {
    {OP_ADD, plain_add},   {OP_SUB, plain_sub},
    {OP_MUL, plain_mul},   {OP_DIV, plain_div},
    {OP_NEG, plain_neg},   {OP_EXP, plain_exp},
    {OP_SQRT, plain_sqrt}, {OP_RECIPROCAL, plain_reciprocal},
    {OP_SIN, plain_sin},   {OP_COS, plain_cos},
};

static Node *apply(World *w, Op op, Node *a, Node *b)
{
    return op_info[op].arity == 1 ? make1(&w->f, op, (Attr){0}, a)
                                  : make2(&w->f, op, (Attr){0}, a, b);
}

static void check_float_op(Op op, float (*plain)(float, float), int64_t seq, int64_t width)
{
    World w;
    world_init(&w);
    const char *type = arena_printf(&w.e.model, "f32[seq, %d]", (int)width);
    Node *a = operand(&w.f, type), *b = operand(&w.f, type);
    Tensor in[2], got = eval_random(&w, apply(&w, op, a, b), seq, in);
    cr_assert_eq(got.rank, 2);
    cr_assert_eq(tensor_count(&got), seq * width);
    for (int64_t i = 0; i < seq * width; i++) {
        float want = plain(F32(in[0])[i], F32(in[1])[i]);
        assert_elements(DT_F32, &F32(got)[i], &want, 1);
    }
    world_release(&w);
}

Test(graph_interp, float_operations_are_the_plain_c_operations)
{
    EACH_SIZE(seq, width)
    {
        for (size_t i = 0; i < countof(floats); i++) {
            check_float_op(floats[i].op, floats[i].plain, seq, width);
        }
    }
}

Test(graph_interp, float_loops_agree_with_the_scalar_table)
{
    for (size_t i = 0; i < countof(floats); i++) {
        World w;
        world_init(&w);
        Node *a = operand(&w.f, "f32[seq]"), *b = operand(&w.f, "f32[seq]");
        Tensor in[2], got = eval_random(&w, apply(&w, floats[i].op, a, b), 500, in);
        for (int64_t j = 0; j < 500; j++) {
            Value x = value_load(in[0].data, DT_F32, j), y = value_load(in[1].data, DT_F32, j);
            Value want = scalar_eval((ScalarOp)op_info[floats[i].op].scalar, DT_F32, x, y);
            assert_elements(DT_F32, &F32(got)[j], &want.f, 1);
        }
        world_release(&w);
    }
}

/* One operation on two vectors of three. */
static void check_ints(Op op, Dtype t, const void *a, const void *b, const void *want)
{
    World w;
    world_init(&w);
    const char *type = arena_printf(&w.e.model, "%s[3]", dtype_name(t));
    Node *x = operand(&w.f, type), *y = operand(&w.f, type);
    Tensor in[2] = {vector_of(&w, t, 3, a), vector_of(&w, t, 3, b)};
    Tensor got = eval_given(&w, apply(&w, op, x, y), in);
    assert_elements(t, got.data, want, 3);
    world_release(&w);
}

Test(graph_interp, integers_wrap_in_their_own_width)
{
    check_ints(OP_ADD, DT_I8, (int8_t[]){100, -128, 1}, (int8_t[]){100, -1, 2},
               (int8_t[]){-56, 127, 3});
    check_ints(OP_SUB, DT_I8, (int8_t[]){-128, 127, 1}, (int8_t[]){1, -1, 2},
               (int8_t[]){127, -128, -1});
    check_ints(OP_MUL, DT_I8, (int8_t[]){100, 16, -3}, (int8_t[]){3, 16, 5},
               (int8_t[]){44, 0, -15});
    check_ints(OP_NEG, DT_I8, (int8_t[]){-128, 0, 5}, (int8_t[]){0, 0, 0},
               (int8_t[]){-128, 0, -5});
    check_ints(OP_ADD, DT_I32, (int32_t[]){INT32_MAX, INT32_MIN, 7}, (int32_t[]){1, -1, 8},
               (int32_t[]){INT32_MIN, INT32_MAX, 15});
    check_ints(OP_MUL, DT_I32, (int32_t[]){1 << 30, -5, 7}, (int32_t[]){4, 5, 0},
               (int32_t[]){0, -25, 0});
    check_ints(OP_ADD, DT_I64, (int64_t[]){INT64_MAX, INT64_MIN, 7}, (int64_t[]){1, -1, 8},
               (int64_t[]){INT64_MIN, INT64_MAX, 15});
    check_ints(OP_NEG, DT_I64, (int64_t[]){INT64_MIN, 3, 0}, (int64_t[]){0, 0, 0},
               (int64_t[]){INT64_MIN, -3, 0});
}

Test(graph_interp, less_equal_is_false_where_either_side_is_nan)
{
    World w;
    world_init(&w);
    Node *a = operand(&w.f, "f32[7]"), *b = operand(&w.f, "f32[7]");
    Tensor in[2] = {
        vector_of(&w, DT_F32, 7, (float[]){1, NAN, 1, NAN, -0.0f, 2, -INFINITY}),
        vector_of(&w, DT_F32, 7, (float[]){1, 1, NAN, NAN, 0.0f, 1, INFINITY}),
    };
    Tensor got = eval_given(&w, apply(&w, OP_LESS_EQUAL, a, b), in);
    cr_assert_eq(got.dtype, DT_BOOL);
    cr_assert_arr_eq(got.data, ((uint8_t[]){1, 0, 0, 0, 1, 0, 1}), 7);
    world_release(&w);
}

Test(graph_interp, less_equal_compares_integers_by_sign)
{
    World w;
    world_init(&w);
    Node *a = operand(&w.f, "i8[3]"), *b = operand(&w.f, "i8[3]");
    Tensor in[2] = {vector_of(&w, DT_I8, 3, (int8_t[]){-1, 5, 127}),
                    vector_of(&w, DT_I8, 3, (int8_t[]){1, 5, -128})};
    Tensor got = eval_given(&w, apply(&w, OP_LESS_EQUAL, a, b), in);
    cr_assert_arr_eq(got.data, ((uint8_t[]){1, 1, 0}), 3);
    world_release(&w);
}

Test(graph_interp, where_selects_bits_and_keeps_nan_payloads)
{
    static const uint32_t a[] = {0x7fc12345, 0xffc00001, 0x80000000}, b[] = {1, 2, 0x7f800001};
    World w;
    world_init(&w);
    Node *c = operand(&w.f, "bool[3]"), *x = operand(&w.f, "f32[3]"),
         *y = operand(&w.f, "f32[3]");
    Tensor in[3] = {vector_of(&w, DT_BOOL, 3, (uint8_t[]){1, 0, 0}),
                    vector_of(&w, DT_F32, 3, a), vector_of(&w, DT_F32, 3, b)};
    Tensor got = eval_given(&w, make3(&w.f, OP_WHERE, (Attr){0}, c, x, y), in);
    cr_assert_arr_eq(got.data, ((uint32_t[]){0x7fc12345, 2, 0x7f800001}), 12);
    world_release(&w);
}

Test(graph_interp, where_selects_between_values_of_every_dtype)
{
    for (int t = 0; t < N_DTYPES; t++) {
        World w;
        world_init(&w);
        const char *type = arena_printf(&w.e.model, "%s[seq, 3]", dtype_name((Dtype)t));
        Node *c = operand(&w.f, "bool[seq, 3]"), *x = operand(&w.f, type),
             *y = operand(&w.f, type);
        Tensor in[3], got = eval_random(&w, make3(&w.f, OP_WHERE, (Attr){0}, c, x, y), 7, in);
        cr_assert_eq(got.dtype, (Dtype)t);
        int bytes = dtype_bytes((Dtype)t);
        for (int i = 0; i < 21; i++) {
            const char *from = BOOLS(in[0])[i] ? in[1].data : in[2].data;
            cr_assert_arr_eq((char *)got.data + i * bytes, from + i * bytes, bytes);
        }
        world_release(&w);
    }
}

/* ---- casts -------------------------------------------------------------- */

static const struct {
    Dtype from, to;
    Value v, want;
} casts[] = {
    {DT_F32, DT_BOOL, {.f = NAN}, {.i = 1}},
    {DT_F32, DT_BOOL, {.f = -0.0f}, {.i = 0}},
    {DT_F32, DT_BOOL, {.f = 1e-45f}, {.i = 1}},
    {DT_I64, DT_BOOL, {.i = 256}, {.i = 1}},
    {DT_I8, DT_BOOL, {.i = 0}, {.i = 0}},
    {DT_BOOL, DT_F32, {.i = 1}, {.f = 1.0f}},
    {DT_BOOL, DT_I64, {.i = 1}, {.i = 1}},
    {DT_BOOL, DT_I8, {.i = 0}, {.i = 0}},
    {DT_I64, DT_F32, {.i = (1 << 24) + 1}, {.f = 16777216.0f}},
    {DT_I64, DT_F32, {.i = (1 << 24) + 3}, {.f = 16777220.0f}},
    {DT_I32, DT_F32, {.i = -7}, {.f = -7.0f}},
    {DT_I64, DT_I8, {.i = 300}, {.i = 44}},
    {DT_I64, DT_I32, {.i = (1LL << 32) + 5}, {.i = 5}},
    {DT_I32, DT_I8, {.i = 200}, {.i = -56}},
    {DT_I8, DT_I64, {.i = -3}, {.i = -3}},
    {DT_F32, DT_I64, {.f = -2.9f}, {.i = -2}},
    {DT_F32, DT_I8, {.f = 2.9f}, {.i = 2}},
    {DT_F32, DT_I8, {.f = 1000.0f}, {.i = 127}},
    {DT_F32, DT_I32, {.f = -INFINITY}, {.i = INT32_MIN}},
    {DT_F32, DT_I32, {.f = NAN}, {.i = 0}},
    {DT_F32, DT_F32, {.f = -0.0f}, {.f = -0.0f}},
};

Test(graph_interp, casts_follow_the_table)
{
    for (size_t i = 0; i < countof(casts); i++) {
        World w;
        world_init(&w);
        Node *x = operand(&w.f, arena_printf(&w.e.model, "%s[1]", dtype_name(casts[i].from)));
        int64_t data[1];
        value_store(data, casts[i].from, 0, casts[i].v);
        Tensor in[1] = {vector_of(&w, casts[i].from, 1, data)};
        Tensor got = eval_given(&w, make1(&w.f, OP_CAST, (Attr){.dtype = casts[i].to}, x), in);
        cr_assert_eq(got.dtype, casts[i].to);
        cr_assert(value_same(value_load(got.data, casts[i].to, 0), casts[i].want, casts[i].to),
                  "row %zu: %s to %s", i, dtype_name(casts[i].from), dtype_name(casts[i].to));
        world_release(&w);
    }
}

/* ---- reductions --------------------------------------------------------- */

/* x is [seq, 3, width]; the sum or maximum along an axis, element by element. */
static float reduced(const float *x, const int64_t dim[3], int axis, const int64_t at[3],
                     bool max)
{
    float acc = max ? -INFINITY : 0.0f;
    for (int64_t k = 0; k < dim[axis]; k++) {
        int64_t i[3] = {at[0], at[1], at[2]};
        i[axis] = k;
        float v = x[(i[0] * dim[1] + i[1]) * dim[2] + i[2]];
        acc = max ? (acc < v || isnan(v) ? v : acc) : acc + v;
    }
    return acc;
}

static void check_reduction(Op op, int axis, int64_t seq, int64_t width)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, arena_printf(&w.e.model, "f32[seq, 3, %d]", (int)width));
    Tensor in[1], got = eval_random(&w, make1(&w.f, op, (Attr){.axis = axis - 3}, x), seq, in);
    int64_t dim[3] = {seq, 3, width}, out[3] = {seq, 3, width};
    out[axis] = 1;
    cr_assert_eq(got.rank, 3);
    cr_assert_arr_eq(got.dim, out, sizeof out);
    float *at = got.data;
    for (int64_t i = 0; i < out[0]; i++) {
        for (int64_t j = 0; j < out[1]; j++) {
            for (int64_t k = 0; k < out[2]; k++, at++) {
                float want =
                    reduced(in[0].data, dim, axis, (int64_t[]){i, j, k}, op == OP_REDUCE_MAX);
                assert_elements(DT_F32, at, &want, 1);
            }
        }
    }
    world_release(&w);
}

Test(graph_interp, reductions_go_along_one_axis_and_keep_it)
{
    EACH_SIZE(seq, width)
    {
        for (int axis = 0; axis < 3; axis++) {
            check_reduction(OP_REDUCE_SUM, axis, seq, width);
            check_reduction(OP_REDUCE_MAX, axis, seq, width);
        }
    }
}

/* One vector to one value. */
static Value reduce_one(Op op, Dtype t, int64_t n, const void *data)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, arena_printf(&w.e.model, "%s[seq]", dtype_name(t)));
    Tensor in[1] = {vector_of(&w, t, n, data)};
    Tensor got = eval_given(&w, make1(&w.f, op, (Attr){.axis = 0}, x), in);
    cr_assert_eq(got.dtype, t);
    Value v = value_load(got.data, t, 0);
    world_release(&w);
    return v;
}

Test(graph_interp, reduce_sum_adds_in_index_order_from_zero)
{
    float f[] = {1e8f, 1.0f, -1e8f, 1.0f}; /* any other order gives 0 or 2 */
    cr_assert_eq(reduce_one(OP_REDUCE_SUM, DT_F32, 4, f).f, 1.0f);
    float zero = reduce_one(OP_REDUCE_SUM, DT_F32, 1, (float[]){-0.0f}).f;
    cr_assert(zero == 0 && !signbit(zero)); /* 0.0 + -0.0 */
}

Test(graph_interp, reduce_sum_of_nothing_is_zero)
{
    cr_assert_eq(reduce_one(OP_REDUCE_SUM, DT_F32, 0, "").f, 0.0f);
    cr_assert_eq(reduce_one(OP_REDUCE_SUM, DT_I32, 0, "").i, 0);
}

Test(graph_interp, reduce_sum_wraps_in_the_operands_width)
{
    cr_assert_eq(reduce_one(OP_REDUCE_SUM, DT_I8, 4, (int8_t[]){100, 100, 100, 100}).i, -112);
    cr_assert_eq(reduce_one(OP_REDUCE_SUM, DT_I64, 2, (int64_t[]){INT64_MAX, 2}).i,
                 INT64_MIN + 1);
}

Test(graph_interp, reduce_max_propagates_nan_from_anywhere)
{
    cr_assert(isnan(reduce_one(OP_REDUCE_MAX, DT_F32, 3, (float[]){NAN, 1, 2}).f));
    cr_assert(isnan(reduce_one(OP_REDUCE_MAX, DT_F32, 3, (float[]){1, NAN, INFINITY}).f));
    cr_assert(isnan(reduce_one(OP_REDUCE_MAX, DT_F32, 3, (float[]){1, 2, NAN}).f));
}

Test(graph_interp, reduce_max_starts_below_every_value)
{
    cr_assert_eq(reduce_one(OP_REDUCE_MAX, DT_F32, 2, (float[]){-INFINITY, -INFINITY}).f,
                 -INFINITY);
    cr_assert_eq(reduce_one(OP_REDUCE_MAX, DT_I8, 2, (int8_t[]){-128, -128}).i, -128);
    cr_assert_eq(reduce_one(OP_REDUCE_MAX, DT_I32, 2, (int32_t[]){INT32_MIN, -5}).i, -5);
    cr_assert_eq(reduce_one(OP_REDUCE_MAX, DT_I64, 2, (int64_t[]){INT64_MIN, INT64_MIN}).i,
                 INT64_MIN);
}

/* ---- leaves ------------------------------------------------------------- */

Test(graph_interp, iota_counts_along_its_axis_in_its_dtype)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[seq]");
    Dim d[3] = {dim_int(2), x->shape.dim[0], dim_int(3)};
    Node *y = f_iota(&w.f, DT_F32, shape_of(3, d), -2);
    Tensor in[1], got = eval_random(&w, y, 7, in);
    cr_assert_eq(tensor_count(&got), 42);
    for (int i = 0; i < 42; i++) {
        cr_assert_eq(F32(got)[i], (float)(i / 3 % 7));
    }
    world_release(&w);
}

Test(graph_interp, iota_of_i8_wraps)
{
    World w;
    world_init(&w);
    Tensor got =
        eval_given(&w, f_iota(&w.f, DT_I8, shape_of(1, (Dim[]){dim_int(200)}), 0), NULL);
    cr_assert_eq(I8(got)[127], 127);
    cr_assert_eq(I8(got)[128], -128);
    world_release(&w);
}

Test(graph_interp, dim_is_the_value_at_run_time)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[seq]");
    Dim d = dim_addk(&w.e, dim_mulk(&w.e, x->shape.dim[0], 3), -8);
    Tensor in[1], got = eval_random(&w, f_dim(&w.f, d), 7, in);
    cr_assert_eq(got.rank, 0);
    cr_assert_eq(I64(got)[0], 13);
    world_release(&w);
}
