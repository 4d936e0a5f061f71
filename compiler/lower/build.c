/* build.c - writes one kernel and the call that runs it: axes, operands, statements, traffic.
 * Shared by unfused lowering and the fused generator, so both speak the same nest.
 * Kernel expressions name graph symbols by id until kernel_finish renumbers them. */
#include <math.h>
#include <string.h>

#include "lower/lower_int.h"

bool is_elementwise(const Node *n)
{
    return op_info[n->op].family == FAMILY_ELEM || n->op == OP_IOTA || n->op == OP_DIM;
}

bool is_movement(const Node *n)
{
    return op_info[n->op].family == FAMILY_MOVE;
}

/* ---- buffers ---- */

Lower lower_begin(const Graph *g, const bool *in_place)
{
    Lower l = {.e = g->env, .m = &g->env->model, .g = g, .in_place = in_place};
    l.p = arena_new(l.m, Program);
    l.p->name = g->name;
    map_init(&l.p->by_hash, l.m);
    l.view = arena_array(l.m, View, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) {
        l.view[i].buffer = -1;
        l.any_in_place = l.any_in_place || in_place[i];
    }
    return l;
}

int lower_buffer(Lower *l, BufferKind kind, Dtype t, const Shape *s)
{
    *vec_push(l->m, &l->p->buffer) = (Buffer){.kind = kind,
                                              .dtype = t,
                                              .shape = *s,
                                              .count = shape_count(l->e, s),
                                              .index = -1,
                                              .first = -1,
                                              .last = -1};
    return l->p->buffer.n - 1;
}

void lower_leaf(Lower *l, const Node *n)
{
    BufferKind kind = n->op == OP_INPUT    ? BUF_INPUT
                      : n->op == OP_WEIGHT ? BUF_WEIGHT
                                           : BUF_CONST;
    int id = lower_buffer(l, kind, n->dtype, &n->shape);
    Buffer *b = &l->p->buffer.at[id];
    b->name = n->attr.name;
    b->value = n->attr.value;
    if (kind == BUF_INPUT) {
        b->index = l->n_inputs++;
        check(l->g->inputs.at[b->index] == n);
    } else if (kind == BUF_WEIGHT) {
        b->index = l->n_weights++;
        check(l->g->weights.at[b->index] == n);
    }
    l->view[n->id] = view_whole(l->e, id, &n->shape);
    l->view[n->id].version = kind == BUF_INPUT ? n->id : -1;
}

bool lower_claimable(const Lower *l, int output)
{
    const Node *n = l->g->outputs.at[output].node;
    const Buffer *b = &l->p->buffer.at[l->view[n->id].buffer];
    return b->kind == BUF_TEMP ||
           (b->kind == BUF_INPUT && l->in_place[n->id] && !b->also_output);
}

/* Whoever called the program reads the output when all calls are done. */
void lower_claim(Lower *l, int buffer, int output)
{
    Buffer *b = &l->p->buffer.at[buffer];
    const View *v = &l->view[l->g->outputs.at[output].node->id];
    if (v->buffer == buffer) {
        updates_read(l, v);
    }
    if (b->kind == BUF_INPUT) {
        b->also_output = 1 + output;
        return;
    }
    b->kind = BUF_OUTPUT;
    b->index = output;
    b->name = l->g->outputs.at[output].name;
}

/* ---- index arithmetic ---- */

static const Expr *term_expr(Arena *m, const Term *t)
{
    const Expr *x = x_int(m, t->coef);
    for (int i = 0; i < t->degree; i++) {
        x = x_op(m, S_MUL, x, x_sym(m, t->sym[i]));
    }
    return x;
}

const Expr *dim_expr(Arena *m, Dim d)
{
    if (dim_is_const(d)) {
        return x_int(m, d.k);
    }
    const Expr *sum = x_int(m, 0);
    for (int degree = 0; degree <= MAX_DEGREE; degree++) {
        for (int i = 0; i < d.n; i++) {
            if (d.term[i].degree == degree) {
                sum = x_op(m, S_ADD, sum, term_expr(m, &d.term[i]));
            }
        }
    }
    return sum;
}

