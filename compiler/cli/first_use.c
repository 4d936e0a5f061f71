/* first_use.c - a model's library for the commands that run a model and were given none: built into the
 * cache at its first use, found there later. It is what `build` makes, from the same answers of the
 * database, but knows no folder, so that a model that was moved keeps its library; a build of
 * this kind is not recorded.
 *
 * Whether it is there is found out by building all of it but the objects: 0.15 s for Qwen2.5-0.5B, and
 * every change of the model's files, the options, the compiler or the database's answers counts. */
#include <string.h>

#include "cli/build.h"

enum { KEY_DB = 1300, KEY_NO_DB, KEY_CONTEXT };

static const struct argp_option options[] = {
    {"db", KEY_DB, "FILE", 0,
     "schedules of a library that is built now, as for `build`: from this database (default: "
     "$NANOCOMPILE_DB, else schedules.db in the data folder)",
     4},
    {"no-db", KEY_NO_DB, NULL, 0, "default schedules only", 4},
    {"context", KEY_CONTEXT, "N", 0,
     "positions that it holds (default: the model's, at most 4096)", 4},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    FirstUse *f = state->input;
    switch (key) {
    case KEY_DB: f->db = arg; return 0;
    case KEY_NO_DB: f->no_db = true; return 0;
    case KEY_CONTEXT: f->context = option_int(state, "context", arg, 1, 1 << 24); return 0;
    case ARGP_KEY_END:
        if (f->db && f->no_db) {
            argp_error(state, "one of --db and --no-db");
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp first_use_argp = {.options = options, .parser = parse};

bool first_use_given(const FirstUse *f)
{
    return f->db || f->no_db || f->context;
}

typedef struct Finding {
    Building b;
    Arena *m;
    const char *path; /* in m */
    bool is_new;
    int n_kernels, n_built;
} Finding;

static void find(Env *e, void *arg)
{
    Finding *s = arg;
    ModelLibrary *l = &s->b.library;
    building_compile(e, &s->b, s->b.o->dir, false);
    model_library_build(e, l);
    s->path = arena_str(s->m, l->path);
    s->is_new = l->is_new;
    s->n_kernels = l->text.n_kernels;
    s->n_built = l->n_built;
}

static void search(Env *e, void *arg)
{
    Finding *s = arg;
    env_finally(e, find, building_close, &s->b);
}

BuildOptions first_use_build(const FirstUse *f, const char *dir)
{
    return (BuildOptions){.dir = dir,
                          .db = f->db,
                          .no_db = f->no_db,
                          .context = f->context,
                          .n_threads = f->n_threads,
                          .f32 = f->f32};
}

/* In an Env of its own: what a compiler needs is not for the model that runs to keep. */
const char *first_use_library(Env *e, const FirstUse *f, const char *dir)
{
    BuildOptions o = first_use_build(f, dir);
    Finding s = {.b = {.o = &o}, .m = &e->model};
    uint64_t start_ns = os_now_ns();
    Env own;
    env_init(&own);
    terminal_wait("[building ...]"); /* seconds, the first time */
    bool ok = env_try(&own, search, &s);
    Err err = own.err;
    env_release(&own);
    terminal_wait(NULL);
    if (!ok) {
        fail_err(e, &err);
    }
    if (s.is_new) {
        fprintf(stderr, "[built a library of %d kernels (%d objects compiled now), %.2f s]\n",
                s.n_kernels, s.n_built, (double)(os_now_ns() - start_ns) / 1e9);
    }
    return s.path;
}
