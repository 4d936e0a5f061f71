/* interp.c - the second oracle: runs a nest without a C compiler.
 *
 * A call first turns the nest into a flat register program (interp_code.c), then runs that. Order,
 * laziness and rounding are those of the emitted C: selects and "or" evaluate only what they
 * need, float operations are single float operations. Every load and store is checked against
 * the operand's element count. Memory of the program is in e->kernel: who calls often resets
 * that. */
#include "loop/interp.h"

#include <math.h>

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
    if (r->k->operand.at[operand].bf16) {
        Value v = {.i = 0};
        v.f = bf16_float(((const uint16_t *)r->params[operand])[index]);
        return v;
    }
    return value_load(r->params[operand], r->k->operand.at[operand].dtype, index);
}

static void store(const Run *r, int operand, int64_t index, Value v)
{
    check_index(r, operand, index);
    value_store(r->params[operand], r->k->operand.at[operand].dtype, index, v);
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
        case I_FMA: reg[i->dst].f = fmaf(a.f, reg[i->b].f, reg[i->dst].f); break;
        case I_GET: reg[i->dst] = reg[i->b + a.i]; break;
        case I_PUT: reg[i->dst + a.i] = reg[i->b]; break;
        case I_LOAD_F32:
            check_index(run, i->b, a.i);
            reg[i->dst].f = ((const float *)run->params[i->b])[a.i];
            break;
        case I_LOAD: reg[i->dst] = load(run, i->b, a.i); break;
        case I_STORE: store(run, i->dst, a.i, reg[i->b]); break;
        case I_FAIL:
            if (a.i) {
                return i->b;
            }
            break;
        case I_JUMP: i = code + i->b - 1; break;
        case I_UNLESS: i = a.i ? i : code + i->b - 1; break;
        case I_LOOP: i = reg[i->dst].i < a.i ? i : code + i->b - 1; break;
        case I_NEXT: i = ++reg[i->dst].i < a.i ? code + i->b - 1 : i; break;
        case I_END: return 0;
        }
    }
}

/* Local buffers behind the parameters. */
static void add_locals(Env *e, Run *r)
{
    int n = r->k->operand.n;
    void **params = arena_array(&e->kernel, void *, n);
    int64_t *n_elems = arena_array(&e->kernel, int64_t, n);
    for (int i = 0; i < n; i++) {
        const Operand *o = &r->k->operand.at[i];
        n_elems[i] = o->local ? o->span.at[0]->value.i : r->n_elems[i];
        params[i] =
            o->local ? arena_alloc_n(&e->kernel, (size_t)n_elems[i] + 1, 8) : r->params[i];
    }
    r->params = params;
    r->n_elems = n_elems;
}

int nest_run_part(Env *e, const Kernel *k, void *const *params, const int64_t *n_elems,
                  const int64_t *syms, int part, int n_parts)
{
    if (part > 0 && !k->parallel) {
        return 0;
    }
    InterpCode c = interp_code(e, k, syms, part, k->parallel ? n_parts : 1);
    Run run = {.e = e, .k = k, .params = params, .n_elems = n_elems};
    if (k->stage.n) {
        add_locals(e, &run);
    }
    return execute(&run, c.insn, c.reg);
}

int nest_run(Env *e, const Kernel *k, void *const *params, const int64_t *n_elems,
             const int64_t *syms)
{
    return nest_run_part(e, k, params, n_elems, syms, 0, 1);
}
