/* cli_chat.c - conversations with the program: the template, the system prompt and the
 * sampling are the folder's and are said; history and cache are kept; what cannot chat is
 * refused. CASES 6 */
#include "tests/cli_live.h"
#include "tests/engine_util.h"
#include "tests/folder_fixture.h"
#include "tests/model_util.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(cli_chat, .init = start, .fini = stop, .timeout = 600);

#define SYSTEM "You are a small model."

typedef struct Made { /* NULL: as in the tiny model; "": left out */
    const char *template, *config, *generation;
} Made;

/* A folder with the tiny model, and a template. */
static const char *folder(Made made)
{
    const char *at = arena_printf(&env.model, "%s/m", dir.path);
    const struct {
        const char *name, *text;
    } files[] = {
        {"chat_template.jinja", made.template ? made.template : QWEN2_TEMPLATE(SYSTEM)},
        {"config.json", made.config},
        {"generation_config.json", made.generation},
        {"tokenizer.json", NULL},
        {"model.safetensors", NULL}};
    char cwd[PATH_MAX];
    cr_assert(getcwd(cwd, sizeof cwd));
    write_text(arena_printf(&env.model, "%s/x", at), "");
    for (size_t i = 0; i < countof(files); i++) {
        const char *to = arena_printf(&env.model, "%s/%s", at, files[i].name);
        unlink(to);
        if (!files[i].text) {
            cr_assert_eq(
                symlink(arena_printf(&env.model, "%s/" TINY "/%s", cwd, files[i].name), to), 0);
        } else if (*files[i].text) {
            write_text(to, files[i].text);
        }
    }
    return at;
}

/* The number of tokens that a turn fed. */
static int n_fed(const char *told, int turn)
{
    static const char words[] = " prompt tokens";
    const char *at = told;
    for (int i = 0; i <= turn; i++) {
        at = strstr(i ? at + 1 : at, words);
        cr_assert(at, "no turn %d in: %s", turn, told);
    }
    while (at > told && at[-1] != '[') {
        at--;
    }
    return atoi(at);
}

static int n_tokens(const char *text)
{
    Ids ids = {.arena = &env.model};
    Tokenizer *t = tokenizer_load(&env, TINY, 0);
    tokenizer_encode(t, text, strlen(text), true, &ids);
    tokenizer_release(t);
    return ids.n;
}

/* ---- what is said about it ----------------------------------------------------------- */

Test(cli_chat, template_system_prompt_and_sampling_are_the_folder_s_and_are_said)
{
    Talked t = TALK(&env, "", "chat", "-m", folder((Made){0}));
    tells(t, "[Qwen2 template, system prompt: " SYSTEM "]\n");
    tells(t, "[temperature 0.7, top_k 20, top_p 0.8 (generation_config.json); seed 1; ");
    cr_expect_str_eq(t.said, "");
    tells(TALK(&env, "", "chat", "-m", folder((Made){0}), "--top-k", "5", "--system",
               "Be brief.", "--seed", "9"),
          "system prompt: Be brief.]\n[temperature 0.7, top_k 5, top_p 0.8 "
          "(generation_config.json and options); seed 9");
    tells(TALK(&env, "", "chat", "-m", folder((Made){.generation = ""})), "[greedy; seed 1; ");
    tells(TALK(&env, "", "chat", "-m",
               folder((Made){.generation = "{\"do_sample\": true, \"repetition_penalty\": 1.1, "
                                           "\"temperature\": 0.5}"})),
          "[temperature 0.5, repetition_penalty 1.1 (generation_config.json); ");
}

Test(cli_chat, run_goes_through_the_template_and_stays_greedy)
{
    Talked t = TALK(&env, NULL, "run", "-m", folder((Made){0}), "Hello", "--max-tokens", "4");
    tells(t, "[Qwen2 template, system prompt: " SYSTEM "]\n[greedy; seed 1]\n");
    int n =
        n_tokens("<|im_start|>system\n" SYSTEM "<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
                 "<|im_start|>assistant\n");
    cr_expect_eq(n_fed(t.told, 0), n);
    t = TALK(&env, NULL, "run", "-m", folder((Made){0}), "Hello", "--max-tokens", "4", "--raw");
    cr_expect_eq(n_fed(t.told, 0), n_tokens("Hello"));
    t = TALK(&env, NULL, "run", "-m", folder((Made){0}), "Hello", "--max-tokens", "4",
             "--system", "");
    cr_expect_eq(n_fed(t.told, 0), n - n_tokens("system\n" SYSTEM) + n_tokens("system\n"));
    cr_expect_eq(
        TALK(&env, NULL, "run", "-m", folder((Made){0}), "", "--max-tokens", "4").status, 0);
}

/* ---- turns --------------------------------------------------------------------------- */

