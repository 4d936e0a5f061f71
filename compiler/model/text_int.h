/* text_int.h - shared by the .c files of the tokenizer only. */
#ifndef NC_TEXT_INT_H
#define NC_TEXT_INT_H

#include "model/model.h"

#define NO_ID UINT32_MAX

typedef struct Span {
    const char *at;
    size_t len;
} Span;

/* ---- lists.c: the two long lists of tokenizer.json, scanned without a tree --- */

typedef struct Piece { /* of the file: offset and length, to keep the lists small */
    uint32_t at, len;
} Piece;

typedef struct VocabEntry {
    Piece key; /* between its quotes, escapes still in */
    int64_t id;
} VocabEntry;

typedef struct MergeEntry {
    Piece part[2]; /* part[1].at is 0 where one string holds both, a space between */
} MergeEntry;

typedef struct Lists {
    const char *text;           /* the file */
    bool has_vocab, has_merges; /* model.vocab is an object, model.merges an array */
    Vec(VocabEntry) vocab;
    Vec(MergeEntry) merges;
    Buf rest; /* the file with {} and [] for them, and the lines where they were */
} Lists;

Span lists_span(const Lists *l, Piece p);
/* Everything goes to e->kernel. Fails with E_SYNTAX where the lists are malformed; what else is
 * wrong with the file is left in rest for a JSON parser to say. */
void lists_scan(Env *e, const char *file, const char *text, size_t len, Lists *out);
/* Undoes the escapes of a JSON string into out (at least s.len bytes); returns the length, or
 * -1: a broken escape, or a control character. */
ptrdiff_t json_unescape(Span s, char *out);

/* ---- added.c: added tokens, found on the raw text ---------------------------- */

typedef struct AddedToken {
    Span content;
    int32_t id;
    bool special; /* skip_special leaves it out when decoding */
} AddedToken;

typedef struct Added {
    AddedToken *at; /* sorted by content */
    size_t n;
    bool first[256]; /* bytes that some content begins with */
} Added;

void added_sort(Env *e, const char *file, Added *a);
/* The first match at or behind from, the longest where several begin there; NULL: none. */
const AddedToken *added_find(const Added *a, const char *text, size_t len, size_t from,
                             size_t *at);

/* ---- vocab.c: bytes of every token, and tokens by their bytes ---------------- */

typedef struct VocabSlot { /* the upper bits of the hash save most looks at the bytes */
    uint32_t hash, id;
} VocabSlot;

typedef struct Vocab {
    Env *env;
    const char *file; /* for messages */
    Span *token;      /* by id: raw bytes; .at is NULL where there is no token */
    uint32_t n_ids;   /* highest id + 1 */
    VocabSlot *slot;  /* open addressing */
    size_t mask;
} Vocab;

/* A listed token outside the byte alphabet means its own text, as in the reference. Fails with
 * E_SYNTAX: a token or an id that comes twice, ids far apart. */
void vocab_build(Env *e, const char *file, const Lists *lists, const Added *added, Vocab *v);
uint32_t vocab_find(const Vocab *v, const char *bytes, size_t len); /* NO_ID when absent */
/* A symbol of the file (UTF-8, in the printable alphabet of byte-level BPE) as the bytes it
 * stands for. out may be text itself: there are never more bytes. -1: a character outside the
 * alphabet, out is half written. */
ptrdiff_t alphabet_decode(Span text, char *out);

/* ---- bpe.c: the merge table, and merging ------------------------------------- */

typedef struct Merge { /* left = NO_ID: an empty slot */
    uint32_t left, right, rank, result;
} Merge;

typedef struct PieceSlot { /* one remembered piece, one cache line; text_len 0: empty */
    uint8_t text_len, n_ids;
    char text[22];
    int32_t id[10];
} PieceSlot;

typedef struct Bpe {
    Arena *arena;
    const char *file;
    const Vocab *vocab;
    Merge *slot;
    size_t mask;
    uint32_t byte_id[256]; /* symbol of each byte; NO_ID: the vocabulary lacks it */
    PieceSlot *cache;      /* direct-mapped, so that memory is bounded whatever the text */
    bool *made;            /* by id: is it a byte, or the result of a merge? */
    struct Chain *chain;   /* scratch of long pieces, kept and grown */
} Bpe;

void bpe_build(Env *e, const char *file, const Lists *lists, const Vocab *v, Bpe *b);
void bpe_encode(Bpe *b, const char *piece, size_t len, Ids *out);

/* ---- pattern.c, pretoken.c: the split pattern, run by PCRE2 ------------------ */

/* The file's regular expression (Oniguruma's syntax) as one for PCRE2 with the same meaning in
 * the reference's Unicode; in e->kernel. What may differ between the two is refused by name. */
const char *pattern_translate(Env *e, const char *file, const char *pattern);

typedef struct Splitter Splitter;
Splitter *splitter_build(Env *e, const char *file, const char *pattern);
void splitter_release(Splitter *s); /* the machine code; NULL is fine */
/* The next piece of text[*at..len), never empty, and moves *at behind it; false at the end. A
 * piece is a match, or what lies between two. text is valid UTF-8. */
bool splitter_next(Splitter *s, const char *text, size_t len, size_t *at, Span *piece);

/* ---- nfc.c ------------------------------------------------------------------- */

typedef struct Nfc { /* scratch, kept and grown */
    Arena *arena;
    Buf text;
    Vec(int32_t) point, old;
} Nfc;

void nfc_init(Nfc *f, Arena *a);
/* Normalization Form C in the data of Unicode 9: s itself, or f->text where it changes. */
Span nfc(Nfc *f, Span s);

/* ---- utf8.c ------------------------------------------------------------------ */

/* Offset of the first byte that is no part of valid UTF-8; len when there is none. */
size_t utf8_valid(const char *s, size_t len);
/* The code point at s, which is valid, and its length. */
int32_t utf8_next(const char *s, int *len);

/* ---- generation.c ------------------------------------------------------------ */

/* The text of a file, in e->kernel; NULL: there is no such file. */
const char *read_optional(Env *e, const char *path, size_t *len);

/* ---- tokenizer.c ------------------------------------------------------------- */

struct Tokenizer {
    Env *env;
    const char *file;
    int64_t vocab_size; /* of the model; 0: unknown */
    Vocab vocab;
    Bpe bpe;
    Added added;
    bool *special;   /* by id: skip_special leaves it out */
    bool normalizes; /* the file asks for NFC */
    Nfc nfc;
    Splitter *splitter;
};

#endif
