/* model_unicode.c - normalization and the classes of the split pattern against the tables of
 * the Unicode releases that the reference uses (tests/data/tokenizer/unicode_tables.json). */
#include "tests/text_util.h"

#include "model/text_int.h"

#include <stdlib.h>
#include <string.h>

enum { N_CODES = 0x110000 };

/* A plain implementation of UAX 15 on the tables of Unicode 9. */
typedef struct Unicode {
    uint8_t *class;      /* canonical combining class, by code point */
    int32_t (*parts)[2]; /* canonical decomposition; {0}: none; the second may be 0 */
    int32_t (*pair)[3];  /* compositions: first, second, whole, sorted */
    size_t n_pairs;
    char *kind; /* 'L' 'N' 'S' or 0 */
} Unicode;

static int32_t integer_at(const json_t *row, size_t i)
{
    return (int32_t)json_integer_value(json_array_get(row, i));
}

static int by_pair(const void *x, const void *y)
{
    const int32_t *a = x, *b = y;
    return a[0] != b[0] ? (a[0] > b[0]) - (a[0] < b[0]) : (a[1] > b[1]) - (a[1] < b[1]);
}

static void mark_kind(Unicode *u, const json_t *ranges, char kind)
{
    cr_assert(json_array_size(ranges) > 5);
    for (size_t i = 0; i < json_array_size(ranges); i++) {
        const json_t *row = json_array_get(ranges, i);
        memset(u->kind + integer_at(row, 0), kind,
               (size_t)(integer_at(row, 1) - integer_at(row, 0) + 1));
    }
}

static Unicode load_unicode(Env *e)
{
    json_error_t error;
    json_t *root = json_load_file("tests/data/tokenizer/unicode_tables.json", 0, &error);
    const json_t *ccc = json_object_get(root, "ccc"), *row;
    const json_t *decompositions = json_object_get(root, "canonical_decomposition");
    const json_t *compositions = json_object_get(root, "composition");
    Unicode u = {.class = arena_alloc(&e->model, N_CODES),
                 .kind = arena_alloc(&e->model, N_CODES)};
    u.parts = arena_alloc_n(&e->model, N_CODES, sizeof *u.parts);
    u.n_pairs = json_array_size(compositions);
    u.pair = arena_alloc_n(&e->model, u.n_pairs, sizeof *u.pair);
    for (size_t i = 0; i < json_array_size(ccc); i++) {
        row = json_array_get(ccc, i);
        for (int32_t c = integer_at(row, 0); c <= integer_at(row, 1); c++) {
            u.class[c] = (uint8_t)integer_at(row, 2);
        }
    }
    for (size_t i = 0; i < json_array_size(decompositions); i++) {
        row = json_array_get(decompositions, i);
        u.parts[integer_at(row, 0)][0] = integer_at(row, 1);
        u.parts[integer_at(row, 0)][1] = integer_at(row, 2);
    }
    for (size_t i = 0; i < u.n_pairs; i++) {
        for (size_t j = 0; j < 3; j++) {
            u.pair[i][j] = integer_at(json_array_get(compositions, i), j);
        }
    }
    qsort(u.pair, u.n_pairs, sizeof *u.pair, by_pair);
    mark_kind(&u, json_object_get(root, "L"), 'L');
    mark_kind(&u, json_object_get(root, "N"), 'N');
    mark_kind(&u, json_object_get(root, "space"), 'S');
    json_decref(root);
    return u;
}

enum { S_BASE = 0xAC00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11A7 };

static int decompose(const Unicode *u, int32_t c, int32_t *out)
{
    if (c >= S_BASE && c < S_BASE + 11172) {
        int32_t s = c - S_BASE;
        out[0] = L_BASE + s / 588;
        out[1] = V_BASE + s % 588 / 28;
        out[2] = T_BASE + s % 28;
        return s % 28 ? 3 : 2;
    }
    if (!u->parts[c][0]) {
        out[0] = c;
        return 1;
    }
    int n = decompose(u, u->parts[c][0], out);
    return u->parts[c][1] ? n + decompose(u, u->parts[c][1], out + n) : n;
}

