/* search_replay.c - strategies tried on recorded outcomes: how far the best so far is from the
 * best there is after each trial, what that is for random search in theory, and who is better
 * than random. Nothing is measured here, so a thousand searches take seconds.
 *
 * Regret is in ln of time. Until something ran the best so far is the slowest of the table. */
#include "tuner/search_int.h"

#include <math.h>

/* ---- a table's costs --------------------------------------------------------------------- */

/* By place; failures cost as much as the slowest that ran. In m. */
static double *table_costs(Arena *m, const SearchTable *t)
{
    double *cost = arena_array(m, double, t->n), worst = -INFINITY;
    for (int i = 0; i < t->n; i++) {
        SearchTrial trial = {
            .status = t->row[i].status, .log_ratio = t->row[i].log_ratio, .told = true};
        cost[i] = trial_cost(&trial);
        worst = isfinite(cost[i]) && cost[i] > worst ? cost[i] : worst;
    }
    for (int i = 0; i < t->n; i++) {
        cost[i] = isfinite(cost[i]) ? cost[i] : isfinite(worst) ? worst : 0;
    }
    return cost;
}

/* ---- searches ---------------------------------------------------------------------------- */

typedef struct Replay {
    const SearchTable *table;
    const double *cost, *sorted;
    int batch, n_trials;
    StrategyId strategy;
    uint64_t seed;
    double *regret;
    Arena own; /* one search's */
} Replay;

static Replay replay_of(Arena *m, const SearchTable *t, int batch, int n_trials)
{
    check(n_trials >= 1 && n_trials <= t->n && batch >= 1);
    double *cost = table_costs(m, t);
    double *sorted = arena_dup(m, cost, (size_t)t->n * sizeof *cost);
    stat_sort(sorted, t->n);
    return (Replay){
        .table = t, .cost = cost, .sorted = sorted, .batch = batch, .n_trials = n_trials};
}

static void search_whole(Env *e, void *arg)
{
    Replay *r = arg;
    SearchSpace space = search_table_space(r->table);
    uint64_t *asked = arena_array(&r->own, uint64_t, r->batch);
    double best = r->sorted[r->table->n - 1];
    Search s;
    search_init(e, &r->own, &s, r->strategy, &space, r->seed, r->batch);
    for (int done = 0; done < r->n_trials;) {
        int n = 0;
        while (n < r->batch && done + n < r->n_trials && search_ask(&s, &asked[n])) {
            n++;
        }
        for (int i = 0; i < n; i++, done++) {
            const SearchRow *row = &r->table->row[asked[i]];
            best = fmin(best, r->cost[asked[i]]);
            r->regret[done] = best - r->sorted[0];
            search_tell(&s, asked[i], row->status, row->log_ratio);
        }
    }
}

static void release_own(void *replay)
{
    arena_release(&((Replay *)replay)->own);
}

/* One search in memory of its own, which is gone afterwards. */
static void replay_run(Env *e, Replay *r, StrategyId strategy, uint64_t seed, double *regret)
{
    r->strategy = strategy;
    r->seed = seed;
    r->regret = regret;
    arena_init(&r->own, e);
    env_finally(e, search_whole, release_own, r);
}

void search_replay(Env *e, Arena *m, const SearchTable *t, StrategyId strategy, uint64_t seed,
                   int batch, int n_trials, double *regret)
{
    Replay r = replay_of(m, t, batch, n_trials);
    replay_run(e, &r, strategy, seed, regret);
}

/* ---- random search, in theory ------------------------------------------------------------ */

/* Of n costs in order, t are drawn: the first k are all missed with probability q, and each
 * step from the k-th to the next counts as often as that. */
static double mean_regret(const double *sorted, int n, int t)
{
    double q = 1, sum = 0;
    for (int k = 1; k < n && q > 0; k++) {
        q *= fmax((double)(n - k + 1 - t), 0) / (double)(n - k + 1);
        sum += (sorted[k] - sorted[k - 1]) * q;
    }
    return sum;
}

void search_random_regret(Arena *m, const SearchTable *t, int n_trials, double *regret)
{
    Replay r = replay_of(m, t, 1, n_trials);
    for (int i = 0; i < n_trials; i++) {
        regret[i] = mean_regret(r.sorted, t->n, i + 1);
    }
}

