/* run_errors.c - conditions of other people's machines: directories that cannot be written, are
 * full or mounted noexec, libraries that do not load, and every system call failing in turn.
 * Each must end in one sentence that says what to do, with nothing half-written. */
#include "tests/fault.h"
#include "tests/run_util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
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

TestSuite(run_errors, .init = setup, .fini = teardown);

static void assert_says(const Err *err, ErrCode code, const char *words)
{
    cr_assert_eq(err->code, code, "%s", err->text);
    cr_assert(strstr(err->text, words), "no \"%s\" in: %s", words, err->text);
}

static void assert_names_remedy(const Err *err)
{
    assert_says(err, E_IO, w.cache_dir);
    assert_says(err, E_IO, "set NANOCOMPILE_CACHE to another");
}

/* ---- directories that cannot be written ------------------------------------------------- */

Test(run_errors, unwritable_parent_of_the_cache_directory)
{
    Err err = as_other_user(&w, load_library);
    assert_says(&err, E_IO, "Permission denied");
    assert_names_remedy(&err);
}

Test(run_errors, unwritable_cache_directory)
{
    cr_assert_eq(mkdir(w.cache_dir, 0755), 0);
    cr_assert_eq(mkdir(temp_path(&w.dir, "cache/obj"), 0755), 0);
    cr_assert_eq(mkdir(temp_path(&w.dir, "cache/lib"), 0755), 0);
    if (geteuid() != 0) {
        cr_assert_eq(chmod(temp_path(&w.dir, "cache/obj"), 0555), 0);
    }
    Err err = as_other_user(&w, load_library);
    assert_says(&err, E_IO, "Permission denied");
    assert_names_remedy(&err);
    cr_assert_eq(folder_entries(temp_path(&w.dir, "cache/obj")), 0);
}

static void load_without_building(Env *e, void *workshop)
{
    load_library(e, workshop);
    if (w.cache.n_hits != N_KERNELS || w.cache.n_built != 0) {
        fail(e, E_ILLEGAL, "%d hits, %d built", w.cache.n_hits, w.cache.n_built);
    }
}

Test(run_errors, unwritable_cache_that_holds_everything_is_enough)
{
    assert_kernels_run(&w);
    Err err = as_other_user(&w, load_without_building);
    cr_assert_eq(err.code, E_OK, "%s", err.text);
}

Test(run_errors, file_in_the_place_of_the_cache_directory)
{
    write_text(w.cache_dir, "not a directory");
    must_fail(&w.e, load_library, &w, E_IO, "Not a directory");
    assert_names_remedy(&w.e.err);
}

static void open_cache(Env *e, void *arg)
{
    (void)arg;
    cache_open(e, &w.cache, NULL);
}

Test(run_errors, no_cache_directory_is_named_at_all)
{
    unsetenv("NANOCOMPILE_CACHE");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    must_fail(&w.e, open_cache, NULL, E_IO,
              "NANOCOMPILE_CACHE, XDG_CACHE_HOME and HOME are not set");
}

/* ---- full ------------------------------------------------------------------------------- */

Test(run_errors, full_file_system)
{
    static const char *const sizes[] = {"size=4k", "size=8k", "size=12k", "size=16k"};
    must_work(&w.e, find_compiler, &w);
    for (size_t i = 0; i < countof(sizes); i++) {
        w.cache_dir = arena_printf(&w.e.model, "%s/small%zu", w.dir.path, i);
        setenv("NANOCOMPILE_CACHE", w.cache_dir, 1);
        Err err = on_tmpfs(&w, 0, sizes[i], load_library);
        cr_assert_neq(err.code, E_OK, "it fits into %s", sizes[i]);
        cr_assert(strstr(err.text, "No space left on device"), "%s: %s", sizes[i], err.text);
        cr_assert(strstr(err.text, w.cache_dir), "%s: %s", sizes[i], err.text);
    }
}

static int n_writes;

static ssize_t full_write(int fd, const void *p, size_t n)
{
    if (--n_writes < 0) {
        errno = ENOSPC;
        return -1;
    }
    return os_system.write(fd, p, n);
}

