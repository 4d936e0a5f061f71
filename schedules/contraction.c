/* contraction.c - the plan of a contraction as steps. Two shapes of inner loop:
 *
 *     lanes along n    n.o m.o k.. [m.i n.i]     a register tile of mr x nr; constant operands in panels
 *     lanes along k    m.o n.o k.o [m.i n.i k.i] mr x nr dot products with private sums
 *
 * Whichever loop is spread over threads stands outermost. needs: what contraction_look found.
 * breaks: nothing; whether the steps are legal is for the mechanism to say. */
#include <string.h>

#include "schedules/schedules_int.h"

#define LINE_BYTES 64
#define MAX_LINES 4 /* prefetched at one turn */

typedef struct Words { /* the arguments of one step */
    char text[MAX_STEP_ARGS];
} Words;

static void add_word(Words *w, char between, const char *axis, const char *half)
{
    size_t len = strlen(w->text);
    int n = snprintf(w->text + len, sizeof w->text - len, "%.1s%s%s", len ? &between : "", axis, half);
    check(n >= 0 && (size_t)n < sizeof w->text - len);
}

typedef struct Builder {
    const Contraction *c;
    const Tile *t;
    Schedule *s;
} Builder;

static const char *name(const Builder *b, int axis)
{
    return axis_text(b->c->k, axis);
}

static bool tiles_m(const Builder *b)
{
    return b->c->m >= 0 && b->t->mr > 1;
}

static bool tiles_n(const Builder *b)
{
    return b->t->nr > 1;
}

static bool pads(const Builder *b)
{
    return b->t->panels && b->c->n_panels > 0 && b->c->all_panels;
}

int contraction_batch(const Contraction *c)
{
    for (int i = 0; i < c->batch.n; i++) {
        if (!axis_is_unit(&c->k->nest, c->batch.at[i])) {
            return c->batch.at[i];
        }
    }
    return -1;
}

static int par_axis(const Builder *b)
{
    switch (b->t->par) {
    case PAR_BATCH: return contraction_batch(b->c);
    case PAR_M: return b->c->m;
    case PAR_N: return b->c->n;
    default: return -1;
    }
}

/* ---- splits ---- */

/* The loops that the reduction becomes, outermost first: "k.o", "k.i.o" ... */
typedef struct Halves {
    int n;
    const char *at[3];
} Halves;

static Halves reduction_halves(const Builder *b)
{
    static const Halves whole = {1, {""}}, two = {2, {".o", ".i"}}, three = {3, {".o", ".i.o", ".i.i"}};
    if (b->t->lanes_k) {
        return two;
    }
    return b->t->kc && b->t->ku > 1 ? three : b->t->kc || b->t->ku > 1 ? two : whole;
}

static void split_reduction(const Builder *b)
{
    const char *k = name(b, b->c->red);
    if (b->t->lanes_k) {
        schedule_add(b->s, STEP_SPLIT, "%s %d peel", k, b->t->lanes_k);
        return;
    }
    if (b->t->kc) {
        schedule_add(b->s, STEP_SPLIT, "%s %d peel", k, b->t->kc);
    }
    if (b->t->ku > 1) {
        schedule_add(b->s, STEP_SPLIT, "%s%s %d peel", k, b->t->kc ? ".i" : "", b->t->ku);
    }
}

static void split_all(const Builder *b)
{
    if (tiles_n(b)) {
        const char *tail = b->t->lanes_k ? "switch" : pads(b) ? "pad" : "peel";
        schedule_add(b->s, STEP_SPLIT, "%s %d %s", name(b, b->c->n), b->t->nr, tail);
    }
    if (tiles_m(b)) {
        schedule_add(b->s, STEP_SPLIT, "%s %d switch", name(b, b->c->m), b->t->mr);
    }
    split_reduction(b);
}

/* ---- order ---- */

static void add_outer(const Builder *b, Words *w, int axis)
{
    bool halves = axis == b->c->n ? tiles_n(b) : axis == b->c->m && tiles_m(b);
    if (axis >= 0) {
        add_word(w, ' ', name(b, axis), halves ? ".o" : "");
    }
}

static void add_outer_unless(const Builder *b, Words *w, int axis, int unless)
{
    if (axis != unless) {
        add_outer(b, w, axis);
    }
}

