/* bpe.c - byte-pair encoding: the pair of lowest rank is joined first, the leftmost on ties.
 *
 * A short piece is an array in which the best pair is searched anew after each merge. A long
 * one is a linked list with a heap of pairs: a megabyte of one letter takes n log n steps.
 * Pieces of ordinary text repeat, so their ids are remembered in a small table.
 * Needs: the vocabulary. spec: tokenizer 5 */
#include "model/model_int.h"
#include "model/text_int.h"

#include <string.h>
#include <xxhash.h>

enum { SHORT_PIECE = 64, CACHE_SLOTS = 1 << 15 };

/* ---- the merge table --------------------------------------------------------- */

static size_t merge_home(const Bpe *b, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    return (size_t)(h >> 32) & b->mask;
}

static Merge *merge_slot(const Bpe *b, uint32_t left, uint32_t right)
{
    for (size_t i = merge_home(b, left, right);; i = (i + 1) & b->mask) {
        Merge *m = &b->slot[i];
        if (m->left == NO_ID || (m->left == left && m->right == right)) {
            return m;
        }
    }
}

/* NULL: the two do not join. */
static const Merge *merge_of(const Bpe *b, uint32_t left, uint32_t right)
{
    const Merge *m = merge_slot(b, left, right);
    return m->left == NO_ID ? NULL : m;
}

/* The bytes of both parts, joined, in out; false: not two parts in the alphabet. */
static bool merge_bytes(const Lists *lists, const MergeEntry *entry, char *out, Span part[2])
{
    ptrdiff_t len = json_unescape(lists_span(lists, entry->part[0]), out), second = 0;
    if (len < 0) {
        return false;
    }
    if (entry->part[1].at > 0) {
        part[0] = (Span){out, (size_t)len};
        second = json_unescape(lists_span(lists, entry->part[1]), out + len);
        part[1] = (Span){out + len, (size_t)second};
    } else {
        char *space = memchr(out, ' ', (size_t)len);
        if (!space) {
            return false;
        }
        part[0] = (Span){out, (size_t)(space - out)};
        part[1] = (Span){space + 1, (size_t)len - part[0].len - 1};
    }
    ptrdiff_t left = second < 0 ? -1 : alphabet_decode(part[0], out);
    ptrdiff_t right = left <= 0 ? -1 : alphabet_decode(part[1], out + left);
    part[0] = (Span){out, (size_t)left};
    part[1] = (Span){out + left, (size_t)right};
    return right > 0;
}

static uint32_t find_part(const Bpe *b, Span part)
{
    return part.len == 1 ? b->byte_id[(uint8_t)part.at[0]]
                         : vocab_find(b->vocab, part.at, part.len);
}

/* The result of a merge is mostly the id after the last one's: look there before searching. */
static uint32_t find_result(const Vocab *v, Span whole, uint32_t guess)
{
    if (guess < v->n_ids && v->token[guess].len == whole.len && v->token[guess].at &&
        memcmp(v->token[guess].at, whole.at, whole.len) == 0) {
        return guess;
    }
    return vocab_find(v, whole.at, whole.len);
}

static _Noreturn void bad_merge(Env *e, const Bpe *b, const Lists *lists, int rank,
                                const char *what)
{
    Span first = lists_span(lists, lists->merges.at[rank].part[0]);
    fail(e, E_SYNTAX, "%s: merge %d, %s, %s.", b->file, rank, quoted(e, first.at, first.len),
         what);
}

static Merge read_merge(Env *e, Bpe *b, const Lists *lists, int rank, char *scratch,
                        uint32_t guess)
{
    Span part[2];
    if (!merge_bytes(lists, &lists->merges.at[rank], scratch, part)) {
        bad_merge(e, b, lists, rank, "is not two parts of the byte-level alphabet");
    }
    Merge m = {.rank = (uint32_t)rank};
    m.left = find_part(b, part[0]);
    m.right = find_part(b, part[1]);
    m.result = find_result(b->vocab, (Span){part[0].at, part[0].len + part[1].len}, guess);
    if (m.left == NO_ID || m.right == NO_ID || m.result == NO_ID) {
        bad_merge(e, b, lists, rank, "names a token that model.vocab lacks");
    }
    return m;
}

