/* race.c - what the pairs of one process say, and what becomes of a candidate by them.
 *
 * Everything here is a fold over recorded pairs: the child may run it to stop early, the
 * tuner runs it to decide, and whoever doubts a verdict runs it again over the stored pairs.
 * Pairs are set aside by rules that are the same whichever of the two ran first, so that the
 * coin that ordered them still makes wins as rare as heads where b is no faster. MEASUREMENT
 * 2, 3.4 */
#include "tuner/tuner.h"

#include <math.h>

/* ---- one pair ---------------------------------------------------------------------------- */

bool pair_valid(const Pair *p)
{
    return p->a_ns > 0 && p->b_ns > 0 && !(p->flags & PAIR_CLOCK);
}

bool pair_disturbed(const Pair *p)
{
    return p->flags & PAIR_DISCARD;
}

static bool by_cpu(const Pair *p, Metric metric)
{
    return metric == METRIC_CPU && p->a_cpu_ns > 0 && p->b_cpu_ns > 0;
}

static uint64_t a_of(const Pair *p, Metric metric)
{
    return by_cpu(p, metric) ? p->a_cpu_ns : p->a_ns;
}

static uint64_t b_of(const Pair *p, Metric metric)
{
    return by_cpu(p, metric) ? p->b_cpu_ns : p->b_ns;
}

bool pair_won(const Pair *p, Metric metric, int margin_e4)
{
    return stat_is_win(a_of(p, metric), b_of(p, metric), margin_e4);
}

double pair_ln_ratio(const Pair *p, Metric metric)
{
    return log((double)b_of(p, metric) / (double)a_of(p, metric));
}

/* ---- those of one process ---------------------------------------------------------------- */

static void count_pairs(const Pair *pair, int n, Metric metric, PairsSummary *out)
{
    for (int i = 0; i < n; i++) {
        bool valid = pair_valid(&pair[i]);
        out->n_invalid += !valid;
        out->n_flagged += valid && pair_disturbed(&pair[i]);
        out->n_ties += valid && a_of(&pair[i], metric) == b_of(&pair[i], metric);
    }
}

void pairs_summary(const Protocol *p, const Pair *pair, int n, Metric metric, PairsSummary *out)
{
    double ln[2 * SIGN_MAX + 64];
    n = n < (int)countof(ln) ? n : (int)countof(ln);
    *out = (PairsSummary){0};
    count_pairs(pair, n, metric, out);
    out->kept_flagged = n - out->n_invalid - out->n_flagged < p->unflagged_least;
    for (int i = 0; i < n; i++) {
        if (pair_valid(&pair[i]) && (out->kept_flagged || !pair_disturbed(&pair[i]))) {
            ln[out->n++] = pair_ln_ratio(&pair[i], metric);
        }
    }
    out->iqr_ln = stat_iqr(ln, out->n);
    out->median_ln = stat_quantile(ln, out->n, 0.5);
}

/* ---- the race: screen, then the sequential test ------------------------------------------ */

void race_start(Race *r, const StopRule *rule, int margin_e4, uint64_t warm_a_ns,
                uint64_t warm_b_ns)
{
    *r = (Race){.rule = rule, .margin_e4 = margin_e4};
    unsigned __int128 a = warm_a_ns, b = warm_b_ns;
    if (rule->warm_x100 > 0 && a > 0 && b * 100 > a * (unsigned)rule->warm_x100) {
        r->outcome = OUTCOME_SLOW_CALL;
    }
}

static int bits(uint64_t x)
{
    return __builtin_popcountll(x);
}

/* Notes the flags; true: this pair counts. */
static bool race_counts(Race *r, const Pair *p)
{
    const StopRule *s = r->rule;
    bool flagged = pair_disturbed(p), valid = pair_valid(p);
    uint64_t window = s->window < 64 ? (UINT64_C(1) << s->window) - 1 : UINT64_MAX;
    r->n_attempted++;
    r->recent = (r->recent << 1 | flagged) & window;
    r->noisy |= r->n_attempted >= s->window && bits(r->recent) > s->most_flagged;
    r->n_flagged += valid && flagged;
    r->n_invalid += !valid;
    return valid && (r->noisy || !flagged);
}

/* The first three pairs: is it far slower? */
static Outcome race_screen(Race *r, const Pair *p)
{
    r->first[r->n - 1] = exp(pair_ln_ratio(p, r->rule->metric));
    int most = r->rule->first_x100;
    if (r->n == 1 && most > 0 && !pair_disturbed(p) && 100 * r->first[0] > most) {
        return OUTCOME_R1;
    }
    double three[3] = {r->first[0], r->first[1], r->first[2]};
    if (r->n == 3 && r->rule->third_x100 > 0 &&
        100 * stat_median(three, 3) > r->rule->third_x100) {
        return OUTCOME_M3;
    }
    return OUTCOME_NONE;
}

