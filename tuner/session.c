/* session.c - the search of one task: candidates in batches, built first and measured after,
 * each against the incumbent, until the budget is what the matches need or there are no more.
 *
 * Everything follows from the plan and from what builders and processes answered. So a session
 * that was interrupted is taken up by giving it the recorded answers first: it does the same
 * with them, decides all again, and goes on. Needs a strategy that is a fold over its trials.
 * Keeps nothing of a candidate but what finalists.c does; a session's memory does not grow with
 * its length. MEASUREMENT 0, 2.7, DESIGN 6 */
#include "tuner/session_int.h"

#include <math.h>
#include <string.h>

/* ---- time -------------------------------------------------------------------------------- */

uint64_t session_elapsed_ns(const Session *s)
{
    const Runner *r = &s->plan->runner;
    return s->past_over ? s->spent_ns + (r->now_ns(r->ctx) - s->since_ns) : s->spent_ns;
}

uint64_t session_left_ns(const Session *s)
{
    uint64_t budget_ns = s->budget.ns, elapsed_ns = session_elapsed_ns(s);
    if (budget_ns == 0) {
        return UINT64_MAX;
    }
    return budget_ns > elapsed_ns ? budget_ns - elapsed_ns : 0;
}

void session_enter(Session *s)
{
    s->since_ns = s->plan->runner.now_ns(s->plan->runner.ctx);
}

void session_leave(Session *s)
{
    s->spent_ns = session_elapsed_ns(s);
    s->result.elapsed_ns = s->spent_ns;
    session_enter(s);
}

void session_go_live(Session *s)
{
    if (!s->past_over) {
        s->past_over = true;
        session_enter(s);
    }
}

void session_reach(Session *s, uint64_t elapsed_ns)
{
    s->spent_ns = elapsed_ns;
}

/* ---- ends -------------------------------------------------------------------------------- */

bool session_interrupted(const Session *s)
{
    return s->plan->stop && *s->plan->stop;
}

void session_end(Session *s, SessionEnd ending, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    s->result.ending = ending;
    vsnprintf(s->result.why, sizeof s->result.why, fmt, ap);
    va_end(ap);
}

/* While nobody was promoted there is no match to keep much for. */
static uint64_t reserve_ns(const Session *s)
{
    return s->n_incumbents > 0
               ? s->reserve_ns
               : budget_least_ns(&s->rules, &s->result.calibration, s->reserve_ns);
}

/* Ends the search where it must not begin another candidate that takes so long to begin. */
static bool search_over(Session *s, uint64_t ahead_ns)
{
    const Budget *b = &s->budget;
    if (session_interrupted(s)) {
        session_end(s, ENDING_INTERRUPTED, "stopped after %lld candidates",
                    (long long)s->result.n_trials);
    } else if (b->trials > 0 && s->result.n_trials >= b->trials) {
        session_end(s, ENDING_BUDGET, "all %lld trials of the budget were made",
                    (long long)b->trials);
    } else if (b->ns > 0 && session_left_ns(s) <= reserve_ns(s) + ahead_ns) {
        session_end(s, ENDING_BUDGET,
                    "%.1f s of %.1f s were left, which were kept for the title match",
                    (double)session_left_ns(s) / 1e9, (double)b->ns / 1e9);
    }
    return s->result.ending != ENDING_OPEN;
}

/* ---- one candidate ----------------------------------------------------------------------- */

typedef struct Slot { /* of a batch */
    Trial trial;
    bool recorded;
} Slot;

static Trial trial_of(Session *s, const Build *b)
{
    return (Trial){.index = b->index,
                   .built = b->built,
                   .status = b->status,
                   .why = b->why,
                   .terms = calibration_terms(&s->result.calibration, s->plan->task->n_threads),
                   .build_ns = b->took_ns};
}

