/* search.c - which candidate next: the table of strategies, and the part that they share.
 *
 * A search's state is a fold over its trials: strategies change theirs only when a trial is
 * asked for or when the outcomes of a whole batch are there, in the order asked, and every
 * random number is made from the seed and the trial's number. So a killed run goes on exactly
 * where it was once its trials are told again, and the time a candidate takes decides nothing.
 * needs: a space. keeps: no index is asked for twice. */
#include "tuner/search_int.h"

#include <math.h>
#include <string.h>

#define MAX_INDICES (UINT64_C(1) << 60)

/* ---- the table --------------------------------------------------------------------------- */

const StrategyRow *const strategy_of[N_STRATEGIES] = {
#define X(id, name, meaning) &strategy_##name,
    STRATEGIES(X)
#undef X
};

const char *strategy_name(StrategyId id)
{
    static const char *const name[N_STRATEGIES] = {
#define X(id, name, meaning) #name,
        STRATEGIES(X)
#undef X
    };
    return name[id];
}

const char *strategy_meaning(StrategyId id)
{
    static const char *const meaning[N_STRATEGIES] = {
#define X(id, name, meaning) meaning,
        STRATEGIES(X)
#undef X
    };
    return meaning[id];
}

bool strategy_parse(const char *name, StrategyId *id)
{
    for (int i = 0; i < N_STRATEGIES; i++) {
        if (strcmp(name, strategy_name((StrategyId)i)) == 0) {
            *id = (StrategyId)i;
            return true;
        }
    }
    return false;
}

/* ---- what all strategies ask ------------------------------------------------------------- */

bool search_asked(const Search *s, uint64_t index)
{
    return index_set_has(&s->in->asked, index);
}

Rng search_rng(const Search *s, int purpose, uint64_t step)
{
    uint64_t key[3] = {s->seed, (uint64_t)purpose, step};
    Rng r;
    rng_seed(&r, hash_bytes(key, sizeof key).lo);
    return r;
}

double trial_cost(const SearchTrial *t)
{
    return t->told && t->status == STATUS_OK && isfinite(t->log_ratio) ? t->log_ratio
                                                                       : INFINITY;
}

double search_cost(const Search *s, int trial)
{
    return trial_cost(&s->trial.at[trial]);
}

/* ---- before the first ask ---------------------------------------------------------------- */

void search_init(Env *e, Arena *m, Search *s, StrategyId strategy, const SearchSpace *space,
                 uint64_t seed, int batch)
{
    check(batch >= 1);
    if (space->n > MAX_INDICES) {
        fail(e, E_INPUT, "The space has %llu candidates; a search can tell 2^60 apart.",
             (unsigned long long)space->n);
    }
    *s = (Search){.arena = m,
                  .strategy = strategy,
                  .space = *space,
                  .seed = seed,
                  .batch = batch,
                  .in = arena_new(m, SearchInside)};
    s->in->asked.arena = m;
    shuffle_init(&s->in->order, space->n, seed);
    if (strategy_of[strategy]->start) {
        s->in->state = strategy_of[strategy]->start(s);
    }
}

void search_first(Search *s, uint64_t index)
{
    check(s->trial.n == 0 && index < s->space.n);
    for (int i = 0; i < s->in->first.n; i++) {
        if (s->in->first.at[i] == index) {
            return;
        }
    }
    *vec_push(s->arena, &s->in->first) = index;
}

void search_learn(Search *s, const double *features, int n, Status status, double log_ratio)
{
    check(s->trial.n == 0 && n <= MAX_FEATURES);
    SearchTrial t = {.status = status, .log_ratio = log_ratio, .told = true};
    Lesson *lesson = vec_push(s->arena, &s->in->lesson);
    *lesson = (Lesson){.cost = trial_cost(&t)};
    for (int i = 0; i < n; i++) {
        lesson->feature[i] = (float)features[i];
    }
}

/* ---- asking and telling ------------------------------------------------------------------ */

/* Those of search_first are nobody's idea. */
static bool is_own(const Search *s, int trial)
{
    return trial >= s->in->first.n;
}

void search_redo(Search *s, uint64_t index)
{
    check(index < s->space.n && !search_asked(s, index));
    check(s->trial.n - s->n_heard < s->batch);
    int trial = s->trial.n;
    bool own = is_own(s, trial);
    *vec_push(s->arena, &s->trial) =
        (SearchTrial){.index = index, .log_ratio = NAN, .by = own ? s->strategy : N_STRATEGIES};
    index_set_add(&s->in->asked, index);
    const StrategyRow *by = strategy_of[s->strategy];
    if (own && by->asked) {
        by->asked(s, s->in->state, trial);
    }
}

bool search_ask(Search *s, uint64_t *index)
{
    int trial = s->trial.n;
    if ((uint64_t)trial == s->space.n) {
        return false;
    }
    if (!is_own(s, trial)) {
        *index = s->in->first.at[trial];
    } else {
        Rng r = search_rng(s, RNG_ASK, (uint64_t)trial);
        *index = strategy_of[s->strategy]->pick(s, s->in->state, &r);
    }
    search_redo(s, *index);
    return true;
}

/* Failures lead nothing. Of equals the earlier stays ahead. */
static void add_leader(Search *s, int trial)
{
    SearchInside *in = s->in;
    double cost = search_cost(s, trial);
    int at = in->n_leaders;
    if (!isfinite(cost)) {
        return;
    }
    while (at > 0 && cost < search_cost(s, in->leader[at - 1])) {
        if (at < MAX_LEADERS) {
            in->leader[at] = in->leader[at - 1];
        }
        at--;
    }
    if (at < MAX_LEADERS) {
        in->leader[at] = trial;
        in->n_leaders += in->n_leaders < MAX_LEADERS;
    }
}

static void hear(Search *s, int trial)
{
    const StrategyRow *by = strategy_of[s->strategy];
    s->n_heard = trial + 1;
    add_leader(s, trial);
    if (by->hear) {
        Rng r = search_rng(s, RNG_HEAR, (uint64_t)trial);
        by->hear(s, s->in->state, trial, is_own(s, trial), &r);
    }
}

/* A batch counts once all of it is told. */
static bool batch_told(const Search *s)
{
    for (int i = s->n_heard; i < s->n_heard + s->batch; i++) {
        if (i >= s->trial.n || !s->trial.at[i].told) {
            return false;
        }
    }
    return true;
}

void search_tell(Search *s, uint64_t index, Status status, double log_ratio)
{
    int trial = s->n_heard;
    while (trial < s->trial.n && s->trial.at[trial].index != index) {
        trial++;
    }
    check(trial < s->trial.n && !s->trial.at[trial].told);
    SearchTrial *t = &s->trial.at[trial];
    t->status = status;
    t->log_ratio = log_ratio;
    t->told = true;
    if (batch_told(s)) {
        for (int i = s->n_heard, end = i + s->batch; i < end; i++) {
            hear(s, i);
        }
    }
}
