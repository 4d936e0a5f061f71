/* run_stored.c - weights in the storage that kernels take: one that comes from BF16 and is read
 * as that by one kernel and as f32 by another, given as either. */
#include "compile.h"
#include "run/run.h"
#include "tests/env_fixture.h"
#include "tests/fault.h"
#include "tests/helpers.h"

#include <string.h>

TestSuite(run_stored, .init = start, .fini = stop, .timeout = 60);

/* Rows of a table are looked up, and multiplied with the same table: a tied embedding. */
static const char text[] = "graph tied\n"
                           "ids = input i64[n]\n"
                           "w = weight f32[24, 40] from=bf16\n"
                           "x = gather w, ids\n"
                           "t = permute w perm=[1, 0]\n"
                           "y = matmul x, t\n"
                           "return y=y\n";

enum { ROWS = 24, COLUMNS = 40, N = ROWS * COLUMNS };

typedef struct Setting {
    const char *schedule; /* of the product; the gather reads f32 */
    const Graph *g;
    Compile c;
    Exec *x;
    int64_t ids[3];
    float w[N];
    uint16_t bf16[N];
    Weights kept; /* the table alone */
    NamedTensor table;
    const uint16_t *kept_at;
    void *widened;
} Setting;

static void pick(void *ctx, Env *e, const Kernel *k, const PickHint *hint, Schedule *out)
{
    Err err;
    (void)e, (void)hint;
    *out = (Schedule){0};
    if (!strcmp(k->kind, "matmul")) {
        cr_assert(schedule_parse(ctx, out, &err), "%s", err.text);
    }
}

static void compile_tied(Env *e, void *arg)
{
    Setting *s = arg;
    const Picker *picker =
        arena_dup(&e->model, &(Picker){pick, (void *)s->schedule}, sizeof *picker);
    s->g = ncg_parse(e, text, strlen(text), "tied");
    s->c = (Compile){.env = e, .picker = picker};
    Program *p = compile_model(&s->c, s->g);
    s->x = exec_new(e, s->c.graph, p, NULL);
}

static void set_up(Setting *s, const char *schedule)
{
    Rng r;
    rng_seed(&r, 5);
    *s = (Setting){.schedule = schedule, .ids = {3, 0, 23}};
    for (int i = 0; i < N; i++) {
        s->bf16[i] = (uint16_t)(0x3e00 + rng_below(&r, 0x200) + (rng_below(&r, 2) << 15));
    }
    bf16_widen(s->w, s->bf16, N);
    s->table = (NamedTensor){"w", {DT_F32, 2, {ROWS, COLUMNS}, NULL}};
    s->kept_at = s->bf16;
    s->kept =
        (Weights){.tensor = &s->table, .bf16 = &s->kept_at, .n = 1, .widened = &s->widened};
    must_work(&env, compile_tied, s);
}

/* As f32 by w, or as the kept table without data. */
static bool run(Setting *s, float *w, Tensor *y, Err *err)
{
    NamedTensor ids = {"ids", {DT_I64, 1, {3}, s->ids}};
    NamedTensor given = {"w", {DT_F32, 2, {ROWS, COLUMNS}, w}};
    Args args = {&ids, 1, w ? &given : &s->table, 1};
    return exec_run(s->x, &args, &env.model, y, err);
}

static void same_as_defined(Setting *s, float *w, const Tensor *y)
{
    NamedTensor ids = {"ids", {DT_I64, 1, {3}, s->ids}};
    NamedTensor given = {"w", {DT_F32, 2, {ROWS, COLUMNS}, w}};
    Args args = {&ids, 1, &given, 1};
    Tensor want;
    Err err;
    cr_assert(graph_interpret(s->g, &args, NULL, &env.model, &want, &err), "%s", err.text);
    cr_assert(!memcmp(want.data, y->data, 3 * ROWS * sizeof(float)));
}

static const char *const schedules[] = {"store b bf16", "pack b n,k; store b bf16",
                                        "pack b n,k"};

Test(run_stored, arguments_as_f32_are_narrowed_when_they_move)
{
    for (size_t i = 0; i < countof(schedules); i++) {
        Setting s;
        Tensor y;
        Err err;
        set_up(&s, schedules[i]);
        cr_assert(run(&s, s.w, &y, &err), "%s", err.text);
        same_as_defined(&s, s.w, &y);
        float twice[N];
        for (int k = 0; k < N; k++) {
            twice[k] = 2 * s.w[k];
        }
        cr_assert(run(&s, twice, &y, &err), "%s", err.text);
        same_as_defined(&s, twice, &y);
        exec_free(s.x);
    }
}

Test(run_stored, kept_weights_are_widened_for_the_kernel_that_takes_f32)
{
    for (size_t i = 0; i < countof(schedules); i++) {
        Setting s;
        Tensor y;
        Err err;
        set_up(&s, schedules[i]);
        exec_use_weights(s.x, &s.kept);
        cr_assert(run(&s, NULL, &y, &err), "%s", err.text);
        same_as_defined(&s, s.w, &y);
        cr_assert_not_null(s.table.t.data, "for the gather");
        exec_free(s.x);
        weights_release(&s.kept);
    }
}

Test(run_stored, values_that_are_no_bf16_are_refused)
{
    Setting s;
    Tensor y;
    Err err;
    set_up(&s, "store b bf16");
    s.w[N - 1] = 1.0f / 3;
    for (int i = 0; i < 2; i++) {
        cr_assert_not(run(&s, s.w, &y, &err));
        cr_assert_eq(err.code, E_INPUT);
        cr_assert_str_eq(err.text,
                         "The weight \"w\" is said to come from bf16, but some value is none.");
    }
    exec_free(s.x);
}

Test(run_stored, a_weight_without_data_is_refused)
{
    Setting s;
    Tensor y;
    Err err;
    set_up(&s, "store b bf16");
    cr_assert_not(run(&s, NULL, &y, &err));
    cr_assert_str_eq(err.text, "The weight \"w\" has no data.");
    NamedTensor other = s.table; /* has the name of a kept weight, and is none */
    s.kept.tensor = &other;
    exec_use_weights(s.x, &s.kept);
    cr_assert_not(run(&s, NULL, &y, &err));
    cr_assert_str_eq(err.text, "The weight \"w\" has no data.");
    NamedTensor ids = {"ids", {DT_I64, 1, {3}, s.ids}};
    Args args = {&ids, 1, &s.table, 1};
    cr_assert_not(graph_interpret(s.g, &args, NULL, &env.model, &y, &err));
    cr_assert_str_eq(err.text, "The weight \"w\" has no data.");
    exec_free(s.x);
    weights_release(&s.kept);
}

static bool run_once(void *ctx, Err *err)
{
    const bool *keep = ctx;
    Setting s;
    Tensor y;
    set_up(&s, "store b bf16");
    if (*keep) {
        exec_use_weights(s.x, &s.kept);
    }
    bool ok = run(&s, *keep ? NULL : s.w, &y, err);
    exec_free(s.x);
    weights_release(&s.kept);
    return ok;
}

Test(run_stored, memory_that_cannot_be_had_is_reported)
{
    cr_assert_gt(fault_loop("mmap", run_once, &(bool){false}), 1);
    cr_assert_gt(fault_loop("mmap", run_once, &(bool){true}), 1);
}
