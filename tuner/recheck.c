/* recheck.c - recorded decisions made again from the raw pairs, for whoever doubts them. Each
 * names the first thing that differs. Pure. */
#include "tuner/tuner.h"

#include <math.h>

/* ---- a duel, whatever its stage ---------------------------------------------------------- */

typedef struct Counted { /* what all stages are recounted from */
    const Rules *rules;
    DuelStage stage;
    Terms terms;
    double alpha;
    const DuelProcess *process;
    int n;
} Counted;

static void recount_race(const Counted *c, Recount *out)
{
    Trial t = {.terms = c->terms, .n_processes = 1};
    t.process[0] = c->process[0];
    t.status = c->process[0].result.status;
    out->outcome = trial_decide(c->rules, &t);
    out->n = t.race.n;
    out->wins = t.race.wins;
    out->losses = out->n - out->wins;
    out->ties = t.race.ties;
    out->discarded = t.race.n_attempted - t.race.n;
    out->ln_e_most = t.race.ln_e_most;
    out->noisy = t.race.noisy;
    out->ratio.median = exp(t.ln_ratio);
}

static void recount_replicate(const Counted *c, Recount *out)
{
    const ProcessResult *p = &c->process[0].result;
    PairsSummary s;
    pairs_summary(&c->rules->p, p->pair, p->n_pairs, c->terms.metric, &s);
    for (int i = 0; i < p->n_pairs; i++) {
        bool here = pair_valid(&p->pair[i]) && (s.kept_flagged || !pair_disturbed(&p->pair[i]));
        out->wins += here && pair_won(&p->pair[i], c->terms.metric, c->terms.margin_e4);
    }
    out->n = s.n;
    out->losses = s.n - out->wins;
    out->ties = s.n_ties;
    out->discarded = p->n_pairs - s.n;
    out->noisy = s.kept_flagged;
    out->ratio.median = exp(s.median_ln);
    out->outcome =
        p->status != STATUS_OK ? OUTCOME_FAILED : replicate_outcome(&s, c->terms.margin_e4);
}

static int count_discarded(const Counted *c, bool *noisy)
{
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        const ProcessResult *p = &c->process[i].result;
        PairsSummary s;
        pairs_summary(&c->rules->p, p->pair, p->n_pairs, c->terms.metric, &s);
        n += p->n_pairs - s.n;
        *noisy |= s.kept_flagged && s.n_flagged > 0;
    }
    return n;
}

static void recount_series(const Counted *c, Recount *out)
{
    Series s;
    series_start(&s, c->rules, c->stage, c->alpha, c->terms.metric);
    for (int i = 0; i < c->n; i++) {
        series_add(&s, &c->process[i].result);
    }
    series_cut(&s);
    out->n = s.n;
    out->wins = s.wins;
    out->losses = s.n - s.wins;
    out->ties = s.n_ties;
    out->discarded = count_discarded(c, &out->noisy);
    out->ln_e_most = s.ln_e_most;
    out->ratio = s.ratio;
    out->outcome = s.outcome;
    out->verdict = s.verdict;
}

/* Its number of processes is fixed, so the interval is the one for that. */
static void recount_calibration(const Counted *c, Recount *out)
{
    double ln[SERIES_MAX];
    for (int i = 0; i < c->n && i < SERIES_MAX; i++) {
        const ProcessResult *p = &c->process[i].result;
        PairsSummary s;
        pairs_summary(&c->rules->p, p->pair, p->n_pairs, c->terms.metric, &s);
        ln[out->n++] = s.n > 0 ? s.median_ln : 0;
        out->wins += s.n > 0 && s.median_ln < 0;
        out->ties += s.n_ties;
    }
    out->losses = out->n - out->wins;
    out->discarded = count_discarded(c, &out->noisy);
    out->ratio = stat_interval(ln, out->n, c->rules->p.confidence);
    out->ratio.median = exp(out->ratio.median);
    out->ratio.lo = exp(out->ratio.lo);
    out->ratio.hi = exp(out->ratio.hi);
    out->outcome = OUTCOME_DECIDED;
}

typedef void RecountStage(const Counted *c, Recount *out);
static RecountStage *const recount_of[N_DUEL_STAGES] = {
    [DUEL_CALIBRATE] = recount_calibration, [DUEL_SEARCH] = recount_race,
    [DUEL_REPLICATE] = recount_replicate,   [DUEL_TITLE] = recount_series,
    [DUEL_EQUIVALENCE] = recount_series,    [DUEL_COMPARE] = recount_series};

