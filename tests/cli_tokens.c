/* cli_tokens.c - tokenize and detokenize as their user meets them, and whole corpora in
 * bulk. */
#include "tests/cli_live.h"
#include "tests/folder_fixture.h"
#include "tests/text_util.h"

#include <stdlib.h>
#include <string.h>

#define TINY "tests/data/tiny-qwen2"

TestSuite(cli_tokens, .init = start, .fini = stop, .timeout = 600);

static void says_all(Talked t, const char *text)
{
    cr_expect_eq(t.status, 0, "%s", t.told);
    cr_expect_str_eq(t.said, text);
}

Test(cli_tokens, text_to_ids_and_back)
{
    says_all(TALK(&env, NULL, "tokenize", "-t", TINY, "The old woman"), "337 660 1009\n");
    says_all(TALK(&env, NULL, "tokenize", "-t", TINY, "The", "old", "woman"), "337 660 1009\n");
    says_all(TALK(&env, "The old woman", "tokenize", "-t", TINY "/tokenizer.json"),
             "337 660 1009\n");
    says_all(TALK(&env, NULL, "detokenize", "-t", TINY, "337", "660", "1009"), "The old woman");
    says_all(TALK(&env, "337, 660,1009\n", "detokenize", "-t", TINY), "The old woman");
    says_all(TALK(&env, "", "tokenize", "-t", TINY), "\n");
    says_all(TALK(&env, "", "detokenize", "-t", TINY), "");
}

Test(cli_tokens, control_tokens_are_text_unless_asked_for)
{
    says_all(TALK(&env, NULL, "tokenize", "-t", TINY, "--parse-special", "<|im_end|>"),
             "2047\n");
    Talked t = TALK(&env, NULL, "tokenize", "-t", TINY, "<|im_end|>");
    cr_expect_gt(strlen(t.said), 8u, "%s", t.said);
    says_all(TALK(&env, t.said, "detokenize", "-t", TINY), "<|im_end|>");
    says_all(TALK(&env, NULL, "detokenize", "-t", TINY, "337", "2047"), "The<|im_end|>");
    says_all(TALK(&env, NULL, "detokenize", "-t", TINY, "--skip-special", "337", "2047"),
             "The");
}

Test(cli_tokens, a_line_of_json_each)
{
    says_all(TALK(&env, "\"The old\"\n\"\"\n\"a\\u0000b\"\r\n\"\\ud83e\\udece\"", "tokenize",
                  "-t", TINY, "--jsonl"),
             "[337, 660]\n[]\n[64, 188, 65]\n[172, 253, 104, 236]\n");
    says_all(
        TALK(&env, "[337, 660]\n[]\n[172, 253, 104]\n", "detokenize", "-t", TINY, "--jsonl"),
        "\"The old\"\n\"\"\n\"\xef\xbf\xbd\"\n");
    says_all(TALK(&env, "", "tokenize", "-t", TINY, "--jsonl"), "");
}

/* The lines before are there, and the sentence names the line. */
static void breaks(const char *command, const char *in, const char *said, const char *words)
{
    Talked t = TALK(&env, in, command, "-t", TINY, "--jsonl");
    cr_expect_eq(t.status, 1);
    cr_expect_str_eq(t.said, said);
    cr_expect(strstr(t.told, words), "no '%s' in: %s", words, t.told);
}

Test(cli_tokens, a_line_that_is_wrong_is_named)
{
    breaks("tokenize", "\"The\"\nnot json\n", "[337]\n", "Line 2 is not JSON: ");
    breaks("tokenize", "\"The\"\n\n", "[337]\n", "Line 2 is not JSON");
    breaks("tokenize", "\"The\"\n17\n", "[337]\n", "Line 2: this is not a JSON string.");
    breaks("tokenize", "\"\\ud800\"\n", "", "Line 1 is not JSON");
    breaks("detokenize", "[337]\n\"The\"\n", "\"The\"\n",
           "Line 2: this is not a JSON array of token ids.");
    breaks("detokenize", "[337, true]\n", "", "Line 1: element 1 is no token id.");
    breaks("detokenize", "[337, -1]\n", "", "Line 1: element 1 is no token id.");
    breaks("detokenize", "[337]\n[99999999999]\n", "\"The\"\n",
           "Line 2: element 0 is no token id.");
}

Test(cli_tokens, what_cannot_be_converted_is_refused)
{
    declines(TALK(&env, "a\xff", "tokenize", "-t", TINY), 1,
             "not UTF-8: byte 0xFF at offset 1");
    declines(TALK(&env, NULL, "detokenize", "-t", TINY, "337", "x"), 1, "not 'x'");
    declines(TALK(&env, NULL, "detokenize", "-t", TINY, "--", "-1"), 1, "-1 is out of range");
    declines(TALK(&env, NULL, "detokenize", "-t", TINY, "99999999999999999999"), 1,
             "out of range");
    declines(TALK(&env, NULL, "tokenize", "-t", "no/such", "a"), 1, "no/such");
    declines(TALK(&env, NULL, "tokenize", "-t", dir.path, "a"), 1, "tokenizer.json");
    declines(TALK(&env, NULL, "tokenize", "--frobnicate"), 2, "frobnicate");
}

Test(cli_tokens, an_id_without_token_is_nothing)
{
    says_all(TALK(&env, NULL, "detokenize", "-t", TINY, "337", "2048", "660"), "The old");
}

/* ---- in bulk: the reference's vectors through the program ---------------------------- */

typedef struct Bulk {
    Buf in, want;
    const char *from, *to; /* fields */
} Bulk;

static void add_json(Buf *b, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    buf_printf(b, "%s\n", text);
    free(text);
}

static void add_line(Env *e, const json_t *value, void *arg)
{
    Bulk *b = arg;
    (void)e;
    add_json(&b->in, json_object_get(value, b->from));
    add_json(&b->want, json_object_get(value, b->to));
}

static void same_in_bulk(const char *file, const char *from, const char *to,
                         const char *const *words)
{
    Bulk b = {.from = from, .to = to};
    buf_init(&b.in, &env.model);
    buf_init(&b.want, &env.model);
    each_line(&env, file, add_line, &b);
    Talked t = talk(&env, b.in.at, words);
    cr_assert_eq(t.status, 0, "%s", t.told);
    const char *got = t.said, *want = b.want.at;
    for (int line = 1; *want; line++) {
        json_t *x =
            json_loads(got, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK, NULL);
        json_t *y =
            json_loads(want, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK, NULL);
        cr_assert(x && json_equal(x, y), "line %d: %.200s instead of %.200s", line, got, want);
        json_decref(x);
        json_decref(y);
        got = strchr(got, '\n') + 1;
        want = strchr(want, '\n') + 1;
    }
    cr_assert_eq(*got, '\0');
}

Test(cli_tokens, every_golden_string_in_bulk)
{
    char path[PATH_MAX];
    need_real_tokenizer(path);
    same_in_bulk(
        "tests/data/tokenizer/golden.jsonl", "s", "ids",
        (const char *const[]){"tokenize", "-t", path, "--jsonl", "--parse-special", NULL});
}

Test(cli_tokens, every_golden_list_of_ids_in_bulk)
{
    char path[PATH_MAX];
    need_real_tokenizer(path);
    same_in_bulk("tests/data/tokenizer/golden_decode.jsonl", "ids", "t",
                 (const char *const[]){"detokenize", "-t", path, "--jsonl", NULL});
}
