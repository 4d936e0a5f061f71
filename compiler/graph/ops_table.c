/* ops_table.c - ops.h as the markdown table of docs/ops.md, so that the page cannot fall behind
 * the list. Rules are shown by the sentence that ops.h gives for each. */
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
    const char *name;
} attr_text[] = {
    {A_NAME, "name"},   {A_TYPE, "dtype, shape"}, {A_VALUE, "value"},
    {A_AXIS, "axis"},   {A_EXPR, "expr"},         {A_DTYPE, "dtype"},
    {A_SHAPE, "shape"}, {A_PERM, "perm"},         {A_RANGE, "start, stop"},
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

void ops_table(Buf *out)
{
    buf_str(out, "| op | family | operands | attributes | dtype | shape | meaning |\n"
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
