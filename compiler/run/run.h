/* run.h - from C text to running code: the C compiler, the object cache, the library, execution. */
#ifndef NC_RUN_H
#define NC_RUN_H

#include "base/base.h"
#include "compile.h"
#include "emit/emit.h"
#include "graph/graph.h"
#include "loop/loop.h"
#include "model/model.h"
#include "runtime/runtime.h"

/* ---- cc.c: the system's C compiler. No shell: argument vectors only ----------------------------- */
typedef struct Toolchain {
    /* Compiler and its own words: $CC split at blanks, else gcc, clang, cc. */
    char *const *argv;
    int n_argv;
    const char *path;         /* resolved program */
    const char *version;      /* first line of --version */
    const char *const *flags; /* emit_flags plus -march=native where accepted */
    int n_flags;
    const Target *target; /* how wide emitted vectors are */
    char *const *env;     /* the child's environment: ours, with LC_ALL=C */
    int timeout_ms; /* of one compilation: $NANOCOMPILE_CC_TIMEOUT in seconds, else 60 s */
    uint64_t
        until_ns;  /* by os_now_ns: no compilation runs longer than that; 0: no such limit */
    Hash identity; /* of path, words, version, flags and the machine's ISA: part of every
                              object's key */
} Toolchain;
/* Finds the compiler and what it accepts on this machine. The answer is kept in the cache, so that
 * later starts run no compiler. E_BUILD: none found, or it does not work; with the remedy. */
void toolchain_find(Env *e, Toolchain *tc);
/* The same compiler for code that must run on every CPU of this architecture. */
Toolchain toolchain_baseline(Env *e, const Toolchain *tc);

/* ---- cache.c: content-addressed objects under $NANOCOMPILE_CACHE, $XDG_CACHE_HOME/nanocompile, ~/.cache/nanocompile */
typedef struct Cache {
    /* obj/KEY.c, obj/KEY.o, lib/KEY.so, cc/KEY; KEY.log where a compiler failed. */
    const char *dir;
    int n_hits, n_built; /* objects, since cache_open */
    int n_linked;        /* libraries that were not there */
    int n_quarantined; /* objects and libraries that were broken: renamed to *.bad, built again */
    /* Set by a signal's handler: ends a build with E_INTERRUPT; may be NULL. */
    const volatile int *stop;
} Cache;
/* E_IO with directory and remedy */
void cache_open(Env *e, Cache *c, const char *dir /* NULL: the default */);
/* One object file a kernel, built where missing (in parallel on n_jobs), verified where found: a corrupt
 * one is quarantined and rebuilt. path[i] is the object of kernel i. Interrupted or failed: nothing half-written,
 * and what was compiled until then is kept. */
void cache_objects(Env *e, Cache *c, const Toolchain *tc, Kernel *const *k, int n, int n_jobs,
                   const char **path);
/* The same of any C texts that compile alone. */
typedef struct CSource {
    const char *what; /* for messages */
    Buf text;
} CSource;
void cache_sources(Env *e, Cache *c, const Toolchain *tc, const CSource *s, int n, int n_jobs,
                   const char **path);
/* The shared library of these objects, likewise; cache_link: with options for the linker. */
const char *cache_library(Env *e, Cache *c, const Toolchain *tc, const char *const *object,
                          int n);
const char *cache_link(Env *e, Cache *c, const Toolchain *tc, const char *const *object, int n,
                       const char *const *option, int n_options);

/* ---- load.c ------------------------------------------------------------------------------------ */
typedef struct Library {
    void *handle;
    KernelFn *fn;  /* by kernel index */
    PackFn **pack; /* by kernel index, then operand: fills its panels; NULL where it has none */
} Library;
/* E_BUILD: says when the directory is noexec */
void library_load(Env *e, Library *lib, const char *path, Kernel *const *k, int n);
void library_release(Library *lib);

