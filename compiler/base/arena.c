/* arena.c - memory that is freed all at once, and the boundary that makes it safe to leave
 * from any depth: env_try sets a trap, fail() fills e->err and jumps there, and whatever was
 * allocated in between stays in its arena until that is emptied. So nothing leaks.
 *
 * Under AddressSanitizer every request gets a block of its own: an overrun of one array into
 * its neighbour, or a use after the reset, is then seen. */
#include "base/base.h"

#include <limits.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

enum {
    ALIGN = 16,
    FIRST_BLOCK = 64 << 10,
    LARGEST_BLOCK = 4 << 20,
    FIRST_VEC = 8,
#ifdef __SANITIZE_ADDRESS__
    SHARE_BLOCKS = 0,
#else
    SHARE_BLOCKS = 1,
#endif
};

struct Block {
    Block *older;
    size_t size, used; /* bytes behind this header */
};

enum { HEADER = (sizeof(Block) + ALIGN - 1) / ALIGN * ALIGN };

struct Trap {
    jmp_buf at;
    struct Trap *outer;
};

/* ---- the boundary -------------------------------------------------------- */

bool env_try(Env *e, void (*body)(Env *e, void *arg), void *arg)
{
    struct Trap trap = {.outer = e->trap};
    if (setjmp(trap.at) != 0) {
        e->trap = trap.outer;
        return false;
    }
    e->trap = &trap;
    body(e, arg);
    e->trap = trap.outer;
    return true;
}

static _Noreturn void leave(Env *e)
{
    if (!e->trap) {
        bug("fail() outside env_try: %s", e->err.text);
    }
    longjmp(e->trap->at, 1);
}

void fail(Env *e, ErrCode code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err_vset(&e->err, code, fmt, ap);
    va_end(ap);
    leave(e);
}

void fail_err(Env *e, const Err *err)
{
    if (err != &e->err) {
        e->err = *err;
    }
    leave(e);
}

void env_init(Env *e)
{
    memset(e, 0, sizeof *e);
    arena_init(&e->model, e);
    arena_init(&e->kernel, e);
}

void env_release(Env *e)
{
    arena_release(&e->kernel);
    arena_release(&e->model);
    e->n_symbols = 0;
}

void env_reset_kernel(Env *e)
{
    arena_release(&e->kernel);
}

void env_finally(Env *e, void (*body)(Env *e, void *arg), void (*release)(void *arg), void *arg)
{
    bool ok = env_try(e, body, arg);
    Err err = e->err;
    release(arg);
    if (!ok) {
        fail_err(e, &err);
    }
}

/* ---- blocks -------------------------------------------------------------- */

void arena_init(Arena *a, Env *e)
{
    *a = (Arena){.env = e};
}

void arena_release(Arena *a)
{
    for (Block *b = a->block, *older; b; b = older) {
        older = b->older;
        free(b);
    }
    arena_init(a, a->env);
}

static Block *block_new(Arena *a, size_t size)
{
    Block *b = os.alloc(HEADER + size);
    if (!b) {
        fail(a->env, E_NOMEM, "Out of memory: a request for %zu bytes failed.", HEADER + size);
    }
    *b = (Block){.size = size};
    return b;
}

/* A block with room for need bytes. A request too large to share goes behind the newest
 * block, whose rest stays in use. */
static Block *block_for(Arena *a, size_t need)
{
    Block *newest = a->block;
    if (newest && newest->size - newest->used >= need) {
        return newest;
    }
    size_t size = newest ? newest->size * 2 : FIRST_BLOCK;
    size = size < FIRST_BLOCK ? FIRST_BLOCK : size > LARGEST_BLOCK ? LARGEST_BLOCK : size;
    bool alone = !SHARE_BLOCKS || need > size / 4;
    Block *b = block_new(a, alone ? need : size);
    Block **link = alone && newest ? &newest->older : &a->block;
    b->older = *link;
    *link = b;
    return b;
}

void *arena_alloc(Arena *a, size_t bytes)
{
    if (bytes > PTRDIFF_MAX - HEADER - ALIGN) {
        fail(a->env, E_NOMEM, "Out of memory: a request for %zu bytes is too large.", bytes);
    }
    size_t need = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!SHARE_BLOCKS) {
        need = bytes; /* exact, so that the first byte too far is caught */
    } else if (need == 0) {
        need = ALIGN; /* distinct pointers for empty requests */
    }
    Block *b = block_for(a, need);
    void *p = (char *)b + HEADER + b->used;
    b->used += need;
    a->used_bytes += bytes;
    return memset(p, 0, bytes);
}

void *arena_alloc_n(Arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        fail(a->env, E_NOMEM, "Out of memory: %zu elements of %zu bytes are too large.", n,
             size);
    }
    return arena_alloc(a, bytes);
}

/* ---- what is built on them ----------------------------------------------- */

void *arena_dup(Arena *a, const void *p, size_t bytes)
{
    void *copy = arena_alloc(a, bytes);
    return bytes ? memcpy(copy, p, bytes) : copy;
}

char *arena_strn(Arena *a, const char *s, size_t len)
{
    char *copy = arena_alloc(a, len + 1);
    memcpy(copy, s, len);
    return copy;
}

char *arena_str(Arena *a, const char *s)
{
    return arena_strn(a, s, strlen(s));
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    char text[256]; /* most texts fit: formatted once */
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    check(n >= 0);
    char *s = arena_alloc(a, (size_t)n + 1);
    if ((size_t)n < sizeof text) {
        memcpy(s, text, (size_t)n);
    } else {
        vsnprintf(s, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    return s;
}

void *arena_grow(Arena *a, void *old, int n, int *cap, size_t size)
{
    if (*cap > INT_MAX / 2) {
        fail(a->env, E_NOMEM, "Out of memory: an array of %d elements cannot grow.", *cap);
    }
    int wider = *cap ? *cap * 2 : FIRST_VEC;
    void *at = arena_alloc_n(a, (size_t)wider, size);
    if (n > 0) {
        memcpy(at, old, (size_t)n * size);
    }
    *cap = wider;
    return at;
}
