/* kernel_parse.c - reads the lines of kernel text (kernel.c shows the form) back into a
 * Kernel.
 *
 * A line stands alone; indentation is free; # begins a comment. The order is that of the
 * text: kernel, operands, axes, outer, phases. Inside a phase with reduce axes, lets before
 * the first accumulator run in the reduction and those behind the last one in the finish.
 * Whatever nest_check would call a bug is refused here first, with its place. */
#include "loop/loop_int.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

enum { MAX_OPERANDS = 256, MAX_VARS = 4096, MAX_KIND = 64 };

typedef enum Part { PART_START, PART_OPERANDS, PART_AXES, PART_OUTER, PART_PHASES } Part;

typedef struct Reader {
    Parser p;
    Part part;
    Phase *phase;           /* the one being read, or NULL */
    bool reduces;           /* it has reduce axes */
    bool in_loop[MAX_AXES]; /* the axis is in some loop list */
} Reader;

/* ---- what may stand where ---- */

static void need_part(Reader *r, const char *s, Part least, Part most, const char *what)
{
    if (r->part < least || r->part > most) {
        parse_fail(&r->p, s,
                   "%s cannot stand here: first the kernel line, then operands, axes, "
                   "outer, phases",
                   what);
    }
}

typedef struct Search {
    const Parser *p;
    const char *found; /* a name known in the reduction only */
} Search;

static void find_inside(const Expr *x, void *ctx)
{
    Search *s = ctx;
    const Nest *n = &s->p->k->nest;
    if (x->kind == X_AXIS && n->axis.at[x->id].kind == AXIS_REDUCE) {
        s->found = n->axis.at[x->id].name;
    }
    if (x->kind == X_VAR && s->p->state.at[x->id] == VAR_INSIDE) {
        s->found = n->var.at[x->id].name;
    }
}

/* Initial values and the finish stand outside the reduction. */
static void need_outside(const Reader *r, const char *at, const Expr *x)
{
    Search search = {.p = &r->p};
    expr_visit(x, find_inside, &search);
    if (search.found) {
        parse_fail(&r->p, at, "this reads %s, which is known inside the reduction only",
                   search.found);
    }
}

/* ---- the head ---- */

static void read_kernel(Reader *r)
{
    Parser *p = &r->p;
    const char *s = parse_peek(p);
    size_t n = 0;
    while (s + n < p->end && (isalnum((unsigned char)s[n]) || (s[n] && strchr("_+-.", s[n])))) {
        n++;
    }
    if (n == 0 || n > MAX_KIND) {
        parse_fail(p, s, "expected the kernel's kind: up to %d letters, digits, _ + - .",
                   MAX_KIND);
    }
    p->k->kind = arena_strn(p->m, s, n);
    p->at += n;
    r->part = PART_OPERANDS;
}

static const Expr *read_size(Parser *p, const char *what)
{
    const char *s = parse_peek(p);
    p->sizes = true;
    const Expr *x = parse_expr(p, DT_I64, what);
    p->sizes = false;
    if (x->kind == X_CONST && x->value.i < 0) {
        parse_fail(p, s, "%s is negative", what);
    }
    return x;
}

static void read_spans(Parser *p, Operand *o)
{
    parse_expect(p, "[", "behind the dtype");
    bool several = parse_take(p, "max");
    if (several) {
        parse_expect(p, "(", "behind max");
    }
    do {
        *vec_push(p->m, &o->span) = read_size(p, "a span");
    } while (several && parse_take(p, ","));
    if (several) {
        parse_expect(p, ")", "behind the spans");
    }
    parse_expect(p, "]", "behind the span");
}

static void read_operand(Reader *r)
{
    Parser *p = &r->p;
    const char *s = parse_peek(p);
    int id = p->k->operand.n;
    Operand o = {.name = parse_new_name(p, W_OPERAND, id)};
    parse_expect(p, ":", "behind an operand's name");
    o.constant = parse_take(p, "const");
    o.dtype = parse_dtype(p);
    if (parse_take(p, "from")) {
        parse_expect(p, "bf16", "behind 'from'");
        o.from_bf16 = true;
    }
    if (o.from_bf16 && (!o.constant || o.dtype != DT_F32)) {
        parse_fail(p, s, "only a const f32 comes from bf16");
    }
    if (id == 0 && o.constant) {
        parse_fail(p, s, "the first operand is the output and cannot be const");
    }
    if (id == MAX_OPERANDS) {
        parse_fail(p, s, "a kernel has at most %d operands", MAX_OPERANDS);
    }
    read_spans(p, &o);
    *vec_push(p->m, &p->k->operand) = o;
}

static void read_axis(Reader *r, const char *s)
{
    Parser *p = &r->p;
    need_part(r, s, PART_OPERANDS, PART_AXES, "an axis");
    r->part = PART_AXES;
    int id = p->k->nest.axis.n;
    if (id == MAX_AXES) {
        parse_fail(p, s, "a kernel has at most %d axes", MAX_AXES);
    }
    Axis a = {.name = parse_new_name(p, W_AXIS, id), .kind = AXIS_SPACE};
    if (!parse_take(p, "space")) {
        parse_expect(p, "reduce", "or \"space\" behind an axis' name");
        a.kind = AXIS_REDUCE;
    }
    a.extent = read_size(p, "an extent");
    *vec_push(p->m, &p->k->nest.axis) = a;
}

