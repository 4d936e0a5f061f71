/* values.h - what programs compute with: dtypes, bf16 as storage, sizes as polynomials in symbols, the table of
 * scalar operations. A part of base.h, which includes it. */
#ifndef NC_BASE_VALUES_H
#define NC_BASE_VALUES_H

#include "base/base.h"

/* ---- bf16.c: bfloat16 (the upper half of an f32) and half, only ever as storage -- */
float bf16_float(uint16_t h);
void bf16_widen(float *to, const void *from, int64_t n);      /* from: at any address */
bool bf16_narrow(uint16_t *to, const float *from, int64_t n); /* false: bits are lost */
void half_widen(float *to, const void *from, int64_t n);      /* as bf16_widen */

/* ---- dtype.c --------------------------------------------------------------- */

/* Columns: id, name, bytes of an element, C type, class */
#define DTYPES(X)                    \
    X(F32, "f32", 4, "float", FLOAT) \
    X(I64, "i64", 8, "int64_t", INT) \
    X(I32, "i32", 4, "int32_t", INT) \
    X(I8, "i8", 1, "int8_t", INT)    \
    X(BOOL, "bool", 1, "uint8_t", BOOL)

typedef enum DtypeClass { CLASS_FLOAT, CLASS_INT, CLASS_BOOL } DtypeClass;
typedef enum Dtype {
#define X(id, name, bytes, ctype, class) DT_##id,
    DTYPES(X) N_DTYPES
#undef X
} Dtype;

const char *dtype_name(Dtype t);
const char *dtype_ctype(Dtype t);
int dtype_bytes(Dtype t);
DtypeClass dtype_class(Dtype t);
bool dtype_numeric(Dtype t); /* float or int; bool is not */
bool dtype_parse(const char *s, size_t len, Dtype *t);

/* ---- dim.c, dim_text.c: integer polynomials in named symbols --------------------------
 * Canonical: no zero coefficients, monomials are sorted multisets of symbols, terms are
 * in printing order (highest degree first, then alphabetical, constant last). So equality is
 * equality of terms. Coefficient overflow fails with E_SHAPE. spec: graph-ir 2 */

#define MAX_DEGREE 6
#define MAX_TERMS 64

typedef uint8_t Sym; /* id of an interned name: e->symbol[id] */

typedef struct Term {
    int64_t coef; /* never 0 */
    uint8_t degree;
    Sym sym[MAX_DEGREE]; /* alphabetical by name; unused entries are 0 */
} Term;

typedef struct Dim {
    int64_t k;        /* the value, where n == 0; else 0 */
    int n;            /* 0: a plain integer; else number of terms, the constant included */
    const Term *term; /* n of them, or NULL */
} Dim;

Sym sym_intern(Env *e, const char *name, size_t len); /* fails: not an identifier, too many */
Dim dim_int(int64_t k);
Dim dim_sym(Env *e, Sym s);
Dim dim_named(Env *e, const char *name);
Dim dim_add(Env *e, Dim a, Dim b);
Dim dim_sub(Env *e, Dim a, Dim b);
Dim dim_mul(Env *e, Dim a, Dim b);
Dim dim_addk(Env *e, Dim a, int64_t k);
Dim dim_mulk(Env *e, Dim a, int64_t k);
bool dim_eq(Dim a, Dim b);
bool dim_is_const(Dim d);
bool dim_is(Dim d, int64_t k); /* the plain integer k */
/* By its form: symbols are sizes, so no negative coefficient. */
bool dim_never_negative(Dim d);
bool dim_as_sym(Dim d, Sym *s); /* exactly one term, degree 1, coefficient 1 */
int64_t dim_coef(Dim d, const Sym *sym, int degree); /* of one monomial (sorted by name) */
void dim_symbols(Dim d, bool used[MAX_SYMBOLS]);     /* sets used[s] for every symbol in d */
/* Replaces symbols: with[s] where has[s]. */
Dim dim_subst(Env *e, Dim d, const bool has[MAX_SYMBOLS], const Dim with[MAX_SYMBOLS]);
void dim_print(Env *e, Dim d, Buf *out); /* "past + seq - 1" */
const char *dim_text(Env *e, Dim d);     /* the same, in e->kernel */
void dim_hash_into(Dim d, Buf *out);     /* bytes for a key */
/* "2*seq + past*3 - 1" with + - * and parentheses; advances *s; fails with E_SYNTAX (where: prefix
 * of the message, "file:line"). Depth is limited. */
Dim dim_parse(Env *e, const char **s, const char *where);

/* Values of symbols at run time, by id. */
typedef struct Sizes {
    bool bound[MAX_SYMBOLS];
    int64_t value[MAX_SYMBOLS];
} Sizes;

