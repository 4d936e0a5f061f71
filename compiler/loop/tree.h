/* tree.h - the statement tree that a nest means: loops, tails and statements in the order in which they
 * run, point by point. Printed for people, run by the nest interpreter, and expanded into C. */
#ifndef NC_TREE_H
#define NC_TREE_H

#include "loop/loop.h"

typedef enum TreeKind {
    TREE_BLOCK,  /* its children in order */
    TREE_FOR,    /* axis from 0 to extent - 1 */
    TREE_BIND,   /* axis takes a value: a split axis from its halves, an outer half in a tail */
    TREE_IF,     /* children only where value holds */
    TREE_SWITCH, /* child i runs where value is i + 1; none where it is 0 */
    TREE_ACC,    /* an accumulator exists from here on, with its shape */
    TREE_INIT,   /* acc's instance at this point starts */
    TREE_LET,
    TREE_UPDATE,  /* all accumulators of the phase, in order */
    TREE_COMBINE, /* private instances of the phase's accumulators become one, in a fixed tree */
    TREE_STORE,
    TREE_FAIL,
    TREE_PREFETCH,
    TREE_FILL, /* one element of a staged tile is copied */
} TreeKind;

#define MAX_SHAPE 8
typedef struct VarShape { /* an accumulator has one instance for each point of these axes */
    int n;
    int axis[MAX_SHAPE];
    int64_t extent[MAX_SHAPE];
    bool fixed[MAX_SHAPE]; /* its loop turns exactly that often here; else less: a tail */
} VarShape;

typedef struct Tree Tree;
struct Tree {
    TreeKind kind;
    int axis;           /* FOR, BIND */
    const Expr *value;  /* FOR: extent; BIND, IF, SWITCH */
    bool again;         /* INIT: it exists already, and takes up what it was */
    bool copies;        /* FOR: of a tile that is staged, element by element */
    bool last;          /* COMBINE: no more is added afterwards */
    bool joined;        /* FOR: private sums have been combined: one turn after another */
    bool negated;       /* IF: where value does not hold */
    bool last_part;     /* IF without value: only the last part of a parallel region runs it */
    const Phase *phase; /* ACC, INIT, UPDATE, COMBINE */
    const Stmt *stmt;   /* LET, STORE, FAIL */
    const Prefetch *prefetch;
    const Staged *stage; /* FILL */
    VarShape shape;      /* ACC, INIT, UPDATE: of the accumulators here. COMBINE: after it */
    VarShape priv;       /* COMBINE: the private axes */
    Vec(Tree *) child;
};

/* Memory is m. The tree holds for one kernel and no longer than it. */
Tree *nest_tree(Env *e, Arena *m, const Kernel *k);

#endif
