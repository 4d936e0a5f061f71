/* run_verify_bounds.c - what verification compares with: the double evaluation of a nest, its bounds, samples,
 * random sums and inputs. Bounds hold for every schedule, and are not so wide that a lost product fits in. */
#include "run/verify_int.h"
#include "tests/env_fixture.h"
#include "tests/verify_util.h"

#include <math.h>
#include <string.h>

TestSuite(verify_bounds, .init = start, .fini = stop, .timeout = 600);

/* ---- a kernel with its operands filled ---- */

typedef struct Filled {
    const Kernel *naive;
    void *params[8];
    int64_t n_elems[8];
    const int64_t *syms;
} Filled;

static Filled filled(Env *e, const Kernel *k, const int64_t *syms, Round round, uint64_t seed)
{
    Filled f = {.naive = k, .syms = syms};
    Inputs in = inputs_of(k, syms, round, seed);
    for (int i = 0; i < k->operand.n; i++) {
        f.n_elems[i] = kernel_span(k, i, syms);
        f.params[i] = arena_alloc_n(&e->model, (size_t)f.n_elems[i] + 1, 8);
        if (i > 0) {
            inputs_fill(&in, k, i, syms, f.params[i], f.n_elems[i]);
        }
    }
    return f;
}

static Question ask(const Filled *f, const Kernel *scheduled, double unit)
{
    return (Question){f->naive, scheduled, f->params, f->n_elems, f->syms, unit, NULL};
}

/* ---- without steps it is the interpreter's value ---- */

static void same_as_interpreter(Env *e, void *arg)
{
    static const struct {
        const char *text;
        int64_t syms[2];
        bool libm;
    } rows[] = {{product_text, {67}, false}, {norm_text, {70}, false},
                {score_text, {5, 3}, false}, {lookup_text, {9}, false},
                {strided_text, {9}, false},  {rope_text, {11, 4}, true},
                {swiglu_text, {3}, true},    {rows_text, {2, 67}, true}};
    (void)arg;
    for (size_t i = 0; i < countof(rows); i++) {
        for (int round = 0; round < N_ROUNDS; round++) {
            const Kernel *k = kernel_from(e, rows[i].text);
            Filled f = filled(e, k, rows[i].syms, (Round)round, i);
            int code = nest_run(e, k, f.params, f.n_elems, f.syms);
            Question q = ask(&f, k, 0);
            Expected want = bound_elements(e, &q);
            cr_assert_eq(want.code, code, "%s", rows[i].text);
            for (int64_t n = 0; n < want.n && !code; n++) {
                const Element *x = &want.at[n];
                double got = ((float *)f.params[0])[x->index];
                bool same = (isnan(got) && isnan(x->v)) ||
                            (got == x->v && !signbit(got) == !signbit(x->v));
                bool near = isinf(x->err) || fabs(got - x->v) <= x->err || same;
                cr_assert(rows[i].libm || x->err == 0);
                cr_assert(x->err == 0 ? same : near,
                          "element %lld is %.9g, not %.9g +- %.3g\n%s", (long long)x->index,
                          got, x->v, x->err, rows[i].text);
            }
            env_reset_kernel(e);
        }
    }
}

Test(verify_bounds, a_nest_without_steps_has_the_interpreters_bits)
{
    must_work(&env, same_as_interpreter, NULL);
}

/* ---- bounds hold, and are close ---- */

