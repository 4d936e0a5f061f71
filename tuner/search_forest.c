/* search_forest.c - extremely randomised trees (Geurts, Ernst, Wehenkel 2006): a cost model that
 * finds which features matter, alone or together, from few trials. A node tries one random place
 * of each feature and splits at the best of them; where trees disagree little is known. needs:
 * finite costs. */
#include "tuner/search_int.h"

#include <math.h>

typedef struct Grow {
    const Lesson *lesson;
    const double *cost;
    int n_features;
    ForestNode *node;
    int n_nodes;
    Rng *rng;
} Grow;

typedef struct Split {
    int feature;
    float at;
    double gain; /* squares of sums by counts; more is better */
} Split;

void forest_init(Arena *m, Forest *f)
{
    for (int i = 0; i < N_TREES; i++) {
        f->tree[i] = arena_array(m, ForestNode, 2 * MAX_ROWS);
    }
    f->row = arena_array(m, int, MAX_ROWS);
}

static bool costs_differ(const Grow *g, const int *row, int n)
{
    int i = 1;
    while (i < n && g->cost[row[i]] == g->cost[row[0]]) {
        i++;
    }
    return i < n;
}

static double mean_cost(const Grow *g, const int *row, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += g->cost[row[i]];
    }
    return sum / n;
}

/* At a random place between the least and the most. gain is -INFINITY where all are equal. */
static Split try_split(const Grow *g, const int *row, int n, int feature)
{
    float least = INFINITY, most = -INFINITY;
    for (int i = 0; i < n; i++) {
        float x = g->lesson[row[i]].feature[feature];
        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    Split s = {feature, least + (most - least) * (float)rng_unit(g->rng), -INFINITY};
    if (!(least < most)) {
        return s;
    }
    s.at = s.at > least ? s.at : most;
    double sum[2] = {0}, count[2] = {0};
    for (int i = 0; i < n; i++) {
        int side = g->lesson[row[i]].feature[feature] >= s.at;
        sum[side] += g->cost[row[i]];
        count[side]++;
    }
    s.gain = sum[0] * sum[0] / count[0] + sum[1] * sum[1] / count[1];
    return s;
}

static Split best_split(const Grow *g, const int *row, int n)
{
    Split best = {.feature = -1, .gain = -INFINITY};
    for (int i = 0; i < g->n_features; i++) {
        Split s = try_split(g, row, n, i);
        best = s.gain > best.gain ? s : best;
    }
    return best;
}

/* Rows that go left first; how many. */
static int partition(const Grow *g, int *row, int n, const Split *s)
{
    int left = 0;
    for (int i = 0; i < n; i++) {
        if (g->lesson[row[i]].feature[s->feature] < s->at) {
            int swap = row[i];
            row[i] = row[left];
            row[left++] = swap;
        }
    }
    return left;
}

static void grow(Grow *g, int node, int *row, int n)
{
    Split s = costs_differ(g, row, n) ? best_split(g, row, n) : (Split){.feature = -1};
    g->node[node] =
        (ForestNode){.feature = s.feature, .at = s.at, .value = (float)mean_cost(g, row, n)};
    if (s.feature < 0) {
        return;
    }
    int left = partition(g, row, n, &s), child = g->n_nodes;
    g->node[node].left = child;
    g->n_nodes += 2;
    grow(g, child, row, left);
    grow(g, child + 1, row + left, n - left);
}

/* MAX_ROWS of all at random, for each tree anew. */
static int choose_rows(int *row, int n, Rng *r)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        uint64_t at = i < MAX_ROWS ? (uint64_t)i : rng_below(r, (uint64_t)i + 1);
        if (at < MAX_ROWS) {
            row[at] = i;
            kept = i < MAX_ROWS ? i + 1 : kept;
        }
    }
    return kept;
}

void forest_fit(Forest *f, const Lesson *lesson, const double *cost, int n, int n_features,
                Rng *r)
{
    for (int i = 0; i < N_TREES; i++) {
        Grow g = {lesson, cost, n_features, f->tree[i], 1, r};
        int n_rows = choose_rows(f->row, n, r);
        grow(&g, 0, f->row, n_rows);
    }
}

void forest_predict(const Forest *f, const float *feature, double *mean, double *sd)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < N_TREES; i++) {
        const ForestNode *node = &f->tree[i][0];
        while (node->feature >= 0) {
            node = &f->tree[i][node->left + (feature[node->feature] >= node->at)];
        }
        sum += node->value;
        squares += (double)node->value * node->value;
    }
    *mean = sum / N_TREES;
    *sd = sqrt(fmax(squares / N_TREES - *mean * *mean, 0));
}