/* The next axis of a loop list; opens it. */
static int read_loop(Reader *r)
{
    Parser *p = &r->p;
    const char *s = parse_peek(p);
    size_t len = parse_word_len(p);
    Word word = parse_lookup(p, s, len);
    if (word.kind != W_AXIS) {
        parse_fail(p, s, "expected the name of an axis");
    }
    p->at += len;
    if (p->open[word.id]) {
        parse_fail(p, s, "axis %.*s already has a loop here", (int)len, s);
    }
    p->open[word.id] = true;
    r->in_loop[word.id] = true;
    return word.id;
}

static bool at_end(Parser *p)
{
    return parse_peek(p) == p->end;
}

static void read_outer(Reader *r, const char *s)
{
    Parser *p = &r->p;
    Nest *n = &p->k->nest;
    need_part(r, s, PART_OPERANDS, PART_AXES, "outer");
    r->part = PART_OUTER;
    do {
        const char *at = parse_peek(p);
        int axis = read_loop(r);
        if (n->axis.at[axis].kind == AXIS_REDUCE) {
            parse_fail(p, at, "reduce axis %s cannot be outer", n->axis.at[axis].name);
        }
        *vec_push(p->m, &n->outer) = axis;
    } while (!at_end(p));
}

/* ---- phases ---- */

static void kill(Reader *r, int var)
{
    r->p.state.at[var] = VAR_DEAD;
}

static void end_phase(Reader *r)
{
    Parser *p = &r->p;
    Phase *f = r->phase;
    if (!f) {
        return;
    }
    if (r->reduces && f->acc.n == 0) {
        parse_fail(p, p->at, "the phase before this has reduce axes but no accumulator");
    }
    if (f->acc.n + f->finish.n == 0) {
        parse_fail(p, p->at, "the phase before this does nothing");
    }
    for (int i = 0; i < f->body.n; i++) {
        kill(r, f->body.at[i].var);
    }
    for (int i = 0; i < f->loops.n; i++) {
        p->open[f->loops.at[i]] = false;
    }
    bool keeps = !phase_has(&p->k->nest, f, AXIS_SPACE);
    for (int i = 0; i < f->acc.n && !keeps; i++) {
        kill(r, f->acc.at[i].var);
    }
    for (int i = 0; i < f->finish.n && !keeps; i++) {
        if (f->finish.at[i].kind == STMT_LET) {
            kill(r, f->finish.at[i].var);
        }
    }
    r->phase = NULL;
}

static void read_phase(Reader *r, const char *s)
{
    Parser *p = &r->p;
    Nest *n = &p->k->nest;
    need_part(r, s, PART_OPERANDS, PART_PHASES, "a phase");
    if (p->k->operand.n == 0) {
        parse_fail(p, s, "the kernel has no operands; the first is the output");
    }
    end_phase(r);
    r->part = PART_PHASES;
    r->reduces = false;
    r->phase = vec_push(p->m, &n->phase);
    *r->phase = (Phase){0};
    while (!at_end(p)) {
        const char *at = p->at;
        int axis = read_loop(r);
        bool reduce = n->axis.at[axis].kind == AXIS_REDUCE;
        if (r->reduces && !reduce) {
            parse_fail(p, at, "space axis %s stands inside a reduction", n->axis.at[axis].name);
        }
        r->reduces |= reduce;
        *vec_push(p->m, &r->phase->loops) = axis;
    }
}

static void read_accumulator(Reader *r, const char *s, const char *at, int var,
                             const Expr *init)
{
    Parser *p = &r->p;
    if (!r->reduces) {
        parse_fail(p, s, "an accumulator needs a reduce axis in its phase");
    }
    if (r->phase->finish.n > 0) {
        parse_fail(p, s, "an accumulator cannot stand behind the finish");
    }
    need_outside(r, at, init);
    p->state.at[var] = VAR_LIVE;
    const Expr *update = parse_expr(p, p->k->nest.var.at[var].dtype, "the update");
    *vec_push(p->m, &r->phase->acc) = (Accum){.var = var, .init = init, .update = update};
}

static void add_stmt(Reader *r, Stmt s)
{
    *vec_push(r->p.m, &r->phase->finish) = s;
}

