/* loop_nest.c - kernels built by hand: their keys, their statement tree, and the rules that
 * nest_check enforces on whoever builds or edits a nest. */
#include "tests/loop_util.h"

#include <signal.h>
#include <string.h>

/* y[i] = max over r of x0[i*s + r]; symbols are in slots 9 and 4, as lowering may have them. */
static Kernel *row_max(Env *e)
{
    Arena *m = &e->model;
    const Expr *rows = x_sym(m, 9), *width = x_sym(m, 4);
    Kernel *k = arena_new(m, Kernel);
    k->kind = "reduce";
    Operand y = {.name = "y", .dtype = DT_F32}, x = {.name = "x0", .dtype = DT_F32};
    *vec_push(m, &y.span) = rows;
    *vec_push(m, &x.span) = x_op(m, S_MUL, width, rows);
    *vec_push(m, &k->operand) = y;
    *vec_push(m, &k->operand) = x;
    Nest *n = &k->nest;
    *vec_push(m, &n->axis) = (Axis){.name = "i", .kind = AXIS_SPACE, .extent = rows};
    *vec_push(m, &n->axis) = (Axis){.name = "r", .kind = AXIS_REDUCE, .extent = width};
    *vec_push(m, &n->var) = (Var){"t0", DT_F32};
    *vec_push(m, &n->var) = (Var){"acc0", DT_F32};
    Phase *p = vec_push(m, &n->phase);
    *p = (Phase){0};
    *vec_push(m, &p->loops) = 0;
    *vec_push(m, &p->loops) = 1;
    const Expr *at = x_op(m, S_ADD, x_op(m, S_MUL, x_axis(m, 0), width), x_axis(m, 1));
    const Expr *t0 = x_var(m, 0, DT_F32), *acc0 = x_var(m, 1, DT_F32);
    *vec_push(m, &p->body) =
        (Stmt){.kind = STMT_LET, .var = 0, .value = x_load(m, 1, DT_F32, at)};
    *vec_push(m, &p->acc) = (Accum){.var = 1,
                                    .init = x_const(m, DT_F32, (Value){.f = -1.0f}),
                                    .update = x_select(m, x_op(m, S_LT, acc0, t0), t0, acc0)};
    *vec_push(m, &p->finish) = (Stmt){.kind = STMT_STORE, .index = x_axis(m, 0), .value = acc0};
    return k;
}

static void finish(Env *e, Kernel *k)
{
    int slots[MAX_SYMBOLS];
    kernel_finish(e, &e->model, k, slots);
}

Test(loop_nest, finish_numbers_symbols_by_first_use_and_writes_text_and_key)
{
    Env e;
    env_init(&e);
    Kernel *k = row_max(&e);
    int slots[MAX_SYMBOLS];
    kernel_finish(&e, &e.model, k, slots);
    cr_assert_eq(k->n_syms, 2);
    cr_assert_eq(slots[0], 9);
    cr_assert_eq(slots[1], 4);
    cr_assert_str_eq(k->text, "kernel reduce\n"
                              "y: f32[s0]\n"
                              "x0: f32[s1*s0]\n"
                              "axis i space s0\n"
                              "axis r reduce s1\n"
                              "phase i r\n"
                              "    t0: f32 = x0[i*s1 + r]\n"
                              "    acc0: f32 = -0x1p+0f -> acc0 < t0 ? t0 : acc0\n"
                              "    y[i] = acc0\n");
    char hex[33];
    hash_hex(hash_str(k->text), hex);
    cr_expect(hash_eq(k->hash, hash_str(k->text)));
    cr_expect(strncmp(k->symbol, "nc_", 3) == 0);
    cr_expect_str_eq(k->symbol + 3, hex);
    env_release(&e);
}

