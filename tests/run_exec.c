/* run_exec.c - running programs: hand-built ones of a few calls, through the nest
 * interpreter and through compiled C, with the same claims for both: results, sizes that
 * change, places for outputs, and what is said when something does not fit. */
#include "tests/fault.h"
#include "tests/run_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A graph of its own text, a program of kernel texts, and a runner. */
typedef struct Case {
    Workshop w;
    Graph *g;
    Program p;
    Exec *x;
} Case;

static Case c;

static void setup(void)
{
    workshop_init(&c.w);
}

static void teardown(void)
{
    exec_free(c.x);
    workshop_release(&c.w);
}

TestSuite(run_exec, .init = setup, .fini = teardown);

static Env *env(void)
{
    return &c.w.e;
}

/* ---- building by hand ------------------------------------------------------------------- */

static int buffer(BufferKind kind, const Node *n, int index)
{
    *vec_push(&env()->model, &c.p.buffer) = (Buffer){
        .kind = kind,
        .dtype = n->dtype,
        .shape = n->shape,
        .count = shape_count(env(), &n->shape),
        .index = index,
        .value = n->attr.value,
    };
    return c.p.buffer.n - 1;
}

/* One call; syms names the graph's symbols of the kernel's slots, "n" or "n m". */
static void call(const char *kernel, const char *syms, const Node *node, int n_args,
                 const Arg *arg)
{
    Env *e = env();
    Call made = {.node = node->id};
    made.kernel = program_kernel(e, &c.p, kernel_parse(e, kernel, strlen(kernel), "test"));
    for (int i = 0; i < n_args; i++) {
        *vec_push(&e->model, &made.arg) = arg[i];
    }
    for (const char *at = syms; *at; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        *vec_push(&e->model, &made.sym) = sym_intern(e, at, len);
        at += len;
    }
    *vec_push(&e->model, &c.p.call) = made;
}

static Node *node(Op op)
{
    for (int i = 0; i < c.g->nodes.n; i++) {
        if (c.g->nodes.at[i]->op == op) {
            return c.g->nodes.at[i];
        }
    }
    cr_assert(false, "no such node");
    return NULL;
}

static void parse_graph(const char *text)
{
    c.g = ncg_parse(env(), text, strlen(text), "test.ncg");
}

/* y = -x * 3 in two calls over a temporary. */
static void build_chain(Env *e, void *arg)
{
    (void)e, (void)arg;
    parse_graph("graph chain\n"
                "x = input f32[n, 4]\n"
                "k = const f32[] 3.0\n"
                "y = neg x\n"
                "t = reshape k shape=[1, 1]\n"
                "u = broadcast t shape=[n, 4]\n"
                "z = mul y, u\n"
                "return out=z\n");
    int x = buffer(BUF_INPUT, node(OP_INPUT), 0), k = buffer(BUF_CONST, node(OP_CONST), -1);
    int t = buffer(BUF_TEMP, node(OP_NEG), -1), out = buffer(BUF_OUTPUT, node(OP_MUL), 0);
    call("kernel elementwise\ny: f32[s0*4]\nx0: f32[s0*4]\naxis i space s0\naxis j space 4\n"
         "phase i j\n    y[i*4 + j] = -x0[i*4 + j]\n",
         "n", node(OP_NEG), 2, (Arg[]){{.buffer = t}, {.buffer = x}});
    call("kernel elementwise\ny: f32[s0*4]\nx0: f32[s0*4]\nx1: const f32[1]\naxis i space s0\n"
         "axis j space 4\nphase i j\n    y[i*4 + j] = x0[i*4 + j] * x1[0]\n",
         "n", node(OP_MUL), 3, (Arg[]){{.buffer = out}, {.buffer = t}, {.buffer = k}});
    program_lifetimes(&c.p);
}

