/* db_int.h - what the files of db/ share: tables as data, the handle, SQLite's errors as
 * sentences. */
#ifndef NC_DB_INT_H
#define NC_DB_INT_H

#include <limits.h>
#include <sqlite3.h>

#include "db/db.h"

/* ---- rows.c ---- */

typedef enum DbKind { KIND_INT, KIND_REAL, KIND_TEXT, KIND_HASH, N_DB_KINDS } DbKind;

typedef struct DbColumn {
    const char *name;
    DbKind kind;
} DbColumn;

typedef struct DbTableInfo {
    const char *name;
    const DbColumn *column;
    int n_columns, n_key;
    DbTable owner; /* itself: it owns itself */
    size_t bytes;  /* of its struct */
} DbTableInfo;

enum { FIRST_SOFT = 8 }; /* of machine's columns: vendor, behind host */
extern const DbTableInfo db_table[N_DB_TABLES];

int row_bind(sqlite3_stmt *s, DbTable t, const void *row); /* SQLite's code: to be looked at */
void row_read(sqlite3_stmt *s, DbTable t, Arena *a, void *row); /* columns in table order */
/* Columns from first on with their values, so that equal text means equal rows. */
void row_text(DbTable t, const void *row, int first, Buf *out);
void row_cell(DbTable t, const void *row, int column, Buf *out); /* its value; "-": NULL */
/* Reals up to rounding; texts are not NULL. */
bool cells_agree(DbTable t, const void *a, const void *b, int column);
void row_columns(DbTable t, Buf *out); /* "id, hard, isa" */
void row_select(DbTable t, Buf *out);  /* "SELECT id, hard, isa FROM machine" */
void row_order(DbTable t, Buf *out);   /* " ORDER BY id": its key */
bool hash_read(const char *hex, Hash *out);

/* ---- open.c ---- */

#define APPLICATION_ID 0x4e435344 /* "NCSD" */
enum { BUSY_MS = 60000 };

/* Columns: id, SQL */
#define STATEMENTS(X)                                                                        \
    X(BEGIN, "BEGIN IMMEDIATE")                                                              \
    X(COMMIT, "COMMIT")                                                                      \
    X(ROLLBACK, "ROLLBACK")                                                                  \
    X(END_RUN, "UPDATE run SET ended_ns = ?2, ending = ?3, why = ?4 WHERE id = ?1")          \
    X(REOPEN_RUN, "UPDATE run SET ended_ns = NULL, ending = NULL, why = NULL WHERE id = ?1") \
    X(END_RUN_TASK, "UPDATE run_task SET ended_ns = ?3, ending = ?4, why = ?5 "              \
                    "WHERE run = ?1 AND task = ?2")                                          \
    X(NOTE_RINGS, "UPDATE run_task SET ring_bytes = ?3, huge_pages = ?4 WHERE run = ?1 AND " \
                  "task = ?2")                                                               \
    X(KERNEL_BY_HASH, "SELECT id, text FROM kernel WHERE hash = ?1 ORDER BY id")             \
    X(TUNED_KERNELS, "SELECT text FROM kernel k WHERE EXISTS (SELECT 1 FROM task t JOIN "    \
                     "winner w ON w.task = t.id WHERE t.kernel = k.id) ORDER BY id")         \
    X(CANDIDATES,                                                                            \
      "SELECT w.run, w.task, t.n_threads, t.regime, t.sizes, r.machine, "                    \
      "r.toolchain FROM task t JOIN winner w ON w.task = t.id "                              \
      "JOIN run r ON r.id = w.run WHERE t.kernel = ?1 "                                      \
      "ORDER BY w.ratio_hi IS NULL, w.ratio_hi, w.ratio, w.at_ns DESC, w.run DESC")          \
    X(KEPT, "SELECT t.n_threads, t.regime, t.sizes, r.machine, r.toolchain, rt.run, "        \
            "(SELECT count(*) FROM trial x WHERE x.run = rt.run AND x.task = rt.task) "      \
            "FROM task t JOIN run_task rt ON rt.task = t.id JOIN run r ON r.id = rt.run "    \
            "WHERE t.kernel = ?1 AND rt.ended_ns IS NOT NULL AND rt.space IS NOT NULL "      \
            "ORDER BY rt.ended_ns DESC, rt.run DESC")                                        \
    X(PUT_IMPORTED, "INSERT OR IGNORE INTO imported VALUES (?, ?, ?, ?, ?)")                 \
    X(IMPORTED_BY_KEY, "SELECT * FROM imported WHERE signature = ?1 AND kernel_hash = ?2 "   \
                       "ORDER BY sizes, schedule")

