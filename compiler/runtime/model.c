/* model.c - a model that is run by tables: opened, fed, closed.
 *
 * Everything that a step needs is laid out when the model is opened: one flat list of addresses and
 * one of sizes for each program. A step writes the few sizes and addresses that depend on its
 * position, and then is a loop over regions: calls that every thread runs one after another and
 * behind which all meet. It allocates nothing, takes no lock and makes no system call but one for
 * each thread that has fallen asleep. Temporaries lie at the places that
 * the builder chose for the largest sizes; keys and values are appended in place, so a call that
 * fails has changed nothing that will be read. */
#include "runtime/runtime.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct Lists { /* of one program */
    void **param;
    int64_t *sym;
} Lists;

struct nc_model {
    const NcTables *t;
    const volatile int *stop, *through;
    void (*watch)(void *ctx, int site);
    void *watch_ctx;
    Pool *pool; /* NULL: one thread */
    NcWeights weights;
    char *memory; /* of the rest, in one piece */
    size_t n_bytes;
    char *base[N_NC_BASES]; /* what a place is counted from; NULL: has an index */
    int64_t *ids;
    int64_t n_fed;
    Lists *program;
};

nc_code nc_refuse(nc_error *error, nc_code code, const char *fmt, ...)
{
    va_list ap;
    if (error) {
        va_start(ap, fmt);
        error->code = code;
        vsnprintf(error->text, sizeof error->text, fmt, ap);
        va_end(ap);
    }
    return code;
}

/* ---- opening ------------------------------------------------------------------------------ */

static int64_t most_tokens(const NcTables *t)
{
    int64_t most = 1;
    for (int i = 0; i < t->facts->n_programs; i++) {
        int64_t n = t->program[i].facts.max_tokens;
        most = n > most ? n : most;
    }
    return most;
}

/* Gives every list and buffer its place behind `at`; returns the end. With NULL it only counts. */
static size_t lay_out(nc_model *m, char *at)
{
    const NcTables *t = m->t;
    size_t n = 0;
    const struct {
        NcBase base;
        int64_t bytes;
    } buffers[] = {
        {NC_TEMP, t->facts->arena_bytes},
        {NC_KEYS, t->facts->cache_bytes / 2},
        {NC_VALUES, t->facts->cache_bytes / 2},
        {NC_LOGITS, t->facts->vocab_size * (int64_t)sizeof(float)},
        {NC_IDS, most_tokens(t) * (int64_t)sizeof(int64_t)},
    };
    for (size_t i = 0; i < countof(buffers); i++) {
        m->base[buffers[i].base] = at ? at + n : NULL;
        n += (size_t)nc_lines(buffers[i].bytes);
    }
    Lists *lists = at ? (Lists *)(at + n) : NULL;
    n += (size_t)nc_lines(t->facts->n_programs * (int64_t)sizeof *lists);
    for (int i = 0; i < t->facts->n_programs; i++) {
        size_t params = (size_t)nc_lines(t->program[i].n_params * (int64_t)sizeof(void *));
        if (at) {
            lists[i] = (Lists){(void **)(at + n), (int64_t *)(at + n + params)};
        }
        n += params + (size_t)nc_lines(t->program[i].n_syms * (int64_t)sizeof(int64_t));
    }
    m->ids = (int64_t *)m->base[NC_IDS];
    m->program = lists;
    return n;
}

static char *address(const nc_model *m, const NcPlace *p)
{
    const char *from = p->base == NC_WEIGHT  ? m->weights.weight[p->index]
                       : p->base == NC_PANEL ? m->weights.panel[p->index]
                       : p->base == NC_FIXED ? m->t->fixed[p->index]
                                             : m->base[p->base];
    return (char *)(uintptr_t)from + p->at;
}

static void fill_lists(nc_model *m)
{
    for (int i = 0; i < m->t->facts->n_programs; i++) {
        const NcProgram *p = &m->t->program[i];
        for (int k = 0; k < p->n_params; k++) {
            m->program[i].param[k] = address(m, &p->param[k]);
        }
    }
}

/* Pages of the arena and the cache come when they are touched. */
static bool take_memory(nc_model *m, nc_error *error)
{
    m->n_bytes = lay_out(m, NULL);
    void *p = os.mmap(NULL, m->n_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return nc_refuse(error, NC_NOMEM,
                         "There is no memory for a context of %lld tokens: %zu MB.",
                         (long long)m->t->facts->context, m->n_bytes >> 20) == NC_OK;
    }
    m->memory = p;
    lay_out(m, p);
    return true;
}

