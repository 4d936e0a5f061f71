/* model_tokenizer.c - text to ids and back: the vectors of the reference, refusals, hostility. */
#include "tests/text_util.h"

#include <stdlib.h>
#include <string.h>

static const char tiny[] = "tests/data/tiny-qwen2/tokenizer.json";

/* Runs body with a tokenizer, in an Env of its own. */
typedef struct With {
    const char *path; /* a file, or NULL: */
    Parts parts;
    void (*body)(Env *e, Tokenizer *t, const char *arg);
    const char *arg;
} With;

static void with_body(Env *e, void *arg)
{
    With *w = arg;
    const char *text = w->path ? NULL : parts_text(e, &w->parts);
    Tokenizer *t = w->path ? tokenizer_load(e, w->path, 0)
                           : tokenizer_parse(e, text, strlen(text), "small.json", 0);
    w->body(e, t, w->arg);
    tokenizer_release(t);
}

static void with(With w)
{
    Env e;
    env_init(&e);
    must_work(&e, with_body, &w);
    env_release(&e);
}

/* ---- the vectors of the reference ------------------------------------------------------------ */

static void golden_line(Env *e, const json_t *line, void *arg)
{
    const json_t *s = json_object_get(line, "s"), *plain = json_object_get(line, "p");
    const char *text = json_string_value(s);
    size_t len = json_string_length(s);
    Ids want = ids_of(e, json_object_get(line, "ids"));
    Ids got = encode(e, arg, text, len, true);
    ids_must_equal(e, &got, &want, text);
    if (plain) {
        want = ids_of(e, plain);
    }
    got = encode(e, arg, text, len, false);
    ids_must_equal(e, &got, &want, text);
    env_reset_kernel(e);
}

static void golden_file(Env *e, Tokenizer *t, const char *path)
{
    cr_assert(each_line(e, path, golden_line, t) > 300);
}

Test(model_tokenizer, every_golden_string_has_exactly_its_ids)
{
    char path[PATH_MAX];
    need_real_tokenizer(path);
    with((With){.path = path, .body = golden_file, .arg = "tests/data/tokenizer/golden.jsonl"});
}

Test(model_tokenizer, every_quoted_golden_string_has_exactly_its_ids)
{
    char path[PATH_MAX], golden[PATH_MAX];
    need_real_tokenizer(path);
    need_shared("data/tokenizer/golden_quoted.jsonl", golden);
    with((With){.path = path, .body = golden_file, .arg = golden});
}

static void decode_line(Env *e, const json_t *line, void *arg)
{
    const char *key[] = {"t", "skip"};
    Ids ids = ids_of(e, json_object_get(line, "ids"));
    for (int skip = 0; skip < 2; skip++) {
        const json_t *want = json_object_get(line, key[skip]);
        Buf b;
        buf_init(&b, &e->kernel);
        tokenizer_decode(arg, ids.at, ids.n, skip, &b);
        want = want ? want : json_object_get(line, "t");
        cr_assert(b.len == json_string_length(want) &&
                      memcmp(b.at, json_string_value(want), b.len) == 0,
                  "%s (%s): got \"%s\", want \"%s\"", ids_text(e, &ids), key[skip], b.at,
                  json_string_value(want));
    }
    env_reset_kernel(e);
}

static void decode_file(Env *e, Tokenizer *t, const char *path)
{
    cr_assert_eq(each_line(e, path, decode_line, t), 477);
}

Test(model_tokenizer, every_golden_list_of_ids_has_exactly_its_text)
{
    char path[PATH_MAX];
    need_real_tokenizer(path);
    with((With){.path = path, .body = decode_file, .arg = "tests/data/tokenizer/golden_decode.jsonl"});
}

/* At every place: what came before it and what comes behind make the whole, and no character
 * is ever written in parts. */
