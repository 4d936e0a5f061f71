/* search_regret.c - strategies against random search on made-up spaces, where every outcome is
 * known: where there is structure the others win, where there is none nobody does, and random
 * costs what it must. Seeds are fixed, so nothing here fails by chance. */
#include "tests/env_fixture.h"
#include "tests/fault.h"
#include "tests/search_util.h"

#include <math.h>
#include <string.h>

TestSuite(search_regret, .init = start, .fini = stop, .timeout = 600);

static const Grid separable = {5, {6, 5, 6, 4, 3}, 11, cost_separable};
static const Grid kernel = {6, {6, 6, 5, 4, 3, 2}, 12, cost_kernel};
static const Grid rugged = {5, {6, 5, 6, 4, 3}, 13, cost_rugged};
static const Grid noise = {5, {6, 5, 6, 4, 3}, 14, cost_noise};
static const Grid needle = {5, {6, 5, 6, 4, 3}, 15, cost_needle};
static const Grid small = {4, {4, 3, 3, 3}, 16, cost_kernel};

/* ---- contests ---- */

enum { N_SEEDS = 50 };

typedef struct Contest {
    const Grid *grid;
    const char *name;
    int n_trials;
    SearchComparison out;
    const char *text;
} Contest;

static void hold(Env *e, void *arg)
{
    Contest *c = arg;
    SearchSpace whole;
    SearchTable t;
    Buf text;
    grid_table(e, &e->model, c->grid, &whole, &t);
    search_compare(e, &e->model, &t, ALL_STRATEGIES, N_SEEDS, 1, c->n_trials, &c->out);
    buf_init(&text, &e->model);
    comparison_print(&c->out, &text);
    c->text = text.at;
    printf("%s, %d candidates, mean regret over %d seeds:\n%s\n", c->name, t.n, N_SEEDS,
           text.at);
}

static Contest contest(const Grid *g, const char *name, int n_trials)
{
    Contest c = {.grid = g, .name = name, .n_trials = n_trials};
    must_work(&env, hold, &c);
    cr_assert(fabs(c.out.of[STRATEGY_RANDOM].score) < 0.25, "random is like random");
    cr_assert(c.out.of[STRATEGY_RANDOM].wins + c.out.of[STRATEGY_RANDOM].losses == 0);
    return c;
}

static void all_beat_random(const Contest *c, double least_score, double most_p)
{
    for (StrategyId id = STRATEGY_GREEDY; id < N_STRATEGIES; id++) {
        const StrategyCurve *of = &c->out.of[id];
        cr_assert_eq(of->beats, of->p <= BEATS_P);
        cr_assert(of->p <= most_p && of->score > least_score, "%s on %s: %g, p %g",
                  strategy_name(id), c->name, of->score, of->p);
    }
}

Test(search_regret, where_knobs_are_apart_all_beat_random)
{
    Contest c = contest(&separable, "separable", 80);
    all_beat_random(&c, 0.3, 1e-4);
    cr_assert(strstr(c.text, NO_BETTER "exhaustive\n"));
}

Test(search_regret, where_it_is_like_a_kernel_all_beat_random)
{
    Contest c = contest(&kernel, "like a kernel", 80);
    all_beat_random(&c, 0.3, 1e-4);
}

Test(search_regret, where_knobs_depend_on_each_other_all_beat_random)
{
    Contest c = contest(&rugged, "rugged", 160);
    all_beat_random(&c, 0.15, 0.2);
}

/* No free lunch: and nobody may pay for the attempt either. */
static void nobody_gains(const Grid *g, const char *name)
{
    Contest c = contest(g, name, 60);
    for (StrategyId id = STRATEGY_GREEDY; id < N_STRATEGIES; id++) {
        cr_assert(fabs(c.out.of[id].score) < 0.35, "%s: %g", strategy_name(id),
                  c.out.of[id].score);
        cr_assert_eq(!c.out.of[id].beats, named_as_no_better(c.text, id), "%s: %s",
                     strategy_name(id), c.text);
    }
    cr_assert(strstr(c.text, NO_BETTER));
}

