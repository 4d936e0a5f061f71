/* guard.c - buffers whose neighbourhood is watched. With guard pages an access past the buffer's end, or
 * before its front, is a fault of the process; what lies between buffer and page border holds canaries, which are
 * also NaNs, so that values read from there spoil a result. Without, there are canaries on both sides. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run/verify_int.h"

#define CANARY 0x7fc1c0deu /* as f32 a NaN */
#define HUGE_FROM_BYTES ((size_t)4 << 20)

static uint8_t canary_at(size_t i)
{
    return (uint8_t)(CANARY >> i % 4 * 8);
}

static size_t front_bytes(const Guarded *g)
{
    return (size_t)((uint8_t *)g->at - g->zone);
}

/* Offset in the zone of the canary after that at i. */
static size_t next_canary(const Guarded *g, size_t i)
{
    return i + 1 == front_bytes(g) ? i + 1 + g->bytes : i + 1;
}

void guarded_init(Env *e, Guarded *g, size_t bytes, bool at_end, bool pages)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (bytes / page + (bytes % page || !bytes)) * page;
    size_t zone_bytes = pages ? room : room + 2 * page;
    size_t map_bytes = zone_bytes + 2 * page;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    uint8_t *map = os.mmap(NULL, map_bytes, PROT_NONE, flags, -1, 0);
    if (map == MAP_FAILED) {
        fail(e, E_NOMEM, "There is no memory for a buffer of %zu bytes: %s.", bytes,
             strerror(errno));
    }
    uint8_t *zone = map + page;
    if (os.mmap(zone, zone_bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) ==
        MAP_FAILED) {
        int why = errno;
        os.munmap(map, map_bytes);
        fail(e, E_NOMEM, "There is no memory for a buffer of %zu bytes: %s.", bytes,
             strerror(why));
    }
    if (zone_bytes >= HUGE_FROM_BYTES) { /* else its pages cost more than what is in them */
        os.madvise(zone, zone_bytes, MADV_HUGEPAGE);
    }
    size_t front = !pages ? page : at_end ? zone_bytes - bytes : 0;
    *g = (Guarded){zone + front, bytes, zone, zone_bytes, map, map_bytes};
    for (size_t i = front ? 0 : bytes; i < zone_bytes; i = next_canary(g, i)) {
        zone[i] = canary_at(i);
    }
}

bool guarded_intact(const Guarded *g, int64_t *where)
{
    size_t front = front_bytes(g);
    for (size_t i = front ? 0 : g->bytes; i < g->zone_bytes; i = next_canary(g, i)) {
        if (g->zone[i] != canary_at(i)) {
            *where = (int64_t)i - (int64_t)front;
            return false;
        }
    }
    return true;
}

void guarded_release(Guarded *g)
{
    if (g->map) {
        os.munmap(g->map, g->map_bytes);
    }
    *g = (Guarded){0};
}