static bool start_threads(nc_model *m, int n_threads, nc_error *error)
{
    Err err;
    m->pool = n_threads > 1 ? pool_new(n_threads, &err) : NULL;
    return m->pool || n_threads <= 1 || nc_refuse(error, NC_NOMEM, "%s", err.text) == NC_OK;
}

nc_model *runtime_open(const NcTables *t, const nc_options *options, nc_error *error)
{
    const nc_options none = {0}, *o = options ? options : &none;
    nc_refuse(error, NC_OK, "%s", "");
    if (!cpu_can_run(t->needs, error)) {
        return NULL;
    }
    nc_model *m = os.alloc(sizeof *m);
    if (!m) {
        nc_refuse(error, NC_NOMEM, "There is no memory for a model.");
        return NULL;
    }
    *m = (nc_model){.t = t,
                    .stop = o->stop,
                    .through = o->through,
                    .watch = o->watch,
                    .watch_ctx = o->watch_ctx};
    if (!start_threads(m, o->n_threads > 0 ? o->n_threads : t->facts->n_threads, error) ||
        !take_memory(m, error) || !weights_read(t, o, m->pool, &m->weights, error)) {
        runtime_close(m);
        return NULL;
    }
    fill_lists(m);
    return m;
}

void runtime_close(nc_model *m)
{
    if (!m) {
        return;
    }
    pool_free(m->pool);
    weights_drop(&m->weights);
    if (m->memory) {
        os.munmap(m->memory, m->n_bytes);
    }
    free(m);
}

/* ---- a step -------------------------------------------------------------------------------- */

static int64_t term_value(const NcTerm *t, const int64_t *size)
{
    int64_t v = t->coef;
    for (int i = 0; i < N_NC_SIZES; i++) {
        for (int k = 0; k < t->power[i]; k++) {
            v *= size[i];
        }
    }
    return v;
}

static void set_sizes(const nc_model *m, const NcProgram *p, const Lists *l,
                      const int64_t *size)
{
    for (int i = 0; i < p->n_syms; i++) {
        l->sym[i] = size[p->sym[i]];
    }
    for (int i = 0; i < p->n_moves; i++) {
        const NcMove *move = &p->move[i];
        char *at = address(m, &p->param[move->param]);
        for (int k = 0; k < move->n_terms; k++) {
            at += term_value(&p->term[move->term + k], size);
        }
        l->param[move->param] = at;
    }
}

/* The number of a program's first call, of all programs'. */
static int first_site(const NcTables *t, const NcProgram *p)
{
    int n = 0;
    for (const NcProgram *q = t->program; q < p; q++) {
        n += q->facts.n_calls;
    }
    return n;
}

typedef struct Region { /* calls that need nothing of each other */
    const NcCall *call;
    const Lists *l;
    int n;
    bool parallel;           /* one of them is worth waking others for */
    _Atomic uint64_t failed; /* the first that did, counted from the last, before its code */
} Region;

/* Those that start here; alone where each is watched. */
static Region region_at(const nc_model *m, const NcCall *call, const Lists *l)
{
    Region r = {.call = call, .l = l};
    do {
        r.parallel = r.parallel || call[r.n].parallel;
    } while (call[r.n++].with_next && !m->watch);
    return r;
}

static void note_failure(Region *r, int i, int32_t code)
{
    uint64_t now = (uint64_t)(r->n - i) << 32 | (uint32_t)code;
    uint64_t worst = atomic_load_explicit(&r->failed, memory_order_relaxed);
    while (now > worst && !atomic_compare_exchange_weak(&r->failed, &worst, now)) {
    }
}

/* This thread's share: its part of each parallel call, and whole ones in turn. */
static void run_part_of_region(void *ctx, int part, int n_parts)
{
    Region *r = ctx;
    for (int i = 0, n_whole = 0; i < r->n; i++) {
        const NcCall *c = &r->call[i];
        if (c->parallel || n_whole++ % n_parts == part) {
            int32_t code = c->fn(r->l->param + c->param, r->l->sym + c->sym,
                                 c->parallel ? part : 0, c->parallel ? n_parts : 1);
            if (code != 0) {
                note_failure(r, i, code);
            }
        }
    }
}

static void run_region(const nc_model *m, Region *r)
{
    if (m->pool && r->parallel) {
        pool_run(m->pool, run_part_of_region, r);
    } else {
        run_part_of_region(r, 0, 1);
    }
}