/* Runs processes until the rule asks for no more. */
static void measure_candidate(Session *s, Trial *t)
{
    Fighter *incumbent = session_incumbent(s);
    Fighter candidate = {.index = t->index, .built = t->built};
    uint64_t in_processes_ns = 0;
    s->began_ns = session_elapsed_ns(s);
    t->incumbent = incumbent->index;
    if (t->status == STATUS_OK) {
        session_ready(s, incumbent);
        t->same_code = hash_eq(t->built.c_hash, incumbent->built.c_hash);
    }
    Outcome o = trial_decide(&s->rules, t);
    while ((o == OUTCOME_NONE || o == OUTCOME_WON) &&
           t->n_processes < (int)countof(t->process)) {
        DuelProcess *p = &t->process[t->n_processes];
        DuelStage stage = t->n_processes == 0 ? DUEL_SEARCH : DUEL_REPLICATE;
        session_process(s, stage, incumbent, &candidate, stage == DUEL_SEARCH, p);
        t->n_processes++;
        if (p->result.status != STATUS_OK) {
            t->status = p->result.status;
            t->why = p->result.why;
        }
        o = trial_decide(&s->rules, t);
        in_processes_ns += p->result.took_ns;
    }
    t->elapsed_ns = session_elapsed_ns(s);
    uint64_t all_ns = t->elapsed_ns - s->began_ns;
    t->decide_ns = all_ns > in_processes_ns ? all_ns - in_processes_ns : 0;
}

/* A record is taken as what was measured, never as what was decided. */
static void take_record(Session *s, Trial *t)
{
    Outcome was = t->outcome;
    t->terms = calibration_terms(&s->result.calibration, s->plan->task->n_threads);
    if (trial_decide(&s->rules, t) != was) {
        fail(s->e, E_INPUT, "trial %d is recorded as %s, but its pairs say %s", t->ordinal,
             outcome_name[was], outcome_name[t->outcome]);
    }
    if (t->incumbent != session_incumbent(s)->index) {
        fail(s->e, E_INPUT, "trial %d is recorded against another incumbent than it has here",
             t->ordinal);
    }
    t->built.library = NULL;
    s->n_processes += (uint64_t)t->n_processes;
    s->batch_ns += t->build_ns;
    session_reach(s, t->elapsed_ns);
}

static void note_spread(Session *s, const Trial *t)
{
    if (t->race.n >= s->rules.p.pairs) {
        PairsSummary p;
        const ProcessResult *r = &t->process[0].result;
        pairs_summary(&s->rules.p, r->pair, r->n_pairs, t->terms.metric, &p);
        s->spread[s->n_spreads++ % s->rules.p.recalibrate_over] = p.iqr_ln;
    }
}

static void promote(Session *s, Trial *t)
{
    if (s->n_incumbents > 0) {
        session_drop(s, &s->incumbent[0].built);
    }
    s->n_incumbents += s->n_incumbents < MAX_INCUMBENTS;
    memmove(&s->incumbent[1], &s->incumbent[0],
            (size_t)(s->n_incumbents - 1) * sizeof s->incumbent[0]);
    s->incumbent[0] = (Fighter){t->index, built_dup(&s->keep, &t->built), t->ln_default};
    s->result.incumbent = t->index;
    s->result.ln_default = t->ln_default;
}

static void count(Session *s, const Trial *t)
{
    s->result.n_trials++;
    s->result.n_barren = t->outcome == OUTCOME_PROMOTED ? 0 : s->result.n_barren + 1;
    s->result.n_status[t->status]++;
    s->result.n_outcome[t->outcome]++;
}

static void settle(Session *s, Slot *slot)
{
    Trial *t = &slot->trial;
    const Recorder *r = &s->plan->recorder;
    t->ordinal = (int)s->result.n_trials;
    if (slot->recorded) {
        take_record(s, t);
    } else {
        measure_candidate(s, t);
    }
    t->ln_default = session_incumbent(s)->ln_default + t->ln_ratio;
    count(s, t);
    if (!slot->recorded && r->trial) {
        r->trial(r->ctx, t);
    }
    note_spread(s, t);
    if (t->outcome == OUTCOME_PROMOTED) {
        promote(s, t);
    } else {
        session_drop(s, &t->built);
    }
    finalists_note(s, t);
    s->plan->strategy.tell(s->plan->strategy.ctx, t->index, t->status, t->ln_default);
    arena_release(&s->work);
}

