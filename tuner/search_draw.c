/* search_draw.c - where strategies get indices that are not asked yet: in a random order, by
 * number, next to another. needs: the set of those asked. keeps: every index is found once. */
#include "tuner/search_int.h"

enum { FIRST_SLOTS = 64, WALK_STEPS = 16 };

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* ---- a random order ---------------------------------------------------------------------- */

/* Swap-or-not (Hoang, Morris, Rogaway 2012): a round pairs every x with pivot - x and, pair by
 * pair, swaps the two or does not. Exact for any n, and close to uniform after some six rounds a
 * bit. */
void shuffle_init(Shuffle *p, uint64_t n, uint64_t seed)
{
    Rng r;
    rng_seed(&r, seed);
    p->n = n;
    p->n_rounds = 40;
    for (uint64_t left = n; left > 0; left >>= 1) {
        p->n_rounds += 6;
    }
    p->n_rounds = p->n_rounds < MAX_SHUFFLE ? p->n_rounds : MAX_SHUFFLE;
    for (int i = 0; n > 0 && i < p->n_rounds; i++) {
        p->pivot[i] = rng_below(&r, n);
        p->salt[i] = rng_u64(&r);
    }
}

uint64_t shuffle_at(const Shuffle *p, uint64_t place)
{
    uint64_t x = place;
    for (int i = 0; i < p->n_rounds; i++) {
        uint64_t pivot = p->pivot[i];
        uint64_t other = pivot >= x ? pivot - x : pivot + p->n - x;
        uint64_t pair = x > other ? x : other;
        x = mix(pair + p->salt[i]) & 1 ? other : x;
    }
    return x;
}

/* ---- those asked ------------------------------------------------------------------------- */

/* The slot that holds the index, or the free one where it belongs. */
static uint64_t *slot_of(const IndexSet *set, uint64_t index)
{
    size_t i = mix(index + 0x9e3779b97f4a7c15) & (set->cap - 1);
    while (set->slot[i] && set->slot[i] != index + 1) {
        i = (i + 1) & (set->cap - 1);
    }
    return &set->slot[i];
}

bool index_set_has(const IndexSet *set, uint64_t index)
{
    return set->n > 0 && *slot_of(set, index);
}

void index_set_add(IndexSet *set, uint64_t index)
{
    if (2 * set->n >= set->cap) {
        IndexSet wider = {set->arena, NULL, set->n, set->cap ? 2 * set->cap : FIRST_SLOTS};
        wider.slot = arena_array(set->arena, uint64_t, wider.cap);
        for (size_t i = 0; i < set->cap; i++) {
            if (set->slot[i]) {
                *slot_of(&wider, set->slot[i] - 1) = set->slot[i];
            }
        }
        *set = wider;
    }
    uint64_t *slot = slot_of(set, index);
    set->n += !*slot;
    *slot = index + 1;
}

/* ---- those that are not ------------------------------------------------------------------ */

uint64_t draw_random(Search *s)
{
    uint64_t *drawn = &s->in->n_drawn, index;
    while (search_asked(s, index = shuffle_at(&s->in->order, *drawn))) {
        (*drawn)++;
    }
    return index;
}

uint64_t draw_in_order(Search *s)
{
    while (search_asked(s, s->in->n_in_order)) {
        s->in->n_in_order++;
    }
    return s->in->n_in_order;
}

/* Leaves the asked ones out; how many are left. */
static int unasked(const Search *s, uint64_t *index, int n)
{
    int left = 0;
    for (int i = 0; i < n; i++) {
        if (!search_asked(s, index[i])) {
            index[left++] = index[i];
        }
    }
    return left;
}

bool near_left(const Search *s, uint64_t centre)
{
    uint64_t near[MAX_NEAR];
    return unasked(s, near, s->space.neighbours(s->space.ctx, centre, near)) > 0;
}

bool draw_near(Search *s, uint64_t centre, Rng *r, uint64_t *out)
{
    uint64_t near[MAX_NEAR];
    int n = unasked(s, near, s->space.neighbours(s->space.ctx, centre, near));
    if (n > 0) {
        *out = near[rng_below(r, (uint64_t)n)];
    }
    return n > 0;
}

/* A neighbour, asked or not; the centre itself where it has none. */
static uint64_t step(const Search *s, uint64_t centre, Rng *r)
{
    uint64_t near[MAX_NEAR];
    int n = s->space.neighbours(s->space.ctx, centre, near);
    return n > 0 ? near[rng_below(r, (uint64_t)n)] : centre;
}

uint64_t draw_walk(Search *s, uint64_t centre, Rng *r)
{
    uint64_t out;
    for (int i = 0; i < WALK_STEPS; i++) {
        if (draw_near(s, centre, r, &out)) {
            return out;
        }
        centre = step(s, centre, r);
    }
    return draw_random(s);
}

uint64_t draw_kick(Search *s, uint64_t centre, int n_steps, Rng *r)
{
    for (int i = 0; i < n_steps; i++) {
        centre = step(s, centre, r);
    }
    return search_asked(s, centre) ? draw_walk(s, centre, r) : centre;
}
