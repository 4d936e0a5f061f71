/* search_core.c - what every strategy owes: each candidate once, the same from the same seed,
 * exactly on from where it was cut, whatever the outcomes, in spaces of any size, in little
 * memory. */
#include "tests/env_fixture.h"
#include "tests/search_util.h"

#include <math.h>
#include <signal.h>
#include <string.h>

TestSuite(search_core, .init = start, .fini = stop, .timeout = 300);

static double cost_failing(const Grid *g, const int *at)
{
    (void)g, (void)at;
    return NAN;
}

static const Grid small = {4, {4, 3, 3, 3}, 1, cost_kernel};
static const Grid medium = {5, {6, 5, 6, 4, 3}, 2, cost_kernel};
static const Grid failing = {4, {4, 3, 3, 3}, 3, cost_failing};
/* 16^15 = 2^60 candidates */
static const Grid huge = {
    15, {16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16}, 4, cost_separable};

static Search search_on(const Grid *g, StrategyId id, uint64_t seed, int batch)
{
    Search s;
    SearchSpace space = grid_space(g);
    search_init(&env, &env.model, &s, id, &space, seed, batch);
    return s;
}

static void tell(Search *s, const Grid *g, uint64_t index)
{
    double log_ratio;
    Status status = grid_outcome(g, index, &log_ratio);
    search_tell(s, index, status, log_ratio);
}

/* Up to n trials in whole batches, told in the order asked; how many there were. */
static int run(Search *s, const Grid *g, int n, uint64_t *index)
{
    int done = 0;
    while (done < n) {
        int asked = 0;
        while (asked < s->batch && done + asked < n && search_ask(s, &index[done + asked])) {
            asked++;
        }
        for (int i = 0; i < asked; i++) {
            tell(s, g, index[done + i]);
        }
        done += asked;
        if (asked == 0) {
            break;
        }
    }
    return done;
}

#define each_strategy(id) for (StrategyId id = 0; id < N_STRATEGIES; id++)

/* ---- each candidate once ---- */

static void covers(const Grid *g, StrategyId id, int batch)
{
    uint64_t n = grid_space(g).n;
    uint64_t *index = arena_array(&env.model, uint64_t, n + 1);
    bool *seen = arena_array(&env.model, bool, n);
    Search s = search_on(g, id, 5, batch);
    cr_assert_eq(run(&s, g, (int)n + 1, index), (int)n, "%s", strategy_name(id));
    for (uint64_t i = 0; i < n; i++) {
        cr_assert(index[i] < n && !seen[index[i]], "%s", strategy_name(id));
        seen[index[i]] = true;
    }
    cr_assert_not(search_ask(&s, &index[n]));
}

Test(search_core, every_strategy_asks_for_each_candidate_once_and_then_says_no)
{
    each_strategy(id)
    {
        covers(&small, id, 1);
        covers(&small, id, 7);
        covers(&failing, id, 1);
        covers(&failing, id, 5);
    }
}

Test(search_core, a_space_may_be_empty_or_have_few_candidates)
{
    each_strategy(id)
    {
        for (int n = 1; n <= 5; n++) {
            Grid g = {1, {n}, 6, cost_noise};
            covers(&g, id, 1);
            covers(&g, id, 2);
        }
        SearchSpace none = grid_space(&small);
        Search s;
        uint64_t index;
        none.n = 0;
        search_init(&env, &env.model, &s, id, &none, 1, 1);
        cr_assert_not(search_ask(&s, &index));
    }
}

Test(search_core, a_space_of_two_to_the_sixty_is_searched_as_quickly)
{
    uint64_t index[120];
    each_strategy(id)
    {
        Search s = search_on(&huge, id, 7, 1);
        cr_assert_eq(s.space.n, UINT64_C(1) << 60);
        cr_assert_eq(run(&s, &huge, 120, index), 120);
        for (int i = 0; i < 120; i++) {
            cr_assert_lt(index[i], s.space.n);
            for (int k = 0; k < i; k++) {
                cr_assert_neq(index[i], index[k], "%s", strategy_name(id));
            }
        }
    }
}

