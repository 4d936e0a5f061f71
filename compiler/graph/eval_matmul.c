/* eval_matmul.c - the interpreter's matrix product.
 *
 * Each output element is acc = 0.0f, then acc += a * b in increasing k, two roundings a step:
 * that is the definition. Different columns are independent, so several are carried side by
 * side, which changes no order: 16 adjacent ones where b's rows are contiguous, 8 of any stride
 * otherwise (a transposed weight, read in place). A Gemm given by the caller replaces the loops
 * and with them the order. */
#include "graph/eval_int.h"

#include <string.h>

#define WIDE 16
#define NARROW 8
typedef float Wide __attribute__((vector_size(WIDE * sizeof(float))));
typedef float Narrow __attribute__((vector_size(NARROW * sizeof(float))));

typedef struct Product { /* one matrix product; strides in bytes, c is contiguous */
    int64_t m, n, k;
    int64_t a_m, a_k, b_k, b_n;
} Product;

static float f32_at(const char *p, int64_t offset)
{
    return *(const float *)(p + offset);
}

/* 16 columns of one row of c, adjacent in b. */
static void wide_columns(const Product *p, const char *a, const char *b, float *c)
{
    Wide acc = {0};
    for (int64_t k = 0; k < p->k; k++) {
        Wide row;
        memcpy(&row, b + k * p->b_k, sizeof row);
        acc += f32_at(a, k * p->a_k) * row;
    }
    memcpy(c, &acc, sizeof acc);
}

/* Up to 8 columns; missing ones repeat the last and are not stored. */
static void narrow_columns(const Product *p, const char *a, const char *b, int64_t n, float *c)
{
    const char *col[NARROW];
    for (int64_t j = 0; j < NARROW; j++) {
        col[j] = b + (j < n ? j : n - 1) * p->b_n;
    }
    Narrow acc = {0};
    for (int64_t k = 0; k < p->k; k++) {
        int64_t o = k * p->b_k;
        Narrow row = {f32_at(col[0], o), f32_at(col[1], o), f32_at(col[2], o),
                      f32_at(col[3], o), f32_at(col[4], o), f32_at(col[5], o),
                      f32_at(col[6], o), f32_at(col[7], o)};
        acc += f32_at(a, k * p->a_k) * row;
    }
    memcpy(c, &acc, sizeof(float) * (size_t)n);
}

/* Columns outside, rows inside: a strip of b is read once from memory. */
static void product(const Product *p, const char *a, const char *b, float *c)
{
    for (int64_t j = 0; j < p->n;) {
        bool wide = p->b_n == sizeof(float) && p->n - j >= WIDE;
        int64_t n = wide ? WIDE : p->n - j < NARROW ? p->n - j : NARROW;
        for (int64_t i = 0; i < p->m; i++) {
            const char *row = a + i * p->a_m, *col = b + j * p->b_n;
            if (wide) {
                wide_columns(p, row, col, c + i * p->n + j);
            } else {
                narrow_columns(p, row, col, n, c + i * p->n + j);
            }
        }
        j += n;
    }
}

/* The last two axes of an operand, contiguous, for a Gemm that knows no strides. */
static View dense_matrix(Pool *pool, const View *v, char *at)
{
    View matrix = *v;
    matrix.rank = 2;
    matrix.at = at;
    for (int i = 0; i < 2; i++) {
        matrix.dim[i] = v->dim[v->rank - 2 + i];
        matrix.stride[i] = v->stride[v->rank - 2 + i];
    }
    if (view_contiguous(&matrix)) {
        view_keep(&matrix);
        return matrix;
    }
    return view_copy(pool, &matrix);
}

static void product_by_gemm(const Call *call, const Product *p, char *a, char *b, float *c)
{
    View dense_a = dense_matrix(call->pool, call->in[0], a);
    View dense_b = dense_matrix(call->pool, call->in[1], b);
    call->gemm(p->m, p->n, p->k, (const float *)dense_a.at, (const float *)dense_b.at, c);
    view_drop(call->pool, &dense_a);
    view_drop(call->pool, &dense_b);
}

View eval_matmul(const Call *call)
{
    const View *a = call->in[0], *b = call->in[1];
    int rank = a->rank;
    int64_t dim[MAX_RANK];
    memcpy(dim, a->dim, sizeof dim);
    dim[rank - 1] = b->dim[rank - 1];
    View out = view_new(call->pool, DT_F32, rank, dim);
    Product p = {.m = a->dim[rank - 2],
                 .n = b->dim[rank - 1],
                 .k = a->dim[rank - 1],
                 .a_m = a->stride[rank - 2],
                 .a_k = a->stride[rank - 1],
                 .b_k = b->stride[rank - 2],
                 .b_n = b->stride[rank - 1]};
    bool gemm = call->gemm && p.m > 0 && p.n > 0 && p.k > 0;
    View batch[3] = {out, *a, *b}; /* one element a matrix */
    for (int i = 0; i < 3; i++) {
        batch[i].rank = rank - 2;
    }
    Walk w;
    walk_init(&w, 3, (const View *const[]){&batch[0], &batch[1], &batch[2]});
    while (walk_next(&w)) {
        for (int64_t i = 0; i < w.n; i++) {
            float *c = (float *)(w.at[0] + i * w.step[0]);
            char *pa = w.at[1] + i * w.step[1], *pb = w.at[2] + i * w.step[2];
            if (gemm) {
                product_by_gemm(call, &p, pa, pb, c);
            } else {
                product(&p, pa, pb, c);
            }
        }
    }
    return out;
}
