/* ncg_int.h - what the printer, the lexer and the parser of the text form share. Private to
 * compiler/graph. */
#ifndef NC_NCG_INT_H
#define NC_NCG_INT_H

#include "graph/graph.h"

#define NCG_NAN 0x7fc00000u /* the bits that "nan" stands for; others are nan:0xBITS */
#define NCG_MAX_NAME 256    /* bytes */

/* ---- ncg_lex.c: one line of text, its words, and messages that point into it --- */

typedef struct Lexer {
    Env *e;
    const char *file;    /* as messages show it */
    int line;            /* from 1 */
    const char *line_at; /* its first byte; it ends with a NUL */
    const char *s;       /* the next byte */
    const char *mark;    /* what errors of node_make and the like point at */
} Lexer;

typedef struct Word { /* a piece of the line, not NUL-terminated */
    const char *at;
    size_t len;
} Word;

/* A word, [A-Za-z_][A-Za-z0-9_.]*, needs no quotes. */
bool ncg_word(const char *s, size_t len);
bool word_is(Word w, const char *s);

/* E_SYNTAX, "file:line:col: sentence", pointing at a byte of the line. */
_Noreturn void lex_fail(const Lexer *l, const char *at, const char *fmt, ...) PRINTF(3, 4);
/* "expected WHAT, found TOKEN" at the next token. */
_Noreturn void lex_unexpected(Lexer *l, const char *what);
const char *lex_where(const Lexer *l, const char *at); /* "file:line:col" */

char lex_peek(Lexer *l); /* the next byte that is not blank; NUL at the end or a comment */
bool lex_accept(Lexer *l, char c);
void lex_expect(Lexer *l, char c);
Word lex_word(Lexer *l, const char *what);        /* what: for the message */
Word lex_node(Lexer *l, const char *what);        /* a word, or % and word characters */
const char *lex_string(Lexer *l);                 /* "...", unescaped, valid UTF-8 */
const char *lex_name(Lexer *l, const char *what); /* a word or a string */
int lex_integer(Lexer *l, const char *what);
Dim lex_dim(Lexer *l);
Shape lex_shape(Lexer *l);
Dtype lex_dtype(Lexer *l);
void lex_value(Lexer *l, Dtype t, Buf *out); /* one literal, appended as its bytes */

/* The end of a sentence: "; did you mean 'x'?" for the candidate nearest to w, or ".". */
typedef struct Guess {
    Word w;
    int distance; /* of the best so far */
    Word best;
} Guess;
Guess guess_start(Word w);
void guess_try(Guess *g, Word candidate);
const char *guess_text(Env *e, const Guess *g);

#endif
