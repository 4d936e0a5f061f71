/* compare.c - `tune --compare A B`: two schedules of each task in a duel of their own. */
#include "tuner/cli/duels.h"

static void compare(Contest *c)
{
    Duel d;
    int a = side_add_word(c, c->w->o->side[0], "given A");
    int b = side_add_word(c, c->w->o->side[1], "given B");
    contest_build(c);
    for (int i = 0; i < 2; i++) {
        const char *steps = c->side.at[i ? b : a].built.schedule;
        contest_say(c, "%c = %s: %s", "AB"[i], c -> side.at[i ? b : a].name,
                    *steps ? steps : "no steps");
    }
    if (contest_play(c, a, b, &d)) {
        contest_say_where(c);
    }
}

const Command command_compare = {
    .option = "compare", .task = compare, .verdict_is_status = true};
