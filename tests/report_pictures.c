/* report_pictures.c - the page, the plots and the archive: complete in themselves, true to the rows, the
 * same for the same database, and one sentence where they cannot be made. */
#include "tests/db_fixture.h"
#include "tests/report_util.h"

#include "reports/plot.h"
#include "tests/fault.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Scene scene;

static void begin(void)
{
    start();
    scene = scene_make(&env, path);
}

TestSuite(report_pictures, .init = begin, .fini = stop, .timeout = 120);

static const char *page(void)
{
    const char *folder = arena_str(&env.model, temp_path(&dir, "page"));
    shows(REPORT(&env, path, "html", "-o", folder), "page/index.html holds all of it.");
    cr_expect_eq(folder_entries(folder), 1);
    return read_text(&env, arena_printf(&env.model, "%s/index.html", folder));
}

/* ---- the page ---- */

Test(report_pictures, the_page_holds_every_report_and_needs_nothing_else)
{
    static const char *const words[] = {"1.39x faster (1.38 to 1.40)",
                                        "13/13 processes, 117 pairs",
                                        "default kept",
                                        "OpenBLAS",
                                        "without pack",
                                        "element # is # instead of #",
                                        "layer 0 up",
                                        "Title match of run 1001",
                                        "Roofline",
                                        "bound by affinity"};
    const char *html = page();
    for (size_t i = 0; i < countof(words); i++) {
        cr_expect(strstr(html, words[i]), "no '%s'", words[i]);
    }
    cr_expect_eq(how_often(html, "<svg "), how_often(html, "</svg>"));
    cr_expect_geq(how_often(html, "<svg "), 5);
    cr_expect_eq(how_often(html, "http"), how_often(html, "http://www.w3.org/2000/svg"));
    cr_expect(!strstr(html, "<script") && !strstr(html, "<link") && !strstr(html, "<img"));
    cr_expect_eq(how_often(html, "<table>"), how_often(html, "</table>"));
}

Test(report_pictures, what_the_database_says_is_text_and_not_markup)
{
    set_sql(path, "UPDATE run_task SET label = '<script>alert(\"x\")</script> & more'");
    const char *html = page();
    cr_expect(strstr(html, "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; more"));
    cr_expect(!strstr(html, "<script"));
}

Test(report_pictures, the_same_database_gives_the_same_page)
{
    const char *first = arena_str(&env.model, page());
    cr_expect_str_eq(first, page());
}

Test(report_pictures, an_empty_database_has_a_page_too)
{
    const char *empty = arena_str(&env.model, temp_path(&dir, "empty.db"));
    db_close(open_db(&env, empty, DB_WRITE));
    path = empty;
    cr_expect(strstr(page(), "holds no run yet"));
}

Test(report_pictures, a_page_that_cannot_be_written_is_one_sentence)
{
    const char *file = file_in(&env, &dir, "file", "x");
    has(REPORT(&env, path, "html", "-o", arena_printf(&env.model, "%s/page", file)), 1, "file");
    has(REPORT(&env, path, "html"), 2, "html and -o DIR go together");
    has(REPORT(&env, path, "runs", "-o", "x"), 2, "html and -o DIR go together");
}

/* ---- SVG ---- */

static const char *svg_of(const Plot *p)
{
    Buf b;
    buf_init(&b, &env.model);
    plot_svg(p, &b);
    cr_expect(!strstr(b.at, "nan") && !strstr(b.at, "inf"), "%s", b.at);
    return b.at;
}

Test(report_pictures, a_line_goes_through_its_points)
{
    double x[] = {0, 10}, y[] = {0, 100};
    Plot p = {.title = "a & b",
              .x_label = "x",
              .y_label = "y",
              .line = {{.x = x, .y = y, .n = 2}},
              .n_lines = 1};
    const char *svg = svg_of(&p);
    cr_expect(strstr(svg, "<title>a &amp; b</title>"));
    /* The axis has 5% of air, so the ends are 274 / 1.1 x 0.05 = 12.5 from the frame. */
    cr_expect(strstr(svg, "d=\"M64.0 295.5L664.0 46.5\""), "%s", svg);
    cr_expect_eq(how_often(svg, ">50</text>"), 0);
    cr_expect_eq(how_often(svg, ">60</text>"), 1);
}

