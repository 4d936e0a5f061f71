/* cli_model.c - the commands that run a model, as their user meets them: what they print,
 * every kind of bad input in one sentence, Ctrl-C. */
#include "tests/cli_live.h"
#include "tests/engine_util.h"
#include "tests/folder_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(cli_model, .init = start, .fini = stop, .timeout = 600);

#define FIRST "The old woman opened the door and"

/* A copy of the tiny model, with one file left out or replaced (text NULL: left out). */
static const char *folder_with(const char *name, const char *text)
{
    static const char *const names[] = {"config.json", "generation_config.json",
                                        "tokenizer.json", "tokenizer_config.json",
                                        "model.safetensors"};
    static int n_folders;
    char cwd[PATH_MAX];
    const char *folder = arena_printf(&env.model, "%s/m%d", dir.path, n_folders++);
    Err err;
    cr_assert(getcwd(cwd, sizeof cwd));
    cr_assert(os_mkdirs(folder, &err), "%s", err.text);
    for (size_t i = 0; i < countof(names); i++) {
        const char *to = arena_printf(&env.model, "%s/%s", folder, names[i]);
        if (strcmp(names[i], name)) {
            cr_assert_eq(symlink(arena_printf(&env.model, "%s/" TINY "/%s", cwd, names[i]), to),
                         0);
        }
    }
    if (text) {
        write_text(arena_printf(&env.model, "%s/%s", folder, name), text);
    }
    return folder;
}

