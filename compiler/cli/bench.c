/* bench.c - `nanocompile bench`: a generated matrix product against libraries and kernels tuned by hand, or a
 * model's kernel under several schedules; alternated in one process in random order. Every figure stands beside
 * a probe of what the machine can do at that moment. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench.h"
#include "schedules/schedules.h"
#include "tuner/cli/tune.h"

typedef struct Contest {
    Env *e;
    const BenchOptions *o;
    Machine machine;
    Place place;
    Kernel *naive;
    int64_t syms[MAX_SYMBOLS];
    Entry entry[MAX_BENCH_ENTRIES + 4];
    int n_entries;
    Rivals rivals;
    Library lib, swept;
    Ring probe_ring;
    Table table;
} Contest;

/* ---- which kernels ---- */

static Kernel *model_kernel(Contest *r)
{
    Compile c;
    Sizes z;
    Graph *g = source_graph(r->e, &r->o->source);
    Program *p = source_compile(r->e, &r->o->source, g, &c);
    source_sizes(r->e, &r->o->source, c.graph, &z);
    for (int i = 0; i < p->call.n; i++) {
        const Call *call = &p->call.at[i];
        if (kernel_named(p, call->kernel, r->o->kernel)) {
            for (int s = 0; s < call->sym.n; s++) {
                r->syms[s] = z.value[call->sym.at[s]];
            }
            r->place.rotates = call_caches(p, call);
            return p->kernel.at[call->kernel];
        }
    }
    fail(r->e, E_INPUT,
         "%s: no kernel has the number, kind or hash '%s'; `dump kernels` lists them.",
         r->o->source.path, r->o->kernel);
}

static void add_entry(Contest *r, const char *name, const Schedule *s)
{
    Err why;
    Entry *x = &r->entry[r->n_entries++];
    *x = (Entry){.name = name, .naive = r->naive, .r = {.syms = r->syms}};
    x->r.k = kernel_schedule(r->e, &r->e->model, r->naive, s, s->n, &why);
    if (!x->r.k) {
        fail_err(r->e, &why);
    }
}

static PickHint hint_of_contest(const Contest *r)
{
    PickHint hint = hint_of_machine(&r->machine, r->place.n_threads);
    memcpy(hint.sym, r->syms, sizeof hint.sym);
    return hint;
}

static void add_entries(Contest *r)
{
    PickHint hint = hint_of_contest(r);
    Schedule s = {0}, in_place;
    Err err;
    if (r->o->naive) {
        add_entry(r, "naive", &s);
    }
    schedule_default(r->e, r->naive, &hint, &s);
    add_entry(r, "default", &s);
    hint.in_place = true;
    schedule_default(r->e, r->naive, &hint, &in_place);
    if (!schedule_eq(&s, &in_place)) {
        add_entry(r, "in place", &in_place);
    }
    for (int i = 0; i < r->o->n_schedules; i++) {
        if (!schedule_parse(r->o->schedule[i], &s, &err)) {
            fail_err(r->e, &err);
        }
        add_entry(r, arena_printf(&r->e->model, "given %d", i + 1), &s);
    }
}

static void prepare_entries(Contest *r, int first, Library *lib)
{
    Env *e = r->e;
    entries_build(e, &r->entry[first], r->n_entries - first, lib);
    for (int i = first; i < r->n_entries; i++) {
        entry_verify(e, &r->entry[i], r->o->seed);
        entry_fill(e, &r->entry[i], &r->place, i ? r->entry[0].r.param : NULL);
    }
}

/* Behind the others, whose operands it is timed with. */
static void add_swept(Contest *r)
{
    PickHint hint = hint_of_contest(r);
    Space space;
    Schedule best;
    int first = r->n_entries;
    space_init(r->e, &r->e->model, &space, r->naive, &hint);
    sweep_space(r->e, &r->entry[0], &r->place, &space, r->o->n_sweep, &best);
    add_entry(r, "swept", &best);
    prepare_entries(r, first, &r->swept);
}

