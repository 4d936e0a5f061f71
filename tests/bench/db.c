/* db.c (bench) - opening a database of 100,000 trials and looking kernels up in it, as a
 * build does. Prints markdown: median, minimum and maximum of many single calls. Run from
 * anywhere: make bench. */
#include "db/db.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_KERNELS = 200, N_RUNS = 500, TRIALS_PER_RUN = 200, N_OPENS = 200, N_LOOKUPS = 5000 };

static const char *kernel_text(Arena *a, int k)
{
    return arena_printf(a,
                        "kernel contraction\nsym s0\nin x f32[s0, %d] w const f32[%d, 896]\n"
                        "out y f32[s0, 896]\nfor m in s0, n in 896: y[m, n] = sum k in %d: "
                        "x[m, k] * w[k, n]\n",
                        k, k, k);
}

static DbMachine machine(void)
{
    DbMachine m = db_blank_machine();
    m.isa = "x86_64 family 26: avx2 fma avx512f";
    m.l1d_bytes = 48 << 10, m.l2_bytes = 1 << 20, m.l3_bytes = 32 << 20, m.n_cores = 2;
    return m;
}

static DbToolchain toolchain(void)
{
    DbToolchain t = db_blank_toolchain();
    t.version = "gcc 12.2.0", t.words = "", t.flags = "-O3 -march=native", t.target = "avx512";
    return t;
}

/* ---- 100,000 trials, each fifth of them timed in a duel of nine pairs ---- */

typedef struct Filling {
    Db *db;
    int64_t machine, toolchain, run, task;
    int index; /* of the run */
    int n_duels;
} Filling;

static void fill_run(Filling *f, Arena *a)
{
    DbRun r = db_blank_run();
    DbTask t = {0, db_put_kernel(f->db, kernel_text(a, f->index % N_KERNELS)), 2, "cold",
                "s0=64"};
    DbRunTask rt = db_blank_run_task();
    f->task = db_put_task(f->db, &t);
    r.started_ns = f->index, r.ended_ns = f->index + 1, r.program = "tune",
    r.version = NC_VERSION;
    r.protocol = 1, r.command = "tune", r.machine = f->machine, r.toolchain = f->toolchain;
    r.seed = f->index, r.n_threads = 2;
    f->run = db_add_new_run(f->db, &r);
    rt.run = f->run, rt.task = f->task, rt.idx = 0, rt.default_schedule = "par m";
    rt.default_c_hash = hash_str("default");
    db_add_run_task(f->db, &rt);
}

static void fill_duel(Filling *f, const DbTrial *t, bool title)
{
    DbDuel d = db_blank_duel();
    DbProcess p = db_blank_process();
    DbPair pairs[9], *pair = pairs;
    int n = (int)countof(pairs);
    d.run = f->run, d.idx = f->n_duels++, d.task = f->task, d.trial = t->idx;
    d.stage = title ? "title" : "search", d.a_name = "default",
    d.a_c_hash = hash_str("default");
    d.b_name = "candidate", d.b_schedule = t->schedule, d.b_c_hash = t->c_hash,
    d.metric = "wall";
    d.margin_e4 = 100, d.alpha = 0.01, d.beta = 0.05, d.theta1 = 0.7, d.n_max = 200,
    d.n = d.wins = 9;
    d.losses = d.ties = d.discarded = d.noisy = 0, d.ln_e_max = 4.6, d.p_anytime = 0.01;
    d.ratio = 0.5, d.ratio_lo = 0.4, d.ratio_hi = 0.6, d.b_ns = 500, d.verdict = "FASTER";
    d.reason = "promoted", d.started_ns = 1, d.took_ns = 1;
    p.status = "ok", p.seed = 1, p.reps = 1, p.started_ns = 1, p.took_ns = 1;
    for (int i = 0; i < n; i++) {
        pairs[i] = db_blank_pair();
        pairs[i].a_ns = 1000, pairs[i].b_ns = 500, pairs[i].b_first = pairs[i].a_cpu_ns = 0;
        pairs[i].b_cpu_ns = pairs[i].cpu = pairs[i].flags = 0;
    }
    db_add_whole_duel(f->db, &d, &p, 1, &pair, &n);
}

static void fill_winner(Filling *f, const DbTrial *t)
{
    DbWinner w = db_blank_winner();
    fill_duel(f, t, true);
    w.run = f->run, w.task = f->task, w.schedule = t->schedule, w.c_hash = t->c_hash;
    w.duel = f->n_duels - 1, w.default_schedule = "par m",
    w.default_c_hash = hash_str("default");
    w.ratio = 0.5, w.ratio_lo = 0.4, w.ratio_hi = 0.6, w.b_ns = 500, w.at_ns = 1;
    db_add_winner(f->db, &w);
    db_add_winner_range(f->db, &(DbWinnerRange){f->run, f->task, 0, 33, 64});
}

