/* session_util.c - see session_util.h. */
#include "tests/session_util.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- recorded noise ---------------------------------------------------------------------- */

void noise_read(Env *e, Noise *out)
{
    int n[N_TRACES] = {0};
    char *text = read_text(e, "tests/data/noise.txt");
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        int trace;
        uint64_t a, b;
        if (line[0] == '#') {
            continue;
        }
        cr_assert_eq(sscanf(line, "%d %" SCNu64 " %" SCNu64, &trace, &a, &b), 3, "%s", line);
        cr_assert(trace < N_TRACES && n[trace] < TRACE_PAIRS);
        out->a_ns[trace][n[trace]] = a;
        out->b_ns[trace][n[trace]++] = b;
    }
    for (int i = 0; i < N_TRACES; i++) {
        cr_assert_eq(n[i], TRACE_PAIRS);
    }
}

/* ---- candidates -------------------------------------------------------------------------- */

static uint64_t index_of(const Built *b)
{
    return strtoull(b->library, NULL, 10);
}

static bool is_default(uint64_t index)
{
    return index == INDEX_DEFAULT || index == INDEX_COPY;
}

static double true_ln(const World *w, uint64_t index)
{
    return w->ln_time && !is_default(index) ? w->ln_time(index) : 0;
}

/* ---- processes --------------------------------------------------------------------------- */

static bool disturbed(const World *w)
{
    return w->now_ns < w->flags_until_ns;
}

/* ln of b's noise over a's, and the level of both. */
static void draw_pair(const World *w, Rng *rng, int trace_at, double *a, double *b)
{
    if (w->noise) {
        int i = trace_at % TRACE_PAIRS;
        double x = (double)w->noise->a_ns[w->trace][i], y = (double)w->noise->b_ns[w->trace][i];
        bool swapped = rng_u64(rng) >> 63;
        *a = swapped ? y : x;
        *b = swapped ? x : y;
        return;
    }
    double sd = disturbed(w) && w->wild_until_sd > 0 ? w->wild_until_sd : w->pair_sd;
    *a = (double)w->sample_ns * (1 + sd * (rng_unit(rng) - 0.5));
    *b = (double)w->sample_ns * (1 + sd * (rng_unit(rng) - 0.5));
}

static double uniform(Rng *rng, double sd)
{
    return sd > 0 ? sd * sqrt(12) * (rng_unit(rng) - 0.5) : 0;
}

static void take_pairs(World *w, Arena *m, const ProcessJob *job, ProcessResult *out)
{
    Rng rng;
    rng_seed(&rng, job->seed);
    double ln_a = true_ln(w, index_of(job->a)), ln_b = true_ln(w, index_of(job->b));
    ln_b += uniform(&rng, w->process_sd);
    if (job->stage == DUEL_SEARCH || job->stage == DUEL_REPLICATE) {
        ln_b += w->flattered;
    }
    double fa = exp(ln_a), fb = exp(ln_b);
    int at = (int)rng_below(&rng, TRACE_PAIRS);
    Race race;
    out->warm_a_ns = (uint64_t)((double)w->sample_ns * fa);
    out->warm_b_ns = (uint64_t)((double)w->sample_ns * fb);
    if (job->stop) {
        race_start(&race, job->stop, job->margin_e4, out->warm_a_ns, out->warm_b_ns);
    }
    int cap = 0;
    for (int i = 0; i < job->n_pairs && !(job->stop && race.outcome != OUTCOME_NONE); i++) {
        double a, b;
        draw_pair(w, &rng, at + i, &a, &b);
        if (out->n_pairs == cap) {
            out->pair = arena_grow(m, out->pair, out->n_pairs, &cap, sizeof(Pair));
        }
        Pair *p = &out->pair[out->n_pairs++];
        *p = (Pair){.a_ns = (uint64_t)(a * fa), .b_ns = (uint64_t)(b * fb)};
        p->flags = disturbed(w) ? w->flags : 0;
        w->now_ns += p->a_ns + p->b_ns;
        if (job->stop) {
            race_add(&race, p);
        }
    }
}

