/* buckets.c - which lengths of prompts share a program. Every length is measured through every program, in
 * turns; then all sets of programs are looked at, few as there are. In a set, programs take lengths in
 * rising order, since a run time goes by length alone: which one takes which is found length by length,
 * keeping for each program the least worst regret with which it could have taken the last one. */
#include "tuner/buckets.h"

#include <math.h>
#include <string.h>

/* ---- measuring ---- */

typedef struct Lane { /* a contender */
    const BucketRun *run;
    int program;
    int64_t length;
} Lane;

static void feed_lane(void *ctx)
{
    const Lane *l = ctx;
    l->run->feed(l->run->ctx, l->program, l->length);
}

static int contender_of(const Lane *lane, int program)
{
    int i = 0;
    while (lane[i].program != program) {
        i++;
    }
    return i;
}

static bool measure_length(Env *e, const BucketRun *run, const MeasurePlan *plan,
                           const Prober *prober, const BucketTimes *t, int length)
{
    Lane lane[MAX_BUCKETS];
    Contender c[MAX_BUCKETS];
    Measured m;
    int n = 0, best = 0;
    double *ns = &t->ns[length * t->n_programs];
    for (int i = 0; i < t->n_programs; i++) {
        if (run->kind[i] == i) {
            lane[n] = (Lane){run, i, t->length[length]};
            c[n] = (Contender){"program", feed_lane, &lane[n]};
            n++;
        }
    }
    measure(e, c, n, plan, prober, &m);
    for (int i = 0; m.n_blocks && i < t->n_programs; i++) {
        ns[i] = measure_summary(e, &m, contender_of(lane, run->kind[i])).median_ns;
        best = ns[i] < ns[best] ? i : best;
    }
    best = m.n_blocks ? contender_of(lane, run->kind[best]) : 0;
    for (int i = 0; m.n_blocks && i < t->n_programs; i++) {
        Interval r = measure_ratio(e, &m, contender_of(lane, run->kind[i]), best);
        t->regret[length * t->n_programs + i] =
            (Interval){r.median - 1, r.lo - 1, r.hi - 1, r.coverage, r.n};
    }
    return m.n_blocks > 0;
}

bool buckets_measure(Env *e, const BucketRun *run, const MeasurePlan *plan,
                     const Prober *prober, BucketTimes *t)
{
    check(t->n_programs <= MAX_BUCKETS);
    t->ns = arena_array(&e->model, double, t->n_lengths * t->n_programs);
    t->regret = arena_array(&e->model, Interval, t->n_lengths * t->n_programs);
    for (int i = 0; i < t->n_lengths; i++) {
        if (!measure_length(e, run, plan, prober, t, i)) {
            return false;
        }
    }
    return true;
}

/* ---- choosing ---- */

typedef struct Taken {
    double worst;
    int last[MAX_BUCKETS]; /* by program: the last length that it takes; -1: none */
} Taken;

/* The programs of the set take the lengths so that the worst regret is least. */
static Taken share_out(const BucketTimes *t, unsigned set)
{
    Taken at[MAX_BUCKETS];
    for (int p = 0; p < t->n_programs; p++) {
        at[p].worst = set >> p & 1 ? 0 : INFINITY;
        memset(at[p].last, -1, sizeof at[p].last);
    }
    for (int i = 0; i < t->n_lengths; i++) {
        const Interval *regret = &t->regret[i * t->n_programs];
        for (int p = t->n_programs - 1; p >= 0; p--) {
            int from = p;
            for (int q = 0; q < p; q++) {
                from = at[q].worst < at[from].worst ? q : from;
            }
            at[p] = at[from];
            at[p].worst = set >> p & 1 ? fmax(at[p].worst, regret[p].median) : INFINITY;
            at[p].last[p] = i;
        }
    }
    int best = 0;
    for (int p = 1; p < t->n_programs; p++) {
        best = at[p].worst < at[best].worst ? p : best;
    }
    return at[best];
}

static int count_taken(const BucketTimes *t, const Taken *x)
{
    int n = 0;
    for (int p = 0; p < t->n_programs; p++) {
        n += x->last[p] >= 0;
    }
    return n;
}

static bool is_better(const BucketTimes *t, const Taken *a, const Taken *b, double margin)
{
    bool a_fits = a->worst < margin, b_fits = b->worst < margin;
    int a_n = count_taken(t, a), b_n = count_taken(t, b);
    if (a_fits != b_fits) {
        return a_fits;
    }
    return a_fits && a_n != b_n ? a_n < b_n : a->worst < b->worst;
}

static int64_t halfway(const BucketTimes *t, int last)
{
    return (int64_t)sqrt((double)t->length[last] * (double)t->length[last + 1]);
}

BucketChoice buckets_choose(const BucketTimes *t, int64_t most, double margin)
{
    BucketChoice out = {.margin = margin};
    Taken best = share_out(t, 1);
    for (unsigned set = 2; set < 1u << t->n_programs; set++) {
        Taken x = share_out(t, set);
        best = is_better(t, &x, &best, margin) ? x : best;
    }
    out.worst = best.worst;
    for (int p = 0; p < t->n_programs; p++) {
        int last = best.last[p];
        if (last >= 0) {
            bool ends = last + 1 == t->n_lengths;
            out.bucket[out.n++] = (Bucket){t->usual[p], ends ? most : halfway(t, last)};
        }
    }
    return out;
}
