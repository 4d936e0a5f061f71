/* process.h - what crosses to the processes that measure, and those who start them and live in them. */
#ifndef NC_TUNER_PROCESS_H
#define NC_TUNER_PROCESS_H

#include "tuner/measure.h"

/* ---- What crosses a process boundary: flat, or text ------------------------------------ */

/* How a candidate ended. Columns: id, name, meaning */
#define STATUSES(X)                                                   \
    X(OK, "ok", "verified before and after, timed")                   \
    X(ILLEGAL, "illegal", "the schedule is refused")                  \
    X(CC_ERROR, "cc-error", "the C compiler failed")                  \
    X(CC_TIMEOUT, "cc-timeout", "the C compiler was stopped")         \
    X(CRASH, "crash", "the child died of a signal, or with an error") \
    X(TIMEOUT, "timeout", "the child was stopped at its deadline")    \
    X(OOM, "oom", "there was no memory for it")                       \
    X(WRONG, "wrong", "its results are not those of the naive nest")  \
    X(GARBAGE, "garbage", "what the child handed over is not a measurement")

typedef enum Status {
#define X(id, name, meaning) STATUS_##id,
    STATUSES(X) N_STATUSES
#undef X
} Status;

/* Flags of a pair. Columns: id, bit, meaning */
#define PAIR_FLAGS(X)                             \
    X(PREEMPTED, 1, "an involuntary switch")      \
    X(FAULTED, 2, "a page fault")                 \
    X(MIGRATED, 4, "another CPU")                 \
    X(STEAL, 8, "steal time passed in the batch") \
    X(WAITED, 16, "a voluntary switch")           \
    X(CLOCK, 32, "the clock stood or went back")  \
    X(THROTTLED, 64, "the control group was held back in the batch")

enum PairFlag {
#define X(id, bit, meaning) PAIR_##id = bit,
    PAIR_FLAGS(X)
#undef X
};

/* One timed sample of the incumbent a and one of the challenger b, back to back in random
 * order. */
typedef struct Pair {
    uint64_t a_ns, b_ns;         /* of reps calls, by the wall */
    uint64_t a_cpu_ns, b_cpu_ns; /* of the thread; 0: the sample is too short to ask */
    uint32_t cpu;                /* it ran on last */
    uint16_t flags;
    uint8_t b_first;
    uint8_t spare;
} Pair; /* 40 bytes */

typedef enum Regime { REGIME_HOT, REGIME_COLD, N_REGIMES } Regime;
extern const char *const regime_name[N_REGIMES];

typedef struct Task {   /* what is tuned */
    const char *kernel; /* canonical text, naive */
    int n_syms;
    int64_t sym[MAX_SYMBOLS]; /* by kernel symbol */
    int n_threads;
    Regime regime;
    /* By operand, a bit each: what rotates in a ring besides constants when it is cold, as the
     * KV cache does. */
    uint64_t rotates;
} Task;

typedef struct Built {    /* a candidate, ready to load */
    const char *schedule; /* text; "" has no steps */
    const char *library;  /* path; no two are the same file */
    const char *symbol;
    Hash c_hash;
    bool rival; /* not of our making; library "": a kernel of this program, called symbol */
} Built;

/* Where a process stands in the protocol. Columns: id, name, meaning */
#define DUEL_STAGES(X)                                                         \
    X(CALIBRATE, "calibrate", "the default against a copy of its own library") \
    X(SEARCH, "search", "screen, then the sequential sign test")               \
    X(REPLICATE, "replicate", "once more in a fresh process")                  \
    X(TITLE, "title", "the champion against the default, process by process")  \
    X(EQUIVALENCE, "equivalence", "a finalist against the champion")           \
    X(COMPARE, "compare", "two schedules as asked: tune --compare, --ablate ...")

typedef enum DuelStage {
#define X(id, name, meaning) DUEL_##id,
    DUEL_STAGES(X) N_DUEL_STAGES
#undef X
} DuelStage;

/* ---- What the protocol asks of a runner, real (child.c) or fake (tests) ------------------ */

/* What a sample is. Columns: id, name, meaning */
#define METRICS(X)                      \
    X(WALL, "wall", "time on the wall") \
    X(CPU, "cpu", "CPU time of the thread: decided at calibration, for disturbed machines")

typedef enum Metric {
#define X(id, name, meaning) METRIC_##id,
    METRICS(X) N_METRICS
#undef X
} Metric;

