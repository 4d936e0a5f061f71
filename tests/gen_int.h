/* gen_int.h - what the files of the graph generator share: the state, and how values are
 * chosen. Private to gen*.c. */
#ifndef NC_TESTS_GEN_INT_H
#define NC_TESTS_GEN_INT_H

#include "tests/gen.h"

enum { MAX_VALUES = 64, MAX_ELEMENTS = 1500, MAX_OUTPUTS = 4, GEN_RANK = 4 };

typedef struct Gen {
    Env *e;
    Rng *r;
    Front f;
    Dim seq, past;
    Sizes smallest, largest; /* of the symbols */
    Node *value[MAX_VALUES]; /* what steps may take */
    bool used[MAX_VALUES];   /* taken by some step */
    int n_values;
} Gen;

static inline int below(Gen *g, int n)
{
    return (int)rng_below(g->r, (uint64_t)n);
}

static inline bool chance(Gen *g, int percent)
{
    return below(g, 100) < percent;
}

/* ---- gen.c -------------------------------------------------------------- */

Value gen_element(Rng *r, Dtype t, bool specials);

/* ---- gen_pick.c --------------------------------------------------------- */

typedef bool (*Want)(Gen *g, const Node *n);

int64_t gen_least(Gen *g, Dim d);            /* at seq 1, past 0 */
bool gen_small(Gen *g, const Shape *s);      /* few enough elements at any size */
void gen_add(Gen *g, Node *n);               /* a new value, unless it is NULL or too large */
Node *gen_take(Gen *g, int i);               /* value i, now used */
Node *gen_pick(Gen *g, Want want);           /* one of this kind; NULL: none was met */
Node *gen_partner(Gen *g, Node *x, Dtype t); /* one of this dtype that broadcasts with x */
bool gen_compatible(Gen *g, const Shape *a, const Shape *b); /* they broadcast */

/* ---- gen_update.c ------------------------------------------------------- */

Node *gen_update(Gen *g); /* an update; NULL: nothing that fits was met */

/* ---- gen_steps.c -------------------------------------------------------- */

void gen_step(Gen *g);                                 /* one random step */
void gen_bounds(Gen *g, Dim d, Dim *start, Dim *stop); /* of a part of an axis */

#endif
