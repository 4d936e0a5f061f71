/* svg.c - plots as SVG, drawn by hand: axes with round ticks, lines, steps, dots, bars. No fonts, scripts
 * or files from elsewhere; the same plot gives the same bytes. */
#include <math.h>
#include <string.h>

#include "reports/plot.h"

enum {
    WIDTH = 680,
    HEIGHT = 360,
    LEFT = 64,
    RIGHT = 16,
    TOP = 34,
    BOTTOM = 52,
    MAX_TICKS = 12
};

static const char *const color[] = {"#1f6fb2", "#d2691e", "#2e8b57", "#9b3fa0",
                                    "#b8860b", "#c0392b", "#4a5a6a", "#008b8b"};

void xml_text(Buf *out, const char *s)
{
    for (; *s; s++) {
        const char *escape = *s == '&'   ? "&amp;"
                             : *s == '<' ? "&lt;"
                             : *s == '>' ? "&gt;"
                             : *s == '"' ? "&quot;"
                                         : NULL;
        if (escape) {
            buf_str(out, escape);
        } else {
            buf_char(out, *s);
        }
    }
}

void svg_begin(Buf *out, int width, int height, int font, const char *title)
{
    buf_printf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
        "height=\"%d\" font-family=\"sans-serif\" font-size=\"%d\" role=\"img\">\n<title>",
        width, height, width, height, font);
    xml_text(out, title);
    buf_str(out, "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
}

/* ---- axes ---- */

typedef struct Axis {
    double lo, hi; /* of what is shown: logarithms on a log axis */
    bool log, whole;
    double tick[MAX_TICKS]; /* in the axis's own unit */
    int n_ticks;
} Axis;

static double scaled(const Axis *a, double v)
{
    return a->log ? log10(v) : v;
}

static void widen(Axis *a, double v)
{
    v = scaled(a, v);
    if (isfinite(v)) {
        a->lo = fmin(a->lo, v);
        a->hi = fmax(a->hi, v);
    }
}

