/* protocol.h - what pairs prove: the constants of the protocol and its decisions, recomputed from raw samples. */
#ifndef NC_TUNER_PROTOCOL_H
#define NC_TUNER_PROTOCOL_H

#include "tuner/process.h"

/* ---- protocol.c: the constants, and the tables that follow from them --------------------- */

#define PROTOCOL_VERSION 1 /* of the rules; the constants are stored beside it */

/* Every constant of the protocol, stored with each run, changed by --set name=value. Columns:
 * type, name, default, least, most, meaning. MEASUREMENT 0 */
/* clang-format off */
#define PROTOCOL(X) \
    X(double, alpha_search, 0.01, 1e-6, 0.2, \
      "chance that an equal candidate passes the sequential test") \
    X(double, alpha_title, 0.001, 1e-6, 0.05, \
      "chance that a champion equal to the default passes its title match") \
    X(double, beta, 0.05, 1e-6, 0.5, "likelihood ratio at which a test is given up") \
    X(double, theta_search, 0.7, 0.51, 0.99, \
      "chance of winning a pair that giving up is measured against") \
    X(double, theta_title, 0.75, 0.51, 0.99, "chance of winning a process, likewise") \
    X(int, pairs_most, 200, 10, SIGN_MAX, "pairs that count, at most, in the sequential test") \
    X(int, pairs, 9, 3, 99, "pairs of every other process") \
    X(int, pairs_wide, 25, 3, 99, \
      "instead of pairs where calibration spreads more than wide_iqr") \
    X(double, wide_iqr, 0.02, 0, 1, "spread of ln ratio from quartile to quartile") \
    X(double, screen_warm, 4, 1, 1000, "a warm call over that many of the incumbent's: out") \
    X(double, screen_first, 1.5, 1, 1000, "first pair slower than that: out") \
    X(double, screen_median, 1.05, 1, 1000, \
      "median of the first three pairs slower than that: out") \
    X(double, screen_first_spreads, 3, 0, 100, \
      "first pair slower than so many spreads of the calibration, where that is more: out") \
    X(double, screen_median_spreads, 1.25, 0, 100, \
      "median of the first three, likewise: about 2.5 standard deviations of it") \
    X(double, margin, 0, 0, 0.5, "what a win must be faster by; 0: follows from calibration") \
    X(double, margin_least, 0.01, 0, 0.5, "least margin that follows from calibration") \
    X(double, margin_most, 0.05, 0, 0.5, "most margin that follows from calibration") \
    X(double, margin_asked_least, 0.005, 0, 0.5, "least margin that can be asked for") \
    X(double, margin_sigmas, 2, 0, 10, "margin in standard deviations of process medians") \
    X(int, calibration_processes, 8, 4, 100, "processes of a calibration") \
    X(double, biased, 0.02, 0, 1, \
      "median of all on one side, and more than that: the harness is biased") \
    X(double, recalibrate_s, 1800, 1, 1e9, "seconds until calibration is done again") \
    X(double, recalibrate_factor, 3, 1, 1e9, "or when spread changed by that factor") \
    X(int, recalibrate_over, 50, 5, 64, "in the median of so many candidates") \
    X(int, unflagged_least, 5, 1, 99, \
      "fewer pairs without flags in a process: flagged ones count too") \
    X(int, noisy_window, 20, 2, 64, \
      "last pairs of a search process that are looked at for flags") \
    X(double, noisy_share, 0.5, 0, 1, "more of them flagged: from then on flagged ones count") \
    X(double, cpu_least_us, 100, 1, 1e9, "shortest sample that CPU time is asked for") \
    X(double, cpu_preempted, 0.05, 0, 1, \
      "share of pairs preempted above which CPU time decides") \
    X(double, gate_iqr, 0.1, 0, 10, \
      "spread of calibration above which it waits for a quieter machine") \
    X(double, gate_flagged, 0.5, 0, 1, "share of flagged pairs, likewise") \
    X(double, gate_first_s, 1, 0, 3600, "first wait; the next is twice as long") \
    X(double, gate_step_s, 60, 0, 3600, "longest single wait") \
    X(double, gate_most_s, 600, 0, 1e6, "longest of all waits together") \
    X(double, gate_share, 0.1, 0, 1, "and of the budget") \
    X(int, title_processes, 40, 8, 200, "processes of a match, at most") \
    X(int, title_fallbacks, 3, 0, 8, \
      "earlier incumbents that may try when the champion fails") \
    X(double, title_next, 0.5, 0, 1, "each with that share of the alpha before") \
    X(double, confidence, 0.95, 0.5, 0.9999, "of intervals") \
    X(double, equivalent, 0.01, 0, 0.5, "interval within 1 -+ that: equivalent") \
    X(double, finalist_margins, 2, 0, 100, \
      "slower than the champion by so many margins: no finalist") \
    X(int, finalist_matches, 8, 0, 64, "equivalence matches, at most") \
    X(int, batch, 8, 1, 64, "candidates built at once, before any is measured") \
    X(int, reserve_processes, 80, 13, 10000, "processes that time is kept for at the end") \
    X(double, reserve_share, 0.5, 0, 0.9, \
      "but not more than that share of the time after calibration") \
    X(double, least_process_s, 0.05, 0, 3600, \
      "a process takes that long, until one was measured") \
    X(double, candidate_limit_s, 30, 0.1, 1e6, \
      "a batch is built in that, and a candidate measured") \
    X(double, limit_least_s, 1, 0.1, 1e6, \
      "a candidate is measured in that, unless calibration was slower") \
    X(double, limit_factor, 10, 2, 1000, "by that factor: the median of its processes")
