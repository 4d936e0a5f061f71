/* verify_int.h - what the files share that verify candidates: values with error bounds, the
 * nest evaluated with them, samples of a nest, random sums, inputs, guarded buffers, sizes. */
#ifndef NC_VERIFY_INT_H
#define NC_VERIFY_INT_H

#include "loop/schedule.h"
#include "run/run.h"

/* ---- near.c, near_ops.c: an expression at many points at once, with bounds ---------------- */

enum { LANES = 64, MAX_LOOPS = 16 };

typedef struct Near { /* one value in every lane */
    union {
        double v[LANES];  /* f32 */
        int64_t i[LANES]; /* integers, bool */
    };
    double err[LANES]; /* no candidate is farther from it; INFINITY: anything is right */
    bool sure;         /* all err are 0, and not written */
} Near;

typedef struct Linear { /* the index of a load that moves evenly along the inner axis */
    int64_t stride;
    uint64_t epoch;                  /* when first was taken */
    int64_t first[LANES], at[LANES]; /* the index where the inner axis is 0; and now */
} Linear;

typedef struct Eval Eval; /* an expression with room for its value */
struct Eval {
    const Expr *x;
    Eval *a, *b, *c;
    Near out;
    Linear *linear; /* of a load; NULL: its index is evaluated each time */
};

typedef enum How { HOW_EXACT, HOW_NEAREST, HOW_LIBM, HOW_EXP, N_HOWS } How;
typedef struct Rounding { /* what one operation adds: rel * |value| + floor */
    double rel, floor;
} Rounding;

typedef struct Points { /* where expressions are evaluated */
    Env *e;
    const Kernel *k;
    void *const *params;
    const int64_t *n_elems, *syms;
    int n;            /* lanes in use */
    Near *axis;       /* by axis */
    const Near **var; /* by variable */
    Rounding how[N_HOWS];
    int inner; /* the axis that changes from one evaluation to the next; -1: none */
    int64_t inner_value;
    uint64_t epoch; /* counts changes of the other axes */
} Points;

#define UNIT_ROUNDOFF 0x1.00001p-24 /* of f32; a little more, for the double's own rounding */
#define DENORMAL_HALF 0x1p-150      /* what rounding to a denormal adds */

/* approximate: the candidate computes exp by the polynomial. Memory is e->kernel. */
void points_init(Points *p, Env *e, const Kernel *k, void *const *params,
                 const int64_t *n_elems, const int64_t *syms, bool approximate);
void points_set_axis(Points *p, int axis, int64_t value); /* the same in all lanes */
/* For the nodes that are made now, and when they are evaluated. */
void points_set_inner(Points *p, int axis);
void points_set_lane(Points *p, int axis, int lane, int64_t value); /* never the inner axis */
Eval *near_node(Points *p, const Expr *x);
uint64_t near_lanes(const Points *p); /* a bit for each lane in use */
/* Evaluates x in the lanes that are on. Holds until the next evaluation of the node. Fails with E_RANGE
 * where a load is outside of its operand. */
const Near *near_eval(Points *p, Eval *x, uint64_t on);
double near_error(const Near *x, int lane);
/* One operation on values; b is a where it has one operand. */
void near_op(const Points *p, const Expr *x, const Near *a, const Near *b, Near *out);

typedef struct
    Folded { /* the sums over columns of a contraction whose one factor is constant */
    Arena *arena;
    bool there;
    uint64_t seed;
    int64_t n_columns, n_terms;
    double most, *w, *w_size; /* as freivalds.c has them */
} Folded;

typedef struct Question { /* a nest and its operands */
    const Kernel *naive;  /* or a sample of it */
    /* The candidate's: order of its sums, its approximations. NULL: nothing is known of it. */
    const Kernel *scheduled;
    void *const *params; /* of the naive nest */
    const int64_t *n_elems, *syms;
    double unit; /* inputs were chosen so that products are multiples of it; 0: they were not */
    Folded *folded; /* kept while constant operands are what they are; NULL: nothing is kept */
} Question;

/* ---- grouping.c: how a candidate adds ------------------------------------------------------ */

typedef struct Grouping { /* of one accumulator of the naive nest, as its scheduled nest adds */
    const Nest *nest;     /* scheduled */
    bool fused;           /* products are not rounded */
    bool in_order;        /* one sum, in the naive nest's order */
    int n_priv, priv[MAX_LOOPS]; /* axes whose points have sums of their own */
    int64_t extent[MAX_LOOPS];
    int n_groups; /* product of the extents; 0: no order is known */
    int tail_of;  /* axis; -1: none. From here on terms join the combined sums */
    int64_t tail_from;
} Grouping;

