/* check.c - `nanocompile check`: what this machine and its tools can do, and what to do about the rest.
 * Each line is one probe that really does the thing: compiles, loads and runs a kernel. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

typedef struct Check {
    Env *e;
    Format format;
    Table t;
    Machine m;
    bool failed; /* something that is needed is missing */
} Check;

static void line(Check *c, const char *what, const char *state, const char *detail,
                 const char *remedy)
{
    table_cell(&c->t, "%s", what);
    table_cell(&c->t, "%s", state);
    table_cell(&c->t, "%s", detail);
    table_cell(&c->t, "%s", remedy);
    c->failed = c->failed || !strcmp(state, "MISSING");
}

static void check_cpu(Check *c)
{
    const Machine *m = &c->m;
    Buf features;
    buf_init(&features, &c->e->kernel);
    for (int i = 0; i < N_FEATURES; i++) {
        if (m->feature[i]) {
            buf_printf(&features, "%s%s", features.len ? " " : "", feature_name((Feature)i));
        }
    }
    line(c, "cpu", "ok",
         arena_printf(&c->e->kernel, "%s, %s family %d model %d stepping %d", m->brand,
                      m->vendor, m->family, m->model, m->stepping),
         "");
    line(c, "features", features.len ? "ok" : "none", features.at, "");
    line(c, "caches", m->l2_bytes ? "ok" : "unknown",
         arena_printf(&c->e->kernel, "L1d %lld KiB, L2 %lld KiB, L3 %lld KiB",
                      (long long)m->l1d_bytes / 1024, (long long)m->l2_bytes / 1024,
                      (long long)m->l3_bytes / 1024),
         "");
}

static void check_threads(Check *c)
{
    const Machine *m = &c->m;
    const char *quota =
        m->cpu_quota > 0 ? arena_printf(&c->e->kernel, "%.2f", m->cpu_quota) : "none";
    const char *set =
        m->n_cpuset > 0 ? arena_printf(&c->e->kernel, ", of a cpuset of %d", m->n_cpuset) : "";
    line(c, "threads", "ok",
         arena_printf(&c->e->kernel,
                      "%d, bound by %s (affinity %d%s, cgroup quota %s, online %d)",
                      m->n_threads, m->bound_by, m->n_affinity, set, quota, m->n_online),
         "");
    line(c, "memory", m->memory_bytes ? "ok" : "unknown",
         arena_printf(&c->e->kernel, "%.1f GiB", (double)m->memory_bytes / 0x1p30), "");
    bool numa = m->n_nodes > 1;
    line(c, "memory nodes", numa ? "note" : "ok", arena_printf(&c->e->kernel, "%d", m->n_nodes),
         numa ? "run under numactl to keep threads and weights on one node" : "");
}

static void compiler_probe(Env *e, void *arg)
{
    Check *c = arg;
    Toolchain tc;
    Buf flags;
    toolchain_find(e, &tc);
    buf_init(&flags, &e->kernel);
    for (int i = 0; i < tc.n_flags; i++) {
        buf_printf(&flags, " %s", tc.flags[i]);
    }
    line(c, "C compiler", "ok",
         arena_printf(&e->kernel, "%s (%s)%s", tc.path, tc.version, flags.at), "");
}

static void cache_probe(Env *e, void *arg)
{
    Check *c = arg;
    Cache cache;
    cache_open(e, &cache, NULL);
    line(c, "cache", "ok", cache.dir, "");
}

/* A graph of one node, from text to a number out of compiled C. */
static void kernel_probe(Env *e, void *arg)
{
    static const char text[] = "graph probe\nx = input f32[2]\ny = add x, x\nreturn y=y\n";
    Check *c = arg;
    Library lib;
    Err err;
    float data[2] = {1.5f, -2.0f};
    NamedTensor x = {"x", {DT_F32, 1, {2}, data}};
    Args args = {&x, 1, NULL, 0};
    Tensor y;
    Compile compile = {.env = e};
    Program *p = compile_model(&compile, ncg_parse(e, text, sizeof text - 1, "probe"));
    library_build(e, p, 1, NULL, &lib);
    Exec *exec = exec_new(e, compile.graph, p, lib.fn);
    bool ok = exec_run(exec, &args, &e->kernel, &y, &err);
    bool right = ok && ((float *)y.data)[0] == 3.0f && ((float *)y.data)[1] == -4.0f;
    exec_free(exec);
    library_release(&lib);
    if (!right) {
        fail(e, E_BUILD, "The compiled kernel %s.",
             ok ? "gave a wrong sum" : "could not be run");
    }
    line(c, "kernels", "ok", "compiled, loaded, run and right", "");
}

static void blas_probe(Check *c)
{
    Gemm gemm;
    const char *says;
    Err err;
    bool ok = blas_gemm(&gemm, &says, &err);
    line(c, "OpenBLAS", ok ? "ok" : "absent", ok ? says : err.text,
         ok ? "" : "optional: only `eval --blas` and comparisons need it (libopenblas0)");
}

static void program_probe(Check *c, const char *name, const char *use)
{
    const char *path = getenv("PATH");
    bool found = false;
    for (const char *at = path; at && *at && !found;) {
        size_t len = strcspn(at, ":");
        struct stat st;
        found = !os.stat(arena_printf(&c->e->kernel, "%.*s/%s", (int)len, at, name), &st);
        at += len + (at[len] == ':');
    }
    line(c, name, found ? "ok" : "absent", found ? "" : use,
         found ? "" : arena_printf(&c->e->kernel, "optional: apt-get install %s", name));
}

static void needed(Check *c, const char *what, void (*probe)(Env *, void *), const char *remedy)
{
    if (!env_try(c->e, probe, c)) {
        line(c, what, "MISSING", c->e->err.text, remedy);
    }
}

static void check_body(Env *e, void *arg)
{
    static const char *const columns[] = {"what", "state", "detail", "remedy"};
    Format *format = arg;
    Check c = {.e = e, .format = *format};
    Buf out;
    table_init(&c.t, &e->model, "check", countof(columns), columns);
    machine_read(e, "", &c.m);
    check_cpu(&c);
    check_threads(&c);
    needed(&c, "C compiler", compiler_probe, "apt-get install gcc, or set CC");
    needed(&c, "cache", cache_probe,
           "set NANOCOMPILE_CACHE to a directory that can be written");
    needed(&c, "kernels", kernel_probe, "see the lines above");
    blas_probe(&c);
    program_probe(&c, "gcc", "one of the two C compilers that are tested");
    program_probe(&c, "clang", "the other C compiler that is tested; the fuzz targets need it");
    program_probe(&c, "gnuplot", "plots of reports");
    buf_init(&out, &e->model);
    table_print(&c.t, c.format, &out);
    cli_flush(&out);
    if (c.failed) {
        fail(e, E_BUILD, "Something needed is missing: see the lines marked MISSING.");
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    Format *format = state->input;
    if (key != 'f') {
        return ARGP_ERR_UNKNOWN;
    }
    *format = option_format(state, arg);
    return 0;
}

int cmd_check(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"format", 'f', "text|md|csv|json|tex", 0, "of the listing (default: text)", 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "What this machine and its tools can do, and what to do about the rest.",
    };
    Format format = FORMAT_TEXT;
    argp_parse(&argp, argc, argv, 0, NULL, &format);
    return cli_run(check_body, &format);
}
