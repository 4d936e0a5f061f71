/* runtime.h - what runs in a built model's library beside its kernels: threads, weights, steps.
 * The same files are part of the compiler, where tests and engines use them, and text that every
 * built library carries (emit/carried.c); so they stand on base alone, and there on alone.h,
 * which has the little of it that they use. Sections are named after the .c files. */
#ifndef NC_RUNTIME_H
#define NC_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"
#include "runtime/api.h"

/* Whole cache lines: buffers never share one. */
static inline int64_t nc_lines(int64_t bytes)
{
    return (bytes + 63) & ~(int64_t)63;
}

/* ---- what kernels are ---------------------------------------------------------------------- */

typedef int32_t (*KernelFn)(void *const *params, const int64_t *syms, int part, int n_parts);
/* Fills the panels of one operand and returns their elements; without `to` it only counts. */
typedef int64_t (*PackFn)(void *to, const void *from, const int64_t *syms);

/* ---- pool.c: threads that run the parts of one function side by side ------------------------ */
typedef struct Pool Pool;
typedef void PoolPart(void *ctx, int part, int n_parts);
/* n_threads >= 1 counts the caller; the default everywhere is Machine.n_threads. Workers spin for
 * 0.1 ms after a region, then sleep; with more threads than CPUs in the affinity mask they sleep at
 * once. With as many, each worker is pinned to a CPU of its own, which is never the caller's.
 * Signals go to other threads. NULL: err says which thread cannot be started (E_IO), or E_NOMEM. */
Pool *pool_new(int n_threads, Err *err);
/* Runs part(ctx, i, n_threads) for every i, part 0 on the caller (NULL: alone); returns when all are done, and
 * what they wrote can be read. Allocates and locks nothing. One at a time: inside a part, from two
 * threads at once or in a forked child it is a bug(). */
void pool_run(Pool *p, PoolPart *part, void *ctx);
/* All parts of one kernel. 0, or the largest of the codes that are not 0. */
int32_t pool_kernel(Pool *p, KernelFn fn, void *const *params, const int64_t *syms);
int pool_threads(const Pool *p);
void pool_set_spin(Pool *p, int n_pauses); /* from the next region on; 0: always sleep */
void pool_free(Pool *p); /* ends its threads. NULL is fine; in a forked child it does nothing */

/* ---- a model as tables: emit/library.c prints them as C ------------------------------------- */

/* The sizes that a step knows; kernels' symbols are numbered by them. */
typedef enum NcSize { NC_SEQ, NC_PAST, NC_CAPACITY, N_NC_SIZES } NcSize;

/* Where a parameter lies. */
typedef enum NcBase {
    NC_TEMP,   /* in the arena */
    NC_WEIGHT, /* tables.weight[index] */
    NC_PANEL,  /* tables.panel[index] */
    NC_FIXED,  /* tables.fixed[index]: constants of the graph */
    NC_IDS,    /* the tokens, i64 */
    NC_KEYS,
    NC_VALUES,
    NC_LOGITS,
    N_NC_BASES
} NcBase;

typedef struct NcPlace {
    NcBase base;
    int index;
    int64_t at; /* bytes */
} NcPlace;

typedef struct NcTerm { /* coef * seq^power[0] * past^power[1] * capacity^power[2] */
    int64_t coef;
    uint8_t power[N_NC_SIZES];
} NcTerm;

typedef struct NcMove { /* a parameter whose place depends on sizes: bytes behind its own */
    int param, term, n_terms;
} NcMove;

typedef struct NcCall {
    KernelFn fn;
    int param; /* the first of its parameters, the output */
    int sym;   /* the first of its symbols, in NcProgram.sym */
    bool parallel;
    bool with_next; /* threads do not meet between this call and the next */
} NcCall;

typedef struct NcProgram {
    nc_program facts;
    const NcCall *call;
    const NcPlace *param;
    int n_params;
    const uint8_t *sym; /* NcSize; equal lists are one */
    int n_syms;
    const NcMove *move;
    int n_moves;
    const NcTerm *term;
    bool all_rows; /* logits of every token, into the caller's memory */
} NcProgram;

/* How a weight's elements lie in the file, and in memory. */
typedef enum NcStorage { NC_F32, NC_F16, NC_BF16, N_NC_STORAGES } NcStorage;

