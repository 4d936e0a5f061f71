/* run_cc.c - finding the C compiler: where, which words, which flags, what is remembered,
 * and what is said where there is none or it does not work. Made-up compilers are small
 * shell scripts. */
#include "tests/fault.h"
#include "tests/run_util.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has_flag(const Toolchain *tc, const char *flag)
{
    for (int i = 0; i < tc->n_flags; i++) {
        if (strcmp(tc->flags[i], flag) == 0) {
            return true;
        }
    }
    return false;
}

static int programs_run(Workshop *w)
{
    fault_arm("spawn", 0, false, 0);
    must_work(&w->e, find_compiler, w);
    int n = fault_calls("spawn");
    fault_disarm();
    return n;
}

static void put_on_path(Workshop *w)
{
    setenv("PATH", arena_printf(&w->e.model, "%s/bin:%s", w->dir.path, getenv("PATH")), 1);
}

static Workshop w;

static void setup(void)
{
    workshop_init(&w);
}

static void teardown(void)
{
    workshop_release(&w);
}

TestSuite(run_cc, .init = setup, .fini = teardown);

Test(run_cc, usual_compiler_is_found_with_its_version_and_flags)
{
    must_work(&w.e, find_compiler, &w);
    cr_assert_eq(w.tc.path[0], '/');
    cr_assert_str_eq(w.tc.argv[0], w.tc.path);
    cr_assert_eq(w.tc.n_argv, 1);
    cr_assert_gt(strlen(w.tc.version), 3);
    cr_assert_not(strchr(w.tc.version, '\n'));
    cr_assert(has_flag(&w.tc, "-march=native"));
    for (int i = 0; emit_flags[i]; i++) {
        cr_assert(has_flag(&w.tc, emit_flags[i]), "%s", emit_flags[i]);
    }
}

Test(run_cc, words_of_cc_are_split_at_blanks)
{
    setenv("CC", "  env \t gcc  -g0 ", 1);
    must_work(&w.e, find_compiler, &w);
    cr_assert_eq(w.tc.n_argv, 3);
    cr_assert(strstr(w.tc.argv[0], "/env"));
    cr_assert_str_eq(w.tc.argv[1], "gcc");
    cr_assert_str_eq(w.tc.argv[2], "-g0");
    assert_kernels_run(&w);
}

Test(run_cc, path_with_blanks_is_one_word)
{
    const char *path = script(&w, "my gcc", "exec gcc \"$@\"");
    setenv("CC", path, 1);
    must_work(&w.e, find_compiler, &w);
    cr_assert_eq(w.tc.n_argv, 1);
    cr_assert_str_eq(w.tc.path, path);
    assert_kernels_run(&w);
}

Test(run_cc, blank_cc_counts_as_unset)
{
    setenv("CC", "  ", 1);
    must_work(&w.e, find_compiler, &w);
    cr_assert(strstr(w.tc.path, "/gcc"));
}

Test(run_cc, first_of_gcc_clang_cc_on_path_is_taken)
{
    const char *real = getenv("PATH");
    script(&w, "cc", arena_printf(&w.e.model, "PATH=%s exec gcc \"$@\"", real));
    setenv("PATH", arena_printf(&w.e.model, "%s/bin", w.dir.path), 1);
    must_work(&w.e, find_compiler, &w);
    cr_assert_str_eq(w.tc.path, temp_path(&w.dir, "bin/cc"));
    script(&w, "clang", arena_printf(&w.e.model, "PATH=%s exec gcc \"$@\"", real));
    must_work(&w.e, find_compiler, &w);
    cr_assert_str_eq(w.tc.path, temp_path(&w.dir, "bin/clang"));
}

Test(run_cc, file_that_cannot_be_run_is_passed_over)
{
    chmod(script(&w, "gcc", "exit 1"), 0644);
    put_on_path(&w);
    must_work(&w.e, find_compiler, &w);
    cr_assert_str_neq(w.tc.path, temp_path(&w.dir, "bin/gcc"));
}

Test(run_cc, child_speaks_the_language_c)
{
    setenv("LC_MESSAGES", "de_DE.UTF-8", 1);
    setenv("LANGUAGE", "de", 1);
    setenv("LANG", "de_DE.UTF-8", 1);
    must_work(&w.e, find_compiler, &w);
    int n_all = 0;
    for (char *const *v = w.tc.env; *v; v++) {
        cr_assert(strncmp(*v, "LANG", 4) != 0 && strncmp(*v, "LC_M", 4) != 0, "%s", *v);
        n_all += strcmp(*v, "LC_ALL=C") == 0;
    }
    cr_assert_eq(n_all, 1);
}