const Expr *linear_index(Arena *m, int rank, const Expr *const *index, const Dim *stride)
{
    const Expr *sum = x_int(m, 0);
    for (int i = 0; i < rank; i++) {
        sum = x_op(m, S_ADD, sum, x_op(m, S_MUL, index[i], dim_expr(m, stride[i])));
    }
    return sum;
}

/* ---- the kernel ---- */

void build_begin(Build *b, Lower *l, const char *kind, const Node *n, const View *to)
{
    *b = (Build){.l = l, .k = arena_new(l->m, Kernel), .to = *to};
    b->k->kind = kind;
    b->call.node = n->id;
    b->call.read_bytes = dim_int(0);
    build_operand(b, "y", to);
}

void build_phase(Build *b)
{
    b->phase = vec_push(b->l->m, &b->k->nest.phase);
    *b->phase = (Phase){0};
}

int build_axis(Build *b, const char *name, AxisKind kind, Dim extent, const Expr **index)
{
    Nest *n = &b->k->nest;
    Arena *m = b->l->m;
    *vec_push(m, &n->axis) = (Axis){.name = name, .kind = kind, .extent = dim_expr(m, extent)};
    int id = n->axis.n - 1;
    *index = dim_is(extent, 1) ? x_int(m, 0) : x_axis(m, id);
    return id;
}

void build_axes(Build *b, const Shape *s, int from, int to, bool contraction, int serial,
                int *ids, const Expr **index)
{
    static const char *const names[] = {"c", "d", "e", "f", "g", "h", "i", "j"};
    for (int i = from; i < to; i++) {
        int left = s->rank - 1 - i; /* 0: the innermost */
        const char *name = s->rank == 1 ? "i" : names[countof(names) - 1 - (size_t)left];
        if (contraction && left < 2) {
            name = left == 0 ? "n" : "m";
        }
        if (serial > 0) {
            name = arena_printf(b->l->m, "%s%d", name, serial);
        }
        ids[i] = build_axis(b, name, AXIS_SPACE, s->dim[i], &index[i]);
    }
}

int build_operand(Build *b, const char *name, const View *v)
{
    Arena *m = b->l->m;
    const Buffer *buf = &b->l->p->buffer.at[v->buffer];
    bool weight = buf->kind == BUF_WEIGHT;
    *vec_push(m, &b->k->operand) =
        (Operand){.name = name,
                  .dtype = buf->dtype,
                  .constant = weight || buf->kind == BUF_CONST,
                  .from_bf16 = weight && b->l->g->weights.at[buf->index]->attr.from_bf16};
    *vec_push(m, &b->call.arg) = (Arg){.buffer = v->buffer, .offset = v->offset};
    build_span(b, b->k->operand.n - 1, v);
    return b->k->operand.n - 1;
}

void build_span(Build *b, int operand, const View *v)
{
    Operand *o = &b->k->operand.at[operand];
    const Expr *span = dim_expr(b->l->m, view_span(b->l->e, v));
    for (int i = 0; i < o->span.n; i++) {
        if (expr_eq(o->span.at[i], span)) {
            return;
        }
    }
    *vec_push(b->l->m, &o->span) = span;
}

const Expr *build_load(Build *b, int operand, const View *v, const Expr *const *index)
{
    const Expr *at = linear_index(b->l->m, v->shape.rank, index, v->stride);
    updates_read(b->l, v);
    return x_load(b->l->m, operand, b->k->operand.at[operand].dtype, at);
}

static int new_var(Build *b, const char *prefix, int serial, Dtype t)
{
    Nest *n = &b->k->nest;
    const char *name = arena_printf(b->l->m, "%s%d", prefix, serial);
    *vec_push(b->l->m, &n->var) = (Var){.name = name, .dtype = t};
    return n->var.n - 1;
}

