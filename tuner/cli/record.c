/* record.c - a session's doings into the database, one transaction each, and a line of progress. What is
 * derived in a row is computed from the rows below it (evidence.c), so that verifying finds the same. */
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tuner/cli/tune.h"

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static const char *name_of(Record *r, uint64_t index)
{
    bool is_side = r->sides && index >= INDEX_SIDES && index < INDEX_COPY;
    return is_side                  ? r->sides->at[index - INDEX_SIDES].name
           : index == INDEX_DEFAULT ? "default"
           : index == INDEX_COPY
               ? "a copy of the default"
               : arena_printf(&r->w->e->model, "candidate %llu", (unsigned long long)index);
}

/* The number of the trial that promoted it. */
static int64_t trial_of(const Record *r, uint64_t index)
{
    for (int i = 0; i < r->promoted.n; i += 2) {
        if ((uint64_t)r->promoted.at[i] == index) {
            return r->promoted.at[i + 1];
        }
    }
    return DB_NONE;
}

/* ---- processes and pairs ----------------------------------------------------------------- */

static DbPair *pair_rows(Arena *m, const ProcessResult *p)
{
    DbPair *row = arena_array(m, DbPair, p->n_pairs);
    for (int i = 0; i < p->n_pairs; i++) {
        const Pair *x = &p->pair[i];
        row[i] = (DbPair){.idx = i,
                          .b_first = x->b_first,
                          .a_ns = (int64_t)x->a_ns,
                          .b_ns = (int64_t)x->b_ns,
                          .a_cpu_ns = (int64_t)x->a_cpu_ns,
                          .b_cpu_ns = (int64_t)x->b_cpu_ns,
                          .cpu = x->cpu,
                          .flags = x->flags};
    }
    return row;
}

static DbProcess process_row(Arena *m, const DuelProcess *p)
{
    const ProcessResult *x = &p->result;
    DbProcess row = db_blank_process();
    row.status = status_name[x->status];
    row.why = x->status == STATUS_OK ? NULL : arena_str(m, x->why);
    row.pid = x->pid;
    row.seed = (int64_t)p->seed;
    row.b_loaded_first = x->b_loaded_first;
    row.stack_pad = x->stack_pad, row.env_pad = x->env_pad;
    row.base_a = (int64_t)x->base_a, row.base_b = (int64_t)x->base_b;
    row.cpu = x->cpu < 0 ? DB_NONE : x->cpu;
    row.reps = x->reps;
    row.warm_a_ns = (int64_t)x->warm_a_ns, row.warm_b_ns = (int64_t)x->warm_b_ns;
    row.n_pairs = x->n_pairs;
    row.started_ns = (int64_t)x->start_ns, row.took_ns = (int64_t)x->took_ns;
    row.exit_code = x->exit_code, row.signal = x->signal;
    row.load1 = x->load_1m < 0 ? NAN : x->load_1m;
    row.read_before = x->before.read_bytes_per_ns, row.read_after = x->after.read_bytes_per_ns;
    row.fork_join_before = x->before.fork_join_ns, row.fork_join_after = x->after.fork_join_ns;
    row.flops_before = x->before.flops_per_ns, row.flops_after = x->after.flops_per_ns;
    row.flipped = probes_differ(&x->before, &x->after);
    return row;
}

static void hold(Record *r, const DuelProcess *p)
{
    Arena *m = &r->w->e->model;
    *vec_push(m, &r->process) = process_row(m, p);
    *vec_push(m, &r->pair) = pair_rows(m, &p->result);
    *vec_push(m, &r->n_pairs) = p->result.n_pairs;
}

static void let_go(Record *r)
{
    r->process.n = r->pair.n = r->n_pairs.n = 0;
}

/* ---- duels ------------------------------------------------------------------------------- */

