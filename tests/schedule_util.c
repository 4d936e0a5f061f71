/* schedule_util.c - scheduled kernels against the naive nest: by the nest interpreter and by C. */
#include "tests/schedule_util.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compile.h"

Kernel *kernel_from(Env *e, const char *text)
{
    return kernel_parse(e, text, strlen(text), "test.kernel");
}

Kernel *kernel_of_graph(Env *e, const char *ncg)
{
    Compile c = {.env = e};
    Program *p = compile_model(&c, ncg_parse(e, ncg, strlen(ncg), "test.ncg"));
    cr_assert_eq(p->kernel.n, 1, "%d kernels", p->kernel.n);
    return p->kernel.at[0];
}

Kernel *kernel_under(Env *e, const Kernel *naive, const char *schedule)
{
    Schedule s;
    Err err = {0};
    cr_assert(schedule_parse(schedule, &s, &err), "%s", err.text);
    Kernel *k = kernel_schedule(e, &e->model, naive, &s, s.n, &err);
    cr_assert(k, "%s\n%s", schedule, err.text);
    return k;
}

void bench_add(Bench *b, const Kernel *naive, const char *schedule)
{
    const Kernel *k = kernel_under(b->e, naive, schedule);
    cr_assert(b->n < MAX_CASES);
    for (int i = 0; i < b->n; i++) {
        if (!strcmp(b->at[i].k->symbol, k->symbol)) {
            return;
        }
    }
    b->at[b->n++] = (Case){.naive = naive, .k = k};
}

static void find_symbols(Bench *b)
{
    for (int i = 0; i < b->n; i++) {
        Case *c = &b->at[i];
        *(void **)&c->fn = os.dlsym(b->lib, c->k->symbol);
        cr_assert(c->fn, "%s", c->k->symbol);
        for (int o = 0; o < c->k->operand.n && o < (int)countof(c->pack); o++) {
            const char *name = arena_printf(&b->e->model, "%s_pack_%d", c->k->symbol, o);
            *(void **)&c->pack[o] = os.dlsym(b->lib, name);
            cr_assert_eq(c->pack[o] != NULL, c->k->operand.at[o].pack != NULL);
        }
    }
}

void bench_compile(Bench *b, const Target *t)
{
    Toolchain tc;
    TempDir dir = temp_dir();
    Err err = {0};
    Buf text, out;
    int status, n = 0;
    toolchain_find(b->e, &tc);
    buf_init(&text, &b->e->model);
    buf_init(&out, &b->e->model);
    for (int i = 0; i < b->n; i++) {
        emit_kernel(b->e, b->at[i].k, t ? t : tc.target, &text);
    }
    const char *c = arena_str(&b->e->model, temp_path(&dir, "cases.c"));
    const char *so = arena_str(&b->e->model, temp_path(&dir, "cases.so"));
    cr_assert(os_write_file(c, text.at, text.len, &err), "%s", err.text);
    char *argv[64];
    for (int i = 0; i < tc.n_argv; i++) {
        argv[n++] = tc.argv[i];
    }
    for (int i = 0; i < tc.n_flags; i++) {
        argv[n++] = (char *)tc.flags[i];
    }
    static const struct {
        const char *target, *march;
    } marches[] = {{"avx512", "-march=x86-64-v4"},
                   {"avx2", "-march=x86-64-v3"},
                   {"sse4.2", "-march=x86-64-v2"},
                   {"generic", "-DGENERIC"}};
    for (size_t i = 0; t && i < countof(marches); i++) {
        if (!strcmp(t->name, marches[i].target)) {
            argv[n++] = (char *)marches[i].march; /* the last one counts */
        }
    }
    char *rest[] = {"-O1", "-Wall",    "-Wextra", "-Werror", "-shared",
                    "-o",  (char *)so, (char *)c, "-lm",     NULL};
    memcpy(argv + n, rest, sizeof rest);
    cr_assert(os_run(argv, tc.env, 600000, 65536, &out, &status, &err), "%s", err.text);
    cr_assert_eq(status, 0, "%s", out.at);
    b->lib = os.dlopen(so, RTLD_NOW);
    cr_assert(b->lib);
    temp_remove(&dir);
    find_symbols(b);
}