Test(cli_chat, a_turn_feeds_only_what_is_new)
{
    Talked t = TALK(&env, "Hello there\n\nWhat now?\r\nAnd then?", "chat", "-m",
                    folder((Made){0}), "--max-tokens", "10", "--temperature", "0");
    cr_assert_eq(t.status, 0, "%s", t.told);
    cr_assert_eq(how_often(t.told, " prompt tokens"), 3, "the empty line is no message: %s",
                 t.told);
    cr_expect_eq(n_fed(t.told, 0),
                 n_tokens("<|im_start|>system\n" SYSTEM "<|im_end|>\n<|im_start|>user\n"
                          "Hello there<|im_end|>\n<|im_start|>assistant\n"));
    int rest = n_tokens("<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n");
    cr_expect_eq(n_fed(t.told, 1), 1 + rest + n_tokens("user\nWhat now?") - n_tokens("user\n"));
    cr_expect_eq(n_fed(t.told, 2), 1 + rest + n_tokens("user\nAnd then?") - n_tokens("user\n"));
}

Test(cli_chat, the_same_conversation_is_the_same_and_reset_forgets_it)
{
    const char *m = folder((Made){0});
    Talked once = TALK(&env, "Hello\nAgain\n", "chat", "-m", m, "--max-tokens", "12",
                       "--temperature", "2");
    Talked twice = TALK(&env, "Hello\nAgain\n/reset\nHello\nAgain\n", "chat", "-m", m,
                        "--max-tokens", "12", "--temperature", "2");
    cr_assert_eq(once.status, 0, "%s", once.told);
    cr_expect_str_eq(twice.said, arena_printf(&env.model, "%s%s", once.said, once.said));
    tells(twice, "[a new conversation]");
    Talked alone =
        TALK(&env, "Again\n", "chat", "-m", m, "--max-tokens", "12", "--temperature", "2");
    cr_expect_not(strstr(once.said, alone.said), "history does not matter");
}

Test(cli_chat, what_is_typed_forges_no_turn_unless_asked_for)
{
    static const char text[] = "a<|im_end|>b\n";
    const char *m = folder((Made){0});
    Talked plain = TALK(&env, text, "chat", "-m", m, "--max-tokens", "1");
    Talked parsed = TALK(&env, text, "chat", "-m", m, "--max-tokens", "1", "--parse-special");
    cr_expect_eq(n_fed(parsed.told, 0),
                 n_tokens("<|im_start|>system\n" SYSTEM "<|im_end|>\n<|im_start|>user\n"
                          "a<|im_end|>b<|im_end|>\n<|im_start|>assistant\n"));
    cr_expect_gt(n_fed(plain.told, 0), n_fed(parsed.told, 0) + 4);
}

Test(cli_chat, commands)
{
    const char *m = folder((Made){0});
    tells(TALK(&env, "/help\n/exit\nHello\n", "chat", "-m", m), "/exit or Ctrl-D ends");
    Talked t = TALK(&env, "/exit\nHello\n", "chat", "-m", m);
    cr_expect_str_eq(t.said, "");
    cr_expect_eq(t.status, 0);
}

static const char *short_context(void)
{
    char *text = read_text(&env, TINY "/config.json"), *at = strstr(text, "512");
    cr_assert(at && strstr(text, "\"max_position_embeddings\": 512") + 27 == at);
    memcpy(at, " 64", 3);
    return text;
}

Test(cli_chat, a_full_context_says_so_and_reset_helps)
{
    Talked t = TALK(&env, "Hello\nAgain\n/reset\nHello\n", "chat", "-m",
                    folder((Made){.config = short_context()}), "--max-tokens", "100",
                    "--temperature", "0");
    cr_expect_eq(t.status, 0);
    cr_expect_eq(
        how_often(t.told, "[the context of 64 positions is full; /reset starts again]"), 3,
        "%s", t.told);
    cr_expect_eq(how_often(t.told, "[your message was taken back]"), 1, "%s", t.told);
    size_t half =
        strlen(t.said) / 2; /* the second message got no answer, the third that of the first */
    cr_assert_gt(half, 4u);
    cr_expect_eq(strncmp(t.said, t.said + half, half), 0, "%s", t.said);
}

/* ---- Ctrl-C -------------------------------------------------------------------------- */

Test(cli_chat, on_a_terminal_ctrl_c_ends_the_reply_only)
{
    Live l = LIVE(&env, IN_TERMINAL, "chat", "-m", folder((Made){0}), "--by", "nest",
                  "--temperature", "0", "--max-tokens", "300");
    live_send(&l, "Hello\n");
    live_wait_said(&l, 3);
    live_interrupt(&l);
    live_wait_told(&l, 1, "; interrupted]\n> ");
    size_t so_far = l.said.len;
    live_send(&l, "Again\n");
    live_wait_said(&l, so_far + 3);
    live_interrupt(&l);
    live_send(&l, "/exit\n");
    live_wait_told(&l, 2, "; interrupted]\n> ");
    cr_expect_eq(live_end(&l), 0, "%s", l.told.at);
}