typedef struct NcShard {
    const char *file; /* within the folder */
    int64_t n_bytes;
    int64_t header_bytes;
    uint64_t print; /* weights_print of the whole file */
} NcShard;

typedef struct NcWeight {
    const char *name;
    int shard;
    int64_t offset; /* bytes, in its file */
    int64_t count;  /* elements */
    NcStorage source, stored;
    bool kept; /* read by kernels as it is; else only panels are made of it */
} NcWeight;

typedef struct NcPanel {
    PackFn fill;
    NcPlace from; /* a weight or a constant */
    int64_t n_bytes;
} NcPanel;

typedef struct NcTables {
    const nc_facts *facts;
    const NcProgram
        *program; /* facts->n_programs: by rising max_tokens, that of all rows last */
    const NcShard *shard;
    const NcWeight *weight;
    const NcPanel *panel;
    const void *const *fixed;
    int n_shards, n_weights, n_panels;
    uint64_t layout; /* changes with anything that the memory of weights depends on */
    const unsigned char
        *needs; /* by row of CPU_NEEDS; NULL: whoever made the tables runs them */
} NcTables;

/* ---- cpu.c: can this CPU run the kernels? ---------------------------------------------------- */

/* Instruction sets by the macro that a compiler defines where it may use them. Columns: macro
 * without its underscores, name, CPUID leaf, subleaf, register (0: a .. 3: d), bit, XCR0 bits; on
 * other architectures leaf 0 and the bit of AT_HWCAP. */
#define XCR0_NONE 0x00
#define XCR0_VECTORS 0x06 /* SSE and AVX state */
#define XCR0_MASKED 0xe6  /* and masks and 512-bit state */
/* clang-format off */
#if defined __x86_64__ || defined __i386__
#define CPU_NEEDS(X)                                              \
    X(SSE3, "sse3", 1, 0, 2, 0, XCR0_NONE)                        \
    X(SSSE3, "ssse3", 1, 0, 2, 9, XCR0_NONE)                      \
    X(SSE4_1, "sse4.1", 1, 0, 2, 19, XCR0_NONE)                   \
    X(SSE4_2, "sse4.2", 1, 0, 2, 20, XCR0_NONE)                   \
    X(MOVBE, "movbe", 1, 0, 2, 22, XCR0_NONE)                     \
    X(POPCNT, "popcnt", 1, 0, 2, 23, XCR0_NONE)                   \
    X(AVX, "avx", 1, 0, 2, 28, XCR0_VECTORS)                      \
    X(F16C, "f16c", 1, 0, 2, 29, XCR0_VECTORS)                    \
    X(FMA, "fma", 1, 0, 2, 12, XCR0_VECTORS)                      \
    X(BMI, "bmi1", 7, 0, 1, 3, XCR0_NONE)                         \
    X(AVX2, "avx2", 7, 0, 1, 5, XCR0_VECTORS)                     \
    X(BMI2, "bmi2", 7, 0, 1, 8, XCR0_NONE)                        \
    X(AVX512F, "avx512f", 7, 0, 1, 16, XCR0_MASKED)               \
    X(AVX512DQ, "avx512dq", 7, 0, 1, 17, XCR0_MASKED)             \
    X(AVX512IFMA, "avx512ifma", 7, 0, 1, 21, XCR0_MASKED)         \
    X(AVX512CD, "avx512cd", 7, 0, 1, 28, XCR0_MASKED)             \
    X(AVX512BW, "avx512bw", 7, 0, 1, 30, XCR0_MASKED)             \
    X(AVX512VL, "avx512vl", 7, 0, 1, 31, XCR0_MASKED)             \
    X(AVX512VBMI, "avx512vbmi", 7, 0, 2, 1, XCR0_MASKED)          \
    X(AVX512VBMI2, "avx512vbmi2", 7, 0, 2, 6, XCR0_MASKED)        \
    X(GFNI, "gfni", 7, 0, 2, 8, XCR0_NONE)                        \
    X(AVX512VNNI, "avx512vnni", 7, 0, 2, 11, XCR0_MASKED)         \
    X(AVX512BITALG, "avx512bitalg", 7, 0, 2, 12, XCR0_MASKED)     \
    X(AVX512VPOPCNTDQ, "avx512vpopcntdq", 7, 0, 2, 14, XCR0_MASKED) \
    X(AVX512VP2INTERSECT, "avx512vp2intersect", 7, 0, 3, 8, XCR0_MASKED) \
    X(AVX512FP16, "avx512fp16", 7, 0, 3, 23, XCR0_MASKED)         \
    X(AVXVNNI, "avxvnni", 7, 1, 0, 4, XCR0_VECTORS)               \
    X(AVX512BF16, "avx512bf16", 7, 1, 0, 5, XCR0_MASKED)          \
    X(LZCNT, "lzcnt", 0x80000001, 0, 2, 5, XCR0_NONE)             \
    X(XOP, "xop", 0x80000001, 0, 2, 11, XCR0_VECTORS)             \
    X(FMA4, "fma4", 0x80000001, 0, 2, 16, XCR0_VECTORS)           \
    X(TBM, "tbm", 0x80000001, 0, 2, 21, XCR0_NONE)
