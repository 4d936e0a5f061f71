/* graph.h - the Graph: SSA over the primitives of ops.h, with symbolic dims. Nodes are made by
 * the checked constructor only; the interpreter defines what a graph means. spec: graph-ir.md */
#ifndef NC_GRAPH_H
#define NC_GRAPH_H

#include "base/base.h"
#include "graph/ops.h"

typedef enum Family {
    FAMILY_LEAF,
    FAMILY_ELEM,
    FAMILY_REDUCE,
    FAMILY_MOVE,
    FAMILY_MATMUL,
    FAMILY_GATHER
} Family;

typedef enum Op {
#define X(id, ...) OP_##id,
    GRAPH_OPS(X) N_OPS
#undef X
} Op;

/* Which attributes an op takes; the listings show them in this order. */
enum {
    A_NAME = 1 << 0,  /* name */
    A_TYPE = 1 << 1,  /* dtype and shape */
    A_VALUE = 1 << 2, /* dtype, shape and value */
    A_AXIS = 1 << 3,  /* axis, stored as given: -1 and rank-1 stay different */
    A_EXPR = 1 << 4,  /* expr */
    A_DTYPE = 1 << 5, /* dtype */
    A_SHAPE = 1 << 6, /* shape */
    A_PERM = 1 << 7,  /* perm, n_perm */
    A_RANGE = 1 << 8, /* start, stop */
    A_AT = 1 << 9,    /* at */
    A_FROM = 1 << 10, /* from_bf16, which may be left out */
};

typedef struct Attr {
    const char *name;           /* input, weight */
    Dtype dtype;                /* input weight const iota cast */
    Shape shape;                /* input weight const iota reshape broadcast */
    const void *value;          /* const: row-major elements, owned by the graph's Env */
    Dim expr;                   /* dim */
    int axis;                   /* iota reduce_* slice concat */
    int n_perm, perm[MAX_RANK]; /* permute */
    Dim start, stop;            /* slice */
    bool
        from_bf16; /* weight: f32 that was widened from bfloat16, so it can be stored as that */
    Shape at;      /* update: where the value begins in the buffer, one offset an axis */
} Attr;

typedef struct Node Node;
struct Node {
    Op op;
    Dtype dtype; /* inferred */
    Shape shape; /* inferred, canonical dims */
    int n_in;
    Node **in; /* operands */
    Attr attr;
    int id;   /* index in the graph's node list; -1 before graph_finish */
    int line; /* line of a .ncg file, or 0 */
};

typedef struct OpInfo {
    const char *name;
    Family family;
    int arity; /* -1: one or more */
    /* From operands and attributes; fails with E_TYPE. */
    Dtype (*dtype_rule)(Env *e, const Node *n);
    Shape (*shape_rule)(Env *e, const Node *n); /* fails with E_SHAPE */
    unsigned attrs;                             /* A_* */
    int scalar;                                 /* ScalarOp of an elementwise op, or -1 */
    const char *meaning;
} OpInfo;

extern const OpInfo op_info[N_OPS];                  /* rules.c */
bool op_parse(const char *name, size_t len, Op *op); /* rules.c */

typedef struct Output {
    const char *name;
    Node *node;
} Output;

/* What must hold of the symbols' values before anything runs. */
typedef struct SizeCheck {
    Dim at_least_zero; /* must evaluate to >= 0 */
    const Node *node;  /* who asks first, for the message */
    const char *what; /* what the polynomial is: "slice: start", "dimension 1 of reshape" ... */
} SizeCheck;

typedef struct Graph {
    Env *env;
    const char *name;
    Vec(Node *) inputs;  /* declared, in order */
    Vec(Output) outputs; /* in order */
    Vec(Node *) nodes;   /* topological: post-order from inputs, then outputs */
    Vec(Node *) weights; /* in order of first appearance in nodes */
    /* Plain symbols of the inputs' shapes, first appearance: run-time slots. */
    Vec(Sym) symbols;
    Vec(SizeCheck) checks; /* deduplicated; collected by graph_finish */
} Graph;

/* ---- graph.c: making nodes and graphs -------------------------------------
 * E_TYPE, E_SHAPE: a node does not fit its primitive; the message starts with "op: ".
 * E_GRAPH: malformed whole graph. */

/* The only way to make a node. Copies in[] and attr (const data too). attr may be NULL for an op
 * without attributes. */