static void too_many(Env *e, void *arg)
{
    (void)arg;
    SearchSpace space = grid_space(&huge);
    Search s;
    space.n++;
    search_init(e, &e->model, &s, STRATEGY_RANDOM, &space, 1, 1);
}

Test(search_core, a_larger_one_is_refused)
{
    must_fail(&env, too_many, NULL, E_INPUT, "2^60");
}

/* Exact: the two first of five, over 20,000 seeds; 20 pairs, and chi-square with 19 degrees of
 * freedom is above 60.7 in less than one of 300,000. */
Test(search_core, every_random_order_is_as_likely)
{
    static const Grid five = {1, {5}, 8, cost_noise};
    int count[25] = {0}, n = 20000;
    for (int seed = 0; seed < n; seed++) {
        uint64_t index[2];
        Search s = search_on(&five, STRATEGY_RANDOM, (uint64_t)seed, 1);
        run(&s, &five, 2, index);
        count[index[0] * 5 + index[1]]++;
        if (seed % 100 == 0) {
            env_release(&env);
            env_init(&env);
        }
    }
    double chi = 0, want = n / 20.0;
    for (int i = 0; i < 25; i++) {
        if (i % 6 == 0) {
            cr_assert_eq(count[i], 0);
        } else {
            chi += (count[i] - want) * (count[i] - want) / want;
        }
    }
    cr_assert_lt(chi, 60.7);
}

/* ---- the same again ---- */

enum { N_SAME = 60 };

Test(search_core, the_seed_alone_decides)
{
    uint64_t a[N_SAME], b[N_SAME], c[N_SAME];
    each_strategy(id)
    {
        Search first = search_on(&medium, id, 9, 1), again = search_on(&medium, id, 9, 1);
        Search other = search_on(&medium, id, 10, 1);
        run(&first, &medium, N_SAME, a);
        run(&again, &medium, N_SAME, b);
        run(&other, &medium, N_SAME, c);
        cr_assert_arr_eq(a, b, sizeof a, "%s", strategy_name(id));
        cr_assert(id == STRATEGY_EXHAUSTIVE || memcmp(a, c, sizeof a) != 0, "%s",
                  strategy_name(id));
    }
}

Test(search_core, the_order_of_telling_within_a_batch_does_not_matter)
{
    enum { BATCH = 4 };
    uint64_t a[N_SAME], b[N_SAME];
    each_strategy(id)
    {
        Search forth = search_on(&medium, id, 11, BATCH),
               back = search_on(&medium, id, 11, BATCH);
        run(&forth, &medium, N_SAME, a);
        for (int done = 0; done < N_SAME; done += BATCH) {
            for (int i = 0; i < BATCH; i++) {
                cr_assert(search_ask(&back, &b[done + i]));
            }
            for (int i = BATCH - 1; i >= 0; i--) {
                tell(&back, &medium, b[done + i]);
            }
        }
        cr_assert_arr_eq(a, b, sizeof a, "%s", strategy_name(id));
    }
}

/* With candidates that come first, and lessons of another run. */
static Search taught_search(StrategyId id, int batch)
{
    double feature[MAX_FEATURES];
    Search s = search_on(&medium, id, 12, batch);
    for (uint64_t i = 0; i < 12; i++) {
        int n = s.space.features(s.space.ctx, i * 101, feature);
        search_learn(&s, feature, n, i % 4 ? STATUS_OK : STATUS_TIMEOUT, 0.1 * (double)i);
    }
    search_first(&s, 1000);
    search_first(&s, 3);
    return s;
}

/* A run of N_SAME trials, cut after each; what is recorded is told to a new search, by redo or by
 * asking again, and that goes on as the whole run did. */