#else
#define CPU_NEEDS(X)                                              \
    X(ARM_FEATURE_ATOMICS, "lse", 0, 0, 0, 8, XCR0_NONE)          \
    X(ARM_FEATURE_FP16_VECTOR_ARITHMETIC, "fp16", 0, 0, 0, 10, XCR0_NONE) \
    X(ARM_FEATURE_DOTPROD, "dotprod", 0, 0, 0, 20, XCR0_NONE)     \
    X(ARM_FEATURE_SVE, "sve", 0, 0, 0, 22, XCR0_NONE)
#endif
/* clang-format on */

enum {
#define X(macro, name, leaf, sub, reg, bit, state) +1
    N_CPU_NEEDS = 0 CPU_NEEDS(X)
#undef X
};

extern const char *const cpu_need_macro[N_CPU_NEEDS]; /* "AVX512F" of __AVX512F__ */
/* False: error names what is missing. Runs nothing but the baseline's instructions. */
bool cpu_can_run(const unsigned char *needs, nc_error *error);

/* ---- weights.c: from the model's files into memory ------------------------------------------- */

typedef struct NcWeights {
    char *memory; /* kept weights, then panels */
    size_t n_bytes;
    void **weight; /* by weight; NULL: not kept */
    void **panel;
} NcWeights;

/* A number that changes with the file's header, and nearly always with its data: all of the header and
 * 256 pieces of 4 KiB are looked at. */
uint64_t weights_print(const uint8_t *file, int64_t n_bytes, int64_t header_bytes);
/* Opens the shards, refuses other ones than the tables were made for, widens and packs in parallel.
 * False: nothing is held, error says why. pool may be NULL. */
bool weights_read(const NcTables *t, const nc_options *o, Pool *pool, NcWeights *w,
                  nc_error *error);
void weights_drop(NcWeights *w);
int64_t weights_bytes(const NcTables *t,
                      int64_t *panels);  /* that they will take; of them panels */
int64_t weight_bytes(const NcWeight *w); /* as it is stored, in whole lines */
/* Memory of their own, in huge pages where there are some; weights_reserved: what to unmap. */
bool weights_reserve(char **p, int64_t n_bytes, nc_error *error);
size_t weights_reserved(int64_t n_bytes);
/* Gives each its address from there on. */
void weights_place(const NcTables *t, NcWeights *w, char *at);

/* ---- pack.c: weights as they are laid out, in a file ----------------------------------------- */
typedef enum PackState {
    PACK_TAKEN,   /* w has its memory and addresses */
    PACK_STALE,   /* not there, or not for these tables: to be written */
    PACK_FOREIGN, /* not to be touched */
} PackState;

/* nc_options.pack, where it can be used. Notes why it cannot. */
PackState pack_take(const NcTables *t, const nc_options *o, Pool *pool, NcWeights *w);
/* Writes it. Notes what became of it; the weights in memory stay. */
void pack_keep(const NcTables *t, const nc_options *o, Pool *pool, const NcWeights *w);

/* ---- model.c: opening, stepping, closing ------------------------------------------------------ */

nc_model *runtime_open(const NcTables *t, const nc_options *options, nc_error *error);
void runtime_close(nc_model *m);
/* Tokens for positions at .. at + n - 1. all: n rows of logits into the caller's `rows`; else *logits. */
nc_code runtime_feed(nc_model *m, int64_t at, const int32_t *ids, int64_t n, bool all,
                     float *rows, const float **logits, nc_error *error);

/* Fills error (may be NULL); returns code. */
nc_code nc_refuse(nc_error *error, nc_code code, const char *fmt, ...) PRINTF(3, 4);

#endif
