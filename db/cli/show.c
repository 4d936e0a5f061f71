/* show.c - the rows of a statement in four formats. Text and markdown are aligned, so all
 * rows are kept; CSV and JSON are written as they come. */
#include <string.h>

#include "db/cli/cli.h"

/* ---- aligned ---- */

/* The rows, and which columns hold nothing but numbers. */
static void keep_rows(DbSql *q, Table *t, bool *number)
{
    int n = t->n_columns;
    for (int i = 0; i < n; i++) {
        number[i] = true;
    }
    while (db_sql_next(q)) {
        for (int i = 0; i < n; i++) {
            DbCell c = db_sql_cell(q, i);
            number[i] = number[i] && c.kind != DB_TEXT;
            table_cell(t, "%s", c.text);
        }
    }
}

static void show_aligned(SchedbOptions *o, DbSql *q, Format f)
{
    Arena *a = &o->e->kernel;
    int n = db_sql_columns(q);
    const char **name = arena_array(a, const char *, n);
    bool *number = arena_array(a, bool, n);
    Table t;
    Buf out;
    for (int i = 0; i < n; i++) {
        name[i] = arena_str(a, db_sql_name(q, i));
    }
    table_init(&t, a, "rows", n, name);
    keep_rows(q, &t, number);
    for (int i = 0; i < n; i++) {
        t.column[i] = number[i] ? arena_printf(a, "#%s", name[i]) : name[i];
    }
    buf_init(&out, a);
    table_print(&t, f, &out);
    write_out(o, out.at, out.len);
}

static void show_text(SchedbOptions *o, DbSql *q)
{
    show_aligned(o, q, FORMAT_TEXT);
}

static void show_md(SchedbOptions *o, DbSql *q)
{
    show_aligned(o, q, FORMAT_MD);
}

/* ---- as they come ---- */

static void show_csv(SchedbOptions *o, DbSql *q)
{
    db_write_csv(q, write_out, o);
}

static void show_json(SchedbOptions *o, DbSql *q)
{
    db_write_json(q, "rows", write_out, o);
}

static const struct {
    const char *format;
    void (*show)(SchedbOptions *o, DbSql *q);
} formats[] = {{"text", show_text}, {"md", show_md}, {"csv", show_csv}, {"json", show_json}};

void show_query(SchedbOptions *o, const char *sql)
{
    DbSql *q = db_sql(o->db, sql);
    const char *format = o->format ? o->format : "text";
    for (size_t i = 0; i < countof(formats); i++) {
        if (!strcmp(formats[i].format, format)) {
            formats[i].show(o, q);
            return;
        }
    }
    fail(o->e, E_INPUT, "A query is shown as text, md, csv or json, not as '%s'.", format);
}
