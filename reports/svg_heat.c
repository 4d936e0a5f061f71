/* svg_heat.c - a heat map as SVG: a row a knob, a cell a choice, blue where its candidates are faster than the
 * default and orange where they are slower; the ratio stands in the cell too, for who cannot see colours. */
#include <math.h>
#include <string.h>

#include "reports/plot.h"

enum { LEFT = 90, TOP = 34, CELL = 74, ROW = 34, BOTTOM = 26 };

/* From white to one of two colours: full at twice or half the time. */
void heat_colour(double ratio, char out[8])
{
    static const int faster[3] = {0x1f, 0x6f, 0xb2}, slower[3] = {0xd2, 0x69, 0x1e};
    double t = fmax(-1, fmin(1, log2(ratio)));
    const int *to = t < 0 ? faster : slower;
    int c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = (int)(255 + fabs(t) * (to[i] - 255) + 0.5);
    }
    snprintf(out, 8, "#%02x%02x%02x", c[0] & 0xff, c[1] & 0xff, c[2] & 0xff);
}

static void text_at(Buf *out, int x, int y, const char *style, const char *text)
{
    buf_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\"%s>", x, y, style);
    xml_text(out, text);
    buf_str(out, "</text>\n");
}

static void draw_cell(const Heat *h, int row, int column, Buf *out)
{
    char colour[8], number[32];
    double v = h->value[row * h->n_columns + column];
    const char *word = h->word[row * h->n_columns + column];
    int x = LEFT + column * CELL, y = TOP + row * ROW;
    if (!word) {
        return;
    }
    bool known = v > 0 && isfinite(v), dark = known && fabs(log2(v)) > 0.6;
    if (known) {
        heat_colour(v, colour);
        snprintf(number, sizeof number, "%.2f", v);
    }
    buf_printf(
        out,
        "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"#ccc\"/>\n", x,
        y, CELL - 2, ROW - 2, known ? colour : "#f6f6f6");
    text_at(out, x + CELL / 2, y + 14, dark ? " fill=\"#fff\"" : "", word);
    text_at(out, x + CELL / 2, y + 27,
            dark ? " fill=\"#fff\" font-size=\"10\"" : " font-size=\"10\"",
            known ? number : "not tried");
}

void heat_svg(const Plot *p, Buf *out)
{
    const Heat *h = p->heat;
    int width = LEFT + h->n_columns * CELL + 10, height = TOP + h->n_rows * ROW + BOTTOM;
    svg_begin(out, width, height, 11, p->title);
    buf_str(out, "<text x=\"8\" y=\"20\" font-weight=\"bold\" font-size=\"12\">");
    xml_text(out, p->title);
    buf_str(out, "</text>\n");
    for (int row = 0; row < h->n_rows; row++) {
        buf_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LEFT - 8,
                   TOP + row * ROW + 20);
        xml_text(out, h->row[row]);
        buf_str(out, "</text>\n");
        for (int c = 0; c < h->n_columns; c++) {
            draw_cell(h, row, c, out);
        }
    }
    buf_printf(out, "<text x=\"8\" y=\"%d\" fill=\"#555\">", height - 8);
    xml_text(out, p->x_label);
    buf_str(out, "</text>\n</svg>\n");
}
