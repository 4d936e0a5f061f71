/* session.h - the search of one task from calibration to winner. */
#ifndef NC_TUNER_SESSION_H
#define NC_TUNER_SESSION_H

#include "tuner/protocol.h"

/* ---- session.c, confirm.c: the search of one task ---------------------------------------- */

#define INDEX_DEFAULT UINT64_MAX    /* the default schedule, be it in the space or not */
#define INDEX_COPY (UINT64_MAX - 1) /* a copy of the default's library under another name */

typedef struct Proposer { /* of candidates: a strategy */
    void *ctx;
    bool (*ask)(void *ctx, uint64_t *index); /* false: there is no other */
    /* ln_ratio: to the default, less is better; NaN: not measured. All of a batch
     * (Protocol.batch) are asked for before the first of them is told. */
    void (*tell)(void *ctx, uint64_t index, Status status, double ln_ratio);
    /* As if ask had answered this, without thinking. NULL: it is asked. */
    void (*redo)(void *ctx, uint64_t index);
} Proposer;

typedef struct Build { /* asked for: index; answered: the rest */
    uint64_t index;
    Status status;   /* OK, ILLEGAL, CC_ERROR, CC_TIMEOUT */
    const char *why; /* a sentence where status is not OK */
    Built built;     /* the schedule also where status is not OK, if there is one; else NULL */
    uint64_t took_ns;
} Build;

typedef struct Builder {
    void *ctx;
    /* Builds all n, on all cores, while nothing is measured, and is back within limit_ns: what
     * is not done by then is CC_TIMEOUT. Where the user asked to stop it may come back at once,
     * with any answers: they are not looked at. Memory is m. */
    void (*build)(void *ctx, Env *e, Arena *m, Build *batch, int n, uint64_t limit_ns);
    void (*drop)(void *ctx, const Built *b); /* its files are not needed any more; or NULL */
} Builder;

typedef struct Calibrated { /* a calibration as it is recorded */
    int ordinal, n_trials;  /* n_trials: it stands before the trial with this ordinal */
    int n;
    const DuelProcess *process;
    uint64_t elapsed_ns;
    uint64_t budget_ns; /* that the session had then; 0: no limit */
    uint64_t waited_ns; /* before it, for the machine to calm down */
    Calibration result;
} Calibrated;

typedef struct Duel { /* a match as it is recorded */
    int ordinal;
    DuelStage stage;
    uint64_t a, b; /* indices */
    Built built_a, built_b;
    Terms terms;
    Series series; /* so far */
    Status status; /* of its last process; where that is not OK, why is a sentence */
    char why[sizeof((ProcessResult *)0)->why];
    uint64_t elapsed_ns;
} Duel;

typedef struct Winner { /* what the session would have builds use */
    /* False: nothing was shown to be faster; the default is kept, and the rest is 0. */
    bool confirmed;
    uint64_t index;
    Built built;
    Hash default_c_hash;
    int duel; /* ordinal of its title match */
    Interval ratio;
    int n_processes, n_wins, n_pairs;
    double p;
    bool canonical; /* the simplest of the tie set, rather than the champion itself */
} Winner;

typedef struct Tie {
    uint64_t index;
    const char *schedule;
    Hash c_hash;
    int duel; /* its match against the champion; -1: it is, or has the C of, the champion */
    Interval ratio; /* to the champion */
} Tie;

typedef struct TieSet { /* canonical order: fewest steps, then smallest text */
    uint64_t champion, pick;
    int n;
    const Tie *at;
} TieSet;

/* Told of everything as it happens. Of what came from a Past only what follows from it is
 * told again (duel, winner, ties): it replaces what was told before. Of a trial that is not taken
 * from a Past terms need not be set. Any may be NULL. What they point to lives for the call. */
typedef struct Recorder {
    void *ctx;
    void (*calibration)(void *ctx, const Calibrated *c);
    void (*trial)(void *ctx, const Trial *t);
    void (*process)(void *ctx, const Duel *d, const DuelProcess *p); /* the last of d so far */
    void (*duel)(void *ctx, const Duel *d);                          /* at its end */
    void (*winner)(void *ctx, const Winner *w); /* replaces what it was told before */
    void (*ties)(void *ctx, const TieSet *t);
} Recorder;

/* What an interrupted session recorded: it is taken first, and then the session goes on as it
 * would have. False: no such record, everything from here on is new. Memory is m. */
typedef struct Past {
    void *ctx;
    bool (*calibration)(void *ctx, Arena *m, int ordinal, Calibrated *out);
    bool (*trial)(void *ctx, Arena *m, int ordinal, Trial *out);
    bool (*process)(void *ctx, Arena *m, int duel, int ordinal, DuelProcess *out);
} Past;

/* Columns: id, name, meaning */
#define ENDINGS(X)                                                      \
    X(OPEN, "open", "not over")                                         \
    X(EXHAUSTED, "exhausted", "there is no other candidate")            \
    X(BUDGET, "budget", "the budget is spent")                          \
    X(INTERRUPTED, "interrupted", "stopped by the user")                \
    X(TOO_SHORT, "too-short", "nothing can be confirmed in the budget") \
    X(BIASED, "biased", "the harness finds a kernel faster than its own copy")

typedef enum SessionEnd {
#define X(id, name, meaning) ENDING_##id,
    ENDINGS(X) N_ENDINGS
#undef X
} SessionEnd;

extern const char *const ending_name[N_ENDINGS];

typedef struct SessionPlan {
    const Task *task;
    Protocol protocol;
    Runner runner;
    Builder builder;
    Proposer strategy;
    Recorder recorder;
    const Past *past; /* NULL: a new session */
    Budget budget;
    uint64_t seed;
    /* Set by a signal's handler: the current candidate is finished, nothing is claimed. Or
     * NULL. */
    const volatile int *stop;
} SessionPlan;

typedef struct SessionResult {
    SessionEnd ending;
    char why[1024];   /* a sentence on how it ended */
    bool noisy;       /* figures of this session carry a warning */
    int64_t n_barren; /* trials since the last promotion */
    int64_t n_trials, n_status[N_STATUSES], n_outcome[N_OUTCOMES];
    uint64_t elapsed_ns;
    Calibration calibration; /* the last */
    uint64_t incumbent;      /* INDEX_DEFAULT: none was promoted */
    double ln_default;       /* of the incumbent: an estimate */
    Winner winner;
} SessionResult;

typedef struct Session Session;

/* Memory is e->model and arenas of its own. *plan must outlive it, and all that it points to.
 * Everything here fails where the default does not build or run, no process can be started, or
 * the past is not of this session. Time counts only within these three: sessions can take
 * turns. */
Session *session_start(Env *e, const SessionPlan *plan);
/* Calibrates when it is due, then one batch of candidates. False: the search is over. */
bool session_step(Session *s);
/* More time; a search that had ended for want of it, or could not begin, is open again. */
void session_extend(Session *s, uint64_t ns);
/* Title match, tie set, pick, also of a search that is not over; not after INTERRUPTED,
 * TOO_SHORT, BIASED. */
void session_finish(Session *s);
/* Any two in a match of their own, calibrated like a search: tune --compare, --against,
 * --ablate, --noise (the default against INDEX_COPY). The strategy is not asked. False: the
 * session has ended, and so there was none. */
bool session_duel(Session *s, DuelStage stage, uint64_t a, uint64_t b, Duel *out);
const SessionResult *session_result(const Session *s); /* at any time */
void session_release(Session *s); /* also after a failure; the result is gone */
/* All of the above. */
void session_run(Env *e, const SessionPlan *plan, SessionResult *out);

#endif
