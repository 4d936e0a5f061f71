/* What holds of whole interpretations: outputs, memory, repetition. */
#include "interp_util.h"

#include "fault.h"
#include "tests/gen.h"

#include <string.h>
#include <sys/resource.h>

Test(graph_interp_run, an_output_is_a_copy_even_of_an_input)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[seq]");
    Tensor in[1], got = eval_random(&w, x, 3, in);
    cr_assert_neq(got.data, in[0].data);
    assert_elements(DT_F32, got.data, in[0].data, 3);
    world_release(&w);
}

Test(graph_interp_run, one_value_can_be_two_outputs_and_its_own_operand_twice)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[seq]");
    Node *y = f_binary(&w.f, OP_ADD, x, x), *z = f_binary(&w.f, OP_MUL, y, y);
    graph_output(w.f.g, "again", y);
    graph_output(w.f.g, "z", z);
    Graph *g = finished(&w.f, y);
    Tensor in[1] = {vector_of(&w, DT_F32, 2, (float[]){1, 2})}, out[3];
    Err err;
    cr_assert(try_given(&w, g, in, out, &err), "%s", err.text);
    cr_assert_arr_eq(out[0].data, ((float[]){2, 4}), 8);
    cr_assert_arr_eq(out[1].data, ((float[]){4, 16}), 8);
    cr_assert_arr_eq(out[2].data, ((float[]){2, 4}), 8);
    world_release(&w);
}

Test(graph_interp_run, a_scalar_stays_a_scalar)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[]");
    Tensor in[1], got = eval_random(&w, f_unary(&w.f, OP_NEG, x), 1, in);
    cr_assert_eq(got.rank, 0);
    cr_assert_eq(tensor_count(&got), 1);
    world_release(&w);
}

static void generate(Env *e, void *arg)
{
    Rng r;
    rng_seed(&r, 7);
    *(Graph **)arg = gen_graph(e, &r);
}

typedef struct Whole {
    Env e;
    Graph *g;
    Args args;
    Sizes z;
} Whole;

static bool interpret_once(void *ctx, Err *err)
{
    Whole *w = ctx;
    Arena a;
    arena_init(&a, &w->e);
    Tensor out[8];
    bool ok = graph_interpret(w->g, &w->args, NULL, &a, out, err);
    arena_release(&a);
    return ok;
}

Test(graph_interp_run, running_out_of_memory_anywhere_is_one_clear_error)
{
    Whole w = {0};
    env_init(&w.e);
    cr_assert(env_try(&w.e, generate, &w.g), "%s", w.e.err.text);
    Rng r;
    rng_seed(&r, 1);
    gen_sizes(&r, w.g, &w.z);
    w.args = gen_args(&w.e.model, &r, w.g, &w.z, false);
    int faulted = fault_loop("alloc", interpret_once, &w);
    cr_assert_gt(faulted, 10);
    env_release(&w.e);
}

Test(graph_interp_run, a_view_keeps_its_memory)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[2, 2]");
    Node *turned = f_permute(&w.f, f_unary(&w.f, OP_NEG, x), 2, (int[]){1, 0});
    Node *other = f_unary(&w.f, OP_EXP, x); /* would move into memory that was freed too soon */
    int64_t dim[] = {2, 2};
    Tensor in[1] = {tensor_new(&w.e, &w.e.model, DT_F32, 2, dim)};
    memcpy(in[0].data, (float[]){1, 2, 3, 4}, 16);
    Graph *g = finished(&w.f, f_concat(&w.f, (Node *[]){turned, other}, 2, 0));
    Tensor out;
    Err err;
    cr_assert(try_given(&w, g, in, &out, &err), "%s", err.text);
    cr_assert_arr_eq(out.data, ((float[]){-1, -3, -2, -4}), 16);
    world_release(&w);
}

static size_t largest_request;

static void *watching_alloc(size_t bytes)
{
    largest_request = bytes > largest_request ? bytes : largest_request;
    return os_system.alloc(bytes);
}

Test(graph_interp_run, views_copy_nothing)
{
    World w;
    world_init(&w);
    Node *x = operand(&w.f, "f32[100, 200]");
    Node *y = f_permute(&w.f, x, 2, (int[]){1, 0});
    y = f_slice(&w.f, y, 0, dim_int(10), dim_int(20));
    y = f_permute(&w.f, y, 2, (int[]){1, 0});
    y = f_slice(&w.f, y, 0, dim_int(7), dim_int(8));
    y = f_broadcast_to(&w.f, y, shape_of(2, (Dim[]){dim_int(90), dim_int(10)}));
    y = f_slice(&w.f, y, 0, dim_int(3), dim_int(4));
    Graph *g = finished(&w.f, y);
    int64_t dim[] = {100, 200};
    Tensor in[1] = {tensor_new(&w.e, &w.e.model, DT_F32, 2, dim)}, out;
    fill_special(&in[0], 1);
    Err err;
    os.alloc = watching_alloc;
    bool ok = try_given(&w, g, in, &out, &err);
    os = os_system;
    cr_assert(ok, "%s", err.text);
    cr_assert_lt(largest_request, 80000, "%zu", largest_request); /* what one copy of x takes */
    assert_elements(DT_F32, out.data, F32(in[0]) + 7 * 200 + 10, 10);
    world_release(&w);
}

Test(graph_interp_run, values_are_freed_after_their_last_use)
{
    enum { CHAIN = 100, ELEMENTS = 2 << 20 }; /* 800 MB if all were kept */
    World w;
    world_init(&w);
    Node *y = operand(&w.f, "f32[seq]");
    for (int i = 0; i < CHAIN; i++) {
        y = f_unary(&w.f, OP_NEG, y);
    }
    int64_t n = ELEMENTS;
    Tensor in[1] = {tensor_new(&w.e, &w.e.model, DT_F32, 1, &n)};
    eval_given(&w, y, in);
    struct rusage used;
    cr_assert_eq(getrusage(RUSAGE_SELF, &used), 0);
    cr_assert_lt(used.ru_maxrss, 500 << 10); /* KiB */
    world_release(&w);
}

Test(graph_interp_run, runs_of_random_graphs_repeat_bit_for_bit)
{
    for (uint64_t seed = 0; seed < 300; seed++) {
        World w;
        world_init(&w);
        Rng r;
        rng_seed(&r, seed);
        Graph *g = gen_graph(&w.e, &r);
        Sizes z;
        gen_sizes(&r, g, &z);
        Args args = gen_args(&w.e.model, &r, g, &z, true);
        Tensor first[8], second[8];
        Err err;
        cr_assert(graph_interpret(g, &args, NULL, &w.e.model, first, &err), "seed %d: %s",
                  (int)seed, err.text);
        cr_assert(graph_interpret(g, &args, NULL, &w.e.model, second, &err), "%s", err.text);
        for (int i = 0; i < g->outputs.n; i++) {
            cr_assert_eq(first[i].dtype, g->outputs.at[i].node->dtype);
            size_t bytes = (size_t)(tensor_count(&first[i]) * dtype_bytes(first[i].dtype));
            cr_assert_eq(memcmp(first[i].data, second[i].data, bytes), 0, "seed %d", (int)seed);
        }
        world_release(&w);
    }
}
