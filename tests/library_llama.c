/* library_llama.c - `nanocompile bench --vs-llama`: a program that answers as llama-bench does takes turns with a
 * built library, is asked for the same work, and whatever it says instead of a rate is one
 * sentence. No time of ours is asserted. */
#include <string.h>
#include <sys/stat.h>

#include "tests/cli_util.h"
#include "tests/env_fixture.h"

#define TINY "tests/data/tiny-qwen2"

static TempDir dir;
static const char *so, *asked;

/* Answers with `answer`, in sh, and notes what it was asked. */
static void play(const char *answer)
{
    const char *path = temp_path(&dir, "llama-bench");
    write_text(path,
               arena_printf(&env.model, "#!/bin/sh\necho \"$@\" >> %s\n%s\n", asked, answer));
    cr_assert_eq(chmod(path, 0755), 0);
    setenv("LLAMA_BENCH", path, 1);
}

static void start_llama(void)
{
    start();
    dir = temp_dir();
    const char *out = arena_printf(&env.model, "%s/tiny", dir.path);
    shows(NC(&env, "build", "--model", TINY, "-o", out, "--no-db"), "3 programs");
    so = arena_printf(&env.model, "%s/model.so", out);
    asked = arena_str(&env.model, temp_path(&dir, "asked"));
}

static void stop_llama(void)
{
    unsetenv("LLAMA_BENCH");
    temp_remove(&dir);
    stop();
}

TestSuite(library_llama, .init = start_llama, .fini = stop_llama, .timeout = 300);

Test(library_llama, both_do_the_same_work_in_turns)
{
    play("echo '[warning: words] on stderr' >&2\n"
         "echo '[ { \"n_prompt\": 64, \"avg_ts\": 0.5, \"stddev_ts\": 0 } ]'");
    Ran r = NC(&env, "bench", "--lib", so, "--vs-llama", "x.gguf", "--blocks", "2", "--threads",
               "1", "--format", "csv");
    cr_assert_eq(r.status, 0, "%s", r.out);
    cr_expect(strstr(r.out, "\nprefill 64,"), "%s", r.out);
    cr_expect(strstr(r.out, ",0.50,0.50,0.50,"), "%s", r.out);
    cr_expect(strstr(r.out, ",2 of 2,0.5"), "%s", r.out);
    const char *words = read_text(&env, asked);
    cr_expect_eq(how_often(words, "-m x.gguf -t 1 "), 2 * 4, "%s",
                 words); /* decode at 512 does not fit its context */
    cr_expect(strstr(words, "-p 128 -n 0 -d 0 -r 1 -o json"), "%s", words);
    cr_expect(strstr(words, "-p 0 -n 32 -d 16 -r 1 -o json"), "%s", words);
}

Test(library_llama, what_gives_no_rate_is_one_sentence)
{
    refused(NC(&env, "bench", "--lib", so, "--vs-llama", "x.gguf"), 1, "it names none");
    setenv("LLAMA_BENCH", "/nowhere/llama-bench", 1);
    refused(NC(&env, "bench", "--lib", so, "--vs-llama", "x.gguf"), 1, "$LLAMA_BENCH: ");
    play("echo 'error: failed to load model' >&2; exit 3");
    refused(NC(&env, "bench", "--lib", so, "--vs-llama", "x.gguf"), 1,
            "no rate (exit status 3): error: failed to load model");
    play("echo '[ { \"avg_ts\": \"fast\" } ]'");
    refused(NC(&env, "bench", "--lib", so, "--vs-llama", "x.gguf"), 1,
            "no rate (exit status 0)");
    refused(NC(&env, "bench", "--vs-llama", "x.gguf"), 2, "go with --lib or a model alone");
    refused(NC(&env, "bench", "--lib", so, "--vs", so, "--vs-llama", "x"), 2, "one of --vs");
}
