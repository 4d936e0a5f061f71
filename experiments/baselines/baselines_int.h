/* baselines_int.h - what the files of this folder share: how a library or an instruction set
 * joins the table in baselines.c, and the loops that all hand-written kernels stand in. */
#ifndef NC_BASELINES_INT_H
#define NC_BASELINES_INT_H

#include "experiments/baselines/baselines.h"

/* ---- openblas.c, onednn.c ---------------------------------------------------------------- */

const char *openblas_lacks(const Baselines *s);
bool openblas_plan(const Baselines *s, Product *p, Err *err);
void openblas_run(const Baselines *s, const Product *p, int part, int n_parts);

const char *onednn_lacks(const Baselines *s);
bool onednn_plan(const Baselines *s, Product *p, Err *err);
void onednn_unplan(const Baselines *s, Product *p);
void onednn_pack(const Baselines *s, const Product *p, const float *weights, void *packed);
void onednn_run(const Baselines *s, const Product *p, int part, int n_parts);

/* ---- hand.c: panels, and the loops around the tiles of one instruction set --------------- */

/* A product of a few rows with one panel of weights, or with two neighbours (wide). */
typedef struct Tile {
    int64_t k;
    const float *a; /* activations, rows a_row apart */
    int64_t a_row;
    const float *panel; /* [k][width] */
    int64_t panel_step; /* from a panel to its right neighbour, in floats */
    float *c;           /* rows c_row apart */
    int64_t c_row;
    int n_columns; /* of c: what pads the last panel is not stored */
    /* Fetched meanwhile: a panel's row, and ahead_step further for every k. */
    const float *ahead;
    int64_t ahead_step;
} Tile;
typedef void TileFn(const Tile *t);

enum { MAX_TILE_ROWS = 14 };

typedef struct Hand {
    int width;                       /* columns of a panel */
    int rows;                        /* of the tallest tile */
    TileFn *tile[MAX_TILE_ROWS + 1]; /* by rows */
    TileFn *wide[MAX_TILE_ROWS + 1]; /* few rows need more columns to hide latency; else NULL */
} Hand;

typedef struct Share {
    int64_t first, end;
} Share;

Share share_of(int64_t n, int part, int n_parts); /* contiguous, as even as can be */

size_t panels_bytes(int width, int64_t n, int64_t k);
/* weights[n, k] into [n / width][k][width], the last panel filled up with zeros */
void panels_pack(int width, int64_t n, int64_t k, const float *weights, float *panels);
void hand_run(const Hand *h, const Product *p, int part, int n_parts);

/* ---- hand_avx2.c, hand_avx512.c: empty where the machine is no x86-64 -------------------- */

#if defined __x86_64__
void avx2_panels_run(const Baselines *s, const Product *p, int part, int n_parts);
void avx2_rows_run(const Baselines *s, const Product *p, int part, int n_parts);
void avx512_panels_run(const Baselines *s, const Product *p, int part, int n_parts);
void avx512_rows_run(const Baselines *s, const Product *p, int part, int n_parts);
enum { AVX2_WIDTH = 16, AVX512_WIDTH = 32 }; /* of their panels */

/* The loops of a tile must vanish, or its accumulators live in memory. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

#endif
