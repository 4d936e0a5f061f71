/* write.c - recording: statements, transactions, rows as they are. */
#include "db/db_int.h"

Arena *work(Db *db)
{
    arena_release(&db->work);
    arena_init(&db->work, db->e);
    return &db->work;
}

Arena *scratch(Db *db)
{
    arena_release(&db->scratch);
    arena_init(&db->scratch, db->e);
    return &db->scratch;
}

/* ---- statements ---- */

static const char *const statement_sql[N_STATEMENTS] = {
#define X(id, sql) sql,
    STATEMENTS(X)
#undef X
};

sqlite3_stmt *prepared(Db *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v3(db->sql, sql, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL);
    if (code) {
        db_fail(db, code, "use");
    }
    return s;
}

sqlite3_stmt *statement_of(Db *db, StatementId id)
{
    if (!db->statement[id]) {
        db->statement[id] = prepared(db, statement_sql[id]);
    }
    return db->statement[id];
}

const char *insert_sql(Db *db, DbTable t, const char *verb)
{
    Buf b;
    buf_init(&b, work(db));
    buf_printf(&b, "%s INTO %s (", verb, db_table[t].name);
    row_columns(t, &b);
    buf_str(&b, ") VALUES (");
    for (int i = 0; i < db_table[t].n_columns; i++) {
        buf_str(&b, i ? ", ?" : "?");
    }
    buf_char(&b, ')');
    return b.at;
}

sqlite3_stmt *insert_of(Db *db, DbTable t)
{
    if (!db->insert[t]) {
        db->insert[t] = prepared(db, insert_sql(db, t, "INSERT"));
    }
    return db->insert[t];
}

void must_bind(Db *db, int code)
{
    if (code) {
        db_fail(db, code, "use");
    }
}

static void step_or_fail(Db *db, sqlite3_stmt *s, const char *doing)
{
    Err err;
    int code = sqlite3_step(s);
    bool ok = code == SQLITE_DONE || sqlite_error(db->sql, code, doing, db->path, &err);
    sqlite3_reset(s);
    if (!ok) {
        fail_err(db->e, &err);
    }
}

void run_statement(Db *db, sqlite3_stmt *s)
{
    step_or_fail(db, s, "write");
}

/* ---- transactions ---- */

void db_begin(Db *db)
{
    run_statement(db, statement_of(db, ST_BEGIN));
    statement_of(db, ST_COMMIT); /* now, while failing is simple */
    statement_of(db, ST_ROLLBACK);
}

void db_commit(Db *db)
{
    run_statement(db, statement_of(db, ST_COMMIT));
}

void db_rollback(Db *db)
{
    if (!sqlite3_get_autocommit(db->sql)) {
        sqlite3_step(db->statement[ST_ROLLBACK]);
        sqlite3_reset(db->statement[ST_ROLLBACK]);
    }
}

typedef struct Transaction {
    Db *db;
    void (*body)(Env *e, void *arg);
    void *arg;
} Transaction;

static void transaction_body(Env *e, void *arg)
{
    Transaction *t = arg;
    db_begin(t->db);
    t->body(e, t->arg);
    db_commit(t->db);
}

void db_transact(Db *db, void (*body)(Env *e, void *arg), void *arg)
{
    check(sqlite3_get_autocommit(db->sql));
    Transaction t = {db, body, arg};
    if (!env_try(db->e, transaction_body, &t)) {
        Err err = db->e->err;
        db_rollback(db);
        fail_err(db->e, &err);
    }
}

typedef struct Writing {
    const char *path;
    void (*body)(Env *e, Db *db, void *arg);
    void *arg;
    Db *db;
} Writing;

static void writing_body(Env *e, void *arg)
{
    const Writing *w = arg;
    w->body(e, w->db, w->arg);
}

static void open_and_write(Env *e, void *arg)
{
    Writing *w = arg;
    w->db = db_must_open(e, w->path, DB_WRITE);
    w->path = arena_str(&e->model, db_path(w->db));
    db_transact(w->db, writing_body, w);
}

static void close_writing(void *arg)
{
    db_close(((Writing *)arg)->db);
}

const char *db_write(Env *e, const char *path, void (*body)(Env *e, Db *db, void *arg),
                     void *arg)
{
    Writing w = {.path = path, .body = body, .arg = arg};
    env_finally(e, open_and_write, close_writing, &w);
    return w.path;
}

/* ---- rows ---- */

void db_add(Db *db, DbTable t, const void *row)
{
    sqlite3_stmt *s = insert_of(db, t);
    must_bind(db, row_bind(s, t, row));
    char doing[64];
    snprintf(doing, sizeof doing, "record a row of %s in", db_table[t].name);
    step_or_fail(db, s, doing);
}

/* UPDATE by key, with the row's columns as arguments. */
static const char *update_sql(Db *db, DbTable t)
{
    const DbTableInfo *info = &db_table[t];
    Buf b;
    buf_init(&b, work(db));
    buf_printf(&b, "UPDATE %s", info->name);
    for (int i = info->n_key; i < info->n_columns; i++) {
        buf_printf(&b, "%s%s = ?%d", i == info->n_key ? " SET " : ", ", info->column[i].name,
                   i + 1);
    }
    for (int i = 0; i < info->n_key; i++) {
        buf_printf(&b, "%s%s = ?%d", i ? " AND " : " WHERE ", info->column[i].name, i + 1);
    }
    return b.at;
}

