/* pack.c - weights as they are laid out, kept in a file, so that the next start is a page-in.
 *
 *     a page of header: magic, the layout of the tables, length, print and sum of the payload
 *     payload: the bytes of NcWeights.memory; zeros between its buffers
 *
 * Nothing in it is trusted. Length and layout must be those of the tables, whose layout names the
 * weights' files too, so that no other model's file is ever used. At every start 256 pieces of 4 KiB
 * are looked at: a file that was cut, or has a hole, is found; a single byte that changed is found where
 * all is read, which copying does on its way, and nc_options.pack_check asks for. What is not as it
 * should be is written anew; a file that does not begin as one of ours is never written over.
 * It appears complete or not at all. needs: nobody shortens it while it is mapped. */
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PACK_HEADER = 4096, PACK_PIECE = 1 << 18, PACK_TRIES = 100 };

static const char pack_magic[8] = "ncpack1\n";

typedef struct PackHeader {
    char magic[sizeof pack_magic];
    uint64_t layout; /* NcTables.layout */
    int64_t n_bytes; /* of the payload */
    uint64_t print;  /* weights_print of it */
    uint64_t sum;    /* of all of it */
} PackHeader;

typedef struct Pass { /* over all of a payload, on all threads */
    const uint8_t *from;
    uint8_t *to; /* NULL: it is only summed */
    int64_t n_bytes;
    const nc_options *o;
    _Atomic int64_t next; /* the piece to be taken */
    _Atomic uint64_t sum;
} Pass;

static bool stopped(const nc_options *o)
{
    return o->stop && *o->stop;
}

/* What became of the file; a sentence. */
static void pack_note(const nc_options *o, const char *fmt, ...) PRINTF(2, 3);
static void pack_note(const nc_options *o, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    if (o->note) {
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        o->note(o->note_ctx, text);
    }
}

/* ---- all of the bytes ---------------------------------------------------------------------- */

/* Of whole lines. Every single change of a word changes it; made against accidents, not against people. */
static uint64_t piece_sum(const uint8_t *p, int64_t n_bytes, int64_t at)
{
    uint64_t lane[8] = {1, 2, 3, 4, 5, 6, 7, 8}, h = (uint64_t)at;
    for (int64_t i = 0; i < n_bytes; i += sizeof lane) {
        uint64_t word[8];
        memcpy(word, p + i, sizeof word);
        for (int k = 0; k < 8; k++) {
            lane[k] = (lane[k] ^ word[k]) * 0x9e3779b97f4a7c15u;
        }
    }
    for (int k = 0; k < 8; k++) {
        h = (h ^ lane[k]) * 0xbf58476d1ce4e5b9u;
        h ^= h >> 29;
    }
    return h;
}

static void pass_part(void *ctx, int part, int n_parts)
{
    Pass *p = ctx;
    (void)part, (void)n_parts;
    for (int64_t at = p->next++ * PACK_PIECE; at < p->n_bytes; at = p->next++ * PACK_PIECE) {
        int64_t left = p->n_bytes - at, n = left < PACK_PIECE ? left : PACK_PIECE;
        if (stopped(p->o)) {
            return;
        }
        if (p->to) {
            memcpy(p->to + at, p->from + at, (size_t)n);
        }
        p->sum += piece_sum(p->to ? p->to + at : p->from + at, n, at);
    }
}

static uint64_t pass_over(const void *from, void *to, int64_t n_bytes, const nc_options *o,
                          Pool *pool)
{
    Pass p = {.from = from, .to = to, .n_bytes = n_bytes, .o = o};
    pool_run(pool, pass_part, &p);
    return p.sum;
}

/* ---- reading ------------------------------------------------------------------------------- */

static PackState judge(PackState state, const char *sentence, const char **why)
{
    *why = sentence;
    return state;
}

/* Is it that of these tables, as far as its header and length tell? */
static PackState look_at_header(const NcTables *t, int fd, const char **why)
{
    struct stat st;
    PackHeader h;
    int64_t payload = weights_bytes(t, NULL);
    if (os.fstat(fd, &st) != 0) {
        return judge(PACK_FOREIGN, strerror(errno), why);
    }
    ssize_t n = S_ISREG(st.st_mode) ? os.read(fd, &h, sizeof h) : 0;
    if (n < 0) {
        return judge(PACK_FOREIGN, strerror(errno), why);
    }
    if (!S_ISREG(st.st_mode) ||
        memcmp(h.magic, pack_magic, n < (ssize_t)sizeof h.magic ? (size_t)n : sizeof h.magic)) {
        return judge(PACK_FOREIGN, "it is no pack file", why);
    }
    if (n == sizeof h && (h.layout != t->layout || h.n_bytes != payload)) {
        return judge(PACK_STALE, "it is another library's", why);
    }
    return st.st_size == PACK_HEADER + payload
               ? PACK_TAKEN
               : judge(PACK_STALE, "its length is another", why);
}

