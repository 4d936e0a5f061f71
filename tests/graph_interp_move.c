/* The interpreter's movement operations, matrix products and gathers, against plain loops. */
#include "interp_util.h"

#include <math.h>
#include <string.h>

static Attr bounds(int axis, Dim start, Dim stop)
{
    return (Attr){.axis = axis, .start = start, .stop = stop};
}

/* ---- movement ----------------------------------------------------------- */

Test(graph_interp_move, permute_reorders_axes)
{
    EACH_SIZE(seq, width)
    {
        World w;
        world_init(&w);
        Node *x = operand(&w.f, arena_printf(&w.e.model, "f32[seq, 3, %d]", (int)width));
        Tensor in[1], got = eval_random(&w, f_permute(&w.f, x, 3, (int[]){2, 0, 1}), seq, in);
        cr_assert_arr_eq(got.dim, ((int64_t[]){width, seq, 3}), 3 * sizeof(int64_t));
        float *at = got.data;
        for (int64_t i = 0; i < width; i++) {
            for (int64_t j = 0; j < seq; j++) {
                for (int64_t k = 0; k < 3; k++, at++) {
                    assert_elements(DT_F32, at, &F32(in[0])[(j * 3 + k) * width + i], 1);
                }
            }
        }
        world_release(&w);
    }
}

Test(graph_interp_move, reshape_of_a_permuted_value_is_in_row_major_order)
{
    EACH_SIZE(seq, width)
    {
        World w;
        world_init(&w);
        Node *x = operand(&w.f, arena_printf(&w.e.model, "i32[seq, %d]", (int)width));
        Node *y = f_permute(&w.f, x, 2, (int[]){1, 0});
        y = f_reshape(&w.f, y, shape_of(1, (Dim[]){dim_mulk(&w.e, x->shape.dim[0], width)}));
        Tensor in[1], got = eval_random(&w, y, seq, in);
        cr_assert_eq(got.rank, 1);
        for (int64_t i = 0; i < seq * width; i++) {
            cr_assert_eq(I32(got)[i], I32(in[0])[i % seq * width + i / seq]);
        }
        world_release(&w);
    }
}

Test(graph_interp_move, reshape_to_and_from_a_scalar)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[1, 1]");
    Node *y = f_reshape(&w.f, f_permute(&w.f, x, 2, (int[]){1, 0}), shape_of(0, NULL));
    Tensor in[1], got = eval_random(&w, y, 1, in);
    cr_assert_eq(got.rank, 0);
    assert_elements(DT_F32, got.data, in[0].data, 1);
    world_release(&w);
}

Test(graph_interp_move, broadcast_repeats_axes_of_size_one)
{
    EACH_SIZE(seq, width)
    {
        World w;
        world_init(&w);
        Node *x = operand(&w.f, "f32[1, seq, 1]");
        Dim d[] = {dim_int(2), x->shape.dim[1], dim_int(width)};
        Tensor in[1], got = eval_random(&w, f_broadcast_to(&w.f, x, shape_of(3, d)), seq, in);
        cr_assert_eq(tensor_count(&got), 2 * seq * width);
        for (int64_t i = 0; i < 2 * seq * width; i++) {
            assert_elements(DT_F32, &F32(got)[i], &F32(in[0])[i / width % seq], 1);
        }
        world_release(&w);
    }
}

Test(graph_interp_move, slice_takes_start_to_stop_of_one_axis)
{
    EACH_SIZE(seq, width)
    {
        World w;
        world_init(&w);
        Node *x = operand(&w.f, arena_printf(&w.e.model, "i8[seq, %d]", (int)width + 3));
        Node *y = make1(&w.f, OP_SLICE, bounds(-1, dim_int(2), dim_int(width + 2)), x);
        Tensor in[1], got = eval_random(&w, y, seq, in);
        cr_assert_arr_eq(got.dim, ((int64_t[]){seq, width}), 2 * sizeof(int64_t));
        for (int64_t i = 0; i < seq * width; i++) {
            cr_assert_eq(I8(got)[i], I8(in[0])[i / width * (width + 3) + i % width + 2]);
        }
        world_release(&w);
    }
}

