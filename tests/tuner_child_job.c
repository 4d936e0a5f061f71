/* tuner_child_job.c - a job crosses as text: it comes back equal, and nothing else is taken.
 * Orders are a fair coin's that anyone can toss again; pairs are counted as the protocol counts
 * them. */
#include "tests/env_fixture.h"
#include "tests/helpers.h"
#include "tuner/tuner_int.h"

#include <string.h>

TestSuite(tuner_child_job, .init = start, .fini = stop, .timeout = 60);

static const int16_t win[] = {-1, -1, 2}, lose[] = {-1, -1, 0};
static const StopRule rule = {400, 150, 105, 10, 20, METRIC_CPU, 3, win, lose};
static const Task task = {.kernel = "kernel x\ny: f32[s0]\n",
                          .n_syms = 3,
                          .sym = {64, 0, INT64_MAX},
                          .n_threads = 2,
                          .regime = REGIME_COLD,
                          .rotates = 0x8000000000000006};
static const Built one = {"", "/tmp/a b/'1'.so", "nc_1", {1, UINT64_MAX}, false};
static const Built two = {"split n 4 pad; vec n.i", "relative\nline.so", "nc_2", {0, 7}, true};

static ProcessJob some_job(void)
{
    return (ProcessJob){.task = &task,
                        .a = &one,
                        .b = &two,
                        .stage = DUEL_SEARCH,
                        .stop = &rule,
                        .n_pairs = 200,
                        .verify = true,
                        .seed = UINT64_MAX,
                        .margin_e4 = 100,
                        .limit_ns = 10000000000};
}

static Buf printed(ChildJob *j, const ProcessJob *job)
{
    Buf text;
    child_job_init(j, job);
    j->parent = 4711;
    j->cpu = 3;
    j->ring_limit_bytes = (uint64_t)1 << 40;
    j->root = "/made up";
    buf_init(&text, &env.model);
    child_job_print(j, &text);
    return text;
}

static void expect_built(const Built *a, const Built *b)
{
    cr_expect_str_eq(a->schedule, b->schedule);
    cr_expect_str_eq(a->library, b->library);
    cr_expect_str_eq(a->symbol, b->symbol);
    cr_expect(hash_eq(a->c_hash, b->c_hash));
}

Test(tuner_child_job, comes_back_equal)
{
    ProcessJob job = some_job();
    ChildJob j, back;
    Buf text = printed(&j, &job), again;
    Err err;
    cr_assert(child_job_parse(&env.model, text.at, text.len, &back, &err), "%s", err.text);
    cr_expect_str_eq(back.task.kernel, task.kernel);
    cr_expect_eq(back.task.n_syms, 3);
    cr_expect(!memcmp(back.task.sym, task.sym, sizeof task.sym));
    cr_expect(back.task.n_threads == 2 && back.task.regime == REGIME_COLD);
    cr_expect_eq(back.task.rotates, task.rotates);
    expect_built(&back.a, &one);
    expect_built(&back.b, &two);
    cr_expect(back.job.stage == DUEL_SEARCH && back.job.n_pairs == 200 && back.job.verify);
    cr_expect(back.job.seed == UINT64_MAX && back.job.margin_e4 == 100);
    cr_expect_eq(back.job.limit_ns, 10000000000);
    cr_expect(back.parent == 4711 && back.cpu == 3);
    cr_expect_str_eq(back.root, "/made up");
    cr_expect(back.stack_pad == j.stack_pad && back.b_loaded_first == j.b_loaded_first);
    cr_expect(back.stop.warm_x100 == 400 && back.stop.first_x100 == 150 &&
              back.stop.third_x100 == 105 && back.stop.n == 3 && back.stop.most_flagged == 10 &&
              back.stop.window == 20 && back.stop.metric == METRIC_CPU);
    cr_expect(!memcmp(back.stop.win, win, sizeof win) &&
              !memcmp(back.stop.lose, lose, sizeof lose));
    cr_expect(back.job.task == &back.task && back.job.a == &back.a && back.job.b == &back.b &&
              back.job.stop == &back.stop);
    buf_init(&again, &env.model);
    child_job_print(&back, &again);
    cr_expect(again.len == text.len && !memcmp(again.at, text.at, text.len));
}

Test(tuner_child_job, without_a_rule_for_an_early_end)
{
    ProcessJob job = some_job();
    ChildJob j, back;
    Err err;
    job.stop = NULL;
    Buf text = printed(&j, &job);
    cr_assert(child_job_parse(&env.model, text.at, text.len, &back, &err), "%s", err.text);
    cr_expect_null(back.job.stop);
}

Test(tuner_child_job, every_shorter_text_is_refused)
{
    ProcessJob job = some_job();
    ChildJob j, back;
    Buf text = printed(&j, &job);
    for (size_t len = 0; len < text.len; len++) {
        Err err = {0};
        cr_assert_not(child_job_parse(&env.model, text.at, len, &back, &err), "%zu", len);
        cr_assert_eq(err.code, E_SYNTAX);
    }
    buf_char(&text, 'x');
    cr_expect_not(child_job_parse(&env.model, text.at, text.len, &back, NULL));
}