/* NAME: dtype = value, and for accumulators -> update */
static void read_variable(Reader *r)
{
    Parser *p = &r->p;
    const char *s = parse_peek(p);
    int var = p->k->nest.var.n;
    if (var == MAX_VARS) {
        parse_fail(p, s, "a kernel has at most %d variables", MAX_VARS);
    }
    Var v = {.name = parse_new_name(p, W_VAR, var)};
    parse_expect(p, ":", "behind a variable's name");
    v.dtype = parse_dtype(p);
    *vec_push(p->m, &p->k->nest.var) = v;
    *vec_push(p->m, &p->state) = VAR_DEAD; /* until its value is read */
    parse_expect(p, "=", "behind a variable's dtype");
    const char *at = parse_peek(p);
    const Expr *value = parse_expr(p, v.dtype, "the value");
    Stmt let = {.kind = STMT_LET, .var = var, .value = value};
    if (parse_take(p, "->")) {
        read_accumulator(r, s, at, var, value);
    } else if (r->reduces && r->phase->acc.n == 0) {
        p->state.at[var] = VAR_INSIDE;
        *vec_push(p->m, &r->phase->body) = let;
    } else {
        need_outside(r, at, value);
        p->state.at[var] = VAR_LIVE;
        add_stmt(r, let);
    }
}

static void read_fail(Reader *r)
{
    Parser *p = &r->p;
    int code = (int)parse_int(p, 1, INT_MAX, "a code");
    parse_expect(p, "if", "behind the code");
    const char *at = parse_peek(p);
    const Expr *cond = parse_expr(p, DT_BOOL, "the condition");
    need_outside(r, at, cond);
    add_stmt(r, (Stmt){.kind = STMT_FAIL, .value = cond, .code = code});
}

static void read_store(Reader *r, const char *s)
{
    Parser *p = &r->p;
    if (!parse_take(p, p->k->operand.at[0].name)) {
        parse_fail(p, s, "expected a let, an accumulator, a fail, or a store to the output %s",
                   p->k->operand.at[0].name);
    }
    parse_expect(p, "[", "behind the output's name");
    const char *at = parse_peek(p);
    const Expr *index = parse_expr(p, DT_I64, "an index");
    need_outside(r, at, index);
    parse_expect(p, "]", "behind an index");
    parse_expect(p, "=", "behind the element to store");
    at = parse_peek(p);
    const Expr *value = parse_expr(p, p->k->operand.at[0].dtype, "the stored value");
    need_outside(r, at, value);
    add_stmt(r, (Stmt){.kind = STMT_STORE, .index = index, .value = value});
}

static bool is_declaration(const Parser *p)
{
    Parser ahead = *p;
    ahead.at += parse_word_len(p);
    return ahead.at > p->at && parse_next_is(&ahead, ":");
}

static void read_statement(Reader *r, const char *s)
{
    if (is_declaration(&r->p)) {
        read_variable(r);
        return;
    }
    bool fails = parse_take(&r->p, "fail");
    if (r->reduces && r->phase->acc.n == 0) {
        parse_fail(&r->p, s, "the finish cannot stand before the accumulators");
    }
    if (fails) {
        read_fail(r);
    } else {
        read_store(r, s);
    }
}

/* ---- the whole ---- */

static void read_line(Reader *r)
{
    Parser *p = &r->p;
    const char *s = parse_peek(p);
    p->n_terms = 0;
    if (s == p->end) {
        return;
    }
    if (r->part == PART_START) {
        parse_expect(p, "kernel", "on the first line");
        read_kernel(r);
    } else if (parse_take(p, "axis")) {
        read_axis(r, s);
    } else if (parse_take(p, "outer")) {
        read_outer(r, s);
    } else if (parse_take(p, "phase")) {
        read_phase(r, s);
    } else if (r->phase) {
        read_statement(r, s);
    } else {
        need_part(r, s, PART_OPERANDS, PART_OPERANDS, "this");
        read_operand(r);
    }
    if (!at_end(p)) {
        parse_fail(p, p->at, "the line should end here");
    }
}

static void read_lines(Reader *r, const char *text, size_t len)
{
    Parser *p = &r->p;
    const char *stop = text + len;
    for (p->end = text; text < stop; text = p->end + 1) {
        const char *newline = memchr(text, '\n', (size_t)(stop - text));
        p->line++;
        p->start = p->at = text;
        p->end = newline ? newline : stop;
        const char *comment = memchr(text, '#', (size_t)(p->end - text));
        const char *line_end = p->end;
        p->end = comment ? comment : p->end;
        read_line(r);
        p->end = line_end;
    }
}

static void check_whole(Reader *r)
{
    Parser *p = &r->p;
    const Nest *n = &p->k->nest;
    p->start = p->at = p->end;
    p->line++;
    if (n->phase.n == 0) {
        parse_fail(p, p->at, "the kernel ends without a phase");
    }
    end_phase(r);
    for (int i = 0; i < n->axis.n; i++) {
        if (!r->in_loop[i]) {
            parse_fail(p, p->at, "axis %s is in no loop", n->axis.at[i].name);
        }
    }
}

Kernel *kernel_parse(Env *e, const char *text, size_t len, const char *file)
{
    Reader *r = arena_new(&e->kernel, Reader);
    Arena *m = &e->model;
    r->p = (Parser){.e = e, .m = m, .k = arena_new(m, Kernel), .file = file};
    parse_words(&r->p);
    read_lines(r, text, len);
    check_whole(r);
    int slots[MAX_SYMBOLS];
    kernel_finish(e, m, r->p.k, slots);
    return r->p.k;
}
