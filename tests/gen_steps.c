/* gen_steps.c - the steps that random graphs are made of. Each takes values that exist already
 * and makes one, or finds none that fit and makes nothing. `steps` lists them with weights. */
#include "tests/gen_int.h"

/* ---- kinds of values ---------------------------------------------------- */

static bool any(Gen *g, const Node *n)
{
    (void)g, (void)n;
    return true;
}

static bool numeric(Gen *g, const Node *n)
{
    (void)g;
    return dtype_numeric(n->dtype);
}

static bool floating(Gen *g, const Node *n)
{
    (void)g;
    return n->dtype == DT_F32;
}

static bool has_axes(Gen *g, const Node *n)
{
    (void)g;
    return n->shape.rank >= 1;
}

static bool has_numeric_axes(Gen *g, const Node *n)
{
    return has_axes(g, n) && numeric(g, n);
}

static bool has_matrix(Gen *g, const Node *n)
{
    return floating(g, n) && n->shape.rank >= 2;
}

static bool has_rows(Gen *g, const Node *n)
{
    return has_axes(g, n) && gen_least(g, n->shape.dim[0]) >= 1;
}

static bool softmax_fits(Gen *g, const Node *n)
{
    return floating(g, n) && has_axes(g, n) &&
           gen_least(g, n->shape.dim[n->shape.rank - 1]) >= 1;
}

static int some_axis(Gen *g, const Node *x)
{
    return below(g, x->shape.rank);
}

static int spelt(Gen *g, int axis, int rank)
{
    return chance(g, 40) ? axis - rank : axis;
}

/* ---- leaves ------------------------------------------------------------- */

static Dtype some_dtype(Gen *g)
{
    static const Dtype t[] = {DT_F32, DT_F32, DT_F32, DT_F32, DT_I64, DT_I32, DT_I8, DT_BOOL};
    return t[below(g, (int)countof(t))];
}

static Dim some_dim(Gen *g)
{
    static const int size[] = {1, 2, 3, 4, 4, 5};
    return chance(g, 30) ? g->seq : dim_int(size[below(g, (int)countof(size))]);
}

static Shape concrete(Gen *g, int max_rank)
{
    Shape s = {.rank = below(g, max_rank + 1)};
    for (int i = 0; i < s.rank; i++) {
        s.dim[i] = dim_int(chance(g, 20) ? 1 : 2 + below(g, 3));
    }
    return s;
}

static Node *step_const(Gen *g)
{
    Dtype t = some_dtype(g);
    Shape s = concrete(g, 2);
    int64_t data[16]; /* 4 x 4 of the widest */
    int64_t count = shape_count(g->e, &s).k;
    for (int64_t i = 0; i < count; i++) {
        value_store(data, t, i, gen_element(g->r, t, true));
    }
    return f_const(&g->f, t, s, data);
}

static Node *step_weight(Gen *g)
{
    const char *name =
        arena_printf(&g->e->kernel, "w%d.%s", g->n_values, chance(g, 20) ? "a b" : "w");
    Dtype t = chance(g, 85) ? DT_F32 : DT_I8;
    return f_weight(&g->f, name, t, concrete(g, 3));
}

static Node *step_iota(Gen *g)
{
    static const Dtype t[] = {DT_I64, DT_I64, DT_I32, DT_I8, DT_F32};
    Shape s = {.rank = 1 + below(g, 2)};
    for (int i = 0; i < s.rank; i++) {
        s.dim[i] = chance(g, 30) ? dim_add(g->e, g->past, g->seq) : some_dim(g);
    }
    int axis = below(g, s.rank);
    axis = spelt(g, axis, s.rank);
    return f_iota(&g->f, t[below(g, (int)countof(t))], s, axis);
}

static Node *step_dim(Gen *g)
{
    Dim d = dim_mulk(g->e, g->seq, 1 + below(g, 3));
    d = dim_addk(g->e, d, below(g, 5) - 2);
    return f_dim(&g->f, chance(g, 50) ? dim_add(g->e, d, g->past) : d);
}

/* ---- elementwise -------------------------------------------------------- */

