/* gnuplot.c - plots as files, drawn by the program gnuplot where it is installed. The script and the
 * picture are made in a folder of their own; the picture appears complete or not at all. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "reports/plot.h"

static const struct {
    const char *ending, *terminal;
} terminals[] = {{".svg", "svg size 800,480 background 'white' fname 'sans-serif'"},
                 {".png", "pngcairo size 1200,720"},
                 {".pdf", "pdfcairo size 8in,4.8in"}};

static const char *terminal_for(Report *r, const char *path)
{
    size_t len = strlen(path);
    for (size_t i = 0; i < countof(terminals); i++) {
        size_t n = strlen(terminals[i].ending);
        if (len > n && !strcmp(path + len - n, terminals[i].ending)) {
            return terminals[i].terminal;
        }
    }
    fail(r->e, E_INPUT, "A plot's file ends in .svg, .png or .pdf, which '%s' does not.", path);
}

/* In single quotes, where only those need doubling; a backslash would be read by enhanced text. */
static void quoted(Buf *b, const char *s)
{
    buf_char(b, '\'');
    for (; *s; s++) {
        buf_str(b, *s == '\'' ? "''" : "");
        buf_str(b, *s == '\'' || *s == '\n' ? "" : (char[]){*s, '\0'});
    }
    buf_char(b, '\'');
}

static void set_text(Buf *b, const char *what, const char *text)
{
    buf_printf(b, "set %s ", what);
    quoted(b, text);
    buf_str(b, " noenhanced\n");
}

static void write_data(const Plot *p, Buf *b)
{
    for (int i = 0; i < p->n_lines; i++) {
        buf_printf(b, "$d%d << EOD\n", i);
        for (int k = 0; k < p->line[i].n; k++) {
            if (isfinite(p->line[i].x[k]) && isfinite(p->line[i].y[k])) {
                buf_printf(b, "%.17g %.17g\n", p->line[i].x[k], p->line[i].y[k]);
            }
        }
        buf_str(b, "EOD\n");
    }
}

static void write_words(const Plot *p, Buf *b)
{
    buf_str(b, p->x_word ? "set xtics (" : "");
    for (int i = 0; p->x_word && i < p->line[0].n; i++) {
        buf_str(b, i ? ", " : "");
        quoted(b, p->x_word[i]);
        buf_printf(b, " %g", p->line[0].x[i]);
    }
    buf_str(b, p->x_word ? ") noenhanced\n" : "");
}

/* A cell: its rectangle, and the words on it. */
static void write_cell(const Heat *h, int row, int column, Buf *b)
{
    int i = row * h->n_columns + column;
    char colour[8] = "#f6f6f6", ratio[32] = "not tried";
    if (!h->word[i]) {
        return;
    }
    if (h->value[i] > 0 && isfinite(h->value[i])) {
        heat_colour(h->value[i], colour);
        snprintf(ratio, sizeof ratio, "%.2f", h->value[i]);
    }
    buf_printf(
        b,
        "set object rectangle center %d,%d size 0.96,0.9 fillcolor rgb '%s' fillstyle solid "
        "border rgb '#cccccc' back\nset label ",
        column, -row, colour);
    quoted(b, arena_printf(b->arena, "%s: %s", h->word[i], ratio));
    buf_printf(b, " at %d,%d center noenhanced front font ',9'\n", column, -row);
}

/* The first row is on top. */
static void write_heat(const Plot *p, Buf *b)
{
    const Heat *h = p->heat;
    buf_str(b, "unset key\nunset xtics\nset ytics (");
    for (int row = 0; row < h->n_rows; row++) {
        buf_str(b, row ? ", " : "");
        quoted(b, h->row[row]);
        buf_printf(b, " %d", -row);
    }
    buf_str(b, ") noenhanced scale 0\n");
    for (int i = 0; i < h->n_rows * h->n_columns; i++) {
        write_cell(h, i / h->n_columns, i % h->n_columns, b);
    }
    buf_printf(b, "plot [-0.5:%g] [%g:0.5] 1 with lines linecolor rgb '#ffffff'\n",
               h->n_columns - 0.5, 0.5 - h->n_rows);
}

