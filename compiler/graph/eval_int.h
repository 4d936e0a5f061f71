/* eval_int.h - what the interpreter's files share: values as strided views of shared memory, so
 * that permute, broadcast, slice and most reshapes copy nothing. Private to compiler/graph. */
#ifndef NC_EVAL_INT_H
#define NC_EVAL_INT_H

#include "graph/graph.h"

/* ---- view.c: views and their memory ------------------------------------- */

typedef struct Chunk Chunk; /* counted memory of a Pool */

typedef struct Pool { /* the memory of one interpretation, outside any arena: freed early */
    Env *env;
    Chunk *first; /* all that live */
} Pool;

void pool_release(Pool *p); /* everything, on any path */

typedef struct View {
    Dtype dtype;
    int rank;
    int64_t dim[MAX_RANK];
    int64_t stride[MAX_RANK]; /* bytes; 0 where repeated */
    char *at;                 /* the first element */
    Chunk *chunk;             /* NULL: memory that someone else owns */
} View;

View view_new(Pool *p, Dtype t, int rank, const int64_t *dim); /* contiguous, not cleared */
View view_of(Dtype t, int rank, const int64_t *dim, const void *data); /* of foreign memory */
void view_keep(View *v);          /* one more holder of its memory */
void view_drop(Pool *p, View *v); /* one less; the last one frees */
bool view_contiguous(const View *v);
View view_copy(Pool *p, const View *v);           /* a contiguous copy */
void view_fill(const View *to, const View *from); /* the same dims; any strides */

/* Visits the elements of views of the same dims together, in row-major order, as runs: at each
 * step n elements, view i's from at[i] on, step[i] bytes apart. Axes are merged where all
 * views allow it, so runs are as long as they can be. */
#define MAX_WALK 4
typedef struct Walk {
    int n_views;
    int rank; /* axes outside the run */
    int64_t dim[MAX_RANK], index[MAX_RANK];
    int64_t stride[MAX_WALK][MAX_RANK];
    int64_t n; /* elements of a run */
    int64_t step[MAX_WALK];
    char *at[MAX_WALK];
    bool begun, ended;
} Walk;

void walk_init(Walk *w, int n_views, const View *const *view);
bool walk_next(Walk *w); /* to the first run, the next run; false: no more */

/* ---- eval.c, eval_matmul.c: the evaluation column of ops.h -------------- */

typedef struct Call { /* one node on concrete operands */
    const Node *n;
    const Sizes *z;
    const Tensor *given; /* input, weight: the argument */
    const View *const *in;
    Gemm gemm;
    Pool *pool;
    Env *env;
} Call;

View eval_node(const Call *c); /* fails with E_RANGE, E_NOMEM */
View eval_matmul(const Call *c);

#endif