static DbDuel blank_duel(Record *r, DuelStage stage, const Terms *t)
{
    const Protocol *p = &r->rules.p;
    bool pairs = stage == DUEL_SEARCH || stage == DUEL_REPLICATE;
    DbDuel d = db_blank_duel();
    d.run = r->run, d.task = r->task, d.idx = r->n_duels++;
    d.stage = stage_name[stage];
    d.metric = metric_name[t->metric];
    d.margin_e4 = t->margin_e4;
    d.alpha = pairs ? p->alpha_search : p->alpha_title;
    d.beta = p->beta;
    d.theta1 = pairs ? p->theta_search : p->theta_title;
    d.n_max = pairs ? p->pairs_most : p->title_processes;
    return d;
}

static void name_sides(Record *r, DbDuel *d, uint64_t a, const Built *as, uint64_t b,
                       const Built *bs)
{
    d->a_name = name_of(r, a), d->b_name = name_of(r, b);
    d->a_schedule = as->rival ? NULL : as->schedule;
    d->b_schedule = bs->rival ? NULL : bs->schedule;
    d->a_c_hash = as->c_hash, d->b_c_hash = bs->c_hash;
}

/* What is held becomes the duel's. Returns its number. */
static int64_t add_duel(Record *r, DbDuel *d, const Terms *t)
{
    d->started_ns = r->process.n ? r->process.at[0].started_ns : now_ns();
    d->took_ns = 0;
    for (int i = 0; i < r->process.n; i++) {
        r->process.at[i].idx = i;
        d->took_ns += r->process.at[i].took_ns;
    }
    evidence_fill(r->w->e, &r->rules, t, d, r->process.at, r->process.n, r->pair.at);
    db_add_whole_duel(r->db, d, r->process.at, r->process.n, r->pair.at, r->n_pairs.at);
    let_go(r);
    env_reset_kernel(r->w->e);
    return d->idx;
}

/* ---- what a session tells ---------------------------------------------------------------- */

typedef struct Told {
    Record *r;
    const void *what;
} Told;

static void put_calibration(Env *e, void *arg)
{
    const Told *t = arg;
    Record *r = t->r;
    const Calibrated *c = t->what;
    Built base = {.schedule = ""}, copy = base;
    (void)e;
    Terms terms = calibration_terms(&c->result, r->item->task.n_threads);
    terms.spread = 0; /* none is in force yet for what it follows from */
    DbDuel d = blank_duel(r, DUEL_CALIBRATE, &terms);
    name_sides(r, &d, INDEX_DEFAULT, &base, INDEX_COPY, &copy);
    d.a_schedule = d.b_schedule = NULL;
    for (int i = 0; i < c->n; i++) {
        hold(r, &c->process[i]);
    }
    db_add_calibration(r->db, &(DbCalibration){.run = r->run,
                                               .task = r->task,
                                               .idx = c->ordinal,
                                               .duel = add_duel(r, &d, &terms),
                                               .margin_e4 = c->result.margin_e4,
                                               .sigma_p = c->result.sigma_p,
                                               .iqr = c->result.iqr_ln,
                                               .flagged = c->result.flagged,
                                               .metric = metric_name[c->result.metric],
                                               .noisy = c->result.noisy,
                                               .waited_ns = 0,
                                               .n_pairs_process = rules_pairs(
                                                   &r->rules, DUEL_TITLE, c->result.wide),
                                               .at_ns = now_ns()});
}

static void put_knobs(Record *r, int64_t trial, uint64_t index)
{
    Point p;
    space_unrank(&r->item->space, index, &p);
    for (int i = 0; i < r->item->space.n_knobs; i++) {
        db_add_trial_knob(r->db, &(DbTrialKnob){r->run, trial, i, p.at[i]});
    }
}

