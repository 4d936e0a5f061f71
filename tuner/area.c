/* area.c - what a process hands over, in memory that it shares with its parent: a head, start
 * times, pairs, and the job's text. Foreign code runs in the process, so the parent believes
 * nothing: whoever writes keeps a chain of hashes of what it wrote to itself and signs with it
 * at the end; then times must rise, fit into the process's life, and lie in the order that the
 * job's seed gives. Pages before and behind cannot be touched. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tuner/tuner_int.h"

#define MAGIC 0x6165726120636eULL

const char *const area_state[N_AREA_STATES] = {
#define X(id, meaning) [AREA_##id] = meaning,
    AREA_STATES(X)
#undef X
};

/* ---- where things are ---------------------------------------------------------------- */

static size_t starts_at(void)
{
    return (sizeof(AreaHead) + 63) / 64 * 64;
}

static size_t pairs_at(uint32_t max_pairs)
{
    return starts_at() + sizeof(uint64_t) * max_pairs;
}

static size_t text_at(uint32_t max_pairs)
{
    return pairs_at(max_pairs) + sizeof(Pair) * max_pairs;
}

static size_t page_up(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Populated: the first write must not be a page fault of the pair that it belongs to. */
static bool map_between_guards(int fd, size_t bytes, Area *a, Err *err)
{
    size_t page = page_up(1);
    *a = (Area){.map_bytes = page_up(bytes) + 2 * page};
    a->map = os.mmap(NULL, a->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
    if (a->map == MAP_FAILED) {
        a->map = NULL;
        return err_set(err, E_NOMEM, "There is no room for %zu bytes of results: %s.", bytes,
                       strerror(errno));
    }
    char *at = (char *)a->map + page;
    if (os.mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd,
                0) == MAP_FAILED) {
        err_set(err, E_NOMEM, "There is no memory for %zu bytes of results: %s.", bytes,
                strerror(errno));
        area_release(a);
        return false;
    }
    a->head = (AreaHead *)at;
    return true;
}

static void find_parts(Area *a, uint32_t max_pairs)
{
    char *at = (char *)a->head;
    a->max_pairs = max_pairs;
    a->start_ns = (uint64_t *)(at + starts_at());
    a->pair = (Pair *)(at + pairs_at(max_pairs));
    a->text = at + text_at(max_pairs);
}

int area_make(const ChildJob *j, const Buf *text, Area *a, Err *err)
{
    uint32_t max_pairs = (uint32_t)j->job.n_pairs;
    size_t bytes = text_at(max_pairs) + text->len;
    int fd = os.memfd("nanocompile", (off_t)bytes);
    *a = (Area){0};
    if (fd < 0) {
        err_set(err, E_IO, "There is no shared memory of %zu bytes: %s.", bytes,
                strerror(errno));
        return -1;
    }
    if (!map_between_guards(fd, bytes, a, err)) {
        os.close(fd);
        return -1;
    }
    find_parts(a, max_pairs);
    a->head->magic = MAGIC;
    a->head->bytes = bytes;
    a->head->max_pairs = max_pairs;
    a->head->text_bytes = (uint32_t)text->len;
    memcpy(a->text, text->at, text->len);
    return fd;
}

bool area_open(int fd, Area *a, Err *err)
{
    struct stat st;
    if (os.fstat(fd, &st) != 0 || st.st_size < (off_t)text_at(0)) {
        return err_set(err, E_INPUT, "The shared memory is no area of results.");
    }
    if (!map_between_guards(fd, (size_t)st.st_size, a, err)) {
        return false;
    }
    const AreaHead *h = a->head;
    size_t bytes = text_at(h->max_pairs) + h->text_bytes;
    if (h->magic != MAGIC || h->bytes != bytes || bytes != (uint64_t)st.st_size) {
        area_release(a);
        return err_set(err, E_INPUT, "The shared memory is no area of results.");
    }
    find_parts(a, h->max_pairs);
    a->chain = hash_bytes(a->text, h->text_bytes);
    return true;
}

void area_release(Area *a)
{
    if (a->map) {
        os.munmap(a->map, a->map_bytes);
    }
    *a = (Area){0};
}

/* ---- writing ------------------------------------------------------------------------- */

void area_enter(Area *a, AreaState s)
{
    __atomic_store_n(&a->head->state, (uint32_t)s, __ATOMIC_RELEASE);
}

static Hash chain_next(Hash chain, const Pair *p, uint64_t start_ns)
{
    struct {
        Hash chain;
        Pair pair;
        uint64_t start_ns;
    } link;
    memset(&link, 0, sizeof link);
    link.chain = chain;
    link.pair = *p;
    link.start_ns = start_ns;
    return hash_bytes(&link, sizeof link);
}

static Hash seal_of(Hash chain, const AreaFacts *f)
{
    Hash both[2] = {chain, hash_bytes(f, sizeof *f)};
    return hash_bytes(both, sizeof both);
}

void area_put(Area *a, const Pair *p, const uint64_t *start_ns, int n)
{
    check(a->n_written + (uint32_t)n <= a->max_pairs);
    for (int i = 0; i < n; i++) {
        a->pair[a->n_written] = p[i];
        a->start_ns[a->n_written] = start_ns[i];
        a->chain = chain_next(a->chain, &p[i], start_ns[i]);
        a->n_written++;
    }
    __atomic_store_n(&a->head->n_pairs, a->n_written, __ATOMIC_RELEASE);
}

void area_finish(Area *a, const AreaFacts *f)
{
    memcpy(&a->head->facts, f, sizeof *f); /* whole: the seal is of its bytes */
    a->head->seal = seal_of(a->chain, f);
    area_enter(a, AREA_DONE);
}

/* ---- reading ------------------------------------------------------------------------- */

typedef struct Reading {
    const Area *a;
    const ChildJob *j;
    uint64_t begin_ns, end_ns;
    Err *err;
} Reading;

static bool time_fits(uint64_t ns, uint16_t flags, uint64_t limit_ns)
{
    return ns < limit_ns && (ns > 0 || (flags & PAIR_CLOCK));
}

static bool pair_fits(const Reading *r, int i, uint64_t *free_from_ns)
{
    const Pair *p = &r->a->pair[i];
    uint64_t start = r->a->start_ns[i], limit = r->j->job.limit_ns;
    unsigned all = 0;
#define X(id, bit, meaning) all |= bit;
    PAIR_FLAGS(X)
#undef X
    if ((p->flags & ~all) || p->spare || p->b_first > 1 ||
        p->b_first != pair_b_first(r->j->job.seed, i)) {
        return err_set(r->err, E_INPUT, "Pair %d has an order or flags that were not drawn.",
                       i);
    }
    if (!time_fits(p->a_ns, p->flags, limit) || !time_fits(p->b_ns, p->flags, limit) ||
        start < *free_from_ns || start > r->end_ns || p->a_ns + p->b_ns > r->end_ns - start) {
        return err_set(r->err, E_INPUT, "Pair %d has times that cannot be.", i);
    }
    *free_from_ns = start + p->a_ns + p->b_ns;
    return true;
}

static bool pairs_fit(const Reading *r)
{
    uint64_t free_from_ns = r->begin_ns;
    int n = r->a->head->facts.n_pairs;
    for (int i = 0; i < n; i++) {
        if (!pair_fits(r, i, &free_from_ns)) {
            return false;
        }
    }
    return true;
}

static bool seal_fits(const Reading *r, const Buf *text)
{
    const Area *a = r->a;
    Hash chain = hash_bytes(text->at, text->len);
    for (int i = 0; i < a->head->facts.n_pairs; i++) {
        chain = chain_next(chain, &a->pair[i], a->start_ns[i]);
    }
    return hash_eq(seal_of(chain, &a->head->facts), a->head->seal);
}

static bool probe_fits(const Probe *p)
{
    return isfinite(p->read_bytes_per_ns) && isfinite(p->fork_join_ns) &&
           isfinite(p->flops_per_ns) && p->read_bytes_per_ns >= 0 && p->fork_join_ns >= 0 &&
           p->flops_per_ns >= 0;
}

static bool facts_fit(const Reading *r, int pid)
{
    const AreaHead *h = r->a->head;
    const AreaFacts *f = &h->facts;
    const ProcessJob *job = &r->j->job;
    if (h->magic != MAGIC || h->state != AREA_DONE || f->pid != pid || f->status < 0 ||
        f->status >= N_STATUSES || f->n_pairs < 0 || f->n_pairs > job->n_pairs ||
        f->n_pairs != (int)h->n_pairs || !memchr(f->why, 0, sizeof f->why) ||
        (f->status != STATUS_OK && !*f->why)) {
        return err_set(r->err, E_INPUT, "The head of the results was damaged.");
    }
    if (f->again && (!r->j->may_ask || f->status != STATUS_OK || f->n_pairs > 0)) {
        return err_set(r->err, E_INPUT, "It asks for what it was not offered.");
    }
    if (f->status != STATUS_OK || f->again) {
        return true;
    }
    if (!probe_fits(&f->before) || !probe_fits(&f->after) || f->reps < 1 || f->warm_a_ns == 0 ||
        f->warm_b_ns == 0 || f->base_a == f->base_b) {
        return err_set(r->err, E_INPUT, "The facts beside the pairs cannot be.");
    }
    return job->stop || f->n_pairs == job->n_pairs ||
           err_set(r->err, E_INPUT, "There are %d pairs and must be %d.", f->n_pairs,
                   job->n_pairs);
}

bool area_read(const Area *a, const ChildJob *j, const Buf *text, int pid, uint64_t begin_ns,
               uint64_t end_ns, Arena *m, ProcessResult *out, Err *err)
{
    Reading r = {a, j, begin_ns, end_ns, err};
    if (!facts_fit(&r, pid) || !pairs_fit(&r)) {
        return false;
    }
    if (!seal_fits(&r, text)) {
        return err_set(err, E_INPUT, "The results were changed after they were written.");
    }
    const AreaFacts *f = &a->head->facts;
    out->status = (Status)f->status;
    memcpy(out->why, f->why, sizeof out->why);
    out->cpu = f->cpu;
    out->verify_ns = f->verify_ns;
    out->lay_ns = f->lay_ns;
    out->ring_bytes = f->ring_bytes;
    out->huge_pages = f->huge_pages == 1;
    out->time_ns = f->time_ns;
    out->again = f->again;
    if (out->status == STATUS_OK) {
        out->warm_a_ns = f->warm_a_ns;
        out->warm_b_ns = f->warm_b_ns;
        out->reps = f->reps;
        out->before = f->before;
        out->after = f->after;
        out->base_a = f->base_a;
        out->base_b = f->base_b;
        out->n_pairs = f->n_pairs;
        out->pair = arena_dup(m, a->pair, sizeof(Pair) * (size_t)f->n_pairs);
    }
    return true;
}
