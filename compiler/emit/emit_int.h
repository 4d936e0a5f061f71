/* emit_int.h - what the files of compiler/emit share: the writer, and where it stands. */
#ifndef NC_EMIT_INT_H
#define NC_EMIT_INT_H

#include "emit/emit.h"
#include "loop/schedule.h"
#include "loop/tree.h"

/* How an axis appears in the text at the place that is being written. */
typedef enum AxisMode {
    MODE_ZERO,  /* not open: 0 */
    MODE_LOOP,  /* a variable of its name */
    MODE_CONST, /* written out: value */
    MODE_LANES, /* lanes value .. value + width - 1 of a vector */
} AxisMode;

typedef struct AxisAt {
    AxisMode mode;
    int64_t value;
    int width;
} AxisAt;

typedef struct VarAt {
    VarShape shape; /* an accumulator's instances here */
    bool priv;      /* private to points of a reduce axis: another name than afterwards */
    int lanes;      /* a let's: 0 for a scalar */
    bool in_memory; /* its lanes lie in an array, for one-by-one reading */
    bool inside;    /* a let of the statements that are written lane by lane */
} VarAt;

/* After private sums have joined: those of so many points of the axis are the lanes of one vector. */
typedef struct SumsAt {
    int axis; /* -1: each is by itself */
    int width;
} SumsAt;

/* Helpers of vector code: columns are id and text; % in the text is the number of lanes. prelude.c */
typedef enum Aid {
    AID_TYPES,
    AID_LOAD,
    AID_STORE,
    AID_SPLAT,
    AID_FMA,
    AID_SELECT,
    AID_LANES,
    AID_MASK,
    AID_EXP,
    AID_EXP_FUSED,
    AID_MAP_EXPF,
    AID_MAP_SQRTF,
    AID_MAP_SINF,
    AID_MAP_COSF,
    AID_SUM,
    AID_SUMS,
    AID_MAX,
    AID_SCALAR_FMA,
    AID_SCALAR_EXP,
    AID_SCALAR_EXP_FUSED,
    AID_SPLAT_I32,
    AID_STORE_I32,
    AID_DOT,
    AID_BYTES,
    AID_FLOATS,
    AID_LOAD_BF16,
    N_AIDS
} Aid;

#define MAX_WIDTH_LOG 5
typedef struct Writer {
    Env *e;
    Arena *m;
    const Kernel *k;
    const Target *target;
    Buf *out;
    int depth;
    bool plain;     /* no schedule: expressions are printed as they are */
    int vec;        /* axis in MODE_LANES, or -1 */
    bool dot;       /* inside an axis of four int8 products, in lanes */
    int apart_axis; /* lanes of this axis are written one by one; -1: of none */
    AxisAt apart;   /* where that vector stands */
    SumsAt sums;
    AxisAt *axis;                    /* by axis */
    VarAt *var;                      /* by variable */
    bool *used_var;                  /* by variable: read somewhere */
    bool aid[N_AIDS][MAX_WIDTH_LOG]; /* wanted, by log2 of the lanes (0: scalar) */
} Writer;

/* ---- text.c: lines and scalar expressions at this place ---- */
/* A literal; typed: with the width of t where C would take another. */
void c_constant(Buf *out, Dtype t, Value v, bool typed);
void line(const Writer *w, const char *text); /* indented, without a newline of its own */
void put(Writer *w, const Expr *x, const char *after);
/* Axes by what they are here, indices simplified. */
const Expr *localize(Writer *w, const Expr *x);
const Axis *axis_info(const Writer *w, int axis);
const char *c_name(Writer *w, const char *name); /* n.o is n_o */
const char *var_name(Writer *w, int var);        /* of the instance at this place */
const char *plain_name(Writer *w, int var);      /* the same without array indices */
int shape_width(const Writer *w, const VarShape *v, int i);
const char *scalar_text(Writer *w, const Expr *x);
extern const ExprStyle c_style;
typedef struct CastHelper {
    const char *opening; /* of a call */
    const char *text;    /* the definition */
} CastHelper;
extern const CastHelper cast_helpers[N_DTYPES];

/* ---- vector.c: expressions in lanes ---- */
bool lanes_vary(Writer *w, const Expr *x);
const char *vector_text(Writer *w, const Expr *x);
const char *dot_text(Writer *w, const Accum *acc); /* its update by four products a lane */
/* Of one vector for so many lanes; 1: none. */
int width_for(const Writer *w, int64_t lanes);

void write_value(Writer *w, const Expr *x, bool in_lanes);

/* ---- accumulators.c ---- */
void write_acc(Writer *w, const Tree *t);
void write_init(Writer *w, const Tree *t);
void write_update(Writer *w, const Tree *t);
void write_combine(Writer *w, const Tree *t);

/* ---- prelude.c ---- */
/* Wants it; its name with the number of lanes. */
const char *aid(Writer *w, Aid id, int lanes);
void write_prelude(const Writer *w, Buf *out);

/* ---- sums.c: the helper of AID_SUMS ---- */
void write_sums(int lanes, Buf *out);

/* ---- statements.c: the tree ---- */
void write_tree(Writer *w, const Tree *t);

#endif