Test(report_pictures, plots_of_nothing_of_one_point_and_of_one_value_are_drawn)
{
    double x[] = {3, 4}, y[] = {7, 7}, zero[] = {0, 0};
    Plot p = {.title = "t", .x_label = "x", .y_label = "y"};
    svg_of(&p);
    p.line[0] = (Line){.x = x, .y = y, .n = 1, .points = true};
    p.n_lines = 1;
    cr_expect_eq(how_often(svg_of(&p), "<circle"), 1);
    p.line[0].n = 2;
    p.x_log = p.y_log = true;
    cr_expect_eq(how_often(svg_of(&p), "<circle"), 2);
    p = (Plot){.title = "t",
               .x_label = "x",
               .y_label = "y",
               .bars = true,
               .bar_width = 1,
               .line = {{.x = x, .y = zero, .n = 2}},
               .n_lines = 1};
    svg_of(&p);
}

Test(report_pictures, ticks_are_round_and_steps_hold_their_value)
{
    double x[] = {0, 1, 2}, y[] = {1, 1.25, 1.4};
    Plot p = {.title = "t",
              .x_label = "x",
              .y_label = "y",
              .x_whole = true,
              .line = {{.x = x, .y = y, .n = 3, .steps = true}},
              .n_lines = 1};
    const char *svg = svg_of(&p);
    cr_expect_eq(how_often(svg, ">0.5</text>"), 0, "%s", svg);
    cr_expect(strstr(svg, ">1.2</text>") || strstr(svg, ">1.1</text>"), "%s", svg);
    cr_expect(strstr(svg, "H364.0V"), "%s", svg);
}

Test(report_pictures, a_heat_map_says_each_ratio_and_what_was_not_tried)
{
    const char *row[] = {"tile <m>"}, *word[] = {"4", "8", "16", NULL};
    double value[] = {0.5, 2, 0.0 / 0.0, 0.0 / 0.0};
    Heat h = {.n_rows = 1, .n_columns = 4, .row = row, .word = word, .value = value};
    Plot p = {.title = "t", .x_label = "x", .y_label = "", .heat = &h};
    const char *svg = svg_of(&p);
    cr_expect(strstr(svg, "tile &lt;m&gt;"));
    cr_expect(strstr(svg, "fill=\"#1f6fb2\"") && strstr(svg, ">0.50</text>"), "%s", svg);
    cr_expect(strstr(svg, "fill=\"#d2691e\"") && strstr(svg, ">2.00</text>"), "%s", svg);
    cr_expect_eq(how_often(svg, "not tried"), 1);
    cr_expect_eq(how_often(svg, "<rect x="), 3);
}

/* ---- gnuplot ---- */

Test(report_pictures, plots_become_files_where_gnuplot_is_installed)
{
    if (system("command -v gnuplot >/dev/null 2>&1")) {
        cr_skip_test("gnuplot is not installed");
    }
    static const struct {
        const char *name, *start;
    } file[] = {{"a.svg", "<?xml"}, {"a.png", "\x89PNG"}, {"a.pdf", "%PDF"}};
    for (size_t i = 0; i < countof(file); i++) {
        const char *to = arena_str(&env.model, temp_path(&dir, file[i].name));
        shows(REPORT(&env, path, "evidence", "1001", "4", "--plot", to), "13/13");
        char *text = read_text(&env, to);
        shows(REPORT(&env, path, "knobs", "--plot", to), "panels");
        cr_expect(!strncmp(text, file[i].start, strlen(file[i].start)), "%s", file[i].name);
    }
}

Test(report_pictures, what_cannot_be_plotted_is_said)
{
    has(REPORT(&env, path, "runs", "--plot", "x.svg"), 1,
        "`report runs` has nothing to plot here");
    has(REPORT(&env, path, "knobs", "--plot", "x.gif"), 1, "ends in .svg, .png or .pdf");
    setenv("PATH", dir.path, 1);
    has(REPORT(&env, path, "knobs", "--plot", "x.svg"), 1,
        "Plots are drawn by gnuplot, which could not be run");
}

/* ---- the system's calls fail ---- */

typedef struct Faulty {
    Report *r;
    const char *to;
    void (*make)(struct Faulty *f);
} Faulty;

