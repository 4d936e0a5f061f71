/* default_contraction.c - the tile of a contraction from the target's registers, where constant
 * operands go into panels; lanes along the reduction where they cannot.
 *
 *     many rows     mr x 2 vectors: as many rows as leave a register for every vector of the
 *                   panels and one for the other factor; the panels are fetched far ahead
 *     2..14 rows    exactly these
 *     one row       the panels of many rows, so that a model holds a weight once; without panels
 *                   up to 4 vectors wide: nothing is reused, memory is all that counts
 *     attention     of one row: heads that share keys take turns at a tile of dot products that
 *                   end together, or are rows of a tile; else many short dot products beside
 *                   each other, or all columns at once
 *
 * Figures are what was measured best on AVX-512; other targets follow by their registers. */
#include "schedules/schedules_int.h"

#define PREFETCH_ONE_ROW 4096 /* bytes ahead in a panel */
#define PREFETCH_ROWS 16384   /* the same for many rows, of which each tile takes its time */
#define PREFETCH_BF16 1024    /* bytes ahead in rows of bf16 that are no panels */
#define NEAR_PANEL 1024       /* bytes: it is there before it could be fetched */
#define PREFETCH_CACHE 4096   /* bytes ahead in keys and values */
#define PREFETCH_KEYS 8192    /* the same where heads take turns around a tile of keys */
#define MAX_ROWS 14           /* of a tile */
#define UNKNOWN_ROWS 12       /* of a tile where m is not known: its tails cost less code */
#define SMALL_WORK 20000      /* products that take less than waking another thread */
#define ONE_ROW_COLUMNS_K 2   /* of one row: two streams of weights, four vectors wide */
#define ONE_ROW_VECTORS_K 4
#define ATTENTION_COLUMNS_K 16 /* of one row and no weights: what ends a dot product is dear */
#define ATTENTION_LANES_K 8
#define MOST_BLOCK (1 << 18) /* bytes of a panel that stay in a second-level cache */
#define STAGED_ROWS 32       /* so many rows make up for copying a tile first */

static int64_t rows_of(const Look *l, const PickHint *hint)
{
    return l->c.m < 0 ? 1 : axis_extent(l->k, hint, l->c.m);
}

/* Rows that fit: sums * mr * vectors accumulators, the vectors of every panel, one broadcast
 * factor. */
static int rows_that_fit(const Contraction *c, const Target *t, int nr)
{
    int vectors = (int)blocks(nr, t->lanes);
    int rows = (t->n_registers - 1 - c->n_sums * vectors) / (c->n_sums * vectors);
    return rows < 1 ? 1 : rows > MAX_ROWS ? MAX_ROWS : rows;
}

/* As few tiles as possible, and these of like size. */
static int rows_for(int64_t m, int most)
{
    if (m < 0) {
        return most > UNKNOWN_ROWS ? UNKNOWN_ROWS : most;
    }
    return m < 1 ? 1 : (int)blocks(m, blocks(m, most));
}

static bool fits(const Look *l, const PickHint *hint, const Tile *tile)
{
    const Target *t = hint_target(hint);
    return tile_registers(l, t, tile) <= t->n_registers && panel_fits(l, hint, tile);
}

static int columns_at_most(const Look *l, int64_t most, bool panels)
{
    int64_t n = axis_constant(l->k, l->c.n), below = power_below(n < 1 ? most : n, most);
    bool pads = panels && l->c.n_loose == 0;
    return (int)(pads && below < n && below < most ? below * 2 : below);
}

static int64_t batch_of(const Look *l, const PickHint *hint)
{
    return l->c.shared < 0 ? 1 : blocks(axis_extent(l->k, hint, l->c.shared), 1);
}

/* One row of attention: heads that share keys are rows of a tile, where that leaves every thread
 * a group. */
static bool groups_fit(const Look *l, const PickHint *hint, bool panels)
{
    return l->c.group > 0 && !panels && rows_of(l, hint) == 1 &&
           batch_of(l, hint) / l->c.group >= hint_threads(hint);
}

/* For one row without panels: the width at which the busiest thread reads least; the widest of
 * these. */
static int wide_columns(const Look *l, const PickHint *hint)
{
    int64_t n = axis_constant(l->k, l->c.n), best = 0, least = INT64_MAX;
    int64_t threads = batch_of(l, hint) > 1 ? 1 : hint_threads(hint);
    for (int vectors = 4; vectors >= 1; vectors /= 2) {
        int64_t nr = columns_at_most(l, vectors * hint_target(hint)->lanes, false);
        int64_t cost = n < 0 ? 0 : blocks(blocks(n, nr), threads) * nr;
        best = cost < least ? nr : best;
        least = cost < least ? cost : least;
    }
    return (int)best;
}

