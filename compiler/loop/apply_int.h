/* apply_int.h - what the step functions share: the kernel being edited, its words, refusing. */
#ifndef NC_APPLY_INT_H
#define NC_APPLY_INT_H

#include "loop/loop_int.h"
#include "loop/schedule.h"

#define MAX_WORDS 16

typedef struct Apply {
    Env *e;
    Arena *m;
    Kernel *k; /* edited in place */
    int n_words;
    int n_found; /* what a step was looking for */
    const char *word[MAX_WORDS];
} Apply;

/* Leaves with E_ILLEGAL; the sentence goes behind "step: ". */
_Noreturn void refuse(Apply *a, const char *fmt, ...) PRINTF(2, 3);
int axis_named(Apply *a, const char *name);    /* a leaf: not split. Refuses others */
int operand_named(Apply *a, const char *name); /* refuses the output and unknown names */
int64_t number_word(Apply *a, const char *word, int64_t least, int64_t most);
void need_words(Apply *a, int least, int most);
Axis *axis_of_nest(Apply *a, int axis);
/* The phase whose loops hold this axis, or NULL: it is an outer axis. */
Phase *phase_of(Apply *a, int axis);
/* apply_math.c: refuses tails that private sums would lose. */
void check_private_tails(Apply *a);
void need_no_stage(Apply *a); /* loops stay as they are once something is staged */
typedef struct Access {
    int operand;
    const Expr *index; /* NULL: it is not read */
    bool several;      /* by more than one index */
} Access;
Access access_of(Apply *a, int operand); /* apply_data.c: how an operand is read */
/* Its loads become loads of `with` */
void replace_index(Apply *a, int operand, int with, const Expr *index);
/* Every expression, bottom up. */
void map_exprs(Apply *a, const Expr *(*map)(Apply *a, const Expr *x));

/* Asked when all steps are done. */
void check_all_lanes(Apply *a); /* apply_lanes.c: refuses what axes in lanes cannot do */
/* apply_reads.c: refuses reads beyond padded axes, but for panels. */
void check_pads(Apply *a);
/* apply_resume.c: refuses sums that cannot wait in the output. */
void check_resumed(Apply *a);

/* apply_reads.c: refuse reads that would leave the operand where a condition now guards them */
/* All of x, whose lanes take both branches. */
void need_reads_inside(Apply *a, const Expr *x);
void need_read_everywhere(Apply *a, int operand); /* of the operand, for a whole tile */

typedef void StepFn(Apply *a);
StepFn step_split, step_order, step_unroll, step_par;       /* apply_loops.c */
StepFn step_acc, step_vec, step_fma, step_dot, step_approx; /* apply_math.c */
/* apply_data.c */
StepFn step_pack, step_store, step_prefetch, step_keep;
StepFn step_stage;  /* apply_stage.c */
StepFn step_cut;    /* apply_cut.c */
StepFn step_resume; /* apply_resume.c */

#endif