typedef struct Buffers {
    void *params[16];
    int64_t elems[16];
} Buffers;

/* Small integers: every order of a sum, and every fma, is exact. Else N(0, 1). */
static void fill(const Kernel *k, Buffers *b, Arena *m, const int64_t *syms, bool integers,
                 uint64_t seed)
{
    for (int i = 0; i < k->operand.n; i++) {
        const Operand *o = &k->operand.at[i];
        Rng r;
        rng_seed(&r, seed * 64 + (uint64_t)i);
        b->elems[i] = kernel_span(k, i, syms);
        b->params[i] = arena_alloc_n(m, (size_t)b->elems[i] + 1, 8);
        for (int64_t e = 0; e < b->elems[i]; e++) {
            Value v = {.i = (int64_t)rng_below(&r, o->dtype == DT_BOOL ? 2 : 3)};
            if (o->dtype == DT_I8) {
                v.i = (int64_t)rng_below(&r, 256) - 128;
            }
            if (o->dtype == DT_F32) {
                v.f = integers ? (float)((int)rng_below(&r, 15) - 7) : (float)rng_normal(&r);
                uint32_t bits;
                memcpy(&bits, &v.f, sizeof bits);
                bits &= o->from_bf16 ? 0xffff0000 : 0xffffffff;
                memcpy(&v.f, &bits, sizeof bits);
            }
            value_store(b->params[i], o->dtype, e, v);
        }
    }
}

static void poison(const Kernel *k, const Buffers *b)
{
    memset(b->params[0], 0xa5,
           (size_t)b->elems[0] * (size_t)dtype_bytes(k->operand.at[0].dtype));
}

/* An operand as bf16, where that is what is taken of it. */
static void *taken(Bench *b, const Operand *o, const Buffers *from, int operand)
{
    int64_t n = from->elems[operand];
    if (!operand_takes_bf16(o)) {
        return from->params[operand];
    }
    uint16_t *bf16 = arena_array(&b->e->kernel, uint16_t, n + 1);
    cr_assert(bf16_narrow(bf16, from->params[operand], n));
    return bf16;
}

static void pack_operand(Bench *b, const Case *c, Buffers *to, int i, const int64_t *syms)
{
    const void *from = to->params[i];
    size_t bytes = (size_t)operand_bytes(&c->k->operand.at[i]);
    cr_assert_eq(kernel_given_span(c->k, i, syms), to->elems[i]);
    to->elems[i] = kernel_span(c->k, i, syms);
    to->params[i] = arena_alloc_n(&b->e->kernel, (size_t)to->elems[i] + 1, bytes);
    nest_pack(b->e, c->k, i, to->params[i], from, syms);
    if (c->pack[i]) {
        void *again = arena_alloc_n(&b->e->kernel, (size_t)to->elems[i] + 1, bytes);
        cr_assert_eq(c->pack[i](NULL, NULL, syms), to->elems[i]);
        cr_assert_eq(c->pack[i](again, from, syms), to->elems[i]);
        cr_assert(!memcmp(again, to->params[i], (size_t)to->elems[i] * bytes));
    }
}

/* The buffers of the scheduled kernel: operands as it stores them, panels by C where there is C. */
static Buffers stored(Bench *b, const Case *c, const Buffers *from, const int64_t *syms)
{
    Buffers to = *from;
    for (int i = 1; i < c->naive->operand.n; i++) {
        to.params[i] = taken(b, &c->k->operand.at[i], from, i);
        if (c->k->operand.at[i].pack) {
            pack_operand(b, c, &to, i, syms);
        }
    }
    return to;
}