static Node *step_unary(Gen *g)
{
    static const Op op[] = {OP_NEG, OP_EXP, OP_SQRT, OP_RECIPROCAL, OP_SIN, OP_COS};
    Node *x = gen_pick(g, floating);
    return x ? f_unary(&g->f, op[below(g, (int)countof(op))], x) : NULL;
}

static Node *step_negate(Gen *g)
{
    Node *x = gen_pick(g, numeric);
    return x ? f_unary(&g->f, OP_NEG, x) : NULL;
}

static Node *step_binary(Gen *g)
{
    static const Op op[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV};
    Node *x = gen_pick(g, numeric);
    if (!x) {
        return NULL;
    }
    Op o = op[below(g, x->dtype == DT_F32 ? 4 : 3)];
    if (chance(g, 25)) {
        double k = below(g, 9) - 4;
        return chance(g, 50) ? f_binary_k(&g->f, o, x, k) : f_k_binary(&g->f, o, k, x);
    }
    Node *y = gen_partner(g, x, x->dtype);
    return chance(g, 50) ? f_binary(&g->f, o, x, y) : f_binary(&g->f, o, y, x);
}

static Node *step_compare(Gen *g)
{
    Node *x = gen_pick(g, numeric);
    return x ? f_binary(&g->f, OP_LESS_EQUAL, x, gen_partner(g, x, x->dtype)) : NULL;
}

static Node *step_where(Gen *g)
{
    Node *x = gen_pick(g, any);
    Node *y = gen_partner(g, x, x->dtype);
    Node *both = x->shape.rank >= y->shape.rank ? x : y;
    Node *cond = gen_partner(g, both, DT_BOOL);
    if (!gen_compatible(g, &x->shape, &cond->shape) ||
        !gen_compatible(g, &y->shape, &cond->shape)) {
        cond = f_cast(&g->f, x, DT_BOOL);
    }
    return f_where(&g->f, cond, x, y);
}

static Node *step_cast(Gen *g)
{
    Node *x = gen_pick(g, any);
    Dtype t = some_dtype(g);
    return x->dtype == t ? NULL : f_cast(&g->f, x, t);
}

/* ---- reductions and what follows them ----------------------------------- */

static Node *step_reduce(Gen *g)
{
    Node *x = gen_pick(g, has_numeric_axes);
    if (!x) {
        return NULL;
    }
    int axis = some_axis(g, x);
    bool max = chance(g, 50) && gen_least(g, x->shape.dim[axis]) >= 1;
    Node *y =
        f_reduce(&g->f, max ? OP_REDUCE_MAX : OP_REDUCE_SUM, x, spelt(g, axis, x->shape.rank));
    return chance(g, 50) ? f_binary(&g->f, OP_SUB, x, y) : y;
}

static Node *step_softmax(Gen *g)
{
    Node *x = gen_pick(g, softmax_fits);
    return x ? c_softmax(&g->f, x) : NULL;
}

static Node *step_silu(Gen *g)
{
    Node *x = gen_pick(g, floating);
    return x ? c_silu(&g->f, x) : NULL;
}

/* ---- movement ----------------------------------------------------------- */

static Shape merged(Gen *g, const Shape *s, int axis)
{
    Shape out = *s;
    out.dim[axis] = dim_mul(g->e, s->dim[axis], s->dim[axis + 1]);
    for (int i = axis + 1; i + 1 < s->rank; i++) {
        out.dim[i] = s->dim[i + 1];
    }
    out.rank--;
    return out;
}

static Shape widened(const Shape *s, int axis, Dim first, Dim second)
{
    Shape out = {.rank = s->rank + 1};
    for (int i = 0; i < out.rank; i++) {
        out.dim[i] = i < axis        ? s->dim[i]
                     : i == axis     ? first
                     : i == axis + 1 ? second
                                     : s->dim[i - 1];
    }
    return out;
}

static Node *step_reshape(Gen *g)
{
    Node *x = gen_pick(g, has_axes);
    if (!x) {
        return NULL;
    }
    const Shape *s = &x->shape;
    int axis = some_axis(g, x);
    bool even = dim_is_const(s->dim[axis]) && s->dim[axis].k % 2 == 0;
    if (s->rank >= 2 && chance(g, 50)) {
        return f_reshape(&g->f, x, merged(g, s, axis % (s->rank - 1)));
    }
    if (s->rank == GEN_RANK) {
        return NULL;
    }
    Dim first = even ? dim_int(2) : dim_int(1);
    Dim second = even ? dim_int(s->dim[axis].k / 2) : s->dim[axis];
    return f_reshape(&g->f, x, widened(s, axis, first, second));
}

