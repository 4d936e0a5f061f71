/* start.c (bench) - from nothing to the first token of the full Qwen2.5-0.5B: synthetic
 * weights are written once into the build folder, then each sample is a new process that
 * opens the model and feeds one token, by the default schedules (which take BF16 as it is)
 * and naively. Prints markdown: how long each part takes, beside reading the file once, and
 * peak memory (VmHWM) beside the weights as they lie there. The file is in the page cache,
 * kernels are in the object cache. Run from the source folder: make bench. */
#include "run/run.h"
#include "schedules/schedules.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONFIG "tests/data/qwen2.5"

enum { N_SAMPLES = 5, FIRST_ID = 785 };

/* ---- one sample: a line of numbers --------------------------------------------------- */

typedef enum Figure {
    READ_NS,
    WEIGHTS_NS,
    KERNELS_NS,
    TOKEN_NS,
    MEMORY_BYTES,
    PEAK_BYTES,
    N_FIGURES
} Figure;

typedef struct Sample {
    unsigned long long at[N_FIGURES];
} Sample;

/* What anybody must do: read every byte of the file, here into one block again and again. */
static unsigned long long read_ns(Env *e, const char *dir)
{
    enum { BLOCK = 1 << 20 };
    char *block = arena_alloc(&e->model, BLOCK);
    uint64_t start_ns = os_now_ns();
    int fd = os.open(arena_printf(&e->model, "%s/model.safetensors", dir), O_RDONLY, 0);
    if (fd < 0) {
        fail(e, E_IO, "%s: %m.", dir);
    }
    while (os.read(fd, block, BLOCK) > 0) {
    }
    os.close(fd);
    return os_now_ns() - start_ns;
}

static unsigned long long peak_bytes(void)
{
    unsigned long long kib = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        sscanf(line, "VmHWM: %llu kB", &kib);
    }
    if (f) {
        fclose(f);
    }
    return kib * 1024;
}

typedef struct Job {
    const char *dir;
    bool scheduled;
} Job;

/* What `nanocompile run` gives its engine. */
static EngineOptions options(const Machine *m, bool scheduled, const Picker *picker)
{
    EngineOptions o = {.n_threads = m->n_threads};
    Err err;
    if (scheduled) {
        o.picker = picker;
        o.hint = hint_of_machine(m, m->n_threads);
        o.hint.in_place = true;
        o.target = target_of(m);
        o.pool = m->n_threads > 1 ? pool_new(m->n_threads, &err) : NULL;
    }
    return o;
}

static void sample_body(Env *e, void *arg)
{
    const Job *job = arg;
    Machine machine;
    Weights w;
    Err err;
    const float *logits;
    Sample s;
    Picker picker = picker_default();
    s.at[READ_NS] = read_ns(e, job->dir);
    machine_read(e, "", &machine);
    EngineOptions o = options(&machine, job->scheduled, &picker);
    uint64_t start_ns = os_now_ns();
    Config c = config_read(e, job->dir);
    (job->scheduled ? weights_keep : weights_load)(e, &w, &c, job->dir, machine.n_threads, NULL,
                                                   NULL);
    uint64_t weights_at_ns = os_now_ns();
    Engine *g = engine_new(e, &c, &w, &o);
    Stepper *stepper = engine_stepper(g);
    if (!engine_prepare(g, false, &err)) {
        fail_err(e, &err);
    }
    uint64_t kernels_at_ns = os_now_ns();
    if (!stepper->feed(stepper, (int32_t[]){FIRST_ID}, 1, false, &logits, &err)) {
        fail_err(e, &err);
    }
    s.at[TOKEN_NS] = os_now_ns() - kernels_at_ns;
    s.at[KERNELS_NS] = kernels_at_ns - weights_at_ns;
    s.at[WEIGHTS_NS] = weights_at_ns - start_ns;
    s.at[MEMORY_BYTES] = w.f32_bytes - w.bf16_bytes; /* of 4 bytes, 2 are gone */
    s.at[PEAK_BYTES] = peak_bytes();
    for (int i = 0; i < N_FIGURES; i++) {
        printf("%llu ", s.at[i]);
    }
    engine_free(g);
    pool_free(o.pool);
    weights_release(&w);
}

