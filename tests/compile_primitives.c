/* compile_primitives.c - every operation, one small graph at a time: each dtype that its rule allows, seq 1,
 * 3 and 7, an axis of size 1 and one of 5, alone and in the company of elementwise neighbours that fusion
 * may join to it. The interpreter, the nests and compiled C, fused and not, give the same bits (libm's
 * functions too: all three call the same ones). Each dtype that a rule forbids is refused. */
#include "tests/compile_util.h"
#include "tests/gen.h"

#include <string.h>

/* The dtypes of a row; the others must be refused. */
enum {
    FLOATS = 1 << DT_F32,
    INTS = 1 << DT_I64 | 1 << DT_I32 | 1 << DT_I8,
    NUMBERS = FLOATS | INTS,
    ANY = NUMBERS | 1 << DT_BOOL,
    FIXED = 0, /* the text says which */
};

typedef struct Row {
    Op op;
    int dtypes;
    const char *text; /* $T: the dtype; $W: the width; $V: so many values */
} Row;

/* clang-format off */
static const Row rows[] = {
    {OP_INPUT,      ANY,     "y = input $T[seq, $W]"},
    {OP_WEIGHT,     ANY,     "y = weight $T[3, $W]"},
    {OP_CONST,      ANY,     "y = const $T[$W] $V"},
    {OP_CONST,      ANY,     "y = const $T[1, $W, 1] $V"},
    {OP_IOTA,       NUMBERS, "y = iota $T[seq, $W] axis=0"},
    {OP_IOTA,       NUMBERS, "y = iota $T[seq, $W] axis=-1"},
    {OP_DIM,        FIXED,   "y = dim 2*seq*seq + 3*past - 1"},
    {OP_ADD,        NUMBERS, "a = input $T[seq, $W]; b = input $T[seq, $W]; y = add a, b"},
    {OP_SUB,        NUMBERS, "a = input $T[seq, $W]; b = input $T[seq, $W]; y = sub a, b"},
    {OP_MUL,        NUMBERS, "a = input $T[seq, $W]; b = input $T[seq, $W]; y = mul a, b"},
    {OP_MUL,        NUMBERS, "a = input $T[$W, seq]; y = mul a, a"},
    {OP_DIV,        FLOATS,  "a = input $T[seq, $W]; b = input $T[seq, $W]; y = div a, b"},
    {OP_LESS_EQUAL, NUMBERS, "a = input $T[seq, $W]; b = input $T[seq, $W]; y = less_equal a, b"},
    {OP_WHERE,      ANY,     "c = input bool[seq, $W]; a = input $T[seq, $W]; b = input $T[seq, $W]; y = where c, a, b"},
    {OP_NEG,        NUMBERS, "a = input $T[seq, $W]; y = neg a"},
    {OP_NEG,        NUMBERS, "a = input $T[]; y = neg a"},
    {OP_EXP,        FLOATS,  "a = input $T[seq, $W]; y = exp a"},
    {OP_SQRT,       FLOATS,  "a = input $T[seq, $W]; y = sqrt a"},
    {OP_RECIPROCAL, FLOATS,  "a = input $T[seq, $W]; y = reciprocal a"},
    {OP_SIN,        FLOATS,  "a = input $T[seq, $W]; y = sin a"},
    {OP_COS,        FLOATS,  "a = input $T[seq, $W]; y = cos a"},
    {OP_CAST,       ANY,     "a = input $T[seq, $W]; y = cast a dtype=f32"},
    {OP_CAST,       ANY,     "a = input $T[seq, $W]; y = cast a dtype=i64"},
    {OP_CAST,       ANY,     "a = input $T[seq, $W]; y = cast a dtype=i32"},
    {OP_CAST,       ANY,     "a = input $T[seq, $W]; y = cast a dtype=i8"},
    {OP_CAST,       ANY,     "a = input $T[seq, $W]; y = cast a dtype=bool"},
    {OP_REDUCE_SUM, NUMBERS, "a = input $T[seq, $W]; y = reduce_sum a axis=-1"},
    {OP_REDUCE_SUM, NUMBERS, "a = input $T[2, seq, $W]; y = reduce_sum a axis=1"},
    {OP_REDUCE_SUM, NUMBERS, "a = input $T[past, $W]; y = reduce_sum a axis=0"},
    {OP_REDUCE_MAX, NUMBERS, "a = input $T[seq, $W]; y = reduce_max a axis=-1"},
    {OP_REDUCE_MAX, NUMBERS, "a = input $T[2, seq, $W]; y = reduce_max a axis=1"},
    {OP_RESHAPE,    ANY,     "a = input $T[seq, $W, 2]; y = reshape a shape=[2*seq, $W]"},
    {OP_RESHAPE,    ANY,     "a = input $T[seq, $W]; y = reshape a shape=[1, $W*seq, 1]"},
    {OP_RESHAPE,    ANY,     "a = input $T[$W, seq]; b = permute a perm=[1, 0]; y = reshape b shape=[seq*$W]"},
    {OP_PERMUTE,    ANY,     "a = input $T[seq, $W]; y = permute a perm=[1, 0]"},
    {OP_PERMUTE,    ANY,     "a = input $T[2, seq, $W]; y = permute a perm=[2, 0, 1]"},
    {OP_BROADCAST,  ANY,     "a = input $T[seq, 1, $W]; y = broadcast a shape=[seq, 4, $W]"},
    {OP_BROADCAST,  ANY,     "a = input $T[1, $W]; y = broadcast a shape=[seq + past, $W]"},
    {OP_SLICE,      ANY,     "a = input $T[seq, $W]; y = slice a axis=0 start=seq - 1 stop=seq"},
    {OP_SLICE,      ANY,     "a = input $T[2, seq, $W]; y = slice a axis=-1 start=0 stop=1"},
    {OP_SLICE,      ANY,     "a = input $T[seq, $W]; y = slice a axis=1 start=$W stop=$W"},
    {OP_CONCAT,     ANY,     "a = input $T[past, $W]; b = input $T[seq, $W]; y = concat a, b axis=0"},
    {OP_CONCAT,     ANY,     "a = input $T[seq, $W]; b = input $T[seq, 1]; y = concat a, b, a axis=-1"},
    {OP_CONCAT,     ANY,     "a = input $T[seq, $W]; y = concat a axis=0"},
    {OP_MATMUL,     FLOATS,  "a = input $T[seq, $W]; b = weight $T[$W, 4]; y = matmul a, b"},
    {OP_MATMUL,     FLOATS,  "a = input $T[2, seq, $W]; b = input $T[2, $W, seq]; y = matmul a, b"},
    {OP_MATMUL,     FLOATS,  "a = input $T[1, past]; b = input $T[past, 1]; y = matmul a, b"},
    {OP_GATHER,     ANY,     "t = weight $T[6, $W]; ids = input i64[seq]; y = gather t, ids"},
    {OP_GATHER,     ANY,     "t = input $T[6]; ids = input i8[seq, $W]; y = gather t, ids"},
    {OP_UPDATE,     ANY,     "a = input $T[past, $W]; b = input $T[seq, $W]; c = concat a, b axis=0; y = update c, b at=[past, 0]"},
    {OP_UPDATE,     ANY,     "a = input $T[4, seq, $W]; b = input $T[1, seq, 1]; y = update a, b at=[2, 0, $W - 1]"},
    {OP_UPDATE,     ANY,     "a = input $T[seq, $W]; b = input $T[$W, seq]; c = permute b perm=[1, 0]; y = update a, c at=[0, 0]"},
    {OP_GATHER,     INTS,    "t = weight f32[6, $W, 2]; ids = input $T[1, seq]; y = gather t, ids"},
};
/* clang-format on */