Node *node_make(Env *e, Op op, Node *const *in, int n_in, const Attr *attr, int line);
const char *node_type_text(Env *e, const Node *n); /* "f32[seq, 4]", in e->kernel */

Graph *graph_new(Env *e, const char *name);
void graph_input(Graph *g, Node *input); /* declares it */
void graph_output(Graph *g, const char *name, Node *node);
/* Orders, numbers, collects and validates; call once. A node belongs to one graph: a pass that
 * rebuilds a graph makes all of its nodes anew, the inputs too. */
void graph_finish(Graph *g);

/* ---- rules.c: what type a node has ------------------------------------------- */
/* The dtype and shape that op, operands and attributes imply; fails where they do not fit. */
void node_infer(Env *e, const Node *n, Dtype *dtype, Shape *shape);
int axis_of(Env *e, const Node *n, int rank); /* attr.axis normalised to 0..rank-1, or fails */

/* ---- validate.c ------------------------------------------------------------ */
/* The six rules of the spec; fails with E_GRAPH or what inference says. */
void graph_validate(const Graph *g);

/* ---- frontend.c: implicit behaviour lives here only (NumPy broadcasting, weak scalars) --- */
typedef struct Front { /* a graph being written */
    Graph *g;
    Map weights; /* name -> Node: asking twice gives the same node */
} Front;

void front_init(Front *f, Env *e, const char *name);
Node *f_input(Front *f, const char *name, Dtype t, Shape shape);
/* Fails: declared with another type. */
Node *f_weight(Front *f, const char *name, Dtype t, Shape shape);
Node *f_const(Front *f, Dtype t, Shape shape, const void *data);
/* Fails: bool, or not exactly an int dtype's value. */
Node *f_scalar(Front *f, Dtype t, double v);
Node *f_iota(Front *f, Dtype t, Shape shape, int axis);
Node *f_dim(Front *f, Dim d); /* i64[]; a const when d is a plain integer */
Node *f_unary(Front *f, Op op, Node *x);
Node *f_binary(Front *f, Op op, Node *a, Node *b); /* broadcasts both to their common shape */
Node *f_binary_k(Front *f, Op op, Node *a, double k); /* scalar on the right, of a's dtype */
Node *f_k_binary(Front *f, Op op, double k, Node *b); /* scalar on the left */
Node *f_where(Front *f, Node *cond, Node *a, Node *b);
Node *f_cast(Front *f, Node *x, Dtype t); /* no node when it is t already */
Node *f_reduce(Front *f, Op op, Node *x, int axis);
Node *f_reshape(Front *f, Node *x, Shape shape); /* no node when the shape is the same */
Node *f_permute(Front *f, Node *x, int n, const int *perm);
/* Reshape and broadcast as needed, none if equal. */
Node *f_broadcast_to(Front *f, Node *x, Shape shape);
Node *f_slice(Front *f, Node *x, int axis, Dim start, Dim stop);
Node *f_concat(Front *f, Node *const *x, int n, int axis);
Node *f_update(Front *f, Node *buffer, Node *value, Shape at);
Node *f_matmul(Front *f, Node *a, Node *b);
Node *f_gather(Front *f, Node *table, Node *ids);

/* ---- compose.c: composites, exact sequence and f32 order of spec graph-ir 8 --------- */
Node *c_linear(Front *f, Node *x, Node *w, Node *bias /* or NULL */);
Node *c_rms_norm(Front *f, Node *x, Node *gain, float eps);
Node *c_sigmoid(Front *f, Node *x);
Node *c_silu(Front *f, Node *x);
Node *c_softmax(Front *f, Node *x);
/* f32 const [head_dim/2] */
Node *c_rope_inverse(Front *f, int head_dim, double theta);
/* [seq, d] */
void c_rope_tables(Front *f, Node *inverse, Dim seq, Dim past, Node **cos, Node **sin);
Node *c_rotate_half(Front *f, Node *x);
Node *c_rope(Front *f, Node *x, Node *cos, Node *sin);
Node *c_repeat_kv(Front *f, Node *x, int groups);
Node *c_causal_mask(Front *f, Dim seq, Dim past);

/* ---- listing.c, ops_table.c ------------------------------------------------- */
/* The deterministic listing of spec graph-ir 6. */
void graph_listing(const Graph *g, Buf *out);
void graph_json(const Graph *g, Buf *out); /* the same as JSON */
void ops_table(Buf *out);                  /* ops.h as the page docs/ops.md */

