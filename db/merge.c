/* merge.c - databases together. Ids mean the same in every database, so rows are copied as
 * they are, record by record: a row with what belongs to it (a duel with its processes and
 * pairs).
 *
 * Where both databases have a record and it differs, the greater one stands, in SQLite's
 * order of values, column by column: NULL, which is what has not ended yet, is less than
 * all. So it does not matter in which order databases are merged, nor how often. */
#include <string.h>

#include "db/db_int.h"

typedef struct Side {
    Db *db;
    sqlite3_stmt *owner;               /* all rows of a table, by key, or one */
    sqlite3_stmt *member[N_DB_TABLES]; /* rows that belong to one */
} Side;

typedef struct Merging {
    Db *into, *from;
    Side a, b; /* into, from */
    sqlite3_stmt *drop[N_DB_TABLES];
    sqlite3_stmt *put; /* or replace */
    DbTable table;
    DbComplain *complain;
    void *ctx;
    DbMerged done;
} Merging;

/* ---- statements ---- */

static void key_clause(DbTable t, int n_key, Buf *out)
{
    for (int i = 0; i < n_key; i++) {
        buf_printf(out, "%s%s = ?%d", i ? " AND " : " WHERE ", db_table[t].column[i].name,
                   i + 1);
    }
}

static sqlite3_stmt *select_by(Db *db, DbTable t, int n_key)
{
    Buf b;
    buf_init(&b, work(db));
    row_select(t, &b);
    key_clause(t, n_key, &b);
    row_order(t, &b);
    return prepared(db, b.at);
}

static sqlite3_stmt *delete_by(Db *db, DbTable t, int n_key)
{
    Buf b;
    buf_init(&b, work(db));
    buf_printf(&b, "DELETE FROM %s", db_table[t].name);
    key_clause(t, n_key, &b);
    return prepared(db, b.at);
}

static sqlite3_stmt *replace_in(Db *db, DbTable t)
{
    return prepared(db, insert_sql(db, t, "INSERT OR REPLACE"));
}

static bool belongs(const Merging *m, int t)
{
    return db_table[t].owner == m->table && t != (int)m->table;
}

static void release(sqlite3_stmt **s)
{
    sqlite3_finalize(*s);
    *s = NULL;
}

static void end_table(Merging *m)
{
    for (int t = 0; t < N_DB_TABLES; t++) {
        release(&m->a.member[t]);
        release(&m->b.member[t]);
        release(&m->drop[t]);
    }
    release(&m->a.owner);
    release(&m->b.owner);
    release(&m->put);
}

static void begin_table(Merging *m)
{
    int n_key = db_table[m->table].n_key;
    m->b.owner = select_by(m->from, m->table, 0);
    m->a.owner = select_by(m->into, m->table, n_key);
    m->put = replace_in(m->into, m->table);
    for (int t = 0; t < N_DB_TABLES; t++) {
        if (belongs(m, t)) {
            m->a.member[t] = select_by(m->into, (DbTable)t, n_key);
            m->b.member[t] = select_by(m->from, (DbTable)t, n_key);
            m->drop[t] = delete_by(m->into, (DbTable)t, n_key);
        }
    }
}

/* The key of the record at hand, which m->b.owner stands on, as the first arguments of s. */
static void bind_key(const Merging *m, sqlite3_stmt *s)
{
    for (int i = 0; i < db_table[m->table].n_key; i++) {
        must_bind(m->into, sqlite3_bind_value(s, i + 1, sqlite3_column_value(m->b.owner, i)));
    }
}

/* ---- which is greater? ---- */

static int sign(double d)
{
    return (d > 0) - (d < 0);
}

