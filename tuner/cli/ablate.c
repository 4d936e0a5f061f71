/* ablate.c - `tune --ablate`: what each knob of the winner is worth. The winner meets itself with one knob put
 * back to the default's choice, all else as it is; where the rest forbids that choice, the nearest that
 * it allows. With `all` it meets every other choice of every knob. */
#include <stdlib.h>

#include "tuner/cli/duels.h"

/* ---- the two points ----------------------------------------------------------------------- */

/* Where it was found, else anywhere: spaces change from version to version. */
static bool find_point(const Space *s, const DbAnswer *best, Point *out)
{
    const char *schedule =
        best->found == DB_HIT ? best->winner.schedule : best->imported.schedule;
    if (best->found == DB_HIT && rank_is(s, best->winner.rank, schedule, out)) {
        return true;
    }
    for (uint64_t i = 0; i < s->n_legal; i++) {
        if (rank_is(s, (int64_t)i, schedule, out)) {
            return true;
        }
    }
    return false;
}

static void find_winner(Contest *c, Schedule *s, Point *out)
{
    DbAnswer best;
    const char *why;
    if (!side_best(c, s, &best, &why)) {
        fail(c->w->e, E_INPUT, "There is no winner whose knobs could be put back: %s",
             *why ? why : "this kernel was never tuned here.");
    }
    if (!find_point(&c->item->space, &best, out)) {
        fail(c->w->e, E_INPUT, "The winner is none of the schedules of this version's space.");
    }
}

/* ---- changes ------------------------------------------------------------------------------ */

static const char *word_of(const Contest *c, int knob, int choice)
{
    Buf word;
    buf_init(&word, &c->w->e->model);
    knob_word(&c->item->space, knob, choice, &word);
    return word.at;
}

static void add_change(Contest *c, const Point *winner, int knob, int choice)
{
    const Space *space = &c->item->space;
    Point p = *winner;
    Schedule s;
    p.at[knob] = (uint8_t)choice;
    space_schedule(space, &p, &s);
    side_add(c,
             arena_printf(&c->w->e->model, "without %s=%s (%s)", space->knob[knob].name,
                          word_of(c, knob, winner->at[knob]), word_of(c, knob, choice)),
             &s);
}

static bool allowed(const Space *s, const Point *winner, int knob, int choice)
{
    Point p = *winner;
    p.at[knob] = (uint8_t)choice;
    return choice != winner->at[knob] && space_legal(s, &p, NULL);
}

/* The choice that is nearest to this one and allowed; -1: none is. */
static int nearest(const Space *s, const Point *winner, int knob, int to)
{
    int best = -1;
    for (int i = 0; i < s->knob[knob].n; i++) {
        bool nearer = best < 0 || abs(i - to) < abs(best - to);
        best = allowed(s, winner, knob, i) && nearer ? i : best;
    }
    return best;
}

static void add_one_each(Contest *c, const Point *winner, const Point *base)
{
    const Space *s = &c->item->space;
    for (int i = 0; i < s->n_knobs; i++) {
        if (winner->at[i] == base->at[i]) {
            continue;
        }
        int choice = nearest(s, winner, i, base->at[i]);
        if (choice >= 0) {
            add_change(c, winner, i, choice);
        } else {
            contest_say(c, "%s: no other choice goes with the winner's other knobs",
                        s->knob[i].name);
        }
    }
}

static void add_all(Contest *c, const Point *winner)
{
    const Space *s = &c->item->space;
    for (int i = 0; i < s->n_knobs; i++) {
        for (int k = 0; k < s->knob[i].n; k++) {
            if (allowed(s, winner, i, k)) {
                add_change(c, winner, i, k);
            }
        }
    }
}

static void ablate(Contest *c)
{
    Point winner, base;
    Schedule s;
    Duel d;
    find_winner(c, &s, &winner);
    int best = side_add(c, "best", &s);
    bool has_base = space_default(c->w->e, &c->item->space, &base);
    if (c->w->o->all_choices || !has_base) {
        add_all(c, &winner);
    } else {
        add_one_each(c, &winner, &base);
    }
    if (c->side.n == 1) {
        contest_say(c, "the winner has the default's choices: there is nothing to put back");
    }
    contest_build(c);
    for (int i = best + 1; i < c->side.n; i++) {
        const Side *side = &c->side.at[i];
        if (side->status == STATUS_OK &&
            hash_eq(side->built.c_hash, c->side.at[best].built.c_hash)) {
            contest_say(c, "%s: the same code", side->name);
        } else {
            contest_play(c, best, i, &d);
        }
    }
}

const Command command_ablate = {.option = "ablate", .task = ablate};
