/* loop_regions.c - calls that share a parallel region: who may, in which order, and that the arena plan
 * treats all of a region as alive together; by hand and on random programs. Only buffers matter, so
 * calls have no kernels: a call's number of origin is kept as its node. */
#include "loop/loop.h"
#include "tests/env_fixture.h"

#include <string.h>

TestSuite(loop_regions, .init = start, .fini = stop);

static Program program;

static int add_buffer(BufferKind kind, int64_t count)
{
    *vec_push(&env.model, &program.buffer) =
        (Buffer){.kind = kind, .dtype = DT_I8, .count = dim_int(count)};
    return program.buffer.n - 1;
}

static int temp(void)
{
    return add_buffer(BUF_TEMP, 64);
}

/* Writes out, reads two others (-1: none). */
static void call(int out, int in_1, int in_2)
{
    Call c = {.node = program.call.n};
    const int arg[] = {out, in_1, in_2};
    for (size_t i = 0; i < countof(arg); i++) {
        if (arg[i] >= 0) {
            *vec_push(&env.model, &c.arg) = (Arg){.buffer = arg[i]};
        }
    }
    *vec_push(&env.model, &program.call) = c;
}

static void group(Env *e, void *arg)
{
    (void)arg;
    program_lifetimes(&program);
    program_regions(e, &program);
}

/* "0 2 | 1": calls by the number they were added with; a bar where threads meet. */
static const char *regions(void)
{
    Buf b;
    buf_init(&b, &env.model);
    must_work(&env, group, NULL);
    for (int i = 0; i < program.call.n; i++) {
        const Call *c = &program.call.at[i];
        buf_printf(&b, "%d%s", c->node,
                   i + 1 == program.call.n ? ""
                   : c->with_next          ? " "
                                           : " | ");
    }
    return b.at;
}

Test(loop_regions, readers_of_one_buffer_share_a_region)
{
    int x = add_buffer(BUF_INPUT, 64), q = temp(), k = temp(), v = temp();
    call(q, x, -1);
    call(k, x, -1);
    call(v, x, -1);
    cr_assert_str_eq(regions(), "0 1 2");
    cr_assert_not(program.call.at[2].with_next);
}

Test(loop_regions, who_reads_what_another_writes_comes_behind_it)
{
    int x = add_buffer(BUF_INPUT, 64), a = temp(), b = temp(), c = temp();
    call(a, x, -1);
    call(b, a, -1);
    call(c, b, a);
    cr_assert_str_eq(regions(), "0 | 1 | 2");
}

/* The order that attention is lowered in: v is only needed behind the scores. */
Test(loop_regions, independent_calls_are_brought_together)
{
    int x = add_buffer(BUF_INPUT, 64), cache = add_buffer(BUF_INPUT, 64);
    int q = temp(), k = temp(), turned = temp(), scores = temp(), v = temp(), out = temp();
    call(q, x, -1);
    call(turned, q, -1);
    call(k, x, -1);
    call(cache, k, -1);
    call(scores, turned, cache);
    call(v, x, -1);
    call(out, scores, v);
    cr_assert_str_eq(regions(), "0 2 5 | 1 3 | 4 | 6");
}

Test(loop_regions, who_writes_what_another_reads_or_writes_comes_behind_it)
{
    int cache = add_buffer(BUF_INPUT, 64), x = add_buffer(BUF_INPUT, 64), a = temp();
    call(a, cache, -1);
    call(cache, x, -1);
    call(cache, x, -1);
    cr_assert_str_eq(regions(), "0 | 1 | 2");
}

Test(loop_regions, temporaries_live_until_their_region_ends)
{
    int x = add_buffer(BUF_INPUT, 64), a = temp(), b = temp(), c = temp();
    call(a, x, -1);
    call(b, a, -1);
    call(c, x, -1);
    cr_assert_str_eq(regions(), "0 2 | 1");
    cr_assert_eq(program.buffer.at[a].first, 0);
    cr_assert_eq(program.buffer.at[a].last, 2);
    cr_assert_eq(program.buffer.at[c].first, 1);
    cr_assert_eq(program.buffer.at[c].last, 1, "not read, but its region ends there");
}

/* ---- random programs ---- */

enum { N_PROGRAMS = 500, MOST_CALLS = 60 };

static void random_program(Rng *r)
{
    int n = 1 + (int)rng_below(r, MOST_CALLS);
    program = (Program){0};
    add_buffer(BUF_INPUT, 64);
    for (int c = 0; c < n; c++) {
        int in_1 = (int)rng_below(r, (uint64_t)program.buffer.n);
        int in_2 = rng_below(r, 2) ? (int)rng_below(r, (uint64_t)program.buffer.n) : -1;
        int out = rng_below(r, 8) ? add_buffer(BUF_TEMP, 1 + (int64_t)rng_below(r, 700)) : 0;
        call(out, in_1 == out ? -1 : in_1, in_2 == out ? -1 : in_2);
    }
}

static bool reads(const Call *c, int buffer)
{
    bool found = false;
    for (int i = 0; i < c->arg.n; i++) {
        found = found || c->arg.at[i].buffer == buffer;
    }
    return found;
}

static bool depend(const Call *a, const Call *b)
{
    return reads(a, b->arg.at[0].buffer) || reads(b, a->arg.at[0].buffer);
}

/* Of the call at this place. */
static int region_of(int at)
{
    int region = 0;
    for (int i = 0; i < at; i++) {
        region += !program.call.at[i].with_next;
    }
    return region;
}

static void order_is_kept(uint64_t seed)
{
    for (int b = 0; b < program.call.n; b++) {
        for (int a = 0; a < b; a++) {
            const Call *x = &program.call.at[a], *y = &program.call.at[b];
            cr_assert(!depend(x, y) || (x->node < y->node && region_of(a) < region_of(b)),
                      "seed %llu: calls %d and %d", (unsigned long long)seed, x->node, y->node);
        }
    }
}

static void all_of_a_region_has_its_own_memory(const Plan *plan, uint64_t seed)
{
    for (int b = 0; b < program.call.n; b++) {
        for (int a = 0; a < program.call.n; a++) {
            const Call *x = &program.call.at[a], *y = &program.call.at[b];
            int out = x->arg.at[0].buffer;
            for (int i = 0; a != b && region_of(a) == region_of(b) && i < y->arg.n; i++) {
                int other = y->arg.at[i].buffer;
                bool apart = plan->offset[out] < 0 || plan->offset[other] < 0 ||
                             plan->offset[out] + plan->bytes[out] <= plan->offset[other] ||
                             plan->offset[other] + plan->bytes[other] <= plan->offset[out];
                cr_assert(apart, "seed %llu: buffers %d and %d", (unsigned long long)seed, out,
                          other);
            }
        }
    }
}

Test(loop_regions, random_programs_keep_their_order_and_their_memory)
{
    for (uint64_t seed = 1; seed <= N_PROGRAMS; seed++) {
        static const int64_t sizes[MAX_SYMBOLS];
        Plan plan;
        Rng r;
        rng_seed(&r, seed);
        random_program(&r);
        must_work(&env, group, NULL);
        plan_init(&plan, &program, &env.model);
        cr_assert(plan_update(&plan, &program, sizes));
        order_is_kept(seed);
        all_of_a_region_has_its_own_memory(&plan, seed);
    }
}