enum { N_ROWS = countof(rows), N_BINDINGS = 3, TABLE_ROWS = 6 };

/* ---- graphs ---- */

static void put_values(Buf *out, Dtype t, int n)
{
    for (int i = 0; i < n; i++) {
        buf_printf(out, "%s%s", i ? ", " : "",
                   t == DT_BOOL ? (i % 2 ? "false" : "true") : (i % 2 ? "-3" : "7"));
    }
}

/* The row's text with $T, $W and $V filled in. Every graph gets inputs that bind seq and past. */
static const char *text_of(Env *e, const Row *row, Dtype t, int width)
{
    Buf b;
    buf_init(&b, &e->model);
    buf_str(&b, "graph g\nn = input bool[seq]\np = input bool[past]\n");
    for (const char *s = row->text; *s; s++) {
        if (*s != '$') {
            buf_char(&b, *s == ';' ? '\n' : *s);
        } else if (*++s == 'T') {
            buf_str(&b, dtype_name(t));
        } else if (*s == 'W') {
            buf_printf(&b, "%d", width);
        } else {
            put_values(&b, t, width);
        }
    }
    buf_str(&b, "\nreturn out=y\n");
    return b.at;
}

static Node *same(Env *e, Node *x)
{
    return node_make(e, OP_CAST, &x, 1, &(Attr){.dtype = x->dtype}, 0);
}

/* Operands and result pass through a cast to their own dtype: elementwise, and leaves the bits alone. */
static Node *in_company(void *ctx, const Node *n, Node *const *in)
{
    Env *e = ctx;
    Node *company[3];
    for (int i = 0; i < n->n_in; i++) {
        company[i] = same(e, in[i]);
    }
    Node *own = node_make(e, n->op, company, n->n_in, &n->attr, n->line);
    return n->op == OP_INPUT ? own : same(e, own);
}

typedef struct Text {
    const char *at;
    Graph *g;
} Text;

static void parse(Env *e, void *arg)
{
    Text *t = arg;
    t->g = ncg_parse(e, t->at, strlen(t->at), "primitive.ncg");
}