/* scheduled may be NULL */
Grouping grouping_of(const Kernel *naive, const Kernel *scheduled, const Accum *acc,
                     const int64_t *syms);
/* Which sum the term at these values of the naive axes goes to; -1: the combined one. */
int grouping_at(const Grouping *g, const int64_t *axis_value);

/* ---- sums.c: accumulators, with the errors of the candidate's order -------------------------- */

typedef enum SumKind {
    SUM_ANY,   /* the update as it is written, in the nest's order */
    SUM_TERMS, /* terms, in the candidate's order */
    SUM_MAX,
} SumKind;

typedef struct Sum { /* an accumulator, in every lane */
    SumKind kind;
    Grouping how;
    double unit;         /* 0, or terms are thought to be multiples of it */
    Eval *init, *update; /* update: the term, where the kind has terms */
    Eval *factor[2];     /* of a term that is not rounded before it is added; else NULL */
    Near product;
    double *part; /* SUM_TERMS: [n_parts][LANES] partial sums */
    int n_parts;
    int64_t n_terms;
    double err[LANES], size[LANES]; /* so far; sum of |terms| */
    double finite[LANES];           /* the same of those that are */
    bool open[LANES];               /* some term may be anything */
    bool whole;                     /* all terms are multiples of the unit */
    bool joined;                    /* the private sums are one */
    Near value;
} Sum;

void sum_init(Points *p, Sum *s, const Question *q, const Phase *phase, const Accum *acc);
void sum_start(Points *p, Sum *s);
/* The naive axes' values, the same in all lanes. */
void sum_step(Points *p, Sum *s, const int64_t *axis_value);
void sum_end(const Points *p, Sum *s); /* now its value is right */

/* ---- bound.c: the naive nest in double, each stored element with its bound ------------------ */

typedef struct Element { /* what a candidate must store, and where */
    int64_t index;
    union {
        double v;  /* f32 */
        int64_t i; /* other dtypes */
    };
    double err; /* 0: exactly this, NaN for NaN. INFINITY: anything */
} Element;

typedef struct Expected {
    Element *at;
    int64_t n;
    int code; /* what the kernel returns; not 0: elements do not matter */
} Expected;

Expected bound_elements(Env *e, const Question *q);
/* Only which elements are stored: err is INFINITY. */
Expected bound_indices(Env *e, const Question *q);
bool kernel_uses(const Kernel *k, ScalarOp op); /* somewhere in its nest */

/* ---- sample.c: what a nest costs to evaluate, and a nest over some of its points ------------- */

typedef struct Sample {
    const Kernel *k; /* the kernel itself where that is affordable */
    void **params;
    int64_t *n_elems;
    int64_t n_points; /* 0: all */
} Sample;

/* A nest that evaluates about `work` expression nodes; the kernel itself, where that is no more than 4 times as
 * much. Each index of each axis occurs in some point, where there are enough points. */
Sample sample_of(Env *e, const Kernel *naive, void *const *params, const int64_t *n_elems,
                 const int64_t *syms, double work, uint64_t seed);
/* Its extent, or 0 where that is less. */
int64_t axis_turns(const Kernel *k, int axis, const int64_t *syms);
int64_t nest_stores(const Kernel *k, const int64_t *syms); /* how often it stores an element */
/* Turns of its longest reduction, at least 1. */
int64_t nest_terms(const Kernel *k, const int64_t *syms);

/* ---- freivalds.c: a whole contraction by random sums ------------------------------------------- */

typedef struct Mismatch {
    int64_t index; /* an element of the output that is wrong; -1: none */
    double got, want, bound;
} Mismatch;

/* False: the nest is not one sum of products (whose value may have a term added). y is the output. */
bool freivalds(Env *e, const Question *q, const void *y, uint64_t seed, Mismatch *m);

/* ---- inputs.c ------------------------------------------------------------------------------------- */

#define ROUNDS(X)                                                         \
    X(INTEGERS, "small integers") /* sums are exact in every order */     \
    X(FLOATS, "floats")           /* of order 1 */                        \
    X(SPECIALS, "special values") /* zeros, denormals, infinities, NaN */ \
    X(BAD_INDEX, "an index out of range")

