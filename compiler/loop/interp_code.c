/* interp_code.c - a nest as a flat register program for the nest interpreter: axes, symbols, variables
 * and constants live in registers; every operation is one instruction, in the order of the emitted C.
 * Selects and "or" jump over what they do not need. needs: a kernel that nest_check passed. */
#include "loop/interp.h"
#include "loop/schedule.h"
#include "loop/tree.h"

typedef struct Code {
    Arena *arena;
    const Kernel *k;
    Vec(Insn) insn;
    Vec(Value) reg;    /* with their first values */
    int axis, sym;     /* where those registers begin */
    struct Place *var; /* by variable: where its instances are */
    int part, n_parts;
} Code;

typedef struct Place {
    int reg;        /* of the first instance */
    VarShape shape; /* n 0: the only one */
} Place;

/* ---- instructions ---- */

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
    bool plain = x->dtype == DT_F32 && !c->k->operand.at[x->id].bf16;
    Opcode code = plain ? I_LOAD_F32 : I_LOAD;
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

/* The number of this point's instance: row-major over the shape. */
static int compile_instance(Code *c, const VarShape *v)
{
    int at = new_reg(c, (Value){.i = 0});
    for (int i = 0; i < v->n; i++) {
        int extent = new_reg(c, (Value){.i = v->extent[i]}), product = new_regs(c, 1),
            sum = new_regs(c, 1);
        add(c, (Insn){.code = I_MUL_I, .dst = product, .a = at, .b = extent});
        add(c, (Insn){.code = I_ADD_I, .dst = sum, .a = product, .b = c->axis + v->axis[i]});
        at = sum;
    }
    return at;
}

static int64_t instances(const VarShape *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->n; i++) {
        n *= v->extent[i];
    }
    return n;
}

static int compile_var(Code *c, int var)
{
    const Place *p = &c->var[var];
    if (p->shape.n == 0) {
        return p->reg;
    }
    int at = compile_instance(c, &p->shape), dst = new_regs(c, 1);
    add(c, (Insn){.code = I_GET, .dst = dst, .a = at, .b = p->reg});
    return dst;
}

static int compile_fma(Code *c, const Expr *x)
{
    int a = compile(c, x->a), b = compile(c, x->b), sum = compile(c, x->c),
        dst = new_regs(c, 1);
    add(c, (Insn){.code = I_MOVE, .dst = dst, .a = sum});
    add(c, (Insn){.code = I_FMA, .dst = dst, .a = a, .b = b});
    return dst;
}

/* The register that holds x once the code up to here has run. */
static int compile(Code *c, const Expr *x)
{
    switch (x->kind) {
    case X_CONST: return new_reg(c, x->value);
    case X_AXIS: return c->axis + x->id;
    case X_SYM: return c->sym + x->id;
    case X_VAR: return compile_var(c, x->id);
    case X_LOAD: return compile_load(c, x);
    case X_OP: return compile_op(c, x);
    case X_SELECT: return compile_choice(c, x->a, x->b, x->c);
    case X_CAST: return compile_cast(c, x);
    case X_FMA: return compile_fma(c, x);
    }
    bug("expression of unknown kind %d", (int)x->kind);
}

/* Code that ends in the instruction that makes the value writes the variable itself. */
static void compile_assign(Code *c, int var, const Expr *value)
{
    const Place *p = &c->var[var];
    bool choice = value->kind == X_SELECT || (value->kind == X_OP && value->op == S_OR);
    bool made = value->kind == X_OP || value->kind == X_LOAD || value->kind == X_CAST;
    int a = compile(c, value);
    if (p->shape.n) {
        add(c,
            (Insn){.code = I_PUT, .dst = p->reg, .a = compile_instance(c, &p->shape), .b = a});
    } else if (made && !choice) {
        c->insn.at[c->insn.n - 1].dst = p->reg;
    } else {
        add(c, (Insn){.code = I_MOVE, .dst = p->reg, .a = a});
    }
}

static void compile_store(Code *c, int operand, const Expr *index, const Expr *x)
{
    int value = compile(c, x);
    add(c, (Insn){.code = I_STORE, .dst = operand, .a = compile(c, index), .b = value});
}