const Expr *build_let(Build *b, bool in_body, const Expr *value)
{
    int var = new_var(b, "t", b->n_lets++, value->dtype);
    Stmt let = {.kind = STMT_LET, .var = var, .value = value};
    if (in_body) {
        *vec_push(b->l->m, &b->phase->body) = let;
    } else {
        *vec_push(b->l->m, &b->phase->finish) = let;
    }
    return x_var(b->l->m, var, value->dtype);
}

const Expr *build_acc(Build *b, Dtype t, const Expr *init,
                      const Expr *(*update)(Arena *, const Expr *acc, const Expr *v),
                      const Expr *v)
{
    int var = new_var(b, "acc", b->n_accs++, t);
    const Expr *acc = x_var(b->l->m, var, t);
    *vec_push(b->l->m, &b->phase->acc) =
        (Accum){.var = var, .init = init, .update = update(b->l->m, acc, v)};
    return acc;
}

void build_store(Build *b, const Expr *const *index, const Expr *value)
{
    *vec_push(b->l->m, &b->phase->finish) =
        (Stmt){.kind = STMT_STORE,
               .index = linear_index(b->l->m, b->to.shape.rank, index, b->to.stride),
               .value = value};
}

void build_fail_outside(Build *b, const Expr *row, Dim rows)
{
    Arena *m = b->l->m;
    const Expr *below = x_op(m, S_LT, row, x_int(m, 0));
    const Expr *above = x_op(m, S_LE, dim_expr(m, rows), row);
    *vec_push(m, &b->phase->finish) =
        (Stmt){.kind = STMT_FAIL, .value = x_op(m, S_OR, below, above), .code = 1};
}

void build_read(Build *b, Dim elements, Dtype t)
{
    Dim bytes = dim_mulk(b->l->e, elements, dtype_bytes(t));
    b->call.read_bytes = dim_add(b->l->e, b->call.read_bytes, bytes);
}

void build_end(Build *b, Dim written)
{
    Lower *l = b->l;
    b->call.write_bytes = dim_mulk(l->e, written, dtype_bytes(b->k->operand.at[0].dtype));
    int slots[MAX_SYMBOLS];
    kernel_finish(l->e, l->m, b->k, slots);
    for (int i = 0; i < b->k->n_syms; i++) {
        *vec_push(l->m, &b->call.sym) = (Sym)slots[i];
    }
    b->call.kernel = program_kernel(l->e, l->p, b->k);
    *vec_push(l->m, &l->p->call) = b->call;
}

/* ---- scalar meaning of ops ---- */

const Expr *acc_sum_init(Arena *m, Dtype t)
{
    return x_const(m, t, t == DT_F32 ? (Value){.f = 0.0f} : (Value){.i = 0});
}

const Expr *acc_max_init(Arena *m, Dtype t)
{
    static const int64_t least[N_DTYPES] = {
        [DT_I64] = INT64_MIN, [DT_I32] = INT32_MIN, [DT_I8] = INT8_MIN};
    return x_const(m, t, t == DT_F32 ? (Value){.f = -INFINITY} : (Value){.i = least[t]});
}

const Expr *acc_sum(Arena *m, const Expr *acc, const Expr *v)
{
    return x_op(m, S_ADD, acc, v);
}

/* Takes v if acc < v or v is NaN, else keeps acc: once NaN, always NaN. */
const Expr *acc_max(Arena *m, const Expr *acc, const Expr *v)
{
    const Expr *takes = x_op(m, S_LT, acc, v);
    if (v->dtype == DT_F32) {
        takes = x_op(m, S_OR, takes, x_op(m, S_NE, v, v));
    }
    return x_select(m, takes, v, acc);
}

const Expr *elementwise(Arena *m, const Node *n, const Expr *const *in)
{
    if (n->op == OP_WHERE) {
        return x_select(m, in[0], in[1], in[2]);
    }
    if (n->op == OP_CAST) {
        return x_cast(m, in[0], n->attr.dtype);
    }
    return x_op(m, (ScalarOp)op_info[n->op].scalar, in[0], n->n_in > 1 ? in[1] : NULL);
}
