/* bench_int.h - what the files of a process that measures share: its job on the way
 * (bench_child.c), its operands and its turns (bench_turns.c); and of one that keeps rings for
 * many such: what it is asked (bench_keep.c) and what it keeps (bench_kept.c). */
#ifndef NC_BENCH_INT_H
#define NC_BENCH_INT_H

#include "tuner/tuner_int.h"

enum { A, B, N_SIDES };

typedef struct Process {
    Env *e;
    Area area;
    ChildJob job;
    AreaFacts facts;
    Machine machine;
    const Kernel *naive;
    const Kernel *k[N_SIDES];
    Library lib[N_SIDES];
    RivalOpen *own_rivals;             /* of this program; may be NULL */
    const RivalKernel *rival[N_SIDES]; /* NULL: a kernel of ours */
    void **param;
    Ring **given[N_SIDES]; /* of a keeper's; see Runnable */
    void *const *plain;    /* of a keeper's: operands as the graph has them; NULL: none */
    Runnable side[N_SIDES];
    Pool *pool;
    int n_copies, first_laid;
    Ring *biggest; /* of one side's rings, for probes; NULL: hot */
    bool dropped;  /* b: after its first calls */
} Process;

/* ---- bench_child.c ---- */

/* Finds the job. False: err says why. */
bool bench_begin(Process *p, int parent, int area_fd, Err *err);
/* The kernels that the job means, once the machine is known. This, and loading, fail. */
void bench_prepare(Process *p);
void bench_lock_down(Process *p); /* from then on it may run foreign code */
void bench_load(Process *p, int side);
_Noreturn void bench_measure(Process *p); /* leaves by _exit, with its results in the area */

/* ---- bench_turns.c ---- */

/* NULL: the calling thread does all of it, or all that it is not told. */
Pool *bench_pool(const Process *p, int side);

/* One copy of all operands for both, and rings of the first: in a search a's, which is what it
 * takes to see how b compares. */
void bench_lay(Process *p);
/* A few calls of both. False: b is not worth pairs. */
bool bench_warm(Process *p);
/* Would rings of b's own take longer to lay than it takes to begin again where they are kept? Says in
 * the area that they are wanted. */
bool bench_asks(Process *p);
void bench_lay_rings(Process *p); /* of the other side */
/* Warms both and takes the pairs; b must compute the same before and after. */
void bench_take_pairs(Process *p);

/* ---- bench_kept.c ---- */

enum { MAX_KEPT = 64 };

typedef struct Kept {
    Hash key;
    Ring ring;    /* at NULL: wanted, but not laid */
    bool given;   /* to the process that is about to start */
    uint64_t use; /* the last request that it served */
} Kept;

typedef struct Keeper {
    int parent, in, out; /* its parent's number, descriptors of requests and replies */
    RivalOpen *own_rivals;
    Env env;      /* of what stays */
    void **plain; /* operands as the graph has them */
    Machine machine;
    Kept kept[MAX_KEPT];
    int n_kept;
    uint64_t n_requests;
    Process *p; /* of the request that is served */
    int n_laid; /* for that */
} Keeper;

/* Gives p operands, and rings of what both sides lay out: a's, and of b's those that were wanted
 * before. Fails as operands_fill and ring_init do. */
void kept_give(Keeper *k);
/* From what p has said before it ended. */
void kept_learn(Keeper *k);

/* ---- bench_keep.c ---- */

/* Fills to[i] with operand i as the side lays it out, where that is not NULL: memory that is shared. False:
 * it could not be done. */
bool keeper_packs(const Keeper *k, int side, void **to);

#endif
