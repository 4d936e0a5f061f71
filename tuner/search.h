/* search.h - strategies: which candidate next. */
#ifndef NC_TUNER_SEARCH_H
#define NC_TUNER_SEARCH_H

#include "schedules/schedules.h"
#include "tuner/process.h"

/* ---- search.c: which candidate next ------------------------------------------------------ */

/* A strategy sees indices, what is near to what, numbers that describe a candidate, and
 * outcomes; never knobs or schedules. Columns: id, name, meaning */
#define STRATEGIES(X)                                                                         \
    X(EXHAUSTIVE, exhaustive, "every candidate, by number")                                   \
    X(RANDOM, random, "every candidate, in random order")                                     \
    X(GREEDY, greedy, "from the best of a few at random to better neighbours, and again")     \
    X(ANNEAL, anneal, "a walk among neighbours that takes worse ones too, ever less often")   \
    X(EVOLVE, evolve, "children between two good candidates, and mutants of one")             \
    X(MODEL, model, "what a cost model of the trials so far expects the most improvement of") \
    X(AUTO, auto, "the others in turns, more often those that found something lately")

typedef enum StrategyId {
#define X(id, name, meaning) STRATEGY_##id,
    STRATEGIES(X) N_STRATEGIES
#undef X
} StrategyId;

const char *strategy_name(StrategyId id);
const char *strategy_meaning(StrategyId id);
bool strategy_parse(const char *name, StrategyId *id);

enum { MAX_NEAR = MAX_KNOBS * MAX_CHOICES };

typedef struct SearchSpace {
    const void *ctx;
    uint64_t n; /* indices are 0 to n - 1; at most 2^60 */
    /* The index is no neighbour of itself; none comes twice. Returns how many. */
    int (*neighbours)(const void *ctx, uint64_t index, uint64_t out[MAX_NEAR]);
    int (*features)(const void *ctx, uint64_t index, double out[MAX_FEATURES]);
} SearchSpace;

typedef struct SearchTrial {
    uint64_t index;
    /* ln of its time to the reference's, the same for all of a run; less is better; NaN: not
     * known */
    double log_ratio;
    Status status;
    bool told;  /* has it an outcome? */
    uint8_t by; /* whose idea, as StrategyId; N_STRATEGIES: search_first's */
} SearchTrial;

/* Everything here follows from the seed and from the trials in the order asked: outcomes count
 * once all of a batch are told, so the order of telling within one does not matter. */
typedef struct Search {
    Arena *arena;
    StrategyId strategy;
    SearchSpace space;
    uint64_t seed;
    int batch;
    Vec(SearchTrial) trial; /* in the order asked */
    int n_heard;            /* the first of them, those whose outcomes count */
    struct SearchInside *in;
} Search;

/* Memory is m. batch: so many candidates are asked for before the first outcome is needed.
 * Fails with E_INPUT where the space has too many indices. */
void search_init(Env *e, Arena *m, Search *s, StrategyId strategy, const SearchSpace *space,
                 uint64_t seed, int batch);
/* Before the first ask: asked for before anything else (the default, winners of other runs);
 * an index that comes twice counts once. */
void search_first(Search *s, uint64_t index);
/* Before the first ask: a trial of another run, maybe of another space with the same features,
 * for strategies that learn from numbers. */
void search_learn(Search *s, const double *features, int n, Status status, double log_ratio);
/* The next candidate, never the same twice. False: there is no other. With a whole batch asked
 * for, its outcomes must be told first. */
bool search_ask(Search *s, uint64_t *index);
/* Whatever happened: where status is not OK, log_ratio does not matter. Screened out: OK, and
 * NaN unless a ratio was measured. */
void search_tell(Search *s, uint64_t index, Status status, double log_ratio);
/* For resuming a run, without thinking: as if search_ask had answered index, as it did. With the
 * same arguments, first candidates and lessons, then redo and tell for each recorded trial in the
 * order asked, the search is where it was: 10,000 trials take some 50 ms. */
void search_redo(Search *s, uint64_t index);

/* ---- search_space.c: spaces for searching ------------------------------------------------ */

SearchSpace search_space(const Space *s); /* index = rank; s must outlive it */

typedef struct SearchRow { /* one candidate's outcome, as recorded */
    uint64_t index;        /* in the space that it was recorded in */
    Status status;
    double log_ratio;
} SearchRow;

/* Recorded candidates as a space of their own: index is the place in row, neighbours are those
 * of the whole space that were recorded too. */
typedef struct SearchTable {
    SearchSpace whole;
    const SearchRow *row; /* by index */
    int n;
} SearchTable;

/* Sorts the rows. Fails with E_INPUT on no rows, or an index that comes twice. */
void search_table_init(Env *e, SearchTable *t, const SearchSpace *whole, SearchRow *row, int n);
SearchSpace search_table_space(const SearchTable *t);

/* ---- search_replay.c: strategies tried on recorded outcomes ------------------------------ */

/* regret[i]: by how much the best of the first i + 1 trials is worse than the table's best, as
 * ln. n_trials at most t->n. Memory is m. */
void search_replay(Env *e, Arena *m, const SearchTable *t, StrategyId strategy, uint64_t seed,
                   int batch, int n_trials, double *regret);
/* The mean of that over all orders in which the rows can be drawn: exact. */
void search_random_regret(Arena *m, const SearchTable *t, int n_trials, double *regret);

typedef struct StrategyCurve {
    double *regret;   /* after each trial: the mean over seeds; NULL: it was not asked for */
    double score;     /* mean over trials of 1 - regret / random's: 1 is perfect, 0 is random */
    int wins, losses; /* seeds whose mean regret was below or above the random run's */
    double p;         /* of as many wins, were it no better than random */
    bool beats;       /* p <= BEATS_P */
} StrategyCurve;

#define BEATS_P 0.05
#define ALL_STRATEGIES ((1u << N_STRATEGIES) - 1) /* bits by StrategyId */

typedef struct SearchComparison {
    int n_trials, n_seeds;
    double *random; /* search_random_regret */
    StrategyCurve of[N_STRATEGIES];
} SearchComparison;

/* Memory is m. The same seeds for all, 0 to n_seeds - 1; exhaustive has no use for one. which: bits
 * by StrategyId. */
void search_compare(Env *e, Arena *m, const SearchTable *t, unsigned which, int n_seeds,
                    int batch, int n_trials, SearchComparison *out);
/* A row a strategy, regrets at a few trials; then those that do not beat random, by name. */
void comparison_print(const SearchComparison *c, Buf *out);

#endif
