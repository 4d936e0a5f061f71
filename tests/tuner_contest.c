/* tuner_contest.c - the duels of one task without any process: what is kept of sides that could not be built, and
 * which exit status comes of it. */
#include "tests/helpers.h"
#include "tuner/cli/duels.h"

volatile int tune_interrupted; /* tune's main has it */

/* Nothing of a workplace is there to build with: whoever built anything would fail. */
static void play(Env *e, void *arg)
{
    Contest *c = arg;
    Duel d;
    int failed = side_add(c, "failed", &(Schedule){0});
    c->side.at[failed].status = STATUS_CC_ERROR;
    c->side.at[failed].why = "The compiler died.";
    int there = side_add_rival(c, "there", &(Built){.library = "there.so"});
    cr_expect(!contest_play(c, there, failed, &d));
    cr_expect(!contest_play(c, there, failed, &d));
    (void)e;
}

Test(tuner_contest, what_failed_once_is_not_built_again_and_is_the_exit_status)
{
    Env env;
    TuneOptions o = {.quiet = true};
    Item item = {.label = "product"};
    env_init(&env);
    Workplace w = {.e = &env, .o = &o};
    Contest c = {.w = &w, .item = &item, .status = 4};
    cr_expect(env_try(&env, play, &c), "%s", env.err.text);
    cr_expect_eq(c.status, 1, "a verdict before it does not hide it: %d", c.status);
    cr_expect_str_eq(c.ending, "cc-error");
    cr_expect_str_eq(c.why, "failed: cc-error: The compiler died.");
    env_release(&env);
}
