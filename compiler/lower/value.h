/* value.h - the fused generator's heart, shared by value.c (what a value is) and generate.c (kernels). */
#ifndef NC_VALUE_H
#define NC_VALUE_H

#include <limits.h>

#include "lower/fuse_int.h"

typedef struct Known Known;
struct Known { /* a value already written in the current block */
    const Expr *const *index;
    const Expr *value;
    Known *earlier; /* the same node's, at another index */
};

typedef struct Accumulated { /* a fused reduction or matmul: readable at one index only */
    const Node *n;
    const Expr *const *index;
    const Expr *var;
} Accumulated;

typedef struct Loaded { /* what a kernel reads of one buffer, for traffic */
    int buffer;
    bool covered; /* some view reads all of it */
    Dim elements; /* of its different views together */
} Loaded;

typedef struct Gen {
    Lower l;
    const FusePlan *plan;
    Nodes *fused;     /* by root's node id: the nodes fused into it, in graph order */
    Build b;          /* the kernel being written */
    const Node *root; /* whose kernel it is: never loaded by itself; NULL in a plain copy */
    const Node *into; /* the update in place that it stores; NULL: its own result */
    bool in_body;     /* lets go into the reduction's body, else into finish */
    const char *hint; /* name for the next new operand, or NULL */
    bool refused;     /* some fusion was banned: the program is thrown away */
    bool given_up;    /* in this kernel: the rest of it is not worth making */
    Map known;        /* of the current block: node and purity -> its newest Known */
    /* Of the kernel: */
    Vec(Accumulated) acc;
    Vec(Loaded *) loaded; /* in order of first load */
    Map loaded_by_buffer, views_seen;
    Map operands;               /* buffer and offset -> index of the operand */
    int n_named[UCHAR_MAX + 1]; /* operands by the first letter of their names */
    Buf key;                    /* scratch for the maps' keys */
} Gen;

void gen_begin(Gen *g);               /* a new kernel: nothing has been loaded in it yet */
void gen_block(Gen *g, bool in_body); /* a new block: nothing is known in it yet */
/* The value of n at an index. pure: as one expression without lets, for the branch of a select. A
 * fusion that cannot be expressed is banned, g->refused set and a placeholder given. */
const Expr *gen_value(Gen *g, const Node *n, const Expr *const *index, bool pure);
const Expr *gen_load(Gen *g, const View *v, const Expr *const *index);
void gen_ban(Gen *g, bool *ban);

#endif
