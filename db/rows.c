/* rows.c - the tables as data, expanded from the lists in db.h: binding, reading and
 * printing a row walks over its columns. A struct's fields follow one another without gaps,
 * in the order of its columns, which is that of schema.sql. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "db/db_int.h"

#define COLUMN(kind, name) {#name, KIND_##kind},
#define X(list, type, table, n_key, owner) \
    static const DbColumn columns_##list[] = {DB_##list(COLUMN)};
DB_TABLES(X)
#undef X
#undef COLUMN

#define SIZE(kind, name) +sizeof(Db##kind)
#define X(list, type, table, n_key, owner) \
    _Static_assert(sizeof(type) == 0 DB_##list(SIZE), #type " has gaps");
DB_TABLES(X)
#undef X
#undef SIZE

const DbTableInfo db_table[N_DB_TABLES] = {
#define X(list, type, table, n_key, owner) \
    {#table, columns_##list, (int)countof(columns_##list), n_key, DB_T_##owner, sizeof(type)},
    DB_TABLES(X)
#undef X
};

/* ---- the kinds of columns ---- */

bool hash_read(const char *hex, Hash *out)
{
    uint64_t half[2] = {0, 0};
    for (int i = 0; i < 32; i++) {
        char c = hex[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) {
            return false;
        }
        half[i / 16] = half[i / 16] << 4 | (uint64_t)digit;
    }
    *out = (Hash){half[0], half[1]};
    return hex[32] == '\0';
}

static void blank_int(void *at)
{
    *(DbINT *)at = DB_NONE;
}

static void blank_real(void *at)
{
    *(DbREAL *)at = NAN;
}

static void blank_text(void *at)
{
    *(DbTEXT *)at = NULL;
}

static void blank_hash(void *at)
{
    *(DbHASH *)at = (Hash){0, 0};
}

static int bind_int(sqlite3_stmt *s, int place, const void *at)
{
    DbINT v = *(const DbINT *)at;
    return v == DB_NONE ? SQLITE_OK : sqlite3_bind_int64(s, place, v);
}

static int bind_real(sqlite3_stmt *s, int place, const void *at)
{
    DbREAL v = *(const DbREAL *)at;
    return isnan(v) ? SQLITE_OK : sqlite3_bind_double(s, place, v);
}

static int bind_text(sqlite3_stmt *s, int place, const void *at)
{
    DbTEXT v = *(const DbTEXT *)at;
    return v ? sqlite3_bind_text(s, place, v, -1, SQLITE_STATIC) : SQLITE_OK;
}

static int bind_hash(sqlite3_stmt *s, int place, const void *at)
{
    Hash h = *(const DbHASH *)at;
    char hex[33];
    hash_hex(h, hex);
    return h.hi || h.lo ? sqlite3_bind_text(s, place, hex, 32, SQLITE_TRANSIENT) : SQLITE_OK;
}

static void read_int(sqlite3_stmt *s, int place, Arena *a, void *at)
{
    (void)a;
    *(DbINT *)at = sqlite3_column_int64(s, place);
}

static void read_real(sqlite3_stmt *s, int place, Arena *a, void *at)
{
    (void)a;
    *(DbREAL *)at = sqlite3_column_double(s, place);
}

/* Of a value that is not NULL: without memory SQLite gives NULL too. */
static const char *column_text(sqlite3_stmt *s, int place, Arena *a)
{
    const char *text = (const char *)sqlite3_column_text(s, place);
    if (!text) {
        fail(a->env, E_NOMEM, "Out of memory in reading the schedule database.");
    }
    return text;
}

static void read_text(sqlite3_stmt *s, int place, Arena *a, void *at)
{
    *(DbTEXT *)at = arena_str(a, column_text(s, place, a));
}

/* What is no hash is read as none: `verify` finds it. */
static void read_hash(sqlite3_stmt *s, int place, Arena *a, void *at)
{
    const char *text = column_text(s, place, a);
    if (strlen(text) != 32 || !hash_read(text, at)) {
        blank_hash(at);
    }
}

static void print_int(const void *at, Buf *out)
{
    DbINT v = *(const DbINT *)at;
    if (v == DB_NONE) {
        buf_char(out, '-');
    } else {
        buf_printf(out, "%" PRId64, v);
    }
}

static void print_real(const void *at, Buf *out)
{
    DbREAL v = *(const DbREAL *)at;
    if (isnan(v)) {
        buf_char(out, '-');
    } else {
        buf_printf(out, "%.17g", v == 0 ? 0 : v); /* SQLite keeps no sign of zero */
    }
}

