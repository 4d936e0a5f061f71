/* search_util.c - made-up spaces for searching. */
#include "tests/search_util.h"

#include <math.h>
#include <string.h>

bool named_as_no_better(const char *text, StrategyId id)
{
    const char *names = strstr(text, NO_BETTER), *name = strategy_name(id);
    const char *at = names ? strstr(names + strlen(NO_BETTER) - 1, name) : NULL;
    return at && at[-1] == ' ' && strchr(",\n", at[strlen(name)]);
}

void grid_at(const Grid *g, uint64_t index, int at[MAX_KNOBS])
{
    for (int i = g->n_knobs - 1; i >= 0; i--) {
        at[i] = (int)(index % (uint64_t)g->n_choices[i]);
        index /= (uint64_t)g->n_choices[i];
    }
}

static uint64_t grid_size(const Grid *g)
{
    uint64_t n = 1;
    for (int i = 0; i < g->n_knobs; i++) {
        n *= (uint64_t)g->n_choices[i];
    }
    return n;
}

static int grid_neighbours(const void *ctx, uint64_t index, uint64_t out[MAX_NEAR])
{
    const Grid *g = ctx;
    int at[MAX_KNOBS], n = 0;
    uint64_t stride = 1;
    grid_at(g, index, at);
    for (int i = g->n_knobs - 1; i >= 0; i--) {
        for (int c = 0; c < g->n_choices[i]; c++) {
            if (c != at[i]) {
                out[n++] = index - (uint64_t)at[i] * stride + (uint64_t)c * stride;
            }
        }
        stride *= (uint64_t)g->n_choices[i];
    }
    return n;
}

static int grid_features(const void *ctx, uint64_t index, double out[MAX_FEATURES])
{
    const Grid *g = ctx;
    int at[MAX_KNOBS];
    grid_at(g, index, at);
    for (int i = 0; i < g->n_knobs; i++) {
        out[i] = at[i];
    }
    return g->n_knobs;
}

SearchSpace grid_space(const Grid *g)
{
    return (SearchSpace){g, grid_size(g), grid_neighbours, grid_features};
}

Status grid_outcome(const Grid *g, uint64_t index, double *log_ratio)
{
    int at[MAX_KNOBS];
    grid_at(g, index, at);
    *log_ratio = g->cost(g, at);
    return isnan(*log_ratio) ? STATUS_CRASH : STATUS_OK;
}

void grid_table(Env *e, Arena *m, const Grid *g, SearchSpace *whole, SearchTable *out)
{
    *whole = grid_space(g);
    SearchRow *row = arena_array(m, SearchRow, whole->n);
    for (uint64_t i = 0; i < whole->n; i++) {
        row[i].index = i;
        row[i].status = grid_outcome(g, i, &row[i].log_ratio);
    }
    search_table_init(e, out, whole, row, (int)whole->n);
}

/* ---- costs ---- */

/* Uniform in [0, 1), the same for the same key. */
static double part_of(const Grid *g, uint64_t a, uint64_t b)
{
    uint64_t key[3] = {g->seed, a, b};
    return (double)(hash_bytes(key, sizeof key).lo >> 11) * 0x1p-53;
}

double cost_separable(const Grid *g, const int *at)
{
    double sum = 0;
    for (int i = 0; i < g->n_knobs; i++) {
        uint64_t knob = (uint64_t)i, last = (uint64_t)g->n_choices[i] - 1;
        double best = part_of(g, knob, 0) * (double)last;
        sum += (0.05 + 0.4 * part_of(g, knob, 1)) * fabs(at[i] - best) / (double)last;
    }
    return sum;
}

double cost_kernel(const Grid *g, const int *at)
{
    int a = at[0] * at[1], most = (g->n_choices[0] - 1) * (g->n_choices[1] - 1);
    double spill = 3 * a > 2 * most ? 0.8 : 0;
    double twist =
        0.3 * fabs((double)at[1] / g->n_choices[1] - (double)at[2] / g->n_choices[2]);
    double grain = 0;
    for (int i = 0; i < g->n_knobs; i++) {
        grain = 3 * grain + at[i];
    }
    if (a == most) {
        return NAN;
    }
    return cost_separable(g, at) + spill + twist + 0.05 * part_of(g, (uint64_t)grain, 9) - 0.7;
}

double cost_rugged(const Grid *g, const int *at)
{
    double sum = 0;
    for (int i = 0; i < g->n_knobs; i++) {
        int b = at[(i + 1) % g->n_knobs], c = at[(i + 2) % g->n_knobs];
        sum += 0.3 * part_of(g, (uint64_t)i, (uint64_t)((at[i] * 16 + b) * 16 + c));
    }
    return sum;
}

static uint64_t number_of(const Grid *g, const int *at)
{
    uint64_t index = 0;
    for (int i = 0; i < g->n_knobs; i++) {
        index = index * (uint64_t)g->n_choices[i] + (uint64_t)at[i];
    }
    return index;
}

double cost_noise(const Grid *g, const int *at)
{
    return part_of(g, number_of(g, at), 7);
}

double cost_needle(const Grid *g, const int *at)
{
    return number_of(g, at) == g->seed % grid_size(g) ? -1 : 0;
}
