/* ncg_parse.c - reads the text form of a graph, as printed by ncg.c or written by hand.
 *
 *   graph NAME
 *   NAME = input|weight ["NAME"] DTYPE[SHAPE]         NAME = const DTYPE[SHAPE] VALUE, ...
 *   NAME = iota DTYPE[SHAPE] axis=N                   NAME = dim EXPR
 *   NAME = OP OPERAND, ... axis=N shape=[..] perm=[..] dtype=T start=EXPR stop=EXPR at=[..]
 *   return NAME=OPERAND, ...                          # one statement a line; comments
 *
 * What a statement takes follows from its row in ops.h. Nodes come from node_make, so types are
 * checked as everywhere, and errors get the statement's place in front. A statement sees only
 * those above it, so there are no cycles. Time and memory are linear in the text. */
#include "graph/ncg_int.h"

#include <string.h>

enum { MAX_BYTES = 64 << 20, MAX_STATEMENTS = 1 << 18, MAX_OPERANDS = 1 << 16 };

typedef struct Definition {
    Word name;
    int line;
    Node *node;
} Definition;

typedef struct Parser {
    Lexer lex;
    char *next;    /* the next line, still with its line feed */
    Graph *g;      /* NULL before the graph statement */
    Word defining; /* what the statement defines; empty in a return */
    bool returned;
    Vec(Definition *) defined;
    Map by_name; /* -> Definition */
    int n_statements;
} Parser;

/* ---- names of nodes ----------------------------------------------------- */

static Definition *lookup(const Parser *p, Word name)
{
    return map_get(&p->by_name, hash_bytes(name.at, name.len));
}

/* The line below this one that defines name, or 0. Only errors come here. */
static int defined_later(const Parser *p, Word name)
{
    int line = p->lex.line + 1;
    for (const char *s = p->next; s; line++) {
        s += strspn(s, " \t");
        if (strncmp(s, name.at, name.len) == 0) {
            const char *behind = s + name.len;
            behind += strspn(behind, " \t");
            if (*behind == '=') {
                return line;
            }
        }
        const char *end = strchr(s, '\n');
        s = end ? end + 1 : NULL;
    }
    return 0;
}

_Noreturn static void refuse_operand(const Parser *p, Word name)
{
    const Lexer *l = &p->lex;
    if (name.len == p->defining.len && memcmp(name.at, p->defining.at, name.len) == 0) {
        lex_fail(l, name.at, "'%.40s' is used in its own definition.",
                 arena_strn(&l->e->kernel, name.at, name.len));
    }
    int line = defined_later(p, name);
    if (line > 0) {
        lex_fail(l, name.at, "'%.40s' is used before its definition on line %d.",
                 arena_strn(&l->e->kernel, name.at, name.len), line);
    }
    Guess guess = guess_start(name);
    for (int i = 0; i < p->defined.n; i++) {
        guess_try(&guess, p->defined.at[i]->name);
    }
    lex_fail(l, name.at, "nothing is called '%.40s' up to here%s",
             arena_strn(&l->e->kernel, name.at, name.len), guess_text(l->e, &guess));
}

static Node *operand(Parser *p)
{
    Word name = lex_node(&p->lex, "the name of a node");
    if (lex_peek(&p->lex) == '=') {
        lex_fail(&p->lex, name.at, "expected an operand, found the attribute '%.40s'.",
                 arena_strn(&p->lex.e->kernel, name.at, name.len));
    }
    Definition *d = lookup(p, name);
    if (!d) {
        refuse_operand(p, name);
    }
    return d->node;
}

static void define(Parser *p, Word name, Node *n)
{
    Arena *a = &p->lex.e->kernel;
    Definition *d = arena_new(a, Definition);
    *d = (Definition){.name = name, .line = p->lex.line, .node = n};
    map_put(&p->by_name, hash_bytes(name.at, name.len), d);
    *vec_push(a, &p->defined) = d;
}

/* ---- attributes --------------------------------------------------------- */

