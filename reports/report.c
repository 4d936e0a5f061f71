/* report.c - a report under construction: headings, sentences, tables, plots, in order. Cells go to
 * the columns of a sheet one after the other; a column that is not for this reader swallows its
 * cell, so that one piece of code serves people and machines. */
#include <stdlib.h>
#include <string.h>

#include "reports/reports.h"

void report_init(Report *r, Env *e, Db *db, bool people)
{
    *r = (Report){
        .e = e, .a = &e->model, .db = db, .people = people, .task = DB_NONE, .run = DB_NONE};
}

static Part *part_add(Report *r, PartKind kind)
{
    Part *p = vec_push(r->a, &r->part);
    *p = (Part){.kind = kind};
    return p;
}

static const char *text_of(Report *r, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int len = vsnprintf(NULL, 0, fmt, ap);
    char *text = arena_alloc(r->a, (size_t)len + 1);
    vsnprintf(text, (size_t)len + 1, fmt, again);
    va_end(again);
    return text;
}

void report_heading(Report *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = text_of(r, fmt, ap);
    va_end(ap);
    part_add(r, PART_HEADING)->text = text;
}

void report_say(Report *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = text_of(r, fmt, ap);
    va_end(ap);
    part_add(r, PART_SENTENCE)->text = text;
}

void report_plot(Report *r, const Plot *p)
{
    part_add(r, PART_PLOT)->plot = arena_dup(r->a, p, sizeof *p);
}

/* ---- tables ---- */

static bool is_for(const Report *r, const Column *c)
{
    return !(c->kind & (r->people ? COLUMN_MACHINE : COLUMN_PEOPLE));
}

/* For machines the first table of a name takes all its rows: a JSON object has each name once. */
static Table *table_named(const Report *r, const char *name)
{
    for (int i = 0; i < r->part.n && !r->people; i++) {
        Table *t = r->part.at[i].table;
        if (t && !strcmp(t->name, name)) {
            return t;
        }
    }
    return NULL;
}

static Table *table_new(Report *r, const Sheet *s)
{
    const char *name[MAX_COLUMNS];
    int n = 0;
    for (int i = 0; i < MAX_COLUMNS && s->column[i].name; i++) {
        if (is_for(r, &s->column[i])) {
            name[n++] = s->column[i].kind & COLUMN_NUMBER
                            ? arena_printf(r->a, "#%s", s->column[i].name)
                            : s->column[i].name;
        }
    }
    Table *t = arena_new(r->a, Table);
    table_init(t, r->a, s->name, n, name);
    part_add(r, PART_TABLE)->table = t;
    return t;
}

void report_sheet(Report *r, const Sheet *s)
{
    Table *t = table_named(r, s->name);
    r->table = t ? t : table_new(r, s);
    r->sheet = s;
    r->at = 0;
}

/* The table that takes the next cell; NULL: nobody is to see it. */
static Table *next_cell(Report *r)
{
    const Column *c = &r->sheet->column[r->at++];
    check(c->name);
    if (r->at == MAX_COLUMNS || !r->sheet->column[r->at].name) {
        r->at = 0;
    }
    return is_for(r, c) ? r->table : NULL;
}

void cell_add(Report *r, const char *fmt, ...)
{
    Table *t = next_cell(r);
    va_list ap;
    va_start(ap, fmt);
    if (t) {
        table_cell(t, "%s", text_of(r, fmt, ap));
    }
    va_end(ap);
}

void cell_add_text(Report *r, const char *text)
{
    cell_add(r, "%s", text ? text : "");
}

void cell_add_id(Report *r, int64_t id)
{
    cell_add(r, r->people ? "%.8s" : "%s", arena_printf(r->a, "%lld", (long long)id));
}

void cell_add_int(Report *r, int64_t v)
{
    Table *t = next_cell(r);
    if (t && v == DB_NONE) {
        table_cell(t, "%s", "");
    } else if (t) {
        table_cell(t, "%lld", (long long)v);
    }
}

/* As many digits as it takes to read back the same number. */
static const char *exact(double v)
{
    char text[40];
    snprintf(text, sizeof text, "%.15g", v);
    return strtod(text, NULL) == v ? "%.15g" : "%.17g";
}

void cell_add_number(Report *r, double v, const char *fmt)
{
    Table *t = next_cell(r);
    if (t) {
        table_number(t, v, r->people ? fmt : exact(v));
    }
}

void cell_add_ns(Report *r, double ns)
{
    Table *t = next_cell(r);
    if (t && r->people) {
        table_cell(t, "%s", ns_text(r->a, ns));
    } else if (t) {
        table_number(t, ns, exact(ns));
    }
}

void cell_add_ns_both(Report *r, double ns)
{
    cell_add_ns(r, ns);
    cell_add_ns(r, ns);
}

void cell_add_interval(Report *r, double ratio, double lo, double hi)
{
    cell_add(r, "%s", interval_text(r->a, ratio, lo, hi));
    cell_add_number(r, ratio, "%.4f");
    cell_add_number(r, lo, "%.4f");
    cell_add_number(r, hi, "%.4f");
}

void cell_add_time(Report *r, int64_t ns)
{
    cell_add(r, "%s", time_text(r->a, ns));
}

void cell_add_hash(Report *r, Hash h)
{
    char hex[33];
    hash_hex(h, hex);
    bool none = h.hi == 0 && h.lo == 0;
    cell_add(r, "%.*s", none ? 0 : r->people ? 8 : 32, hex);
}

/* ---- printing ---- */

static void print_part(const Part *p, Format f, bool first, Buf *out)
{
    static const char *const heading[N_FORMATS] = {
        [FORMAT_TEXT] = "%s\n", [FORMAT_MD] = "## %s\n", [FORMAT_TEX] = "\\subsection*{%s}\n"};
    Buf text;
    buf_init(&text, out->arena);
    if (p->kind == PART_TABLE) {
        buf_str(out, first ? "" : "\n");
        table_print(p->table, f, out);
    } else if (p->kind != PART_PLOT) {
        if (f == FORMAT_TEX) {
            tex_text(&text, p->text);
        } else {
            buf_str(&text, p->text);
        }
        const char *fmt = p->kind == PART_HEADING ? heading[f] : "%s\n";
        const char *at = strstr(fmt, "%s");
        buf_str(out, first ? "" : "\n");
        buf_bytes(out, fmt, (size_t)(at - fmt));
        buf_str(out, text.at);
        buf_str(out, at + 2);
    }
}

static void print_json(const Report *r, Buf *out)
{
    bool first = true;
    buf_char(out, '{');
    for (int i = 0; i < r->part.n; i++) {
        if (r->part.at[i].kind == PART_TABLE) {
            buf_str(out, first ? "" : ",\n ");
            table_json_member(r->part.at[i].table, out);
            first = false;
        }
    }
    buf_str(out, "}\n");
}

/* People are told in words that there is nothing; machines get a table without rows. */
static bool is_shown(const Report *r, const Part *p)
{
    return r->people
               ? p->kind != PART_PLOT && (p->kind != PART_TABLE || table_rows(p->table) > 0)
               : p->kind == PART_TABLE;
}

void report_print(const Report *r, Format f, Buf *out)
{
    bool first = true;
    if (f == FORMAT_JSON) {
        print_json(r, out);
        return;
    }
    for (int i = 0; i < r->part.n; i++) {
        const Part *p = &r->part.at[i];
        if (is_shown(r, p)) {
            print_part(p, f, first, out);
            first = false;
        }
    }
}
