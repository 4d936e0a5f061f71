/* hand.c - the loops around the hand-written register tiles, and the panels they read.
 *
 * Weights are packed once into panels: width columns of the result, all of k. A part of the
 * work is a contiguous run of panels; each panel meets all rows of the activations before the
 * next one is touched, so that it is read from memory once and from the cache afterwards. While
 * the tiles of one panel work, each fetches its slice of the next. Rows are dealt out evenly:
 * 64 rows are five tiles of 13 or 12, not four of 14 and one of 8. */
#include "experiments/baselines/baselines_int.h"

#include <string.h>

enum { AHEAD = 8192 / sizeof(float) }; /* tried from 2 to 32 KiB, with weights in memory */

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t pieces(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

Share share_of(int64_t n, int part, int n_parts)
{
    return (Share){n * part / n_parts, n * (part + 1) / n_parts};
}

/* ---- panels ------------------------------------------------------------------------------ */

size_t panels_bytes(int width, int64_t n, int64_t k)
{
    return (size_t)pieces(n, width) * (size_t)width * (size_t)k * sizeof(float);
}

void panels_pack(int width, int64_t n, int64_t k, const float *weights, float *panels)
{
    memset(panels, 0, panels_bytes(width, n, k));
    for (int64_t j = 0; j < n; j++) {
        float *column = panels + j / width * width * k + j % width;
        for (int64_t l = 0; l < k; l++) {
            column[l * width] = weights[j * k + l];
        }
    }
}

/* ---- loops ------------------------------------------------------------------------------- */

/* What to fetch while tile i of n works. Where one tile does all rows, its own panels further
 * on; otherwise its slice of the panel that comes next. */
static void look_ahead(Tile *t, int width, int n_panels, int64_t i, int64_t n)
{
    if (n == 1) {
        t->ahead = t->panel + AHEAD / n_panels;
        t->ahead_step = width;
    } else {
        t->ahead = t->panel + t->panel_step + i * t->panel_step / n;
        t->ahead_step = width / n;
    }
}

/* All rows of c in the columns of one panel, or of two. */
static void run_panels(const Hand *h, const Product *p, int64_t panel, int n_panels)
{
    int64_t column = panel * h->width, step = h->width * p->k;
    int64_t n_tiles = pieces(p->m, h->rows);
    Tile t = {.k = p->k,
              .a_row = p->k,
              .panel = (const float *)p->b + panel * step,
              .panel_step = step,
              .c_row = p->n,
              .n_columns = (int)min64(p->n - column, n_panels * h->width)};
    for (int64_t i = 0; i < n_tiles; i++) {
        int64_t row = p->m * i / n_tiles, end = p->m * (i + 1) / n_tiles;
        t.a = p->a + row * p->k;
        t.c = p->c + row * p->n + column;
        look_ahead(&t, h->width, n_panels, i, n_tiles);
        (n_panels == 2 ? h->wide : h->tile)[end - row](&t);
    }
}

void hand_run(const Hand *h, const Product *p, int part, int n_parts)
{
    if (p->m == 0) {
        return;
    }
    bool wide = p->m <= MAX_TILE_ROWS && h->wide[p->m];
    Share s = share_of(pieces(p->n, h->width), part, n_parts);
    for (int64_t panel = s.first, n_panels; panel < s.end; panel += n_panels) {
        n_panels = wide && s.end - panel >= 2 ? 2 : 1;
        run_panels(h, p, panel, (int)n_panels);
    }
}