/* ---- build.c: all of the above for a program's kernels; n_jobs compilers at once --------------- */
/* stop: as in Cache. */
void library_build(Env *e, const Program *p, int n_jobs, const volatile int *stop,
                   Library *lib);

/* ---- exec.c: runs a program, by C or by the nest interpreter ------------------------------------- */
typedef struct Exec Exec;
/* fn NULL: every call through nest_run. The program and the graph must outlive it. */
Exec *exec_new(Env *e, const Graph *g, const Program *p, KernelFn *fn);
/* The same with a library, whose functions also lay out packed operands: at the first bind, and again
 * when a constant has moved. */
Exec *exec_with(Env *e, const Graph *g, const Program *p, const Library *lib);
void exec_free(Exec *x); /* its memory; the rest goes with the Env. NULL is fine */
/* From now on *stop, set by a signal's handler, ends a call between two kernels with E_INTERRUPT. */
void exec_watch(Exec *x, const volatile int *stop);
/* Arguments that are these weights are read as bf16 where a kernel takes that and they are kept so; and
 * widened where a kernel takes f32. They must outlive the Exec. Without them, arguments are f32, and
 * narrowed where a kernel takes bf16: E_INPUT, where one does not come from that. */
void exec_use_weights(Exec *x, Weights *w);
/* For its compiled kernels; it must outlive the Exec. NULL: none. */
void exec_use_pool(Exec *x, Pool *p);
/* Binds and checks arguments and sizes (graph_bind), plans, calls each kernel. out[i] gets tensors in
 * arena a; but an output that the program writes into an input (Buffer.also_output) is that input's memory.
 * False fills err. A second run with the same sizes plans nothing again. */
bool exec_run(Exec *x, const Args *args, Arena *a, Tensor *out, Err *err);
/* The two halves of exec_run, for steady use: bind once, then call as often as wanted. In: out[i].data is
 * NULL, for memory of the Exec that holds until the next bind, or the caller's, with its dtype and
 * dims, which must be the output's. Out: out[i] in full. Arguments are used in place, and inputs that
 * the program writes (Buffer.written) are changed. */
bool exec_bind(Exec *x, const Args *args, Tensor *out, Err *err);
bool exec_call(Exec *x, Err *err);
const Plan *exec_plan(const Exec *x); /* of the last bind */

/* ---- engine.c: a model that can be stepped, with its cache -------------------------------------- */
typedef enum EngineWay { BY_C, BY_NEST, BY_INTERP } EngineWay;
typedef struct EngineOptions {
    EngineWay way;
    unsigned without;     /* bits of StageBit */
    bool join_history;    /* compiled: the graph's own inputs past_*, not graph_cache's */
    bool any_length;      /* compiled: no graph of its own for a single token */
    Gemm gemm;            /* BY_INTERP: NULL for the definition */
    int n_threads;        /* compilers at once */
    const Picker *picker; /* BY_C: schedules of the kernels; NULL: naive nests */
    PickHint hint;        /* for the picker */
    const Target *target; /* of scheduled kernels; NULL: generic */
    Pool *pool;           /* runs parallel kernels and lays out panels; NULL: one thread */
    /* Set by a signal's handler: ends a compilation or step with E_INTERRUPT. */
    const volatile int *stop;
} EngineOptions;
typedef struct Engine Engine;
/* Config and weights must outlive it. Graphs are built and compiled at their first step. */
Engine *engine_new(Env *e, const Config *c, Weights *w, const EngineOptions *o);
/* Does that now, for whatever number of tokens. all: for logits of every row. */
bool engine_prepare(Engine *g, bool all, Err *err);
/* Its feed fails with E_INPUT (no tokens, one outside the vocabulary, more than the context holds),
 * E_NOMEM, E_INTERRUPT, or as compiling does; nothing is fed then, and the next call may succeed. */
Stepper *engine_stepper(Engine *g);
void engine_free(Engine *g); /* NULL is fine */

