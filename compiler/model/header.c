/* header.c - the header of a safetensors file and the rules of the format.
 *
 * Eight bytes of length, a JSON object of tensors, the data. Entries are read by the scanner,
 * sorted by offset, and must tile the data exactly: no hole, no overlap, no rest. Names may
 * hold anything, NULs too, and are compared with their length.
 * Needs: the file's bytes. Keeps: pointers into them. Every refusal names its cause. */
#include "model/model_int.h"
#include "model/text_int.h"

#include <stdlib.h>
#include <string.h>

#define MAX_HEADER_BYTES 100000000

static const struct {
    const char *name;
    int bits;
} dtype_rows[N_FILE_DTYPES] = {
#define X(id, bits) {#id, bits},
    FILE_DTYPES(X)
#undef X
};

const char *file_dtype_name(FileDtype t)
{
    return dtype_rows[t].name;
}

int file_dtype_bits(FileDtype t)
{
    return dtype_rows[t].bits;
}

/* ---- one entry --------------------------------------------------------------------- */

typedef struct Entry {
    FileTensor t;
    uint64_t n_bits; /* of the shape and dtype */
    bool has_dtype, has_shape, has_offsets;
} Entry;

static void read_dtype(Scan *s, Entry *n)
{
    if (scan_peek(s) != '"') {
        scan_mismatch(s, "dtype", "a string");
    }
    Text name = scan_string(s);
    FileDtype t = 0;
    while (t < N_FILE_DTYPES && !text_is(name, dtype_rows[t].name)) {
        t++;
    }
    if (t == N_FILE_DTYPES) {
        scan_fail(s, "unknown dtype %s", quoted(s->e, name.at, name.len));
    }
    n->t.dtype = t;
}

/* Leaves the element count in n_bits; the dtype may come later. */
static void read_shape(Scan *s, Entry *n)
{
    if (scan_peek(s) != '[') {
        scan_mismatch(s, "shape", "a list");
    }
    scan_enter(s, '[');
    n->n_bits = 1;
    for (bool first = true; scan_more(s, ']', first); first = false) {
        uint64_t d = scan_integer(s, "a dimension of shape");
        if (__builtin_mul_overflow(n->n_bits, d, &n->n_bits) || d > INT64_MAX) {
            scan_fail(s, "the product of shape overflows 64 bits");
        }
        if (n->t.rank < MAX_RANK) {
            n->t.dim[n->t.rank] = (int64_t)d;
        }
        n->t.rank++;
    }
}

static void read_offsets(Scan *s, Entry *n)
{
    uint64_t at[2] = {0};
    int count = 0;
    if (scan_peek(s) != '[') {
        scan_mismatch(s, "data_offsets", "a list");
    }
    scan_enter(s, '[');
    for (bool first = true; scan_more(s, ']', first); first = false) {
        uint64_t v = scan_integer(s, "an offset of data_offsets");
        if (count == 2) {
            scan_fail(s, "data_offsets has more than two entries");
        }
        at[count++] = v;
    }
    if (count != 2) {
        scan_fail(s, "data_offsets has %d entries instead of two", count);
    }
    n->t.begin = at[0];
    n->t.end = at[1];
}

static void check_entry(Scan *s, Entry *n, uint64_t n_data)
{
    FileTensor *t = &n->t;
    if (!n->has_dtype || !n->has_shape || !n->has_offsets) {
        scan_fail(s, "%s is missing",
                  !n->has_dtype   ? "dtype"
                  : !n->has_shape ? "shape"
                                  : "data_offsets");
    }
    if (__builtin_mul_overflow(n->n_bits, (uint64_t)file_dtype_bits(t->dtype), &n->n_bits)) {
        scan_fail(s, "its size in bits overflows 64 bits");
    }
    if (t->begin > t->end) {
        scan_fail(s, "data_offsets begin at %llu, behind their end %llu",
                  (unsigned long long)t->begin, (unsigned long long)t->end);
    }
    if (n->n_bits % 8 != 0 || n->n_bits / 8 != t->end - t->begin) {
        scan_fail(s, "shape and dtype need %llu bits, but data_offsets span %llu bytes",
                  (unsigned long long)n->n_bits, (unsigned long long)(t->end - t->begin));
    }
    if (t->end > n_data) {
        scan_fail(s, "its data end at byte %llu, but the file %s (%llu bytes): it is truncated",
                  (unsigned long long)t->end, n_data == 0 ? "has no data at all" : "has less",
                  (unsigned long long)n_data);
    }
}

static void read_fields(Scan *s, Entry *n)
{
    if (scan_peek(s) != '{') {
        scan_mismatch(s, "its entry", "an object");
    }
    scan_enter(s, '{');
    for (bool first = true; scan_more(s, '}', first); first = false) {
        Text field = scan_key(s);
        if (text_is(field, "dtype")) {
            n->has_dtype = true;
            read_dtype(s, n);
        } else if (text_is(field, "shape")) {
            n->has_shape = true;
            read_shape(s, n);
        } else if (text_is(field, "data_offsets")) {
            n->has_offsets = true;
            read_offsets(s, n);
        } else {
            scan_skip(s);
        }
    }
}

/* ---- the whole header -------------------------------------------------------------- */