static void resumes(StrategyId id, int batch, bool redo)
{
    uint64_t whole[N_SAME], part[N_SAME];
    Search s = taught_search(id, batch);
    run(&s, &medium, N_SAME, whole);
    for (int cut = 0; cut < N_SAME; cut++) {
        Search again = taught_search(id, batch);
        for (int i = 0; i < cut; i++) {
            part[i] = whole[i];
            if (redo) {
                search_redo(&again, part[i]);
            } else {
                search_ask(&again, &part[i]);
            }
            cr_assert_eq(part[i], whole[i]);
            if ((i + 1) % batch == 0) {
                for (int k = i + 1 - batch; k <= i; k++) {
                    tell(&again, &medium, whole[k]);
                }
            }
        }
        for (int i = 0; i < cut; i++) {
            cr_assert_eq(again.trial.at[i].by, s.trial.at[i].by, "%s, batch %d, trial %d",
                         strategy_name(id), batch, i);
        }
        uint64_t next;
        cr_assert(search_ask(&again, &next));
        cr_assert_eq(next, whole[cut], "%s, batch %d, cut at %d: %llu, not %llu",
                     strategy_name(id), batch, cut, (unsigned long long)next,
                     (unsigned long long)whole[cut]);
    }
}

Test(search_core, cut_at_any_trial_a_run_goes_on_as_it_would_have)
{
    each_strategy(id)
    {
        resumes(id, 1, true);
        resumes(id, 4, true);
        resumes(id, 4, false);
    }
}

/* What is asked for and not heard yet counts too, asked now or before a cut: turns go around in a batch. */
Test(search_core, in_a_batch_auto_gives_each_of_its_strategies_a_turn)
{
    enum { N_ARMS = 5 };
    for (int redone = 0; redone <= N_ARMS; redone++) {
        Search s = search_on(&medium, STRATEGY_AUTO, 15, N_ARMS);
        unsigned seen = 0;
        uint64_t index;
        for (int i = 0; i < redone; i++) {
            search_redo(&s, (uint64_t)i);
        }
        while (s.trial.n < N_ARMS) {
            cr_assert(search_ask(&s, &index));
        }
        for (int i = 0; i < N_ARMS; i++) {
            seen |= 1u << s.trial.at[i].by;
        }
        cr_assert_eq(__builtin_popcount(seen), N_ARMS, "%d of the batch redone: %x", redone,
                     seen);
    }
}

/* ---- outcomes of all kinds ---- */

/* One in three fails in one of all ways; the number that comes with it must not matter. */
static void tell_failing(Search *s, uint64_t index, double with)
{
    Status status = (Status)(1 + index / 3 % (N_STATUSES - 1));
    if (index % 3 == 0) {
        search_tell(s, index, status, with);
    } else if (index % 7 == 0) {
        search_tell(s, index, STATUS_OK, isfinite(with) ? NAN : with);
    } else {
        tell(s, &medium, index);
    }
}

Test(search_core, a_failure_is_a_failure_however_fast_it_was)
{
    static const double with[] = {NAN, -9, 9, INFINITY, -INFINITY};
    uint64_t want[N_SAME], got[N_SAME];
    each_strategy(id)
    {
        for (size_t w = 0; w < countof(with); w++) {
            Search s = search_on(&medium, id, 13, 1);
            for (int i = 0; i < N_SAME; i++) {
                cr_assert(search_ask(&s, &got[i]));
                tell_failing(&s, got[i], with[w]);
            }
            if (w == 0) {
                memcpy(want, got, sizeof got);
            }
            cr_assert_arr_eq(want, got, sizeof got, "%s", strategy_name(id));
        }
    }
}

/* ---- what is known before ---- */

Test(search_core, candidates_of_search_first_come_first_and_once)
{
    uint64_t index[30];
    each_strategy(id)
    {
        Search s = search_on(&medium, id, 14, 4);
        search_first(&s, 77);
        search_first(&s, 5);
        search_first(&s, 77);
        search_first(&s, 1);
        cr_assert_eq(run(&s, &medium, 30, index), 30);
        cr_assert(index[0] == 77 && index[1] == 5 && index[2] == 1, "%s", strategy_name(id));
        for (int i = 0; i < 30; i++) {
            StrategyId by = (StrategyId)s.trial.at[i].by;
            bool own = id == STRATEGY_AUTO ? by < STRATEGY_AUTO : by == id;
            cr_assert(i < 3 ? by == N_STRATEGIES : own, "%s, trial %d", strategy_name(id), i);
        }
        for (int i = 3; i < 30; i++) {
            cr_assert(index[i] != 77 && index[i] != 5 && index[i] != 1);
        }
    }
}

