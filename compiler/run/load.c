/* load.c - loads a library of kernels and finds each kernel's function.
 *
 * A directory on a file system mounted noexec refuses to map code, and the loader says only
 * "failed to map segment": so the message names the directory and the variable that moves
 * it. */
#include "run/run_int.h"

#include <dlfcn.h>
#include <string.h>

static _Noreturn void fail_open(Env *e, const char *path)
{
    const char *why = dlerror();
    why = why ? why : "no reason was given";
    if (!strstr(why, "failed to map segment")) {
        fail(e, E_BUILD, "The library cannot be loaded: %.900s.", why);
    }
    const char *slash = strrchr(path, '/');
    fail(e, E_BUILD,
         "The directory %.*s does not allow code to be run from it (mounted noexec?); set "
         "NANOCOMPILE_CACHE to a directory that does (%.300s).",
         slash ? (int)(slash - path < 500 ? slash - path : 500) : 1, slash ? path : ".", why);
}

/* The functions that fill this kernel's panels, by operand. */
static PackFn *find_packs(Env *e, const Library *lib, const Kernel *k)
{
    PackFn *pack = arena_array(&e->model, PackFn, k->operand.n);
    for (int i = 0; i < k->operand.n; i++) {
        if (k->operand.at[i].pack) {
            void *fn =
                os.dlsym(lib->handle, arena_printf(&e->kernel, "%s_pack_%d", k->symbol, i));
            memcpy(&pack[i], &fn, sizeof fn);
        }
    }
    return pack;
}

void *library_open(Env *e, const char *path)
{
    void *handle = os.dlopen(plain_path(&e->kernel, path), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fail_open(e, path);
    }
    return handle;
}

void library_load(Env *e, Library *lib, const char *path, Kernel *const *k, int n)
{
    *lib = (Library){.fn = arena_array(&e->model, KernelFn, n),
                     .pack = arena_array(&e->model, PackFn *, n)};
    lib->handle = library_open(e, path);
    for (int i = 0; i < n; i++) {
        void *fn = os.dlsym(lib->handle, k[i]->symbol);
        if (!fn) {
            library_release(lib);
            fail(e, E_BUILD, "The library %.700s lacks kernel %s.", path, k[i]->symbol);
        }
        memcpy(&lib->fn[i], &fn, sizeof fn);
        lib->pack[i] = find_packs(e, lib, k[i]);
    }
}

void library_release(Library *lib)
{
    if (lib->handle) {
        os.dlclose(lib->handle);
    }
    *lib = (Library){0};
}
