/* duels.c - the commands that measure without a search: for each task a session that is calibrated like any
 * other, in which sides meet, process by process, and everything recorded. What goes wrong with one task
 * is said in a sentence, recorded with it, and holds up no other. */
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "tuner/cli/duels.h"

/* ---- saying ------------------------------------------------------------------------------- */

void contest_say(const Contest *c, const char *fmt, ...)
{
    va_list ap;
    progress_clear(c->w);
    va_start(ap, fmt);
    printf("  ");
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
    fflush(stdout);
}

static const char *times_text(Arena *a, double ratio)
{
    return !isfinite(ratio) ? "not known"
           : ratio <= 1     ? arena_printf(a, "%.3fx faster", 1 / ratio)
                            : arena_printf(a, "%.3fx slower", ratio);
}

/* Chance of so many wins of the one that seems faster, were it not. */
static double p_of(const Series *s)
{
    double p =
        s->ratio.median <= 1 ? series_p(s) : exp(-stat_ln_e(s->losses, s->n - s->losses));
    return p < 1 ? p : 1;
}

static const char *same_code(const Side *a, const Side *b)
{
    bool same = !a->built.rival && !b->built.rival && hash_eq(a->built.c_hash, b->built.c_hash);
    return same ? "; the two are the same code" : "";
}

static void say_duel(const Contest *c, const Duel *d, const Side *a, const Side *b)
{
    Arena *m = &c->w->e->model;
    const Series *s = &d->series;
    if (s->n_pairs == 0) {
        contest_say(c, "%s against %s: not measured, there was no time left for it", b->name,
                    a->name);
        return;
    }
    const char *interval =
        isfinite(s->ratio.lo)
            ? arena_printf(m, ", %.0f%% interval %.4f-%.4f", 100 * c->w->o->protocol.confidence,
                           s->ratio.lo, s->ratio.hi)
            : "";
    contest_say(
        c, "%s against %s: %s, %s (ratio %.4f%s; won %d of %d processes, %d pairs, p %.1e)%s%s",
        b->name, a->name, verdict_name[s->verdict], times_text(m, s->ratio.median),
        s->ratio.median, interval, s->wins, s->n, s->n_pairs, p_of(s), same_code(a, b),
        session_result(c->session)->noisy ? "; the machine was noisy" : "");
}

/* ---- building ----------------------------------------------------------------------------- */

/* Those that no session has to build: they are there. */
static void build_side(const Contest *c, Build *b)
{
    const Side *s = &c->side.at[b->index - INDEX_SIDES];
    b->status = s->status;
    b->why = s->why;
    b->built = s->built;
}

static void build_any(void *ctx, Env *e, Arena *m, Build *batch, int n, uint64_t limit_ns)
{
    Contest *c = ctx;
    Builder ours = task_builder(&c->builder);
    for (int i = 0; i < n; i++) {
        if (batch[i].index >= INDEX_SIDES && batch[i].index < INDEX_COPY) {
            build_side(c, &batch[i]);
        } else {
            ours.build(ours.ctx, e, m, &batch[i], 1, limit_ns);
        }
    }
}

void contest_build(Contest *c)
{
    Env *e = c->w->e;
    Cache cache = c->w->cache;
    Schedule *s = arena_array(&e->model, Schedule, c->side.n);
    Attempt *out = arena_array(&e->model, Attempt, c->side.n);
    int *place = arena_array(&e->model, int, c->side.n), n = 0;
    for (int i = 0; i < c->side.n; i++) {
        const Side *side = &c->side.at[i];
        if (side->status == STATUS_OK && !side->built.library) { /* it did not fail before */
            place[n] = i;
            s[n++] = side->schedule;
        }
    }
    if (n == 0) {
        return;
    }
    candidates_build(e, &e->model, &cache, &c->w->tc, c->item->kernel, s, n, c->w->n_jobs, out);
    for (int i = 0; i < n; i++) {
        Side *side = &c->side.at[place[i]];
        side->status = out[i].status;
        side->why = out[i].why;
        side->built = out[i].built;
    }
}

/* ---- playing ------------------------------------------------------------------------------ */

static void start_session(Contest *c)
{
    const TuneOptions *o = c->w->o;
    c->builder = (TaskBuilder){.w = c->w, .item = c->item};
    c->plan = (SessionPlan){.task = &c->item->task,
                            .protocol = o->protocol,
                            .runner = child_runner(&c->w->children),
                            .builder = {.ctx = c, .build = build_any},
                            .recorder = progress_recorder(&c->progress),
                            .budget = {c->budget_ns, 0},
                            .seed = o->seed,
                            .stop = &tune_interrupted};
    c->session = session_start(c->w->e, &c->plan);
    c->progress.now = session_result(c->session);
}

/* Says and records what kept two sides from a verdict. */
static bool no_verdict(Contest *c, const char *ending, const char *fmt, ...)
{
    va_list ap;
    char text[1024];
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    progress_clear(c->w);
    fprintf(stderr, "tune: %s: %s\n", c->item->label, text);
    c->ending = ending;
    c->why = arena_str(&c->w->e->model, text);
    c->status = 1;
    return false;
}

static bool is_built(Contest *c, const Side *s)
{
    return s->status == STATUS_OK || no_verdict(c, status_name[s->status], "%s: %s: %s",
                                                s->name, status_name[s->status], s->why);
}