/* ---- who beats it ------------------------------------------------------------------------ */

static double mean_of(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += x[i];
    }
    return sum / n;
}

/* Against the random run of the same seed, which begins with the same draws: were the strategy no
 * better, it would win as often as lose, so the exact sign test holds whatever the space. Random
 * itself ties with itself. random_mean: of each such run. */
static void compare_one(Env *e, Replay *r, StrategyId id, const double *random_mean,
                        double *regret, SearchComparison *out)
{
    StrategyCurve *c = &out->of[id];
    for (int seed = 0; seed < out->n_seeds; seed++) {
        replay_run(e, r, id, (uint64_t)seed, regret);
        double mean = mean_of(regret, out->n_trials);
        c->wins += mean < random_mean[seed];
        c->losses += mean > random_mean[seed];
        for (int i = 0; i < out->n_trials; i++) {
            c->regret[i] += regret[i] / out->n_seeds;
        }
    }
    c->p = stat_tail(c->wins, c->wins + c->losses);
    c->beats = c->p <= BEATS_P;
    for (int i = 0; i < out->n_trials; i++) {
        double random = out->random[i];
        c->score += (random > 0 ? 1 - c->regret[i] / random : 1) / out->n_trials;
    }
}

void search_compare(Env *e, Arena *m, const SearchTable *t, unsigned which, int n_seeds,
                    int batch, int n_trials, SearchComparison *out)
{
    Replay r = replay_of(m, t, batch, n_trials);
    double *regret = arena_array(m, double, n_trials);
    double *random_mean = arena_array(m, double, n_seeds);
    *out = (SearchComparison){.n_trials = n_trials, .n_seeds = n_seeds};
    out->random = arena_array(m, double, n_trials);
    search_random_regret(m, t, n_trials, out->random);
    for (int seed = 0; seed < n_seeds; seed++) {
        replay_run(e, &r, STRATEGY_RANDOM, (uint64_t)seed, regret);
        random_mean[seed] = mean_of(regret, n_trials);
    }
    for (StrategyId id = 0; id < N_STRATEGIES; id++) {
        if (which >> id & 1) {
            out->of[id].regret = arena_array(m, double, n_trials);
            compare_one(e, &r, id, random_mean, regret, out);
        }
    }
}

/* ---- as text ----------------------------------------------------------------------------- */

enum { N_COLUMNS = 6 };

/* Trials 1/32, 1/16 ... and all of them. */
static int column_trial(const SearchComparison *c, int column)
{
    int trial = c->n_trials >> (N_COLUMNS - 1 - column);
    return trial > 0 ? trial : 1;
}

static void print_curve(const SearchComparison *c, const char *name, const double *regret,
                        Buf *out)
{
    buf_printf(out, "%-11s", name);
    for (int i = 0; i < N_COLUMNS; i++) {
        buf_printf(out, " %7.4f", regret[column_trial(c, i) - 1]);
    }
}

static void print_losers(const SearchComparison *c, Buf *out)
{
    const char *between = "do not beat random: ";
    for (StrategyId id = 0; id < N_STRATEGIES; id++) {
        if (id != STRATEGY_RANDOM && c->of[id].regret && !c->of[id].beats) {
            buf_printf(out, "%s%s", between, strategy_name(id));
            between = ", ";
        }
    }
    buf_str(out, between[0] == 'd' ? "all beat random\n" : "\n");
}

void comparison_print(const SearchComparison *c, Buf *out)
{
    buf_printf(out, "%-11s", "trials");
    for (int i = 0; i < N_COLUMNS; i++) {
        buf_printf(out, " %7d", column_trial(c, i));
    }
    buf_printf(out, "   score  wins of %d        p\n", c->n_seeds);
    print_curve(c, "(expected)", c->random, out);
    buf_char(out, '\n');
    for (StrategyId id = 0; id < N_STRATEGIES; id++) {
        const StrategyCurve *of = &c->of[id];
        if (!of->regret) {
            continue;
        }
        print_curve(c, strategy_name(id), of->regret, out);
        buf_printf(out, " %7.3f %11d %8.2g\n", of->score, of->wins, of->p);
    }
    print_losers(c, out);
}