/* clang-format on */

typedef struct Protocol {
#define X(type, name, ...) type name;
    PROTOCOL(X)
#undef X
} Protocol;

enum {
#define X(type, name, ...) PROTOCOL_##name,
    PROTOCOL(X) N_PROTOCOL
#undef X
};

typedef struct ProtocolRow {
    const char *name, *meaning;
    double value, least, most; /* value: the default */
    bool whole;                /* an integer */
} ProtocolRow;

extern const ProtocolRow protocol_row[N_PROTOCOL];
Protocol protocol_default(void);
double protocol_get(const Protocol *p, int row);
/* False: no such constant, or not a value for it; err says so. */
bool protocol_set(Protocol *p, const char *name, double value, Err *err);
/* Once all are set, in whatever order. False: some contradict each other. */
bool protocol_agrees(const Protocol *p, Err *err);

typedef struct Rules { /* constants, and what is looked up */
    Protocol p;
    SignRule search;
    int title_least; /* processes: fewer cannot pass a title match whatever happens */
} Rules;

void rules_init(Rules *r, const Protocol *p);

/* What calibration fixes for the duels after it. */
typedef struct Terms {
    int margin_e4; /* b wins a pair below 1 - margin_e4 / 10000 of a */
    Metric metric;
    double spread; /* of ln ratio between copies: on a noisy machine the screen is wider */
    int n_threads; /* flags are of one thread: with others no pair is known to be undisturbed */
} Terms;

StopRule rules_stop(const Rules *r, const Terms *t); /* points into r */
/* The most pairs that a process of this stage is asked for. */
int rules_pairs(const Rules *r, DuelStage stage, bool wide);

/* What the protocol did with a candidate, or made of a match. Columns: id, name, meaning */
#define OUTCOMES(X)                                                                         \
    X(NONE, "none", "the rule asks for more")                                               \
    X(FAILED, "failed", "it did not end well: status says how")                             \
    X(SAME, "same-code", "its C is the incumbent's: nothing to measure")                    \
    X(SLOW_CALL, "screened-slow-call", "one warm call was far slower than the incumbent's") \
    X(R1, "screened-r1", "the first pair was far slower")                                   \
    X(M3, "screened-m3", "the median of the first three pairs was slower")                  \
    X(FUTILE, "futile", "the sequential test gave up")                                      \
    X(CAP, "cap", "the sequential test did not decide")                                     \
    X(WON, "won", "the sequential test passed: to be replicated")                           \
    X(REPLICATE_FAILED, "replicate-failed", "not faster by the margin in a fresh process")  \
    X(PROMOTED, "promoted", "the incumbent from now on; no claim yet")                      \
    X(TITLE_PASSED, "title-passed", "faster than the default across processes")             \
    X(TITLE_FAILED, "title-failed", "not shown to be faster than the default")              \
    X(DECIDED, "decided", "another match came to its end: its verdict counts")              \
    X(CUT, "cut", "the budget or the user ended the match")

