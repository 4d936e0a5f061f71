/* progress.c - one line on stderr of how a search stands: rewritten in place on a terminal; elsewhere a line for
 * what changes the course of things (calibrated, a better candidate, a match over), so that a log stays readable. */
#include <math.h>
#include <unistd.h>

#include "tuner/cli/tune.h"

static int64_t count(const int64_t *n, int from, int to)
{
    int64_t sum = 0;
    for (int i = from; i <= to; i++) {
        sum += n[i];
    }
    return sum;
}

/* Of the whole command. */
static void say_time(const Workplace *w, Buf *out)
{
    uint64_t spent_ns = workplace_spent_ns(w);
    uint64_t all_ns = w->o->budget.ns;
    buf_printf(out, "%.0f s", (double)spent_ns / 1e9);
    if (all_ns > 0) {
        buf_printf(out, ", %.0f s left",
                   all_ns > spent_ns ? (double)(all_ns - spent_ns) / 1e9 : 0.0);
    }
}

/* The candidates by what became of them; a race is what reached the sequential test. */
static void say_counts(const TaskProgress *p, Buf *out)
{
    const SessionResult *s = p->now;
    int64_t failed =
        count(s->n_status, STATUS_CC_ERROR, N_STATUSES - 1) - s->n_status[STATUS_WRONG];
    const struct {
        const char *name;
        int64_t n;
        bool always;
    } counts[] = {
        {"illegal", s->n_status[STATUS_ILLEGAL], true},
        {"wrong", s->n_status[STATUS_WRONG], true},
        {"failed", failed, false},
        {"same code", s->n_outcome[OUTCOME_SAME], false},
        {"screened", count(s->n_outcome, OUTCOME_SLOW_CALL, OUTCOME_M3), true},
        {"raced", count(s->n_outcome, OUTCOME_FUTILE, OUTCOME_PROMOTED), true},
    };
    buf_printf(out, "tried %lld", (long long)s->n_trials);
    if (p->w->o->budget.trials > 0) {
        buf_printf(out, " of %lld", (long long)p->w->o->budget.trials);
    }
    for (size_t i = 0; i < countof(counts); i++) {
        if (counts[i].always || counts[i].n > 0) {
            buf_printf(out, ", %s %lld", counts[i].name, (long long)counts[i].n);
        }
    }
}

static void say_best(uint64_t index, double ln_default, Buf *out)
{
    if (index == INDEX_DEFAULT) {
        buf_str(out, "best: the default");
    } else {
        buf_printf(out, "best: candidate %llu at %.3fx", (unsigned long long)index,
                   exp(-ln_default));
    }
}

static void show(const TaskProgress *p, const char *doing, uint64_t best, double ln_default)
{
    Buf line;
    if (p->w->o->quiet) {
        return;
    }
    buf_init(&line, &p->w->e->kernel);
    say_time(p->w, &line);
    buf_printf(&line, "  %s: %s; ", p->label, doing);
    say_counts(p, &line);
    buf_str(&line, "; ");
    say_best(best, ln_default, &line);
    fprintf(stderr, isatty(2) ? "\r\033[K%s" : "%s\n", line.at);
    env_reset_kernel(p->w->e);
}

static void show_now(const TaskProgress *p, const char *doing)
{
    show(p, doing, p->now->incumbent, p->now->ln_default);
}

void progress_clear(const Workplace *w)
{
    if (!w->o->quiet && isatty(2)) {
        fputs("\r\033[K", stderr);
    }
}

/* ---- a recorder that tells on ---------------------------------------------------------------- */

static void on_calibration(void *ctx, const Calibrated *c)
{
    TaskProgress *p = ctx;
    p->in.calibration(p->in.ctx, c);
    show_now(p, c->result.noisy ? "calibrated, on a noisy machine" : "calibrated");
}

/* The one that was promoted is the best from here on. */
static void on_trial(void *ctx, const Trial *t)
{
    TaskProgress *p = ctx;
    p->in.trial(p->in.ctx, t);
    if (t->outcome == OUTCOME_PROMOTED) {
        show(p, "a better one", t->index, t->ln_default);
    } else if (isatty(2)) {
        show_now(p, "searching");
    }
}

static void show_duel(const TaskProgress *p, const Duel *d)
{
    Arena *m = &p->w->e->kernel;
    Buf line;
    if (p->w->o->quiet) {
        return;
    }
    buf_init(&line, m);
    say_time(p->w, &line);
    fprintf(stderr, "\r\033[K%s  %s: %s against %s, %d processes, ratio %.3f", line.at,
            p->label, task_record_name(m, p->record, d->b),
            task_record_name(m, p->record, d->a), d->series.n, d->series.ratio.median);
    env_reset_kernel(p->w->e);
}

static void on_process(void *ctx, const Duel *d, const DuelProcess *process)
{
    TaskProgress *p = ctx;
    p->in.process(p->in.ctx, d, process);
    if (isatty(2) && p->duels) {
        show_duel(p, d);
    } else if (isatty(2)) {
        show_now(p, "confirming");
    }
}

static void on_duel(void *ctx, const Duel *d)
{
    TaskProgress *p = ctx;
    p->in.duel(p->in.ctx, d);
    if (d->stage == DUEL_TITLE) {
        show_now(p, "title match over");
    }
}

static void on_winner(void *ctx, const Winner *w)
{
    TaskProgress *p = ctx;
    p->in.winner(p->in.ctx, w);
}

static void on_ties(void *ctx, const TieSet *t)
{
    TaskProgress *p = ctx;
    p->in.ties(p->in.ctx, t);
}

Recorder progress_recorder(TaskProgress *p)
{
    return (Recorder){p, on_calibration, on_trial, on_process, on_duel, on_winner, on_ties};
}