/* ---- tables.c, library.c: a model as one library ------------------------------------------------- */
typedef struct LibraryPart { /* one way through the model */
    const char *name;
    int64_t min_tokens, max_tokens; /* that it is taken for, and takes at once */
    int64_t usual_tokens;           /* that its schedules are chosen for; 0: for any */
    bool all_rows;
    Program *program;
    Plan plan; /* of the largest sizes */
} LibraryPart;

/* Prompts of so many tokens share a program: those beyond the bucket before, up to `most`. Its schedules are
 * chosen for `usual`. */
typedef struct Bucket {
    int64_t usual, most;
} Bucket;
enum { MAX_BUCKETS = 16 };
extern const Bucket usual_bucket; /* what tune searches for */

struct LibraryParts;
typedef struct LibraryOptions {
    const char *dir; /* the model's folder; NULL: whoever opens it says */
    const Config *config;
    const Checkpoint *file; /* its weights, open */
    int64_t context;        /* positions; 0: the model's, at most 4096 */
    int n_threads;          /* that schedules are for */
    int n_jobs;             /* compilers at once */
    const Picker *picker;   /* asked for each part's kernels, part by part; NULL: naive nests */
    PickHint hint;
    const Toolchain *tc;
    bool f32;             /* weights that come as BF16 are f32 in memory too */
    bool at_usual_sizes;  /* the picker is told those that tune searches for; else none */
    const Bucket *bucket; /* by rising `most` and `usual`, no two alike; NULL: the usual one */
    int n_buckets;
    const char *buckets_why; /* for nc_facts; NULL: nothing was measured */
    const volatile int *stop;
    /* Asked when all parts are compiled, before anything is laid out: may change kernels' schedules. May be
     * NULL. */
    void (*settle)(void *ctx, Env *e, const struct LibraryParts *parts);
    /* Why a part's kernel has its schedule: sets both texts; may be NULL. */
    void (*explain)(void *ctx, int part, int kernel, const char **outcome, const char **why);
    void *ctx;
} LibraryOptions;

typedef struct LibraryParts {
    LibraryOptions o;                        /* with the context that was chosen */
    const char *model, *toolchain, *buckets; /* for nc_facts */
    LibraryPart *part;
    int n;
} LibraryParts;
/* Plans each part, and gives everything in all of them its place. E_INPUT, E_NOMEM. */
void tables_make(Env *e, const LibraryParts *parts, LibraryText *out);

typedef struct ModelLibrary {
    LibraryParts parts;
    LibraryText text;
    const CSource
        *source; /* by kernel of text; after model_library_build, which empties e->kernel */
    const char *const
        *object;      /* by kernel of text, in the cache; then three of the library's own */
    const char *path; /* in the cache */
    int n_built;      /* objects that were not there yet */
    bool is_new;      /* nor was the library */
} ModelLibrary;
/* Asks the picker and makes the tables; then compiles, links and keeps it in the cache; what is there
 * already is only found. */
void model_library_compile(Env *e, const LibraryOptions *o, ModelLibrary *l);
void model_library_build(Env *e, ModelLibrary *l);
/* dir/model.so, model.h and all of its C; the folder is made where it is missing. */
void model_library_write(Env *e, const ModelLibrary *l, const char *dir);

/* ---- built.c: a library that was built, loaded and stepped --------------------------------------- */
typedef struct BuiltModel {
    void *handle;
    const nc_facts *facts; /* known before it is opened */
    nc_model *model;       /* NULL: not opened yet */
    const struct BuiltEntries *entry;
    Stepper stepper;
    float *rows; /* of the last step for all logits */
    int64_t n_rows;
} BuiltModel;
/* Loads path. E_BUILD: it is no library, or none of ours, or none that may be run from there. */
void built_model_load(Env *e, BuiltModel *b, const char *path);
/* Weights and threads: as nc_open says, E_IO, E_NOMEM, E_INPUT, E_INTERRUPT. */
void built_model_open(Env *e, BuiltModel *b, const nc_options *o);
void built_model_close(BuiltModel *b); /* whatever of it is there */