/* Which loop threads share: the batch, else of n and m the first with work for all, which
 * then is outermost. */
static void share(const Look *l, const PickHint *hint, Tile *t)
{
    int64_t batch = batch_of(l, hint) / (t->group ? l->c.group : 1);
    int64_t m = blocks(rows_of(l, hint), t->mr);
    int64_t n = blocks(axis_extent(l->k, hint, l->c.n), t->nr);
    int64_t threads = hint_threads(hint), most = m > n ? m : n;
    n = t->cut ? 1 : n;
    if (threads == 1 || kernel_work(l->k, hint, SMALL_WORK) < SMALL_WORK) {
        t->par = PAR_NONE;
    } else if (batch >= threads || batch >= most) {
        t->par = batch > 1 ? PAR_BATCH : PAR_NONE;
    } else {
        t->m_outer = n < threads && m > n;
        t->par = PAR_OUTER;
    }
}

/* A panel so long that each tile of rows would fetch it anew is read in blocks that stay. */
static void block(const Look *l, Tile *t)
{
    int64_t k = axis_constant(l->k, l->c.red), kc = k;
    int64_t n = axis_constant(l->k, l->c.n);
    if (!t->panels || t->mr == 1 || t->cut || t->kc || !l->c.resumes || n % t->nr) {
        return;
    }
    while (kc * t->nr * (int64_t)sizeof(float) > MOST_BLOCK && kc % 2 == 0) {
        kc /= 2;
    }
    t->around = kc < k;
    t->kc = kc < k ? (int)kc : 0;
}

static Tile lanes_along_n(const Look *l, const PickHint *hint, bool panels, int lanes)
{
    const Target *t = hint_target(hint);
    int64_t m = rows_of(l, hint);
    bool group = lanes == LANES_N && groups_fit(l, hint, panels);
    int nr =
        m == 1 && !panels ? wide_columns(l, hint) : columns_at_most(l, 2 * t->lanes, panels);
    Tile tile = {.lanes = lanes,
                 .mr = m == 1 ? 1 : rows_for(m, rows_that_fit(&l->c, t, nr)),
                 .nr = nr,
                 .ku = m == 1 && !panels && !group && l->c.chunk == 0 ? 2 : 1,
                 .kc = (int)l->c.chunk,
                 .group = group ? GROUP_ROWS : GROUP_NONE,
                 .cut = l->c.cut != NULL,
                 .panels = panels,
                 .prefetch = group && !l->c.cut ? PREFETCH_CACHE
                             : !panels          ? 0
                             : m == 1           ? PREFETCH_ONE_ROW
                                                : PREFETCH_ROWS,
                 .bf16 = comes_from_bf16(l),
                 .fma = t->fused,
                 .approx = exp_for(hint, l->c.exp)};
    while (tile.nr > 1 && !fits(l, hint, &tile)) {
        tile.nr /= 2;
    }
    if (tile.panels && m != 1 && panel_bytes(l->k, &l->c, &tile) <= NEAR_PANEL) {
        tile.prefetch = 0;
    }
    block(l, &tile);
    share(l, hint, &tile);
    return tile;
}

/* The largest square of sums whose factors fit the registers beside it. */
static int square_that_fits(const Contraction *c, const Target *t)
{
    int side = 1;
    while (c->n_sums * ((side + 1) * (side + 1) + side + 1) < t->n_registers) {
        side++;
    }
    return side;
}

/* One row: two dot products of four vectors; of bf16 one, whose weights are fetched ahead, since what
 * is read at a turn is half as long. More rows: a square of dot products of one vector. */
static Tile lanes_along_k(const Look *l, const PickHint *hint)
{
    const Target *t = hint_target(hint);
    int64_t m = rows_of(l, hint), k = axis_constant(l->k, l->c.red);
    int64_t n = axis_constant(l->k, l->c.n);
    bool group = groups_fit(l, hint, false);
    int64_t widest = m == 1 && !group ? ONE_ROW_VECTORS_K * t->lanes : t->lanes;
    int side = square_that_fits(&l->c, t), columns = m == 1 ? ONE_ROW_COLUMNS_K : side;
    bool bf16 = comes_from_bf16(l), ahead = m == 1 && bf16;
    columns = ahead ? 1 : columns;
    Tile tile = {.lanes = (int)power_below(k < 1 ? widest : k, widest),
                 .mr = m < 0 || m > side ? side
                       : m < 1           ? 1
                                         : (int)m,
                 .nr = n >= 1 && n < columns ? (int)n : columns,
                 .ku = 1,
                 .group = group ? GROUP_ROWS : GROUP_NONE,
                 .prefetch = ahead                ? PREFETCH_BF16
                             : group && !l->c.cut ? PREFETCH_CACHE
                                                  : 0,
                 .cut = l->c.cut != NULL,
                 .bf16 = bf16,
                 .fma = hint_target(hint)->fused,
                 .approx = exp_for(hint, l->c.exp)};
    while (tile.nr > 1 && !fits(l, hint, &tile)) {
        tile.nr /= 2;
    }
    share(l, hint, &tile);
    return tile;
}

