/* contraction.c - the tile of a contraction as steps. Two shapes of inner loop:
 *
 *     lanes along n    n.o m.o k.. [m.i n.i]     a register tile of mr x nr; constants in panels
 *                                                (without lanes the same, of scalars)
 *     lanes along k    n.o m.o k.o [m.i n.i k.i] mr x nr dot products with private sums
 *
 * Blocks of a long reduction stand inside a tile, or around all tiles of rows, which then find
 * their part of a panel in a cache: n.o k.o m.o k.i [m.i n.i].
 * Turns of the batch that read the same along n may be rows of the tile too: h.o n.o k [h.i n.i].
 * A cut makes two of n's loops, n.0 and n.1, each with the same steps. The loop that threads
 * share stands outermost. needs: what look_contraction found. breaks: nothing; whether it is
 * legal, the mechanism says. */
#include "schedules/schedules_int.h"

#define LINE_BYTES 64
#define MAX_LOOSE_LINES 8 /* fetched ahead at one turn, of the one operand that is loose */
#define MAX_LINES 4       /* fetched ahead at one turn, in all panels (MAX_READS is as many) */

typedef struct Builder {
    const Kernel *k;
    const Contraction *c;
    const Tile *t;
    Schedule *s;
    int n_pieces;        /* of n */
    const char *red, *m; /* names of axes; m may be NULL */
    char piece[2][MAX_LOOK_NAME + 3];
    int n_halves; /* loops that the reduction becomes, outermost first */
    const char *half[3];
} Builder;

static bool lanes_k(const Tile *t)
{
    return t->lanes > LANES_STAGED;
}

int tile_rows(const Look *l, const Tile *tile)
{
    return tile->mr * (tile->group == GROUP_ROWS ? (int)l->c.group : 1);
}

int tile_registers(const Look *l, const Target *t, const Tile *tile)
{
    int sums = l->c.n_sums, rows = tile_rows(l, tile);
    if (lanes_k(tile)) {
        return sums * rows * tile->nr * (int)blocks(tile->lanes, t->lanes) + rows + 1;
    }
    int vectors = tile->lanes == LANES_NONE ? tile->nr : (int)blocks(tile->nr, t->lanes);
    bool from_memory = t->feature == FEAT_AVX512F; /* one element is spread as it is read */
    return sums * (rows + 1) * vectors + (tile->lanes == LANES_NONE || !from_memory);
}

/* Tiles of rows read one panel again and again: L2 or this thread's share of L3 should hold
 * it. */
bool panel_fits(const Look *l, const PickHint *hint, const Tile *tile)
{
    int64_t k = axis_extent(l->k, hint, l->c.red);
    int64_t cache = hint->l2_bytes + hint->l3_bytes / hint_threads(hint);
    return k < 0 || hint->l2_bytes == 0 || tile->nr <= hint_target(hint)->lanes ||
           k * tile->nr * l->c.n_sums * (int64_t)sizeof(float) <= cache;
}

static void split_names(Builder *b)
{
    static const char *const halves[3][3] = {{""}, {".o", ".i"}, {".o", ".i.o", ".i.i"}};
    const char *n = axis_text(b->k, b->c->n);
    bool cut = b->t->cut && b->c->cut;
    b->n_pieces = cut ? 2 : 1;
    for (int i = 0; i < b->n_pieces; i++) {
        snprintf(b->piece[i], sizeof b->piece[i], "%s%s", n, !cut ? "" : i ? ".1" : ".0");
    }
    b->n_halves = lanes_k(b->t) ? 2 : 1 + (b->t->kc > 0) + (b->t->ku > 1);
    for (int i = 0; i < b->n_halves; i++) {
        b->half[i] = halves[b->n_halves - 1][i];
    }
}

static bool tiles_m(const Builder *b)
{
    return b->m && b->t->mr > 1;
}

static bool tiles_n(const Builder *b)
{
    return b->t->nr > 1;
}

static bool packs(const Builder *b)
{
    return b->t->panels && b->c->n_panels > 0;
}

