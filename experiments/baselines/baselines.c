/* baselines.c - the table of baselines, and what its rows have in common: weights stay as they
 * are or go into panels, and a row says in words what keeps it from running here. */
#include "experiments/baselines/baselines_int.h"

#include <string.h>

/* ---- the table --------------------------------------------------------------------------- */

#define HAS(id) (1u << FEAT_##id)

const Baseline baselines[] = {
    {.name = "openblas",
     .meaning = "OpenBLAS: cblas_sgemm, for one row cblas_sgemv; weights as they are",
     .own_threads = true,
     .lacks = openblas_lacks,
     .plan = openblas_plan,
     .run = openblas_run},
    {.name = "onednn",
     .meaning = "oneDNN: its matmul, weights in the layout that it asks for",
     .own_threads = true,
     .lacks = onednn_lacks,
     .plan = onednn_plan,
     .unplan = onednn_unplan,
     .pack = onednn_pack,
     .run = onednn_run},
#if defined __x86_64__
    {.name = "hand-avx512",
     .meaning = "by hand: tiles of 14x32 and 6x64, weights in panels of 32 columns",
     .needs = HAS(AVX512F),
     .width = AVX512_WIDTH,
     .run = avx512_panels_run},
    {.name = "hand-avx512-rows",
     .meaning = "by hand: one row, four rows of weights at once, as they are",
     .needs = HAS(AVX512F),
     .one_row = true,
     .run = avx512_rows_run},
    {.name = "hand-avx2",
     .meaning = "by hand: tiles of 6x16 and 2x32, weights in panels of 16 columns",
     .needs = HAS(AVX2) | HAS(FMA),
     .width = AVX2_WIDTH,
     .run = avx2_panels_run},
    {.name = "hand-avx2-rows",
     .meaning = "by hand: one row, four rows of weights at once, as they are",
     .needs = HAS(AVX2) | HAS(FMA),
     .one_row = true,
     .run = avx2_rows_run},
#endif
};
const int n_baselines = countof(baselines);

const Baseline *baseline_named(const char *name)
{
    for (int i = 0; i < n_baselines; i++) {
        if (strcmp(baselines[i].name, name) == 0) {
            return &baselines[i];
        }
    }
    return NULL;
}

/* ---- what they stand on ------------------------------------------------------------------ */

void baselines_open(Env *e, const Machine *m, int n_threads, Baselines *s)
{
    *s = (Baselines){.machine = m, .onednn = onednn_open(e, n_threads)};
    openblas_open(n_threads, &s->openblas);
}

void baselines_close(Baselines *s)
{
    openblas_close(&s->openblas);
    onednn_close(s->onednn);
}

/* ---- one row, one product ---------------------------------------------------------------- */

const char *baseline_lacks(const Baseline *b, const Baselines *s, int64_t m)
{
    if (b->one_row && m != 1) {
        return "it takes one row only";
    }
    for (int f = 0; f < N_FEATURES; f++) {
        if ((b->needs >> f & 1) && !s->machine->feature[f]) {
            return feature_name((Feature)f);
        }
    }
    return b->lacks ? b->lacks(s) : NULL;
}

bool baseline_plan(const Baseline *b, const Baselines *s, int64_t m, int64_t n, int64_t k,
                   Product *p, Err *err)
{
    size_t bytes =
        b->width > 0 ? panels_bytes(b->width, n, k) : (size_t)n * (size_t)k * sizeof(float);
    *p = (Product){.m = m, .n = n, .k = k, .b_bytes = bytes};
    return !b->plan || b->plan(s, p, err);
}

void baseline_unplan(const Baseline *b, const Baselines *s, Product *p)
{
    if (b->unplan) {
        b->unplan(s, p);
    }
    p->plan = NULL;
}

void baseline_pack(const Baseline *b, const Baselines *s, const Product *p,
                   const float *weights, void *packed)
{
    if (b->pack) {
        b->pack(s, p, weights, packed);
    } else if (b->width > 0) {
        panels_pack(b->width, p->n, p->k, weights, packed);
    } else if (p->b_bytes > 0) {
        memcpy(packed, weights, p->b_bytes);
    }
}
