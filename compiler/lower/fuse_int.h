/* fuse_int.h - what fusion planning and the fused generator say to each other. */
#ifndef NC_FUSE_INT_H
#define NC_FUSE_INT_H

#include "lower/lower_int.h"

typedef Vec(const Node *) Nodes;

/* ---- uses.c ---- */
typedef struct Uses {
    Nodes *direct;   /* by node id: nodes with it as an operand, once each */
    bool *is_output; /* by node id */
} Uses;

Uses uses_of(const Graph *g);

/* ---- plan.c: who computes what ---- */
/* Ways in which the generator or an earlier round forbade a node to take part. */
typedef struct Ban {
    bool fuse;    /* this reduction or matmul gets a kernel of its own */
    bool realize; /* this node's value is always written to a buffer */
} Ban;

typedef struct FusePlan {
    const Graph *g;
    Uses uses;
    Ban *ban;            /* by node id */
    bool *free;          /* computable anywhere from indices and constants: never a buffer */
    bool *realized;      /* has a kernel of its own, whose result is a buffer */
    const Node **root;   /* the realized node in whose kernel a node is computed; NULL: none */
    const Node **target; /* a reduction's or matmul's root when it is fused, else NULL */
    bool *in_place;      /* this update is written into its operand's buffer */
    const Node *
        *into; /* the update in place whose value this is, reshaped or permuted: its kernel
                             stores there; NULL: none */
} FusePlan;

/* copied: updates that cannot be done in place. */
FusePlan fuse_plan(const Graph *g, Ban *ban, const bool *copied);
bool is_reduction(const Node *n);

/* ---- generate.c: one kernel for every realized node ---- */
/* Returns NULL when it had to refuse: then ban or copied say more than before and planning starts again. */
Program *fuse_generate(const FusePlan *plan, bool *copied);

#endif
