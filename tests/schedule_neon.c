/* schedule_neon.c - the same schedules on another architecture: C for NEON, cross-compiled, run under
 * emulation, must give the bits of the nest interpreter here. Part of the long campaign (NC_FULL); skipped,
 * saying so, where the cross compiler or qemu-aarch64 is missing (gcc-aarch64-linux-gnu, qemu-user). */
#include <stdlib.h>
#include <string.h>

#include "tests/schedule_util.h"

typedef struct Cross {
    Bench bench;
    TempDir dir;
    Buf main; /* of the driver: inputs, calls, comparisons */
} Cross;

static const Target *neon(void)
{
    for (int i = 0; i < n_targets; i++) {
        if (!strcmp(targets[i].name, "neon")) {
            return &targets[i];
        }
    }
    return NULL;
}

static void write_array(Buf *out, const char *name, const float *p, int64_t n)
{
    buf_printf(out, "static float %s[] = {", name);
    for (int64_t i = 0; i < n; i++) {
        print_f32(out, p[i]);
        buf_str(out, ", ");
    }
    buf_str(out, "0};\n");
}

/* Arrays for one case and what the nest makes of them; then the call and the comparison. */
static void write_case(Env *e, Cross *x, const Case *c, int id, const int64_t *syms, Buf *body)
{
    const Kernel *k = c->k;
    void *params[8];
    int64_t elems[8];
    buf_printf(body, "    {\n        void *p[] = {");
    for (int i = 0; i < k->operand.n; i++) {
        const char *name = arena_printf(&e->model, "c%d_%d", id, i);
        int64_t n = kernel_span(c->naive, i, syms);
        float *data = arena_array(&e->model, float, n + 1);
        fill_normal(data, (size_t)n, (uint64_t)(id * 8 + i));
        params[i] = data;
        elems[i] = kernel_span(k, i, syms);
        if (k->operand.at[i].pack) {
            params[i] = arena_array(&e->model, float, elems[i] + 1);
            nest_pack(e, k, i, params[i], data, syms);
        }
        write_array(&x->main, name, params[i], elems[i]);
        buf_printf(body, "%s, ", name);
    }
    cr_assert_eq(nest_run(e, k, params, elems, syms), 0);
    write_array(&x->main, arena_printf(&e->model, "e%d", id), params[0], elems[0]);
    buf_printf(&x->main,
               "int32_t %s(void *const *params, const int64_t *syms, int part, int n_parts);\n",
               k->symbol);
    buf_printf(body,
               "};\n        int64_t s[] = {%lld, %lld};\n        memset(c%d_0, 0xa5, sizeof "
               "c%d_0 - 4);\n",
               (long long)syms[0], (long long)syms[1], id, id);
    buf_printf(body, "        %s(p, s, 1, 2);\n        %s(p, s, 0, 2);\n", k->symbol,
               k->symbol);
    buf_printf(body,
               "        if (memcmp(c%d_0, e%d, sizeof e%d - 4)) {\n            puts(\"%s "
               "differs\");\n            bad = 1;\n        }\n    }\n",
               id, id, id, k->symbol);
}

static void run_tool(Env *e, char *const *argv, const char *what)
{
    Buf out;
    Err err = {0};
    int status;
    buf_init(&out, &e->model);
    cr_assert(os_run(argv, NULL, 600000, 65536, &out, &status, &err), "%s: %s", what, err.text);
    cr_assert_eq(status, 0, "%s: %s", what, out.at);
}

