/* loop.h - the loop IR: scalar expressions, the Nest, the Kernel, and the Program of calls a model
 * becomes; their text, their second interpreter, their counts and the arena plan. Knows no graph
 * and no kernel class. spec: loop-ir.md; DESIGN: Nest. */
#ifndef NC_LOOP_H
#define NC_LOOP_H

#include "base/base.h"

/* ---- expr.c: scalar expressions, immutable, made by constructors that fold integers only ------
 * Float operands are never folded: every float operation written is performed, in order. */

typedef enum ExprKind {
    X_CONST,
    X_AXIS,
    X_SYM,
    X_VAR,
    X_LOAD,
    X_OP,
    X_SELECT,
    X_CAST,
    X_FMA
} ExprKind;

typedef struct Expr Expr;
struct Expr {
    ExprKind kind;
    Dtype dtype; /* of the result; indices, axes and symbols are i64 */
    ScalarOp op; /* X_OP */
    int id;      /* X_AXIS: axis; X_SYM: symbol slot; X_VAR: variable; X_LOAD: operand */
    Value value; /* X_CONST */
    /* X_OP: a [b]; X_LOAD: a = element index; X_SELECT: a ? b : c; X_CAST: a;
     * X_FMA: a * b + c, rounded once */
    const Expr *a, *b, *c;
};

const Expr *x_const(Arena *m, Dtype t, Value v);
const Expr *x_int(Arena *m, int64_t k); /* i64 */
const Expr *x_axis(Arena *m, int axis);
const Expr *x_sym(Arena *m, int slot);
const Expr *x_var(Arena *m, int var, Dtype t);
const Expr *x_load(Arena *m, int operand, Dtype t, const Expr *index);
const Expr *x_op(Arena *m, ScalarOp op, const Expr *a, const Expr *b); /* b NULL for unary */
const Expr *x_select(Arena *m, const Expr *cond, const Expr *a, const Expr *b);
const Expr *x_cast(Arena *m, const Expr *a, Dtype to); /* to bool is (a != 0) */
const Expr *x_fma(Arena *m, const Expr *a, const Expr *b, const Expr *c); /* f32 only */
bool expr_eq(const Expr *a, const Expr *b);
bool expr_is_int(const Expr *e, int64_t k); /* the i64 constant k */
/* Calls visit on x and everything below it, in the order of the text. */
void expr_visit(const Expr *x, void (*visit)(const Expr *x, void *ctx), void *ctx);
/* The value of i64 arithmetic over symbols and constants: extents, spans. Wraps; x / 0 is 0. */
int64_t expr_value(const Expr *x, const int64_t *syms);

/* ---- nest.c: the Nest --------------------------------------------------------------------------
 * for outer..: for each phase in order: for its loops..: [acc = init] body; acc = update; then finish.
 * The naive nest is the nest with no steps: each phase's loops are its space axes, then its reduce
 * axes. Accumulators start before the outermost reduce loop and are finished after it. Later
 * schedule steps edit the axis table and the loop lists, never the expressions' meaning. */

typedef enum AxisKind { AXIS_SPACE, AXIS_REDUCE } AxisKind;

/* What happens where a split's factor does not divide the extent. */
typedef enum Tail {
    TAIL_NONE,    /* it divides */
    TAIL_PEEL,    /* the rest in a loop of its own */
    TAIL_MASK,    /* every point asks whether it is inside */
    TAIL_PAD,     /* outside points are computed on padded operands and not stored */
    TAIL_OVERLAP, /* the last tile is moved back over its neighbour */
    TAIL_SWITCH,  /* one constant-size copy for each remainder */
} Tail;

typedef struct Axis {
    const char *name; /* m n k r h i j ..., unique in the nest; halves of a split: m.o m.i */
    AxisKind kind;
    const Expr *extent; /* of symbols and constants; a constant 1: no loop in C, index 0 */
    int half_of;        /* 1 + the axis it is a half of; 0: an axis of the naive nest */
    int outer, inner;   /* the halves, where it is split; 0 (never a half): it is not */
    int64_t factor;     /* extent of the inner half */
    Tail tail;
    bool vec, unroll, par, dot;
    bool priv;    /* accumulators are private to each of its points, and combined afterwards */
    bool resumed; /* between its turns accumulators lie in the output */
} Axis;

