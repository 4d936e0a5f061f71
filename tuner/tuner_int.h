/* tuner_int.h - what the files of this folder share: work of one kind for all threads, and how
 * fast it was done. */
#ifndef NC_TUNER_INT_H
#define NC_TUNER_INT_H

#include "tuner/tuner.h"

/* ---- probe.c ---- */

typedef struct ReadWork {
    ReadFn *fn;
    const char *at;
    /* In contiguous shares; what is left over after whole READ_BYTES is not read. */
    size_t bytes;
    int64_t n_passes; /* over each share */
} ReadWork;

typedef struct ArithWork {
    ArithFn *fn;
    int64_t n_steps; /* of every part */
} ArithWork;

void read_part(void *work, int part, int n_parts);
void arith_part(void *work, int part, int n_parts);

/* n_units of work are done by all parts together: units by ns. pool NULL: by the caller alone.
 * */
double rate_of(Pool *pool, PoolPart *part, void *work, double n_units);
double region_ns(Pool *pool); /* of an empty one: the mean over some */

#endif
