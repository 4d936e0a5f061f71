/* recorded_util.h - spaces of real kernels of which every candidate was measured once: what a search would have met
 * there. The files in tests/data/spaces say where and how. */
#ifndef NC_TESTS_RECORDED_UTIL_H
#define NC_TESTS_RECORDED_UTIL_H

#include "tests/helpers.h"
#include "tuner/tuner.h"

enum { N_RECORDED = 3 };
extern const char *const recorded_name[N_RECORDED];

typedef struct Recorded {
    const char *name;
    int n, n_knobs, n_features; /* candidates; the knobs are the first of the features */
    const double *ln_ratio;     /* of each, to the default */
    const double *feature;      /* n_features of each */
} Recorded;

Recorded recorded_read(Env *e, const char *name); /* in the Env */
/* Index: the row. r must outlive it. */
SearchSpace recorded_space(const Recorded *r);
void recorded_table(Env *e, const Recorded *r, SearchSpace *whole, SearchTable *out);

#endif