/* When a search process is over: plain counts, so that the child, which may stop by them,
 * and the parent, who decides again from the samples, come to the same end (race.c has the
 * race). */
typedef struct StopRule {
    /* b's warm call takes more than that many hundredths of a's: no pairs. 0: no such rule. */
    int warm_x100;
    int first_x100; /* the first pair, where it has no flag, likewise; 0: no such rule */
    int third_x100; /* the median of the first three that count, likewise */
    /* More than so many of the last so many pairs flagged: from now on flagged ones count. */
    int most_flagged, window; /* window at most 64 */
    Metric metric;
    int n;               /* rows of the tables: pairs that count, from 0; the last is the cap */
    const int16_t *win;  /* as many wins are enough; -1: none are */
    const int16_t *lose; /* as few wins are too few; -1: none are */
} StopRule;

typedef struct ProcessJob { /* one fresh process */
    const Task *task;
    const Built *a, *b; /* incumbent and challenger */
    DuelStage stage;
    const StopRule *stop; /* SEARCH: the process may stop itself early; NULL: all pairs */
    int n_pairs;          /* at most */
    bool verify;          /* b, before the first and after the last pair */
    uint64_t seed;        /* of orders, inputs, layout */
    int margin_e4;        /* b wins a pair when it takes less than 1 - margin_e4 / 10000 of a */
    uint64_t limit_ns;    /* the whole process is stopped then */
} ProcessJob;

/* What a process took, and what the machine did while it ran. Counts: -1, reals: NAN where it is
 * not known. */
typedef struct Meanwhile {
    bool known; /* false: nothing of it is */
    int64_t utime_ns, stime_ns;
    int64_t max_rss_bytes; /* at least its parent's, as which it began */
    int64_t minor_faults, major_faults;
    int64_t voluntary_switches, involuntary_switches;
    int64_t steal_jiffies; /* of all CPUs */
    int64_t throttled;     /* periods in which a control group of its was held back */
    double load[3];        /* when it began: over 1, 5 and 15 minutes */
    double cpu_mhz;        /* of the CPU that it ran on, when it had ended */
    double celsius;        /* of the warmest thermal zone, then */
} Meanwhile;

typedef struct ProcessResult {
    Status status;
    char why[704];                 /* a sentence where status is not OK */
    uint64_t warm_a_ns, warm_b_ns; /* of one call, warm: the first screen */
    int64_t reps;                  /* calls a sample */
    int n_pairs;                   /* 0 where status is not OK */
    Pair *pair;                    /* in the arena that was given; also those to be discarded */
    Probe before, after;           /* zeros: not taken */
    int pid; /* 0: none was started, which says nothing of the candidate */
    int cpu; /* it was bound to; -1: to none */
    int signal, exit_code;
    bool in_a;         /* a crash or timeout came while a ran: it says nothing of b */
    uint64_t start_ns; /* CLOCK_REALTIME */
    uint64_t took_ns;
    uint64_t verify_ns, lay_ns,
        time_ns;             /* of that: b verified, operands laid out, warm-up and pairs */
    uint64_t ring_bytes;     /* of both sides' operands that rotate, all copies; 0: hot */
    bool huge_pages;         /* what they lie in, unless the system gave none */
    uint64_t base_a, base_b; /* where the libraries were loaded */
    int stack_pad, env_pad;  /* bytes */
    bool b_loaded_first;
    bool again; /* while it is not over: see AreaFacts */
    Meanwhile meanwhile;
} ProcessResult;

typedef struct Runner {
    void *ctx;
    /* Never fails: how it went is the result. Memory is m. */
    void (*process)(void *ctx, Env *e, Arena *m, const ProcessJob *job, ProcessResult *out);
    uint64_t (*now_ns)(void *ctx); /* budgets are kept by this clock */
    /* Waits for a quieter machine. NULL: cannot wait. May return early. */
    void (*wait_ns)(void *ctx, uint64_t ns);
} Runner;

/* ---- candidate.c: schedules made into libraries ------------------------------------------ */

typedef struct Attempt { /* at building a candidate */
    Status status;       /* OK: built; else ILLEGAL, CC_ERROR or CC_TIMEOUT */
    const char *why;     /* a sentence; NULL: OK */
    Built built;
} Attempt;