/* ---- one batch --------------------------------------------------------------------------- */

static bool past_trial(Session *s, int ordinal, Trial *out)
{
    const Past *p = s->plan->past;
    return !s->past_over && p->trial(p->ctx, &s->batch, ordinal, out);
}

/* A match was played after so many trials: the search had ended, whatever the clock says
 * now. */
static bool past_matches(Session *s)
{
    const Past *p = s->plan->past;
    DuelProcess any;
    return !s->past_over && p->process(p->ctx, &s->batch, 0, 0, &any);
}

static void ask_again(Session *s, const Trial *t)
{
    const Proposer *y = &s->plan->strategy;
    uint64_t index;
    if (y->redo) {
        y->redo(y->ctx, t->index);
    } else if (!y->ask(y->ctx, &index) || index != t->index) {
        fail(s->e, E_INPUT,
             "trial %d is recorded as candidate %llu, for which this search does not ask: it "
             "is of another seed, strategy, space or batch size",
             t->ordinal, (unsigned long long)t->index);
    }
}

/* The past calibrated between two trials of a batch, when its time had been over and there was
 * more of it later. */
static bool past_calibrated(Session *s, int64_t n_trials)
{
    const Past *p = s->plan->past;
    Calibrated c;
    return !s->past_over && p->calibration(p->ctx, &s->batch, s->n_calibrations, &c) &&
           c.n_trials == n_trials;
}

/* What was asked for and not measured, since the time was over, comes before what is new. */
static bool ask(Session *s, uint64_t *index)
{
    const Proposer *y = &s->plan->strategy;
    if (s->n_pending == 0) {
        return y->ask(y->ctx, index);
    }
    *index = s->pending[0];
    memmove(s->pending, s->pending + 1, (size_t)--s->n_pending * sizeof s->pending[0]);
    return true;
}

/* How many are missing until a batch is whole: strategies hear of whole ones. */
static int batch_left(const Session *s)
{
    int64_t first = s->result.n_trials, trials = s->budget.trials;
    int64_t left = s->rules.p.batch - first % s->rules.p.batch;
    return (int)(trials > 0 && trials - first < left ? trials - first : left);
}

/* Asks for a batch; those that the past has come first. */
static int ask_batch(Session *s, Slot *slot, bool *closed)
{
    int64_t first = s->result.n_trials;
    int most = batch_left(s), n = 0;
    for (; n < most; n++) {
        if (n > 0 && past_calibrated(s, first + n)) {
            break;
        }
        slot[n].recorded = past_trial(s, (int)first + n, &slot[n].trial);
        if (slot[n].recorded) {
            ask_again(s, &slot[n].trial);
            continue;
        }
        uint64_t index = 0;
        bool asked = ask(s, &index);
        *closed = asked && past_matches(s);
        if (!asked || *closed) {
            break;
        }
        session_go_live(s);
        slot[n].trial.index = index;
    }
    return n;
}

static void build_batch(Session *s, Slot *slot, int n)
{
    const Builder *b = &s->plan->builder;
    Build *build = arena_array(&s->batch, Build, n);
    uint64_t before_ns = session_elapsed_ns(s);
    for (int i = 0; i < n; i++) {
        build[i].index = slot[i].trial.index;
    }
    b->build(b->ctx, s->e, &s->batch, build, n, session_limit_ns(s));
    s->batch_ns = session_elapsed_ns(s) - before_ns;
    for (int i = 0; i < n; i++) {
        slot[i].trial = trial_of(s, &build[i]);
    }
}