/* Mean over seeds of the best of 25 trials. */
static double best_of_25(StrategyId id, int n_lessons)
{
    enum { N_SEEDS = 20 };
    double mean = 0, feature[MAX_FEATURES], log_ratio;
    uint64_t index[25];
    for (int seed = 0; seed < N_SEEDS; seed++) {
        Search s = search_on(&medium, id, (uint64_t)seed, 1);
        for (int i = 0; i < n_lessons; i++) {
            uint64_t known = (uint64_t)(i * 37 + seed) % s.space.n;
            int n = s.space.features(s.space.ctx, known, feature);
            Status status = grid_outcome(&medium, known, &log_ratio);
            search_learn(&s, feature, n, status, log_ratio);
        }
        run(&s, &medium, 25, index);
        double best = INFINITY;
        for (int i = 0; i < 25; i++) {
            best = grid_outcome(&medium, index[i], &log_ratio) == STATUS_OK
                       ? fmin(best, log_ratio)
                       : best;
        }
        mean += best / N_SEEDS;
    }
    return mean;
}

Test(search_core, trials_of_other_runs_teach_the_model)
{
    double without = best_of_25(STRATEGY_MODEL, 0), with = best_of_25(STRATEGY_MODEL, 200);
    printf("best of 25 trials, ln: %.3f, after 200 lessons %.3f\n", without, with);
    cr_assert_lt(with, without - 0.02);
    cr_assert_eq(best_of_25(STRATEGY_GREEDY, 200), best_of_25(STRATEGY_GREEDY, 0));
}

/* ---- size ---- */

Test(search_core, memory_is_a_few_hundred_bytes_a_trial)
{
    each_strategy(id)
    {
        bool thinks = id == STRATEGY_MODEL || id == STRATEGY_AUTO;
        int n = thinks ? 400 : 20000;
        uint64_t *index = arena_array(&env.kernel, uint64_t, n);
        size_t before = env.model.used_bytes;
        Search s = search_on(&huge, id, 15, 8);
        run(&s, &huge, n, index);
        size_t used = env.model.used_bytes - before;
        cr_expect_lt(used, (thinks ? 2000000 : 20000) + (size_t)n * (thinks ? 700 : 250),
                     "%s: %zu bytes", strategy_name(id), used);
    }
}

/* ---- names ---- */

Test(search_core, names_and_strategies_are_one_to_one)
{
    StrategyId back;
    each_strategy(id)
    {
        cr_assert(strategy_parse(strategy_name(id), &back) && back == id);
        cr_assert(strlen(strategy_meaning(id)) > 10);
    }
    cr_assert_not(strategy_parse("bogus", &back));
    cr_assert_not(strategy_parse("", &back));
}

/* ---- a caller's mistakes ---- */

Test(search_core, asking_beyond_the_batch_is_a_bug, .signal = SIGABRT)
{
    uint64_t index;
    Search s = search_on(&medium, STRATEGY_RANDOM, 1, 2);
    for (int i = 0; i < 3; i++) {
        search_ask(&s, &index);
    }
}

Test(search_core, telling_what_was_not_asked_is_a_bug, .signal = SIGABRT)
{
    uint64_t index;
    Search s = search_on(&medium, STRATEGY_RANDOM, 1, 2);
    search_ask(&s, &index);
    search_tell(&s, index + 1, STATUS_OK, 0);
}

Test(search_core, telling_twice_is_a_bug, .signal = SIGABRT)
{
    uint64_t index;
    Search s = search_on(&medium, STRATEGY_RANDOM, 1, 2);
    search_ask(&s, &index);
    search_tell(&s, index, STATUS_OK, 0);
    search_tell(&s, index, STATUS_OK, 0);
}