static void run_process(void *ctx, Env *e, Arena *m, const ProcessJob *job, ProcessResult *out)
{
    World *w = ctx;
    (void)e;
    uint64_t began_ns = w->now_ns, b = index_of(job->b);
    *out = (ProcessResult){.pid = 1, .reps = 1};
    if (w->refused > 0) {
        w->refused--;
        out->pid = 0;
        out->status = STATUS_CRASH;
        snprintf(out->why, sizeof out->why, "fork: Resource temporarily unavailable");
        return;
    }
    w->n_processes++;
    w->now_ns += w->start_ns;
    if (w->runs_as && !is_default(b)) {
        out->status = w->runs_as(b);
    }
    if (out->status == STATUS_OK) {
        take_pairs(w, m, job, out);
    } else {
        snprintf(out->why, sizeof out->why, "made up");
    }
    if (out->status == STATUS_TIMEOUT || w->now_ns - began_ns > job->limit_ns) {
        out->status = STATUS_TIMEOUT;
        w->now_ns = began_ns + job->limit_ns;
        out->n_pairs = 0;
    }
    out->took_ns = w->now_ns - began_ns;
    if (w->stop_after > 0 && w->n_processes == (uint64_t)w->stop_after) {
        w->stop = 1;
    }
}

static uint64_t now(void *ctx)
{
    return ((World *)ctx)->now_ns;
}

static void wait(void *ctx, uint64_t ns)
{
    World *w = ctx;
    w->n_waits++;
    w->waited_ns += ns;
    w->now_ns += ns;
}

Runner world_runner(World *w)
{
    return (Runner){.ctx = w, .process = run_process, .now_ns = now, .wait_ns = wait};
}

/* ---- builds ------------------------------------------------------------------------------ */

static void build_one(World *w, Arena *m, Build *b)
{
    char text[64];
    w->n_built++;
    w->now_ns += w->build_ns;
    b->took_ns = w->build_ns;
    b->status = w->builds_as && !is_default(b->index) ? w->builds_as(b->index) : STATUS_OK;
    if (is_default(b->index)) {
        b->built.schedule = "";
    } else if (w->schedule) {
        b->built.schedule = arena_str(m, w->schedule(b->index, text));
    } else {
        b->built.schedule = arena_printf(m, "unroll a%06" PRIu64, b->index);
    }
    if (b->status != STATUS_OK) {
        b->why = "made up";
        return;
    }
    b->built.library = arena_printf(m, "%" PRIu64, b->index);
    b->built.symbol = "nc_x";
    uint64_t code = is_default(b->index) || w->copies ? 1 : b->index + 2;
    b->built.c_hash = (Hash){code, code};
    w->n_open++;
    w->n_open_most = w->n_open > w->n_open_most ? w->n_open : w->n_open_most;
}

static void build(void *ctx, Env *e, Arena *m, Build *batch, int n, uint64_t limit_ns)
{
    (void)e;
    (void)limit_ns;
    for (int i = 0; i < n; i++) {
        build_one(ctx, m, &batch[i]);
    }
}

static void drop(void *ctx, const Built *b)
{
    (void)b;
    ((World *)ctx)->n_open--;
}

Builder world_builder(World *w)
{
    return (Builder){.ctx = w, .build = build, .drop = drop};
}

/* ---- a strategy -------------------------------------------------------------------------- */

Order order_of(Arena *m, uint64_t n, uint64_t seed)
{
    Order o = {.index = arena_array(m, uint64_t, n), .n = n};
    Rng rng;
    rng_seed(&rng, seed);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t k = seed ? rng_below(&rng, i + 1) : i;
        o.index[i] = o.index[k];
        o.index[k] = i;
    }
    return o;
}

static bool ask(void *ctx, uint64_t *index)
{
    Order *o = ctx;
    *index = o->at < o->n ? o->index[o->at] : 0;
    return o->at < o->n ? (o->at++, true) : false;
}

static void tell(void *ctx, uint64_t index, Status status, double ln_ratio)
{
    Order *o = ctx;
    (void)index;
    o->n_told++;
    o->last_status = status;
    o->last_ln = ln_ratio;
}

Proposer order_strategy(Order *o)
{
    return (Proposer){.ctx = o, .ask = ask, .tell = tell};
}

/* ---- the log ----------------------------------------------------------------------------- */