/* 1, 2 or 5 times a power of ten, at least so much. */
static double round_step(double least)
{
    double power = pow(10, floor(log10(least)));
    double m = least / power;
    return power * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

static void log_ticks(Axis *a)
{
    static const double digit[] = {1, 2, 5};
    bool few = a->hi - a->lo < 2.5;
    for (double e = floor(a->lo); e <= a->hi && a->n_ticks < MAX_TICKS; e++) {
        for (int i = 0; i < (few ? 3 : 1) && a->n_ticks < MAX_TICKS; i++) {
            double v = e + log10(digit[i]);
            if (v >= a->lo - 1e-9 && v <= a->hi + 1e-9) {
                a->tick[a->n_ticks++] = v;
            }
        }
    }
}

static void set_ticks(Axis *a)
{
    if (!(a->hi > a->lo)) { /* nothing, or all at one place */
        double at = isfinite(a->lo) ? a->lo : 0;
        a->lo = at - (a->log ? 0.3 : fabs(at) * 0.05 + 0.01);
        a->hi = at + (a->log ? 0.3 : fabs(at) * 0.05 + 0.01);
    }
    if (a->log) {
        log_ticks(a);
        return;
    }
    double step = fmax(round_step((a->hi - a->lo) / 6), a->whole);
    for (double v = ceil(a->lo / step - 1e-9) * step; v <= a->hi + step * 1e-9; v += step) {
        if (a->n_ticks < MAX_TICKS) {
            a->tick[a->n_ticks++] = fabs(v) < step * 1e-9 ? 0 : v;
        }
    }
}

typedef struct Drawing {
    const Plot *p;
    Buf *out;
    Axis x, y;
} Drawing;

static double px(const Drawing *d, double v)
{
    return LEFT + (scaled(&d->x, v) - d->x.lo) / (d->x.hi - d->x.lo) * (WIDTH - LEFT - RIGHT);
}

static double py(const Drawing *d, double v)
{
    return HEIGHT - BOTTOM -
           (scaled(&d->y, v) - d->y.lo) / (d->y.hi - d->y.lo) * (HEIGHT - TOP - BOTTOM);
}

static void measure_axes(Drawing *d)
{
    const Plot *p = d->p;
    d->x = (Axis){.lo = INFINITY, .hi = -INFINITY, .log = p->x_log, .whole = p->x_whole};
    d->y = (Axis){.lo = INFINITY, .hi = -INFINITY, .log = p->y_log};
    for (int i = 0; i < p->n_lines; i++) {
        for (int k = 0; k < p->line[i].n; k++) {
            double half = p->bars ? p->bar_width / 2 : 0;
            widen(&d->x, p->line[i].x[k] - half);
            widen(&d->x, p->line[i].x[k] + half);
            widen(&d->y, p->line[i].y[k]);
        }
    }
    if (p->bars) {
        widen(&d->y, 0);
    }
    if (p->y_top > 0) {
        widen(&d->y, p->y_top);
    }
    set_ticks(&d->x);
    set_ticks(&d->y);
    if (!p->bars) { /* air above and below */
        double air = (d->y.hi - d->y.lo) * 0.05;
        d->y.lo -= air;
        d->y.hi += air;
    }
}

static void text_at(Drawing *d, double x, double y, const char *attributes, const char *text)
{
    buf_printf(d->out, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, attributes);
    xml_text(d->out, text);
    buf_str(d->out, "</text>\n");
}

static double shown(const Axis *a, double tick)
{
    return a->log ? pow(10, tick) : tick;
}

static void draw_frame(Drawing *d)
{
    char number[32], turned[80];
    for (int i = 0; i < d->y.n_ticks; i++) {
        double v = shown(&d->y, d->y.tick[i]), y = py(d, v);
        snprintf(number, sizeof number, "%g", v);
        buf_printf(d->out,
                   "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e3e3e3\"/>\n",
                   LEFT, WIDTH - RIGHT, y, y);
        text_at(d, LEFT - 6, y + 4, " text-anchor=\"end\"", number);
    }
    for (int i = 0; i < d->x.n_ticks && !d->p->x_word; i++) {
        double v = shown(&d->x, d->x.tick[i]);
        snprintf(number, sizeof number, "%g", v);
        buf_printf(d->out,
                   "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#888\"/>\n",
                   px(d, v), px(d, v), HEIGHT - BOTTOM, HEIGHT - BOTTOM + 4);
        text_at(d, px(d, v), HEIGHT - BOTTOM + 17, " text-anchor=\"middle\"", number);
    }
    buf_printf(d->out, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#888\"/>\n", LEFT, TOP,
               HEIGHT - BOTTOM, WIDTH - RIGHT);
    text_at(d, LEFT, 18, " font-weight=\"bold\"", d->p->title);
    text_at(d, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12, " text-anchor=\"middle\"",
            d->p->x_label);
    double middle = (TOP + HEIGHT - BOTTOM) / 2.0;
    snprintf(turned, sizeof turned,
             " text-anchor=\"middle\" transform=\"translate(14 %.1f) rotate(-90)\"", middle);
    text_at(d, 0, 0, turned, d->p->y_label);
}

/* ---- what is plotted ---- */

static void draw_bars(Drawing *d, const Line *l)
{
    double base = py(d, 0);
    for (int i = 0; i < l->n; i++) {
        double left = px(d, l->x[i] - d->p->bar_width / 2),
               right = px(d, l->x[i] + d->p->bar_width / 2);
        if (l->y[i] > 0) {
            buf_printf(
                d->out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
                left, py(d, l->y[i]), fmax(right - left - 1, 0.5), base - py(d, l->y[i]),
                color[0]);
        }
        if (d->p->x_word) {
            text_at(d, (left + right) / 2, HEIGHT - BOTTOM + 17, " text-anchor=\"middle\"",
                    d->p->x_word[i]);
        }
    }
}

static void draw_points(Drawing *d, const Line *l, const char *fill)
{
    for (int i = 0; i < l->n; i++) {
        if (isfinite(l->x[i]) && isfinite(l->y[i])) {
            buf_printf(d->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n",
                       px(d, l->x[i]), py(d, l->y[i]), fill);
        }
    }
}

static void draw_line(Drawing *d, const Line *l, const char *stroke)
{
    buf_printf(d->out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"", stroke);
    for (int i = 0; i < l->n; i++) {
        if (i && l->steps) {
            buf_printf(d->out, "H%.1fV%.1f", px(d, l->x[i]), py(d, l->y[i]));
        } else {
            buf_printf(d->out, "%c%.1f %.1f", i ? 'L' : 'M', px(d, l->x[i]), py(d, l->y[i]));
        }
    }
    buf_str(d->out, "\"/>\n");
}

static void draw_names(Drawing *d)
{
    for (int i = 0; i < d->p->n_lines && !d->p->bars; i++) {
        double y = HEIGHT - BOTTOM - 10 - 16 * (d->p->n_lines - 1 - i);
        if (d->p->line[i].name) {
            buf_printf(d->out,
                       "<rect x=\"%d\" y=\"%.1f\" width=\"12\" height=\"4\" fill=\"%s\"/>\n",
                       WIDTH - RIGHT - 16, y - 6, color[i % (int)countof(color)]);
            text_at(d, WIDTH - RIGHT - 22, y, " text-anchor=\"end\"", d->p->line[i].name);
        }
    }
}

void plot_svg(const Plot *p, Buf *out)
{
    Drawing d = {.p = p, .out = out};
    if (p->heat) {
        heat_svg(p, out);
        return;
    }
    measure_axes(&d);
    svg_begin(out, WIDTH, HEIGHT, 12, p->title);
    draw_frame(&d);
    for (int i = 0; i < p->n_lines; i++) {
        const char *paint = color[i % (int)countof(color)];
        if (p->bars) {
            draw_bars(&d, &p->line[i]);
        } else if (p->line[i].points) {
            draw_points(&d, &p->line[i], paint);
        } else {
            draw_line(&d, &p->line[i], paint);
        }
    }
    if (p->mark_x > 0) {
        buf_printf(out,
                   "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#c0392b\" "
                   "stroke-dasharray=\"4 3\"/>\n",
                   px(&d, p->mark_x), px(&d, p->mark_x), TOP, HEIGHT - BOTTOM);
    }
    draw_names(&d);
    buf_str(out, "</svg>\n");
}