static void read_metadata(Scan *s)
{
    char c = scan_peek(s);
    if (c != '{' && c != 'n') {
        scan_mismatch(s, "__metadata__", "an object of strings");
    }
    if (c == 'n') {
        scan_skip(s); /* null: as good as absent */
        return;
    }
    scan_enter(s, '{');
    for (bool first = true; scan_more(s, '}', first); first = false) {
        Text field = scan_key(s);
        if (scan_peek(s) != '"') {
            scan_fail(
                s,
                "__metadata__ maps %s to something else than a string (no tensor may have "
                "this name)",
                quoted(s->e, field.at, field.len));
        }
        scan_string(s);
    }
}

static void read_entries(Scan *s, const uint8_t *data, uint64_t n_data, FileTensors *out)
{
    scan_enter(s, '{');
    for (bool first = true; scan_more(s, '}', first); first = false) {
        Text name = scan_key(s);
        if (text_is(name, "__metadata__")) {
            read_metadata(s);
            continue;
        }
        Entry n = {0};
        s->subject = name;
        read_fields(s, &n);
        check_entry(s, &n, n_data);
        s->subject.at = NULL;
        n.t.name = arena_strn(&s->e->model, name.at, name.len);
        n.t.name_len = name.len;
        n.t.data = data + n.t.begin;
        *vec_push(&s->e->model, out) = n.t;
    }
    scan_end(s);
}

/* By place; an empty tensor goes before the one that starts where it lies. */
static int by_offset(const void *pa, const void *pb)
{
    const FileTensor *a = pa, *b = pb;
    if (a->begin != b->begin) {
        return a->begin < b->begin ? -1 : 1;
    }
    if (a->end != b->end) {
        return a->end < b->end ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

/* Tensors must tile the data: none may share bytes, none may be left over. */
static void check_tiling(Env *e, const char *file, FileTensors *list, uint64_t n_data)
{
    if (list->n > 1) {
        qsort(list->at, (size_t)list->n, sizeof *list->at, by_offset);
    }
    uint64_t at = 0;
    for (int i = 0; i < list->n; i++) {
        const FileTensor *t = &list->at[i];
        const char *name = quoted(e, t->name, t->name_len);
        unsigned long long begin = t->begin, last = at;
        if (t->begin < at) {
            const FileTensor *before = &list->at[i - 1];
            fail(e, E_SYNTAX,
                 "%s: invalid offset: tensor %s at byte %llu shares bytes with (overlaps) %s, "
                 "which ends at %llu.",
                 file, name, begin, quoted(e, before->name, before->name_len), last);
        }
        if (t->begin > at) {
            fail(e, E_SYNTAX,
                 "%s: invalid offset: a hole before tensor %s: it starts at byte %llu, "
                 "not at %llu.",
                 file, name, begin, last);
        }
        at = t->end;
    }
    if (at != n_data) {
        fail(e, E_SYNTAX, "%s: %llu bytes after the last tensor belong to none.", file,
             (unsigned long long)(n_data - at));
    }
}

static bool starts_with(const uint8_t *p, size_t len, const char *s)
{
    return len >= strlen(s) && memcmp(p, s, strlen(s)) == 0;
}

/* Other things that are found under this name. */
static void check_kind(Env *e, const uint8_t *p, size_t len, const char *file)
{
    if (starts_with(p, len, "version https://git-lfs")) {
        fail(e, E_SYNTAX,
             "%s is a Git LFS pointer, not the model: fetch it with \"git lfs pull\".", file);
    }
    if (starts_with(p, len, "GGUF")) {
        fail(e, E_SYNTAX, "%s is a GGUF file; only safetensors is read.", file);
    }
    if (len < 8) {
        fail(e, E_SYNTAX,
             "%s: the header is too small: the file has %zu bytes, shorter than the 8 of "
             "the length.",
             file, len);
    }
}

static size_t header_length(Env *e, const uint8_t *p, size_t len, const char *file)
{
    uint64_t n = 0;
    for (int i = 0; i < 8; i++) {
        n |= (uint64_t)p[i] << (8 * i);
    }
    if (n > MAX_HEADER_BYTES) {
        fail(e, E_SYNTAX,
             "%s: the header is too large: %llu (0x%llx) bytes, and the format allows "
             "%d.",
             file, (unsigned long long)n, (unsigned long long)n, MAX_HEADER_BYTES);
    }
    if (n > len - 8) {
        fail(e, E_SYNTAX,
             "%s: invalid header length: %llu bytes go past the end of the file, which "
             "has %zu behind the length%s.",
             file, (unsigned long long)n, len - 8,
             n == len ? " (it counts the 8-byte prefix)" : "");
    }
    return (size_t)n;
}

size_t safetensors_parse(Env *e, const uint8_t *p, size_t len, const char *file,
                         FileTensors *out)
{
    check_kind(e, p, len, file);
    size_t n_header = header_length(e, p, len, file);
    const char *header = (const char *)p + 8;
    if (n_header == 0 || *header != '{') {
        fail(e, E_SYNTAX, "%s: the header is not JSON: it does not begin with '{'.", file);
    }
    size_t n_valid = utf8_valid(header, n_header);
    if (n_valid < n_header) {
        fail(e, E_SYNTAX, "%s: header byte %zu is not UTF-8.", file, n_valid);
    }
    *out = (FileTensors){0};
    uint64_t n_data = len - 8 - n_header;
    Scan s;
    scan_init(&s, e, file, header, n_header);
    read_entries(&s, p + 8 + n_header, n_data, out);
    check_tiling(e, file, out, n_data);
    return len - n_data;
}
