/* session_int.h - what the search (session.c), its calibrations (gate.c) and its matches
 * (confirm.c) share. */
#ifndef NC_SESSION_INT_H
#define NC_SESSION_INT_H

#include "tuner/tuner.h"

typedef struct Fighter { /* a schedule that more duels are for */
    uint64_t index;
    Built built; /* library NULL: to be built when it is needed */
    double ln_default;
} Fighter;

typedef struct Finalist {
    uint64_t index;
    double ln_default;
    Hash c_hash;
    int n_steps;
    char *schedule;
    size_t cap_bytes; /* of schedule: reused by the next one here */
} Finalist;

enum { MAX_FINALISTS = 64, MAX_INCUMBENTS = 9, MAX_SPREADS = 64, MAX_BATCH = 64 };

struct Session {
    Env *e;
    const SessionPlan *plan;
    Rules rules;
    Budget budget;
    Arena keep;     /* as long as the session */
    Arena batch;    /* one batch of candidates */
    Arena making;   /* one build of a fighter */
    Arena work;     /* one candidate, one calibration, one process of a match */
    bool past_over; /* everything is new from here on */
    uint64_t spent_ns, since_ns;
    uint64_t reserve_ns, batch_ns, waited_ns, calibrated_ns;
    uint64_t began_ns;           /* elapsed when the candidate at hand began: it has a limit */
    uint64_t n_processes;        /* each has a seed of its own */
    uint64_t pending[MAX_BATCH]; /* asked for, and not measured yet */
    int n_pending;
    int n_calibrations, n_duels;
    Fighter base, copy;                /* the default, and its library again */
    Fighter incumbent[MAX_INCUMBENTS]; /* newest first; older than those are forgotten */
    int n_incumbents;
    Finalist finalist[MAX_FINALISTS];
    int n_finalists, n_ties_played;
    double spread[MAX_SPREADS]; /* of the latest races, a ring */
    int n_spreads;
    SessionResult result;
};

/* ---- session.c ---- */

/* Around whatever takes time: between them, time does not count. */
void session_enter(Session *s);
void session_leave(Session *s);
uint64_t session_elapsed_ns(const Session *s);
uint64_t session_left_ns(const Session *s); /* UINT64_MAX: no limit */
bool session_interrupted(const Session *s);
void session_end(Session *s, SessionEnd ending, const char *fmt, ...) PRINTF(3, 4);
void session_go_live(Session *s);                    /* the past has nothing more */
void session_reach(Session *s, uint64_t elapsed_ns); /* the past's clock */

/* ---- fighter.c ---- */

uint64_t session_limit_ns(const Session *s); /* of one candidate, of one batch's building */
Built built_dup(Arena *m, const Built *b);
void session_drop(Session *s, Built *b);    /* its files; it can be made ready again */
void session_ready(Session *s, Fighter *f); /* builds it unless it is */
/* Into s->work. */
void session_process(Session *s, DuelStage stage, Fighter *a, Fighter *b, bool verify,
                     DuelProcess *out);
Fighter *session_incumbent(Session *s);
/* ln: slower than the champion by no more than that is a finalist. */
double session_band(const Session *s);

/* ---- gate.c ---- */

/* Calibrates where that is due. False: the session has ended. */
bool gate_pass(Session *s);

/* ---- finalists.c ---- */

void finalists_note(Session *s, const Trial *t);
void finalists_admit(Session *s, const Fighter *champion); /* unless it is one */
void finalists_sort(Session *s);                           /* canonical order */
bool finalist_before(const Finalist *x, const Finalist *y);
int schedule_steps(const char *schedule); /* of its text */

#endif