Test(search_regret, where_nothing_can_be_learnt_nobody_gains_or_loses)
{
    nobody_gains(&noise, "noise");
    nobody_gains(&needle, "needle");
}

/* ---- random search in theory ---- */

static const SearchRow six[] = {
    {0, STATUS_OK, 0.5},   {1, STATUS_CRASH, NAN}, {2, STATUS_OK, 0.25},
    {3, STATUS_OK, 1.125}, {4, STATUS_OK, 0.5},    {5, STATUS_WRONG, -3},
};

static SearchTable table_of_six(Env *e, const SearchSpace *space)
{
    SearchTable t;
    search_table_init(e, &t, space, arena_dup(&e->model, six, sizeof six), countof(six));
    return t;
}

/* Mean of what the best of each set of n_drawn rows is worse than 0.25. */
static double mean_over_sets(int n_drawn)
{
    static const double cost[] = {0.5, 1.125, 0.25, 1.125, 0.5, 1.125};
    double sum = 0;
    int n_sets = 0;
    for (unsigned set = 0; set < 1u << 6; set++) {
        double best = INFINITY;
        for (int i = 0; i < 6; i++) {
            best = set & (1u << i) ? fmin(best, cost[i]) : best;
        }
        if (__builtin_popcount(set) == n_drawn) {
            sum += best - 0.25;
            n_sets++;
        }
    }
    return sum / n_sets;
}

static void theory(Env *e, void *arg)
{
    (void)arg;
    double regret[6];
    SearchSpace space = grid_space(&small);
    SearchTable t = table_of_six(e, &space);
    search_random_regret(&e->model, &t, 6, regret);
    for (int n = 1; n <= 6; n++) {
        cr_assert_float_eq(regret[n - 1], mean_over_sets(n), 1e-14, "%d: %g", n, regret[n - 1]);
    }
}

Test(search_regret, the_expected_curve_of_random_is_the_mean_over_all_draws)
{
    must_work(&env, theory, NULL);
}

/* Two exact tests of 4,000 random searches, each failing by chance less than once in a million.
 * The best of all is among the first half of the draws in half of the searches: a fair coin. The
 * mean is within Hoeffding's bound, which knows only the range. */
static void practice(Env *e, void *arg)
{
    (void)arg;
    enum { N = 108, N_SEARCHES = 4000 };
    SearchSpace whole;
    SearchTable t;
    double theory_regret[N], regret[N], sum[N] = {0}, worst = 0;
    int found = 0;
    grid_table(e, &e->model, &small, &whole, &t);
    cr_assert_eq(t.n, N);
    search_random_regret(&e->model, &t, N, theory_regret);
    for (int seed = 0; seed < N_SEARCHES; seed++) {
        search_replay(e, &e->kernel, &t, STRATEGY_RANDOM, (uint64_t)seed, 1, N, regret);
        found += regret[N / 2 - 1] == 0;
        for (int i = 0; i < N; i++) {
            sum[i] += regret[i];
        }
        worst = fmax(worst, regret[0]);
        env_reset_kernel(e);
    }
    double bound = worst * sqrt(log(2 * N / 1e-6) / (2 * N_SEARCHES)), most = 0;
    for (int i = 0; i < N; i++) {
        double off = fabs(sum[i] / N_SEARCHES - theory_regret[i]);
        cr_assert_lt(off, bound, "after %d trials %g, not %g", i + 1, sum[i] / N_SEARCHES,
                     theory_regret[i]);
        most = fmax(most, off);
    }
    printf(
        "random: mean regret within %.4f of theory, bound %.4f; best found by half %d of %d\n",
        most, bound, found, N_SEARCHES);
    cr_assert(stat_tail(found, N_SEARCHES) > 5e-7 &&
              stat_tail(N_SEARCHES - found, N_SEARCHES) > 5e-7);
}

