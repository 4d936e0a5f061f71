/* front.c (bench) - what the compiler itself costs on the 24-layer model: the way from config.json to C text,
 * a cold compile of the kernels, a start from the cache, and the time around the kernels of a decode step.
 * Prints markdown. Every row is measured several times in this one process and given as median, minimum
 * and maximum; a bar is met by the median. "original" is what the Python original published, on its own
 * machine. Run from the source folder: make bench. */
#include "compile.h"
#include "model/model.h"
#include "run/run.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CONFIG "tests/data/qwen2.5/config.json"

enum {
    MAX_SAMPLES = 1000,
    N_JOBS = 2,
    FRONT_RUNS = 30,
    COLD_RUNS = 3,
    WARM_RUNS = 20,
    STEP_RUNS = 1000,
    FIRST_PAST = 17
};

/* ---- rows ---- */

typedef struct Samples {
    const char *what, *unit;
    double bar, original; /* in unit; 0: none */
    double ns_per_unit;
    int n;
    uint64_t ns[MAX_SAMPLES];
} Samples;

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_head(void)
{
    printf(
        "| what | n | median | min | max | max/min | bar | met | original | original/median |\n"
        "|---|---:|---:|---:|---:|---:|---:|---|---:|---:|\n");
}

static void print_row(Samples *s)
{
    qsort(s->ns, (size_t)s->n, sizeof s->ns[0], by_size);
    double median = (double)(s->ns[(s->n - 1) / 2] + s->ns[s->n / 2]) / 2 / s->ns_per_unit;
    double min = (double)s->ns[0] / s->ns_per_unit,
           max = (double)s->ns[s->n - 1] / s->ns_per_unit;
    printf("| %s | %d | %.2f %s | %.2f | %.2f | %.2f |", s->what, s->n, median, s->unit, min,
           max, max / min);
    if (s->bar > 0) {
        printf(" %g %s | %s |", s->bar, s->unit, median < s->bar ? "yes" : "NO");
    } else {
        printf(" | |");
    }
    if (s->original > 0) {
        printf(" %g %s | %.0f |\n", s->original, s->unit, s->original / median);
    } else {
        printf(" | |\n");
    }
    fflush(stdout);
}

static Samples milliseconds(const char *what, double bar, double original)
{
    return (Samples){
        .what = what, .unit = "ms", .bar = bar, .original = original, .ns_per_unit = 1e6};
}

static void add(Samples *s, uint64_t start_ns)
{
    s->ns[s->n++] = os_now_ns() - start_ns;
}

/* ---- from config.json to C text ---- */

typedef struct FrontHalf {
    Compile c;
    Program *p;
    Buf text;
    uint64_t graph_ns, text_ns; /* what building the graph and printing took */
} FrontHalf;

static FrontHalf front_half(Env *e, unsigned without)
{
    FrontHalf f = {.c = {.env = e, .without = without, .now_ns = os_now_ns}};
    uint64_t start_ns = os_now_ns();
    Config config = config_read(e, CONFIG);
    Graph *g = qwen2_build(e, &config, -1, true);
    f.graph_ns = os_now_ns() - start_ns;
    f.p = compile_model(&f.c, g);
    start_ns = os_now_ns();
    buf_init(&f.text, &e->model);
    for (int i = 0; i < f.p->kernel.n; i++) {
        compile_kernel(&f.c, f.p->kernel.at[i], &f.text);
    }
    f.text_ns = os_now_ns() - start_ns;
    return f;
}

static void front_once(Env *e, void *arg)
{
    Samples *s = arg;
    uint64_t start_ns = os_now_ns();
    FrontHalf f = front_half(e, 0);
    add(&s[0], start_ns);
    s[1].ns[s[1].n++] = f.graph_ns;
    for (int i = 0; i < f.c.times.n; i++) {
        Samples *stage = &s[2 + i];
        stage->what = f.c.times.at[i].name;
        stage->ns[stage->n++] = f.c.times.at[i].ns;
    }
    Samples *text = &s[2 + f.c.times.n];
    text->what = "C text";
    text->ns[text->n++] = f.text_ns;
}

/* Runs body in a new Env; what fails ends the program. */
static void in_env(void (*body)(Env *e, void *arg), void *arg)
{
    Env e;
    env_init(&e);
    if (!env_try(&e, body, arg)) {
        die("%s", e.err.text);
    }
    env_release(&e);
}

static void bench_front(void)
{
    static Samples s[8];
    s[0] = milliseconds("front half in all", 50, 700);
    for (size_t i = 1; i < countof(s); i++) {
        s[i] = milliseconds("graph", 0, 0);
    }
    for (int i = 0; i < FRONT_RUNS; i++) {
        in_env(front_once, s);
    }
    for (size_t i = 0; i < countof(s); i++) {
        if (s[i].n) {
            print_row(&s[i]);
        }
    }
}

/* ---- the C compiler and the cache ---- */

