/* ncg_util.h - text to graph and back, asserting success. */
#ifndef NC_TESTS_NCG_UTIL_H
#define NC_TESTS_NCG_UTIL_H

#include "graph/graph.h"

typedef struct Text {
    const char *at;
    size_t len;
    Graph *g; /* what parse_text made of it */
} Text;

void parse_text(Env *e, void *text); /* for env_try; the file is called t.ncg */
Graph *parsed(Env *e, const char *text);
const char *printed(const Graph *g);

#endif
