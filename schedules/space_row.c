/* space_row.c - what can be tuned in rows: lanes along the reductions and along what follows,
 * their tails, whether values are kept or computed again, which rows threads share. needs:
 * class row. breaks: nothing. */
#include "schedules/schedules_int.h"

enum { LANES_R, LANES_J, TAIL, KEEP, PAR, FMA, APPROX, N_KNOBS };
#define BIT(knob) (1u << (knob))

/* clang-format off */
static const KnobRow knobs[N_KNOBS] = {
    [LANES_R] = {"reduce", offsetof(RowRecipe, lanes_r), "lanes along the reductions", {"none"}, NULL},
    [LANES_J] = {"lanes", offsetof(RowRecipe, lanes_j), "lanes along the row afterwards, or along the last axis of one phase", {"none"}, NULL},
    [TAIL] = {"tail", offsetof(RowRecipe, tail), "what is left where lanes do not divide", {"peel", "mask"}, NULL},
    [KEEP] = {"keep", offsetof(RowRecipe, keep), "values that the last phase needs again are kept in the output", {"no", "yes"}, NULL},
    [PAR] = {"threads", offsetof(RowRecipe, par), "the outer axis that threads share, by its place", {"none"}, NULL},
    [FMA] = {"fma", offsetof(RowRecipe, fma), "multiply and add in one rounding", {"no", "yes"}, NULL},
    [APPROX] = {"exp", offsetof(RowRecipe, approx), "exp by libm, by the polynomial, or by that with its products and sums fused", {"libm", "polynomial", "fused"}, NULL},
};
/* clang-format on */

/* ---- what the mechanism accepts ---- */

typedef struct Facts {
    bool ok[2][2][MAX_LOG2][MAX_LOG2]; /* by keep, tail, log2 of both lanes (1: none) */
} Facts;

static const Facts *ask(Env *e, Arena *m, const Look *l, const Space *s)
{
    Facts *f = arena_new(m, Facts);
    for (int way = 0; way < 4; way++) {
        for (int r = 0; r < s->knob[LANES_R].n; r++) {
            for (int j = 0; j < s->knob[LANES_J].n; j++) {
                Recipe p = {.row = {.lanes_r = s->knob[LANES_R].value[r],
                                    .lanes_j = s->knob[LANES_J].value[j],
                                    .tail = way & 1,
                                    .keep = way >> 1}};
                bool asked = (!p.row.keep || l->r.keep) &&
                             !(l->r.single && p.row.lanes_r && p.row.lanes_j);
                f->ok[p.row.keep][p.row.tail][log2_of(p.row.lanes_r)][log2_of(p.row.lanes_j)] =
                    asked && recipe_legal(e, l, &p);
            }
        }
    }
    return f;
}

/* ---- choices ---- */

static AxisList lanes_axes(const Rows *r)
{
    AxisList last = {.n = r->outer.n > 0, .at = {r->outer.n ? r->outer.at[r->outer.n - 1] : 0}};
    return r->single ? last : r->inner;
}

static void lane_choices(Knob *k, const Look *l, const AxisList *axes, int vector)
{
    int widest = row_lanes(l, axes, 4 * vector), least = vector / 2 < 2 ? 2 : vector / 2;
    choice_add(k, 0);
    if (widest) {
        choice_powers(k, widest < least ? widest : least, widest);
    }
}

static void choices(Env *e, Arena *m, Space *s, SpaceInside *in)
{
    const Look *l = &in->look;
    int vector = hint_target(&in->hint)->lanes;
    AxisList axes = lanes_axes(&l->r);
    lane_choices(&s->knob[LANES_R], l, &l->r.reduce, vector);
    lane_choices(&s->knob[LANES_J], l, &axes, vector);
    choice_flag(&s->knob[TAIL], true);
    choice_flag(&s->knob[KEEP], l->r.keep != NULL);
    for (int i = 0; i <= (hint_threads(&in->hint) > 1 ? l->r.outer.n : 0); i++) {
        choice_add(&s->knob[PAR], i);
    }
    choice_flag(&s->knob[FMA], l->r.product);
    choice_exp(&s->knob[APPROX], l->r.exp, &s->hint);
    in->facts = ask(e, m, l, s);
}

/* ---- rules ---- */

static bool strides(const SpaceInside *in, const Recipe *p)
{
    const Facts *f = in->facts;
    return f->ok[p->row.keep][p->row.tail][log2_of(p->row.lanes_r)][log2_of(p->row.lanes_j)];
}

static bool divides(const SpaceInside *in, const AxisList *axes, int lanes)
{
    bool all = true;
    for (int i = 0; lanes && i < axes->n; i++) {
        int64_t n = axis_constant(in->look.k, axes->at[i]);
        all = all && n >= 0 && n % lanes == 0;
    }
    return all;
}

static bool needs_tail(const SpaceInside *in, const Recipe *p)
{
    AxisList axes = lanes_axes(&in->look.r);
    return p->row.tail == TAIL_BY_PEEL || !divides(in, &in->look.r.reduce, p->row.lanes_r) ||
           !divides(in, &axes, p->row.lanes_j);
}

/* Lanes along the last axis of a single phase leave fewer turns to share. */
static bool shares(const SpaceInside *in, const Recipe *p)
{
    return p->row.par == 0 || row_turns(&in->look, &in->hint, &p->row) > 1;
}

/* clang-format off */
static const Rule rules[] = {
    {{"strides", "every access has unit stride along the lanes or none; one phase has lanes along one axis"},
     BIT(LANES_R) | BIT(LANES_J) | BIT(TAIL) | BIT(KEEP), strides},
    {{"tail", "where lanes divide there is no tail to choose"}, BIT(LANES_R) | BIT(LANES_J) | BIT(TAIL), needs_tail},
    {{"threads", "the shared loop turns more than once"}, BIT(LANES_J) | BIT(PAR), shares},
};
/* clang-format on */

const ClassPolicy policy_row = {
    .schedule = row_schedule,
    .recipe = default_row,
    .knob = knobs,
    .n_knobs = N_KNOBS,
    .rule = rules,
    .n_rules = countof(rules),
    .choices = choices,
};
