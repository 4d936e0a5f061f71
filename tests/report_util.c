/* report_util.c - see report_util.h. */
#include "tests/report_util.h"

#include "tuner/evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

typedef struct Teller {
    Env *e;
    Db *db;
    DbRun run;
    DbTask task;
    DbRunTask rt;
    int n_duels, n_trials;
    int64_t now_ns;
    Rng rng;
} Teller;

#define AT_2026 INT64_C(1767225600000000000)
#define DEFAULT "split n 16 pad"

/* ---- a run ---- */

static int64_t tell_space(Db *db)
{
    DbSpace s = {.class = "contraction", .n_points = 6, .n_legal = 6};
    DbKnob knob[2] = {{0, 0, "tile", "rows of the register tile"},
                      {0, 1, "pack", "panels or not"}};
    DbKnobChoice choice[5] = {{0, 0, 0, 2, "2"},
                              {0, 0, 1, 4, "4"},
                              {0, 0, 2, 6, "6"},
                              {0, 1, 0, 0, "none"},
                              {0, 1, 1, 1, "panels"}};
    return db_put_space(db, &s, knob, 2, choice, 5);
}

static void begin_run(Teller *t, int64_t id, int64_t started_ns)
{
    Story s = story();
    DbMachine m = story_machine(&s);
    DbToolchain c = story_toolchain(&s);
    m.n_online = 4, m.n_affinity = 2, m.bound_by = "affinity";
    t->n_duels = t->n_trials = 0;
    t->now_ns = started_ns;
    rng_seed(&t->rng, (uint64_t)id);
    t->run = db_blank_run();
    t->run.id = id, t->run.started_ns = started_ns, t->run.program = "tune";
    t->run.version = NC_VERSION, t->run.protocol = 1, t->run.seed = id;
    t->run.command = "tune --kernel matmul --budget 60s", t->run.strategy = "greedy";
    t->run.machine = db_put_machine(t->db, &m);
    t->run.toolchain = db_put_toolchain(t->db, &c);
    t->run.n_threads = 2, t->run.budget_ns = INT64_C(60000000000);
    db_add_run(t->db, &t->run);
}

static void begin_task(Teller *t, const char *kernel, const char *label, int64_t m)
{
    t->task = db_blank_task();
    t->task.kernel = db_put_kernel(t->db, kernel), t->task.n_threads = 2;
    t->task.regime = "cold", t->task.sizes = db_sizes_text(&t->e->model, &m, 1);
    db_put_task(t->db, &t->task);
    t->rt = db_blank_run_task();
    t->rt.run = t->run.id, t->rt.task = t->task.id, t->rt.idx = 0, t->rt.label = label;
    t->rt.space = tell_space(t->db), t->rt.default_schedule = DEFAULT;
    t->rt.default_c_hash = hash_str(DEFAULT);
    t->rt.flops = 2000, t->rt.read_bytes = 4000;
    db_add_run_task(t->db, &t->rt);
}

static void end_run(Teller *t, const char *ending, const char *why)
{
    db_end_run_task(t->db, t->run.id, t->task.id, t->now_ns, ending, why);
    db_end_run(t->db, t->run.id, t->now_ns, "finished", why);
}

/* ---- duels ---- */

enum { N_PAIRS = 9, MOST_PROCESSES = 16 };

static DbProcess a_process(Teller *t)
{
    DbProcess p = db_blank_process();
    p.status = "ok", p.seed = (int64_t)(rng_u64(&t->rng) >> 8), p.reps = 100;
    p.started_ns = t->now_ns, p.took_ns = 2000000, p.load1 = 0.25, p.cpu = 1;
    p.read_before = 10, p.read_after = 12; /* of 4000 bytes: 364 ns */
    p.flops_before = p.flops_after = 40;
    p.flipped = 0;
    return p;
}

/* Whole thousandths of round times, so that ratios come out as they are said. */
static void make_pairs(const DbProcess *p, DbPair *pair, int n, double ratio)
{
    for (int i = 0; i < n; i++) {
        pair[i] = db_blank_pair();
        pair[i].a_ns = 100000;
        pair[i].b_ns = llround(100000 * ratio);
        pair[i].b_first = pair_b_first((uint64_t)p->seed, i);
        pair[i].a_cpu_ns = pair[i].b_cpu_ns = 0;
        pair[i].cpu = 1, pair[i].flags = 0;
    }
}

typedef struct Sides {
    const char *a_name, *a, *b_name, *b; /* schedules; NULL: a rival */
} Sides;

/* n: processes of a match, pairs of a search. */
static DbDuel a_duel(Teller *t, const char *stage, Sides s, double ratio, int n)
{
    bool match = strcmp(stage, "search") && strcmp(stage, "replicate");
    DbDuel d = db_blank_duel();
    d.run = t->run.id, d.idx = t->n_duels++, d.task = t->task.id, d.stage = stage;
    d.a_name = s.a_name, d.a_schedule = s.a, d.b_name = s.b_name, d.b_schedule = s.b;
    d.a_c_hash = s.a ? hash_str(s.a) : (Hash){0, 0};
    d.b_c_hash = s.b ? hash_str(s.b) : (Hash){0, 0};
    d.metric = "wall", d.margin_e4 = match ? 0 : 100, d.alpha = match ? 0.001 : 0.01;
    d.beta = 0.05, d.theta1 = match ? 0.75 : 0.7, d.n_max = match ? 40 : 200;
    d.started_ns = t->now_ns, d.took_ns = n * 2000000;
    d.n = n, d.ratio = ratio; /* until the pairs say so */
    return d;
}