Test(graph_interp_move, slice_bounds_may_be_symbolic)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "i64[seq]");
    Dim seq = x->shape.dim[0];
    Node *y = make1(&w.f, OP_SLICE, bounds(0, dim_addk(&w.e, seq, -1), seq), x);
    Tensor in[1], got = eval_random(&w, y, 7, in);
    cr_assert_eq(tensor_count(&got), 1);
    cr_assert_eq(I64(got)[0], I64(in[0])[6]);
    world_release(&w);
}

Test(graph_interp_move, slice_out_of_bounds_is_refused_before_anything_runs)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "i64[seq]");
    Dim seq = x->shape.dim[0];
    Graph *g =
        finished(&w.f, make1(&w.f, OP_SLICE, bounds(0, dim_addk(&w.e, seq, -2), seq), x));
    Tensor in[1] = {vector_of(&w, DT_I64, 1, (int64_t[]){1})}, out;
    Err err;
    cr_assert_not(try_given(&w, g, in, &out, &err));
    cr_assert_eq(err.code, E_RANGE);
    cr_assert_str_eq(err.text,
                     "slice: start, seq - 2, is -1 with seq = 1, and must not be negative "
                     "(node %1).");
    world_release(&w);
}

Test(graph_interp_move, concat_puts_operands_one_after_another)
{
    EACH_SIZE(seq, width)
    {
        World w;
        world_init(&w);
        Node *x = operand(&w.f, arena_printf(&w.e.model, "f32[2, seq, %d]", (int)width));
        Node *y = operand(&w.f, arena_printf(&w.e.model, "f32[2, 3, %d]", (int)width));
        Tensor in[2], got = eval_random(&w, f_concat(&w.f, (Node *[]){x, y, x}, 3, 1), seq, in);
        cr_assert_eq(got.dim[1], 2 * seq + 3);
        for (int64_t i = 0; i < 2; i++) {
            const float *part[] = {F32(in[0]) + i * seq * width, F32(in[1]) + i * 3 * width,
                                   F32(in[0]) + i * seq * width};
            int64_t n[] = {seq * width, 3 * width, seq * width};
            const float *at = F32(got) + i * (2 * seq + 3) * width;
            for (int j = 0; j < 3; at += n[j++]) {
                assert_elements(DT_F32, at, part[j], n[j]);
            }
        }
        world_release(&w);
    }
}

Test(graph_interp_move, concat_with_an_empty_operand_is_the_other)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[past, 3]"), *y = operand(&w.f, "f32[seq, 3]");
    Node *z = f_concat(&w.f, (Node *[]){x, y}, 2, 0);
    int64_t empty[] = {0, 3}, two[] = {2, 3};
    Tensor in[2] = {tensor_new(&w.e, &w.e.model, DT_F32, 2, empty),
                    tensor_new(&w.e, &w.e.model, DT_F32, 2, two)};
    in[0].data = NULL; /* none is needed */
    fill_special(&in[1], 1);
    Tensor got = eval_given(&w, z, in);
    cr_assert_arr_eq(got.dim, two, sizeof two);
    assert_elements(DT_F32, got.data, in[1].data, 6);
    world_release(&w);
}

Test(graph_interp_move, concat_of_permuted_bools)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "bool[seq, 2]");
    Node *t = f_permute(&w.f, x, 2, (int[]){1, 0});
    Tensor in[1], got = eval_random(&w, f_concat(&w.f, &t, 1, -1), 3, in);
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(BOOLS(got)[i], BOOLS(in[0])[i % 3 * 2 + i / 3]);
    }
    world_release(&w);
}

/* ---- matrix products ---------------------------------------------------- */

/* volatile keeps a compiler from contracting: two roundings a step. */
static float plain_dot(const float *a, int64_t a_step, const float *b, int64_t b_step,
                       int64_t k)
{
    volatile float acc = 0.0f;
    for (int64_t i = 0; i < k; i++) {
        volatile float product = a[i * a_step] * b[i * b_step];
        acc = acc + product;
    }
    return acc;
}

