/* expr_parse.c - expressions of kernel text, for kernel_parse.c.
 *
 * They are read by precedence climbing into the folding constructors, so that what is read is
 * canonical whatever was written. Text comes from people and databases: every name and dtype
 * is checked here, with its place, because behind the parser a mistake is a bug. Depth and
 * length are limited: later passes recurse over the tree. */
#include "loop/loop_int.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 500, MAX_TERMS_READ = 2000 };

/* ---- leaves ---- */

static const Expr *read_operand(Parser *p, const char *s, int id)
{
    if (id == 0) {
        parse_fail(p, s, "the output cannot be read");
    }
    parse_expect(p, "[", "behind an operand");
    const Expr *index = parse_expr(p, DT_I64, "an index");
    parse_expect(p, "]", "behind an index");
    return x_load(p->m, id, p->k->operand.at[id].dtype, index);
}

static const Expr *read_argument(Parser *p)
{
    parse_expect(p, "(", "behind a function");
    const Expr *a = parse_any_expr(p);
    parse_expect(p, ")", "behind a function's operand");
    return a;
}

static const Expr *read_call(Parser *p, const char *s, ScalarOp op)
{
    const Expr *a = read_argument(p);
    if (!op_takes(op, a->dtype)) {
        parse_fail(p, s, "%s takes no %s", scalar_info[op].name, dtype_name(a->dtype));
    }
    return x_op(p->m, op, a, NULL);
}

static const Expr *read_axis(Parser *p, const char *s, int id)
{
    const Axis *axis = &p->k->nest.axis.at[id];
    if (!p->open[id]) {
        parse_fail(p, s, "axis %s has no loop here", axis->name);
    }
    return axis_is_unit(&p->k->nest, id) ? x_int(p->m, 0) : x_axis(p->m, id);
}

static const Expr *read_var(Parser *p, const char *s, int id)
{
    const Var *var = &p->k->nest.var.at[id];
    if (p->state.at[id] == VAR_DEAD) {
        parse_fail(p, s, "%s is not known here any more", var->name);
    }
    return x_var(p->m, id, var->dtype);
}

static const Expr *read_symbol(Parser *p, const char *s, size_t digits)
{
    int slot = digits <= 3 ? atoi(s + 1) : MAX_SYMBOLS;
    if (slot >= MAX_SYMBOLS) {
        parse_fail(p, s, "symbols are s0 to s%d", MAX_SYMBOLS - 1);
    }
    return x_sym(p->m, slot);
}

static const Expr *read_name(Parser *p)
{
    const char *s = p->at;
    size_t len = parse_word_len(p);
    if (len == 0) {
        parse_fail(p, s, "an operand is missing");
    }
    p->at += len;
    size_t digits = parse_symbol_digits(s, len);
    if (digits) {
        return read_symbol(p, s, digits);
    }
    if (p->sizes) {
        parse_fail(p, s, "sizes are made of numbers and symbols s0, s1 ... only");
    }
    Dtype to; /* i8(x) is a cast, but i8 alone a name: lowering counts i, i1, i2 ... */
    if (dtype_parse(s, len, &to) && parse_next_is(p, "(")) {
        return x_cast(p->m, read_argument(p), to);
    }
    Word word = parse_lookup(p, s, len);
    switch (word.kind) {
    case W_OPERAND: return read_operand(p, s, word.id);
    case W_AXIS: return read_axis(p, s, word.id);
    case W_VAR: return read_var(p, s, word.id);
    case W_FUNCTION: return read_call(p, s, (ScalarOp)word.id);
    default: parse_fail(p, s, "\"%.*s\" is not known here", (int)(len < 64 ? len : 64), s);
    }
}

/* ---- operations ---- */

static const Expr *read_primary(Parser *p)
{
    if (parse_take(p, "(")) {
        const Expr *x = parse_any_expr(p);
        parse_expect(p, ")", "to close \"(\"");
        return x;
    }
    const Expr *number = parse_number(p, false);
    if (number) {
        return number;
    }
    bool yes = parse_take(p, "true");
    if (yes || parse_take(p, "false")) {
        return x_const(p->m, DT_BOOL, (Value){.i = yes});
    }
    return read_name(p);
}