/* ---- splits ---- */

/* Only where all that n reads is padded too may a tile be computed beyond its end. */
static const char *tail_of_n(const Builder *b)
{
    if (lanes_k(b->t) || b->t->lanes == LANES_NONE) {
        return "switch";
    }
    return packs(b) && b->c->n_loose == 0 ? "pad" : "peel";
}

static void split_all(Builder *b)
{
    if (b->n_pieces > 1) {
        schedule_add(b->s, STEP_CUT, "%s %s", axis_text(b->k, b->c->n), b->c->cut);
    }
    for (int i = 0; tiles_n(b) && i < b->n_pieces; i++) {
        schedule_add(b->s, STEP_SPLIT, "%s %d %s", b->piece[i], b->t->nr, tail_of_n(b));
    }
    if (tiles_m(b)) {
        schedule_add(b->s, STEP_SPLIT, "%s %d switch", b->m, b->t->mr);
    }
    if (b->t->group) {
        schedule_add(b->s, STEP_SPLIT, "%s %d", axis_text(b->k, b->c->shared),
                     (int)b->c->group);
    }
    if (lanes_k(b->t)) {
        schedule_add(b->s, STEP_SPLIT, "%s %d peel", b->red, b->t->lanes);
        return;
    }
    if (b->t->kc) {
        schedule_add(b->s, STEP_SPLIT, "%s %d peel", b->red, b->t->kc);
    }
    if (b->t->ku > 1) {
        schedule_add(b->s, STEP_SPLIT, "%s%s %d peel", b->red, b->t->kc ? ".i" : "", b->t->ku);
    }
    if (b->t->around) {
        schedule_add(b->s, STEP_RESUME, "%s%s", b->red, b->half[0]);
    }
}

/* ---- order ---- */

static void add_m(const Builder *b, Words *w)
{
    if (b->m) {
        word_add(w, ' ', b->m, tiles_m(b) ? ".o" : "");
    }
}

static void add_n(const Builder *b, int piece, Words *w)
{
    word_add(w, ' ', b->piece[piece], tiles_n(b) ? ".o" : "");
}

static void add_batch(const Builder *b, Words *w)
{
    if (b->c->shared >= 0) {
        word_add(w, ' ', axis_text(b->k, b->c->shared), b->t->group ? ".o" : "");
    }
    for (int i = 0; i < b->c->batch.n; i++) {
        if (b->c->batch.at[i] != b->c->shared) {
            word_add(w, ' ', axis_text(b->k, b->c->batch.at[i]), "");
        }
    }
}

static void add_first(const Builder *b, int piece, Words *w)
{
    if (b->m && b->t->m_outer) {
        add_m(b, w);
    } else {
        add_n(b, piece, w);
    }
}

static void add_second(const Builder *b, int piece, Words *w)
{
    if (b->m && b->t->m_outer) {
        add_n(b, piece, w);
    } else {
        add_m(b, w);
    }
}

static void order_piece(const Builder *b, int piece)
{
    Words w = {""};
    if (b->t->par == PAR_OUTER) {
        add_first(b, piece, &w);
        add_batch(b, &w);
    } else {
        add_batch(b, &w);
        add_first(b, piece, &w);
    }
    if (b->t->group == GROUP_AROUND) {
        word_add(&w, ' ', axis_text(b->k, b->c->shared), ".i");
    }
    if (b->t->around) {
        word_add(&w, ' ', b->red, b->half[0]);
    }
    add_second(b, piece, &w);
    for (int i = b->t->around; i < b->n_halves - lanes_k(b->t); i++) {
        word_add(&w, ' ', b->red, b->half[i]);
    }
    if (tiles_m(b)) {
        word_add(&w, ' ', b->m, ".i");
    }
    if (b->t->group == GROUP_ROWS) {
        word_add(&w, ' ', axis_text(b->k, b->c->shared), ".i");
    }
    if (tiles_n(b)) {
        word_add(&w, ' ', b->piece[piece], ".i");
    }
    if (lanes_k(b->t)) {
        word_add(&w, ' ', b->red, ".i");
    }
    schedule_add(b->s, STEP_ORDER, "%s", w.text);
}