static void check_product(int64_t m, int64_t k, int64_t n, bool a_turned, bool b_turned)
{
    World w;
    world_init(&w);
    Arena *s = &w.e.model;
    Node *a =
        operand(&w.f, arena_printf(s, a_turned ? "f32[%d, seq]" : "f32[seq, %d]", (int)k));
    Node *b = b_turned ? operand(&w.f, arena_printf(s, "f32[%d, %d]", (int)n, (int)k))
                       : operand(&w.f, arena_printf(s, "f32[%d, %d]", (int)k, (int)n));
    int turn[] = {1, 0};
    Node *y = f_matmul(&w.f, a_turned ? f_permute(&w.f, a, 2, turn) : a,
                       b_turned ? f_permute(&w.f, b, 2, turn) : b);
    Tensor in[2], got = eval_random(&w, y, m, in);
    cr_assert_arr_eq(got.dim, ((int64_t[]){m, n}), 2 * sizeof(int64_t));
    for (int64_t i = 0; i < m * n; i++) {
        int64_t row = i / n, col = i % n;
        float want = plain_dot(F32(in[0]) + row * (a_turned ? 1 : k), a_turned ? m : 1,
                               F32(in[1]) + col * (b_turned ? k : 1), b_turned ? 1 : n, k);
        assert_elements(DT_F32, &F32(got)[i], &want, 1);
    }
    world_release(&w);
}

Test(graph_interp_move, matmul_adds_in_index_order_at_every_width)
{
    static const int64_t widths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64};
    for (size_t i = 0; i < countof(widths); i++) {
        for (int turned = 0; turned < 4; turned++) {
            check_product(1, 5, widths[i], turned & 1, turned & 2);
            check_product(3, 1, widths[i], turned & 1, turned & 2);
            check_product(7, 40, widths[i], turned & 1, turned & 2);
        }
    }
}

Test(graph_interp_move, matmul_rounds_the_product_before_it_adds)
{
    float x = 1 + 0x1p-12f; /* x * x needs 25 bits; a fused step would keep the last */
    World w;
    world_init(&w);
    Node *a = operand(&w.f, "f32[2]"), *b = operand(&w.f, "f32[2]");
    Shape row = shape_from(&w.e, "[1, 2]"), col = shape_from(&w.e, "[2, 1]");
    Tensor in[2] = {vector_of(&w, DT_F32, 2, (float[]){x, x}),
                    vector_of(&w, DT_F32, 2, (float[]){-1 - 0x1p-11f, x})};
    in[1].data = arena_dup(&w.e.model, (float[]){-(1 + 0x1p-11f) / x, x}, 8);
    Tensor got =
        eval_given(&w, f_matmul(&w.f, f_reshape(&w.f, a, row), f_reshape(&w.f, b, col)), in);
    float want = plain_dot(F32(in[0]), 1, F32(in[1]), 1, 2);
    cr_assert_neq(want, fmaf(x, x, x * F32(in[1])[0])); /* the case tells them apart */
    cr_assert_eq(F32(got)[0], want);
    world_release(&w);
}

Test(graph_interp_move, matmul_multiplies_batches_also_broadcast_ones)
{
    World w;
    world_init(&w);
    Node *a = operand(&w.f, "f32[2, 3, seq, 4]"), *b = operand(&w.f, "f32[2, 1, 4, 5]");
    Dim d[] = {dim_int(2), dim_int(3), dim_int(4), dim_int(5)};
    Node *y = f_matmul(&w.f, a, f_broadcast_to(&w.f, b, shape_of(4, d)));
    Tensor in[2], got = eval_random(&w, y, 3, in);
    cr_assert_eq(tensor_count(&got), 2 * 3 * 3 * 5);
    for (int64_t i = 0; i < 90; i++) {
        int64_t batch = i / 15, row = i / 5 % 3, col = i % 5;
        float want = plain_dot(F32(in[0]) + (batch * 3 + row) * 4, 1,
                               F32(in[1]) + batch / 3 * 20 + col, 5, 4);
        assert_elements(DT_F32, &F32(got)[i], &want, 1);
    }
    world_release(&w);
}