static void hold(Env *e, void *arg)
{
    static const struct {
        const char *text, *steps;
        int64_t syms[2];
        double least; /* of the largest error, as a part of its bound */
    } rows[] = {
        {product_text, "split k 16 peel; acc k.i; fma", {64}, 0.2},
        {product_text, "split k 4 peel; acc k.i", {64}, 0.2},
        {product_text, "fma", {64}, 0.2},
        {product_text, "split k 3 switch; acc k.i", {64}, 0.2},
        {product_text, "split k 8 mask; acc k.i", {64}, 0.2},
        {long_text, "split k 16; acc k.i; fma", {8}, 0.005},
        {long_text, "fma", {8}, 0.002},
        {norm_text, "split r 8; split r.i 4; acc r.i.i; fma", {64}, 0.1},
        {rows_text, "split r 16 peel; acc r.i; approx exp", {8, 100}, 0.05},
        {rows_text, "approx exp", {8, 1000}, 0.02},
        {rows_text, "approx exp fma", {8, 1000}, 0.02},
        {swiglu_text, "split k 8 peel; acc k.i; fma; approx exp", {16}, 0.1},
        {score_text, "split k 8; acc k.i; fma", {20, 4}, 0.2},
    };
    (void)arg;
    for (size_t i = 0; i < countof(rows); i++) {
        const Kernel *k = kernel_from(e, rows[i].text), *s = kernel_under(e, k, rows[i].steps);
        double most = 0;
        for (uint64_t seed = 0; seed < 4; seed++) {
            Filled f = filled(e, k, rows[i].syms, ROUND_FLOATS, seed);
            Question q = ask(&f, s, 0);
            nest_run(e, s, f.params, f.n_elems, f.syms);
            Expected want = bound_elements(e, &q);
            for (int64_t n = 0; n < want.n; n++) {
                double got = ((float *)f.params[0])[want.at[n].index];
                double part = want.at[n].err > 0 ? fabs(got - want.at[n].v) / want.at[n].err
                                                 : got != want.at[n].v;
                cr_assert(part < 1, "element %lld of %s\n%s", (long long)n, rows[i].text,
                          rows[i].steps);
                most = fmax(most, part);
            }
            env_reset_kernel(e);
        }
        cr_expect(most > rows[i].least, "%g: %s", most, rows[i].steps);
    }
}

Test(verify_bounds, bounds_hold_and_are_not_vacuous)
{
    must_work(&env, hold, NULL);
}

/* The first, a middle and the last product of 4,864, in turn left out of each element: seen by the bound alone. */
static void lost_products(Env *e, void *arg)
{
    static const char *const steps[] = {"fma", "split k 16; order m n k.o k.i; acc k.i; fma"};
    static const double least[] = {0.85, 0.95};
    static const int64_t syms[] = {20};
    (void)arg;
    for (size_t i = 0; i < countof(steps); i++) {
        const Kernel *k = kernel_from(e, long_text), *s = kernel_under(e, k, steps[i]);
        Filled f = filled(e, k, syms, ROUND_FLOATS, 3);
        const float *y = f.params[0], *a = f.params[1], *b = f.params[2];
        Question q = ask(&f, s, 0);
        nest_run(e, s, f.params, f.n_elems, f.syms);
        Expected want = bound_elements(e, &q);
        int seen = 0, all = 0;
        for (int64_t n = 0; n < want.n; n++) {
            static const int lost[] = {0, 2431, 4863};
            const Element *x = &want.at[n];
            int64_t row = x->index / 6, column = x->index % 6;
            for (size_t l = 0; l < countof(lost); l++) {
                double product = (double)a[row * 4864 + lost[l]] * b[column * 4864 + lost[l]];
                seen += fabs(y[x->index] - product - x->v) > x->err;
                all++;
            }
        }
        cr_expect(seen >= least[i] * all, "%d of %d: %s", seen, all, steps[i]);
        env_reset_kernel(e);
    }
}

Test(verify_bounds, a_lost_product_of_4864_is_outside_the_bound)
{
    must_work(&env, lost_products, NULL);
}

static void integers_are_exact(Env *e, void *arg)
{
    static const int64_t syms[] = {7};
    const Kernel *k = kernel_from(e, long_text);
    const Kernel *s = kernel_under(e, k, "split k 16; order m n k.o k.i; acc k.i; fma");
    Filled f = filled(e, k, syms, ROUND_INTEGERS, 1);
    Question q = ask(&f, s, 1);
    (void)arg;
    nest_run(e, s, f.params, f.n_elems, f.syms);
    Expected want = bound_elements(e, &q);
    for (int64_t i = 0; i < want.n; i++) {
        cr_assert_eq(want.at[i].err, 0);
        cr_assert_eq((double)((float *)f.params[0])[want.at[i].index], want.at[i].v);
    }
}

Test(verify_bounds, small_integers_leave_no_room)
{
    must_work(&env, integers_are_exact, NULL);
}

Test(verify_bounds, the_polynomial_exp_is_within_what_is_assumed)
{
    static const ScalarOp ways[] = {S_EXP_APPROX, S_EXP_FUSED};
    for (size_t i = 0; i < countof(ways); i++) {
        double most = 0;
        for (double x = -86.99; x < 88.7; x += 1e-4) {
            float got = scalar_eval(ways[i], DT_F32, (Value){.f = (float)x}, (Value){.i = 0}).f;
            double want = exp((double)(float)x);
            most = fmax(most, fabs(got - want) / want);
        }
        cr_expect(most < 4e-7, "%g", most);
    }
}

