/* build_manifest.c - what each call site of a build got, from where, and why not better: for people a row for
 * each kernel of a program, else one for each call; and the same as rows of the database. Times are those
 * measured for winners, of one call; the share is that of the bytes its program moves. */
#include "cli/build.h"

#include <math.h>
#include <string.h>

typedef struct Manifest {
    Env *e;
    const Picks *p;
    const ModelLibrary *l;
    Table *t;
} Manifest;

static double most_bytes(const LibraryParts *parts, const LibraryPart *part, const Call *c,
                         Env *e)
{
    int64_t size[MAX_SYMBOLS];
    int64_t context = parts->o.context;
    step_sizes(e, part->max_tokens, context - part->max_tokens, context, size);
    return (double)call_bytes(part->program, c, size);
}

static double expected_ns(const Picked *x)
{
    return picked_winner(x) ? x->answer.found.winner.b_ns : NAN;
}

static void put_row(const Manifest *m, int part, int call, const nc_site *s, int n_calls,
                    double share)
{
    const Call *c = &m->l->parts.part[part].program->call.at[call];
    const Picked *x = pick_of(m->p, &m->l->parts, part, c->kernel);
    table_cell(m->t, "%s", s->program);
    table_cell(m->t, "%s", s->site);
    table_cell(m->t, "%d", n_calls);
    table_cell(m->t, "%s", s->kernel);
    table_cell(m->t, "%s", s->outcome);
    table_number(m->t, expected_ns(x) / 1e3, "%.2f");
    table_cell(m->t, "%.1f", 100 * share);
    table_cell(m->t, "%s", s->schedule);
    table_cell(m->t, "%s", s->why);
}

/* Of a call's kernel: the calls of this program, at the first of them; 0 elsewhere. */
static int calls_from(const Program *p, int call)
{
    int n = 0;
    for (int i = 0; i < p->call.n; i++) {
        if (p->call.at[i].kernel == p->call.at[call].kernel) {
            if (i < call) {
                return 0;
            }
            n++;
        }
    }
    return n;
}

static void put_part(const Manifest *m, int part, const nc_site *site)
{
    const LibraryParts *parts = &m->l->parts;
    const LibraryPart *p = &parts->part[part];
    bool grouped = m->p->o->format == FORMAT_TEXT;
    double all = 0;
    for (int i = 0; i < p->program->call.n; i++) {
        all += most_bytes(parts, p, &p->program->call.at[i], m->e);
    }
    for (int i = 0; i < p->program->call.n; i++) {
        const Call *c = &p->program->call.at[i];
        int n = grouped ? calls_from(p->program, i) : 1;
        if (n) {
            put_row(m, part, i, &site[i], n, n * most_bytes(parts, p, c, m->e) / all);
        }
    }
}

void manifest_table(Env *e, const Picks *p, const ModelLibrary *l, Table *t)
{
    static const char *const columns[] = {"program",  "site",     "#calls",
                                          "kernel",   "outcome",  "#us a call",
                                          "#% bytes", "schedule", "why"};
    Manifest m = {e, p, l, t};
    const nc_site *site = l->text.tables->facts->site;
    table_init(t, &e->model, "sites", countof(columns), columns);
    for (int i = 0; i < l->parts.n; i++) {
        put_part(&m, i, site);
        site += l->parts.part[i].program->call.n;
    }
}

int manifest_untuned(const Picks *p, const Picked **first)
{
    int n = 0;
    for (int i = 0; i < p->at.n; i++) {
        const Picked *x = &p->at.at[i];
        if (!picked_tuned(x)) {
            *first = n++ ? *first : x;
        }
    }
    return n;
}

/* ---- into the database ------------------------------------------------------------------------ */

