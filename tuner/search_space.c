/* search_space.c - spaces for searching: a kernel's schedules by rank, and recorded candidates.
 * needs: the space or the rows outlive what is made of them here. */
#include "tuner/search_int.h"

#include <stdlib.h>

/* ---- schedules --------------------------------------------------------------------------- */

static int schedule_neighbours(const void *ctx, uint64_t index, uint64_t out[MAX_NEAR])
{
    const Space *s = ctx;
    Point at, near[MAX_NEAR];
    space_unrank(s, index, &at);
    int n = space_neighbours(s, &at, near);
    for (int i = 0; i < n; i++) {
        out[i] = space_rank(s, &near[i]);
    }
    return n;
}

static int schedule_features(const void *ctx, uint64_t index, double out[MAX_FEATURES])
{
    Point at;
    space_unrank(ctx, index, &at);
    return space_features(ctx, &at, out);
}

SearchSpace search_space(const Space *s)
{
    return (SearchSpace){s, s->n_legal, schedule_neighbours, schedule_features};
}

/* ---- recorded candidates ----------------------------------------------------------------- */

static int by_index(const void *a, const void *b)
{
    uint64_t x = ((const SearchRow *)a)->index, y = ((const SearchRow *)b)->index;
    return (x > y) - (x < y);
}

void search_table_init(Env *e, SearchTable *t, const SearchSpace *whole, SearchRow *row, int n)
{
    if (n <= 0) {
        fail(e, E_INPUT, "A table of recorded candidates needs a row.");
    }
    qsort(row, (size_t)n, sizeof *row, by_index);
    for (int i = 0; i < n; i++) {
        if (row[i].index >= whole->n || (i > 0 && row[i].index == row[i - 1].index)) {
            fail(e, E_INPUT, "Recorded candidate %llu of a space of %llu %s.",
                 (unsigned long long)row[i].index, (unsigned long long)whole->n,
                 row[i].index >= whole->n ? "is not in it" : "comes twice");
        }
    }
    *t = (SearchTable){*whole, row, n};
}

static int table_neighbours(const void *ctx, uint64_t index, uint64_t out[MAX_NEAR])
{
    const SearchTable *t = ctx;
    uint64_t near[MAX_NEAR];
    int n = t->whole.neighbours(t->whole.ctx, t->row[index].index, near), kept = 0;
    for (int i = 0; i < n; i++) {
        SearchRow key = {.index = near[i]};
        const SearchRow *found = bsearch(&key, t->row, (size_t)t->n, sizeof key, by_index);
        if (found) {
            out[kept++] = (uint64_t)(found - t->row);
        }
    }
    return kept;
}

static int table_features(const void *ctx, uint64_t index, double out[MAX_FEATURES])
{
    const SearchTable *t = ctx;
    return t->whole.features(t->whole.ctx, t->row[index].index, out);
}

SearchSpace search_table_space(const SearchTable *t)
{
    return (SearchSpace){t, (uint64_t)t->n, table_neighbours, table_features};
}
