/* html.c - a report as one page that needs nothing else: style and plots are inside, there are no scripts
 * and nothing comes from the network. Every text from the database is escaped. */
#include <string.h>

#include "reports/plot.h"

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;color:#1d2730;background:#fff;margin:0 auto;"
    "max-width:1200px;padding:1.5rem}\n"
    "h1{font-size:1.6rem;margin:0 0 .3rem}h2{font-size:1.15rem;margin:2.2rem 0 .4rem;"
    "border-bottom:1px solid #d8dee4;padding-bottom:.2rem}\n"
    "nav ul{columns:3;padding-left:1.1rem;font-size:.9rem}\n"
    ".t{overflow-x:auto;margin:.6rem 0}table{border-collapse:collapse;font-size:.82rem}\n"
    "th,td{padding:.2rem .55rem;border-bottom:1px solid #e6eaee;text-align:left;"
    "vertical-align:top;white-space:nowrap}\n"
    "td.w{white-space:normal;min-width:18rem}td.n,th.n{text-align:right;"
    "font-variant-numeric:tabular-nums}\n"
    "th{background:#f3f6f8;position:sticky;top:0}p{margin:.4rem 0;white-space:pre-wrap}\n"
    "svg{max-width:100%;height:auto;margin:.5rem 0;border:1px solid #e6eaee}\n"
    ".real{color:#176639;font-weight:600}.bad{color:#b3261e;font-weight:600}\n";

/* What a reader looks for is coloured; the words say it too. */
static const char *class_of(const char *text, bool number)
{
    static const struct {
        const char *start, *class;
    } marked[] = {{"real: faster", "real"},
                  {"real: slower", "bad"},
                  {"NOT PROVED", "bad"},
                  {"THE PAIRS SAY", "bad"}};
    for (size_t i = 0; i < countof(marked); i++) {
        if (!strncmp(text, marked[i].start, strlen(marked[i].start))) {
            return marked[i].class;
        }
    }
    return number ? "n" : strlen(text) > 60 ? "w" : NULL;
}

static void print_cell(const Table *t, int row, int column, Buf *out)
{
    const char *text = table_at(t, row, column), *tag = row < 0 ? "th" : "td";
    const char *class = class_of(text, table_is_number(t, column));
    buf_printf(out, class ? "<%s class=\"%s\">" : "<%s%s>", tag, class ? class : "");
    xml_text(out, text);
    buf_printf(out, "</%s>", tag);
}

static void print_table(const Table *t, Buf *out)
{
    buf_str(out, "<div class=\"t\"><table>\n");
    for (int row = -1; row < table_rows(t); row++) {
        buf_str(out, row < 0 ? "<thead><tr>" : "<tr>");
        for (int c = 0; c < t->n_columns; c++) {
            print_cell(t, row, c, out);
        }
        buf_str(out, row < 0 ? "</tr></thead>\n<tbody>\n" : "</tr>\n");
    }
    buf_str(out, "</tbody></table></div>\n");
}

static void print_contents(const Report *r, Buf *out)
{
    buf_str(out, "<nav><ul>\n");
    for (int i = 0; i < r->part.n; i++) {
        if (r->part.at[i].kind == PART_HEADING) {
            buf_printf(out, "<li><a href=\"#s%d\">", i);
            xml_text(out, r->part.at[i].text);
            buf_str(out, "</a></li>\n");
        }
    }
    buf_str(out, "</ul></nav>\n");
}

static void print_part(const Part *p, int number, Buf *out)
{
    if (p->kind == PART_TABLE && table_rows(p->table) > 0) {
        print_table(p->table, out);
    } else if (p->kind == PART_PLOT) {
        plot_svg(p->plot, out);
    } else if (p->text) {
        bool heading = p->kind == PART_HEADING;
        buf_printf(out, heading ? "<h2 id=\"s%d\">" : "<p>", number);
        xml_text(out, p->text);
        buf_str(out, heading ? "</h2>\n" : "</p>\n");
    }
}

void report_html(const Report *r, const char *title, Buf *out)
{
    buf_str(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
                 "name=\"viewport\" content=\"width=device-width\">\n<title>");
    xml_text(out, title);
    buf_printf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", style);
    xml_text(out, title);
    buf_str(out, "</h1>\n");
    print_contents(r, out);
    for (int i = 0; i < r->part.n; i++) {
        print_part(&r->part.at[i], i, out);
    }
    buf_str(out, "</body>\n</html>\n");
}
