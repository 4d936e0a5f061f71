/* cli_errors.c - what goes wrong around a compiler, met through the program: compilers that are missing or fail,
 * cache directories that are unwritable, full or noexec, damaged objects, odd paths, hostile graphs and
 * configs, absurd sizes. Each time one sentence with place and cause and exit status 1, nothing half-written. */
#include "tests/cli_util.h"
#include "tests/place_util.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static Env env;
static TempDir dir;
static const char *cache;

static void start(void)
{
    env_init(&env);
    dir = temp_dir();
    cache = arena_str(&env.model, temp_path(&dir, "cache"));
    setenv("NANOCOMPILE_CACHE", cache, 1);
}

static void stop(void)
{
    temp_remove(&dir);
    env_release(&env);
}

TestSuite(cli_errors, .init = start, .fini = stop, .timeout = 300);

#define SMALL "graph small\nx = input f32[seq, 4]\ny = neg x\nreturn y=y\n"

static const char *file(const char *name, const char *text)
{
    return file_in(&env, &dir, name, text);
}

static Ran eval_small(void)
{
    return NC(&env, "eval", file("small.ncg", SMALL));
}

static int refuse_temporary(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag;
    return strstr(path + ftw->base, "tmp") != NULL;
}

/* No scratch folder and no temporary file, anywhere in the test's folder. */
static void expect_nothing_half_written(void)
{
    cr_expect_eq(nftw(dir.path, refuse_temporary, 16, FTW_PHYS), 0,
                 "a temporary file was left in %s", dir.path);
}

static void eval_is_refused(const char *words)
{
    refused(eval_small(), 1, words);
    expect_nothing_half_written();
}

/* ---- the C compiler ---- */

static void use_compiler(const char *script)
{
    const char *path = file("bin/cc", arena_printf(&env.model, "#!/bin/sh\n%s\n", script));
    cr_assert_eq(chmod(path, 0755), 0);
    setenv("CC", path, 1);
}

Test(cli_errors, missing_compiler)
{
    setenv("CC", "/nowhere/cc", 1);
    eval_is_refused("/nowhere/cc");
    setenv("CC", "", 1);
    setenv("PATH", dir.path, 1);
    eval_is_refused("set CC");
}

Test(cli_errors, failing_compiler)
{
    use_compiler("echo 'out of sorts' >&2; exit 3");
    eval_is_refused("failed with exit status 3");
    use_compiler("kill -SEGV $$");
    eval_is_refused("signal");
    use_compiler("case \" $* \" in *\" -c \"*) echo 'k.c:1: error: no' >&2; exit 1;; esac; "
                 "exec gcc \"$@\"");
    eval_is_refused("k.c:1: error: no");
}

/* ---- the cache directory ---- */

Test(cli_errors, unwritable_cache_directory)
{
    cr_assert_eq(mkdir(cache, 0755), 0);
    const char *path = file("small.ncg", SMALL);
    cr_assert_eq(chmod(dir.path, 0755), 0);
    cr_assert_eq(chmod(cache, 0555), 0);
    drop_root();
    Ran r = NC(&env, "eval", path);
    regain_root();
    refused(r, 1, "Permission denied");
    cr_expect(strstr(r.out, cache) && strstr(r.out, "NANOCOMPILE_CACHE"), "%s", r.out);
    cr_expect_eq(folder_entries(cache), 0);
}

Test(cli_errors, cache_directory_that_is_a_file)
{
    write_text(cache, "in the way");
    eval_is_refused("Not a directory");
}

Test(cli_errors, full_cache_directory)
{
    mount_at(cache, 0, "size=12k");
    eval_is_refused("No space left on device");
    unmount(cache);
}

Test(cli_errors, noexec_cache_directory)
{
    mount_at(cache, MS_NOEXEC, "size=4m");
    Ran r = eval_small();
    refused(r, 1, "does not allow code to be run from it");
    cr_expect(strstr(r.out, cache) && strstr(r.out, "NANOCOMPILE_CACHE"), "%s", r.out);
    unmount(cache);
}

Test(cli_errors, full_output_directory)
{
    const char *out = arena_str(&env.model, temp_path(&dir, "out"));
    mount_at(out, 0, "size=8k");
    refused(NC(&env, "eval", file("small.ncg", SMALL), "--seq", "10000", "--out", out), 1,
            "No space left on device");
    cr_expect_eq(folder_entries(out), 0, "half an output was left");
    unmount(out);
}

static const char *damaged;

static int damage(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    const char *dot = strrchr(path + ftw->base, '.');
    if (flag == FTW_F && dot && !strcmp(dot, damaged)) {
        int fd = open(path, O_WRONLY);
        cr_assert_eq(pwrite(fd, "\xff\x00\xff", 3, st->st_size / 2), 3);
        close(fd);
    }
    return 0;
}

