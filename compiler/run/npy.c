/* npy.c - reads and writes NumPy's .npy files, so that tensors come and go to other tools.
 *
 * A file is a magic string, a version, a header that is the text of a Python dict, and the
 * elements. Read are versions 1 to 3, C order, little-endian; what else the format allows is
 * refused by name. No length in the file is believed: the elements must be exactly those
 * that the shape promises. Written is version 1. Needs a little-endian machine. */
#include "run/run_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are stored as they are");

static const char magic[] = "\x93NUMPY";
enum {
    MAGIC_LEN = sizeof magic - 1,
    PREFIX_V1 = MAGIC_LEN + 2 + 2, /* magic, version, length of the header */
    PREFIX_V2 = MAGIC_LEN + 2 + 4,
    ALIGN_HEADER = 64,
    MAX_HEADER = 64 << 10,
    MAX_STREAM = 256 << 20, /* bytes of what has no size beforehand */
};

static const char *const descr[N_DTYPES] = {
    [DT_F32] = "<f4", [DT_I64] = "<i8", [DT_I32] = "<i4", [DT_I8] = "|i1", [DT_BOOL] = "|b1",
};

/* ---- the header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ------------ */

typedef struct Header {
    Env *e;
    const char *path;
    const char *at; /* NUL-ended */
    Tensor t;
    bool has_descr, has_order, has_shape;
} Header;

static _Noreturn void malformed(const Header *h, const char *why)
{
    fail(h->e, E_SYNTAX, "%.700s is not a valid .npy file: %s.", h->path, why);
}

static bool take(Header *h, const char *text)
{
    h->at += strspn(h->at, " \t\n");
    size_t len = strlen(text);
    bool there = strncmp(h->at, text, len) == 0;
    h->at += there ? len : 0;
    return there;
}

static void expect(Header *h, const char *text, const char *why)
{
    if (!take(h, text)) {
        malformed(h, why);
    }
}

static const char *quoted(Header *h)
{
    h->at += strspn(h->at, " \t\n");
    char quote = *h->at;
    const char *end = quote == '\'' || quote == '"' ? strchr(h->at + 1, quote) : NULL;
    if (!end) {
        malformed(h, "its header has no string where one is due");
    }
    const char *text = arena_strn(&h->e->kernel, h->at + 1, (size_t)(end - h->at - 1));
    h->at = end + 1;
    return text;
}

static void read_descr(Header *h)
{
    h->at += strspn(h->at, " \t\n");
    if (*h->at == '[') {
        fail(h->e, E_TYPE, "%.700s holds records; only plain arrays are read.", h->path);
    }
    const char *text = quoted(h);
    for (int t = 0; t < N_DTYPES; t++) {
        bool same = strcmp(text, descr[t]) == 0;
        bool one_byte =
            descr[t][0] == '|' && strcmp(text + 1, descr[t] + 1) == 0 && text[0] == '<';
        if (same || one_byte) {
            h->t.dtype = (Dtype)t;
            h->has_descr = true;
            return;
        }
    }
    fail(h->e, E_TYPE,
         "%.700s holds elements of type \"%.40s\"; f32, i64, i32, i8 and bool, "
         "little-endian, are read.",
         h->path, text);
}

static void read_order(Header *h)
{
    if (take(h, "True")) {
        fail(h->e, E_TYPE, "%.700s is in Fortran order; only C order is read.", h->path);
    }
    expect(h, "False", "fortran_order is neither True nor False");
    h->has_order = true;
}

static void read_shape(Header *h)
{
    expect(h, "(", "its shape is no tuple");
    for (h->t.rank = 0; !take(h, ")"); h->t.rank++) {
        h->at += strspn(h->at, " \t\n");
        char *end;
        errno = 0;
        long long size = strtoll(h->at, &end, 10);
        if (end == h->at || errno || size < 0) {
            malformed(h, "its shape holds something that is no size");
        }
        if (h->t.rank == MAX_RANK) {
            fail(h->e, E_SHAPE, "%.700s has more than %d axes.", h->path, MAX_RANK);
        }
        h->t.dim[h->t.rank] = size;
        h->at = end;
        if (!take(h, ",") && *h->at != ')') {
            malformed(h, "its shape is not closed");
        }
    }
    h->has_shape = true;
}

static void read_dict(Header *h)
{
    static const struct {
        const char *key;
        void (*read)(Header *h);
    } keys[] = {{"descr", read_descr}, {"fortran_order", read_order}, {"shape", read_shape}};
    expect(h, "{", "its header is no dict");
    while (!take(h, "}")) {
        const char *key = quoted(h);
        expect(h, ":", "a key of its header has no value");
        size_t i = 0;
        while (i < countof(keys) && strcmp(keys[i].key, key) != 0) {
            i++;
        }
        if (i == countof(keys)) {
            malformed(h, "its header has an unknown key");
        }
        keys[i].read(h);
        if (!take(h, ",") && *h->at != '}') {
            malformed(h, "its header is not closed");
        }
    }
    if (h->at[strspn(h->at, " \t\n")]) {
        malformed(h, "something follows the dict of its header");
    }
    if (!h->has_descr || !h->has_order || !h->has_shape) {
        malformed(h, "its header lacks descr, fortran_order or shape");
    }
}

