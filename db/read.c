/* read.c - finding rows: the queries of db.h as cursors over plain structs. A query's
 * statement is prepared once; a second cursor over the same query gets one of its own. */
#include "db/db_int.h"

static const struct {
    DbTable table;
    const char *clause;
} queries[N_DB_QUERIES] = {
#define X(id, table, clause) {DB_T_##table, clause},
    DB_QUERIES(X)
#undef X
};

static sqlite3_stmt *select_rows(Db *db, DbQuery q)
{
    Buf b;
    DbTable t = queries[q].table;
    buf_init(&b, &db->e->model); /* once a query */
    row_select(t, &b);
    buf_printf(&b, " %s", queries[q].clause);
    return prepared(db, b.at);
}

DbCursor db_find(Db *db, DbQuery q, const int64_t *arg, int n)
{
    DbCursor c = {.db = db, .table = queries[q].table};
    if (!db->query[q]) {
        db->query[q] = select_rows(db, q);
    }
    c.own = sqlite3_stmt_busy(db->query[q]);
    c.stmt = c.own ? prepared(db, sqlite3_sql(db->query[q])) : db->query[q];
    check(n == sqlite3_bind_parameter_count(c.stmt));
    for (int i = 0; i < n; i++) {
        sqlite3_bind_int64(c.stmt, i + 1, arg[i]);
    }
    return c;
}

void db_end(DbCursor *c)
{
    if (c->stmt) {
        sqlite3_reset(c->stmt);
        if (c->own) {
            sqlite3_finalize(c->stmt);
        }
        c->stmt = NULL;
    }
}

typedef struct Reading {
    DbCursor *c;
    Arena *a;
    void *row;
} Reading;

static void read_body(Env *e, void *arg)
{
    Reading *r = arg;
    (void)e;
    row_read(r->c->stmt, r->c->table, r->a, r->row);
}

bool db_next(DbCursor *c, Arena *a, void *row)
{
    int code = sqlite3_step(c->stmt);
    if (code == SQLITE_ROW) {
        Reading r = {c, a, row};
        if (!env_try(c->db->e, read_body, &r)) {
            Err err = c->db->e->err;
            db_end(c);
            fail_err(c->db->e, &err);
        }
        return true;
    }
    Err err;
    bool ok = code == SQLITE_DONE || sqlite_error(c->db->sql, code, "read", c->db->path, &err);
    db_end(c);
    if (!ok) {
        fail_err(c->db->e, &err);
    }
    return false;
}

bool db_one(Db *db, DbQuery q, const int64_t *arg, int n, Arena *a, void *row)
{
    DbCursor c = db_find(db, q, arg, n);
    bool found = db_next(&c, a, row);
    db_end(&c);
    return found;
}

int64_t db_count(Db *db, DbTable t)
{
    char text[96];
    int64_t n = 0;
    snprintf(text, sizeof text, "SELECT count(*) FROM %s", db_table[t].name);
    if (!sqlite_number(db->sql, text, &n)) {
        db_fail(db, sqlite3_extended_errcode(db->sql), "read");
    }
    return n;
}