Test(cli_errors, damaged_cache_is_built_again)
{
    static const char *const kinds[] = {".o", ".so", ".c"};
    Ran first = eval_small();
    shows(first, "y: f32[1, 4]");
    for (size_t i = 0; i < countof(kinds); i++) {
        damaged = kinds[i];
        cr_assert_eq(nftw(cache, damage, 16, FTW_PHYS), 0);
        cr_expect_str_eq(eval_small().out, first.out, "after damage to *%s", kinds[i]);
    }
}

/* ---- paths ---- */

Test(cli_errors, odd_paths_are_only_paths)
{
    static const char *const names[] = {"a b",
                                        "quo'te\"",
                                        "new\nline",
                                        "-dash",
                                        "?#%41",
                                        "$HOME;touch oops",
                                        "na\xc3\xafve-\xe4\xb8\xad",
                                        "\xff\xfe"};
    for (size_t i = 0; i < countof(names); i++) {
        const char *odd = arena_str(&env.model, temp_path(&dir, names[i]));
        const char *out = arena_printf(&env.model, "%s/out", odd);
        setenv("NANOCOMPILE_CACHE", arena_printf(&env.model, "%s/cache", odd), 1);
        setenv("TMPDIR", odd, 1);
        const char *graph = file(arena_printf(&env.model, "%s/small.ncg", names[i]), SMALL);
        shows(NC(&env, "eval", "--out", out, graph), "");
        cr_expect_eq(folder_entries(out), 1);
        refused(NC(&env, "eval", arena_printf(&env.model, "%s/gone.ncg", odd)), 1, "gone.ncg");
    }
}

Test(cli_errors, outputs_stay_in_their_folder)
{
    const char *graph = file("up.ncg", "graph up\nx = input f32[2]\nreturn \"../up\"=x\n");
    refused(NC(&env, "eval", graph, "--out", temp_path(&dir, "out")), 1, "cannot name a file");
    cr_expect_eq(access(temp_path(&dir, "up.npy"), F_OK), -1);
}

Test(cli_errors, what_cannot_be_read)
{
    refused(NC(&env, "dump", "graph", "/dev/zero"), 1, "/dev/zero is larger than the limit");
    refused(NC(&env, "dump", "graph", "/dev/null"), 1, "/dev/null:1:1:");
    refused(NC(&env, "dump", "graph", "/proc/self/mem"), 1, "/proc/self/mem");
    refused(NC(&env, "dump", "graph", dir.path), 1, "config.json");
    refused(NC(&env, "eval", file("small.ncg", SMALL), "--input", "x=/dev/zero"), 1,
            "/dev/zero is larger than the limit");
}

Test(cli_errors, output_that_cannot_be_written)
{
    refused(run_by_shell(&env, "nanocompile", "exec \"$0\" dump c \"$1\" >/dev/full",
                         file("small.ncg", SMALL)),
            1, "standard output cannot be written");
}

/* ---- hostile graphs ---- */

static const char *repeated(const char *before, const char *what, int n, const char *after)
{
    Buf b;
    buf_init(&b, &env.model);
    buf_str(&b, before);
    for (int i = 0; i < n; i++) {
        buf_str(&b, what);
    }
    buf_str(&b, after);
    return b.at;
}

/* clang-format off */
#define MILLION 1000000
#define HEAD "graph g\nx = input f32[seq]\n"
#define TAIL "\nreturn y=y\n"

