/* search_schedules.c - searching the spaces of real kernels: indices are ranks, neighbours and
 * features are the space's own, and every strategy finds its way. Nothing is compiled: costs are
 * made up from the features. */
#include "tests/env_fixture.h"
#include "tests/schedules_util.h"
#include "tests/search_util.h"

#include <math.h>

TestSuite(search_schedules, .init = start, .fini = stop, .timeout = 300);

typedef void SpaceBody(Env *e, const Space *s);

static void each_space(Env *e, void *arg)
{
    SpaceBody **body = arg;
    PickHint hint = hint_at(target_named("avx512"), 2, 13);
    hint.l2_bytes = 1 << 20;
    Program *p = compiled(e, model_graph(e, size_odd, true), 0, NULL);
    for (int i = 0; i < p->kernel.n; i++) {
        Space s;
        space_init(e, &e->model, &s, p->kernel.at[i], &hint);
        (*body)(e, &s);
        env_reset_kernel(e);
    }
}

static void on_spaces(SpaceBody *body)
{
    must_work(&env, each_space, &body);
}

/* ---- what a search sees ---- */

static void sees_the_space(Env *e, const Space *s)
{
    (void)e;
    SearchSpace seen = search_space(s);
    Rng r;
    cr_assert_eq(seen.n, s->n_legal);
    rng_seed(&r, 1);
    for (int i = 0; i < 20; i++) {
        Point at, near[MAX_NEAR];
        uint64_t index = rng_below(&r, seen.n), got[MAX_NEAR];
        double feature[MAX_FEATURES], want[MAX_FEATURES];
        space_unrank(s, index, &at);
        int n = seen.neighbours(seen.ctx, index, got);
        cr_assert_eq(n, space_neighbours(s, &at, near));
        for (int k = 0; k < n; k++) {
            cr_assert(got[k] != index && got[k] == space_rank(s, &near[k]));
        }
        n = seen.features(seen.ctx, index, feature);
        cr_assert_eq(n, space_features(s, &at, want));
        cr_assert_arr_eq(feature, want, (size_t)n * sizeof *want);
    }
}

Test(search_schedules, a_search_sees_ranks_neighbours_and_features_of_the_space)
{
    on_spaces(sees_the_space);
}

/* ---- searching it ---- */

enum { N_TRIALS = 60 };

/* Each feature has a best value of its own, known to nobody. */
static double cost_of(const SearchSpace *space, uint64_t index)
{
    double feature[MAX_FEATURES], sum = 0;
    int n = space->features(space->ctx, index, feature);
    for (int i = 0; i < n; i++) {
        sum += 0.1 * fabs(feature[i] - 1 - i % 4);
    }
    return sum;
}

/* The best of so many trials: half of them told one by one, the rest by batches of five. */
static double best_found(Env *e, const Space *s, StrategyId id, uint64_t seed)
{
    SearchSpace space = search_space(s);
    Search search;
    uint64_t index[5];
    double best = INFINITY;
    search_init(e, &e->kernel, &search, id, &space, seed, 5);
    for (int done = 0, n = 1; done < N_TRIALS && n > 0; done += n) {
        for (n = 0; n < 5 && search_ask(&search, &index[n]); n++) {
        }
        for (int i = 0; i < n; i++) {
            double cost = cost_of(&space, index[i]);
            cr_assert_lt(index[i], s->n_legal);
            best = fmin(best, cost);
            search_tell(&search, index[i], STATUS_OK, cost);
        }
    }
    return best;
}

static double total[N_STRATEGIES]; /* over kernels */

static void finds_its_way(Env *e, const Space *s)
{
    enum { N_SEEDS = 6 };
    double sum[N_STRATEGIES] = {0};
    if (s->n_legal < 2000) {
        return;
    }
    printf("%llu candidates:", (unsigned long long)s->n_legal);
    for (StrategyId id = 0; id < N_STRATEGIES; id++) {
        for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
            sum[id] += best_found(e, s, id, seed) / N_SEEDS;
            env_reset_kernel(e);
        }
        printf(" %s %.2f", strategy_name(id), sum[id]);
        total[id] += sum[id];
    }
    printf("\n");
}

Test(search_schedules, every_strategy_finds_more_than_random_in_real_spaces)
{
    on_spaces(finds_its_way);
    for (StrategyId id = STRATEGY_GREEDY; id < N_STRATEGIES; id++) {
        cr_expect_lt(total[id], total[STRATEGY_RANDOM] - 0.5, "%s: %g, random %g",
                     strategy_name(id), total[id], total[STRATEGY_RANDOM]);
    }
}
