/* protocol.c - the constants of the decision protocol as one table, and the tables of wins that
 * follow from them. Pure: no clock, no process. MEASUREMENT 0 to 2. */
#include "tuner/tuner.h"

#include <math.h>
#include <string.h>

#define X(id, name, meaning) name,
const char *const outcome_name[N_OUTCOMES] = {OUTCOMES(X)};
const char *const verdict_name[N_VERDICTS] = {VERDICTS(X)};
const char *const regime_name[N_REGIMES] = {"hot", "cold"};
const char *const metric_name[N_METRICS] = {METRICS(X)};
const char *const status_name[N_STATUSES] = {STATUSES(X)};
const char *const stage_name[N_DUEL_STAGES] = {DUEL_STAGES(X)};
const char *const ending_name[N_ENDINGS] = {ENDINGS(X)};
#undef X

/* ---- constants --------------------------------------------------------------------------- */

#define IS_WHOLE(type) _Generic((type)0, int : true, double : false)
const ProtocolRow protocol_row[N_PROTOCOL] = {
#define X(type, name, value, least, most, meaning) \
    {#name, meaning, value, least, most, IS_WHOLE(type)},
    PROTOCOL(X)
#undef X
};

Protocol protocol_default(void)
{
    return (Protocol){
#define X(type, name, value, ...) .name = value,
        PROTOCOL(X)
#undef X
    };
}

double protocol_get(const Protocol *p, int row)
{
    const double value[N_PROTOCOL] = {
#define X(type, name, ...) p->name,
        PROTOCOL(X)
#undef X
    };
    return value[row];
}

static void put(Protocol *p, int row, double value)
{
#define X(type, name, ...)        \
    if (row == PROTOCOL_##name) { \
        p->name = (type)value;    \
    }
    PROTOCOL(X)
#undef X
}

static int row_named(const char *name)
{
    for (int i = 0; i < N_PROTOCOL; i++) {
        if (strcmp(protocol_row[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Pairs of constants of which the first may not exceed the second. */
static const int ordered[][2] = {
    {PROTOCOL_margin_least, PROTOCOL_margin_most},
    {PROTOCOL_pairs, PROTOCOL_pairs_wide},
    {PROTOCOL_unflagged_least, PROTOCOL_pairs},
};

/* The fewest processes that can pass: all won. */
static int title_least(double alpha)
{
    int n = 1;
    while (stat_wins_to_pass(alpha, n) < 0) {
        n++;
    }
    return n;
}

bool protocol_agrees(const Protocol *p, Err *err)
{
    for (size_t i = 0; i < countof(ordered); i++) {
        int less = ordered[i][0], more = ordered[i][1];
        if (protocol_get(p, less) > protocol_get(p, more)) {
            return err_set(err, E_INPUT, "%s is %g and may not exceed %s, which is %g",
                           protocol_row[less].name, protocol_get(p, less),
                           protocol_row[more].name, protocol_get(p, more));
        }
    }
    int least = title_least(p->alpha_title);
    if (p->title_processes < least) {
        return err_set(err, E_INPUT,
                       "title_processes is %d, and with alpha_title %g fewer than %d processes "
                       "cannot pass a title match",
                       p->title_processes, p->alpha_title, least);
    }
    return true;
}

bool protocol_set(Protocol *p, const char *name, double value, Err *err)
{
    int row = row_named(name);
    if (row < 0) {
        return err_set(err, E_INPUT, "the protocol has no constant \"%s\"", name);
    }
    const ProtocolRow *r = &protocol_row[row];
    if (!(value >= r->least && value <= r->most) || (r->whole && value != floor(value))) {
        return err_set(err, E_INPUT, "%s is %s from %g to %g, not %g: %s", name,
                       r->whole ? "an integer" : "a number", r->least, r->most, value,
                       r->meaning);
    }
    put(p, row, value);
    return true;
}

/* ---- what follows from them -------------------------------------------------------------- */

void rules_init(Rules *r, const Protocol *p)
{
    r->p = *p;
    sign_rule(&r->search, p->alpha_search, p->theta_search, p->beta, p->pairs_most);
    r->title_least = title_least(p->alpha_title);
}

static int hundredths(double ratio)
{
    return (int)lround(100 * ratio);
}

/* On a noisy machine equal schedules differ by more than the screen's bounds: then it would
 * drop them, and better ones, by chance. */
static double widened(double bound, double spreads, double spread)
{
    return spread > 0 ? fmin(fmax(bound, exp(spreads * spread)), 1000) : bound;
}

StopRule rules_stop(const Rules *r, const Terms *t)
{
    const Protocol *p = &r->p;
    double first = widened(p->screen_first, p->screen_first_spreads, t->spread);
    double third = widened(p->screen_median, p->screen_median_spreads, t->spread);
    return (StopRule){.warm_x100 = hundredths(p->screen_warm),
                      .first_x100 = t->n_threads > 1 ? 0 : hundredths(first),
                      .third_x100 = hundredths(third),
                      .most_flagged = (int)(p->noisy_share * p->noisy_window),
                      .window = p->noisy_window,
                      .metric = t->metric,
                      .n = p->pairs_most + 1,
                      .win = r->search.win,
                      .lose = r->search.lose};
}

int rules_pairs(const Rules *r, DuelStage stage, bool wide)
{
    if (stage == DUEL_SEARCH) { /* at most half are set aside before all count */
        return 2 * r->p.pairs_most + r->p.noisy_window;
    }
    bool match = stage == DUEL_TITLE || stage == DUEL_EQUIVALENCE || stage == DUEL_COMPARE;
    return match && wide ? r->p.pairs_wide : r->p.pairs;
}
