/* measure.h - measuring on this machine: memory that is as cold as a model finds it, probes of what the
 * machine can do at the moment, contenders timed in turns, and the machine's peaks. */
#ifndef NC_TUNER_MEASURE_H
#define NC_TUNER_MEASURE_H

#include "compile.h"
#include "run/run.h"
#include "tuner/stat.h"

/* ---- clock.c: the clock that samples are taken with -------------------------------------- */

uint64_t clock_ns(void); /* CLOCK_MONOTONIC_RAW: not slewed */

typedef struct ClockQuality {
    uint64_t grain_ns; /* smallest step seen */
    uint64_t cost_ns;  /* of one reading: the median */
} ClockQuality;

ClockQuality clock_quality(void); /* takes some thousand readings */
/* A sample must be at least that long: 10 us, 1000 grains and 400 readings. MEASUREMENT 3.1 */
uint64_t clock_floor_ns(ClockQuality q);

/* ---- probe_kernels.c: loops that only read, or only multiply and add --------------------- */

/* Reads all bytes, a multiple of READ_BYTES, n_passes times, in four streams side by side: no
 * way to read was found to be faster. The answer depends on every byte. */
typedef uint64_t ReadFn(const void *p, size_t bytes, int64_t n_passes);
enum { READ_BYTES = 512 };

/* n_steps of independent operations, all in registers; the answer depends on them. */
typedef float ArithFn(int64_t n_steps);
typedef struct Arith {
    ArithFn *fn; /* NULL: this machine has it not */
    int ops;     /* of one step: a fused multiply-add counts as two */
} Arith;

/* Columns: id, name */
#define ARITHS(X)                     \
    X(FMA128, "f32 FMA, 128 bit")     \
    X(FMA256, "f32 FMA, 256 bit")     \
    X(FMA512, "f32 FMA, 512 bit")     \
    X(DOT256, "i8 vpdpbusd, 256 bit") \
    X(DOT512, "i8 vpdpbusd, 512 bit")

typedef enum ArithId {
#define X(id, name) ARITH_##id,
    ARITHS(X) N_ARITHS
#undef X
} ArithId;

extern const char *const arith_name[N_ARITHS];

ReadFn *read_fn(const Machine *m);            /* with the widest vectors it has */
Arith arith_fn(const Machine *m, ArithId id); /* FMA128: without FMA, multiply then add */
Arith arith_widest(const Machine *m);         /* of the FMAs */
bool arith_fused(const Machine *m);           /* has it FMA at all? */

/* ---- ring.c: constant operands as a model finds them, cold ------------------------------- */

/* Copies of one buffer, one behind the other. A call that takes the next copy each time finds
 * none of it in a cache, once all copies together are RING_CACHES times the last-level cache.
 * */
enum { RING_CACHES = 8 };

size_t ring_want_bytes(const Machine *m); /* 256 MiB where the caches are unknown */

typedef struct RingPlan {
    int n_copies; /* at least 2 */
    bool capped;  /* the limit left less than was wanted: perhaps less than cold */
} RingPlan;

/* For a call whose constant operands are so many bytes together: each has a ring, and all have
 * as many copies. False: two copies exceed the limit; err says so. */
bool ring_plan(size_t bytes, size_t want_bytes, size_t limit_bytes, RingPlan *plan, Err *err);

typedef struct Ring {
    char *at;          /* the first copy, 2 MiB-aligned */
    size_t bytes;      /* of a copy */
    size_t step_bytes; /* from a copy to the next: whole cache lines */
    int n_copies, next;
    bool huge; /* huge pages were asked for and not refused */
    void *map;
    size_t map_bytes;
} Ring;

/* Filled once, by the threads that will read it: each its contiguous share of every copy. pool
 * NULL: the caller alone; source NULL: some bytes; n_copies 1: a hot operand. E_NOMEM. */
void ring_init(Env *e, Ring *r, const void *source, size_t bytes, int n_copies, bool huge,
               Pool *pool);
/* The same in the memory that it has, whose pages are there already. False: it is too small, and
 * as it was. */
bool ring_refill(Ring *r, const void *source, size_t bytes, int n_copies, Pool *pool);
void ring_release(Ring *r);
/* No copy is in a cache any more, on machines that can do that (x86-64, aarch64). */
void ring_flush(Ring *r, Pool *pool);
const void *ring_next(Ring *r); /* round and round */

/* ---- operands.c: a compiled kernel with its operands, to be called over and over --------- */

typedef struct RivalKernel RivalKernel; /* rival.c */