Test(loop_nest, kernels_that_differ_in_symbol_slots_only_are_the_same_kernel)
{
    Env e;
    env_init(&e);
    Kernel *a = row_max(&e);
    finish(&e, a);
    Kernel *b = kernel_of(&e, "kernel reduce\ny: f32[s8]\nx0: f32[s3*s8]\naxis i space s8\n"
                              "axis r reduce s3\nphase i r\nt0: f32 = x0[i*s3 + r]\n"
                              "acc0: f32 = -1.0f -> acc0 < t0 ? t0 : acc0\ny[i] = acc0\n");
    cr_assert_str_eq(a->text, b->text);
    cr_expect(hash_eq(a->hash, b->hash));
    env_release(&e);
}

Test(loop_nest, constness_and_dtype_of_operands_are_part_of_the_key)
{
    static const char form[] = "kernel copy\ny: i32[4]\nx0: %s[4]\naxis i space 4\nphase i\n"
                               "y[i] = i32(x0[i])\n";
    Env e;
    env_init(&e);
    Kernel *a = kernel_of(&e, arena_printf(&e.model, form, "i8"));
    Kernel *b = kernel_of(&e, arena_printf(&e.model, form, "const i8"));
    Kernel *c = kernel_of(&e, arena_printf(&e.model, form, "f32"));
    cr_expect(!hash_eq(a->hash, b->hash));
    cr_expect(!hash_eq(a->hash, c->hash));
    env_release(&e);
}

Test(loop_nest, span_is_the_largest_and_never_negative)
{
    Env e;
    env_init(&e);
    Kernel *k = kernel_of(&e, "kernel copy\ny: f32[s0 - s1]\nx0: f32[max(s0*4, s1*8 + 2, 5)]\n"
                              "axis i space s0\nphase i\ny[i] = x0[i]\n");
    cr_expect_eq(kernel_span(k, 1, (int64_t[]){3, 1}), 12);
    cr_expect_eq(kernel_span(k, 1, (int64_t[]){3, 2}), 18);
    cr_expect_eq(kernel_span(k, 1, (int64_t[]){1, 0}), 5);
    cr_expect_eq(kernel_span(k, 0, (int64_t[]){3, 1}), 2);
    cr_expect_eq(kernel_span(k, 0, (int64_t[]){1, 3}), 0);
    env_release(&e);
}

static void assert_tree(const char *kernel, const char *tree)
{
    Env e;
    env_init(&e);
    Buf out;
    buf_init(&out, &e.kernel);
    nest_print(&e, kernel_of(&e, kernel), &out);
    cr_assert_str_eq(out.at, tree, "printed:\n%s", out.at);
    env_release(&e);
}

Test(loop_nest, tree_of_a_matmul)
{
    assert_tree(matmul_text, "for m in s0:\n"
                             "    for n in 5:\n"
                             "        acc0 = 0.0f\n"
                             "        for k in 7:\n"
                             "            acc0 = acc0 + a[m*7 + k] * b[n*7 + k]\n"
                             "        y[m*5 + n] = acc0\n");
}

Test(loop_nest, tree_of_a_row_kernel_with_three_phases)
{
    assert_tree(softmax_text, "for i in s0:\n"
                              "    acc0 = -inf\n"
                              "    for r in s1:\n"
                              "        t0 = x0[i*s1 + r]\n"
                              "        acc0 = acc0 < t0 || t0 != t0 ? t0 : acc0\n"
                              "    acc1 = 0.0f\n"
                              "    for q in s1:\n"
                              "        acc1 = acc1 + exp(x0[i*s1 + q] - acc0)\n"
                              "    for j in s1:\n"
                              "        y[i*s1 + j] = exp(x0[i*s1 + j] - acc0) / acc1\n");
}

Test(loop_nest, tree_of_a_gather_and_of_unit_axes)
{
    assert_tree(gather_text, "for i in s0:\n"
                             "    row = i64(ids[i])\n"
                             "    if row < 0 || 6 <= row: fail 1\n"
                             "    for j in 4:\n"
                             "        y[i*4 + j] = table[row*4 + j]\n");
    assert_tree(
        "kernel copy\ny: f32[3]\nx0: f32[3]\naxis i space 1\naxis j space 3\nphase i j\n"
        "y[i*3 + j] = x0[j]\n",
        "for j in 3:\n    y[j] = x0[j]\n");
}

