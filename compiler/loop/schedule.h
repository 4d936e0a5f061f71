/* schedule.h - schedules as data: steps as text, and what they do to a kernel. */
#ifndef NC_SCHEDULE_H
#define NC_SCHEDULE_H

#include "loop/loop.h"
#include "loop/steps.h"

/* ---- schedule.c: a plain value; printable, parseable, comparable, hashable ---------------------- */

typedef enum StepKind {
#define X(id, name, args, exact, meaning) STEP_##id,
    STEPS(X) N_STEPS
#undef X
} StepKind;

#define MAX_STEPS 32
#define MAX_STEP_ARGS 88

typedef struct Step {
    StepKind kind;
    char args[MAX_STEP_ARGS]; /* words separated by single blanks; the rest is zero */
} Step;

typedef struct Schedule {
    int n;
    Step step[MAX_STEPS];
} Schedule;

/* "split n 32 pad; split m 6 switch; order n.o m.o k m.i n.i; vec n.i". False fills err (E_SYNTAX). */
bool schedule_parse(const char *text, Schedule *s, Err *err);
/* The same form; parses back to an equal value. */
void schedule_print(const Schedule *s, Buf *out);
bool schedule_eq(const Schedule *a, const Schedule *b);
/* Appends a step; bug()s when it is full. */
void schedule_add(Schedule *s, StepKind kind, const char *fmt, ...) PRINTF(3, 4);
void steps_table(Buf *out); /* steps.h as markdown */

/* ---- apply.c: a schedule on a kernel ---------------------------------------------------------------- */

/* A new kernel: the naive one after the first n_steps of s. NULL: illegal, and why says which step and
 * why not (E_ILLEGAL). The naive kernel is not changed; memory is m. */
Kernel *kernel_schedule(Env *e, Arena *m, const Kernel *naive, const Schedule *s, int n_steps,
                        Err *why);
/* Gives the naive bits: no sum reassociated, no fma, no approximation. */
bool kernel_exact(const Kernel *k);

/* What an accumulator's update says. */
bool acc_is_sum(const Accum *acc, const Expr **addend); /* acc + addend; addend NULL: by fma */
bool acc_is_max(const Accum *acc, const Expr **value);  /* the pattern that lowering writes */
/* acc + i32(x) * i32(w), loads of i8. */
bool dot_factors(const Accum *acc, const Expr **x, const Expr **w);

/* ---- poly.c: integer expressions as sums of products, simplified by what is known of the axes -------- */
/* x with split axes written as their halves, terms collected, and / and % resolved where extents allow. */
const Expr *index_simplify(Arena *m, const Nest *n, const Expr *x);
/* How x changes when this axis goes up by one: false where that is not a constant. */
bool index_stride(Env *e, const Nest *n, const Expr *x, int axis, int64_t *stride);

/* x < bound: 1 always, -1 never, 0 not known, for symbols >= 0 and axes within their extents. */
int index_below(Arena *m, const Nest *n, const Expr *x, const Expr *bound);

/* ---- pack.c: panels of a packed operand ----------------------------------------------------------- */
/* Which points of the layout lie outside the operand, because tails are rounded up; NULL: none. They are 0. */
const Expr *pack_outside(Arena *m, const Nest *n, const Pack *p);
/* Fills the panels without a C compiler, kernel_span(k, operand) elements, from what the operand takes
 * (operand_takes_bf16). */
void nest_pack(Env *e, const Kernel *k, int operand, void *to, const void *from,
               const int64_t *syms);

#endif
