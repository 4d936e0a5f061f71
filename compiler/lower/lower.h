/* lower.h - from graph to program: views, one kernel per node (unfused), or fused groups. */
#ifndef NC_LOWER_H
#define NC_LOWER_H

#include "graph/graph.h"
#include "loop/loop.h"

/* ---- unfused.c: one kernel for every compute node, copies where a reshape is not a view. */
Program *lower_unfused(const Graph *g);

/* ---- fuse.c, generate.c: fusion planning, and the kernels it leads to; the generator is the
 * authority and refuses fusions it cannot express, then planning starts again without them. */
Program *lower_fused(const Graph *g);

#endif
