/* sizes.c - at which sizes a candidate is verified: the tuned ones, and with one symbol at a time changed to what
 * meets each tail of the splits along it: nothing, one point, each remainder alone and behind a full tile. */
#include <string.h>

#include "run/verify_int.h"

#define EACH_REMAINDER 16 /* of splits up to this factor; of larger ones a few */

typedef struct List {
    int n, n_syms;
    int64_t *at; /* [MAX_SIZES][n_syms] */
    const int64_t *tuned;
    bool capped; /* some symbol is a capacity: the others grow no more */
} List;

static void add(List *l, int symbol, int64_t value)
{
    const size_t bytes = (size_t)l->n_syms * sizeof *l->at;
    int64_t *row = l->at + l->n * l->n_syms;
    if (value < 0 || l->n == MAX_SIZES || (l->capped && value > l->tuned[symbol])) {
        return;
    }
    memcpy(row, l->tuned, bytes);
    row[symbol] = value;
    for (int i = 0; i < l->n; i++) {
        if (!memcmp(l->at + i * l->n_syms, row, bytes)) {
            return;
        }
    }
    l->n++;
}

static void see_symbol(const Expr *x, void *ctx)
{
    int *s = ctx; /* [0] which, [1] seen */
    s[1] = s[1] || (x->kind == X_SYM && x->id == s[0]);
}

static bool depends(const Expr *x, int symbol)
{
    int s[2] = {symbol, 0};
    expr_visit(x, see_symbol, s);
    return s[1];
}

/* After so many points the tails of an axis repeat. */
static int64_t period_of(const Nest *n, int axis)
{
    const Axis *a = &n->axis.at[axis];
    return a->outer ? a->factor * period_of(n, a->outer) : 1;
}

/* Of the axes whose extent depends on the symbol, the longest; 0: there are none. */
static int64_t longest_period(const Nest *n, int symbol)
{
    int64_t most = 0;
    for (int i = 0; i < n->axis.n; i++) {
        if (!n->axis.at[i].half_of && depends(n->axis.at[i].extent, symbol)) {
            int64_t period = period_of(n, i);
            most = period > most ? period : most;
        }
    }
    return most;
}

static bool sizes_an_operand(const Kernel *k, int symbol)
{
    for (int i = 0; i < k->operand.n; i++) {
        for (int j = 0; j < k->operand.at[i].span.n; j++) {
            if (depends(k->operand.at[i].span.at[j], symbol)) {
                return true;
            }
        }
    }
    return false;
}

static void add_tails(List *l, int symbol, int64_t period, bool few)
{
    const int64_t tuned = l->tuned[symbol];
    const int64_t some[] = {0,      1,          period / 2 + 1, period - 1,
                            period, period + 1, 2 * period - 1};
    const int64_t more[] = {2, 3, tuned - 1, tuned + 1};
    for (int64_t r = 1; r < period && period <= EACH_REMAINDER; r++) {
        add(l, symbol, r);
    }
    for (size_t i = 0; i < countof(some); i++) {
        add(l, symbol, some[i]);
    }
    for (size_t i = 0; i < countof(more) && !few; i++) {
        add(l, symbol, more[i]);
    }
}

int sizes_of(Arena *m, const Kernel *scheduled, const int64_t *tuned, bool few, int64_t **sizes)
{
    List l = {.n_syms = scheduled->n_syms, .tuned = tuned};
    l.at = *sizes = arena_array(m, int64_t, (MAX_SIZES + 1) * l.n_syms);
    if (l.n_syms == 0) {
        return 1;
    }
    for (int i = 0; i < l.n_syms; i++) {
        bool is_extent = longest_period(&scheduled->nest, i) > 0;
        l.capped = l.capped || (!is_extent && sizes_an_operand(scheduled, i));
    }
    add(&l, 0, tuned[0]);
    for (int i = 0; i < l.n_syms; i++) {
        int64_t period = longest_period(&scheduled->nest, i);
        if (period > 0) {
            add_tails(&l, i, period, few);
        }
    }
    return l.n;
}