static void make_plot(Faulty *f)
{
    static const double x[] = {0, 1}, y[] = {1, 2};
    Plot p = {.title = "t",
              .x_label = "x",
              .y_label = "y",
              .line = {{.x = x, .y = y, .n = 2}},
              .n_lines = 1};
    plot_file(f->r, &p, f->to);
}

static void make_pack(Faulty *f)
{
    report_pack(f->r, f->to);
}

static void make_body(Env *e, void *arg)
{
    Faulty *f = arg;
    (void)e;
    f->make(f);
}

static bool make_try(void *ctx, Err *err)
{
    Faulty *f = ctx;
    unlink(f->to);
    bool ok = env_try(&env, make_body, f);
    *err = env.err;
    if (!ok) { /* complete or not at all, and nothing left beside it */
        cr_expect_neq(access(f->to, F_OK), 0, "%s", err->text);
    }
    return ok;
}

static void fails_cleanly(const char *name, void (*make)(Faulty *f))
{
    static const char *const call[] = {"open", "write", "rename", "mkdtemp"};
    Err err;
    Report r;
    Db *db = db_open(&env, path, DB_READ, &err);
    cr_assert(db, "%s", err.text);
    report_init(&r, &env, db, true);
    setenv("TMPDIR", dir.path, 1);
    int n = folder_entries(dir.path), n_hits = 0;
    Faulty f = {&r, arena_str(&env.model, temp_path(&dir, name)), make};
    for (size_t i = 0; i < countof(call); i++) {
        n_hits += fault_loop(call[i], make_try, &f);
    }
    unlink(f.to);
    cr_expect_gt(n_hits, 4, "%d", n_hits);
    cr_expect_eq(folder_entries(dir.path), n, "something was left behind");
    db_close(db);
}

Test(report_pictures, a_plot_appears_complete_or_not_at_all)
{
    if (system("command -v gnuplot >/dev/null 2>&1")) {
        cr_skip_test("gnuplot is not installed");
    }
    fails_cleanly("a.svg", make_plot);
}

Test(report_pictures, an_archive_appears_complete_or_not_at_all)
{
    fails_cleanly("a.tar", make_pack);
}

/* ---- the archive ---- */

Test(report_pictures, the_archive_holds_what_it_takes_to_check_it_elsewhere)
{
    const char *tar = arena_str(&env.model, temp_path(&dir, "all.tar"));
    const char *folder = arena_str(&env.model, temp_path(&dir, "unpacked"));
    const char *checked = arena_str(&env.model, temp_path(&dir, "checked.db"));
    shows(REPORT(&env, path, "--pack", tar), "its README says how to check it.");
    cr_assert_eq(
        system(arena_printf(&env.model, "mkdir %s && tar -xf %s -C %s", folder, tar, folder)),
        0);
    cr_expect_eq(folder_entries(folder), 9);
    const char *rows = arena_printf(&env.model, "%s/rows.json", folder);
    shows(SCHEDB(&env, "import", rows, "--db", checked), "0 conflicts");
    is_sound(&env, checked);
    char *winners = read_text(&env, arena_printf(&env.model, "%s/winners.csv", folder));
    cr_expect(strstr(winners, "\"split m 6 switch; pack b n.o,k,n.i\""), "%s", winners);
    /* Every file is what the manifest says. */
    char *line = read_text(&env, arena_printf(&env.model, "%s/MANIFEST", folder)), *next;
    int n = 0;
    for (; (next = strchr(line, '\n')); line = next + 1, n++) {
        char hex[33];
        *next = '\0';
        char *text = read_text(&env, arena_printf(&env.model, "%s/%s", folder, line + 34));
        hash_hex(hash_str(text), hex);
        cr_expect(!strncmp(line, hex, 32), "%s", line);
    }
    cr_expect_eq(n, 9);
}

Test(report_pictures, the_archive_is_the_same_for_the_same_database)
{
    const char *a = arena_str(&env.model, temp_path(&dir, "a.tar"));
    const char *b = arena_str(&env.model, temp_path(&dir, "b.tar"));
    REPORT(&env, path, "--pack", a);
    REPORT(&env, path, "--pack", b);
    cr_expect_eq(system(arena_printf(&env.model, "cmp -s %s %s", a, b)), 0);
    has(REPORT(&env, path, "--pack", arena_printf(&env.model, "%s/no/x.tar", dir.path)), 1,
        "no/x.tar");
}