static ProcessResult keep_result(Log *l, const ProcessResult *r)
{
    ProcessResult copy = *r;
    copy.pair = r->n_pairs > 0
                    ? arena_dup(&l->env.model, r->pair, (size_t)r->n_pairs * sizeof(Pair))
                    : NULL;
    return copy;
}

static DuelProcess keep_process(Log *l, const DuelProcess *p)
{
    DuelProcess copy = *p;
    copy.result = keep_result(l, &p->result);
    return copy;
}

static Built keep_built(Log *l, const Built *b)
{
    return (Built){.schedule = b->schedule ? arena_str(&l->env.model, b->schedule) : NULL,
                   .c_hash = b->c_hash};
}

static void process_line(Buf *out, const DuelProcess *p)
{
    Hash pairs = hash_bytes(p->result.pair, (size_t)p->result.n_pairs * sizeof(Pair));
    buf_printf(out, " [%s seed %016" PRIx64 " %s %d pairs %016" PRIx64 " at %" PRIu64 "]",
               stage_name[p->stage], p->seed, status_name[p->result.status], p->result.n_pairs,
               p->result.n_pairs > 0 ? pairs.lo : 0, p->elapsed_ns);
}

static void log_calibration(void *ctx, const Calibrated *c)
{
    Log *l = ctx;
    LogEntry *entry = vec_push(&l->env.model, &l->entry);
    DuelProcess *process = arena_array(&l->env.model, DuelProcess, c->n);
    Buf line;
    buf_init(&line, &l->env.model);
    buf_printf(&line, "calibration %d before %d: %d", c->ordinal, c->n_trials,
               c->result.margin_e4);
    for (int i = 0; i < c->n; i++) {
        process[i] = keep_process(l, &c->process[i]);
        process_line(&line, &process[i]);
    }
    *entry = (LogEntry){.kind = LOG_CALIBRATION, .calibrated = *c, .line = line.at};
    entry->calibrated.process = process;
}

static void log_trial(void *ctx, const Trial *t)
{
    Log *l = ctx;
    LogEntry *entry = vec_push(&l->env.model, &l->entry);
    Buf line;
    buf_init(&line, &l->env.model);
    buf_printf(&line, "trial %d: %" PRIu64 " against %" PRIu64 " %s %s %d/%d ln %.17g %.17g",
               t->ordinal, t->index, t->incumbent, status_name[t->status],
               outcome_name[t->outcome], t->race.wins, t->race.n, t->ln_ratio, t->ln_default);
    *entry = (LogEntry){.kind = LOG_TRIAL, .trial = *t};
    entry->trial.built = keep_built(l, &t->built);
    entry->trial.why = t->why ? arena_str(&l->env.model, t->why) : NULL;
    for (int i = 0; i < t->n_processes; i++) {
        entry->trial.process[i] = keep_process(l, &t->process[i]);
        process_line(&line, &entry->trial.process[i]);
    }
    entry->line = line.at;
    if (l->on_trial) {
        l->on_trial(l->on_trial_ctx, t);
    }
}

static void log_process(void *ctx, const Duel *d, const DuelProcess *p)
{
    Log *l = ctx;
    LogEntry *entry = vec_push(&l->env.model, &l->entry);
    Buf line;
    buf_init(&line, &l->env.model);
    buf_printf(&line, "duel %d, %d: %" PRIu64 " %" PRIu64 " alpha %g %d/%d", d->ordinal,
               d->series.n - 1, d->a, d->b, d->series.alpha, d->series.wins, d->series.n);
    process_line(&line, p);
    *entry = (LogEntry){.kind = LOG_PROCESS,
                        .duel = d->ordinal,
                        .process = keep_process(l, p),
                        .line = line.at};
}

static void log_duel(void *ctx, const Duel *d)
{
    Log *l = ctx;
    cr_assert_lt(d->ordinal, (int)countof(l->duel));
    l->duel[d->ordinal] = *d;
    l->n_duels = d->ordinal + 1;
}

static void log_winner(void *ctx, const Winner *w)
{
    Log *l = ctx;
    l->n_winners++;
    l->winner = *w;
    l->winner.built = keep_built(l, &w->built);
}