/* out = the last 2 of n elements: the operand's pointer is advanced by n - 2. */
static void build_tail(Env *e, void *arg)
{
    (void)arg;
    parse_graph("graph tail\n"
                "x = input f32[n]\n"
                "y = slice x axis=0 start=n - 2 stop=n\n"
                "return out=y\n");
    int x = buffer(BUF_INPUT, node(OP_INPUT), 0), out = buffer(BUF_OUTPUT, node(OP_SLICE), 0);
    Dim start = dim_addk(e, dim_named(e, "n"), -2);
    call("kernel copy\ny: f32[2]\nx0: f32[2]\naxis i space 2\nphase i\n    y[i] = x0[i]\n", "",
         node(OP_SLICE), 2, (Arg[]){{.buffer = out}, {.buffer = x, .offset = start}});
    program_lifetimes(&c.p);
}

static void build_gather(Env *e, void *arg)
{
    (void)e, (void)arg;
    parse_graph("graph rows\n"
                "ids = input i32[n]\n"
                "table = weight f32[6, 4]\n"
                "y = gather table, ids\n"
                "return out=y\n");
    int ids = buffer(BUF_INPUT, node(OP_INPUT), 0),
        table = buffer(BUF_WEIGHT, node(OP_WEIGHT), 0);
    int out = buffer(BUF_OUTPUT, node(OP_GATHER), 0);
    call("kernel gather\ny: f32[s0*4]\nids: i32[s0]\ntable: const f32[24]\naxis i space s0\n"
         "axis j space 4\nouter i\nphase\n    row: i64 = i64(ids[i])\n    fail 1 if row < 0 || "
         "6 <= row\n"
         "phase j\n    y[i*4 + j] = table[row*4 + j]\n",
         "n", node(OP_GATHER), 3, (Arg[]){{.buffer = out}, {.buffer = ids}, {.buffer = table}});
    program_lifetimes(&c.p);
}

static void load(Env *e, void *arg)
{
    (void)arg;
    library_build(e, &c.p, 2, NULL, &c.w.lib);
}

static void make_exec(Env *e, void *compiled)
{
    c.x = exec_new(e, c.g, &c.p, *(bool *)compiled ? c.w.lib.fn : NULL);
}

static void start(Body *build, bool compiled)
{
    must_work(env(), build, NULL);
    if (compiled) {
        must_work(env(), load, NULL);
    }
    must_work(env(), make_exec, &compiled);
}

