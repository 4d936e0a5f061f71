/* cache.c - compiled kernels, kept by content.
 *
 * An object's name is the hash of its C text and of the toolchain, so it is never out of
 * date; its seal (seal.c) tells whether it is whole. Compilers write into a scratch folder
 * of this process inside the cache; what they made is sealed and renamed into place. So
 * several processes may build the same kernels at once, and whatever stops one leaves old
 * files or complete ones. The C text stays beside the object, for people. The cache holds
 * nothing that cannot be built again: a broken file is set aside as FILE.bad, and building
 * goes on. */
#include "run/run_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OBJECT_BYTES ((size_t)1 << 30)

/* ---- folders ---------------------------------------------------------------------------- */

const char *plain_path(Arena *a, const char *path)
{
    bool plain = path[0] == '/' || path[0] == '.';
    return plain ? arena_str(a, path) : arena_printf(a, "./%s", path);
}

const char *cache_default_dir(Env *e)
{
    static const struct {
        const char *variable, *below;
    } places[] = {
        {"NANOCOMPILE_CACHE", ""},
        {"XDG_CACHE_HOME", "/nanocompile"},
        {"HOME", "/.cache/nanocompile"},
    };
    for (size_t i = 0; i < countof(places); i++) {
        const char *value = getenv(places[i].variable);
        if (value && value[0]) {
            return plain_path(&e->model,
                              arena_printf(&e->kernel, "%s%s", value, places[i].below));
        }
    }
    return NULL;
}

/* err's sentence, with what to do about it. */
static _Noreturn void fail_with_remedy(Env *e, const Err *err)
{
    size_t len = strlen(err->text);
    len -= len > 0 && err->text[len - 1] == '.';
    fail(e, err->code,
         "%.*s; free or open the cache directory, or set NANOCOMPILE_CACHE to another.",
         (int)(len < 900 ? len : 900), err->text);
}

void cache_open(Env *e, Cache *c, const char *dir)
{
    *c = (Cache){.dir = dir ? plain_path(&e->model, dir) : cache_default_dir(e)};
    if (!c->dir) {
        fail(e, E_IO,
             "There is no cache directory: NANOCOMPILE_CACHE, XDG_CACHE_HOME and HOME are "
             "not set; set NANOCOMPILE_CACHE to a directory that can be written.");
    }
    static const char *const below[] = {"obj", "lib"};
    for (size_t i = 0; i < countof(below); i++) {
        Err err;
        if (!os_mkdirs(arena_printf(&e->kernel, "%s/%s", c->dir, below[i]), &err)) {
            fail_with_remedy(e, &err);
        }
    }
}

const char *scratch_make(Env *e, const char *parent, Err *err)
{
    char *dir = arena_printf(&e->kernel, "%s/tmp-XXXXXX", plain_path(&e->kernel, parent));
    if (!os.mkdtemp(dir)) {
        err_set(err, E_IO, "Cannot make a folder in %.700s: %s.", parent, strerror(errno));
        return NULL;
    }
    return dir;
}

void scratch_remove(const char *dir, const char *const *file, int n)
{
    char path[4096];
    for (int i = 0; i < n; i++) {
        int len = snprintf(path, sizeof path, "%s/%s", dir, file[i]);
        if (len > 0 && (size_t)len < sizeof path) {
            os.unlink(path);
        }
    }
    os.rmdir(dir);
}

/* ---- what is there ---------------------------------------------------------------------- */

static const char *key_of(Env *e, const Toolchain *tc, const Buf *text)
{
    char toolchain[33], *key = arena_alloc(&e->kernel, 33);
    hash_hex(tc->identity, toolchain);
    Buf both;
    buf_init(&both, &e->kernel);
    buf_printf(&both, "%s\n", toolchain);
    buf_bytes(&both, text->at, text->len);
    hash_hex(hash_bytes(both.at, both.len), key);
    return key;
}

/* True: path is there and whole. A broken file is set aside. */
static bool usable(Env *e, Cache *c, const char *path, const char *key)
{
    char *text;
    size_t len;
    Seal seal = seal_read(&e->kernel, path, key, &text, &len);
    if (seal == SEAL_BROKEN) {
        os.rename(path, arena_printf(&e->kernel, "%s.bad", path));
        c->n_quarantined++;
    }
    return seal == SEAL_INTACT;
}

/* ---- what is not ------------------------------------------------------------------------ */

typedef struct Item { /* a file to build */
    const char *what; /* for messages */
    const char *key;
    const char *base;        /* its path without the ending */
    const char *ending;      /* .o .so */
    const char *const *more; /* the compiler's arguments, but for -o FILE */
    int n_more;
} Item;

typedef struct Build {
    const Cache *c;
    const Toolchain *tc;
    const Item *item;
    int n, n_jobs;
    const char *scratch; /* the folder that compilers write to: files are named by key */
} Build;

static _Noreturn void fail_item(Env *e, const Build *b, const Item *it, const Job *job,
                                const Err *err)
{
    const char *see = arena_printf(&e->kernel, "; all that it said is in %.400s.log", it->base);
    const char *log = arena_printf(&e->kernel, "%s.log", it->base);
    bool kept = os_write_file(log, job->said, job->said_len, NULL);
    toolchain_fail(e, b->tc, job, it->what, kept ? see : "", err);
}

