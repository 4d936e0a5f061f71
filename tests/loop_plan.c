/* loop_plan.c - the arena plan: its rules one by one on programs of a few calls, then its
 * promise on thousands of random ones: what lives at the same time never overlaps. Plans
 * look at buffers and calls only, so the programs here have no kernels. */
#include "loop/loop.h"
#include "tests/helpers.h"

#include <string.h>

typedef struct Fixture {
    Env e;
    Program p;
    Plan plan;
} Fixture;

static Fixture fixture(void)
{
    Fixture f;
    memset(&f, 0, sizeof f);
    return f;
}

/* A temporary of count bytes (i8). */
static int temp(Fixture *f, Dim count)
{
    *vec_push(&f->e.model, &f->p.buffer) =
        (Buffer){.kind = BUF_TEMP, .dtype = DT_I8, .count = count};
    return f->p.buffer.n - 1;
}

/* A call that writes out and reads two others (-1: none). */
static void call(Fixture *f, int out, int in_1, int in_2)
{
    Call c = {0};
    int args[] = {out, in_1, in_2};
    for (size_t i = 0; i < countof(args); i++) {
        if (args[i] >= 0) {
            *vec_push(&f->e.model, &c.arg) = (Arg){.buffer = args[i]};
        }
    }
    *vec_push(&f->e.model, &f->p.call) = c;
}

static void plan(Fixture *f, int64_t s0)
{
    int64_t sizes[MAX_SYMBOLS] = {s0};
    program_lifetimes(&f->p);
    plan_init(&f->plan, &f->p, &f->e.model);
    cr_assert(plan_update(&f->plan, &f->p, sizes));
}

static void assert_offset(const Fixture *f, int buffer, int64_t at)
{
    cr_assert_eq(f->plan.offset[buffer], at, "buffer %d is at %lld, not %lld", buffer,
                 (long long)f->plan.offset[buffer], (long long)at);
}

Test(loop_plan, sizes_are_at_least_one_byte_and_multiples_of_64)
{
    static const int64_t count[] = {0, 1, 63, 64, 65, 128, 1000};
    static const int64_t bytes[] = {64, 64, 64, 64, 128, 128, 1024};
    Fixture f = fixture();
    env_init(&f.e);
    for (size_t i = 0; i < countof(count); i++) {
        call(&f, temp(&f, dim_int(count[i])), -1, -1);
    }
    plan(&f, 0);
    for (size_t i = 0; i < countof(count); i++) {
        cr_assert_eq(f.plan.bytes[i], bytes[i]);
    }
    cr_assert_eq(f.plan.total_bytes, 64 * 4 + 128 * 2 + 1024);
    env_release(&f.e);
}

Test(loop_plan, output_never_takes_the_place_of_an_operand_read_last_by_the_same_call)
{
    Fixture f = fixture();
    env_init(&f.e);
    int a = temp(&f, dim_int(64)), b = temp(&f, dim_int(64)), c = temp(&f, dim_int(64));
    call(&f, a, -1, -1);
    call(&f, b, a, -1);
    call(&f, c, b, -1);
    plan(&f, 0);
    assert_offset(&f, a, 0);
    assert_offset(&f, b, 64);
    assert_offset(&f, c, 0); /* a died one call earlier */
    cr_assert_eq(f.plan.arena_bytes, 128);
    cr_assert_eq(f.plan.total_bytes, 192);
    env_release(&f.e);
}

Test(loop_plan, output_that_nobody_reads_dies_at_once)
{
    Fixture f = fixture();
    env_init(&f.e);
    for (int i = 0; i < 5; i++) {
        call(&f, temp(&f, dim_int(100)), -1, -1);
    }
    plan(&f, 0);
    for (int i = 0; i < 5; i++) {
        assert_offset(&f, i, 0);
    }
    cr_assert_eq(f.plan.arena_bytes, 128);
    env_release(&f.e);
}