static Outcome race_test(const Race *r)
{
    int win = r->rule->win[r->n];
    if (win >= 0 && r->wins >= win) {
        return OUTCOME_WON;
    }
    if (r->wins <= r->rule->lose[r->n]) {
        return OUTCOME_FUTILE;
    }
    return r->n + 1 >= r->rule->n ? OUTCOME_CAP : OUTCOME_NONE;
}

Outcome race_add(Race *r, const Pair *p)
{
    if (r->outcome != OUTCOME_NONE || !race_counts(r, p)) {
        return r->outcome;
    }
    r->n++;
    r->ties += a_of(p, r->rule->metric) == b_of(p, r->rule->metric);
    if (pair_won(p, r->rule->metric, r->margin_e4)) {
        r->wins++; /* only then does the evidence rise */
        r->ln_e_most = fmax(r->ln_e_most, stat_ln_e(r->wins, r->n - r->wins));
    }
    if (r->n <= (int)countof(r->first)) {
        r->outcome = race_screen(r, p);
    }
    if (r->outcome == OUTCOME_NONE) {
        r->outcome = race_test(r);
    }
    return r->outcome;
}

double race_p(const Race *r)
{
    return exp(-r->ln_e_most);
}

/* ---- a candidate ------------------------------------------------------------------------- */

/* The warm calls count only where the process took no pairs because of them: it had other ones
 * to go by when it went on. */
static void race_all(Race *race, const StopRule *rule, int margin_e4, const ProcessResult *p)
{
    bool pairs = p->n_pairs > 0;
    race_start(race, rule, margin_e4, pairs ? 0 : p->warm_a_ns, pairs ? 0 : p->warm_b_ns);
    for (int i = 0; i < p->n_pairs && race->outcome == OUTCOME_NONE; i++) {
        race_add(race, &p->pair[i]);
    }
    if (race->outcome == OUTCOME_NONE) {
        race->outcome = OUTCOME_CAP; /* the process has no more pairs */
    }
    race->rule = NULL; /* it is the caller's */
}

/* The estimate that the pairs of the search give, or the warm calls where there are none. */
static double race_estimate(const Rules *r, const Trial *t, const ProcessResult *p)
{
    PairsSummary s;
    pairs_summary(&r->p, p->pair, p->n_pairs, t->terms.metric, &s);
    if (s.n == 0 && p->warm_a_ns > 0 && p->warm_b_ns > 0) {
        return log((double)p->warm_b_ns / (double)p->warm_a_ns);
    }
    return s.median_ln;
}

Outcome replicate_outcome(const PairsSummary *s, int margin_e4)
{
    bool faster = s->median_ln < log1p(-margin_e4 / 1e4); /* not where there is none */
    return faster ? OUTCOME_PROMOTED : OUTCOME_REPLICATE_FAILED;
}

/* In a process of its own; that estimate knows nothing of the selection. */
static Outcome replicate(const Rules *r, Trial *t, const ProcessResult *p)
{
    PairsSummary s;
    pairs_summary(&r->p, p->pair, p->n_pairs, t->terms.metric, &s);
    t->ln_ratio = s.median_ln;
    return replicate_outcome(&s, t->terms.margin_e4);
}

static bool all_ended_well(const Trial *t)
{
    bool ok = t->status == STATUS_OK;
    for (int i = 0; i < t->n_processes; i++) {
        ok &= t->process[i].result.status == STATUS_OK;
    }
    return ok;
}

Outcome trial_decide(const Rules *r, Trial *t)
{
    t->ln_ratio = NAN;
    t->race = (Race){0};
    t->outcome = OUTCOME_NONE;
    if (!all_ended_well(t)) {
        return t->outcome = OUTCOME_FAILED;
    }
    if (t->same_code) {
        t->ln_ratio = 0;
        return t->outcome = OUTCOME_SAME;
    }
    if (t->n_processes > 0) {
        StopRule rule = rules_stop(r, &t->terms);
        race_all(&t->race, &rule, t->terms.margin_e4, &t->process[0].result);
        t->ln_ratio = race_estimate(r, t, &t->process[0].result);
        t->outcome = t->race.outcome;
    }
    if (t->outcome == OUTCOME_WON && t->n_processes > 1) {
        t->outcome = replicate(r, t, &t->process[1].result);
    }
    return t->outcome;
}
