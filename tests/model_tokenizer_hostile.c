/* model_tokenizer_hostile.c - what is refused, and what must not crash, hang or leak: settings we
 * do not support, broken files, bytes that are no text, text that is too much of one thing. */
#include "tests/fault.h"
#include "tests/text_util.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- refusals ---------------------------------------------------------------- */

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

Test(model_tokenizer_hostile, unsupported_settings_are_refused_by_name)
{
    refused((Parts){.model_type = "WordPiece"}, "model.type \"WordPiece\"");
    refused((Parts){.model_extra = "\"dropout\": 0.1, "}, "model.dropout 0.1");
    refused((Parts){.model_extra = "\"continuing_subword_prefix\": \"##\", "},
            "model.continuing_subword_prefix \"##\"");
    refused((Parts){.model_extra = "\"end_of_word_suffix\": \"</w>\", "}, "end_of_word_suffix");
    refused((Parts){.model_extra = "\"byte_fallback\": true, "}, "model.byte_fallback true");
    refused((Parts){.model_extra = "\"ignore_merges\": true, "}, "model.ignore_merges true");
    refused((Parts){.normalizer = "{\"type\": \"NFKC\"}"}, "normalizer \"NFKC\"");
    refused((Parts){.normalizer = "{\"type\": \"Sequence\", \"normalizers\": []}"},
            "\"Sequence\"");
    refused((Parts){.post_processor = "{\"type\": \"TemplateProcessing\"}"}, "post_processor");
    refused((Parts){.decoder = "{\"type\": \"WordPiece\"}"}, "decoder \"WordPiece\"");
    refused((Parts){.decoder = "null"}, "decoder");
    refused((Parts){.extra = "\"truncation\": {\"max_length\": 5}, "}, "truncation");
    refused((Parts){.extra = "\"padding\": {\"length\": 5}, "}, "padding");
}

#define SPLIT_WITH(behavior, invert, pattern)                                   \
    "{\"type\": \"Split\", \"pattern\": " pattern ", \"behavior\": \"" behavior \
    "\", \"invert\": " invert "}"
#define BYTES_WITH(prefix, regex) \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": " prefix ", \"use_regex\": " regex "}"
#define STAGES(a) "{\"type\": \"Sequence\", \"pretokenizers\": [" a "]}"
#define GOOD_SPLIT SPLIT_WITH("Isolated", "false", "{\"Regex\": \"a\"}")
#define GOOD_BYTES BYTES_WITH("false", "false")