static void read_merges(Env *e, Bpe *b, const Lists *lists)
{
    size_t most = 0;
    for (int i = 0; i < lists->merges.n; i++) {
        const MergeEntry *m = &lists->merges.at[i];
        size_t len = (size_t)m->part[0].len + m->part[1].len;
        most = len > most ? len : most;
    }
    char *scratch = arena_alloc(&e->kernel, most + 1);
    uint32_t last = NO_ID;
    for (int i = 0; i < lists->merges.n; i++) {
        Merge m = read_merge(e, b, lists, i, scratch, last + 1);
        *merge_slot(b, m.left, m.right) = m; /* of two equal ones the last counts */
        b->made[m.result] = true;
        last = m.result;
    }
}

void bpe_build(Env *e, const char *file, const Lists *lists, const Vocab *v, Bpe *b)
{
    *b = (Bpe){.arena = &e->model, .file = file, .vocab = v};
    size_t n_slots = 64;
    while (2 * n_slots < 3 * (size_t)lists->merges.n) {
        n_slots *= 2;
    }
    b->mask = n_slots - 1;
    b->slot = arena_array(&e->model, Merge, n_slots);
    memset(b->slot, 0xFF, n_slots * sizeof *b->slot);
    b->cache = arena_array(&e->model, PieceSlot, CACHE_SLOTS);
    b->made = arena_array(&e->model, bool, v->n_ids + 1);
    for (int c = 0; c < 256; c++) {
        b->byte_id[c] = vocab_find(v, &(char){(char)c}, 1);
        if (b->byte_id[c] != NO_ID) {
            b->made[b->byte_id[c]] = true;
        }
    }
    read_merges(e, b, lists);
}

static uint32_t symbol_of(const Bpe *b, uint8_t byte)
{
    uint32_t id = b->byte_id[byte];
    if (id == NO_ID) {
        fail(b->vocab->env, E_INPUT,
             "%s: the vocabulary has no token for the byte 0x%02X of the text.", b->file, byte);
    }
    return id;
}

/* ---- short pieces ------------------------------------------------------------ */

/* Index of the pair to join next; -1: none joins. */
static int best_pair(const Merge *const *pair, int n_pairs)
{
    int best = -1;
    uint32_t rank = UINT32_MAX;
    for (int i = 0; i < n_pairs; i++) {
        if (pair[i] && pair[i]->rank < rank) {
            rank = pair[i]->rank;
            best = i;
        }
    }
    return best;
}

static int encode_short(const Bpe *b, const char *piece, int n, uint32_t symbol[SHORT_PIECE])
{
    const Merge *pair[SHORT_PIECE]; /* pair[i] joins symbols i and i + 1 */
    for (int i = 0; i < n; i++) {
        symbol[i] = symbol_of(b, (uint8_t)piece[i]);
        if (i > 0) {
            pair[i - 1] = merge_of(b, symbol[i - 1], symbol[i]);
        }
    }
    for (int i; (i = best_pair(pair, n - 1)) >= 0;) {
        symbol[i] = pair[i]->result;
        n--;
        memmove(&symbol[i + 1], &symbol[i + 2], (size_t)(n - i - 1) * sizeof *symbol);
        if (i < n - 1) {
            memmove(&pair[i + 1], &pair[i + 2], (size_t)(n - i - 2) * sizeof *pair);
            pair[i] = merge_of(b, symbol[i], symbol[i + 1]);
        }
        if (i > 0) {
            pair[i - 1] = merge_of(b, symbol[i - 1], symbol[i]);
        }
    }
    return n;
}

/* ---- long pieces ------------------------------------------------------------- */

typedef struct Link {
    uint32_t symbol;
    int32_t before, after; /* -1: none */
    const Merge *pair;     /* joins this one and the one after it */
} Link;

typedef struct Chain {
    Vec(Link) link;
    Vec(uint64_t) heap; /* rank << 32 | position: the least is the leftmost of lowest rank */
} Chain;

