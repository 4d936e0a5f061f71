/* model_int.h - shared by the .c files of compiler/model only. */
#ifndef NC_MODEL_INT_H
#define NC_MODEL_INT_H

#include <jansson.h>

#include "model/model.h"

#define JSON_MAX_DEPTH 128 /* what the reference reader of safetensors allows */

/* ---- json.c: strict JSON by jansson, freed whatever happens ---------------------------
 * Parses text and runs body on it; body may fail(). Refused with E_SYNTAX, naming file, field,
 * line and column: bad JSON or UTF-8, duplicate keys, nesting beyond 128, text behind the value,
 * a top that is no object. */
typedef void JsonBody(Env *e, const char *file, json_t *root, void *arg);
void json_visit(Env *e, const char *file, const char *text, size_t len, JsonBody *body,
                void *arg);

/* Something from a file, as it may stand in a message: quoted, escaped, cut at 60 bytes. */
const char *quoted(Env *e, const char *s, size_t len);

/* ---- scan.c: JSON pulled piece by piece, without a tree -------------------------------
 * For headers of up to 100 MB: memory is taken for keys and for strings with escapes only.
 * Fails with E_SYNTAX: file, subject, cause and place. */
#define SCAN_MAX_KEYS 1000000 /* at a time: no model has as many tensors */

typedef struct Text {
    const char *at; /* not NUL-terminated; may hold NULs */
    size_t len;
} Text;

typedef struct Scan {
    Env *e;
    const char *file; /* for messages */
    Text subject;     /* what is being read, for messages: a tensor's name; at NULL: nothing */
    const char *start, *at, *end;
    int depth;      /* of open objects and lists, at most JSON_MAX_DEPTH */
    Vec(Text) keys; /* of the open objects, innermost last: checked when one closes */
    int first_key[JSON_MAX_DEPTH]; /* by depth: where its keys begin */
} Scan;

void scan_init(Scan *s, Env *e, const char *file, const char *text, size_t len);
_Noreturn void scan_fail(Scan *s, const char *fmt, ...) PRINTF(2, 3);
char scan_peek(Scan *s);             /* next character that is no blank; NUL: the end */
void scan_enter(Scan *s, char open); /* '{' or '[' */
/* Another member follows; else the close is taken. Fails where an object had a key twice. */
bool scan_more(Scan *s, char close, bool first);
Text scan_string(Scan *s);
Text scan_key(Scan *s); /* and its colon */
uint64_t scan_integer(Scan *s, const char *what);
void scan_skip(Scan *s); /* any value, checked all the same */
/* Fails because the value here is no such kind, unless it is worse: broken or too deep. */
_Noreturn void scan_mismatch(Scan *s, const char *what, const char *kind);
void scan_end(Scan *s); /* nothing but blanks may follow */
bool text_is(Text t, const char *s);

/* ---- parallel.c: the same work on every item, over some threads -----------------------
 * Items are taken in order; the caller works too and is the only one to call tick (may be NULL)
 * with how many are done. work must not fail and must not touch an Env. */
typedef void ItemWork(void *ctx, int64_t item);
typedef void ItemTick(void *ctx, int64_t n_done);
void each_item(int n_threads, int64_t n_items, ItemWork *work, ItemTick *tick, void *ctx);

/* ---- header.c ------------------------------------------------------------------------- */
int file_dtype_bits(FileDtype t);

#endif