/* ---- ncg.c, ncg_lex.c, ncg_parse.c: the complete text form ------------------- */
void ncg_print(const Graph *g, Buf *out); /* parses back to an equal graph */
/* Fails with E_SYNTAX, E_TYPE, E_SHAPE or E_GRAPH, "file:line:col: ..." first. */
Graph *ncg_parse(Env *e, const char *text, size_t len, const char *file);
bool graph_eq(const Graph *a, const Graph *b); /* same nodes, attributes, names, order */

/* ---- bind.c: arguments and sizes, shared by the interpreter and the compiled runtime ---- */
typedef struct Tensor {
    Dtype dtype;
    int rank;
    int64_t dim[MAX_RANK];
    void *data; /* contiguous, row-major */
} Tensor;

typedef struct NamedTensor {
    const char *name;
    Tensor t;
} NamedTensor;

int64_t tensor_count(const Tensor *t); /* elements */
/* What node n gives at these values of symbols, which have been checked: dtype and dims; no data. */
Tensor tensor_of_node(const Node *n, const int64_t value[MAX_SYMBOLS]);
/* Zeroed; fails when absurd. */
Tensor tensor_new(Env *e, Arena *a, Dtype t, int rank, const int64_t *dim);

typedef struct Args { /* one call's arguments */
    const NamedTensor *input;
    int n_inputs;
    const NamedTensor *weight;
    int n_weights; /* more than the graph uses is fine */
} Args;

/* Checks names, dtypes and shapes, binds the symbols, evaluates every SizeCheck. Nothing has run yet
 * when it fails: false fills err (E_INPUT or E_RANGE), naming what and where. z may come pre-seeded.
 * input[i], weight[i]: the tensors in the graph's own order. Only a weight from_bf16 may lack its data. */
bool graph_bind(const Graph *g, const Args *args, Sizes *z, const Tensor **input,
                const Tensor **weight, Err *err);
/* Only the sizes: symbols already in z, every SizeCheck evaluated. */
bool graph_check_sizes(const Graph *g, const Sizes *z, Err *err);

/* ---- interp.c, eval.c, eval_matmul.c, view.c: the definition of meaning ------- */
typedef void (*Gemm)(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c);

/* Runs the graph. out: one tensor an output, contiguous, in arena a. gemm NULL: sums in index
 * order, f32, multiply then add (the definition); else it is called for each f32 matrix product.
 * False fills err. Peak memory: values are freed after their last use. */
bool graph_interpret(const Graph *g, const Args *args, Gemm gemm, Arena *a, Tensor *out,
                     Err *err);
/* One node on concrete operands; used by constant folding. in[i] matches n->in[i]. out comes with
 * its dtype, dims and memory set; its elements are filled in. Not for input and weight nodes. */
bool node_eval(const Graph *g, const Node *n, const Sizes *z, const Tensor *const *in,
               Gemm gemm, Tensor *out, Err *err);

/* ---- passes: cse.c fold.c (each returns a new, finished graph; bitwise equal) --- */
Graph *graph_cse(const Graph *g);
Graph *graph_fold(const Graph *g);

/* ---- passes that change what a graph takes: specialise.c cache.c ---------------- */
/* With `value` for the symbol in every shape and attribute. Fails with E_INPUT where the graph has
 * no such symbol, and as node_make does where some node cannot have that size. */
Graph *graph_specialise(const Graph *g, Sym s, int64_t value);
/* The KV cache appended in place. Where the graph joins an input past_X[layers, .., past, ..] with
 * fresh values, layer by layer, and returns the fresh values of all layers as one output, the
 * new graph takes cache_X[layers, .., capacity, ..] instead, writes the fresh values behind
 * `past`, reads from there, and returns it. As no input is `past` long any more, an input
 * past: bool[past, 0], without any elements, tells its size. Other graphs are returned as they are. */
const Graph *graph_cache(const Graph *g);

/* ---- rewrite.c: rebuilds bottom-up: map(n, new operands) gives the new node. Inputs keep their
 * declaration; dead code goes. */
typedef Node *(*NodeMap)(void *ctx, const Node *n, Node *const *in);
Graph *graph_rewrite(const Graph *g, NodeMap map, void *ctx);
/* The same, but not finished: inputs may be added, outputs changed. map may give NULL for a node
 * that nothing uses any more. */
Graph *graph_rewrite_open(const Graph *g, NodeMap map, void *ctx);

#endif