Test(model_tokenizer_hostile, unsupported_splits_are_refused_by_name)
{
    refused((Parts){.pre_tokenizer = "null"}, "no Split stage");
    refused((Parts){.pre_tokenizer = STAGES(GOOD_SPLIT)}, "no ByteLevel stage");
    refused((Parts){.pre_tokenizer = STAGES(GOOD_BYTES)}, "no Split stage");
    refused((Parts){.pre_tokenizer = STAGES(GOOD_SPLIT "," BYTES_WITH("true", "false"))},
            "add_prefix_space true");
    refused((Parts){.pre_tokenizer = STAGES(GOOD_SPLIT "," BYTES_WITH("false", "true"))},
            "use_regex true");
    refused((Parts){.pre_tokenizer = STAGES(GOOD_SPLIT ", {\"type\": \"ByteLevel\"}")},
            "use_regex");
    refused((Parts){.pre_tokenizer = STAGES(GOOD_SPLIT "," GOOD_SPLIT "," GOOD_BYTES)},
            "second Split");
    refused(
        (Parts){.pre_tokenizer = STAGES("{\"type\": \"Digits\"}," GOOD_SPLIT "," GOOD_BYTES)},
        "\"Digits\"");
    refused((Parts){.pre_tokenizer = STAGES(
                        SPLIT_WITH("Removed", "false", "{\"Regex\": \"a\"}") "," GOOD_BYTES)},
            "behavior \"Removed\"");
    refused((Parts){.pre_tokenizer = STAGES(
                        SPLIT_WITH("Isolated", "true", "{\"Regex\": \"a\"}") "," GOOD_BYTES)},
            "invert true");
    refused((Parts){.pre_tokenizer = STAGES(
                        SPLIT_WITH("Isolated", "false", "{\"String\": \"a\"}") "," GOOD_BYTES)},
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

Test(model_tokenizer_hostile, patterns_that_may_mean_something_else_are_refused)
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

Test(model_tokenizer_hostile, malformed_lists_are_refused_with_their_line)
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

Test(model_tokenizer_hostile, added_tokens_that_would_not_work_are_refused)
{
    refused((Parts){.added = "{\"id\": 9, \"content\": \"x\", \"lstrip\": true}"},
            "lstrip true");
    refused((Parts){.added = "{\"id\": 9, \"content\": \"x\", \"normalized\": true}"},
            "normalized");
    refused((Parts){.added = "{\"id\": 9, \"content\": \"x\", \"single_word\": true}"},
            "single_word");
    refused((Parts){.added = "{\"id\": 9}"}, "lacks a content");
    refused((Parts){.added = "{\"id\": -9, \"content\": \"x\"}"}, "valid id");
    refused((Parts){.added = "{\"id\": 9, \"content\": \"\"}"}, "0 bytes");
    refused(
        (Parts){.added = "{\"id\": 9, \"content\": \"x\"}, {\"id\": 8, \"content\": \"x\"}"},
        "listed twice");
    refused(
        (Parts){.added = "{\"id\": 9, \"content\": \"x\"}, {\"id\": 9, \"content\": \"y\"}"},
        "the id 9 of another token");
    refused((Parts){.added = "{\"id\": 3, \"content\": \"ab\"}"},
            "plain text could become one");
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

Test(model_tokenizer_hostile, broken_json_is_refused_with_its_place)
{
    refused_text("", "not JSON");
    refused_text("[]", "not an object");
    refused_text("{}", "there is no model");
    refused_text("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}}}",
                 "model.merges is missing");
    refused_text("{\"model\": {\"vocab\": {\n\"a\": 0,\n\"b\": 1\n},\n\"merges\": [] }\n oops",
                 "small.json:6:");
    refused_text("{\"model\": {\"vocab\": {}, \"vocab\": {}}}", "duplicate");
    refused_text("{\"model\": {\"vocab\": {}, \"merges\": [", "a string or a list");
    refused_text("{\"model\": \"unclosed", "not closed");
}

static void load_for(Env *e, void *arg)
{
    tokenizer_release(tokenizer_load(e, TINY_TOKENIZER, *(int64_t *)arg));
}

Test(model_tokenizer_hostile, more_tokens_than_the_model_has_rows_are_refused)
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

Test(model_tokenizer_hostile, a_missing_file_is_named)
{
    Env e;
    env_init(&e);
    must_fail(&e, load_missing, "/nowhere/tokenizer.json", E_IO, "/nowhere/tokenizer.json");
    env_release(&e);
}

/* ---- bad input --------------------------------------------------------------- */

typedef struct Input {
    const char *text;
    size_t len;
    int32_t id;
    int64_t vocab_size;
} Input;

static void encode_input(Env *e, void *arg)
{
    const Input *in = arg;
    Tokenizer *t = tokenizer_load(e, TINY_TOKENIZER, 0);
    Ids ids = {.arena = &e->kernel};
    tokenizer_encode(t, in->text, in->len, true, &ids);
}

Test(model_tokenizer_hostile, text_that_is_not_utf8_is_refused_with_the_byte)
{
    static const struct {
        const char *text, *words;
    } row[] = {
        {"ok \xE9t\xE9", "byte 0xE9 at offset 3"},   {"\x80", "byte 0x80 at offset 0"},
        {"\xC0\xAF", "byte 0xC0 at offset 0"},       {"\xED\xA0\x80", "byte 0xED at offset 0"},
        {"12345678\xF5\x80\x80\x80", "offset 8"},    {"\xF4\x90\x80\x80", "byte 0xF4"},
        {"\xE2\x82", "byte 0xE2 at offset 0"},       {"\xE0\x80\x80", "byte 0xE0"},
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
    Tokenizer *t = tokenizer_load(e, TINY_TOKENIZER, in->vocab_size);
    Buf b;
    buf_init(&b, &e->kernel);
    tokenizer_decode(t, &in->id, 1, false, &b);
    tokenizer_release(t);
    cr_assert(b.len == 0 || in->id < 2048);
}

Test(model_tokenizer_hostile, ids_outside_the_model_s_vocabulary_are_refused)
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

Test(model_tokenizer_hostile, a_byte_without_token_is_named)
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

Test(model_tokenizer_hostile, empty_text_has_no_ids_and_nul_is_a_character)
{
    with((With){.path = TINY_TOKENIZER, .body = nul_and_empty});
}

/* ---- too much of one thing ----------------------------------------------------- */

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
Test(model_tokenizer_hostile, megabytes_of_one_thing_are_no_trouble, .timeout = 120)
{
    static const char *const unit[] = {"a",
                                       " ",
                                       "\n",
                                       " \n",
                                       "ab",
                                       "<",
                                       "<|im_",
                                       "<|im_end|>",
                                       "\xCC\x80",
                                       "\xCC\x80\xCC\x96",
                                       "e\xCC\x81",
                                       "\xE1\x84\x80\xE1\x85\xA1",
                                       "\xF0\x9F\xA6\x99",
                                       "'s",
                                       "\xE4\xB8\xAD",
                                       "1",
                                       "!",
                                       "\xE2\x80\x89"};
    for (size_t i = 0; i < countof(unit); i++) {
        with((With){.path = TINY_TOKENIZER, .body = million, .arg = unit[i]});
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
Test(model_tokenizer_hostile, a_piece_too_deep_for_compiled_patterns_is_still_matched)
{
    Env e;
    env_init(&e);
    with(
        (With){.parts = {.pre_tokenizer = parts_split(&e, "(?:a|b)+|c")}, .body = deep_groups});
    env_release(&e);
}

static void explode(Env *e, Tokenizer *t, const char *arg)
{
    Ids ids = {.arena = &e->kernel};
    tokenizer_encode(t, arg, strlen(arg), false, &ids);
}

Test(model_tokenizer_hostile, a_pattern_that_backtracks_without_end_is_given_up, .timeout = 60)
{
    Env e;
    env_init(&e);
    With w = {.parts = {.pre_tokenizer = parts_split(&e, "(?:a+)+[xy]")},
              .body = explode,
              .arg = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"};
    must_fail(&e, run_with, &w, E_SYNTAX, "PCRE2 gave up");
    env_release(&e);
}

/* ---- faults, and inputs that once mattered ----------------------------------------- */

static void load_small(Env *e, void *arg)
{
    Tokenizer *t = tokenizer_load(e, arg, 0);
    Ids ids = {.arena = &e->model};
    tokenizer_encode(t, "ab a<|x|>", 9, true, &ids);
    tokenizer_release(t);
}

static bool load_once(void *path, Err *err)
{
    Env e;
    env_init(&e);
    bool ok = env_try(&e, load_small, path);
    *err = e.err;
    env_release(&e);
    return ok;
}

Test(model_tokenizer_hostile, every_call_that_fails_while_loading_ends_in_one_sentence)
{
    static const char *const call[] = {"alloc", "realloc", "open", "read", "fstat", "close"};
    int n_faults = 0;
    for (size_t i = 0; i < countof(call); i++) {
        n_faults += fault_loop(call[i], load_once, "tests/regress/tokenizer/strings.json");
    }
    cr_assert(n_faults > 10);
}

static void replay(Env *e, void *arg)
{
    const char *path = arg;
    char *text;
    size_t len;
    Err err;
    if (!os_read_file(&e->model, path, 1 << 20, &text, &len, &err)) {
        fail_err(e, &err);
    }
    if (text[0] == '{') {
        load_small(e, arg);
        return;
    }
    Tokenizer *t = tokenizer_load(e, TINY_TOKENIZER, 0);
    Ids ids = {.arena = &e->model};
    tokenizer_encode(t, text, len, true, &ids);
}

Test(model_tokenizer_hostile, the_regression_corpus_is_read_or_refused_cleanly)
{
    DIR *dir = opendir("tests/regress/tokenizer");
    cr_assert(dir, "run the tests in the project's folder");
    int n_read = 0, n_refused = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        if (d->d_name[0] == '.') {
            continue;
        }
        char path[512];
        Env e;
        env_init(&e);
        snprintf(path, sizeof path, "tests/regress/tokenizer/%s", d->d_name);
        bool ok = env_try(&e, replay, path);
        cr_assert(ok || e.err.text[0]);
        n_read += ok;
        n_refused += !ok;
        env_release(&e);
    }
    closedir(dir);
    cr_assert_geq(n_read, 4);
    cr_assert_geq(n_refused, 2);
}
