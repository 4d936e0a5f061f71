/* hand_avx512.c - f32 products by hand for AVX-512: register tiles of up to 14 rows by 32
 * columns or 6 by 64, one row as a stream over the panel, and one row against weights left as
 * they are.
 *
 * 32 vector registers hold 28 accumulators (14 x 2), or 24 (6 x 4), the weights and a broadcast
 * activation. Sums run over k in order, fused; the matrix-vector kernels keep several partial
 * sums. */
#include "experiments/baselines/baselines_int.h"

#if defined __x86_64__
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f")))

enum { LANES = 16, WIDTH = AVX512_WIDTH };

/* The lanes of vector j of a row of n columns that exist */
ALWAYS_INLINE TARGET __mmask16 columns(int n, int j)
{
    int left = n - j * LANES;
    return left >= LANES ? 0xffff : left > 0 ? (__mmask16)((1u << left) - 1) : 0;
}

/* n_rows by n_vectors, both known where this is expanded: every accumulator is a register. */
ALWAYS_INLINE TARGET void tile(const Tile *t, int n_rows, int n_vectors)
{
    __m512 sum[MAX_TILE_ROWS][4];
    UNROLL
    for (int i = 0; i < n_rows; i++) {
        UNROLL
        for (int j = 0; j < n_vectors; j++) {
            sum[i][j] = _mm512_setzero_ps();
        }
    }
    const float *a = t->a, *panel = t->panel, *ahead = t->ahead;
    int64_t a_row = t->a_row, panel_step = t->panel_step, ahead_step = t->ahead_step;
    for (int64_t l = 0; l < t->k; l++) {
        __m512 b[4];
        UNROLL
        for (int j = 0; j < n_vectors; j++) {
            int64_t at = j / 2 * panel_step + j % 2 * LANES;
            b[j] = _mm512_loadu_ps(panel + l * WIDTH + at);
            _mm_prefetch((const char *)(ahead + at), _MM_HINT_T1);
        }
        ahead += ahead_step;
        UNROLL
        for (int i = 0; i < n_rows; i++) {
            __m512 x = _mm512_set1_ps(a[i * a_row + l]);
            UNROLL
            for (int j = 0; j < n_vectors; j++) {
                sum[i][j] = _mm512_fmadd_ps(x, b[j], sum[i][j]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < n_rows; i++) {
        UNROLL
        for (int j = 0; j < n_vectors; j++) {
            float *c = t->c + i * t->c_row + j * LANES;
            _mm512_mask_storeu_ps(c, columns(t->n_columns, j), sum[i][j]);
        }
    }
}

#define TILE(rows)                                \
    static TARGET void tile_##rows(const Tile *t) \
    {                                             \
        tile(t, rows, 2);                         \
    }
#define WIDE(rows)                                \
    static TARGET void wide_##rows(const Tile *t) \
    {                                             \
        tile(t, rows, 4);                         \
    }
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
TILE(13)
TILE(14)
WIDE(2)
WIDE(3)
WIDE(4)
WIDE(5)
WIDE(6)

/* ---- one row ----------------------------------------------------------------------------- */

/* The panel is one stream: four steps of k at a time keep eight sums going. Fetching ahead made
 * it slower by 1 to 5% at any distance: the hardware does that. */
static TARGET void tile_1(const Tile *t)
{
    __m512 sum[4][2];
    UNROLL
    for (int u = 0; u < 4; u++) {
        sum[u][0] = sum[u][1] = _mm512_setzero_ps();
    }
    int64_t l = 0;
    for (; l + 4 <= t->k; l += 4) {
        const float *w = t->panel + l * WIDTH;
        UNROLL
        for (int u = 0; u < 4; u++, w += WIDTH) {
            __m512 x = _mm512_set1_ps(t->a[l + u]);
            sum[u][0] = _mm512_fmadd_ps(x, _mm512_loadu_ps(w), sum[u][0]);
            sum[u][1] = _mm512_fmadd_ps(x, _mm512_loadu_ps(w + LANES), sum[u][1]);
        }
    }
    for (; l < t->k; l++) {
        __m512 x = _mm512_set1_ps(t->a[l]);
        const float *w = t->panel + l * WIDTH;
        sum[0][0] = _mm512_fmadd_ps(x, _mm512_loadu_ps(w), sum[0][0]);
        sum[0][1] = _mm512_fmadd_ps(x, _mm512_loadu_ps(w + LANES), sum[0][1]);
    }
    UNROLL
    for (int j = 0; j < 2; j++) {
        __m512 all = _mm512_add_ps(_mm512_add_ps(sum[0][j], sum[1][j]),
                                   _mm512_add_ps(sum[2][j], sum[3][j]));
        _mm512_mask_storeu_ps(t->c + j * LANES, columns(t->n_columns, j), all);
    }
}

static const Hand avx512 = {
    .width = WIDTH,
    .rows = 14,
    .tile = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7, tile_8, tile_9,
             tile_10, tile_11, tile_12, tile_13, tile_14},
    .wide = {NULL, NULL, wide_2, wide_3, wide_4, wide_5, wide_6},
};

void avx512_panels_run(const Baselines *s, const Product *p, int part, int n_parts)
{
    (void)s;
    hand_run(&avx512, p, part, n_parts);
}

/* ---- one row against rows ---------------------------------------------------------------- */

/* n_rows outputs at once: each weight row is a stream, two sums a row, lanes along k. */
ALWAYS_INLINE TARGET void dot_rows(const float *x, const float *w, int64_t k, float *y,
                                   int n_rows)
{
    __m512 sum[4][2];
    UNROLL
    for (int i = 0; i < n_rows; i++) {
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    }
    int64_t l = 0;
    for (; l + 2 * LANES <= k; l += 2 * LANES) {
        __m512 x0 = _mm512_loadu_ps(x + l), x1 = _mm512_loadu_ps(x + l + LANES);
        UNROLL
        for (int i = 0; i < n_rows; i++) {
            const float *row = w + i * k + l;
            sum[i][0] = _mm512_fmadd_ps(x0, _mm512_loadu_ps(row), sum[i][0]);
            sum[i][1] = _mm512_fmadd_ps(x1, _mm512_loadu_ps(row + LANES), sum[i][1]);
        }
    }
    for (; l < k; l += LANES) {
        __mmask16 mask = columns((int)(k - l < LANES ? k - l : LANES), 0);
        __m512 x0 = _mm512_maskz_loadu_ps(mask, x + l);
        UNROLL
        for (int i = 0; i < n_rows; i++) {
            __m512 row = _mm512_maskz_loadu_ps(mask, w + i * k + l);
            sum[i][0] = _mm512_fmadd_ps(x0, row, sum[i][0]);
        }
    }
    UNROLL
    for (int i = 0; i < n_rows; i++) {
        y[i] = _mm512_reduce_add_ps(_mm512_add_ps(sum[i][0], sum[i][1]));
    }
}

TARGET void avx512_rows_run(const Baselines *s, const Product *p, int part, int n_parts)
{
    (void)s;
    const float *w = p->b;
    Share rows = share_of(p->n, part, n_parts);
    int64_t j = rows.first;
    for (; j + 4 <= rows.end; j += 4) {
        dot_rows(p->a, w + j * p->k, p->k, p->c + j, 4);
    }
    for (; j < rows.end; j++) {
        dot_rows(p->a, w + j * p->k, p->k, p->c + j, 1);
    }
}
#endif