Test(graph_interp_move, matmul_over_nothing_is_zero)
{
    World w;
    world_init(&w);
    Node *a = operand(&w.f, "f32[2, past]"), *b = operand(&w.f, "f32[past, 17]");
    int64_t da[] = {2, 0}, db[] = {0, 17};
    Tensor in[2] = {tensor_new(&w.e, &w.e.model, DT_F32, 2, da),
                    tensor_new(&w.e, &w.e.model, DT_F32, 2, db)};
    Tensor got = eval_given(&w, f_matmul(&w.f, a, b), in);
    float zero[34] = {0};
    cr_assert_arr_eq(got.data, zero, sizeof zero);
    world_release(&w);
}

static int gemm_calls;

/* Marks what it was given: the sums of a and b, and the sizes. */
static void marking_gemm(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                         float *c)
{
    gemm_calls++;
    for (int64_t i = 0; i < m * n; i++) {
        c[i] = (float)(m * 100 + n * 10 + k) + a[m * k - 1] * 1000 + b[1] * 10000;
    }
}

Test(graph_interp_move, a_gemm_gets_each_matrix_contiguous)
{
    World w;
    world_init(&w);
    Node *a = operand(&w.f, "f32[2, 1, 2]"), *b = operand(&w.f, "f32[2, 3, 2]");
    Node *y = f_matmul(&w.f, a, f_permute(&w.f, b, 3, (int[]){0, 2, 1}));
    Graph *g = finished(&w.f, y);
    int64_t da[] = {2, 1, 2}, db[] = {2, 3, 2};
    NamedTensor in[] = {{"x0", tensor_new(&w.e, &w.e.model, DT_F32, 3, da)},
                        {"x1", tensor_new(&w.e, &w.e.model, DT_F32, 3, db)}};
    memcpy(in[0].t.data, (float[]){1, 2, 3, 4}, 16);
    memcpy(in[1].t.data, (float[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 48);
    Args args = {.input = in, .n_inputs = 2};
    Tensor out;
    Err err;
    cr_assert(graph_interpret(g, &args, marking_gemm, &w.e.model, &out, &err), "%s", err.text);
    cr_assert_eq(gemm_calls, 2);
    /* [3, 2] turned is [2, 3]: its second element is the third of the original. */
    cr_assert_eq(F32(out)[0], 132 + 2000 + 20000);
    cr_assert_eq(F32(out)[5], 132 + 4000 + 80000);
    world_release(&w);
}

/* ---- gather ------------------------------------------------------------- */

static void check_gather(Dtype ids, int64_t seq, int64_t width)
{
    World w;
    world_init(&w);
    Node *table = operand(&w.f, arena_printf(&w.e.model, "f32[4, %d]", (int)width));
    Node *id = operand(&w.f, arena_printf(&w.e.model, "%s[2, seq]", dtype_name(ids)));
    int64_t dt[] = {4, width}, di[] = {2, seq};
    Tensor in[2] = {tensor_new(&w.e, &w.e.model, DT_F32, 2, dt),
                    tensor_new(&w.e, &w.e.model, ids, 2, di)};
    fill_special(&in[0], 3);
    for (int64_t i = 0; i < 2 * seq; i++) {
        value_store(in[1].data, ids, i, (Value){.i = (i * 7 + 3) % 4});
    }
    Tensor got = eval_given(&w, f_gather(&w.f, table, id), in);
    cr_assert_arr_eq(got.dim, ((int64_t[]){2, seq, width}), 3 * sizeof(int64_t));
    for (int64_t i = 0; i < 2 * seq; i++) {
        assert_elements(DT_F32, F32(got) + i * width, F32(in[0]) + (i * 7 + 3) % 4 * width,
                        width);
    }
    world_release(&w);
}

Test(graph_interp_move, gather_takes_rows_by_ids_of_any_int)
{
    EACH_SIZE(seq, width)
    {
        check_gather(DT_I64, seq, width);
        check_gather(DT_I32, seq, width);
        check_gather(DT_I8, seq, width);
    }
}

Test(graph_interp_move, gather_reads_a_permuted_table_by_permuted_ids)
{
    World w;
    world_init(&w);
    Node *table = operand(&w.f, "i32[5, 2, 3]"), *ids = operand(&w.f, "i64[2, 2]");
    Node *y = f_gather(&w.f, f_permute(&w.f, table, 3, (int[]){2, 1, 0}),
                       f_permute(&w.f, ids, 2, (int[]){1, 0}));
    int64_t dt[] = {5, 2, 3}, di[] = {2, 2}, id[] = {2, 0, 1, 1};
    Tensor in[2] = {tensor_new(&w.e, &w.e.model, DT_I32, 3, dt),
                    tensor_new(&w.e, &w.e.model, DT_I64, 2, di)};
    fill_special(&in[0], 5);
    memcpy(in[1].data, id, sizeof id);
    Tensor got = eval_given(&w, y, in);
    static const int row[] = {2, 1, 0, 1}; /* ids in permuted order */
    for (int i = 0; i < 40; i++) {
        int j = i / 5 % 2, k = i % 5;
        cr_assert_eq(I32(got)[i], I32(in[0])[(k * 2 + j) * 3 + row[i / 10]]);
    }
    world_release(&w);
}

Test(graph_interp_move, gather_by_a_scalar_id_is_one_row)
{
    World w;
    world_init(&w);
    Node *table = operand(&w.f, "f32[3]"), *id = operand(&w.f, "i64[]");
    Tensor in[2] = {vector_of(&w, DT_F32, 3, (float[]){1, 2, 3}),
                    vector_of(&w, DT_I64, 1, (int64_t[]){2})};
    in[1].rank = 0;
    Tensor got = eval_given(&w, f_gather(&w.f, table, id), in);
    cr_assert_eq(got.rank, 0);
    cr_assert_eq(F32(got)[0], 3.0f);
    world_release(&w);
}

static void check_bad_index(int64_t index, const char *message)
{
    World w;
    world_init(&w);
    Node *table = operand(&w.f, "f32[3, 2]"), *ids = operand(&w.f, "i64[seq]");
    Graph *g = finished(&w.f, f_gather(&w.f, table, ids));
    int64_t dim[] = {3, 2}, id[] = {2, index};
    Tensor in[2] = {tensor_new(&w.e, &w.e.model, DT_F32, 2, dim), vector_of(&w, DT_I64, 2, id)},
           out;
    Err err;
    cr_assert_not(try_given(&w, g, in, &out, &err));
    cr_assert_eq(err.code, E_RANGE);
    cr_assert_str_eq(err.text, message);
    world_release(&w);
}

Test(graph_interp_move, gather_refuses_minus_one)
{
    check_bad_index(-1, "gather: the index -1 is outside 0..2 (node %2).");
}

Test(graph_interp_move, gather_refuses_the_number_of_rows)
{
    check_bad_index(3, "gather: the index 3 is outside 0..2 (node %2).");
}

/* ---- one node ----------------------------------------------------------- */

Test(graph_interp_move, node_eval_gives_contiguous_elements)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[2, 3]");
    Node *y = f_permute(&w.f, x, 2, (int[]){1, 0});
    Graph *g = finished(&w.f, y);
    int64_t dx[] = {2, 3}, dy[] = {3, 2};
    Tensor a = tensor_new(&w.e, &w.e.model, DT_F32, 2, dx),
           out = tensor_new(&w.e, &w.e.model, DT_F32, 2, dy);
    memcpy(a.data, (float[]){0, 1, 2, 3, 4, 5}, 24);
    Sizes z = {0};
    Err err;
    cr_assert(node_eval(g, y, &z, (const Tensor *[]){&a}, NULL, &out, &err), "%s", err.text);
    cr_assert_arr_eq(out.data, ((float[]){0, 3, 1, 4, 2, 5}), 24);
    world_release(&w);
}

Test(graph_interp_move, node_eval_reports_a_bad_index)
{
    World w;
    world_init(&w);
    Node *table = operand(&w.f, "f32[3]"), *ids = operand(&w.f, "i64[1]");
    Node *y = f_gather(&w.f, table, ids);
    Graph *g = finished(&w.f, y);
    Tensor t = vector_of(&w, DT_F32, 3, (float[]){1, 2, 3}),
           id = vector_of(&w, DT_I64, 1, (int64_t[]){9});
    Tensor out = vector_of(&w, DT_F32, 1, (float[]){0});
    Sizes z = {0};
    Err err;
    cr_assert_not(node_eval(g, y, &z, (const Tensor *[]){&t, &id}, NULL, &out, &err));
    cr_assert_eq(err.code, E_RANGE);
    world_release(&w);
}