static int32_t compose(const Unicode *u, int32_t a, int32_t b)
{
    if (a >= L_BASE && a < L_BASE + 19 && b >= V_BASE && b < V_BASE + 21) {
        return S_BASE + ((a - L_BASE) * 21 + (b - V_BASE)) * 28;
    }
    if (a >= S_BASE && a < S_BASE + 11172 && (a - S_BASE) % 28 == 0 && b > T_BASE &&
        b < T_BASE + 28) {
        return a + (b - T_BASE);
    }
    int32_t key[3] = {a, b, 0};
    int32_t *found = bsearch(key, u->pair, u->n_pairs, sizeof *u->pair, by_pair);
    return found ? found[2] : 0;
}

static int plain_nfc(const Unicode *u, const int32_t *in, int n_in, int32_t *out)
{
    int n = 0;
    for (int i = 0; i < n_in; i++) {
        n += decompose(u, in[i], out + n);
    }
    for (int i = 1; i < n; i++) {
        for (int j = i; j > 0 && u->class[out[j]] && u->class[out[j - 1]] > u -> class[out[j]];
             j--) {
            int32_t swap = out[j];
            out[j] = out[j - 1];
            out[j - 1] = swap;
        }
    }
    int starter = -1, kept = 0;
    for (int i = 0; i < n; i++) {
        int class = u->class[out[i]];
        bool blocked = starter >= 0 && kept - 1 > starter &&
                       (u->class[out[kept - 1]] >= class || u->class[out[kept - 1]] == 0);
        int32_t whole = starter >= 0 && !blocked ? compose(u, out[starter], out[i]) : 0;
        if (whole) {
            out[starter] = whole;
            continue;
        }
        out[kept] = out[i];
        starter = class == 0 ? kept : starter;
        kept++;
    }
    return kept;
}

static void put_code(Buf *b, int32_t c)
{
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    buf_char(b, (char)(n == 1 ? c : lead[n] | c >> 6 * (n - 1)));
    for (int i = n - 2; i >= 0; i--) {
        buf_char(b, (char)(0x80 | (c >> 6 * i & 0x3F)));
    }
}

static void check_nfc(Env *e, const Unicode *u, Nfc *f, const int32_t *code, int n)
{
    int32_t want[256];
    Buf text, plain;
    buf_init(&text, &e->kernel);
    buf_init(&plain, &e->kernel);
    for (int i = 0; i < n; i++) {
        put_code(&text, code[i]);
    }
    int n_want = plain_nfc(u, code, n, want);
    for (int i = 0; i < n_want; i++) {
        put_code(&plain, want[i]);
    }
    Span got = nfc(f, (Span){text.at, text.len});
    cr_assert(got.len == plain.len && memcmp(got.at, plain.at, got.len) == 0,
              "a string of %d code points that begins with U+%04X U+%04X", n, (unsigned)code[0],
              n > 1 ? (unsigned)code[1] : 0);
    env_reset_kernel(e);
}

Test(model_unicode, every_code_point_normalizes_as_in_unicode_9)
{
    Env e;
    env_init(&e);
    Unicode u = load_unicode(&e);
    Nfc f;
    nfc_init(&f, &e.model);
    for (int32_t c = 0; c < N_CODES; c++) {
        if (c < 0xD800 || c >= 0xE000) {
            check_nfc(&e, &u, &f, &c, 1);
            check_nfc(&e, &u, &f, (int32_t[]){'x', c, 0x300, 0x316}, 4);
        }
    }
    env_release(&e);
}

Test(model_unicode, every_pair_composes_as_in_unicode_9)
{
    Env e;
    env_init(&e);
    Unicode u = load_unicode(&e);
    Nfc f;
    nfc_init(&f, &e.model);
    for (size_t i = 0; i < u.n_pairs; i++) {
        check_nfc(&e, &u, &f, (int32_t[]){u.pair[i][0], u.pair[i][1], 0x345}, 3);
        check_nfc(&e, &u, &f, (int32_t[]){u.pair[i][0], 0x334, u.pair[i][1]}, 3);
    }
    env_release(&e);
}