/* ---- reading ---------------------------------------------------------------------------- */

/* Parses the header; gives where the elements begin. */
static size_t read_header(Header *h, const char *text, size_t len)
{
    const unsigned char *u = (const unsigned char *)text;
    if (len < PREFIX_V1 || memcmp(text, magic, MAGIC_LEN) != 0) {
        malformed(h, "it does not begin as one");
    }
    int version = u[MAGIC_LEN];
    size_t prefix = version == 1 ? PREFIX_V1 : PREFIX_V2;
    if (version < 1 || version > 3 || len < prefix) {
        malformed(h, "its version is not 1, 2 or 3");
    }
    size_t n = 0;
    for (size_t i = prefix; i-- > MAGIC_LEN + 2;) {
        n = n << 8 | u[i];
    }
    if (n > len - prefix || n > MAX_HEADER) {
        malformed(h, "its header is longer than the file or than 64 KiB");
    }
    char *dict = arena_strn(&h->e->kernel, text + prefix, n);
    h->at = dict;
    read_dict(h);
    if (h->at + strspn(h->at, " \t\n") != dict + n) {
        malformed(h, "its header holds a NUL");
    }
    return prefix + n;
}

static size_t promised_bytes(const Header *h)
{
    size_t bytes = (size_t)dtype_bytes(h->t.dtype), limit = PTRDIFF_MAX;
    for (int i = 0; i < h->t.rank; i++) {
        if (h->t.dim[i] > 0 && bytes > limit / (size_t)h->t.dim[i]) {
            malformed(h, "its shape is too large");
        }
        bytes *= h->t.dim[i] > 0 ? (size_t)h->t.dim[i] : 1;
    }
    return tensor_count(&h->t) == 0 ? 0 : bytes;
}

static void check_bools(const Header *h)
{
    const uint8_t *at = h->t.data;
    for (int64_t i = 0; h->t.dtype == DT_BOOL && i < tensor_count(&h->t); i++) {
        if (at[i] > 1) {
            malformed(h, "an element of its bools is neither 0 nor 1");
        }
    }
}

Tensor npy_read(Env *e, Arena *a, const char *path)
{
    Header h = {.e = e, .path = path};
    char *text;
    size_t len;
    Err err;
    struct stat st;
    bool sized =
        !os.stat(path, &st) && S_ISREG(st.st_mode); /* else a device or pipe, maybe endless */
    if (!os_read_file(a, path, sized ? PTRDIFF_MAX / 2 : MAX_STREAM, &text, &len, &err)) {
        fail_err(e, &err);
    }
    size_t begin = read_header(&h, text, len), bytes = promised_bytes(&h);
    if (len - begin != bytes) {
        fail(e, E_SYNTAX,
             "%.700s is not a valid .npy file: its shape asks for %zu bytes of elements, "
             "but it holds %zu.",
             path, bytes, len - begin);
    }
    memmove(text, text + begin, bytes); /* to where it is aligned */
    h.t.data = text;
    check_bools(&h);
    return h.t;
}

/* ---- writing ---------------------------------------------------------------------------- */

/* The whole prefix and header; room for 8 sizes of 20 digits. Gives the length. */
static size_t write_header(char out[512], const Tensor *t)
{
    int n = PREFIX_V1;
    n += snprintf(out + n, 512 - (size_t)n,
                  "{'descr': '%s', 'fortran_order': False, 'shape': (", descr[t->dtype]);
    for (int i = 0; i < t->rank; i++) {
        const char *after = t->rank == 1 ? "," : i + 1 < t->rank ? ", " : "";
        n += snprintf(out + n, 512 - (size_t)n, "%lld%s", (long long)t->dim[i], after);
    }
    n += snprintf(out + n, 512 - (size_t)n, "), }");
    size_t end = ((size_t)n + 1 + ALIGN_HEADER - 1) / ALIGN_HEADER * ALIGN_HEADER;
    memset(out + n, ' ', end - 1 - (size_t)n);
    out[end - 1] = '\n';
    size_t header = end - PREFIX_V1;
    memcpy(out, magic, MAGIC_LEN);
    out[MAGIC_LEN] = 1;
    out[MAGIC_LEN + 1] = 0;
    out[MAGIC_LEN + 2] = (char)(header & 0xff);
    out[MAGIC_LEN + 3] = (char)(header >> 8);
    return end;
}

bool npy_write(const char *path, Tensor t, Err *err)
{
    char header[512];
    size_t begin = write_header(header, &t);
    size_t bytes = (size_t)tensor_count(&t) * (size_t)dtype_bytes(t.dtype);
    char *whole = os.alloc(begin + bytes);
    if (!whole) {
        return err_set(err, E_NOMEM, "Out of memory: %zu bytes for %.700s.", begin + bytes,
                       path);
    }
    memcpy(whole, header, begin);
    if (bytes > 0) {
        memcpy(whole + begin, t.data, bytes);
    }
    bool ok = os_write_file(path, whole, begin + bytes, err);
    free(whole);
    return ok;
}
