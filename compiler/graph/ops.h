/* ops.h - the 26 primitives, and two rows that are none: `input` declares an argument, and `update`,
 * behind them, is what the cache pass makes of the KV cache's concat. One row is one operation and all
 * there is to say of it. The enum, the constructor's checks, the interpreter, lowering, the text form
 * and docs/ops.md are all expanded from this list. To add an operation: a row here, and where no
 * existing rule or evaluation fits, one function in rules.c or eval.c. */

/* clang-format off */
/*   id          name           family  arity dtype rule     shape rule   attributes      evaluation  scalar op   meaning */
#define GRAPH_OPS(X)                                                                                                      \
    X(INPUT,      "input",      LEAF,   0, from_attr,      from_attr,   A_NAME | A_TYPE, leaf,       NONE,       "a tensor given to every run; its plain symbolic dims bind the symbols") \
    X(WEIGHT,     "weight",     LEAF,   0, from_attr,      concrete,    A_NAME | A_TYPE | A_FROM, leaf, NONE,   "a named parameter, the same for every run") \
    X(CONST,      "const",      LEAF,   0, from_attr,      concrete,    A_VALUE,         constant,   NONE,       "an array known when the graph is built") \
    X(IOTA,       "iota",       LEAF,   0, numeric_attr,   iota_axis,   A_TYPE | A_AXIS, iota,       NONE,       "0, 1, 2 ... along an axis, repeated on the others") \
    X(DIM,        "dim",        LEAF,   0, always_i64,     scalar,      A_EXPR,          dim,        NONE,       "the run-time value of a symbolic dimension") \
    X(ADD,        "add",        ELEM,   2, same_numeric,   same,        0,               scalar,     ADD,        "a + b; integers wrap") \
    X(SUB,        "sub",        ELEM,   2, same_numeric,   same,        0,               scalar,     SUB,        "a - b; integers wrap") \
    X(MUL,        "mul",        ELEM,   2, same_numeric,   same,        0,               scalar,     MUL,        "a * b; integers wrap") \
    X(DIV,        "div",        ELEM,   2, same_float,     same,        0,               scalar,     DIV,        "a / b, floats only") \
    X(LESS_EQUAL, "less_equal", ELEM,   2, compared,       same,        0,               scalar,     LE,         "a <= b as bool; false if either is NaN") \
    X(WHERE,      "where",      ELEM,   3, chosen,         same,        0,               where,      NONE,       "a where the condition holds, else b; selects bits") \
    X(NEG,        "neg",        ELEM,   1, same_numeric,   same,        0,               scalar,     NEG,        "-a; integers wrap") \
    X(EXP,        "exp",        ELEM,   1, same_float,     same,        0,               scalar,     EXP,        "e to the a") \
    X(SQRT,       "sqrt",       ELEM,   1, same_float,     same,        0,               scalar,     SQRT,       "square root") \
    X(RECIPROCAL, "reciprocal", ELEM,   1, same_float,     same,        0,               scalar,     RECIPROCAL, "1 / a") \
    X(SIN,        "sin",        ELEM,   1, same_float,     same,        0,               scalar,     SIN,        "sine, radians") \
    X(COS,        "cos",        ELEM,   1, same_float,     same,        0,               scalar,     COS,        "cosine, radians") \
    X(CAST,       "cast",       ELEM,   1, from_attr,      same,        A_DTYPE,         cast,       NONE,       "to another dtype; f32 to int truncates toward zero and saturates") \
    X(REDUCE_SUM, "reduce_sum", REDUCE, 1, same_numeric,   reduced,     A_AXIS,          reduce_sum, ADD,        "sum along one axis in index order; the axis becomes 1") \
    X(REDUCE_MAX, "reduce_max", REDUCE, 1, same_numeric,   reduced,     A_AXIS,          reduce_max, NONE,       "maximum along one axis, NaN propagates; the axis becomes 1") \
    X(RESHAPE,    "reshape",    MOVE,   1, same_any,       reshaped,    A_SHAPE,         reshape,    NONE,       "the same elements in row-major order under another shape") \
    X(PERMUTE,    "permute",    MOVE,   1, same_any,       permuted,    A_PERM,          permute,    NONE,       "axes in another order") \
    X(BROADCAST,  "broadcast",  MOVE,   1, same_any,       broadcasted, A_SHAPE,         broadcast,  NONE,       "axes of size 1 repeated to another size") \
    X(SLICE,      "slice",      MOVE,   1, same_any,       sliced,      A_AXIS | A_RANGE, slice,     NONE,       "indices start .. stop - 1 of one axis") \
    X(CONCAT,     "concat",     MOVE,  -1, same_any,       joined,      A_AXIS,          concat,     NONE,       "operands one after another along one axis") \
    X(MATMUL,     "matmul",     MATMUL, 2, same_float,     contracted,  0,               matmul,     NONE,       "sum over k of a[.., m, k] * b[.., k, n] in index order") \
    X(GATHER,     "gather",     GATHER, 2, gathered,       gathered,    0,               gather,     NONE,       "rows of a table by integer ids") \
    X(UPDATE,     "update",     MOVE,   2, same_any,       updated,     A_AT,            update,     NONE,       "the buffer with the value written over it from the offsets on")

/* The rules that the two columns above name; rules.c defines rule_dtype_NAME and rule_shape_NAME. */
#define DTYPE_RULES(X)                                                                            \
    X(from_attr,    "the attribute")                                                              \
    X(numeric_attr, "the attribute: f32, i64, i32 or i8")                                         \
    X(always_i64,   "i64")                                                                        \
    X(same_any,     "the operands' common dtype")                                                 \
    X(same_numeric, "the operands' common dtype, not bool")                                       \
    X(same_float,   "the operands' common dtype, f32")                                            \
    X(compared,     "bool; the operands have a common dtype, not bool")                           \
    X(chosen,       "the common dtype of a and b; the condition is bool")                         \
    X(gathered,     "the table's; the ids are of any integer dtype")

#define SHAPE_RULES(X)                                                                            \
    X(from_attr,   "the attribute")                                                               \
    X(concrete,    "the attribute, without symbols")                                              \
    X(iota_axis,   "the attribute, which has the axis")                                           \
    X(scalar,      "[]")                                                                          \
    X(same,        "the operands' common shape")                                                  \
    X(reduced,     "the operand's, with 1 at the axis")                                           \
    X(reshaped,    "the attribute, which has as many elements")                                   \
    X(permuted,    "axis i is the operand's axis perm[i]")                                        \
    X(broadcasted, "the attribute, of the same rank; each axis equal or 1 in the operand")        \
    X(sliced,      "the operand's, with stop - start at the axis")                                \
    X(joined,      "sizes along the axis added, all other axes equal")                            \
    X(contracted,  "[.., m, n] from [.., m, k] and [.., k, n], whose leading axes are equal")     \
    X(gathered,    "the ids' shape, then the table's without its first axis")                     \
    X(updated,     "the buffer's; the value fits into it at the offsets")
/* clang-format on */
