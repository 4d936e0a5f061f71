/* run_cache.c - the object cache: built once, found again, noticed when damaged, safe between
 * processes, and nothing half-written whatever happens. */
#include "tests/fault.h"
#include "tests/run_util.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static Workshop w;

static void setup(void)
{
    workshop_init(&w);
}

static void teardown(void)
{
    workshop_release(&w);
}

TestSuite(run_cache, .init = setup, .fini = teardown);

static const char *in_cache(const char *name)
{
    return arena_printf(&w.e.model, "%s/%s", w.cache_dir, name);
}

static void assert_counts(int hits, int built, int quarantined)
{
    cr_assert_eq(w.cache.n_hits, hits, "%d hits, not %d", w.cache.n_hits, hits);
    cr_assert_eq(w.cache.n_built, built, "%d built, not %d", w.cache.n_built, built);
    cr_assert_eq(w.cache.n_quarantined, quarantined, "%d quarantined", w.cache.n_quarantined);
}

/* ---- built once ------------------------------------------------------------------------- */

Test(run_cache, kernels_are_built_once_and_then_found_without_running_a_program)
{
    assert_kernels_run(&w);
    assert_counts(0, 2, 0);
    fault_arm("spawn", 0, false, 0);
    assert_kernels_run(&w);
    int spawned = fault_calls("spawn");
    fault_disarm();
    assert_counts(2, 0, 0);
    cr_assert_eq(spawned, 0);
    cr_assert_eq(folder_entries(in_cache("obj")), 2 * N_KERNELS); /* .c and .o */
    cr_assert_eq(folder_entries(in_cache("lib")), 1);
    assert_no_leftovers(&w);
}

Test(run_cache, c_text_stays_beside_the_object)
{
    must_work(&w.e, build_objects, &w);
    for (int i = 0; i < N_KERNELS; i++) {
        const char *object = w.object[i];
        size_t len = strlen(object);
        cr_assert_str_eq(object + len - 2, ".o");
        cr_assert_eq(len, strlen(w.cache_dir) + strlen("/obj/.o") + 32);
        Buf text;
        buf_init(&text, &w.e.model);
        emit_kernel(&w.e, some_kernels(&w.e)[i], target_generic(), &text);
        char *c = arena_str(&w.e.model, object);
        c[len - 1] = 'c';
        cr_assert_str_eq(read_text(&w.e, c), text.at);
    }
}

Test(run_cache, another_compiler_means_other_objects)
{
    must_work(&w.e, build_objects, &w);
    setenv("CC", "gcc -g0", 1);
    must_work(&w.e, build_objects, &w);
    assert_counts(0, 2, 0);
    cr_assert_eq(folder_entries(in_cache("obj")), 2 * 2 * N_KERNELS);
}

Test(run_cache, directory_comes_from_the_first_variable_that_is_set)
{
    static const struct {
        const char *variable, *below;
    } places[] = {{"HOME", "/.cache/nanocompile"},
                  {"XDG_CACHE_HOME", "/nanocompile"},
                  {"NANOCOMPILE_CACHE", ""}};
    unsetenv("NANOCOMPILE_CACHE");
    unsetenv("XDG_CACHE_HOME");
    for (size_t i = 0; i < countof(places); i++) {
        const char *value = arena_printf(&w.e.model, "%s/%s", w.dir.path, places[i].variable);
        setenv(places[i].variable, value, 1);
        must_work(&w.e, build_objects, &w);
        cr_assert_str_eq(w.cache.dir, arena_printf(&w.e.model, "%s%s", value, places[i].below));
        assert_counts(0, 2, 0);
    }
}

/* ---- damage ----------------------------------------------------------------------------- */

static char *file_bytes(const char *path, size_t *len)
{
    char *text;
    Err err;
    cr_assert(os_read_file(&w.e.model, path, 1u << 30, &text, len, &err), "%s", err.text);
    return text;
}

static void write_bytes(const char *path, const char *p, size_t len)
{
    Err err;
    cr_assert(os_write_file(path, p, len, &err), "%s", err.text);
}

static void flip_in_the_middle(char *p, size_t *len)
{
    p[*len / 2] ^= 0x40;
}

static void flip_at_the_end(char *p, size_t *len)
{
    p[*len - 2] ^= 1;
}

static void cut_in_half(char *p, size_t *len)
{
    (void)p;
    *len /= 2;
}

static void empty(char *p, size_t *len)
{
    (void)p;
    *len = 0;
}

static void (*const damages[])(char *p, size_t *len) = {flip_in_the_middle, flip_at_the_end,
                                                        cut_in_half, empty};

