/* graph_util.h - small graphs for tests, written as text: operands are made from types such as
 * "f32[seq, 4]", and a rejection is one line that says what is built and what it answers. */
#ifndef NC_TESTS_GRAPH_UTIL_H
#define NC_TESTS_GRAPH_UTIL_H

#include "graph/graph.h"

#include <criterion/criterion.h>

typedef struct World {
    Env e;
    Front f;
} World;

void world_init(World *w); /* an empty graph named g */
void world_release(World *w);

Dim dim_from(Env *e, const char *text);
Shape shape_from(Env *e, const char *text); /* "[seq, 4]" */
Node *operand(Front *f, const char *type);  /* a declared input x0, x1 ... */
Node *make1(Front *f, Op op, Attr attr, Node *a);
Node *make2(Front *f, Op op, Attr attr, Node *a, Node *b);
Node *make3(Front *f, Op op, Attr attr, Node *a, Node *b, Node *c);
const char *type_of(Front *f, const Node *n);
Graph *finished(Front *f, Node *out); /* with one output y */
/* The ops of a finished graph in order, inputs and weights left out: "mul reduce_sum const". */
const char *ops_of(const Graph *g);

/* Runs build in a new world: it must fail, with this code and exactly this message. */
void assert_rejects(void (*build)(Front *f), ErrCode code, const char *message);

/* One test: the statements in ... are rejected. */
#define REJECTS(suite, name, code, message, ...)     \
    static void build_##name(Front *f)               \
    {                                                \
        __VA_ARGS__;                                 \
    }                                                \
    Test(suite, name)                                \
    {                                                \
        assert_rejects(build_##name, code, message); \
    }

#endif