static void compile_stmt(Code *c, const Stmt *s)
{
    if (s->kind == STMT_LET) {
        compile_assign(c, s->var, s->value);
        return;
    }
    if (s->kind == STMT_FAIL) {
        add(c, (Insn){.code = I_FAIL, .a = compile(c, s->value), .b = s->code});
    } else {
        compile_store(c, 0, s->index, s->value);
    }
}

/* ---- the tree ---- */

static void compile_tree(Code *c, const Tree *t);

static void compile_children(Code *c, const Tree *t)
{
    for (int i = 0; i < t->child.n; i++) {
        compile_tree(c, t->child.at[i]);
    }
}

/* A parallel axis runs from n * part / n_parts up to n * (part + 1) / n_parts. */
static int part_bound(Code *c, int extent, int part)
{
    int k = new_reg(c, (Value){.i = part}), n = new_reg(c, (Value){.i = c->n_parts});
    int product = new_regs(c, 1), bound = new_regs(c, 1);
    add(c, (Insn){.code = I_MUL_I, .dst = product, .a = extent, .b = k});
    add(c, (Insn){.code = I_SCALAR,
                  .op = S_IDIV,
                  .from = DT_I64,
                  .dst = bound,
                  .a = product,
                  .b = n});
    return bound;
}

static void compile_for(Code *c, const Tree *t)
{
    bool par = c->k->nest.axis.at[t->axis].par;
    int axis = c->axis + t->axis, extent = compile(c, t->value);
    int from = par ? part_bound(c, extent, c->part) : new_reg(c, (Value){.i = 0});
    int to = par ? part_bound(c, extent, c->part + 1) : extent;
    add(c, (Insn){.code = I_MOVE, .dst = axis, .a = from});
    int loop = add(c, (Insn){.code = I_LOOP, .dst = axis, .a = to});
    compile_children(c, t);
    add(c, (Insn){.code = I_NEXT, .dst = axis, .a = to, .b = loop + 1});
    c->insn.at[loop].b = c->insn.n;
}

static void compile_if(Code *c, const Tree *t)
{
    if (t->last_part) {
        if (c->part == c->n_parts - 1) {
            compile_children(c, t);
        }
        return;
    }
    int test = compile(c, t->value), unless = -1, jump = -1;
    unless = add(c, (Insn){.code = I_UNLESS, .a = test});
    if (t->negated) {
        jump = add(c, (Insn){.code = I_JUMP});
        c->insn.at[unless].b = c->insn.n;
    }
    compile_children(c, t);
    c->insn.at[t->negated ? jump : unless].b = c->insn.n;
}

static void compile_switch(Code *c, const Tree *t)
{
    int value = compile(c, t->value);
    for (int i = 0; i < t->child.n; i++) {
        int k = new_reg(c, (Value){.i = i + 1}), differs = new_regs(c, 1);
        add(c, (Insn){.code = I_SCALAR,
                      .op = S_NE,
                      .from = DT_I64,
                      .dst = differs,
                      .a = value,
                      .b = k});
        int unless = add(c, (Insn){.code = I_UNLESS, .a = differs});
        int jump = add(c, (Insn){.code = I_JUMP});
        c->insn.at[unless].b = c->insn.n;
        compile_tree(c, t->child.at[i]);
        c->insn.at[jump].b = c->insn.n;
    }
}

static void place_accs(Code *c, const Phase *p, const VarShape *shape)
{
    for (int i = 0; i < p->acc.n; i++) {
        c->var[p->acc.at[i].var] = (Place){new_regs(c, (int)instances(shape)), *shape};
    }
}

