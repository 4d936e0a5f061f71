/* model_tokenizer.c - text to ids and back: the reference's vectors, control tokens, merging. */
#include "tests/text_util.h"

#include <string.h>

/* ---- the vectors of the reference -------------------------------------------- */

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
    with((With){
        .path = path, .body = decode_file, .arg = "tests/data/tokenizer/golden_decode.jsonl"});
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
    with((With){
        .path = path, .body = split_file, .arg = "tests/data/tokenizer/golden_decode.jsonl"});
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
        cr_assert_arr_eq(ids.at + ids.n - last.n, last.at, (size_t)last.n * sizeof *last.at,
                         "%s", name);
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
    with((With){.path = TINY_TOKENIZER,
                .body = tiny_prompts,
                .arg = "tests/data/tiny-qwen2/golden.json"});
}

/* ---- control tokens ---------------------------------------------------------- */

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
    with((With){.path = TINY_TOKENIZER,
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

/* ---- what a file may say ----------------------------------------------------- */

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
    with((With){
        .parts = {.merges = "[ [ \"\\u0061\" ,\"b\" ] ]"}, .body = encodes_ab, .arg = "ab a"});
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
    static const int32_t rule[][3] = {{1, 0, 3}, {0, 0, 4}, {3, 4, 5},
                                      {4, 4, 6}, {0, 1, 7}, {7, 7, 8}};
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
        ids_must_equal(e, &got, &(Ids){.at = want, .n = n},
                       arena_strn(&e->kernel, text, (size_t)len));
        env_reset_kernel(e);
    }
}

Test(model_tokenizer, heap_array_and_cache_agree_with_the_plain_definition)
{
    with((With){
        .parts = {.vocab =
                      "{\"a\": 0, \"b\": 1, \"ba\": 3, \"aa\": 4, \"baaa\": 5, \"aaaa\": 6, "
                      "\"ab\": 7, \"abab\": 8}",
                  .merges = "[\"b a\", \"a a\", \"ba aa\", \"aa aa\", \"a b\", \"ab ab\"]"},
        .body = random_pieces});
}

static void letter_brace(Env *e, Tokenizer *t, const char *text)
{
    Ids got = encode(e, t, text, strlen(text), false);
    int32_t want[] = {3, 2, 3};
    ids_must_equal(e, &got, &(Ids){.at = want, .n = 3}, text);
}

Test(model_tokenizer, a_property_without_braces_is_one_letter)
{
    Env e;
    env_init(&e);
    const char *split = parts_split(&e, "\\\\pL}|\\\\pL+");
    with((With){
        .parts = {.pre_tokenizer = split, .vocab = "{\"a\": 0, \"b\": 1, \"}\": 2, \"ab\": 3}"},
        .body = letter_brace,
        .arg = "ab}ab"});
    env_release(&e);
}