static DbBuildSite site_row(Env *e, Db *db, const nc_site *s, const Picked *x, Hash c_hash,
                            int idx)
{
    DbBuildSite row;
    db_blank(DB_T_BUILD_SITE, &row);
    bool hit = picked_winner(x);
    row.idx = idx;
    row.site = arena_printf(&e->model, "%s %s", s->program, s->site);
    row.kernel = db_put_kernel(db, x->site->kernel->text);
    row.sizes = db_sizes_text(&e->model, x->site->sym, x->site->kernel->n_syms);
    row.regime = x->site->regime;
    row.outcome = x->answer.outcome;
    row.field = *x->answer.field ? x->answer.field : NULL;
    row.why = *s->why ? s->why : NULL;
    row.schedule = s->schedule;
    row.c_hash = c_hash;
    row.winner_run = hit ? x->answer.found.winner.run : DB_NONE;
    row.winner_task = hit ? x->answer.found.winner.task : DB_NONE;
    row.expected_ns = expected_ns(x);
    return row;
}

Hash library_file_hash(Env *e, const char *path)
{
    char *text;
    size_t len;
    Err err;
    if (!os_read_file(&e->kernel, path, 1u << 30, &text, &len, &err)) {
        fail_err(e, &err);
    }
    return hash_bytes(text, len);
}

typedef struct Store {
    const Picks *p;
    const ModelLibrary *l;
    uint64_t took_ns;
} Store;

static const char *command_of(Env *e, const BuildOptions *o)
{
    Buf b;
    buf_init(&b, &e->model);
    for (int i = 0; i < o->n_words; i++) {
        buf_printf(&b, "%s%s", i ? " " : "", o->word[i]);
    }
    return b.at;
}

static DbBuild build_row(Env *e, Db *db, const Store *s)
{
    DbBuild row;
    DbMachine machine = s->p->here.db_machine;
    DbToolchain toolchain = s->p->here.db_toolchain;
    db_blank(DB_T_BUILD, &row);
    row.started_ns = os_wall_ns() - (int64_t)s->took_ns;
    row.took_ns = (int64_t)s->took_ns;
    row.version = NC_VERSION;
    row.machine = db_put_machine(db, &machine);
    row.toolchain = db_put_toolchain(db, &toolchain);
    row.model = s->l->parts.model;
    row.output = s->p->o->out;
    row.output_hash =
        library_file_hash(e, arena_printf(&e->kernel, "%s/model.so", s->p->o->out));
    row.n_threads = s->l->parts.o.n_threads;
    row.command = command_of(e, s->p->o);
    return row;
}

static void store_rows(Env *e, Db *db, void *arg)
{
    const Store *s = arg;
    const nc_facts *f = s->l->text.tables->facts;
    DbBuildSite *site = arena_array(&e->model, DbBuildSite, f->n_sites);
    DbBuild build = build_row(e, db, s);
    int n = 0;
    for (int i = 0; i < s->l->parts.n; i++) {
        const Program *p = s->l->parts.part[i].program;
        Hash *built = arena_array(&e->model, Hash, p->kernel.n);
        for (int k = 0; k < p->kernel.n; k++) {
            built[k] = emit_hash(e, p->kernel.at[k], s->l->parts.o.tc->target);
        }
        for (int k = 0; k < p->call.n; k++, n++) {
            int kernel = p->call.at[k].kernel;
            const Picked *x = pick_of(s->p, &s->l->parts, i, kernel);
            site[n] = site_row(e, db, &f->site[n], x, built[kernel], n);
        }
    }
    db_add_new_build(db, &build, site, n);
}

static void store(Env *e, void *arg)
{
    const Store *s = arg;
    db_write(e, db_path(s->p->here.db), store_rows, arg);
}

void manifest_store(Env *e, const Picks *p, const ModelLibrary *l, uint64_t took_ns)
{
    Store s = {.p = p, .l = l, .took_ns = took_ns};
    if (p->here.db && !env_try(e, store, &s)) {
        fprintf(stderr, "This build is not recorded: %s\n", e->err.text);
    }
}
