/* tune.h - what the files of the program tune share: its options, its tasks, its place of work. */
#ifndef NC_TUNE_H
#define NC_TUNE_H

#include "db/db.h"
#include "tuner/evidence.h"
#include "tuner/tuner.h"

typedef struct TuneOptions {
    int64_t m, n, k; /* --shape; 0: kernels of a model */
    bool bf16;       /* the weights of --shape come from it */
    const char *kernel,
        *model; /* regular expression; a folder or config.json, NULL: Qwen2.5-0.5B */
    const char *db;
    bool list, dry_run, quiet;
    bool resume;
    int64_t resume_run; /* 0: the newest that fits */
    int n_threads;      /* 0: all */
    int n_jobs;         /* compilers at once; 0: as many as CPUs */
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
    DbMachine db_machine; /* the two as rows */
    DbToolchain db_toolchain;
    Cache cache;
    Children children;
    int n_threads, n_jobs;
    uint64_t start_ns; /* of the command, by clock_ns */
    uint64_t spent_ns; /* by the run before, where it is resumed */
} Workplace;

typedef struct Expected { /* of a task, before it is measured now */
    uint64_t process_ns, candidate_ns;
    double default_ns; /* of one call */
    double flops_per_ns, bytes_per_ns;
    const char *from; /* how that is known */
} Expected;

typedef struct Item { /* a task with all that is known of it */
    Task task;
    Kernel *kernel;
    const char *label;
    double calls; /* of it where the model does its work once (tasks.c says what that is) */
    Space space;
    Schedule base; /* the default */
    const char *base_text;
    Hash base_c_hash;
    bool has_rank;
    uint64_t base_rank;
    int64_t flops, read_bytes, write_bytes; /* of one call; flops DB_NONE: not known */
    Expected expect;
    double share; /* of the model's time, as expected */
    bool selected;
    int64_t id; /* in the database */
} Item;

typedef Vec(Item) Items;

/* ---- run.c ---- */
uint64_t workplace_spent_ns(const Workplace *w); /* of the budget, by the run before too */

/* ---- tasks.c: all kernels of what is tuned, with what is selected marked; E_INPUT: nothing is ---- */
void items_find(const Workplace *w, Items *out);
PickHint hint_here(const Workplace *w);
/* x[m, k] times w[n, k] transposed; m == 1 is compiled in, as decoding has it. bf16: the weights were
 * widened from that. */
Kernel *kernel_of_shape(Env *e, int64_t m, int64_t n, int64_t k, bool bf16);
/* Of the axis with this name; -1: there is none, or it is neither a constant nor a symbol. */
int64_t kernel_extent(const Kernel *k, const int64_t *sym, const char *name);
/* "m=64,n=896,k=896", each 1 or more. False: it is something else. */
bool shape_parse(const char *text, int64_t *m, int64_t *n, int64_t *k);
/* "decode matmul m=1 n=4864 k=896"; phase may be "". */
const char *kernel_label(Arena *m, const Kernel *k, const int64_t *sym, const char *phase);

/* ---- plan.c: what it will cost, and how the time is split ---- */
/* Sets expect and share, from earlier trials where the database has some (it may be NULL); leaves those
 * that are selected, in the order of their shares. */
void items_expect(const Workplace *w, Db *db, Items *items);
Bid item_bid(const Workplace *w, const Item *it); /* before it has begun */
/* Where the machine can do so much, the default takes default_ns, and the best `now` of that. */
double item_headroom(const Item *it, const Probe *p, double default_ns, double now);
/* plan: with how the budget is split, before a search or instead of one. */
void items_print(const Workplace *w, const Items *items, bool plan, FILE *to);

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

/* ---- record.c: the run and its tasks, into the database ---- */
typedef struct Record {
    Workplace *w;
    RunRecord in;
    int n_tasks, n_slices;
} Record;

void record_run(Record *r);              /* begins it */
void record_task(Record *r, Item *item); /* likewise; sets its id */
TaskRecord task_record_of(Record *r, const Item *item);
void record_slice(Record *r, const Item *item, const Bid *b, const Slice *s);
void record_task_end(Record *r, const Item *item, const SessionResult *s);
/* Without a search, or where it failed. */
void record_task_over(Record *r, const Item *item, const char *ending, const char *why);
void record_run_end(Record *r, const char *ending, const char *why);
int64_t item_task_row(const Workplace *w, Db *db, const Item *it); /* its id: recorded if new */

/* ---- resume.c: which run is taken up again ---- */
/* Sets the run, and the ids of items. Fails with E_INPUT where none fits: what differs. */
void resume_run(Record *r, Items *items);
/* Nobody else goes on with this run, as long as this program lives. Fails with E_INPUT. */
void run_lock(const Workplace *w, int64_t run);
void run_unlock(const Workplace *w, int64_t run);

/* ---- progress.c: how it stands, on the terminal ---- */
typedef struct TaskProgress {
    const Workplace *w;
    const TaskRecord *record;
    const char *label;
    bool duels;  /* no search: any sides meet */
    Recorder in; /* is told first */
    const SessionResult *now;
} TaskProgress;

Recorder progress_recorder(TaskProgress *p);
void progress_clear(const Workplace *w);

/* ---- turns.c: sessions, in turns ---- */
/* Searches all; true: to the end. */
bool turns_run(Env *e, Record *r, Items *items);

extern volatile int tune_interrupted;

#endif