/* Columns are typed, so two values are of one type, or one is NULL. */
static int compare_cells(sqlite3_stmt *a, sqlite3_stmt *b, int i)
{
    bool null_a = sqlite3_column_type(a, i) == SQLITE_NULL,
         null_b = sqlite3_column_type(b, i) == SQLITE_NULL;
    if (null_a || null_b) {
        return null_b - null_a;
    }
    if (sqlite3_column_type(a, i) == SQLITE_INTEGER) {
        int64_t x = sqlite3_column_int64(a, i), y = sqlite3_column_int64(b, i);
        return (x > y) - (x < y);
    }
    if (sqlite3_column_type(a, i) == SQLITE_FLOAT) {
        return sign(sqlite3_column_double(a, i) - sqlite3_column_double(b, i));
    }
    return strcmp((const char *)sqlite3_column_text(a, i),
                  (const char *)sqlite3_column_text(b, i));
}

typedef struct Difference {
    int sign;      /* of the first difference: above 0 where into's is greater */
    bool both;     /* two values differ, and neither is NULL */
    DbTable table; /* where, first of those */
    int column;    /* -1: a row is on one side only */
} Difference;

static void compare_rows(DbTable t, sqlite3_stmt *a, sqlite3_stmt *b, Difference *d)
{
    for (int i = 0; i < db_table[t].n_columns; i++) {
        int s = compare_cells(a, b, i);
        bool null = sqlite3_column_type(a, i) == SQLITE_NULL ||
                    sqlite3_column_type(b, i) == SQLITE_NULL;
        d->sign = d->sign ? d->sign : s;
        if (s && !null && !d->both) {
            d->both = true, d->table = t, d->column = i;
        }
    }
}

static int step(Db *db, sqlite3_stmt *s)
{
    int code = sqlite3_step(s);
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        db_fail(db, code, "merge");
    }
    return code;
}

static void compare_members(Merging *m, DbTable t, Difference *d)
{
    sqlite3_stmt *a = m->a.member[t], *b = m->b.member[t];
    bind_key(m, a);
    bind_key(m, b);
    for (;;) {
        int in_a = step(m->into, a), in_b = step(m->from, b);
        if (in_a != in_b && !d->both) {
            d->both = true, d->table = t, d->column = -1;
        }
        if (in_a != in_b && !d->sign) {
            d->sign = in_a == SQLITE_ROW ? 1 : -1;
        }
        if (in_a == SQLITE_DONE || in_b == SQLITE_DONE) {
            break;
        }
        compare_rows(t, a, b, d);
    }
    sqlite3_reset(a);
    sqlite3_reset(b);
}

/* ---- taking over ---- */

/* False: a winner whose evidence is not there. */
static bool put(Merging *m, sqlite3_stmt *to, DbTable t, sqlite3_stmt *row)
{
    for (int i = 0; i < db_table[t].n_columns; i++) {
        must_bind(m->into, sqlite3_bind_value(to, i + 1, sqlite3_column_value(row, i)));
    }
    int code = sqlite3_step(to);
    if (code != SQLITE_DONE && code != SQLITE_CONSTRAINT_TRIGGER) {
        Err err;
        sqlite_error(m->into->sql, code, "merge into", m->into->path, &err);
        sqlite3_reset(to);
        fail_err(m->into->e, &err);
    }
    sqlite3_reset(to);
    return code == SQLITE_DONE;
}

static void execute(Db *db, const char *sql)
{
    int code = sqlite3_exec(db->sql, sql, NULL, NULL, NULL);
    if (code) {
        db_fail(db, code, "merge into");
    }
}

/* Only a winner may be refused; then what it would have taken the place of stays whole. */
static void take_over(Merging *m)
{
    bool may_fail = m->table == DB_T_WINNER;
    if (may_fail) {
        execute(m->into, "SAVEPOINT record");
    }
    for (int t = N_DB_TABLES - 1; t >= 0; t--) { /* those that refer to others first */
        if (belongs(m, t)) {
            bind_key(m, m->drop[t]);
            run_statement(m->into, m->drop[t]);
        }
    }
    bool done = put(m, m->put, m->table, m->b.owner);
    if (may_fail) {
        execute(m->into, done ? "RELEASE record" : "ROLLBACK TO record; RELEASE record");
    }
    if (!done) {
        m->done.n_conflicts++;
        m->complain(m->ctx, "A winner was left out: its title match is told differently.");
        return;
    }
    m->done.n_added++;
    for (int t = 0; t < N_DB_TABLES; t++) {
        sqlite3_stmt *row = m->b.member[t];
        if (belongs(m, t)) {
            bind_key(m, row);
            while (step(m->from, row) == SQLITE_ROW) {
                put(m, insert_of(m->into, (DbTable)t), (DbTable)t, row);
                m->done.n_added++;
            }
            sqlite3_reset(row);
        }
    }
}