static void split_line(Env *e, const json_t *line, void *arg)
{
    Ids ids = ids_of(e, json_object_get(line, "ids"));
    Buf whole, parts;
    buf_init(&whole, &e->kernel);
    buf_init(&parts, &e->kernel);
    tokenizer_decode(arg, ids.at, ids.n, false, &whole);
    Decoder d = decoder_start(arg, false);
    for (int i = 0; i < ids.n; i++) {
        decoder_add(&d, ids.at[i], &parts);
        cr_assert(parts.len <= whole.len && memcmp(parts.at, whole.at, parts.len) == 0);
        json_t *text = json_stringn(parts.at, parts.len); /* NULL where it is not UTF-8 */
        cr_assert(text, "token %d of %s leaves a character unfinished", i, ids_text(e, &ids));
        json_decref(text);
    }
    decoder_end(&d, &parts);
    cr_assert_eq(parts.len, whole.len);
    env_reset_kernel(e);
}

static void split_file(Env *e, Tokenizer *t, const char *path)
{
    cr_assert_eq(each_line(e, path, split_line, t), 477);
}

Test(model_tokenizer, decoding_token_by_token_writes_whole_characters_and_the_same_text)
{
    char path[PATH_MAX];
    need_real_tokenizer(path);
    with((With){.path = path, .body = split_file, .arg = "tests/data/tokenizer/golden_decode.jsonl"});
}

static void documents(Env *e, Tokenizer *t, const char *folder)
{
    char path[PATH_MAX];
    need_shared("data/tokenizer/golden_docs.json", path);
    json_error_t error;
    json_t *list = json_load_file(path, 0, &error);
    cr_assert(json_array_size(list) > 40);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *doc = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(doc, "file"));
        const char *text = read_text(e, arena_printf(&e->kernel, "%s/%s", folder, name));
        Ids ids = encode(e, t, text, strlen(text), true);
        cr_assert_eq(ids.n, json_integer_value(json_object_get(doc, "n")), "%s", name);
        Ids first = ids_of(e, json_object_get(doc, "first"));
        Ids last = ids_of(e, json_object_get(doc, "last"));
        cr_assert_arr_eq(ids.at, first.at, (size_t)first.n * sizeof *first.at, "%s", name);
        cr_assert_arr_eq(ids.at + ids.n - last.n, last.at, (size_t)last.n * sizeof *last.at, "%s",
                         name);
        env_reset_kernel(e);
    }
    json_decref(list);
}

Test(model_tokenizer, whole_documents_in_forty_languages_have_their_counts_and_ends)
{
    char path[PATH_MAX], folder[PATH_MAX];
    need_real_tokenizer(path);
    need_shared("data/text", folder);
    with((With){.path = path, .body = documents, .arg = folder});
}

static void tiny_prompts(Env *e, Tokenizer *t, const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    const json_t *prompts = json_object_get(root, "cases");
    cr_assert_eq(json_array_size(prompts), 5);
    for (size_t i = 0; i < json_array_size(prompts); i++) {
        const json_t *prompt = json_array_get(prompts, i);
        const char *text = json_string_value(json_object_get(prompt, "prompt"));
        Ids want = ids_of(e, json_object_get(prompt, "ids"));
        Ids got = encode(e, t, text, strlen(text), false);
        ids_must_equal(e, &got, &want, text);
    }
    json_decref(root);
}

Test(model_tokenizer, the_small_model_s_prompts_have_their_ids)
{
    with((With){.path = tiny, .body = tiny_prompts, .arg = "tests/data/tiny-qwen2/golden.json"});
}

/* ---- control tokens ------------------------------------------------------------------------------ */

static void count_control(Env *e, Tokenizer *t, const char *text)
{
    Ids plain = encode(e, t, text, strlen(text), false);
    Ids parsed = encode(e, t, text, strlen(text), true);
    int n_parsed = 0;
    for (int i = 0; i < plain.n; i++) {
        cr_assert(plain.at[i] < 2045);
    }
    for (int i = 0; i < parsed.n; i++) {
        n_parsed += parsed.at[i] >= 2045;
    }
    cr_assert_eq(n_parsed, 3);
    Buf b;
    buf_init(&b, &e->kernel);
    tokenizer_decode(t, plain.at, plain.n, true, &b);
    cr_assert_str_eq(b.at, text);
    buf_clear(&b);
    tokenizer_decode(t, parsed.at, parsed.n, true, &b);
    cr_assert_str_eq(b.at, "x  im_end|> <|im_end ");
}

