/* space_elementwise.c - what can be tuned where nothing is reduced: lanes along the last axis
 * or along its pieces, tails, which axis is outermost and shared. Gathers share its knobs and
 * rules; kernels of no class have but the last knob. needs: class elementwise, gather or other.
 * breaks: nothing. */
#include "schedules/schedules_int.h"

enum { LANES, TAIL, CUT, PAR, BF16, APPROX };
#define BIT(knob) (1u << (knob))

/* clang-format off */
const KnobRow point_knobs[N_POINT_KNOBS] = {
    [LANES] = {"lanes", offsetof(PointRecipe, lanes), "lanes along the last axis", {"none"}, NULL},
    [TAIL] = {"tail", offsetof(PointRecipe, tail), "what is left where lanes do not divide", {"peel", "mask"}, NULL},
    [CUT] = {"cut", offsetof(PointRecipe, cut), "the last axis in pieces on which its conditions are settled", {"no", "yes"}, NULL},
    [PAR] = {"threads", offsetof(PointRecipe, par), "the axis that threads share, by its place", {"none"}, NULL},
    [BF16] = {"store", offsetof(PointRecipe, bf16), "type in which constant operands are stored, losslessly", {"f32", "bf16"}, NULL},
    [APPROX] = {"exp", offsetof(PointRecipe, approx), "exp by libm, by the polynomial, or by that with its products and sums fused", {"libm", "polynomial", "fused"}, NULL},
};
/* clang-format on */

/* ---- what the mechanism accepts ---- */

typedef struct Facts {
    bool lanes[2][2][MAX_LOG2];     /* by cut, tail, log2 lanes (1: none) */
    bool par[2][MAX_LOOK_AXES + 1]; /* by cut, which */
} Facts;

static const AxisList *shared_axes(const Look *l)
{
    return l->p.outer.n ? &l->p.outer : &l->p.inner;
}

static const Facts *ask(Env *e, Arena *m, const Look *l, const Space *s)
{
    Facts *f = arena_new(m, Facts);
    for (int cut = 0; cut <= (l->p.n_cuts > 0); cut++) {
        for (int i = 0; i < s->knob[LANES].n; i++) {
            for (int tail = 0; tail < 2; tail++) {
                Recipe p = {
                    .point = {.lanes = s->knob[LANES].value[i], .tail = tail, .cut = cut}};
                f->lanes[cut][tail][log2_of(p.point.lanes)] = recipe_legal(e, l, &p);
            }
        }
        for (int i = 0; i < s->knob[PAR].n; i++) {
            Recipe p = {.point = {.par = s->knob[PAR].value[i], .cut = cut}};
            f->par[cut][p.point.par] = recipe_legal(e, l, &p);
        }
    }
    return f;
}

/* ---- choices ---- */

void point_choices(Env *e, Arena *m, Space *s, SpaceInside *in)
{
    const Look *l = &in->look;
    const Target *t = hint_target(&in->hint);
    choice_add(&s->knob[LANES], 0);
    choice_powers(&s->knob[LANES], point_least_lanes(l, t),
                  point_lanes(l, false, 4 * t->lanes));
    choice_flag(&s->knob[TAIL], true);
    choice_flag(&s->knob[CUT], l->p.n_cuts > 0);
    for (int i = 0; i <= (hint_threads(&in->hint) > 1 ? shared_axes(l)->n : 0); i++) {
        choice_add(&s->knob[PAR], i);
    }
    choice_flag(&s->knob[BF16], points_from_bf16(l->k));
    choice_exp(&s->knob[APPROX], l->p.exp, &s->hint);
    in->facts = ask(e, m, l, s);
}

/* ---- rules ---- */

static bool strides(const SpaceInside *in, const Recipe *p)
{
    const Facts *f = in->facts;
    return f->lanes[p->point.cut][p->point.tail][log2_of(p->point.lanes)];
}

/* Wider lanes than the longest piece are those of a narrower choice. */
static bool fits(const SpaceInside *in, const Recipe *p)
{
    int64_t n = point_longest(&in->look, p->point.cut);
    return p->point.lanes == 0 || n < 0 || p->point.lanes <= n;
}

static bool needs_tail(const SpaceInside *in, const Recipe *p)
{
    const Points *q = &in->look.p;
    bool divides = true;
    for (int i = 0; p->point.lanes && i <= (p->point.cut ? q->n_cuts : 0); i++) {
        int64_t n = p->point.cut ? q->piece[i] : point_longest(&in->look, false);
        divides = divides && n >= 0 && n % power_below(n < 1 ? 1 : n, p->point.lanes) == 0;
    }
    return p->point.tail == TAIL_BY_PEEL || !divides;
}

static bool shares(const SpaceInside *in, const Recipe *p)
{
    const Facts *f = in->facts;
    return p->point.par == 0 || (point_turns(&in->look, &in->hint, &p->point) > 1 &&
                                 f->par[p->point.cut][p->point.par]);
}

/* clang-format off */
const Rule point_rules[N_POINT_RULES] = {
    {{"strides", "every access has unit stride along the lanes or none"}, BIT(LANES) | BIT(TAIL) | BIT(CUT), strides},
    {{"width", "lanes are no longer than the longest piece"}, BIT(LANES) | BIT(CUT), fits},
    {{"tail", "where lanes divide there is no tail to choose"}, BIT(LANES) | BIT(TAIL) | BIT(CUT), needs_tail},
    {{"threads", "the shared loop turns more than once, and is one loop"}, BIT(LANES) | BIT(CUT) | BIT(PAR), shares},
};
/* clang-format on */

const ClassPolicy policy_elementwise = {
    .schedule = point_schedule,
    .recipe = default_elementwise,
    .knob = point_knobs,
    .n_knobs = N_POINT_KNOBS,
    .rule = point_rules,
    .n_rules = N_POINT_RULES,
    .choices = point_choices,
};

/* ---- kernels of no class ---- */

/* clang-format off */
static const KnobRow other_knobs[] = {
    {"threads", offsetof(PointRecipe, par), "whether threads share the outermost loop", {"no", "yes"}, NULL},
};
/* clang-format on */

static void other_choices(Env *e, Arena *m, Space *s, SpaceInside *in)
{
    Recipe p;
    (void)m;
    default_other(e, &in->look, &in->hint, &p);
    choice_flag(&s->knob[0], p.point.par);
}

const ClassPolicy policy_other = {
    .schedule = other_schedule,
    .recipe = default_other,
    .knob = other_knobs,
    .n_knobs = 1,
    .choices = other_choices,
};