static void write_script(const Plot *p, const char *terminal, const char *picture, Buf *b)
{
    buf_printf(b, "set terminal %s\nset output ", terminal);
    quoted(b, picture);
    buf_char(b, '\n');
    set_text(b, "title", p->title);
    set_text(b, "xlabel", p->x_label);
    if (p->heat) {
        write_heat(p, b);
        return;
    }
    set_text(b, "ylabel", p->y_label);
    buf_str(b, p->x_log ? "set logscale x\n" : "");
    buf_str(b, p->y_log ? "set logscale y\n" : "");
    buf_str(b, "set grid ytics\nset key bottom right noenhanced\n");
    if (p->bars) {
        buf_printf(b, "set style fill solid 0.8\nset boxwidth %.17g\n", p->bar_width * 0.92);
        buf_printf(b, p->y_top > 0 ? "set yrange [0:%g]\n" : "set yrange [%g:*]\n", p->y_top);
    }
    if (p->mark_x > 0) {
        buf_printf(b, "set arrow from %g, graph 0 to %g, graph 1 nohead dashtype 2\n",
                   p->mark_x, p->mark_x);
    }
    write_words(p, b);
    write_data(p, b);
    for (int i = 0; i < p->n_lines; i++) {
        const Line *l = &p->line[i];
        buf_printf(b, "%s$d%d with %s title ", i ? ", " : "plot ", i,
                   p->bars     ? "boxes"
                   : l->points ? "points pointtype 7"
                   : l->steps  ? "steps linewidth 2"
                               : "lines linewidth 2");
        quoted(b, l->name ? l->name : "");
    }
    buf_char(b, '\n');
}

typedef struct Work {
    const Plot *p;
    const char *terminal, *folder, *script, *picture, *path;
} Work;

static void run_gnuplot(Env *e, const Work *w)
{
    Err err;
    Buf said;
    int status;
    char *argv[] = {"gnuplot", (char *)w->script, NULL};
    buf_init(&said, &e->model);
    if (!os_run(argv, NULL, 60000, 4096, &said, &status, &err)) {
        fail(e, E_IO,
             "Plots are drawn by gnuplot, which could not be run (%s); `report html` needs "
             "no other program.",
             err.text);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        fail(e, E_IO, "gnuplot could not draw %s: %.*s", w->path,
             (int)strcspn(said.at + strspn(said.at, "\n "), "\n"),
             said.at + strspn(said.at, "\n "));
    }
}

static void draw(Env *e, void *arg)
{
    const Work *w = arg;
    Err err;
    Buf script;
    char *text;
    size_t len;
    buf_init(&script, &e->model);
    write_script(w->p, w->terminal, w->picture, &script);
    if (!os_write_file(w->script, script.at, script.len, &err)) {
        fail_err(e, &err);
    }
    run_gnuplot(e, w);
    if (!os_read_file(&e->model, w->picture, 64 << 20, &text, &len, &err) ||
        !os_write_file(w->path, text, len, &err)) {
        fail_err(e, &err);
    }
}

static void clean_up(void *arg)
{
    const Work *w = arg;
    os.unlink(w->script);
    os.unlink(w->picture);
    os.rmdir(w->folder);
}

void plot_file(Report *r, const Plot *p, const char *path)
{
    const char *temp = getenv("TMPDIR"), *terminal = terminal_for(r, path);
    char *folder = arena_printf(r->a, "%s/report-XXXXXX", temp && *temp ? temp : "/tmp");
    if (!os.mkdtemp(folder)) {
        fail(r->e, E_IO, "A folder %s cannot be made: %s.", folder, strerror(errno));
    }
    Work w = {.p = p,
              .terminal = terminal,
              .folder = folder,
              .script = arena_printf(r->a, "%s/plot.gp", folder),
              .picture = arena_printf(r->a, "%s/picture", folder),
              .path = path};
    env_finally(r->e, draw, clean_up, &w);
}