static void put_off(Session *s, Slot *slot, int from, int n)
{
    for (int i = from; i < n; i++) {
        s->pending[s->n_pending++] = slot[i].trial.index;
        session_drop(s, &slot[i].trial.built);
    }
}

static void run_batch(Session *s, Slot *slot, int n)
{
    int n_recorded = 0;
    s->batch_ns = slot[0].recorded ? 0 : s->batch_ns;
    while (n_recorded < n && slot[n_recorded].recorded) {
        settle(s, &slot[n_recorded++]);
    }
    if (n_recorded == n) {
        return;
    }
    if (search_over(s, s->batch_ns)) {
        put_off(s, slot, n_recorded, n);
        return;
    }
    build_batch(s, slot + n_recorded, n - n_recorded);
    for (int i = n_recorded; i < n; i++) {
        if (search_over(s, 0)) {
            put_off(s, slot, i, n);
            return;
        }
        settle(s, &slot[i]);
    }
}

static void step(Session *s)
{
    bool closed = false;
    if (s->past_over && search_over(s, s->batch_ns)) {
        return;
    }
    Slot *slot = arena_array(&s->batch, Slot, s->rules.p.batch);
    int n = ask_batch(s, slot, &closed);
    run_batch(s, slot, n);
    arena_release(&s->batch);
    if (s->result.ending != ENDING_OPEN) {
        return;
    }
    if (closed) {
        session_end(s, ENDING_BUDGET, "the search had ended after %lld candidates",
                    (long long)s->result.n_trials);
    } else if (n == 0 && !search_over(s, 0)) {
        session_end(s, ENDING_EXHAUSTED, "all %lld candidates were tried",
                    (long long)s->result.n_trials);
    }
}

/* ---- from outside ------------------------------------------------------------------------ */

Session *session_start(Env *e, const SessionPlan *plan)
{
    Session *s = arena_new(&e->model, Session);
    *s = (Session){
        .e = e, .plan = plan, .budget = plan->budget, .past_over = plan->past == NULL};
    s->base.index = INDEX_DEFAULT;
    s->copy.index = INDEX_COPY;
    s->result.incumbent = INDEX_DEFAULT;
    arena_init(&s->keep, e);
    arena_init(&s->batch, e);
    arena_init(&s->making, e);
    arena_init(&s->work, e);
    rules_init(&s->rules, &plan->protocol);
    return s;
}

bool session_step(Session *s)
{
    if (s->result.ending != ENDING_OPEN) {
        return false;
    }
    session_enter(s);
    if (gate_pass(s)) {
        step(s);
    }
    session_leave(s);
    return s->result.ending == ENDING_OPEN;
}

void session_extend(Session *s, uint64_t ns)
{
    check(s->budget.ns > 0);
    s->budget.ns += ns;
    if (s->result.ending == ENDING_BUDGET || s->result.ending == ENDING_TOO_SHORT) {
        s->result.ending = ENDING_OPEN;
    }
}

const SessionResult *session_result(const Session *s)
{
    return &s->result;
}

void session_release(Session *s)
{
    arena_release(&s->work);
    arena_release(&s->making);
    arena_release(&s->batch);
    arena_release(&s->keep);
}

typedef struct WholeRun {
    const SessionPlan *plan;
    SessionResult *out;
    Session *s;
} WholeRun;

static void run_all(Env *e, void *arg)
{
    WholeRun *w = arg;
    w->s = session_start(e, w->plan);
    while (session_step(w->s)) {
    }
    session_finish(w->s);
    *w->out = *session_result(w->s);
    w->out->winner.built = built_dup(&e->model, &w->out->winner.built);
}

static void end_run(void *arg)
{
    const WholeRun *w = arg;
    if (w->s) {
        session_release(w->s);
    }
}

void session_run(Env *e, const SessionPlan *plan, SessionResult *out)
{
    WholeRun w = {.plan = plan, .out = out};
    env_finally(e, run_all, end_run, &w);
}
