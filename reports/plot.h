/* plot.h - ways to draw a Plot. Sections are named after the .c files that define them. */
#ifndef NC_PLOT_H
#define NC_PLOT_H

#include "reports/reports.h"

/* ---- svg.c: as an <svg> element, complete in itself ---- */
void plot_svg(const Plot *p, Buf *out);
void svg_begin(Buf *out, int width, int height, int font,
               const char *title);           /* to its background */
void heat_svg(const Plot *p, Buf *out);      /* svg_heat.c */
void heat_colour(double ratio, char out[8]); /* "#1f6fb2": likewise */
void xml_text(Buf *out, const char *s);      /* with & < > " escaped */

/* ---- gnuplot.c: as a file, by the program gnuplot ---- */
/* The ending says what it becomes: .svg, .png, .pdf. E_INPUT: another ending; E_IO: gnuplot is not there,
 * or failed. */
void plot_file(Report *r, const Plot *p, const char *path);

/* ---- html.c: a report as one page ---- */
void report_html(const Report *r, const char *title, Buf *out);

#endif
