/* evidence.h - searches as rows of the database: the one place where the protocol and the schema meet.
 * Apart from tuner.h, so that who only measures needs no database. Sections are named after the
 * .c files that define them. */
#ifndef NC_TUNER_EVIDENCE_H
#define NC_TUNER_EVIDENCE_H

#include "db/db.h"
#include "tuner/tuner.h"

/* ---- evidence.c: what follows from pairs, in the columns that hold it ---------------------- */

/* Sets what follows from the pairs: n to b_min_ns, noisy, verdict and reason, of a duel whose stage,
 * metric, margin and alpha are set. Memory is e->kernel. */
void evidence_fill(Env *e, const Rules *r, const Terms *terms, DbDuel *d,
                   const DbProcess *process, int n, DbPair *const *pair);
/* What was in force for a recorded duel. */
void evidence_rules(Db *db, Env *e, const DbDuel *d, Rules *r, Terms *t);
/* Sets what follows from the pairs of the recorded duel that it stands on: margin_e4 to noisy, and
 * n_pairs_process. Memory is e->kernel. */
void evidence_calibration(Db *db, Env *e, const DbDuel *d, DbCalibration *c);
/* What else must be true of a duel's rows: each order is the one that its process's seed draws, and the
 * calibration that stands on the duel says what its pairs say. False: err says what is not. */
bool evidence_holds(Db *db, Env *e, const DbDuel *d, const DbProcess *process, int n,
                    DbPair *const *pair, Err *err);

/* ---- facts.c: what is known before anything is measured --------------------------------------- */

/* The compiler as a row, and what one call of a kernel has to do at these sizes: flops, and the bytes of
 * all operands. Texts in m. */
DbToolchain toolchain_row(Arena *m, const Toolchain *tc);
void work_row(Env *e, const Kernel *naive, const int64_t *sym, DbRunTask *row);

/* ---- rows.c: processes and their pairs, from and to rows ------------------------------------ */

typedef struct DuelRows { /* of one duel, in order */
    Vec(DbProcess) process;
    Vec(DbPair *) pair; /* of each process */
    Vec(int) n_pairs;
} DuelRows;

void rows_add(Arena *m, DuelRows *rows, const DuelProcess *p);
void rows_read(Db *db, Arena *m, int64_t run, int64_t duel, DuelRows *rows);
/* As much of it as was recorded. */
DuelProcess rows_process(Arena *m, DuelStage stage, const DbProcess *p, const DbPair *pair);
int word_place(const char *const *name, int n, const char *word); /* the last: none is it */

/* ---- record.c: what a session does, a transaction each -------------------------------------- */

typedef struct RunRecord { /* what the sessions of a run share */
    Db *db;
    int64_t run;
    Rules rules;
    const char *strategy;
    int64_t n_trials, n_duels; /* of the run so far: the next one's number */
} RunRecord;

typedef struct Promotion {
    uint64_t index;
    int64_t trial;        /* its number in the run */
    const char *schedule; /* it stays */
    Hash c_hash;
} Promotion;

typedef struct TaskRecord { /* one session's */
    RunRecord *run;
    int64_t id; /* of the task */
    const Task *task;
    const Space *space; /* candidates are points of it; NULL: their knobs are not recorded */
    const char *base;   /* the default schedule */
    Hash base_c_hash;
    /* What others than the default and candidates are called; NULL: there are no others. */
    const char *(*name)(void *ctx, uint64_t index);
    void *name_ctx;
    Vec(Promotion) promoted;
    Vec(int64_t) match; /* by ordinal of the session: its number in the run */
} TaskRecord;

/* Records everything, each match process by process: whatever kills the program, nothing is
 * lost but what was under way. */
Recorder task_recorder(TaskRecord *t);
/* As the record calls it: default, candidate 17 ... Memory is m. */
const char *task_record_name(Arena *m, const TaskRecord *t, uint64_t index);
/* The run and task have records already: the session will go on from them. */
void run_record_resume(RunRecord *r);
void task_record_resume(TaskRecord *t);

/* ---- past.c: what is recorded of a task, as its session's past ------------------------------- */

typedef struct TaskPast {
    Db *db;
    int64_t run, task;
    Vec(int64_t) trial, match; /* by ordinal of the session: numbers in the run */
} TaskPast;

/* Memory is e->model. The past's functions fail with E_INPUT on a record that lacks something. */
void task_past_init(Env *e, TaskPast *p, Db *db, int64_t run, int64_t task);
Past task_past(TaskPast *p);
/* What its session has used of its budget, as far as that was recorded. */
uint64_t task_past_elapsed_ns(TaskPast *p);

#endif
