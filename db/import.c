/* import.c - the JSON of export.c back. It becomes a database of its own first, which must pass
 * `verify`, and is merged then: so everything comes over or nothing does. */
#include <string.h>

#include "db/db_int.h"

typedef struct Import {
    Db *into;
    const char *folder, *path; /* of the database of its own */
    Db *own;
    const char *text, *file;
    size_t len;
    DbComplain *complain;
    void *ctx;
    char first[400]; /* of verify's complaints */
    DbMerged done;
} Import;

static void keep_first(void *ctx, const char *sentence)
{
    Import *m = ctx;
    if (!*m->first) {
        snprintf(m->first, sizeof m->first, "%s", sentence);
    }
}

/* Where it is not JSON, SQLite tells at the first look. */
static void check_outside(Env *e, Import *m)
{
    sqlite3_stmt *s =
        prepared(m->own, "SELECT json_valid(?1), json_extract(?1, '$.nanocompile_schedules')");
    sqlite3_bind_text(s, 1, m->text, (int)m->len, SQLITE_STATIC);
    bool valid = sqlite3_step(s) == SQLITE_ROW && sqlite3_column_int(s, 0);
    int64_t version = valid ? sqlite3_column_int64(s, 1) : 0;
    sqlite3_finalize(s);
    if (!valid) {
        fail(e, E_SYNTAX, "%s is not well-formed JSON.", m->file);
    }
    if (version < 1 || version > DB_VERSION) { /* what a later one added may be NULL */
        fail(e, E_SYNTAX, "%s is no export of a schedule database of version 1 to %d.", m->file,
             DB_VERSION);
    }
}

static void import_table(Env *e, Import *m, DbTable t)
{
    Buf b;
    buf_init(&b, work(m->own));
    buf_printf(&b, "INSERT INTO %s (", db_table[t].name);
    row_columns(t, &b);
    buf_str(&b, ") SELECT ");
    for (int i = 0; i < db_table[t].n_columns; i++) {
        buf_printf(&b, "%sjson_extract(value, '$.%s')", i ? ", " : "",
                   db_table[t].column[i].name);
    }
    buf_printf(&b, " FROM json_each(?1, '$.%s')", db_table[t].name);
    sqlite3_stmt *s = prepared(m->own, b.at);
    sqlite3_bind_text(s, 1, m->text, (int)m->len, SQLITE_STATIC);
    int code = sqlite3_step(s);
    char why[300];
    snprintf(why, sizeof why, "%s", sqlite3_errmsg(m->own->sql));
    sqlite3_finalize(s);
    if (code != SQLITE_DONE) {
        fail(e, E_INPUT, "%s: the rows of %s cannot be taken over: %s.", m->file,
             db_table[t].name, why);
    }
}

static void fill_body(Env *e, void *arg)
{
    Import *m = arg;
    for (int t = 0; t < N_DB_TABLES; t++) {
        import_table(e, m, (DbTable)t);
    }
}

static void import_body(Env *e, void *arg)
{
    Import *m = arg;
    m->own = db_must_open(e, m->path, DB_WRITE);
    check_outside(e, m);
    db_transact(m->own, fill_body, m);
    int64_t n = db_verify(m->own, NULL, keep_first, m);
    if (n) {
        fail(e, E_INPUT, "%s has %lld faults; the first: %s", m->file, (long long)n, m->first);
    }
    db_close(m->own);
    m->own = NULL;
    m->done = db_merge(m->into, m->path, m->complain, m->ctx);
}

static void clean_up(void *arg)
{
    Import *m = arg;
    db_close(m->own);
    remove_aside(m->folder);
}

DbMerged db_import_json(Db *db, const char *text, size_t len, const char *file,
                        DbComplain *complain, void *ctx)
{
    Env *e = db->e;
    Import m = {
        .into = db, .text = text, .len = len, .file = file, .complain = complain, .ctx = ctx};
    if (len > INT_MAX / 2) {
        fail(e, E_INPUT, "%s is larger than the limit of %d bytes.", file, INT_MAX / 2);
    }
    Err err;
    m.folder = folder_aside(e, file, &err);
    if (!m.folder) {
        fail_err(e, &err);
    }
    m.path = arena_printf(&e->model, "%s/copy.db", m.folder);
    env_finally(e, import_body, clean_up, &m);
    return m.done;
}
