/* deal.c - the time of a run dealt out among its tasks: what is left, what each is worth as far as it was measured,
 * and who gets the next slice by the rule of tuner/allocate.c. Each slice is recorded with its reasons. */
#include <math.h>

#include "tuner/cli/turns.h"

/* ---- what is left ------------------------------------------------------------------------------------ */

/* One that has tried all keeps what its matches may need. */
static uint64_t unused_ns(const Workplace *w, const Turn *t)
{
    const SessionResult *s = t->session && !t->over ? session_result(t->session) : NULL;
    uint64_t rest_ns = s && t->given_ns > s->elapsed_ns ? t->given_ns - s->elapsed_ns : 0;
    bool goes_on = s && (s->ending == ENDING_OPEN || s->ending == ENDING_BUDGET);
    uint64_t matches_ns =
        s && s->ending == ENDING_EXHAUSTED ? item_bid(w, t->item).start_ns : 0;
    return goes_on || rest_ns < matches_ns ? rest_ns : matches_ns;
}

uint64_t turns_left_ns(const Turns *all)
{
    const Workplace *w = all->r->w;
    uint64_t taken_ns = workplace_spent_ns(w);
    for (int i = 0; i < all->n; i++) {
        taken_ns += unused_ns(w, &all->at[i]);
    }
    return w->o->budget.ns > taken_ns ? w->o->budget.ns - taken_ns : 0;
}

static void give(Turns *all, Turn *t, const Bid *b, const Slice *s)
{
    Slice more = *s;
    const SessionResult *r = t->session ? session_result(t->session) : NULL;
    if (r && r->ending == ENDING_TOO_SHORT && t->given_ns > r->elapsed_ns) {
        uint64_t has_ns = t->given_ns - r->elapsed_ns; /* it counted as left */
        more.ns -= has_ns < more.ns ? has_ns : more.ns;
    }
    record_slice(all->r, t->item, b, &more);
    if (t->session) {
        session_extend(t->session, more.ns);
    }
    t->given_ns += more.ns;
    if (!t->session) {
        turn_start(all, t);
    }
}

/* ---- who is next --------------------------------------------------------------------------------------- */

static bool can_go_on(SessionEnd ending)
{
    return ending == ENDING_OPEN || ending == ENDING_BUDGET || ending == ENDING_TOO_SHORT;
}

/* As measured, once there is something. */
static Bid bid_of(const Turns *all, const Turn *t)
{
    const SessionResult *s = t->session ? session_result(t->session) : NULL;
    Bid b = item_bid(all->r->w, t->item);
    if (t->over || (s && !can_go_on(s->ending))) {
        b.n_left = 0;
        return b;
    }
    if (s && s->ending == ENDING_TOO_SHORT) { /* it takes longer than was expected */
        b.start_ns = b.start_least_ns = 2 * t->given_ns;
    }
    if (!s || s->calibration.n_processes == 0 || s->ending == ENDING_TOO_SHORT) {
        return b;
    }
    const Calibration *c = &s->calibration;
    b.start_ns = b.start_least_ns = 0;
    b.n_left -= s->n_trials;
    b.n_barren = s->n_barren;
    b.headroom = item_headroom(t->item, &c->probe, c->call_ns, exp(s->ln_default));
    uint64_t before_ns = (uint64_t)c->n_processes * c->process_ns;
    if (s->n_trials > 0 && s->elapsed_ns > before_ns) {
        b.candidate_ns = (s->elapsed_ns - before_ns) / (uint64_t)s->n_trials;
    }
    return b;
}

/* Of the time of all tasks, as far as it was measured, else as expected. */
static void set_shares(const Turns *all, Bid *bid)
{
    double expected = 0, measured = 0;
    for (int i = 0; i < all->n; i++) {
        const Turn *t = &all->at[i];
        const SessionResult *s = t->session ? session_result(t->session) : NULL;
        double call_ns = s ? s->calibration.call_ns : 0, was_ns = t->item->expect.default_ns;
        bid[i].share = t->item->share * (call_ns > 0 ? call_ns / was_ns : 1);
        expected += t->item->share;
        measured += bid[i].share;
    }
    for (int i = 0; i < all->n && measured > 0; i++) {
        bid[i].share *= expected / measured;
    }
}

bool turns_deal(Turns *all, int *who)
{
    Arena *m = &all->e->kernel;
    Bid *bid = arena_array(m, Bid, all->n);
    bool begun = false;
    for (int i = 0; i < all->n; i++) {
        bid[i] = bid_of(all, &all->at[i]);
        begun |= all->at[i].session != NULL || all->at[i].over;
    }
    set_shares(all, bid);
    uint64_t rest_ns = turns_left_ns(all);
    Slice s = bids_deal(bid, all->n, all->r->w->o->protocol.batch, rest_ns);
    if (s.bid < 0 && !begun) { /* its session says why nothing comes of it */
        s = (Slice){.bid = 0, .ns = rest_ns > 0 ? rest_ns : 1};
    }
    *who = s.bid;
    Bid best = s.bid >= 0 ? bid[s.bid] : (Bid){0};
    env_reset_kernel(all->e);
    if (s.bid >= 0) {
        give(all, &all->at[s.bid], &best, &s);
    }
    return s.bid >= 0;
}

void turn_give(Turns *all, Turn *t, uint64_t ns)
{
    Bid b = bid_of(all, t);
    give(all, t, &b, &(Slice){.ns = ns});
}