static void build_once(Env *e, void *arg)
{
    Samples *s = arg;
    uint64_t start_ns = os_now_ns();
    Toolchain tc;
    Cache cache;
    Library lib;
    FrontHalf f = front_half(e, 0);
    const char **object = arena_array(&e->model, const char *, f.p->kernel.n);
    toolchain_find(e, &tc);
    cache_open(e, &cache, NULL);
    cache_objects(e, &cache, &tc, f.p->kernel.at, f.p->kernel.n, N_JOBS, object);
    const char *path = cache_library(e, &cache, &tc, object, f.p->kernel.n);
    library_load(e, &lib, path, f.p->kernel.at, f.p->kernel.n);
    add(s, start_ns);
    library_release(&lib);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void empty_cache(void)
{
    nftw(getenv("NANOCOMPILE_CACHE"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void bench_build(void)
{
    static Samples cold, warm;
    cold = milliseconds("cold: front half, probe, compile, link, load", 3000, 4980);
    warm = milliseconds("from the cache: the same in all", 60, 700);
    for (int i = 0; i < COLD_RUNS; i++) {
        empty_cache();
        in_env(build_once, &cold);
    }
    for (int i = 0; i < WARM_RUNS; i++) {
        in_env(build_once, &warm);
    }
    empty_cache();
    print_row(&cold);
    print_row(&warm);
}

/* ---- the time around the kernels ---- */

static int32_t no_kernel(void *const *params, const int64_t *syms, int part, int n_parts)
{
    (void)params, (void)syms, (void)part, (void)n_parts;
    return 0;
}

/* Memory that nobody reads: address space only. */
static void *untouched(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        die("There is no address space for %zu bytes: %m.", bytes);
    }
    return p;
}

static NamedTensor tensor_for(const Node *n, const Sizes *z, void *data)
{
    NamedTensor named = {n->attr.name, tensor_of_node(n, z->value)};
    named.t.data = data;
    return named;
}

typedef struct Steps {
    Samples s;
    unsigned without;
} Steps;

/* One decode step after another, as a model takes them: past grows, so every step plans anew. */
static void steps(Env *e, void *arg)
{
    Steps *st = arg;
    Err err;
    FrontHalf f = front_half(e, st->without);
    const Graph *g = f.c.graph;
    size_t bytes = (size_t)1 << 30;
    void *data = untouched(bytes);
    KernelFn *fn = arena_array(&e->model, KernelFn, f.p->kernel.n);
    NamedTensor *input = arena_array(&e->model, NamedTensor, g->inputs.n);
    NamedTensor *weight = arena_array(&e->model, NamedTensor, g->weights.n);
    Tensor *out = arena_array(&e->model, Tensor, g->outputs.n);
    Args args = {input, g->inputs.n, weight, g->weights.n};
    Sizes z = {0};
    Sym seq = sym_intern(e, "seq", 3), past = sym_intern(e, "past", 4);
    z.value[seq] = 1;
    for (int i = 0; i < f.p->kernel.n; i++) {
        fn[i] = no_kernel;
    }
    for (int i = 0; i < g->weights.n; i++) {
        weight[i] = tensor_for(g->weights.at[i], &z, data);
    }
    Exec *x = exec_new(e, g, f.p, fn);
    for (int step = 0; step < STEP_RUNS; step++) {
        z.value[past] = FIRST_PAST + step;
        for (int i = 0; i < g->inputs.n; i++) {
            input[i] = tensor_for(g->inputs.at[i], &z, data);
        }
        memset(out, 0, sizeof *out * (size_t)g->outputs.n);
        uint64_t start_ns = os_now_ns();
        if (!exec_bind(x, &args, out, &err) || !exec_call(x, &err)) {
            die("%s", err.text);
        }
        add(&st->s, start_ns);
    }
    exec_free(x);
    munmap(data, bytes);
}

static void bench_calls(void)
{
    static Steps fused, unfused;
    fused = (Steps){{.what = "around the 319 calls of a decode step",
                     .unit = "us",
                     .bar = 100,
                     .ns_per_unit = 1e3},
                    0};
    unfused = (Steps){{.what = "around 1,514 calls, unfused",
                       .unit = "us",
                       .original = 72800,
                       .ns_per_unit = 1e3},
                      (1u << N_STAGES) - 1};
    in_env(steps, &fused);
    in_env(steps, &unfused);
    print_row(&fused.s);
    print_row(&unfused.s);
}

/* ---- the page ---- */

static void print_machine(Env *e, void *arg)
{
    Machine m;
    Toolchain tc;
    (void)arg;
    machine_read(e, "", &m);
    toolchain_find(e, &tc);
    printf("# The compiler itself\n\n"
           "nanocompile %s on %s: %d threads (bound by %s), L2 %lld KiB, L3 %lld KiB. Kernels "
           "by %s, %d at once.\n"
           "Model: %s, 24 layers, logits of the last row, fused unless said. The front half is "
           "one thread.\n\n",
           NC_VERSION, m.brand, m.n_threads, m.bound_by, (long long)m.l2_bytes / 1024,
           (long long)m.l3_bytes / 1024, tc.version, N_JOBS, CONFIG);
}

int main(void)
{
    char dir[] = "/tmp/nc-bench-XXXXXX";
    program_name = "bench/front";
    if (!os.mkdtemp(dir)) {
        die("A folder in /tmp cannot be made: %m.");
    }
    setenv("NANOCOMPILE_CACHE", dir, 1);
    in_env(print_machine, NULL);
    print_head();
    bench_front();
    bench_build();
    bench_calls();
    empty_cache();
    return 0;
}