/* Does the payload, as long as the tables say, have its sums? Fills `to`, where that is not NULL. */
static bool payload_whole(const uint8_t *file, int64_t n_bytes, void *to, const nc_options *o,
                          Pool *pool)
{
    PackHeader h;
    memcpy(&h, file, sizeof h);
    const uint8_t *payload = file + PACK_HEADER;
    return weights_print(payload, n_bytes, 0) == h.print &&
           ((!to && !o->pack_check) || pass_over(payload, to, n_bytes, o, pool) == h.sum);
}

/* The mapping becomes the weights' memory, or its copy does. */
static PackState take_payload(uint8_t *file, const NcTables *t, const nc_options *o, Pool *pool,
                              NcWeights *w, const char **why)
{
    int64_t payload = weights_bytes(t, NULL);
    size_t all = (size_t)(PACK_HEADER + payload);
    char *copy = NULL;
    if (o->pack_copy && !weights_reserve(&copy, payload, NULL)) {
        os.munmap(file, all);
        return judge(PACK_FOREIGN, "there is no memory for a copy", why);
    }
    bool whole = payload_whole(file, payload, copy, o, pool);
    if (copy || !whole) {
        os.munmap(file, all);
    }
    if (!whole) {
        if (copy) {
            os.munmap(copy, weights_reserved(payload));
        }
        return judge(PACK_STALE, "its bytes have changed", why);
    }
    w->memory = copy ? copy : (char *)file;
    w->n_bytes = copy ? weights_reserved(payload) : all;
    weights_place(t, w, copy ? copy : w->memory + PACK_HEADER);
    return PACK_TAKEN;
}

static PackState take_file(int fd, const NcTables *t, const nc_options *o, Pool *pool,
                           NcWeights *w, const char **why)
{
    size_t all = (size_t)(PACK_HEADER + weights_bytes(t, NULL));
    PackState state = look_at_header(t, fd, why);
    if (state != PACK_TAKEN) {
        return state;
    }
    void *file = os.mmap(NULL, all, PROT_READ, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED) {
        return judge(PACK_FOREIGN, strerror(errno), why);
    }
    /* Every token reads all of it: pages that are not in memory come ahead of their turn. */
    os.madvise(file, all, MADV_WILLNEED);
    return take_payload(file, t, o, pool, w, why);
}

PackState pack_take(const NcTables *t, const nc_options *o, Pool *pool, NcWeights *w)
{
    const char *why = NULL;
    PackState state;
    int fd = os.open(o->pack, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0 && errno == ENOENT) {
        return PACK_STALE;
    }
    if (fd < 0) {
        state = judge(PACK_FOREIGN, strerror(errno), &why);
    } else {
        state = take_file(fd, t, o, pool, w, &why);
        os.close(fd);
    }
    if (state != PACK_TAKEN && !stopped(o)) {
        pack_note(o, "%s is not used%s: %s.", o->pack,
                  state == PACK_STALE ? " but written anew" : ", and left as it is", why);
    }
    return state;
}

/* ---- writing ------------------------------------------------------------------------------- */

static int open_beside(const char *path, char *temp, size_t size)
{
    for (int i = 0; i < PACK_TRIES; i++) {
        int n = snprintf(temp, size, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        if (n < 0 || (size_t)n >= size) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = os.open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}

static bool write_bytes(int fd, const void *from, int64_t n_bytes, const nc_options *o)
{
    const char *at = from;
    while (n_bytes > 0) {
        if (stopped(o)) {
            errno = EINTR;
            return false;
        }
        ssize_t n = os.write(fd, at, (size_t)(n_bytes < 64 << 20 ? n_bytes : 64 << 20));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return false;
        }
        at += n;
        n_bytes -= n;
    }
    return true;
}

/* Closes fd on every way. */
static bool write_pack(int fd, const PackHeader *h, const void *payload, const nc_options *o)
{
    static const char zeros[PACK_HEADER - sizeof *h];
    bool ok = write_bytes(fd, h, sizeof *h, o) && write_bytes(fd, zeros, sizeof zeros, o) &&
              write_bytes(fd, payload, h->n_bytes, o) && os.fsync(fd) == 0;
    int why = errno;
    bool closed = os.close(fd) == 0;
    errno = ok ? errno : why;
    return ok && closed;
}

void pack_keep(const NcTables *t, const nc_options *o, Pool *pool, const NcWeights *w)
{
    PackHeader h = {.layout = t->layout, .n_bytes = weights_bytes(t, NULL)};
    char temp[4096];
    int fd = open_beside(o->pack, temp, sizeof temp);
    memcpy(h.magic, pack_magic, sizeof h.magic);
    if (fd >= 0) {
        h.print = weights_print((const uint8_t *)w->memory, h.n_bytes, 0);
        h.sum = pass_over(w->memory, NULL, h.n_bytes, o, pool);
    }
    bool written = fd >= 0 && write_pack(fd, &h, w->memory, o);
    if (written && os.rename(temp, o->pack) == 0) {
        pack_note(o, "%s: %.1f MB written for the next start.", o->pack,
                  (double)h.n_bytes / 1e6);
        return;
    }
    int why = errno;
    if (fd >= 0) {
        os.unlink(temp);
    }
    if (!stopped(o)) {
        pack_note(o, "%s cannot be written: %s; weights are laid out at every start.", o->pack,
                  strerror(why));
    }
}
