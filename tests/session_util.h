/* session_util.h - a made-up world for sessions of the tuner: candidates whose true times are
 * known, processes that take no time but that of a fake clock, noise that is recorded or drawn
 * from each process's seed, and a log of all that was recorded, from which a session can be
 * resumed at any point. */
#ifndef NC_TESTS_SESSION_UTIL_H
#define NC_TESTS_SESSION_UTIL_H

#include "tests/helpers.h"
#include "tuner/tuner.h"

enum { N_TRACES = 3, TRACE_PAIRS = 1000 };

typedef struct Noise { /* of tests/data/noise.txt: a/a pairs as they were measured */
    uint64_t a_ns[N_TRACES][TRACE_PAIRS], b_ns[N_TRACES][TRACE_PAIRS];
} Noise;

void noise_read(Env *e, Noise *out);

typedef struct World {
    uint64_t now_ns; /* the clock; it moves by what processes, builds and waits take */
    uint64_t n_candidates;
    /* ln of a candidate's true time to the default's. NULL: all are equal to it */
    double (*ln_time)(uint64_t index);
    /* What becomes of its process, and of its build. NULL: OK */
    Status (*runs_as)(uint64_t index);
    Status (*builds_as)(uint64_t index);
    const char *(*schedule)(uint64_t index,
                            char text[64]); /* NULL: one step, with its number */
    const Noise *noise; /* pairs are taken from one of its traces, from a random place on */
    int trace;
    double pair_sd, process_sd;  /* drawn noise: of each pair, of each process */
    double flattered;            /* ln that search and replicate processes add to b alone */
    uint64_t sample_ns;          /* of the default */
    uint64_t start_ns, build_ns; /* of a process beside its pairs, of a candidate */
    uint16_t flags;              /* of every pair ... */
    uint64_t flags_until_ns;     /* ... up to then */
    double wild_until_sd;        /* pair_sd meanwhile */
    int refused;                 /* processes that cannot be started yet */
    int stop_after;              /* processes, then stop is set; 0: never */
    volatile int stop;
    bool copies; /* all candidates have the same C */
    /* What happened. */
    uint64_t n_processes, n_built, n_waits, waited_ns;
    int64_t n_open, n_open_most; /* libraries built and not dropped */
} World;

Runner world_runner(World *w);
Builder world_builder(World *w);

typedef struct Order { /* a strategy: all candidates in the order that the seed gives */
    uint64_t *index;
    uint64_t n, at;
    int n_told;
    Status last_status;
    double last_ln;
} Order;

Order order_of(Arena *m, uint64_t n, uint64_t seed); /* seed 0: by number */
Proposer order_strategy(Order *o);

typedef enum LogKind { LOG_CALIBRATION, LOG_TRIAL, LOG_PROCESS } LogKind;

typedef struct LogEntry {
    LogKind kind;
    int duel; /* LOG_PROCESS */
    Calibrated calibrated;
    Trial trial;
    DuelProcess process;
    const char *line; /* all of it that decides anything, as text */
} LogEntry;

typedef struct Log Log;
struct Log {
    Env env; /* what is recorded lives here */
    Vec(LogEntry) entry;
    int n_duels, n_winners;
    Winner winner; /* the last */
    TieSet ties;
    Duel duel[64];                               /* at their end */
    int visible;                                 /* as a past: so many entries; -1: all */
    void (*on_trial)(void *ctx, const Trial *t); /* also told; or NULL */
    void *on_trial_ctx;
};

void log_init(Log *l);
void log_release(Log *l);
Recorder log_recorder(Log *l);
Past log_past(Log *l); /* its first `visible` entries */

LogEntry *log_entry(const Log *l, LogKind kind, int nth); /* the nth of a kind; asserts */

Pair pair_of(int b_e4); /* b takes so many hundredths of a percent of a */
Pair pair_flagged(int b_e4, int flags);

/* Forty candidates that equal the default, quiet, processes of a hundredth of a second. */
World world_plain(void);
double seven_is_faster(uint64_t index); /* for World.ln_time: alone, by a fifth */
extern const Task world_task;
/* A plan for the world; strategy, recorder, past, budget are set by the test. */
SessionPlan world_plan(World *w, const Task *task);
/* The whole session, candidates in the order of a seed. past, p: NULL for none, the default. */
SessionResult world_run(Env *e, World *w, Log *l, const Past *past, Budget budget,
                        uint64_t order, const Protocol *p);

#endif
