/* export_t4.c - trials in the T4 format, version 1.0.0, that autotuning research exchanges, and the metadata
 * that belong to it. Times are in milliseconds. A configuration is a trial's knobs, by their names, or its
 * schedule's text where it has none; runtimes are those pairs of its search duel that counted. */
#include <math.h>
#include <string.h>

#include "db/db_int.h"

typedef struct T4 {
    Db *db;
    DbWrite *write;
    void *ctx;
    Buf b;
    int n;
} T4;

/* Our statuses in its words. */
static const struct {
    const char *status, *invalidity;
} invalidities[] = {
    {"ok", "correct"},         {"illegal", "constraints"}, {"cc-error", "compile"},
    {"cc-timeout", "timeout"}, {"crash", "runtime"},       {"timeout", "timeout"},
    {"oom", "runtime"},        {"wrong", "correctness"},   {"garbage", "runtime"},
};

static const char *invalidity(const char *status)
{
    for (size_t i = 0; i < countof(invalidities); i++) {
        if (!strcmp(status, invalidities[i].status)) {
            return invalidities[i].invalidity;
        }
    }
    return "runtime";
}

static void configuration(T4 *x, const DbTrial *r)
{
    buf_str(&x->b, "\"configuration\": {");
    if (!json_knobs(x->db, r, &x->b)) {
        buf_str(&x->b, "\"schedule\": ");
        json_text(&x->b, r->schedule);
    }
    buf_str(&x->b, "}");
}

static void times(T4 *x, const DbTrial *r)
{
    buf_printf(&x->b,
               "\"times\": {\"compilation_time\": %.9g, \"runtimes\": ", ms_of(r->build_ns));
    double framework = ms_of(r->measure_ns) - json_samples(x->db, r, &x->b);
    buf_printf(&x->b,
               ", \"framework\": %.9g, \"search_algorithm\": %.9g, \"validation\": %.9g}",
               framework > 0 ? framework : 0, ms_of(r->decide_ns), ms_of(r->verify_ns));
}

static void measurements(T4 *x, const DbTrial *r)
{
    double ns = trial_ns(x->db, r);
    buf_str(&x->b,
            "\"objectives\": [\"time\"], \"measurements\": [{\"name\": \"time\", \"value\": ");
    if (isfinite(ns)) {
        buf_printf(&x->b, "%.9g", ns / 1e6);
    } else {
        json_text(&x->b, strcmp(r->status, "ok") ? r->status : r->outcome);
    }
    buf_str(&x->b, ", \"unit\": \"ms\"}]");
}

static void result(T4 *x, const DbTrial *r)
{
    buf_str(&x->b, x->n++ ? ",\n  {" : "\n  {");
    buf_str(&x->b, "\"timestamp\": ");
    json_moment(&x->b, r->started_ns);
    buf_str(&x->b, ", ");
    configuration(x, r);
    buf_str(&x->b, ", ");
    times(x, r);
    buf_printf(&x->b, ", \"invalidity\": \"%s\", \"correctness\": %d, ", invalidity(r->status),
               !strcmp(r->status, "ok"));
    measurements(x, r);
    buf_str(&x->b, "}");
    x->write(x->ctx, x->b.at, x->b.len);
    buf_clear(&x->b);
}

static void results_of(T4 *x, int64_t run)
{
    DbTrial r;
    DbCursor c = DB_FIND(x->db, TRIALS, run, 0);
    while (db_next(&c, work(x->db), &r)) {
        result(x, &r);
    }
}

typedef Vec(int64_t) Ids;

/* That one, or where it is 0 all of them. */
static Ids runs_wanted(Db *db, int64_t run)
{
    Ids ids = {0};
    DbRun r;
    if (run && !DB_ONE(db, RUN, &db->scratch, &r, run)) {
        fail(db->e, E_INPUT, "%s has no run %lld.", db->path, (long long)run);
    }
    DbCursor c = DB_FIND_ALL(db, RUNS);
    while (db_next(&c, &db->scratch, &r)) {
        if (!run || run == r.id) {
            *vec_push(&db->scratch, &ids) = r.id;
        }
    }
    return ids;
}

