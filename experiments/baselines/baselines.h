/* baselines.h - what generated kernels are measured against: libraries tuned by others, and
 * kernels tuned by hand for this project. Each is one row of a table with one interface, so
 * that a benchmark walks the rows. The work is always c[m, n] = a[m, k] b[n, k]^T in f32,
 * row-major: b is a weight as models store it, [out, in]. */
#ifndef NC_BASELINES_H
#define NC_BASELINES_H

#include "base/base.h"

/* ---- openblas.c -------------------------------------------------------------------------- */

typedef void SgemmFn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                     const float *a, int lda, const float *b, int ldb, float beta, float *c,
                     int ldc);
typedef void SgemvFn(int order, int trans, int m, int n, float alpha, const float *a, int lda,
                     const float *x, int inc_x, float beta, float *y, int inc_y);

typedef struct OpenBlas {
    void *lib; /* NULL: absent */
    SgemmFn *sgemm;
    SgemvFn *sgemv;
    char says[160]; /* its version and the core type it chose; or why it is absent */
} OpenBlas;

/* Loads OpenBLAS as fast as it can be: OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE leave this
 * process's environment first, so that it chooses for the machine at hand, and its threads are
 * told to sleep soon after a call, or they would run in the next contender's turn. Must be the
 * first to load it, before any thread is started. Its thread count is set here: its own guess
 * ignores quotas. */
void openblas_open(int n_threads, OpenBlas *b);
void openblas_close(OpenBlas *b);

/* ---- onednn.c ---------------------------------------------------------------------------- */

typedef struct OneDnn OneDnn;

/* Loads oneDNN 2 where it is installed. In e->model's memory. */
OneDnn *onednn_open(Env *e, int n_threads);
void onednn_close(OneDnn *d);
const char *onednn_says(const OneDnn *d); /* its version; or why it is absent */

/* ---- baselines.c ------------------------------------------------------------------------- */

typedef struct Baselines { /* what the rows stand on */
    const Machine *machine;
    OpenBlas openblas;
    OneDnn *onednn;
} Baselines;

/* What is absent is no error: its row says so. */
void baselines_open(Env *e, const Machine *m, int n_threads, Baselines *s);
void baselines_close(Baselines *s);

typedef struct Product { /* one product, as one row does it */
    int64_t m, n, k;
    size_t b_bytes; /* of the weights in the row's layout */
    void *plan;     /* what the row keeps for these sizes; NULL for most */
    const float *a; /* [m, k]; this and the next two may change from call to call */
    const void *b;  /* made by baseline_pack, 64-aligned */
    float *c;       /* [m, n] */
} Product;

typedef struct Baseline {
    const char *name;
    const char *meaning;
    bool own_threads; /* run is called once, as part 0 of 1, and shares the work out itself */
    bool one_row;     /* m = 1 only */
    unsigned needs;   /* bits of Feature */
    int width;        /* of its panels of weights; 0: as they are, or as pack makes them */
    /* This part's share of c. Parts may run at once. */
    void (*run)(const Baselines *s, const Product *p, int part, int n_parts);
    /* The rest is for libraries, and NULL where there is nothing to do. */
    const char *(*lacks)(const Baselines *s);
    bool (*plan)(const Baselines *s, Product *p, Err *err);
    void (*unplan)(const Baselines *s, Product *p);
    void (*pack)(const Baselines *s, const Product *p, const float *weights, void *packed);
} Baseline;

extern const Baseline baselines[];
extern const int n_baselines;

const Baseline *baseline_named(const char *name); /* NULL: none */
/* NULL: it can run products of m rows here. Otherwise what is missing, in a few words. */
const char *baseline_lacks(const Baseline *b, const Baselines *s, int64_t m);
/* Sets m, n, k, b_bytes and plan. False: it cannot do this one after all; err says why. */
bool baseline_plan(const Baseline *b, const Baselines *s, int64_t m, int64_t n, int64_t k,
                   Product *p, Err *err);
void baseline_unplan(const Baseline *b, const Baselines *s, Product *p);
/* weights[n, k] into the row's layout, once: b_bytes at packed, 64-aligned. */
void baseline_pack(const Baseline *b, const Baselines *s, const Product *p,
                   const float *weights, void *packed);

#endif