/* From the scratch folder to its place. */
static void keep_item(Env *e, const Build *b, const Item *it, const Job *job)
{
    const char *from = arena_printf(&e->kernel, "%s/%s", b->scratch, it->key);
    const char *to = arena_printf(&e->kernel, "%s%s", it->base, it->ending);
    char *text;
    size_t len;
    Err err;
    struct stat st;
    if (os.stat(from, &st) != 0) {
        err_set(&err, E_BUILD, "succeeded but wrote no file");
        fail_item(e, b, it, job, &err);
    }
    if (!os_read_file(&e->kernel, from, MAX_OBJECT_BYTES, &text, &len, &err) ||
        !seal_write(&e->kernel, to, it->key, text, len, &err)) {
        fail_with_remedy(e, &err);
    }
}

static void keep_done(Env *e, const Build *b, const Job *job)
{
    for (int i = 0; i < b->n; i++) {
        if (job[i].done) {
            keep_item(e, b, &b->item[i], &job[i]);
        }
    }
}

static Job item_job(Env *e, const Build *b, const Item *it)
{
    const char **more = arena_array(&e->kernel, const char *, it->n_more + 2);
    more[0] = "-o";
    more[1] = arena_printf(&e->kernel, "%s/%s", b->scratch, it->key);
    memcpy(more + 2, it->more, sizeof *more * (size_t)it->n_more);
    return job_new(e, toolchain_argv(e, b->tc, more, it->n_more + 2));
}

static void build_items(Env *e, void *arg)
{
    const Build *b = arg;
    Job *job = arena_array(&e->kernel, Job, b->n);
    for (int i = 0; i < b->n; i++) {
        job[i] = item_job(e, b, &b->item[i]);
    }
    int which;
    Err err;
    if (!jobs_run(job, b->n, b->n_jobs, b->tc, b->c->stop, &which, &err)) {
        keep_done(e, b, job);
        if (which < 0) {
            fail(e, err.code, "Compiling %s.", err.text);
        }
        fail_item(e, b, &b->item[which], &job[which], &err);
    }
    keep_done(e, b, job);
}

static void build(Env *e, Build *b)
{
    const char **made = arena_array(&e->kernel, const char *, b->n);
    for (int i = 0; i < b->n; i++) {
        made[i] = b->item[i].key;
    }
    Err err;
    b->scratch = scratch_make(e, b->c->dir, &err);
    if (!b->scratch) {
        fail_with_remedy(e, &err);
    }
    bool ok = env_try(e, build_items, b);
    scratch_remove(b->scratch, made, b->n);
    if (!ok) {
        fail_err(e, &e->err);
    }
}

/* ---- objects and the library ------------------------------------------------------------ */

static Item object_item(Env *e, const CSource *s, const char *key, const char *base)
{
    const char *c = arena_printf(&e->kernel, "%s.c", base);
    Err err;
    if (!os_write_file(c, s->text.at, s->text.len, &err)) {
        fail_with_remedy(e, &err);
    }
    const char **more = arena_array(&e->kernel, const char *, 2);
    more[0] = "-c";
    more[1] = c;
    return (Item){s->what, key, base, ".o", more, 2};
}

void cache_sources(Env *e, Cache *c, const Toolchain *tc, const CSource *s, int n, int n_jobs,
                   const char **path)
{
    Vec(Item) missing = {0};
    for (int i = 0; i < n; i++) {
        const char *key = key_of(e, tc, &s[i].text);
        const char *base = arena_printf(&e->kernel, "%s/obj/%s", c->dir, key);
        path[i] = arena_printf(&e->model, "%s.o", base);
        if (usable(e, c, path[i], key)) {
            c->n_hits++;
        } else {
            *vec_push(&e->kernel, &missing) = object_item(e, &s[i], key, base);
        }
    }
    if (missing.n > 0) {
        build(e,
              &(Build){.c = c, .tc = tc, .item = missing.at, .n = missing.n, .n_jobs = n_jobs});
        c->n_built += missing.n;
    }
}

void cache_objects(Env *e, Cache *c, const Toolchain *tc, Kernel *const *k, int n, int n_jobs,
                   const char **path)
{
    CSource *s = arena_array(&e->kernel, CSource, n);
    for (int i = 0; i < n; i++) {
        s[i].what = arena_printf(&e->kernel, "kernel %s", k[i]->symbol);
        buf_init(&s[i].text, &e->kernel);
        emit_kernel(e, k[i], tc->target, &s[i].text);
    }
    cache_sources(e, c, tc, s, n, n_jobs, path);
}

const char *cache_link(Env *e, Cache *c, const Toolchain *tc, const char *const *object, int n,
                       const char *const *option, int n_options)
{
    const char **more = arena_array(&e->kernel, const char *, n + n_options + 2);
    Buf names;
    buf_init(&names, &e->kernel);
    more[0] = "-shared";
    for (int i = 0; i < n; i++) {
        more[i + 1] = object[i];
        const char *slash = strrchr(object[i], '/');
        buf_printf(&names, "%s\n", slash ? slash + 1 : object[i]); /* its name is its content */
    }
    for (int i = 0; i < n_options; i++) {
        more[n + 1 + i] = option[i];
        buf_printf(&names, "%s\n", option[i]);
    }
    more[n + n_options + 1] = "-lm";
    const char *key = key_of(e, tc, &names);
    const char *base = arena_printf(&e->kernel, "%s/lib/%s", c->dir, key);
    const char *path = arena_printf(&e->model, "%s.so", base);
    if (!usable(e, c, path, key)) {
        const char *what = arena_printf(&e->kernel, "the library of %d objects", n);
        Item item = {what, key, base, ".so", more, n + n_options + 2};
        build(e, &(Build){.c = c, .tc = tc, .item = &item, .n = 1, .n_jobs = 1});
        c->n_linked++;
    }
    return path;
}

const char *cache_library(Env *e, Cache *c, const Toolchain *tc, const char *const *object,
                          int n)
{
    return cache_link(e, c, tc, object, n, NULL, 0);
}
