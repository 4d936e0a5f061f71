/* ops_table.c - ops.h as the page docs/ops.md, so that it cannot fall behind the list: how a
 * statement is written, and a row an operation. Rules are shown by the sentence that ops.h gives
 * for each. */
#include "graph/graph.h"

enum {
#define X(name, text) DTYPE_RULE_##name,
    DTYPE_RULES(X)
#undef X
};
enum {
#define X(name, text) SHAPE_RULE_##name,
    SHAPE_RULES(X)
#undef X
};

static const char *const dtype_rule_text[] = {
#define X(name, text) [DTYPE_RULE_##name] = text,
    DTYPE_RULES(X)
#undef X
};
static const char *const shape_rule_text[] = {
#define X(name, text) [SHAPE_RULE_##name] = text,
    SHAPE_RULES(X)
#undef X
};

static const char *const family_text[] = {
    [FAMILY_LEAF] = "leaf",     [FAMILY_ELEM] = "elementwise", [FAMILY_REDUCE] = "reduction",
    [FAMILY_MOVE] = "movement", [FAMILY_MATMUL] = "matmul",    [FAMILY_GATHER] = "gather",
};

static const char *const arity_text[] = {"1 or more", "0", "1", "2", "3"}; /* by arity + 1 */

static const struct {
    unsigned attr; /* A_* */
    const char *name, *written;
} attr_text[] = {
    {A_NAME, "name", "`\"any text\"`, or left out: the statement's own name"},
    {A_TYPE, "dtype, shape", "`f32[seq, 4]`, `i64[]`"},
    {A_VALUE, "value", "`f32[2, 2] 1, -0.5, 1e-6, inf`, `bool[2] true, false`"},
    {A_EXPR, "expr", "`past + 2*seq - 1`"},
    {A_AXIS, "axis", "`axis=0`; `axis=-1` is the last"},
    {A_DTYPE, "dtype", "`dtype=i32`"},
    {A_SHAPE, "shape", "`shape=[seq, 2, 8]`"},
    {A_PERM, "perm", "`perm=[1, 0, 2]`"},
    {A_RANGE, "start, stop", "`start=0 stop=seq - 1`"},
    {A_AT, "at", "`at=[0, past]`"},
    {A_FROM, "from", "`from=bf16`, or left out: the values were widened from bfloat16"},
};

static const struct {
    int dtype, shape;
} rule[N_OPS] = {
#define X(id, name, family, arity, dtype_rule, shape_rule, ...) \
    [OP_##id] = {DTYPE_RULE_##dtype_rule, SHAPE_RULE_##shape_rule},
    GRAPH_OPS(X)
#undef X
};

static void put_attributes(unsigned attrs, Buf *out)
{
    const char *between = "";
    for (size_t i = 0; i < countof(attr_text); i++) {
        if (attrs & attr_text[i].attr) {
            buf_printf(out, "%s%s", between, attr_text[i].name);
            between = ", ";
        }
    }
}

/* What the page says before its tables. */
static const char ops_intro[] = "# The operations of a graph\n\n"
                                "Printed by `nanocompile dump ops` from "
                                "`compiler/graph/ops.h`. There are 26 primitives. Two\n"
                                "rows are none of them: `input`, which declares an argument, "
                                "and `update`, which the cache pass adds. Dtypes\n"
                                "are f32, i64, i32, i8 and bool. A size is an integer or a "
                                "polynomial in symbols, and every symbol must be\n"
                                "the whole size of some axis of an input.\n\n"
                                "In a `.ncg` file a statement is `NAME = OP OPERAND, ... "
                                "ATTRIBUTE ...`, one a line, each after those it\n"
                                "uses; the file begins with `graph NAME` and ends with `return "
                                "NAME=OPERAND, ...`. `#` begins a comment.\n\n";

static void put_attribute_table(Buf *out)
{
    buf_str(out, "| attribute | is written |\n|---|---|\n");
    for (size_t i = 0; i < countof(attr_text); i++) {
        buf_printf(out, "| %s | %s |\n", attr_text[i].name, attr_text[i].written);
    }
}

void ops_table(Buf *out)
{
    buf_str(out, ops_intro);
    put_attribute_table(out);
    buf_str(out, "\n| op | family | operands | attributes | dtype | shape | meaning |\n"
                 "|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < N_OPS; i++) {
        const OpInfo *info = &op_info[i];
        buf_printf(out, "| %s | %s | %s | ", info->name, family_text[info->family],
                   arity_text[info->arity + 1]);
        put_attributes(info->attrs, out);
        buf_printf(out, " | %s | %s | %s |\n", dtype_rule_text[rule[i].dtype],
                   shape_rule_text[rule[i].shape], info->meaning);
    }
}