typedef struct Var {  /* an accumulator or a let, assigned as its phase says */
    const char *name; /* acc0 acc1 ..., t0 t1 ... */
    Dtype dtype;
} Var;

typedef struct Accum {
    int var;
    const Expr *init;   /* before the first reduce loop */
    const Expr *update; /* new value inside the innermost loop; reads var */
} Accum;

typedef enum StmtKind { STMT_LET, STMT_STORE, STMT_FAIL } StmtKind;
typedef struct Stmt {
    StmtKind kind;
    int var;           /* LET: declares it */
    const Expr *index; /* STORE: element of operand 0 */
    const Expr *value; /* LET, STORE: the value; FAIL: the condition */
    int code;          /* FAIL: the kernel's result, not 0 */
} Stmt;

typedef struct Phase {
    Vec(int) loops; /* this phase's own axes, outermost first; kinds say which reduce */
    Vec(Stmt) body; /* LETs in the innermost loop, before the updates; only with reduce axes */
    Vec(Accum) acc;
    Vec(Stmt) finish; /* after the reduction, once for each point of outer x space */
} Phase;

typedef struct Nest {
    Vec(Axis) axis;
    Vec(Var) var;
    /* Axes around all phases. A phase without space axes of its own leaves its variables to the
     * phases after it. */
    Vec(int) outer;
    Vec(Phase) phase;
} Nest;

/* bug()s on ill-formed nests: scopes, dtypes, ids. */
void nest_check(Env *e, const Nest *n, int n_operands, int n_syms);
bool axis_is_unit(const Nest *n, int axis); /* constant extent 1 */
/* An outer half whose tail is code of its own, one turn more. */
bool axis_peels(const Nest *n, int axis);
/* An axis of that kind among its loops. */
bool phase_has(const Nest *n, const Phase *p, AxisKind kind);
/* Calls visit on every expression of the nest in the order of the text; visit may replace it. */
void nest_exprs(Nest *n, void (*visit)(const Expr **slot, void *ctx), void *ctx);

/* ---- kernel.c: the Kernel: a nest with operands, its text and its key ------------------------ */

typedef struct Operand {
    /* y: the output; a b for a contraction; x0 x1 ... in order of first load. */
    const char *name;
    Dtype dtype;
    bool constant;  /* weight or const: the same at every run */
    bool from_bf16; /* f32 whose low 16 bits are zero: it was widened from bfloat16 */
    bool bf16; /* the kernel reads it as bfloat16, by a schedule; widened when it is loaded */
    Vec(const Expr *) span; /* elements reached from its pointer: the largest of these */
    bool local; /* a buffer on the kernel's stack, not a parameter; its span is constant */
    struct Pack *pack; /* its panels, where a schedule packed it; NULL: as the graph has it */
} Operand;

/* Panels are row-major over these axes; filled once, when constants are loaded. */
typedef struct Pack {
    int n;
    int axis[MAX_RANK];
    const Expr *extent[MAX_RANK]; /* turns of each, tails rounded up */
    const Expr *source;           /* element of the operand as the graph has it */
    const Expr *count;            /* elements of the panels */
    Vec(const Expr *) span;       /* of the operand as the graph has it */
} Pack;

/* At each turn of an axis a tile of an operand is copied to a local buffer. */
typedef struct Staged {
    int axis, local;   /* the local operand */
    Vec(int) loops;    /* of the copy, outermost first */
    const Expr *value; /* the operand's element */
    const Expr *index; /* and its place in the buffer */
} Staged;

typedef struct Prefetch {
    int operand, axis;
    int64_t ahead_bytes;
    const Expr *index; /* the operand's element at the axis's turn */
} Prefetch;

