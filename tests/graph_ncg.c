/* The text form: what is printed reads back as an equal graph, what people write is understood,
 * and each kind of mistake has its own message that says where. */
#include "graph_util.h"

#include "tests/gen.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Text {
    const char *at;
    size_t len;
    Graph *g;
} Text;

static void parse(Env *e, void *arg)
{
    Text *t = arg;
    t->g = ncg_parse(e, t->at, t->len, "t.ncg");
}

static Graph *parsed(Env *e, const char *text)
{
    Text t = {.at = text, .len = strlen(text)};
    cr_assert(env_try(e, parse, &t), "%s", e->err.text);
    return t.g;
}

static const char *printed(const Graph *g)
{
    Buf b;
    buf_init(&b, &g->env->kernel);
    ncg_print(g, &b);
    return b.at;
}

/* ---- what is understood -------------------------------------------------------------------- */

static const char canonical[] = "graph all\n"
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
    Graph *g = parsed(&e, "graph g\nx = input f32[2]\ny = input f32[3]\nz = neg y\nreturn out=x\n");
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
    Graph *g = parsed(&e, "graph g\n"
                          "c = const f32[10] nan, nan:0xffc00000, nan:0x7f800001, nan:0xff812345, inf, -inf, "
                          "-0.0, 1e-45, 3.4028235e+38, 0.1\n"
                          "return c\n");
    cr_assert_arr_eq(g->nodes.at[0]->attr.value, bits, sizeof bits);
    cr_assert_str_eq(printed(g), "graph g\n"
                                 "%0 = const f32[10] nan, nan:0xffc00000, nan:0x7f800001, nan:0xff812345, inf, "
                                 "-inf, -0.0, 1e-45, 3.4028235e+38, 0.1\n"
                                 "return c=%0\n");
    env_release(&e);
}

Test(graph_ncg, constants_of_every_dtype_and_shape)
{
    static const char text[] =
        "graph g\n"
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

/* ---- round trips ------------------------------------------------------------------------------ */

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

/* ---- equality ------------------------------------------------------------------------------- */

/* Each differs from `base` in one respect. */
static const char base[] = "graph g\nx = input f32[seq, 2]\ny = input f32[seq, 2]\n"
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
        const char *text = arena_printf(&e.model, "%.*s%s%s", (int)(at - base), base, edits[i].to,
                                        at + strlen(edits[i].from));
        Graph *g = parsed(&e, base), *h = parsed(&e, text);
        cr_assert(graph_eq(g, g) && graph_eq(h, h));
        cr_assert_not(graph_eq(g, h), "%s -> %s", edits[i].from, edits[i].to);
        cr_assert_not(graph_eq(h, g), "%s -> %s", edits[i].from, edits[i].to);
        env_release(&e);
    }
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static void refuse_bytes(const char *text, size_t len, ErrCode code, const char *message)
{
    Env e;
    env_init(&e);
    Text t = {.at = text, .len = len};
    cr_assert_not(env_try(&e, parse, &t), "it was accepted");
    cr_assert_str_eq(e.err.text, message);
    cr_assert_eq(e.err.code, code);
    env_release(&e);
}

/* A test that a text is refused as E_SYNTAX. */
#define REFUSES(name, text, message)                                                   \
    Test(graph_ncg, name)                                                              \
    {                                                                                  \
        refuse_bytes(text, sizeof(text) - 1, E_SYNTAX, message);                       \
    }

/* A statement in line 4 of an otherwise good file. */
#define REFUSES_LINE(name, line, message)                                              \
    REFUSES(name, "graph g\nx = input f32[seq, 4]\nids = input i64[seq]\n" line "\nreturn x\n", message)

REFUSES(refuses_an_empty_file, "", "t.ncg:1:1: the file has no statement: graph NAME.")
REFUSES(refuses_a_file_of_comments, "# only\n#this\n", "t.ncg:3:1: the file has no statement: graph NAME.")
REFUSES(refuses_a_missing_graph_statement, "x = input f32[2]\n",
        "t.ncg:1:1: the first statement must be: graph NAME.")
REFUSES(refuses_a_graph_without_a_name, "graph\n",
        "t.ncg:1:6: expected the graph's name, found the end of the line.")
REFUSES(refuses_two_graphs, "graph g\ngraph h\n", "t.ncg:2:1: the file holds more than one graph.")
REFUSES(refuses_a_missing_return, "graph g\nx = input f32[2]",
        "t.ncg:2:1: the graph ends without a return statement.")
REFUSES(refuses_statements_behind_return, "graph g\nx = input f32[2]\nreturn x\ny = neg x\n",
        "t.ncg:4:1: nothing may follow the return statement.")
REFUSES(refuses_nul_bytes, "graph g\nx = in\0put f32[2]\n",
        "t.ncg:2:1: the line holds a NUL byte, so this is not a text file.")