/* ---- what the loops become ---- */

static void annotate(const Builder *b)
{
    bool along_k = lanes_k(b->t);
    if (along_k) {
        schedule_add(b->s, STEP_ACC, "%s.i", b->red);
        schedule_add(b->s, STEP_VEC, "%s.i", b->red);
    }
    for (int i = 0; tiles_n(b) && i < b->n_pieces; i++) {
        bool lanes = b->t->lanes == LANES_N || b->t->lanes == LANES_STAGED;
        schedule_add(b->s, lanes ? STEP_VEC : STEP_UNROLL, "%s.i", b->piece[i]);
    }
    if (tiles_m(b)) {
        schedule_add(b->s, STEP_UNROLL, "%s.i", b->m);
    }
    if (b->t->group == GROUP_ROWS) {
        schedule_add(b->s, STEP_UNROLL, "%s.i", axis_text(b->k, b->c->shared));
    }
    if (!along_k && b->t->ku > 1) {
        schedule_add(b->s, STEP_UNROLL, "%s%s", b->red, b->half[b->n_halves - 1]);
    }
    if (b->t->fma) {
        schedule_add(b->s, STEP_FMA, "%s", "");
    }
    add_exp(b->s, b->t->approx);
}

/* ---- where operands lie ---- */

/* The order in which the loops read it: batch, n.o, the reduction, n.i (blocks of it before n.o
 * where the loops have them there); lanes along k stay innermost. */
static void pack_one(const Builder *b, int panel)
{
    Words w = {""};
    const AxisList *batch = &b->c->panel_batch[panel];
    const char *operand = b->k->operand.at[b->c->panel[panel]].name;
    for (int i = 0; i < batch->n; i++) {
        word_add(&w, ',', axis_text(b->k, batch->at[i]), "");
    }
    int before = b->t->around && b->t->m_outer;
    if (before) {
        word_add(&w, ',', b->red, b->half[0]);
    }
    word_add(&w, ',', b->piece[0], tiles_n(b) ? ".o" : "");
    for (int i = before; i < b->n_halves - lanes_k(b->t); i++) {
        word_add(&w, ',', b->red, b->half[i]);
    }
    if (tiles_n(b)) {
        word_add(&w, ',', b->piece[0], ".i");
    }
    if (lanes_k(b->t)) {
        word_add(&w, ',', b->red, ".i");
    }
    schedule_add(b->s, STEP_PACK, "%s %s", operand, w.text);
}

bool comes_from_bf16(const Look *l)
{
    int n = 0;
    for (int i = 0; i < l->c.n_panels; i++) {
        n += l->k->operand.at[l->c.panel[i]].from_bf16;
    }
    return n > 0;
}

static void store_all(const Builder *b)
{
    for (int i = 0; b->t->bf16 && i < b->c->n_panels; i++) {
        const Operand *o = &b->k->operand.at[b->c->panel[i]];
        if (o->from_bf16) {
            schedule_add(b->s, STEP_STORE, "%s bf16", o->name);
        }
    }
}

int64_t panel_bytes(const Kernel *k, const Contraction *c, const Tile *t)
{
    return axis_constant(k, c->red) * t->nr * (t->bf16 ? 2 : 4);
}

/* Every tile of rows asks for the same lines of the next panel, so it is there when it begins. */
static int64_t bytes_ahead(const Builder *b)
{
    return b->t->prefetch == PREFETCH_PANEL ? panel_bytes(b->k, b->c, b->t) : b->t->prefetch;
}

