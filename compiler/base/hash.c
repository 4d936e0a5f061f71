/* hash.c - 128-bit keys of bytes (XXH3, the same on every machine), and a map from them to
 * pointers. A key is trusted to be unique: at 128 bits a collision is not a case. */
#include "base/base.h"

#include <xxhash.h>

enum { FIRST_SLOTS = 64 };

Hash hash_bytes(const void *p, size_t len)
{
    XXH128_hash_t h = XXH3_128bits(p, len);
    return (Hash){.hi = h.high64, .lo = h.low64};
}

Hash hash_str(const char *s)
{
    return hash_bytes(s, __builtin_strlen(s));
}

bool hash_eq(Hash a, Hash b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

void hash_hex(Hash h, char out[33])
{
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
}

struct MapSlot {
    Hash key;
    void *value; /* NULL: free */
};

void map_init(Map *m, Arena *a)
{
    *m = (Map){.arena = a};
}

/* The slot that holds key, or the free one where it belongs. At least one is free. */
static struct MapSlot *find(const Map *m, Hash key)
{
    size_t mask = m->cap - 1;
    size_t i = key.lo & mask;
    while (m->slot[i].value && !hash_eq(m->slot[i].key, key)) {
        i = (i + 1) & mask;
    }
    return &m->slot[i];
}

void *map_get(const Map *m, Hash key)
{
    return m->n ? find(m, key)->value : NULL;
}

static void grow(Map *m)
{
    Map wider = {.arena = m->arena, .n = m->n, .cap = m->cap ? m->cap * 2 : FIRST_SLOTS};
    wider.slot = arena_alloc_n(m->arena, wider.cap, sizeof *wider.slot);
    for (size_t i = 0; i < m->cap; i++) {
        if (m->slot[i].value) {
            *find(&wider, m->slot[i].key) = m->slot[i];
        }
    }
    *m = wider;
}

void map_put(Map *m, Hash key, void *value)
{
    check(value);
    if (m->n + 1 > m->cap / 4 * 3) {
        grow(m);
    }
    struct MapSlot *s = find(m, key);
    m->n += s->value == NULL;
    *s = (struct MapSlot){.key = key, .value = value};
}
