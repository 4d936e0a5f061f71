/* points.c - the recipe of a kernel without reductions as steps: the last axis cut where
 * conditions on it end, lanes along its pieces, one axis outermost and shared by threads.
 * Serves elementwise kernels, copies and gathers; and, for kernels of no class, only the
 * sharing. needs: what look_points found. breaks: nothing; whether it is legal, the mechanism
 * says. */
#include "schedules/schedules_int.h"

typedef struct Builder {
    const Kernel *k;
    const Points *p;
    const PointRecipe *recipe;
    Schedule *s;
    int last;     /* axis, or -1 */
    int shared;   /* axis, or -1 */
    int n_pieces; /* of the last axis */
    Words name[MAX_CUTS + 1];
    int lanes[MAX_CUTS + 1]; /* 0: too short for lanes */
} Builder;

bool points_from_bf16(const Kernel *k)
{
    for (int i = 0; i < k->operand.n; i++) {
        if (k->operand.at[i].from_bf16) {
            return true;
        }
    }
    return false;
}

static void store_constants(const Builder *b)
{
    for (int i = 0; b->recipe->bf16 && i < b->k->operand.n; i++) {
        if (b->k->operand.at[i].from_bf16) {
            schedule_add(b->s, STEP_STORE, "%s bf16", b->k->operand.at[i].name);
        }
    }
}

int64_t point_longest(const Look *l, bool cut)
{
    const Points *p = &l->p;
    int64_t most = cut ? 0 : p->inner.n ? axis_constant(l->k, p->inner.at[p->inner.n - 1]) : 1;
    for (int i = 0; cut && i <= p->n_cuts; i++) {
        most = most < 0 || p->piece[i] < 0 ? -1 : p->piece[i] > most ? p->piece[i] : most;
    }
    return most;
}

int point_lanes(const Look *l, bool cut, int widest)
{
    int64_t n = point_longest(l, cut);
    return (int)power_below(n < 0 ? widest : n < 1 ? 1 : n, widest);
}

int point_least_lanes(const Look *l, const Target *t)
{
    int half = t->lanes / 2 < 2 ? 2 : t->lanes / 2;
    int whole = point_lanes(l, false, half), pieces = point_lanes(l, true, half);
    int least = whole < pieces ? whole : pieces;
    return least < 2 ? 2 : least;
}

int64_t point_turns(const Look *l, const PickHint *hint, const PointRecipe *p)
{
    const AxisList *axes = l->p.outer.n ? &l->p.outer : &l->p.inner;
    bool last = l->p.outer.n == 0 && p->par == axes->n;
    int64_t n = axis_extent(l->k, hint, axes->at[p->par - 1]);
    return last && p->cut ? 1 : blocks(n, last && p->lanes ? p->lanes : 1);
}

/* Lanes for a piece of n elements (-1: not known): 0 where it is too short. */
static int lanes_in(int64_t n, int lanes)
{
    int fit = lanes ? (int)power_below(n < 0 ? lanes : n < 1 ? 1 : n, lanes) : 0;
    return fit > 1 ? fit : 0;
}

/* j; cut once j.0 j.1; cut again j.0 j.1.0 j.1.1 */
static void cut_pieces(Builder *b)
{
    Words stem = {""};
    b->n_pieces = b->last < 0 ? 0 : 1 + (b->recipe->cut ? b->p->n_cuts : 0);
    if (b->last >= 0) {
        word_add(&stem, ' ', axis_text(b->k, b->last), "");
    }
    for (int i = 0; i < b->n_pieces; i++) {
        bool final = i == b->n_pieces - 1;
        int64_t n = b->n_pieces > 1 ? b->p->piece[i] : axis_constant(b->k, b->last);
        b->name[i] = stem;
        b->lanes[i] = lanes_in(n, b->recipe->lanes);
        if (!final) {
            schedule_add(b->s, STEP_CUT, "%s %s", stem.text, b->p->cut[i]);
            word_add(&b->name[i], '.', "0", "");
            word_add(&stem, '.', "1", "");
        }
    }
}

static bool shares_inner(const Builder *b)
{
    return b->shared >= 0 && b->p->outer.n == 0;
}

static void add_axis(const Builder *b, Words *w, int axis, int piece)
{
    if (axis == b->last) {
        word_add(w, ' ', b->name[piece].text, b->lanes[piece] ? ".o" : "");
    } else {
        word_add(w, ' ', axis_text(b->k, axis), "");
    }
}

static void order_piece(const Builder *b, int piece)
{
    Words w = {""};
    add_axis(b, &w, b->shared, piece);
    for (int i = 0; i < b->p->inner.n; i++) {
        if (b->p->inner.at[i] != b->shared) {
            add_axis(b, &w, b->p->inner.at[i], piece);
        }
    }
    if (b->lanes[piece]) {
        word_add(&w, ' ', b->name[piece].text, ".i");
    }
    schedule_add(b->s, STEP_ORDER, "%s", w.text);
}

static void order_outer(const Builder *b)
{
    Words w = {""};
    word_add(&w, ' ', axis_text(b->k, b->shared), "");
    for (int i = 0; i < b->p->outer.n; i++) {
        if (b->p->outer.at[i] != b->shared) {
            word_add(&w, ' ', axis_text(b->k, b->p->outer.at[i]), "");
        }
    }
    schedule_add(b->s, STEP_ORDER, "%s", w.text);
}

void point_schedule(const Look *l, const Recipe *recipe, Schedule *out)
{
    const Points *p = &l->p;
    const AxisList *axes = p->outer.n ? &p->outer : &p->inner;
    Builder b = {.k = l->k, .p = p, .recipe = &recipe->point, .s = out};
    b.last = p->inner.n ? p->inner.at[p->inner.n - 1] : -1;
    b.shared = b.recipe->par > 0 && b.recipe->par <= axes->n ? axes->at[b.recipe->par - 1] : -1;
    *out = (Schedule){0};
    cut_pieces(&b);
    for (int i = 0; i < b.n_pieces; i++) {
        if (b.lanes[i]) {
            schedule_add(out, STEP_SPLIT, "%s %d %s", b.name[i].text, b.lanes[i],
                         b.recipe->tail == TAIL_BY_MASK ? "mask" : "peel");
        }
    }
    for (int i = 0; b.recipe->par > 1 && shares_inner(&b) && i < b.n_pieces; i++) {
        order_piece(&b, i);
    }
    if (b.recipe->par > 1 && !shares_inner(&b) && b.shared >= 0) {
        order_outer(&b);
    }
    for (int i = 0; i < b.n_pieces; i++) {
        if (b.lanes[i]) {
            schedule_add(out, STEP_VEC, "%s.i", b.name[i].text);
        }
    }
    add_exp(out, b.recipe->approx);
    store_constants(&b);
    if (b.shared >= 0) {
        Words w = {""};
        add_axis(&b, &w, b.shared, 0);
        schedule_add(out, STEP_PAR, "%s", w.text);
    }
}

int kernel_outermost(const Kernel *k)
{
    const Nest *n = &k->nest;
    if (n->outer.n) {
        return n->outer.at[0];
    }
    return n->phase.n && n->phase.at[0].loops.n ? n->phase.at[0].loops.at[0] : -1;
}

void other_schedule(const Look *l, const Recipe *recipe, Schedule *out)
{
    *out = (Schedule){0};
    if (recipe->point.par && kernel_outermost(l->k) >= 0) {
        schedule_add(out, STEP_PAR, "%.60s", axis_text(l->k, kernel_outermost(l->k)));
    }
}
