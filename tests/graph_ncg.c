/* The text form: what is printed reads back as an equal graph, what people write is understood,
 * and every input that ever broke anything is read or refused cleanly. */
#include "ncg_util.h"

#include "tests/gen.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is understood ------------------------------------------------- */

static const char canonical[] =
    "graph all\n"
    "x = input f32[seq, 4]\n"
    "ids = input i64[seq]\n"
    "unused = input bool[past, 2*seq + 1]\n"
    "%3 = weight \"a b\" i8[]\n"
    "model.w = weight f32[4, 8]\n"
    "%5 = matmul x, model.w\n"
    "%6 = reduce_sum %5 axis=-1\n"
    "%7 = reshape %5 shape=[8*seq]\n"
    "%8 = permute %5 perm=[1, 0]\n"
    "%9 = slice %5 axis=0 start=seq - 1 stop=seq\n"
    "%10 = concat %5, %9, %5 axis=0\n"
    "%11 = gather %5, ids\n"
    "%12 = cast %11 dtype=i64\n"
    "%13 = iota i32[past + seq, 2] axis=1\n"
    "%14 = dim past + 2*seq - 1\n"
    "%15 = const f32[] 1.0\n"
    "%16 = broadcast %6 shape=[seq, 3]\n"
    "return w8=%3, sum=%6, flat=%7, \"turned %\"=%8, k=%10, c=%12, i=%13, "
    "d=%14, one=%15, b=%16\n";

Test(graph_ncg, canonical_text_prints_as_itself)
{
    Env e;
    env_init(&e);
    cr_assert_str_eq(printed(parsed(&e, canonical)), canonical);
    env_release(&e);
}

Test(graph_ncg, hand_written_text_is_understood)
{
    static const char text[] = "\xef\xbb\xbf# a comment\r\n"
                               "\r\n"
                               "graph swiglu   # another\r\n"
                               "\tx=input f32[ seq,4 ]\r\n"
                               "gate = weight \"mlp.gate\" f32[4, (1 + 1)*4]\r\n"
                               "y = matmul x , gate\r\n"
                               "return = neg y\r\n"
                               "graph = concat return,y axis = 1\r\n"
                               "return graph, out = y";
    static const char want[] = "graph swiglu\n"
                               "x = input f32[seq, 4]\n"
                               "mlp.gate = weight f32[4, 8]\n"
                               "%2 = matmul x, mlp.gate\n"
                               "%3 = neg %2\n"
                               "%4 = concat %3, %2 axis=1\n"
                               "return graph=%4, out=%2\n";
    Env e;
    env_init(&e);
    Graph *g = parsed(&e, text);
    cr_assert_str_eq(printed(g), want);
    cr_assert_eq(g->nodes.at[2]->line, 6);
    env_release(&e);
}

Test(graph_ncg, unused_inputs_survive_and_unused_nodes_go)
{
    Env e;
    env_init(&e);
    Graph *g =
        parsed(&e, "graph g\nx = input f32[2]\ny = input f32[3]\nz = neg y\nreturn out=x\n");
    cr_assert_str_eq(printed(g), "graph g\nx = input f32[2]\ny = input f32[3]\nreturn out=x\n");
    env_release(&e);
}

Test(graph_ncg, names_are_escaped_and_kept_apart)
{
    static const char text[] = "graph \"a \\\"graph\\\"\"\n"
                               "x = input f32[2]\n"
                               "%1 = weight \"x\" f32[2]\n"
                               "%2 = add x, %1\n"
                               "%3 = weight \"tab\\x09 back\\\\slash \xc3\xa9\" f32[2]\n"
                               "%4 = add %2, %3\n"
                               "return \"1\"=%4\n";
    Env e;
    env_init(&e);
    Graph *g = parsed(&e, text);
    cr_assert_str_eq(g->name, "a \"graph\"");
    cr_assert_str_eq(g->weights.at[0]->attr.name, "x");
    cr_assert_str_eq(g->weights.at[1]->attr.name, "tab\t back\\slash \xc3\xa9");
    cr_assert_str_eq(printed(g), text);
    env_release(&e);
}

Test(graph_ncg, constants_keep_every_bit)
{
    static const uint32_t bits[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff812345, 0x7f800000,
                                    0xff800000, 0x80000000, 1,          0x7f7fffff, 0x3dcccccd};
    Env e;
    env_init(&e);
    Graph *g = parsed(
        &e, "graph g\n"
            "c = const f32[10] nan, nan:0xffc00000, nan:0x7f800001, nan:0xff812345, inf, -inf, "
            "-0.0, 1e-45, 3.4028235e+38, 0.1\n"
            "return c\n");
    cr_assert_arr_eq(g->nodes.at[0]->attr.value, bits, sizeof bits);
    cr_assert_str_eq(
        printed(g),
        "graph g\n"
        "%0 = const f32[10] nan, nan:0xffc00000, nan:0x7f800001, nan:0xff812345, inf, "
        "-inf, -0.0, 1e-45, 3.4028235e+38, 0.1\n"
        "return c=%0\n");
    env_release(&e);
}

Test(graph_ncg, constants_of_every_dtype_and_shape)
{
    static const char text[] = "graph g\n"
                               "%0 = const i64[2] -9223372036854775808, 9223372036854775807\n"
                               "%1 = const i32[2, 1] -2147483648, 2147483647\n"
                               "%2 = const i8[1, 3] -128, 0, 127\n"
                               "%3 = const bool[2] true, false\n"
                               "%4 = const f32[3, 0, 2]\n"
                               "return a=%0, b=%1, c=%2, d=%3, e=%4\n";
    Env e;
    env_init(&e);
    cr_assert_str_eq(printed(parsed(&e, text)), text);
    env_release(&e);
}

