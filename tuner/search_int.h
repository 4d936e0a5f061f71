/* search_int.h - what the files of the search share: how a strategy works, where random and
 * unasked indices come from, the forest of the cost model. */
#ifndef NC_SEARCH_INT_H
#define NC_SEARCH_INT_H

#include "tuner/tuner.h"

/* ---- how a strategy works ---- */

/* State changes in hear and asked only; pick looks at it, so that a run can be resumed without
 * picking again. Any but pick may be NULL. */
typedef struct StrategyRow {
    void *(*start)(Search *s); /* its state, in s->arena */
    /* An index that is not asked yet; there is one. */
    uint64_t (*pick)(Search *s, void *state, Rng *r);
    void (*asked)(Search *s, void *state, int trial);
    /* A trial's outcome, in the order asked; it is among the leaders already. own: it was this
     * strategy's idea. */
    void (*hear)(Search *s, void *state, int trial, bool own, Rng *r);
} StrategyRow;

#define X(id, name, meaning) extern const StrategyRow strategy_##name;
STRATEGIES(X)
#undef X

extern const StrategyRow *const strategy_of[N_STRATEGIES];

/* ---- search_draw.c ---- */

/* A random order of 0 .. n - 1 that needs no memory for it. */
enum { MAX_SHUFFLE = 400 };
typedef struct Shuffle {
    uint64_t n;
    int n_rounds;
    uint64_t pivot[MAX_SHUFFLE], salt[MAX_SHUFFLE];
} Shuffle;

void shuffle_init(Shuffle *p, uint64_t n, uint64_t seed);
uint64_t shuffle_at(const Shuffle *p, uint64_t place); /* each index at one place */

typedef struct IndexSet {
    Arena *arena;
    uint64_t *slot; /* index + 1; 0: free */
    size_t n, cap;
} IndexSet;

bool index_set_has(const IndexSet *set, uint64_t index);
void index_set_add(IndexSet *set, uint64_t index);

/* ---- search.c ---- */

/* Before so many outcomes nobody has an idea: candidates are drawn at random. */
enum { FIRST_DRAWS = 10, MAX_LEADERS = 16 };

typedef struct Lesson { /* a trial of this run or another, as numbers */
    double cost;        /* INFINITY: it failed */
    float feature[MAX_FEATURES];
} Lesson;

typedef struct SearchInside {
    void *state;
    IndexSet asked;
    Shuffle order;
    uint64_t n_drawn;                   /* places of the order that are all asked */
    uint64_t n_in_order;                /* indices from 0 that are all asked */
    int n_leaders, leader[MAX_LEADERS]; /* the best trials heard, the best first */
    Vec(uint64_t) first;
    Vec(Lesson) lesson;
} SearchInside;

bool search_asked(const Search *s, uint64_t index);
/* The same whenever and in whatever order it is made. */
enum { RNG_ASK, RNG_HEAR, RNG_FIT };
Rng search_rng(const Search *s, int purpose, uint64_t step);
double trial_cost(const SearchTrial *t); /* INFINITY: it failed, or was too slow to be timed */
double search_cost(const Search *s, int trial);

/* ---- search_draw.c, again: an index that is not asked yet; there must be one ---- */

uint64_t draw_random(Search *s); /* the next of the order: the same until it is asked */
uint64_t draw_in_order(Search *s);
/* One of the neighbours that are not asked yet. False: there is none. */
bool draw_near(Search *s, uint64_t centre, Rng *r, uint64_t *out);
/* From a centre on over neighbours to the first that is not asked; draw_random after too many
 * steps. */
uint64_t draw_walk(Search *s, uint64_t centre, Rng *r);
/* Some steps away from a centre. */
uint64_t draw_kick(Search *s, uint64_t centre, int n_steps, Rng *r);
bool near_left(const Search *s, uint64_t centre); /* is any neighbour not asked? */

/* ---- search_forest.c: extremely randomised trees ---- */

enum { N_TREES = 40, MAX_ROWS = 1024 };

typedef struct ForestNode {
    float at;    /* rows with less go left */
    float value; /* of a leaf: the mean */
    int feature; /* -1: a leaf */
    int left;    /* right is the next */
} ForestNode;

typedef struct Forest {
    ForestNode *tree[N_TREES]; /* of 2 * MAX_ROWS nodes each */
    int *row;                  /* scratch */
} Forest;

void forest_init(Arena *m, Forest *f);
/* cost: of each lesson, finite */
void forest_fit(Forest *f, const Lesson *lesson, const double *cost, int n, int n_features,
                Rng *r);
/* The trees' mean, and how much they differ. */
void forest_predict(const Forest *f, const float *feature, double *mean, double *sd);

#endif
