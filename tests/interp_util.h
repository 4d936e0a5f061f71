/* interp_util.h - runs small graphs through the interpreter: every helper asserts success, so a
 * test is a graph, its inputs and plain loops that say what must come out. */
#ifndef NC_TESTS_INTERP_UTIL_H
#define NC_TESTS_INTERP_UTIL_H

#include "graph_util.h"

/* Every size at which a primitive is tested: seq, and the width of another axis. */
#define EACH_SIZE(seq, width)                        \
    for (int64_t i_ = 0, seq = 1, width = 1; i_ < 6; \
         i_++, seq = (int64_t[]){1, 3, 7}[i_ / 2 % 3], width = i_ % 2 ? 5 : 1)

#define F32(t) ((float *)(t).data)
#define I64(t) ((int64_t *)(t).data)
#define I32(t) ((int32_t *)(t).data)
#define I8(t) ((int8_t *)(t).data)
#define BOOLS(t) ((uint8_t *)(t).data)

/* A tensor of n copied elements, of rank 1. */
Tensor vector_of(World *w, Dtype t, int64_t n, const void *data);
/* Random values; one float in six is a zero, infinity, NaN or denormal. */
void fill_special(Tensor *t, uint64_t seed);

/* Finishes the draft's graph with the one output y, makes an argument for every input (x0, x1
 * ...) at this seq from fill_special, and runs. in[i] receives the arguments. */
Tensor eval_random(World *w, Node *y, int64_t seq, Tensor *in);
/* The same with the inputs given; seq comes from them. */
Tensor eval_given(World *w, Node *y, const Tensor *in);
/* Interprets a finished graph with these inputs; false and err as graph_interpret. */
bool try_given(World *w, Graph *g, const Tensor *in, Tensor *out, Err *err);

/* Same bits; all NaNs alike. */
void assert_elements(Dtype t, const void *got, const void *want, int64_t n);

#endif