/* False: overflow, or unbound symbols; err names them sorted, comma-joined. */
bool dim_eval(Env *e, Dim d, const Sizes *z, int64_t *out, Err *err);
/* Unchecked and fast: checked before. */
int64_t dim_value(Dim d, const int64_t value[MAX_SYMBOLS]);

#define MAX_RANK 8
typedef struct Shape {
    int rank;
    Dim dim[MAX_RANK];
} Shape;

Shape shape_of(int rank, const Dim *dim);
bool shape_eq(const Shape *a, const Shape *b);
Dim shape_count(Env *e, const Shape *s);                    /* product of the dims; [] is 1 */
void shape_print(Env *e, const Shape *s, Buf *out);         /* "[seq, 4]" */
const char *shape_text(Env *e, const Shape *s);             /* in e->kernel */
void type_print(Env *e, Dtype t, const Shape *s, Buf *out); /* "f32[seq, 4]" */

/* ---- scalar.c: the scalar-operation table ----------------------------------
 * One row is one scalar operation, shared by the graph's elementwise ops, the loop IR, both
 * interpreters and the C printer. No operation reassociates or contracts. */

typedef union Value {
    float f;   /* f32 */
    int64_t i; /* ints sign-extended; bool 0 or 1 */
} Value;

/* C precedence levels, loosest first. */
typedef enum Prec {
    PREC_SELECT,
    PREC_OR,
    PREC_COMPARE,
    PREC_ADD,
    PREC_MUL,
    PREC_UNARY,
    PREC_CALL
} Prec;

/* Columns: id, name, arity, C spelling (infix operator or function; f32 functions take an f),
 * precedence, result (SAME as operands or BOOL), meaning */
/* clang-format off */
#define SCALAR_OPS(X)                                                                        \
    X(ADD, "add", 2, "+", ADD, SAME, "a + b; integers wrap in their own width")              \
    X(SUB, "sub", 2, "-", ADD, SAME, "a - b; integers wrap")                                 \
    X(MUL, "mul", 2, "*", MUL, SAME, "a * b; integers wrap")                                 \
    X(DIV, "div", 2, "/", MUL, SAME, "a / b, floats only")                                   \
    X(IDIV, "idiv", 2, "/", MUL, SAME, "a / b of non-negative index arithmetic")             \
    X(MOD, "mod", 2, "%", MUL, SAME, "a % b of non-negative index arithmetic")               \
    X(LE, "le", 2, "<=", COMPARE, BOOL, "a <= b; false if either is NaN")                    \
    X(LT, "lt", 2, "<", COMPARE, BOOL, "a < b; false if either is NaN")                      \
    X(NE, "ne", 2, "!=", COMPARE, BOOL, "a != b; true if either is NaN")                     \
    X(OR, "or", 2, "||", OR, BOOL, "a or b, on bools")                                       \
    X(NEG, "neg", 1, "-", UNARY, SAME, "-a: flips the sign bit; integers wrap")              \
    X(EXP, "exp", 1, "expf", CALL, SAME, "libm's exp")                                       \
    X(SQRT, "sqrt", 1, "sqrtf", CALL, SAME, "square root, correctly rounded")                \
    X(RECIPROCAL, "reciprocal", 1, "1.0f /", MUL, SAME, "1 / a")                             \
    X(SIN, "sin", 1, "sinf", CALL, SAME, "libm's sin")                                       \
    X(COS, "cos", 1, "cosf", CALL, SAME, "libm's cos")                                       \
    X(EXP_APPROX, "exp_approx", 1, "nc_expf", CALL, SAME, "exp by a polynomial, 1e-7 relative; no denormals") \
    X(EXP_FUSED, "exp_fused", 1, "nc_fused_expf", CALL, SAME, "the same with each multiply and add in one rounding")
/* clang-format on */

typedef enum ScalarOp {
#define X(id, name, arity, c, prec, result, meaning) S_##id,
    SCALAR_OPS(X) N_SCALAR_OPS
#undef X
} ScalarOp;

typedef struct ScalarInfo {
    const char *name;
    int arity;
    const char *c;
    Prec prec;
    bool to_bool; /* result is bool, else the operands' dtype */
    const char *meaning;
} ScalarInfo;

extern const ScalarInfo scalar_info[N_SCALAR_OPS];

Value scalar_eval(ScalarOp op, Dtype t, Value a, Value b); /* t: the operands' dtype */
/* f32 -> int truncates; saturates out of range, NaN is 0. */
Value scalar_cast(Value a, Dtype from, Dtype to);
Value value_load(const void *p, Dtype t, int64_t index);
void value_store(void *p, Dtype t, int64_t index, Value v);
bool value_same(Value a, Value b, Dtype t); /* same bits, all NaNs alike */
/* Shortest decimal that reads back to the same value ("1e-06", "4.0", "-inf", "nan", "17", "true"). */
void value_print(Value v, Dtype t, Buf *out);

#endif