Test(search_regret, random_costs_what_theory_says)
{
    must_work(&env, practice, NULL);
}

/* ---- tables ---- */

static void whole_tables(Env *e, void *arg)
{
    (void)arg;
    SearchSpace whole;
    SearchTable t;
    grid_table(e, &e->model, &small, &whole, &t);
    double *regret = arena_array(&e->model, double, t.n);
    for (StrategyId id = 0; id < N_STRATEGIES; id++) {
        search_replay(e, &e->model, &t, id, 3, 5, t.n, regret);
        for (int i = 1; i < t.n; i++) {
            cr_assert(regret[i] <= regret[i - 1] && regret[i] >= 0);
        }
        cr_assert_eq(regret[t.n - 1], 0, "%s", strategy_name(id));
    }
}

Test(search_regret, regret_falls_to_nothing_when_all_is_tried)
{
    must_work(&env, whole_tables, NULL);
}

/* Every third candidate of a grid was recorded, in no order. */
static void part_of_a_space(Env *e, void *arg)
{
    (void)arg;
    SearchRow row[36];
    SearchTable t;
    SearchSpace whole = grid_space(&small);
    uint64_t near[MAX_NEAR], all[MAX_NEAR];
    double feature[MAX_FEATURES], same[MAX_FEATURES];
    for (int i = 0; i < 36; i++) {
        row[i] = (SearchRow){(uint64_t)(35 - i) * 3, STATUS_OK, i};
    }
    search_table_init(e, &t, &whole, row, 36);
    SearchSpace space = search_table_space(&t);
    cr_assert_eq(space.n, 36);
    for (uint64_t i = 0; i < 36; i++) {
        int n = space.neighbours(space.ctx, i, near), want = 0;
        int n_all = whole.neighbours(whole.ctx, t.row[i].index, all);
        for (int k = 0; k < n_all; k++) {
            if (all[k] % 3 == 0) {
                cr_assert(want < n && t.row[near[want]].index == all[k]);
                want++;
            }
        }
        cr_assert_eq(n, want);
        int n_features = space.features(space.ctx, i, feature);
        cr_assert_eq(n_features, whole.features(whole.ctx, t.row[i].index, same));
        cr_assert_arr_eq(feature, same, (size_t)n_features * sizeof *same);
    }
    double regret[36];
    search_replay(e, &e->model, &t, STRATEGY_GREEDY, 1, 1, 36, regret);
    cr_assert_eq(regret[35], 0);
}

Test(search_regret, a_part_of_a_space_is_a_space)
{
    must_work(&env, part_of_a_space, NULL);
}

static void bad_table(Env *e, void *arg)
{
    SearchRow row[] = {{0, STATUS_OK, 0}, {1, STATUS_OK, 0}, {*(uint64_t *)arg, STATUS_OK, 0}};
    SearchSpace space = grid_space(&small);
    SearchTable t;
    search_table_init(e, &t, &space, row, countof(row));
}

static void empty_table(Env *e, void *arg)
{
    (void)arg;
    SearchSpace space = grid_space(&small);
    SearchTable t;
    search_table_init(e, &t, &space, NULL, 0);
}

Test(search_regret, bad_tables_are_refused)
{
    uint64_t twice = 1, outside = 108;
    must_fail(&env, bad_table, &twice, E_INPUT, "comes twice");
    must_fail(&env, bad_table, &outside, E_INPUT, "is not in it");
    must_fail(&env, empty_table, NULL, E_INPUT, "needs a row");
}

static bool without_memory(void *ctx, Err *err)
{
    (void)ctx;
    Env e;
    env_init(&e);
    bool ok = env_try(&e, whole_tables, NULL);
    *err = e.err;
    cr_assert(ok || err->code == E_NOMEM, "%s", err->text);
    env_release(&e);
    return ok;
}

Test(search_regret, memory_runs_out)
{
    cr_expect_gt(fault_loop("alloc", without_memory, NULL), 10);
}
