/* schedules_int.h - what the files of schedules/ share: nests as policies see them, and one plan a class.
 * A plan is a point of the class's space; the same function turns a default's plan and a tuner's point into
 * steps, so that every default is a point of its space. */
#ifndef NC_SCHEDULES_INT_H
#define NC_SCHEDULES_INT_H

#include "schedules/schedules.h"

/* ---- look.c: questions about a kernel that is not changed ---- */

#define MAX_LOOK_AXES 8
#define MAX_LOOK_NAME 6 /* characters of an axis or operand; longer ones would not fit a step's arguments */

typedef struct AxisList {
    int n, at[MAX_LOOK_AXES];
} AxisList;

bool list_has(const AxisList *l, int axis);
void list_add(AxisList *l, int axis); /* at the end, once */
const char *axis_text(const Kernel *k, int axis);
bool expr_has_axis(const Expr *x, int axis);
const Expr *let_of(const Phase *p, const Expr *x); /* the value of a let of the phase's body, else x */
void phase_visit(const Phase *p, void (*visit)(const Expr *x, void *ctx), void *ctx); /* body and updates */
void finish_visit(const Phase *p, void (*visit)(const Expr *x, void *ctx), void *ctx);
bool kernel_has_op(const Kernel *k, ScalarOp op);
int64_t axis_extent(const Kernel *k, const PickHint *hint, int axis); /* where known, by the hint too; else -1 */
int64_t axis_constant(const Kernel *k, int axis); /* a constant extent, else -1 */
const Target *hint_target(const PickHint *hint);
int64_t power_below(int64_t n, int64_t most); /* the largest power of two that is at most both; n >= 1 */

/* ---- legal.c ---- */

/* Is this schedule legal on the kernel? why may be NULL. Leaves only when memory is short. */
bool schedule_legal(Env *e, const Kernel *k, const Schedule *s, Err *why);

/* ---- classify.c ---- */

#define MAX_PANELS 4
typedef struct Contraction {
    const Kernel *k;
    AxisList batch;        /* space axes that neither or both factors of the products vary along */
    int m, n;              /* one factor varies along n, the other along m; m is -1 where no axis does */
    int red;               /* the reduce axis */
    int n_sums;
    int n_panels, panel[MAX_PANELS]; /* constant operands read along n by one index: they can be packed */
    AxisList panel_batch[MAX_PANELS]; /* batch axes of that index */
    bool all_panels;       /* no other operand is read along n in the reduction */
    int64_t chunk;         /* an index holds red / chunk and red % chunk; 0: none does */
    bool exp;
} Contraction;

bool contraction_look(const Kernel *k, Contraction *c); /* false: it is none */

typedef struct Rows {
    const Kernel *k;
    AxisList outer;        /* space axes around the reductions */
    AxisList reduce;       /* reduce axes, innermost in their phases */
    AxisList inner;        /* space axes innermost in phases of their own */
    bool single;           /* one phase: its own space axes are `outer`, and there is no inner axis */
    bool product, exp;     /* a sum adds products; exp is computed */
} Rows;

bool rows_look(const Kernel *k, Rows *r);

typedef struct Points {   /* elementwise and gather */
    const Kernel *k;
    AxisList outer;        /* around all phases */
    AxisList inner;        /* the last phase's own */
    bool exp;
} Points;

bool points_look(const Kernel *k, Points *p);

/* ---- contraction.c ---- */

typedef enum ParKind { PAR_NONE, PAR_BATCH, PAR_M, PAR_N, N_PARS } ParKind;

typedef struct Tile {
    int mr;            /* rows of the register tile; 1: m stays a loop */
    int nr;            /* columns; 1: n stays a loop */
    int lanes_k;       /* lanes along the reduction; 0: lanes along n */
    int ku;            /* unroll of the reduction; 1: none */
    int kc;            /* the reduction in blocks of this many; 0: none */
    bool panels;       /* pack what can be packed */
    bool m_outer;      /* the loop over tiles of m stands outside that of n */
    ParKind par;
    int prefetch;      /* bytes ahead in the panels; 0: none */
    bool fma, approx;
} Tile;

int contraction_batch(const Contraction *c); /* the batch axis that threads share; -1: none */
void contraction_schedule(const Contraction *c, const Tile *t, Schedule *out);

/* ---- row.c ---- */

typedef struct RowPlan {
    int lanes_r;       /* lanes along each reduction; 0: none */
    int lanes_j;       /* along the axes of the other phases; single: along the last space axis */
    bool fma, approx, par;
} RowPlan;

void row_schedule(const Rows *r, const RowPlan *p, Schedule *out);

/* ---- points.c ---- */

typedef struct PointPlan {
    int lanes;         /* along the last axis; 0: none */
    bool approx;
    int par;           /* 1 + place among the axes of the one that is split over threads; 0: none */
} PointPlan;

void point_schedule(const Points *p, const PointPlan *plan, Schedule *out);

/* ---- default_*.c: false where no steps are better than none ---- */
typedef bool DefaultFn(Env *e, const Kernel *k, const PickHint *hint, Schedule *out);
DefaultFn default_contraction, default_row, default_elementwise, default_gather;

#endif