Test(model_tokenizer, plain_text_never_becomes_a_control_token)
{
    with((With){.path = tiny,
                .body = count_control,
                .arg = "x <|im_start|> im_end|> <|im_end <|im_end|><|endoftext|>"});
}

static void longest_added(Env *e, Tokenizer *t, const char *text)
{
    Ids got = encode(e, t, text, strlen(text), true);
    int32_t want[] = {11, 10, 0, 5, 11};
    ids_must_equal(e, &got, &(Ids){.at = want, .n = 5}, text);
}

Test(model_tokenizer, the_longest_added_token_wins_and_a_near_miss_is_text)
{
    with((With){.parts = {.added = "{\"id\": 10, \"content\": \"<a\", \"special\": true},"
                                   "{\"id\": 11, \"content\": \"<ab<\"}"},
                .body = longest_added,
                .arg = "<ab<<aa<<ab<"});
}

static void skipping(Env *e, Tokenizer *t, const char *want)
{
    Buf b;
    buf_init(&b, &e->kernel);
    tokenizer_decode(t, (int32_t[]){0, 10, 11, 1, 7, 60000}, 6, true, &b);
    cr_assert_str_eq(b.at, want);
}

Test(model_tokenizer, only_special_added_tokens_are_skipped_and_ids_without_token_are_nothing)
{
    with((With){.parts = {.added = "{\"id\": 10, \"content\": \"<s>\", \"special\": true},"
                                   "{\"id\": 11, \"content\": \"<t>\", \"special\": false}"},
                .body = skipping,
                .arg = "a<t>b"});
}

/* ---- what a file may say ----------------------------------------------------------------------------- */

static void encodes_ab(Env *e, Tokenizer *t, const char *text)
{
    Ids got = encode(e, t, text, strlen(text), false);
    int32_t want[] = {3, 2, 0};
    ids_must_equal(e, &got, &(Ids){.at = want, .n = 3}, text);
}

Test(model_tokenizer, merges_come_as_strings_or_pairs)
{
    with((With){.parts = {.merges = "[\"a b\"]"}, .body = encodes_ab, .arg = "ab a"});
    with((With){.parts = {.merges = "[[\"a\", \"b\"]]"}, .body = encodes_ab, .arg = "ab a"});
    with((With){.parts = {.merges = "[ [ \"\\u0061\" ,\"b\" ] ]"}, .body = encodes_ab, .arg = "ab a"});
}

Test(model_tokenizer, absent_and_null_settings_are_off)
{
    with((With){.parts = {.model_extra = "\"dropout\": null, \"end_of_word_suffix\": \"\", "
                                         "\"byte_fallback\": false, ",
                          .normalizer = "null",
                          .extra = "\"truncation\": null, "},
                .body = encodes_ab,
                .arg = "ab a"});
}

static void aaa(Env *e, Tokenizer *t, const char *text)
{
    Ids got = encode(e, t, text, strlen(text), false);
    bool odd = strlen(text) % 2;
    for (int i = 0; i < got.n; i++) {
        cr_assert_eq(got.at[i], odd && i == got.n - 1 ? 0 : 3);
    }
    cr_assert_eq(got.n, (int)strlen(text) / 2 + odd);
}

Test(model_tokenizer, equal_ranks_merge_from_the_left_in_short_and_long_pieces)
{
    Parts p = {.vocab = "{\"a\": 0, \"aa\": 3}", .merges = "[\"a a\"]"};
    char text[1002] = {0};
    for (size_t n = 1; n < sizeof text - 1; n += n < 70 ? 1 : 97) {
        memset(text, 'a', n);
        with((With){.parts = p, .body = aaa, .arg = text});
    }
}

