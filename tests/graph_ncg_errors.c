/* The text form's errors: each kind of mistake has its own message, which says where; hostile
 * files are refused soon. */
#include "ncg_util.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* ---- mistakes ----------------------------------------------------------- */

static void refuse_bytes(const char *text, size_t len, ErrCode code, const char *message)
{
    Env e;
    env_init(&e);
    Text t = {.at = text, .len = len};
    cr_assert_not(env_try(&e, parse_text, &t), "it was accepted");
    cr_assert_str_eq(e.err.text, message);
    cr_assert_eq(e.err.code, code);
    env_release(&e);
}

/* A test that a text is refused as E_SYNTAX. */
#define REFUSES(name, text, message)                             \
    Test(graph_ncg_errors, name)                                 \
    {                                                            \
        refuse_bytes(text, sizeof(text) - 1, E_SYNTAX, message); \
    }

/* A statement in line 4 of an otherwise good file. */
#define REFUSES_LINE(name, line, message)                                                 \
    REFUSES(name,                                                                         \
            "graph g\nx = input f32[seq, 4]\nids = input i64[seq]\n" line "\nreturn x\n", \
            message)

REFUSES(refuses_an_empty_file, "", "t.ncg:1:1: the file has no statement: graph NAME.")
REFUSES(refuses_a_file_of_comments, "# only\n#this\n",
        "t.ncg:3:1: the file has no statement: graph NAME.")
REFUSES(refuses_a_missing_graph_statement, "x = input f32[2]\n",
        "t.ncg:1:1: the first statement must be: graph NAME.")
REFUSES(refuses_a_graph_without_a_name, "graph\n",
        "t.ncg:1:6: expected the graph's name, found the end of the line.")
REFUSES(refuses_two_graphs, "graph g\ngraph h\n",
        "t.ncg:2:1: the file holds more than one graph.")
REFUSES(refuses_a_missing_return, "graph g\nx = input f32[2]",
        "t.ncg:2:1: the graph ends without a return statement.")
REFUSES(refuses_statements_behind_return, "graph g\nx = input f32[2]\nreturn x\ny = neg x\n",
        "t.ncg:4:1: nothing may follow the return statement.")
REFUSES(refuses_nul_bytes, "graph g\nx = in\0put f32[2]\n",
        "t.ncg:2:1: the line holds a NUL byte, so this is not a text file.")

REFUSES_LINE(refuses_what_is_no_statement, "= x",
             "t.ncg:4:1: expected a statement: NAME = OPERATION ..., graph NAME or return "
             "NAME=NODE, ..., "
             "found '='.")
REFUSES_LINE(refuses_bytes_that_are_not_ascii, "\xff\xfe = neg x",
             "t.ncg:4:1: expected a statement: NAME = OPERATION ..., graph NAME or return "
             "NAME=NODE, ..., "
             "found '\\xff'.")
REFUSES_LINE(refuses_a_missing_equals_sign, "y neg x", "t.ncg:4:3: expected '=', found 'neg'.")
REFUSES_LINE(refuses_a_missing_operation,
             "y =", "t.ncg:4:4: expected an operation, found the end of the line.")
REFUSES_LINE(refuses_an_unknown_operation, "y = frobnicate x",
             "t.ncg:4:5: there is no operation 'frobnicate'.")
REFUSES_LINE(guesses_a_misspelt_operation, "y = matmull x, x",
             "t.ncg:4:5: there is no operation 'matmull'; did you mean 'matmul'?")
REFUSES_LINE(refuses_an_unknown_name, "y = neg q",
             "t.ncg:4:9: nothing is called 'q' up to here.")
REFUSES_LINE(guesses_a_misspelt_name, "y = gather x, idz",
             "t.ncg:4:15: nothing is called 'idz' up to here; did you mean 'ids'?")
REFUSES_LINE(refuses_use_before_definition, "y = neg z\nw = neg x\nz = neg x",
             "t.ncg:4:9: 'z' is used before its definition on line 6.")
REFUSES_LINE(refuses_a_cycle, "y = neg z\nz = neg y",
             "t.ncg:4:9: 'z' is used before its definition on line 5.")
REFUSES_LINE(refuses_a_node_of_itself, "y = neg y",
             "t.ncg:4:9: 'y' is used in its own definition.")
REFUSES_LINE(refuses_a_second_definition, "x = neg x",
             "t.ncg:4:1: 'x' is already defined on line 2.")
REFUSES_LINE(refuses_an_unknown_attribute, "y = neg x axis=0",
             "t.ncg:4:11: neg has no attribute 'axis'.")
REFUSES_LINE(guesses_a_misspelt_attribute, "y = reduce_sum x axes=0",
             "t.ncg:4:18: reduce_sum has no attribute 'axes'; did you mean 'axis'?")
