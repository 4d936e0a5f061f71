/* lower_update.c - updates in lowered programs: written into the caller's input where nobody
 * can tell, as a copy where somebody could; by the kernel that makes the value, whatever its
 * kind; and the same bits as the interpreter in every case. How the executor treats such
 * inputs and the outputs that they become. */
#include "ncg_util.h"
#include "tests/compile_util.h"
#include "tests/env_fixture.h"

#include <string.h>

TestSuite(updates, .init = start, .fini = stop, .timeout = 120); /* a blow-up ends it */

/* ---- small graphs ---------------------------------------- */

#define GRAPH "graph g\nx = input f32[6, 4]\nn = input f32[seq, 4]\np = input bool[past, 0]\n"

typedef struct Small {
    const char *text;    /* behind GRAPH; semicolons between statements */
    const char *kinds;   /* of the fused calls */
    const char *written; /* the inputs that the fused and the unfused program write; -: none */
} Small;

static const char *kinds_of(Env *e, const Program *p)
{
    Buf b;
    buf_init(&b, &e->model);
    for (int i = 0; i < p->call.n; i++) {
        buf_printf(&b, "%s%s", i ? " " : "", p->kernel.at[p->call.at[i].kernel]->kind);
    }
    return b.at;
}

static const char *written_by(Env *e, const Program *p)
{
    Buf b;
    buf_init(&b, &e->model);
    for (int i = 0; i < p->buffer.n; i++) {
        if (p->buffer.at[i].written) {
            buf_printf(&b, "%s%s", b.len ? " " : "", p->buffer.at[i].name);
        }
    }
    return b.len ? b.at : "-";
}

static void same_in_all_ways(Env *e, const Graph *g, const Compile *c, Program *const *p,
                             const char *text)
{
    static const int64_t sizes[][2] = {{1, 0}, {2, 1}, {3, 3}, {1, 4}};
    for (size_t i = 0; i < countof(sizes); i++) {
        Args args = model_args(e, g, sizes[i][0], sizes[i][1], 3);
        Tensor *want = arena_array(&e->model, Tensor, g->outputs.n);
        Err err;
        cr_assert(graph_interpret(g, &args, NULL, &e->model, want, &err), "%s%s", text,
                  err.text);
        assert_same_bits(g, want, run_program(e, c[0].graph, p[0], NULL, &args), text);
        assert_same_bits(g, want, run_program(e, c[1].graph, p[1], NULL, &args), text);
    }
}

/* The whole graph's text. */
static const char *whole(Env *e, const char *statements)
{
    char *text = arena_printf(&e->model, GRAPH "%s\n", statements);
    for (char *at = text; (at = strchr(at, ';'));) {
        *at = '\n';
    }
    return text;
}

static void check_small(Env *e, void *arg)
{
    const Small *s = arg;
    Graph *g = parsed(e, whole(e, s->text));
    Compile c[2];
    Program *p[] = {compiled(e, g, 0, &c[0]), compiled(e, g, ALL_STAGES, &c[1])};
    cr_expect_str_eq(kinds_of(e, p[0]), s->kinds, "%s, not %s, of\n%s", kinds_of(e, p[0]),
                     s->kinds, s->text);
    const char *written =
        arena_printf(&e->model, "%s %s", written_by(e, p[0]), written_by(e, p[1]));
    cr_expect_str_eq(written, s->written, "%s, not %s, of\n%s", written, s->written, s->text);
    same_in_all_ways(e, g, c, p, s->text);
}

static void check_all(const Small *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        Small one = s[i];
        must_work(&env, check_small, &one);
    }
}

#define CHECK(...)                              \
    static const Small small[] = {__VA_ARGS__}; \
    check_all(small, countof(small))

/* clang-format off */

