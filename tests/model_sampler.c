/* model_sampler.c - sampling against closed forms, hand-checked vectors and the binomial. */
#include "tests/helpers.h"

#include "model/model.h"

#include <math.h>
#include <string.h>

enum { MOST = 4096 };

/* How often each token is drawn. */
static void histogram(Env *e, Sampling how, const float *logits, int n, int n_draws, int *count)
{
    Sampler s;
    sampler_init(&s, e, &how, n, 20260914);
    memset(count, 0, (size_t)n * sizeof *count);
    for (int i = 0; i < n_draws; i++) {
        memset(s.seen, 0, (size_t)n);
        count[sampler_next(&s, logits)]++;
    }
}

/* The tokens that can be drawn at all, as "0 1 4". */
static void support_must_be(Sampling how, const float *logits, int n, const char *want)
{
    static int count[MOST];
    Env e;
    Buf b;
    env_init(&e);
    buf_init(&b, &e.kernel);
    histogram(&e, how, logits, n, 20000, count);
    for (int i = 0; i < n; i++) {
        if (count[i] > 0) {
            buf_printf(&b, "%s%d", b.len ? " " : "", i);
        }
    }
    cr_assert_str_eq(b.at, want);
    env_release(&e);
}

static Sampling with(double temperature, int64_t k, double p, double min_p, double penalty)
{
    return (Sampling){temperature, k, p, min_p, penalty};
}

static int32_t next_of(Sampling how, const float *logits, int n, const int32_t *seen,
                       int n_seen)
{
    Env e;
    Sampler s;
    env_init(&e);
    sampler_init(&s, &e, &how, n, 1);
    sampler_see(&s, seen, n_seen);
    int32_t id = sampler_next(&s, logits);
    env_release(&e);
    return id;
}

/* ---- greedy ------------------------------------------------------------------ */

Test(model_sampler, greedy_takes_the_first_maximum)
{
    float logits[] = {1, 3, -2, 3, 2};
    cr_assert_eq(next_of(sampling_greedy(), logits, 5, NULL, 0), 1);
    logits[4] = 4;
    cr_assert_eq(next_of(sampling_greedy(), logits, 5, NULL, 0), 4);
    float negative[] = {-3, -1, -INFINITY, -1};
    cr_assert_eq(next_of(sampling_greedy(), negative, 4, NULL, 0), 1);
}

Test(model_sampler, the_penalty_divides_positive_and_multiplies_negative_logits)
{
    Sampling how = with(0, 0, 1, 0, 2);
    float positive[] = {4, 3, 1};
    cr_assert_eq(next_of(how, positive, 3, (int32_t[]){0}, 1), 1); /* 2 3 1 */
    cr_assert_eq(next_of(how, positive, 3, (int32_t[]){0, 0}, 2),
                 1); /* once, however often seen */
    cr_assert_eq(next_of(how, positive, 3, (int32_t[]){0, 1}, 2), 0); /* 2 1.5 1 */
    float negative[] = {-1, -1.5f, -4};
    cr_assert_eq(next_of(how, negative, 3, (int32_t[]){0}, 1), 1); /* -2 -1.5 -4 */
    cr_assert_eq(next_of(how, negative, 3, (int32_t[]){0, 1}, 2), 0);
}

Test(model_sampler, what_was_chosen_is_seen)
{
    Env e;
    Sampler s;
    Sampling how = with(0, 0, 1, 0, 2);
    float logits[] = {4, 3, 2.5f};
    int32_t want[] = {0, 1, 2, 0, 0};
    env_init(&e);
    sampler_init(&s, &e, &how, 3, 1);
    for (size_t i = 0; i < countof(want); i++) {
        cr_assert_eq(sampler_next(&s, logits), want[i]);
    }
    sampler_reset(&s, 1);
    cr_assert_eq(sampler_next(&s, logits), 0);
    env_release(&e);
}

/* ---- what may be drawn ------------------------------------------------------- */