Test(run_cache, damaged_object_is_set_aside_and_built_again)
{
    must_work(&w.e, build_objects, &w);
    const char *object = w.object[1], *bad = arena_printf(&w.e.model, "%s.bad", object);
    size_t len, again_len;
    const char *whole = file_bytes(object, &len);
    for (size_t i = 0; i < countof(damages); i++) {
        size_t broken_len = len;
        char *broken = arena_dup(&w.e.model, whole, len);
        damages[i](broken, &broken_len);
        write_bytes(object, broken, broken_len);
        must_work(&w.e, build_objects, &w);
        assert_counts(1, 1, 1);
        const char *again = file_bytes(object, &again_len);
        cr_assert(again_len == len && memcmp(again, whole, len) == 0);
        cr_assert_eq(access(bad, F_OK), 0);
    }
    assert_kernels_run(&w);
}

Test(run_cache, whole_object_under_a_wrong_name_is_noticed)
{
    must_work(&w.e, build_objects, &w);
    size_t len;
    const char *other = file_bytes(w.object[0], &len);
    write_bytes(w.object[1], other, len);
    must_work(&w.e, build_objects, &w);
    assert_counts(1, 1, 1);
    assert_kernels_run(&w);
}

Test(run_cache, damaged_library_is_set_aside_and_linked_again)
{
    must_work(&w.e, build_library, &w);
    const char *library = w.library, *bad = arena_printf(&w.e.model, "%s.bad", library);
    size_t len;
    const char *whole = file_bytes(library, &len);
    for (size_t i = 0; i < countof(damages); i++) {
        size_t broken_len = len;
        char *broken = arena_dup(&w.e.model, whole, len);
        damages[i](broken, &broken_len);
        write_bytes(library, broken, broken_len);
        assert_kernels_run(&w);
        assert_counts(2, 0, 1);
        cr_assert_eq(access(bad, F_OK), 0);
    }
}

Test(run_cache, folder_in_an_objects_place_is_set_aside)
{
    must_work(&w.e, build_objects, &w);
    unlink(w.object[0]);
    cr_assert_eq(mkdir(w.object[0], 0777), 0);
    must_work(&w.e, build_objects, &w);
    assert_counts(1, 1, 1);
}

/* ---- several processes ------------------------------------------------------------------ */

Test(run_cache, processes_that_build_the_same_kernels_at_once_do_not_disturb_each_other)
{
    enum { N = 4 };
    pid_t pid[N];
    for (int i = 0; i < N; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            _exit(env_try(&w.e, load_library, &w) ? 0 : 1);
        }
    }
    for (int i = 0; i < N; i++) {
        int status;
        waitpid(pid[i], &status, 0);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_kernels_run(&w);
    assert_counts(2, 0, 0);
    cr_assert_eq(folder_entries(in_cache("obj")), 2 * N_KERNELS);
    assert_no_leftovers(&w);
}

/* ---- failing and interrupted builds ----------------------------------------------------- */

/* Links and says its version, but compiles kernels as text says. */
static void compile_as(const char *text)
{
    script_as_cc(&w,
                 arena_printf(&w.e.model,
                              "case \" $* \" in *' -c '*) %s;; esac; exec gcc \"$@\"", text));
}

Test(run_cache, failing_compiler_is_quoted_and_its_words_are_kept)
{
    compile_as("echo 'k.c: In function'; echo 'k.c:3: error: no such thing'; exit 4");
    must_fail(&w.e, build_objects, &w, E_BUILD, "failed with exit status 4 on kernel nc_");
    cr_assert(strstr(w.e.err.text, ": k.c:3: error: no such thing; all that it said is in "));
    const char *log = strstr(w.e.err.text, w.cache_dir);
    cr_assert(log);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.*s", (int)strcspn(log, " ") - 1, log);
    cr_assert_str_eq(read_text(&w.e, path), "k.c: In function\nk.c:3: error: no such thing\n");
    cr_assert_eq(folder_entries(in_cache("obj")), N_KERNELS + 1); /* C and log, no object */
    assert_no_leftovers(&w);
}

Test(run_cache, compiler_that_writes_nothing)
{
    compile_as("exit 0");
    must_fail(&w.e, build_objects, &w, E_BUILD, "succeeded but wrote no file on kernel nc_");
    assert_no_leftovers(&w);
}

Test(run_cache, compiler_that_hangs_is_stopped, .timeout = 20)
{
    int before = open_descriptors();
    must_work(&w.e, find_compiler, &w);
    setenv("NANOCOMPILE_CC_TIMEOUT", "0.3", 1);
    compile_as("sleep 1000");
    must_fail(&w.e, build_objects, &w, E_BUILD,
              "did not finish within 0.3 seconds and was stopped");
    cr_assert_eq(open_descriptors(), before);
    assert_no_leftovers(&w);
}

