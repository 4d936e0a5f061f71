/* compile_faults.c - every call of the os table failing in turn, while a graph goes all the way from a file to
 * numbers and a config to a program: reading, parsing, passes, lowering, C, compiler, cache, link, load and
 * run. Each run ends in the right result or in one clear error, leaves no descriptor, mapping or library
 * behind, and a cache in which the next run finds nothing half-written. Leaks show under SAN=1. */
#include "tests/compile_util.h"
#include "tests/fault.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>

static const char text[] = "graph small\n"
                           "x = input f32[seq, 4]\n"
                           "w = weight f32[4, 3]\n"
                           "y = matmul x, w\n"
                           "z = neg y\n"
                           "top = reduce_max y axis=0\n"
                           "return z=z, top=top\n";

static float x[] = {1, -2, 3, 4, 0.5f, 6, -7, 8},
             w[] = {1, 2, -3, 4, 5, 6, 7, -8, 9, 10, 0.25f, 12};
static const float z_expected[] = {-54, 31, -60, -55.5f, -89, -67.5f},
                   top_expected[] = {55.5f, 89, 67.5f};

static TempDir dir;
static char graph_path[PATH_MAX], cache_path[PATH_MAX];

/* ---- the work ---- */

typedef struct Work {
    Library lib;
    Exec *exec;
} Work;

static void check_results(const Tensor *out)
{
    cr_assert_eq(memcmp(out[0].data, z_expected, sizeof z_expected), 0, "z is wrong");
    cr_assert_eq(memcmp(out[1].data, top_expected, sizeof top_expected), 0, "top is wrong");
}

static Graph *read_graph(Env *e)
{
    char *at;
    size_t len;
    Err err;
    if (!os_read_file(&e->model, graph_path, 1u << 20, &at, &len, &err)) {
        fail_err(e, &err);
    }
    return ncg_parse(e, at, len, graph_path);
}

static void file_to_numbers(Env *e, void *arg)
{
    Work *work = arg;
    Compile c = {.env = e};
    Err err;
    Tensor out[2];
    NamedTensor input = {"x", {DT_F32, 2, {2, 4}, x}}, weight = {"w", {DT_F32, 2, {4, 3}, w}};
    Args args = {&input, 1, &weight, 1};
    Program *p = compile_model(&c, read_graph(e));
    library_build(e, p, 2, NULL, &work->lib);
    work->exec = exec_new(e, c.graph, p, work->lib.fn);
    if (!exec_run(work->exec, &args, &e->model, out, &err)) {
        fail_err(e, &err);
    }
    check_results(out);
}

static void config_to_text(Env *e, void *arg)
{
    Compile c = {.env = e};
    Buf out;
    (void)arg;
    Config config = config_read(e, "tests/data/tiny-qwen2");
    Program *p = compile_model(&c, qwen2_build(e, &config, 1, true));
    buf_init(&out, &e->model);
    for (int i = 0; i < p->kernel.n; i++) {
        compile_kernel(&c, p->kernel.at[i], &out);
    }
    cr_assert_gt(out.len, 1000u);
}

static bool do_work(void (*body)(Env *e, void *arg), Err *err)
{
    Env e;
    Work work = {0};
    env_init(&e);
    bool ok = env_try(&e, body, &work);
    *err = e.err;
    exec_free(work.exec);
    library_release(&work.lib);
    env_release(&e);
    return ok;
}

/* ---- one run with a fault ---- */

typedef struct Faulty {
    const char *call;
    void (*body)(Env *e, void *arg);
} Faulty;

/* How often the call did what it says. */
static int done(const Faulty *f, const char *call)
{
    return fault_calls(call) - (strcmp(f->call, call) ? 0 : fault_hits());
}

/* Without a fault, in the cache as the fault left it. */
static void works_now(const Faulty *f)
{
    Err err;
    Os armed = os;
    os = os_system;
    cr_assert(do_work(f->body, &err), "after a failing %s: %s", f->call, err.text);
    os = armed;
}

