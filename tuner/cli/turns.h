/* turns.h - what turns.c and deal.c share: the tasks of a run with their sessions, and the time they have. */
#ifndef NC_TUNE_TURNS_H
#define NC_TUNE_TURNS_H

#include "tuner/cli/tune.h"

typedef struct Searching {
    Search search;
    SearchSpace space;
} Searching;

typedef struct Turn { /* a task and its session */
    Item *item;
    Searching searching;
    TaskBuilder builder;
    TaskRecord record;
    TaskProgress progress;
    TaskPast task_past;
    Past past;
    SessionPlan plan;
    Session *session; /* NULL: it has not begun */
    uint64_t given_ns;
    bool over; /* it has ended, now or in the run before */
} Turn;

typedef struct Turns {
    Env *e;
    Record *r;
    Turn *at;
    int n;
    bool matches; /* no time is dealt out any more */
    bool stopped;
} Turns;

/* ---- turns.c ---- */
void turn_start(Turns *all, Turn *t); /* its session, with what it was given */

/* ---- deal.c ---- */
uint64_t turns_left_ns(const Turns *all); /* of the budget, that nobody has */
/* Gives the next slice. False: there is too little left for any. */
bool turns_deal(Turns *all, int *who);
void turn_give(Turns *all, Turn *t, uint64_t ns); /* for its matches */

#endif