/* The value's own kernel stores it, through reshapes and permutes, if nobody else wants it. */
Test(updates, are_written_by_the_kernel_that_makes_the_value)
{
    CHECK({"v = neg n; y = update x, v at=[past, 0]; return y=y", "elementwise", "x x"},
          {"v = neg n; t = reshape v shape=[seq, 2, 2]; u = reshape t shape=[4*seq];"
           "w = reshape u shape=[seq, 4]; y = update x, w at=[past, 0]; return y=y",
           "elementwise", "x x"},
          {"a = weight f32[4, 4]; v = matmul n, a; y = update x, v at=[past, 0]; return y=y",
           "matmul", "x x"},
          {"a = weight f32[4, 4]; q = matmul n, a; v = add q, n;"
           "y = update x, v at=[past, 0]; return y=y",
           "matmul+epilogue", "x x"},
          {"m = reduce_max n axis=-1; b = broadcast m shape=[seq, 4]; v = sub n, b;"
           "y = update x, v at=[past, 0]; return y=y",
           "row", "x x"},
          {"v = reduce_sum n axis=0; y = update x, v at=[seq, 0]; return y=y", "reduce", "x x"},
          {"t = weight f32[5, 4]; i = iota i64[seq] axis=0; v = gather t, i;"
           "y = update x, v at=[past, 0]; return y=y",
           "gather", "x x"});
}

/* [seq, heads * 2] -> [heads, seq, 2]: the value leaves as a product and arrives turned
 * around. */
Test(updates, turn_a_product_around_on_the_way)
{
    CHECK({"c = input f32[2, 6, 2]; a = weight f32[4, 4]; q = matmul n, a; b = add q, n;"
           "s = reshape b shape=[seq, 2, 2]; t = permute s perm=[1, 0, 2];"
           "y = update c, t at=[0, past, 0]; z = neg x; return y=y, z=z",
           "matmul+epilogue elementwise", "c c"},
          {"c = input f32[2, 6, 3]; a = weight f32[4, 6]; q = matmul n, a;"
           "s = reshape q shape=[seq, 2, 3]; t = permute s perm=[2, 0, 1];"
           "u = permute t perm=[2, 1, 0]; y = update c, u at=[0, past, 0]; return y=y",
           "matmul", "c c"});
}

Test(updates, copy_what_others_want_too)
{
    CHECK({"v = neg n; y = update x, v at=[past, 0]; return y=y, v=v",
           "elementwise copy", "x x"},
          {"y = update x, n at=[past, 0]; return y=y", "copy", "x x"},
          {"i = iota f32[seq, 4] axis=1; y = update x, i at=[past, 0]; return y=y",
           "copy", "x x"},
          {"k = const f32[1, 1] 2.5; y = update x, k at=[past, 3]; return y=y", "copy", "x x"});
}

/* What computes the elements joins the copy, as it does where an output is no value of its
 * own. */
Test(updates, copy_parts_and_pieces_of_what_is_computed)
{
    CHECK({"t = concat n, n axis=0; v = slice t axis=0 start=1 stop=seq + 1; w = neg v;"
           "u = concat w, w axis=1; z = slice u axis=1 start=2 stop=6;"
           "y = update x, z at=[past, 0]; return y=y",
           "copy", "x x"},
          {"v = neg n; t = concat v, n axis=0; w = slice t axis=0 start=1 stop=seq + 1;"
           "y = update x, w at=[past, 0]; a = neg y; b = reduce_sum y axis=0; return a=a, b=b",
           "copy elementwise reduce", "x x"});
}

Test(updates, follow_one_another_in_one_buffer)
{
    CHECK({"v = neg n; a = update x, v at=[past, 0]; w = exp n; b = update a, w at=[0, 0];"
           "return b=b",
           "elementwise elementwise", "x x"},
          {"v = neg n; a = update x, v at=[past, 0]; w = neg a; b = update a, w at=[0, 0];"
           "return b=b",
           "elementwise copy", "x x"});
}

/* ---- what must not be overwritten ---------------------------------------- */

Test(updates, spare_an_old_version_that_is_wanted_in_the_end)
{
    CHECK({"v = neg n; y = update x, v at=[past, 0]; return y=y, x=x", "copy copy", "- -"},
          {"v = neg n; a = update x, v at=[past, 0]; b = update a, v at=[0, 0];"
           "return a=a, b=b",
           "elementwise copy copy", "x x"});
}

Test(updates, spare_an_old_version_that_is_read_later)
{
    CHECK({"v = neg n; y = update x, v at=[past, 0]; m = reduce_sum y axis=0;"
           "b = broadcast m shape=[6, 4]; z = add x, b; return z=z",
           "reduce elementwise", "- -"});
}