/* ---- round trips -------------------------------------------------------- */

static void generate(Env *e, void *arg)
{
    Rng r;
    rng_seed(&r, 42);
    *(Graph **)arg = gen_graph(e, &r);
}

static void check_round_trip(uint64_t seed)
{
    Env e, other;
    env_init(&e);
    env_init(&other);
    sym_intern(&other, "zebra", 5); /* so that symbols get other numbers there */
    Rng r;
    rng_seed(&r, seed);
    Graph *g = gen_graph(&e, &r);
    const char *text = printed(g);
    Graph *back = parsed(&other, text);
    cr_assert(graph_eq(g, back), "seed %d", (int)seed);
    cr_assert_str_eq(printed(back), text, "seed %d", (int)seed);
    env_release(&other);
    env_release(&e);
}

Test(graph_ncg, generated_graphs_round_trip)
{
    uint64_t n = getenv("NC_FULL") ? 20000 : 300;
    for (uint64_t seed = 0; seed < n; seed++) {
        check_round_trip(seed);
    }
}

Test(graph_ncg, three_hundred_generated_graphs_use_every_operation)
{
    int uses[N_OPS] = {0};
    for (uint64_t seed = 0; seed < 300; seed++) {
        Env e;
        env_init(&e);
        Rng r;
        rng_seed(&r, seed);
        Graph *g = gen_graph(&e, &r);
        for (int i = 0; i < g->nodes.n; i++) {
            uses[g->nodes.at[i]->op]++;
        }
        env_release(&e);
    }
    for (int op = 0; op < N_OPS; op++) {
        cr_assert_geq(uses[op], 10, "%s", op_info[op].name);
    }
}

Test(graph_ncg, the_same_seed_gives_the_same_graph)
{
    Env a, b;
    env_init(&a);
    env_init(&b);
    Graph *g = NULL, *h = NULL;
    cr_assert(env_try(&a, generate, &g), "%s", a.err.text);
    cr_assert(env_try(&b, generate, &h), "%s", b.err.text);
    cr_assert(graph_eq(g, h));
    env_release(&a);
    env_release(&b);
}

/* ---- equality ----------------------------------------------------------- */

/* Each differs from `base` in one respect. */
static const char base[] =
    "graph g\nx = input f32[seq, 2]\ny = input f32[seq, 2]\n"
    "c = const i8[2] 1, 2\na = add x, y\nd = dim seq\ns = slice a axis=0 start=0 "
    "stop=seq\np = permute x perm=[1, 0]\nr = reduce_sum x axis=1\nreturn a, s, c, d, p, r\n";
static const struct {
    const char *from, *to;
} edits[] = {
    {"graph g", "graph h"},
    {"x = input f32[seq, 2]\ny", "x = input f32[seq, 2]\nz = input f32[2]\ny"},
    {"1, 2", "1, 3"},
    {"i8[2]", "i32[2]"},
    {"i8[2]", "i8[2, 1]"},
    {"add x, y", "add y, x"},
    {"add x, y", "sub x, y"},
    {"dim seq", "dim 2*seq"},
    {"start=0", "start=seq"},
    {"perm=[1, 0]", "perm=[0, 1]"},
    {"axis=1", "axis=-1"},
    {"return a,", "return b=a,"},
    {"return a, s", "return s, a"},
};

Test(graph_ncg, graphs_that_differ_in_anything_are_not_equal)
{
    for (size_t i = 0; i < countof(edits); i++) {
        Env e;
        env_init(&e);
        const char *at = strstr(base, edits[i].from);
        cr_assert(at, "%s", edits[i].from);
        const char *text = arena_printf(&e.model, "%.*s%s%s", (int)(at - base), base,
                                        edits[i].to, at + strlen(edits[i].from));
        Graph *g = parsed(&e, base), *h = parsed(&e, text);
        cr_assert(graph_eq(g, g) && graph_eq(h, h));
        cr_assert_not(graph_eq(g, h), "%s -> %s", edits[i].from, edits[i].to);
        cr_assert_not(graph_eq(h, g), "%s -> %s", edits[i].from, edits[i].to);
        env_release(&e);
    }
}

/* ---- every input that ever broke anything ------------------------------- */

/* True: it was read. A refusal must name the place. */
static bool replay(const char *path)
{
    Env e;
    env_init(&e);
    Err err;
    Text t = {0};
    char *text;
    cr_assert(os_read_file(&e.model, path, 1 << 20, &text, &t.len, &err), "%s", err.text);
    t.at = text;
    bool ok = env_try(&e, parse_text, &t);
    cr_assert(ok || strncmp(e.err.text, "t.ncg:", 6) == 0, "%s: %s", path, e.err.text);
    if (ok) {
        const char *again = printed(t.g);
        cr_assert(graph_eq(t.g, parsed(&e, again)), "%s", path);
    }
    env_release(&e);
    return ok;
}

Test(graph_ncg, the_regression_corpus_is_read_or_refused_cleanly)
{
    DIR *dir = opendir("tests/regress");
    cr_assert(dir, "run the tests in the project's folder");
    int n_read = 0, n_refused = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        size_t len = strlen(d->d_name);
        if (len > 4 && strcmp(d->d_name + len - 4, ".ncg") == 0) {
            char path[512];
            snprintf(path, sizeof path, "tests/regress/%s", d->d_name);
            bool ok = replay(path);
            n_read += ok;
            n_refused += !ok;
        }
    }
    closedir(dir);
    cr_assert_geq(n_read, 1);
    cr_assert_geq(n_refused, 1);
}