/* Of one call, over all valid pairs of all processes. */
static void take_calls(Arena *m, const DuelProcess *process, int n, Recount *out)
{
    int most = 0, count = 0;
    for (int i = 0; i < n; i++) {
        most += process[i].result.n_pairs;
    }
    double *a = arena_array(m, double, most + 1), *b = arena_array(m, double, most + 1);
    for (int i = 0; i < n; i++) {
        const ProcessResult *p = &process[i].result;
        for (int k = 0; k < p->n_pairs; k++) {
            if (pair_valid(&p->pair[k])) {
                a[count] = (double)p->pair[k].a_ns / (double)p->reps;
                b[count++] = (double)p->pair[k].b_ns / (double)p->reps;
            }
        }
    }
    out->a_ns = stat_median(a, count);
    out->b_ns = stat_median(b, count);
    out->a_min_ns = count > 0 ? a[0] : NAN;
    out->b_min_ns = count > 0 ? b[0] : NAN;
}

void duel_recount(Arena *m, const Rules *r, DuelStage stage, const Terms *terms, double alpha,
                  const DuelProcess *process, int n, Recount *out)
{
    Counted c = {r, stage, *terms, alpha, process, n};
    *out = (Recount){.ratio = {.median = NAN, .lo = NAN, .hi = NAN}};
    if (n > 0) {
        recount_of[stage](&c, out);
    }
    out->p = exp(-out->ln_e_most);
    take_calls(m, process, n, out);
}

/* ---- what is recorded, against that ------------------------------------------------------ */

static bool same(double x, double y)
{
    return x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= 1e-12 * fmax(fabs(x), fabs(y));
}

typedef struct Claim { /* a recorded number, and what the pairs say */
    const char *name;
    double recorded, again;
} Claim;

static bool claims_hold(const Claim *c, int n, Err *err)
{
    for (int i = 0; i < n; i++) {
        if (!same(c[i].recorded, c[i].again)) {
            return err_set(err, E_INPUT, "%s is recorded as %.10g, but the pairs say %.10g",
                           c[i].name, c[i].recorded, c[i].again);
        }
    }
    return true;
}

static bool words_hold(const char *name, const char *recorded, const char *again, Err *err)
{
    return recorded == again ||
           err_set(err, E_INPUT, "%s is recorded as %s, but the pairs say %s", name, recorded,
                   again);
}

bool trial_recheck(const Rules *r, const Trial *t, Err *err)
{
    Trial again = *t;
    trial_decide(r, &again);
    Claim claims[] = {{"the number of pairs that count", t->race.n, again.race.n},
                      {"the number of wins", t->race.wins, again.race.wins},
                      {"the number of ties", t->race.ties, again.race.ties},
                      {"the number of flagged pairs", t->race.n_flagged, again.race.n_flagged},
                      {"the largest ln E", t->race.ln_e_most, again.race.ln_e_most},
                      {"the ln ratio", t->ln_ratio, again.ln_ratio}};
    return words_hold("the outcome", outcome_name[t->outcome], outcome_name[again.outcome],
                      err) &&
           claims_hold(claims, countof(claims), err);
}

/* A recorded cut is no claim of the pairs: it must not have been decided before. */
bool series_recheck(const Rules *r, const Series *s, const DuelProcess *process, int n,
                    Err *err)
{
    Series again;
    series_start(&again, r, s->stage, s->alpha, s->metric);
    for (int i = 0; i < n; i++) {
        if (again.outcome != OUTCOME_NONE) {
            return err_set(err, E_INPUT, "the match was decided after %d of its %d processes",
                           i, n);
        }
        series_add(&again, &process[i].result);
    }
    if (s->outcome == OUTCOME_CUT) {
        series_cut(&again);
    }
    Claim claims[] = {{"the number of processes", s->n, again.n},
                      {"the number of wins", s->wins, again.wins},
                      {"the number of pairs", s->n_pairs, again.n_pairs},
                      {"the largest ln E", s->ln_e_most, again.ln_e_most},
                      {"the ratio", s->ratio.median, again.ratio.median},
                      {"the interval's lower end", s->ratio.lo, again.ratio.lo},
                      {"the interval's upper end", s->ratio.hi, again.ratio.hi}};
    return words_hold("the outcome", outcome_name[s->outcome], outcome_name[again.outcome],
                      err) &&
           words_hold("the verdict", verdict_name[s->verdict], verdict_name[again.verdict],
                      err) &&
           claims_hold(claims, countof(claims), err);
}

bool calibration_recheck(const Rules *r, const Calibration *c, const DuelProcess *process,
                         int n, int n_threads, Err *err)
{
    Calibration again;
    calibrate(r, process, n, n_threads, &again);
    Claim claims[] = {{"the number of processes", c->n_processes, again.n_processes},
                      {"sigma", c->sigma_p, again.sigma_p},
                      {"the margin", c->margin_e4 / 1e4, again.margin_e4 / 1e4},
                      {"the median ln ratio", c->median_ln, again.median_ln},
                      {"the spread", c->iqr_ln, again.iqr_ln},
                      {"the share of flagged pairs", c->flagged, again.flagged}};
    return words_hold("the metric", metric_name[c->metric], metric_name[again.metric], err) &&
           claims_hold(claims, countof(claims), err);
}
