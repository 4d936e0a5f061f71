/* library_sanitized.c - a whole generation by a built library whose C, run time and kernels alike, is
 * compiled with sanitizers: prompts of several programs, single tokens, rows of logits, two and three
 * threads. The same tokens come out and nothing is reported; where threads do not meet behind a call that
 * others depend on, a race is. */
#include "schedules/schedules.h"
#include "tests/library_util.h"

#include <string.h>
#include <sys/wait.h>

TestSuite(library_sanitized, .timeout = 900);

static TestModel model;
static TestLibrary library;
static Picker defaults;
static TempDir dir;

static int count_spaces(const char *s)
{
    int n = 0;
    for (; *s; s++) {
        n += *s == ' ';
    }
    return n;
}

/* Feeds made-up ids and prints the greedy tokens behind each part. */
static const char driver_c[] =
    "#include \"model.h\"\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "static float rows[9 * 2048];\n"
    "static int best(const float *x)\n"
    "{ int b = 0; for (int i = 1; i < 2048; i++) { b = x[i] > x[b] ? i : b; } return b; }\n"
    "int main(int argc, char **argv)\n"
    "{\n"
    "    nc_error why;\n"
    "    const float *logits;\n"
    "    int32_t ids[128];\n"
    "    int n_bad = 0, at = 0;\n"
    "    nc_options o = {.n_threads = argc > 1 ? atoi(argv[1]) : 1};\n"
    "    nc_model *m = nc_open(&o, &why);\n"
    "    if (!m) { puts(why.text); return 1; }\n"
    "    for (int i = 0; i < 128; i++) { ids[i] = i * 37 % 2048; }\n"
    "    for (int n = 1; n <= 81; n += 40) {\n"
    "        n_bad += nc_prefill(m, at, ids, n, &logits, &why) != NC_OK, at += n;\n"
    "        for (int i = 0; i < 3; i++) {\n"
    "            printf(\"%d \", best(logits));\n"
    "            n_bad += nc_decode(m, at++, best(logits), &logits, &why) != NC_OK;\n"
    "        }\n"
    "    }\n"
    "    n_bad += nc_score(m, at, ids, 9, rows, &why) != NC_OK;\n"
    "    for (int i = 0; i < 9; i++) { printf(\"%d \", best(rows + i * 2048)); }\n"
    "    nc_close(m);\n"
    "    return n_bad;\n"
    "}\n";

static void start(void)
{
    test_model_open(&model, TINY);
    defaults = picker_default();
    library = (TestLibrary){.picker = &defaults, .context = 160};
    library_open_test(&library, &model);
    dir = temp_dir();
    library_write_test(&library, dir.path);
    write_text(temp_path(&dir, "driver.c"), driver_c);
}

static void stop(void)
{
    built_model_close(&library.built);
    test_model_close(&model);
    temp_remove(&dir);
}

static void compile_driver(const char *flags)
{
    library_compile_folder(&model.e, dir.path, "-o driver driver.c", flags);
}

/* What it prints, reports included. */
static const char *run_driver(int n_threads, int *status)
{
    return shell(
        &model.e, status,
        "ASAN_OPTIONS=exitcode=66 TSAN_OPTIONS=exitcode=66:halt_on_error=1 LD_LIBRARY_PATH=%s "
        "%s/driver %d 2>&1",
        dir.path, dir.path, n_threads);
}

static const char *plain_tokens(void)
{
    int status;
    const char *said =
        shell(&model.e, &status, "cd %s && gcc -o driver driver.c -L. -l:model.so", dir.path);
    cr_assert_eq(status, 0, "%s", said);
    const char *tokens = run_driver(2, &status);
    cr_assert_eq(status, 0, "%s", tokens);
    cr_assert_eq(count_spaces(tokens), 18, "%s", tokens);
    return tokens;
}

static void clean_with(const char *flags)
{
    const char *want = plain_tokens();
    compile_driver(flags);
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        int status;
        const char *got = run_driver(n_threads, &status);
        cr_assert_str_eq(got, want, "%d threads: %s", n_threads, got);
        cr_assert_eq(status, 0);
    }
}

Test(library_sanitized, addresses_and_undefined_behaviour, .init = start, .fini = stop)
{
    clean_with("-O0 -g -fsanitize=address,undefined -fno-sanitize-recover=all");
}

Test(library_sanitized, threads, .init = start, .fini = stop)
{
    clean_with("-O1 -g -fsanitize=thread");
}

/* All calls of a step are made one region; the last has no next. */
Test(library_sanitized, threads_that_do_not_meet_are_found, .init = start, .fini = stop)
{
    int status;
    shell(&model.e, &status,
          "cd %s && sed -i '/^static const NcCall/,/^$/s|, 0}, /[*]|, 1}, /*|' model.c && "
          "sed -zi 's|, 1}\\(, /[*][^\\n]*\\n    {0}};\\)|, 0}\\1|g' model.c",
          dir.path);
    cr_assert_eq(status, 0);
    compile_driver("-O1 -g -fsanitize=thread");
    const char *said = run_driver(2, &status);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 66, "%#x: %s", status, said);
    cr_assert(strstr(said, "data race"), "%s", said);
}
