/* build.c - a program's kernels as one loaded library: compiler, cache, link and load in order. */
#include "run/run.h"

void library_build(Env *e, const Program *p, int n_jobs, const volatile int *stop, Library *lib)
{
    Toolchain tc;
    Cache cache;
    const char **object = arena_array(&e->model, const char *, p->kernel.n);
    toolchain_find(e, &tc);
    cache_open(e, &cache, NULL);
    cache.stop = stop;
    cache_objects(e, &cache, &tc, p->kernel.at, p->kernel.n, n_jobs, object);
    const char *path = cache_library(e, &cache, &tc, object, p->kernel.n);
    library_load(e, lib, path, p->kernel.at, p->kernel.n);
}