Test(cli_errors, hostile_graphs)
{
    const struct {
        const char *text, *line, *words;
    } rows[] = {
        {HEAD "y = input f32[9223372036854775807]" TAIL, ":3:", "more bytes than can be counted"},
        {HEAD "y = input f32[99999999999999999999]" TAIL, ":3:", "does not fit"},
        {HEAD "y = weight f32[4294967296, 4294967296]" TAIL, ":3:", "more bytes than can be counted"},
        {HEAD "y = input f32[-3]" TAIL, ":3:", "negative dimension"},
        {HEAD "y = reshape x shape=[-seq]" TAIL, ":3:", "-seq"},
        {HEAD "y = reshape x shape=[4294967296*4294967296*seq]" TAIL, ":3:", "does not fit 64 bits"},
        {HEAD "y = add x, z\nz = neg y" TAIL, ":3:", "z"},
        {HEAD "y = neg y" TAIL, ":3:", "y"},
        {HEAD "y = frob x" TAIL, ":3:", "frob"},
        {HEAD "y = const f32[1000000] 1" TAIL, ":3:", "1000000"},
        {repeated(HEAD "y = dim ", "(", MILLION, "seq" TAIL), ":3:", "deep"},
        {repeated(HEAD, "n", MILLION, " = neg x" TAIL), ":3:", "has 1000000 bytes; at most 256"},
        {repeated(HEAD "y = input \"", "n", MILLION, "\" f32[2]" TAIL), ":3:", "more than 256 bytes"},
        {repeated(HEAD "y = concat x", ", x", MILLION, " axis=0" TAIL), ":3:", "operands"},
        {repeated(HEAD "y = input f32[", "1, ", MILLION, "1]" TAIL), ":3:", "8"},
        {repeated(HEAD, "\n", MILLION, "?" TAIL), ":1000003:", "?"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        Ran r = NC(&env, "dump", "plan", file("hostile.ncg", rows[i].text));
        refused(r, 1, arena_printf(&env.model, "hostile.ncg%s", rows[i].line));
        cr_expect(strstr(r.out, rows[i].words), "row %zu: no '%s' in: %s", i, rows[i].words, r.out);
    }
}

/* ---- hostile configs ---- */

#define CONFIG(hidden, inter, layers, heads, kv, vocab)                                                     \
    "{\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\", \"hidden_act\": \"silu\",\n"      \
    "\"rms_norm_eps\": 1e-06, \"rope_theta\": 10000.0, \"tie_word_embeddings\": true,\n"                      \
    "\"hidden_size\": " hidden ", \"intermediate_size\": " inter ", \"num_hidden_layers\": " layers            \
    ", \"num_attention_heads\": " heads ", \"num_key_value_heads\": " kv ", \"vocab_size\": " vocab "}"

#define HUGE_INT "9223372036854775807"

Test(cli_errors, hostile_configs)
{
    const struct {
        const char *text, *words;
    } rows[] = {
        {CONFIG(HUGE_INT, "32", "2", "4", "2", "64"), "\"hidden_size\" is " HUGE_INT},
        {CONFIG("16", HUGE_INT, "2", "4", "2", "64"), "\"intermediate_size\" is " HUGE_INT},
        {CONFIG("16", "32", "1000000000", "4", "2", "64"), "\"num_hidden_layers\" is 1000000000"},
        {CONFIG("16", "32", "2", "4", "2", HUGE_INT), "\"vocab_size\" is " HUGE_INT},
        {CONFIG("-16", "32", "2", "4", "2", "64"), "\"hidden_size\" is -16"},
        {CONFIG("0", "32", "2", "4", "2", "64"), "\"hidden_size\" is 0"},
        {CONFIG("16.5", "32", "2", "4", "2", "64"), "\"hidden_size\" is 16.5"},
        {CONFIG("16", "32", "2", "4", "3", "64"), "num_key_value_heads"},
        {CONFIG("99999999999999999999", "32", "2", "4", "2", "64"), "config.json:3:"},
        {"{\"hidden_size\": 16", "config.json:1:"},
        {"\xff\xfe{}", "config.json:1:"},
        {"{}", "\"architectures\" is missing"},
        {repeated("", "[", MILLION, ""), "nests deeper"},
        {repeated("", "{\"a\":", MILLION / 2, ""), "nests deeper"},
        {repeated("", "{\"a\":", MILLION, ""), "larger than the limit"},
        {repeated("{\"", "n", MILLION, "\": 1}"), "\"architectures\" is missing"},
        {repeated("{\"architectures\": [\"", "n", MILLION, "\"]}"), "\"architectures\" is \"nnn"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        Ran r = NC(&env, "dump", "plan", file("config.json", rows[i].text));
        refused(r, 1, "config.json");
        cr_expect(strstr(r.out, rows[i].words), "row %zu: no '%s' in: %s", i, rows[i].words, r.out);
    }
}

/* clang-format on */

/* ---- absurd sizes ---- */

#define MOST "2147483647"
#define CUBE "graph cube\nx = input f32[seq, seq, seq]\ny = neg x\nz = exp y\nreturn z=z\n"

Test(cli_errors, absurd_sizes)
{
    static const char *const models[] = {"cube.ncg", "tests/data/qwen2.5/config.json"};
    file("cube.ncg", CUBE);
    for (size_t i = 0; i < countof(models); i++) {
        const char *path = i ? models[i] : temp_path(&dir, models[i]);
        static const char *const commands[][2] = {
            {"dump", "plan"}, {"dump", "traffic"}, {"eval", "--all"}};
        for (size_t k = 0; k < countof(commands); k++) {
            Ran r =
                NC(&env, commands[k][0], commands[k][1], path, "--seq", MOST, "--without=fuse");
            refused(r, 1, models[i]);
            cr_expect(strstr(r.out, "more than 2^40 elements with seq = " MOST), "%s", r.out);
            cr_expect(i || strstr(r.out, "(node %0, line 2)"), "%s", r.out);
            refused(NC(&env, commands[k][0], commands[k][1], path, "--seq", "2147483648"), 2,
                    "--seq takes a whole number");
        }
    }
}

/* Within the limit of each value, but more than any machine has. */
Test(cli_errors, sizes_beyond_the_memory_of_this_machine)
{
    const char *path = file("long.ncg", SMALL);
    Ran r = NC(&env, "eval", path, "--set", "seq=200000000000");
    refused(r, 2, "--set takes a whole number");
    path = file("wide.ncg", "graph wide\nx = input f32[seq, 500]\ny = neg x\nreturn y=y\n");
    r = NC(&env, "eval", path, "--seq", MOST);
    refused(r, 1, "wide.ncg");
    cr_expect(strstr(r.out, "bytes of memory"), "%s", r.out);
}