/* ---- samples ---- */

static void latin(Env *e, void *arg)
{
    static const int64_t syms[] = {300};
    const Kernel *k = kernel_from(e, product_text);
    Filled f = filled(e, k, syms, ROUND_FLOATS, 1);
    Sample s = sample_of(e, k, f.params, f.n_elems, syms, 300 * 600, 5);
    (void)arg;
    cr_assert(s.n_points >= 300 && s.n_points < 300 * 45 / 4, "%lld", (long long)s.n_points);
    nest_run(e, k, f.params, f.n_elems, syms);
    Question q = {s.k, s.k, s.params, s.n_elems, syms, 0, NULL};
    Expected want = bound_elements(e, &q);
    bool row[300] = {false}, column[45] = {false};
    cr_assert_eq(want.n, s.n_points);
    for (int64_t i = 0; i < want.n; i++) {
        const Element *x = &want.at[i];
        cr_assert_eq((double)((float *)f.params[0])[x->index], x->v);
        row[x->index / 45] = column[x->index % 45] = true;
    }
    for (int i = 0; i < 300; i++) {
        cr_assert(row[i] && column[i % 45]);
    }
}

Test(verify_bounds, a_sample_meets_each_row_and_each_column)
{
    must_work(&env, latin, NULL);
}

static void rows(Env *e, void *arg)
{
    static const int64_t syms[] = {400, 50};
    const Kernel *k = kernel_from(e, rows_text);
    Filled f = filled(e, k, syms, ROUND_FLOATS, 1);
    Sample s = sample_of(e, k, f.params, f.n_elems, syms, 20000, 5);
    (void)arg;
    cr_assert(s.n_points > 100 && s.n_points < 5000, "%lld", (long long)s.n_points);
    nest_run(e, k, f.params, f.n_elems, syms);
    float *again = arena_alloc_n(&e->model, (size_t)f.n_elems[0] + 1, sizeof *again);
    Question q = {s.k, s.k, s.params, s.n_elems, syms, 0, NULL};
    s.params[0] = again;
    cr_assert_eq(nest_run(e, s.k, s.params, s.n_elems, syms), 0);
    Expected want = bound_indices(e, &q);
    for (int64_t i = 0; i < want.n; i++) {
        cr_assert_eq(((float *)f.params[0])[want.at[i].index], again[want.at[i].index]);
    }
}

Test(verify_bounds, a_sample_of_rows_runs_in_the_interpreter)
{
    must_work(&env, rows, NULL);
}

/* ---- random sums ---- */

static void random_sums(Env *e, void *arg)
{
    static const struct {
        const char *text;
        int64_t syms[2];
        bool applies;
    } cases[] = {{product_text, {70}, true}, {long_text, {5}, true},
                 {score_text, {9, 4}, true}, {swiglu_text, {5}, false},
                 {rows_text, {3, 9}, false}, {rope_text, {5, 1}, false}};
    (void)arg;
    for (size_t i = 0; i < countof(cases); i++) {
        const Kernel *k = kernel_from(e, cases[i].text);
        Filled f = filled(e, k, cases[i].syms, ROUND_INTEGERS, 4);
        Question q = ask(&f, k, 1);
        Mismatch m;
        nest_run(e, k, f.params, f.n_elems, f.syms);
        cr_assert_eq(freivalds(e, &q, f.params[0], 1, &m), cases[i].applies, "%s",
                     cases[i].text);
        cr_assert_eq(m.index, -1);
        for (int64_t at = 0; cases[i].applies && at < f.n_elems[0]; at += 7) {
            float *y = f.params[0];
            y[at] += 1;
            freivalds(e, &q, y, (uint64_t)at, &m);
            cr_assert_eq(m.index, at);
            cr_assert_eq(m.got - m.want, 1);
            y[at] -= 1;
            env_reset_kernel(e);
        }
    }
}

Test(verify_bounds, a_random_sum_finds_any_wrong_element)
{
    must_work(&env, random_sums, NULL);
}