static void put_trial(Env *e, void *arg)
{
    const Told *told = arg;
    Record *r = told->r;
    const Trial *t = told->what;
    DbTrial row = db_blank_trial();
    (void)e;
    row.run = r->run, row.task = r->task, row.idx = r->first_trial + t->ordinal;
    row.rank = (int64_t)t->index;
    row.schedule = t->built.schedule ? t->built.schedule : "";
    row.c_hash = t->built.c_hash;
    row.status = status_name[t->status];
    row.outcome = outcome_name[t->outcome];
    row.why = t->status == STATUS_OK ? NULL : t->why;
    row.incumbent = trial_of(r, t->incumbent);
    row.batch = t->ordinal / r->rules.p.batch;
    row.strategy = strategy_name(r->w->o->strategy);
    row.build_ns = (int64_t)t->build_ns;
    row.measure_ns = 0;
    for (int i = 0; i < t->n_processes; i++) {
        row.measure_ns += (int64_t)t->process[i].result.took_ns;
    }
    db_add_trial(r->db, &row);
    put_knobs(r, row.idx, t->index);
    for (int i = 0; i < t->n_processes; i++) {
        DbDuel d = blank_duel(r, t->process[i].stage, &t->terms);
        d.trial = row.idx;
        d.a_name = name_of(r, t->incumbent), d.b_name = name_of(r, t->index);
        d.b_schedule = t->built.schedule, d.b_c_hash = t->built.c_hash;
        hold(r, &t->process[i]);
        add_duel(r, &d, &t->terms);
    }
    r->n_trials++;
    if (t->outcome == OUTCOME_PROMOTED) {
        Arena *m = &r->w->e->model;
        *vec_push(m, &r->promoted) = (int64_t)t->index;
        *vec_push(m, &r->promoted) = row.idx;
    }
}

static void put_duel(Env *e, void *arg)
{
    const Told *t = arg;
    Record *r = t->r;
    const Duel *x = t->what;
    DbDuel d = blank_duel(r, x->stage, &x->terms);
    (void)e;
    d.alpha = x->series.alpha;
    d.trial = trial_of(r, x->b);
    name_sides(r, &d, x->a, &x->built_a, x->b, &x->built_b);
    while (r->duel.n <= x->ordinal) {
        *vec_push(&r->w->e->model, &r->duel) = -1;
    }
    r->duel.at[x->ordinal] = (int)add_duel(r, &d, &x->terms);
}

static int64_t duel_row(const Record *r, int ordinal)
{
    return ordinal >= 0 && ordinal < r->duel.n ? r->duel.at[ordinal] : DB_NONE;
}

static void put_winner(Env *e, void *arg)
{
    const Told *t = arg;
    Record *r = t->r;
    const Winner *x = t->what;
    DbDuel d;
    (void)e;
    Buf base;
    buf_init(&base, &r->w->e->model);
    schedule_print(&r->item->base, &base);
    check(DB_ONE(r->db, DUEL, &r->w->e->model, &d, r->run, duel_row(r, x->duel)));
    DbWinner row = {.run = r->run,
                    .task = r->task,
                    .schedule = x->built.schedule,
                    .c_hash = x->built.c_hash,
                    .trial = trial_of(r, x->index),
                    .rank = x->index < INDEX_COPY ? (int64_t)x->index : DB_NONE,
                    .duel = duel_row(r, x->duel),
                    .default_schedule = base.at,
                    .default_c_hash = x->default_c_hash,
                    .ratio = d.ratio,
                    .ratio_lo = d.ratio_lo,
                    .ratio_hi = d.ratio_hi,
                    .b_ns = d.b_ns,
                    .at_ns = now_ns()};
    db_withdraw_winner(r->db, r->run,
                       r->task); /* the champion, where the simplest follows it */
    db_add_winner(r->db, &row);
    for (int i = 0; i < r->item->task.n_syms; i++) { /* shown at these sizes and at no others */
        int64_t n = r->item->task.sym[i];
        db_add_winner_range(r->db, &(DbWinnerRange){r->run, r->task, i, n, n});
    }
}

static void put_ties(Env *e, void *arg)
{
    const Told *t = arg;
    Record *r = t->r;
    const TieSet *x = t->what;
    (void)e;
    for (int i = 0; i < x->n; i++) {
        Schedule s;
        Err err;
        check(schedule_parse(x->at[i].schedule, &s, &err));
        db_add_tie_set(r->db, &(DbTieSet){.run = r->run,
                                          .task = r->task,
                                          .idx = i,
                                          .schedule = x->at[i].schedule,
                                          .c_hash = x->at[i].c_hash,
                                          .trial = trial_of(r, x->at[i].index),
                                          .duel = duel_row(r, x->at[i].duel),
                                          .n_steps = s.n,
                                          .canonical = x->at[i].index == x->pick});
    }
}