Test(model_sampler, top_k_keeps_ties_of_the_kth)
{
    float logits[] = {1, 3, 2, 2, 0, 2};
    support_must_be(with(1, 1, 1, 0, 1), logits, 6, "1");
    support_must_be(with(1, 2, 1, 0, 1), logits, 6, "1 2 3 5");
    support_must_be(with(1, 4, 1, 0, 1), logits, 6, "1 2 3 5");
    support_must_be(with(1, 5, 1, 0, 1), logits, 6, "0 1 2 3 5");
    support_must_be(with(1, 0, 1, 0, 1), logits, 6, "0 1 2 3 4 5");
    support_must_be(with(1, 99, 1, 0, 1), logits, 6, "0 1 2 3 4 5");
}

/* 100 equal logits and p 0.5: the running sum of 0.01f reaches 0.49999979 at the 50th, which is
 * at most 0.5, so 50 go; adding from the top until 0.5 is reached would keep 51. */
Test(model_sampler, top_p_counts_from_the_least_likely)
{
    float logits[100] = {0};
    Buf b;
    Env e;
    env_init(&e);
    buf_init(&b, &e.kernel);
    for (int i = 50; i < 100; i++) {
        buf_printf(&b, "%s%d", i > 50 ? " " : "", i);
    }
    support_must_be(with(1, 0, 0.5, 0, 1), logits, 100, b.at);
    env_release(&e);
}

Test(model_sampler, equal_logits_leave_in_the_order_of_their_ids)
{
    float logits[] = {1, 1, 0, 0}; /* ascending: 2 3 0 1, of 0.134 0.134 0.366 0.366 */
    support_must_be(with(1, 0, 0.9, 0, 1), logits, 4, "0 1 2 3"); /* 0.134 > 0.1 */
    support_must_be(with(1, 0, 0.8, 0, 1), logits, 4, "0 1 3");
    support_must_be(with(1, 0, 0.7, 0, 1), logits, 4, "0 1");
    support_must_be(with(1, 0, 0.3, 0, 1), logits, 4, "1");
    support_must_be(with(1, 0, 1e-9, 0, 1), logits, 4, "1"); /* the last always stays */
}

Test(model_sampler, negative_zero_equals_zero)
{
    float logits[] = {0.0f, -0.0f, 0.0f};
    support_must_be(with(1, 0, 0.4, 0, 1), logits, 3, "1 2"); /* sums 0.33 | 0.67 1 */
    support_must_be(with(1, 0, 0.3, 0, 1), logits, 3, "2");
}

Test(model_sampler, min_p_is_relative_to_the_most_likely)
{
    float logits[] = {logf(8), logf(4), logf(2), logf(1)};
    support_must_be(with(1, 0, 1, 0.6, 1), logits, 4, "0");
    support_must_be(with(1, 0, 1, 0.4, 1), logits, 4, "0 1");
    support_must_be(with(1, 0, 1, 0.2, 1), logits, 4, "0 1 2");
    support_must_be(with(1, 0, 1, 0.1, 1), logits, 4, "0 1 2 3");
    support_must_be(with(1, 0, 1, 1, 1), logits, 4, "0");
}

/* Each step sees what the one before it left: temperature widens what min-p keeps, top-k
 * decides what top-p adds up. */
Test(model_sampler, the_steps_follow_in_order)
{
    float logits[] = {logf(8), logf(4), logf(2), logf(1)};
    support_must_be(with(2, 0, 1, 0.4, 1), logits, 4,
                    "0 1 2"); /* square roots: 1 0.71 0.5 0.35 */
    support_must_be(with(1, 0, 0.7, 0, 1), logits, 4, "0 1"); /* 1/15 + 2/15 <= 0.3 */
    support_must_be(with(1, 2, 0.7, 0, 1), logits, 4, "0 1"); /* 1/3 > 0.3 */
    support_must_be(with(1, 2, 0.6, 0, 1), logits, 4, "0");   /* 1/3 <= 0.4 */
    support_must_be(with(1, 3, 0.99, 0.3, 1), logits, 4, "0 1");
}

