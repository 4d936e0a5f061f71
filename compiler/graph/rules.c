/* rules.c - what type a node has: one function for each dtype rule and shape rule of ops.h, and
 * op_info, the rows of ops.h as data.
 *
 * A rule reads a node's operands and attributes and returns what follows from them, or fails:
 * E_TYPE where dtypes are wrong, E_SHAPE where shapes, axes or the number of operands are. Each
 * message starts with the op and names the types it met. The constructor and the validator both
 * come through node_infer, so no pass can leave a type that construction would refuse. */
#include "graph/graph.h"

#include <string.h>

#define misfit(e, n, code, fmt, ...) \
    fail(e, code, "%s: " fmt, op_info[(n)->op].name, __VA_ARGS__)

static const char *attr_shape_text(Env *e, const Node *n)
{
    return shape_text(e, &n->attr.shape);
}

/* ---- dtype rules ---------------------------------------- */

static Dtype rule_dtype_from_attr(Env *e, const Node *n)
{
    if ((unsigned)n->attr.dtype >= N_DTYPES) {
        misfit(e, n, E_TYPE, "there is no dtype with number %d", (int)n->attr.dtype);
    }
    if (n->attr.from_bf16 && n->attr.dtype != DT_F32) {
        misfit(e, n, E_TYPE, "only f32 can be widened from bf16, not %s",
               dtype_name(n->attr.dtype));
    }
    return n->attr.dtype;
}

static Dtype rule_dtype_numeric_attr(Env *e, const Node *n)
{
    Dtype t = rule_dtype_from_attr(e, n);
    if (!dtype_numeric(t)) {
        misfit(e, n, E_TYPE, "dtype %s is not numeric", dtype_name(t));
    }
    return t;
}

static Dtype rule_dtype_always_i64(Env *e, const Node *n)
{
    (void)e, (void)n;
    return DT_I64;
}

static Dtype rule_dtype_same_any(Env *e, const Node *n)
{
    for (int i = 1; i < n->n_in; i++) {
        if (n->in[i]->dtype != n->in[0]->dtype) {
            misfit(e, n, E_TYPE, "operands are %s and %s; their dtypes must be equal",
                   node_type_text(e, n->in[0]), node_type_text(e, n->in[i]));
        }
    }
    return n->in[0]->dtype;
}

static Dtype rule_dtype_same_numeric(Env *e, const Node *n)
{
    Dtype t = rule_dtype_same_any(e, n);
    if (!dtype_numeric(t)) {
        misfit(e, n, E_TYPE, "operand is %s; it must be numeric, not bool",
               node_type_text(e, n->in[0]));
    }
    return t;
}

static Dtype rule_dtype_same_float(Env *e, const Node *n)
{
    Dtype t = rule_dtype_same_any(e, n);
    if (dtype_class(t) != CLASS_FLOAT) {
        misfit(e, n, E_TYPE, "operand is %s; it must be floating point",
               node_type_text(e, n->in[0]));
    }
    return t;
}

static Dtype rule_dtype_compared(Env *e, const Node *n)
{
    rule_dtype_same_numeric(e, n);
    return DT_BOOL;
}

static Dtype rule_dtype_chosen(Env *e, const Node *n)
{
    const Node *cond = n->in[0], *a = n->in[1], *b = n->in[2];
    if (cond->dtype != DT_BOOL) {
        misfit(e, n, E_TYPE, "condition is %s; it must be bool", node_type_text(e, cond));
    }
    if (a->dtype != b->dtype) {
        misfit(e, n, E_TYPE, "branches are %s and %s; their dtypes must be equal",
               node_type_text(e, a), node_type_text(e, b));
    }
    return a->dtype;
}

static Dtype rule_dtype_gathered(Env *e, const Node *n)
{
    const Node *table = n->in[0], *ids = n->in[1];
    if (dtype_class(ids->dtype) != CLASS_INT) {
        misfit(e, n, E_TYPE, "ids are %s; they must be integers", node_type_text(e, ids));
    }
    return table->dtype;
}

/* ---- shape rules ---------------------------------------- */

