/* tuner_contest.c - tune's tasks and duels without any process: what of a model's kernels is cold, what is kept of
 * sides that could not be built, and which exit status comes of it. */
#include <string.h>

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

static const Item *item_with(const Items *items, const char *words)
{
    for (int i = 0; i < items->n; i++) {
        if (strstr(items->at[i].label, words)) {
            return &items->at[i];
        }
    }
    cr_assert_fail("no task is called %s", words);
    return NULL;
}

/* When a model comes to a layer's cache again, it has read all other layers. */
static void find_tasks(Env *e, void *arg)
{
    TuneOptions o = {.model = "tests/data/tiny-qwen2"};
    Workplace w = {.e = e, .o = &o, .n_threads = 1};
    Items items;
    (void)arg;
    machine_read(e, "", &w.machine);
    w.tc.target = target_of(&w.machine);
    items_find(&w, &items);
    cr_expect_neq(item_with(&items, "decode matmul h=14 m=1 k=16")->task.rotates, 0);
    cr_expect_neq(item_with(&items, "decode matmul h=14 m=1 n=16")->task.rotates, 0);
    cr_expect_eq(item_with(&items, "decode matmul m=1 n=2048 k=224")->task.rotates, 0,
                 "constants rotate anyway");
}

Test(tuner_contest, the_cache_of_keys_and_values_is_as_cold_as_weights)
{
    Env env;
    env_init(&env);
    cr_expect(env_try(&env, find_tasks, NULL), "%s", env.err.text);
    env_release(&env);
}