static Node *permuted(Gen *g, Node *x)
{
    int perm[GEN_RANK], rank = x->shape.rank;
    for (int i = 0; i < rank; i++) {
        int j = below(g, i + 1);
        perm[i] = perm[j];
        perm[j] = i;
    }
    return f_permute(&g->f, x, rank, perm);
}

static Node *step_permute(Gen *g)
{
    Node *x = gen_pick(g, has_axes);
    return x ? permuted(g, x) : NULL;
}

/* Usually not contiguous when it is reshaped. */
static Node *step_permute_reshape(Gen *g)
{
    Node *x = gen_pick(g, has_axes);
    if (!x || x->shape.rank < 2) {
        return NULL;
    }
    Node *y = permuted(g, x);
    return f_reshape(&g->f, y, merged(g, &y->shape, below(g, y->shape.rank - 1)));
}

static Node *step_broadcast(Gen *g)
{
    Node *x = gen_pick(g, any);
    Shape s = x->shape;
    for (int i = 0; i < s.rank; i++) {
        s.dim[i] = dim_is(s.dim[i], 1) ? some_dim(g) : s.dim[i];
    }
    if (s.rank < GEN_RANK && chance(g, 60)) {
        for (int i = s.rank++; i > 0; i--) {
            s.dim[i] = s.dim[i - 1];
        }
        s.dim[0] = some_dim(g);
    }
    return gen_small(g, &s) ? f_broadcast_to(&g->f, x, s) : NULL;
}

/* Bounds that hold at every size: at most `room` is cut off, from either end. */
void gen_bounds(Gen *g, Dim d, Dim *start, Dim *stop)
{
    int room = (int)gen_least(g, d);
    int cut = below(g, room + 1);
    *start = dim_int(0);
    *stop = d;
    switch (below(g, 4)) {
    case 0: *stop = dim_int(cut); break;
    case 1: *start = dim_int(cut); break;
    case 2: *start = dim_addk(g->e, d, -cut); break;
    default: *start = dim_int(cut / 2); *stop = dim_addk(g->e, d, -(cut - cut / 2));
    }
}

static Node *step_slice(Gen *g)
{
    Node *x = gen_pick(g, has_axes);
    if (!x) {
        return NULL;
    }
    int axis = some_axis(g, x);
    Dim start, stop;
    gen_bounds(g, x->shape.dim[axis], &start, &stop);
    return f_slice(&g->f, x, spelt(g, axis, x->shape.rank), start, stop);
}

static bool joinable(const Node *a, const Node *b, int axis)
{
    bool ok = a->dtype == b->dtype && a->shape.rank == b->shape.rank;
    for (int i = 0; ok && i < a->shape.rank; i++) {
        ok = i == axis || dim_eq(a->shape.dim[i], b->shape.dim[i]);
    }
    return ok;
}

static Node *step_concat(Gen *g)
{
    Node *x = gen_pick(g, has_axes);
    if (!x) {
        return NULL;
    }
    int axis = some_axis(g, x), n = 1 + below(g, 3);
    Node *part[3];
    Shape s = x->shape;
    for (int i = 0; i < n; i++) {
        int at = below(g, g->n_values);
        part[i] = i > 0 && joinable(x, g->value[at], axis) ? gen_take(g, at) : x;
        s.dim[axis] =
            i > 0 ? dim_add(g->e, s.dim[axis], part[i]->shape.dim[axis]) : s.dim[axis];
    }
    return gen_small(g, &s) ? f_concat(&g->f, part, n, spelt(g, axis, x->shape.rank)) : NULL;
}

/* ---- products and gathers ----------------------------------------------- */

static bool multiplies(const Node *a, const Node *b)
{
    int rank = a->shape.rank;
    bool ok = b->dtype == DT_F32 && b->shape.rank == rank &&
              dim_eq(a->shape.dim[rank - 1], b->shape.dim[rank - 2]);
    for (int i = 0; ok && i < rank - 2; i++) {
        ok = dim_eq(a->shape.dim[i], b->shape.dim[i]);
    }
    return ok;
}

