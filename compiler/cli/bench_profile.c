/* bench_profile.c - `nanocompile bench --lib --profile`: where the time of a step goes. Calls of one
 * kernel at one place of a layer are one row: what a projection takes, and in each layer. Rows of
 * kinds sum over those. A call's time reaches from the end of the call before to its own: joins,
 * waits and the loop are in it. */
#include <string.h>

#include "cli/bench.h"

enum { N_TAKES = 9 };

typedef struct Row {
    const char *kind, *place, *kernel; /* kernel NULL: all of the kind */
    int n_calls;
    uint64_t ns[N_TAKES];
} Row;

typedef struct Profile {
    Env *e;
    const LibraryBench *o;
    BuiltModel built;
    uint64_t last_ns;
    int step;
    uint64_t *ns; /* by step and site */
    int n_rows;
    Row *row;
    Table table;
} Profile;

static void watch(void *ctx, int site)
{
    Profile *p = ctx;
    uint64_t now_ns = os_now_ns();
    p->ns[(int64_t)p->step * p->built.facts->n_sites + site] = now_ns - p->last_ns;
    p->last_ns = now_ns;
}

/* ---- rows ---- */

/* "layers.3.mlp.down_proj matmul": "mlp.down_proj"; of a call without weights, what surrounds it. */
static const char *place_of(Profile *p, const char *site, const char *kind)
{
    size_t n = (size_t)(kind - site) - (kind > site);
    if (!strncmp(site, "layers.", 7)) {
        size_t skip = 7 + strspn(site + 7, "0123456789");
        skip = skip > n ? n : skip;
        site += skip, n -= skip;
        return n && *site == '.' ? arena_strn(&p->e->model, site + 1, n - 1) : "layer";
    }
    return arena_strn(&p->e->model, site, n);
}

static Row *row_for(Profile *p, const char *kind, const char *place, const char *kernel)
{
    for (int i = 0; i < p->n_rows; i++) {
        const Row *r = &p->row[i];
        bool same = kernel ? r->kernel && !strcmp(r->kernel, kernel) && !strcmp(r->place, place)
                           : !r->kernel && !strcmp(r->kind, kind);
        if (same) {
            return &p->row[i];
        }
    }
    p->row[p->n_rows] = (Row){.kind = kind, .place = place, .kernel = kernel};
    return &p->row[p->n_rows++];
}

static void add_site(Profile *p, int site, bool whole_kinds)
{
    const nc_site *s = &p->built.facts->site[site];
    const char *space = strrchr(s->site, ' '), *kind = space ? space + 1 : s->site;
    Row *r = row_for(p, kind, whole_kinds ? "" : place_of(p, s->site, kind),
                     whole_kinds ? NULL : s->kernel);
    r->n_calls++;
    for (int i = 0; i < N_TAKES; i++) {
        r->ns[i] += p->ns[(int64_t)i * p->built.facts->n_sites + site];
    }
}

static double median_ns(const uint64_t *ns)
{
    double x[N_TAKES];
    for (int i = 0; i < N_TAKES; i++) {
        x[i] = (double)ns[i];
    }
    return stat_median(x, N_TAKES);
}

static void put_rows(Profile *p, const char *work)
{
    uint64_t all[N_TAKES] = {0};
    for (int i = 0; i < p->n_rows; i++) {
        for (int k = 0; p->row[i].kernel && k < N_TAKES; k++) {
            all[k] += p->row[i].ns[k];
        }
    }
    for (int i = 0; i < p->n_rows; i++) {
        const Row *r = &p->row[i];
        double ns = median_ns(r->ns);
        table_cell(&p->table, "%s", work);
        table_cell(&p->table, "%s", r->kind);
        table_cell(&p->table, "%s", r->kernel ? r->place : "all");
        table_cell(&p->table, "%s", r->kernel ? r->kernel : "");
        table_cell(&p->table, "%d", r->n_calls);
        table_number(&p->table, ns / r->n_calls / 1e3, "%.2f");
        table_number(&p->table, ns / 1e3, "%.1f");
        table_number(&p->table, ns / median_ns(all) * 100, "%.1f");
    }
}

/* ---- steps ---- */

static void feed(Profile *p, const int32_t *ids, int at, int n)
{
    const float *logits;
    Stepper *s = &p->built.stepper;
    Err err;
    s->n_fed = at;
    p->last_ns = os_now_ns();
    if (!s->feed(s, ids, n, false, &logits, &err)) {
        fail_err(p->e, &err);
    }
}

static void profile_work(Profile *p, const char *work, int at, int n)
{
    const nc_facts *f = p->built.facts;
    const int32_t ids[512] = {0};
    memset(p->ns, 0, sizeof *p->ns * N_TAKES * (size_t)f->n_sites);
    p->n_rows = p->step = 0;
    if (at) {
        feed(p, ids, 0, at);
    }
    feed(p, ids, at, n); /* its memory is touched */
    memset(p->ns, 0, sizeof *p->ns * N_TAKES * (size_t)f->n_sites);
    for (p->step = 0; p->step < N_TAKES; p->step++) {
        feed(p, ids, at, n);
    }
    for (int whole = 0; whole < 2; whole++) {
        for (int i = 0; i < f->n_sites; i++) {
            if (p->ns[i]) {
                add_site(p, i, whole);
            }
        }
    }
    put_rows(p, work);
}

static void profile(Env *e, void *arg)
{
    static const char *const columns[] = {"work",   "kind",       "place",      "kernel",
                                          "#calls", "#us a call", "#us a step", "#%"};
    static const struct {
        const char *name;
        int at, n;
    } works[] = {{"decode at 16", 16, 1},
                 {"decode at 512", 512, 1},
                 {"prefill 128", 0, 128},
                 {"prefill 512", 0, 512}};
    Profile *p = arg;
    Buf out;
    nc_options o = {.weights = p->o->weights,
                    .n_threads = p->o->n_threads,
                    .stop = &interrupted,
                    .watch = watch,
                    .watch_ctx = p};
    pack_use(e, &p->o->pack, p->o->lib[0], &o);
    built_model_load(e, &p->built, p->o->lib[0]);
    const nc_facts *f = p->built.facts;
    p->ns = arena_array(&e->model, uint64_t, (int64_t)N_TAKES * f->n_sites);
    p->row = arena_array(&e->model, Row, 2 * f->n_sites);
    built_model_open(e, &p->built, &o);
    table_init(&p->table, &e->model, "profile", countof(columns), columns);
    for (size_t i = 0; i < countof(works); i++) {
        if (works[i].at + works[i].n <= f->context) {
            profile_work(p, works[i].name, works[i].at, works[i].n);
        }
    }
    buf_init(&out, &e->model);
    table_print(&p->table, p->o->format, &out);
    cli_flush(&out);
}

static void close_profile(void *arg)
{
    built_model_close(&((Profile *)arg)->built);
}

void bench_profile(Env *e, void *options)
{
    Profile p = {.e = e, .o = options};
    catch_interrupt();
    library_bench_find(e, options);
    env_finally(e, profile, close_profile, &p);
}