static void enter(Parser *p)
{
    if (++p->depth > MAX_NESTING) {
        parse_fail(p, p->at, "the expression is nested over %d deep", MAX_NESTING);
    }
    if (++p->n_terms > MAX_TERMS_READ) {
        parse_fail(p, p->at, "the expression has over %d terms", MAX_TERMS_READ);
    }
}

/* A minus right before a number belongs to it: -1 is a constant, -(1) negates one. */
static const Expr *read_unary(Parser *p)
{
    enter(p);
    const char *s = parse_peek(p);
    const Expr *x;
    if (parse_take(p, "-")) {
        x = parse_number(p, true);
        if (!x) {
            const Expr *a = read_unary(p);
            if (!op_takes(S_NEG, a->dtype)) {
                parse_fail(p, s, "- takes no %s", dtype_name(a->dtype));
            }
            x = x_op(p->m, S_NEG, a, NULL);
        }
    } else {
        x = read_primary(p);
    }
    p->depth--;
    return x;
}

typedef struct Infix {
    const char *token;
    ScalarOp op;
} Infix;

/* The longer token first where one begins another. */
static const Infix infix[] = {
    {"||", S_OR}, {"<=", S_LE}, {"<", S_LT},  {"!=", S_NE}, {"+", S_ADD},
    {"-", S_SUB}, {"*", S_MUL}, {"/", S_DIV}, {"%", S_MOD},
};

static const Infix *peek_infix(Parser *p)
{
    bool arrow = parse_next_is(p, "->");
    for (size_t i = 0; i < countof(infix) && !arrow; i++) {
        if (parse_next_is(p, infix[i].token)) {
            return &infix[i];
        }
    }
    return NULL;
}

static const Expr *make_binary(Parser *p, const char *s, const Infix *o, const Expr *a,
                               const Expr *b)
{
    bool ints = dtype_class(a->dtype) == CLASS_INT;
    ScalarOp op = o->op == S_DIV && ints ? S_IDIV : o->op;
    if (a->dtype != b->dtype) {
        parse_fail(p, s, "%s joins %s and %s", o->token, dtype_name(a->dtype),
                   dtype_name(b->dtype));
    }
    if (!op_takes(op, a->dtype)) {
        parse_fail(p, s, "%s takes no %s", o->token, dtype_name(a->dtype));
    }
    bool divides = op == S_IDIV || op == S_MOD;
    if (divides && b->kind == X_CONST && b->value.i <= 0) {
        parse_fail(p, s, "index arithmetic divides by positive numbers only");
    }
    return x_op(p->m, op, a, b);
}

static const Expr *read_binary(Parser *p, Prec least)
{
    const Expr *left = read_unary(p);
    for (;;) {
        const Infix *o = peek_infix(p);
        Prec prec = o ? scalar_info[o->op].prec : PREC_SELECT;
        if (!o || prec < least) {
            return left;
        }
        const char *s = p->at;
        p->at += strlen(o->token);
        left = make_binary(p, s, o, left, read_binary(p, prec + 1));
    }
}

const Expr *parse_any_expr(Parser *p)
{
    enter(p);
    const Expr *x = read_binary(p, PREC_OR);
    const char *s = parse_peek(p);
    if (!p->sizes && parse_take(p, "?")) {
        if (x->dtype != DT_BOOL) {
            parse_fail(p, s, "the condition of ? is %s, not bool", dtype_name(x->dtype));
        }
        const Expr *a = parse_any_expr(p);
        parse_expect(p, ":", "between the sides of ?");
        const Expr *b = parse_any_expr(p);
        if (a->dtype != b->dtype) {
            parse_fail(p, s, "the sides of ? are %s and %s", dtype_name(a->dtype),
                       dtype_name(b->dtype));
        }
        x = x_select(p->m, x, a, b);
    }
    p->depth--;
    return x;
}

const Expr *parse_expr(Parser *p, Dtype t, const char *what)
{
    const char *s = parse_peek(p);
    const Expr *x = parse_any_expr(p);
    if (x->dtype != t) {
        parse_fail(p, s, "%s is %s, not %s", what, dtype_name(x->dtype), dtype_name(t));
    }
    return x;
}
