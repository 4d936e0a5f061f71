/* interp.c - the second oracle: runs a nest without a C compiler.
 *
 * A call first turns the nest into a flat register program (axes, symbols, variables and
 * constants live in registers; every operation is one instruction), then runs that. Order,
 * laziness and rounding are those of the emitted C: selects and "or" evaluate only what they
 * need, float operations are single float operations. Every load and store is checked against
 * the operand's element count. Memory of the program is in e->kernel: who calls often resets
 * that. */
#include "loop/loop_int.h"

/* What runs often has an instruction of its own: name, scalar operation, dtype, result. */
/* clang-format off */
#define FAST_OPS(X)                                                 \
    X(ADD_F, ADD, F32, f, a.f + b.f)                                \
    X(SUB_F, SUB, F32, f, a.f - b.f)                                \
    X(MUL_F, MUL, F32, f, a.f * b.f)                                \
    X(DIV_F, DIV, F32, f, a.f / b.f)                                \
    X(LT_F, LT, F32, i, a.f < b.f)                                  \
    X(NE_F, NE, F32, i, a.f != b.f)                                 \
    X(ADD_I, ADD, I64, i, (int64_t)((uint64_t)a.i + (uint64_t)b.i)) \
    X(SUB_I, SUB, I64, i, (int64_t)((uint64_t)a.i - (uint64_t)b.i)) \
    X(MUL_I, MUL, I64, i, (int64_t)((uint64_t)a.i * (uint64_t)b.i)) \
    X(LT_I, LT, I64, i, a.i < b.i)

typedef enum Opcode {
#define X(name, op, t, field, result) I_##name,
    FAST_OPS(X)
#undef X
    I_SCALAR, /* any scalar operation */
    I_CAST,
    I_MOVE,
    I_LOAD_F32,
    I_LOAD,
    I_STORE,
    I_FAIL,   /* leave with code b if a */
    I_JUMP,   /* to b */
    I_UNLESS, /* to b if not a */
    I_LOOP,   /* dst = 0; to b unless dst < a */
    I_NEXT,   /* dst++; to b if dst < a */
    I_END,
} Opcode;
/* clang-format on */

typedef struct Insn {
    uint8_t code;     /* Opcode */
    uint8_t op;       /* ScalarOp of I_SCALAR */
    uint8_t from, to; /* dtypes of the operands and of the result */
    int32_t dst;      /* register; I_STORE: none */
    int32_t a, b;     /* registers; I_LOAD: index in a, operand in b; jumps: target in b */
} Insn;

typedef struct Code {
    Arena *arena;
    const Kernel *k;
    Vec(Insn) insn;
    Vec(Value) reg;     /* with their first values */
    int axis, sym, var; /* where those registers begin */
} Code;

/* ---- translation ---- */

static int new_reg(Code *c, Value v)
{
    *vec_push(c->arena, &c->reg) = v;
    return c->reg.n - 1;
}

static int new_regs(Code *c, int n)
{
    int first = c->reg.n;
    for (int i = 0; i < n; i++) {
        new_reg(c, (Value){.i = 0});
    }
    return first;
}

static int add(Code *c, Insn insn)
{
    *vec_push(c->arena, &c->insn) = insn;
    return c->insn.n - 1;
}

static int compile(Code *c, const Expr *x);

static Opcode opcode_of(ScalarOp op, Dtype t)
{
    static const struct {
        ScalarOp op;
        Dtype t;
    } fast[] = {
#define X(name, op, t, field, result) [I_##name] = {S_##op, DT_##t},
        FAST_OPS(X)
#undef X
    };
    for (int i = 0; i < (int)countof(fast); i++) {
        if (fast[i].op == op && fast[i].t == t) {
            return (Opcode)i;
        }
    }
    return I_SCALAR;
}

/* cond ? yes : no. Without yes: cond || no. Only the side that is needed runs. */
static int compile_choice(Code *c, const Expr *cond, const Expr *yes, const Expr *no)
{
    int dst = new_regs(c, 1);
    int test = compile(c, cond);
    int unless = add(c, (Insn){.code = I_UNLESS, .a = test});
    add(c, (Insn){.code = I_MOVE, .dst = dst, .a = yes ? compile(c, yes) : test});
    int jump = add(c, (Insn){.code = I_JUMP});
    c->insn.at[unless].b = c->insn.n;
    add(c, (Insn){.code = I_MOVE, .dst = dst, .a = compile(c, no)});
    c->insn.at[jump].b = c->insn.n;
    return dst;
}

