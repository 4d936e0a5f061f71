/* library.c (bench) - what a built library of the 24-layer model costs beside its kernels: they are
 * replaced by empty ones, and decode steps are timed, on one thread and on all. The bar is 15 us and
 * 1.2 times what the joins of a step cost by themselves, as a probe beside says. The weights are
 * address space only: nobody reads them. Prints markdown. Run from the source folder: make bench. */
#include "compile.h"
#include "model/model.h"
#include "run/run.h"
#include "schedules/schedules.h"
#include "tests/emptied.h"
#include "tuner/measure.h"
#include "tuner/stat.h"

enum { STEPS = 2000, FIRST_PAST = 17, CONTEXT = 4096 };

static int32_t no_kernel(void *const *params, const int64_t *syms, int part, int n_parts)
{
    (void)params, (void)syms, (void)part, (void)n_parts;
    return 0;
}

static void compile(Env *e, const Machine *m, const Config *config, const Checkpoint *file,
                    ModelLibrary *l)
{
    Picker defaults = picker_default();
    Toolchain *tc = arena_new(&e->model, Toolchain);
    toolchain_find(e, tc);
    LibraryOptions o = {.dir = ".",
                        .config = config,
                        .file = file,
                        .context = CONTEXT,
                        .n_threads = m->n_threads,
                        .picker = &defaults,
                        .hint = hint_of_machine(m, m->n_threads),
                        .tc = tc,
                        .at_usual_sizes = true};
    model_library_compile(e, &o, l);
}

/* ---- steps ---- */

static double fork_join_ns(Env *e, const Machine *m, int n_threads)
{
    Probe probe = {0};
    Err err;
    if (n_threads == 1) {
        return 0;
    }
    Pool *pool = pool_new(n_threads, &err);
    if (!pool) {
        fail_err(e, &err);
    }
    Prober prober = prober_of(m, pool, NULL);
    prober_take(&prober, &probe);
    pool_free(pool);
    return probe.fork_join_ns;
}

static void bench_steps(Env *e, const Machine *m, const NcTables *t, int n_threads)
{
    static double ns[STEPS];
    nc_error why;
    const float *logits;
    const int32_t ids[FIRST_PAST] = {0};
    nc_model *model = runtime_open(t, &(nc_options){.n_threads = n_threads}, &why);
    if (!model || runtime_feed(model, 0, ids, FIRST_PAST, false, NULL, &logits, &why)) {
        fail(e, E_RANGE, "%s", why.text);
    }
    double before_ns = fork_join_ns(e, m, n_threads);
    for (int i = 0; i < STEPS; i++) {
        uint64_t start_ns = os_now_ns();
        if (runtime_feed(model, FIRST_PAST + i, ids, 1, false, NULL, &logits, &why)) {
            fail(e, E_RANGE, "%s", why.text);
        }
        ns[i] = (double)(os_now_ns() - start_ns);
    }
    double probe_ns = (before_ns + fork_join_ns(e, m, n_threads)) / 2;
    runtime_close(model);
    const nc_program *p = &t->program[0].facts;
    int n_joins = n_threads > 1 ? p->n_joins : 0;
    double bar_ns = 15e3 + 1.2 * n_joins * probe_ns;
    stat_sort(ns, STEPS);
    double median_ns = stat_quantile(ns, STEPS, 0.5);
    printf("| %d | %d | %d | %.0f | %.2f | %.2f | %.2f | %.2f | %s |\n", n_threads, p->n_calls,
           n_joins, probe_ns, median_ns / 1e3, stat_quantile(ns, STEPS, 0.25) / 1e3,
           stat_quantile(ns, STEPS, 0.75) / 1e3, bar_ns / 1e3,
           median_ns <= bar_ns ? "yes" : "NO");
    fflush(stdout);
}

static void bench(Env *e, void *arg)
{
    Machine m;
    ModelLibrary l;
    (void)arg;
    machine_read(e, "", &m);
    Config config = config_read(e, EMPTIED_CONFIG);
    Checkpoint file = without_data(e, &config);
    compile(e, &m, &config, &file, &l);
    NcTables t = emptied(e, &l.text, no_kernel);
    printf("# A library's decode step without its kernels\n\n%s, %d threads (bound by %s). "
           "Model: %s.\n\n"
           "| threads | calls | joins | fork and join, ns | step, us | quartile | quartile | "
           "bar | met |\n"
           "|---:|---:|---:|---:|---:|---:|---:|---:|---|\n",
           m.brand, m.n_threads, m.bound_by, EMPTIED_CONFIG);
    for (int n = 1; n <= m.n_threads; n = n < m.n_threads ? m.n_threads : n + 1) {
        bench_steps(e, &m, &t, n);
    }
}

int main(void)
{
    Env e;
    program_name = "bench/library";
    env_init(&e);
    if (!env_try(&e, bench, NULL)) {
        die("%s", e.err.text);
    }
    env_release(&e);
    return 0;
}