/* The same without a mount, at each write of the build. */
Test(run_errors, full_at_any_write)
{
    must_work(&w.e, find_compiler, &w);
    os.write = full_write;
    int n = 0;
    for (bool ok = false; !ok; n++) {
        n_writes = n;
        ok = env_try(&w.e, load_library, &w);
        if (!ok) {
            assert_says(&w.e.err, E_IO, "No space left on device");
            assert_names_remedy(&w.e.err);
        }
        assert_no_leftovers(&w);
    }
    os.write = os_system.write;
    cr_assert_geq(n, 2 * N_KERNELS + 1); /* C and objects, the library */
    assert_kernels_run(&w);
}

/* ---- loading ---------------------------------------------------------------------------- */

Test(run_errors, noexec_cache_directory)
{
    Err err = on_tmpfs(&w, MS_NOEXEC, "size=4m", load_library);
    assert_says(&err, E_BUILD, w.cache_dir);
    assert_says(&err, E_BUILD, "does not allow code to be run from it");
    assert_says(&err, E_BUILD, "set NANOCOMPILE_CACHE to a directory that does");
}

static void load_given(Env *e, void *path)
{
    library_load(e, &w.lib, path, some_kernels(e), N_KERNELS);
}

Test(run_errors, library_that_is_none)
{
    const char *path = temp_path(&w.dir, "not.so");
    write_text(path,
               "This is no library, though it is long enough to be read as a header of one.");
    must_fail(&w.e, load_given, (void *)(uintptr_t)path, E_BUILD,
              "The library cannot be loaded: ");
    cr_assert(strstr(w.e.err.text, path) && strstr(w.e.err.text, "invalid ELF header"), "%s",
              w.e.err.text);
}

Test(run_errors, library_that_is_absent)
{
    must_fail(&w.e, load_given, "gone.so", E_BUILD, "gone.so: cannot open shared object file");
}

static void load_another_kernel(Env *e, void *path)
{
    Kernel *k = scale_kernel(e, 77);
    library_load(e, &w.lib, path, &k, 1);
}

Test(run_errors, library_that_lacks_a_kernel)
{
    must_work(&w.e, build_library, &w);
    must_fail(&w.e, load_another_kernel, (void *)(uintptr_t)w.library, E_BUILD,
              "lacks kernel nc_");
    cr_assert_null(w.lib.handle);
}

/* ---- every call ------------------------------------------------------------------------- */

/* Makes no code and no time is lost: a compiler that copies a finished file. */
static void copying_compiler(void)
{
    must_work(&w.e, build_library, &w);
    script_as_cc(&w,
                 arena_printf(&w.e.model,
                              "case \" $* \" in *--version*) echo 'mycc 1.0'; exit;;\n"
                              "*' -c '*) from=%s;; *) from=%s;; esac\n"
                              "while [ \"$1\" != -o ]; do shift; done; exec cp $from \"$2\"",
                              w.object[0], w.library));
}

/* In a new cache each time. No memory of the workshop's: its allocations may be the ones that
 * fail. */
static bool try_all(void *ctx, Err *err)
{
    static TempDir cache;
    (void)ctx;
    temp_remove(&cache);
    snprintf(cache.path, sizeof cache.path, "%.50s/try", w.dir.path);
    w.cache_dir = cache.path;
    setenv("NANOCOMPILE_CACHE", cache.path, 1);
    bool ok = env_try(&w.e, load_library, &w);
    *err = w.e.err;
    library_release(&w.lib);
    return ok;
}

static void fail_each(const char *call, int at_least)
{
    copying_compiler();
    int n = fault_loop(call, try_all, NULL);
    cr_assert_geq(n, at_least, "only %d faults", n);
    cr_assert(try_all(NULL, &w.e.err), "%s", w.e.err.text);
}

/* Criterion runs each as a process of its own, two at a time. */
/* clang-format off */
#define EACH_CALL(X)                                                                        \
    X(open, 10) X(read, 10) X(write, 6) X(close, 10) X(fsync, 6) X(stat, 10) X(rename, 6)   \
    X(mkdir, 4) X(mkdtemp, 3) X(unlink, 3) X(rmdir, 3) X(pipe, 5) X(poll, 5) X(spawn, 5)    \
    X(waitpid, 5) X(clock_gettime, 5) X(dlopen, 1) X(dlsym, 2) X(alloc, 1)
/* clang-format on */
#define X(call, at_least)                            \
    Test(run_errors, failing_##call, .timeout = 120) \
    {                                                \
        fail_each(#call, at_least);                  \
    }
EACH_CALL(X)
#undef X