static void float_sums(Env *e, void *arg)
{
    static const int64_t syms[] = {40};
    const Kernel *k = kernel_from(e, product_text),
                 *s = kernel_under(e, k, "split k 8 peel; acc k.i; fma");
    Mismatch m;
    (void)arg;
    for (uint64_t seed = 0; seed < 20; seed++) {
        Filled f = filled(e, k, syms, ROUND_FLOATS, seed);
        float *y = f.params[0];
        Question q = ask(&f, s, 0);
        nest_run(e, s, f.params, f.n_elems, syms);
        cr_assert(freivalds(e, &q, y, seed, &m) && m.index < 0);
        y[seed * 7] += 0.01f;
        cr_assert(freivalds(e, &q, y, seed, &m));
        cr_assert_eq(m.index, (int64_t)seed * 7);
        y[seed * 7] = NAN;
        cr_assert(freivalds(e, &q, y, seed, &m));
        cr_assert_eq(m.index, (int64_t)seed * 7);
        env_reset_kernel(e);
    }
}

Test(verify_bounds, on_floats_random_sums_have_a_bound_of_their_own)
{
    must_work(&env, float_sums, NULL);
}

/* ---- inputs and sizes ---- */

static void indices(Env *e, void *arg)
{
    static const int64_t syms[] = {2000};
    const Kernel *k = kernel_from(e, lookup_text);
    (void)arg;
    for (int round = 0; round < N_ROUNDS; round++) {
        Filled f = filled(e, k, syms, (Round)round, 1);
        bool met[12] = {false};
        for (int64_t i = 0; i < f.n_elems[1]; i++) {
            int64_t index = ((int64_t *)f.params[1])[i];
            cr_assert(index >= 0 && index <= 11);
            met[index] = true;
        }
        for (int i = 0; i < 11; i++) {
            cr_assert(met[i]);
        }
        cr_assert_eq(met[11], round == ROUND_BAD_INDEX);
    }
}

Test(verify_bounds, indices_cover_the_range_that_the_nest_checks)
{
    must_work(&env, indices, NULL);
}

static const char bf16_text[] =
    "kernel copy\ny: f32[s0]\nx0: const f32 from bf16[100]\naxis i space s0\n"
    "phase i\n    y[i] = x0[i]\n";

static void from_bf16(Env *e, void *arg)
{
    static const int64_t syms[] = {100};
    (void)arg;
    for (int round = 0; round < N_ROUNDS; round++) {
        Filled f = filled(e, kernel_from(e, bf16_text), syms, (Round)round, 1);
        const uint32_t *bits = f.params[1];
        for (int i = 0; i < 100; i++) {
            cr_assert_eq(bits[i] & 0xffff, 0);
        }
    }
}

Test(verify_bounds, what_comes_from_bf16_has_its_bits)
{
    must_work(&env, from_bf16, NULL);
}

static void each_tail(Env *e, void *arg)
{
    static const int64_t tuned[] = {64};
    const Kernel *k = kernel_from(e, product_text);
    const Kernel *s =
        kernel_under(e, k, "split m 6 switch; split n 8 peel; order m.o n.o m.i n.i k");
    int64_t *sizes;
    int n = sizes_of(&e->model, s, tuned, false, &sizes);
    bool alone[6] = {false}, behind[6] = {false};
    (void)arg;
    cr_assert_eq(sizes[0], 64);
    for (int i = 0; i < n; i++) {
        (sizes[i] < 6 ? alone : behind)[sizes[i] % 6] = true;
    }
    for (int r = 0; r < 6; r++) {
        cr_expect(alone[r], "%d", r);
    }
    cr_expect(behind[0] && behind[1] && behind[5]);
}

Test(verify_bounds, sizes_meet_each_remainder)
{
    must_work(&env, each_tail, NULL);
}

static const char capacity_text[] =
    "kernel copy\ny: f32[4*s0]\nx0: f32[4*s1]\naxis h space 4\naxis i space s1\n"
    "phase h i\n    y[h*s0 + i] = x0[h*s1 + i]\n";

static void capacities(Env *e, void *arg)
{
    static const int64_t tuned[] = {6, 5};
    int64_t *sizes;
    int n = sizes_of(&e->model, kernel_from(e, capacity_text), tuned, false, &sizes);
    (void)arg;
    cr_assert(n > 3);
    for (int i = 0; i < n; i++) {
        cr_expect(sizes[2 * i] == 6 && sizes[2 * i + 1] <= 5);
    }
}

Test(verify_bounds, a_capacity_is_kept)
{
    must_work(&env, capacities, NULL);
}