/* Region by region, in order; the arguments are in the lists. */
static nc_code run_program(const nc_model *m, const NcProgram *p, const Lists *l,
                           nc_error *error)
{
    const int site = m->watch ? first_site(m->t, p) : 0;
    for (int i = 0; i < p->facts.n_calls;) {
        Region r = region_at(m, &p->call[i], l);
        if (m->stop && *m->stop) {
            return nc_refuse(error, NC_STOPPED, "Stopped.");
        }
        run_region(m, &r);
        i += r.n;
        if (r.failed != 0) {
            return nc_refuse(error, NC_BROKEN, "Call %d of %s ended with code %d.",
                             i - (int)(r.failed >> 32), p->facts.name,
                             (int)(int32_t)(uint32_t)r.failed);
        }
        if (m->watch) {
            m->watch(m->watch_ctx, site + i - 1);
        }
    }
    return NC_OK;
}

/* The first program that takes n tokens at once, else the last. */
static int program_for(const nc_model *m, int64_t n, bool all)
{
    const NcTables *t = m->t;
    int best = -1, asked = m->through && !all ? *m->through : -1;
    if (asked >= 0 && asked < t->facts->n_programs && !t->program[asked].all_rows) {
        return asked;
    }
    for (int i = 0; i < t->facts->n_programs; i++) {
        if (t->program[i].all_rows == all &&
            (best < 0 || t->program[best].facts.max_tokens < n)) {
            best = i;
        }
    }
    return best;
}

static nc_code feed_some(nc_model *m, int program, int64_t at, const int32_t *ids, int64_t n,
                         float *rows, nc_error *error)
{
    const NcProgram *p = &m->t->program[program];
    const Lists *l = &m->program[program];
    const int64_t size[N_NC_SIZES] = {
        [NC_SEQ] = n, [NC_PAST] = at, [NC_CAPACITY] = m->t->facts->context};
    for (int64_t i = 0; i < n; i++) {
        m->ids[i] = ids[i];
    }
    char *own = m->base[NC_LOGITS];
    m->base[NC_LOGITS] = rows ? (char *)rows : own;
    set_sizes(m, p, l, size);
    for (int i = 0; rows && i < p->n_params; i++) {
        if (p->param[i].base == NC_LOGITS) {
            l->param[i] = address(m, &p->param[i]);
        }
    }
    nc_code code = run_program(m, p, l, error);
    m->base[NC_LOGITS] = own;
    return code;
}

static nc_code check_feed(const nc_model *m, int64_t at, const int32_t *ids, int64_t n,
                          nc_error *error)
{
    const nc_facts *f = m->t->facts;
    if (n < 1) {
        return nc_refuse(error, NC_INPUT, "There are no tokens to feed.");
    }
    if (at < 0 || at > m->n_fed) {
        return nc_refuse(error, NC_INPUT,
                         "Position %lld is not reached yet: %lld tokens were fed.",
                         (long long)at, (long long)m->n_fed);
    }
    if (n > f->context - at) {
        return nc_refuse(error, NC_FULL,
                         "The context holds %lld tokens, too few for %lld behind %lld.",
                         (long long)f->context, (long long)n, (long long)at);
    }
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= f->vocab_size) {
            return nc_refuse(error, NC_INPUT,
                             "Token %d is outside the model's vocabulary, 0..%lld.",
                             (int)ids[i], (long long)f->vocab_size - 1);
        }
    }
    return NC_OK;
}

nc_code runtime_feed(nc_model *m, int64_t at, const int32_t *ids, int64_t n, bool all,
                     float *rows, const float **logits, nc_error *error)
{
    nc_code code = check_feed(m, at, ids, n, error);
    if (code != NC_OK) {
        return code;
    }
    m->n_fed = at;
    for (int64_t i = 0; i < n;) {
        int program = program_for(m, n - i, all);
        int64_t most = m->t->program[program].facts.max_tokens, left = n - i;
        int64_t some = left < most ? left : most;
        code = feed_some(m, program, at + i, ids + i, some,
                         all ? rows + i * m->t->facts->vocab_size : NULL, error);
        if (code != NC_OK) {
            return code;
        }
        i += some;
    }
    m->n_fed = at + n;
    if (logits) {
        *logits = (const float *)m->base[NC_LOGITS];
    }
    return nc_refuse(error, NC_OK, "%s", "");
}
