/* search_model.c - a cost model learnt from the trials so far, and from those of other runs where
 * it is given some; the next candidate is the one with the largest expected improvement among
 * random ones and the neighbours of the best.
 *
 * Thinking must cost less than measuring: the model is made anew only when trials have grown by
 * a part, always at the same counts, so that it follows from the trials alone. */
#include "tuner/search_int.h"

#include <math.h>

enum {
    POOL_RANDOM = 64,
    POOL_ALL = 1024,
    POOL_LEADERS = 4,
    CLIMB_STEPS = 8,
    RANDOM_PERCENT = 3
};
/* The model is made anew at each trial at first, then whenever there are 1/64 to 1/32 more. */
enum { FIT_PARTS = 64 };

/* Half of the ideas trust the model more: they refine the best, the others look around. */
static const double CAP_PART = 0.5, LITTLE_DOUBT = 0.3;

typedef struct Model {
    Forest forest;
    Vec(double) cost; /* of the lessons; failures have one too */
    double cap;       /* the largest of them */
    int n_fitted;     /* lessons that the forest is made of */
} Model;

static void *start(Search *s)
{
    Model *m = arena_new(s->arena, Model);
    forest_init(s->arena, &m->forest);
    return m;
}

/* ---- learning ---------------------------------------------------------------------------- */

static void features_of(const Search *s, uint64_t index, float out[MAX_FEATURES])
{
    double feature[MAX_FEATURES];
    int n = s->space.features(s->space.ctx, index, feature);
    for (int i = 0; i < n; i++) {
        out[i] = (float)feature[i];
    }
}

static void hear(Search *s, void *state, int trial, bool own, Rng *r)
{
    (void)state, (void)own, (void)r;
    Lesson *l = vec_push(s->arena, &s->in->lesson);
    l->cost = search_cost(s, trial);
    features_of(s, s->trial.at[trial].index, l->feature);
}

/* How bad a bad one is does not matter, so costs end at a cap that CAP_PART of those that ran are
 * below: the trees then tell good from better. Failures cost the cap. */
static double cost_cap(Search *s, Model *m, int n)
{
    m->cost.n = 0;
    for (int i = 0; i < n; i++) {
        if (isfinite(s->in->lesson.at[i].cost)) {
            *vec_push(s->arena, &m->cost) = s->in->lesson.at[i].cost;
        }
    }
    stat_sort(m->cost.at, m->cost.n);
    return m->cost.n > 0 ? stat_quantile(m->cost.at, m->cost.n, CAP_PART) : 0;
}

static void set_costs(Search *s, Model *m, int n)
{
    m->cap = cost_cap(s, m, n);
    m->cost.n = 0;
    for (int i = 0; i < n; i++) {
        *vec_push(s->arena, &m->cost) = fmin(s->in->lesson.at[i].cost, m->cap);
    }
}

/* The count to learn from: all of other runs, and this run's without its last bits. */
static int fit_count(const Search *s)
{
    int step = 1;
    while (s->n_heard / step >= FIT_PARTS) {
        step *= 2;
    }
    return s->in->lesson.n - s->n_heard % step;
}

static void fit(Search *s, Model *m)
{
    int n = fit_count(s);
    if (n != m->n_fitted) {
        double unused[MAX_FEATURES];
        Rng r = search_rng(s, RNG_FIT, (uint64_t)n);
        int n_features = s->space.features(s->space.ctx, 0, unused);
        set_costs(s, m, n);
        forest_fit(&m->forest, s->in->lesson.at, m->cost.at, n, n_features, &r);
        m->n_fitted = n;
    }
}

/* ---- choosing ---------------------------------------------------------------------------- */

typedef struct Choice {
    uint64_t index;
    double gain;  /* expected; below 0: nothing was looked at yet */
    double doubt; /* the part of the trees' disagreement that counts */
} Choice;

/* By how much a normal variable is expected to be below best. */
static double expected_gain(double best, double mean, double sd)
{
    double by = best - mean;
    if (sd <= 0) {
        return fmax(by, 0);
    }
    double z = by / sd;
    return by * 0.5 * erfc(-z * M_SQRT1_2) + sd * exp(-0.5 * z * z) / sqrt(2 * M_PI);
}

/* Of this run: what is known from others is to be reached here too. */
static double best_cost(const Search *s, const Model *m)
{
    return s->in->n_leaders > 0 ? search_cost(s, s->in->leader[0]) : m->cap;
}

static void consider(const Search *s, const Model *m, uint64_t index, Choice *best)
{
    float feature[MAX_FEATURES];
    double mean, sd;
    if (search_asked(s, index)) {
        return;
    }
    features_of(s, index, feature);
    forest_predict(&m->forest, feature, &mean, &sd);
    double gain = expected_gain(best_cost(s, m), mean, best->doubt * sd);
    if (gain > best->gain) {
        best->index = index;
        best->gain = gain;
    }
}

static void consider_near(const Search *s, const Model *m, uint64_t centre, Choice *best)
{
    uint64_t near[MAX_NEAR];
    int n = s->space.neighbours(s->space.ctx, centre, near);
    for (int i = 0; i < n; i++) {
        consider(s, m, near[i], best);
    }
}

/* All of a small space, from a random place on since the first of equals is chosen. */
static void consider_all(const Search *s, const Model *m, Rng *r, Choice *best)
{
    uint64_t first = rng_below(r, s->space.n);
    for (uint64_t i = 0; i < s->space.n; i++) {
        consider(s, m, (first + i) % s->space.n, best);
    }
}

/* From the best of the pool to neighbours that promise more. */
static void climb(const Search *s, const Model *m, Choice *best)
{
    double before = -1;
    for (int i = 0; i < CLIMB_STEPS && best->gain > before; i++) {
        before = best->gain;
        consider_near(s, m, best->index, best);
    }
}

static uint64_t pick(Search *s, void *state, Rng *r)
{
    Model *m = state;
    Choice best = {.gain = -1, .doubt = rng_below(r, 2) ? 1 : LITTLE_DOUBT};
    if (s->in->lesson.n < FIRST_DRAWS || rng_below(r, 100) < RANDOM_PERCENT) {
        return draw_random(s);
    }
    fit(s, m);
    if (s->space.n <= POOL_ALL) {
        consider_all(s, m, r, &best);
        return best.index;
    }
    for (int i = 0; i < POOL_RANDOM; i++) {
        consider(s, m, rng_below(r, s->space.n), &best);
    }
    for (int i = 0; i < s->in->n_leaders && i < POOL_LEADERS; i++) {
        consider_near(s, m, s->trial.at[s->in->leader[i]].index, &best);
    }
    if (best.gain < 0) {
        return draw_random(s);
    }
    climb(s, m, &best);
    return best.index;
}

const StrategyRow strategy_model = {.start = start, .pick = pick, .hear = hear};
