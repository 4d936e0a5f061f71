/* gen.h - seeded random graphs, sizes and arguments: what the implementations of a graph's
 * meaning are compared on. The same seed gives the same graph, sizes and values everywhere. */
#ifndef NC_TESTS_GEN_H
#define NC_TESTS_GEN_H

#include "graph/graph.h"

/* A valid, finished graph of 22 nodes on average and at most some 90, over all 26 primitives
 * and update, with the symbols seq and often past, and up to four outputs. It runs at any seq >= 1 and
 * past >= 0: slices stay in range, ids of gathers are constants or iotas. At seq 7 and past 5
 * no value has more than 1,500 elements, but for what single steps need in between. */
Graph *gen_graph(Env *e, Rng *r);

/* seq in {1, 3, 7}, past in {0, 1, 3, 5}; any other symbol in 1..7. */
void gen_sizes(Rng *r, const Graph *g, Sizes *z);

/* Every input and weight, at these sizes. Floats are N(0, 1) and ints small; with specials one
 * value in eight is a zero, infinity, NaN, denormal or an extreme. */
Args gen_args(Arena *a, Rng *r, const Graph *g, const Sizes *z, bool specials);

#endif
