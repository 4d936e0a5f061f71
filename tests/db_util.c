/* db_util.c - see db_util.h. */
#include "tests/db_util.h"

#include "tuner/evidence.h"

#include <math.h>
#include <sqlite3.h>
#include <string.h>

Story story(void)
{
    return (Story){.kernel = "kernel matmul\nout f32[s0, 32]\n",
                   .m = 64,
                   .l2_bytes = 1 << 20,
                   .flags = "-O3 -march=native",
                   .host = "here",
                   .seed = 1,
                   .n_trials = 4,
                   .wins = true};
}

Db *open_db(Env *e, const char *path, DbMode mode)
{
    Err err;
    Db *db = db_open(e, path, mode, &err);
    cr_assert(db, "%s", err.text);
    return db;
}

DbMachine story_machine(const Story *s)
{
    if (s->machine) {
        return *s->machine;
    }
    DbMachine m = db_blank_machine();
    m.isa = "x86_64 family 25 avx2 fma";
    m.l1d_bytes = 32 << 10, m.l2_bytes = s->l2_bytes, m.l3_bytes = 32 << 20, m.n_cores = 2;
    m.host = s->host, m.brand = "A CPU", m.kernel_release = "6.1";
    return m;
}

DbToolchain story_toolchain(const Story *s)
{
    if (s->toolchain) {
        return *s->toolchain;
    }
    DbToolchain t = db_blank_toolchain();
    t.version = "gcc (Debian) 12.2.0", t.words = "", t.flags = s->flags, t.target = "avx2";
    t.path = "/usr/bin/gcc";
    return t;
}

/* ---- one run ---- */

typedef struct Telling {
    Db *db;
    const Story *s;
    Told *told;
    Rng rng;
    int trial;
} Telling;

static void tell_space(Telling *t)
{
    DbSpace s = {.class = "contraction", .n_points = 6, .n_legal = 6};
    DbKnob knob[2] = {{0, 0, "tile", "rows of the register tile"},
                      {0, 1, "pack", "panels or not"}};
    DbKnobChoice choice[5] = {{0, 0, 0, 2, "2"},
                              {0, 0, 1, 4, "4"},
                              {0, 0, 2, 6, "6"},
                              {0, 1, 0, 0, "none"},
                              {0, 1, 1, 1, "panels"}};
    t->told->space = db_put_space(t->db, &s, knob, 2, choice, 5);
}

static void tell_run(Env *e, void *arg)
{
    Telling *t = arg;
    DbMachine m = story_machine(t->s);
    DbToolchain c = story_toolchain(t->s);
    t->told->machine = db_put_machine(t->db, &m);
    t->told->toolchain = db_put_toolchain(t->db, &c);
    t->told->kernel = db_put_kernel(t->db, t->s->kernel);
    DbTask task = db_blank_task();
    task.kernel = t->told->kernel, task.n_threads = 2, task.regime = "cold";
    task.sizes = db_sizes_text(&e->model, &t->s->m, 1);
    t->told->task = db_put_task(t->db, &task);
    tell_space(t);
    DbRun r = db_blank_run();
    r.started_ns = 1000000 + (int64_t)t->s->seed, r.program = "tune", r.version = NC_VERSION;
    r.protocol = 1, r.command = "tune --kernel matmul", r.machine = m.id, r.toolchain = c.id;
    r.strategy = "random", r.seed = (int64_t)t->s->seed, r.n_threads = 2, r.n_batch = 8;
    r.id = (int64_t)t->s->seed; /* so that a story told twice is the same run */
    t->told->run = r.id;
    DbRun known;
    if (DB_ONE(t->db, RUN, &e->model, &known, r.id)) {
        return;
    }
    db_add_run(t->db, &r);
    db_add_run_constant(t->db, &(DbRunConstant){r.id, "alpha", 0.01});
    DbRunTask rt = db_blank_run_task();
    rt.run = r.id, rt.task = task.id, rt.idx = 0, rt.label = "matmul 64x32";
    rt.space = t->told->space, rt.default_schedule = "split n 16 pad";
    rt.default_c_hash = hash_str("default"), rt.flops = 1 << 20;
    db_add_run_task(t->db, &rt);
}

enum { N_PAIRS = 9 };