/* ---- the race ---- */

typedef struct Work {
    double flops, bytes, cold_bytes; /* of one call, read; cold: of constants, where they are */
} Work;

/* As k stores its operands. */
static Work work_of(Contest *r, const Kernel *k)
{
    Work w = {0};
    int64_t flops = 0;
    Err err;
    if (!kernel_flops_at(r->e, r->naive, r->syms, &flops, &err)) {
        fail_err(r->e, &err);
    }
    w.flops = (double)flops;
    for (int i = 1; i < r->naive->operand.n; i++) {
        const Operand *o = &k->operand.at[i];
        double bytes = (double)kernel_span(r->naive, i, r->syms) * operand_bytes(o);
        w.bytes += bytes;
        bool rotates = operand_rotates(k, i, r->place.rotates);
        w.cold_bytes += r->place.cold && rotates ? bytes : 0;
    }
    return w;
}

static void result_row(Contest *r, const Measured *m, int i, int best_rival)
{
    Work w = work_of(r, i < r->n_entries ? r->entry[i].r.k : r->naive);
    Summary s = measure_summary(r->e, m, i);
    Interval part = measure_fraction(r->e, m, i, w.cold_bytes, w.flops);
    table_cell(&r->table, "%s", m->contender[i].name);
    table_number(&r->table, s.median_ns / 1e3, "%.2f");
    table_number(&r->table, s.min_ns / 1e3, "%.2f");
    table_number(&r->table, (s.q3_ns - s.q1_ns) / s.median_ns * 100, "%.1f");
    table_number(&r->table, w.flops / s.median_ns, "%.1f");
    table_number(&r->table, w.bytes / s.median_ns, "%.1f");
    table_number(&r->table, part.median * 100, "%.1f");
    table_number(&r->table, part.lo * 100, "%.1f");
    Interval ratio = best_rival >= 0 ? measure_ratio(r->e, m, best_rival, i)
                                     : (Interval){.median = NAN, .lo = NAN};
    table_number(&r->table, ratio.median, "%.3f");
    table_number(&r->table, ratio.lo, "%.3f");
}

static int openblas_of(const Measured *m)
{
    for (int i = 0; i < m->n_contenders; i++) {
        if (strstr(m->contender[i].name, "OpenBLAS") ||
            strstr(m->contender[i].name, "openblas")) {
            return i;
        }
    }
    return -1;
}

static void print_schedules(const Contest *r, Buf *out)
{
    for (int i = 0; i < r->n_entries; i++) {
        buf_printf(out, "%s: %s\n", r->entry[i].name,
                   r->entry[i].r.k->schedule ? r->entry[i].r.k->schedule : "no steps");
    }
}

static void print_race(Contest *r, const Measured *m)
{
    static const char *const columns[] = {
        "contender", "#median us", "#min us",   "#iqr %",      "#GFLOP/s",
        "#GB/s",     "#% of roof", "#at least", "#x OpenBLAS", "#at least x"};
    Buf out;
    int flipped = 0;
    buf_init(&out, &r->e->model);
    table_init(&r->table, &r->e->model, "bench", countof(columns), columns);
    for (int i = 0; i < m->n_contenders; i++) {
        result_row(r, m, i, openblas_of(m));
    }
    for (int i = 0; i < m->n_blocks; i++) {
        flipped += m->block[i].flipped || m->block[i].throttled;
    }
    table_print(&r->table, r->o->format, &out);
    if (r->o->format == FORMAT_TEXT || r->o->format == FORMAT_MD) {
        buf_printf(
            &out,
            "\n%s, %d threads, %s; %d blocks of %d rounds, %d flipped; seed %llu; roof: %s\n",
            r->machine.brand, r->place.n_threads, regime_name[r->place.cold], m->n_blocks,
            m->n_rounds, flipped, (unsigned long long)r->o->seed,
            r->place.cold ? "FMA rate and read bandwidth of a ring" : "FMA rate");
        if (r->rivals.open) {
            buf_printf(&out, "%s; %s\n", r->rivals.libs.openblas.says,
                       onednn_says(r->rivals.libs.onednn));
        }
        print_schedules(r, &out);
    }
    cli_flush(&out);
}

