/* replay.c - `tune --replay RUN`: strategies tried on what a run recorded, without measuring anything. The
 * space is that of the recorded candidates alone; regret is how far the best so far is from the best of
 * them. Whoever does not beat random search over many seeds is named. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/cli/duels.h"

typedef struct Replay {
    const Workplace *w;
    Db *db;
    int64_t run;
    int n_shown;
} Replay;

/* ---- which run ---------------------------------------------------------------------------- */

/* "last", an id, or its first digits. */
static int64_t find_run(Replay *x, const char *word)
{
    int64_t id = 0;
    int n = 0;
    DbSql *q = db_sql(
        x->db, !strcmp(word, "last")
                   ? "SELECT id FROM run WHERE ?1 = 'last' AND EXISTS (SELECT 1 FROM trial "
                     "WHERE run = run.id) ORDER BY started_ns DESC, id DESC LIMIT 1"
                   : "SELECT id FROM run WHERE CAST(id AS TEXT) = ?1 OR (length(?1) > 0 AND "
                     "substr(CAST(id AS TEXT), 1, length(?1)) = ?1) ORDER BY id");
    db_sql_bind_text(q, 1, word);
    while (db_sql_next(q)) {
        id = db_sql_cell(q, 0).i;
        n++;
    }
    if (n != 1) {
        fail(x->w->e, E_INPUT, "%s has %s run '%s'; `report runs` lists what it has.",
             db_path(x->db), n ? "more than one" : "no", word);
    }
    return id;
}

/* ---- its candidates ----------------------------------------------------------------------- */

typedef struct Tried {
    int64_t idx, rank, incumbent; /* DB_NONE: the default */
    const char *schedule, *status;
    bool same_code;    /* as the incumbent's: not measured */
    double ratio;      /* to the incumbent; NaN: not timed */
    double to_default; /* along the incumbents */
} Tried;
typedef Vec(Tried) AllTried;

static int64_t whole(const DbSql *q, int column)
{
    DbCell c = db_sql_cell(q, column);
    return c.kind == DB_NULL ? DB_NONE : c.i;
}

static double ratio_of(const DbSql *q, int column)
{
    DbCell c = db_sql_cell(q, column);
    return c.kind == DB_NULL ? NAN : c.r;
}

/* A trial comes after the one that made its incumbent. */
static double along(const AllTried *all, const Tried *t)
{
    double base = t->incumbent == DB_NONE ? 1 : NAN;
    for (int i = all->n - 1; i >= 0 && t->incumbent != DB_NONE; i--) {
        if (all->at[i].idx == t->incumbent) {
            base = all->at[i].to_default;
            break;
        }
    }
    return base * (t->same_code ? 1 : t->ratio);
}

/* Ratios of replicates come first: that of the search is taken where it looked best. */
static AllTried tried(Replay *x, int64_t task)
{
    Arena *m = &x->w->e->model;
    AllTried all = {0};
    DbSql *q = db_sql(
        x->db,
        "SELECT tr.idx, tr.rank, tr.incumbent, tr.schedule, tr.status, tr.outcome, "
        "coalesce(rp.ratio, s.ratio) FROM trial tr LEFT JOIN duel s ON s.run = tr.run AND "
        "s.trial = tr.idx AND s.stage = 'search' LEFT JOIN duel rp ON rp.run = tr.run AND "
        "rp.trial = tr.idx AND rp.stage = 'replicate' WHERE tr.run = ?1 AND tr.task = ?2 "
        "ORDER BY tr.idx");
    db_sql_bind_int(q, 1, x->run);
    db_sql_bind_int(q, 2, task);
    while (db_sql_next(q)) {
        Tried t = {.idx = whole(q, 0),
                   .rank = whole(q, 1),
                   .incumbent = whole(q, 2),
                   .schedule = arena_str(m, db_sql_cell(q, 3).text),
                   .status = arena_str(m, db_sql_cell(q, 4).text),
                   .same_code = !strcmp(db_sql_cell(q, 5).text, "same-code"),
                   .ratio = ratio_of(q, 6)};
        t.to_default = along(&all, &t);
        *vec_push(m, &all) = t;
    }
    return all;
}