REFUSES_LINE(refuses_what_is_no_statement, "= x",
             "t.ncg:4:1: expected a statement: NAME = OPERATION ..., graph NAME or return NAME=NODE, ..., "
             "found '='.")
REFUSES_LINE(refuses_bytes_that_are_not_ascii, "\xff\xfe = neg x",
             "t.ncg:4:1: expected a statement: NAME = OPERATION ..., graph NAME or return NAME=NODE, ..., "
             "found '\\xff'.")
REFUSES_LINE(refuses_a_missing_equals_sign, "y neg x", "t.ncg:4:3: expected '=', found 'neg'.")
REFUSES_LINE(refuses_a_missing_operation, "y =", "t.ncg:4:4: expected an operation, found the end of the line.")
REFUSES_LINE(refuses_an_unknown_operation, "y = frobnicate x", "t.ncg:4:5: there is no operation 'frobnicate'.")
REFUSES_LINE(guesses_a_misspelt_operation, "y = matmull x, x",
             "t.ncg:4:5: there is no operation 'matmull'; did you mean 'matmul'?")
REFUSES_LINE(refuses_an_unknown_name, "y = neg q", "t.ncg:4:9: nothing is called 'q' up to here.")
REFUSES_LINE(guesses_a_misspelt_name, "y = gather x, idz",
             "t.ncg:4:15: nothing is called 'idz' up to here; did you mean 'ids'?")
REFUSES_LINE(refuses_use_before_definition, "y = neg z\nw = neg x\nz = neg x",
             "t.ncg:4:9: 'z' is used before its definition on line 6.")
REFUSES_LINE(refuses_a_cycle, "y = neg z\nz = neg y", "t.ncg:4:9: 'z' is used before its definition on line 5.")
REFUSES_LINE(refuses_a_node_of_itself, "y = neg y", "t.ncg:4:9: 'y' is used in its own definition.")
REFUSES_LINE(refuses_a_second_definition, "x = neg x", "t.ncg:4:1: 'x' is already defined on line 2.")
REFUSES_LINE(refuses_an_unknown_attribute, "y = neg x axis=0", "t.ncg:4:11: neg has no attribute 'axis'.")
REFUSES_LINE(guesses_a_misspelt_attribute, "y = reduce_sum x axes=0",
             "t.ncg:4:18: reduce_sum has no attribute 'axes'; did you mean 'axis'?")
REFUSES_LINE(refuses_a_missing_attribute, "y = slice x axis=0 start=0",
             "t.ncg:4:27: slice needs the attribute stop=.")
REFUSES_LINE(refuses_an_attribute_twice, "y = reduce_sum x axis=0 axis=1",
             "t.ncg:4:25: the attribute axis is given twice.")
REFUSES_LINE(refuses_an_attribute_for_an_operand, "y = reduce_sum axis=0",
             "t.ncg:4:16: expected an operand, found the attribute 'axis'.")
REFUSES_LINE(refuses_a_missing_operand, "y = neg", "t.ncg:4:8: expected the name of a node, found the end of the "
                                                   "line.")
REFUSES_LINE(refuses_a_trailing_comma, "y = add x,", "t.ncg:4:11: expected the name of a node, found the end of "
                                                     "the line.")
REFUSES_LINE(refuses_trailing_text, "y = neg x x",
             "t.ncg:4:11: expected an attribute or the end of the line, found 'x'.")
REFUSES_LINE(refuses_trailing_text_behind_an_expression, "y = dim seq seq",
             "t.ncg:4:13: expected an attribute or the end of the line, found 'seq'.")
REFUSES_LINE(refuses_an_unknown_dtype, "y = cast x dtype=f64", "t.ncg:4:18: there is no dtype 'f64'; did you mean "
                                                               "'i64'?")
REFUSES_LINE(refuses_a_word_for_an_axis, "y = reduce_sum x axis=last",
             "t.ncg:4:23: expected an axis, such as 0 or -1, found 'last'.")
REFUSES_LINE(refuses_a_huge_axis, "y = reduce_sum x axis=99999999999999999999999",
             "t.ncg:4:23: expected an axis, such as 0 or -1, found '99999999999999999999999'.")
REFUSES_LINE(refuses_a_bad_permutation_list, "y = permute x perm=[0 1]", "t.ncg:4:23: expected ',', found '1'.")
REFUSES_LINE(refuses_a_long_permutation, "y = permute x perm=[0, 1, 2, 3, 4, 5, 6, 7, 8]",
             "t.ncg:4:44: a permutation has more than 8 axes.")