Test(model_sampler, masked_tokens_are_never_drawn)
{
    float logits[] = {-INFINITY, 0, -INFINITY, 0, -INFINITY};
    support_must_be(with(1, 0, 1, 0, 1), logits, 5, "1 3");
    support_must_be(with(1, 3, 0.99, 0.1, 1), logits, 5, "1 3");
}

/* The definition, step by step on all tokens, without a heap or a radix sort. */
static int plain_support(const float *logits, int n, int64_t k, double p, bool *kept)
{
    static float x[MOST], prob[MOST];
    static int order[MOST];
    int left = 0;
    for (int i = 0; i < n; i++) {
        int above = 0;
        for (int j = 0; j < n; j++) {
            above += logits[j] > logits[i];
        }
        kept[i] = k == 0 || above < k;
        x[i] = kept[i] ? logits[i] : -INFINITY;
    }
    for (int i = 0; i < n; i++) {
        int rank = 0;
        for (int j = 0; j < n; j++) {
            rank += x[j] < x[i] || (x[j] == x[i] && j < i);
        }
        order[rank] = i;
    }
    float sum = 0, running = 0;
    for (int i = 0; i < n; i++) {
        prob[i] = expf(x[order[i]] - x[order[n - 1]]);
        sum += prob[i];
    }
    for (int i = 0; i < n - 1 && p < 1; i++) {
        running += prob[i] / sum;
        kept[order[i]] &= running > (float)(1 - p);
    }
    for (int i = 0; i < n; i++) {
        left += kept[i];
    }
    return left;
}

Test(model_sampler, top_k_and_top_p_keep_what_the_definition_keeps)
{
    static float logits[700];
    static bool kept[700];
    Rng rng;
    rng_seed(&rng, 7);
    for (int trial = 0; trial < 300; trial++) {
        int n = 2 + (int)rng_below(&rng, countof(logits) - 1);
        double p = trial % 3 ? 0.05 + 0.9 * rng_unit(&rng) : 1;
        int64_t k = trial % 2 ? (int64_t)rng_below(&rng, (uint64_t)n + 2) : 0;
        for (int i = 0; i < n; i++) {
            double x = 2 * rng_normal(&rng);
            logits[i] = (float)(trial % 5 == 0 ? floor(x) : x); /* with ties */
        }
        int want = plain_support(logits, n, k, p, kept);
        Env e;
        Sampler s;
        Sampling how = with(1, k, p, 0, 1);
        env_init(&e);
        sampler_init(&s, &e, &how, n, (uint64_t)trial);
        sampler_next(&s, logits);
        for (int i = 0; i < want; i++) {
            cr_assert(kept[s.candidate[i].id], "trial %d: token %d", trial, s.candidate[i].id);
            cr_assert(i == 0 || s.candidate[i].id > s.candidate[i - 1].id);
        }
        env_release(&e);
    }
}

/* ---- the draw ---------------------------------------------------------------- */

/* Pearson's statistic; 99.9 % of fair draws stay below its limit for n - 1 degrees. */
static double chi_square(const int *count, const double *prob, int n, int n_draws)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double want = prob[i] * n_draws;
        sum += (count[i] - want) * (count[i] - want) / want;
    }
    return sum;
}

Test(model_sampler, a_hundred_thousand_draws_follow_the_softmax)
{
    enum { N = 8, DRAWS = 100000 };
    float logits[N] = {0, 1, 2, 3, -1, 0.5f, 2.5f, -2};
    const double limit = 24.32; /* 7 degrees of freedom */
    double temperature[] = {1, 0.7, 2};
    int count[N];
    for (size_t t = 0; t < countof(temperature); t++) {
        double prob[N], sum = 0;
        Env e;
        env_init(&e);
        for (int i = 0; i < N; i++) {
            sum += prob[i] = exp(logits[i] / temperature[t]);
        }
        for (int i = 0; i < N; i++) {
            prob[i] /= sum;
        }
        histogram(&e, with(temperature[t], 0, 1, 0, 1), logits, N, DRAWS, count);
        cr_assert_lt(chi_square(count, prob, N, DRAWS), limit);
        env_release(&e);
    }
}