/* into = into op from, for two partial results of one accumulator. */
static void compile_join(Code *c, const Accum *acc, int into, int from)
{
    const Expr *value;
    Dtype t = c->k->nest.var.at[acc->var].dtype;
    if (acc_is_sum(acc, &value)) {
        add(c, (Insn){.code = I_SCALAR,
                      .op = S_ADD,
                      .from = (uint8_t)t,
                      .dst = into,
                      .a = into,
                      .b = from});
        return;
    }
    int less = new_regs(c, 1), nan = new_regs(c, 1);
    add(c, (Insn){.code = I_SCALAR,
                  .op = S_LT,
                  .from = (uint8_t)t,
                  .dst = less,
                  .a = into,
                  .b = from});
    add(c, (Insn){.code = I_SCALAR,
                  .op = S_NE,
                  .from = (uint8_t)t,
                  .dst = nan,
                  .a = from,
                  .b = from});
    add(c,
        (Insn){
            .code = I_SCALAR, .op = S_OR, .from = DT_BOOL, .dst = less, .a = less, .b = nan});
    int unless = add(c, (Insn){.code = I_UNLESS, .a = less});
    add(c, (Insn){.code = I_MOVE, .dst = into, .a = from});
    c->insn.at[unless].b = c->insn.n;
}

/* The upper half joins the lower until one is left: for 8, 4 + 2 + 1 joins. */
static void compile_combine(Code *c, const Tree *t)
{
    int64_t priv = instances(&t->priv), tile = instances(&t->shape);
    for (int i = 0; i < t->phase->acc.n; i++) {
        const Accum *acc = &t->phase->acc.at[i];
        int from = c->var[acc->var].reg, to = new_regs(c, (int)tile);
        for (int64_t k = 0; k < tile; k++) {
            int first = from + (int)(k * priv);
            for (int64_t n = priv; n > 1; n = (n + 1) / 2) {
                for (int64_t p = 0; p < n / 2; p++) {
                    compile_join(c, acc, first + (int)p, first + (int)(p + (n + 1) / 2));
                }
            }
            add(c, (Insn){.code = I_MOVE, .dst = to + (int)k, .a = first});
        }
        c->var[acc->var] = (Place){to, t->shape};
    }
}

static void compile_init(Code *c, const Tree *t)
{
    for (int i = 0; i < t->phase->acc.n; i++) {
        compile_assign(c, t->phase->acc.at[i].var, t->phase->acc.at[i].init);
    }
}

static void compile_update(Code *c, const Tree *t)
{
    for (int i = 0; i < t->phase->acc.n; i++) {
        compile_assign(c, t->phase->acc.at[i].var, t->phase->acc.at[i].update);
    }
}

static void compile_tree(Code *c, const Tree *t)
{
    switch (t->kind) {
    case TREE_BLOCK: compile_children(c, t); break;
    case TREE_FOR: compile_for(c, t); break;
    case TREE_BIND:
        add(c, (Insn){.code = I_MOVE, .dst = c->axis + t->axis, .a = compile(c, t->value)});
        break;
    case TREE_IF: compile_if(c, t); break;
    case TREE_SWITCH: compile_switch(c, t); break;
    case TREE_ACC: place_accs(c, t->phase, &t->shape); break;
    case TREE_INIT: compile_init(c, t); break;
    case TREE_UPDATE: compile_update(c, t); break;
    case TREE_COMBINE: compile_combine(c, t); break;
    case TREE_LET:
    case TREE_STORE:
    case TREE_FAIL: compile_stmt(c, t->stmt); break;
    case TREE_PREFETCH: break; /* no meaning, only speed */
    case TREE_FILL: compile_store(c, t->stage->local, t->stage->index, t->stage->value); break;
    }
}

InterpCode interp_code(Env *e, const Kernel *k, const int64_t *syms, int part, int n_parts)
{
    Code c = {.arena = &e->kernel, .k = k, .part = part, .n_parts = n_parts};
    const Nest *n = &k->nest;
    c.axis = new_regs(&c, n->axis.n);
    c.sym = new_regs(&c, k->n_syms);
    c.var = arena_array(&e->kernel, Place, n->var.n);
    for (int i = 0; i < n->var.n; i++) {
        c.var[i].reg = new_regs(&c, 1);
    }
    for (int i = 0; i < k->n_syms; i++) {
        c.reg.at[c.sym + i].i = syms[i];
    }
    compile_tree(&c, nest_tree(e, &e->kernel, k));
    add(&c, (Insn){.code = I_END});
    return (InterpCode){c.insn.at, c.reg.at};
}
