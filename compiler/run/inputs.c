/* inputs.c - what candidates are verified on: small integers, floats of order 1, special values, an index out of
 * range. Element i of an operand is a hash of seed, operand and i, so any one of them can be made again.
 *
 * On small integers each sum is exact in every order, fused or not; where libm follows, constants are scaled by
 * a power of two, so that its argument is of order 1 and the sums stay exact. An integer operand that the nest
 * checks (fail 1 if t < 0 || n <= t) is an index below that n. */
#include <math.h>
#include <string.h>

#include "run/verify_int.h"

typedef struct Source { /* of one operand */
    const Inputs *in;
    const Operand *o;
    uint64_t key;
    int64_t limit; /* indices are below it; 0: not an index */
    int64_t bad;   /* the element that is out of range; -1: none */
    float scale;
} Source;

/* ---- indices ---- */

static const Expr *let_of(const Kernel *k, int var)
{
    for (int i = 0; i < k->nest.phase.n; i++) {
        const Phase *p = &k->nest.phase.at[i];
        for (int s = 0; s < p->body.n + p->finish.n; s++) {
            const Stmt *t = s < p->body.n ? &p->body.at[s] : &p->finish.at[s - p->body.n];
            if (t->kind == STMT_LET && t->var == var) {
                return t->value;
            }
        }
    }
    return NULL;
}

/* Casts and lets looked through. */
static const Expr *origin(const Kernel *k, const Expr *x)
{
    while (x && (x->kind == X_CAST || x->kind == X_VAR)) {
        x = x->kind == X_CAST ? x->a : let_of(k, x->id);
    }
    return x;
}

typedef struct Search {
    const Kernel *k;
    const int64_t *syms;
    int operand;
    bool inside;   /* of some index */
    int64_t limit; /* that a failing statement states; 0: none */
} Search;

static bool of_sizes(const Expr *x)
{
    return x->kind == X_CONST || x->kind == X_SYM ||
           (x->kind == X_OP && x->b && of_sizes(x->a) && of_sizes(x->b));
}

static void see_limit(const Expr *x, void *ctx)
{
    Search *s = ctx;
    if (x->kind != X_OP || (x->op != S_LE && x->op != S_LT) || x->a->dtype != DT_I64 ||
        !of_sizes(x->a)) {
        return;
    }
    const Expr *load = origin(s->k, x->b);
    int64_t limit = expr_value(x->a, s->syms) + (x->op == S_LT);
    if (load && load->kind == X_LOAD && load->id == s->operand && limit > 0) {
        s->limit = limit;
    }
}

static void see_operand(const Expr *x, void *ctx)
{
    Search *s = ctx;
    const Expr *let = x->kind == X_VAR ? let_of(s->k, x->id) : NULL;
    s->inside = s->inside || (x->kind == X_LOAD && x->id == s->operand);
    if (let) {
        expr_visit(let, see_operand, ctx);
    }
}

static void see_load(const Expr *x, void *ctx)
{
    if (x->kind == X_LOAD) {
        expr_visit(x->a, see_operand, ctx);
    }
}

static void see_slot(const Expr **slot, void *ctx)
{
    expr_visit(*slot, see_load, ctx);
}

static int64_t index_limit(const Kernel *k, int operand, const int64_t *syms)
{
    Search s = {.k = k, .syms = syms, .operand = operand};
    Nest n = k->nest;
    for (int i = 0; i < n.phase.n; i++) {
        for (int j = 0; j < n.phase.at[i].finish.n; j++) {
            const Stmt *t = &n.phase.at[i].finish.at[j];
            if (t->kind == STMT_FAIL) {
                expr_visit(t->value, see_limit, &s);
            }
        }
    }
    if (!s.limit) {
        nest_exprs(&n, see_slot, &s);
    }
    return s.limit ? s.limit : s.inside;
}

bool kernel_fails(const Kernel *k)
{
    for (int i = 0; i < k->nest.phase.n; i++) {
        for (int j = 0; j < k->nest.phase.at[i].finish.n; j++) {
            if (k->nest.phase.at[i].finish.at[j].kind == STMT_FAIL) {
                return true;
            }
        }
    }
    return false;
}