typedef struct Runnable {
    const Kernel *k; /* scheduled; its operands and symbols are the naive kernel's */
    KernelFn fn;
    const PackFn *pack;       /* by operand, as in Library */
    const int64_t *syms;      /* by slot */
    Pool *pool;               /* NULL: the caller computes all parts */
    const RivalKernel *rival; /* takes the place of fn and pack; NULL: it is ours */
    void **param;             /* by operand, as the graph has it */
    /* By operand: rings that another process has laid of what this kernel lays out, the same
     * panels. NULL: none, or not of that operand. */
    Ring **given;
    Ring **ring;              /* by operand: takes its place. NULL: it stays where it is */
    Ring *own;                /* the rings that are not another's; by operand */
    struct Laid *laid;        /* one copy of each, until the rings are there */
} Runnable;

/* Every operand that is still NULL, in e->model's memory: from the seed and its number alone,
 * at some cache line that the seed draws. Numbers of order 1, bf16 where that was promised;
 * integers 0 or 1. */
void operands_fill(Env *e, const Kernel *naive, const int64_t *syms, uint64_t seed,
                   void **param);
/* In a ring: constants, and those that have their bit in `rotates`. */
bool operand_rotates(const Kernel *k, int operand, uint64_t rotates);
/* The bits of operands that are a KV cache: when a model comes to one again, it is as cold as a weight. */
uint64_t call_caches(const Program *p, const Call *call);
size_t operands_rotating_bytes(const Kernel *k, const int64_t *syms, uint64_t rotates);
/* What rotates, once, laid out by the kernel's own functions, or given; how many bytes of that are
 * in no ring of `with`: where that has an operand in the same bytes, its ring will serve both, and
 * it must outlive r. Fails with E_NOMEM, and E_INPUT where a value is said to come from bf16
 * and does not. */
size_t runnable_lay(Env *e, Runnable *r, uint64_t rotates, const Runnable *with);
/* Then rings of so many copies, touched first by the threads of pool; with's are there already.
 * E_NOMEM */
void runnable_rings(Env *e, Runnable *r, int n_copies, Pool *pool);
/* Of its rings that are not with's: bytes of all copies; and are they of huge pages, as far as the
 * system did not refuse? */
size_t runnable_ring_bytes(const Runnable *r, bool *huge);
void runnable_flush(Runnable *r, Pool *pool); /* likewise, those of more than one copy */
/* One copy of what is laid out, but not in a ring that is given or with's. */
size_t runnable_own_bytes(const Runnable *r);
void runnable_release(Runnable *r);
/* Once, on the next copies; before there are rings, on the one copy that was laid out. */
void runnable_call(void *runnable);
/* The operand as it was laid out, until there are rings; NULL: it does not rotate. */
const void *runnable_laid(const Runnable *r, int operand);

/* ---- rival.c: a kernel that is not of our making --------------------------------------------- */

/* Computes what the naive kernel does, from the same operands, at the sizes it was made for. */
struct RivalKernel {
    void *ctx;
    /* This part's share of it; parts run at once. Returns 0, or a kernel's code. */
    int32_t (*run)(void *ctx, void *const *params, const int64_t *syms, int part, int n_parts);
    bool own_threads; /* run is called once, as part 0 of 1, and shares the work out itself */
    int packed;       /* a constant operand that it lays out its own way, once; 0: none */
    size_t packed_bytes;
    void (*pack)(void *ctx, void *to, const void *from); /* to: 64-aligned */
};

/* What a library of a rival has to have, and what it may have: a function that is told once how
 * many threads it may run on, which says that it has threads of its own. */
#define RIVAL_SYMBOL "nc_rival"
#define RIVAL_THREADS "nc_rival_threads"

/* Fails with E_BUILD. lib must outlive *out. */
void rival_load(Env *e, Library *lib, const char *path, const char *symbol, const Kernel *naive,
                int n_threads, RivalKernel *out);
/* All of it; pool NULL: by the caller alone. */
int32_t rival_call(const RivalKernel *r, Pool *pool, void *const *params, const int64_t *syms);

typedef struct RivalCheck { /* a rival as verify_kernel runs it: BuiltKernel.ctx */
    const RivalKernel *rival;
    Pool *pool;
    void *panels; /* packed_bytes, 64-aligned */
    int n_operands;
} RivalCheck;
RivalCheck rival_check(Env *e, const RivalKernel *r, Pool *pool, int n_operands);
int32_t rival_checked(void *ctx, KernelFn unused, void *const *params, const int64_t *syms);

/* ---- probe.c: what the machine can do at this moment ------------------------------------- */

/* A virtual machine changes its memory bandwidth and the cost of a parallel region within
 * seconds, for reasons that cannot be seen from inside. So figures are quoted against probes
 * taken beside them. Each value is the median of a few tries. */