static void log_ties(void *ctx, const TieSet *t)
{
    Log *l = ctx;
    l->ties = *t;
    Tie *at = arena_dup(&l->env.model, t->at, (size_t)t->n * sizeof(Tie));
    for (int i = 0; i < t->n; i++) {
        at[i].schedule = arena_str(&l->env.model, at[i].schedule);
    }
    l->ties.at = at;
}

void log_init(Log *l)
{
    *l = (Log){.visible = -1};
    env_init(&l->env);
}

void log_release(Log *l)
{
    env_release(&l->env);
}

Recorder log_recorder(Log *l)
{
    return (Recorder){.ctx = l,
                      .calibration = log_calibration,
                      .trial = log_trial,
                      .process = log_process,
                      .duel = log_duel,
                      .winner = log_winner,
                      .ties = log_ties};
}

LogEntry *log_entry(const Log *l, LogKind kind, int nth)
{
    for (int i = 0; i < l->entry.n; i++) {
        if (l->entry.at[i].kind == kind && nth-- == 0) {
            return &l->entry.at[i];
        }
    }
    cr_assert_fail("no such entry");
    return NULL;
}

/* ---- the log as a past ------------------------------------------------------------------- */

/* The nth visible entry of a kind, of a duel; NULL: none. */
static const LogEntry *past_entry(const Log *l, LogKind kind, int duel, int nth)
{
    int n = l->visible < 0 ? l->entry.n : l->visible;
    for (int i = 0; i < n; i++) {
        const LogEntry *entry = &l->entry.at[i];
        if (entry->kind == kind && (kind != LOG_PROCESS || entry->duel == duel) && nth-- == 0) {
            return entry;
        }
    }
    return NULL;
}

static bool past_calibration(void *ctx, Arena *m, int ordinal, Calibrated *out)
{
    (void)m;
    const LogEntry *entry = past_entry(ctx, LOG_CALIBRATION, 0, ordinal);
    return entry ? (*out = entry->calibrated, true) : false;
}

static bool past_trial(void *ctx, Arena *m, int ordinal, Trial *out)
{
    (void)m;
    const LogEntry *entry = past_entry(ctx, LOG_TRIAL, 0, ordinal);
    return entry ? (*out = entry->trial, true) : false;
}

static bool past_process(void *ctx, Arena *m, int duel, int ordinal, DuelProcess *out)
{
    (void)m;
    const LogEntry *entry = past_entry(ctx, LOG_PROCESS, duel, ordinal);
    return entry ? (*out = entry->process, true) : false;
}

Past log_past(Log *l)
{
    return (Past){.ctx = l,
                  .calibration = past_calibration,
                  .trial = past_trial,
                  .process = past_process};
}

/* ---- pairs ------------------------------------------------------------------------------- */

Pair pair_of(int b_e4)
{
    return (Pair){.a_ns = 1000000, .b_ns = 100u * (unsigned)b_e4};
}

Pair pair_flagged(int b_e4, int flags)
{
    Pair p = pair_of(b_e4);
    p.flags = (uint16_t)flags;
    return p;
}

/* ---- a plan ------------------------------------------------------------------------------ */

SessionPlan world_plan(World *w, const Task *task)
{
    return (SessionPlan){.task = task,
                         .protocol = protocol_default(),
                         .runner = world_runner(w),
                         .builder = world_builder(w),
                         .seed = 1,
                         .stop = &w->stop};
}

double seven_is_faster(uint64_t index)
{
    return index == 7 ? log(0.8) : log(1.02 + 0.01 * (double)index);
}

const Task world_task = {.kernel = "", .n_threads = 2, .regime = REGIME_COLD};

World world_plain(void)
{
    return (World){.n_candidates = 40,
                   .pair_sd = 0.004,
                   .process_sd = 0.001,
                   .sample_ns = 100000,
                   .start_ns = 10000000};
}

SessionResult world_run(Env *e, World *w, Log *l, const Past *past, Budget budget,
                        uint64_t order, const Protocol *p)
{
    Order o = order_of(&e->model, w->n_candidates, order);
    SessionPlan plan = world_plan(w, &world_task);
    plan.protocol = p ? *p : plan.protocol;
    plan.strategy = order_strategy(&o);
    plan.recorder = log_recorder(l);
    plan.past = past;
    plan.budget = budget;
    SessionResult r;
    session_run(e, &plan, &r);
    return r;
}