/* Six buffers in a row; then some die, in whatever order, and one more is placed. */
static void assert_placed(const int64_t *bytes, const char *dead, int64_t want, int64_t at,
                          int64_t top)
{
    Fixture f = fixture();
    env_init(&f.e);
    int b[6], n_dead = (int)strlen(dead);
    for (int i = 0; i < 6; i++) {
        b[i] = temp(&f, dim_int(bytes[i]));
        call(&f, b[i], -1, -1);
    }
    for (int i = 0; i < n_dead;
         i++) { /* the call's own output is over at once, above the rest */
        call(&f, temp(&f, dim_int(1)), b[dead[i] - '0'], -1);
    }
    int placed = temp(&f, dim_int(want));
    call(&f, placed, -1, -1);
    for (int i = 0; i < 6; i++) {
        if (!strchr(dead, '0' + i)) {
            call(&f, temp(&f, dim_int(1)), b[i], -1);
        }
    }
    plan(&f, 0);
    assert_offset(&f, placed, at);
    cr_assert_eq(f.plan.arena_bytes, top);
    env_release(&f.e);
}

static const int64_t mixed[] = {640, 64, 256, 64, 320, 64};
enum { MIXED_TOP = 640 + 64 + 256 + 64 + 320 + 64 };

Test(loop_plan, smallest_sufficient_block_wins)
{
    assert_placed(mixed, "024", 256, 704, MIXED_TOP + 64);
    assert_placed(mixed, "420", 300, 1024, MIXED_TOP + 64);
}

Test(loop_plan, lowest_of_equal_blocks_wins)
{
    static const int64_t equal[] = {128, 64, 128, 64, 128, 64};
    assert_placed(equal, "420", 128, 0, 576 + 64);
    assert_placed(equal, "42", 128, 192, 576 + 64);
}

Test(loop_plan, remainder_of_a_block_stays_free)
{
    Fixture f = fixture();
    env_init(&f.e);
    int a = temp(&f, dim_int(256)), end = temp(&f, dim_int(64));
    int b = temp(&f, dim_int(64)), c = temp(&f, dim_int(192));
    call(&f, a, -1, -1);
    call(&f, end, a, -1);
    call(&f, b, -1, -1);
    call(&f, c, -1, -1);
    call(&f, temp(&f, dim_int(1)), b, c);
    call(&f, temp(&f, dim_int(1)), end, -1);
    plan(&f, 0);
    assert_offset(&f, b, 0);
    assert_offset(&f, c, 64);
    env_release(&f.e);
}

Test(loop_plan, adjacent_free_blocks_merge)
{
    assert_placed(mixed, "012", 960, 0, MIXED_TOP + 64); /* from the left */
    assert_placed(mixed, "210", 960, 0, MIXED_TOP + 64); /* from the right */
    assert_placed(mixed, "021", 960, 0, MIXED_TOP + 64); /* on both sides at once */
}

Test(loop_plan, free_block_at_the_top_is_not_extended)
{
    Fixture f = fixture();
    env_init(&f.e);
    int a = temp(&f, dim_int(64)), b = temp(&f, dim_int(64)), c = temp(&f, dim_int(128));
    call(&f, a, -1, -1);
    call(&f, b, -1, -1); /* dies: a free block of 64 at the top */
    call(&f, c, a, -1);
    plan(&f, 0);
    assert_offset(&f, c, 128);
    cr_assert_eq(f.plan.arena_bytes, 256);
    env_release(&f.e);
}

Test(loop_plan, only_temporaries_have_a_place)
{
    Fixture f = fixture();
    env_init(&f.e);
    int t = temp(&f, dim_int(64)), in = temp(&f, dim_int(64)), out = temp(&f, dim_int(64));
    f.p.buffer.at[in].kind = BUF_INPUT;
    f.p.buffer.at[out].kind = BUF_OUTPUT;
    call(&f, t, in, -1);
    call(&f, out, t, in);
    plan(&f, 0);
    assert_offset(&f, t, 0);
    assert_offset(&f, in, -1);
    assert_offset(&f, out, -1);
    cr_assert_eq(f.plan.total_bytes, 64);
    env_release(&f.e);
}

