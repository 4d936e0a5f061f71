/* table.c - one listing, four formats: aligned text, markdown, CSV, JSON. */
#include <math.h>
#include <string.h>

#include "cli/cli.h"

void table_init(Table *t, Arena *a, const char *name, int n_columns, const char *const *columns)
{
    *t = (Table){.arena = a, .name = name, .n_columns = n_columns};
    check(n_columns <= (int)countof(t->column));
    for (int i = 0; i < n_columns; i++) {
        t->column[i] = columns[i];
    }
}

void table_cell(Table *t, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int len = vsnprintf(NULL, 0, fmt, ap);
    char *text = arena_alloc(t->arena, (size_t)len + 1);
    vsnprintf(text, (size_t)len + 1, fmt, again);
    va_end(again);
    va_end(ap);
    *vec_push(t->arena, &t->cell) = text;
}

void table_number(Table *t, double v, const char *fmt)
{
    char text[32];
    snprintf(text, sizeof text, fmt, v);
    table_cell(t, "%s", isfinite(v) ? text : "");
}

static bool is_number(const Table *t, int column)
{
    return t->column[column][0] == '#';
}

static const char *heading(const Table *t, int column)
{
    return t->column[column] + is_number(t, column);
}

static int n_rows(const Table *t)
{
    return t->cell.n / t->n_columns;
}

static const char *cell(const Table *t, int row, int column)
{
    return row < 0 ? heading(t, column) : t->cell.at[row * t->n_columns + column];
}

static void pad(Buf *out, size_t n, char c)
{
    for (size_t i = 0; i < n; i++) {
        buf_char(out, c);
    }
}

/* Row -1 is the heading. The last column is not padded. */
static void aligned_row(const Table *t, int row, const size_t *width, const char *between,
                        Buf *out)
{
    for (int c = 0; c < t->n_columns; c++) {
        const char *text = cell(t, row, c);
        size_t gap = width[c] - strlen(text);
        pad(out, is_number(t, c) ? gap : 0, ' ');
        buf_str(out, text);
        bool last = c == t->n_columns - 1;
        pad(out, is_number(t, c) || (last && between[1] == ' ') ? 0 : gap, ' ');
        buf_str(out, last ? "" : between);
    }
}

static void print_aligned(const Table *t, bool md, Buf *out)
{
    size_t width[countof(t->column)] = {0};
    for (int row = -1; row < n_rows(t); row++) {
        for (int c = 0; c < t->n_columns; c++) {
            size_t len = strlen(cell(t, row, c));
            width[c] = len > width[c] ? len : width[c];
        }
    }
    for (int row = -1; row < n_rows(t); row++) {
        buf_str(out, md ? "| " : "");
        aligned_row(t, row, width, md ? " | " : "  ", out);
        buf_str(out, md ? " |\n" : "\n");
        for (int c = 0; md && row < 0 && c < t->n_columns; c++) {
            buf_str(out, c ? " " : "| ");
            pad(out, width[c] - 1, '-');
            buf_str(out, is_number(t, c) ? ": |" : "- |");
        }
        buf_str(out, md && row < 0 ? "\n" : "");
    }
}

static void print_text(const Table *t, Buf *out)
{
    print_aligned(t, false, out);
}

/* A bar within a cell would end it. */
static Table with_bars_escaped(const Table *t)
{
    Table out = *t;
    out.cell.at = arena_array(t->arena, const char *, t->cell.n);
    for (int i = 0; i < t->cell.n; i++) {
        Buf b;
        buf_init(&b, t->arena);
        for (const char *p = t->cell.at[i]; *p; p++) {
            buf_str(&b, *p == '|' ? "\\" : "");
            buf_char(&b, *p);
        }
        out.cell.at[i] = b.at;
    }
    return out;
}

static void print_md(const Table *t, Buf *out)
{
    Table escaped = with_bars_escaped(t);
    print_aligned(&escaped, true, out);
}

static void print_csv(const Table *t, Buf *out)
{
    for (int row = -1; row < n_rows(t); row++) {
        for (int c = 0; c < t->n_columns; c++) {
            const char *text = cell(t, row, c);
            bool quoted = strpbrk(text, ",\"\r\n") != NULL;
            buf_str(out, c ? "," : "");
            buf_str(out, quoted ? "\"" : "");
            for (const char *p = text; *p; p++) {
                buf_str(out, *p == '"' ? "\"" : "");
                buf_char(out, *p);
            }
            buf_str(out, quoted ? "\"" : "");
        }
        buf_char(out, '\n');
    }
}

static void print_json(const Table *t, Buf *out)
{
    buf_printf(out, "{\"%s\": [", t->name);
    for (int row = 0; row < n_rows(t); row++) {
        buf_str(out, row ? ",\n  {" : "\n  {");
        for (int c = 0; c < t->n_columns; c++) {
            const char *text = cell(t, row, c);
            buf_str(out, c ? ", " : "");
            buf_json(out, heading(t, c), strlen(heading(t, c)));
            buf_str(out, ": ");
            if (is_number(t, c) && *text) {
                buf_str(out, text);
            } else if (*text) {
                buf_json(out, text, strlen(text));
            } else {
                buf_str(out, "null");
            }
        }
        buf_char(out, '}');
    }
    buf_str(out, "\n]}\n");
}

void table_print(const Table *t, Format format, Buf *out)
{
    static void (*const print[])(const Table *t, Buf *out) = {[FORMAT_TEXT] = print_text,
                                                              [FORMAT_MD] = print_md,
                                                              [FORMAT_CSV] = print_csv,
                                                              [FORMAT_JSON] = print_json};
    print[format](t, out);
}
