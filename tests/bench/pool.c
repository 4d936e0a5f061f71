/* pool.c - what one parallel region costs beyond its work: pool [THREADS], by default as many
 * as this machine gives. Three ways for the workers to wait: spinning when the region opens;
 * asleep, because the caller was busy elsewhere for longer than they spin; and never spinning
 * at all. Times are the caller's, from entry to return, of parts that do nothing. Half of all
 * samples lie from p25 to p75. */
#include "run/run.h"

#include <stdlib.h>

enum {
    N_SAMPLES = 2000,
    BURST = 500,     /* regions a sample, where one is shorter than the clock can tell */
    GAP_NS = 400000, /* long enough for workers to give up and fall asleep */
};

static void nothing(void *ctx, int part, int n_parts)
{
    (void)ctx, (void)part, (void)n_parts;
}

/* ---- one sample each, ns a region ---- */

static double sample_burst(Pool *p)
{
    uint64_t start_ns = os_now_ns();
    for (int i = 0; i < BURST; i++) {
        pool_run(p, nothing, NULL);
    }
    return (double)(os_now_ns() - start_ns) / BURST;
}

static double sample_one(Pool *p)
{
    uint64_t start_ns = os_now_ns();
    pool_run(p, nothing, NULL);
    return (double)(os_now_ns() - start_ns);
}

static double sample_after_gap(Pool *p)
{
    for (uint64_t start_ns = os_now_ns(); os_now_ns() - start_ns < GAP_NS;) {
    }
    return sample_one(p);
}

static const struct Way {
    const char *name;
    double (*sample)(Pool *p);
    bool spin;
} ways[] = {
    {"workers spin", sample_burst, true},
    {"workers asleep", sample_after_gap, true},
    {"futex only", sample_one, false},
};

/* ---- the table ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const struct Way *way, int n_threads)
{
    static double ns[N_SAMPLES];
    Err err;
    Pool *p = pool_new(n_threads, &err);
    if (!p) {
        die("%s", err.text);
    }
    if (!way->spin) {
        pool_set_spin(p, 0);
    }
    pool_run(p, nothing, NULL);
    for (int i = 0; i < N_SAMPLES; i++) {
        ns[i] = way->sample(p);
    }
    pool_free(p);
    qsort(ns, N_SAMPLES, sizeof ns[0], by_value);
    printf("%-16s", way->name);
    static const int permille[] = {0, 250, 500, 750, 990};
    for (size_t i = 0; i < countof(permille); i++) {
        printf(" %10.3f", ns[permille[i] * N_SAMPLES / 1000] / 1000);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    program_name = "pool";
    Env e;
    Machine m;
    env_init(&e);
    machine_read(&e, "", &m);
    int n_threads = argc > 1 ? atoi(argv[1]) : m.n_threads;
    if (n_threads < 1) {
        die("the number of threads is at least 1");
    }
    printf("fork and join of %d threads on %d CPUs, us\n", n_threads, m.n_affinity);
    printf("%-16s %10s %10s %10s %10s %10s\n", "", "min", "p25", "median", "p75", "p99");
    for (size_t i = 0; i < countof(ways); i++) {
        measure(&ways[i], n_threads);
    }
    env_release(&e);
    return 0;
}
