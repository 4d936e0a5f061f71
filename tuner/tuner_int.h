/* tuner_int.h - what the files of this folder share: work of one kind for all threads and how
 * fast it was done; and the parts of a process that measures: the memory it shares with its
 * parent, its limits, its operands, its loop over pairs. */
#ifndef NC_TUNER_INT_H
#define NC_TUNER_INT_H

#include <sys/resource.h>

#include "tuner/tuner.h"

/* ---- probe.c ------------------------------------------------------------------------- */

typedef struct ReadWork {
    ReadFn *fn;
    const char *at;
    /* In contiguous shares; what is left over after whole READ_BYTES is not read. */
    size_t bytes;
    int64_t n_passes; /* over each share */
} ReadWork;

typedef struct ArithWork {
    ArithFn *fn;
    int64_t n_steps; /* of every part */
} ArithWork;

void read_part(void *work, int part, int n_parts);
void arith_part(void *work, int part, int n_parts);

/* n_units of work are done by all parts together: units by ns. pool NULL: by the caller alone.
 * */
double rate_of(Pool *pool, PoolPart *part, void *work, double n_units);
double region_ns(Pool *pool); /* of an empty one: the mean over some */

/* ---- area.c: the memory between a process and its parent ----------------------------- */

/* How far the process has come. Columns: id, what it is at */
#define AREA_STATES(X)                                      \
    X(NEW, "before it began")                               \
    X(BEGUN, "while it prepared")                           \
    X(LOADING, "while its libraries were loaded")           \
    X(PACKING, "while its constant operands were laid out") \
    X(VERIFYING, "while it was verified")                   \
    X(WARMING, "while it was warmed up")                    \
    X(TIMING, "while it was timed")                         \
    X(AGAIN, "while it was verified again")                 \
    X(DONE, "after its end")

typedef enum AreaState {
#define X(id, meaning) AREA_##id,
    AREA_STATES(X) N_AREA_STATES
#undef X
} AreaState;

extern const char *const area_state[N_AREA_STATES];

typedef struct AreaFacts { /* written once, at the end */
    uint64_t warm_a_ns, warm_b_ns, base_a, base_b, verify_ns, lay_ns, time_ns;
    int64_t reps;
    Probe before, after;
    uint64_t ring_bytes; /* of both sides; 0: hot */
    int32_t pid, status, n_pairs, cpu, huge_pages;
    int32_t again; /* it asks to be begun again, with rings of b's that are kept */
    char why[sizeof((ProcessResult *)0)->why];
} AreaFacts;

typedef struct AreaHead {
    uint64_t magic;
    uint64_t bytes; /* of the whole area */
    uint32_t text_bytes, max_pairs;
    uint32_t state;     /* AreaState; atomic, like the next two */
    uint32_t n_pairs;   /* that are there */
    uint32_t in_a;      /* a is what runs */
    uint32_t no_memory; /* when it died, there was none left to it */
    uint32_t wants_b;   /* it came so far that it wanted rings of b's own */
    Verdict verdict;    /* verify_kernel writes it as it goes */
    AreaFacts facts;
    Hash seal; /* of the facts, and of each pair when it was written */
} AreaHead;    /* then: start times, pairs, the job's text */

typedef struct Area {
    AreaHead *head;
    uint64_t *start_ns; /* of each pair */
    Pair *pair;
    char *text; /* the job */
    void *map;  /* with a page that cannot be touched before and behind */
    size_t map_bytes;
    Hash chain; /* the writer's own: what was written, so that later damage shows */
    uint32_t n_written, max_pairs;
} Area;

/* The parent's: makes it, with the job in it. -1: err says why; else the descriptor. */
int area_make(const ChildJob *j, const Buf *text, Area *a, Err *err);
/* The process's: maps what the parent made. False: it is no area. */
bool area_open(int fd, Area *a, Err *err);
void area_release(Area *a);
void area_enter(Area *a, AreaState s);
void area_put(Area *a, const Pair *p, const uint64_t *start_ns, int n);
void area_finish(Area *a, const AreaFacts *f);
/* The parent's, when the process is gone, which lived from begin_ns to end_ns. False: what is
 * there is not what the process of this pid wrote, or no measurement; err says what. */
bool area_read(const Area *a, const ChildJob *j, const Buf *text, int pid, uint64_t begin_ns,
               uint64_t end_ns, Arena *m, ProcessResult *out, Err *err);

/* ---- child.c ------------------------------------------------------------------------- */

