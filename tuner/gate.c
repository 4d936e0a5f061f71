/* gate.c - calibrations of a session: when one is due, whether there is time for it, and what
 * is done where the machine is too noisy. What was decided by the clock in an interrupted
 * session is taken from its record, never decided again. MEASUREMENT 3.4, 3.5 */
#include "tuner/session_int.h"

#include <math.h>

/* ---- the past ---------------------------------------------------------------------------- */

/* The past calibrated at this point of the search. */
static bool past_calibration(Session *s, Calibrated *out)
{
    const Past *p = s->plan->past;
    return !s->past_over && p->calibration(p->ctx, &s->work, s->n_calibrations, out) &&
           out->n_trials == s->result.n_trials;
}

/* Something was recorded behind this point: then the past did here what it recorded. */
static bool past_goes_on(Session *s)
{
    const Past *p = s->plan->past;
    Trial trial;
    DuelProcess process;
    return !s->past_over &&
           (p->trial(p->ctx, &s->work, (int)s->result.n_trials, &trial) ||
            (s->n_calibrations > 0 && p->process(p->ctx, &s->work, 0, 0, &process)));
}

/* ---- when -------------------------------------------------------------------------------- */

static bool spread_moved(const Session *s)
{
    const Protocol *p = &s->rules.p;
    double last[MAX_SPREADS], was = fmax(s->result.calibration.iqr_ln, 1e-4);
    if (s->n_spreads < p->recalibrate_over) {
        return false;
    }
    for (int i = 0; i < p->recalibrate_over; i++) {
        last[i] = s->spread[i];
    }
    double now = stat_median(last, p->recalibrate_over);
    return now > was * p->recalibrate_factor || now < was / p->recalibrate_factor;
}

static bool due(Session *s)
{
    Calibrated any;
    if (s->n_calibrations == 0) {
        return true;
    }
    if (past_calibration(s, &any)) {
        return true;
    }
    if (past_goes_on(s)) {
        return false;
    }
    if (session_left_ns(s) <= s->reserve_ns) {
        return false; /* the search is over */
    }
    uint64_t since_ns = session_elapsed_ns(s) - s->calibrated_ns;
    return (double)since_ns > 1e9 * s->rules.p.recalibrate_s || spread_moved(s);
}

/* ---- is there time? ---------------------------------------------------------------------- */

/* To confirm anything it takes so many processes more, and a candidate in two. */
static bool affordable(Session *s, int n_before, uint64_t process_ns)
{
    int n = n_before + 2 + s->rules.title_least;
    const Budget *b = &s->budget;
    if (b->ns == 0 || s->result.n_trials > 0 ||
        budget_allows(&s->rules, session_left_ns(s), n, process_ns)) {
        return true;
    }
    double one_s = process_ns > 0 ? (double)process_ns / 1e9 : s->rules.p.least_process_s;
    session_end(s, ENDING_TOO_SHORT,
                "nothing can be confirmed in a budget of %.3g s: it takes %d more processes at "
                "about %.2g s each, and %.3g s are left; no candidate was tried",
                (double)b->ns / 1e9, n, one_s, (double)session_left_ns(s) / 1e9);
    return false;
}

/* ---- one calibration --------------------------------------------------------------------- */

/* False: the session ended meanwhile, and the calibration is none. */
static bool take_processes(Session *s, Calibrated *c)
{
    int n = s->rules.p.calibration_processes;
    DuelProcess *p = arena_array(&s->work, DuelProcess, n);
    uint64_t process_ns = 0; /* of the fastest: the first lays out what all others find */
    for (c->n = 0; c->n < n; c->n++) {
        if (!affordable(s, n - c->n, c->n > 1 ? process_ns : 0)) {
            return false;
        }
        if (session_interrupted(s)) {
            session_end(s, ENDING_INTERRUPTED, "stopped while calibrating");
            return false;
        }
        s->began_ns = session_elapsed_ns(s);
        session_process(s, DUEL_CALIBRATE, &s->base, &s->copy, c->n == 0, &p[c->n]);
        const ProcessResult *r = &p[c->n].result;
        if (r->status != STATUS_OK) {
            fail(s->e, E_INPUT, "the default schedule does not run here (%s): %s",
                 status_name[r->status], r->why);
        }
        bool faster = process_ns == 0 || r->took_ns < process_ns;
        process_ns = faster ? r->took_ns : process_ns;
    }
    c->process = p;
    c->elapsed_ns = session_elapsed_ns(s);
    return true;
}

