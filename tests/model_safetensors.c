/* model_safetensors.c - every rule of the format, each with a file that breaks it; the hostile
 * files of tests/data; shards and their index. */
#include "tests/model_util.h"

#include <jansson.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#define HOSTILE "tests/data/hostile/"

/* ---- the hostile files ------------------------------------------------------------- */

typedef struct Hostile {
    const char *file;
    const char *words; /* of the refusal; NULL: it opens */
} Hostile;

static const Hostile hostile[] = {
    {"model.safetensors.index.json", "path traversal"},
    {"model.safetensors.index.json", "absolute path"},
    {"model.safetensors.index.json", "missing shard"},
    {"model.safetensors.index.json", "is empty"},
    {"model.safetensors.index.json", "NUL"},
    {"st01_empty_file.safetensors", "shorter than the 8"},
    {"st02_header_len_only.safetensors", "invalid header length"},
    {"st03_header_too_large.safetensors", "header is too large"},
    {"st05_not_json.safetensors", "not JSON"},
    {"st06_polyglot_trailing.safetensors", "bytes after the last tensor"},
    {"st09_shape_overflow.safetensors", "product of shape overflows"},
    {"st10_bytes_overflow.safetensors", "size in bits overflows"},
    {"st13_ws_padded.safetensors", NULL},
    {"st15_many_alias.safetensors", "invalid offset"},
    {"st16_dup_key_hole.safetensors", "duplicate key"},
    {"st17_dup_key_same.safetensors", "duplicate key \"a\""},
    {"st19_overlap_partial.safetensors", "overlaps"},
    {"st21_first_not_zero.safetensors", "starts at byte 4, not at 0"},
    {"st22_reversed.safetensors", "begin at 4, behind their end 0"},
    {"st24_neg_shape.safetensors", "is negative"},
    {"st26_huge_offset.safetensors", "overflows 64 bits (u64)"},
    {"st28_unknown_dtype.safetensors", "unknown dtype \"F8_E4M3X\""},
    {"st31_unaligned_bf16.safetensors", NULL},
    {"st33_nul_padded.safetensors", "NUL padding"},
    {"st35_metadata_is_tensor.safetensors", "__metadata__"},
    {"st36_metadata_only.safetensors", NULL},
    {"st38_missing_fields.safetensors", "shape is missing"},
    {"st39_three_offsets.safetensors", "data_offsets has more than two entries"},
    {"st40_trailing_json.safetensors", "more text follows"},
    {"st41_deep_nesting.safetensors", "nesting is deeper than 128"},
    {"st42_many_dims.safetensors", NULL},
    {"st43_lone_surrogate.safetensors", "lone surrogate"},
    {"st44_nul_in_name.safetensors", NULL},
    {"st45_long_name.safetensors", NULL},
    {"st46_unsorted_header.safetensors", NULL},
    {"st47_nan_inf.safetensors", NULL},
    {"st48_zero_between.safetensors", NULL},
    {"st49_zero_times_huge.safetensors", "overflows"},
    {"st50_lowercase_bool.safetensors", "unknown dtype \"f32\""},
    {"st51_header_only_exact.safetensors", "no data at all"},
    {"st53_hdr_eq_filesize.safetensors", "counts the 8-byte prefix"},
    {"st54_lfs_pointer.safetensors", "Git LFS pointer"},
};

static void open_body(Env *e, void *path)
{
    Checkpoint c;
    checkpoint_open(e, &c, path);
    checkpoint_release(&c);
}

Test(model_safetensors, hostile_files_are_opened_or_refused_with_their_cause)
{
    for (size_t i = 0; i < countof(hostile); i++) {
        char path[128];
        snprintf(path, sizeof path, HOSTILE "%s", hostile[i].file);
        if (hostile[i].words) {
            open_refused(path, E_SYNTAX, hostile[i].words);
        } else {
            Env e;
            env_init(&e);
            must_work(&e, open_body, path);
            env_release(&e);
        }
    }
}

static const Hostile *row_of(const char *file)
{
    for (size_t i = 0; i < countof(hostile); i++) {
        if (strcmp(hostile[i].file, file) == 0) {
            return &hostile[i];
        }
    }
    return NULL;
}