static void fill_body(Env *e, void *arg)
{
    Filling *f = arg;
    DbMachine m = machine();
    DbToolchain c = toolchain();
    f->machine = db_put_machine(f->db, &m);
    f->toolchain = db_put_toolchain(f->db, &c);
    for (f->index = 0; f->index < N_RUNS; f->index++) {
        env_reset_kernel(e);
        fill_run(f, &e->kernel);
        f->n_duels = 0;
        for (int i = 0; i < TRIALS_PER_RUN; i++) {
            DbTrial t = db_blank_trial();
            t.run = f->run, t.idx = i, t.task = f->task, t.rank = i, t.status = "ok";
            t.schedule = arena_printf(&e->kernel,
                                      "split n %d pad; order n.o m k n.i; vec n.i; par n.o", i);
            t.c_hash = hash_str(t.schedule), t.outcome = "screened";
            db_add_trial(f->db, &t);
            if (i % 5 == 0) {
                fill_duel(f, &t, false);
            }
            if (i == TRIALS_PER_RUN - 1) {
                fill_winner(f, &t);
            }
        }
    }
}

/* ---- times ---- */

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* bar_us 0: none */
static void print_row(const char *what, uint64_t *ns, int n, double bar_us)
{
    qsort(ns, (size_t)n, sizeof *ns, by_size);
    double median = (double)(ns[(n - 1) / 2] + ns[n / 2]) / 2000;
    printf("| %s | %d | %.1f | %.1f | %.1f |", what, n, median, (double)ns[0] / 1000,
           (double)ns[n - 1] / 1000);
    if (bar_us > 0) {
        printf(" %.0f | %s |\n", bar_us, median < bar_us ? "yes" : "NO");
    } else {
        printf(" | |\n");
    }
}

static Db *opened(Env *e, const char *path, DbMode mode)
{
    Err err;
    Db *db = db_open(e, path, mode, &err);
    if (!db) {
        die("%s", err.text);
    }
    return db;
}

static void bench_open(const char *path)
{
    static uint64_t ns[N_OPENS];
    for (int i = 0; i < N_OPENS; i++) {
        Env e;
        env_init(&e);
        uint64_t start_ns = os_now_ns();
        Db *db = opened(&e, path, DB_READ);
        ns[i] = os_now_ns() - start_ns;
        db_close(db);
        env_release(&e);
    }
    print_row("opening it, as a build does", ns, N_OPENS, 5000);
}

/* first: each lookup on a handle of its own, which prepares its statements then. */
static void bench_lookup(Env *e, const char *path, const char *what, bool first, bool hit)
{
    static uint64_t ns[N_LOOKUPS];
    int n = first ? N_OPENS : N_LOOKUPS;
    DbMachine m = machine();
    DbToolchain c = toolchain();
    Db *db = first ? NULL : opened(e, path, DB_READ);
    Rng r;
    rng_seed(&r, 1);
    for (int i = 0; i < n; i++) {
        env_reset_kernel(e);
        int64_t size = hit ? 40 : 1000;
        DbKey key = {kernel_text(&e->kernel, (int)rng_below(&r, N_KERNELS)),
                     &size,
                     1,
                     2,
                     "cold",
                     &m,
                     &c};
        DbAnswer got;
        db = first ? opened(e, path, DB_READ) : db;
        uint64_t start_ns = os_now_ns();
        db_lookup(db, &e->kernel, &key, &got);
        ns[i] = os_now_ns() - start_ns;
        if ((got.found == DB_HIT) != hit) {
            die("The lookup said: %s", got.why);
        }
        if (first) {
            db_close(db);
        }
    }
    if (!first) {
        db_close(db);
    }
    print_row(what, ns, n, first ? 0 : 100);
}

static void bench(Env *e, void *arg)
{
    const char *path = arg;
    Filling f = {.db = opened(e, path, DB_WRITE)};
    uint64_t start_ns = os_now_ns();
    db_transact(f.db, fill_body, &f);
    double s = (double)(os_now_ns() - start_ns) / 1e9;
    int64_t n_trials = db_count(f.db, DB_T_TRIAL), n_pairs = db_count(f.db, DB_T_PAIR);
    db_close(f.db);
    struct stat st = {0};
    os.stat(path, &st);
    printf("# The schedule database\n\n%lld trials, %lld pairs, %d winners of %d kernels: %.0f "
           "MB, "
           "recorded in %.1f s.\n\n"
           "| what | n | median us | min | max | bar | met "
           "|\n|---|---:|---:|---:|---:|---:|---|\n",
           (long long)n_trials, (long long)n_pairs, N_RUNS, N_KERNELS, (double)st.st_size / 1e6,
           s);
    bench_open(path);
    bench_lookup(e, path, "a lookup that hits", false, true);
    bench_lookup(e, path, "a lookup that misses, with the nearest row", false, false);
    bench_lookup(e, path, "the first lookup of a handle: statements and pages", true, true);
}

int main(void)
{
    char dir[] = "/tmp/nc-bench-db-XXXXXX";
    Env e;
    program_name = "bench/db";
    if (!os.mkdtemp(dir)) {
        die("A folder in /tmp cannot be made: %m.");
    }
    env_init(&e);
    char *path = arena_printf(&e.model, "%s/schedules.db", dir);
    bool ok = env_try(&e, bench, path);
    os.unlink(path);
    os.rmdir(dir);
    if (!ok) {
        die("%s", e.err.text);
    }
    env_release(&e);
    return 0;
}
