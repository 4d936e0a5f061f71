/* export_cache.c - the trials of one task as a cache of Kernel Tuner (schema cache/1.1.0), so that its
 * simulation mode replays them and its dashboard shows them. An instance is named by its knobs' values; one
 * that was neither timed nor failed (it had the code of the incumbent) is none of the cache. */
#include <math.h>
#include <string.h>

#include "db/db_int.h"

typedef struct Caching {
    Db *db;
    const DbRunTask *rt;
    Vec(DbKnob) knob;
    Buf b;
    int n;
} Caching;

/* Our statuses in its words. */
static const struct {
    const char *status, *time;
} failures[] = {
    {"illegal", "InvalidConfig"},
    {"cc-error", "CompilationFailedConfig"},
    {"cc-timeout", "CompilationFailedConfig"},
    {"crash", "RuntimeFailedConfig"},
    {"timeout", "RuntimeFailedConfig"},
    {"oom", "RuntimeFailedConfig"},
    {"wrong", "RuntimeFailedConfig"},
    {"garbage", "RuntimeFailedConfig"},
};

static const char *failure_of(const char *status)
{
    for (size_t i = 0; i < countof(failures); i++) {
        if (!strcmp(status, failures[i].status)) {
            return failures[i].time;
        }
    }
    return NULL;
}

/* ---- the head ---- */

static void choices(Caching *x, const DbKnob *k)
{
    DbKnobChoice c;
    bool any = false;
    json_text(&x->b, k->name);
    buf_str(&x->b, ": [");
    DbCursor at = DB_FIND(x->db, KNOB_CHOICES, k->space);
    while (db_next(&at, &x->db->scratch, &c)) {
        if (c.knob == k->idx) {
            buf_str(&x->b, any ? ", " : "");
            json_choice(&x->b, c.word,
                        arena_printf(&x->db->scratch, "%lld", (long long)c.value));
            any = true;
        }
    }
    buf_char(&x->b, ']');
}

static void parameters(Caching *x)
{
    buf_str(&x->b, " \"tune_params_keys\": [");
    for (int i = 0; i < x->knob.n; i++) {
        buf_str(&x->b, i ? ", " : "");
        json_text(&x->b, x->knob.at[i].name);
    }
    buf_str(&x->b, "],\n \"tune_params\": {");
    for (int i = 0; i < x->knob.n; i++) {
        buf_str(&x->b, i ? ",\n  " : "");
        choices(x, &x->knob.at[i]);
    }
    buf_str(&x->b, "},\n");
}

static void head(Caching *x)
{
    Arena *a = &x->db->scratch;
    DbRun r;
    DbTask t;
    DbMachine m;
    if (!DB_ONE(x->db, RUN, a, &r, x->rt->run) || !DB_ONE(x->db, TASK, a, &t, x->rt->task) ||
        !DB_ONE(x->db, MACHINE, a, &m, r.machine)) {
        fail(x->db->e, E_IO, "%s lacks rows: `schedb verify` says which.", x->db->path);
    }
    const char *brand = m.brand ? m.brand : m.isa;
    buf_str(&x->b, "{\"schema_version\": \"1.1.0\",\n \"device_name\": ");
    json_text(&x->b,
              arena_printf(a, "%s, %lld threads, %s", brand, (long long)t.n_threads, t.regime));
    buf_str(&x->b, ",\n \"kernel_name\": ");
    json_text(&x->b, x->rt->label ? x->rt->label : "");
    buf_str(&x->b, ",\n \"problem_size\": ");
    json_text(&x->b, t.sizes);
    buf_str(&x->b, ",\n");
    parameters(x);
    buf_str(&x->b, " \"objective\": \"time\",\n \"cache\": {");
}

/* ---- instances ---- */

