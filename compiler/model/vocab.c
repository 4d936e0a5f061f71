/* vocab.c - what bytes every token stands for, and which token stands for some bytes.
 *
 * tokenizer.json writes bytes in a printable alphabet (GPT-2's): 188 bytes are the character of
 * the same value, the other 68 are U+0100 to U+0143 in order. It is undone once, here; behind
 * this file tokens are raw bytes. Needs: the scanned lists. */
#include "model/model_int.h"
#include "model/text_int.h"

#include <string.h>
#include <xxhash.h>

/* The byte a character of the alphabet stands for; -1: not in it. */
static int byte_of(int32_t c)
{
    if ((c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF)) {
        return c;
    }
    if (c >= 0x100 && c <= 0x120) {
        return c - 0x100;
    }
    if (c >= 0x121 && c <= 0x142) {
        return c - 0x121 + 0x7F;
    }
    return c == 0x143 ? 0xAD : -1;
}

ptrdiff_t alphabet_decode(Span text, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len;) {
        int32_t c = (uint8_t)text.at[i++];
        if (c >= 0xC0) {
            int32_t next = i < text.len ? text.at[i++] & 0x3F : 0;
            c = c < 0xE0 ? (c & 0x1F) << 6 | next : -1;
        }
        int byte = byte_of(c);
        if (byte < 0) {
            return -1;
        }
        out[n++] = (char)byte;
    }
    return (ptrdiff_t)n;
}

static VocabSlot *slot_of(const Vocab *v, const char *bytes, size_t len, uint32_t *hash)
{
    uint64_t h = XXH3_64bits(bytes, len);
    *hash = (uint32_t)(h >> 32);
    for (size_t i = h & v->mask;; i = (i + 1) & v->mask) {
        VocabSlot *slot = &v->slot[i];
        if (slot->id == NO_ID) {
            return slot;
        }
        if (slot->hash == *hash && v->token[slot->id].len == len &&
            memcmp(v->token[slot->id].at, bytes, len) == 0) {
            return slot;
        }
    }
}

uint32_t vocab_find(const Vocab *v, const char *bytes, size_t len)
{
    uint32_t hash;
    return slot_of(v, bytes, len, &hash)->id;
}

/* A token in the alphabet can be found by its bytes; one outside it (an added token that is
 * also listed) only has a text. */
static void add_token(Vocab *v, uint32_t id, Span key, Span token, bool is_bytes)
{
    uint32_t hash;
    if (v->token[id].at) {
        fail(v->env, E_SYNTAX, "%s: model.vocab gives the id %u to two tokens; one is %s.",
             v->file, id, quoted(v->env, key.at, key.len));
    }
    v->token[id] = token;
    if (!is_bytes) {
        return;
    }
    VocabSlot *slot = slot_of(v, token.at, token.len, &hash);
    if (slot->id != NO_ID) {
        fail(v->env, E_SYNTAX, "%s: model.vocab lists the token %s twice.", v->file,
             quoted(v->env, key.at, key.len));
    }
    *slot = (VocabSlot){hash, id};
}

/* Tables are as long as the highest id, so ids must not be far apart: a file cannot ask for
 * more memory than about its own size. */
static void count_id(Vocab *v, int64_t id, size_t n_tokens)
{
    size_t most = 2 * n_tokens + 65536;
    if (id < 0 || (uint64_t)id >= most) {
        fail(v->env, E_SYNTAX,
             "%s: the token id %lld is not between 0 and %zu (there are %zu tokens).", v->file,
             (long long)id, most - 1, n_tokens);
    }
    if (id >= v->n_ids) {
        v->n_ids = (uint32_t)id + 1;
    }
}

static void count_ids(Vocab *v, const Lists *lists, const Added *added)
{
    size_t n_tokens = (size_t)lists->vocab.n + added->n;
    for (int i = 0; i < lists->vocab.n; i++) {
        count_id(v, lists->vocab.at[i].id, n_tokens);
    }
    for (size_t i = 0; i < added->n; i++) {
        count_id(v, added->at[i].id, n_tokens);
    }
}

static void make_tables(Vocab *v, size_t n_tokens)
{
    size_t n_slots = 64;
    while (2 * n_slots < 3 * n_tokens) {
        n_slots *= 2;
    }
    v->mask = n_slots - 1;
    v->slot = arena_array(&v->env->model, VocabSlot, n_slots);
    memset(v->slot, 0xFF, n_slots * sizeof *v->slot);
    v->token = arena_array(&v->env->model, Span, v->n_ids + 1);
}

static void set_added(Vocab *v, const AddedToken *a)
{
    Span *token = &v->token[a->id];
    if (token->at &&
        (token->len != a->content.len || memcmp(token->at, a->content.at, token->len))) {
        fail(v->env, E_SYNTAX, "%s: the added token %s has the id %d of another token.",
             v->file, quoted(v->env, a->content.at, a->content.len), a->id);
    }
    *token = a->content;
}

void vocab_build(Env *e, const char *file, const Lists *lists, const Added *added, Vocab *v)
{
    *v = (Vocab){.env = e, .file = file};
    count_ids(v, lists, added);
    make_tables(v, (size_t)lists->vocab.n + added->n);
    size_t n_bytes = 1;
    for (int i = 0; i < lists->vocab.n; i++) {
        n_bytes += lists->vocab.at[i].key.len;
    }
    char *blob = arena_alloc(&e->model, n_bytes);
    for (int i = 0; i < lists->vocab.n; i++) {
        const VocabEntry *entry = &lists->vocab.at[i];
        Span key = lists_span(lists, entry->key);
        ptrdiff_t len = json_unescape(key, blob);
        if (len < 0 || utf8_valid(blob, (size_t)len) != (size_t)len) {
            fail(e, E_SYNTAX, "%s: the token %s of model.vocab is not a valid JSON string.",
                 file, quoted(e, key.at, key.len));
        }
        ptrdiff_t n = alphabet_decode((Span){blob, (size_t)len}, blob);
        bool is_bytes = n >= 0;
        if (!is_bytes) {
            n = json_unescape(key, blob);
        }
        add_token(v, (uint32_t)entry->id, key, (Span){blob, (size_t)n}, is_bytes);
        blob += n;
    }
    for (size_t i = 0; i < added->n; i++) {
        set_added(v, &added->at[i]);
    }
}