/* ---- what is remembered ----------------------------------------------------------------- */

Test(run_cc, second_start_runs_no_program)
{
    cr_assert_eq(programs_run(&w), 2); /* --version and the probe */
    Toolchain first = w.tc;
    cr_assert_eq(programs_run(&w), 0);
    cr_assert_str_eq(w.tc.version, first.version);
    cr_assert_eq(w.tc.n_flags, first.n_flags);
    cr_assert(hash_eq(w.tc.identity, first.identity));
}

Test(run_cc, changed_compiler_is_probed_again)
{
    script_as_cc(&w, "exec gcc \"$@\"");
    cr_assert_eq(programs_run(&w), 2);
    cr_assert_eq(programs_run(&w), 0);
    script_as_cc(&w, "exec gcc -g0 \"$@\"");
    cr_assert_eq(programs_run(&w), 2);
}

Test(run_cc, damaged_memory_is_not_believed)
{
    cr_assert_eq(programs_run(&w), 2);
    const char *kept = only_file(&w, arena_printf(&w.e.model, "%s/cc", w.cache_dir));
    char *text = read_text(&w.e, kept);
    text[0] ^= 1; /* another row of the table of flags */
    write_text(kept, text);
    cr_assert_eq(programs_run(&w), 2);
    cr_assert_eq(programs_run(&w), 0);
}

Test(run_cc, without_any_cache_directory_it_is_still_found)
{
    unsetenv("NANOCOMPILE_CACHE");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    must_work(&w.e, find_compiler, &w);
    cr_assert_eq(programs_run(&w), 2);
}

Test(run_cc, identity_tells_compilers_and_words_apart)
{
    setenv("CC", "gcc", 1);
    must_work(&w.e, find_compiler, &w);
    Hash plain = w.tc.identity;
    setenv("CC", "gcc -g0", 1);
    must_work(&w.e, find_compiler, &w);
    cr_assert_not(hash_eq(plain, w.tc.identity));
    script_as_cc(&w, "exec gcc \"$@\"");
    must_work(&w.e, find_compiler, &w);
    cr_assert_not(hash_eq(plain, w.tc.identity));
    setenv("CC", "gcc", 1);
    must_work(&w.e, find_compiler, &w);
    cr_assert(hash_eq(plain, w.tc.identity));
}

/* ---- flags ------------------------------------------------------------------------------ */

Test(run_cc, compiler_without_march_native_is_used_without_it)
{
    script_as_cc(
        &w,
        "for a; do case $a in -march=*) echo \"cc: error: no $a\" >&2; exit 1;; esac; done\n"
        "exec gcc \"$@\"");
    must_work(&w.e, find_compiler, &w);
    for (int i = 0; i < w.tc.n_flags; i++) {
        cr_assert(strncmp(w.tc.flags[i], "-march", 6) != 0);
    }
    assert_kernels_run(&w);
}

/* An assembler older than the compiler. */
Test(run_cc, instructions_that_only_the_assembler_refuses_are_switched_off)
{
    Machine m;
    machine_read(&w.e, "", &m);
    if (!m.feature[FEAT_AVXVNNI] && !m.feature[FEAT_AVX512VNNI]) {
        cr_skip_test("this machine has no vpdpbusd");
    }
    script(&w, "as",
           "t=$(mktemp); cat >$t\n"
           "if grep -q vpdpbusd $t; then rm $t; echo 'Error: vpdpbusd' >&2; exit 1; fi\n"
           "as \"$@\" $t; r=$?; rm $t; exit $r");
    setenv("CC", arena_printf(&w.e.model, "gcc -B%s/bin/", w.dir.path), 1);
    must_work(&w.e, find_compiler, &w);
    cr_assert(has_flag(&w.tc, "-march=native"));
    cr_assert(has_flag(&w.tc, "-mno-avxvnni"));
    assert_kernels_run(&w);
}

Test(run_cc, masked_machine_is_not_compiled_for_natively)
{
    setenv("NANOCOMPILE_CPU", "generic", 1);
    must_work(&w.e, find_compiler, &w);
    cr_assert_not(has_flag(&w.tc, "-march=native"));
    Hash generic = w.tc.identity;
    unsetenv("NANOCOMPILE_CPU");
    must_work(&w.e, find_compiler, &w);
    cr_assert_not(hash_eq(generic, w.tc.identity));
}

