/* run_util.c - see run_util.h. */
#include "tests/run_util.h"
#include "tests/place_util.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void workshop_init(Workshop *w)
{
    memset(w, 0, sizeof *w);
    env_init(&w->e);
    w->dir = temp_dir();
    w->cache_dir = arena_printf(&w->e.model, "%s/cache", w->dir.path);
    setenv("NANOCOMPILE_CACHE", w->cache_dir, 1);
    const char *tmp = arena_printf(&w->e.model, "%s/t", w->dir.path);
    cr_assert(mkdir(tmp, 0777) == 0 && chmod(tmp, 0777) == 0); /* for any user */
    setenv("TMPDIR", tmp, 1); /* so that what injected faults leave goes with the workshop */
    unsetenv("CC");
    unsetenv("NANOCOMPILE_CPU");
    unsetenv("NANOCOMPILE_CC_TIMEOUT");
}

void workshop_release(Workshop *w)
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

/* ---- bodies ----------------------------------------------------------------------------- */

void find_compiler(Env *e, void *workshop)
{
    Workshop *w = workshop;
    toolchain_find(e, &w->tc);
}

void build_objects(Env *e, void *workshop)
{
    Workshop *w = workshop;
    find_compiler(e, w);
    const char **object = arena_array(&e->model, const char *, N_KERNELS);
    cache_open(e, &w->cache, NULL);
    cache_objects(e, &w->cache, &w->tc, some_kernels(e), N_KERNELS, 2, object);
    w->object = object;
}

void build_library(Env *e, void *workshop)
{
    Workshop *w = workshop;
    build_objects(e, w);
    w->library = cache_library(e, &w->cache, &w->tc, w->object, N_KERNELS);
}

void load_library(Env *e, void *workshop)
{
    Workshop *w = workshop;
    build_library(e, w);
    library_load(e, &w->lib, w->library, some_kernels(e), N_KERNELS);
}

void assert_kernels_run(Workshop *w)
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

/* ---- made-up compilers ------------------------------------------------------------------ */

const char *script(Workshop *w, const char *name, const char *text)
{
    const char *path = arena_printf(&w->e.model, "%s/bin/%s", w->dir.path, name);
    write_text(path, arena_printf(&w->e.model, "#!/bin/sh\n%s\n", text));
    cr_assert_eq(chmod(path, 0755), 0);
    return path;
}

void script_as_cc(Workshop *w, const char *text)
{
    setenv("CC", script(w, "mycc", text), 1);
}

/* ---- what is left ----------------------------------------------------------------------- */

static const char *leftover_in(Workshop *w, const char *folder)
{
    const char *found = NULL;
    DIR *d = opendir(folder);
    for (struct dirent *f; d && !found && (f = readdir(d));) {
        found = strstr(f->d_name, "tmp") ? arena_printf(&w->e.model, "%s/%s", folder, f->d_name)
                                         : NULL;
    }
    if (d) {
        closedir(d);
    }
    return found;
}

const char *leftover(Workshop *w)
{
    static const char *const folders[] = {"", "/obj", "/lib", "/cc"};
    const char *found = NULL;
    for (size_t i = 0; i < countof(folders) && !found; i++) {
        found = leftover_in(w, arena_printf(&w->e.model, "%s%s", w->cache_dir, folders[i]));
    }
    return found;
}

void assert_no_leftovers(Workshop *w)
{
    const char *found = leftover(w);
    cr_assert_null(found, "%s was left behind", found);
}

const char *only_file(Workshop *w, const char *folder)
{
    cr_assert_eq(folder_entries(folder), 1, "%s does not hold one file", folder);
    const char *path = NULL;
    DIR *d = opendir(folder);
    for (struct dirent *f; (f = readdir(d));) {
        path =
            f->d_name[0] == '.' ? path : arena_printf(&w->e.model, "%s/%s", folder, f->d_name);
    }
    closedir(d);
    return path;
}

/* ---- children --------------------------------------------------------------------------- */

static _Noreturn void answer(Workshop *w, int fd, bool allowed, Body *body)
{
    Err err = {.code = E_OK};
    if (!allowed) {
        err_set(&err, E_ILLEGAL, "not allowed here: %s", strerror(errno));
    } else if (!env_try(&w->e, body, w)) {
        err = w->e.err;
    }
    const char *found = allowed ? leftover(w) : NULL;
    if (found) {
        err_set(&err, E_ILLEGAL, "%s was left behind", found);
    }
    bool sent = write(fd, &err, sizeof err) == (ssize_t)sizeof err;
    _exit(sent ? 0 : 1);
}

/* The child's answer; it has gone afterwards. */
static Err await_answer(pid_t pid, int fd[2])
{
    Err err;
    int status;
    close(fd[1]);
    ssize_t n = read(fd[0], &err, sizeof err);
    close(fd[0]);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(n, (ssize_t)sizeof err, "the child ended with status %#x", (unsigned)status);
    if (err.code == E_ILLEGAL && strstr(err.text, "not allowed here")) {
        cr_skip_test("%s", err.text);
    }
    return err;
}

Err as_other_user(Workshop *w, Body *body)
{
    int fd[2];
    cr_assert(chmod(w->dir.path, 0755) == 0 && pipe(fd) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool user = geteuid() != 0 || (!setgroups(0, NULL) && !setgid(65534) && !setuid(65534));
        answer(w, fd[1], user, body);
    }
    return await_answer(pid, fd);
}

Err on_tmpfs(Workshop *w, unsigned long flags, const char *options, Body *body)
{
    int fd[2];
    cr_assert_eq(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        answer(w, fd[1], mounted_at(w->cache_dir, flags, options), body);
    }
    return await_answer(pid, fd);
}