/* Processes differ by a percent; what is stored of the outcome follows from the pairs. */
static void add_duel(Teller *t, DbDuel *d)
{
    bool match = strcmp(d->stage, "search") && strcmp(d->stage, "replicate");
    int n = match ? (int)d->n : 1;
    DbProcess process[MOST_PROCESSES];
    DbPair pairs[MOST_PROCESSES][N_PAIRS], *pair[MOST_PROCESSES];
    int n_pairs[MOST_PROCESSES];
    cr_assert(n <= MOST_PROCESSES);
    for (int i = 0; i < n; i++) {
        process[i] = a_process(t), pair[i] = pairs[i];
        n_pairs[i] = process[i].n_pairs = match ? N_PAIRS : (int)d->n;
        make_pairs(&process[i], pairs[i], n_pairs[i],
                   d->ratio * (match ? 0.99 + 0.01 * (i % 3) : 1));
    }
    Rules rules;
    Terms terms;
    evidence_rules(t->db, t->e, d, &rules, &terms);
    evidence_fill(t->e, &rules, &terms, d, process, n, pair);
    env_reset_kernel(t->e);
    db_add_whole_duel(t->db, d, process, n, pair, n_pairs);
    t->now_ns += d->took_ns;
}

/* ---- trials ---- */

static const char *schedule_of(Teller *t, int tile, int pack)
{
    return arena_printf(&t->e->model, "split m %d switch%s", tile * 2 + 2,
                        pack ? "; pack b n.o,k,n.i" : "");
}

static DbTrial a_trial(Teller *t, int tile, int pack, const char *status, const char *outcome)
{
    DbTrial r = db_blank_trial();
    r.run = t->run.id, r.idx = t->n_trials++, r.task = t->task.id, r.rank = tile * 2 + pack;
    r.schedule = schedule_of(t, tile, pack), r.c_hash = hash_str(r.schedule);
    r.status = status, r.outcome = outcome, r.started_ns = t->now_ns;
    r.build_ns = 40000000, r.verify_ns = 1000000, r.measure_ns = 5000000, r.decide_ns = 1000;
    return r;
}

static void add_trial(Teller *t, const DbTrial *r)
{
    db_add_trial(t->db, r);
    db_add_trial_knob(t->db, &(DbTrialKnob){r->run, r->idx, 0, r->rank / 2});
    db_add_trial_knob(t->db, &(DbTrialKnob){r->run, r->idx, 1, r->rank % 2});
    t->now_ns += 50000000;
}

static void fails(Teller *t, int tile, int pack, const char *status, const char *why)
{
    DbTrial r = a_trial(t, tile, pack, status, "failed");
    r.why = why;
    add_trial(t, &r);
}

/* What the protocol does with a candidate of this ratio, all of whose pairs say the same. */
static const char *outcome_at(double ratio)
{
    return ratio < 1      ? "promoted"
           : ratio > 1.5  ? "screened-r1"
           : ratio > 1.05 ? "screened-m3"
                          : "futile";
}

/* Against the incumbent (DB_NONE: the default) at this ratio. Which trial it is. */
static int64_t races(Teller *t, int tile, int pack, int64_t incumbent, double ratio)
{
    DbTrial r = a_trial(t, tile, pack, "ok", outcome_at(ratio));
    r.incumbent = incumbent;
    add_trial(t, &r);
    Sides s = {incumbent == DB_NONE ? "default" : "incumbent", NULL, "candidate", r.schedule};
    DbDuel d = a_duel(t, "search", s, ratio, ratio < 1 ? 9 : 6);
    d.trial = r.idx;
    add_duel(t, &d);
    if (ratio < 1) {
        int n_duels = t->n_duels;
        d = a_duel(t, "replicate", s, ratio, 9);
        d.trial = r.idx, d.idx = 100 + r.idx; /* apart from those that tests name */
        t->n_duels = n_duels;
        add_duel(t, &d);
    }
    return r.idx;
}

static int wins(Teller *t, int64_t trial, int tile, int pack, double ratio)
{
    const char *schedule = schedule_of(t, tile, pack);
    DbDuel d = a_duel(t, "title", (Sides){"default", DEFAULT, "champion", schedule}, ratio, 13);
    add_duel(t, &d);
    DbWinner w = db_blank_winner();
    w.run = t->run.id, w.task = t->task.id, w.schedule = schedule, w.c_hash = d.b_c_hash;
    w.trial = trial, w.rank = tile * 2 + pack, w.duel = d.idx, w.default_schedule = DEFAULT;
    w.default_c_hash = d.a_c_hash, w.ratio = d.ratio, w.ratio_lo = d.ratio_lo;
    w.ratio_hi = d.ratio_hi, w.b_ns = d.b_ns, w.at_ns = t->now_ns;
    db_add_winner(t->db, &w);
    db_add_winner_range(t->db, &(DbWinnerRange){w.run, w.task, 0, 33, 128});
    db_add_tie_set(t->db,
                   &(DbTieSet){w.run, w.task, 0, schedule, w.c_hash, trial, DB_NONE, 2, 1});
    return (int)d.idx;
}

