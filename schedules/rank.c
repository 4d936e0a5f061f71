/* rank.c - counting legal points without visiting them all, and numbering them.
 *
 * A rule looks at a few knobs and is asked as soon as the last of them is set. What can still
 * go wrong below a depth depends only on those earlier knobs that later rules look at: the live
 * ones. So the number of legal points below is kept by depth and live values, and found once
 * for each (a transfer matrix in all but name). Rank adds the counts of the choices passed by,
 * unrank subtracts them: both take n_knobs * choices look-ups. needs: knobs and rules set.
 * breaks: nothing. */
#include <string.h>

#include "schedules/schedules_int.h"

#define UNKNOWN UINT64_MAX
#define MAX_STATES (1u << 24)

int rule_last_knob(const Rule *r)
{
    check(r->knobs);
    return 31 - __builtin_clz(r->knobs);
}

/* The row of the table at this depth for what is set so far. */
static uint64_t *count_of(const SpaceInside *in, int depth, const Point *at)
{
    size_t row = 0;
    for (int i = 0; i < depth; i++) {
        if (in->live[depth] & (1u << i)) {
            row = row * (size_t)in->knob[i].n + at->at[i];
        }
    }
    return &in->count[depth][row];
}

static void make_tables(Arena *m, SpaceInside *in)
{
    for (int d = 0; d <= in->n_knobs; d++) {
        size_t rows = 1;
        in->live[d] = 0;
        for (int r = 0; r < in->policy->n_rules; r++) {
            const Rule *rule = &in->policy->rule[r];
            in->live[d] |= rule_last_knob(rule) >= d ? rule->knobs & ((1u << d) - 1) : 0;
        }
        for (int i = 0; i < d; i++) {
            rows *= in->live[d] & (1u << i) ? (size_t)in->knob[i].n : 1;
        }
        check(rows <= MAX_STATES);
        in->count[d] = arena_array(m, uint64_t, rows);
        memset(in->count[d], 0xff, rows * sizeof(uint64_t));
    }
}

static uint64_t count_below(SpaceInside *in, int depth, Point *at, Recipe *p)
{
    uint64_t *known = count_of(in, depth, at);
    if (depth == in->n_knobs) {
        *known = 1;
    }
    if (*known != UNKNOWN) {
        return *known;
    }
    uint64_t sum = 0;
    for (int c = 0; c < in->knob[depth].n; c++) {
        at->at[depth] = (uint8_t)c;
        *recipe_slot(in, p, depth) = in->knob[depth].value[c];
        sum += rules_hold(in, p, depth) ? count_below(in, depth + 1, at, p) : 0;
    }
    *known = sum;
    return sum;
}

uint64_t count_all(Arena *m, SpaceInside *in)
{
    Point at = {{0}};
    Recipe p = {0};
    make_tables(m, in);
    return count_below(in, 0, &at, &p);
}

/* Legal points below when knob `depth` takes choice c, knobs before it as in `at`. */
static uint64_t count_choice(const SpaceInside *in, int depth, int c, Point *at, Recipe *p)
{
    at->at[depth] = (uint8_t)c;
    *recipe_slot(in, p, depth) = in->knob[depth].value[c];
    return rules_hold(in, p, depth) ? *count_of(in, depth + 1, at) : 0;
}

uint64_t space_rank(const Space *s, const Point *p)
{
    Point at = {{0}};
    Recipe recipe = {0};
    uint64_t rank = 0;
    for (int d = 0; d < s->n_knobs; d++) {
        for (int c = 0; c < p->at[d]; c++) {
            rank += count_choice(s->in, d, c, &at, &recipe);
        }
        check(count_choice(s->in, d, p->at[d], &at, &recipe) > 0);
    }
    return rank;
}

void space_unrank(const Space *s, uint64_t rank, Point *out)
{
    Recipe recipe = {0};
    *out = (Point){{0}};
    check(rank < s->n_legal);
    for (int d = 0; d < s->n_knobs; d++) {
        int c = 0;
        uint64_t below;
        while (rank >= (below = count_choice(s->in, d, c, out, &recipe))) {
            rank -= below;
            c++;
            check(c < s->knob[d].n);
        }
    }
}