void db_export_t4(Db *db, int64_t run, DbWrite *write, void *ctx)
{
    T4 x = {.db = db, .write = write, .ctx = ctx};
    buf_init(&x.b, scratch(db));
    Ids ids = runs_wanted(db, run);
    buf_str(&x.b, "{\"schema_version\": \"1.0.0\", \"results\": [");
    for (int i = 0; i < ids.n; i++) {
        results_of(&x, ids.at[i]);
    }
    buf_str(&x.b, "\n]}\n");
    write(ctx, x.b.at, x.b.len);
}

/* ---- metadata ---------------------------------------------------------------------------- */

/* A row as an object: what is not known is left out. */
static void row_object(DbTable t, const void *row, Buf *out)
{
    bool any = false;
    for (int i = 0; i < db_table[t].n_columns; i++) {
        Buf cell;
        buf_init(&cell, out->arena);
        row_cell(t, row, i, &cell);
        if (strcmp(cell.at, "-") != 0) {
            buf_str(out, any ? ", " : "{");
            json_text(out, db_table[t].column[i].name);
            buf_str(out, ": ");
            if (db_table[t].column[i].kind == KIND_HASH) {
                json_text(out, cell.at);
            } else {
                buf_str(out, cell.at); /* a text is quoted already */
            }
            any = true;
        }
    }
    buf_str(out, any ? "}" : "{}");
}

typedef struct Metadata {
    Buf machines, requirements, system;
    Ids machine, toolchain; /* that were told of */
} Metadata;

static bool is_new(Arena *a, Ids *known, int64_t id)
{
    for (int i = 0; i < known->n; i++) {
        if (known->at[i] == id) {
            return false;
        }
    }
    *vec_push(a, known) = id;
    return true;
}

static void machine_of(Db *db, Metadata *x, int64_t id)
{
    DbMachine m;
    if (is_new(&db->scratch, &x->machine, id) && DB_ONE(db, MACHINE, &db->scratch, &m, id)) {
        buf_str(&x->machines, x->machines.len ? ",\n   " : "");
        row_object(DB_T_MACHINE, &m, &x->machines);
        const char *release = m.kernel_release ? m.kernel_release : "of an unknown release";
        if (!strstr(x->system.at, release)) {
            buf_printf(&x->system, "%sLinux %s", x->system.len ? ", " : "", release);
        }
    }
}

static void toolchain_of(Db *db, Metadata *x, const DbRun *r)
{
    DbToolchain t;
    if (is_new(&db->scratch, &x->toolchain, r->toolchain) &&
        DB_ONE(db, TOOLCHAIN, &db->scratch, &t, r->toolchain)) {
        buf_str(&x->requirements, x->requirements.len ? ",\n   " : "");
        json_text(&x->requirements,
                  arena_printf(&db->scratch, "%s %s, protocol %lld; %s%s%s; %s; %s", r->program,
                               r->version, (long long)r->protocol, t.version,
                               *t.words ? " " : "", t.words, t.flags, t.target));
    }
}

void db_export_t4_metadata(Db *db, int64_t run, DbWrite *write, void *ctx)
{
    Metadata x = {.machine = {0}};
    Arena *a = scratch(db);
    Buf b;
    buf_init(&b, a), buf_init(&x.machines, a);
    buf_init(&x.requirements, a), buf_init(&x.system, a);
    Ids ids = runs_wanted(db, run);
    for (int i = 0; i < ids.n; i++) {
        DbRun r;
        if (DB_ONE(db, RUN, a, &r, ids.at[i])) {
            machine_of(db, &x, r.machine);
            toolchain_of(db, &x, &r);
        }
    }
    buf_printf(&b,
               "{\"schema_version\": \"1.0.0\", \"metadata\": {\n"
               "  \"hardware\": {\"hardware_description\": [%s],\n   \"operating_system\": ",
               x.machines.at);
    json_text(&b, x.system.at);
    buf_printf(&b,
               "},\n  \"environment\": {\"device_query\": {\"time_unit\": \"ms\"},\n   "
               "\"requirements\": [%s]}\n}}\n",
               x.requirements.at);
    write(ctx, b.at, b.len);
}