static void calibrates(Teller *t)
{
    DbDuel d = a_duel(t, "calibrate", (Sides){"default", DEFAULT, "copy", DEFAULT}, 1, 8);
    add_duel(t, &d);
    DbCalibration c = db_blank_calibration();
    c.run = t->run.id, c.task = t->task.id, c.idx = 0, c.duel = d.idx;
    c.waited_ns = 0, c.at_ns = t->now_ns;
    evidence_calibration(t->db, t->e, &d, &c);
    db_add_calibration(t->db, &c);
}

/* ---- a build ---- */

static void builds(Teller *t)
{
    DbBuild b = db_blank_build();
    DbBuildSite site = db_blank_build_site();
    b.started_ns = AT_2026, b.took_ns = 1000000000, b.version = NC_VERSION,
    b.machine = t->run.machine;
    b.toolchain = t->run.toolchain, b.model = "tiny-qwen2", b.output = "tiny.so",
    b.n_threads = 2;
    b.command = "nanocompile build";
    site.site = "layer 0 up", site.kernel = t->task.kernel, site.sizes = "s0=999";
    site.regime = "cold", site.outcome = "miss", site.field = "sizes";
    site.why = "the nearest row serves s0=33..128", site.schedule = DEFAULT;
    site.c_hash = hash_str(DEFAULT);
    db_add_new_build(t->db, &b, &site, 1);
}

Scene scene_make(Env *e, const char *path)
{
    Scene s;
    Teller t = {.e = e, .db = open_db(e, path, DB_WRITE)};
    const char *matmul = "kernel matmul\nout f32[s0, 32]\n",
               *norm = "kernel norm\nout f32[s0]\n";
    db_begin(t.db);
    begin_run(&t, RUN_FIRST, AT_2026);
    begin_task(&t, matmul, "matmul 64x32", 64);
    s.matmul = t.task.id;
    calibrates(&t);
    fails(&t, 0, 0, "wrong", "element 3 is 0.5 instead of 0.25");
    fails(&t, 0, 1, "wrong", "element 17 is 1.5 instead of 1.25");
    fails(&t, 1, 0, "cc-error", "the C compiler said: register spill");
    int64_t first = races(&t, 1, 1, DB_NONE, 0.8);
    races(&t, 2, 0, first, 1.04);
    int64_t second = races(&t, 2, 1, first, 0.9);
    s.title = wins(&t, second, 2, 1, 0.72);
    const char *best = schedule_of(&t, 2, 1), *without = schedule_of(&t, 2, 0);
    DbDuel d = a_duel(&t, "compare", (Sides){"OpenBLAS", NULL, "champion", best}, 0.8, 13);
    s.rival = (int)d.idx;
    add_duel(&t, &d);
    d = a_duel(&t, "compare", (Sides){"champion", best, "without pack", without}, 1.15, 13);
    add_duel(&t, &d);
    end_run(&t, "winner", NULL);

    begin_run(&t, RUN_SECOND, AT_2026 + INT64_C(86400000000000));
    begin_task(&t, matmul, "matmul 64x32", 64);
    first = races(&t, 1, 1, DB_NONE, 0.8);
    wins(&t, first, 1, 1, 0.8);
    end_run(&t, "winner", NULL);

    begin_run(&t, RUN_KEPT, AT_2026 + 2 * INT64_C(86400000000000));
    begin_task(&t, norm, "norm 64", 64);
    s.norm = t.task.id;
    races(&t, 0, 0, DB_NONE, 1.04);
    end_run(&t, "default-kept", "nothing was faster");
    builds(&t);
    db_commit(t.db);
    db_close(t.db);
    return s;
}

Ran report_run(Env *e, const char *path, const char *const *words)
{
    const char *all[MAX_WORDS + 1];
    int n = 0;
    for (; words[n]; n++) {
        cr_assert_lt(n, MAX_WORDS - 2);
        all[n] = words[n];
    }
    all[n++] = "--db";
    all[n++] = path;
    all[n] = NULL;
    return run_built(e, "report", all);
}

const char *line_with(Env *e, Ran r, const char *words)
{
    const char *at = strstr(r.out, words);
    cr_assert_eq(r.status, 0, "%s", r.out);
    cr_assert(at, "no '%s' in: %s", words, r.out);
    while (at > r.out && at[-1] != '\n') {
        at--;
    }
    return arena_strn(&e->model, at, strcspn(at, "\n"));
}

void line_has(const char *line, const char *words)
{
    cr_expect(strstr(line, words), "no '%s' in: %s", words, line);
}
