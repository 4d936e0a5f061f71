/* schedules_odd.c - defaults on every combination of awkward sizes: m, n and k of 1, 2, 3 and
 * primes around the widths of vectors and tiles, with a constant factor and with a computed
 * one, and with no rows at all. */
#include "tests/schedules_util.h"

#include <string.h>

static const int odd[] = {1, 2, 3, 17, 31, 97, 127};

static const Program *contraction(Env *e, int n, int k, const char *kind, const char *shape)
{
    const char *text = arena_printf(
        &e->model,
        "graph g\nx = input f32[seq, %d]\nw = %s f32[%d, %d]\n%sy = matmul x, %s\nreturn y=y\n",
        k, kind, *shape == 't' ? n : k, *shape == 't' ? k : n,
        *shape == 't' ? "t = permute w perm=[1, 0]\n" : "", *shape == 't' ? "t" : "w");
    return compiled(e, ncg_parse(e, text, strlen(text), "test.ncg"), 0, NULL);
}

typedef struct OddCase {
    const char *kind, *shape; /* of the second factor: weight or input, transposed or not */
    int64_t usual;
} OddCase;

static void check_odd(Env *e, void *arg)
{
    static const int64_t rows[] = {0, 1, 2, 3, 17, 31, 97, 127};
    const OddCase *c = arg;
    Bulk b = {.bench = {.e = e}};
    Toolchain tc;
    toolchain_find(e, &tc);
    PickHint hint = hint_at(tc.target, 3, c->usual);
    for (size_t n = 0; n < countof(odd); n++) {
        for (size_t k = 0; k < countof(odd); k++) {
            bulk_add_defaults(&b, contraction(e, odd[n], odd[k], c->kind, c->shape), &hint);
        }
    }
    bench_compile(&b.bench, NULL);
    for (size_t m = 0; m < countof(rows); m++) {
        bulk_check(&b, rows[m], 1, m);
    }
    bench_close(&b.bench);
}

static void run_odd(OddCase c)
{
    Env e;
    env_init(&e);
    must_work(&e, check_odd, &c);
    env_release(&e);
}

TestSuite(schedules_odd, .timeout = 1200);

Test(schedules_odd, weights_transposed_for_any_rows)
{
    run_odd((OddCase){"weight", "transposed", -1});
}

Test(schedules_odd, weights_for_one_row)
{
    run_odd((OddCase){"weight", "rows", 1});
}

Test(schedules_odd, computed_factors_for_many_rows)
{
    run_odd((OddCase){"input", "transposed", 97});
}

Test(schedules_odd, computed_factors_for_three_rows)
{
    run_odd((OddCase){"input", "rows", 3});
}

/* The widest output of the model, once: 151936 columns. */
static void check_wide(Env *e, void *arg)
{
    (void)arg;
    Bulk b = {.bench = {.e = e}};
    PickHint hint = hint_at(target_generic(), 2, 1);
    bulk_add_defaults(&b, contraction(e, 151936, 3, "weight", "transposed"), &hint);
    bench_compile(&b.bench, hint.target);
    bulk_check(&b, 1, 1, 1);
    bench_close(&b.bench);
}

Test(schedules_odd, the_widest_output)
{
    Env e;
    env_init(&e);
    must_work(&e, check_wide, NULL);
    env_release(&e);
}
