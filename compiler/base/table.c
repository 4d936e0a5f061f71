/* table.c - one listing, five formats: aligned text, markdown, CSV, JSON, TeX. Widths are counted in
 * characters of UTF-8; what would break a line of text or markdown is shown as an escape. */
#include <math.h>
#include <string.h>

#include "base/base.h"

const char *const format_name[N_FORMATS] = {
#define X(id, name) name,
    FORMATS(X)
#undef X
};

void table_init(Table *t, Arena *a, const char *name, int n_columns, const char *const *columns)
{
    *t = (Table){.arena = a, .name = name, .n_columns = n_columns};
    t->column = arena_array(a, const char *, n_columns);
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

bool table_is_number(const Table *t, int column)
{
    return t->column[column][0] == '#';
}

static const char *heading(const Table *t, int column)
{
    return t->column[column] + table_is_number(t, column);
}

int table_rows(const Table *t)
{
    return t->cell.n / t->n_columns;
}

const char *table_at(const Table *t, int row, int column)
{
    return row < 0 ? heading(t, column) : t->cell.at[row * t->n_columns + column];
}

/* Continuation bytes of UTF-8 do not count. */
static size_t width_of(const char *s)
{
    size_t n = 0;
    for (; *s; s++) {
        n += ((unsigned char)*s & 0xc0) != 0x80;
    }
    return n;
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
        const char *text = table_at(t, row, c);
        size_t gap = width[c] - width_of(text);
        pad(out, table_is_number(t, c) ? gap : 0, ' ');
        buf_str(out, text);
        bool last = c == t->n_columns - 1;
        pad(out, table_is_number(t, c) || (last && between[1] == ' ') ? 0 : gap, ' ');
        buf_str(out, last ? "" : between);
    }
}

static void print_aligned(const Table *t, bool md, Buf *out)
{
    size_t *width = arena_array(t->arena, size_t, t->n_columns);
    for (int c = 0; md && c < t->n_columns; c++) {
        width[c] = 2; /* of the rule below the headings, "-:" */
    }
    for (int row = -1; row < table_rows(t); row++) {
        for (int c = 0; c < t->n_columns; c++) {
            size_t len = width_of(table_at(t, row, c));
            width[c] = len > width[c] ? len : width[c];
        }
    }
    for (int row = -1; row < table_rows(t); row++) {
        buf_str(out, md ? "| " : "");
        aligned_row(t, row, width, md ? " | " : "  ", out);
        while (!md && out->len && out->at[out->len - 1] == ' ') {
            out->at[--out->len] = '\0'; /* the last cells may be empty */
        }
        buf_str(out, md ? " |\n" : "\n");
        for (int c = 0; md && row < 0 && c < t->n_columns; c++) {
            buf_str(out, c ? " " : "| ");
            pad(out, width[c] - 1, '-');
            buf_str(out, table_is_number(t, c) ? ": |" : "- |");
        }
        buf_str(out, md && row < 0 ? "\n" : "");
    }
}

/* A line's end within a cell would break the row, a bar would end the cell. */
static Table escaped(const Table *t, bool md)
{
    Table out = *t;
    out.cell.at = arena_array(t->arena, const char *, t->cell.n);
    for (int i = 0; i < t->cell.n; i++) {
        out.cell.at[i] = t->cell.at[i];
        if (strpbrk(t->cell.at[i], md ? "|\n\r\t" : "\n\r\t")) {
            Buf b;
            buf_init(&b, t->arena);
            for (const char *p = t->cell.at[i]; *p; p++) {
                bool line = strchr("\n\r\t", *p) != NULL;
                buf_str(&b, line || (md && *p == '|') ? "\\" : "");
                buf_char(&b, *p == '\n' ? 'n' : *p == '\r' ? 'r' : *p == '\t' ? 't' : *p);
            }
            out.cell.at[i] = b.at;
        }
    }
    return out;
}

static void print_text(const Table *t, Buf *out)
{
    Table e = escaped(t, false);
    print_aligned(&e, false, out);
}

static void print_md(const Table *t, Buf *out)
{
    Table e = escaped(t, true);
    print_aligned(&e, true, out);
}

static void print_csv(const Table *t, Buf *out)
{
    for (int row = -1; row < table_rows(t); row++) {
        for (int c = 0; c < t->n_columns; c++) {
            const char *text = table_at(t, row, c);
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

void table_json_member(const Table *t, Buf *out)
{
    buf_printf(out, "\"%s\": [", t->name);
    for (int row = 0; row < table_rows(t); row++) {
        buf_str(out, row ? ",\n  {" : "\n  {");
        for (int c = 0; c < t->n_columns; c++) {
            const char *text = table_at(t, row, c);
            buf_str(out, c ? ", " : "");
            buf_json(out, heading(t, c), strlen(heading(t, c)));
            buf_str(out, ": ");
            if (table_is_number(t, c) && *text) {
                buf_str(out, text);
            } else if (*text) {
                buf_json(out, text, strlen(text));
            } else {
                buf_str(out, "null");
            }
        }
        buf_char(out, '}');
    }
    buf_str(out, "\n]");
}

static void print_json(const Table *t, Buf *out)
{
    buf_char(out, '{');
    table_json_member(t, out);
    buf_str(out, "}\n");
}

void tex_text(Buf *out, const char *s)
{
    static const struct {
        char c;
        const char *tex;
    } special[] = {{'\\', "\\textbackslash{}"},
                   {'~', "\\textasciitilde{}"},
                   {'^', "\\textasciicircum{}"},
                   {'<', "\\textless{}"},
                   {'>', "\\textgreater{}"},
                   {'|', "\\textbar{}"},
                   {'\n', " "}};
    for (; *s; s++) {
        const char *tex = NULL;
        for (size_t i = 0; i < countof(special); i++) {
            tex = special[i].c == *s ? special[i].tex : tex;
        }
        buf_str(out, tex ? tex : strchr("&%$#_{}", *s) ? "\\" : "");
        if (!tex) {
            buf_char(out, *s);
        }
    }
}

static void print_tex(const Table *t, Buf *out)
{
    buf_str(out, "\\begin{tabular}{");
    for (int c = 0; c < t->n_columns; c++) {
        buf_char(out, table_is_number(t, c) ? 'r' : 'l');
    }
    buf_str(out, "}\n\\hline\n");
    for (int row = -1; row < table_rows(t); row++) {
        for (int c = 0; c < t->n_columns; c++) {
            buf_str(out, c ? " & " : "");
            tex_text(out, table_at(t, row, c));
        }
        buf_str(out, row < 0 ? " \\\\\n\\hline\n" : " \\\\\n");
    }
    buf_str(out, "\\hline\n\\end{tabular}\n");
}

void table_print(const Table *t, Format format, Buf *out)
{
    static void (*const print[])(const Table *t, Buf *out) = {[FORMAT_TEXT] = print_text,
                                                              [FORMAT_MD] = print_md,
                                                              [FORMAT_CSV] = print_csv,
                                                              [FORMAT_JSON] = print_json,
                                                              [FORMAT_TEX] = print_tex};
    print[format](t, out);
}
