/* peaks.c - prints this machine's peaks, and what the baselines reach of them on the matrix
 * products of Qwen2.5-0.5B, as markdown: `peaks [THREADS [REGIME [N K [M]]]]`, by default (also
 * for 0) all threads, hot and cold, all shapes.
 *
 * Hot: weights stay in the cache, where they fit. Cold: each call finds the next copy of its
 * ring, as in a model. Every contender's result is checked before it is timed; all take turns
 * in random order. */
#include "experiments/baselines/baselines.h"
#include "tuner/tuner_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_ENTRANTS = 8, SAMPLED = 64, SEED = 1 };

typedef struct Weight {
    int64_t n, k;
    const char *where;
} Weight;

static const Weight shapes[] = {
    {896, 896, "q and o"}, {128, 896, "k and v"},    {4864, 896, "gate and up"},
    {896, 4864, "down"},   {151936, 896, "lm_head"},
};

typedef struct Regime {
    const char *name;
    bool cold;
    int n_m;
    int64_t m[4];
} Regime;

static const Regime regimes[] = {
    {"hot", false, 4, {11, 64, 128, 512}},
    {"cold", true, 2, {1, 64}},
};

typedef struct Choice { /* of what is measured; NULL and 0: all */
    const char *regime;
    int64_t n, k, m;
} Choice;

typedef struct Bench {
    Choice only;
    Env env;
    Machine machine;
    Pool *pool;
    Peaks peaks;
    Baselines libs;
    int n_threads; /* 0: all */
} Bench;

/* ---- one contender ----------------------------------------------------------------------- */

typedef struct Entrant {
    const Baseline *row;
    const Baselines *libs;
    Pool *pool;
    Product p;
    Ring ring; /* of the weights in the row's layout; one copy where hot */
} Entrant;

static void run_part(void *ctx, int part, int n_parts)
{
    const Entrant *e = ctx;
    e->row->run(e->libs, &e->p, part, n_parts);
}

static void run_entrant(void *ctx)
{
    Entrant *e = ctx;
    e->p.b = ring_next(&e->ring);
    if (e->row->own_threads) {
        run_part(e, 0, 1);
    } else {
        pool_run(e->pool, run_part, e);
    }
}

/* Outputs at random places against a sum in double. */
static void check_entrant(Entrant *e, const float *weights)
{
    const Product *p = &e->p;
    Rng rng;
    rng_seed(&rng, SEED);
    run_entrant(e);
    for (int s = 0; s < SAMPLED; s++) {
        int64_t i = (int64_t)rng_below(&rng, (uint64_t)p->m),
                j = (int64_t)rng_below(&rng, (uint64_t)p->n);
        double sum = 0, magnitude = 0;
        for (int64_t l = 0; l < p->k; l++) {
            double product = (double)p->a[i * p->k + l] * (double)weights[j * p->k + l];
            sum += product;
            magnitude += fabs(product);
        }
        if (!(fabs(p->c[i * p->n + j] - sum) <= magnitude * (double)p->k * 0x1p-24)) {
            die("%s is wrong: c[%lld, %lld] is %g, not %g", e->row->name, (long long)i,
                (long long)j, (double)p->c[i * p->n + j], sum);
        }
    }
}

/* ---- one product ------------------------------------------------------------------------- */

typedef struct Race {
    Bench *bench;
    const Weight *shape;
    const Regime *regime;
    int64_t m;
    float *a, *weights, *c;
    Entrant entrant[MAX_ENTRANTS];
    Contender contender[MAX_ENTRANTS];
    int n;
} Race;

static float *aligned_floats(int64_t n)
{
    void *p;
    if (posix_memalign(&p, 64, (size_t)n * sizeof(float)) != 0) {
        die("out of memory");
    }
    return p;
}

static float *random_floats(int64_t n, uint64_t seed)
{
    float *p = aligned_floats(n);
    Rng rng;
    rng_seed(&rng, seed);
    for (int64_t i = 0; i < n; i++) {
        p[i] = (float)rng_unit(&rng) - 0.5f;
    }
    return p;
}

/* Where it is cold, each contender has a ring of its own: together they take most of the
 * memory. */
static size_t ring_limit_bytes(void)
{
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / (MAX_ENTRANTS + 4);
}

static bool plan_entrant(Race *t, Entrant *e, RingPlan *ring, Err *err)
{
    const Bench *b = t->bench;
    size_t want = t->regime->cold ? ring_want_bytes(&b->machine) : 0;
    return baseline_plan(e->row, &b->libs, t->m, t->shape->n, t->shape->k, &e->p, err) &&
           ring_plan(e->p.b_bytes, want, ring_limit_bytes(), ring, err);
}