/* ---- the task as it was ------------------------------------------------------------------- */

/* "s0=64,s1=896" */
static void read_sizes(const char *text, int64_t *sym)
{
    for (int i = 0; i < MAX_SYMBOLS && *text; i++) {
        const char *equals = strchr(text, '=');
        char *end;
        if (!equals) {
            return;
        }
        sym[i] = strtoll(equals + 1, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
}

static void recorded_space(Replay *x, const DbTask *t, Space *out)
{
    Env *e = x->w->e;
    DbKernel k;
    PickHint hint = hint_here(x->w);
    check(DB_ONE(x->db, KERNEL, &e->model, &k, t->kernel));
    Kernel *kernel = kernel_parse(e, k.text, strlen(k.text), "recorded kernel");
    hint.n_threads = (int)t->n_threads;
    memset(hint.sym, 0xff, sizeof hint.sym);
    read_sizes(t->sizes, hint.sym);
    space_init(e, &e->model, out, kernel, &hint);
}

/* ---- one task ----------------------------------------------------------------------------- */

static void print_curves(const Replay *x, const DbRunTask *rt, const SearchTable *t)
{
    Env *e = x->w->e;
    const TuneOptions *o = x->w->o;
    int64_t most = o->budget.trials > 0 && o->budget.trials < t->n ? o->budget.trials : t->n;
    unsigned which = o->strategy_given ? 1u << o->strategy : ALL_STRATEGIES;
    SearchComparison out;
    Buf text;
    search_compare(e, &e->model, t, which, o->n_seeds, o->protocol.batch, (int)most, &out);
    buf_init(&text, &e->model);
    comparison_print(&out, &text);
    printf("%s: %d recorded candidates; mean regret of the best so far (ln of time) over %d "
           "seeds, "
           "in batches of %d\n%s",
           rt->label, t->n, o->n_seeds, o->protocol.batch, text.at);
}

static void replay_task(Replay *x, const DbRunTask *rt)
{
    Env *e = x->w->e;
    DbTask task;
    Space *space = arena_new(&e->model, Space);
    SearchTable table;
    AllTried all = tried(x, rt->task);
    if (all.n == 0) {
        return;
    }
    check(DB_ONE(x->db, TASK, &e->model, &task, rt->task));
    recorded_space(x, &task, space);
    SearchRow *row = arena_array(&e->model, SearchRow, all.n);
    for (int i = 0; i < all.n; i++) {
        const Tried *t = &all.at[i];
        Point p;
        if (!rank_is(space, t->rank, t->schedule, &p)) {
            fail(e, E_INPUT,
                 "%s: trial %lld was recorded in another space than its kernel has here, so it "
                 "cannot be replayed.",
                 rt->label, (long long)t->idx);
        }
        row[i] = (SearchRow){.index = (uint64_t)t->rank,
                             .status = (Status)word_place(status_name, N_STATUSES, t->status),
                             .log_ratio = log(t->to_default)};
    }
    SearchSpace whole = search_space(space);
    search_table_init(e, &table, &whole, row, all.n);
    print_curves(x, rt, &table);
    x->n_shown++;
}

/* ---- all of them -------------------------------------------------------------------------- */

static void replay_all(Env *e, void *arg)
{
    Replay *x = arg;
    DbRunTask rt;
    x->db = db_must_open(e, x->w->o->db, DB_READ);
    x->run = find_run(x, x->w->o->side[0]);
    DbCursor at = DB_FIND(x->db, RUN_TASKS, x->run);
    while (db_next(&at, &e->model, &rt)) {
        replay_task(x, &rt);
    }
    if (x->n_shown == 0) {
        fail(e, E_INPUT, "Run %lld tried no candidates: there is nothing to replay.",
             (long long)x->run);
    }
}

static void close_db(void *arg)
{
    db_close(((Replay *)arg)->db);
}

static void replay(const Workplace *w)
{
    Replay x = {.w = w};
    env_finally(w->e, replay_all, close_db, &x);
}

const Command command_replay = {.option = "replay", .alone = replay};
