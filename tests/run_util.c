/* run_util.c - see run_util.h. */
#include "tests/run_util.h"

#include <errno.h>
#include <sched.h>
#include <dirent.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

void world_init(World *w)
{
    memset(w, 0, sizeof *w);
    env_init(&w->e);
    w->dir = temp_dir();
    w->cache_dir = arena_printf(&w->e.model, "%s/cache", w->dir.path);
    setenv("NANOCOMPILE_CACHE", w->cache_dir, 1);
    unsetenv("CC");
    unsetenv("NANOCOMPILE_CPU");
    unsetenv("NANOCOMPILE_CC_TIMEOUT");
}

void world_release(World *w)
{
    library_release(&w->lib);
    env_release(&w->e);
    temp_remove(&w->dir);
}

Kernel *scale_kernel(Env *e, float factor)
{
    const char *text = arena_printf(&e->model,
                                    "kernel elementwise\n"
                                    "y: f32[s0]\n"
                                    "x0: f32[s0]\n"
                                    "axis i space s0\n"
                                    "phase i\n"
                                    "    y[i] = x0[i] * %.1ff\n",
                                    (double)factor);
    return kernel_parse(e, text, strlen(text), "test");
}

Kernel *const *some_kernels(Env *e)
{
    Kernel **k = arena_array(&e->model, Kernel *, N_KERNELS);
    for (int i = 0; i < N_KERNELS; i++) {
        k[i] = scale_kernel(e, (float)(i + 2));
    }
    return k;
}

/* ---- bodies ------------------------------------------------------------------------------------------ */

void find_compiler(Env *e, void *world)
{
    World *w = world;
    toolchain_find(e, &w->tc);
}

void build_objects(Env *e, void *world)
{
    World *w = world;
    find_compiler(e, w);
    const char **object = arena_array(&e->model, const char *, N_KERNELS);
    cache_open(e, &w->cache, NULL);
    cache_objects(e, &w->cache, &w->tc, some_kernels(e), N_KERNELS, 2, object);
    w->object = object;
}

void build_library(Env *e, void *world)
{
    World *w = world;
    build_objects(e, w);
    w->library = cache_library(e, &w->cache, &w->tc, w->object, N_KERNELS);
}

void load_library(Env *e, void *world)
{
    World *w = world;
    build_library(e, w);
    library_load(e, &w->lib, w->library, some_kernels(e), N_KERNELS);
}

void assert_kernels_run(World *w)
{
    must_work(&w->e, load_library, w);
    float x[3] = {1, -2, 0.5f}, y[3];
    void *params[] = {y, x};
    int64_t n = 3;
    for (int k = 0; k < N_KERNELS; k++) {
        cr_assert_eq(w->lib.fn[k](params, &n, 0, 1), 0);
        for (int i = 0; i < 3; i++) {
            cr_assert_eq(y[i], x[i] * (float)(k + 2));
        }
    }
    library_release(&w->lib);
}

/* ---- made-up compilers ------------------------------------------------------------------------------- */

const char *script(World *w, const char *name, const char *text)
{
    const char *path = arena_printf(&w->e.model, "%s/bin/%s", w->dir.path, name);
    write_text(path, arena_printf(&w->e.model, "#!/bin/sh\n%s\n", text));
    cr_assert_eq(chmod(path, 0755), 0);
    return path;
}

void script_as_cc(World *w, const char *text)
{
    setenv("CC", script(w, "mycc", text), 1);
}

/* ---- what is left ------------------------------------------------------------------------------------- */

void assert_no_leftovers(const World *w)
{
    static const char *const folders[] = {"", "/obj", "/lib", "/cc"};
    for (size_t i = 0; i < countof(folders); i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s%s", w->cache_dir, folders[i]);
        DIR *d = opendir(path);
        for (struct dirent *f; d && (f = readdir(d));) {
            cr_assert(!strstr(f->d_name, "tmp"), "%s/%s was left behind", path, f->d_name);
        }
        if (d) {
            closedir(d);
        }
    }
}

const char *only_file(World *w, const char *folder)
{
    cr_assert_eq(folder_entries(folder), 1, "%s does not hold one file", folder);
    const char *path = NULL;
    DIR *d = opendir(folder);
    for (struct dirent *f; (f = readdir(d));) {
        path = f->d_name[0] == '.' ? path : arena_printf(&w->e.model, "%s/%s", folder, f->d_name);
    }
    closedir(d);
    return path;
}

/* ---- children of another kind --------------------------------------------------------------------------- */

enum { NOT_ALLOWED = 77 };

static int finish_child(pid_t pid)
{
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status), "the child was killed by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

void as_other_user(World *w, ChildBody *body)
{
    cr_assert_eq(chmod(w->dir.path, 0755), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && (setgroups(0, NULL) || setgid(65534) || setuid(65534))) {
            _exit(NOT_ALLOWED);
        }
        body(w);
        _exit(0);
    }
    int code = finish_child(pid);
    if (code == NOT_ALLOWED) {
        cr_skip_test("this process may not become another user");
    }
    cr_assert_eq(code, 0, "the child's assertions failed");
}

bool on_tmpfs(World *w, unsigned long flags, const char *options, ChildBody *body)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mkdir(w->cache_dir, 0777) || mount("tmpfs", w->cache_dir, "tmpfs", flags, options)) {
            _exit(NOT_ALLOWED);
        }
        body(w);
        _exit(0);
    }
    int code = finish_child(pid);
    cr_assert(code == 0 || code == NOT_ALLOWED, "the child's assertions failed");
    return code == 0;
}