REFUSES_LINE(refuses_a_missing_attribute, "y = slice x axis=0 start=0",
             "t.ncg:4:27: slice needs the attribute stop=.")
REFUSES_LINE(refuses_an_attribute_twice, "y = reduce_sum x axis=0 axis=1",
             "t.ncg:4:25: the attribute axis is given twice.")
REFUSES_LINE(refuses_an_attribute_for_an_operand, "y = reduce_sum axis=0",
             "t.ncg:4:16: expected an operand, found the attribute 'axis'.")
REFUSES_LINE(refuses_a_missing_operand, "y = neg",
             "t.ncg:4:8: expected the name of a node, found the end of the "
             "line.")
REFUSES_LINE(refuses_a_trailing_comma, "y = add x,",
             "t.ncg:4:11: expected the name of a node, found the end of "
             "the line.")
REFUSES_LINE(refuses_trailing_text, "y = neg x x",
             "t.ncg:4:11: expected an attribute or the end of the line, found 'x'.")
REFUSES_LINE(refuses_trailing_text_behind_an_expression, "y = dim seq seq",
             "t.ncg:4:13: expected an attribute or the end of the line, found 'seq'.")
REFUSES_LINE(refuses_an_unknown_dtype, "y = cast x dtype=f64",
             "t.ncg:4:18: there is no dtype 'f64'; did you mean "
             "'i64'?")
REFUSES_LINE(refuses_a_word_for_an_axis, "y = reduce_sum x axis=last",
             "t.ncg:4:23: expected an axis, such as 0 or -1, found 'last'.")
REFUSES_LINE(refuses_a_huge_axis, "y = reduce_sum x axis=99999999999999999999999",
             "t.ncg:4:23: expected an axis, such as 0 or -1, found '99999999999999999999999'.")
REFUSES_LINE(refuses_a_bad_permutation_list, "y = permute x perm=[0 1]",
             "t.ncg:4:23: expected ',', found '1'.")
REFUSES_LINE(refuses_a_long_permutation, "y = permute x perm=[0, 1, 2, 3, 4, 5, 6, 7, 8]",
             "t.ncg:4:44: a permutation has more than 8 axes.")
REFUSES_LINE(refuses_a_shape_without_brackets, "y = reshape x shape=8",
             "t.ncg:4:21: expected '[', found '8'.")
REFUSES_LINE(refuses_an_open_shape, "y = iota i64[4 axis=0",
             "t.ncg:4:16: expected ',', found 'axis'.")
REFUSES_LINE(refuses_nine_axes, "y = reshape x shape=[1, 1, 1, 1, 1, 1, 1, 1, 1]",
             "t.ncg:4:45: a shape has more than 8 axes.")
REFUSES_LINE(
    refuses_an_unfinished_expression, "y = dim seq +",
    "t.ncg:4:9: expected a number, a symbol or '(' in a dimension, found the end of the line.")
REFUSES_LINE(refuses_a_huge_integer, "y = dim 99999999999999999999",
             "t.ncg:4:9: an integer does not fit 64 bits.")
REFUSES_LINE(
    refuses_an_input_with_only_a_number, "%5 = input f32[2]",
    "t.ncg:4:12: expected a name in quotes, since the node has only a number, found 'f32'.")
REFUSES_LINE(refuses_an_open_name, "y = input \"q f32[2]",
             "t.ncg:4:11: the name '\"q f32[2]' has no closing "
             "quote.")
REFUSES_LINE(refuses_an_empty_name, "y = input \"\" f32[2]",
             "t.ncg:4:11: a name must not be empty.")
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
             "t.ncg:4:34: the constant has 1 value, but its shape [1000000, 1000000] has "
             "1000000000000 elements.")
REFUSES_LINE(refuses_a_value_too_large_for_f32, "y = const f32[] 1e39",
             "t.ncg:4:17: expected a value of dtype f32, found '1e39'.")
REFUSES_LINE(refuses_hexadecimal_floats, "y = const f32[] 0x10",
             "t.ncg:4:17: expected a value of dtype f32, found "
             "'0x10'.")
REFUSES_LINE(refuses_a_nan_that_is_none, "y = const f32[] nan:0x7f800000",
             "t.ncg:4:17: expected a value of dtype f32, found 'nan'.")
REFUSES_LINE(refuses_a_value_too_large_for_i8, "y = const i8[] 128",
             "t.ncg:4:16: expected a value of dtype i8, found '128'.")
REFUSES_LINE(refuses_a_value_too_large_for_i64, "y = const i64[] 9223372036854775808",
             "t.ncg:4:17: expected a value of dtype i64, found '9223372036854775808'.")