static void *copy_output(Bench *b, const Kernel *k, const Buffers *from)
{
    size_t bytes = (size_t)from->elems[0] * (size_t)dtype_bytes(k->operand.at[0].dtype);
    return arena_dup(&b->e->kernel, from->params[0], bytes);
}

static void same_output(const Kernel *k, const void *a, const void *b, int64_t n,
                        const char *what, const int64_t *syms)
{
    Dtype t = k->operand.at[0].dtype;
    for (int64_t i = 0; i < n; i++) {
        cr_assert(value_same(value_load(a, t, i), value_load(b, t, i), t),
                  "%s: element %lld of %lld is %g, not %g\nsyms %lld %lld\n%s\n%s", what,
                  (long long)i, (long long)n, (double)value_load(b, t, i).f,
                  (double)value_load(a, t, i).f, (long long)syms[0],
                  k->n_syms > 1 ? (long long)syms[1] : 0, k->schedule ? k->schedule : "naive",
                  k->text);
    }
}

/* What rounding in another order and the polynomial exp may change, on values of order 1. */
static void near_output(const Kernel *k, const void *a, const void *b, int64_t n)
{
    Dtype t = k->operand.at[0].dtype;
    for (int64_t i = 0; i < n; i++) {
        Value x = value_load(a, t, i), y = value_load(b, t, i);
        float gap = t == DT_F32 ? fabsf(x.f - y.f) : INFINITY;
        cr_assert(value_same(x, y, t) || gap <= 1e-4f * (1 + fabsf(x.f)),
                  "element %lld is %g, not %g\n%s\n%s", (long long)i, (double)y.f, (double)x.f,
                  k->schedule, k->text);
    }
}

static int nest_parts(Bench *b, const Kernel *k, const Buffers *at, const int64_t *syms,
                      int n_parts)
{
    int code = 0;
    for (int part = n_parts - 1; part >= 0; part--) { /* in any order */
        int r = nest_run_part(b->e, k, at->params, at->elems, syms, part, n_parts);
        code = r > code ? r : code;
    }
    return code;
}

static void check_c(Bench *b, const Case *c, const Buffers *at, const int64_t *syms,
                    int n_parts, int want)
{
    int code = 0;
    void *by_nest = copy_output(b, c->k, at);
    poison(c->k, at);
    for (int part = 0; part < n_parts; part++) {
        int r = c->fn(at->params, syms, part, n_parts);
        code = r > code ? r : code;
    }
    cr_assert_eq(code, want);
    same_output(c->k, by_nest, at->params[0], at->elems[0], "C against scheduled nest", syms);
}

static void check_once(Bench *b, const Case *c, const int64_t *syms, int n_parts, bool integers,
                       uint64_t seed)
{
    Buffers plain, panels;
    fill(c->naive, &plain, &b->e->kernel, syms, integers, seed);
    panels = stored(b, c, &plain, syms);
    poison(c->naive, &plain);
    int want = nest_run(b->e, c->naive, plain.params, plain.elems, syms);
    void *expect = copy_output(b, c->naive, &plain);
    poison(c->k, &panels);
    cr_assert_eq(nest_parts(b, c->k, &panels, syms, n_parts), want);
    if (want == 0 &&
        (integers || kernel_exact(c->k))) { /* a part that fails leaves the rest of its own */
        same_output(c->k, expect, panels.params[0], plain.elems[0],
                    "scheduled nest against naive", syms);
    } else if (want == 0) {
        near_output(c->k, expect, panels.params[0], plain.elems[0]);
    }
    if (c->fn) {
        check_c(b, c, &panels, syms, n_parts, want);
    }
    env_reset_kernel(b->e);
}