/* The plain definition, one merge a scan. */
static int merge_slowly(int32_t *id, int n, const int32_t rule[][3], int n_rules)
{
    for (int r = 0; r < n_rules; r++) {
        for (int i = 0; i + 1 < n; i++) {
            if (id[i] == rule[r][0] && id[i + 1] == rule[r][1]) {
                id[i] = rule[r][2];
                memmove(&id[i + 1], &id[i + 2], (size_t)(n - i - 2) * sizeof *id);
                n--;
                r = -1;
                break;
            }
        }
    }
    return n;
}

static void random_pieces(Env *e, Tokenizer *t, const char *arg)
{
    (void)arg;
    static const int32_t rule[][3] = {{1, 0, 3}, {0, 0, 4}, {3, 4, 5}, {4, 4, 6}, {0, 1, 7}, {7, 7, 8}};
    Rng rng;
    rng_seed(&rng, 20260914);
    for (int trial = 0; trial < 2000; trial++) {
        char text[200];
        int32_t want[200];
        int len = 1 + (int)rng_below(&rng, sizeof text - 1);
        for (int i = 0; i < len; i++) {
            want[i] = (int32_t)rng_below(&rng, 2);
            text[i] = (char)('a' + want[i]);
        }
        int n = merge_slowly(want, len, rule, countof(rule));
        Ids got = encode(e, t, text, (size_t)len, false);
        ids_must_equal(e, &got, &(Ids){.at = want, .n = n}, arena_strn(&e->kernel, text, (size_t)len));
        env_reset_kernel(e);
    }
}

Test(model_tokenizer, heap_array_and_cache_agree_with_the_plain_definition)
{
    with((With){.parts = {.vocab = "{\"a\": 0, \"b\": 1, \"ba\": 3, \"aa\": 4, \"baaa\": 5, \"aaaa\": 6, "
                                   "\"ab\": 7, \"abab\": 8}",
                          .merges = "[\"b a\", \"a a\", \"ba aa\", \"aa aa\", \"a b\", \"ab ab\"]"},
                .body = random_pieces});
}

static void million(Env *e, Tokenizer *t, const char *unit)
{
    Buf b;
    buf_init(&b, &e->model);
    while (b.len < 1000000) {
        buf_str(&b, unit);
    }
    Ids ids = encode(e, t, b.at, b.len, true);
    Buf text;
    buf_init(&text, &e->kernel);
    tokenizer_decode(t, ids.at, ids.n, false, &text);
    cr_assert(ids.n > 0 && text.len > 100000);
}

/* Each would take minutes if anything in the pipeline were quadratic. */
Test(model_tokenizer, megabytes_of_one_thing_are_no_trouble, .timeout = 120)
{
    static const char *const unit[] = {"a", " ", "\n", " \n", "ab", "<", "<|im_", "<|im_end|>", "\xCC\x80",
                                       "\xCC\x80\xCC\x96", "e\xCC\x81", "\xE1\x84\x80\xE1\x85\xA1",
                                       "\xF0\x9F\xA6\x99", "'s", "\xE4\xB8\xAD", "1", "!", "\xE2\x80\x89"};
    for (size_t i = 0; i < countof(unit); i++) {
        with((With){.path = tiny, .body = million, .arg = unit[i]});
    }
}

static void deep_groups(Env *e, Tokenizer *t, const char *arg)
{
    (void)arg;
    enum { N = 100000 };
    char *text = arena_alloc(&e->model, N);
    memset(text, 'a', N);
    Ids ids = encode(e, t, text, N, false);
    cr_assert_eq(ids.n, N);
}

/* The stack of compiled patterns is small; such a piece goes to PCRE2's interpreter. */
Test(model_tokenizer, a_piece_too_deep_for_compiled_patterns_is_still_matched)
{
    Env e;
    env_init(&e);
    with((With){.parts = {.pre_tokenizer = parts_split(&e, "(?:a|b)+|c")}, .body = deep_groups});
    env_release(&e);
}