static void read_axis(Lexer *l, Attr *a)
{
    a->axis = lex_integer(l, "an axis, such as 0 or -1");
}

static void read_dtype(Lexer *l, Attr *a)
{
    a->dtype = lex_dtype(l);
}

static void read_shape(Lexer *l, Attr *a)
{
    a->shape = lex_shape(l);
}

static void read_start(Lexer *l, Attr *a)
{
    a->start = lex_dim(l);
}

static void read_stop(Lexer *l, Attr *a)
{
    a->stop = lex_dim(l);
}

static void read_at(Lexer *l, Attr *a)
{
    a->at = lex_shape(l);
}

static void read_from(Lexer *l, Attr *a)
{
    Word w = lex_word(l, "bf16");
    if (!word_is(w, "bf16")) {
        lex_fail(l, w.at, "a weight can only come from bf16, not '%.40s'",
                 arena_strn(&l->e->kernel, w.at, w.len));
    }
    a->from_bf16 = true;
}

static void read_perm(Lexer *l, Attr *a)
{
    lex_expect(l, '[');
    while (!lex_accept(l, ']')) {
        if (a->n_perm > 0) {
            lex_expect(l, ',');
        }
        if (a->n_perm == MAX_RANK) {
            lex_fail(l, l->s, "a permutation has more than %d axes.", MAX_RANK);
        }
        a->perm[a->n_perm++] = lex_integer(l, "an axis from 0 on");
    }
}

static const struct Attribute {
    const char *name;
    unsigned flag;
    void (*read)(Lexer *l, Attr *a);
} attributes[] = {
    {"axis", A_AXIS, read_axis}, {"dtype", A_DTYPE, read_dtype}, {"shape", A_SHAPE, read_shape},
    {"perm", A_PERM, read_perm}, {"start", A_RANGE, read_start}, {"stop", A_RANGE, read_stop},
    {"at", A_AT, read_at},       {"from", A_FROM, read_from},
};

static int find_attribute(const Lexer *l, Word key, Op op)
{
    const char *text = arena_strn(&l->e->kernel, key.at, key.len);
    Guess guess = guess_start(key);
    for (int i = 0; i < (int)countof(attributes); i++) {
        bool taken = op_info[op].attrs & attributes[i].flag;
        if (taken && word_is(key, attributes[i].name)) {
            return i;
        }
        if (taken) {
            guess_try(&guess, (Word){attributes[i].name, strlen(attributes[i].name)});
        }
    }
    lex_fail(l, key.at, "%s has no attribute '%.40s'%s", op_info[op].name, text,
             guess_text(l->e, &guess));
}

static void read_attributes(Lexer *l, Op op, Attr *a)
{
    bool seen[countof(attributes)] = {false};
    while (lex_peek(l)) {
        Word key = lex_word(l, "an attribute or the end of the line");
        if (lex_peek(l) != '=') {
            l->s = key.at;
            lex_unexpected(l, "an attribute or the end of the line");
        }
        int i = find_attribute(l, key, op);
        if (seen[i]) {
            lex_fail(l, key.at, "the attribute %s is given twice.", attributes[i].name);
        }
        lex_expect(l, '=');
        attributes[i].read(l, a);
        seen[i] = true;
    }
    for (int i = 0; i < (int)countof(attributes); i++) {
        if (op_info[op].attrs & attributes[i].flag & ~A_FROM && !seen[i]) {
            lex_fail(l, l->s, "%s needs the attribute %s=.", op_info[op].name,
                     attributes[i].name);
        }
    }
}

/* ---- one node ----------------------------------------------------------- */

/* False where node_make will refuse the shape in its own words. */
static bool countable(const Shape *s, int64_t *count)
{
    *count = 1;
    for (int i = 0; i < s->rank; i++) {
        if (!dim_is_const(s->dim[i]) || s->dim[i].k < 0 ||
            __builtin_mul_overflow(*count, s->dim[i].k, count)) {
            return false;
        }
    }
    return true;
}