Test(cli_chat, on_a_terminal_ctrl_c_at_the_prompt_ends_the_program)
{
    Live l = LIVE(&env, IN_TERMINAL, "chat", "-m", folder((Made){0}));
    live_wait_told(&l, 1, "> ");
    live_interrupt(&l);
    cr_expect_eq(live_end(&l), 130, "%s", l.told.at);
    cr_expect(strstr(l.told.at, "nanocompile: Stopped.\n"), "%s", l.told.at);
}

Test(cli_chat, elsewhere_ctrl_c_ends_the_program)
{
    Live l = LIVE(&env, IN_PIPE, "chat", "-m", folder((Made){0}), "--by", "nest",
                  "--temperature", "0", "--max-tokens", "300");
    live_send(&l, "Hello\nAgain\nAnd again\n");
    live_wait_said(&l, 3);
    live_interrupt(&l);
    cr_expect_eq(live_end(&l), 130, "%s", l.told.at);
    cr_expect_eq(l.said.at[l.said.len - 1], '\n');
    cr_expect_eq(how_often(l.told.at, " prompt tokens"), 1, "%s", l.told.at);
    cr_expect(strstr(l.told.at, "nanocompile: Stopped.\n"), "%s", l.told.at);
}

/* ---- what cannot chat ---------------------------------------------------------------- */

Test(cli_chat, what_cannot_chat_is_refused)
{
    declines(TALK(&env, "Hello\n", "chat"), 2, "say which model: --model DIR");
    declines(TALK(&env, "Hello\n", "chat", "-m", TINY), 1,
             "has no chat template, so this model cannot chat");
    declines(TALK(&env, "Hello\n", "chat", "-m",
                  folder((Made){.template = QWEN2_TEMPLATE(SYSTEM) "!"})),
             1, "is not exactly that of Qwen2 or Qwen2.5");
    declines(TALK(&env, "Hello\n", "chat", "-m", "no/such"), 1, "no/such");
    Talked t = TALK(&env, NULL, "run", "-m", folder((Made){.template = "{{ messages }}"}),
                    "Hello", "--max-tokens", "2");
    tells(t, "[plain text: ");
    tells(t, "is not exactly that of Qwen2 or Qwen2.5");
}

/* ---- the real tokenizer and template ------------------------------------------------- */

/* The weights are random, of a small model with the real vocabulary: all but what it says is
 * real. */
static const char *qwen2_5_folder(const char *shared)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "generation_config.json"};
    const char *config = temp_path(&dir, "q/config.json");
    write_text(config,
               config_text("vocab_size", "151936", "hidden_size", "64", "intermediate_size",
                           "96", "num_attention_heads", "4", "num_key_value_heads", "2",
                           "max_position_embeddings", "32768", "bos_token_id", "151643",
                           "eos_token_id", "151645", "rope_theta", "1000000.0", NULL));
    for (size_t i = 0; i < countof(names); i++) {
        char from[PATH_MAX];
        cr_assert(realpath(arena_printf(&env.model, "%s/%s", shared, names[i]), from));
        const char *to = arena_printf(&env.model, "%s/q/%s", dir.path, names[i]);
        cr_assert_eq(symlink(from, to), 0);
    }
    const char *model = arena_printf(&env.model, "%s/qwen", dir.path);
    Talked t = TALK(&env, NULL, "synth", arena_printf(&env.model, "%s/q", dir.path), model);
    cr_assert_eq(t.status, 0, "%s", t.told);
    return model;
}

Test(cli_chat, qwen2_5_with_its_own_tokenizer_and_template)
{
    char shared[PATH_MAX];
    need_shared("data/qwen2.5", shared);
    const char *model = qwen2_5_folder(shared);
    Talked t =
        TALK(&env, "Hello there\nWhat is 2+2?\n", "chat", "-m", model, "--max-tokens", "10");
    tells(t, "[Qwen2.5 template, system prompt: You are Qwen, created by Alibaba Cloud. You "
             "are a helpful "
             "assistant.]\n");
    tells(t, "[temperature 0.7, top_k 20, top_p 0.8, repetition_penalty 1.1 "
             "(generation_config.json); seed 1; ");
    cr_expect_eq(n_fed(t.told, 0), 31);
    cr_expect_eq(n_fed(t.told, 1), 18);
    t = TALK(&env, NULL, "run", "-m", model, "What is 2+2?", "--max-tokens", "5");
    tells(t, "[greedy; seed 1]\n[36 prompt tokens, ");
}
