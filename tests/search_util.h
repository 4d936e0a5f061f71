/* search_util.h - made-up spaces for searching, of any size, whose every outcome is known. */
#ifndef NC_TESTS_SEARCH_UTIL_H
#define NC_TESTS_SEARCH_UTIL_H

#include "tests/helpers.h"
#include "tuner/tuner.h"

/* Points of a grid, numbered with the last knob fastest. */
typedef struct Grid {
    int n_knobs, n_choices[MAX_KNOBS];
    uint64_t seed;
    double (*cost)(const struct Grid *g, const int *at); /* NaN: it fails */
} Grid;

/* What comparison_print says before the names of those that do not beat random; is this one among them? */
#define NO_BETTER "do not beat random: "
bool named_as_no_better(const char *text, StrategyId id);

SearchSpace grid_space(const Grid *g);
void grid_at(const Grid *g, uint64_t index, int at[MAX_KNOBS]);
/* OK, or CRASH where cost is NaN. */
Status grid_outcome(const Grid *g, uint64_t index, double *log_ratio);
void grid_table(Env *e, Arena *m, const Grid *g, SearchSpace *whole, SearchTable *out);

double cost_separable(const Grid *g,
                      const int *at); /* each knob has a best choice of its own */
/* As kernels are: separable in part, a cliff where two knobs are large together, an
 * interaction, and failures beyond a limit. */
double cost_kernel(const Grid *g, const int *at);
double cost_rugged(const Grid *g, const int *at); /* each knob's part depends on two others */
double cost_noise(const Grid *g, const int *at);  /* no structure at all */
double cost_needle(const Grid *g, const int *at); /* all alike but one */

#endif