Test(updates, may_overwrite_what_was_read_before)
{
    CHECK({"s = reduce_sum x axis=0; b = broadcast s shape=[seq, 4]; v = mul n, b;"
           "y = update x, v at=[past, 0]; return y=y",
           "reduce elementwise", "x x"});
}

/* Behind past + 1 row 0 stays what it was, so it does not matter when it is read. */
Test(updates, may_be_read_around)
{
    CHECK({"v = slice n axis=0 start=seq - 1 stop=seq; w = neg v; y = update x, w at=[past, 0];"
           "m = reduce_sum y axis=0; o = slice x axis=0 start=0 stop=1; z = add o, m;"
           "return z=z",
           "reduce elementwise", "- -"},
          {"v = slice n axis=0 start=seq - 1 stop=seq; w = neg v;"
           "y = update x, w at=[past + 1, 0];"
           "m = reduce_sum y axis=0; o = slice x axis=0 start=0 stop=1; z = add o, m;"
           "return z=z",
           "elementwise reduce elementwise", "x x"});
}

/* A kernel that reads what it writes could read its own results. */
Test(updates, do_not_read_what_they_write)
{
    CHECK({"o = slice x axis=0 start=0 stop=seq; v = neg o; y = update x, v at=[past, 0];"
           "return y=y",
           "copy", "- x"},
          {"o = slice x axis=0 start=0 stop=1; v = neg o; y = update x, v at=[past + 1, 0];"
           "return y=y",
           "elementwise", "x x"},
          {"y = update x, x at=[0, 0]; return y=y", "copy", "- -"});
}

Test(updates, of_one_value_leave_its_memory_to_the_last)
{
    CHECK({"v = neg n; a = update x, v at=[past, 0]; w = exp n; b = update x, w at=[0, 0];"
           "return a=a, b=b",
           "copy elementwise", "x x"},
          {"v = neg n; a = update x, v at=[past, 0]; w = exp n; b = update x, w at=[0, 0];"
           "c = add a, b; return c=c",
           "elementwise", "- x"});
}

Test(updates, of_something_computed_are_chosen_element_by_element)
{
    CHECK({"b = neg x; y = update b, n at=[past, 0]; z = exp y; return z=z",
           "elementwise", "- -"},
          {"b = neg x; y = update b, n at=[past, 0]; return y=y", "copy", "- -"},
          {"b = neg x; v = exp n; a = update b, v at=[past, 0]; c = update a, n at=[0, 0];"
           "return c=c",
           "copy copy", "- -"});
}

Test(updates, that_are_two_outputs_are_copied_once)
{
    CHECK({"v = neg n; y = update x, v at=[past, 0]; return y=y, z=y",
           "elementwise copy", "x x"});
}

/* clang-format on */

/* ---- what must not blow up ---------------------------------------- */

/* Each update is made of the one before it twice, and overwrites what it reads. */
static void doubling(Env *e, void *arg)
{
    Buf b;
    (void)arg;
    buf_init(&b, &e->model);
    buf_str(&b, GRAPH "u0 = neg x\n");
    for (int i = 0; i < 40; i++) {
        buf_printf(&b,
                   "s%d = slice u%d axis=0 start=0 stop=3\nu%d = update u%d, s%d at=[%d, 0]\n",
                   i, i, i + 1, i, i, i % 2 + 1);
    }
    buf_str(&b, "y = exp u40\nreturn y=y\n");
    Graph *g = parsed(e, b.at);
    Compile c[2];
    Program *p[] = {compiled(e, g, 0, &c[0]), compiled(e, g, ALL_STAGES, &c[1])};
    for (int i = 0; i < p[0]->kernel.n; i++) {
        cr_expect_lt(strlen(p[0]->kernel.at[i]->text), 20000);
    }
    same_in_all_ways(e, g, c, p, "doubling");
}

Test(updates, of_themselves_stay_small)
{
    must_work(&env, doubling, NULL);
}

/* ---- the kernel's text ---------------------------------------- */

