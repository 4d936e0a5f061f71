/* explain_show.c - answers on the terminal and for programs. People read one call site after the other,
 * each section under a heading; programs get a table for each section, with the call site in every row. */
#include "cli/explain.h"

static void begin(const Here *h, const Section *s, Table *t)
{
    table_init(t, &h->e->model, s->name, s->n_columns, s->column);
}

static bool is_wanted(unsigned wanted, int i)
{
    return wanted >> i & 1;
}

/* ---- for people -------------------------------------------------------------------------- */

/* Without the call site, which stands above it. */
static Table narrowed(const Table *t)
{
    Table out;
    table_init(&out, t->arena, t->name, t->n_columns - 1, t->column + 1);
    for (int i = 0; i < t->cell.n; i++) {
        if (i % t->n_columns) {
            *vec_push(t->arena, &out.cell) = t->cell.at[i];
        }
    }
    return out;
}

/* A single row of many columns, one a line; empty cells say nothing. */
static Table upright(const Table *t)
{
    static const char *const columns[] = {"what", "value"};
    Table out;
    table_init(&out, t->arena, t->name, countof(columns), columns);
    for (int c = 0; c < t->n_columns; c++) {
        if (*table_at(t, 0, c)) {
            table_cell(&out, "%s", table_at(t, -1, c));
            table_cell(&out, "%s", table_at(t, 0, c));
        }
    }
    return out;
}

static void print_section(const Here *h, const Section *s, const Answer *a, Buf *out)
{
    bool md = h->o->source.format == FORMAT_MD;
    Table t;
    begin(h, s, &t);
    section_rows(h, s, a, &t);
    buf_printf(out, md ? "\n### %s\n\n" : "\n%s:\n", s->name);
    if (s->text) {
        buf_printf(out, md ? "```\n%s```\n" : "%s", table_at(&t, 0, 1));
    } else if (table_rows(&t) == 0) {
        buf_str(out, "none\n");
    } else {
        Table narrow = narrowed(&t), one = upright(&narrow);
        table_print(table_rows(&t) == 1 && t.n_columns > 8 ? &one : &narrow,
                    h->o->source.format, out);
    }
}

static void print_site(const Here *h, const Answer *a, unsigned wanted, Buf *out)
{
    bool md = h->o->source.format == FORMAT_MD;
    buf_printf(out, "%s%s%s\n", out->len ? "\n" : "", md ? "## " : "", a->site->label);
    for (int i = 0; i < N_SECTIONS; i++) {
        if (is_wanted(wanted, i)) {
            print_section(h, &section[i], a, out);
        }
    }
}

/* Many call sites: a line each. */
static void print_overview(const Here *h, const Answer *a, int n, Buf *out)
{
    static const char *const columns[] = {"call site", "#calls", "regime", "answer", "why"};
    Table t;
    table_init(&t, &h->e->model, "call_sites", countof(columns), columns);
    for (int i = 0; i < n; i++) {
        table_cell(&t, "%s", a[i].site->label);
        table_cell(&t, "%.0f", a[i].site->n_calls);
        table_cell(&t, "%s", a[i].site->regime);
        table_cell(&t, "%s", a[i].outcome);
        table_cell(&t, "%s", a[i].why);
    }
    table_print(&t, h->o->source.format, out);
}

/* ---- for programs ------------------------------------------------------------------------ */

static void print_tables(const Here *h, const Answer *a, int n, unsigned wanted, Buf *out)
{
    bool json = h->o->source.format == FORMAT_JSON, any = false;
    buf_str(out, json ? "{" : "");
    for (int i = 0; i < N_SECTIONS; i++) {
        Table t;
        if (!is_wanted(wanted, i)) {
            continue;
        }
        begin(h, &section[i], &t);
        for (int k = 0; k < n; k++) {
            section_rows(h, &section[i], &a[k], &t);
        }
        buf_str(out, !any ? "" : json ? ",\n" : "\n");
        if (json) {
            table_json_member(&t, out);
        } else {
            table_print(&t, h->o->source.format, out);
        }
        any = true;
    }
    buf_str(out, json ? "}\n" : "");
}

/* All tables, but for the long texts. */
static unsigned usual(void)
{
    unsigned bits = 0;
    for (int i = 0; i < N_SECTIONS; i++) {
        bits |= (unsigned)!section[i].text << i;
    }
    return bits;
}

void sections_print(const Here *h, const Answer *a, int n, unsigned wanted, Buf *out)
{
    Format f = h->o->source.format;
    bool people = f == FORMAT_TEXT || f == FORMAT_MD;
    if (people && n > 1 && !wanted) {
        print_overview(h, a, n, out);
    } else if (people) {
        for (int i = 0; i < n; i++) {
            print_site(h, &a[i], wanted ? wanted : usual(), out);
        }
    } else {
        unsigned few = n > 1 ? 1u << SECTION_ANSWER : usual();
        print_tables(h, a, n, wanted ? wanted : few, out);
    }
}