Test(model_safetensors, verdicts_are_those_of_the_manifest)
{
    json_t *list = json_load_file(HOSTILE "MANIFEST.json", 0, NULL), *v;
    cr_assert(list);
    int n_checked = 0;
    size_t i;
    json_array_foreach (list, i, v) {
        const char *file = json_string_value(json_object_get(v, "file"));
        const char *expect = json_string_value(json_object_get(v, "expect"));
        if (strstr(file, ".gguf")) {
            continue;
        }
        const Hostile *row = row_of(file);
        cr_assert(row, "%s is not in the table", file);
        bool accepted = row->words == NULL;
        if (strcmp(expect, "either") != 0) {
            cr_assert_eq(accepted, strncmp(expect, "accept", 6) == 0, "%s: %s", file, expect);
        }
        n_checked++;
    }
    cr_assert_eq(n_checked, 38);
    json_decref(list);
}

Test(model_safetensors, another_format_is_said_to_be_one)
{
    TempDir d = temp_dir();
    const char *path = temp_path(&d, "x.safetensors");
    write_text(path, "GGUF and so on");
    open_refused(path, E_SYNTAX, "is a GGUF file");
    temp_remove(&d);
}

/* ---- contents ---------------------------------------------------------------------- */

typedef struct Opened {
    Env e;
    Checkpoint c;
    const char *path;
} Opened;

static void open_into(Env *e, void *arg)
{
    Opened *o = arg;
    checkpoint_open(e, &o->c, o->path);
}

static void opened(Opened *o, const char *path)
{
    env_init(&o->e);
    o->path = path;
    must_work(&o->e, open_into, o);
}

static void closed(Opened *o)
{
    checkpoint_release(&o->c);
    env_release(&o->e);
}

Test(model_safetensors, unaligned_data_are_read)
{
    Opened o;
    opened(&o, HOSTILE "st31_unaligned_bf16.safetensors");
    const FileTensor *b = checkpoint_find(&o.c, "b");
    float v[2];
    memcpy(v, b->data, sizeof v);
    cr_assert_eq((uintptr_t)b->data % 2, 1);
    cr_assert_eq(v[0], 1.5f);
    cr_assert_eq(v[1], -2.25f);
    Range r = file_tensor_range(b);
    cr_assert_eq(r.min, -2.25);
    cr_assert_eq(r.max, 1.5);
    closed(&o);
}

Test(model_safetensors, tensors_come_in_order_of_their_data)
{
    Opened o;
    opened(&o, HOSTILE "st46_unsorted_header.safetensors");
    cr_assert_eq(o.c.tensors.n, 2);
    cr_assert_str_eq(o.c.tensors.at[0].name, "a");
    cr_assert_eq(file_tensor_range(&o.c.tensors.at[0]).min, 1);
    cr_assert_eq(file_tensor_range(checkpoint_find(&o.c, "z")).min, 2);
    cr_assert_null(checkpoint_find(&o.c, "b"));
    closed(&o);
}

Test(model_safetensors, a_nul_in_a_name_makes_it_another_name)
{
    Opened o;
    opened(&o, HOSTILE "st44_nul_in_name.safetensors");
    cr_assert_eq(o.c.tensors.n, 1);
    cr_assert_eq(strlen(o.c.tensors.at[0].name), 17);
    cr_assert_gt(o.c.tensors.at[0].name_len, 17);
    cr_assert_null(checkpoint_find(&o.c, "model.norm.weight"));
    closed(&o);
}

Test(model_safetensors, nans_and_infinities_are_counted_not_refused)
{
    Opened o;
    opened(&o, HOSTILE "st47_nan_inf.safetensors");
    Range r = file_tensor_range(&o.c.tensors.at[0]);
    cr_assert(r.known);
    cr_assert_eq(r.n_nan, 1);
    cr_assert_eq(r.n_inf, 2);
    cr_assert_gt(r.min, 0);
    cr_assert_eq(r.min, r.max);
    closed(&o);
}

Test(model_safetensors, many_dimensions_are_counted_but_not_kept)
{
    Opened o;
    opened(&o, HOSTILE "st42_many_dims.safetensors");
    Buf b;
    buf_init(&b, &o.e.model);
    file_tensor_print(&o.e, &o.c.tensors.at[0], &b);
    cr_assert_eq(o.c.tensors.at[0].rank, 5000);
    cr_assert_str_eq(b.at, "\"a\" F32[1, 1, 1, 1, 1, 1, 1, 1, ... 5000 dimensions]");
    closed(&o);
}

