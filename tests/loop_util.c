/* loop_util.c - see loop_util.h. */
#include "tests/loop_util.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char matmul_text[] = "kernel matmul\n"
                           "y: f32[s0*5]\n"
                           "a: f32[s0*7]\n"
                           "b: const f32[35]\n"
                           "axis m space s0\n"
                           "axis n space 5\n"
                           "axis k reduce 7\n"
                           "phase m n k\n"
                           "    acc0: f32 = 0.0f -> acc0 + a[m*7 + k] * b[n*7 + k]\n"
                           "    y[m*5 + n] = acc0\n";

#define PRODUCT(stored)                                          \
    "kernel matmul\n"                                            \
    "y: f32[45*s0]\n"                                            \
    "a: f32[37*s0]\n"                                            \
    "b: const f32" stored "[1665]\n"                             \
    "axis m space s0\n"                                          \
    "axis n space 45\n"                                          \
    "axis k reduce 37\n"                                         \
    "phase m n k\n"                                              \
    "    acc0: f32 = 0.0f -> acc0 + a[m*37 + k] * b[k + n*37]\n" \
    "    y[m*45 + n] = acc0\n"

const char product_text[] = PRODUCT(""), widened_text[] = PRODUCT(" from bf16");

const char softmax_text[] = "kernel row\n"
                            "y: f32[s0*s1]\n"
                            "x0: f32[s0*s1]\n"
                            "axis i space s0\n"
                            "axis r reduce s1\n"
                            "axis q reduce s1\n"
                            "axis j space s1\n"
                            "outer i\n"
                            "phase r\n"
                            "    t0: f32 = x0[i*s1 + r]\n"
                            "    acc0: f32 = -inf -> acc0 < t0 || t0 != t0 ? t0 : acc0\n"
                            "phase q\n"
                            "    acc1: f32 = 0.0f -> acc1 + exp(x0[i*s1 + q] - acc0)\n"
                            "phase j\n"
                            "    y[i*s1 + j] = exp(x0[i*s1 + j] - acc0) / acc1\n";

const char gather_text[] = "kernel gather\n"
                           "y: f32[s0*4]\n"
                           "ids: i32[s0]\n"
                           "table: const f32[24]\n"
                           "axis i space s0\n"
                           "axis j space 4\n"
                           "outer i\n"
                           "phase\n"
                           "    row: i64 = i64(ids[i])\n"
                           "    fail 1 if row < 0 || 6 <= row\n"
                           "phase j\n"
                           "    y[i*4 + j] = table[row*4 + j]\n";

const char concat_text[] = "kernel concat\n"
                           "y: f32[s0*3 + s1*3]\n"
                           "x0: f32[s0*3]\n"
                           "x1: f32[s1*3]\n"
                           "axis i space 3\n"
                           "axis j space s0\n"
                           "axis i1 space 3\n"
                           "axis j1 space s1\n"
                           "phase i j\n"
                           "    y[i*(s0 + s1) + j] = x0[i*s0 + j]\n"
                           "phase i1 j1\n"
                           "    y[i1*(s0 + s1) + (j1 + s0)] = x1[i1*s1 + j1]\n";

typedef struct ParseJob {
    const char *text;
    Kernel *k;
} ParseJob;

static void parse(Env *e, void *arg)
{
    ParseJob *job = arg;
    job->k = kernel_parse(e, job->text, strlen(job->text), "test");
}

Kernel *kernel_of(Env *e, const char *text)
{
    ParseJob job = {.text = text};
    must_work(e, parse, &job);
    return job.k;
}

typedef struct RunJob {
    const Kernel *k;
    void *const *params;
    const int64_t *n_elems, *syms;
    int code;
} RunJob;

static void run(Env *e, void *arg)
{
    RunJob *job = arg;
    job->code = nest_run(e, job->k, job->params, job->n_elems, job->syms);
}

int run_nest(Env *e, const Kernel *k, void *const *params, const int64_t *n_elems,
             const int64_t *syms)
{
    RunJob job = {k, params, n_elems, syms, -1};
    must_work(e, run, &job);
    return job.code;
}

/* ---- C ---- */

enum { COMPILE_TIMEOUT_MS = 120000, OUTPUT_BYTES = 4000 };

static void run_compiler(Env *e, char **argv)
{
    Err err;
    Buf said;
    int status = -1;
    buf_init(&said, &e->kernel);
    cr_assert(os_run(argv, environ, COMPILE_TIMEOUT_MS, OUTPUT_BYTES, &said, &status, &err),
              "%s", err.text);
    cr_assert(status == 0, "the C compiler refused: %s", said.at);
}

Compiled compile_kernels(Env *e, Kernel *const *k, int n, const char *warnings)
{
    Compiled c = {.dir = temp_dir()};
    Vec(char *) argv = {0};
    const char *cc = getenv("CC");
    char *const head[] = {"/usr/bin/env", cc ? (char *)cc : "gcc", (char *)warnings, "-Wextra",
                          "-Werror"};
    for (size_t i = 0; i < countof(head); i++) {
        *vec_push(&e->kernel, &argv) = head[i];
    }
    for (int i = 0; emit_flags[i]; i++) {
        *vec_push(&e->kernel, &argv) = (char *)emit_flags[i];
    }
    const char *library = arena_str(&e->kernel, temp_path(&c.dir, "kernels.so"));
    char *const out[] = {"-shared", "-o", (char *)library};
    for (size_t i = 0; i < countof(out); i++) {
        *vec_push(&e->kernel, &argv) = out[i];
    }
    for (int i = 0; i < n; i++) {
        Buf text;
        buf_init(&text, &e->kernel);
        emit_kernel(e, k[i], target_generic(), &text);
        char *path = arena_printf(&e->kernel, "%s/%s.c", c.dir.path, k[i]->symbol);
        write_text(path, text.at);
        *vec_push(&e->kernel, &argv) = path;
    }
    *vec_push(&e->kernel, &argv) = "-lm";
    *vec_push(&e->kernel, &argv) = NULL;
    run_compiler(e, argv.at);
    c.lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    cr_assert(c.lib, "%s", dlerror());
    return c;
}

KernelFn compiled_kernel(const Compiled *c, const Kernel *k)
{
    KernelFn fn = (KernelFn)dlsym(c->lib, k->symbol);
    cr_assert(fn, "the library has no %s", k->symbol);
    return fn;
}

void compiled_release(Compiled *c)
{
    dlclose(c->lib);
    temp_remove(&c->dir);
}