static void print_text(const void *at, Buf *out)
{
    DbTEXT v = *(const DbTEXT *)at;
    if (v) {
        buf_json(out, v, strlen(v));
    } else {
        buf_char(out, '-');
    }
}

static void print_hash(const void *at, Buf *out)
{
    char hex[33];
    hash_hex(*(const DbHASH *)at, hex);
    buf_str(out, hex);
}

static const struct {
    size_t bytes;
    void (*blank)(void *at);
    int (*bind)(sqlite3_stmt *s, int place, const void *at);
    void (*read)(sqlite3_stmt *s, int place, Arena *a, void *at);
    void (*print)(const void *at, Buf *out);
} kinds[N_DB_KINDS] = {
    [KIND_INT] = {sizeof(DbINT), blank_int, bind_int, read_int, print_int},
    [KIND_REAL] = {sizeof(DbREAL), blank_real, bind_real, read_real, print_real},
    [KIND_TEXT] = {sizeof(DbTEXT), blank_text, bind_text, read_text, print_text},
    [KIND_HASH] = {sizeof(DbHASH), blank_hash, bind_hash, read_hash, print_hash},
};

/* ---- rows ---- */

void db_blank(DbTable t, void *row)
{
    char *at = row;
    for (int i = 0; i < db_table[t].n_columns; i++) {
        DbKind k = db_table[t].column[i].kind;
        kinds[k].blank(at);
        at += kinds[k].bytes;
    }
}

int row_bind(sqlite3_stmt *s, DbTable t, const void *row)
{
    const char *at = row;
    int code = sqlite3_clear_bindings(s);
    for (int i = 0; !code && i < db_table[t].n_columns; i++) {
        DbKind k = db_table[t].column[i].kind;
        code = kinds[k].bind(s, i + 1, at);
        at += kinds[k].bytes;
    }
    return code;
}

void row_read(sqlite3_stmt *s, DbTable t, Arena *a, void *row)
{
    char *at = row;
    for (int i = 0; i < db_table[t].n_columns; i++) {
        DbKind k = db_table[t].column[i].kind;
        if (sqlite3_column_type(s, i) == SQLITE_NULL) {
            kinds[k].blank(at);
        } else {
            kinds[k].read(s, i, a, at);
        }
        at += kinds[k].bytes;
    }
}

void row_text(DbTable t, const void *row, int first, Buf *out)
{
    const char *at = row;
    for (int i = 0; i < db_table[t].n_columns; i++) {
        DbKind k = db_table[t].column[i].kind;
        if (i >= first) {
            buf_printf(out, "%s=", db_table[t].column[i].name);
            kinds[k].print(at, out);
            buf_char(out, '\n');
        }
        at += kinds[k].bytes;
    }
}

void row_cell(DbTable t, const void *row, int column, Buf *out)
{
    const char *at = row;
    for (int i = 0; i < column; i++) {
        at += kinds[db_table[t].column[i].kind].bytes;
    }
    kinds[db_table[t].column[column].kind].print(at, out);
}

/* Sums in another order differ in their last digits. */
static bool same_real(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b));
}

bool cells_agree(DbTable t, const void *a, const void *b, int column)
{
    const char *p = a, *q = b;
    const DbColumn *c = db_table[t].column;
    for (int i = 0; i < column; i++) {
        p += kinds[c[i].kind].bytes;
        q += kinds[c[i].kind].bytes;
    }
    switch (c[column].kind) {
    case KIND_INT: return *(const DbINT *)p == *(const DbINT *)q;
    case KIND_REAL: return same_real(*(const DbREAL *)p, *(const DbREAL *)q);
    case KIND_TEXT: return !strcmp(*(const DbTEXT *)p, *(const DbTEXT *)q);
    default: return hash_eq(*(const DbHASH *)p, *(const DbHASH *)q);
    }
}

void row_columns(DbTable t, Buf *out)
{
    for (int i = 0; i < db_table[t].n_columns; i++) {
        buf_printf(out, "%s%s", i ? ", " : "", db_table[t].column[i].name);
    }
}

void row_select(DbTable t, Buf *out)
{
    buf_str(out, "SELECT ");
    row_columns(t, out);
    buf_printf(out, " FROM %s", db_table[t].name);
}

void row_order(DbTable t, Buf *out)
{
    for (int i = 0; i < db_table[t].n_key; i++) {
        buf_printf(out, "%s%s", i ? ", " : " ORDER BY ", db_table[t].column[i].name);
    }
}
