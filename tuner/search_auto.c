/* search_auto.c - the other strategies in turns. All hear every outcome, so each builds on what
 * any of them found; a turn goes to the one whose latest ideas earned the most, plus the more
 * the less often it was asked lately (a bandit by area under the curve, as OpenTuner's).
 * needs: strategies whose state follows from what they hear. */
#include "tuner/search_int.h"

#include <math.h>

enum { WINDOW = 60 };
static const double EXPLORE = 0.05, LEADER_CREDIT = 0.3;

static const StrategyId arms[] = {STRATEGY_MODEL, STRATEGY_EVOLVE, STRATEGY_GREEDY,
                                  STRATEGY_ANNEAL, STRATEGY_RANDOM};
enum { N_ARMS = countof(arms) };

typedef struct Use {
    int arm;
    double credit;
} Use;

typedef struct Auto {
    void *state[N_ARMS];
    Use use[WINDOW]; /* a ring: own trials that were heard */
    int n_uses;
    int pending[N_ARMS]; /* asked, not heard yet */
} Auto;

static void *start(Search *s)
{
    Auto *a = arena_new(s->arena, Auto);
    for (int i = 0; i < N_ARMS; i++) {
        const StrategyRow *arm = strategy_of[arms[i]];
        a->state[i] = arm->start ? arm->start(s) : NULL;
    }
    return a;
}

/* Mean credit of its uses in the window, the later the more: the k-th counts k times. */
static double earned(const Auto *a, int arm, int *n)
{
    double sum = 0, weight = 0;
    int first = a->n_uses > WINDOW ? a->n_uses - WINDOW : 0;
    *n = 0;
    for (int i = first; i < a->n_uses; i++) {
        const Use *u = &a->use[i % WINDOW];
        if (u->arm == arm) {
            ++*n;
            sum += *n * u->credit;
            weight += *n;
        }
    }
    return weight > 0 ? sum / weight : 0;
}

static int whose_turn(const Auto *a)
{
    int turn = 0, total = a->n_uses < WINDOW ? a->n_uses : WINDOW;
    double most = -1;
    for (int i = 0; i < N_ARMS; i++) {
        total += a->pending[i];
    }
    for (int i = 0; i < N_ARMS; i++) {
        int n;
        double score = earned(a, i, &n);
        n += a->pending[i];
        score = n > 0 ? score + EXPLORE * sqrt(2 * log(total) / n) : INFINITY;
        if (score > most) {
            most = score;
            turn = i;
        }
    }
    return turn;
}

static uint64_t pick(Search *s, void *state, Rng *r)
{
    Auto *a = state;
    int turn = whose_turn(a);
    return strategy_of[arms[turn]]->pick(s, a->state[turn], r);
}

static void asked(Search *s, void *state, int trial)
{
    Auto *a = state;
    int turn = whose_turn(a);
    s->trial.at[trial].by = (uint8_t)arms[turn];
    a->pending[turn]++;
}

static double credit_of(const Search *s, int trial)
{
    for (int i = 0; i < s->in->n_leaders; i++) {
        if (s->in->leader[i] == trial) {
            return i == 0 ? 1 : LEADER_CREDIT;
        }
    }
    return 0;
}

/* The first draws are at random whoever asks, and earn nothing. */
static void hear(Search *s, void *state, int trial, bool own, Rng *r)
{
    Auto *a = state;
    (void)own;
    for (int i = 0; i < N_ARMS; i++) {
        const StrategyRow *arm = strategy_of[arms[i]];
        bool its_own = s->trial.at[trial].by == arms[i];
        a->pending[i] -= its_own;
        if (its_own && s->n_heard > FIRST_DRAWS) {
            a->use[a->n_uses++ % WINDOW] = (Use){i, credit_of(s, trial)};
        }
        if (arm->hear) {
            arm->hear(s, a->state[i], trial, its_own, r);
        }
    }
}

const StrategyRow strategy_auto = {.start = start, .pick = pick, .asked = asked, .hear = hear};