REFUSES_LINE(refuses_a_number_for_a_bool, "y = const bool[] 1",
             "t.ncg:4:18: expected a value of dtype bool, found "
             "'1'.")
REFUSES_LINE(refuses_a_fraction_for_an_int, "y = const i32[] 1.5",
             "t.ncg:4:17: expected a value of dtype i32, "
             "found '1.5'.")

REFUSES(refuses_an_output_with_only_a_number, "graph g\n%0 = input \"x\" f32[2]\nreturn %0\n",
        "t.ncg:3:8: expected an output, NAME=NODE, found '%0'.")
REFUSES(refuses_an_empty_return, "graph g\nx = input f32[2]\nreturn\n",
        "t.ncg:3:7: expected an output, NAME=NODE, found the end of the line.")

/* Errors of construction keep their code and get the place of the operation or statement. */
#define REFUSES_NODE(name, code, line, message)                                  \
    Test(graph_ncg_errors, name)                                                 \
    {                                                                            \
        static const char text[] = "graph g\nx = input f32[seq, 4]\n" line "\n"; \
        refuse_bytes(text, sizeof text - 1, code, message);                      \
    }

REFUSES_NODE(refuses_a_wrong_number_of_operands, E_SHAPE, "y = add x",
             "t.ncg:3:5: add: takes 2 operands, not 1")
REFUSES_NODE(refuses_a_shape_mismatch, E_SHAPE, "y = matmul x, x",
             "t.ncg:3:5: matmul: operands are f32[seq, 4] and f32[seq, 4]; their inner "
             "dimensions must be equal")
REFUSES_NODE(
    refuses_a_dtype_mismatch, E_TYPE, "i = iota i64[seq, 4] axis=0\ny = add x, i",
    "t.ncg:4:5: add: operands are f32[seq, 4] and i64[seq, 4]; their dtypes must be equal")
REFUSES_NODE(
    refuses_an_overflowing_dimension, E_SHAPE,
    "y = dim 9223372036854775807*seq + 9223372036854775807*seq",
    "t.ncg:3:5: A dimension overflows: the sum of two coefficients does not fit 64 bits.")

/* ---- hostile files: each must be refused, or read, soon ----------------- */

/* Repeats a piece between two ends. */
static char *repeated(Env *e, const char *head, const char *piece, int times, const char *tail,
                      size_t *len)
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

Test(graph_ncg_errors, refuses_a_name_of_a_megabyte)
{
    refuse_repeated("graph ", "n", 1 << 20, "\n",
                    "t.ncg:1:7: the name 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...' has "
                    "1048576 bytes; at "
                    "most 256 are allowed.");
}

Test(graph_ncg_errors, refuses_a_quoted_name_of_a_megabyte)
{
    refuse_repeated("graph \"", "n", 1 << 20, "\"\n",
                    "t.ncg:1:7: the name '\"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...' has "
                    "more than 256 bytes.");
}

Test(graph_ncg_errors, refuses_deep_parentheses)
{
    refuse_repeated("graph g\ny = dim ", "(", 100000, "seq\n",
                    "t.ncg:2:9: parentheses are nested more than 32 deep.");
}

Test(graph_ncg_errors, refuses_too_many_operands)
{
    refuse_repeated("graph g\nx = input f32[2]\ny = concat x", ",x", 1 << 17, " axis=0\n",
                    "t.ncg:3:131084: a node has more than 65536 operands.");
}

Test(graph_ncg_errors, refuses_too_many_statements)
{
    Env e;
    env_init(&e);
    Buf b;
    buf_init(&b, &e.model);
    buf_str(&b, "graph g\n");
    for (int i = 0; i <= 1 << 18; i++) {
        buf_printf(&b, "a%d = const f32[0]\n", i);
    }
    refuse_bytes(b.at, b.len, E_SYNTAX,
                 "t.ncg:262145:1: the graph has more than 262144 statements.");
    env_release(&e);
}

Test(graph_ncg_errors, refuses_files_above_64_mb)
{
    enum { SIZE = (64 << 20) + 1 };
    char *text = malloc(SIZE);
    cr_assert(text);
    memset(text, '#', SIZE);
    refuse_bytes(text, SIZE, E_SYNTAX,
                 "t.ncg:1:1: the file has 67108865 bytes; at most 67108864 are read.");
    free(text);
}

static void parse_at_long_path(Env *e, void *path)
{
    ncg_parse(e, "y = 1", 5, path);
}

Test(graph_ncg_errors, a_long_path_leaves_room_for_the_message)
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

Test(graph_ncg_errors, reads_a_chain_of_fifty_thousand_nodes)
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
