/* tune.h - what the files of the program tune share: its options, its tasks, its place of work. */
#ifndef NC_TUNE_H
#define NC_TUNE_H

#include "db/db.h"
#include "tuner/evidence.h"
#include "tuner/tuner.h"

typedef struct TuneOptions {
    int64_t m, n, k; /* --shape; 0: kernels of a model */
    const char *kernel,
        *model; /* regular expression; a folder or config.json, NULL: Qwen2.5-0.5B */
    const char *db;
    bool list, dry_run, quiet;
    int n_threads; /* 0: all */
    int n_jobs;    /* compilers at once; 0: as many as CPUs */
    Regime regime;
    bool regime_given;
    StrategyId strategy;
    Budget budget;
    uint64_t seed;
    Protocol protocol;
    const char *words; /* the whole command */
    /* What is measured without a search; NULL: it searches. */
    const struct Command *command;
    const char *side[2]; /* --compare: A and B; --against: the file; --replay: the run */
    bool all_choices;    /* --ablate=all */
    int n_seeds;         /* --seeds, of a replay */
    bool strategy_given;
    int status; /* out: of the program, where a verdict is one */
} TuneOptions;

typedef struct Workplace { /* where all of it happens */
    Env *e;
    const TuneOptions *o;
    Machine machine;
    Toolchain tc;
    Cache cache;
    Children children;
    int n_threads, n_jobs;
} Workplace;

typedef struct Item { /* a task with all that is known of it */
    Task task;
    Kernel *kernel;
    const char *label;
    double share; /* calls of it in the model */
    Space space;
    Schedule base; /* the default */
    bool has_rank;
    uint64_t base_rank;
} Item;

typedef Vec(Item) Items;

/* ---- tasks.c: what is to be tuned; E_INPUT when nothing is ---- */
void items_find(const Workplace *w, Items *out);
PickHint hint_here(const Workplace *w);
/* x[m, k] times w[n, k] transposed; m == 1 is compiled in, as decoding has it. */
Kernel *product_kernel(Env *e, int64_t m, int64_t n, int64_t k);
void items_print(const Workplace *w, const Items *items); /* --list, --dry-run */
/* "decode matmul m=1 n=4864 k=896"; phase may be "". */
const char *kernel_label(Arena *m, const Kernel *k, const int64_t *sym, const char *phase);

/* ---- builder.c: candidates by their number, as a session wants them ---- */
typedef struct TaskBuilder {
    const Workplace *w;
    const Item *item;
} TaskBuilder;
Builder task_builder(TaskBuilder *b);

/* ---- duels.c: what is measured without a search: see duels.h ---- */
#define INDEX_SIDES (UINT64_MAX - (1 << 16)) /* of the sides of duels, in turn */

typedef struct Side {  /* of a duel */
    const char *name;  /* as it is recorded */
    Schedule schedule; /* where it is ours */
    Built built;
    Status status;   /* of its building */
    const char *why; /* a sentence where that is not OK */
} Side;
typedef Vec(Side) Sides;

/* ---- record.c: everything that happens, into the database and onto the terminal ---- */
typedef struct Record {
    const Workplace *w;
    const Item *item;
    Db *db;
    Rules rules;
    int64_t run, task, space;
    int n_trials, n_duels, n_tasks; /* recorded in this run */
    int first_trial;                /* of this task */
    Vec(int) duel;                  /* by ordinal of the session: its number in the run */
    Vec(int64_t) promoted;          /* index, trial, in turns */
    Vec(DbProcess) process;         /* of the match that is on */
    Vec(DbPair *) pair;
    Vec(int) n_pairs;
    const Sides *sides; /* of duels; NULL: it searches */
    bool shows;         /* progress */
    const SessionResult *now;
    uint64_t start_ns;
} Record;

void record_run(Record *r);                    /* begins it */
void record_task(Record *r, const Item *item); /* likewise */
Recorder record_of(Record *r);
void record_task_end(Record *r, const SessionResult *s);
void record_task_over(Record *r, const char *ending, const char *why); /* without a search */
void record_run_end(Record *r, const char *ending, const char *why);

extern volatile int tune_interrupted;

#endif