static void run_race(Contest *r)
{
    Contender c[MAX_BENCH_ENTRIES + 4 + MAX_RIVALS];
    int n = 0;
    Measured m;
    MeasurePlan plan = measure_plan(r->o->seed);
    plan.n_blocks = r->o->n_blocks;
    plan.stop = &interrupted;
    for (int i = 0; i < r->n_entries; i++) {
        c[n++] = (Contender){r->entry[i].name, runnable_call, &r->entry[i].r};
    }
    for (int i = 0; i < r->rivals.n; i++) {
        c[n++] = (Contender){r->rivals.at[i].row->name, rival_run, &r->rivals.at[i]};
    }
    if (r->place.cold) {
        ring_init(r->e, &r->probe_ring, NULL, 64u << 20,
                  (int)(ring_want_bytes(&r->machine) >> 26) + 1, true, r->place.pool);
    }
    Prober prober =
        prober_of(&r->machine, r->place.pool, r->place.cold ? &r->probe_ring : NULL);
    measure(r->e, c, n, &plan, &prober, &m);
    if (!m.n_blocks) {
        fail(r->e, E_INTERRUPT, "Stopped before a block was measured.");
    }
    print_race(r, &m);
}

static void race(Env *e, void *arg)
{
    Contest *r = arg;
    Err err;
    r->place.ring_limit_bytes = (size_t)sysconf(_SC_PHYS_PAGES) *
                                (size_t)sysconf(_SC_PAGESIZE) / (MAX_BENCH_ENTRIES + 6);
    if (!r->o->kernel) { /* before any thread is started */
        rivals_open(e, &r->rivals, &r->place);
    }
    if (!(r->place.pool = pool_new(r->place.n_threads, &err))) {
        fail_err(e, &err);
    }
    r->syms[0] = r->o->m;
    r->naive = r->o->kernel ? model_kernel(r)
                            : kernel_of_shape(e, r->o->m, r->o->n, r->o->k, r->o->bf16);
    add_entries(r);
    prepare_entries(r, 0, &r->lib);
    if (r->o->n_sweep) {
        add_swept(r);
    }
    if (r->rivals.open) {
        rivals_add(e, &r->rivals, &r->place, (const int64_t[]){r->o->m, r->o->n, r->o->k},
                   r->entry[0].r.param);
    }
    run_race(r);
}

static void end_race(void *arg)
{
    Contest *r = arg;
    for (int i = 0; i < r->n_entries; i++) {
        runnable_release(&r->entry[i].r);
    }
    if (r->probe_ring.n_copies) {
        ring_release(&r->probe_ring);
    }
    pool_free(r->place.pool);
    library_release(&r->lib);
    library_release(&r->swept);
    rivals_close(&r->rivals);
}

/* ---- peaks ---- */

static void peaks_body(Env *e, void *arg)
{
    Contest *r = arg;
    Err err;
    if (!(r->place.pool = pool_new(r->place.n_threads, &err))) {
        fail_err(e, &err);
    }
    bench_peaks(e, &r->machine, r->place.pool, r->o->format);
}

void bench_kernels(Env *e, void *arg)
{
    Contest *r = arena_new(&e->model, Contest);
    r->e = e;
    r->o = arg;
    catch_interrupt();
    machine_read(e, "", &r->machine);
    r->place = (Place){.machine = &r->machine,
                       .n_threads = r->o->n_threads ? r->o->n_threads : r->machine.n_threads,
                       .cold = r->o->cold,
                       .seed = r->o->seed};
    env_finally(e, r->o->peaks ? peaks_body : race, end_race, r);
}