/* ---- progress ---------------------------------------------------------------------------- */

static void show(Record *r, const char *what)
{
    const SessionResult *s = r->now;
    double spent_s = (double)(clock_ns() - r->start_ns) / 1e9;
    bool line = isatty(2);
    if (!r->shows || !s) {
        return;
    }
    int64_t wrong = 0, screened = 0;
    for (int i = STATUS_CC_ERROR; i < N_STATUSES; i++) {
        wrong += s->n_status[i];
    }
    for (int i = OUTCOME_SLOW_CALL; i <= OUTCOME_M3; i++) {
        screened += s->n_outcome[i];
    }
    fprintf(stderr,
            "%s%5.0f s  %s: %s; tried %lld, illegal %lld, failed %lld, screened %lld, promoted "
            "%lld, best %.3fx%s",
            line ? "\r\033[K" : "", spent_s, r->item->label, what, (long long)s->n_trials,
            (long long)s->n_status[STATUS_ILLEGAL], (long long)wrong, (long long)screened,
            (long long)s->n_outcome[OUTCOME_PROMOTED], exp(-s->ln_default), line ? "" : "\n");
}

static void take(Record *r, void (*put)(Env *e, void *arg), const void *what, const char *say)
{
    Told t = {r, what};
    db_transact(r->db, put, &t);
    if (say) {
        show(r, say);
    }
}

static void on_calibration(void *ctx, const Calibrated *c)
{
    take(ctx, put_calibration, c, "calibrated");
}

static void on_trial(void *ctx, const Trial *t)
{
    bool tell = isatty(2) || t->outcome == OUTCOME_PROMOTED;
    take(ctx, put_trial, t, tell ? "searching" : NULL);
}

static void show_duel(Record *r, const Duel *d)
{
    if (r->shows) {
        fprintf(stderr, "\r\033[K%5.0f s  %s: %s against %s, %d processes, ratio %.3f",
                (double)(clock_ns() - r->start_ns) / 1e9, r->item->label, name_of(r, d->b),
                name_of(r, d->a), d->series.n, d->series.ratio.median);
    }
}

static void on_process(void *ctx, const Duel *d, const DuelProcess *p)
{
    Record *r = ctx;
    hold(r, p);
    if (isatty(2) && r->sides) {
        show_duel(r, d);
    } else if (isatty(2)) {
        show(r, "confirming");
    }
}

static void on_duel(void *ctx, const Duel *d)
{
    take(ctx, put_duel, d, d->stage == DUEL_TITLE ? "title match over" : NULL);
}

static void on_winner(void *ctx, const Winner *w)
{
    if (w->confirmed) {
        take(ctx, put_winner, w, NULL);
    }
}

static void on_ties(void *ctx, const TieSet *t)
{
    take(ctx, put_ties, t, NULL);
}

Recorder record_of(Record *r)
{
    return (Recorder){r, on_calibration, on_trial, on_process, on_duel, on_winner, on_ties};
}

/* ---- runs and tasks ---------------------------------------------------------------------- */

static void put_run(Env *e, void *arg)
{
    Record *r = arg;
    const TuneOptions *o = r->w->o;
    ClockQuality q = clock_quality();
    DbMachine machine;
    DbToolchain tc = toolchain_row(&e->model, &r->w->tc);
    DbRun row = db_blank_run();
    db_machine_here(e, &e->model, "", &r->w->machine, &machine);
    row.started_ns = now_ns();
    row.program = "tune", row.version = NC_VERSION, row.command = o->words;
    row.protocol = PROTOCOL_VERSION;
    row.machine = db_put_machine(r->db, &machine);
    row.toolchain = db_put_toolchain(r->db, &tc);
    row.strategy = o->command ? NULL : strategy_name(o->strategy);
    row.seed = (int64_t)o->seed, row.n_threads = r->w->n_threads;
    row.n_batch = o->protocol.batch;
    row.budget_ns = o->budget.ns ? (int64_t)o->budget.ns : DB_NONE;
    row.budget_trials = o->budget.trials ? o->budget.trials : DB_NONE;
    row.clock_grain_ns = (int64_t)q.grain_ns, row.clock_cost_ns = (int64_t)q.cost_ns;
    r->run = db_add_new_run(r->db, &row);
    for (int i = 0; i < N_PROTOCOL; i++) {
        db_add_run_constant(r->db, &(DbRunConstant){r->run, protocol_row[i].name,
                                                    protocol_get(&o->protocol, i)});
    }
}