/* ---- what nest_check calls a bug: one test a rule ---- */

#define IS_BUG(name, ...)                    \
    Test(loop_nest, name, .signal = SIGABRT) \
    {                                        \
        Env e;                               \
        env_init(&e);                        \
        Kernel *k = row_max(&e);             \
        Phase *p = k->nest.phase.at;         \
        Arena *m = &e.model;                 \
        (void)p, (void)m;                    \
        __VA_ARGS__;                         \
        finish(&e, k);                       \
    }

IS_BUG(check_refuses_an_axis_outside_its_loop, p->finish.at[0].index = x_axis(m, 1))
IS_BUG(check_refuses_an_axis_that_is_not_there, p->finish.at[0].index = x_axis(m, 2))
IS_BUG(check_refuses_a_body_variable_in_the_finish, p->finish.at[0].value = x_var(m, 0, DT_F32))
IS_BUG(check_refuses_a_variable_of_another_dtype, p->finish.at[0].value = x_var(m, 1, DT_I64))
IS_BUG(check_refuses_a_variable_declared_twice, Stmt again = p->body.at[0];
       *vec_push(m, &p->body) = again)
IS_BUG(check_refuses_a_variable_never_declared,
       *vec_push(m, &k->nest.var) = (Var){"t9", DT_F32})
IS_BUG(check_refuses_axes_of_one_name, k->nest.axis.at[1].name = "i")
IS_BUG(check_refuses_an_axis_named_like_an_operand, k->nest.axis.at[1].name = "x0")
IS_BUG(check_refuses_an_axis_in_no_loop,
       *vec_push(m, &k->nest.axis) = (Axis){
           .name = "z", .kind = AXIS_SPACE, .extent = x_int(m, 2)})
IS_BUG(check_refuses_an_axis_in_two_loops, *vec_push(m, &k->nest.outer) = 0)
IS_BUG(check_refuses_a_reduce_axis_as_outer, p->loops.n = 1; *vec_push(m, &k->nest.outer) = 1)
IS_BUG(check_refuses_a_space_axis_inside_a_reduction, p->loops.at[0] = 1; p->loops.at[1] = 0)
IS_BUG(check_refuses_a_reduction_without_accumulator, p->acc.n = 0)
IS_BUG(check_refuses_an_accumulator_without_reduction, p->loops.n = 1)
IS_BUG(check_refuses_an_initial_value_inside_the_reduction,
       p->acc.at[0].init = x_var(m, 0, DT_F32))
IS_BUG(check_refuses_a_store_in_the_body, Stmt store = p->finish.at[0];
       *vec_push(m, &p->body) = store)
IS_BUG(check_refuses_a_stored_value_of_another_dtype, p->finish.at[0].value = x_int(m, 1))
IS_BUG(check_refuses_an_operand_that_is_not_there,
       p->finish.at[0].value = x_load(m, 2, DT_F32, x_int(m, 0)))
IS_BUG(check_refuses_a_load_of_another_dtype,
       p->finish.at[0].value = x_cast(m, x_load(m, 1, DT_I32, x_int(m, 0)), DT_F32))
IS_BUG(check_refuses_a_unit_axis_in_an_expression, k->nest.axis.at[0].extent = x_int(m, 1))
IS_BUG(check_refuses_a_failure_with_code_zero,
       *vec_push(m, &p->finish) = ((Stmt){.kind = STMT_FAIL,
                                          .value = x_const(m, DT_BOOL, (Value){.i = 1})}))
IS_BUG(check_refuses_an_extent_that_loads,
       k->nest.axis.at[0].extent = x_cast(m, x_load(m, 1, DT_F32, x_int(m, 0)), DT_I64))
IS_BUG(constructors_refuse_operands_of_two_dtypes,
       x_op(m, S_ADD, x_int(m, 1), x_var(m, 1, DT_F32)))
IS_BUG(constructors_refuse_operations_without_meaning, x_op(m, S_EXP, x_int(m, 1), NULL))