typedef struct Kernel {
    /* elementwise row matmul matmul+epilogue reduce gather copy, or a primitive's name
     * unfused. */
    const char *kind;
    Vec(Operand) operand; /* [0] is the output, the only one written */
    int n_syms;           /* symbols, numbered by first use in the text; printed s0 s1 ... */
    Nest nest;
    Vec(Prefetch) prefetch;
    Vec(Staged) stage;
    const char *schedule; /* text of the steps applied; NULL: none, the nest is naive */
    bool in_lanes;        /* what vec asks for is legal: axes really are in lanes */
    bool exact;           /* scheduled: the bits are the naive nest's */
    bool parallel;        /* has an axis that is split over parts; else part 0 does all */
    const char *text; /* canonical: kernel_finish writes it. Equal text is the same kernel */
    Hash hash;        /* of text */
    char symbol[36];  /* nc_ and 32 hex digits */
} Kernel;

/* Renumbers symbols by first use (slots[new] = old), checks, writes text, hash and symbol. */
void kernel_finish(Env *e, Arena *m, Kernel *k, int slots[MAX_SYMBOLS]);
void kernel_text(Env *e, const Kernel *k, Buf *out); /* what kernel_finish stores */
/* Reads kernel_text back. Fails with E_SYNTAX "file:line:col: ...". */
Kernel *kernel_parse(Env *e, const char *text, size_t len, const char *file);
int operand_bytes(const Operand *o); /* of an element as the kernel reads it */
/* What the kernel, or the function that fills its panels, is to be given: bfloat16, where it
 * reads that or lays it out; else the operand's own type. And bytes of an element of that. */
bool operand_takes_bf16(const Operand *o);
int operand_given_bytes(const Operand *o);
int64_t kernel_span(const Kernel *k, int operand, const int64_t *syms); /* elements, >= 0 */
size_t operand_stored_bytes(const Kernel *k, int operand, const int64_t *syms); /* of those */
int64_t kernel_given_span(const Kernel *k, int operand,
                          const int64_t *syms); /* before packing */

/* ---- tree_print.c: the statement tree, as people read it --------------------------------------- */
/* "for m in s0:" ... one statement a line */
void nest_print(Env *e, const Kernel *k, Buf *out);

/* ---- print.c: expressions -------------------------------------------------------------------- */
/* Infix with the fewest parentheses that keep the tree; style says how leaves are spelt. */
typedef struct ExprStyle {
    /* typed: nothing around gives the type. */
    void (*constant)(Buf *out, Dtype t, Value v, bool typed);
    void (*axis)(Buf *out, const void *ctx, int axis);
    void (*sym)(Buf *out, const void *ctx, int slot);
    void (*var)(Buf *out, const void *ctx, int var);
    /* The name; [index] is printed by expr_print. */
    void (*load)(Buf *out, const void *ctx, int operand);
    /* Opening of a call around its loads, or NULL; may be NULL. */
    const char *(*widen)(const void *ctx, int operand);
    /* A call's opening "f32(", or a prefix "(float)" */
    const char *(*cast)(Dtype from, Dtype to);
    bool c; /* C spelling of functions and select, else the text form's */
} ExprStyle;
void expr_print(Buf *out, const ExprStyle *style, const void *ctx, const Expr *x);
void print_f32(Buf *out, float f); /* a finite float as a C literal, exact: 0.0f -0x1.8p+1f */

/* ---- interp.c, interp_code.c: the second oracle: runs a nest without a C compiler ----------------------------- */
/* Same ABI as emitted C, plus element counts: every access is checked. Returns 0 or the FAIL code; an
 * access out of bounds fails with E_RANGE, naming operand and index. */
int nest_run(Env *e, const Kernel *k, void *const *params, const int64_t *n_elems,
             const int64_t *syms);

/* One part of n_parts of it; without a parallel axis part 0 does all. */
int nest_run_part(Env *e, const Kernel *k, void *const *params, const int64_t *n_elems,
                  const int64_t *syms, int part, int n_parts);

/* ---- program.c: what a model becomes ----------------------------------------------------------- */

typedef enum BufferKind { BUF_INPUT, BUF_WEIGHT, BUF_CONST, BUF_TEMP, BUF_OUTPUT } BufferKind;