/* "4,panels": the values of the knobs, in the order of the keys. */
static void instance_name(Caching *x, const DbTrial *r)
{
    DbSql *q = db_sql(x->db, "SELECT coalesce(word, choice) FROM v_knobs WHERE run = ?1 AND "
                             "trial = ?2 ORDER BY knob");
    Buf name;
    buf_init(&name, &x->db->scratch);
    db_sql_bind_int(q, 1, r->run);
    db_sql_bind_int(q, 2, r->idx);
    while (db_sql_next(q)) {
        buf_printf(&name, "%s%s", name.len ? "," : "", db_sql_cell(q, 0).text);
    }
    json_text(&x->b, name.at);
}

static void instance(Caching *x, const DbTrial *r)
{
    const char *failure = failure_of(r->status);
    double ns = trial_ns(x->db, r);
    if (!failure && !isfinite(ns)) {
        return;
    }
    buf_str(&x->b, x->n++ ? ",\n  " : "\n  ");
    instance_name(x, r);
    buf_str(&x->b, ": {");
    buf_str(&x->b, json_knobs(x->db, r, &x->b) ? ", \"time\": " : "\"time\": ");
    if (failure) {
        json_text(&x->b, failure);
    } else {
        buf_printf(&x->b, "%.9g", ns / 1e6);
    }
    buf_str(&x->b, ", \"times\": ");
    double samples = json_samples(x->db, r, &x->b), rest = ms_of(r->measure_ns) - samples;
    if (!failure && x->rt->flops > 0) {
        buf_printf(&x->b, ", \"GFLOP/s\": %.9g", (double)x->rt->flops / ns);
    }
    buf_printf(
        &x->b,
        ", \"compile_time\": %.9g, \"verification_time\": %.9g, \"benchmark_time\": %.9g, "
        "\"strategy_time\": %.9g, \"framework_time\": %.9g, \"timestamp\": ",
        ms_of(r->build_ns), ms_of(r->verify_ns), samples, ms_of(r->decide_ns),
        rest > 0 ? rest : 0);
    json_moment(&x->b, r->started_ns);
    buf_char(&x->b, '}');
}

/* ---- which task ---- */

/* The only one that was searched among those that are asked for. */
static DbRunTask one_task(Db *db, int64_t run, int64_t task)
{
    DbRunTask rt = db_blank_run_task();
    DbSql *q = db_sql(db, "SELECT run, task, label FROM run_task WHERE space IS NOT NULL AND "
                          "?1 IN (0, run) AND ?2 IN (0, task) ORDER BY run, idx");
    Buf all;
    int n = 0;
    int64_t key[2] = {0};
    buf_init(&all, &db->scratch);
    db_sql_bind_int(q, 1, run);
    db_sql_bind_int(q, 2, task);
    while (db_sql_next(q)) {
        key[0] = db_sql_cell(q, 0).i, key[1] = db_sql_cell(q, 1).i;
        buf_printf(&all, "%srun %lld task %lld", n++ ? ", " : "", (long long)key[0],
                   (long long)key[1]);
    }
    if (n != 1) {
        fail(db->e, E_INPUT,
             n ? "A cache of Kernel Tuner holds one search; say which by --run and --task: %s."
               : "%s has no such search.",
             n ? all.at : db->path);
    }
    DB_ONE(db, RUN_TASK, &db->scratch, &rt, key[0], key[1]);
    return rt;
}

void db_export_cache(Db *db, int64_t run, int64_t task, DbWrite *write, void *ctx)
{
    Arena *a = scratch(db);
    DbRunTask rt = one_task(db, run, task);
    Caching x = {.db = db, .rt = &rt};
    DbKnob k;
    DbTrial r;
    buf_init(&x.b, a);
    DbCursor c = DB_FIND(db, KNOBS, rt.space);
    while (db_next(&c, a, &k)) {
        *vec_push(a, &x.knob) = k;
    }
    head(&x);
    c = DB_FIND(db, TRIALS, rt.run, 0);
    while (db_next(&c, a, &r)) {
        if (r.task == rt.task) {
            instance(&x, &r);
        }
        write(ctx, x.b.at, x.b.len);
        buf_clear(&x.b);
    }
    buf_str(&x.b, "\n}}\n");
    write(ctx, x.b.at, x.b.len);
}