static bool allowed(const Row *row, Dtype t)
{
    return row->dtypes == FIXED ? t == DT_I64 : row->dtypes >> t & 1;
}

/* ---- comparing ---- */

typedef struct Case {
    const char *text;
    Graph *g;
    Compile c[2]; /* fused, unfused */
    Program *p[2];
} Case;

typedef struct All {
    int width;
    Vec(Case) at;
    Together together;
} All;

static void add_case(Env *e, All *all, const char *text, Graph *g)
{
    Case *c = vec_push(&e->model, &all->at);
    *c = (Case){.text = text, .g = g};
    for (int unfused = 0; unfused < 2; unfused++) {
        c->p[unfused] = compiled(e, g, unfused ? ALL_STAGES : 0, &c->c[unfused]);
        together_add(e, &all->together, c->p[unfused]);
    }
}

static void make_cases(Env *e, All *all)
{
    for (int i = 0; i < N_ROWS * N_DTYPES; i++) {
        const Row *row = &rows[i / N_DTYPES];
        Dtype dtype = (Dtype)(i % N_DTYPES);
        Text t = {.at = text_of(e, row, dtype, all->width)};
        if (allowed(row, dtype)) {
            must_work(e, parse, &t);
            add_case(e, all, t.at, t.g);
            add_case(e, all, t.at, graph_rewrite(t.g, in_company, e));
        } else if (row->dtypes != FIXED) {
            must_fail(e, parse, &t, E_TYPE, dtype_name(dtype));
        }
    }
}

/* Ids stay inside the tables: what happens outside is the business of other tests. */
static Args args_of(Env *e, Rng *r, const Graph *g, const Sizes *z)
{
    Args args = gen_args(&e->model, r, g, z, true);
    for (int i = 0; i < args.n_inputs; i++) {
        const Tensor *t = &args.input[i].t;
        for (int64_t k = 0; !strcmp(args.input[i].name, "ids") && k < tensor_count(t); k++) {
            value_store(t->data, t->dtype, k, (Value){.i = (int64_t)rng_below(r, TABLE_ROWS)});
        }
    }
    return args;
}

static void compare(Env *e, const All *all, const Case *c, int64_t seq, int64_t past)
{
    static const char *const what[] = {"fused nests", "unfused nests", "fused C", "unfused C"};
    Rng r;
    Err err;
    Tensor *expect = arena_array(&e->model, Tensor, c->g->outputs.n);
    Sizes z = sizes_at(e, seq, past);
    rng_seed(&r, hash_str(c->text).lo ^ (uint64_t)seq);
    Args args = args_of(e, &r, c->g, &z);
    cr_assert(graph_interpret(c->g, &args, NULL, &e->model, expect, &err), "%s%s", c->text,
              err.text);
    for (int way = 0; way < 4; way++) {
        const Program *p = c->p[way % 2];
        Library lib = {.fn = together_functions(e, &all->together, p)};
        Tensor *out = run_program(e, c->c[way % 2].graph, p, way < 2 ? NULL : &lib, &args);
        const char *where = arena_printf(&e->model, "%s at seq %d, past %d, of\n%s", what[way],
                                         (int)seq, (int)past, c->text);
        assert_same_bits(c->g, expect, out, where);
    }
}

static void agree(Env *e, void *arg)
{
    static const int64_t sizes[N_BINDINGS][2] = {{1, 0}, {3, 1}, {7, 4}};
    All *all = arg;
    together_init(e, &all->together);
    make_cases(e, all);
    together_compile(e, &all->together);
    for (int i = 0; i < all->at.n * N_BINDINGS; i++) {
        const int64_t *z = sizes[i % N_BINDINGS];
        compare(e, all, &all->at.at[i / N_BINDINGS], z[0], z[1]);
    }
    together_release(&all->together);
}

static void check_width(int width)
{
    Env e;
    All all = {.width = width};
    env_init(&e);
    must_work(&e, agree, &all);
    env_release(&e);
}

Test(primitives, agree_in_all_three_implementations_with_axes_of_size_1)
{
    check_width(1);
}

Test(primitives, agree_in_all_three_implementations_with_wider_axes)
{
    check_width(5);
}

Test(primitives, each_row_of_ops_h_has_its_graphs)
{
    Env e;
    int n_rows[N_OPS] = {0};
    env_init(&e);
    for (int i = 0; i < N_ROWS; i++) {
        Dtype t = DT_F32;
        while (!allowed(&rows[i], t)) {
            t++;
        }
        Text text = {.at = text_of(&e, &rows[i], t, 5)};
        must_work(&e, parse, &text);
        cr_expect_eq(text.g->outputs.at[0].node->op, rows[i].op, "%s is not of %s",
                     rows[i].text, op_info[rows[i].op].name);
        n_rows[rows[i].op]++;
    }
    for (int op = 0; op < N_OPS; op++) {
        cr_expect_gt(n_rows[op], 0, "%s has no graph", op_info[op].name);
    }
    env_release(&e);
}