/* The kernel under each of n schedules, each a library of its own, linked from the very object
 * that a build would link; compiled n_jobs at once. What fails says so in its row and holds up
 * no other; what is not done at tc->until_ns is CC_TIMEOUT. Memory is m, and none of e's. Fails as
 * the cache does (E_IO, E_NOMEM, E_INTERRUPT), never for a candidate's sake. */
void candidates_build(Env *e, Arena *m, Cache *c, const Toolchain *tc, const Kernel *naive,
                      const Schedule *s, int n, int n_jobs, Attempt *out);
/* The same library, byte by byte, in another file, for calibration. Fails with E_IO. */
Built built_copy(Env *e, Arena *m, const Cache *c, const Built *of);

/* ---- job.c: a job as text, and what follows from its seed -------------------------------- */

/* Is b the first of the nth pair, from 0? A fair coin: anyone can toss it again from the seed. */
bool pair_b_first(uint64_t seed, int nth);

/* A job as it crosses to the process, with what was drawn for that process. */
typedef struct ChildJob {
    Task task;
    Built a, b;
    StopRule stop;
    ProcessJob job; /* its pointers are to those above; stop NULL: all pairs */
    int parent;     /* pid */
    int cpu;        /* to bind to; -1: none */
    int stack_pad;  /* bytes */
    bool b_loaded_first;
    bool may_ask;              /* to be begun again, with rings that are kept for it */
    const char *root;          /* of /proc and /sys; "": this machine's */
    uint64_t ring_limit_bytes; /* of its rings; 0: a sixth of the machine's memory */
} ChildJob;

/* Copies the job and points into itself: *out must stay where it is. Draws the rest. */
void child_job_init(ChildJob *out, const ProcessJob *job);
void child_job_print(const ChildJob *j, Buf *out);
/* All or nothing: anything that the printer would not write is refused. Memory is m. */
bool child_job_parse(Arena *m, const char *text, size_t len, ChildJob *out, Err *err);

/* ---- child.c: a Runner whose processes are real ------------------------------------------ */

#define CHILD_WORD "--measure-for" /* the hidden first argument; main gives way to child_main */
#define KEEPER_WORD "--keep-for"   /* likewise, to keeper_main */

/* Descriptors of a process that keeps rings. */
enum {
    KEEPER_PID,
    KEEPER_SAID,
    KEEPER_ASK_READ, /* two pipes: what reads comes first */
    KEEPER_ASK,
    KEEPER_ANSWER,
    KEEPER_ANSWER_WRITE,
    N_KEEPER_FDS
};

typedef struct RingKeeper { /* of rings, from one search process to the next; keeper.c */
    bool on;
    pid_t pid;
    int fd[N_KEEPER_FDS]; /* -1: not open */
    int env_pad;
    Hash of;             /* its task */
    bool hopeless;       /* of that, none can be kept */
    int n_asked, n_laid; /* processes; rings */
} RingKeeper;

typedef struct Children {
    const char *program;       /* that has child_main; NULL: this one */
    uint64_t ring_limit_bytes; /* 0: a sixth of the machine's memory */
    const char *root;          /* of /proc and /sys; NULL: this machine's */
    const char *lock;          /* a file; who holds its lock measures. NULL: nobody else does */
    bool lock_stuck;           /* who had it did not let go: it is no longer waited for */
    bool keep_unbound;         /* never bind to one CPU */
    bool unbind_next;          /* the last process was disturbed too often where it was bound */
    RingKeeper keeper;
} Children;

Runner child_runner(Children *c);
void children_release(Children *c); /* ends the process that keeps rings, if there is one */

/* ---- bench_child.c: the process itself --------------------------------------------------- */

/* Makes a rival that is part of this program ready, for these sizes and threads; called before
 * any thread is started. False: it cannot do this here; err says why. */
typedef bool RivalOpen(Env *e, const char *name, const Kernel *naive, const int64_t *syms,
                       int n_threads, RivalKernel *out, Err *err);

/* argv: program, CHILD_WORD, the parent's pid, its descriptor of the area. own: of the program's
 * rivals; NULL: it has none. Returns the exit status. */
int child_main(int argc, char **argv, RivalOpen *own);

/* ---- bench_keep.c: the process that keeps rings ------------------------------------------ */

/* argv: program, KEEPER_WORD, the parent's pid, its descriptors: to read requests from and to
 * write replies to. */
int keeper_main(int argc, char **argv, RivalOpen *own);

#endif