Test(model_safetensors, ranges_of_every_plain_dtype)
{
    static const struct {
        const char *dtype;
        uint64_t bits[2]; /* two elements, low bytes used */
        int bytes;
        double min, max;
    } rows[] = {
        {"BOOL", {1, 0}, 1, 0, 1},
        {"U8", {200, 3}, 1, 3, 200},
        {"I8", {0xFF, 3}, 1, -1, 3},
        {"I16", {0xFFFE, 3}, 2, -2, 3},
        {"U16", {0xFFFE, 3}, 2, 3, 65534},
        {"F16", {0x3C00, 0x0001}, 2, 0x1p-24, 1},
        {"BF16", {0x3F80, 0xC000}, 2, -2, 1},
        {"I32", {0xFFFFFFFD, 3}, 4, -3, 3},
        {"U32", {0xFFFFFFFD, 3}, 4, 3, 4294967293.0},
        {"F32", {0x3F800000, 0xC0000000}, 4, -2, 1},
        {"F64", {0x3FF0000000000000, 0xC000000000000000}, 8, -2, 1},
        {"I64", {UINT64_MAX, 7}, 8, -1, 7},
        {"U64", {1, 7}, 8, 1, 7},
    };
    TempDir d = temp_dir();
    const char *path = temp_path(&d, "x.safetensors");
    for (size_t i = 0; i < countof(rows); i++) {
        char header[128];
        uint8_t data[16];
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"%s\",\"shape\":[2],\"data_offsets\":[0,%d]}}",
                 rows[i].dtype, 2 * rows[i].bytes);
        memcpy(data, &rows[i].bits[0], (size_t)rows[i].bytes);
        memcpy(data + rows[i].bytes, &rows[i].bits[1], (size_t)rows[i].bytes);
        write_tensors(path, header, data, 2 * (size_t)rows[i].bytes);
        Opened o;
        opened(&o, path);
        Range r = file_tensor_range(&o.c.tensors.at[0]);
        cr_assert(r.known);
        cr_assert_eq(r.min, rows[i].min, "%s: %g", rows[i].dtype, r.min);
        cr_assert_eq(r.max, rows[i].max, "%s: %g", rows[i].dtype, r.max);
        closed(&o);
    }
    temp_remove(&d);
}

/* ---- rules that the hostile files leave out ---------------------------------------- */

/* A header with n bytes of data is refused with these words, or opens (NULL). */
typedef struct Rule {
    const char *header;
    size_t n_data;
    const char *words;
} Rule;

#define A(dtype, shape, offsets) \
    "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define ENTRY "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]"