/* The default at about 1000 ns a call, the challenger at `ratio` of that. */
static void make_pairs(Telling *t, const DbProcess *p, DbPair *pair, double ratio)
{
    for (int i = 0; i < N_PAIRS; i++) {
        pair[i] = db_blank_pair();
        pair[i].a_ns = 10000 + (int64_t)rng_below(&t->rng, 50);
        pair[i].b_ns = (int64_t)((double)pair[i].a_ns * ratio);
        pair[i].b_first = pair_b_first((uint64_t)p->seed, i);
        pair[i].a_cpu_ns = pair[i].b_cpu_ns = 0;
        pair[i].cpu = 1, pair[i].flags = 0;
    }
}

/* As tune records it: all that follows from the pairs. */
static void add_duel(Telling *t, Env *e, DbDuel *d, DbProcess *process, int n,
                     DbPair *const *pair)
{
    Rules r;
    Protocol p = protocol_default();
    int n_pairs[16];
    for (int i = 0; i < n; i++) {
        process[i].n_pairs = n_pairs[i] = N_PAIRS;
    }
    rules_init(&r, &p);
    Terms terms = {.margin_e4 = (int)d->margin_e4, .n_threads = 2};
    evidence_fill(e, &r, &terms, d, process, n, pair);
    db_add_whole_duel(t->db, d, process, n, pair, n_pairs);
}

static DbProcess a_process(Telling *t)
{
    DbProcess p = db_blank_process();
    p.status = "ok", p.seed = (int64_t)rng_u64(&t->rng), p.reps = 10, p.started_ns = 2000000;
    p.took_ns = 1000000, p.pid = 17, p.load1 = 0.25;
    p.read_before = 10, p.read_after = 12, p.flops_before = p.flops_after = 40, p.flipped = 0;
    return p;
}

static DbDuel a_duel(Telling *t, const char *stage, int64_t margin_e4)
{
    DbDuel d = db_blank_duel();
    d.run = t->told->run, d.idx = t->told->n_duels++, d.task = t->told->task, d.stage = stage;
    d.a_name = "default", d.a_schedule = "split n 16 pad", d.a_c_hash = hash_str("default");
    d.metric = "wall", d.margin_e4 = margin_e4, d.alpha = 0.01, d.beta = 0.05, d.theta1 = 0.7;
    d.n_max = 200, d.ties = d.discarded = d.noisy = 0;
    d.started_ns = 2000000, d.took_ns = 5000000;
    return d;
}

static bool is_last(const Telling *t)
{
    return t->trial == t->s->n_trials - 1;
}

static const char *schedule_of(Telling *t, Env *e)
{
    if (is_last(t) && t->s->schedule) {
        return t->s->schedule;
    }
    return arena_printf(&e->model, "split n %d pad; unroll n.i",
                        (int)t->s->seed * 100 + t->trial);
}

static void tell_title(Telling *t, Env *e, const DbTrial *trial)
{
    DbProcess process[13];
    DbPair pairs[13][N_PAIRS], *pair[13];
    for (int i = 0; i < 13; i++) {
        process[i] = a_process(t), pair[i] = pairs[i];
        make_pairs(t, &process[i], pairs[i], 0.5 + (double)(t->s->seed % 100) / 1000);
    }
    DbDuel d = a_duel(t, "title", 0);
    d.alpha = 0.001, d.theta1 = 0.75, d.n_max = 40;
    d.b_name = "champion", d.b_schedule = trial->schedule, d.b_c_hash = trial->c_hash;
    add_duel(t, e, &d, process, 13, pair);
    DbWinner w = db_blank_winner();
    w.run = d.run, w.task = d.task, w.schedule = trial->schedule, w.c_hash = trial->c_hash;
    w.trial = trial->idx, w.rank = trial->rank, w.duel = d.idx;
    w.default_schedule = "split n 16 pad", w.default_c_hash = hash_str("default");
    w.ratio = d.ratio, w.ratio_lo = d.ratio_lo, w.ratio_hi = d.ratio_hi, w.b_ns = d.b_ns;
    w.at_ns = 3000000;
    db_add_winner(t->db, &w);
    db_add_winner_range(t->db, &(DbWinnerRange){d.run, d.task, 0, 33, 128});
    DbTieSet champion = {.run = d.run,
                         .task = d.task,
                         .schedule = w.schedule,
                         .c_hash = w.c_hash,
                         .trial = w.trial,
                         .duel = DB_NONE,
                         .n_steps = 2,
                         .canonical = 1};
    db_add_tie_set(t->db, &champion);
}

static bool is_timed(int trial)
{
    return trial % 4 != 1;
}