static void explode(Env *e, Tokenizer *t, const char *arg)
{
    Ids ids = {.arena = &e->kernel};
    tokenizer_encode(t, arg, strlen(arg), false, &ids);
}

static void run_with(Env *e, void *arg)
{
    with_body(e, arg);
}

Test(model_tokenizer, a_pattern_that_backtracks_without_end_is_given_up, .timeout = 60)
{
    Env e;
    env_init(&e);
    With w = {.parts = {.pre_tokenizer = parts_split(&e, "(?:a+)+[xy]")},
              .body = explode,
              .arg = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"};
    must_fail(&e, run_with, &w, E_SYNTAX, "PCRE2 gave up");
    env_release(&e);
}

/* ---- refusals ------------------------------------------------------------------------------------------- */

static void parse_parts(Env *e, void *arg)
{
    const char *text = parts_text(e, arg);
    tokenizer_release(tokenizer_parse(e, text, strlen(text), "small.json", 0));
}

static void refused(Parts p, const char *words)
{
    Env e;
    env_init(&e);
    must_fail(&e, parse_parts, &p, E_SYNTAX, words);
    env_release(&e);
}

Test(model_tokenizer, unsupported_settings_are_refused_by_name)
{
    refused((Parts){.model_type = "WordPiece"}, "model.type \"WordPiece\"");
    refused((Parts){.model_extra = "\"dropout\": 0.1, "}, "model.dropout 0.1");
    refused((Parts){.model_extra = "\"continuing_subword_prefix\": \"##\", "},
            "model.continuing_subword_prefix \"##\"");
    refused((Parts){.model_extra = "\"end_of_word_suffix\": \"</w>\", "}, "end_of_word_suffix");
    refused((Parts){.model_extra = "\"byte_fallback\": true, "}, "model.byte_fallback true");
    refused((Parts){.model_extra = "\"ignore_merges\": true, "}, "model.ignore_merges true");
    refused((Parts){.normalizer = "{\"type\": \"NFKC\"}"}, "normalizer \"NFKC\"");
    refused((Parts){.normalizer = "{\"type\": \"Sequence\", \"normalizers\": []}"}, "\"Sequence\"");
    refused((Parts){.post_processor = "{\"type\": \"TemplateProcessing\"}"}, "post_processor");
    refused((Parts){.decoder = "{\"type\": \"WordPiece\"}"}, "decoder \"WordPiece\"");
    refused((Parts){.decoder = "null"}, "decoder");
    refused((Parts){.extra = "\"truncation\": {\"max_length\": 5}, "}, "truncation");
    refused((Parts){.extra = "\"padding\": {\"length\": 5}, "}, "padding");
}

#define SPLIT_WITH(behavior, invert, pattern)                                                \
    "{\"type\": \"Split\", \"pattern\": " pattern ", \"behavior\": \"" behavior              \
    "\", \"invert\": " invert "}"
#define BYTES_WITH(prefix, regex)                                                            \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": " prefix ", \"use_regex\": " regex "}"
#define STAGES(a) "{\"type\": \"Sequence\", \"pretokenizers\": [" a "]}"
#define GOOD_SPLIT SPLIT_WITH("Isolated", "false", "{\"Regex\": \"a\"}")
#define GOOD_BYTES BYTES_WITH("false", "false")

Test(model_tokenizer, unsupported_splits_are_refused_by_name)
{
    refused((Parts){.pre_tokenizer = "null"}, "no Split stage");
    refused((Parts){.pre_tokenizer = STAGES(GOOD_SPLIT)}, "no ByteLevel stage");
    refused((Parts){.pre_tokenizer = STAGES(GOOD_BYTES)}, "no Split stage");
    refused((Parts){.pre_tokenizer = STAGES(GOOD_SPLIT "," BYTES_WITH("true", "false"))},
            "add_prefix_space true");
    refused((Parts){.pre_tokenizer = STAGES(GOOD_SPLIT "," BYTES_WITH("false", "true"))},
            "use_regex true");
    refused((Parts){.pre_tokenizer = STAGES(GOOD_SPLIT ", {\"type\": \"ByteLevel\"}")}, "use_regex");
    refused((Parts){.pre_tokenizer = STAGES(GOOD_SPLIT "," GOOD_SPLIT "," GOOD_BYTES)},
            "second Split");
    refused((Parts){.pre_tokenizer = STAGES("{\"type\": \"Digits\"}," GOOD_SPLIT "," GOOD_BYTES)},
            "\"Digits\"");
    refused((Parts){.pre_tokenizer =
                        STAGES(SPLIT_WITH("Removed", "false", "{\"Regex\": \"a\"}") "," GOOD_BYTES)},
            "behavior \"Removed\"");
    refused((Parts){.pre_tokenizer =
                        STAGES(SPLIT_WITH("Isolated", "true", "{\"Regex\": \"a\"}") "," GOOD_BYTES)},
            "invert true");
    refused((Parts){.pre_tokenizer =
                        STAGES(SPLIT_WITH("Isolated", "false", "{\"String\": \"a\"}") "," GOOD_BYTES)},
            "pattern.Regex");
}

static void refused_pattern(const char *pattern, const char *words)
{
    Env e;
    env_init(&e);
    Parts p = {.pre_tokenizer = parts_split(&e, pattern)};
    must_fail(&e, parse_parts, &p, E_SYNTAX, words);
    env_release(&e);
}

Test(model_tokenizer, patterns_that_may_mean_something_else_are_refused)
{
    refused_pattern("[ab", "unterminated class");
    refused_pattern("a\\\\p{L", "unterminated property");
    refused_pattern("\\\\p{Nonsense}", "unknown property");
    refused_pattern("[\\\\S]", "\"\\\\S\"");
    refused_pattern("[\\\\P{L}]", "P{L");
    refused_pattern("a[b[c]]", "\"[\"");
    refused_pattern("[a&&b]", "\"&\"");
    refused_pattern("a.b", "\".\"");
    refused_pattern("^a", "\"^\"");
    refused_pattern("a$", "\"$\"");
    refused_pattern("\\\\h", "\\\\h");
    refused_pattern("a\\\\", "\"\\\\\"");
    refused_pattern("(*NO_JIT)a", "\"(*\"");
    refused_pattern("(a", "PCRE2 refuses");
    refused_pattern("\\\\p", "\"p\"");
    refused_pattern("a\\u0000b", "NUL");
}

Test(model_tokenizer, malformed_lists_are_refused_with_their_line)
{
    refused((Parts){.vocab = "{\"a\": 0, \"b\": -1}"}, "small.json:1: a token id");
    refused((Parts){.vocab = "{\"a\": 0,\n \"b\": 1.5}"}, "small.json:2: a token id");
    refused((Parts){.vocab = "{\"a\": 9999999999999999999}"}, "at most 18 digits");
    refused((Parts){.vocab = "{\"a\": 01}"}, "whole number");
    refused((Parts){.vocab = "{\"a\": 999999999}"}, "999999999 is not between");
    refused((Parts){.vocab = "{\"a\": 0, \"b\": 0}"}, "two tokens");
    refused((Parts){.vocab = "{\"a\": 0, \"\\u0061\": 1}"}, "twice");
    refused((Parts){.vocab = "{\"a\\x\": 0}"}, "not a valid JSON string");
    refused((Parts){.vocab = "{\"\\ud800\": 0}"}, "not a valid JSON string");
    refused((Parts){.vocab = "{\"\xFF\": 0}"}, "not a valid JSON string");
    refused((Parts){.vocab = "{\"a\": 0 ]"}, "model.vocab is not closed");
    refused((Parts){.vocab = "[]"}, "model.vocab is missing");
    refused((Parts){.merges = "{}"}, "model.merges is missing");
    refused((Parts){.merges = "[\"ab\"]"}, "two parts");
    refused((Parts){.merges = "[\"a b c\"]"}, "two parts");
    refused((Parts){.merges = "[\"a \"]"}, "two parts");
    refused((Parts){.merges = "[[\"a\"]]"}, "list of two strings");
    refused((Parts){.merges = "[[\"a\", \"b\", \"a\"]]"}, "list of two strings");
    refused((Parts){.merges = "[7]"}, "list of two strings");
    refused((Parts){.merges = "[\"b a\"]"}, "merge 0, \"b a\", names a token");
    refused((Parts){.merges = "[\"a b\"}"}, "model.merges is not closed");
}

Test(model_tokenizer, added_tokens_that_would_not_work_are_refused)
{
    refused((Parts){.added = "{\"id\": 9, \"content\": \"x\", \"lstrip\": true}"}, "lstrip true");
    refused((Parts){.added = "{\"id\": 9, \"content\": \"x\", \"normalized\": true}"}, "normalized");
    refused((Parts){.added = "{\"id\": 9, \"content\": \"x\", \"single_word\": true}"}, "single_word");
    refused((Parts){.added = "{\"id\": 9}"}, "lacks a content");
    refused((Parts){.added = "{\"id\": -9, \"content\": \"x\"}"}, "valid id");
    refused((Parts){.added = "{\"id\": 9, \"content\": \"\"}"}, "0 bytes");
    refused((Parts){.added = "{\"id\": 9, \"content\": \"x\"}, {\"id\": 8, \"content\": \"x\"}"},
            "listed twice");
    refused((Parts){.added = "{\"id\": 9, \"content\": \"x\"}, {\"id\": 9, \"content\": \"y\"}"},
            "the id 9 of another token");
    refused((Parts){.added = "{\"id\": 3, \"content\": \"ab\"}"}, "plain text could become one");
    refused((Parts){.added = "{\"id\": 0, \"content\": \"b\"}"}, "the id 0 of another token");
    refused((Parts){.added = "{\"id\": 2000000000, \"content\": \"x\"}"}, "is not between");
}

static void parse_text(Env *e, void *arg)
{
    const char *text = arg;
    tokenizer_release(tokenizer_parse(e, text, strlen(text), "small.json", 0));
}

static void refused_text(const char *text, const char *words)
{
    Env e;
    env_init(&e);
    must_fail(&e, parse_text, (void *)text, E_SYNTAX, words);
    env_release(&e);
}

Test(model_tokenizer, broken_json_is_refused_with_its_place)
{
    refused_text("", "not JSON");
    refused_text("[]", "not an object");
    refused_text("{}", "there is no model");
    refused_text("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}}}", "model.merges is missing");
    refused_text("{\"model\": {\"vocab\": {\n\"a\": 0,\n\"b\": 1\n},\n\"merges\": [] }\n oops", "small.json:6:");
    refused_text("{\"model\": {\"vocab\": {}, \"vocab\": {}}}", "duplicate");
    refused_text("{\"model\": {\"vocab\": {}, \"merges\": [", "a string or a list");
    refused_text("{\"model\": \"unclosed", "not closed");
}

static void load_for(Env *e, void *arg)
{
    tokenizer_release(tokenizer_load(e, tiny, *(int64_t *)arg));
}

Test(model_tokenizer, more_tokens_than_the_model_has_rows_are_refused)
{
    Env e;
    env_init(&e);
    int64_t rows = 2048;
    must_work(&e, load_for, &rows);
    rows = 2047;
    must_fail(&e, load_for, &rows, E_SYNTAX, "token ids go up to 2047");
    env_release(&e);
}

static void load_missing(Env *e, void *arg)
{
    tokenizer_load(e, arg, 0);
}

Test(model_tokenizer, a_missing_file_is_named)
{
    Env e;
    env_init(&e);
    must_fail(&e, load_missing, "/nowhere/tokenizer.json", E_IO, "/nowhere/tokenizer.json");
    env_release(&e);
}

/* ---- bad input ---------------------------------------------------------------------------------------------- */

typedef struct Input {
    const char *text;
    size_t len;
    int32_t id;
    int64_t vocab_size;
} Input;

static void encode_input(Env *e, void *arg)
{
    const Input *in = arg;
    Tokenizer *t = tokenizer_load(e, tiny, 0);
    Ids ids = {.arena = &e->kernel};
    tokenizer_encode(t, in->text, in->len, true, &ids);
}

Test(model_tokenizer, text_that_is_not_utf8_is_refused_with_the_byte)
{
    static const struct {
        const char *text, *words;
    } row[] = {
        {"ok \xE9t\xE9", "byte 0xE9 at offset 3"},    {"\x80", "byte 0x80 at offset 0"},
        {"\xC0\xAF", "byte 0xC0 at offset 0"},        {"\xED\xA0\x80", "byte 0xED at offset 0"},
        {"12345678\xF5\x80\x80\x80", "offset 8"},     {"\xF4\x90\x80\x80", "byte 0xF4"},
        {"\xE2\x82", "byte 0xE2 at offset 0"},        {"\xE0\x80\x80", "byte 0xE0"},
        {"12345678abc\xF0\x9F\x98", "at offset 11"},
    };
    for (size_t i = 0; i < countof(row); i++) {
        Env e;
        env_init(&e);
        Input in = {.text = row[i].text, .len = strlen(row[i].text)};
        must_fail(&e, encode_input, &in, E_INPUT, row[i].words);
        env_release(&e);
    }
}

static void decode_input(Env *e, void *arg)
{
    const Input *in = arg;
    Tokenizer *t = tokenizer_load(e, tiny, in->vocab_size);
    Buf b;
    buf_init(&b, &e->kernel);
    tokenizer_decode(t, &in->id, 1, false, &b);
    tokenizer_release(t);
    cr_assert(b.len == 0 || in->id < 2048);
}

Test(model_tokenizer, ids_outside_the_model_s_vocabulary_are_refused)
{
    Env e;
    env_init(&e);
    must_work(&e, decode_input, &(Input){.id = 2047, .vocab_size = 2176});
    must_work(&e, decode_input, &(Input){.id = 2175, .vocab_size = 2176});
    must_fail(&e, decode_input, &(Input){.id = 2176, .vocab_size = 2176}, E_INPUT, "2176");
    must_fail(&e, decode_input, &(Input){.id = -1, .vocab_size = 2176}, E_INPUT, "-1");
    must_fail(&e, decode_input, &(Input){.id = -1}, E_INPUT, "-1");
    must_work(&e, decode_input, &(Input){.id = INT32_MAX});
    env_release(&e);
}

static void byte_missing(Env *e, Tokenizer *t, const char *text)
{
    Ids ids = {.arena = &e->kernel};
    tokenizer_encode(t, text, strlen(text), false, &ids);
}

Test(model_tokenizer, a_byte_without_token_is_named)
{
    Env e;
    env_init(&e);
    With w = {.body = byte_missing, .arg = "abz"};
    must_fail(&e, run_with, &w, E_INPUT, "byte 0x7A");
    env_release(&e);
}

static void nul_and_empty(Env *e, Tokenizer *t, const char *arg)
{
    (void)arg;
    cr_assert_eq(encode(e, t, "", 0, true).n, 0);
    Ids got = encode(e, t, "a\0b", 3, true);
    Buf b;
    buf_init(&b, &e->kernel);
    tokenizer_decode(t, got.at, got.n, false, &b);
    cr_assert(b.len == 3 && memcmp(b.at, "a\0b", 3) == 0);
}

Test(model_tokenizer, empty_text_has_no_ids_and_nul_is_a_character)
{
    with((With){.path = tiny, .body = nul_and_empty});
}