/* The loader takes two names of one file for one library. */
static void part_files(Contest *c, const Side *a, Side *b)
{
    if (*a->built.library && !strcmp(a->built.library, b->built.library)) {
        b->built = built_copy(c->w->e, &c->w->e->model, &c->w->cache, &a->built);
    }
}

static void must_be_open(Contest *c, bool played)
{
    const SessionResult *r = session_result(c->session);
    if (tune_interrupted) {
        fail(c->w->e, E_INTERRUPT, "Stopped.");
    }
    if (!played) {
        fail(c->w->e, E_INPUT, "Nothing was compared: %s.", r->why);
    }
}

bool contest_play(Contest *c, int a, int b, Duel *out)
{
    *out = (Duel){.ordinal = -1};
    contest_build(c);
    if (!is_built(c, &c->side.at[a]) || !is_built(c, &c->side.at[b])) {
        return false;
    }
    part_files(c, &c->side.at[a], &c->side.at[b]);
    if (!c->session) {
        start_session(c);
    }
    bool played = session_duel(c->session, DUEL_COMPARE, INDEX_SIDES + (uint64_t)a,
                               INDEX_SIDES + (uint64_t)b, out);
    must_be_open(c, played);
    if (out->series.outcome == OUTCOME_FAILED) {
        return no_verdict(c, status_name[out->status], "%s against %s: %s: %s",
                          c->side.at[b].name, c->side.at[a].name, status_name[out->status],
                          out->why);
    }
    say_duel(c, out, &c->side.at[a], &c->side.at[b]);
    int status = verdict_status(out->series.verdict);
    c->status = c->status == 1 || status < c->status ? c->status : status;
    return true;
}

void contest_say_where(const Contest *c)
{
    contest_say(c, "its pairs: report evidence %lld %lld", (long long)c->record->in.run,
                (long long)c->record->in.n_duels - 1);
}

/* FASTER is 0, so that `tune --compare A B && ...` goes on where B is faster. */
int verdict_status(DuelVerdict v)
{
    static const int status[N_VERDICTS] = {[VERDICT_FASTER] = 0,
                                           [VERDICT_EQUIVALENT] = 3,
                                           [VERDICT_SLOWER] = 4,
                                           [VERDICT_UNDECIDED] = 5};
    return status[v];
}

/* ---- one task ----------------------------------------------------------------------------- */

static const char *side_name(void *ctx, uint64_t index)
{
    const Contest *c = ctx;
    bool is_side = index >= INDEX_SIDES && index < INDEX_COPY;
    return is_side ? c->side.at[index - INDEX_SIDES].name : NULL;
}

static void play_task(Env *e, void *arg)
{
    Contest *c = arg;
    (void)e;
    c->rows = task_record_of(c->record, c->item);
    c->rows.name = side_name;
    c->rows.name_ctx = c;
    c->progress = (TaskProgress){.w = c->w,
                                 .record = &c->rows,
                                 .label = c->item->label,
                                 .duels = true,
                                 .in = task_recorder(&c->rows)};
    printf("%s, %s, %d thread%s\n", c->item->label, regime_name[c->item->task.regime],
           c->item->task.n_threads, c->item->task.n_threads == 1 ? "" : "s");
    fflush(stdout);
    c->w->o->command->task(c);
}

static void end_task(Contest *c)
{
    record_task_over(c->record, c->item, c->ending ? c->ending : "compared", c->why);
    if (c->session) {
        session_release(c->session);
    }
}

/* What is not this task's own fault ends all. */
static bool ends_all(ErrCode code)
{
    return code == E_INTERRUPT || code == E_IO || code == E_NOMEM;
}

static int run_task(Contest *c)
{
    Env *e = c->w->e;
    bool ok = env_try(e, play_task, c);
    Err err = e->err;
    if (!ok && ends_all(err.code)) {
        c->ending = err.code == E_INTERRUPT ? "interrupted" : "failed";
        c->why = err.text;
    } else if (!ok) {
        no_verdict(c, "failed", "%s", err.text);
    }
    end_task(c);
    if (!ok && ends_all(err.code)) {
        fail_err(e, &err);
    }
    return c->status;
}

/* ---- all of them -------------------------------------------------------------------------- */

/* What is left is shared among those that are left. */
static uint64_t share_of_budget(const Workplace *w, int n_left)
{
    uint64_t all_ns = w->o->budget.ns, spent_ns = clock_ns() - w->start_ns;
    uint64_t left_ns = spent_ns < all_ns ? all_ns - spent_ns : 1;
    return all_ns ? left_ns / (uint64_t)n_left : 0;
}

int duels_run(Workplace *w, Record *record, Items *items)
{
    const Command *command = w->o->command;
    void *state = command->begin ? command->begin(w, items) : NULL;
    int worst = 0;
    for (int i = 0; i < items->n; i++) {
        Contest c = {.w = w,
                     .record = record,
                     .item = &items->at[i],
                     .state = state,
                     .budget_ns = share_of_budget(w, items->n - i)};
        int status = run_task(&c);
        bool counts = status == 1 || (command->verdict_is_status && worst != 1);
        worst = counts && (status == 1 || status > worst) ? status : worst;
    }
    if (command->end) {
        command->end(state);
    }
    return worst;
}