static void build_interrupted(Env *e, void *arg)
{
    static const volatile int stop = 1;
    (void)arg;
    const char *object[N_KERNELS];
    cache_open(e, &w.cache, NULL);
    w.cache.stop = &stop;
    cache_objects(e, &w.cache, &w.tc, some_kernels(e), N_KERNELS, 2, object);
}

Test(run_cache, interrupted_build_leaves_no_object)
{
    must_work(&w.e, find_compiler, &w);
    must_fail(&w.e, build_interrupted, NULL, E_INTERRUPT, "Compiling was interrupted.");
    cr_assert_eq(folder_entries(in_cache("obj")), N_KERNELS); /* only the C */
    assert_no_leftovers(&w);
}

/* Killed without a chance to tidy up: the next build finds no half-written file. */
Test(run_cache, killed_builder_does_no_harm)
{
    TempDir cache;
    snprintf(cache.path, sizeof cache.path, "%.50s/cache", w.dir.path);
    must_work(&w.e, find_compiler, &w);
    for (int ms = 5; ms <= 85; ms += 20) {
        pid_t pid = fork();
        if (pid == 0) {
            _exit(env_try(&w.e, build_library, &w) ? 0 : 1);
        }
        usleep((useconds_t)ms * 1000);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        assert_kernels_run(&w);
        assert_counts(w.cache.n_hits, N_KERNELS - w.cache.n_hits, 0);
        temp_remove(&cache);
    }
}

/* ---- names ------------------------------------------------------------------------------ */

Test(run_cache, directories_of_any_name_work, .timeout = 120)
{
    static const char *const names[] = {
        "a b",     "it's",        "quo\"te",          "new\nline",
        "-dash",   "?#%",         "$HOME;touch oops", "@file",
        "*",       "back\\slash", "a,b=c:d",          "na\xc3\xafve-\xe6\xa8\xa1",
        "\xff\xfe"};
    for (size_t i = 0; i < countof(names); i++) {
        const char *dir = arena_printf(&w.e.model, "%s/%s", w.dir.path, names[i]);
        cr_assert_eq(mkdir(dir, 0777), 0);
        if (!strpbrk(names[i], ",:")) { /* there gcc's own linker plugin leaves a file behind */
            setenv("TMPDIR", dir, 1);
        }
        setenv("NANOCOMPILE_CACHE", arena_printf(&w.e.model, "%s/cache", dir), 1);
        assert_kernels_run(&w);
        assert_counts(0, 2, 0);
        cr_assert_eq(folder_entries(dir), 1, "more than the cache is in %s", dir);
    }
}

Test(run_cache, relative_directory_that_looks_like_an_option)
{
    cr_assert_eq(chdir(w.dir.path), 0);
    setenv("NANOCOMPILE_CACHE", "-o", 1);
    assert_kernels_run(&w);
    cr_assert_str_eq(w.cache.dir, "./-o");
    cr_assert_eq(folder_entries("./-o/lib"), 1);
}

/* ---- what is built ---------------------------------------------------------------------- */

static const char *readelf(const char *what, const char *path)
{
    char *argv[] = {"readelf", (char *)(uintptr_t)what, "-W", (char *)(uintptr_t)path, NULL};
    Buf out;
    int status;
    Err err;
    buf_init(&out, &w.e.model);
    if (!os_run(argv, NULL, 10000, 1u << 20, &out, &status, &err)) {
        cr_skip_test("%s", err.text);
    }
    cr_assert_eq(status, 0, "%s", out.at);
    return out.at;
}

static const char *line_with(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    cr_assert(at, "no %s in: %s", word, text);
    return arena_strn(&w.e.model, at, strcspn(at, "\n"));
}

static void assert_hardened(void)
{
    must_work(&w.e, build_library, &w);
    const char *segments = readelf("-l", w.library);
    const char *stack = line_with(segments, "GNU_STACK");
    cr_assert(strstr(stack, " RW ") && !strstr(stack, "RWE"), "%s", stack);
    cr_assert_not(strstr(segments, "RWE"), "%s", segments);
    cr_assert(strstr(segments, "R E"), "%s", segments); /* the code itself, in that notation */
    cr_assert_not(strstr(readelf("-d", w.library), "TEXTREL"));
    for (int i = 0; i < N_KERNELS; i++) {
        const char *note = line_with(readelf("-S", w.object[i]), ".note.GNU-stack");
        cr_assert_not(strstr(note, " X "), "%s", note);
    }
}

Test(run_cache, libraries_have_no_text_relocation_no_executable_stack_no_writable_code)
{
    assert_hardened();
}

Test(run_cache, so_do_those_of_clang)
{
    setenv("CC", "clang", 1);
    if (!env_try(&w.e, find_compiler, &w)) {
        cr_skip_test("%s", w.e.err.text);
    }
    assert_hardened();
    assert_kernels_run(&w);
}