static void order_all(const Builder *b)
{
    Words w = {""};
    int par = par_axis(b), m = b->c->m, n = b->c->n;
    Halves k = reduction_halves(b);
    add_outer(b, &w, par);
    for (int i = 0; i < b->c->batch.n; i++) {
        add_outer_unless(b, &w, b->c->batch.at[i], par);
    }
    add_outer_unless(b, &w, b->t->m_outer ? m : n, par);
    add_outer_unless(b, &w, b->t->m_outer ? n : m, par);
    for (int i = 0; i < k.n - (b->t->lanes_k ? 1 : 0); i++) {
        add_word(&w, ' ', name(b, b->c->red), k.at[i]);
    }
    if (tiles_m(b)) {
        add_word(&w, ' ', name(b, m), ".i");
    }
    if (tiles_n(b)) {
        add_word(&w, ' ', name(b, n), ".i");
    }
    if (b->t->lanes_k) {
        add_word(&w, ' ', name(b, b->c->red), ".i");
    }
    schedule_add(b->s, STEP_ORDER, "%s", w.text);
}

/* ---- what the loops become ---- */

static void annotate(const Builder *b)
{
    const char *k = name(b, b->c->red);
    Halves h = reduction_halves(b);
    if (b->t->lanes_k) {
        schedule_add(b->s, STEP_ACC, "%s.i", k);
        schedule_add(b->s, STEP_VEC, "%s.i", k);
    }
    if (tiles_n(b)) {
        schedule_add(b->s, b->t->lanes_k ? STEP_UNROLL : STEP_VEC, "%s.i", name(b, b->c->n));
    }
    if (tiles_m(b)) {
        schedule_add(b->s, STEP_UNROLL, "%s.i", name(b, b->c->m));
    }
    if (!b->t->lanes_k && b->t->ku > 1) {
        schedule_add(b->s, STEP_UNROLL, "%s%s", k, h.at[h.n - 1]);
    }
    if (b->t->fma) {
        schedule_add(b->s, STEP_FMA, "%s", "");
    }
    if (b->t->approx) {
        schedule_add(b->s, STEP_APPROX, "exp");
    }
}

/* ---- panels ---- */

static void pack_one(const Builder *b, int panel)
{
    Words w = {""};
    Halves k = reduction_halves(b);
    const AxisList *batch = &b->c->panel_batch[panel];
    for (int i = 0; i < batch->n; i++) {
        add_word(&w, ',', name(b, batch->at[i]), "");
    }
    add_word(&w, ',', name(b, b->c->n), tiles_n(b) ? ".o" : "");
    for (int i = 0; i < k.n; i++) {
        add_word(&w, ',', name(b, b->c->red), k.at[i]);
    }
    if (tiles_n(b)) {
        add_word(&w, ',', name(b, b->c->n), ".i");
    }
    schedule_add(b->s, STEP_PACK, "%s %s", b->c->k->operand.at[b->c->panel[panel]].name, w.text);
}

static void prefetch_one(const Builder *b, int panel)
{
    Halves k = reduction_halves(b);
    const char *half = k.at[k.n - 1 - (b->t->ku > 1 ? 1 : 0)];
    int lines = b->t->nr * b->t->ku * (int)sizeof(float) / LINE_BYTES;
    lines = lines < 1 ? 1 : lines > MAX_LINES ? MAX_LINES : lines;
    for (int i = 0; i < lines; i++) {
        schedule_add(b->s, STEP_PREFETCH, "%s %s%s %d", b->c->k->operand.at[b->c->panel[panel]].name,
                     name(b, b->c->red), half, b->t->prefetch + i * LINE_BYTES);
    }
}

void contraction_schedule(const Contraction *c, const Tile *t, Schedule *out)
{
    Builder b = {c, t, out};
    *out = (Schedule){0};
    split_all(&b);
    order_all(&b);
    annotate(&b);
    for (int i = 0; pads(&b) && i < c->n_panels; i++) {
        pack_one(&b, i);
    }
    for (int i = 0; pads(&b) && t->prefetch && i < c->n_panels; i++) {
        prefetch_one(&b, i);
    }
    int par = par_axis(&b);
    if (par >= 0) {
        bool halves = par == c->n ? tiles_n(&b) : par == c->m && tiles_m(&b);
        schedule_add(out, STEP_PAR, "%s%s", name(&b, par), halves ? ".o" : "");
    }
}
