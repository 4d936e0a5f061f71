/* duels.h - the commands of tune that measure without a search: one file each, one row each in main.c's
 * options. Each plays duels between sides that somebody named; what all have in common is in duels.c, what
 * the names mean in sides.c. */
#ifndef NC_TUNE_DUELS_H
#define NC_TUNE_DUELS_H

#include "tuner/cli/tune.h"

typedef struct Contest { /* the duels of one task */
    Workplace *w;
    Record *record;
    Item *item;
    TaskRecord rows;
    TaskProgress progress;
    void *state; /* what the command's begin made */
    Sides side;
    TaskBuilder builder;
    SessionPlan plan;
    Session *session; /* NULL: nothing was measured yet */
    uint64_t budget_ns;
    int status;         /* 1: one came to no verdict; else the greatest of its duels' */
    const char *ending; /* as the task's row has it; NULL: it went well */
    const char *why;
} Contest;

typedef struct Command {
    const char *option;
    /* Before any task; what it gives is for all tasks. Or NULL. */
    void *(*begin)(const Workplace *w, const Items *items);
    void (*task)(Contest *c);
    void (*end)(void *state); /* after the last; or NULL */
    /* Instead of what --dry-run lists; or NULL. */
    void (*show)(const Workplace *w, const Items *items);
    /* Where the verdict of a duel is the program's exit status. */
    bool verdict_is_status;
    /* Measures and records nothing, and needs no task: instead of all of the above. */
    void (*alone)(const Workplace *w);
} Command;

extern const Command command_compare, command_against, command_rivals, command_ablate,
    command_noise, command_replay;

/* ---- duels.c ---- */
/* All tasks, one after another; one that fails says so and holds up no other. The exit
 * status. Fails with E_INTERRUPT. */
int duels_run(Workplace *w, Record *record, Items *items);
/* Plays b against a, sides by their place in c->side, and says how it went. False: it came to no
 * verdict, which is said and recorded. Fails with E_INTERRUPT, and where nothing can be measured. */
bool contest_play(Contest *c, int a, int b, Duel *out);
void contest_say(const Contest *c, const char *fmt, ...) PRINTF(2, 3); /* one line of results */
void contest_say_where(const Contest *c); /* the last duel can be looked at */
/* Sides of ours that are not built yet; how each ended is in its row. */
void contest_build(Contest *c);
int verdict_status(DuelVerdict v); /* documented exit statuses */

/* ---- sides.c ---- */
int side_add(Contest *c, const char *name, const Schedule *s); /* its place */
int side_add_rival(Contest *c, const char *name, const Built *b);
/* default, best, naive, a .sched file or the steps themselves. given: what is recorded as the name of
 * steps. Fails with E_INPUT: what is wrong with the word. */
int side_add_word(Contest *c, const char *word, const char *given);
/* What the database would have a build use. False: nothing, and why says so. */
bool side_best(Contest *c, Schedule *out, DbAnswer *answer, const char **why);
int side_add_ours(Contest *c); /* best, else default */
/* Has this schedule that number, as this version numbers them? DB_NONE is none's. */
bool rank_is(const Space *s, int64_t rank, const char *schedule, Point *out);

/* ---- rival_kernels.c: OpenBLAS and others, in a process of their own ---- */
#define SAY_RIVALS_WORD \
    "--say-rivals" /* the hidden first argument; then: of how many threads */
int rivals_say(int argc, char **argv); /* the process: returns its exit status */
RivalOpen rival_open;
typedef struct RivalName {
    const char *name;  /* of its row in the table of baselines */
    const char *says;  /* name, version, what it chose */
    const char *lacks; /* why it cannot run here; NULL: it can */
    bool one_row;
} RivalName;
typedef Vec(RivalName) RivalNames;
RivalNames rivals_here(const Workplace *w);

#endif