/* The tiny model's config with a piece of its text replaced. */
static const char *config_with(const char *old, const char *new)
{
    char *text = read_text(&env, TINY "/config.json"), *at = strstr(text, old);
    cr_assert(at);
    return arena_printf(&env.model, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
}

static Talked run_in(const char *folder)
{
    return TALK(&env, NULL, "run", "--model", folder, FIRST, "--max-tokens", "3");
}

/* ---- run ----------------------------------------------------------------------------- */

static void run_golden(const json_t *one, const char *by)
{
    const char *prompt = json_string_value(json_object_get(one, "prompt"));
    const char *text = json_string_value(json_object_get(one, "text"));
    cr_assert_eq(strncmp(text, prompt, strlen(prompt)), 0);
    Talked t = TALK(&env, NULL, "run", "--model", TINY, "--by", by, "--max-tokens", "48", "-p",
                    prompt);
    cr_assert_eq(t.status, 0, "%s", t.told);
    cr_expect_str_eq(t.said, arena_printf(&env.model, "%s\n", text + strlen(prompt)), "%s", by);
    cr_expect(strstr(t.told, "[greedy; seed 1]"), "%s", t.told);
    cr_expect(strstr(t.told, "tok/s") && strstr(t.told, "first token after"), "%s", t.told);
}

Test(cli_model, run_says_the_golden_texts)
{
    json_t *golden = golden_json(&env, TINY), *one;
    size_t i;
    json_array_foreach (json_object_get(golden, "cases"), i, one) {
        run_golden(one, "c");
    }
    one = json_array_get(json_object_get(golden, "cases"), 0);
    run_golden(one, "interp");
    run_golden(one, "nest");
    json_decref(golden);
}

Test(cli_model, run_says_the_same_whatever_is_left_out)
{
    static const char *const options[] = {"--without=cache",
                                          "--without=specialise",
                                          "--without=fuse,cache,specialise",
                                          "--panels",
                                          "--f32",
                                          "--naive",
                                          "--threads=1"};
    Talked want = TALK(&env, NULL, "run", "-m", TINY, FIRST, "--max-tokens", "40");
    for (size_t i = 0; i < countof(options); i++) {
        Talked t = TALK(&env, NULL, "run", "-m", TINY, FIRST, "--max-tokens", "40", options[i]);
        cr_expect_eq(t.status, 0, "%s", t.told);
        cr_expect_str_eq(t.said, want.said, "%s", options[i]);
    }
}

Test(cli_model, run_says_how_weights_lie_in_memory)
{
    static const struct {
        const char *option, *told;
    } cases[] = {{"--by=c", "[weights: 4.2 MB as bf16]\n"},
                 {"--by=lib", "[weights: 4.3 MB, "},
                 {"--f32", "[weights: 8.5 MB, "},
                 {"--naive", "[weights: 8.5 MB as f32]\n"},
                 {"--by=interp", "[weights: 8.5 MB as f32]\n"}};
    for (size_t i = 0; i < countof(cases); i++) {
        Talked t =
            TALK(&env, NULL, "run", "-m", TINY, FIRST, "--max-tokens", "1", cases[i].option);
        tells(t, cases[i].told);
    }
}

Test(cli_model, run_reads_a_prompt_from_pipe_socket_and_terminal)
{
    static const Input inputs[] = {IN_PIPE, IN_SOCKET, IN_TERMINAL};
    Talked want = TALK(&env, NULL, "run", "-m", TINY, FIRST "\n", "--max-tokens", "9");
    for (size_t i = 0; i < countof(inputs); i++) {
        Live l = LIVE(&env, inputs[i], "run", "-m", TINY, "-p", "-", "--max-tokens", "9");
        live_send(&l, FIRST "\n");
        if (inputs[i] == IN_TERMINAL) {
            live_send(&l, "\x04"); /* Ctrl-D */
            live_wait_told(&l, 1, "token limit");
        }
        cr_expect_eq(live_end(&l), 0, "%s", l.told.at);
        cr_expect_str_eq(l.said.at, want.said);
    }
}

Test(cli_model, without_a_template_run_says_that_it_continues_plain_text)
{
    tells(TALK(&env, NULL, "run", "-m", TINY, FIRST, "--max-tokens", "2"),
          "[plain text: " TINY " has no chat template");
    Talked raw = TALK(&env, NULL, "run", "-m", TINY, "--raw", FIRST, "--max-tokens", "2");
    cr_expect_not(strstr(raw.told, "template"), "%s", raw.told);
}

Test(cli_model, the_model_that_comes_with_the_program_is_found_where_it_is_installed)
{
    const char *build = getenv("NC_BUILD"), *bin = temp_path(&dir, "opt/bin/nanocompile");
    char cwd[PATH_MAX], *program;
    size_t len;
    Err err;
    cr_assert(build && getcwd(cwd, sizeof cwd));
    cr_assert(os_read_file(&env.model, arena_printf(&env.model, "%s/nanocompile", build),
                           1u << 28, &program, &len, &err));
    write_text(bin, "");
    cr_assert(os_write_file(bin, program, len, &err), "%s", err.text);
    cr_assert_eq(chmod(bin, 0755), 0);
    setenv("NC_BUILD", temp_path(&dir, "opt/bin"), 1);
    declines(TALK(&env, NULL, "run", FIRST), 1, "say which one: --model DIR");
    write_text(temp_path(&dir, "opt/share/nanocompile/x"), "");
    cr_assert_eq(symlink(arena_printf(&env.model, "%s/" TINY, cwd),
                         temp_path(&dir, "opt/share/nanocompile/tiny-qwen2")),
                 0);
    says(TALK(&env, NULL, "run", FIRST, "--max-tokens", "12"), " said: \xe2\x80\x98I\nmust go");
    says(TALK(&env, NULL, "tokenize", "The old"), "337 660");
    setenv("NC_BUILD", build, 1);
}

/* ---- sampling ------------------------------------------------------------------------ */

static const char *sampled(const char *seed)
{
    Talked t = TALK(&env, NULL, "run", "-m", TINY, FIRST, "--temperature", "1.5",
                    "--max-tokens", "24", "--seed", seed);
    cr_assert_eq(t.status, 0, "%s", t.told);
    return t.said;
}

Test(cli_model, a_seed_has_64_bits_and_always_says_the_same)
{
    const char *most = sampled("18446744073709551615");
    cr_expect_str_eq(most, sampled("0xffffffffffffffff"));
    cr_expect_str_neq(most, sampled("18446744073709551614"), "as doubles they would be equal");
    cr_expect_str_eq(sampled("7"), sampled("7"));
    cr_expect_str_neq(sampled("7"), sampled("8"));
    tells(TALK(&env, NULL, "run", "-m", TINY, FIRST, "--temperature=1.5", "--top-k=40",
               "--top-p=.9", "--min-p=.01", "--repetition-penalty=1.1",
               "--seed=18446744073709551615", "--max-tokens=1"),
          "[temperature 1.5, top_k 40, top_p 0.9, min_p 0.01, repetition_penalty 1.1; seed "
          "18446744073709551615]");
}

Test(cli_model, text_comes_in_whole_characters)
{
    Live l = LIVE(&env, IN_PIPE, "run", "-m", TINY, FIRST, "--temperature", "4", "--max-tokens",
                  "300");
    cr_expect_eq(live_end(&l), 0, "%s", l.told.at);
    cr_expect(strstr(l.said.at, "\xef\xbf\xbd"),
              "no broken sequence came by: the test has no teeth");
    cr_expect(l.whole, "a piece of output ended within a character");
}

/* ---- the end of the context ---------------------------------------------------------- */

static const char *heldout_text(int n_tokens)
{
    Buf text;
    Ids ids = heldout_ids(&env, n_tokens);
    Tokenizer *t = tokenizer_load(&env, TINY, 0);
    buf_init(&text, &env.model);
    tokenizer_decode(t, ids.at, ids.n, false, &text);
    tokenizer_release(t);
    return text.at;
}

Test(cli_model, a_full_context_ends_the_text)
{
    const char *prompt = heldout_text(505);
    Talked t = TALK(&env, prompt, "run", "-m", TINY, "-p", "-", "--max-tokens", "50");
    tells(t, "[505 prompt tokens, ");
    tells(t, "; 8 tokens, ");
    tells(t, "context full]");
    declines(TALK(&env, heldout_text(520), "run", "-m", TINY, "--raw", "-p", "-"), 1,
             "The prompt has 520 tokens, more than the model's 512 positions.");
}

/* ---- Ctrl-C -------------------------------------------------------------------------- */

Test(cli_model, ctrl_c_ends_a_text_cleanly)
{
    Talked all = TALK(&env, NULL, "run", "-m", TINY, FIRST, "--max-tokens", "60");
    Live l =
        LIVE(&env, IN_PIPE, "run", "-m", TINY, FIRST, "--by", "nest", "--max-tokens", "500");
    live_wait_said(&l, 8);
    live_interrupt(&l);
    cr_expect_eq(live_end(&l), 130, "%s", l.told.at);
    cr_assert_gt(l.said.len, 8u);
    cr_expect_eq(l.said.at[l.said.len - 1], '\n');
    cr_expect_eq(strncmp(l.said.at, all.said, l.said.len - 1), 0, "%s", l.said.at);
    cr_expect(strstr(l.told.at, "; interrupted]\nnanocompile: Stopped.\n"), "%s", l.told.at);
}

Test(cli_model, ctrl_c_ends_a_long_step_and_a_compilation)
{
    const char *cache = getenv("NANOCOMPILE_CACHE");
    Live l = LIVE(&env, IN_PIPE, "perplexity", "-m", TINY, "--by", "nest", "--chunk", "512",
                  "--text", TINY "/heldout.txt");
    usleep(300000); /* it takes half a minute: somewhere on the way */
    live_interrupt(&l);
    cr_expect_eq(live_end(&l), 130, "%s", l.told.at);
    cr_expect_str_eq(l.said.at, "");
    setenv("NANOCOMPILE_CACHE", temp_path(&dir, "cold"), 1);
    l = LIVE(&env, IN_PIPE, "run", "-m", TINY, FIRST);
    usleep(100000);
    live_interrupt(&l);
    cr_expect_eq(live_end(&l), 130, "%s", l.told.at);
    cr_expect_str_eq(l.said.at, "");
    if (cache) {
        setenv("NANOCOMPILE_CACHE", cache, 1);
    }
}

/* ---- shards -------------------------------------------------------------------------- */

static void write_index(Env *e, void *folder)
{
    Checkpoint c;
    Buf index;
    buf_init(&index, &e->model);
    checkpoint_open(e, &c, TINY);
    for (int i = 0; i < c.tensors.n; i++) {
        buf_printf(&index, "%s\"%s\": \"model-00001-of-00001.safetensors\"",
                   i ? ", " : "{\"weight_map\": {", c.tensors.at[i].name);
    }
    checkpoint_release(&c);
    buf_str(&index, "}}");
    write_text(arena_printf(&e->model, "%s/model.safetensors.index.json", (char *)folder),
               index.at);
}

Test(cli_model, run_reads_weights_through_an_index)
{
    const char *folder = folder_with("model.safetensors", NULL);
    char real[PATH_MAX];
    must_work(&env, write_index, (void *)folder);
    declines(run_in(folder), 1, "is a missing shard");
    cr_assert(realpath(TINY "/model.safetensors", real));
    cr_assert_eq(
        symlink(real, arena_printf(&env.model, "%s/model-00001-of-00001.safetensors", folder)),
        0);
    Talked t = run_in(folder), want = run_in(TINY);
    cr_expect_eq(t.status, 0, "%s", t.told);
    cr_expect_str_eq(t.said, want.said);
}

/* ---- bad folders: status 1, one sentence --------------------------------------------- */

Test(cli_model, what_is_missing_from_a_folder_is_named)
{
    declines(run_in("no/such/folder"), 1, "no/such/folder: No such file");
    declines(run_in(dir.path), 1, "config.json");
    declines(run_in(TINY "/model.safetensors"), 1, "model.safetensors is no folder");
    declines(run_in(folder_with("tokenizer.json", NULL)), 1, "tokenizer.json");
    declines(run_in(folder_with("model.safetensors", NULL)), 1,
             "holds neither model.safetensors nor model.safetensors.index.json");
    cr_expect_eq(run_in(folder_with("generation_config.json", NULL)).status, 0);
    cr_expect_eq(run_in(folder_with("tokenizer_config.json", NULL)).status, 0);
}

Test(cli_model, what_is_wrong_with_a_folder_is_named)
{
    declines(run_in(folder_with("config.json", "{}")), 1, "\"architectures\" is missing");
    declines(run_in(folder_with("tokenizer.json", "{\"model\": 1}")), 1, "tokenizer.json");
    declines(run_in(folder_with("model.safetensors", "short")), 1, "model.safetensors");
    declines(run_in(folder_with("generation_config.json", "{\"top_p\": 2}")), 1, "top_p");
    declines(run_in(folder_with("config.json", config_with("\"intermediate_size\": 448",
                                                           "\"intermediate_size\": 449"))),
             1, "expected F32, F16 or BF16 [449, 224]");
    declines(run_in(folder_with("config.json", config_with("\"num_hidden_layers\": 4",
                                                           "\"num_hidden_layers\": 5"))),
             1, "12 tensors missing");
    declines(run_in(folder_with("config.json",
                                config_with("\"vocab_size\": 2048", "\"vocab_size\": 2000"))),
             1, "tokenizer.json");
    declines(run_in(folder_with("config.json", config_with("\"rope_theta\": 1000000.0,", ""))),
             1, "\"rope_theta\" is missing");
}

Test(cli_model, bad_prompts_are_refused)
{
    declines(TALK(&env, NULL, "run", "-m", TINY, "--raw", "-p", ""), 1, "The prompt is empty");
    declines(TALK(&env, "", "run", "-m", TINY, "--raw", "-p", "-"), 1, "The prompt is empty");
    declines(TALK(&env, NULL, "run", "-m", TINY, "-p", "a\xff"), 1,
             "not UTF-8: byte 0xFF at offset 1");
    declines(TALK(&env, NULL, "run", "-m", TINY, "-p", "a", "--system", "b"), 1,
             "--system needs a chat template");
    says(TALK(&env, NULL, "run", "-m", TINY, "--raw", "-p", " ", "--max-tokens", "1"), "\n");
}

Test(cli_model, control_tokens_are_text_unless_asked_for)
{
    static const char prompt[] = "a<|im_start|>b";
    tells(TALK(&env, NULL, "run", "-m", TINY, prompt, "--parse-special", "--max-tokens", "1"),
          "[3 prompt tokens");
    Talked t = TALK(&env, NULL, "run", "-m", TINY, prompt, "--max-tokens", "1");
    cr_expect_eq(t.status, 0);
    cr_expect_not(strstr(t.told, "[3 prompt tokens"), "%s", t.told);
}

/* ---- usage: status 2 ----------------------------------------------------------------- */

Test(cli_model, usage_errors)
{
    static const char *const rows[][4] = {
        /* option, value, words */
        {"--seed", "-1", "--seed takes a number from 0 to 18446744073709551615, not '-1'"},
        {"--seed", "18446744073709551616", "--seed takes a number"},
        {"--seed", "x", "--seed takes a number"},
        {"--seed", "1.5", "--seed takes a number"},
        {"--temperature", "-1", "--temperature takes a number: 0, or 1e-6 to 1e6, not '-1'"},
        {"--temperature", "nan", "--temperature takes a number"},
        {"--temperature", "warm", "--temperature takes a number, not 'warm'"},
        {"--top-k", "1.5", "--top-k takes a whole number: 0 to 2147483647, not '1.5'"},
        {"--top-k", "1e300", "--top-k takes a whole number"},
        {"--top-p", "0", "--top-p takes a number: above 0 and at most 1, not '0'"},
        {"--min-p", "1.1", "--min-p takes a number: 0 to 1"},
        {"--repetition-penalty", "0", "--repetition-penalty takes a number"},
        {"--max-tokens", "0", "--max-tokens takes a whole number from 1"},
        {"--max-tokens", "99999999999", "--max-tokens takes a whole number from 1"},
        {"--threads", "0", "--threads takes a whole number from 1 to 4096"},
        {"--by", "magic", "--by cannot be 'magic'"},
        {"--without", "fuse,cse", "--without: there is no stage 'cse'"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        declines(TALK(&env, NULL, "run", "-m", TINY, "a", rows[i][0], rows[i][1]), 2,
                 rows[i][2]);
    }
    declines(TALK(&env, NULL, "run"), 2, "say what to continue");
    declines(TALK(&env, NULL, "run", "-m", TINY, "a", "--blas"), 2,
             "--blas goes with --by interp");
    declines(TALK(&env, NULL, "run", "-m", TINY, "a", "--raw", "--system", "b"), 2,
             "--raw leaves out");
    declines(TALK(&env, NULL, "perplexity", "-m", TINY), 2, "say what to score");
    declines(TALK(&env, NULL, "perplexity", "-m", TINY, "-p", "a", "--ids", "1"), 2,
             "one of --text");
    declines(TALK(&env, NULL, "synth", TINY), 2, "say which config and where to");
    declines(TALK(&env, NULL, "synth", TINY, "x", "--seed", "-3"), 2, "--seed takes a number");
}

Test(cli_model, help_tells_a_newcomer_what_to_type)
{
    says(TALK(&env, NULL, "--help"), "nanocompile chat --model Qwen2.5-0.5B-Instruct");
    says(TALK(&env, NULL, "--help"), "tokenizer_config.json");
    says(TALK(&env, NULL, "chat", "--help"), "nanocompile chat --model Qwen2.5-0.5B-Instruct");
    says(TALK(&env, NULL, "run", "--help"), "--max-tokens");
}