static Shape rule_shape_from_attr(Env *e, const Node *n)
{
    const Shape *s = &n->attr.shape;
    if (s->rank < 0 || s->rank > MAX_RANK) {
        misfit(e, n, E_SHAPE, "rank %d is not within 0..%d", s->rank, MAX_RANK);
    }
    for (int i = 0; i < s->rank; i++) {
        if (dim_is_const(s->dim[i]) && s->dim[i].k < 0) {
            misfit(e, n, E_SHAPE, "shape %s has a negative dimension", attr_shape_text(e, n));
        }
    }
    return *s;
}

static Shape rule_shape_concrete(Env *e, const Node *n)
{
    Shape s = rule_shape_from_attr(e, n);
    for (int i = 0; i < s.rank; i++) {
        if (!dim_is_const(s.dim[i])) {
            misfit(e, n, E_SHAPE, "shape %s has symbols; it must be concrete",
                   attr_shape_text(e, n));
        }
    }
    return s;
}

static Shape rule_shape_iota_axis(Env *e, const Node *n)
{
    Shape s = rule_shape_from_attr(e, n);
    axis_of(e, n, s.rank);
    return s;
}

static Shape rule_shape_scalar(Env *e, const Node *n)
{
    (void)e, (void)n;
    return shape_of(0, NULL);
}

static Shape rule_shape_same(Env *e, const Node *n)
{
    for (int i = 1; i < n->n_in; i++) {
        if (!shape_eq(&n->in[0]->shape, &n->in[i]->shape)) {
            misfit(e, n, E_SHAPE, "operands have shapes %s and %s; they must be equal",
                   node_type_text(e, n->in[0]), node_type_text(e, n->in[i]));
        }
    }
    return n->in[0]->shape;
}

static Shape rule_shape_reduced(Env *e, const Node *n)
{
    Shape s = n->in[0]->shape;
    int axis = axis_of(e, n, s.rank);
    if (n->op == OP_REDUCE_MAX && dim_is(s.dim[axis], 0)) {
        misfit(e, n, E_SHAPE, "axis %d of %s is empty and has no maximum", axis,
               node_type_text(e, n->in[0]));
    }
    s.dim[axis] = dim_int(1);
    return s;
}

static Shape rule_shape_reshaped(Env *e, const Node *n)
{
    Shape to = rule_shape_from_attr(e, n);
    const Shape *from = &n->in[0]->shape;
    Dim n_from = shape_count(e, from), n_to = shape_count(e, &to);
    if (!dim_eq(n_from, n_to)) {
        misfit(e, n, E_SHAPE, "%s has %s elements and cannot become %s with %s",
               node_type_text(e, n->in[0]), dim_text(e, n_from), attr_shape_text(e, n),
               dim_text(e, n_to));
    }
    return to;
}

static const char *perm_text(Env *e, const Node *n)
{
    Buf b;
    buf_init(&b, &e->kernel);
    for (int i = 0; i < n->attr.n_perm && i < MAX_RANK; i++) {
        buf_printf(&b, "%s%d", i ? ", " : "", n->attr.perm[i]);
    }
    return b.at;
}

static Shape rule_shape_permuted(Env *e, const Node *n)
{
    const Shape *from = &n->in[0]->shape;
    Shape s = {.rank = from->rank};
    bool seen[MAX_RANK] = {false};
    bool ok = n->attr.n_perm == from->rank;
    for (int i = 0; ok && i < from->rank; i++) {
        int axis = n->attr.perm[i];
        ok = axis >= 0 && axis < from->rank && !seen[axis];
        if (ok) {
            seen[axis] = true;
            s.dim[i] = from->dim[axis];
        }
    }
    if (!ok) {
        misfit(e, n, E_SHAPE, "(%s) is not a permutation of the %d axes of %s", perm_text(e, n),
               from->rank, node_type_text(e, n->in[0]));
    }
    return s;
}

static Shape rule_shape_broadcasted(Env *e, const Node *n)
{
    Shape to = rule_shape_from_attr(e, n);
    const Shape *from = &n->in[0]->shape;
    if (from->rank != to.rank) {
        misfit(e, n, E_SHAPE, "%s cannot become %s, which has another rank; reshape first",
               node_type_text(e, n->in[0]), attr_shape_text(e, n));
    }
    for (int i = 0; i < to.rank; i++) {
        if (!dim_eq(from->dim[i], to.dim[i]) && !dim_is(from->dim[i], 1)) {
            misfit(e, n, E_SHAPE, "%s cannot become %s; axis %d is neither equal nor 1",
                   node_type_text(e, n->in[0]), attr_shape_text(e, n), i);
        }
    }
    return to;
}