/* What is taken prints as it was read: so a changed byte is refused, or is another value. */
Test(tuner_child_job, a_changed_byte_is_refused_or_is_another_job)
{
    ProcessJob job = some_job();
    ChildJob j, back;
    Buf text = printed(&j, &job), again;
    Rng r;
    rng_seed(&r, 3);
    int n_refused = 0;
    for (size_t i = 0; i < text.len; i++) {
        char was = text.at[i];
        text.at[i] = (char)rng_below(&r, 256);
        if (child_job_parse(&env.model, text.at, text.len, &back, NULL)) {
            buf_init(&again, &env.model);
            child_job_print(&back, &again);
            cr_assert(again.len == text.len && !memcmp(again.at, text.at, text.len), "%zu", i);
        } else {
            n_refused++;
        }
        text.at[i] = was;
    }
    cr_expect_gt(n_refused, (int)text.len / 2);
}

static void refuses_line(const char *line, const char *instead)
{
    ProcessJob job = some_job();
    ChildJob j, back;
    Buf text = printed(&j, &job), other;
    char *at = strstr(text.at, line);
    Err err;
    cr_assert(at, "%s", line);
    buf_init(&other, &env.model);
    buf_printf(&other, "%.*s%s%s", (int)(at - text.at), text.at, instead, at + strlen(line));
    cr_expect_not(child_job_parse(&env.model, other.at, other.len, &back, &err), "%s", instead);
}

Test(tuner_child_job, values_out_of_their_bounds_are_refused)
{
    static const char *const bad[][2] = {
        {"task.n_threads 2\n", "task.n_threads 0\n"},
        {"task.n_threads 2\n", "task.n_threads -1\n"},
        {"task.n_threads 2\n", "task.n_threads 4097\n"},
        {"task.n_threads 2\n", "task.n_threads 02\n"},
        {"task.n_threads 2\n", "task.n_threads +2\n"},
        {"task.n_threads 2\n", "task.n_threads  2\n"},
        {"task.regime 1\n", "task.regime 2\n"},
        {"job.stage 1\n", "job.stage 99\n"},
        {"job.n_pairs 200\n", "job.n_pairs 200000\n"},
        {"job.verify 1\n", "job.verify 2\n"},
        {"job.margin_e4 100\n", "job.margin_e4 10000\n"},
        {"job.seed 18446744073709551615\n", "job.seed 18446744073709551616\n"},
        {"cpu 3\n", "cpu -2\n"},
        {"cpu 3\n", "cpu -0\n"},
        {"task.n_syms 3\n", "task.n_syms 256\n"},
        {"task.n_syms 3\n", "task.n_syms 2\n"},
        {"task.sym 64 0", "task.sym 64 -1"},
        {"stop.n 3\n", "stop.n 4\n"},
        {"stop.win -1 -1 2\n", "stop.win -1 -1 70000\n"},
        {"a.symbol 4 nc_1\n", "a.symbol 36 nc_123456789012345678901234567890123\n"},
        {"a.symbol 4 nc_1\n", "a.symbol 99999999999999999999 nc_1\n"},
        {"a.symbol 4 nc_1\n", "a.symbol 3 nc_1\n"},
        {"nanocompile job 1\n", "nanocompile job 2\n"},
    };
    for (size_t i = 0; i < countof(bad); i++) {
        refuses_line(bad[i][0], bad[i][1]);
    }
}

/* ---- orders -------------------------------------------------------------------------- */

Test(tuner_child_job, orders_are_splitmix64_with_the_jobs_seed)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        uint64_t state = seed * 0x123456789abcdef;
        uint64_t from = state;
        for (int i = 0; i < 100; i++) {
            cr_assert_eq(pair_b_first(from, i), splitmix64(&state) >> 63);
        }
    }
}

/* Within 5 sigma: of all, of those after a first, and of neighbours that agree. */
Test(tuner_child_job, orders_are_fair_and_do_not_hang_together)
{
    int n_first = 0, n_same = 0, n = 100000;
    for (int i = 0; i < n; i++) {
        n_first += pair_b_first(42, i);
        n_same += pair_b_first(42, i) == pair_b_first(42, i + 1);
    }
    cr_expect(n_first > n / 2 - 791 && n_first < n / 2 + 791, "%d", n_first);
    cr_expect(n_same > n / 2 - 791 && n_same < n / 2 + 791, "%d", n_same);
}

Test(tuner_child_job, layouts_differ_from_seed_to_seed)
{
    ProcessJob job = some_job();
    int n_pads = 0, n_first = 0;
    bool seen[4096] = {0};
    for (job.seed = 0; job.seed < 1000; job.seed++) {
        ChildJob j;
        child_job_init(&j, &job);
        cr_assert(j.stack_pad >= 0 && j.stack_pad <= 4080 && j.stack_pad % 16 == 0);
        n_pads += !seen[j.stack_pad];
        seen[j.stack_pad] = true;
        n_first += j.b_loaded_first;
    }
    cr_expect_gt(n_pads, 200);
    cr_expect(n_first > 400 && n_first < 600, "%d", n_first);
}
