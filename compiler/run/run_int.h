/* run_int.h - what the files of compiler/run share: sealed files, scratch folders, compiler
 * jobs. */
#ifndef NC_RUN_INT_H
#define NC_RUN_INT_H

#include "run/run.h"

/* ---- seal.c: files of the cache carry a checksum of their bytes and their key behind them  */
typedef enum Seal { SEAL_ABSENT, SEAL_INTACT, SEAL_BROKEN } Seal;

/* Text and length without the seal, where it is intact. key: 32 hex digits. */
Seal seal_read(Arena *a, const char *path, const char *key, char **text, size_t *len);
bool seal_write(Arena *a, const char *path, const char *key, const char *text, size_t len,
                Err *err);

/* ---- jobs.c: several compilers at once -------------------------------------------------- */
enum { SAID_BYTES = 16 << 10 };

typedef struct Job {
    char *const *argv; /* argv[0] is the program's path */
    char *said;        /* the first SAID_BYTES - 1 bytes of its stdout and stderr, NUL-ended */
    size_t said_len;
    bool done; /* it ended well */
} Job;

Job job_new(Env *e, char *const *argv);
/* Runs all, at most n_parallel at a time. Ends early, with none left running, at the first that
 * fails: then false, *which is the job or -1, and err says how it ended, without its name. */
bool jobs_run(Job *job, int n, int n_parallel, const Toolchain *tc, const volatile int *stop,
              int *which, Err *err);

/* ---- cc.c ------------------------------------------------------------------------------- */
const char *program_find(Env *e, const char *word); /* as execvp finds it; NULL: nowhere */
/* The compiler's own words, its flags, then more. NULL-ended. */
char *const *toolchain_argv(Env *e, const Toolchain *tc, const char *const *more, int n_more);
/* "The C compiler PATH failed with exit status 1 on WHAT: first line of an error; SEE." err
 * says how it ended. */
_Noreturn void toolchain_fail(Env *e, const Toolchain *tc, const Job *job, const char *what,
                              const char *see, const Err *err);

/* ---- probe.c: sets version and flags ---------------------------------------------------- */
void toolchain_probe(Env *e, Toolchain *tc, const Machine *machine, const char *isa);

/* ---- cache.c ---------------------------------------------------------------------------- */
const char *cache_default_dir(Env *e); /* NULL: the environment names none */
/* A path that no program takes for an option: relative ones start with "./". */
const char *plain_path(Arena *a, const char *path);
/* A new, empty folder; NULL: see err. */
const char *scratch_make(Env *e, const char *parent, Err *err);
/* With these files, where there. */
void scratch_remove(const char *dir, const char *const *file, int n);

/* ---- load.c ------------------------------------------------------------------------------ */
void *library_open(Env *e, const char *path); /* E_BUILD, with the reason */

/* ---- stored.c: a program's weights in the storage that its kernels take -------------------------- */
typedef struct StoredWeight {
    bool as_f32, as_bf16;  /* some kernel takes it so */
    int known;             /* 1 + its place in Weights; 0: it is none of them */
    const uint16_t *bf16;  /* what is bound */
    uint16_t *own;         /* narrowed from f32; NULL: not */
    const float *own_from; /* where that lay */
    size_t own_bytes;
} StoredWeight;

typedef struct Stored {
    const Graph *g;
    Weights *weights; /* may be NULL */
    StoredWeight *at; /* by weight of the graph */
} Stored;

void stored_init(Env *e, Stored *s, const Graph *g);
void stored_want(Stored *s, int weight, bool bf16);
void stored_use(Stored *s, Weights *w);
/* For these arguments, in the graph's order: widens and narrows what is wanted and not there.
 * False fills err. */
bool stored_update(Stored *s, const Tensor *const *weight, Err *err);
const uint16_t *stored_bf16(const Stored *s, int weight);
void stored_release(Stored *s);

/* ---- explain.c ----------------------------------------------------------------------------------------- */
/* Fills err with why that call ended with this code; input: the arguments in the graph's order. Returns
 * false. */
bool call_failed(const Graph *g, const Program *p, const Call *call, const Tensor *const *input,
                 const Sizes *z, int result, Err *err);

/* ---- panels.c: packed operands of a program, laid out once ------------------------------------------ */
typedef struct Panel {
    const Kernel *k;
    int operand;
    PackFn fn;          /* NULL: by the nest interpreter */
    int slot;           /* which parameter it replaces */
    const int64_t *sym; /* of its call */
    const void *from;   /* where the constant lay when it was filled */
    void *memory;
    size_t bytes;
} Panel;

typedef struct Panels {
    Vec(Panel) at;
} Panels;

void panels_add(Env *e, Panels *p, const Kernel *k, int operand, PackFn fn, int slot,
                const int64_t *sym);
/* Fills what is new or has moved, and puts the panels' addresses into param. False fills err. */
bool panels_update(Env *e, Panels *p, void **param, int64_t *n_elems, Pool *pool, Err *err);
void panels_release(Panels *p);

/* ---- history.c: keys and values of what an engine was fed ------------------------------- */
typedef struct History {
    bool in_place; /* the program appends to them; else they are joined anew after every step */
    int64_t n_layers, n_heads, depth; /* kv heads, and their width */
    int64_t capacity;                 /* positions that there is room for */
    float *memory;                    /* of the following */
    float *now[2], *next[2];          /* keys and values; next: not in place */
} History;

/* Room for so many positions, past of which are filled. E_NOMEM leaves everything as it was. */
bool history_reserve(History *h, int64_t past, int64_t positions, Err *err);
/* The graph's inputs for them; how many. */
int history_inputs(const History *h, int64_t past, NamedTensor in[3]);
/* After a step: its keys and values, [layers, kv heads, n, head dim] where they are joined. */
void history_append(History *h, int64_t past, const Tensor fresh[2]);
void history_free(History *h);

/* ---- layouts.c: the memory of a library's weights --------------------------------------- */
const NcShard *shards_list(Env *e, const Checkpoint *file); /* by shard */
/* In the order in which they lie there. */
const nc_layout *layouts_list(Env *e, const LibraryText *l, int *n);
/* Of everything that decides which bytes lie where. panel: by panel, of its function's text and of
 * what it is made from. */
uint64_t layouts_hash(Env *e, const LibraryText *l, const Hash *panel);

#endif
