/* space_contraction.c - what can be tuned in sums of products: the register tile, where its
 * lanes lie, how the reduction is walked, which loop is outermost and shared, where operands
 * lie and how far ahead they are fetched. needs: class contraction. breaks: nothing. */
#include <math.h>

#include "schedules/schedules_int.h"

#define MAX_ROWS 14
#define MAX_COLUMNS 16
#define MAX_BLOCK 4096 /* of the reduction: as large as a split can be */

enum {
    LANES,
    MR,
    NR,
    KU,
    KC,
    AROUND,
    GROUP,
    CUT,
    PANELS,
    M_OUTER,
    PAR,
    PREFETCH,
    BF16,
    FMA,
    APPROX,
    N_KNOBS
};
#define BIT(knob) (1u << (knob))

/* clang-format off */
static const KnobRow knobs[N_KNOBS] = {
    [LANES] = {"lanes", offsetof(Tile, lanes), "where vectors lie: along n, of operands as they are or of staged tiles, or so many along the reduction", {"none", "n", "staged"}, "k"},
    [MR] = {"mr", offsetof(Tile, mr), "rows of the register tile", {NULL}, NULL},
    [NR] = {"nr", offsetof(Tile, nr), "columns of the register tile, or dot products side by side", {NULL}, NULL},
    [KU] = {"ku", offsetof(Tile, ku), "turns of the reduction written out", {NULL}, NULL},
    [KC] = {"kc", offsetof(Tile, kc), "the reduction in blocks", {"whole"}, NULL},
    [AROUND] = {"blocks", offsetof(Tile, around), "blocks of the reduction inside each tile, or around all tiles of rows", {"inside", "around"}, NULL},
    [GROUP] = {"group", offsetof(Tile, group), "turns of the batch that read the same along n are rows of the tile, or take their turns around it", {"no", "rows", "around"}, NULL},
    [CUT] = {"cut", offsetof(Tile, cut), "loops of their own on both sides of the index where another operand is read", {"no", "yes"}, NULL},
    [PANELS] = {"layout", offsetof(Tile, panels), "constant operands as they are, or in panels", {"rows", "panels"}, NULL},
    [M_OUTER] = {"outer", offsetof(Tile, m_outer), "which of the two loops over tiles is outside", {"n", "m"}, NULL},
    [PAR] = {"threads", offsetof(Tile, par), "which loop threads share", {"none", "batch", "outer"}, NULL},
    [PREFETCH] = {"prefetch", offsetof(Tile, prefetch), "bytes ahead in the panels, or the next panel", {"none", "panel"}, NULL},
    [BF16] = {"store", offsetof(Tile, bf16), "type in which constant operands are stored, losslessly", {"f32", "bf16"}, NULL},
    [FMA] = {"fma", offsetof(Tile, fma), "multiply and add in one rounding", {"no", "yes"}, NULL},
    [APPROX] = {"exp", offsetof(Tile, approx), "exp by libm, by the polynomial, or by that with its products and sums fused", {"libm", "polynomial", "fused"}, NULL},
};
/* clang-format on */

/* ---- what the mechanism accepts ---- */

typedef struct Facts {
    bool along_n[2][2][2][MAX_LOG2]; /* by staged, panels, cut, log2 nr */
    bool along_k[2][2][MAX_LOG2];    /* by panels, cut, log2 lanes */
} Facts;

static bool accepted(Env *e, const Look *l, int lanes, int nr, int panels, int cut)
{
    Recipe p = {
        .tile = {.lanes = lanes, .mr = 1, .nr = nr, .ku = 1, .panels = panels, .cut = cut}};
    return recipe_legal(e, l, &p);
}

/* Every way in which the lanes of an access can depend on the tile. Rows, order and threads
 * cannot matter. */
static const Facts *ask(Env *e, Arena *m, const Look *l, int widest)
{
    Facts *f = arena_new(m, Facts);
    bool stages = l->c.n_loose > 0 && !l->c.loose_all;
    for (int way = 0; way < 4; way++) {
        int panels = way & 1, cut = way >> 1;
        if ((panels && !l->c.n_panels) || (cut && !l->c.cut)) {
            continue;
        }
        for (int w = 2; w <= widest; w *= 2) {
            int log = log2_of(w);
            f->along_n[0][panels][cut][log] = accepted(e, l, LANES_N, w, panels, cut);
            f->along_n[1][panels][cut][log] =
                stages && accepted(e, l, LANES_STAGED, w, panels, cut);
            f->along_k[panels][cut][log] =
                w > LANES_STAGED && accepted(e, l, w, 1, panels, cut);
        }
    }
    return f;
}