static void heap_push(Bpe *b, Chain *c, uint64_t key)
{
    vec_push(b->arena, &c->heap);
    int i = c->heap.n - 1;
    for (; i > 0 && c->heap.at[(i - 1) / 2] > key; i = (i - 1) / 2) {
        c->heap.at[i] = c->heap.at[(i - 1) / 2];
    }
    c->heap.at[i] = key;
}

static uint64_t heap_pop(Chain *c)
{
    uint64_t *at = c->heap.at, top = at[0], key = at[--c->heap.n];
    int n = c->heap.n, i = 0;
    for (int child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && at[child + 1] < at[child];
        if (at[child] >= key) {
            break;
        }
        at[i] = at[child];
    }
    at[i] = key;
    return top;
}

static void find_pair(Bpe *b, Chain *c, int32_t i)
{
    Link *l = &c->link.at[i];
    l->pair = l->after < 0 ? NULL : merge_of(b, l->symbol, c->link.at[l->after].symbol);
    if (l->pair) {
        heap_push(b, c, (uint64_t)l->pair->rank << 32 | (uint32_t)i);
    }
}

static void join(Bpe *b, Chain *c, int32_t i)
{
    Link *l = &c->link.at[i], *gone = &c->link.at[l->after];
    l->symbol = l->pair->result;
    gone->pair = NULL;
    l->after = gone->after;
    if (l->after >= 0) {
        c->link.at[l->after].before = i;
    }
    find_pair(b, c, i);
    if (l->before >= 0) {
        find_pair(b, c, l->before);
    }
}

static void encode_long(Bpe *b, const char *piece, size_t len, Ids *out)
{
    if (!b->chain) {
        b->chain = arena_new(b->arena, Chain);
    }
    Chain *c = b->chain;
    c->link.n = c->heap.n = 0;
    for (size_t i = 0; i < len; i++) {
        uint32_t symbol = symbol_of(b, (uint8_t)piece[i]);
        int32_t after = i + 1 < len ? (int32_t)i + 1 : -1;
        *vec_push(b->arena, &c->link) = (Link){symbol, (int32_t)i - 1, after, NULL};
    }
    for (int32_t i = 0; i < c->link.n; i++) {
        find_pair(b, c, i);
    }
    while (c->heap.n > 0) {
        uint64_t key = heap_pop(c);
        const Merge *pair = c->link.at[(uint32_t)key].pair;
        if (pair && pair->rank == key >> 32) { /* else it was joined with another meanwhile */
            join(b, c, (int32_t)(uint32_t)key);
        }
    }
    for (int32_t i = 0; i >= 0; i = c->link.at[i].after) {
        *vec_push(out->arena, out) = (int32_t)c->link.at[i].symbol;
    }
}

/* ---- pieces that come again -------------------------------------------------- */

static void push_ids(Ids *out, const int32_t *id, int n)
{
    for (int i = 0; i < n; i++) {
        *vec_push(out->arena, out) = id[i];
    }
}

static void remember(PieceSlot *slot, const char *piece, size_t len, const int32_t *id, int n)
{
    if ((size_t)n > countof(slot->id)) {
        return;
    }
    memcpy(slot->text, piece, len);
    memcpy(slot->id, id, (size_t)n * sizeof *id);
    slot->text_len = (uint8_t)len;
    slot->n_ids = (uint8_t)n;
}

void bpe_encode(Bpe *b, const char *piece, size_t len, Ids *out)
{
    if (len > SHORT_PIECE) {
        encode_long(b, piece, len, out);
        return;
    }
    PieceSlot *slot = NULL;
    if (len <= sizeof slot->text) {
        slot = &b->cache[XXH3_64bits(piece, len) % CACHE_SLOTS];
        if (slot->text_len == len && memcmp(slot->text, piece, len) == 0) {
            push_ids(out, slot->id, slot->n_ids);
            return;
        }
    }
    uint32_t symbol[SHORT_PIECE];
    int n = encode_short(b, piece, (int)len, symbol);
    push_ids(out, (const int32_t *)symbol, n);
    if (slot) {
        remember(slot, piece, len, (const int32_t *)symbol, n);
    }
}
