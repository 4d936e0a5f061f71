/* against.c - `tune --against FILE`: a kernel that somebody wrote by hand, in the kernels' own ABI, against ours.
 * C is compiled with the compiler and the flags of our own kernels; a library is taken as it is. It runs
 * in the same processes, is verified like any candidate, and timed in the same pairs. The contract is in
 * docs/rivals.md; `--dry-run` prints a file that keeps it. */
#include <string.h>
#include <unistd.h>

#include "compiler/run/run_int.h"
#include "tuner/cli/duels.h"

enum { MAX_FILE_BYTES = 256 << 20 };

static bool is_source(const char *path)
{
    size_t len = strlen(path);
    return len > 2 && !strcmp(path + len - 2, ".c");
}

/* Its hash. Where `has`, its bytes must hold that name: who lacks it is told before anything is measured. */
static Hash read_whole(Env *e, const char *path, const char *has)
{
    char *text;
    size_t len;
    Err err;
    if (!os_read_file(&e->kernel, path, MAX_FILE_BYTES, &text, &len, &err)) {
        fail(e, E_INPUT, "--against: %s", err.text);
    }
    if (has && !memmem(text, len, has, strlen(has))) {
        fail(e, E_BUILD, "there is no function %s in it.", has);
    }
    Hash h = hash_bytes(text, len);
    env_reset_kernel(e);
    return h;
}

/* Always anew: it may include what has changed. */
static const char *compiled(const Workplace *w, const char *path, Hash h)
{
    Env *e = w->e;
    char hex[33];
    Err err;
    int which;
    hash_hex(h, hex);
    const char *out = arena_printf(&e->model, "%s/lib/%s-rival.so", w->cache.dir, hex);
    const char *fresh = arena_printf(&e->model, "%s.%d", out, (int)getpid());
    const char *more[] = {"-shared", "-o", fresh, path, "-lm"};
    Job job = job_new(e, toolchain_argv(e, &w->tc, more, countof(more)));
    os_mkdirs(arena_printf(&e->kernel, "%s/lib", w->cache.dir), &err);
    if (!jobs_run(&job, 1, 1, &w->tc, &tune_interrupted, &which, &err)) {
        os.unlink(fresh);
        toolchain_fail(e, &w->tc, &job, path, "", &err);
    }
    if (os.rename(fresh, out) != 0) {
        fail(e, E_IO, "Cannot rename %s.", fresh);
    }
    env_reset_kernel(e);
    return out;
}

/* A compiler that fails is this rival's end, to be recorded with each task. */
typedef struct Rival {
    const Workplace *w;
    Side side;
} Rival;

static void make(Env *e, void *arg)
{
    Rival *r = arg;
    const char *path = r->w->o->side[0];
    Hash h = read_whole(e, path, NULL);
    r->side.built.c_hash = h;
    r->side.built.library = is_source(path) ? compiled(r->w, path, h) : path;
    read_whole(e, r->side.built.library, RIVAL_SYMBOL);
}

static void *begin(const Workplace *w, const Items *items)
{
    Rival *r = arena_new(&w->e->model, Rival);
    const char *slash = strrchr(w->o->side[0], '/');
    (void)items;
    *r = (Rival){.w = w,
                 .side = {.name = slash ? slash + 1 : w->o->side[0],
                          .built = {.schedule = "", .symbol = RIVAL_SYMBOL, .rival = true}}};
    if (!env_try(w->e, make, r)) {
        Err err = w->e->err;
        if (err.code != E_BUILD) {
            fail_err(w->e, &err);
        }
        r->side.status = STATUS_CC_ERROR;
        r->side.why = arena_str(&w->e->model, err.text);
        r->side.built.library = "";
    }
    return r;
}

static void against(Contest *c)
{
    const Rival *r = c->state;
    Duel d;
    int ours = side_add_ours(c);
    int rival = side_add_rival(c, r->side.name, &r->side.built);
    c->side.at[rival].status = r->side.status;
    c->side.at[rival].why = r->side.why;
    if (contest_play(c, ours, rival, &d)) {
        contest_say_where(c);
    }
}

/* A rival to begin with: the naive nest, as our own generator has it. */
static void show(const Workplace *w, const Items *items)
{
    if (items->n != 1) {
        fail(w->e, E_INPUT,
             "--against with --dry-run prints a file for one kernel, and %d are selected.",
             items->n);
    }
    const Item *it = &items->at[0];
    Kernel named = *it->kernel;
    Buf text;
    buf_init(&text, &w->e->model);
    snprintf(named.symbol, sizeof named.symbol, "%s", RIVAL_SYMBOL);
    emit_kernel(w->e, &named, w->tc.target, &text);
    printf("/* A rival for: %s, %d thread%s. What it has to keep is in docs/rivals.md. */\n%s",
           it->label, it->task.n_threads, it->task.n_threads == 1 ? "" : "s", text.at);
}

const Command command_against = {.option = "against",
                                 .begin = begin,
                                 .task = against,
                                 .show = show,
                                 .verdict_is_status = true};
