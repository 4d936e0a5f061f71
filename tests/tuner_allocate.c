/* tuner_allocate.c - tests of how time is dealt out among tasks: who is worth most, by the second. */
#include "tests/helpers.h"
#include "tuner/allocate.h"

#include <math.h>

#define SECOND UINT64_C(1000000000)

static Bid a_bid(double share)
{
    return (Bid){.share = share,
                 .headroom = 0.5,
                 .n_left = 10000,
                 .candidate_ns = SECOND / 2,
                 .start_ns = 40 * SECOND,
                 .start_least_ns = 10 * SECOND};
}

static Bid begun(double share)
{
    Bid b = a_bid(share);
    b.start_ns = b.start_least_ns = 0;
    return b;
}

/* ---- what it is worth ------------------------------------------------------------------------- */

Test(tuner_allocate, headroom_is_what_is_above_the_roofline)
{
    /* 1000 flops at 10 a ns, 400 bytes at 2 a ns: bytes bind, 200 ns. */
    cr_expect_float_eq(headroom_of(1000, 400, 10, 2, 800, 1), 0.75, 1e-12);
    cr_expect_float_eq(headroom_of(1000, 400, 10, 2, 800, 0.5), 0.25, 1e-12, "half is gone");
    cr_expect_float_eq(headroom_of(1000, 0, 10, 2, 800, 1), 1 - 100.0 / 800, 1e-12);
    cr_expect_eq(headroom_of(1000, 400, 10, 2, 100, 1), 0, "it is there already");
    cr_expect_float_eq(headroom_of(1000, 400, 0, 0, 800, 0.9), 0.9, 1e-12,
                       "no rates: all of it");
}

/* Exactly: of m + n + 1 in random order, is the best among the last n? */
Test(tuner_allocate, the_chance_of_a_better_one_is_that_of_a_record)
{
    cr_expect_float_eq(bid_chance(0, 1), 0.5, 1e-12);
    cr_expect_float_eq(bid_chance(7, 8), 0.5, 1e-12);
    cr_expect_eq(bid_chance(5, 0), 0);
    double none = 1; /* one by one it is the same */
    for (int k = 3; k < 3 + 8; k++) {
        none *= 1 - bid_chance(k, 1);
    }
    cr_expect_float_eq(bid_chance(3, 8), 1 - none, 1e-12);
}

/* ---- whose turn it is ---------------------------------------------------------------------------- */

Test(tuner_allocate, more_share_headroom_chance_or_less_cost_come_first)
{
    Bid plain = begun(0.2), b[2] = {plain, plain};
    b[1].share = 0.3;
    cr_expect_eq(bids_deal(b, 2, 8, 600 * SECOND).bid, 1);
    b[1] = plain, b[1].headroom = 0.6;
    cr_expect_eq(bids_deal(b, 2, 8, 600 * SECOND).bid, 1);
    b[1] = plain, b[0].n_barren = 8;
    cr_expect_eq(bids_deal(b, 2, 8, 600 * SECOND).bid, 1);
    b[0] = b[1] = plain, b[0].candidate_ns *= 2;
    cr_expect_eq(bids_deal(b, 2, 8, 600 * SECOND).bid, 1);
    b[0] = plain;
    cr_expect_eq(bids_deal(b, 2, 8, 600 * SECOND).bid, 0, "of equals the first");
}

/* A share of 1% cannot save more than that, however far it is from the roofline. */
Test(tuner_allocate, a_small_task_cannot_outbid_a_large_one_by_headroom)
{
    Bid b[2] = {begun(0.01), begun(0.9)};
    b[0].headroom = 1, b[1].headroom = 0.05;
    cr_expect_eq(bids_deal(b, 2, 8, 600 * SECOND).bid, 1);
}

Test(tuner_allocate, time_moves_on_where_nothing_more_is_found)
{
    Bid b[2] = {begun(0.6), a_bid(0.4)};
    int n = 0;
    while (bids_deal(b, 2, 8, 600 * SECOND).bid == 0) {
        b[0].n_barren += 8;
        cr_assert_lt(++n, 1000);
    }
    cr_expect_gt(n, 1, "not after the first batch");
}

Test(tuner_allocate, who_is_alone_gets_all)
{
    Bid b[2] = {a_bid(0.6), begun(0.4)};
    b[1].n_left = 0;
    Slice s = bids_deal(b, 2, 8, 100 * SECOND);
    cr_expect(s.bid == 0 && s.ns == 100 * SECOND);
    cr_expect_eq(s.n, 120, "40 s of it are for calibration and matches");
}

Test(tuner_allocate, too_little_time_is_nobodys)
{
    Bid b[2] = {a_bid(0.6), begun(0.4)};
    cr_expect_eq(bids_deal(b, 2, 8, 3 * SECOND).bid, -1);
    b[1].candidate_ns = SECOND / 4;
    cr_expect_eq(bids_deal(b, 2, 8, 3 * SECOND).bid, 1, "one batch of it fits");
    cr_expect_eq(bids_deal(b, 0, 8, 3 * SECOND).bid, -1);
}

Test(tuner_allocate, a_new_task_gets_what_it_takes_to_confirm_something)
{
    Bid b[2] = {a_bid(0.6), a_bid(0.4)};
    Slice s = bids_deal(b, 2, 8, 60 * SECOND);
    cr_expect(s.bid == 0 && s.ns >= 14 * SECOND && s.ns <= 15 * SECOND);
    s = bids_deal(b, 2, 8, 6000 * SECOND);
    cr_expect(s.bid == 0 && s.ns == 44 * SECOND,
              "with time enough, all that its matches may need");
}

/* ---- all of it ------------------------------------------------------------------------------------- */

static uint64_t sum(const Planned *p, int n)
{
    uint64_t ns = 0;
    for (int i = 0; i < n; i++) {
        ns += p[i].ns;
    }
    return ns;
}

Test(tuner_allocate, a_plan_deals_out_what_there_is_and_no_more)
{
    Env e;
    env_init(&e);
    Bid b[] = {a_bid(0.5), a_bid(0.3), a_bid(0.15), a_bid(0.04), a_bid(0.01)};
    Planned p[5];
    for (uint64_t s = 1; s < 20000; s = s * 3 + 1) {
        bids_plan(&e.model, b, 5, 8, s * SECOND, p);
        cr_expect_leq(sum(p, 5), s * SECOND);
        cr_expect(s < 15 || sum(p, 5) + 4 * SECOND >= s * SECOND, "%d s", (int)s);
        for (int i = 1; i < 5; i++) {
            cr_expect_geq(p[i - 1].ns + SECOND, p[i].ns, "%d s: the larger share gets more",
                          (int)s);
        }
    }
    cr_expect_gt(p[4].ns, 0, "with time enough, all have a turn");
    env_release(&e);
}

Test(tuner_allocate, a_plan_stops_where_all_was_tried)
{
    Env e;
    env_init(&e);
    Bid b[] = {a_bid(0.5), a_bid(0.5)};
    b[0].n_left = 20, b[1].n_left = 13;
    Planned p[2];
    bids_plan(&e.model, b, 2, 8, 100000 * SECOND, p);
    cr_expect_eq(p[0].n_candidates, 20);
    cr_expect_eq(p[1].n_candidates, 13);
    env_release(&e);
}