static bool any(const bool *b, int n)
{
    for (int i = 0; i < n; i++) {
        if (b[i]) {
            return true;
        }
    }
    return false;
}

/* ---- choices ---- */

static void tile_choices(Space *s, const Look *l, const Facts *f, int vector)
{
    int64_t k = axis_constant(l->k, l->c.red), widest = 4 * vector;
    int64_t least = power_below(k < 1 ? vector : k, vector / 2);
    bool rows = l->c.m >= 0 && !axis_is_unit(&l->k->nest, l->c.m);
    choice_add(&s->knob[LANES], LANES_NONE);
    for (int staged = 0; staged < 2; staged++) {
        if (any(&f->along_n[staged][0][0][0], sizeof f->along_n[0])) {
            choice_add(&s->knob[LANES], staged ? LANES_STAGED : LANES_N);
        }
    }
    for (int w = 2; w <= widest; w *= 2) {
        bool ok = f->along_k[0][0][log2_of(w)] || f->along_k[0][1][log2_of(w)] ||
                  f->along_k[1][0][log2_of(w)];
        if (ok && w >= least && (k < 0 || w <= k)) {
            choice_add(&s->knob[LANES], w);
        }
    }
    for (int i = 1; i <= (rows ? MAX_ROWS : 1); i++) {
        choice_add(&s->knob[MR], i);
    }
    choice_powers(&s->knob[NR], 1, widest);
    choice_add(&s->knob[NR], 3); /* of squares of dot products */
    choice_add(&s->knob[NR], 5);
}

static void reduction_choices(Space *s, const Look *l)
{
    int64_t k = axis_constant(l->k, l->c.red);
    choice_powers(&s->knob[KU], 1, 4);
    choice_add(&s->knob[KC], 0);
    for (int kc = 64; kc <= 1024 && kc < k; kc *= 2) {
        if (k % kc == 0) {
            choice_add(&s->knob[KC], kc);
        }
    }
    for (int part = 2; part <= 8 && l->c.resumes && k % part == 0; part *= 2) {
        if (k / part >= 64 && k / part <= MAX_BLOCK) {
            choice_add(&s->knob[KC], (int)(k / part));
        }
    }
    if (l->c.chunk) {
        choice_add(&s->knob[KC], (int)l->c.chunk);
    }
    choice_flag(&s->knob[AROUND], l->c.resumes && s->knob[KC].n > 1);
}

static void choices(Env *e, Arena *m, Space *s, SpaceInside *in)
{
    const Look *l = &in->look;
    int vector = hint_target(&in->hint)->lanes;
    const Facts *f = ask(e, m, l, 4 * vector);
    bool threads = hint_threads(&in->hint) > 1;
    in->facts = f;
    tile_choices(s, l, f, vector);
    reduction_choices(s, l);
    for (int group = GROUP_NONE; group <= (l->c.group > 0 ? GROUP_AROUND : GROUP_NONE);
         group++) {
        choice_add(&s->knob[GROUP], group);
    }
    choice_flag(&s->knob[CUT], l->c.cut != NULL);
    choice_flag(&s->knob[PANELS], l->c.n_panels > 0);
    choice_flag(&s->knob[M_OUTER], l->c.m >= 0 && !axis_is_unit(&l->k->nest, l->c.m));
    choice_add(&s->knob[PAR], PAR_NONE);
    if (threads && l->c.shared >= 0) {
        choice_add(&s->knob[PAR], PAR_BATCH);
    }
    if (threads) {
        choice_add(&s->knob[PAR], PAR_OUTER);
    }
    choice_add(&s->knob[PREFETCH], 0);
    if (l->c.n_panels > 0) {
        choice_add(&s->knob[PREFETCH], PREFETCH_PANEL);
    }
    if (l->c.n_panels > 0 || l->c.group) {
        choice_powers(&s->knob[PREFETCH], 256, MOST_PREFETCH);
    }
    choice_flag(&s->knob[BF16], comes_from_bf16(l));
    choice_flag(&s->knob[FMA], true);
    choice_exp(&s->knob[APPROX], l->c.exp, &s->hint);
}

/* ---- rules ---- */

static int64_t extent(const SpaceInside *in, int axis)
{
    return axis < 0 ? 1 : axis_extent(in->look.k, &in->hint, axis);
}

static bool strides(const SpaceInside *in, const Recipe *p)
{
    const Tile *t = &p->tile;
    const Facts *f = in->facts;
    if (t->lanes > LANES_STAGED) {
        return f->along_k[t->panels][t->cut][log2_of(t->lanes)];
    }
    return t->lanes == LANES_NONE ||
           f->along_n[t->lanes == LANES_STAGED][t->panels][t->cut][log2_of(t->nr)];
}

