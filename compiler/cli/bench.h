/* bench.h - one generated kernel as a contender: compiled, verified, its operands in place. */
#ifndef NC_CLI_BENCH_H
#define NC_CLI_BENCH_H

#include "cli/model.h"
#include "experiments/baselines/baselines.h"
#include "schedules/schedules.h"
#include "tuner/tuner.h"

typedef struct Entry { /* a generated kernel in a race */
    const char *name;
    const Kernel *naive;
    Runnable r;
} Entry;

typedef struct Place { /* where a race takes place */
    const Machine *machine;
    Pool *pool;
    int n_threads;
    bool cold;
    uint64_t rotates; /* by operand, a bit each: caches, which rotate as constants do */
    size_t ring_limit_bytes;
    uint64_t seed;
} Place;

/* Compiles all of them together: entry[i].r.k becomes its .fn and .pack. */
void entries_build(Env *e, Entry *entry, int n, Library *lib);
/* Operands from the seed, the same for every entry of the same operands; constants and caches in rings where it is cold.
 * shared: by operand, what another entry made; NULL: it makes its own. */
void entry_fill(Env *e, Entry *x, const Place *at, void *const *shared);
/* Fails with E_RANGE and the verdict's sentence when the kernel is not the naive nest. */
void entry_verify(Env *e, const Entry *x, uint64_t seed);

/* ---- bench_rivals.c: who else computes a product ---- */
#define MAX_RIVALS 24

typedef struct Rival { /* a baseline in the race */
    const Baseline *row;
    const Baselines *libs;
    Pool *pool;
    Product p;
    Ring ring;
} Rival;

typedef struct Rivals {
    int n;
    Rival at[MAX_RIVALS];
    Baselines libs;
    bool open;
} Rivals;

void rivals_open(Env *e, Rivals *r, const Place *at); /* before any thread is started */
/* Those that can, for y, x, w of these sizes m, n, k. */
void rivals_add(Env *e, Rivals *r, const Place *at, const int64_t mnk[3], void *const *param);
void rival_run(void *rival); /* one call; takes the next copy */
void rivals_close(Rivals *r);

/* ---- bench_library.c, bench_record.c, bench_profile.c, bench_llama.c: a built model ---- */
typedef struct LibraryBench {
    /* The first NULL: that of the model's first use. The second: in turns with the first; NULL: none. */
    const char *lib[2];
    const char *llama;   /* a GGUF file: in turns with llama-bench; NULL: not */
    const char *weights; /* the model's folder; NULL: the libraries' own */
    bool profile;        /* what each kernel takes, of the first */
    bool buckets;        /* of the model: which lengths of prompts share a program */
    double margin;       /* of regret, with buckets */
    PackOptions pack;
    FirstUse first;
    int n_threads; /* 0: as the libraries say */
    int n_blocks;
    uint64_t seed;
    Format format;
} LibraryBench;
void library_bench_find(Env *e, LibraryBench *o); /* fills lib[0] */
void bench_library(Env *e, void *options);        /* a LibraryBench */
void bench_profile(Env *e, void *options);
void bench_llama(Env *e, void *options);
/* Keeps a race in the database that has both builds; n_threads: of either; by_work: N_LIBRARY_WORKS of two
 * sides each. */
void bench_record(Env *e, const LibraryBench *o, const Machine *machine, const int n_threads[2],
                  const Measured *by_work);
void bench_buckets(Env *e, void *options); /* bench_buckets.c: of the model, not of a library */

enum { N_LIBRARY_WORKS = 5 };
typedef struct LibraryWork { /* so many tokens at once, behind so many */
    const char *name;
    int n, at;
} LibraryWork;
extern const LibraryWork library_works[N_LIBRARY_WORKS];

typedef struct LibrarySide { /* a library that does it */
    BuiltModel built;
    const LibraryWork *work;
    int32_t *ids; /* as many as its context holds */
    Err err;      /* of the first call that failed */
    bool failed;
} LibrarySide;
/* Tokens all over the vocabulary: what a step takes depends on none of them. In e->model. */
int32_t *made_up_ids(Env *e, int64_t n, int64_t vocab_size);
void library_side_open(Env *e, const LibraryBench *b, int i, LibrarySide *s);
bool library_side_feed(LibrarySide *s, int at, int n); /* false: failed, now or before */

/* ---- bench.c, bench_options.c: the command ---- */
#define MAX_BENCH_ENTRIES 8

typedef struct BenchOptions {
    int64_t m, n, k; /* of a product; 0: a model's kernel */
    Source source;   /* whose kernel, where a model is named */
    const char *kernel;
    int n_schedules;
    const char *schedule[MAX_BENCH_ENTRIES];
    int n_threads; /* 0: all */
    int n_sweep;   /* points of the space tried for one more contender */
    bool cold, naive, peaks, bf16;
    int n_blocks;
    uint64_t seed;
    Format format;
    LibraryBench library;
} BenchOptions;
void bench_kernels(Env *e, void *options); /* BenchOptions */

/* ---- bench_peaks.c ---- */
void bench_peaks(Env *e, const Machine *m, Pool *pool, Format format);

/* ---- bench_sweep.c: the fastest of n points of the space, timed with the operands of `like` ---- */
void sweep_space(Env *e, const Entry *like, const Place *at, const Space *space, int n,
                 Schedule *best);

#endif