static int compile_op(Code *c, const Expr *x)
{
    if (x->op == S_OR) {
        return compile_choice(c, x->a, NULL, x->b);
    }
    int a = compile(c, x->a);
    int b = x->b ? compile(c, x->b) : a;
    Insn insn = {
        .code = (uint8_t)opcode_of(x->op, x->a->dtype),
        .op = (uint8_t)x->op,
        .from = (uint8_t)x->a->dtype,
        .dst = new_regs(c, 1),
        .a = a,
        .b = b,
    };
    add(c, insn);
    return insn.dst;
}

static int compile_load(Code *c, const Expr *x)
{
    int index = compile(c, x->a);
    Opcode code = x->dtype == DT_F32 ? I_LOAD_F32 : I_LOAD;
    Insn insn = {.code = (uint8_t)code, .dst = new_regs(c, 1), .a = index, .b = x->id};
    add(c, insn);
    return insn.dst;
}

static int compile_cast(Code *c, const Expr *x)
{
    int a = compile(c, x->a);
    Insn insn = {.code = I_CAST,
                 .from = (uint8_t)x->a->dtype,
                 .to = (uint8_t)x->dtype,
                 .dst = new_regs(c, 1),
                 .a = a};
    add(c, insn);
    return insn.dst;
}

/* The register that holds x once the code up to here has run. */
static int compile(Code *c, const Expr *x)
{
    switch (x->kind) {
    case X_CONST: return new_reg(c, x->value);
    case X_AXIS: return c->axis + x->id;
    case X_SYM: return c->sym + x->id;
    case X_VAR: return c->var + x->id;
    case X_LOAD: return compile_load(c, x);
    case X_OP: return compile_op(c, x);
    case X_SELECT: return compile_choice(c, x->a, x->b, x->c);
    case X_CAST: return compile_cast(c, x);
    }
    bug("expression of unknown kind %d", (int)x->kind);
}

/* Code that ends in the instruction that makes the value writes the variable itself. */
static void compile_assign(Code *c, int var, const Expr *value)
{
    bool choice = value->kind == X_SELECT || (value->kind == X_OP && value->op == S_OR);
    bool made = value->kind == X_OP || value->kind == X_LOAD || value->kind == X_CAST;
    int a = compile(c, value);
    if (made && !choice) {
        c->insn.at[c->insn.n - 1].dst = c->var + var;
    } else {
        add(c, (Insn){.code = I_MOVE, .dst = c->var + var, .a = a});
    }
}

static void compile_stmt(Code *c, const Stmt *s)
{
    if (s->kind == STMT_LET) {
        compile_assign(c, s->var, s->value);
        return;
    }
    int value = compile(c, s->value);
    if (s->kind == STMT_FAIL) {
        add(c, (Insn){.code = I_FAIL, .a = value, .b = s->code});
    } else {
        add(c, (Insn){.code = I_STORE, .a = compile(c, s->index), .b = value});
    }
}

typedef struct Loops { /* open loops: their I_LOOP instructions, outermost first */
    int *at;
    int n;
} Loops;

static Loops open_loops(Code *c, const int *axes, int n, AxisKind kind)
{
    Loops open = {.at = arena_array(c->arena, int, n)};
    for (int i = 0; i < n; i++) {
        const Axis *a = &c->k->nest.axis.at[axes[i]];
        if (a->kind == kind) {
            int extent = compile(c, a->extent);
            open.at[open.n++] =
                add(c, (Insn){.code = I_LOOP, .dst = c->axis + axes[i], .a = extent});
        }
    }
    return open;
}

static void close_loops(Code *c, Loops open)
{
    for (int i = open.n - 1; i >= 0; i--) {
        Insn loop = c->insn.at[open.at[i]];
        add(c, (Insn){.code = I_NEXT, .dst = loop.dst, .a = loop.a, .b = open.at[i] + 1});
        c->insn.at[open.at[i]].b = c->insn.n;
    }
}

