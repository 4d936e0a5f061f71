/* schedule_fuzz.c - random steps in any order, most of them meant for nothing: what is not refused keeps the meaning.
 * Each legal schedule is verified as a compiled candidate is, but run by the nest interpreter, where an access
 * outside of an operand is an error. 400 schedules in `make test`, 20,000 with NC_FULL; a failure prints its seed. */
#include <stdlib.h>
#include <string.h>

#include "tests/verify_util.h"

static const char two_axes_text[] = "kernel reduce\n"
                                    "y: f32[s0]\n"
                                    "x0: f32[77*s0]\n"
                                    "axis i space s0\n"
                                    "axis r reduce 7\n"
                                    "axis q reduce 11\n"
                                    "phase i r q\n"
                                    "    acc0: f32 = 0.0f -> acc0 + x0[i*77 + r*11 + q]\n"
                                    "    y[i] = acc0\n";

/* ---- random steps ---- */

static const char *any_axis(Rng *r, const Kernel *k)
{
    return k->nest.axis.at[rng_below(r, (uint64_t)k->nest.axis.n)].name;
}

static const char *any_operand(Rng *r, const Kernel *k)
{
    return k->operand.at[1 + rng_below(r, (uint64_t)k->operand.n - 1)].name;
}

static void put_split(Rng *r, const Kernel *k, Buf *out)
{
    static const char *const tails[] = {"", "peel", "mask", "pad", "overlap", "switch"};
    static const int factors[] = {2, 3, 4, 5, 8, 16};
    int factor = factors[rng_below(r, countof(factors))];
    buf_printf(out, "split %s %d %s", any_axis(r, k), factor,
               tails[rng_below(r, countof(tails))]);
}

static void put_order(Rng *r, const Kernel *k, Buf *out)
{
    const Phase *p = &k->nest.phase.at[rng_below(r, (uint64_t)k->nest.phase.n)];
    int n = p->loops.n, *list = arena_dup(out->arena, p->loops.at, (size_t)n * sizeof *list);
    buf_str(out, "order");
    for (int swap = 0; swap < 2 && n > 1; swap++) {
        int i = (int)rng_below(r, (uint64_t)n), j = (int)rng_below(r, (uint64_t)n), t = list[i];
        list[i] = list[j];
        list[j] = t;
    }
    for (int i = 0; i < n; i++) {
        buf_printf(out, " %s", k->nest.axis.at[list[i]].name);
    }
}

static void put_step(Rng *r, const Kernel *k, Buf *out)
{
    static const char *const whole[] = {"fma",      "approx exp", "keep t1 r",
                                        "cut n s0", "cut j 8",    "cut i 3"};
    static const char *const on_axis[] = {"acc", "vec", "unroll", "par", "resume"};
    uint64_t kind = rng_below(r, 13);
    if (kind < 4) {
        put_split(r, k, out);
    } else if (kind < 6) {
        put_order(r, k, out);
    } else if (kind < 11) {
        buf_printf(out, "%s %s", on_axis[kind - 6], any_axis(r, k));
    } else if (kind == 11) {
        buf_str(out, whole[rng_below(r, countof(whole))]);
    } else {
        buf_printf(out, "stage %s %s", any_operand(r, k), any_axis(r, k));
    }
}

/* The naive kernel after up to 9 steps, each tried on what the ones before it left. */
static const Kernel *any_schedule(Env *e, Rng *r, const Kernel *naive)
{
    const Kernel *k = naive;
    const char *steps = "";
    int n_steps = 1 + (int)rng_below(r, 9);
    for (int tries = 3 * n_steps; tries > 0 && n_steps > 0; tries--) {
        Buf text;
        Schedule s;
        Err why;
        buf_init(&text, &e->model);
        buf_printf(&text, "%s; ", steps);
        put_step(r, k, &text);
        const Kernel *next = schedule_parse(text.at, &s, &why)
                                 ? kernel_schedule(e, &e->model, naive, &s, s.n, &why)
                                 : NULL;
        if (next) {
            k = next;
            steps = text.at;
            n_steps--;
        }
    }
    return k;
}

/* ---- verified by interpretation ---- */

typedef struct Runner {
    Env *e;
    const Kernel *k;
    int n_parts;
} Runner;

static int32_t interpret(void *ctx, KernelFn fn, void *const *params, const int64_t *syms)
{
    const Runner *x = ctx;
    int64_t n_elems[16];
    int32_t code = 0;
    (void)fn;
    for (int i = 0; i < x->k->operand.n; i++) {
        n_elems[i] = kernel_span(x->k, i, syms);
    }
    for (int part = x->n_parts - 1; part >= 0; part--) {
        int here = nest_run_part(x->e, x->k, params, n_elems, syms, part, x->n_parts);
        code = here > code ? here : code;
    }
    return code;
}

static void one_schedule(Env *e, void *arg)
{
    static const char *const texts[] = {product_text, swiglu_text,  rows_text,
                                        norm_text,    score_text,   rope_text,
                                        lookup_text,  strided_text, two_axes_text};
    const uint64_t *seed = arg;
    Rng r;
    rng_seed(&r, *seed);
    const char *text = texts[rng_below(&r, countof(texts))];
    const Kernel *naive = kernel_from(e, text), *k = any_schedule(e, &r, naive);
    int64_t syms[2] = {(int64_t)rng_below(&r, 14), (int64_t)rng_below(&r, 20)};
    Runner runner = {e, k, 1 + (int)rng_below(&r, 4)};
    BuiltKernel built = {.k = k, .run = interpret, .ctx = &runner};
    VerifyOptions o = {
        .syms = syms, .seed = *seed, .n_seeds = 1, .in_process = true, .work = 1e6};
    Verdict v;
    cr_assert(verify_kernel(e, naive, &built, &o, &v), "seed %llu: %s\n%s\n%s",
              (unsigned long long)*seed, v.text, k->schedule, text);
}

static void try_seed(uint64_t seed)
{
    Env e;
    env_init(&e);
    cr_assert(env_try(&e, one_schedule, &seed), "seed %llu: %s", (unsigned long long)seed,
              e.err.text);
    env_release(&e);
}

Test(schedule_fuzz, what_is_not_refused_keeps_the_meaning, .timeout = 3600)
{
    uint64_t n = getenv("NC_FULL") ? 20000 : 400;
    for (uint64_t seed = 1; seed <= n; seed++) {
        try_seed(seed);
    }
}

/* Private sums overflow to both infinities, beside a term that is infinite: NaN, and rightly so. */
Test(schedule_fuzz, overflow_in_another_order_is_no_fault)
{
    try_seed(5722);
}