static void enter(Race *t, const Baseline *row)
{
    Bench *b = t->bench;
    Err err;
    RingPlan ring;
    Entrant *e = &t->entrant[t->n];
    *e = (Entrant){.row = row, .libs = &b->libs, .pool = b->pool};
    if (baseline_lacks(row, &b->libs, t->m)) {
        return;
    }
    if (!plan_entrant(t, e, &ring, &err)) {
        warn("%s is left out: %s", row->name, err.text);
        return;
    }
    int n_copies = t->regime->cold ? ring.n_copies : 1;
    void *packed = aligned_floats((int64_t)(e->p.b_bytes / sizeof(float)));
    baseline_pack(row, &b->libs, &e->p, t->weights, packed);
    ring_init(&b->env, &e->ring, packed, e->p.b_bytes, n_copies, true, b->pool);
    free(packed);
    e->p.a = t->a;
    e->p.c = t->c;
    check_entrant(e, t->weights);
    t->contender[t->n++] = (Contender){row->name, run_entrant, e};
}

static void print_interval(Interval i)
{
    if (isnan(i.lo)) {
        printf(" - |");
    } else {
        printf(" %.3f [%.3f, %.3f] |", i.median, i.lo, i.hi);
    }
}

static void print_race(const Race *t, const Measured *m)
{
    Env *e = &t->bench->env;
    double flops = 2.0 * (double)(t->m * t->shape->n * t->shape->k);
    double bytes = (double)(t->shape->n * t->shape->k) * sizeof(float);
    int n_flipped = 0;
    for (int i = 0; i < m->n_blocks; i++) {
        n_flipped += m->block[i].flipped || m->block[i].throttled;
    }
    for (int i = 0; i < t->n; i++) {
        Summary s = measure_summary(e, m, i);
        printf("| %s %lldx%lld | %lld | %s | %.1f | %.1f | %.0f%% | %.1f | %.1f |",
               t->shape->where, (long long)t->shape->n, (long long)t->shape->k, (long long)t->m,
               m->contender[i].name, s.median_ns / 1e3, s.min_ns / 1e3,
               100 * (s.q3_ns - s.q1_ns) / s.median_ns, flops / s.median_ns,
               bytes / s.median_ns);
        print_interval(measure_fraction(e, m, i, 0, flops));
        print_interval(measure_fraction(e, m, i, bytes, 0));
        print_interval(measure_ratio(e, m, 0, i));
        printf(" %d of %d |\n", n_flipped, m->n_blocks);
    }
    fflush(stdout);
}

static void run_race(Bench *b, const Weight *shape, const Regime *regime, int64_t m)
{
    Race t = {.bench = b, .shape = shape, .regime = regime, .m = m};
    t.a = random_floats(m * shape->k, 2);
    t.weights = random_floats(shape->n * shape->k, 3);
    t.c = aligned_floats(m * shape->n);
    for (int i = 0; i < n_baselines && t.n < MAX_ENTRANTS; i++) {
        enter(&t, &baselines[i]);
    }
    if (t.n > 0) {
        MeasurePlan plan = measure_plan(SEED);
        Ring *ring = regime->cold ? &t.entrant[0].ring : NULL;
        Prober prober = prober_of(&b->machine, b->pool, ring);
        Measured measured;
        measure(&b->env, t.contender, t.n, &plan, &prober, &measured);
        print_race(&t, &measured);
    }
    for (int i = 0; i < t.n; i++) {
        ring_release(&t.entrant[i].ring);
        baseline_unplan(t.entrant[i].row, &b->libs, &t.entrant[i].p);
    }
    free(t.a);
    free(t.weights);
    free(t.c);
}

/* ---- the tables -------------------------------------------------------------------------- */

static void print_rate(const char *name, const char *unit, const Rate rate[N_WAYS])
{
    if (rate[ONE_THREAD].best > 0) {
        printf("| %s | %.1f | %.1f | %.1f | %.1f | %s |\n", name, rate[ONE_THREAD].best,
               rate[ONE_THREAD].median, rate[ALL_THREADS].best, rate[ALL_THREADS].median, unit);
    }
}

static void print_peaks(const Bench *b)
{
    const Peaks *p = &b->peaks;
    printf("## Peaks\n\n%s, %d threads%s\n\n", b->machine.brand, p->n_threads,
           p->fused ? "" : "; no FMA: it multiplies and adds apart");
    printf("| what | 1 thread: best | median | %d threads: best | median | unit |\n",
           p->n_threads);
    printf("|---|---|---|---|---|---|\n");
    for (ArithId id = 0; id < N_ARITHS; id++) {
        print_rate(arith_name[id], id < ARITH_DOT256 ? "GFLOP/s" : "GOP/s", p->arith[id]);
    }
    for (Level level = 0; level < N_LEVELS; level++) {
        char name[32];
        snprintf(name, sizeof name, "read, %s", level_name[level]);
        print_rate(name, "GB/s", p->read[level]);
    }
    printf("\nAn empty parallel region: best %.0f ns, median %.0f ns.\n", p->fork_join_ns.best,
           p->fork_join_ns.median);
}