static void text(Env *e, void *arg)
{
    (void)arg;
    Graph *g = parsed(e, "graph g\nc = input f32[3, capacity, 4]\nn = input f32[2, seq, 4]\np "
                         "= input bool[past, 0]\n"
                         "v = neg n\ny = update c, v at=[1, past, 0]\nreturn y=y\n");
    const Program *p = compiled(e, g, 0, NULL);
    const Kernel *k = p->kernel.at[0];
    cr_expect_str_eq(k->text, "kernel elementwise\n"
                              "y: f32[4*s0 + 4*s1]\n"
                              "x0: f32[8*s1]\n"
                              "axis h space 2\n"
                              "axis i space s1\n"
                              "axis j space 4\n"
                              "phase h i j\n"
                              "    y[h*(4*s0) + i*4 + j] = -x0[h*(4*s1) + i*4 + j]\n");
    cr_expect_str_eq(kernel_parse(e, k->text, strlen(k->text), "k")->text, k->text);
    cr_expect_str_eq(dim_text(e, p->call.at[0].arg.at[0].offset), "4*capacity + 4*past");
    cr_expect_str_eq(dim_text(e, p->call.at[0].write_bytes), "32*seq");
    cr_expect_str_eq(dim_text(e, p->call.at[0].read_bytes), "32*seq");
}

/* Where it writes is the pointer, so every layer and every step shares one kernel. */
Test(updates, give_the_output_strides_of_its_own)
{
    must_work(&env, text, NULL);
}

/* ---- the executor ---------------------------------------- */

static const char append[] =
    GRAPH "v = neg n\ny = update x, v at=[past, 0]\nz = neg y\nreturn y=y, z=z\n";

typedef struct Bound {
    Exec *x;
    Args args;
    Tensor *input; /* x's */
    Tensor out[2];
    Err err;
} Bound;

static Bound bound(Env *e)
{
    Bound b = {.err = {0}};
    Graph *g = parsed(e, append);
    Compile c;
    Program *p = compiled(e, g, 0, &c);
    b.args = model_args(e, g, 2, 3, 3);
    b.input = (Tensor *)&b.args.input[0].t;
    b.x = exec_new(e, c.graph, p, NULL);
    return b;
}

static void alias(Env *e, void *arg)
{
    (void)arg;
    Bound b = bound(e);
    for (int i = 0; i < 2; i++) { /* the second time y's place is given: its own */
        cr_assert(exec_bind(b.x, &b.args, b.out, &b.err), "%s", b.err.text);
        cr_expect_eq(b.out[0].data, b.input->data);
        cr_expect_eq(b.out[0].dim[0], 6);
        cr_expect_neq(b.out[1].data, b.input->data);
        cr_assert(exec_call(b.x, &b.err), "%s", b.err.text);
    }
    const float *x = b.input->data, *n = b.args.input[1].t.data, *z = b.out[1].data;
    for (int i = 0; i < 8; i++) {
        cr_expect_eq(x[12 + i], -n[i]);
        cr_expect_eq(z[12 + i], n[i]);
    }
    exec_free(b.x);
}

Test(updates, of_an_input_are_its_output_without_a_copy)
{
    must_work(&env, alias, NULL);
}

static void foreign_place(Env *e, void *arg)
{
    float place[24];
    (void)arg;
    Bound b = bound(e);
    b.out[0] = (Tensor){DT_F32, 2, {6, 4}, place};
    cr_assert_not(exec_bind(b.x, &b.args, b.out, &b.err));
    cr_expect_eq(b.err.code, E_INPUT);
    cr_expect_str_eq(
        b.err.text,
        "The place given for output \"y\" is not that of the input that it is written into.");
    exec_free(b.x);
}

Test(updates, of_an_input_can_have_no_other_place)
{
    must_work(&env, foreign_place, NULL);
}

static void no_room(Env *e, void *arg)
{
    (void)arg;
    Bound b = bound(e);
    float *before = arena_dup(&e->model, b.input->data, 24 * sizeof(float));
    b.args = model_args(e, parsed(e, append), 2, 5, 3);
    ((NamedTensor *)b.args.input)[0].t.data = b.input->data;
    cr_assert_not(exec_bind(b.x, &b.args, b.out, &b.err));
    cr_expect_eq(b.err.code, E_RANGE);
    cr_expect_str_eq(
        b.err.text,
        "update: room for the value, -past - seq + 6, is -1 with seq = 2, past = 5, "
        "and must not be negative (node %4, line 6).");
    cr_expect_arr_eq(b.input->data, before, 24 * sizeof(float));
    exec_free(b.x);
}

Test(updates, without_room_are_refused_before_anything_is_written)
{
    must_work(&env, no_room, NULL);
}