static void tell_trial(Env *e, void *arg)
{
    Telling *t = arg;
    bool ok = is_timed(t->trial), given = t->s->c_hash.hi || t->s->c_hash.lo;
    DbTrial r = db_blank_trial();
    r.run = t->told->run, r.idx = t->trial, r.task = t->told->task, r.rank = t->trial;
    r.schedule = schedule_of(t, e), r.status = ok ? "ok" : "wrong";
    r.outcome = ok ? "won" : "failed", r.why = ok ? NULL : "element 3 differs";
    r.c_hash = is_last(t) && given ? t->s->c_hash : hash_str(r.schedule), r.batch = 0,
    r.started_ns = 2000000 + t->trial;
    r.build_ns = 40000000, r.verify_ns = 1000000, r.measure_ns = 5000000, r.decide_ns = 1000;
    db_add_trial(t->db, &r);
    db_add_trial_knob(t->db, &(DbTrialKnob){r.run, r.idx, 0, t->trial % 3});
    db_add_trial_knob(t->db, &(DbTrialKnob){r.run, r.idx, 1, t->trial % 2});
    if (ok) {
        DbProcess process = a_process(t);
        DbPair pair[N_PAIRS], *pairs = pair;
        make_pairs(t, &process, pair, 0.5);
        DbDuel d = a_duel(t, "search", 100);
        d.trial = r.idx, d.b_name = "candidate", d.b_schedule = r.schedule,
        d.b_c_hash = r.c_hash;
        add_duel(t, e, &d, &process, 1, &pairs);
    }
    if (is_last(t) && t->s->wins) {
        tell_title(t, e, &r);
    }
}

Told tell(Db *db, const Story *s)
{
    Told told = {.n_duels = 0};
    Telling t = {.db = db, .s = s, .told = &told};
    DbTrial known;
    int64_t run = (int64_t)s->seed;
    db_transact(db, tell_run, &t);
    for (; t.trial < s->n_trials; t.trial++) {
        rng_seed(&t.rng, s->seed * 1000 + (uint64_t)t.trial);
        int64_t key[] = {run, t.trial};
        if (db_one(db, DB_Q_TRIAL, key, 2, &db_env(db)->model, &known)) {
            told.n_duels += is_timed(t.trial);
        } else {
            db_transact(db, tell_trial, &t);
        }
    }
    db_end_run_task(db, told.run, told.task, 4000000, s->wins ? "winner" : "default-kept",
                    NULL);
    db_end_run(db, told.run, 5000000, "finished", NULL);
    return told;
}

Told tell_at(Env *e, const char *path, const Story *s)
{
    Story plain = story();
    Db *db = open_db(e, path, DB_WRITE);
    Told told = tell(db, s ? s : &plain);
    db_close(db);
    return told;
}

/* ---- looking ---- */

const char *contents(Env *e, Db *db)
{
    static const char *const table[] = {
#define X(list, type, name, n_key, owner) #name,
        DB_TABLES(X)
#undef X
    };
    Buf b;
    buf_init(&b, &e->model);
    for (size_t i = 0; i < countof(table); i++) {
        DbSql *q = db_sql(db, arena_printf(&e->model, "SELECT * FROM %s", table[i]));
        buf_printf(&b, "%s\n", table[i]);
        int n = db_sql_columns(q);
        while (db_sql_next(q)) {
            for (int c = 0; c < n; c++) {
                DbCell cell = db_sql_cell(q, c);
                buf_printf(&b, "%d:%s\x1f", cell.kind, cell.text);
            }
            buf_char(&b, '\n');
        }
    }
    return b.at;
}

const char *contents_at(Env *e, const char *path)
{
    Db *db = open_db(e, path, DB_READ);
    const char *text = contents(e, db);
    db_close(db);
    return text;
}

void set_sql(const char *path, const char *sql)
{
    sqlite3 *s;
    char *why = NULL;
    cr_assert_eq(sqlite3_open(path, &s), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(s, sql, NULL, NULL, &why), SQLITE_OK, "%s: %s", sql, why);
    sqlite3_close(s);
}

const char *queried(Env *e, const char *path, const char *query)
{
    Ran r = SCHEDB(e, "sql", "--db", path, "--format", "csv", query);
    const char *rows = strchr(r.out, '\n');
    cr_assert(r.status == 0 && rows, "%s: status %d: %s", query, r.status, r.out);
    rows++;
    return arena_strn(&e->model, rows, strlen(rows) - (*rows != '\0'));
}

void gives(Env *e, const char *path, const char *query, const char *rows)
{
    cr_expect_str_eq(queried(e, path, query), rows, "%s", query);
}

void is_sound(Env *e, const char *path)
{
    shows(SCHEDB(e, "verify", "--db", path), "is sound");
}