/* As many literals as the shape says must be there: nothing is allocated on its word alone. */
static void read_values(Lexer *l, Attr *a)
{
    Buf values;
    buf_init(&values, &l->e->kernel);
    int64_t found = 0, wanted;
    while (lex_peek(l)) {
        if (found > 0) {
            lex_expect(l, ',');
        }
        lex_value(l, a->dtype, &values);
        found++;
    }
    if (countable(&a->shape, &wanted) && wanted != found) {
        lex_fail(l, l->s,
                 "the constant has %lld value%s, but its shape %.200s has %lld element%s.",
                 (long long)found, found == 1 ? "" : "s", shape_text(l->e, &a->shape),
                 (long long)wanted, wanted == 1 ? "" : "s");
    }
    a->value = values.at;
}

static void read_leaf(Lexer *l, Word name, Op op, Attr *a)
{
    unsigned attrs = op_info[op].attrs;
    if (attrs & A_NAME && lex_peek(l) == '"') {
        a->name = lex_string(l);
    } else if (attrs & A_NAME) {
        if (*name.at == '%') {
            lex_unexpected(l, "a name in quotes, since the node has only a number");
        }
        a->name = arena_strn(&l->e->kernel, name.at, name.len);
    }
    if (attrs & (A_TYPE | A_VALUE)) {
        a->dtype = lex_dtype(l);
        a->shape = lex_shape(l);
    }
    if (attrs & A_VALUE) {
        read_values(l, a);
    }
    if (attrs & A_EXPR) {
        a->expr = lex_dim(l);
    }
}

static Op read_op(Lexer *l)
{
    Word w = lex_word(l, "an operation");
    Op op;
    if (!op_parse(w.at, w.len, &op)) {
        Guess guess = guess_start(w);
        for (int i = 0; i < N_OPS; i++) {
            guess_try(&guess, (Word){op_info[i].name, strlen(op_info[i].name)});
        }
        lex_fail(l, w.at, "there is no operation '%.40s'%s",
                 arena_strn(&l->e->kernel, w.at, w.len), guess_text(l->e, &guess));
    }
    return op;
}

typedef Vec(Node *) Nodes;

static void read_operands(Parser *p, Op op, Nodes *in)
{
    if (op_info[op].arity == 0) {
        return;
    }
    do {
        if (in->n == MAX_OPERANDS) {
            lex_fail(&p->lex, p->lex.s, "a node has more than %d operands.", MAX_OPERANDS);
        }
        *vec_push(&p->lex.e->kernel, in) = operand(p);
    } while (lex_accept(&p->lex, ','));
}

static void definition(Parser *p, Word name)
{
    Lexer *l = &p->lex;
    const Definition *old = lookup(p, name);
    if (old) {
        lex_fail(l, name.at, "'%.40s' is already defined on line %d.",
                 arena_strn(&l->e->kernel, name.at, name.len), old->line);
    }
    p->defining = name;
    lex_peek(l);
    l->mark = l->s;
    Op op = read_op(l);
    Attr attr = {0};
    Nodes in = {0};
    read_leaf(l, name, op, &attr);
    read_operands(p, op, &in);
    read_attributes(l, op, &attr);
    Node *n = node_make(l->e, op, in.at, in.n, &attr, l->line);
    if (op == OP_INPUT) {
        graph_input(p->g, n);
    }
    define(p, name, n);
}

/* ---- statements --------------------------------------------------------- */

static void graph_statement(Parser *p)
{
    if (p->g) {
        lex_fail(&p->lex, p->lex.mark, "the file holds more than one graph.");
    }
    p->g = graph_new(p->lex.e, lex_name(&p->lex, "the graph's name"));
}

/* NAME=OPERAND, or a node's own word. */
static void output(Parser *p)
{
    Lexer *l = &p->lex;
    lex_peek(l);
    const char *at = l->s;
    const char *name = lex_name(l, "an output, NAME=NODE");
    if (!lex_accept(l, '=')) {
        l->s = at;
    }
    graph_output(p->g, name, operand(p));
}