REFUSES_LINE(refuses_a_shape_without_brackets, "y = reshape x shape=8", "t.ncg:4:21: expected '[', found '8'.")
REFUSES_LINE(refuses_an_open_shape, "y = iota i64[4 axis=0", "t.ncg:4:16: expected ',', found 'axis'.")
REFUSES_LINE(refuses_nine_axes, "y = reshape x shape=[1, 1, 1, 1, 1, 1, 1, 1, 1]",
             "t.ncg:4:45: a shape has more than 8 axes.")
REFUSES_LINE(refuses_an_unfinished_expression, "y = dim seq +",
             "t.ncg:4:9: expected a number, a symbol or '(' in a dimension, found the end of the line.")
REFUSES_LINE(refuses_a_huge_integer, "y = dim 99999999999999999999", "t.ncg:4:9: an integer does not fit 64 bits.")
REFUSES_LINE(refuses_an_input_with_only_a_number, "%5 = input f32[2]",
             "t.ncg:4:12: expected a name in quotes, since the node has only a number, found 'f32'.")
REFUSES_LINE(refuses_an_open_name, "y = input \"q f32[2]", "t.ncg:4:11: the name '\"q f32[2]' has no closing "
                                                         "quote.")
REFUSES_LINE(refuses_an_empty_name, "y = input \"\" f32[2]", "t.ncg:4:11: a name must not be empty.")
REFUSES_LINE(refuses_invalid_utf8_in_names, "y = input \"\xc3(\" f32[2]",
             "t.ncg:4:11: the name '\"\\xc3(\"' is not valid UTF-8.")
REFUSES_LINE(refuses_escaped_invalid_utf8, "y = input \"\\xff\" f32[2]",
             "t.ncg:4:11: the name '\"\\xff\"' is not valid UTF-8.")
REFUSES_LINE(refuses_unknown_escapes, "y = input \"\\n\" f32[2]",
             "t.ncg:4:12: a name escapes only \\\", \\\\ and \\xHH with HH from 01 to ff.")
REFUSES_LINE(refuses_escaped_nul, "y = input \"\\x00\" f32[2]",
             "t.ncg:4:12: a name escapes only \\\", \\\\ and \\xHH with HH from 01 to ff.")

REFUSES_LINE(refuses_too_few_values, "y = const f32[3] 1, 2",
             "t.ncg:4:22: the constant has 2 values, but its shape [3] has 3 elements.")
REFUSES_LINE(refuses_too_many_values, "y = const f32[] 1, 2",
             "t.ncg:4:21: the constant has 2 values, but its shape [] has 1 element.")
REFUSES_LINE(refuses_an_absurd_constant, "y = const f32[1000000, 1000000] 1",
             "t.ncg:4:34: the constant has 1 value, but its shape [1000000, 1000000] has 1000000000000 elements.")
REFUSES_LINE(refuses_a_value_too_large_for_f32, "y = const f32[] 1e39",
             "t.ncg:4:17: expected a value of dtype f32, found '1e39'.")
REFUSES_LINE(refuses_hexadecimal_floats, "y = const f32[] 0x10", "t.ncg:4:17: expected a value of dtype f32, found "
                                                                "'0x10'.")
REFUSES_LINE(refuses_a_nan_that_is_none, "y = const f32[] nan:0x7f800000",
             "t.ncg:4:17: expected a value of dtype f32, found 'nan'.")
REFUSES_LINE(refuses_a_value_too_large_for_i8, "y = const i8[] 128",
             "t.ncg:4:16: expected a value of dtype i8, found '128'.")
REFUSES_LINE(refuses_a_value_too_large_for_i64, "y = const i64[] 9223372036854775808",
             "t.ncg:4:17: expected a value of dtype i64, found '9223372036854775808'.")
REFUSES_LINE(refuses_a_number_for_a_bool, "y = const bool[] 1", "t.ncg:4:18: expected a value of dtype bool, found "
                                                               "'1'.")
REFUSES_LINE(refuses_a_fraction_for_an_int, "y = const i32[] 1.5", "t.ncg:4:17: expected a value of dtype i32, "
                                                                  "found '1.5'.")

REFUSES(refuses_an_output_with_only_a_number, "graph g\n%0 = input \"x\" f32[2]\nreturn %0\n",
        "t.ncg:3:8: expected an output, NAME=NODE, found '%0'.")
REFUSES(refuses_an_empty_return, "graph g\nx = input f32[2]\nreturn\n",
        "t.ncg:3:7: expected an output, NAME=NODE, found the end of the line.")

/* Errors of construction keep their code and get the place of the operation or statement. */
#define REFUSES_NODE(name, code, line, message)                                        \
    Test(graph_ncg, name)                                                              \
    {                                                                                  \
        static const char text[] = "graph g\nx = input f32[seq, 4]\n" line "\n";       \
        refuse_bytes(text, sizeof text - 1, code, message);                            \
    }

