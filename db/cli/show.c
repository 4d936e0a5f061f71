/* show.c - the rows of a statement in four formats. Text and markdown are aligned, so all
 * rows are kept; CSV and JSON are written as they come. */
#include <string.h>

#include "db/cli/cli.h"

typedef struct Rows {
    SchedbOptions *o;
    DbSql *q;
    int n_columns;
    Vec(const char *) cell; /* the first row is the names */
    Vec(bool) number;
    Buf b;
} Rows;

static void flush(Rows *r, size_t from)
{
    if (r->b.len >= from) {
        write_out(r->o, r->b.at, r->b.len);
        buf_clear(&r->b);
    }
}

enum { PIECE = 1 << 16 };

/* ---- aligned ---- */

static void keep_rows(Rows *r)
{
    Arena *a = &r->o->e->kernel;
    for (int i = 0; i < r->n_columns; i++) {
        *vec_push(a, &r->cell) = arena_str(a, db_sql_name(r->q, i));
        *vec_push(a, &r->number) = false;
    }
    while (db_sql_next(r->q)) {
        for (int i = 0; i < r->n_columns; i++) {
            DbCell c = db_sql_cell(r->q, i);
            *vec_push(a, &r->cell) = arena_str(a, c.text);
            *vec_push(a, &r->number) = c.kind == DB_INT || c.kind == DB_REAL;
        }
    }
}

/* In characters: continuation bytes of UTF-8 do not count. */
static size_t width_of(const char *s)
{
    size_t n = 0;
    for (; *s; s++) {
        n += ((unsigned char)*s & 0xc0) != 0x80;
    }
    return n;
}

static void fill(Buf *b, size_t n, char c)
{
    for (size_t i = 0; i < n; i++) {
        buf_char(b, c);
    }
}

/* What would break the line, or in markdown the cell, is shown as an escape. */
static const char *one_line(Arena *a, const char *s, bool md)
{
    if (!strpbrk(s, md ? "|\n\r\t" : "\n\r\t")) {
        return s;
    }
    Buf b;
    buf_init(&b, a);
    for (; *s; s++) {
        const char *escape = *s == '\n'   ? "\\n"
                             : *s == '\r' ? "\\r"
                             : *s == '\t' ? "\\t"
                                          : NULL;
        buf_str(&b, escape ? escape : *s == '|' && md ? "\\" : "");
        if (!escape) {
            buf_char(&b, *s);
        }
    }
    return b.at;
}

static void aligned_row(Rows *r, int row, const size_t *width, bool md)
{
    buf_str(&r->b, md ? "| " : "");
    for (int i = 0; i < r->n_columns; i++) {
        const char *text = r->cell.at[row * r->n_columns + i];
        bool right = r->number.at[row * r->n_columns + i], last = i == r->n_columns - 1;
        size_t gap = width[i] - width_of(text);
        fill(&r->b, right ? gap : 0, ' ');
        buf_str(&r->b, text);
        fill(&r->b, right || (last && !md) ? 0 : gap, ' ');
        buf_str(&r->b, !last ? (md ? " | " : "  ") : md ? " |" : "");
    }
    buf_char(&r->b, '\n');
}

static void show_aligned(Rows *r, bool md)
{
    Arena *a = &r->o->e->kernel;
    size_t *width = arena_array(a, size_t, r->n_columns);
    keep_rows(r);
    for (int i = 0; i < r->cell.n; i++) {
        r->cell.at[i] = one_line(a, r->cell.at[i], md);
        size_t n = width_of(r->cell.at[i]);
        width[i % r->n_columns] = n > width[i % r->n_columns] ? n : width[i % r->n_columns];
    }
    for (int row = 0; row < r->cell.n / r->n_columns; row++) {
        aligned_row(r, row, width, md);
        for (int i = 0; md && row == 0 && i < r->n_columns; i++) {
            buf_str(&r->b, i ? " | " : "| ");
            fill(&r->b, width[i], '-');
            buf_str(&r->b, i == r->n_columns - 1 ? " |\n" : "");
        }
        flush(r, PIECE);
    }
}

static void show_text(Rows *r)
{
    show_aligned(r, false);
}

static void show_md(Rows *r)
{
    show_aligned(r, true);
}

/* ---- as they come ---- */

static void show_csv(Rows *r)
{
    db_write_csv(r->q, write_out, r->o);
}

static void show_json(Rows *r)
{
    db_write_json(r->q, "rows", write_out, r->o);
}

static const struct {
    const char *format;
    void (*show)(Rows *r);
} formats[] = {{"text", show_text}, {"md", show_md}, {"csv", show_csv}, {"json", show_json}};

void show_query(SchedbOptions *o, const char *sql)
{
    Rows r = {.o = o, .q = db_sql(o->db, sql)};
    const char *format = o->format ? o->format : "text";
    r.n_columns = db_sql_columns(r.q);
    buf_init(&r.b, &o->e->kernel);
    for (size_t i = 0; i < countof(formats); i++) {
        if (!strcmp(formats[i].format, format)) {
            formats[i].show(&r);
            flush(&r, 1);
            return;
        }
    }
    fail(o->e, E_INPUT, "A query is shown as text, md, csv or json, not as '%s'.", format);
}
