/* value.h - the fused generator's heart, shared by value.c (what a value is) and generate.c (kernels). */
#ifndef NC_VALUE_H
#define NC_VALUE_H

#include "lower/fuse_int.h"

typedef struct Known { /* a value already written in the current block */
    const Node *n;
    const Expr *const *index;
    bool pure;
    const Expr *value;
} Known;

typedef struct Accumulated { /* a fused reduction or matmul: readable at one index only */
    const Node *n;
    const Expr *const *index;
    const Expr *var;
} Accumulated;

typedef struct Gen {
    Lower l;
    const FusePlan *plan;
    Nodes *fused;         /* by root's node id: the nodes fused into it, in graph order */
    Build b;              /* the kernel being written */
    const Node *root;     /* whose kernel it is: never loaded by itself; NULL in a plain copy */
    bool in_body;         /* lets go into the reduction's body, else into finish */
    Vec(Known) known;     /* of the current block */
    Vec(Accumulated) acc; /* of the kernel */
    Vec(View) reads;      /* different views loaded, for traffic */
    const char *hint;     /* name for the next new operand, or NULL */
    bool refused;         /* some fusion was banned: the program is thrown away */
} Gen;

void gen_block(Gen *g, bool in_body); /* a new block: nothing is known in it yet */
/* The value of n at an index. pure: as one expression without lets, for the branch of a select. A
 * fusion that cannot be expressed is banned, g->refused set and a placeholder given. */
const Expr *gen_value(Gen *g, const Node *n, const Expr *const *index, bool pure);
const Expr *gen_load(Gen *g, const View *v, const Expr *const *index);
void gen_ban(Gen *g, bool *ban);

#endif
