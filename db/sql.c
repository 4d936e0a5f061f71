/* sql.c - one reading statement of the user's or of a report, cell by cell. */
#include <string.h>

#include "db/db_int.h"

struct DbSql {
    Db *db;
    sqlite3_stmt *stmt;
};

Db *sql_db(const DbSql *q)
{
    return q->db;
}

static bool only_blanks(const char *s)
{
    return s[strspn(s, " \t\r\n;")] == '\0';
}

/* Attaching changes no file, and still opens one. */
static int authorize(void *ctx, int action, const char *a, const char *b, const char *c,
                     const char *d)
{
    (void)ctx, (void)a, (void)b, (void)c, (void)d;
    return action == SQLITE_ATTACH || action == SQLITE_DETACH ? SQLITE_DENY : SQLITE_OK;
}

DbSql *db_sql(Db *db, const char *sql)
{
    DbSql *q = arena_new(&db->e->model, DbSql);
    const char *rest = "";
    q->db = db;
    sqlite3_set_authorizer(db->sql, authorize, NULL);
    int code = sqlite3_prepare_v2(db->sql, sql, -1, &q->stmt, &rest);
    sqlite3_set_authorizer(db->sql, NULL, NULL);
    if (code) {
        fail(db->e, E_INPUT, "Cannot query %s: %s.", db->path, sqlite3_errmsg(db->sql));
    }
    const char *wrong = !q->stmt                          ? "there is no statement"
                        : !sqlite3_stmt_readonly(q->stmt) ? "the statement would change it"
                        : !only_blanks(rest)              ? "there is more than one statement"
                                                          : NULL;
    if (wrong) {
        sqlite3_finalize(q->stmt);
        fail(db->e, E_INPUT, "Cannot query %s: %s.", db->path, wrong);
    }
    return q;
}

void db_sql_bind_int(DbSql *q, int place, int64_t v)
{
    sqlite3_bind_int64(q->stmt, place, v);
}

void db_sql_bind_text(DbSql *q, int place, const char *v)
{
    must_bind(q->db, sqlite3_bind_text(q->stmt, place, v, -1, SQLITE_TRANSIENT));
}

int db_sql_columns(const DbSql *q)
{
    return sqlite3_column_count(q->stmt);
}

const char *db_sql_name(const DbSql *q, int column)
{
    return sqlite3_column_name(q->stmt, column);
}

void db_sql_end(DbSql *q)
{
    sqlite3_finalize(q->stmt);
    q->stmt = NULL;
}

bool db_sql_next(DbSql *q)
{
    int code = sqlite3_step(q->stmt);
    if (code == SQLITE_ROW) {
        return true;
    }
    Err err;
    bool ok = code == SQLITE_DONE || sqlite_error(q->db->sql, code, "query", q->db->path, &err);
    db_sql_end(q);
    if (!ok) {
        fail_err(q->db->e, &err);
    }
    return false;
}

DbCell db_sql_cell(const DbSql *q, int column)
{
    static const DbCellKind kind[] = {[SQLITE_INTEGER] = DB_INT,
                                      [SQLITE_FLOAT] = DB_REAL,
                                      [SQLITE_TEXT] = DB_TEXT,
                                      [SQLITE_BLOB] = DB_TEXT,
                                      [SQLITE_NULL] = DB_NULL};
    DbCell c = {.kind = kind[sqlite3_column_type(q->stmt, column)],
                .i = sqlite3_column_int64(q->stmt, column),
                .r = sqlite3_column_double(q->stmt, column)};
    const char *text = (const char *)sqlite3_column_text(q->stmt, column);
    c.text = text ? text : "";
    return c;
}