typedef enum Outcome {
#define X(id, name, meaning) OUTCOME_##id,
    OUTCOMES(X) N_OUTCOMES
#undef X
} Outcome;

/* Columns: id, name, meaning. MEASUREMENT 2.10 */
#define VERDICTS(X)                                                                    \
    X(UNDECIDED, "UNDECIDED", "the evidence does not say")                             \
    X(FASTER, "FASTER", "b is faster than a: the sign test across processes passed")   \
    X(EQUIVALENT, "EQUIVALENT", "the whole interval is within the margin of equality") \
    X(SLOWER, "SLOWER", "b is slower than a: the whole interval is above 1")

typedef enum DuelVerdict {
#define X(id, name, meaning) VERDICT_##id,
    VERDICTS(X) N_VERDICTS
#undef X
} DuelVerdict;

extern const char *const outcome_name[N_OUTCOMES], *const verdict_name[N_VERDICTS];
extern const char *const metric_name[N_METRICS], *const status_name[N_STATUSES];
extern const char *const stage_name[N_DUEL_STAGES];

/* ---- race.c: which pairs count, and what those of one process say ----------------------- */

enum { PAIR_DISCARD = PAIR_PREEMPTED | PAIR_FAULTED | PAIR_MIGRATED };

bool pair_valid(const Pair *p);     /* neither sample is 0, the clock went on */
bool pair_disturbed(const Pair *p); /* a flag that sets it aside while others do without */
/* By CPU time where both samples have it, else by the wall: the same for either order. */
bool pair_won(const Pair *p, Metric metric, int margin_e4);
double pair_ln_ratio(const Pair *p, Metric metric); /* ln(b / a) of a valid pair */

typedef struct PairsSummary {
    int n, n_flagged, n_invalid, n_ties; /* n: that count */
    bool kept_flagged;                   /* too few without flags: those with flags count too */
    double median_ln, iqr_ln;            /* NaN: no pair counts */
} PairsSummary;

void pairs_summary(const Protocol *p, const Pair *pair, int n, Metric metric,
                   PairsSummary *out);

typedef struct Race { /* the screen and the sequential test, pair by pair */
    const StopRule *rule;
    int margin_e4;
    int n_attempted, n, wins, ties, n_flagged, n_invalid; /* n: that count */
    bool noisy;
    uint64_t recent; /* a bit for each of the last pairs: flagged */
    double first[3]; /* ratios */
    double ln_e_most;
    Outcome outcome; /* NONE: go on */
} Race;

void race_start(Race *r, const StopRule *rule, int margin_e4, uint64_t warm_a_ns,
                uint64_t warm_b_ns);
Outcome race_add(Race *r, const Pair *p); /* after the end it changes nothing */
double race_p(const Race *r);             /* anytime-valid */

typedef struct DuelProcess { /* a process and what was asked of it */
    DuelStage stage;
    uint64_t seed;
    int n_asked;
    uint64_t elapsed_ns; /* of the session, at its end */
    ProcessResult result;
} DuelProcess;

typedef struct Trial {
    int ordinal;    /* within the session, from 0 */
    uint64_t index; /* in the space */
    uint64_t incumbent;
    Built built;
    Status status;
    const char *why; /* a sentence where status is not OK */
    bool same_code;
    Terms terms;
    int n_processes;
    DuelProcess process[2]; /* search, replicate */
    uint64_t build_ns, elapsed_ns;
    uint64_t decide_ns; /* of what its measuring took: beside its processes */
    /* What follows from the above: trial_decide */
    Outcome outcome;
    Race race;         /* rule is NULL */
    double ln_ratio;   /* to the incumbent; NaN: not measured */
    double ln_default; /* likewise, to the default, by the chain of incumbents (session.c) */
} Trial;

Outcome replicate_outcome(const PairsSummary *s, int margin_e4); /* faster by the margin? */
/* From the raw pairs of the processes there are so far. WON: it asks for a replicate. */
Outcome trial_decide(const Rules *r, Trial *t);

/* ---- series.c: duels across processes ---------------------------------------------------- */

enum { SERIES_MAX = 200 };

