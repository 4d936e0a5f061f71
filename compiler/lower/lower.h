/* lower.h - from graph to program: views, one kernel per node (unfused), or fused groups. */
#ifndef NC_LOWER_H
#define NC_LOWER_H

#include "graph/graph.h"
#include "loop/loop.h"

/* Both take a finished graph, whose node ids the calls of the program name, and live in its Env. They
 * fail where a size polynomial grows beyond its limits (E_SHAPE), and never otherwise. */

/* ---- unfused.c: one kernel for every compute node, copies where a reshape is not a view --------- */
Program *lower_unfused(const Graph *g);

/* ---- fused.c, plan.c, generate.c: fusion planning, and the kernels it leads to. The generator is the
 * authority: it refuses fusions that it cannot express, then planning starts again without them. */
Program *lower_fused(const Graph *g);

#endif