static void return_statement(Parser *p)
{
    p->defining = (Word){0};
    do {
        output(p);
    } while (lex_accept(&p->lex, ','));
    p->returned = true;
    graph_finish(p->g);
}

static void statement(Env *e, void *arg)
{
    (void)e;
    Parser *p = arg;
    Lexer *l = &p->lex;
    l->mark = l->s;
    Word first =
        lex_node(l, "a statement: NAME = OPERATION ..., graph NAME or return NAME=NODE, ...");
    bool defines = lex_accept(l, '=');
    if (++p->n_statements > MAX_STATEMENTS) {
        lex_fail(l, first.at, "the graph has more than %d statements.", MAX_STATEMENTS);
    }
    if (p->returned) {
        lex_fail(l, first.at, "nothing may follow the return statement.");
    }
    if (!defines && word_is(first, "graph")) {
        graph_statement(p);
    } else if (!p->g) {
        lex_fail(l, first.at, "the first statement must be: graph NAME.");
    } else if (defines) {
        definition(p, first);
    } else if (word_is(first, "return")) {
        return_statement(p);
    } else {
        lex_unexpected(l, "'='");
    }
    if (lex_peek(l)) {
        lex_unexpected(l, "the end of the line");
    }
}

/* ---- files -------------------------------------------------------------- */

/* An error that knows no place, from node_make or below, gets the statement's. */
_Noreturn static void reraise(const Lexer *l)
{
    Err err = l->e->err;
    size_t len = strlen(l->file);
    bool placed = strncmp(err.text, l->file, len) == 0 && err.text[len] == ':';
    if (placed || err.code == E_NOMEM) {
        fail_err(l->e, &err);
    }
    fail(l->e, err.code, "%s: %s", lex_where(l, l->mark), err.text);
}

/* Cuts the next line off; LF and CRLF end lines. */
static void next_line(Parser *p)
{
    char *line = p->next, *end = strchr(line, '\n');
    p->next = end ? end + 1 : NULL;
    end = end ? end : line + strlen(line);
    end -= end > line && end[-1] == '\r';
    *end = 0;
    p->lex.line++;
    p->lex.line_at = p->lex.s = line;
}

static void check_text(Env *e, const char *text, size_t len, const char *file)
{
    if (len > MAX_BYTES) {
        fail(e, E_SYNTAX, "%s:1:1: the file has %zu bytes; at most %d are read.", file, len,
             MAX_BYTES);
    }
    const char *nul = len > 0 ? memchr(text, 0, len) : NULL;
    if (nul) {
        int line = 1;
        for (const char *s = text; s < nul; s++) {
            line += *s == '\n';
        }
        fail(e, E_SYNTAX, "%s:%d:1: the line holds a NUL byte, so this is not a text file.",
             file, line);
    }
}

Graph *ncg_parse(Env *e, const char *text, size_t len, const char *file)
{
    enum { SHOWN_PATH = 200 }; /* the end of a path says more than its beginning */
    size_t path = strlen(file);
    file =
        path > SHOWN_PATH ? arena_printf(&e->kernel, "...%s", file + path - SHOWN_PATH) : file;
    check_text(e, text, len, file);
    size_t mark =
        len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a byte order mark */
    Parser p = {.lex = {.e = e, .file = file}};
    map_init(&p.by_name, &e->kernel);
    p.next = arena_strn(&e->kernel, text + mark, len - mark);
    while (p.next) {
        next_line(&p);
        if (lex_peek(&p.lex) && !env_try(e, statement, &p)) {
            reraise(&p.lex);
        }
    }
    if (!p.returned) {
        lex_fail(&p.lex, p.lex.line_at,
                 p.g ? "the graph ends without a return statement."
                     : "the file has no statement: graph NAME.");
    }
    return p.g;
}