/* Code points that matter, and those of later releases that newer data would compose. */
static int32_t random_code(const Unicode *u, Rng *rng)
{
    static const struct {
        int32_t first, last;
    } later[] = {{0x105C0, 0x105F3}, {0x11380, 0x113D0}, {0x11930, 0x11943}, {0x16100, 0x16130},
                 {0x16D40, 0x16D6C}, {0x1ABF, 0x1ACE},   {0x1E130, 0x1E136}, {0x7FD, 0x7FD}};
    size_t row = rng_below(rng, countof(later));
    int32_t c;
    switch (rng_below(rng, 6)) {
    case 0: return (int32_t)rng_below(rng, 2) ? 0x300 + (int32_t)rng_below(rng, 0x70) : 'a';
    case 1: return u->pair[rng_below(rng, u->n_pairs)][rng_below(rng, 3)];
    case 2:
        return later[row].first +
               (int32_t)rng_below(rng, (uint64_t)(later[row].last - later[row].first + 1));
    case 3: return 0x1100 + (int32_t)rng_below(rng, 0x100);
    case 4: return 0xAC00 + (int32_t)rng_below(rng, 11172);
    default: do { c = 0x300 + (int32_t)rng_below(rng, 0x1EF00);
        } while (u->class[c] == 0 && !u->parts[c][0]);
        return c;
    }
}

Test(model_unicode, random_strings_normalize_as_in_unicode_9)
{
    Env e;
    env_init(&e);
    Unicode u = load_unicode(&e);
    Nfc f;
    nfc_init(&f, &e.model);
    Rng rng;
    rng_seed(&rng, 9);
    for (int trial = 0; trial < 100000; trial++) {
        int32_t code[40];
        int n = 1 + (int)rng_below(&rng, trial % 50 ? 8 : countof(code));
        for (int i = 0; i < n; i++) {
            code[i] = random_code(&u, &rng);
        }
        check_nfc(&e, &u, &f, code, n);
    }
    env_release(&e);
}

/* The length of the first piece of the code point twice and a neighbour tells its class: an x
 * joins letters, a dash joins what has no class, a number stays alone. */
static void check_class(Env *e, Splitter *s, int32_t c, char kind)
{
    for (const char *neighbour = "x-"; *neighbour; neighbour++) {
        Buf text;
        Span piece;
        size_t at = 0;
        buf_init(&text, &e->kernel);
        put_code(&text, c);
        size_t len = text.len;
        put_code(&text, c);
        buf_char(&text, *neighbour);
        cr_assert(splitter_next(s, text.at, text.len, &at, &piece));
        bool joins = *neighbour == 'x' ? kind == 'L' : kind == 0;
        cr_assert_eq(piece.len, (kind == 'N' ? len : 2 * len) + joins, "U+%04X", (unsigned)c);
    }
    env_reset_kernel(e);
}

Test(model_unicode, letters_numbers_and_blanks_are_those_of_unicode_16)
{
    Env e;
    env_init(&e);
    Unicode u = load_unicode(&e);
    Splitter *s = splitter_build(&e, "test", "\\p{L}+|\\p{N}|\\s+|[^\\s\\p{L}\\p{N}]+");
    for (int32_t c = 0; c < N_CODES; c++) {
        if (c < 0xD800 || c >= 0xE000) {
            check_class(&e, s, c, u.kind[c]);
        }
    }
    splitter_release(s);
    env_release(&e);
}

Test(model_unicode, negated_sets_are_the_complement)
{
    Env e;
    env_init(&e);
    Unicode u = load_unicode(&e);
    Splitter *s = splitter_build(&e, "test",
                                 "(?:(?!\\P{L})\\p{L})+|(?!\\PN)\\pN|(?!\\S)\\s+|"
                                 "[^\\s\\p{L}\\p{N}]+");
    for (int32_t c = 0; c < N_CODES; c++) {
        if (c < 0xD800 || c >= 0xE000) {
            check_class(&e, s, c, u.kind[c]);
        }
    }
    splitter_release(s);
    env_release(&e);
}
