/* compile_util.h - graphs and programs of real models for tests, without weights on disk. */
#ifndef NC_TESTS_COMPILE_UTIL_H
#define NC_TESTS_COMPILE_UTIL_H

#include "compile.h"
#include "model/model.h"
#include "run/run.h"
#include "tests/helpers.h"

#define ALL_STAGES ((1u << N_STAGES) - 1)

typedef struct ModelSize {
    int hidden, inter, layers, heads, kv, vocab;
} ModelSize;

extern const ModelSize size_05b;  /* Qwen2.5-0.5B */
extern const ModelSize size_tiny; /* the spec's test model */

Graph *model_graph(Env *e, ModelSize size, bool last_only);
Program *compiled(Env *e, const Graph *g, unsigned without, Compile *c); /* c may be NULL */
int calls_of_kind(const Program *p, const char *kind);
int kernels_of_kind(const Program *p, const char *kind);
const char *traffic(Env *e, const Program *p); /* the byte polynomial, as text */
Sizes sizes_at(Env *e, int64_t seq, int64_t past);
int64_t at_sizes(Env *e, Dim d, int64_t seq, int64_t past);
void plan_at(Env *e, const Program *p, int64_t seq, int64_t past, Plan *plan);

/* Seeded arguments of a model graph at these sizes: weights scaled by their width, ids in range. */
Args model_args(Env *e, const Graph *g, int64_t seq, int64_t past, uint64_t seed);
/* With copies of the inputs, which a program may write. */
Args own_inputs(Env *e, const Args *args);
/* Runs p by compiled C (or, library NULL, by its nests) on copies of the inputs and asserts success. */
Tensor *run_program(Env *e, const Graph *g, const Program *p, const Library *lib,
                    const Args *args);
void build_program(Env *e, const Program *p, Library *lib); /* into a cache of the tests' own */

/* Kernels of many programs in one C file and one run of the compiler: by far the quickest way to many
 * small kernels. Add all, compile once, ask for each program's functions. */
typedef struct Together {
    Map kernels; /* hash -> Kernel */
    Buf text;    /* their C */
    void *lib;
} Together;

void together_init(Env *e, Together *t);
void together_add(Env *e, Together *t, const Program *p);
void together_compile(Env *e, Together *t); /* -O3 where NC_FULL is set, else -O1 */
KernelFn *together_functions(Env *e, const Together *t, const Program *p);
void together_release(Together *t);

void assert_same_bits(const Graph *g, const Tensor *a, const Tensor *b, const char *what);

#endif