static void cross_run(Env *e, Cross *x)
{
    Buf kernels, body;
    Err err = {0};
    buf_init(&kernels, &e->model);
    buf_init(&body, &e->model);
    buf_init(&x->main, &e->model);
    buf_str(&x->main, "#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n");
    for (int i = 0; i < x->bench.n; i++) {
        emit_kernel(e, x->bench.at[i].k, neon(), &kernels);
        write_case(e, x, &x->bench.at[i], i, (int64_t[]){5, 19}, &body);
    }
    buf_printf(&x->main, "int main(void)\n{\n    int bad = 0;\n%s    return bad;\n}\n",
               body.at);
    x->dir = temp_dir();
    const char *k = arena_str(&e->model, temp_path(&x->dir, "kernels.c")),
               *m = arena_str(&e->model, temp_path(&x->dir, "main.c")),
               *exe = arena_str(&e->model, temp_path(&x->dir, "cases"));
    cr_assert(os_write_file(k, kernels.at, kernels.len, &err), "%s", err.text);
    cr_assert(os_write_file(m, x->main.at, x->main.len, &err), "%s", err.text);
    char *cc[] = {"aarch64-linux-gnu-gcc",
                  "-std=gnu11",
                  "-O2",
                  "-ffp-contract=off",
                  "-fwrapv",
                  "-fno-math-errno",
                  "-Wall",
                  "-Wextra",
                  "-Werror",
                  "-static",
                  "-o",
                  (char *)exe,
                  (char *)k,
                  (char *)m,
                  "-lm",
                  NULL};
    char *run[] = {"qemu-aarch64", (char *)exe, NULL};
    run_tool(e, cc, "cross compiler");
    run_tool(e, run, "emulator");
    temp_remove(&x->dir);
}

static void add_cases(Env *e, Cross *x)
{
    const Kernel *product = kernel_of_graph(
        e,
        "graph g\nx = input f32[seq, 37]\nw = weight f32[45, 37]\nt = permute w perm=[1, 0]\n"
        "y = matmul x, t\nreturn y=y\n");
    const Kernel *even = kernel_of_graph(
        e, "graph g\nx = input f32[seq, 64]\nw = input f32[past, 64]\nt = permute w perm=[1, "
           "0]\ny = matmul x, t\nreturn y=y\n");
    const Kernel *rows =
        kernel_of_graph(e, "graph g\nx = input f32[seq, past]\nm = reduce_max x axis=-1\n"
                           "mb = broadcast m shape=[seq, past]\nd = sub x, mb\ne = exp d\ns = "
                           "reduce_sum e axis=-1\n"
                           "sb = broadcast s shape=[seq, past]\ny = div e, sb\nreturn y=y\n");
    bench_add(&x->bench, product,
              "split n 8 pad; split m 4 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; "
              "fma; pack b n.o,k,n.i; par n.o");
    bench_add(&x->bench, product,
              "split k 8 peel; split n 4 peel; order n.o m k.o n.i k.i; acc k.i; vec k.i; "
              "unroll n.i; fma; par n.o");
    bench_add(&x->bench, product,
              "split n 16 mask; order m n.o k n.i; pack b n.o,k,n.i; vec n.i");
    bench_add(&x->bench, even,
              "split k 8 peel; split n 8 switch; order n.o m k.o n.i k.i; acc k.i; vec k.i; "
              "unroll n.i; fma; par n.o");
    bench_add(&x->bench, rows,
              "keep t2 r; split r 8 peel; acc r.i; vec r.i; split j 8 peel; vec j.i; approx "
              "exp; par i");
    bench_add(&x->bench, rows, "split j 4 mask; vec j.i; approx exp");
}

static void cross(Env *e, void *arg)
{
    Cross *x = arg;
    x->bench.e = e;
    add_cases(e, x);
    cross_run(e, x);
}

static bool have(Env *e, const char *tool)
{
    Buf out;
    Err err;
    int status;
    buf_init(&out, &e->model);
    char *argv[] = {(char *)tool, "--version", NULL};
    return os_run(argv, NULL, 10000, 4096, &out, &status, &err) && status == 0;
}

Test(schedule_neon, gives_the_bits_of_the_nest_interpreter, .timeout = 600)
{
    Env e;
    if (!getenv("NC_FULL")) {
        cr_skip_test("NEON under emulation is part of the long campaign (NC_FULL)");
    }
    env_init(&e);
    if (!have(&e, "aarch64-linux-gnu-gcc") || !have(&e, "qemu-aarch64")) {
        env_release(&e);
        cr_skip_test("gcc-aarch64-linux-gnu or qemu-user is not installed");
    }
    Cross *x = calloc(1, sizeof *x);
    must_work(&e, cross, x);
    free(x);
    env_release(&e);
}
