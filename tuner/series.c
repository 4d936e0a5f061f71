/* series.c - duels whose unit is the process: title matches, equivalence, comparisons.
 *
 * Pairs of one process share its placement in memory, which makes identical libraries differ;
 * so a process gives one median, and medians are counted. The test and the interval hold at any
 * time, so that a match can end as soon as it is decided. Pure. MEASUREMENT 2.9, 2.10 */
#include "tuner/tuner.h"

#include <math.h>
#include <string.h>

/* ---- what the medians say ---------------------------------------------------------------- */

static Interval interval_of(const Series *s)
{
    double ln[SERIES_MAX];
    memcpy(ln, s->median_ln, (size_t)s->n * sizeof *ln);
    Interval i = stat_interval_anytime(ln, s->n, s->rules->p.confidence);
    i.median = exp(i.median);
    i.lo = exp(i.lo);
    i.hi = exp(i.hi);
    return i;
}

/* All comparisons are false where there is no interval yet. */
static bool within_band(const Series *s)
{
    double d = s->rules->p.equivalent;
    return s->ratio.lo >= 1 - d && s->ratio.hi <= 1 + d;
}

static bool beside_band(const Series *s)
{
    double d = s->rules->p.equivalent;
    return s->ratio.lo > 1 + d || s->ratio.hi < 1 - d;
}

static bool passed(const Series *s, int wins)
{
    int bar = s->sign.win[s->n];
    return bar >= 0 && wins >= bar;
}

/* The order is that of the claims: an equivalence match asks for equivalence first, all others
 * for a difference. */
static DuelVerdict verdict_of(const Series *s)
{
    if (s->stage == DUEL_EQUIVALENCE && within_band(s)) {
        return VERDICT_EQUIVALENT;
    }
    if (passed(s, s->wins)) {
        return VERDICT_FASTER;
    }
    if (s->ratio.lo > 1) {
        return VERDICT_SLOWER;
    }
    return within_band(s) ? VERDICT_EQUIVALENT : VERDICT_UNDECIDED;
}

/* ---- when it is over, by stage ----------------------------------------------------------- */

static Outcome title_outcome(const Series *s)
{
    if (passed(s, s->wins)) {
        return OUTCOME_TITLE_PASSED;
    }
    bool futile = s->wins <= s->sign.lose[s->n];
    return futile || s->n >= s->sign.n_most ? OUTCOME_TITLE_FAILED : OUTCOME_NONE;
}

/* The interval is within the band when enough medians are below its upper end, and enough above
 * its lower: two sign tests, each of which can be given up. */
static bool equivalence_is_futile(const Series *s)
{
    double d = s->rules->p.equivalent;
    int below = 0, above = 0;
    for (int i = 0; i < s->n; i++) {
        below += s->median_ln[i] <= log1p(d);
        above += s->median_ln[i] >= log1p(-d);
    }
    return below <= s->sign.lose[s->n] || above <= s->sign.lose[s->n];
}

static Outcome equivalence_outcome(const Series *s)
{
    bool over =
        within_band(s) || beside_band(s) || equivalence_is_futile(s) || s->n >= s->sign.n_most;
    return over ? OUTCOME_DECIDED : OUTCOME_NONE;
}

/* Either may win, by the same test. Equivalence has to wait until a win could have shown. */
static Outcome compare_outcome(const Series *s)
{
    bool could_win = s->sign.win[s->n] >= 0;
    bool over = passed(s, s->wins) || passed(s, s->losses) || (could_win && within_band(s)) ||
                s->n >= s->sign.n_most;
    return over ? OUTCOME_DECIDED : OUTCOME_NONE;
}

typedef Outcome SeriesRule(const Series *s);
static SeriesRule *const rule_of[N_DUEL_STAGES] = {[DUEL_TITLE] = title_outcome,
                                                   [DUEL_EQUIVALENCE] = equivalence_outcome,
                                                   [DUEL_COMPARE] = compare_outcome};

/* ---- process by process ------------------------------------------------------------------ */

void series_start(Series *s, const Rules *r, DuelStage stage, double alpha, Metric metric)
{
    check(rule_of[stage] != NULL);
    memset(s, 0, sizeof *s);
    s->rules = r;
    s->stage = stage;
    s->alpha = alpha;
    s->metric = metric;
    s->ratio = (Interval){.median = NAN, .lo = NAN, .hi = NAN};
    sign_rule(&s->sign, alpha, r->p.theta_title, r->p.beta, r->p.title_processes);
}

/* A process without any pair that counts is no win, and nothing else can be said of it. */
static void take_median(Series *s, const PairsSummary *one)
{
    s->n_pairs += one->n;
    s->n_ties += one->n_ties;
    double ln = one->n > 0 ? one->median_ln : 0;
    s->wins += ln < 0;
    s->losses += ln > 0;
    s->median_ln[s->n++] = ln;
    s->ln_e_most = fmax(s->ln_e_most, stat_ln_e(s->wins, s->n - s->wins));
}

Outcome series_add(Series *s, const ProcessResult *process)
{
    if (s->outcome != OUTCOME_NONE) {
        return s->outcome;
    }
    if (process->status != STATUS_OK) {
        return s->outcome = OUTCOME_FAILED;
    }
    PairsSummary one;
    pairs_summary(&s->rules->p, process->pair, process->n_pairs, s->metric, &one);
    take_median(s, &one);
    s->ratio = interval_of(s);
    s->outcome = rule_of[s->stage](s);
    s->verdict = verdict_of(s);
    return s->outcome;
}

void series_cut(Series *s)
{
    if (s->outcome == OUTCOME_NONE) {
        s->outcome = OUTCOME_CUT;
    }
}

double series_p(const Series *s)
{
    return exp(-s->ln_e_most);
}