typedef enum Round {
#define X(id, name) ROUND_##id,
    ROUNDS(X) N_ROUNDS
#undef X
} Round;

typedef struct Inputs {
    Round round;
    uint64_t seed;
    int shift;    /* constants are scaled by 2^-shift */
    int64_t rare; /* special values are one in so many */
} Inputs;

Inputs inputs_of(const Kernel *k, const int64_t *syms, Round round, uint64_t seed);
/* n elements of an operand: element i depends on nothing but the inputs, the operand and i. */
void inputs_fill(const Inputs *in, const Kernel *k, int operand, const int64_t *syms, void *to,
                 int64_t n);
bool kernel_fails(const Kernel *k); /* it has a statement that fails */

/* ---- guard.c: buffers whose neighbourhood is watched ------------------------------------------------ */

typedef struct Guarded {
    void *at;
    size_t bytes;
    uint8_t *zone; /* what may be written: the buffer and the rest of its pages */
    size_t zone_bytes;
    void *map;
    size_t map_bytes;
} Guarded;

/* pages: unmapped memory begins right behind the buffer, or right before it; else there are only canaries.
 * Fails with E_NOMEM. */
void guarded_init(Env *e, Guarded *g, size_t bytes, bool at_end, bool pages);
/* False: something was written; *where is its offset from the buffer's first byte. */
bool guarded_intact(const Guarded *g, int64_t *where);
void guarded_release(Guarded *g); /* an empty one is fine */

/* ---- sizes.c: which sizes a candidate is tried at ---------------------------------------------------- */

enum { MAX_SIZES = 96 };
/* Rows of n_syms values, the tuned ones first, then 0, 1 and those that meet each tail of the schedule. A
 * symbol that only strides depend on is a capacity: it stays, and nothing grows. few: nothing near the tuned
 * sizes, whose tails small ones have too. */
int sizes_of(Arena *m, const Kernel *scheduled, const int64_t *tuned, bool few,
             int64_t **sizes);

/* ---- verify_run.c: one candidate, one set of inputs, one size ------------------------------------------ */

typedef struct Slot { /* an operand's memory */
    Guarded source;   /* as the naive nest reads it */
    Guarded stored;   /* as the candidate reads it, where that is packed or bf16 */
    Inputs in;        /* what it was filled with */
    int64_t n;        /* elements of the source */
    bool filled;
    Hash hash; /* of what the candidate reads */
} Slot;

typedef struct VerifyRun {
    Env *e;
    const Kernel *naive;
    const BuiltKernel *c;
    const VerifyOptions *o;
    Verdict *v;
    Slot *slot;    /* by operand; the output has only a source */
    void **params; /* of the naive nest */
    void **given;  /* to the candidate */
    int64_t *n_elems;
    const int64_t *syms;
    Inputs in;
    bool at_end; /* buffers end where their pages do */
    bool tuned;  /* these are the sizes that are tuned */
    double work;
    Expected want;
    bool sampled;          /* want is not all elements */
    const uint8_t *stored; /* by element of the output: the nest stores it; NULL: all */
    void *first;           /* the output after the first call */
    Folded folded;
} VerifyRun;

/* Of the sample; NULL: of the naive nest. */
bool verify_exact(const BuiltKernel *c); /* must it give the naive nest's own bits? */
Question verify_question(VerifyRun *x, const Sample *s);
/* False: v says why. Fails where memory is short, or the naive nest does not fit the tuned sizes. */
bool verify_run(VerifyRun *x);
/* After the runs of a round: are constants what they were? Large ones are looked at only here. */
bool verify_run_constants(VerifyRun *x);
void verify_run_release(VerifyRun *x);

/* ---- compare.c: the output ------------------------------------------------------------------------------ */
void output_poison(VerifyRun *x, int nth); /* 0 for the first call, 1 for the second */
bool output_fits(VerifyRun *x);            /* after both; false: v says why */

/* ---- verdict.c: its sentence ----------------------------------------------------------------------------- */
void verdict_start(Verdict *v, const char *fmt, ...) PRINTF(2, 3); /* without end */
void verdict_add(Verdict *v, const char *fmt, ...) PRINTF(2, 3);
void verdict_value(const VerifyRun *x, int operand, const void *from, int64_t index);
bool verdict_wrong(const VerifyRun *x); /* adds inputs and sizes. Returns false */

#endif