typedef struct Series { /* a against b */
    const Rules *rules;
    DuelStage stage; /* TITLE, EQUIVALENCE or COMPARE */
    double alpha;
    Metric metric;
    int n, wins, losses; /* processes; a tie is neither */
    int n_pairs, n_ties;
    double median_ln[SERIES_MAX]; /* of each process */
    double ln_e_most;
    Outcome outcome; /* NONE: it asks for another process */
    DuelVerdict verdict;
    Interval ratio; /* b's time to a's, anytime-valid */
    SignRule sign;
} Series;

void series_start(Series *m, const Rules *r, DuelStage stage, double alpha, Metric metric);
Outcome series_add(Series *m, const ProcessResult *process);
void series_cut(Series *m); /* it ends here: undecided, unless it was decided */
double series_p(const Series *m);

/* ---- calibrate.c: how this machine treats two copies of one kernel ----------------------- */

typedef struct Calibration {
    int n_processes;
    double sigma_p, margin; /* of ln ratio */
    int margin_e4;
    Metric metric;
    double median_ln, iqr_ln;
    double flagged, preempted; /* shares of pairs */
    uint64_t process_ns;       /* of one process: the median */
    uint64_t process_most_ns;  /* of the slowest */
    uint64_t pair_ns;          /* of one pair: the median */
    double call_ns;            /* of one call of the default: the median of the processes' */
    Probe probe;               /* medians of what the processes found this machine can do */
    bool wide;                 /* processes take pairs_wide pairs */
    bool noisy;                /* beyond the noise gate */
    bool biased;               /* nothing measured by this harness would mean anything */
} Calibration;

Terms calibration_terms(const Calibration *c, int n_threads);
void calibrate(const Rules *r, const DuelProcess *process, int n, int n_threads,
               Calibration *out);

/* ---- recheck.c: recorded decisions, made again from the raw pairs ------------------------ */

/* Everything about a duel of any stage that follows from its processes, as it is stored. */
typedef struct Recount {
    int n, wins, losses;                   /* pairs in a search or replicate, else processes */
    int ties, discarded;                   /* pairs */
    double ln_e_most, p;                   /* p: anytime-valid */
    Interval ratio;                        /* lo and hi NaN: no interval */
    double a_ns, b_ns, a_min_ns, b_min_ns; /* of one call, by the wall: median and least */
    bool noisy;                            /* flagged pairs counted */
    Outcome outcome;
    DuelVerdict verdict;
} Recount;

/* alpha: of a match. A search is recounted up to the pair that decides it. */
void duel_recount(Arena *m, const Rules *r, DuelStage stage, const Terms *terms, double alpha,
                  const DuelProcess *process, int n, Recount *out);

/* False: err names the first thing that differs from what is recorded. What was asked for
 * (constants, margin, metric, alpha, status) is taken as recorded. */
bool trial_recheck(const Rules *r, const Trial *t, Err *err);
bool series_recheck(const Rules *r, const Series *s, const DuelProcess *process, int n,
                    Err *err);
bool calibration_recheck(const Rules *r, const Calibration *c, const DuelProcess *process,
                         int n, int n_threads, Err *err);

/* ---- budget.c: what a session may take --------------------------------------------------- */

typedef struct Budget { /* 0: without that limit */
    uint64_t ns;
    int64_t trials;
} Budget;

/* "90s", "30m", "1.5h", "500trials". */
bool budget_parse(const char *text, Budget *out, Err *err);
void budget_print(Budget b, Buf *out);
/* After which a candidate's processes are stopped: generous to any that the screen lets
 * pass. */
uint64_t budget_limit_ns(const Rules *r, const Calibration *c);
/* What is kept for the matches of what is left after calibration: the last candidate may
 * hang. */
uint64_t budget_reserve_ns(const Rules *r, const Calibration *c, uint64_t left_ns);
/* Of that, what is enough while there is no champion yet. */
uint64_t budget_least_ns(const Rules *r, const Calibration *c, uint64_t reserve_ns);

typedef struct BudgetSplit { /* what a budget goes to, as far as can be told before */
    uint64_t calibrate_ns, search_ns, reserve_ns;
    int64_t n_candidates; /* that will fit */
} BudgetSplit;

/* candidate_ns: of building and measuring one. process_ns 0: not known. */
BudgetSplit budget_split(const Rules *r, Budget b, uint64_t process_ns, uint64_t candidate_ns);
/* Time enough for that many processes more? 0: before any was measured. */
bool budget_allows(const Rules *r, uint64_t left_ns, int n_processes, uint64_t process_ns);

#endif
