/* loop_int.h - what the files of compiler/loop share among themselves. */
#ifndef NC_LOOP_INT_H
#define NC_LOOP_INT_H

#include "loop/loop.h"

/* expr.c */
bool op_takes(ScalarOp op, Dtype t); /* is the operation defined on operands of dtype t? */

/* print.c: the style of kernel text and nest_print; ctx is the Kernel. */
extern const ExprStyle text_style;

/* ---- reading kernel text: its lines, expressions and words, in three files ---- */

typedef enum WordKind {
    W_FREE,     /* not taken */
    W_RESERVED, /* a word of the text or of C */
    W_FUNCTION, /* id: ScalarOp */
    W_OPERAND,
    W_AXIS,
    W_VAR,
} WordKind;

typedef struct Word {
    WordKind kind;
    int id;
} Word;

typedef enum VarState {
    VAR_NEW, /* not declared yet */
    VAR_LIVE,
    VAR_INSIDE, /* live in the reduction only */
    VAR_DEAD,
} VarState;

enum { MAX_AXES = 256 };

typedef struct Parser {
    Env *e;
    Arena *m; /* of the kernel */
    Kernel *k;
    const char *file;
    int line;            /* from 1 */
    const char *start;   /* of the line */
    const char *at;      /* what is read next */
    const char *end;     /* of the line, its comment left out */
    Map words;           /* name -> Word */
    bool open[MAX_AXES]; /* by axis: its loop is around what is read */
    Vec(VarState) state; /* by variable */
    bool sizes;          /* only symbols and numbers: extents and spans */
    int depth, n_terms;  /* of the expression being read */
} Parser;

/* word_parse.c */
/* Fails with "file:line:column: ..." where `at` points. */
_Noreturn void parse_fail(const Parser *p, const char *at, const char *fmt, ...) PRINTF(3, 4);
void parse_words(Parser *p);                      /* fills p->words with what names cannot be */
const char *parse_peek(Parser *p);                /* skips blanks */
bool parse_next_is(Parser *p, const char *token); /* a word or punctuation */
bool parse_take(Parser *p, const char *token);    /* the same, and reads it */
void parse_expect(Parser *p, const char *token, const char *where); /* takes it or fails */
size_t parse_word_len(const Parser *p); /* of the identifier at p->at, or 0 */
Word parse_lookup(const Parser *p, const char *s, size_t len);
size_t parse_symbol_digits(const char *s, size_t len); /* s0 s1 ...: how many digits; else 0 */
const char *parse_new_name(Parser *p, WordKind kind, int id); /* a free name, now taken */
Dtype parse_dtype(Parser *p);
int64_t parse_int(Parser *p, int64_t least, int64_t most, const char *what);
/* NULL: no number is next. A minus before it is already read. */
const Expr *parse_number(Parser *p, bool negative);

/* expr_parse.c */
const Expr *parse_any_expr(Parser *p);
const Expr *parse_expr(Parser *p, Dtype t, const char *what); /* of dtype t, else fails */

#endif