/* Each claim for both ways of running. */
#define BOTH_WAYS(name, build)      \
    static void check_##name(void); \
    Test(run_exec, name##_by_nests) \
    {                               \
        start(build, false);        \
        check_##name();             \
    }                               \
    Test(run_exec, name##_by_c)     \
    {                               \
        start(build, true);         \
        check_##name();             \
    }                               \
    static void check_##name(void)

/* ---- arguments -------------------------------------------------------------------------- */

static float numbers[1 << 16];

static Args chain_args(int64_t n)
{
    static NamedTensor x;
    for (size_t i = 0; i < countof(numbers); i++) {
        numbers[i] = (float)i - 7;
    }
    x = (NamedTensor){"x", {DT_F32, 2, {n, 4}, numbers}};
    return (Args){.input = &x, .n_inputs = 1};
}

static void assert_chain(const Tensor *out, int64_t n)
{
    const float *y = out->data;
    cr_assert(out->dtype == DT_F32 && out->rank == 2 && out->dim[0] == n && out->dim[1] == 4);
    for (int64_t i = 0; i < 4 * n; i++) {
        cr_assert_eq(y[i], -numbers[i] * 3.0f, "n = %lld, element %lld", (long long)n,
                     (long long)i);
    }
}

static void assert_runs(int64_t n)
{
    Args args = chain_args(n);
    Tensor out;
    Err err;
    cr_assert(exec_run(c.x, &args, &env()->model, &out, &err), "%s", err.text);
    assert_chain(&out, n);
}

/* ---- claims ----------------------------------------------------------------------------- */

BOTH_WAYS(results_are_right_at_every_size_in_any_order, build_chain)
{
    static const int64_t sizes[] = {3, 1, 0, 7, 1000, 2, 10000, 0, 1000};
    for (size_t i = 0; i < countof(sizes); i++) {
        assert_runs(sizes[i]);
    }
}

BOTH_WAYS(same_sizes_plan_nothing_again, build_chain)
{
    assert_runs(40);
    Plan *plan = (Plan *)(uintptr_t)exec_plan(c.x);
    cr_assert_eq(plan->arena_bytes, 640);
    plan->arena_bytes = 64 * 1000; /* a mark: planning again would wipe it out */
    assert_runs(40);
    cr_assert_eq(plan->arena_bytes, 64 * 1000);
    assert_runs(80);
    cr_assert_eq(plan->arena_bytes, 1280);
}

BOTH_WAYS(bound_program_can_be_called_again_on_changed_data, build_chain)
{
    Args args = chain_args(5);
    Tensor out = {0};
    Err err;
    cr_assert(exec_bind(c.x, &args, &out, &err), "%s", err.text);
    for (int round = 0; round < 3; round++) {
        cr_assert(exec_call(c.x, &err), "%s", err.text);
        assert_chain(&out, 5);
        for (int i = 0; i < 20; i++) {
            numbers[i] += 1.5f;
        }
    }
}

BOTH_WAYS(caller_may_give_the_place_of_an_output, build_chain)
{
    Args args = chain_args(2);
    float place[8];
    Tensor out = {DT_F32, 2, {2, 4}, place};
    Err err;
    cr_assert(exec_bind(c.x, &args, &out, &err) && exec_call(c.x, &err), "%s", err.text);
    cr_assert_eq(out.data, place);
    assert_chain(&out, 2);
}

BOTH_WAYS(place_of_another_shape_is_refused, build_chain)
{
    Args args = chain_args(2);
    float place[8];
    Tensor out[] = {
        {DT_F32, 2, {4, 2}, place}, {DT_I32, 2, {2, 4}, place}, {DT_F32, 1, {8}, place}};
    for (size_t i = 0; i < countof(out); i++) {
        Err err;
        cr_assert_not(exec_bind(c.x, &args, &out[i], &err));
        cr_assert_eq(err.code, E_INPUT);
        cr_assert_str_eq(err.text,
                         "The place given for output \"out\" has another dtype or shape than "
                         "the output.");
    }
    assert_runs(2);
}

BOTH_WAYS(arguments_that_do_not_fit_are_refused_and_change_nothing, build_chain)
{
    Args args = chain_args(3), bad = args;
    NamedTensor other = args.input[0];
    Tensor out = {0};
    Err err;
    assert_runs(3);
    other.t.dim[1] = 5;
    bad.input = &other;
    cr_assert_not(exec_bind(c.x, &bad, &out, &err));
    cr_assert_eq(err.code, E_INPUT, "%s", err.text);
    cr_assert(strstr(err.text, "\"x\""), "%s", err.text);
    assert_runs(3);
}

BOTH_WAYS(operand_begins_at_an_offset_that_depends_on_sizes, build_tail)
{
    float x[] = {1, 2, 3, 4, 5};
    for (int64_t n = 2; n <= 5; n++) {
        NamedTensor in = {"x", {DT_F32, 1, {n}, x}};
        Args args = {.input = &in, .n_inputs = 1};
        Tensor out;
        Err err;
        cr_assert(exec_run(c.x, &args, &env()->model, &out, &err), "%s", err.text);
        const float *y = out.data;
        cr_assert(y[0] == x[n - 2] && y[1] == x[n - 1]);
    }
}

BOTH_WAYS(slice_out_of_range_is_refused_before_anything_runs, build_tail)
{
    float x[] = {1};
    NamedTensor in = {"x", {DT_F32, 1, {1}, x}};
    Args args = {.input = &in, .n_inputs = 1};
    Tensor out;
    Err err;
    cr_assert_not(exec_run(c.x, &args, &env()->model, &out, &err));
    cr_assert_eq(err.code, E_RANGE, "%s", err.text);
    cr_assert(strstr(err.text, "n - 2"), "%s", err.text);
}

static void gather(const int32_t *ids, int64_t n, Tensor *out, Err *err)
{
    static float table[24];
    for (int i = 0; i < 24; i++) {
        table[i] = (float)i;
    }
    NamedTensor in = {"ids", {DT_I32, 1, {n}, (void *)(uintptr_t)ids}};
    NamedTensor weight = {"table", {DT_F32, 2, {6, 4}, table}};
    Args args = {&in, 1, &weight, 1};
    Tensor definition;
    Err expected = {.code = E_OK};
    *err = expected;
    bool ok = exec_run(c.x, &args, &env()->model, out, err);
    cr_assert_eq(graph_interpret(c.g, &args, NULL, &env()->model, &definition, &expected), ok);
    cr_assert_eq(err->code, expected.code);
    cr_assert(ok || strcmp(err->text, expected.text) == 0, "%s -- but the interpreter: %s",
              err->text, expected.text);
}

BOTH_WAYS(index_outside_the_table_is_named_as_the_interpreter_does, build_gather)
{
    static const int32_t ids[][3] = {{0, 5, 6}, {3, -1, 9}, {INT32_MIN, 0, 0}};
    static const char *const words[] = {"index 6 is outside 0..5", "index -1 is outside 0..5",
                                        "index -2147483648 is outside 0..5"};
    Tensor out;
    Err err;
    for (size_t i = 0; i < countof(ids); i++) {
        gather(ids[i], 3, &out, &err);
        cr_assert_eq(err.code, E_RANGE);
        cr_assert(strstr(err.text, words[i]), "%s", err.text);
    }
    gather((int32_t[]){5, 0, 5}, 3, &out, &err); /* and goes on */
    const float *y = out.data;
    cr_assert(y[0] == 20 && y[4] == 0 && y[11] == 23);
}

BOTH_WAYS(memory_that_cannot_be_had_is_one_error, build_chain)
{
    Args args = chain_args(1000);
    Tensor out = {0};
    Err err;
    fault_arm("mmap", 1, false, ENOMEM);
    bool ok = exec_bind(c.x, &args, &out, &err);
    fault_disarm();
    cr_assert_not(ok);
    cr_assert_eq(err.code, E_NOMEM);
    cr_assert(strstr(err.text, "for the temporaries of graph \"chain\" cannot be had"), "%s",
              err.text);
    assert_runs(1000);
}

BOTH_WAYS(running_keeps_no_memory, build_chain)
{
    Args args = chain_args(64);
    Tensor out = {0};
    Err err;
    cr_assert(exec_bind(c.x, &args, &out, &err) && exec_call(c.x, &err), "%s", err.text);
    fault_arm("mmap", 0, false, 0);
    size_t kernel = env()->kernel.used_bytes, model = env()->model.used_bytes;
    for (int i = 0; i < 20; i++) {
        out.data = NULL;
        cr_assert(exec_bind(c.x, &args, &out, &err) && exec_call(c.x, &err), "%s", err.text);
    }
    int mapped = fault_calls("mmap");
    fault_disarm();
    cr_assert_eq(mapped, 0);
    cr_assert_eq(env()->kernel.used_bytes, kernel);
    cr_assert_eq(env()->model.used_bytes, model);
}

Test(run_exec, growing_sizes_are_mapped_ahead_of_need)
{
    start(build_chain, true);
    fault_arm("mmap", 0, false, 0);
    for (int64_t n = 1; n <= 1000; n++) {
        Args args = chain_args(n);
        Tensor out = {0};
        Err err;
        cr_assert(exec_bind(c.x, &args, &out, &err), "%s", err.text);
    }
    int mapped = fault_calls("mmap");
    fault_disarm();
    cr_assert_leq(mapped, 20);
}

Test(run_exec, freeing_nothing_is_fine)
{
    exec_free(NULL);
}