/* ---- verify.c: is a compiled candidate the naive nest? ---------------------------------------------- */
typedef struct BuiltKernel {
    const Kernel *k; /* scheduled, with the naive kernel's operands and symbols */
    KernelFn fn;
    const PackFn *pack; /* by operand, as in Library; NULL: none is packed */
    int n_parts;
    /* Runs all parts; NULL: one after another, the second time backwards. 0, or the largest of their codes. */
    int32_t (*run)(void *ctx, KernelFn fn, void *const *params, const int64_t *syms);
    void *ctx;
    bool foreign; /* not generated from k: nothing is known of the order of its sums */
} BuiltKernel;

typedef struct VerifyOptions {
    const int64_t *syms; /* the sizes that are tuned, by slot */
    uint64_t seed;       /* of the inputs; those of further runs follow it */
    int n_seeds;         /* at the tuned sizes; 0: 2. At other sizes 1 */
    /* Those other sizes, rows of n_syms values; NULL: chosen to meet each tail of the
     * schedule. */
    const int64_t *sizes;
    int n_sizes;
    bool in_process; /* canaries around buffers, and no guard pages */
    bool
        tails_once; /* other sizes on small integers only, where every slip is an inequality, and of sizes with
                        the same tails the smaller ones */
    /* Asked after the first run, on small integers at the tuned sizes: false, and the rest is left out, since
     * nothing will come of the candidate. NULL: always the rest. May use e->kernel. */
    bool (*go_on)(void *ctx);
    void *go_on_ctx;
    bool briefly; /* floats alone: what was verified before is looked at once more */
    double
        work; /* expression nodes of the naive nest that one run evaluates; 0: the default. Where it
                             has more, points are sampled, and contractions checked by random sums */
} VerifyOptions;

typedef struct Verdict {
    bool ok;
    /* A sentence: what was compared, or what is wrong, where, and on which inputs. */
    char text[600];
    int n_runs, n_skipped; /* skipped: at sizes that the naive nest does not fit */
    int64_t n_exact;       /* elements that had to be equal, NaN for NaN */
    int64_t n_bounded;     /* that had to be within a bound */
    int64_t n_open;        /* of which nothing can be said, near overflow or division by 0 */
    int n_sums;            /* outputs checked by random sums */
    double closest;        /* largest error as a part of its bound */
} Verdict;

/* Runs the candidate at several sizes, on small integers, floats and special values, twice each. Exact
 * schedules give the naive nest's bits (max: up to the sign of zero); others do on small integers until libm
 * comes in, and lie within a running-error bound on floats. Each element that the nest stores is written, and
 * nothing else; inputs stay; the second call gives the first one's bits. Accesses outside of a buffer are faults
 * of the process, so this runs in a child: v is written before each call and says what did not return, so it
 * may lie in shared memory. Returns v->ok. Empties e->kernel. Fails with E_NOMEM, and with E_RANGE where the
 * naive nest leaves its own operands at the tuned sizes. */
bool verify_kernel(Env *e, const Kernel *naive, const BuiltKernel *c, const VerifyOptions *o,
                   Verdict *v);

/* ---- npy.c: NumPy's file format, versions 1 to 3, C order, little-endian, the five dtypes -------- */
Tensor npy_read(Env *e, Arena *a, const char *path); /* E_IO, E_SYNTAX, E_TYPE with the path */
bool npy_write(const char *path, Tensor t, Err *err);

/* ---- blas.c: OpenBLAS, found at run time, for the interpreter on request ------------------------- */
/* says: what OpenBLAS says of itself, version and core. False: it is not there; err has the remedy. */
bool blas_gemm(Gemm *out, const char **says, Err *err);

#endif