/* Where a function or a quotient rounds, integers do not make a sum exact. */
static bool rounds(const Kernel *k)
{
    static const char *const words[] = {"exp", "sqrt", "sin", "cos", "reciprocal", " / "};
    for (size_t i = 0; i < countof(words); i++) {
        if (strstr(k->text, words[i])) {
            return true;
        }
    }
    return false;
}

void bench_check_nest(Bench *b, const Case *c, const int64_t *syms, int n_parts, uint64_t seed)
{
    check_once(b, c, syms, n_parts, !rounds(c->naive) && !kernel_exact(c->k), seed);
}

void bench_check(Bench *b, const Case *c, const int64_t *syms, int n_parts, uint64_t seed)
{
    check_once(b, c, syms, n_parts, false, seed);
    check_once(b, c, syms, n_parts, !rounds(c->naive), seed + 1);
}

void bench_check_all(Bench *b, const int64_t *syms)
{
    static const int parts[] = {1, 2, 7};
    for (int i = 0; i < b->n; i++) {
        bench_check(b, &b->at[i], syms, parts[i % 3], (uint64_t)i);
    }
}

void bench_close(Bench *b)
{
    os.dlclose(b->lib);
}

typedef struct CasesOnBench {
    Bench *b;
    const Cases *c;
} CasesOnBench;

static void check_at_sizes(Bench *b, const Cases *c, const Target *t)
{
    bench_compile(b, t);
    for (int i = 0; i < c->n_sizes; i++) {
        bench_check_all(b, c->sizes[i]);
    }
    bench_close(b);
}

static void check_cases(Env *e, void *arg)
{
    const CasesOnBench *x = arg;
    const Kernel *k = x->c->make(e);
    Machine m;
    for (int i = 0; i < x->c->n; i++) {
        bench_add(x->b, k, x->c->schedules[i]);
    }
    check_at_sizes(x->b, x->c, NULL);
    machine_read(e, "", &m);
    for (int t = 0; x->c->every_target && t < n_targets; t++) {
        if (targets[t].feature == N_FEATURES || m.feature[targets[t].feature]) {
            check_at_sizes(x->b, x->c, &targets[t]);
        }
    }
}

void bench_check_cases(Bench *b, const Cases *c)
{
    must_work(b->e, check_cases, &(CasesOnBench){b, c});
}

void refuses(Env *e, const Kernel *naive, const char *schedule, const char *words)
{
    Schedule s;
    Err err = {0};
    cr_assert(schedule_parse(schedule, &s, &err), "%s", err.text);
    cr_assert(!kernel_schedule(e, &e->model, naive, &s, s.n, &err), "not refused: %s",
              schedule);
    cr_expect_eq(err.code, E_ILLEGAL);
    cr_expect_str_eq(err.text, words);
}

/* ---- kernels of several files ---- */

const Kernel *odd_matmul(Env *e)
{
    return kernel_of_graph(
        e,
        "graph g\nx = input f32[seq, 37]\nw = weight f32[45, 37]\nt = permute w perm=[1, 0]\n"
        "y = matmul x, t\nreturn y=y\n");
}

const Kernel *odd_softmax(Env *e)
{
    return kernel_of_graph(e,
                           "graph g\nx = input f32[seq, past]\nm = reduce_max x axis=-1\n"
                           "mb = broadcast m shape=[seq, past]\nd = sub x, mb\ne = exp d\ns = "
                           "reduce_sum e axis=-1\n"
                           "sb = broadcast s shape=[seq, past]\ny = div e, sb\nreturn y=y\n");
}

const Kernel *bf16_matmul(Env *e)
{
    return kernel_from(
        e,
        "kernel matmul\ny: f32[s0*45]\na: f32[s0*37]\nb: const f32 from bf16[1665]\naxis m "
        "space s0\n"
        "axis n space 45\naxis k reduce 37\nphase m n k\n"
        "    acc0: f32 = 0.0f -> acc0 + a[m*37 + k] * b[n*37 + k]\n    y[m*45 + n] = acc0\n");
}