static bool is_negative(Dim d)
{
    return dim_is_const(d) && d.k < 0;
}

/* What cannot be decided here becomes a SizeCheck of the graph. */
static Shape rule_shape_sliced(Env *e, const Node *n)
{
    Shape s = n->in[0]->shape;
    int axis = axis_of(e, n, s.rank);
    Dim start = n->attr.start, stop = n->attr.stop;
    Dim length = dim_sub(e, stop, start);
    if (is_negative(start)) {
        misfit(e, n, E_SHAPE, "start %s is negative", dim_text(e, start));
    }
    if (is_negative(length)) {
        misfit(e, n, E_SHAPE, "stop %s is before start %s", dim_text(e, stop),
               dim_text(e, start));
    }
    if (is_negative(dim_sub(e, s.dim[axis], stop))) {
        misfit(e, n, E_SHAPE, "stop %s is past the end of axis %d of %s", dim_text(e, stop),
               axis, node_type_text(e, n->in[0]));
    }
    s.dim[axis] = length;
    return s;
}

static bool joinable(const Shape *a, const Shape *b, int axis)
{
    for (int i = 0; i < a->rank; i++) {
        if (i != axis && !dim_eq(a->dim[i], b->dim[i])) {
            return false;
        }
    }
    return true;
}

static Shape rule_shape_joined(Env *e, const Node *n)
{
    Shape s = n->in[0]->shape;
    int axis = axis_of(e, n, s.rank);
    for (int i = 1; i < n->n_in; i++) {
        const Shape *next = &n->in[i]->shape;
        if (next->rank != s.rank) {
            misfit(e, n, E_SHAPE, "operands %s and %s differ in rank",
                   node_type_text(e, n->in[0]), node_type_text(e, n->in[i]));
        }
        if (!joinable(&s, next, axis)) {
            misfit(e, n, E_SHAPE, "operands %s and %s differ outside axis %d",
                   node_type_text(e, n->in[0]), node_type_text(e, n->in[i]), axis);
        }
        s.dim[axis] = dim_add(e, s.dim[axis], next->dim[axis]);
    }
    return s;
}

static Shape rule_shape_contracted(Env *e, const Node *n)
{
    const Shape *a = &n->in[0]->shape, *b = &n->in[1]->shape;
    const char *why = NULL;
    int rank = a->rank;
    if (a->rank < 2 || b->rank < 2) {
        why = "both need at least two axes";
    } else if (a->rank != b->rank) {
        why = "their ranks must be equal";
    } else if (!dim_eq(a->dim[rank - 1], b->dim[rank - 2])) {
        why = "their inner dimensions must be equal";
    }
    for (int i = 0; !why && i < rank - 2; i++) {
        if (!dim_eq(a->dim[i], b->dim[i])) {
            why = "their batch dimensions must be equal, and are not broadcast";
        }
    }
    if (why) {
        misfit(e, n, E_SHAPE, "operands are %s and %s; %s", node_type_text(e, n->in[0]),
               node_type_text(e, n->in[1]), why);
    }
    Shape s = *a;
    s.dim[rank - 1] = b->dim[rank - 1];
    return s;
}

static Shape rule_shape_gathered(Env *e, const Node *n)
{
    const Shape *table = &n->in[0]->shape, *ids = &n->in[1]->shape;
    if (table->rank == 0) {
        misfit(e, n, E_SHAPE, "table is %s, which has no rows", node_type_text(e, n->in[0]));
    }
    Shape s = *ids;
    s.rank = ids->rank + table->rank - 1;
    if (s.rank > MAX_RANK) {
        misfit(e, n, E_SHAPE, "rows of %s by ids %s have rank %d; at most %d is possible",
               node_type_text(e, n->in[0]), node_type_text(e, n->in[1]), s.rank, MAX_RANK);
    }
    for (int i = 1; i < table->rank; i++) {
        s.dim[ids->rank + i - 1] = table->dim[i];
    }
    return s;
}