/* ---- what goes wrong -------------------------------------------------------------------- */

Test(run_cc, no_compiler_at_all)
{
    setenv("PATH", w.dir.path, 1);
    must_fail(
        &w.e, find_compiler, &w, E_BUILD,
        "No C compiler was found: gcc, clang and cc are not in PATH; install gcc or set CC.");
}

Test(run_cc, cc_names_nothing)
{
    setenv("CC", "no-such-compiler -O1", 1);
    must_fail(&w.e, find_compiler, &w, E_BUILD,
              "The C compiler \"no-such-compiler -O1\" that CC names");
}

Test(run_cc, cc_fails)
{
    setenv("CC", "/bin/false", 1);
    must_fail(&w.e, find_compiler, &w, E_BUILD,
              "The C compiler /bin/false failed with exit status 1");
    assert_no_leftovers(&w);
}

Test(run_cc, cc_does_nothing)
{
    setenv("CC", "/bin/true", 1);
    must_fail(&w.e, find_compiler, &w, E_BUILD, "The C compiler /bin/true wrote no file");
}

Test(run_cc, cc_dies_of_a_signal)
{
    script_as_cc(&w, "kill -SEGV $$");
    must_fail(&w.e, find_compiler, &w, E_BUILD, "was killed by signal 11");
}

Test(run_cc, cc_is_no_program)
{
    setenv("CC", script(&w, "broken", ""), 1);
    write_text(getenv("CC"), "\177ELF, but not really");
    must_fail(&w.e, find_compiler, &w, E_BUILD, "could not be started: Exec format error");
}

Test(run_cc, first_line_with_an_error_is_quoted)
{
    script_as_cc(&w, "[ \"$1\" = --version ] && exec echo 'mycc 1.0'\n"
                     "echo 'mycc: note: hello'; echo 'x.c:1: error: the one to read'; echo "
                     "'error: 2'; exit 3");
    must_fail(&w.e, find_compiler, &w, E_BUILD,
              "failed with exit status 3 on a small test file: x.c:1: error: the one to read; "
              "set CC");
}

Test(run_cc, cc_hangs, .timeout = 20)
{
    int before = open_descriptors();
    setenv("NANOCOMPILE_CC_TIMEOUT", "0.2", 1);
    script_as_cc(&w, "sleep 1000 & sleep 1000");
    must_fail(&w.e, find_compiler, &w, E_BUILD,
              "did not finish within 0.2 seconds and was stopped");
    cr_assert_eq(open_descriptors(), before);
}

Test(run_cc, cc_closes_its_output_and_hangs, .timeout = 20)
{
    setenv("NANOCOMPILE_CC_TIMEOUT", "0.2", 1);
    script_as_cc(&w, "exec >/dev/null 2>&1; sleep 1000");
    must_fail(&w.e, find_compiler, &w, E_BUILD,
              "did not finish within 0.2 seconds and was stopped");
}

Test(run_cc, cc_prints_a_gigabyte, .timeout = 60)
{
    script_as_cc(&w, "yes 'error: so much to say' | head -c 1073741824; exit 1");
    must_fail(&w.e, find_compiler, &w, E_BUILD,
              "failed with exit status 1 on --version: error: so much");
}

static bool try_find(void *ctx, Err *err)
{
    (void)ctx;
    Env e; /* fresh: one that has memory asks for none */
    env_init(&e);
    bool ok = env_try(&e, find_compiler, &w);
    *err = e.err;
    env_release(&e);
    return ok;
}

Test(run_cc, every_failing_call_ends_in_one_error_or_none, .timeout = 120)
{
    static const char *const calls[] = {"open", "read",  "write", "rename", "mkdtemp", "pipe",
                                        "poll", "spawn", "stat",  "alloc",  "close"};
    script_as_cc(&w, "[ \"$1\" = --version ] && exec echo 'mycc 1.0'\n"
                     "while [ \"$1\" != -o ]; do shift; done; echo >\"$2\"");
    unsetenv("NANOCOMPILE_CACHE");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME"); /* nothing is remembered: each run does the whole work */
    for (size_t i = 0; i < countof(calls); i++) {
        cr_expect_gt(fault_loop(calls[i], try_find, NULL), 0, "%s", calls[i]);
    }
}