/* At each turn of the innermost loop that is one, as many lines as the turn reads. */
static void prefetch_one(const Builder *b, int panel)
{
    bool written_out = lanes_k(b->t) || b->t->ku > 1;
    const char *half = b->half[b->n_halves - 1 - written_out];
    int elements = b->t->nr * (lanes_k(b->t) ? b->t->lanes : b->t->ku);
    int64_t lines = blocks(elements * (b->t->bf16 ? 2 : 4), LINE_BYTES);
    int64_t most = MAX_LINES / b->c->n_panels;
    for (int i = 0; i < (lines < most ? lines : most); i++) {
        schedule_add(b->s, STEP_PREFETCH, "%s %s%s %d",
                     b->k->operand.at[b->c->panel[panel]].name, b->red, half,
                     (int)bytes_ahead(b) + i * LINE_BYTES);
    }
}

/* What groups of the batch read. Around a tile, every turn asks for the same of a later tile, line by line as it
 * reads its own: what is under way already costs nothing but the asking, and is asked for between products.
 * Else lanes along k take nr rows of it at a turn of n.o, lanes along n
 * a part of a row at a turn of the reduction. */
static void prefetch_loose(const Builder *b, int loose)
{
    Words axis = {""};
    int64_t elements = b->t->nr;
    if (b->t->group == GROUP_AROUND) {
        schedule_add(b->s, STEP_PREFETCH, "%s %s%s %d",
                     b->k->operand.at[b->c->loose[loose]].name, b->piece[0],
                     tiles_n(b) ? ".i" : "", b->t->prefetch);
        return;
    }
    if (lanes_k(b->t)) {
        add_n(b, 0, &axis);
        elements *= axis_constant(b->k, b->c->red);
    } else {
        word_add(&axis, ' ', b->red, b->half[b->n_halves - 1 - (b->t->ku > 1)]);
        elements *= b->t->ku;
    }
    int64_t lines = blocks(elements * (int64_t)sizeof(float), LINE_BYTES);
    for (int i = 0; i < (lines < MAX_LOOSE_LINES ? lines : MAX_LOOSE_LINES); i++) {
        schedule_add(b->s, STEP_PREFETCH, "%s %s %d", b->k->operand.at[b->c->loose[loose]].name,
                     axis.text, b->t->prefetch + i * LINE_BYTES);
    }
}

static void stage_all(const Builder *b)
{
    for (int p = 0; p < b->n_pieces; p++) {
        for (int i = 0; i < b->c->n_loose; i++) {
            int only = b->n_pieces > 1 ? b->c->loose_piece[i] : 0;
            if (only == 0 || only == p + 1) {
                schedule_add(b->s, STEP_STAGE, "%s %s%s", b->k->operand.at[b->c->loose[i]].name,
                             b->piece[p], tiles_n(b) ? ".o" : "");
            }
        }
    }
}

static void share(const Builder *b)
{
    Words w = {""};
    if (b->t->par == PAR_BATCH && b->c->shared >= 0) {
        word_add(&w, ' ', axis_text(b->k, b->c->shared), b->t->group ? ".o" : "");
    } else if (b->t->par == PAR_OUTER) {
        add_first(b, 0, &w);
    } else {
        return;
    }
    schedule_add(b->s, STEP_PAR, "%s", w.text);
}

void contraction_schedule(const Look *l, const Recipe *p, Schedule *out)
{
    Builder b = {.k = l->k, .c = &l->c, .t = &p->tile, .s = out};
    b.red = axis_text(l->k, l->c.red);
    b.m = l->c.m < 0 ? NULL : axis_text(l->k, l->c.m);
    *out = (Schedule){0};
    split_names(&b);
    split_all(&b);
    for (int i = 0; i < b.n_pieces; i++) {
        order_piece(&b, i);
    }
    annotate(&b);
    for (int i = 0; packs(&b) && i < l->c.n_panels; i++) {
        pack_one(&b, i);
    }
    store_all(&b);
    for (int i = 0; p->tile.prefetch && i < l->c.n_panels; i++) {
        prefetch_one(&b, i);
    }
    if (p->tile.prefetch && p->tile.group) {
        prefetch_loose(&b, 0);
    }
    if (p->tile.lanes == LANES_STAGED) {
        stage_all(&b);
    }
    share(&b);
}
