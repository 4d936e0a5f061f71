/* db.h - the schedule database: strings and numbers, no type of the compiler. schema.sql says
 * what each table and column means, rows.h has the same rows as plain structs; here is how to record
 * and find them, and how a build looks up a winner. Sections are named after the .c files that
 * define them.
 *
 * Opening returns false with an Err, so that a build can go on without. Everything else leaves
 * through fail() of the Env that opened it, with E_IO and one sentence that names the file and
 * the cause. One Db belongs to one thread, and must not be carried across a fork. */
#ifndef NC_DB_H
#define NC_DB_H

#include "db/rows.h"

/* ---- open.c: the file ------------------------------------------------------------------- */

typedef struct Db Db;

typedef enum DbMode {
    DB_READ,  /* changes nothing and leaves nothing behind, wherever the file lies */
    DB_WRITE, /* also makes it where there is none, and brings an older schema up to date */
} DbMode;

#define DB_VERSION 3 /* of the schema */

/* $NANOCOMPILE_DB, else $XDG_DATA_HOME/nanocompile/schedules.db, else ~/.local/share/... */
const char *db_default_path(Env *e);
/* path NULL: the default, whose folder is made when writing. What is no schedule database is
 * left as it is and refused, an empty file too. Memory is e's model arena. NULL: err says
 * why. */
Db *db_open(Env *e, const char *path, DbMode mode, Err *err);
Db *db_must_open(Env *e, const char *path, DbMode mode); /* the same; fails where it says why */
void db_close(Db *db); /* NULL is fine */
const char *db_path(const Db *db);
Env *db_env(const Db *db);

/* ---- write.c: recording ----------------------------------------------------------------- */

/* Runs body as one transaction: all of it is recorded, or nothing. Waits for other writers.
 * What body fails with goes on to the caller. Does not nest. */
void db_transact(Db *db, void (*body)(Env *e, void *arg), void *arg);
/* Opens the file for writing (NULL: the default one), runs body in one transaction and closes it on every
 * way. Returns its path, in e->model. */
const char *db_write(Env *e, const char *path, void (*body)(Env *e, Db *db, void *arg),
                     void *arg);
/* The same by hand; whoever begins must end it. */
void db_begin(Db *db);
void db_commit(Db *db);
void db_rollback(Db *db); /* never fails; without a transaction it does nothing */

