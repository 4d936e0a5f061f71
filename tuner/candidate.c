/* candidate.c - schedules made into libraries that a process can load. Objects come from the
 * compiler's own cache, under the key that every build uses, so what is measured is what is
 * linked later. A compiler that fails or hangs is one candidate's end and nobody else's: the
 * rest of its batch is built without it. Works in an Env of its own, so that ten thousand
 * candidates leave nothing behind in the tuner's. */
#include <string.h>

#include "tuner/tuner.h"

#define MAX_LIBRARY_BYTES ((size_t)1 << 30)

typedef struct Making {
    Arena *m;
    Cache *c;
    const Toolchain *tc;
    Toolchain compile; /* the same, with time left for linking */
    const Kernel *naive;
    const Schedule *s;
    int n, n_jobs;
    Attempt *out;
    Kernel **k; /* by candidate; NULL: it has ended */
    int *like;  /* the first candidate that is the same kernel */
    const char **object;
} Making;

static void end(Making *x, int i, Status s, const char *why)
{
    x->out[i].status = s;
    x->out[i].why = arena_str(x->m, why);
    x->k[i] = NULL;
}

static void schedule_all(Env *e, Making *x)
{
    for (int i = 0; i < x->n; i++) {
        Err err;
        Buf text;
        buf_init(&text, x->m);
        schedule_print(&x->s[i], &text);
        x->out[i] = (Attempt){.built = {.schedule = text.at}};
        x->k[i] = kernel_schedule(e, &e->model, x->naive, &x->s[i], x->s[i].n, &err);
        x->like[i] = i;
        if (!x->k[i]) {
            end(x, i, STATUS_ILLEGAL, err.text);
            continue;
        }
        for (int j = i - 1; j >= 0; j--) {
            bool same = x->k[j] && !strcmp(x->k[j]->symbol, x->k[i]->symbol);
            x->like[i] = same ? j : x->like[i];
        }
    }
}

/* ---- objects ------------------------------------------------------------------------- */

/* Of those that go on, each kernel once. */
static void build_batch(Env *e, void *arg)
{
    Making *x = arg;
    Kernel **k = arena_array(&e->model, Kernel *, x->n);
    const char **path = arena_array(&e->model, const char *, x->n);
    int n = 0;
    for (int i = 0; i < x->n; i++) {
        if (x->k[i] && x->like[i] == i) {
            k[n++] = x->k[i];
        }
    }
    env_reset_kernel(e);
    cache_objects(e, x->c, &x->compile, k, n, x->n_jobs, path);
    for (int i = 0, at = 0; i < x->n; i++) {
        if (x->k[i]) {
            x->object[i] = x->like[i] == i ? path[at++] : x->object[x->like[i]];
        }
    }
}

static Status status_of(const Err *err)
{
    return strstr(err->text, "did not finish within") ? STATUS_CC_TIMEOUT : STATUS_CC_ERROR;
}

/* Ends those whose kernel the message names. False: it names none of them. */
static bool end_named(Making *x, const Err *err)
{
    bool named = false;
    for (int i = 0; i < x->n; i++) {
        if (x->k[i] && strstr(err->text, x->k[i]->symbol)) {
            end(x, i, status_of(err), err->text);
            named = true;
        }
    }
    return named;
}

/* One that hangs must not cost the others their libraries. */
static void keep_time_to_link(Making *x)
{
    uint64_t now_ns = os_now_ns();
    x->compile = *x->tc;
    if (x->tc->until_ns > now_ns) {
        x->compile.until_ns -= (x->tc->until_ns - now_ns) / 10;
    }
}

/* When the time is over, what is not there yet is started and stopped at once. */
static void build_objects(Env *e, Making *x)
{
    while (!env_try(e, build_batch, x)) {
        Err err = e->err;
        if (err.code != E_BUILD || !end_named(x, &err)) {
            fail_err(e, &err);
        }
    }
}

/* ---- libraries ----------------------------------------------------------------------- */

typedef struct Linking {
    Making *x;
    int i;
} Linking;

static void link_one(Env *e, void *arg)
{
    const Linking *l = arg;
    Making *x = l->x;
    Built *b = &x->out[l->i].built;
    env_reset_kernel(e);
    b->library = arena_str(x->m, cache_library(e, x->c, x->tc, &x->object[l->i], 1));
    b->symbol = arena_str(x->m, x->k[l->i]->symbol);
    b->c_hash = emit_hash(e, x->k[l->i], x->tc->target);
}

static void make(Env *e, void *arg)
{
    Making *x = arg;
    x->k = arena_array(&e->model, Kernel *, x->n);
    x->like = arena_array(&e->model, int, x->n);
    x->object = arena_array(&e->model, const char *, x->n);
    schedule_all(e, x);
    keep_time_to_link(x);
    build_objects(e, x);
    for (int i = 0; i < x->n; i++) {
        Linking one = {x, i};
        if (x->k[i] && !env_try(e, link_one, &one)) {
            Err err = e->err;
            if (err.code != E_BUILD) {
                fail_err(e, &err);
            }
            end(x, i, status_of(&err), err.text);
        }
    }
}

/* From the Env that made them into the caller's memory. */
typedef struct Keeping {
    Arena *m;
    Attempt *out;
    int n;
} Keeping;

static void keep(Env *e, void *arg)
{
    const Keeping *k = arg;
    (void)e;
    for (int i = 0; i < k->n; i++) {
        Attempt *t = &k->out[i];
        const char **text[] = {&t->why, &t->built.schedule, &t->built.library,
                               &t->built.symbol};
        for (size_t j = 0; j < countof(text); j++) {
            *text[j] = *text[j] ? arena_str(k->m, *text[j]) : NULL;
        }
    }
}

void candidates_build(Env *e, Arena *m, Cache *c, const Toolchain *tc, const Kernel *naive,
                      const Schedule *s, int n, int n_jobs, Attempt *out)
{
    Env own;
    env_init(&own);
    Making x = {.m = &own.model,
                .c = c,
                .tc = tc,
                .naive = naive,
                .s = s,
                .n = n,
                .n_jobs = n_jobs,
                .out = out};
    bool ok = env_try(&own, make, &x);
    Err err = own.err;
    if (ok && !env_try(e, keep, &(Keeping){m, out, n})) {
        ok = false;
        err = e->err;
    }
    env_release(&own);
    if (!ok) {
        fail_err(e, &err);
    }
}

/* The loader takes two names of one file for one library: so bytes are copied. */
Built built_copy(Env *e, Arena *m, const Cache *c, const Built *of)
{
    Built copy = *of;
    char *text, hex[33];
    size_t len;
    Err err;
    hash_hex(hash_str(of->library), hex);
    copy.library = arena_printf(m, "%s/lib/%s-copy.so", c->dir, hex);
    bool ok = os_read_file(&e->kernel, of->library, MAX_LIBRARY_BYTES, &text, &len, &err) &&
              os_write_file(copy.library, text, len, &err);
    if (!ok) {
        fail_err(e, &err);
    }
    return copy;
}