REFUSES_NODE(refuses_a_wrong_number_of_operands, E_SHAPE, "y = add x", "t.ncg:3:5: add: takes 2 operands, not 1")
REFUSES_NODE(refuses_a_shape_mismatch, E_SHAPE, "y = matmul x, x",
             "t.ncg:3:5: matmul: operands are f32[seq, 4] and f32[seq, 4]; their inner dimensions must be equal")
REFUSES_NODE(refuses_a_dtype_mismatch, E_TYPE, "i = iota i64[seq, 4] axis=0\ny = add x, i",
             "t.ncg:4:5: add: operands are f32[seq, 4] and i64[seq, 4]; their dtypes must be equal")
REFUSES_NODE(refuses_an_overflowing_dimension, E_SHAPE,
             "y = dim 9223372036854775807*seq + 9223372036854775807*seq",
             "t.ncg:3:5: A dimension overflows: the sum of two coefficients does not fit 64 bits.")

/* ---- hostile files: each must be refused, or read, soon ------------------------------------------ */

/* Repeats a piece between two ends. */
static char *repeated(Env *e, const char *head, const char *piece, int times, const char *tail, size_t *len)
{
    Buf b;
    buf_init(&b, &e->model);
    buf_str(&b, head);
    for (int i = 0; i < times; i++) {
        buf_str(&b, piece);
    }
    buf_str(&b, tail);
    *len = b.len;
    return b.at;
}

static void refuse_repeated(const char *head, const char *piece, int times, const char *tail,
                            const char *message)
{
    Env e;
    env_init(&e);
    size_t len;
    char *text = repeated(&e, head, piece, times, tail, &len);
    refuse_bytes(text, len, E_SYNTAX, message);
    env_release(&e);
}

Test(graph_ncg, refuses_a_name_of_a_megabyte)
{
    refuse_repeated("graph ", "n", 1 << 20, "\n",
                    "t.ncg:1:7: the name 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...' has 1048576 bytes; at "
                    "most 256 are allowed.");
}

Test(graph_ncg, refuses_a_quoted_name_of_a_megabyte)
{
    refuse_repeated("graph \"", "n", 1 << 20, "\"\n",
                    "t.ncg:1:7: the name '\"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...' has more than 256 bytes.");
}

Test(graph_ncg, refuses_deep_parentheses)
{
    refuse_repeated("graph g\ny = dim ", "(", 100000, "seq\n",
                    "t.ncg:2:9: parentheses are nested more than 32 deep.");
}

Test(graph_ncg, refuses_too_many_operands)
{
    refuse_repeated("graph g\nx = input f32[2]\ny = concat x", ",x", 1 << 17, " axis=0\n",
                    "t.ncg:3:131084: a node has more than 65536 operands.");
}

Test(graph_ncg, refuses_too_many_statements)
{
    Env e;
    env_init(&e);
    Buf b;
    buf_init(&b, &e.model);
    buf_str(&b, "graph g\n");
    for (int i = 0; i <= 1 << 18; i++) {
        buf_printf(&b, "a%d = const f32[0]\n", i);
    }
    refuse_bytes(b.at, b.len, E_SYNTAX, "t.ncg:262145:1: the graph has more than 262144 statements.");
    env_release(&e);
}

Test(graph_ncg, refuses_files_above_64_mb)
{
    enum { SIZE = (64 << 20) + 1 };
    char *text = malloc(SIZE);
    cr_assert(text);
    memset(text, '#', SIZE);
    refuse_bytes(text, SIZE, E_SYNTAX, "t.ncg:1:1: the file has 67108865 bytes; at most 67108864 are read.");
    free(text);
}

static void parse_at_long_path(Env *e, void *path)
{
    ncg_parse(e, "y = 1", 5, path);
}

Test(graph_ncg, a_long_path_leaves_room_for_the_message)
{
    char path[2000];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = 0;
    Env e;
    env_init(&e);
    cr_assert_not(env_try(&e, parse_at_long_path, path));
    cr_assert_eq(strncmp(e.err.text, "...ppp", 6), 0);
    cr_assert(strstr(e.err.text, "pp:1:1: the first statement must be: graph NAME."));
    env_release(&e);
}

Test(graph_ncg, reads_a_chain_of_fifty_thousand_nodes)
{
    Env e;
    env_init(&e);
    Buf b;
    buf_init(&b, &e.model);
    buf_str(&b, "graph g\na0 = input f32[seq]\n");
    for (int i = 1; i <= 50000; i++) {
        buf_printf(&b, "a%d = neg a%d\n", i, i - 1);
    }
    buf_str(&b, "return out=a50000\n");
    cr_assert_eq(parsed(&e, b.at)->nodes.n, 50001);
    env_release(&e);
}

/* ---- every input that ever broke anything --------------------------------------------------------- */

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
    bool ok = env_try(&e, parse, &t);
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
