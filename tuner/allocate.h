/* allocate.h - whose turn it is: how the time of a run is dealt out among its tasks. */
#ifndef NC_TUNER_ALLOCATE_H
#define NC_TUNER_ALLOCATE_H

#include "tuner/protocol.h"

/* ---- allocate.c: share x headroom x chance / cost ------------------------------------------ */

typedef struct Bid { /* a task, when time is dealt out */
    double share;    /* of the model's time, by the default schedules */
    double
        headroom; /* the part of that which may still go: down to the roofline, by the best so far */
    int64_t n_left;        /* candidates that were not tried; 0: there is nothing to do */
    int64_t n_barren;      /* tried since the last that was better */
    uint64_t candidate_ns; /* of one more */
    /* Of what comes before its first: calibration, and time kept for its match. least: fewer
     * could not confirm anything. 0: it has begun. */
    uint64_t start_ns, start_least_ns;
} Bid;

/* Of one call: what the roofline leaves to go of `now`, as a part of the default's time. */
double headroom_of(double flops, double bytes, double flops_per_ns, double bytes_per_ns,
                   double default_ns, double now_by_default);
/* That one of n more candidates is better than all before, n_barren of them since the last that was:
 * as in random order. */
double bid_chance(int64_t n_barren, int64_t n);

typedef struct Slice { /* of the time that is left */
    int bid;           /* whose; -1: nobody's, there is too little left */
    uint64_t ns;
    int64_t n;     /* candidates that it is for */
    double chance; /* of a better one among them */
    double rate;   /* part of the model's time that may go, by second */
} Slice;

/* The next one: to who promises most by the second; one batch, or a part of what is left where
 * that is more. Who is alone gets all. */
Slice bids_deal(const Bid *b, int n, int batch, uint64_t left_ns);

typedef struct Planned { /* for one task */
    uint64_t ns;
    int64_t n_candidates;
} Planned;

/* What all would get, were nothing found. out[i] is of b[i]. Memory is m. */
void bids_plan(Arena *m, const Bid *b, int n, int batch, uint64_t left_ns, Planned *out);

#endif
