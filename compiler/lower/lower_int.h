/* lower_int.h - what the files of compiler/lower share: views, and the builder of one kernel call. */
#ifndef NC_LOWER_INT_H
#define NC_LOWER_INT_H

#include "lower/lower.h"

/* ---- views.c: a strided window on a buffer; strides and offset in elements, all symbolic ------ */
typedef struct View {
    int buffer; /* -1: the value is not a view of any buffer */
    Shape shape;
    Dim stride[MAX_RANK];
    Dim offset;
    int version; /* node id of the input or update whose value is seen here; -1: of neither */
} View;

void row_major(Env *e, const Shape *s, Dim stride[MAX_RANK]);
View view_whole(Env *e, int buffer, const Shape *s);
bool view_row_major(Env *e, const View *v); /* the offset does not matter */
bool view_eq(const View *a, const View *b);
/* The view that the index-only node n makes of its operand's view; buffer -1 where there is none
 * (concat, a reshape of a view with gaps, an operand that is no view itself). */
View view_through(Env *e, const Node *n, const View *in);
Dim view_distinct(Env *e, const View *v); /* different elements: broadcast axes count once */
Dim view_span(Env *e, const View *v);     /* elements from its first to past its last */

/* ---- reindex.c: the operand's index of an element of the movement n's result; not for concat, update */
void reindex(Env *e, Arena *m, const Node *n, const Expr *const *from, const Expr **to);
void reindex_reshape(Env *e, Arena *m, const Shape *in, const Shape *out,
                     const Expr *const *from, const Expr **to);

/* The other way round, for reshape and permute, which lose and repeat nothing. */
void reindex_back(Env *e, Arena *m, const Node *n, const Expr *const *from, const Expr **to);
/* The condition under which an element of the update n's result is not the value's, NULL where all are;
 * and the value's index of those that are. */
const Expr *reindex_update(Env *e, Arena *m, const Node *n, const Expr *const *from,
                           const Expr **to);

/* ---- build.c: one kernel and its call ----------------------------------------------------------- */
typedef struct Touch { /* one call's use of memory that updates are written into */
    int call;
    View view;
} Touch;

typedef struct Lower {
    Env *e;
    Arena *m; /* where the program lives */
    const Graph *g;
    Program *p;
    View *view; /* by node id: where its value is; buffer -1 unless it is in memory */
    int n_inputs, n_weights;  /* leaves lowered so far */
    const bool *in_place;     /* by node id: this update is written into its operand's buffer */
    bool any_in_place;        /* else nothing is noted: */
    Vec(Touch) reads, writes; /* of versions, in order of calls */
} Lower;

typedef struct Build {
    Lower *l;
    Kernel *k;
    Call call;
    View to;      /* where the result goes */
    Phase *phase; /* the one being written; phases are added with build_phase */
    int n_lets, n_accs;
} Build;

Lower lower_begin(const Graph *g, const bool *in_place);
int lower_buffer(Lower *l, BufferKind kind, Dtype t, const Shape *s);
/* An input's, weight's or const's buffer and view. Leaves come in the order of the graph's nodes, which is
 * that of its lists of inputs and weights. */
void lower_leaf(Lower *l, const Node *n);
/* Whether output i may have the buffer that holds its value: a temporary that is no output yet, or an
 * input that the output's own updates are written into. */
bool lower_claimable(const Lower *l, int output);
void lower_claim(Lower *l, int buffer, int output); /* the buffer holds the output's value */

const Expr *dim_expr(Arena *m, Dim d); /* lowest degree first, folded left to right */
const Expr *linear_index(Arena *m, int rank, const Expr *const *index, const Dim *stride);
bool is_elementwise(const Node *n); /* of the 13, or iota, or dim */
bool is_movement(const Node *n);

void build_begin(Build *b, Lower *l, const char *kind, const Node *n, const View *to);
void build_phase(Build *b);
/* Adds an axis; index: its expression, the constant 0 where the extent is the constant 1. */
int build_axis(Build *b, const char *name, AxisKind kind, Dim extent, const Expr **index);
/* Axes over a shape's dims from..to-1, named i; i j; h i j; ... (m n last for a contraction). ids and
 * index get one entry an axis. serial numbers the names where several phases own such axes (0: none). */
void build_axes(Build *b, const Shape *s, int from, int to, bool contraction, int serial,
                int *ids, const Expr **index);
/* A new operand at the view's offset. */
int build_operand(Build *b, const char *name, const View *v);
void build_span(Build *b, int operand, const View *v);
const Expr *build_load(Build *b, int operand, const View *v, const Expr *const *index);
/* t0, t1 ...; gives the variable. */
const Expr *build_let(Build *b, bool in_body, const Expr *value);
/* acc0, acc1 ...: update says how a value joins it; gives the variable. */
const Expr *build_acc(Build *b, Dtype t, const Expr *init,
                      const Expr *(*update)(Arena *, const Expr *acc, const Expr *v),
                      const Expr *v);
void build_store(Build *b, const Expr *const *index, const Expr *value);
/* FAIL 1 unless 0 <= row < rows */
void build_fail_outside(Build *b, const Expr *row, Dim rows);
void build_read(Build *b, Dim elements, Dtype t); /* counts traffic */
void build_end(Build *b, Dim written);

/* ---- updates.c: which updates are written in place, and whether that was right ------------------ */
/* In place: into an input, or behind another update, unless copied[n] says that it is not safe. */
void updates_choose(const Graph *g, const bool *copied, bool *in_place);
View update_place(Env *e, const Node *n, const View *buffer); /* where the value goes */
/* What the next call does, or, behind all calls, whoever called the program. */
void updates_read(Lower *l, const View *v);
void updates_write(Lower *l, const View *to);
/* False: some call would read what an update has overwritten; copied says which updates are to blame. */
bool updates_safe(const Lower *l, bool *copied);

const Expr *acc_sum_init(Arena *m, Dtype t);
const Expr *acc_max_init(Arena *m, Dtype t);
const Expr *acc_sum(Arena *m, const Expr *acc, const Expr *v);
const Expr *acc_max(Arena *m, const Expr *acc, const Expr *v);
/* Op applied to scalars. */
const Expr *elementwise(Arena *m, const Node *n, const Expr *const *in);

#endif
