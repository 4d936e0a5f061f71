/* allocate.c - whose turn it is. A task is worth share x headroom x chance / cost by the second:
 * the part of the model's time that is its own, what of that can still go before the machine's
 * roofline (no task can save more than its share: Amdahl), the chance that the next candidates
 * hold a better one, and the time that they take. Time is dealt out in slices to who is worth
 * most at that moment, so it moves on where nothing more is found. Pure. */
#include <math.h>
#include <string.h>

#include "tuner/allocate.h"

enum {
    SLICES = 256, /* a slice is that part of what is left, at least */
    STARTS = 4,   /* a new task gets at most that part at once, unless it needs more */
};

double headroom_of(double flops, double bytes, double flops_per_ns, double bytes_per_ns,
                   double default_ns, double now_by_default)
{
    double floor_ns = fmax(flops_per_ns > 0 ? flops / flops_per_ns : 0,
                           bytes_per_ns > 0 ? bytes / bytes_per_ns : 0);
    double left = default_ns > 0 ? now_by_default - floor_ns / default_ns : now_by_default;
    return fmin(fmax(left, 0), 1);
}

/* In random order the k-th is the best of the first k with probability 1/k, whatever came
 * before; so none of the next n is with (m + 1) / (m + n + 1). */
double bid_chance(int64_t n_barren, int64_t n)
{
    return n > 0 ? (double)n / (double)(n_barren + n + 1) : 0;
}

/* ---- one slice ------------------------------------------------------------------------------ */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What it would get of so much; bid -1: that is too little. */
static Slice slice_for(const Bid *b, int i, int batch, uint64_t left_ns, bool alone)
{
    const Bid *x = &b[i];
    uint64_t one_ns = larger(x->candidate_ns, 1);
    int64_t most = x->n_left < batch ? x->n_left : batch;
    uint64_t least_ns = x->start_least_ns + (uint64_t)most * one_ns;
    uint64_t ns = larger(least_ns, left_ns / SLICES);
    Slice s = {.bid = -1};
    if (x->n_left <= 0 || least_ns > left_ns) {
        return s;
    }
    if (x->start_ns > 0) {
        ns = larger(ns, smaller(x->start_ns + (uint64_t)most * one_ns, left_ns / STARTS));
    }
    s.bid = i;
    s.ns = alone ? left_ns : ns;
    uint64_t before_ns = larger(x->start_least_ns, smaller(x->start_ns, s.ns / 2));
    s.n = (int64_t)((s.ns - before_ns) / one_ns);
    s.n = s.n < most ? most : s.n > x->n_left ? x->n_left : s.n;
    s.chance = bid_chance(x->n_barren, s.n);
    s.rate = x->share * x->headroom * s.chance / ((double)s.ns / 1e9);
    return s;
}

Slice bids_deal(const Bid *b, int n, int batch, uint64_t left_ns)
{
    Slice best = {.bid = -1};
    int n_able = 0;
    for (int i = 0; i < n; i++) {
        Slice s = slice_for(b, i, batch, left_ns, false);
        n_able += s.bid >= 0;
        if (s.bid >= 0 && (best.bid < 0 || s.rate > best.rate)) {
            best = s;
        }
    }
    return n_able == 1 ? slice_for(b, best.bid, batch, left_ns, true) : best;
}

/* ---- all of them ------------------------------------------------------------------------------ */

void bids_plan(Arena *m, const Bid *b, int n, int batch, uint64_t left_ns, Planned *out)
{
    Bid *now = arena_dup(m, b, (size_t)n * sizeof *b);
    memset(out, 0, (size_t)n * sizeof *out);
    for (;;) {
        Slice s = bids_deal(now, n, batch, left_ns);
        if (s.bid < 0 || s.ns == 0) {
            return;
        }
        Bid *x = &now[s.bid];
        out[s.bid].ns += s.ns;
        out[s.bid].n_candidates += s.n;
        x->n_left -= s.n;
        x->n_barren += s.n;
        x->start_ns = x->start_least_ns = 0;
        left_ns -= s.ns;
    }
}