/* ---- values ---- */

static inline uint64_t mix(uint64_t x) /* splitmix64 */
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static inline int64_t below(uint64_t hash, int64_t n)
{
    return (int64_t)((hash >> 32) * (uint64_t)n >> 32);
}

/* Mean 0, variance 1: the sum of two uniform numbers. */
static inline float of_order_1(uint64_t hash)
{
    return (float)((double)((int64_t)(int32_t)hash + (int32_t)(hash >> 32)) *
                   (0x1p-31 * 1.2247448713915890));
}

static float special(const Inputs *in, uint64_t hash)
{
    static const float values[2][8] = {
        {0.0f, -0.0f, 0x1p-149f, -0x1.8p-130f, 0x1p-126f, 0x1.8p127f, -0x1.fffffep127f, 1e-30f},
        {0.0f, -0.0f, 0x1.8p-140f, -0x1p-149f, INFINITY, -INFINITY, NAN, -1.0f},
    };
    return values[in->seed & 1][hash >> 61];
}

static float float_at(const Source *s, uint64_t hash)
{
    if (s->in->round == ROUND_INTEGERS) {
        return (float)(below(hash, 15) - 7) * s->scale;
    }
    if (s->in->round == ROUND_SPECIALS && below(mix(hash), s->in->rare) == 0) {
        return special(s->in, hash);
    }
    return of_order_1(hash) * s->scale;
}

static int64_t int_at(const Source *s, int64_t i, uint64_t hash)
{
    if (s->limit) {
        return i == s->bad ? s->limit : below(hash, s->limit);
    }
    if (s->o->dtype == DT_BOOL) {
        return below(hash, 2);
    }
    int64_t most = s->in->round == ROUND_INTEGERS ? 7 : s->o->dtype == DT_I8 ? 127 : 1000;
    return below(hash, 2 * most + 1) - most;
}

static float masked(float f, uint32_t mask)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits &= mask;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void fill_floats(const Source *s, float *to, int64_t n)
{
    const uint32_t mask = s->o->from_bf16 ? 0xffff0000 : 0xffffffff;
    for (int64_t i = 0; i < n; i++) {
        to[i] = masked(float_at(s, mix(s->key + (uint64_t)i * 0x9e3779b97f4a7c15)), mask);
    }
}

void inputs_fill(const Inputs *in, const Kernel *k, int operand, const int64_t *syms, void *to,
                 int64_t n)
{
    Source s = {.in = in, .o = &k->operand.at[operand], .bad = -1, .scale = 1};
    s.key = mix(in->seed * 257 + (uint64_t)operand + 1) + (uint64_t)in->round;
    if (s.o->constant) {
        s.scale = ldexpf(1, -in->shift);
    }
    if (s.o->dtype == DT_F32) {
        fill_floats(&s, to, n);
        return;
    }
    s.limit = index_limit(k, operand, syms);
    if (in->round == ROUND_BAD_INDEX && n > 0) {
        s.bad = below(mix(s.key), n);
    }
    for (int64_t i = 0; i < n; i++) {
        value_store(to, s.o->dtype, i, (Value){.i = int_at(&s, i, mix(s.key + (uint64_t)i))});
    }
}

Inputs inputs_of(const Kernel *k, const int64_t *syms, Round round, uint64_t seed)
{
    bool libm = kernel_uses(k, S_EXP) || kernel_uses(k, S_SIN) || kernel_uses(k, S_COS);
    int64_t terms = nest_terms(k, syms);
    double spread = sqrt((double)terms);
    if (round == ROUND_INTEGERS) { /* a product of two has deviation 18.7 */
        spread = libm && terms > 1 ? 18.7 * spread / 3 : 1;
    }
    return (Inputs){round, seed, (int)lrint(log2(spread)),
                    4 * (terms < 1 << 20 ? terms : 1 << 20)};
}