typedef struct Probe {
    double read_bytes_per_ns; /* = GB/s; all threads, the ring's next copies; 0: no ring */
    double fork_join_ns;      /* an empty parallel region */
    double flops_per_ns;      /* = GFLOP/s; all threads, widest FMA */
} Probe;

typedef struct Prober {
    Pool *pool;
    Ring *ring; /* NULL: hot, nothing is read */
    ReadFn *read;
    Arith fma;
} Prober;

Prober prober_of(const Machine *m, Pool *pool, Ring *ring);
void prober_take(const Prober *p, Probe *out);
/* The machine changed its regime between the two: figures in between belong to neither. */
bool probes_differ(const Probe *a, const Probe *b);

/* ---- measure.c: contenders in turns ------------------------------------------------------ */

typedef struct Contender {
    const char *name;
    void (*run)(void *ctx); /* one call; it takes the next copy of its ring itself */
    void *ctx;
} Contender;

typedef struct MeasurePlan {
    int n_blocks;      /* an interval over blocks needs 6 */
    int max_rounds;    /* of a block; a round samples each contender once, in random order */
    uint64_t block_ns; /* rounds are as many as fit, but one at least */
    uint64_t floor_ns; /* of a sample; calls are repeated until all contenders reach it */
    /* Each contender runs that long, and three calls, before anything counts. */
    uint64_t warm_ns;
    uint64_t
        settle_ns; /* before a sample the caller spins that long, until other threads sleep,
                           and then makes one call that is not timed; 0: neither */
    uint64_t seed; /* of the orders */
    const volatile int *stop; /* set by a signal's handler: drops the block at work; or NULL */
} MeasurePlan;

MeasurePlan measure_plan(uint64_t seed); /* sensible values for everything else */

typedef struct Sample {
    uint64_t ns; /* of reps calls together */
    int turn;    /* within the round, from 0 */
} Sample;

typedef struct Block {
    Probe before, after;
    bool flipped;   /* the two differ */
    bool throttled; /* the process's control group was held back meanwhile */
} Block;

typedef struct Measured {
    const Contender *contender;
    int n_contenders;
    int n_blocks;   /* done: fewer than planned after stop */
    int n_rounds;   /* of each block */
    int64_t reps;   /* calls a sample */
    Sample *sample; /* raw: [block][round][contender] */
    Block *block;
} Measured;

/* In e->model's memory. prober may be NULL: then probes are zeros and no block is flipped. */
void measure(Env *e, const Contender *c, int n, const MeasurePlan *plan, const Prober *prober,
             Measured *out);

/* ---- summary.c: what the samples say ----------------------------------------------------- */

/* All per call, in ns. */
typedef struct Summary {
    double min_ns, q1_ns, median_ns, q3_ns, max_ns;
    Interval block_ns; /* over the blocks' medians */
    int n_samples;
} Summary;

/* Intervals are at 95%, over blocks of this one process: how well it is known here and now. */
Summary measure_summary(Env *e, const Measured *m, int contender);
/* Time of a by time of b, block by block: below 1 where a is faster. All blocks count. */
Interval measure_ratio(Env *e, const Measured *m, int a, int b);
/* Of the roofline: bytes and flops of one call at the mean rates of the block's two probes, the slower
 * of the two, by the time it took; 0 of either: it does not bind. Flipped and throttled blocks are left
 * out: a fraction of a mixture means nothing. */
Interval measure_fraction(Env *e, const Measured *m, int contender, double bytes, double flops);

/* ---- peaks.c: this machine's peaks ------------------------------------------------------- */

typedef struct Rate {    /* per ns: GFLOP/s, GOP/s, GB/s */
    double median, best; /* over tries; both 0: this machine has it not */
} Rate;

typedef enum Level { LEVEL_L1, LEVEL_L2, LEVEL_L3, LEVEL_MEMORY, N_LEVELS } Level;
extern const char *const level_name[N_LEVELS];

enum { ONE_THREAD, ALL_THREADS, N_WAYS };

typedef struct Peaks {
    int n_threads;
    Rate arith[N_ARITHS][N_WAYS];
    Rate read[N_LEVELS][N_WAYS]; /* working sets of half a level; memory by a ring */
    Rate fork_join_ns;           /* here best is the least */
    bool fused;                  /* false: no FMA, so the first row multiplies and adds apart */
} Peaks;

/* Takes about a second and RING_CACHES last-level caches of memory. */
void peaks_measure(Env *e, const Machine *m, Pool *pool, Peaks *out);
double peaks_flops_per_ns(const Peaks *p, int way); /* the fastest f32 row, at its best */

#endif