static void take_record(Session *s, const Calibrated *c)
{
    s->n_processes += (uint64_t)c->n;
    session_reach(s, c->elapsed_ns);
}

/* What is kept for the matches follows from the time there was then, and stays. */
static uint64_t left_then(const Calibrated *c)
{
    bool limit = c->budget_ns > 0;
    return !limit                         ? UINT64_MAX
           : c->budget_ns > c->elapsed_ns ? c->budget_ns - c->elapsed_ns
                                          : 0;
}

static void wait_for_quiet(Session *s, uint64_t ns)
{
    const Runner *r = &s->plan->runner;
    if (ns > 0) {
        r->wait_ns(r->ctx, ns);
    }
}

/* Waits so long first, unless the past has done that. */
static bool calibrate_once(Session *s, uint64_t wait_ns)
{
    Calibrated c;
    bool recorded = past_calibration(s, &c);
    if (recorded) {
        take_record(s, &c);
    } else {
        c = (Calibrated){.ordinal = s->n_calibrations, .n_trials = (int)s->result.n_trials};
        session_go_live(s);
        wait_for_quiet(s, wait_ns);
        if (!take_processes(s, &c)) {
            return false;
        }
        c.budget_ns = s->budget.ns;
        c.waited_ns = wait_ns;
    }
    calibrate(&s->rules, c.process, c.n, s->plan->task->n_threads, &c.result);
    s->result.calibration = c.result;
    s->n_calibrations++;
    s->calibrated_ns = c.elapsed_ns;
    s->reserve_ns = budget_reserve_ns(&s->rules, &c.result, left_then(&c));
    s->n_spreads = 0;
    if (!recorded && s->plan->recorder.calibration) {
        s->plan->recorder.calibration(s->plan->recorder.ctx, &c);
    }
    arena_release(&s->work);
    return true;
}

/* ---- the gate ---------------------------------------------------------------------------- */

/* Twice the last wait; 0: all that may be waited was. */
static uint64_t next_wait_ns(const Session *s, uint64_t last_ns)
{
    const Protocol *p = &s->rules.p;
    double next =
        last_ns > 0 ? fmin(2.0 * (double)last_ns, 1e9 * p->gate_step_s) : 1e9 * p->gate_first_s;
    double most = 1e9 * p->gate_most_s;
    if (s->budget.ns > 0) {
        most = fmin(most, p->gate_share * (double)s->budget.ns);
    }
    return (double)s->waited_ns + next <= most ? (uint64_t)next : 0;
}

/* It is worth nothing where no time is left then to calibrate, to try and to confirm. */
static bool leaves_enough(const Session *s, uint64_t wait_ns)
{
    uint64_t left_ns = session_left_ns(s), ahead_ns = wait_ns + s->reserve_ns;
    return s->budget.ns == 0 ||
           (left_ns > ahead_ns &&
            budget_allows(&s->rules, left_ns - ahead_ns, s->rules.p.calibration_processes + 2,
                          s->result.calibration.process_ns));
}

static bool may_wait(Session *s, uint64_t wait_ns)
{
    Calibrated any;
    if (past_calibration(s, &any)) {
        return true;
    }
    return !past_goes_on(s) && !session_interrupted(s) && s->plan->runner.wait_ns &&
           leaves_enough(s, wait_ns);
}

bool gate_pass(Session *s)
{
    uint64_t wait_ns = 0;
    const Calibration *c = &s->result.calibration;
    if (!due(s)) {
        return true;
    }
    do {
        if (!calibrate_once(s, wait_ns)) {
            return false;
        }
        s->waited_ns += wait_ns;
        wait_ns = next_wait_ns(s, wait_ns);
    } while (c->noisy && wait_ns > 0 && may_wait(s, wait_ns));
    s->result.noisy |= c->noisy;
    if (c->biased) {
        session_end(
            s, ENDING_BIASED,
            "the harness is biased: all %d processes found the default %.1f%% %s than a "
            "copy of itself",
            c->n_processes, 100 * fabs(expm1(c->median_ln)),
            c->median_ln > 0 ? "faster" : "slower");
        return false;
    }
    return affordable(s, 0, c->process_ns);
}