static int refuse_bad(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return strstr(path, ".bad") != NULL;
}

static bool work_with_faults(void *ctx, Err *err)
{
    const Faulty *f = ctx;
    TempDir cache;
    snprintf(cache.path, sizeof cache.path, "%.50s/cache", dir.path);
    temp_remove(&cache);
    bool ok = do_work(f->body, err);
    cr_assert_eq(done(f, "mmap"), fault_calls("munmap"), "%s: a mapping is left", f->call);
    cr_assert_eq(done(f, "dlopen"), fault_calls("dlclose"), "%s: a library is left", f->call);
    cr_assert_null(strchr(err->text, '\n'), "%s: %s", f->call, err->text);
    works_now(f);
    /* A broken file would have been set aside by now. */
    cr_assert_neq(nftw(cache.path, refuse_bad, 16, FTW_PHYS), 1,
                  "%s: something was half-written", f->call);
    return ok;
}

/* ---- a compiler that takes no time: it copies what the real one made ---- */

static void build_once(Env *e, void *arg)
{
    Toolchain tc;
    Cache cache;
    Compile c = {.env = e};
    (void)arg;
    Program *p = compile_model(&c, read_graph(e));
    const char **object = arena_array(&e->model, const char *, p->kernel.n);
    toolchain_find(e, &tc);
    cache_open(e, &cache, arena_printf(&e->model, "%s/built", dir.path));
    cache_objects(e, &cache, &tc, p->kernel.at, p->kernel.n, 2, object);
    const char *library = cache_library(e, &cache, &tc, object, p->kernel.n);
    const char *cc = arena_str(&e->model, temp_path(&dir, "cc"));
    write_text(cc,
               arena_printf(&e->model,
                            "#!/bin/sh\n"
                            "case \" $* \" in *--version*) echo 'cc 1.0'; exit;;\n"
                            "*' -c '*) from=%s;; *) from=%s;; esac\n"
                            "while [ \"$1\" != -o ]; do shift; done; exec cp $from \"$2\"\n",
                            object[0], library));
    cr_assert_eq(chmod(cc, 0755), 0);
    setenv("CC", cc, 1);
}

static void start(void)
{
    Env e;
    dir = temp_dir();
    snprintf(graph_path, sizeof graph_path, "%s/small.ncg", dir.path);
    snprintf(cache_path, sizeof cache_path, "%s/cache", dir.path);
    write_text(graph_path, text);
    unsetenv("CC");
    setenv("NANOCOMPILE_CACHE", cache_path, 1);
    env_init(&e);
    must_work(&e, build_once, NULL);
    env_release(&e);
}

static void stop(void)
{
    temp_remove(&dir);
}

TestSuite(compile_faults, .init = start, .fini = stop, .timeout = 600);

/* Calls that compiling makes, and those of them that text needs; the others of the table are looped over all the
 * same. */
static const char building[] = " alloc open read write close stat fsync rename unlink mkdir "
                               "rmdir mkdtemp mmap munmap pipe poll spawn "
                               "waitpid dlopen dlsym dlclose clock_gettime ";
static const char text_only[] = " alloc open read close stat ";

/* Once alone, once with all that follow. */
static void fail_each_of(const char *used, const char *call, void (*body)(Env *e, void *arg))
{
    Faulty f = {call, body};
    char name[32];
    snprintf(name, sizeof name, " %s ", call);
    int n = fault_loop(call, work_with_faults, &f), least = strstr(used, name) ? 2 : 0;
    cr_assert_geq(n, least, "%s: only %d faults", call, n);
}

static void fail_each(const char *call)
{
    fail_each_of(building, call, file_to_numbers);
    fail_each_of(text_only, call, config_to_text);
}

#define X(ret, name, params, args, failed) \
    Test(compile_faults, failing_##name)   \
    {                                      \
        fail_each(#name);                  \
    }
OS_CALLS(X)
#undef X