/* One of the allowed CPUs, as the draw says; where there are more than two, neither CPU 0 nor
 * the parent's own, which others use. -1: none is allowed. */
int child_cpu_of(const int *allowed, int n, int own, uint64_t draw);

/* ---- child_watch.c: the parent's eyes ------------------------------------------------ */

enum { SAID_KEPT_BYTES = 200 }; /* of what a process says first */
enum { CHILD_NOT_BEGUN = 3 };   /* exit status of one that found no job */

typedef enum ChildEnd { GOING, GONE, LATE, LOUD, LOST } ChildEnd;

typedef struct Child { /* as the parent sees it */
    Children *c;
    Env *e;
    Arena *m;
    const ProcessJob *job;
    ProcessResult *out;
    ChildJob cross;
    Buf text;
    Area area;
    int area_fd, said_fd, pid_fd, lock_fd;
    pid_t pid;
    uint64_t begin_ns;
    int status; /* waitpid's */
    struct rusage usage;
    bool kept;            /* a keeper's child, not ours */
    uint64_t kept_lay_ns; /* that the keeper took to lay what was not there yet */
    bool looked;          /* before is known */
    MachineLoad before;
    ChildEnd end;
    size_t said_bytes;
    char said[SAID_KEPT_BYTES + 1];
} Child;

/* Returns when it has ended, or was ended, and is reaped. */
void child_watch(Child *p);
void child_ends(Child *p, Status s, const char *fmt, ...) PRINTF(3, 4);
/* From how it ended, and what it left in the area, to the result. */
void child_judge(Child *p, uint64_t end_ns);

/* ---- child_around.c: what it took, and the machine meanwhile ---------------------------- */

void child_looks_before(Child *p);
/* When it has ended and its result is known. */
void child_looks_after(Child *p);

/* ---- bench_child.c ---------------------------------------------------------------------- */

/* A process's descriptor as one of ours, opened anew. -1: errno says why. */
int fd_of_process(int pid, int fd, int flags);

/* ---- keeper.c: a process that keeps rings and forks those that measure ------------------ */

enum { KEEPER_CANNOT, KEEPER_STARTED, KEEPER_ENDED };

/* What it says: after it was asked, and when a process that it started has ended. */
typedef struct KeeperReply {
    int what;
    pid_t pid;
    int n_laid;      /* rings, for this process */
    uint64_t lay_ns; /* that took */
    int status;      /* waitpid's */
    struct rusage usage;
} KeeperReply;

bool keeper_serves(const Child *p); /* jobs like this one, as far as is known */
/* A process for p's job, with rings that were laid for an earlier one. False: there is none, and
 * p can be run as any other. */
bool keeper_starts(Child *p, char **env);
/* wait4 for a process of the keeper's: >0 it is reaped, 0 not yet (WNOHANG), -1 nobody knows. */
pid_t keeper_wait(Child *p, int flags);

/* ---- child_limits.c: what a process that runs foreign code may do ---------------------- */

/* Dies with its parent. False: that is gone already. */
bool child_bind_life(int parent);
/* Memory: what it has now and so many bytes more. Limits that cannot be set are left. */
void child_limit(const ChildJob *j, uint64_t more_bytes);
/* From now on no process and no program can be started: the attempt is SIGSYS. */
void child_forbid_processes(void);
/* A signal that kills the process says in *flag whether memory had run out. */
void child_watch_memory(uint32_t *flag);
/* To one CPU. False: it is not there, or not ours. */
bool child_bind_cpu(int cpu);

/* ---- pair_loop.c: pairs, one after another ------------------------------------------- */

typedef struct PairRun {
    const ProcessJob *job;
    Contender a, b;
    const char *root; /* of /proc and /sys */
    bool cpu_time;    /* one thread does it all */
    /* Before a sample the caller spins that long, until threads that are not its own sleep, and
     * makes one call that is not timed; 0: neither. */
    uint64_t settle_ns;
    Env *e;
    Area *area;
    uint64_t warm_a_ns, warm_b_ns; /* out */
    int64_t reps;                  /* out */
    bool dropped;                  /* out: by its warm call; there are no pairs */
} PairRun;

enum { PAIRS_WARM_NS = 5000000 };

/* a until it is warm, and a call or two of b: is that worth more? */
void pairs_warm(PairRun *r);
/* Calls of both in turns, some at least. */
void pairs_alternate(PairRun *r, uint64_t least_ns);
void pairs_take(PairRun *r);

#endif
