/* compile.h - the public door of the compiler: from a graph to verified, loadable C. */
#ifndef NC_COMPILE_H
#define NC_COMPILE_H

#include "base/base.h"
#include "emit/emit.h"
#include "graph/graph.h"
#include "loop/loop.h"
#include "loop/schedule.h"
#include "lower/lower.h"

/* Columns: id, name, what switching it off means */
#define STAGES(X)                                                    \
    X(CSE, "cse", "common subexpressions stay")                      \
    X(FOLD, "fold", "constant expressions are computed at run time") \
    X(FUSE, "fuse", "one kernel for every node")

typedef enum StageBit {
#define X(id, name, meaning) STAGE_##id,
    STAGES(X) N_STAGES
#undef X
} StageBit;

typedef struct StageTime {
    const char *name;
    uint64_t ns;
    int nodes, kernels, calls; /* after the stage; 0 where it does not apply */
} StageTime;

/* What a picker knows of the place a kernel runs in, besides the kernel. */
typedef struct PickHint {
    const Target *target;
    int64_t l1d_bytes, l2_bytes, l3_bytes; /* 0: unknown */
    int n_threads;
    bool in_place; /* constants stay as they are: somebody else reads them so, and panels would
                    * hold them twice */
    int64_t sym[MAX_SYMBOLS]; /* by kernel symbol: the value it usually has; -1: any */
} PickHint;

/* On this machine, sizes as zeros: whoever knows them fills them in. */
PickHint hint_of_machine(const Machine *m, int n_threads);

/* "Which schedule for this kernel here?" The compiler asks and never looks anything up itself. An illegal
 * answer is an error of the picker; no steps are always legal. */
typedef struct Picker {
    void (*pick)(void *ctx, Env *e, const Kernel *k, const PickHint *hint, Schedule *out);
    void *ctx;
} Picker;

typedef struct Compile {
    Env *env;
    unsigned without;     /* bits of StageBit */
    bool cache;           /* the KV cache is appended in place: other inputs (graph_cache) */
    Sizes known;          /* symbols compiled in: they are gone (graph_specialise) */
    const Target *target; /* of the C text; NULL: generic */
    const Picker *picker; /* NULL: every nest stays naive */
    PickHint hint;        /* for the picker; target and sym are filled in for each kernel */
    /* By graph symbol: the value to schedule for, where usual_known. */
    int64_t usual[MAX_SYMBOLS];
    bool usual_known[MAX_SYMBOLS];
    uint64_t (*now_ns)(void); /* NULL: no times are taken; the core reads no clock itself */
    /* Dumps; may be NULL. */
    void (*after)(void *ctx, const char *stage, const Graph *g, const Program *p);
    void *after_ctx;
    Vec(StageTime) times;
    const Graph *graph; /* the graph that was lowered: what the program's node numbers mean */
} Compile;

/* What schedules are searched for, and what builds choose them at: a prompt, and tokens after it, one by
 * one. */
enum { USUAL_PROMPT = 64, USUAL_PAST = 256, USUAL_CAPACITY = 512 };

/* The symbols of a step's sizes: seq, past, capacity, in the order of NcSize. */
enum { N_STEP_SIZES = 3 };
Sym step_size(Env *e, int i);
/* Of a step with that many tokens behind so many: value by symbol. */
void step_sizes(Env *e, int64_t seq, int64_t past, int64_t capacity,
                int64_t value[MAX_SYMBOLS]);
/* A token fed alone: its seq is compiled in. */
void compile_one_token(Compile *c);
void compile_at_usual_sizes(Compile *c, int64_t n_tokens);
Program *compile_model(Compile *c, const Graph *g);
/* Does another kernel of the program read a weight that this one reads? */
bool weights_are_shared(const Program *p, int kernel);
/* What pickers are told of a kernel: c->hint with the usual values of the symbols that its calls
 * bind; shared weights stay in place. */
PickHint compile_hint(const Compile *c, const Program *p, int kernel);
/* Steps from kernel to C text: the one function that the tuner and every build use. */
void compile_kernel(Compile *c, const Kernel *k, Buf *out);

#endif
