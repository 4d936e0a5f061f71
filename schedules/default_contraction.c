/* default_contraction.c - the tile of a contraction from the target's registers, where constant operands go
 * into panels; lanes along the reduction where they cannot.
 *
 *     many rows     mr x 2 vectors, as many rows as leave a register for each vector and one for the factor
 *     2..14 rows    exactly these, and the panels are fetched ahead
 *     one row       up to 4 vectors wide: nothing is reused, memory is all that counts
 *
 * Figures are those of a sweep on AVX-512; other targets follow by their registers. */
#include "schedules/schedules_int.h"

#define PREFETCH_BYTES 1024
#define FEW_ROWS 14        /* the panels are read about once: memory bound */
#define SMALL_WORK 20000   /* multiplications that take less than waking another thread */
#define MAX_COLUMNS_K 4    /* dot products side by side with lanes along the reduction */

static int64_t tiles(int64_t extent, int64_t tile)
{
    return extent < 0 ? INT64_MAX / 2 : (extent + tile - 1) / tile;
}

/* Rows that fit: sums * mr * vectors accumulators, the vectors of every panel, one broadcast factor. */
static int rows_that_fit(const Contraction *c, const Target *t, int nr)
{
    int vectors = (nr + t->lanes - 1) / t->lanes;
    int rows = (t->n_registers - 1 - c->n_sums * vectors) / (c->n_sums * vectors);
    return rows < 1 ? 1 : rows > FEW_ROWS ? FEW_ROWS : rows;
}

/* As few tiles as possible, and these of like size. Unknown m: two below the most, whose tails cost less. */
static int rows_for(int64_t m, int most)
{
    if (m < 0) {
        return most > 12 ? 12 : most;
    }
    int64_t n = tiles(m, most);
    return m < 1 ? 1 : (int)tiles(m, n);
}

static int64_t columns_at_most(const Contraction *c, int64_t most, bool panels)
{
    int64_t n = axis_constant(c->k, c->n), below = power_below(n < 1 ? most : n, most);
    return panels && below < n && below < most ? below * 2 : below;
}

/* For one row: the width at which the busiest thread reads least; the widest of these. */
static int wide_columns(const Contraction *c, const PickHint *hint, bool panels)
{
    int64_t n = axis_constant(c->k, c->n), threads = hint->n_threads < 1 ? 1 : hint->n_threads;
    int64_t best = 0, least = INT64_MAX;
    for (int vectors = 4; vectors >= 1; vectors /= 2) {
        int64_t nr = columns_at_most(c, vectors * hint_target(hint)->lanes, panels);
        int64_t cost = n < 0 ? 0 : tiles(tiles(n, nr), threads) * nr;
        best = cost < least ? nr : best;
        least = cost < least ? cost : least;
    }
    return (int)best;
}

static ParKind choose_par(const Contraction *c, const PickHint *hint, const Tile *t)
{
    int64_t threads = hint->n_threads < 1 ? 2 : hint->n_threads;
    int batch = contraction_batch(c);
    int64_t m = c->m < 0 ? 1 : axis_extent(c->k, hint, c->m), n = axis_extent(c->k, hint, c->n);
    int64_t k = axis_extent(c->k, hint, c->red), b = batch < 0 ? 1 : axis_extent(c->k, hint, batch);
    int64_t by[N_PARS] = {1, batch < 0 ? 1 : tiles(b, 1), tiles(m, t->mr), tiles(n, t->nr)};
    static const ParKind order[] = {PAR_BATCH, PAR_N, PAR_M};
    bool small = b >= 0 && m >= 0 && n >= 0 && k >= 0 && (double)b * (double)m * (double)n * (double)k < SMALL_WORK;
    ParKind most = PAR_NONE;
    if (threads == 1 || small) {
        return PAR_NONE;
    }
    for (size_t i = 0; i < countof(order); i++) {
        if (by[order[i]] >= threads) {
            return order[i];
        }
        most = by[order[i]] > by[most] ? order[i] : most;
    }
    return most;
}

static Tile lanes_along_n(const Contraction *c, const PickHint *hint, bool panels)
{
    const Target *t = hint_target(hint);
    int64_t m = c->m < 0 ? 1 : axis_extent(c->k, hint, c->m);
    int nr = m == 1 ? wide_columns(c, hint, panels) : (int)columns_at_most(c, 2 * t->lanes, panels);
    Tile tile = {.mr = m == 1 ? 1 : rows_for(m, rows_that_fit(c, t, nr)),
                 .nr = nr,
                 .ku = 1,
                 .kc = (int)c->chunk,
                 .panels = panels,
                 .prefetch = panels && m >= 0 && m <= FEW_ROWS ? PREFETCH_BYTES : 0,
                 .fma = true,
                 .approx = c->exp};
    tile.par = choose_par(c, hint, &tile);
    return tile;
}

/* One row: four dot products of two vectors. More: a square of dot products of one vector. */
static Tile lanes_along_k(const Contraction *c, const PickHint *hint)
{
    const Target *t = hint_target(hint);
    int64_t m = c->m < 0 ? 1 : axis_extent(c->k, hint, c->m), n = axis_constant(c->k, c->n);
    int64_t k = axis_constant(c->k, c->red), widest = m == 1 ? 2 * t->lanes : t->lanes;
    int most_rows = t->n_registers / 2 / MAX_COLUMNS_K / c->n_sums;
    Tile tile = {.mr = m == 1 ? 1 : (int)power_below(m < 1 ? most_rows : m, most_rows < 1 ? 1 : most_rows),
                 .nr = (int)power_below(n < 1 ? MAX_COLUMNS_K : n, MAX_COLUMNS_K),
                 .lanes_k = (int)power_below(k < 1 ? widest : k, widest),
                 .ku = 1,
                 .m_outer = true,
                 .fma = true,
                 .approx = c->exp};
    tile.par = choose_par(c, hint, &tile);
    return tile;
}

static bool propose(Env *e, const Contraction *c, Tile t, Schedule *out)
{
    contraction_schedule(c, &t, out);
    return schedule_legal(e, c->k, out, NULL);
}

static bool along_n(Env *e, const Contraction *c, const PickHint *hint, Schedule *out)
{
    bool panels = c->n_panels > 0 && c->all_panels;
    return (panels && propose(e, c, lanes_along_n(c, hint, true), out)) ||
           propose(e, c, lanes_along_n(c, hint, false), out);
}

static bool along_k(Env *e, const Contraction *c, const PickHint *hint, Schedule *out)
{
    Tile t = lanes_along_k(c, hint);
    return t.lanes_k > 1 && propose(e, c, t, out);
}

bool default_contraction(Env *e, const Kernel *k, const PickHint *hint, Schedule *out)
{
    Contraction c;
    contraction_look(k, &c);
    int64_t n = axis_constant(k, c.n);
    if (n >= 0 && n < hint_target(hint)->lanes / 2) { /* lanes along n would stay empty */
        if (along_k(e, &c, hint, out) || along_n(e, &c, hint, out)) {
            return true;
        }
    } else if (along_n(e, &c, hint, out) || along_k(e, &c, hint, out)) {
        return true;
    }
    Tile plain = {.mr = 1, .nr = 1, .ku = 1, .fma = true, .approx = c.exp};
    plain.par = choose_par(&c, hint, &plain);
    return propose(e, &c, plain, out);
}