void record_run(Record *r)
{
    rules_init(&r->rules, &r->w->o->protocol);
    r->start_ns = clock_ns();
    db_transact(r->db, put_run, r);
}

static int64_t put_space(Env *e, Record *r, const Space *s)
{
    DbSpace row = {.class = class_name(s->class),
                   .n_points = (int64_t)s->n_points,
                   .n_legal = (int64_t)s->n_legal};
    DbKnob *knob = arena_array(&e->model, DbKnob, s->n_knobs);
    Vec(DbKnobChoice) choice = {0};
    for (int i = 0; i < s->n_knobs; i++) {
        knob[i] = (DbKnob){.idx = i, .name = s->knob[i].name, .meaning = s->knob[i].meaning};
        for (int c = 0; c < s->knob[i].n; c++) {
            Buf word;
            buf_init(&word, &e->model);
            knob_word(s, i, c, &word);
            *vec_push(&e->model, &choice) = (DbKnobChoice){
                .knob = i, .idx = c, .value = s->knob[i].value[c], .word = word.at};
        }
    }
    return db_put_space(r->db, &row, knob, s->n_knobs, choice.at, choice.n);
}

static void put_task(Env *e, void *arg)
{
    Record *r = arg;
    const Item *it = r->item;
    bool searches = !r->w->o->command;
    DbRunTask row = db_blank_run_task();
    DbTask task = {.kernel = db_put_kernel(r->db, it->kernel->text),
                   .n_threads = it->task.n_threads,
                   .regime = it->task.regime == REGIME_COLD ? "cold" : "hot",
                   .sizes = db_sizes_text(&e->model, it->task.sym, it->task.n_syms)};
    Buf base;
    buf_init(&base, &e->model);
    schedule_print(&it->base, &base);
    r->task = db_put_task(r->db, &task);
    row.run = r->run, row.task = r->task, row.idx = r->n_tasks++;
    row.label = it->label;
    row.space = searches ? put_space(e, r, &it->space) : DB_NONE;
    work_row(e, it->kernel, it->task.sym, &row);
    row.share = it->share;
    row.default_schedule = base.at;
    row.default_rank = searches && it->has_rank ? (int64_t)it->base_rank : DB_NONE;
    db_add_run_task(r->db, &row);
    env_reset_kernel(e);
}

void record_task(Record *r, const Item *item)
{
    r->item = item;
    r->first_trial = r->n_trials;
    r->duel.n = r->promoted.n = 0;
    let_go(r);
    db_transact(r->db, put_task, r);
}

typedef struct TaskEnd {
    Record *r;
    const char *ending, *why;
} TaskEnd;

static void put_task_end(Env *e, void *arg)
{
    const TaskEnd *t = arg;
    (void)e;
    db_end_run_task(t->r->db, t->r->run, t->r->task, now_ns(), t->ending, t->why);
}

void record_task_over(Record *r, const char *ending, const char *why)
{
    TaskEnd t = {r, ending, why};
    db_transact(r->db, put_task_end, &t);
}

void record_task_end(Record *r, const SessionResult *s)
{
    record_task_over(r, s->winner.confirmed ? "winner" : ending_name[s->ending], s->why);
}

static void put_run_end(Env *e, void *arg)
{
    const TaskEnd *t = arg;
    (void)e;
    db_end_run(t->r->db, t->r->run, now_ns(), t->ending, t->why);
}

void record_run_end(Record *r, const char *ending, const char *why)
{
    TaskEnd t = {r, ending, why};
    db_transact(r->db, put_run_end, &t);
}