/* One row, as it is. A row with this key exists: fails with E_INPUT. */
void db_add(Db *db, DbTable t, const void *row);
#define X(list, type, table, n_key, owner)                     \
    static inline void db_add_##table(Db *db, const type *row) \
    {                                                          \
        db_add(db, DB_T_##list, row);                          \
    }                                                          \
    static inline type db_blank_##table(void)                  \
    {                                                          \
        type row;                                              \
        db_blank(DB_T_##list, &row);                           \
        return row;                                            \
    }
DB_TABLES(X)
#undef X

/* The same, but where a row has this key, it becomes this one. Not of tables that are all key. */
void db_put(Db *db, DbTable t, const void *row);

/* A duel with all that it stands on: sets seal, the keys of processes and pairs and n_pairs;
 * pairs of process i are pair[i][0 .. n_pairs[i]). */
void db_add_whole_duel(Db *db, DbDuel *d, DbProcess *process, int n, DbPair *const *pair,
                       const int *n_pairs);
/* The same of a match that grows: its first n_there processes are recorded already. */
void db_grow_whole_duel(Db *db, DbDuel *d, DbProcess *process, int n, int n_there,
                        DbPair *const *pair, const int *n_pairs);
void db_vacuum(Db *db); /* gives unused space back */
/* What ends later. why may be NULL. A run that goes on again has not ended. */
void db_reopen_run(Db *db, int64_t run);
void db_end_run(Db *db, int64_t run, int64_t ended_ns, const char *ending, const char *why);
void db_end_run_task(Db *db, int64_t run, int64_t task, int64_t ended_ns, const char *ending,
                     const char *why);
/* How its operands lay when it was calibrated. */
void db_note_rings(Db *db, int64_t run, int64_t task, int64_t bytes, bool huge_pages);

/* ---- identity.c: rows that name themselves ---------------------------------------------- */

/* Rows named by what they say: recorded where they are new. Fill in everything but id, hard and
 * hash, which are set here; the id is returned. Two kernels whose ids agree but not their texts
 * are refused. */
int64_t db_put_machine(Db *db, DbMachine *m);
void db_name_machine(Db *db, DbMachine *m); /* only sets id and hard */
int64_t db_put_toolchain(Db *db, DbToolchain *t);
int64_t db_put_kernel(Db *db, const char *text);
int64_t db_put_task(Db *db, DbTask *t);
/* Knobs and choices: of those structs space is set here; choices in order of knob. */
int64_t db_put_space(Db *db, DbSpace *s, DbKnob *knob, int n_knobs, DbKnobChoice *choice,
                     int n_choices);
/* Rows named by who made them and when: id is set here and returned. */
int64_t db_add_new_run(Db *db, DbRun *r);
int64_t db_add_new_build(Db *db, DbBuild *b, DbBuildSite *site, int n_sites);
/* A row of a .sched file, where it is new: is it? */
bool db_put_imported(Db *db, const DbImported *row);
/* "s0=64,s1=896" */
const char *db_sizes_text(Arena *a, const int64_t *value, int n);

/* ---- read.c: finding -------------------------------------------------------------------- */

/* Columns: id, list, what follows SELECT ... FROM table (?1, ?2, ... are the arguments) */
#define DB_QUERIES(X)                                                            \
    X(MACHINE, MACHINE, "WHERE id = ?1")                                         \
    X(TOOLCHAINS, TOOLCHAIN, "ORDER BY id")                                      \
    X(SPACES, SPACE, "ORDER BY id")                                              \
    X(MACHINES, MACHINE, "ORDER BY id")                                          \
    X(TOOLCHAIN, TOOLCHAIN, "WHERE id = ?1")                                     \
    X(KERNEL, KERNEL, "WHERE id = ?1")                                           \
    X(KERNELS, KERNEL, "ORDER BY id")                                            \
    X(TASK, TASK, "WHERE id = ?1")                                               \
    X(TASKS, TASK, "ORDER BY id")                                                \
    X(SPACE, SPACE, "WHERE id = ?1")                                             \
    X(KNOBS, KNOB, "WHERE space = ?1 ORDER BY idx")                              \
    X(KNOB_CHOICES, KNOB_CHOICE, "WHERE space = ?1 ORDER BY knob, idx")          \
    X(RUN, RUN, "WHERE id = ?1")                                                 \
    X(RUNS, RUN, "ORDER BY started_ns, id")                                      \
    X(RUN_CONSTANTS, RUN_CONSTANT, "WHERE run = ?1 ORDER BY name")               \
    X(RUN_TASK, RUN_TASK, "WHERE run = ?1 AND task = ?2")                        \
    X(RUN_TASKS, RUN_TASK, "WHERE run = ?1 ORDER BY idx")                        \
    X(CALIBRATIONS, CALIBRATION, "WHERE run = ?1 AND task = ?2 ORDER BY idx")    \
    X(CALIBRATION, CALIBRATION, "WHERE run = ?1 AND task = ?2 AND idx = ?3")     \
    X(TRIAL, TRIAL, "WHERE run = ?1 AND idx = ?2")                               \
    X(TRIALS, TRIAL, "WHERE run = ?1 AND idx >= ?2 ORDER BY idx")                \
    X(RUN_TASK_TRIALS, TRIAL, "WHERE run = ?1 AND task = ?2 ORDER BY idx")       \
    X(TRIAL_KNOBS, TRIAL_KNOB, "WHERE run = ?1 AND trial = ?2 ORDER BY knob")    \
    X(DUEL, DUEL, "WHERE run = ?1 AND idx = ?2")                                 \
    X(ALL_DUELS, DUEL, "ORDER BY run, idx")                                      \
    X(TRIAL_DUELS, DUEL, "WHERE run = ?1 AND trial = ?2 ORDER BY idx")           \
    X(RUN_TASK_DUELS, DUEL, "WHERE run = ?1 AND task = ?2 ORDER BY idx")         \
    X(PROCESSES, PROCESS, "WHERE run = ?1 AND duel = ?2 ORDER BY idx")           \
    X(PAIRS, PAIR, "WHERE run = ?1 AND duel = ?2 AND process = ?3 ORDER BY idx") \
    X(WINNER, WINNER, "WHERE run = ?1 AND task = ?2")                            \
    X(WINNERS, WINNER, "ORDER BY run, task")                                     \
    X(RANGES, WINNER_RANGE, "WHERE run = ?1 AND task = ?2 ORDER BY slot")        \
    X(SLICES, SLICE, "WHERE run = ?1 ORDER BY idx")                              \
    X(IMPORTED, IMPORTED, "ORDER BY signature, kernel_hash, sizes, schedule")    \
    X(CELLS, EXPERIMENT_CELL, "ORDER BY experiment, line, heading, at_ns")

typedef enum DbQuery {
#define X(id, table, clause) DB_Q_##id,
    DB_QUERIES(X) N_DB_QUERIES
#undef X
} DbQuery;

typedef struct DbCursor {
    Db *db;
    DbTable table;
    void *stmt;
    bool own; /* a statement of its own: the query is under way elsewhere too */
} DbCursor;

/* DbCursor c = DB_FIND(db, TRIALS, run, 0); while (db_next(&c, &arena, &row)) ... A cursor
 * that is not read to its end must be given to db_end. */
DbCursor db_find(Db *db, DbQuery q, const int64_t *arg, int n);
#define DB_FIND(db, query, ...)                                    \
    db_find((db), DB_Q_##query, (const int64_t[]){__VA_ARGS__, 0}, \
            (int)countof(((const int64_t[]){__VA_ARGS__, 0})) - 1)
#define DB_FIND_ALL(db, query) db_find((db), DB_Q_##query, NULL, 0)
bool db_next(DbCursor *c, Arena *a, void *row); /* row: of the query's table; texts in a */
void db_end(DbCursor *c);
/* The first row; false: there is none. */
bool db_one(Db *db, DbQuery q, const int64_t *arg, int n, Arena *a, void *row);
#define DB_ONE(db, query, a, row, ...)                            \
    db_one((db), DB_Q_##query, (const int64_t[]){__VA_ARGS__, 0}, \
           (int)countof(((const int64_t[]){__VA_ARGS__, 0})) - 1, (a), (row))
int64_t db_count(Db *db, DbTable t);

/* ---- sql.c: anything, on tables and views, but only reading ----------------------------- */

typedef struct DbSql DbSql;
typedef enum DbCellKind { DB_NULL, DB_INT, DB_REAL, DB_TEXT } DbCellKind;

typedef struct DbCell {
    DbCellKind kind;
    int64_t i;
    double r;         /* INT too */
    const char *text; /* in every case: as it is printed; "" for NULL. Until the next row */
} DbCell;

/* One statement that reads. Else it fails with E_INPUT and SQLite's words. */
DbSql *db_sql(Db *db, const char *sql);
void db_sql_bind_int(DbSql *q, int place, int64_t v); /* place from 1 */
void db_sql_bind_text(DbSql *q, int place, const char *v);
int db_sql_columns(const DbSql *q);
const char *db_sql_name(const DbSql *q, int column); /* from 0 */
bool db_sql_next(DbSql *q);                          /* false: no more rows, and q is gone */
DbCell db_sql_cell(const DbSql *q, int column);
void db_sql_end(DbSql *q); /* before its last row */

/* ---- lookup.c: which schedule for this kernel here? ------------------------------------- */

/* The key, in the order in which fields are compared. Columns: id, name */
#define DB_KEY_FIELDS(X)                \
    X(KERNEL, "kernel")                 \
    X(THREADS, "threads")               \
    X(REGIME, "regime")                 \
    X(SIZES, "sizes")                   \
    X(ISA, "isa")                       \
    X(L1D, "l1d cache")                 \
    X(L2, "l2 cache")                   \
    X(L3, "l3 cache")                   \
    X(CORES, "cores")                   \
    X(COMPILER, "compiler")             \
    X(WORDS, "compiler's words in $CC") \
    X(FLAGS, "compiler flags")          \
    X(TARGET, "target")

typedef enum DbKeyField {
#define X(id, name) DB_KEY_##id,
    DB_KEY_FIELDS(X) N_DB_KEY_FIELDS
#undef X
} DbKeyField;

typedef struct DbKey {
    const char *kernel; /* text */
    const int64_t *size;
    int n_sizes;
    int64_t n_threads;
    const char *regime;
    const DbMachine *machine; /* hard parts; as db_machine_here fills them */
    const DbToolchain *toolchain;
} DbKey;

typedef enum DbFound {
    DB_HIT,          /* winner holds */
    DB_IMPORTED_ROW, /* no winner, but a row of a .sched file; imported holds */
    DB_KEPT,         /* it was tuned, and nothing proved faster than the default */
    DB_MISS          /* nothing; nearest may say what comes near */
} DbFound;

typedef struct DbAnswer {
    DbFound found;
    DbWinner winner; /* HIT; on a MISS the nearest row where has_nearest */
    DbImported imported;
    int64_t run; /* HIT, KEPT, nearest: which recorded it */
    bool has_nearest;
    int64_t n_trials;         /* KEPT: that were tried */
    DbKeyField field;         /* MISS: the first that differs */
    const char *wanted, *has; /* its two values, as text */
    const char *why;          /* a sentence: of a MISS, a KEPT, an imported row */
    const char *soft; /* HIT: soft fields that differ, "kernel_release, microcode"; or NULL */
} DbAnswer;

/* Memory is a. A kernel's hash that agrees is confirmed by its text. */
void db_lookup(Db *db, Arena *a, const DbKey *key, DbAnswer *out);
/* One line that says machine, compiler, threads and regime: of .sched files. */
const char *db_signature(Arena *a, const DbMachine *m, const DbToolchain *t, int64_t n_threads,
                         const char *regime);

/* ---- key.c: the fields of a key, for people ---------------------------------------------- */

typedef struct DbKeyText {
    const char *value[N_DB_KEY_FIELDS]; /* the kernel by its hash */
} DbKeyText;

const char *db_key_field_name(DbKeyField f);
void db_key_text(Arena *a, const DbKey *k, DbKeyText *out);
/* What a recorded winner was found with, sizes as it serves them ("s0=64" or "s0=1..64"); false: it
 * lacks rows. */
bool db_winner_text(Db *db, Arena *a, int64_t run, int64_t task, DbKeyText *out);

/* ---- machine.c: this machine as a row --------------------------------------------------- */

/* root: as for machine_read, which gave m. Texts in a. Sets all but id. */
void db_machine_here(Env *e, Arena *a, const char *root, const Machine *m, DbMachine *out);

/* ---- verify.c: does everything in it follow from its raw data? -------------------------- */

/* Computes again what follows from raw data: sets n ... b_min_ns, noisy, verdict and reason
 * of `again`, a copy of the stored row. May leave alone what it does not know. False: err says, as the
 * rest of a sentence, what about the duel's rows cannot have been measured. */
typedef bool DbRecompute(void *ctx, Env *e, const DbDuel *stored, const DbProcess *process,
                         int n, DbPair *const *pair, DbDuel *again, Err *err);
/* Told of each fault, a sentence that names the run and duel (or row). */
typedef void DbComplain(void *ctx, const char *sentence);
/* SQLite's own checks, then ids and hashes, then seals, then recompute (may be NULL) on
 * every duel, then what trials, winners and tie sets say against their duels. How many faults. */
int64_t db_verify(Db *db, DbRecompute *recompute, DbComplain *complain, void *ctx);

/* ---- merge.c: databases together -------------------------------------------------------- */

typedef struct DbMerged {
    int64_t n_added, n_known; /* rows of the other that were new, and that were there already */
    int64_t n_conflicts;      /* records that two databases tell differently */
} DbMerged;
/* Takes over every row of the other file that is not there. Where two rows with one key
 * differ, the one that has ended stands; else, a conflict, the greater in SQLite's order of
 * values: so the order of merging does not matter. All or nothing. */
DbMerged db_merge(Db *into, const char *path, DbComplain *complain, void *ctx);

/* ---- export.c, export_t4.c, export_cache.c, import.c: as text ----------------------------- */

typedef void DbWrite(void *ctx, const char *text, size_t len); /* the next piece */
/* All rows of a query, which is gone then; JSON: {"NAME": [{COLUMN: VALUE, ...}, ...]} */
void db_write_csv(DbSql *q, DbWrite *write, void *ctx);
void db_write_json(DbSql *q, const char *name, DbWrite *write, void *ctx);
void db_export_csv(Db *db, const char *view, DbWrite *write, void *ctx); /* table or view */
void db_export_json(Db *db, DbWrite *write,
                    void *ctx); /* all tables; db_import_json reads it */
/* Results of a run (0: of all) as autotuning research exchanges them. Times in ms. */
void db_export_t4(Db *db, int64_t run, DbWrite *write, void *ctx);
void db_export_t4_metadata(Db *db, int64_t run, DbWrite *write, void *ctx); /* where they ran */
/* One search as a cache of Kernel Tuner. run, task 0: where there is only one. */
void db_export_cache(Db *db, int64_t run, int64_t task, DbWrite *write, void *ctx);
/* All or nothing; merges. file: its name in sentences. */
DbMerged db_import_json(Db *db, const char *text, size_t len, const char *file,
                        DbComplain *complain, void *ctx);

#endif