typedef enum StatementId {
#define X(id, sql) ST_##id,
    STATEMENTS(X) N_STATEMENTS
#undef X
} StatementId;

struct Db {
    Env *e;
    Arena work;    /* of one call: emptied by the next that needs it */
    Arena scratch; /* of verify.c, merge.c, import.c: likewise */
    const char *path;
    sqlite3 *sql;
    DbMode mode;
    const char *aside; /* a folder with a copy that is read instead; or NULL */
    sqlite3_stmt *statement[N_STATEMENTS], *insert[N_DB_TABLES], *update[N_DB_TABLES],
        *query[N_DB_QUERIES];
};

/* Opens what is a SQLite file by name, whatever the name looks like. Returns SQLite's code. */
int sqlite_at(const char *path, int flags, const char *parameters, sqlite3 **out);
bool sqlite_number(sqlite3 *sql, const char *query, int64_t *out); /* of its first row */
sqlite3_stmt *statement_of(Db *db, StatementId id);

/* ---- connect.c ---- */

bool beside(const char *path, const char *suffix, bool *empty); /* is there such a file? */
bool at_rest(const char *path);  /* neither a log nor a journal with something in it */
bool writable(const char *path); /* file and folder */
bool connect_reader(Db *db, Err *err);
bool connect_writer(Db *db, Err *err);
bool cannot_write(Db *db, int code, Err *err); /* false */
/* A real write that changes nothing. */
int probe(Db *db, int64_t version);
void disconnect(Db *db);

/* ---- aside.c ---- */

/* A copy of the database and its log in a folder of its own. NULL: err says why. */
const char *copy_aside(Env *e, const char *path, Err *err);
void remove_aside(const char *folder);
/* Such a folder, empty; NULL: err says why, in words of this path. */
const char *folder_aside(Env *e, const char *path, Err *err);

/* ---- create.c, schema.c ---- */

extern const char db_schema[]; /* schema.sql */
/* A complete new database appears at path at once, or none does. One that appeared in the
 * meantime stays. */
bool create_database(const char *path, Err *err);
/* From the version it has to that of the schema; transaction included. SQLite's code. */
int migrate(sqlite3 *sql, const char *schema);
int schema_version(const char *schema);

/* ---- error.c ---- */

/* "Cannot read FILE: REASON." Returns false. */
bool sqlite_error(sqlite3 *sql, int code, const char *doing, const char *path, Err *err);
_Noreturn void db_fail(Db *db, int code, const char *doing);
bool locks_work(const char *path); /* on the file system of this file */

/* ---- sql.c ---- */

Db *sql_db(const DbSql *q);

/* ---- export_trial.c: pieces of JSON ---- */

void json_text(Buf *out, const char *s);
double ms_of(int64_t ns); /* 0: not known */
void json_choice(Buf *out, const char *word, const char *value);
/* "tile": 4, "pack": "panels" without braces; false: it has none. */
bool json_knobs(Db *db, const DbTrial *r, Buf *out);
/* Those samples of its search that count, in ms, as an array; what all of them took together, in ms. */
double json_samples(Db *db, const DbTrial *r, Buf *out);
double trial_ns(Db *db,
                const DbTrial *r);      /* median of a call in its search; NaN: was not timed */
void json_moment(Buf *out, int64_t ns); /* "2026-01-31T23:59:59Z" */

/* ---- identity.c: sets id, and hard or hash ---- */

int64_t id_of(Hash h);
void identify_machine(Db *db, DbMachine *m);
void identify_toolchain(Db *db, DbToolchain *t);
void identify_kernel(DbKernel *k);
void identify_task(Db *db, DbTask *t);
void identify_space(Db *db, DbSpace *s, const DbKnob *knob, int n_knobs,
                    const DbKnobChoice *choice, int n_choices);

/* ---- write.c ---- */

Arena *work(Db *db);    /* empty */
Arena *scratch(Db *db); /* empty */
/* Of all that is stored but the seal itself. */
Hash duel_seal(Arena *a, const DbDuel *d, const DbProcess *process, int n, DbPair *const *pair);

/* Runs to its end a statement that gives no rows, and resets it. */
void run_statement(Db *db, sqlite3_stmt *s);
/* A value that could not be bound would be NULL: fails with E_NOMEM. */
void must_bind(Db *db, int code);
sqlite3_stmt *prepared(Db *db, const char *sql);
sqlite3_stmt *insert_of(Db *db, DbTable t);
const char *insert_sql(Db *db, DbTable t, const char *verb); /* in the work arena */

#endif
