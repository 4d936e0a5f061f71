/* buckets.h - which lengths of prompts share a program: measured, chosen, and kept in the database. A
 * program's schedules are chosen for one length; how much slower another is through it than through the
 * best is its regret. Few programs build and load faster; the regret says what they cost. */
#ifndef NC_TUNER_BUCKETS_H
#define NC_TUNER_BUCKETS_H

#include "db/db.h"
#include "run/run.h"
#include "tuner/measure.h"

#define BUCKETS_MARGIN 0.05 /* regret that is put up with */

/* ---- buckets.c ---- */

typedef struct BucketTimes { /* prompts of some lengths, each through every program */
    int n_lengths, n_programs;
    const int64_t *length, *usual; /* both rising; usual: what a program's schedules are for */
    double *ns;                    /* [length][program]: the median of a prompt */
    Interval *regret; /* the same: how much longer than through the best; 0: it is that;
                                      below it, within noise */
} BucketTimes;

typedef struct BucketChoice {
    Bucket bucket[MAX_BUCKETS];
    int n;
    double worst,
        margin; /* the largest regret of any length; below the margin where that can be */
} BucketChoice;

/* One prompt through a program. Programs of the same kind compute the same by the same kernels: only the
 * first of them is measured. */
typedef struct BucketRun {
    void (*feed)(void *ctx, int program, int64_t length);
    const int *kind; /* by program: the first that is the same, itself where none is */
    void *ctx;
} BucketRun;

/* Fills ns and regret, in turns within one process. False: stopped before a block was done. */
bool buckets_measure(Env *e, const BucketRun *run, const MeasurePlan *plan,
                     const Prober *prober, BucketTimes *t);
/* The fewest programs whose worst regret is below the margin, of these the least regret; where none is,
 * the least regret. Each takes the lengths up to halfway, as a factor, to the next one's; the last up to
 * `most`. */
BucketChoice buckets_choose(const BucketTimes *t, int64_t most, double margin);

/* ---- bucket_rows.c: as cells of an experiment ---- */

typedef struct BucketPlace { /* what a choice holds for */
    const Config *config;    /* the model's shape */
    bool f32;                /* its weights in memory */
    const DbMachine *machine;
    const DbToolchain *toolchain;
    int n_threads;
} BucketPlace;

void buckets_store(Db *db, const BucketPlace *at, const BucketTimes *t, const BucketChoice *c);
/* The latest; false: there is none, or none that makes sense. */
bool buckets_find(Db *db, const BucketPlace *at, BucketChoice *out);

#endif