void db_put(Db *db, DbTable t, const void *row)
{
    check(db_table[t].n_key < db_table[t].n_columns);
    if (!db->update[t]) {
        db->update[t] = prepared(db, update_sql(db, t));
    }
    must_bind(db, row_bind(db->update[t], t, row));
    run_statement(db, db->update[t]);
    if (sqlite3_changes(db->sql) == 0) {
        db_add(db, t, row);
    }
}

/* Keys of all that belongs to it, and its seal. */
static void seal_duel(Db *db, DbDuel *d, DbProcess *process, int n, DbPair *const *pair,
                      const int *n_pairs)
{
    for (int i = 0; i < n; i++) {
        process[i].run = d->run, process[i].duel = d->idx, process[i].idx = i;
        process[i].n_pairs = n_pairs[i];
        for (int k = 0; k < n_pairs[i]; k++) {
            DbPair *p = &pair[i][k];
            p->run = d->run, p->duel = d->idx, p->process = i, p->idx = k;
        }
    }
    d->seal = duel_seal(work(db), d, process, n, pair);
}

static void add_processes(Db *db, const DbProcess *process, int from, int n,
                          DbPair *const *pair)
{
    for (int i = from; i < n; i++) {
        db_add_process(db, &process[i]);
        for (int64_t k = 0; k < process[i].n_pairs; k++) {
            db_add_pair(db, &pair[i][k]);
        }
    }
}

void db_add_whole_duel(Db *db, DbDuel *d, DbProcess *process, int n, DbPair *const *pair,
                       const int *n_pairs)
{
    seal_duel(db, d, process, n, pair, n_pairs);
    db_add_duel(db, d);
    add_processes(db, process, 0, n, pair);
}

void db_grow_whole_duel(Db *db, DbDuel *d, DbProcess *process, int n, int n_there,
                        DbPair *const *pair, const int *n_pairs)
{
    seal_duel(db, d, process, n, pair, n_pairs);
    db_put(db, DB_T_DUEL, d);
    add_processes(db, process, n_there, n, pair);
}

/* What a later version of the schema added is sealed where it is told, so that older seals
 * hold: the last column of process. */
static void seal_process(const DbProcess *p, Buf *out)
{
    static const char untold[] = "elapsed_ns=-\n";
    row_text(DB_T_PROCESS, p, 0, out);
    if (p->elapsed_ns == DB_NONE) {
        out->len -= sizeof untold - 1;
    }
}

Hash duel_seal(Arena *a, const DbDuel *d, const DbProcess *process, int n, DbPair *const *pair)
{
    Buf b;
    DbDuel unsealed = *d;
    unsealed.seal = (Hash){0, 0};
    buf_init(&b, a);
    row_text(DB_T_DUEL, &unsealed, 0, &b);
    for (int i = 0; i < n; i++) {
        seal_process(&process[i], &b);
        for (int64_t k = 0; k < process[i].n_pairs; k++) {
            row_text(DB_T_PAIR, &pair[i][k], 0, &b);
        }
    }
    return hash_bytes(b.at, b.len);
}

void db_vacuum(Db *db)
{
    int code =
        sqlite3_exec(db->sql, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    if (code) {
        db_fail(db, code, "vacuum");
    }
}

/* ---- what ends later ---- */

static void bind_text(Db *db, sqlite3_stmt *s, int place, const char *text)
{
    if (text) {
        must_bind(db, sqlite3_bind_text(s, place, text, -1, SQLITE_TRANSIENT));
    } else {
        must_bind(db, sqlite3_bind_null(s, place));
    }
}

void db_reopen_run(Db *db, int64_t run)
{
    sqlite3_stmt *s = statement_of(db, ST_REOPEN_RUN);
    sqlite3_bind_int64(s, 1, run);
    run_statement(db, s);
}

void db_end_run(Db *db, int64_t run, int64_t ended_ns, const char *ending, const char *why)
{
    sqlite3_stmt *s = statement_of(db, ST_END_RUN);
    sqlite3_bind_int64(s, 1, run);
    sqlite3_bind_int64(s, 2, ended_ns);
    bind_text(db, s, 3, ending);
    bind_text(db, s, 4, why);
    run_statement(db, s);
}

void db_note_rings(Db *db, int64_t run, int64_t task, int64_t bytes, bool huge_pages)
{
    sqlite3_stmt *s = statement_of(db, ST_NOTE_RINGS);
    sqlite3_bind_int64(s, 1, run);
    sqlite3_bind_int64(s, 2, task);
    sqlite3_bind_int64(s, 3, bytes);
    sqlite3_bind_int64(s, 4, huge_pages);
    run_statement(db, s);
}

void db_end_run_task(Db *db, int64_t run, int64_t task, int64_t ended_ns, const char *ending,
                     const char *why)
{
    sqlite3_stmt *s = statement_of(db, ST_END_RUN_TASK);
    sqlite3_bind_int64(s, 1, run);
    sqlite3_bind_int64(s, 2, task);
    sqlite3_bind_int64(s, 3, ended_ns);
    bind_text(db, s, 4, ending);
    bind_text(db, s, 5, why);
    run_statement(db, s);
}