/* Scores of one row against a cache: each of its tiles serves all heads. */
static Tile lanes_along_k_of_cache(const Look *l, const PickHint *hint)
{
    Tile tile = lanes_along_k(l, hint);
    tile.lanes = tile.lanes < ATTENTION_LANES_K ? tile.lanes : ATTENTION_LANES_K;
    tile.nr = ATTENTION_COLUMNS_K;
    while (tile.nr > 1 && !fits(l, hint, &tile)) {
        tile.nr /= 2;
    }
    tile.par = tile.par == PAR_NONE || tile.cut ? tile.par : PAR_OUTER;
    return tile;
}

/* Scores of one row against a cache: as many dot products as a vector has lanes end together, and the heads
 * that share keys read these from the nearest cache one after another. */
static Tile lanes_along_k_in_turns(const Look *l, const PickHint *hint)
{
    Tile tile = lanes_along_k(l, hint);
    tile.group = GROUP_AROUND;
    tile.lanes = tile.nr = hint_target(hint)->lanes;
    tile.prefetch = PREFETCH_KEYS;
    return tile;
}

/* As wished, else without the cut. */
static bool propose(Env *e, const Look *l, const PickHint *hint, Tile t, Recipe *out)
{
    out->tile = t;
    if (recipe_legal(e, l, out)) {
        return true;
    }
    out->tile.cut = 0;
    share(l, hint, &out->tile);
    return t.cut && recipe_legal(e, l, out);
}

static bool along_n(Env *e, const Look *l, const PickHint *hint, Recipe *out)
{
    int64_t m = rows_of(l, hint);
    Tile panels = lanes_along_n(l, hint, true, LANES_N);
    Tile loose = lanes_along_n(l, hint, false, LANES_N);
    Tile staged = lanes_along_n(l, hint, false, LANES_STAGED);
    if (!hint->in_place && l->c.n_panels > 0 && panels.nr > 1 &&
        propose(e, l, hint, panels, out)) {
        return true;
    }
    if (loose.nr > 1 && propose(e, l, hint, loose, out)) {
        return true;
    }
    staged.kc = 0;
    return m >= STAGED_ROWS && staged.nr > 1 && !l->c.loose_all &&
           propose(e, l, hint, staged, out);
}

static bool along_k(Env *e, const Look *l, const PickHint *hint, Recipe *out)
{
    Tile t = lanes_along_k(l, hint), of_cache = lanes_along_k_of_cache(l, hint);
    bool cache = rows_of(l, hint) == 1 && l->c.n_panels == 0 && axis_constant(l->k, l->c.n) < 0;
    Tile turns = lanes_along_k_in_turns(l, hint);
    bool whole = axis_constant(l->k, l->c.red) % turns.lanes == 0;
    if (cache && t.group && !t.cut && whole && fits(l, hint, &turns) &&
        propose(e, l, hint, turns, out)) {
        return true;
    }
    return t.lanes > LANES_STAGED &&
           ((cache && !t.group && propose(e, l, hint, of_cache, out)) ||
            propose(e, l, hint, t, out));
}

bool default_contraction(Env *e, const Look *l, const PickHint *hint, Recipe *out)
{
    int64_t n = axis_constant(l->k, l->c.n);
    bool narrow = n >= 0 && n < hint_target(hint)->lanes / 2; /* lanes would stay empty */
    if (narrow ? along_k(e, l, hint, out) || along_n(e, l, hint, out)
               : along_n(e, l, hint, out) || along_k(e, l, hint, out)) {
        return true;
    }
    Tile plain = {.mr = 1,
                  .nr = 1,
                  .ku = 1,
                  .bf16 = comes_from_bf16(l),
                  .fma = hint_target(hint)->fused,
                  .approx = exp_for(hint, l->c.exp)};
    share(l, hint, &plain);
    if (!propose(e, l, hint, plain, out)) {
        out->tile.par = PAR_NONE;
    }
    return recipe_legal(e, l, out);
}