static void check_place(Env *e, const Node *n, int axis)
{
    const Node *buffer = n->in[0], *value = n->in[1];
    Dim start = n->attr.at.dim[axis];
    Dim stop = dim_add(e, start, value->shape.dim[axis]);
    if (is_negative(start)) {
        misfit(e, n, E_SHAPE, "the offset %s on axis %d is negative", dim_text(e, start), axis);
    }
    if (is_negative(dim_sub(e, buffer->shape.dim[axis], stop))) {
        misfit(e, n, E_SHAPE, "%s at the offset %s goes past the end of axis %d of %s",
               node_type_text(e, value), dim_text(e, start), axis, node_type_text(e, buffer));
    }
}

/* As for a slice: what cannot be decided here becomes a SizeCheck. */
static Shape rule_shape_updated(Env *e, const Node *n)
{
    const Shape *buffer = &n->in[0]->shape, *value = &n->in[1]->shape, *at = &n->attr.at;
    if (value->rank != buffer->rank || at->rank != buffer->rank) {
        misfit(e, n, E_SHAPE, "%s cannot be written into %s at %s; their ranks must be equal",
               node_type_text(e, n->in[1]), node_type_text(e, n->in[0]), shape_text(e, at));
    }
    for (int i = 0; i < buffer->rank; i++) {
        check_place(e, n, i);
    }
    return *buffer;
}

/* ---- the rows, and what asks them ---------------------------------------- */

enum { S_NONE = -1 };

const OpInfo op_info[N_OPS] = {
#define X(id, name_, family_, arity_, dtype_rule_, shape_rule_, attrs_, evaluation, scalar_, \
          text)                                                                              \
    [OP_##id] = {.name = name_,                                                              \
                 .family = FAMILY_##family_,                                                 \
                 .arity = arity_,                                                            \
                 .dtype_rule = rule_dtype_##dtype_rule_,                                     \
                 .shape_rule = rule_shape_##shape_rule_,                                     \
                 .attrs = attrs_,                                                            \
                 .scalar = S_##scalar_,                                                      \
                 .meaning = text},
    GRAPH_OPS(X)
#undef X
};

bool op_parse(const char *name, size_t len, Op *op)
{
    for (int i = 0; i < N_OPS; i++) {
        if (strlen(op_info[i].name) == len && !memcmp(op_info[i].name, name, len)) {
            *op = (Op)i;
            return true;
        }
    }
    return false;
}

int axis_of(Env *e, const Node *n, int rank)
{
    int axis = n->attr.axis;
    if (axis >= -rank && axis < rank) {
        return axis < 0 ? axis + rank : axis;
    }
    const char *of = n->n_in ? node_type_text(e, n->in[0]) : attr_shape_text(e, n);
    if (rank == 0) {
        misfit(e, n, E_SHAPE, "%s is a scalar and has no axis %d", of, axis);
    }
    misfit(e, n, E_SHAPE, "axis %d of %s is out of range %d..%d", axis, of, -rank, rank - 1);
}

/* So that no later product of constant extents or strides overflows. Empty axes count as 1. */
static void check_countable(Env *e, const Node *n, Dtype t, const Shape *s)
{
    int64_t bytes = dtype_bytes(t);
    for (int i = 0; i < s->rank; i++) {
        int64_t k = dim_is_const(s->dim[i]) && s->dim[i].k > 0 ? s->dim[i].k : 1;
        if (__builtin_mul_overflow(bytes, k, &bytes)) {
            misfit(e, n, E_SHAPE, "%s%s has more bytes than can be counted", dtype_name(t),
                   shape_text(e, s));
        }
    }
}

void node_infer(Env *e, const Node *n, Dtype *dtype, Shape *shape)
{
    const OpInfo *info = &op_info[n->op];
    if (info->arity >= 0 && n->n_in != info->arity) {
        misfit(e, n, E_SHAPE, "takes %d operand%s, not %d", info->arity,
               info->arity == 1 ? "" : "s", n->n_in);
    }
    if (info->arity < 0 && n->n_in < 1) {
        misfit(e, n, E_SHAPE, "takes one or more operands, not %d", n->n_in);
    }
    *dtype = info->dtype_rule(e, n);
    *shape = info->shape_rule(e, n);
    check_countable(e, n, *dtype, shape);
}
