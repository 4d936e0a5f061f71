/* hand_avx2.c - f32 products by hand for AVX2 with FMA: register tiles of up to 6 rows by 16
 * columns or 2 by 32, one row as a stream over the panel, and one row against weights left as
 * they are.
 *
 * 16 vector registers hold 12 accumulators (6 x 2), the weights and a broadcast activation.
 * Sums run over k in order, fused; the matrix-vector kernels keep several partial sums. */
#include "experiments/baselines/baselines_int.h"

#if defined __x86_64__
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))

enum { LANES = 8, WIDTH = AVX2_WIDTH, MAX_ROWS = 6 };

/* All ones in the first n lanes */
ALWAYS_INLINE TARGET __m256i first_lanes(int64_t n)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

/* Vector j of a row of n columns */
ALWAYS_INLINE TARGET void store_columns(float *c, int n, int j, __m256 v)
{
    if (n >= (j + 1) * LANES) {
        _mm256_storeu_ps(c + j * LANES, v);
    } else if (n > j * LANES) {
        _mm256_maskstore_ps(c + j * LANES, first_lanes(n - j * LANES), v);
    }
}

/* n_rows by n_vectors, both known where this is expanded: every accumulator is a register. */
ALWAYS_INLINE TARGET void tile(const Tile *t, int n_rows, int n_vectors)
{
    __m256 sum[MAX_ROWS][4];
    UNROLL
    for (int i = 0; i < n_rows; i++) {
        UNROLL
        for (int j = 0; j < n_vectors; j++) {
            sum[i][j] = _mm256_setzero_ps();
        }
    }
    const float *a = t->a, *panel = t->panel, *ahead = t->ahead;
    int64_t a_row = t->a_row, panel_step = t->panel_step, ahead_step = t->ahead_step;
    for (int64_t l = 0; l < t->k; l++) {
        __m256 b[4];
        UNROLL
        for (int j = 0; j < n_vectors; j++) {
            int64_t at = j / 2 * panel_step + j % 2 * LANES;
            b[j] = _mm256_loadu_ps(panel + l * WIDTH + at);
            if (j % 2 == 0) { /* a panel's row is one cache line */
                _mm_prefetch((const char *)(ahead + at), _MM_HINT_T1);
            }
        }
        ahead += ahead_step;
        UNROLL
        for (int i = 0; i < n_rows; i++) {
            __m256 x = _mm256_broadcast_ss(a + i * a_row + l);
            UNROLL
            for (int j = 0; j < n_vectors; j++) {
                sum[i][j] = _mm256_fmadd_ps(x, b[j], sum[i][j]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < n_rows; i++) {
        UNROLL
        for (int j = 0; j < n_vectors; j++) {
            store_columns(t->c + i * t->c_row, t->n_columns, j, sum[i][j]);
        }
    }
}

#define TILE(rows)                                \
    static TARGET void tile_##rows(const Tile *t) \
    {                                             \
        tile(t, rows, 2);                         \
    }
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)

static TARGET void wide_2(const Tile *t)
{
    tile(t, 2, 4);
}

/* ---- one row ----------------------------------------------------------------------------- */

enum { AHEAD = 4096 / sizeof(float) }; /* tried from 1 to 16 KiB, with weights in memory */

/* The panel is one stream: four steps of k at a time keep eight sums going. */
static TARGET void tile_1(const Tile *t)
{
    __m256 sum[4][2];
    UNROLL
    for (int u = 0; u < 4; u++) {
        sum[u][0] = sum[u][1] = _mm256_setzero_ps();
    }
    int64_t l = 0;
    for (; l + 4 <= t->k; l += 4) {
        UNROLL
        for (int u = 0; u < 4; u++) {
            const float *w = t->panel + (l + u) * WIDTH;
            __m256 x = _mm256_broadcast_ss(t->a + l + u);
            _mm_prefetch((const char *)(w + AHEAD), _MM_HINT_T0);
            sum[u][0] = _mm256_fmadd_ps(x, _mm256_loadu_ps(w), sum[u][0]);
            sum[u][1] = _mm256_fmadd_ps(x, _mm256_loadu_ps(w + LANES), sum[u][1]);
        }
    }
    for (; l < t->k; l++) {
        const float *w = t->panel + l * WIDTH;
        __m256 x = _mm256_broadcast_ss(t->a + l);
        sum[0][0] = _mm256_fmadd_ps(x, _mm256_loadu_ps(w), sum[0][0]);
        sum[0][1] = _mm256_fmadd_ps(x, _mm256_loadu_ps(w + LANES), sum[0][1]);
    }
    UNROLL
    for (int j = 0; j < 2; j++) {
        __m256 even = _mm256_add_ps(sum[0][j], sum[2][j]);
        __m256 odd = _mm256_add_ps(sum[1][j], sum[3][j]);
        store_columns(t->c, t->n_columns, j, _mm256_add_ps(even, odd));
    }
}

static const Hand avx2 = {
    .width = WIDTH,
    .rows = MAX_ROWS,
    .tile = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6},
    .wide = {NULL, NULL, wide_2},
};

void avx2_panels_run(const Baselines *s, const Product *p, int part, int n_parts)
{
    (void)s;
    hand_run(&avx2, p, part, n_parts);
}

/* ---- one row against rows ---------------------------------------------------------------- */

ALWAYS_INLINE TARGET float sum_of(__m256 v)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* n_rows outputs at once: each weight row is a stream, two sums a row, lanes along k. */
ALWAYS_INLINE TARGET void dot_rows(const float *x, const float *w, int64_t k, float *y,
                                   int n_rows)
{
    __m256 sum[4][2];
    UNROLL
    for (int i = 0; i < n_rows; i++) {
        sum[i][0] = sum[i][1] = _mm256_setzero_ps();
    }
    int64_t l = 0;
    for (; l + 2 * LANES <= k; l += 2 * LANES) {
        __m256 x0 = _mm256_loadu_ps(x + l), x1 = _mm256_loadu_ps(x + l + LANES);
        UNROLL
        for (int i = 0; i < n_rows; i++) {
            const float *row = w + i * k + l;
            sum[i][0] = _mm256_fmadd_ps(x0, _mm256_loadu_ps(row), sum[i][0]);
            sum[i][1] = _mm256_fmadd_ps(x1, _mm256_loadu_ps(row + LANES), sum[i][1]);
        }
    }
    for (; l < k; l += LANES) {
        __m256i mask = first_lanes(k - l < LANES ? k - l : LANES);
        __m256 x0 = _mm256_maskload_ps(x + l, mask);
        UNROLL
        for (int i = 0; i < n_rows; i++) {
            __m256 row = _mm256_maskload_ps(w + i * k + l, mask);
            sum[i][0] = _mm256_fmadd_ps(x0, row, sum[i][0]);
        }
    }
    UNROLL
    for (int i = 0; i < n_rows; i++) {
        y[i] = sum_of(_mm256_add_ps(sum[i][0], sum[i][1]));
    }
}

TARGET void avx2_rows_run(const Baselines *s, const Product *p, int part, int n_parts)
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