Test(loop_plan, lifetimes_run_from_the_first_write_to_the_last_touch)
{
    Fixture f = fixture();
    env_init(&f.e);
    int a = temp(&f, dim_int(1)), b = temp(&f, dim_int(1)), unread = temp(&f, dim_int(1));
    call(&f, a, -1, -1);
    call(&f, unread, -1, -1);
    call(&f, b, a, a);
    call(&f, a, b, -1); /* written again: it must live until then */
    program_lifetimes(&f.p);
    cr_assert_eq(f.p.buffer.at[a].first, 0);
    cr_assert_eq(f.p.buffer.at[a].last, 3);
    cr_assert_eq(f.p.buffer.at[unread].first, 1);
    cr_assert_eq(f.p.buffer.at[unread].last, 1);
    cr_assert_eq(f.p.buffer.at[b].first, 2);
    cr_assert_eq(f.p.buffer.at[b].last, 3);
    env_release(&f.e);
}

static void update_at(Fixture *f, int64_t s0, bool fits)
{
    int64_t sizes[MAX_SYMBOLS] = {s0};
    cr_assert_eq(plan_update(&f->plan, &f->p, sizes), fits, "s0 = %lld", (long long)s0);
}

static void plan_of_symbolic_sizes(Env *e, void *arg)
{
    Fixture *f = arg;
    Dim s = dim_named(e, "s0"), square = dim_mul(e, s, s);
    int a = temp(f, square), b = temp(f, dim_addk(e, square, 1));
    call(f, a, -1, -1);
    call(f, b, a, -1);
    plan(f, 8);
    cr_assert_eq(f->plan.arena_bytes, 64 + 128);
    update_at(f, 100, true);
    cr_assert_eq(f->plan.arena_bytes, 10048 + 10048);
    update_at(f, (int64_t)1 << 32, false); /* the square needs 2^64 bytes */
    update_at(f, 3037000499, false);       /* each fits, their sum does not */
    update_at(f, 8, true);
    cr_assert_eq(f->plan.arena_bytes, 64 + 128);
}

Test(loop_plan, update_follows_sizes_and_refuses_those_beyond_2_63_bytes)
{
    Fixture f = fixture();
    env_init(&f.e);
    must_work(&f.e, plan_of_symbolic_sizes, &f);
    env_release(&f.e);
}

/* ---- random programs -------------------------------------------------------------------- */

static void random_program(Fixture *f, Rng *r)
{
    int n = 1 + (int)rng_below(r, 60);
    for (int c = 0; c < n; c++) {
        Dim count = dim_int((int64_t)rng_below(r, rng_below(r, 4) ? 700 : 5000));
        int back = c < 12 ? c : 12;
        int in_1 = back ? c - 1 - (int)rng_below(r, (uint64_t)back) : -1;
        int in_2 = back && rng_below(r, 2) ? (int)rng_below(r, (uint64_t)c) : -1;
        call(f, temp(f, count), in_1, in_2);
    }
    plan(f, 0);
}

static bool overlap(int64_t a, int64_t a_end, int64_t b, int64_t b_end)
{
    return a < b_end && b < a_end;
}

static void assert_no_overlap(const Fixture *f, uint64_t seed)
{
    const Plan *p = &f->plan;
    int64_t top = 0;
    for (int i = 0; i < f->p.buffer.n; i++) {
        const Buffer *a = &f->p.buffer.at[i];
        int64_t a_end = p->offset[i] + p->bytes[i];
        cr_assert(p->offset[i] >= 0 && p->offset[i] % 64 == 0 && p->bytes[i] >= a->count.k);
        top = a_end > top ? a_end : top;
        for (int j = 0; j < i; j++) {
            const Buffer *b = &f->p.buffer.at[j];
            bool together = a->first <= b->last && b->first <= a->last;
            bool shared =
                overlap(p->offset[i], a_end, p->offset[j], p->offset[j] + p->bytes[j]);
            cr_assert(!(together && shared), "seed %llu: buffers %d and %d overlap",
                      (unsigned long long)seed, i, j);
        }
    }
    cr_assert_eq(p->arena_bytes, top);
    cr_assert_leq(p->arena_bytes, p->total_bytes);
}

Test(loop_plan, live_buffers_never_overlap_in_random_programs)
{
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        Fixture f = fixture();
        Rng r;
        env_init(&f.e);
        rng_seed(&r, seed);
        random_program(&f, &r);
        assert_no_overlap(&f, seed);
        env_release(&f.e);
    }
}