static Node *transposed(Gen *g, Node *x)
{
    int rank = x->shape.rank, perm[GEN_RANK] = {0, 1, 2, 3};
    perm[rank - 1] = rank - 2;
    perm[rank - 2] = rank - 1;
    return f_permute(&g->f, x, rank, perm);
}

static Node *step_matmul(Gen *g)
{
    Node *a = gen_pick(g, has_matrix);
    if (!a) {
        return NULL;
    }
    Node *b = NULL;
    for (int tries = 0; tries < 12 && !b; tries++) {
        int i = below(g, g->n_values);
        b = multiplies(a, g->value[i]) ? gen_take(g, i) : NULL;
    }
    b = b ? b : transposed(g, a);
    Shape s = a->shape;
    s.dim[s.rank - 1] = b->shape.dim[s.rank - 1];
    return gen_small(g, &s) ? f_matmul(&g->f, a, b) : NULL;
}

/* A linear layer with a bias and something behind it, as kernels with epilogues have. */
static Node *step_linear(Gen *g)
{
    Node *x = gen_pick(g, has_matrix);
    if (!x || x->shape.rank != 2 || !dim_is_const(x->shape.dim[1])) {
        return NULL;
    }
    Dim n = dim_int(1 + below(g, 5)), k = x->shape.dim[1];
    const char *name = arena_printf(&g->e->kernel, "linear%d", g->n_values);
    Node *w = f_weight(&g->f, name, DT_F32, shape_of(2, (Dim[]){n, k}));
    name = arena_printf(&g->e->kernel, "bias%d", g->n_values);
    Node *b = chance(g, 60) ? f_weight(&g->f, name, DT_F32, shape_of(1, &n)) : NULL;
    Node *y = c_linear(&g->f, x, w, b);
    return chance(g, 40)   ? c_silu(&g->f, y)
           : chance(g, 50) ? f_binary_k(&g->f, OP_MUL, y, 0.125)
                           : y;
}

/* Ids in 0..rows-1 at every size: constants below the smallest, or an iota over all. */
static Node *some_ids(Gen *g, Dim rows)
{
    static const Dtype dtype[] = {DT_I64, DT_I32, DT_I8};
    Dtype t = dtype[below(g, 3)];
    if (chance(g, 40)) {
        return f_iota(&g->f, t, shape_of(1, &rows), 0);
    }
    Shape s = concrete(g, 2);
    int64_t data[16], count = shape_count(g->e, &s).k;
    for (int64_t i = 0; i < count; i++) {
        value_store(data, t, i, (Value){.i = below(g, (int)gen_least(g, rows))});
    }
    return f_const(&g->f, t, s, data);
}

static Node *step_gather(Gen *g)
{
    Node *table = gen_pick(g, has_rows);
    if (!table) {
        return NULL;
    }
    Node *ids = some_ids(g, table->shape.dim[0]);
    Shape s = ids->shape;
    for (int i = 1; i < table->shape.rank && s.rank < MAX_RANK; i++) {
        s.dim[s.rank++] = table->shape.dim[i];
    }
    return gen_small(g, &s) ? f_gather(&g->f, table, ids) : NULL;
}

/* ---- the list ----------------------------------------------------------- */

static const struct {
    int weight;
    Node *(*make)(Gen *g);
} steps[] = {
    {4, step_const},     {4, step_weight},  {4, step_iota},    {3, step_dim},
    {9, step_unary},     {4, step_negate},  {14, step_binary}, {5, step_compare},
    {6, step_where},     {5, step_cast},    {9, step_reduce},  {4, step_softmax},
    {3, step_silu},      {7, step_reshape}, {4, step_permute}, {5, step_permute_reshape},
    {5, step_broadcast}, {8, step_slice},   {7, step_concat},  {8, step_matmul},
    {5, step_linear},    {6, step_gather},  {9, gen_update},
};

void gen_step(Gen *g)
{
    int total = 0;
    for (size_t i = 0; i < countof(steps); i++) {
        total += steps[i].weight;
    }
    int at = below(g, total);
    size_t i = 0;
    for (; at >= steps[i].weight; i++) {
        at -= steps[i].weight;
    }
    gen_add(g, steps[i].make(g));
}