/* ---- the table ----------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Parts of the way; the sum of several is that of each sample. */
static void print_row(const char *what, const Sample *s, int n_parts, const Figure *part)
{
    double seconds[N_SAMPLES] = {0};
    for (int i = 0; i < N_SAMPLES; i++) {
        for (int k = 0; k < n_parts; k++) {
            seconds[i] += (double)s[i].at[part[k]] / 1e9;
        }
    }
    qsort(seconds, N_SAMPLES, sizeof *seconds, by_size);
    printf("| %s | %.3f s | %.3f | %.3f |\n", what, seconds[N_SAMPLES / 2], seconds[0],
           seconds[N_SAMPLES - 1]);
}

static void print_table(const char *how, const Sample *s)
{
    static const Figure way[] = {WEIGHTS_NS, KERNELS_NS, TOKEN_NS}, once[] = {READ_NS};
    double most = 0, weights = (double)s[0].at[MEMORY_BYTES];
    for (int i = 0; i < N_SAMPLES; i++) {
        most = (double)s[i].at[PEAK_BYTES] > most ? (double)s[i].at[PEAK_BYTES] : most;
    }
    printf("| %s | median | min | max |\n|---|---:|---:|---:|\n", how);
    print_row("reading the file once, for comparison", s, 1, once);
    print_row("config and weights", s, 1, &way[0]);
    print_row("kernels, from the cache", s, 1, &way[1]);
    print_row("one token", s, 1, &way[2]);
    print_row("open to first token", s, 3, way);
    printf("\nPeak memory %.0f MB; the weights take %.0f MB: %.3fx (bar 1.15x, met: %s).\n\n",
           most / 1e6, weights / 1e6, most / weights, most <= 1.15 * weights ? "yes" : "NO");
}

/* ---- the model, and the samples ------------------------------------------------------ */

static void run_program(Env *e, char *const *argv, Buf *said)
{
    int status;
    Err err;
    buf_init(said, &e->model);
    if (!os_run(argv, NULL, 300000, 1 << 16, said, &status, &err)) {
        fail_err(e, &err);
    }
    if (status != 0) {
        fail(e, E_IO, "%s failed: %s", argv[0], said->at);
    }
}

static void synthesize(Env *e, const char *build, const char *dir)
{
    struct stat st;
    Buf said;
    char *argv[] = {arena_printf(&e->model, "%s/nanocompile", build), "synth", CONFIG,
                    (char *)dir, NULL};
    if (!os.stat(arena_printf(&e->model, "%s/model.safetensors", dir), &st)) {
        printf("The synthetic model is there from an earlier run (%s).\n\n", dir);
        return;
    }
    uint64_t start_ns = os_now_ns();
    run_program(e, argv, &said);
    double seconds = (double)(os_now_ns() - start_ns) / 1e9;
    printf("Writing the synthetic model took %.1f s (bar 20 s, met: %s).\n\n", seconds,
           seconds < 20 ? "yes" : "NO");
}

static void bench_way(Env *e, char *const *argv, const char *how)
{
    Sample s[N_SAMPLES];
    Buf said;
    run_program(e, argv, &said); /* compiles the kernels */
    for (int i = 0; i < N_SAMPLES; i++) {
        run_program(e, argv, &said);
        unsigned long long *at = s[i].at;
        if (sscanf(said.at, "%llu %llu %llu %llu %llu %llu", &at[0], &at[1], &at[2], &at[3],
                   &at[4], &at[5]) != N_FIGURES) {
            fail(e, E_IO, "A sample said something else: %s", said.at);
        }
    }
    print_table(how, s);
}

static void bench_body(Env *e, void *arg)
{
    static const char *const ways[] = {"scheduled", "naive"};
    const char *build = getenv("NC_BUILD");
    build = build ? build : "build/release";
    const char *dir = arena_printf(&e->model, "%s/synth-0.5b", build);
    setenv("NANOCOMPILE_CACHE", arena_printf(&e->model, "%s/bench-cache", build), 1);
    synthesize(e, build, dir);
    for (size_t i = 0; i < countof(ways); i++) {
        char *argv[] = {arg, (char *)ways[i], (char *)dir, NULL};
        bench_way(e, argv, ways[i]);
    }
}

int main(int argc, char **argv)
{
    Env e;
    bool child = argc == 3;
    program_name = "bench/start";
    env_init(&e);
    Job job = {argv[child ? 2 : 0], child && !strcmp(argv[1], "scheduled")};
    if (!(child ? env_try(&e, sample_body, &job) : env_try(&e, bench_body, argv[0]))) {
        die("%s", e.err.text);
    }
    env_release(&e);
    return 0;
}