/* clang-format off */
static const Rule rules[] = {
    {"{\"a\":{" ENTRY "}}", 4, NULL},
    {" {\"a\":{" ENTRY "}}", 4, "does not begin with '{'"},
    {"{\"a\":{" ENTRY "}} \t\r\n ", 4, NULL},
    {"{\"a\":{" ENTRY ",\"extra\":[{\"x\":-1.5e+3},null,true,\"s\"]}}", 4, NULL},
    {"{\"a\":{" ENTRY ",\"x\":{\"k\":1,\"k\":2}}}", 4, "duplicate key \"k\""},
    {"{\"a\":{" ENTRY ",\"dtype\":\"F32\"}}", 4, "duplicate key \"dtype\""},
    {"{\"a\":{" ENTRY "},\"\\u0061\":{" ENTRY "}}", 4, "duplicate key \"a\""},
    {"{\"a\":{" ENTRY ",}}", 4, "expected '\"'"},
    {"{\"a\":{" ENTRY "},}", 4, "expected '\"'"},
    {"{\"a\":{" ENTRY "}", 4, "expected ',' but the text ends"},
    {"{\"a\":[]}", 0, "its entry is not an object"},
    {A("1", "[1]", "[0,4]"), 4, "dtype is not a string"},
    {A("\"F32\"", "1", "[0,4]"), 4, "shape is not a list"},
    {A("\"F32\"", "[1.0]", "[0,4]"), 4, "is not an integer"},
    {A("\"F32\"", "[1e0]", "[0,4]"), 4, "is not an integer"},
    {A("\"F32\"", "[\"1\"]", "[0,4]"), 4, "is not an integer"},
    {A("\"F32\"", "[true]", "[0,4]"), 4, "is not an integer"},
    {A("\"F32\"", "[01]", "[0,4]"), 4, "leading zero"},
    {A("\"F32\"", "[1]", "4"), 4, "data_offsets is not a list"},
    {A("\"F32\"", "[1]", "[0]"), 4, "1 entries instead of two"},
    {A("\"F32\"", "[1]", "[-0,4]"), 4, "is negative"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets is missing"},
    {A("\"F32\"", "[2]", "[0,4]"), 4, "need 64 bits, but data_offsets span 4"},
    {A("\"F32\"", "[2]", "[0,8]"), 4, "it is truncated"},
    {A("\"F32\"", "[]", "[0,4]"), 4, NULL},
    {A("\"F32\"", "[0]", "[0,0]"), 0, NULL},
    {A("\"F4\"", "[2]", "[0,1]"), 1, NULL},
    {A("\"F4\"", "[1]", "[0,1]"), 1, "need 4 bits"},
    {"{\"a\":{" ENTRY "},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[5,6]}}", 6,
     "a hole before"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "something else than a string"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object of strings"},
    {"{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}", 0, "duplicate key"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate key \"__metadata__\""},
    {"{\"a\\x\":{" ENTRY "}}", 4, "unknown escape"},
    {"{\"a\\u12g4\":{" ENTRY "}}", 4, "four hexadecimal digits"},
    {"{\"\\ud83d\\ude00\":{" ENTRY "}}", 4, NULL},
    {"{\"\\ud83d\\u0041\":{" ENTRY "}}", 4, "lone surrogate"},
    {"{\"a\n\":{" ENTRY "}}", 4, "control character 10"},
    {"{\"\xff\":{" ENTRY "}}", 4, "header byte 2 is not UTF-8"},
    {"{\"\xed\xa0\x80\":{" ENTRY "}}", 4, "is not UTF-8"},
    {"{\"a", 0, "a string does not end"},
    {"{\"a\\", 0, "a string does not end"},
    {"{\"a\":{\"x\":tru}}", 0, "expected a value"},
    {"{\"a\":{\"x\":-}}", 0, "a number without digits"},
    {"{\"a\":{\"x\":1.}}", 0, "a number without digits"},
    {"", 0, "does not begin with '{'"},
    {"{}", 0, NULL},
    {"{}", 2, "2 bytes after the last tensor"},
};
/* clang-format on */

Test(model_safetensors, rules_of_the_format)
{
    static const uint8_t data[16];
    TempDir d = temp_dir();
    const char *path = temp_path(&d, "x.safetensors");
    for (size_t i = 0; i < countof(rules); i++) {
        write_tensors(path, rules[i].header, data, rules[i].n_data);
        if (rules[i].words) {
            open_refused(path, E_SYNTAX, rules[i].words);
        } else {
            Opened o;
            opened(&o, path);
            closed(&o);
        }
    }
    temp_remove(&d);
}

Test(model_safetensors, escapes_in_names_are_decoded)
{
    TempDir d = temp_dir();
    const char *path = temp_path(&d, "x.safetensors");
    write_tensors(path, "{\"\\u0061\\n\\\"\\/\\ud83d\\ude00\":{" ENTRY "}}", "abcd", 4);
    Opened o;
    opened(&o, path);
    cr_assert(checkpoint_find(&o.c, "a\n\"/\xf0\x9f\x98\x80"));
    closed(&o);
    temp_remove(&d);
}

/* Nested: {"a":{"x":[[..]],...}} with as many levels in all. */
static void write_nested(const char *path, int depth)
{
    char header[1024] = "{\"a\":{\"x\":";
    for (int i = 2; i < depth; i++) {
        strcat(header, "[");
    }
    for (int i = 2; i < depth; i++) {
        strcat(header, "]");
    }
    strcat(header, "," ENTRY "}}");
    write_tensors(path, header, "abcd", 4);
}

Test(model_safetensors, nesting_of_128_is_allowed_and_129_is_not)
{
    TempDir d = temp_dir();
    const char *path = temp_path(&d, "x.safetensors");
    write_nested(path, 128);
    Opened o;
    opened(&o, path);
    closed(&o);
    write_nested(path, 129);
    open_refused(path, E_SYNTAX, "nesting is deeper than 128 levels");
    temp_remove(&d);
}

Test(model_safetensors, a_path_that_is_no_file_is_refused)
{
    TempDir d = temp_dir();
    open_refused(temp_path(&d, "none"), E_IO, "No such file");
    open_refused(d.path, E_IO,
                 "holds neither model.safetensors nor model.safetensors.index.json");
    open_refused("/dev/null", E_IO, "is not a regular file");
    temp_remove(&d);
}

/* ---- shards ------------------------------------------------------------------------ */

#define ONE(name) "{\"" name "\":{" ENTRY "}}"

static void write_shards(const TempDir *d, const char *weight_map)
{
    char index[512];
    snprintf(index, sizeof index, "{\"metadata\":{\"total_size\":8},\"weight_map\":%s}",
             weight_map);
    write_text(temp_path(d, "model.safetensors.index.json"), index);
    write_tensors(temp_path(d, "1.safetensors"), ONE("a"), "\0\0\x80\x3f", 4);
    write_tensors(temp_path(d, "2.safetensors"), ONE("b"), "\0\0\0\x40", 4);
}

Test(model_safetensors, shards_are_read_through_their_index)
{
    TempDir d = temp_dir();
    write_shards(&d, "{\"b\":\"2.safetensors\",\"a\":\"1.safetensors\"}");
    Opened o;
    opened(&o, d.path);
    cr_assert_eq(o.c.shards.n, 2);
    cr_assert_eq(file_tensor_range(checkpoint_find(&o.c, "a")).max, 1);
    cr_assert_eq(file_tensor_range(checkpoint_find(&o.c, "b")).max, 2);
    closed(&o);
    temp_remove(&d);
}

Test(model_safetensors, an_index_that_is_wrong_about_a_shard_is_refused)
{
    TempDir d = temp_dir();
    write_shards(&d, "{\"a\":\"2.safetensors\",\"b\":\"1.safetensors\"}");
    open_refused(d.path, E_SYNTAX, "2.safetensors holds tensor \"a\", but it does not");
    write_shards(&d, "{\"a\":1}");
    open_refused(d.path, E_SYNTAX, "the value of \"a\" is not a string");
    write_shards(&d, "[]");
    open_refused(d.path, E_SYNTAX, "\"weight_map\" is missing or not an object");
    write_shards(&d, "{\"a\":\"sub/1.safetensors\"}");
    open_refused(d.path, E_SYNTAX, "is not a plain file name");
    write_shards(&d, "{\"a\":\"..\"}");
    open_refused(d.path, E_SYNTAX, "path traversal");
    temp_remove(&d);
}

Test(model_safetensors, a_tensor_in_two_shards_is_refused)
{
    TempDir d = temp_dir();
    write_shards(&d, "{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}");
    write_tensors(temp_path(&d, "2.safetensors"), ONE("a"), "abcd", 4);
    open_refused(d.path, E_SYNTAX, "tensor \"a\" is in ");
    temp_remove(&d);
}

Test(model_safetensors, a_single_file_is_preferred_to_an_index)
{
    TempDir d = temp_dir();
    write_shards(&d, "{}");
    write_tensors(temp_path(&d, "model.safetensors"), ONE("c"), "abcd", 4);
    Opened o;
    opened(&o, d.path);
    cr_assert(checkpoint_find(&o.c, "c"));
    closed(&o);
    temp_remove(&d);
}

/* ---- the real header --------------------------------------------------------------- */

static void match_real(Env *e, void *arg)
{
    Checkpoint ck;
    checkpoint_open(e, &ck, arg);
    cr_assert_eq(ck.tensors.n, 290);
    Config c = config_read(e, "tests/data/qwen2.5/config.json");
    Match m;
    weights_match(e, &c, &ck, &m);
    cr_assert_eq(m.n, 290);
    cr_assert_eq(m.n_missing + m.n_unexpected + m.n_unfit, 0, "%s", m.report);
    cr_assert_null(m.note);
    checkpoint_release(&ck);
}

/* The real file's header before 988,097,824 - 32,288 bytes that are not there. */
Test(model_safetensors, the_real_header_holds_exactly_the_expected_tensors)
{
    char from[PATH_MAX];
    need_shared("data/qwen2.5/model.safetensors.header", from);
    TempDir d = temp_dir();
    const char *path = temp_path(&d, "model.safetensors");
    Env e;
    env_init(&e);
    char *text;
    size_t len;
    Err err;
    cr_assert(os_read_file(&e.model, from, 1 << 20, &text, &len, &err));
    cr_assert_eq(len, 32288);
    cr_assert(os_write_file(path, text, len, &err));
    cr_assert_eq(truncate(path, 988097824), 0);
    must_work(&e, match_real, (void *)path);
    env_release(&e);
    temp_remove(&d);
}