/* ---- is the ring large enough? ----------------------------------------------------------- */

typedef struct RingRead {
    Ring ring;
    Pool *pool;
    ReadFn *fn;
} RingRead;

static void read_next(void *ctx)
{
    RingRead *r = ctx;
    ReadWork w = {r->fn, ring_next(&r->ring), r->ring.bytes, 1};
    rate_of(r->pool, read_part, &w, (double)w.bytes);
}

/* Reading from a ring must not become slower by making it longer. */
static void print_ring_check(Bench *b)
{
    enum { COPY_BYTES = 4 << 20 };
    RingRead read[2];
    Contender contender[2];
    int n_copies = (int)(ring_want_bytes(&b->machine) / COPY_BYTES) + 2;
    for (int i = 0; i < 2; i++, n_copies *= 2) {
        read[i] = (RingRead){.pool = b->pool, .fn = read_fn(&b->machine)};
        ring_init(&b->env, &read[i].ring, NULL, COPY_BYTES, n_copies, true, b->pool);
        contender[i] = (Contender){"read", read_next, &read[i]};
    }
    MeasurePlan plan = measure_plan(SEED);
    Measured m;
    measure(&b->env, contender, 2, &plan, NULL, &m);
    Interval ratio = measure_ratio(&b->env, &m, 0, 1);
    printf(
        "\nReading a ring of %d last-level caches takes %.3f [%.3f, %.3f] of the time that one "
        "twice as long takes.\n",
        RING_CACHES, ratio.median, ratio.lo, ratio.hi);
    ring_release(&read[0].ring);
    ring_release(&read[1].ring);
}

static void print_baselines(const Bench *b)
{
    printf("\n## Baselines\n\n");
    printf("OpenBLAS: %s. oneDNN: %s.\n\n", b->libs.openblas.says, onednn_says(b->libs.onednn));
    for (int i = 0; i < n_baselines; i++) {
        printf("- %s: %s\n", baselines[i].name, baselines[i].meaning);
    }
}

static void print_heading(const Regime *r)
{
    printf("\n### %s\n\nFractions are of the probes beside each block; brackets are 95%% "
           "intervals over "
           "blocks of one process.\n\n",
           r->name);
    printf("| weight, n x k | m | kernel | us | least | IQR | GFLOP/s | GB/s | of FMA probe | "
           "of read "
           "probe | "
           "time of %s by "
           "its own | flips |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
           baselines[0].name);
}

static bool chosen(const Choice *only, const Weight *s, int64_t m)
{
    return (only->n == 0 || (only->n == s->n && only->k == s->k)) &&
           (only->m == 0 || only->m == m);
}

static void run_regime(Bench *b, const Regime *r)
{
    if (b->only.regime && strcmp(b->only.regime, r->name) != 0) {
        return;
    }
    print_heading(r);
    for (size_t s = 0; s < countof(shapes); s++) {
        for (int i = 0; i < r->n_m; i++) {
            if (chosen(&b->only, &shapes[s], r->m[i])) {
                run_race(b, &shapes[s], r, r->m[i]);
                env_reset_kernel(&b->env);
            }
        }
    }
}

static void run_bench(Env *e, void *arg)
{
    Bench *b = arg;
    machine_read(e, "", &b->machine);
    int n_threads = b->n_threads > 0 ? b->n_threads : b->machine.n_threads;
    baselines_open(e, &b->machine, n_threads, &b->libs);
    Err err;
    b->pool = pool_new(n_threads, &err);
    if (!b->pool) {
        fail_err(e, &err);
    }
    peaks_measure(e, &b->machine, b->pool, &b->peaks);
    print_peaks(b);
    print_ring_check(b);
    print_baselines(b);
    for (size_t r = 0; r < countof(regimes); r++) {
        run_regime(b, &regimes[r]);
    }
}

static int64_t number(int argc, char **argv, int i)
{
    return i < argc ? strtoll(argv[i], NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    program_name = "peaks";
    Bench b = {.n_threads = (int)number(argc, argv, 1),
               .only = {.regime = argc > 2 ? argv[2] : NULL,
                        .n = number(argc, argv, 3),
                        .k = number(argc, argv, 4),
                        .m = number(argc, argv, 5)}};
    env_init(&b.env);
    if (!env_try(&b.env, run_bench, &b)) {
        die("%s", b.env.err.text);
    }
    pool_free(b.pool);
    baselines_close(&b.libs);
    env_release(&b.env);
    return 0;
}