static bool fits_lanes(const SpaceInside *in, const Recipe *p)
{
    const Tile *t = &p->tile;
    int vector = hint_target(&in->hint)->lanes;
    int64_t n = axis_constant(in->look.k, in->look.c.n);
    int64_t least = power_below(n < 1 ? vector : n, vector / 2);
    bool written_out = t->lanes == LANES_NONE || t->lanes > LANES_STAGED;
    bool power = (t->nr & (t->nr - 1)) == 0;
    return written_out ? t->nr <= MAX_COLUMNS : power && t->nr >= 2 && t->nr >= least;
}

static bool fits_m(const SpaceInside *in, const Recipe *p)
{
    int64_t m = extent(in, in->look.c.m);
    return m < 0 || p->tile.mr == 1 || p->tile.mr <= m;
}

/* Padded panels may be up to the next power of two wide. */
static bool fits_n(const SpaceInside *in, const Recipe *p)
{
    int64_t n = axis_constant(in->look.k, in->look.c.n);
    bool pads = p->tile.panels && p->tile.lanes && p->tile.lanes <= LANES_STAGED &&
                in->look.c.n_loose == 0;
    return n < 0 || p->tile.nr == 1 || (pads ? p->tile.nr < 2 * n : p->tile.nr <= n);
}

static bool fits_registers(const SpaceInside *in, const Recipe *p)
{
    const Target *t = hint_target(&in->hint);
    return tile_registers(&in->look, t, &p->tile) <= t->n_registers;
}

/* Panels and staged tiles name the batch axis as it is. Lanes along n have no sums to join. */
static bool groups(const SpaceInside *in, const Recipe *p)
{
    (void)in;
    const Tile *t = &p->tile;
    bool by_k = t->lanes > LANES_STAGED && t->nr > 1 && !t->cut;
    return !t->group ||
           (!t->panels && t->lanes != LANES_STAGED && (t->group == GROUP_ROWS || by_k));
}

static bool fits_cache(const SpaceInside *in, const Recipe *p)
{
    return p->tile.lanes == LANES_NONE || p->tile.lanes > LANES_STAGED ||
           panel_fits(&in->look, &in->hint, &p->tile);
}

static bool walks_k(const SpaceInside *in, const Recipe *p)
{
    const Tile *t = &p->tile;
    int64_t k = axis_constant(in->look.k, in->look.c.red);
    bool fits = (k < 0 || t->ku == 1 || t->ku <= k) && (t->kc == 0 || t->kc % t->ku == 0);
    return t->lanes > LANES_N ? t->ku == 1 && t->kc == 0 : fits;
}

/* Points that are computed beyond the end have no element in which their sum could wait. */
static bool waits(const SpaceInside *in, const Recipe *p)
{
    const Tile *t = &p->tile;
    int64_t n = axis_constant(in->look.k, in->look.c.n);
    bool pads = t->panels && in->look.c.n_loose == 0 && t->lanes == LANES_N && t->nr > 1;
    return !t->around ||
           (t->kc > 0 && t->lanes <= LANES_N && !t->cut && (!pads || n % t->nr == 0));
}

static bool packs(const SpaceInside *in, const Recipe *p)
{
    (void)in;
    return !p->tile.panels || !p->tile.cut;
}

static bool stages(const SpaceInside *in, const Recipe *p)
{
    const Tile *t = &p->tile;
    bool batch_inside = t->par == PAR_OUTER && in->look.c.shared >= 0;
    return t->lanes != LANES_STAGED || (!t->m_outer && !batch_inside);
}

static bool fetches(const SpaceInside *in, const Recipe *p)
{
    int64_t bytes = panel_bytes(in->look.k, &in->look.c, &p->tile);
    bool rows = p->tile.lanes > LANES_STAGED && p->tile.nr == 1;
    if (p->tile.prefetch == PREFETCH_PANEL) {
        return p->tile.panels && bytes > MOST_PREFETCH && bytes <= MOST_AHEAD;
    }
    return !p->tile.prefetch || p->tile.panels || (in->look.c.n_panels > 0 && rows) ||
           (p->tile.group && !p->tile.cut);
}

static int64_t batch_turns(const SpaceInside *in, const Tile *t)
{
    int64_t n = extent(in, in->look.c.shared);
    return t->group ? n / in->look.c.group : n;
}

