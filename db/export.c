/* export.c - a table or view as CSV, and the whole database as JSON: an object with an array
 * for each table, whose objects have the table's columns. Piece by piece, so that size does
 * not matter. */
#include <string.h>

#include "db/db_int.h"

typedef struct Writing {
    Db *db;
    DbWrite *write;
    void *ctx;
    Buf b;
} Writing;

enum { PIECE = 1 << 16 };

static void write_piece(Writing *w, size_t from)
{
    if (w->b.len >= from) {
        w->write(w->ctx, w->b.at, w->b.len);
        buf_clear(&w->b);
    }
}

static Writing begin(Db *db, DbWrite *write, void *ctx)
{
    Writing w = {.db = db, .write = write, .ctx = ctx};
    buf_init(&w.b, scratch(db));
    return w;
}

/* ---- CSV ---- */

static void csv_cell(const char *text, Buf *out)
{
    bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    buf_str(out, quoted ? "\"" : "");
    for (; *text; text++) {
        buf_str(out, *text == '"' ? "\"" : "");
        buf_char(out, *text);
    }
    buf_str(out, quoted ? "\"" : "");
}

static bool is_relation(Db *db, const char *name)
{
    DbSql *q =
        db_sql(db, "SELECT 1 FROM sqlite_schema WHERE type IN ('table', 'view') AND name = ?1");
    db_sql_bind_text(q, 1, name);
    bool found = db_sql_next(q);
    if (found) {
        db_sql_end(q);
    }
    return found;
}

void db_write_csv(DbSql *q, DbWrite *write, void *ctx)
{
    Writing w = begin(sql_db(q), write, ctx);
    int n = db_sql_columns(q);
    for (int i = 0; i < n; i++) {
        buf_str(&w.b, i ? "," : "");
        csv_cell(db_sql_name(q, i), &w.b);
    }
    buf_char(&w.b, '\n');
    while (db_sql_next(q)) {
        for (int i = 0; i < n; i++) {
            buf_str(&w.b, i ? "," : "");
            csv_cell(db_sql_cell(q, i).text, &w.b);
        }
        buf_char(&w.b, '\n');
        write_piece(&w, PIECE);
    }
    write_piece(&w, 1);
}

void db_export_csv(Db *db, const char *view, DbWrite *write, void *ctx)
{
    if (!is_relation(db, view)) {
        fail(db->e, E_INPUT, "%s has no table or view '%s'.", db->path, view);
    }
    db_write_csv(db_sql(db, arena_printf(work(db), "SELECT * FROM \"%s\"", view)), write, ctx);
}

/* ---- JSON ---- */

static void json_cell(DbCell c, Buf *out)
{
    if (c.kind == DB_NULL) {
        buf_str(out, "null");
    } else if (c.kind == DB_TEXT) {
        buf_json(out, c.text, strlen(c.text));
    } else if (c.kind == DB_INT) {
        buf_str(out, c.text);
    } else {
        buf_printf(out, "%.17g", c.r);
    }
}

static void json_rows(Writing *w, DbSql *q)
{
    int n = db_sql_columns(q);
    buf_char(&w->b, '[');
    for (int row = 0; db_sql_next(q); row++) {
        buf_str(&w->b, row ? ",\n  {" : "\n  {");
        for (int i = 0; i < n; i++) {
            const char *name = db_sql_name(q, i);
            buf_str(&w->b, i ? ", " : "");
            buf_json(&w->b, name, strlen(name));
            buf_str(&w->b, ": ");
            json_cell(db_sql_cell(q, i), &w->b);
        }
        buf_char(&w->b, '}');
        write_piece(w, PIECE);
    }
    buf_char(&w->b, ']');
}

void db_write_json(DbSql *q, const char *name, DbWrite *write, void *ctx)
{
    Writing w = begin(sql_db(q), write, ctx);
    buf_printf(&w.b, "{\"%s\": ", name);
    json_rows(&w, q);
    buf_str(&w.b, "}\n");
    write_piece(&w, 1);
}

static void json_table(Writing *w, DbTable t)
{
    Buf sql;
    buf_init(&sql, work(w->db));
    row_select(t, &sql);
    row_order(t, &sql);
    buf_printf(&w->b, ",\n\"%s\": ", db_table[t].name);
    json_rows(w, db_sql(w->db, sql.at));
}

void db_export_json(Db *db, DbWrite *write, void *ctx)
{
    Writing w = begin(db, write, ctx);
    sqlite3_exec(db->sql, "BEGIN", NULL, NULL, NULL); /* one state, whoever writes */
    buf_printf(&w.b, "{\"nanocompile_schedules\": %d", DB_VERSION);
    for (int t = 0; t < N_DB_TABLES; t++) {
        json_table(&w, (DbTable)t);
    }
    buf_str(&w.b, "\n}\n");
    write_piece(&w, 1);
    sqlite3_exec(db->sql, "COMMIT", NULL, NULL, NULL);
}
