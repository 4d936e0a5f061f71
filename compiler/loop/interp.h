/* interp.h - the register program that the nest interpreter turns a nest into: interp_code.c writes
 * it, interp.c runs it. */
#ifndef NC_LOOP_INTERP_H
#define NC_LOOP_INTERP_H

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
    I_FMA,    /* a * b + dst, into dst */
    I_GET,    /* dst = the register a further than b */
    I_PUT,    /* the register a further than dst = b */
    I_LOAD_F32,
    I_LOAD,
    I_STORE,
    I_FAIL,   /* leave with code b if a */
    I_JUMP,   /* to b */
    I_UNLESS, /* to b if not a */
    I_LOOP,   /* to b unless dst < a */
    I_NEXT,   /* dst++; to b if dst < a */
    I_END,
} Opcode;
/* clang-format on */

typedef struct Insn {
    uint8_t code;     /* Opcode */
    uint8_t op;       /* ScalarOp of I_SCALAR */
    uint8_t from, to; /* dtypes of the operands and of the result */
    int32_t dst;      /* register; I_STORE: operand */
    int32_t a, b;     /* registers; I_LOAD: index in a, operand in b; jumps: target in b */
} Insn;

typedef struct InterpCode {
    const Insn *insn;
    Value *reg; /* with their first values */
} InterpCode;

/* In e->kernel. */
InterpCode interp_code(Env *e, const Kernel *k, const int64_t *syms, int part, int n_parts);

#endif
