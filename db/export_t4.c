/* export_t4.c - trials in the T4 format, version 1.0.0, that autotuning research exchanges.
 * Times are in milliseconds. A configuration is a trial's knobs, by their names, or its
 * schedule's text where it has none; runtimes are those pairs of its search duel that
 * counted. */
#include <string.h>
#include <time.h>

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

static double ms(int64_t ns)
{
    return ns == DB_NONE ? 0 : (double)ns / 1e6;
}

static void text(Buf *out, const char *s)
{
    buf_json(out, s, strlen(s));
}

static void configuration(T4 *x, const DbTrial *r)
{
    DbSql *q =
        db_sql(x->db, "SELECT name, word, value FROM v_knobs WHERE run = ?1 AND trial = ?2 "
                      "AND name IS NOT NULL ORDER BY knob");
    bool any = false;
    db_sql_bind_int(q, 1, r->run);
    db_sql_bind_int(q, 2, r->idx);
    buf_str(&x->b, "\"configuration\": {");
    while (db_sql_next(q)) {
        buf_str(&x->b, any ? ", " : "");
        text(&x->b, db_sql_cell(q, 0).text);
        buf_str(&x->b, ": ");
        const char *word = db_sql_cell(q, 1).text, *value = db_sql_cell(q, 2).text;
        if (strcmp(word, value) == 0) {
            buf_str(&x->b, value); /* a plain number */
        } else {
            text(&x->b, word);
        }
        any = true;
    }
    if (!any) {
        buf_str(&x->b, "\"schedule\": ");
        text(&x->b, r->schedule);
    }
    buf_str(&x->b, "}");
}

enum { DISCARDED = 1 | 2 | 4 | 32 }; /* flags of pairs that do not count */

/* The sum of what is listed, in ns. */
static double runtimes(T4 *x, const DbTrial *r)
{
    DbSql *q = db_sql(
        x->db,
        "SELECT p.b_call_ns, p.a_ns + p.b_ns, p.flags, d.noisy FROM duel d JOIN v_pairs p "
        "ON p.run = d.run AND p.duel = d.idx WHERE d.run = ?1 AND d.trial "
        "= ?2 AND d.stage = 'search' ORDER BY p.process, p.pair");
    double total = 0;
    bool any = false;
    db_sql_bind_int(q, 1, r->run);
    db_sql_bind_int(q, 2, r->idx);
    buf_str(&x->b, "\"runtimes\": [");
    while (db_sql_next(q)) {
        total += db_sql_cell(q, 1).r;
        int64_t drop = db_sql_cell(q, 3).i ? 32 : DISCARDED;
        if (!(db_sql_cell(q, 2).i & drop)) {
            buf_printf(&x->b, "%s%.9g", any ? ", " : "", db_sql_cell(q, 0).r / 1e6);
            any = true;
        }
    }
    buf_str(&x->b, "]");
    return total;
}

static void times(T4 *x, const DbTrial *r)
{
    buf_printf(&x->b, "\"times\": {\"compilation_time\": %.9g, ", ms(r->build_ns));
    double samples = runtimes(x, r) / 1e6, framework = ms(r->measure_ns) - samples;
    buf_printf(&x->b,
               ", \"framework\": %.9g, \"search_algorithm\": %.9g, \"validation\": %.9g}",
               framework > 0 ? framework : 0, ms(r->decide_ns), ms(r->verify_ns));
}

static void measurements(T4 *x, const DbTrial *r)
{
    DbDuel d;
    bool timed = false;
    DbCursor c = DB_FIND(x->db, TRIAL_DUELS, r->run, r->idx);
    while (!timed && db_next(&c, &x->db->work, &d)) {
        timed = !strcmp(d.stage, "search") && d.b_ns == d.b_ns;
    }
    db_end(&c);
    buf_str(&x->b,
            "\"objectives\": [\"time\"], \"measurements\": [{\"name\": \"time\", \"value\": ");
    if (timed) {
        buf_printf(&x->b, "%.9g", d.b_ns / 1e6);
    } else {
        text(&x->b, strcmp(r->status, "ok") ? r->status : r->outcome);
    }
    buf_str(&x->b, ", \"unit\": \"ms\"}]");
}

static void timestamp(T4 *x, const DbTrial *r)
{
    time_t s = (time_t)((r->started_ns == DB_NONE ? 0 : r->started_ns) / 1000000000);
    struct tm tm;
    char out[40] = "";
    if (gmtime_r(&s, &tm)) {
        strftime(out, sizeof out, "%Y-%m-%dT%H:%M:%SZ", &tm);
    }
    buf_printf(&x->b, "\"timestamp\": \"%s\"", out);
}

static void result(T4 *x, const DbTrial *r)
{
    buf_str(&x->b, x->n++ ? ",\n  {" : "\n  {");
    timestamp(x, r);
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

void db_export_t4(Db *db, int64_t run, DbWrite *write, void *ctx)
{
    T4 x = {.db = db, .write = write, .ctx = ctx};
    DbRun r;
    buf_init(&x.b, scratch(db));
    buf_str(&x.b, "{\"schema_version\": \"1.0.0\", \"results\": [");
    if (run && !DB_ONE(db, RUN, &db->scratch, &r, run)) {
        fail(db->e, E_INPUT, "%s has no run %lld.", db->path, (long long)run);
    }
    Vec(int64_t) runs = {0};
    DbCursor c = DB_FIND_ALL(db, RUNS);
    while (db_next(&c, &db->scratch, &r)) {
        if (!run || run == r.id) {
            *vec_push(&db->scratch, &runs) = r.id;
        }
    }
    for (int i = 0; i < runs.n; i++) {
        results_of(&x, runs.at[i]);
    }
    buf_str(&x.b, "\n]}\n");
    write(ctx, x.b.at, x.b.len);
}