static const char *key_text(const Merging *m)
{
    Buf b;
    buf_init(&b, work(m->into));
    for (int i = 0; i < db_table[m->table].n_key; i++) {
        buf_printf(&b, "%s%s %s", i ? ", " : "", db_table[m->table].column[i].name,
                   (const char *)sqlite3_column_text(m->b.owner, i));
    }
    return b.at;
}

/* Names for content cannot have two contents, but by damage or a collision of hashes. */
static bool named_by_content(DbTable t)
{
    return t == DB_T_MACHINE || t == DB_T_TOOLCHAIN || t == DB_T_KERNEL || t == DB_T_TASK ||
           t == DB_T_SPACE;
}

static void tell_conflict(Merging *m, const Difference *d)
{
    char text[1000];
    const char *key = key_text(m), *column = d->column >= 0
                                                 ? db_table[d->table].column[d->column].name
                                                 : "the number of rows";
    if (named_by_content(m->table)) {
        fail(m->into->e, E_INPUT,
             "Cannot merge %s into %s: %s of %s (%s) differs: `schedb verify` "
             "says which is damaged.",
             m->from->path, m->into->path, column, db_table[d->table].name, key);
    }
    snprintf(text, sizeof text, "Conflict in %s (%s): %s of %s differs; the %s file's stands.",
             db_table[m->table].name, key, column, db_table[d->table].name,
             d->sign > 0 ? "first" : "second");
    m->done.n_conflicts++;
    m->complain(m->ctx, text);
}

static void merge_record(Merging *m)
{
    bind_key(m, m->a.owner);
    if (step(m->into, m->a.owner) == SQLITE_DONE) {
        sqlite3_reset(m->a.owner);
        take_over(m);
        return;
    }
    Difference d = {.sign = 0};
    compare_rows(m->table, m->a.owner, m->b.owner, &d);
    sqlite3_reset(m->a.owner);
    for (int t = 0; t < N_DB_TABLES; t++) {
        if (belongs(m, t)) {
            compare_members(m, (DbTable)t, &d);
        }
    }
    m->done.n_known += d.sign == 0;
    if (d.both) {
        tell_conflict(m, &d);
    }
    if (d.sign < 0) {
        take_over(m);
    }
}

static void merge_body(Env *e, void *arg)
{
    Merging *m = arg;
    (void)e;
    for (int t = 0; t < N_DB_TABLES; t++) {
        if (db_table[t].owner == (DbTable)t) {
            m->table = (DbTable)t;
            begin_table(m);
            while (step(m->from, m->b.owner) == SQLITE_ROW) {
                merge_record(m);
            }
            end_table(m);
        }
    }
}

static void merge_transaction(Env *e, void *arg)
{
    Merging *m = arg;
    (void)e;
    db_transact(m->into, merge_body, m);
}

static void end_merge(void *arg)
{
    Merging *m = arg;
    end_table(m);
    db_close(m->from);
}

DbMerged db_merge(Db *into, const char *path, DbComplain *complain, void *ctx)
{
    Merging m = {.into = into, .complain = complain, .ctx = ctx};
    m.from = db_must_open(into->e, path, DB_READ);
    sqlite3_exec(m.from->sql, "BEGIN", NULL, NULL, NULL); /* one state of it, whoever writes */
    env_finally(into->e, merge_transaction, end_merge, &m);
    return m.done;
}