typedef struct Buffer {
    BufferKind kind;
    Dtype dtype;
    Shape shape;
    Dim count;         /* elements */
    int index;         /* input, weight, output: position in the graph's list */
    const char *name;  /* input, weight, output; else NULL */
    const void *value; /* const: elements */
    /* TEMP: the call that writes it first, and the last of the region that touches it last. */
    int first, last;
    bool written;    /* INPUT: updates are written into the caller's memory */
    int also_output; /* INPUT, written: 1 + the output that it is in the end; 0: none */
} Buffer;

typedef struct Arg {
    int buffer;
    Dim offset; /* elements, graph symbols */
} Arg;

typedef struct Call {
    int kernel;                  /* index in kernels */
    Vec(Arg) arg;                /* one an operand */
    Vec(Sym) sym;                /* graph symbol of each kernel symbol slot */
    Dim read_bytes, write_bytes; /* spec loop-ir 3, graph symbols */
    int node;                    /* graph node this call computes, for messages */
    bool with_next; /* shares a parallel region with the next call: neither needs the other */
} Call;

typedef struct Program {
    const char *name;
    Vec(Buffer) buffer;
    Vec(Kernel *) kernel; /* distinct, numbered by first use */
    Vec(Call) call;
    Map by_hash; /* kernel hash -> Kernel */
} Program;

/* Adds the kernel unless an equal one is there; returns its index. */
int program_kernel(Env *e, Program *p, Kernel *k);
void program_lifetimes(Program *p); /* sets Buffer.first and .last from the calls */
/* regions.c: brings calls together that may share a parallel region, with the same results. */
void program_regions(Env *e, Program *p);

/* ---- traffic.c: exact counts as polynomials -------------------------------------------------- */
/* Of one call at these sizes, by symbol id, as its kernel's schedule stores operands: half for what it reads
 * as bfloat16. Of a table that is looked up in, the rows; their ids are halved with them. */
int64_t call_bytes(const Program *p, const Call *c, const int64_t *size);
/* Of the graph, all f32. Total; read, written may be NULL. */
Dim program_bytes(Env *e, const Program *p, Dim *read, Dim *written);
/* Float operations of one run, as the nest writes them (a comparison is one, a multiply-add two), in symbols
 * s0 s1 ... Fails with E_ILLEGAL where an extent is no polynomial, as after a split. */
Dim kernel_flops(Env *e, const Kernel *k);
/* At these sizes. False: err says why it cannot be told. */
bool kernel_flops_at(Env *e, const Kernel *k, const int64_t *syms, int64_t *flops, Err *err);
Dim program_flops(Env *e, const Program *p); /* graph symbols */

/* ---- plan.c: the arena: best fit over lifetimes, per binding of sizes. spec: loop-ir 7 ---------- */
typedef struct PlanSize { /* one distinct size */
    Dim count;
    int elem_bytes;
    int64_t bytes; /* rounded, at the sizes of the last update */
} PlanSize;

typedef struct PlanBlock {
    int64_t at, bytes;
} PlanBlock;

typedef struct Plan {
    int64_t *offset;     /* bytes, by buffer; -1 where the buffer is not a temporary */
    int64_t *bytes;      /* rounded size, by buffer; 0 where it is not a temporary */
    int64_t arena_bytes; /* with reuse */
    int64_t total_bytes; /* without */
    PlanSize *size;      /* the rest is plan.c's own: distinct sizes */
    int n_sizes;
    int *class_of;         /* by buffer: which size; -1: not a temporary */
    int *born;             /* by call: the temporary it writes first, or -1 */
    int *dead, *dead_from; /* temporaries by the call that touches them last */
    PlanBlock *free;       /* by address */
    int n_free;
} Plan;
/* sizes: value by symbol id. Memory for the plan is in m; plan_update reuses it, allocating nothing.
 * False: the temporaries would need more than 2^63 bytes. */
void plan_init(Plan *p, const Program *prog, Arena *m);
bool plan_update(Plan *p, const Program *prog, const int64_t sizes[MAX_SYMBOLS]);

#endif