static void compile_phase(Code *c, const Phase *p)
{
    Loops space = open_loops(c, p->loops.at, p->loops.n, AXIS_SPACE);
    for (int i = 0; i < p->acc.n; i++) {
        compile_assign(c, p->acc.at[i].var, p->acc.at[i].init);
    }
    Loops reduce = open_loops(c, p->loops.at, p->loops.n, AXIS_REDUCE);
    for (int i = 0; i < p->body.n; i++) {
        compile_stmt(c, &p->body.at[i]);
    }
    for (int i = 0; i < p->acc.n; i++) {
        compile_assign(c, p->acc.at[i].var, p->acc.at[i].update);
    }
    close_loops(c, reduce);
    for (int i = 0; i < p->finish.n; i++) {
        compile_stmt(c, &p->finish.at[i]);
    }
    close_loops(c, space);
}

static Code compile_kernel(Env *e, const Kernel *k, const int64_t *syms)
{
    Code c = {.arena = &e->kernel, .k = k};
    const Nest *n = &k->nest;
    c.axis = new_regs(&c, n->axis.n);
    c.sym = new_regs(&c, k->n_syms);
    c.var = new_regs(&c, n->var.n);
    for (int i = 0; i < k->n_syms; i++) {
        c.reg.at[c.sym + i].i = syms[i];
    }
    Loops outer = open_loops(&c, n->outer.at, n->outer.n, AXIS_SPACE);
    for (int i = 0; i < n->phase.n; i++) {
        compile_phase(&c, &n->phase.at[i]);
    }
    close_loops(&c, outer);
    add(&c, (Insn){.code = I_END});
    return c;
}

/* ---- execution ---- */

typedef struct Run {
    Env *e;
    const Kernel *k;
    void *const *params;
    const int64_t *n_elems;
} Run;

static inline void check_index(const Run *r, int operand, int64_t index)
{
    if (index < 0 || index >= r->n_elems[operand]) {
        const Operand *o = &r->k->operand.at[operand];
        fail(r->e, E_RANGE,
             "kernel %s (%s) %s element %lld of operand %s, which has %lld elements.",
             r->k->symbol, r->k->kind, operand == 0 ? "stores to" : "loads", (long long)index,
             o->name, (long long)r->n_elems[operand]);
    }
}

static Value load(const Run *r, int operand, int64_t index)
{
    check_index(r, operand, index);
    return value_load(r->params[operand], r->k->operand.at[operand].dtype, index);
}

static void store(const Run *r, int64_t index, Value v)
{
    check_index(r, 0, index);
    value_store(r->params[0], r->k->operand.at[0].dtype, index, v);
}

/* One case an instruction; kept together, so that the compiler can thread the jumps. */
static int execute(const Run *run, const Insn *code, Value *reg)
{
    for (const Insn *i = code;; i++) {
        Value a = reg[i->a];
        switch ((Opcode)i->code) {
#define X(name, op, t, field, result) \
    case I_##name: {                  \
        Value b = reg[i->b];          \
        reg[i->dst].field = result;   \
        break;                        \
    }
            FAST_OPS(X)
#undef X
        case I_SCALAR:
            reg[i->dst] = scalar_eval((ScalarOp)i->op, (Dtype)i->from, a, reg[i->b]);
            break;
        case I_CAST: reg[i->dst] = scalar_cast(a, (Dtype)i->from, (Dtype)i->to); break;
        case I_MOVE: reg[i->dst] = a; break;
        case I_LOAD_F32:
            check_index(run, i->b, a.i);
            reg[i->dst].f = ((const float *)run->params[i->b])[a.i];
            break;
        case I_LOAD: reg[i->dst] = load(run, i->b, a.i); break;
        case I_STORE: store(run, a.i, reg[i->b]); break;
        case I_FAIL:
            if (a.i) {
                return i->b;
            }
            break;
        case I_JUMP: i = code + i->b - 1; break;
        case I_UNLESS: i = a.i ? i : code + i->b - 1; break;
        case I_LOOP:
            reg[i->dst].i = 0;
            i = a.i > 0 ? i : code + i->b - 1;
            break;
        case I_NEXT: i = ++reg[i->dst].i < a.i ? code + i->b - 1 : i; break;
        case I_END: return 0;
        }
    }
}

int nest_run(Env *e, const Kernel *k, void *const *params, const int64_t *n_elems,
             const int64_t *syms)
{
    Code c = compile_kernel(e, k, syms);
    Run run = {.e = e, .k = k, .params = params, .n_elems = n_elems};
    return execute(&run, c.insn.at, c.reg.at);
}