Test(model_sampler, what_stays_keeps_its_proportions)
{
    enum { DRAWS = 100000 };
    float logits[] = {logf(8), logf(4), logf(2), logf(1)};
    double prob[] = {8 / 14.0, 4 / 14.0, 2 / 14.0};
    int count[4];
    Env e;
    env_init(&e);
    histogram(&e, with(1, 3, 1, 0, 1), logits, 4, DRAWS, count);
    cr_assert_eq(count[3], 0);
    cr_assert_lt(chi_square(count, prob, 3, DRAWS), 13.82); /* 2 degrees of freedom */
    env_release(&e);
}

Test(model_sampler, the_same_seed_gives_the_same_tokens_and_another_seed_others)
{
    enum { N = 1000, STEPS = 100 };
    static float logits[N];
    int32_t first[STEPS];
    Env e;
    Sampler s;
    Sampling how = with(1, 0, 0.95, 0, 1.1);
    env_init(&e);
    fill_normal(logits, N, 3);
    sampler_init(&s, &e, &how, N, 42);
    for (int i = 0; i < STEPS; i++) {
        first[i] = sampler_next(&s, logits);
    }
    sampler_reset(&s, 42);
    int n_same = 0;
    for (int i = 0; i < STEPS; i++) {
        cr_assert_eq(sampler_next(&s, logits), first[i]);
    }
    sampler_reset(&s, 43);
    for (int i = 0; i < STEPS; i++) {
        n_same += sampler_next(&s, logits) == first[i];
    }
    cr_assert_lt(n_same, STEPS / 2);
    env_release(&e);
}

Test(model_sampler, tiny_temperatures_and_huge_logits_stay_finite)
{
    float logits[] = {3e37f, 1, -3e37f, 2.9e37f};
    support_must_be(with(1e-6, 0, 0.9, 0.1, 1), (float[]){1, 2, 3}, 3, "2");
    support_must_be(with(1, 0, 0.9, 0.1, 1), logits, 4, "0");
}

/* ---- refusals ---------------------------------------------------------------- */

typedef struct Bad {
    Sampling how;
    float logits[3];
} Bad;

static void sample_bad(Env *e, void *arg)
{
    Bad *b = arg;
    Sampler s;
    sampler_init(&s, e, &b->how, 3, 1);
    sampler_next(&s, b->logits);
}

static void must_refuse(Bad b, const char *words)
{
    Env e;
    env_init(&e);
    must_fail(&e, sample_bad, &b, E_INPUT, words);
    env_release(&e);
}

Test(model_sampler, settings_out_of_range_are_refused_by_name)
{
    must_refuse((Bad){.how = with(-0.1, 0, 1, 0, 1)}, "temperature is -0.1");
    must_refuse((Bad){.how = with(NAN, 0, 1, 0, 1)}, "temperature is");
    must_refuse((Bad){.how = with(1e-40, 0, 1, 0, 1)}, "temperature is 1e-40");
    must_refuse((Bad){.how = with(1, -1, 1, 0, 1)}, "top_k is -1");
    must_refuse((Bad){.how = with(1, 0, 0, 0, 1)}, "top_p is 0");
    must_refuse((Bad){.how = with(1, 0, 1.01, 0, 1)}, "top_p is 1.01");
    must_refuse((Bad){.how = with(1, 0, 1, -1, 1)}, "min_p is -1");
    must_refuse((Bad){.how = with(1, 0, 1, 1.5, 1)}, "min_p is 1.5");
    must_refuse((Bad){.how = with(1, 0, 1, 0, 0)}, "repetition_penalty is 0");
}

Test(model_sampler, logits_that_are_no_numbers_are_refused)
{
    must_refuse((Bad){sampling_off(), {0, NAN, 0}}, "token 1 is nan");
    must_refuse((Bad){sampling_off(), {0, 0, INFINITY}}, "token 2 is inf");
    must_refuse((Bad){sampling_greedy(), {NAN, 0, 0}}, "token 0");
    must_refuse((Bad){sampling_off(), {-INFINITY, -INFINITY, -INFINITY}}, "All 3 logits");
}