static bool shares(const SpaceInside *in, const Recipe *p)
{
    const Tile *t = &p->tile;
    const Contraction *c = &in->look.c;
    int64_t outer =
        t->m_outer ? blocks(extent(in, c->m), t->mr) : blocks(extent(in, c->n), t->nr);
    if (t->par == PAR_BATCH) {
        return batch_turns(in, t) != 1;
    }
    return t->par != PAR_OUTER || (outer > 1 && (t->m_outer || !t->cut));
}

/* clang-format off */
static const Rule rules[] = {
    {{"lanes", "vectors along n are whole powers of two, at least half full; columns that are written out are at most 16"},
     BIT(LANES) | BIT(NR), fits_lanes},
    {{"registers", "accumulators, the vectors of one factor and one of the other fit the vector registers"},
     BIT(LANES) | BIT(MR) | BIT(NR) | BIT(GROUP), fits_registers},
    {{"group", "a batch axis that a panel or a staged tile names is not split; it turns around tiles of dot products side by side"},
     BIT(LANES) | BIT(NR) | BIT(GROUP) | BIT(CUT) | BIT(PANELS), groups},
    {{"cache", "a panel that tiles of rows read again fits L2 and a thread's share of L3"},
     BIT(LANES) | BIT(NR), fits_cache},
    {{"rows", "a tile has no more rows than m, where m is known"}, BIT(MR), fits_m},
    {{"columns", "a tile is no wider than n; a padded panel less than twice as wide"},
     BIT(LANES) | BIT(NR) | BIT(PANELS), fits_n},
    {{"reduction", "ku divides kc, neither exceeds k; lanes along k and staged tiles take the reduction whole"},
     BIT(LANES) | BIT(KU) | BIT(KC), walks_k},
    {{"blocks", "only blocks of the reduction stand around, where no tile is padded and n is not cut"},
     BIT(LANES) | BIT(NR) | BIT(KC) | BIT(AROUND) | BIT(CUT) | BIT(PANELS), waits},
    {{"strides", "every access has unit stride along the lanes or none"},
     BIT(LANES) | BIT(NR) | BIT(CUT) | BIT(PANELS), strides},
    {{"panels", "a cut leaves no one axis to lay panels out by"}, BIT(CUT) | BIT(PANELS), packs},
    {{"stage", "a staged tile is one of one batch, and serves all its rows: batch outside n outside m"},
     BIT(LANES) | BIT(M_OUTER) | BIT(PAR), stages},
    {{"threads", "the shared loop turns more than once, and is one loop"},
     BIT(MR) | BIT(NR) | BIT(GROUP) | BIT(CUT) | BIT(M_OUTER) | BIT(PAR), shares},
    {{"prefetch", "only panels, rows one by one and what a group shares are read in a line that can be foreseen, and the next panel is a distance away that a cache can hold"},
     BIT(LANES) | BIT(NR) | BIT(GROUP) | BIT(CUT) | BIT(PANELS) | BIT(PREFETCH) | BIT(BF16), fetches},
};
/* clang-format on */

/* ---- features ---- */

static const char *const feature_names[] = {"registers", "products a load", "log2 panel bytes",
                                            "idle rows", "idle columns",    "idle threads"};

static double idle(int64_t n, int64_t block)
{
    return n > 0 ? (double)(blocks(n, block) * block) / (double)n - 1 : 0;
}

static void features(const SpaceInside *in, const Recipe *p, double *out)
{
    const Tile *t = &p->tile;
    const Contraction *c = &in->look.c;
    const Target *target = hint_target(&in->hint);
    int64_t m = extent(in, c->m), n = extent(in, c->n), k = extent(in, c->red);
    double columns = t->lanes <= LANES_STAGED
                         ? (double)c->n_sums * (double)blocks(t->nr, target->lanes)
                         : t->nr;
    double rows = tile_rows(&in->look, t);
    int64_t outer = t->m_outer ? blocks(m, t->mr) : blocks(n, t->nr);
    int64_t turns = t->par == PAR_BATCH ? batch_turns(in, t) : t->par == PAR_OUTER ? outer : 1;
    out[0] = tile_registers(&in->look, target, t);
    out[1] = rows * columns / (rows + columns);
    out[2] = log2((double)(k > 0 ? k : 1) * t->nr * (t->bf16 ? 2 : 4));
    out[3] = idle(m, t->mr);
    out[4] = idle(n, t->nr);
    out[5] = turns >= INT32_MAX ? 0 : idle(turns, hint_threads(&in->hint));
}

const ClassPolicy policy_contraction = {
    .schedule = contraction_schedule,
    .recipe = default_contraction,
    .knob = knobs,
    .n_knobs = N_KNOBS,
    .rule = rules,
    .n_rules = countof(rules),
    .choices = choices,
    .n_features = countof(feature_names),
    .feature = feature_names,
    .features = features,
};
