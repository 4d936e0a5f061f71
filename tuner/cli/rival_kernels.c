/* rival_kernels.c - OpenBLAS, oneDNN and our hand-written kernels as rivals of this program: each a row of
 * the table of baselines. They are opened only in processes of their own, since libraries start threads
 * and look at the environment; the tuner itself asks such a process what there is. */
#include <stdlib.h>
#include <string.h>

#include "experiments/baselines/baselines.h"
#include "tuner/cli/duels.h"

/* ---- in the process that measures --------------------------------------------------------- */

typedef struct Opened {
    Machine machine;
    Baselines libs;
    const Baseline *row;
    Product p;
} Opened;

static int32_t run(void *ctx, void *const *params, const int64_t *syms, int part, int n_parts)
{
    const Opened *o = ctx;
    Product p = o->p;
    (void)syms;
    p.c = params[0];
    p.a = params[1];
    p.b = params[2];
    o->row->run(&o->libs, &p, part, n_parts);
    return 0;
}

static void pack(void *ctx, void *to, const void *from)
{
    const Opened *o = ctx;
    baseline_pack(o->row, &o->libs, &o->p, from, to);
}

bool rival_open(Env *e, const char *name, const Kernel *naive, const int64_t *syms,
                int n_threads, RivalKernel *out, Err *err)
{
    Opened *o = arena_new(&e->model, Opened);
    int64_t m = kernel_extent(naive, syms, "m"), n = kernel_extent(naive, syms, "n"),
            k = kernel_extent(naive, syms, "k");
    o->row = baseline_named(name);
    if (!o->row || m < 0 || n < 0 || k < 0 || naive->operand.n != 3) {
        return err_set(err, E_INPUT, "No rival %s computes this kernel.", name);
    }
    machine_read(e, "", &o->machine);
    o->libs.machine = &o->machine;
    if (o->row->own_threads) {
        baselines_open(e, &o->machine, n_threads, &o->libs);
    }
    const char *lacks = baseline_lacks(o->row, &o->libs, m);
    if (lacks) {
        return err_set(err, E_BUILD, "%s cannot run here: %s.", name, lacks);
    }
    if (!baseline_plan(o->row, &o->libs, m, n, k, &o->p, err)) {
        return false;
    }
    bool packs = o->row->pack || o->row->width > 0;
    *out = (RivalKernel){.ctx = o,
                         .run = run,
                         .own_threads = o->row->own_threads,
                         .packed = packs ? 2 : 0,
                         .packed_bytes = o->p.b_bytes,
                         .pack = pack};
    return true;
}

/* ---- what there is ------------------------------------------------------------------------ */

enum { ASK_MS = 60000, MAX_SAID_BYTES = 1 << 16 };

static const char *says_of(const Baseline *b, const Baselines *libs)
{
    return !strcmp(b->name, "openblas") ? libs->openblas.says
           : !strcmp(b->name, "onednn") ? onednn_says(libs->onednn)
                                        : b->name;
}

typedef struct Telling {
    int n_threads;
} Telling;

/* Name, what it says of itself, what it lacks: a line each, tabs between. */
static void tell(Env *e, void *arg)
{
    const Telling *t = arg;
    Machine machine;
    Baselines libs;
    machine_read(e, "", &machine);
    baselines_open(e, &machine, t->n_threads, &libs);
    for (int i = 0; i < n_baselines; i++) {
        const char *lacks = baseline_lacks(&baselines[i], &libs, 1);
        printf("%s\t%s\t%s\n", baselines[i].name, says_of(&baselines[i], &libs),
               lacks ? lacks : "");
    }
    baselines_close(&libs);
}

int rivals_say(int argc, char **argv)
{
    Env e;
    Telling t = {.n_threads = argc > 2 ? atoi(argv[2]) : 1};
    env_init(&e);
    bool ok = env_try(&e, tell, &t);
    if (!ok) {
        fprintf(stderr, "tune: %s\n", e.err.text);
    }
    env_release(&e);
    return ok ? 0 : 1;
}

static const char *word(Arena *a, const char **at, char end)
{
    const char *from = *at, *to = strchr(from, end);
    size_t len = to ? (size_t)(to - from) : strlen(from);
    *at = from + len + (to != NULL);
    return arena_strn(a, from, len);
}

RivalNames rivals_here(const Workplace *w)
{
    Env *e = w->e;
    RivalNames all = {0};
    char *argv[] = {"/proc/self/exe", SAY_RIVALS_WORD,
                    arena_printf(&e->model, "%d", w->n_threads), NULL};
    Buf said;
    Err err;
    int status;
    buf_init(&said, &e->model);
    if (!os_run(argv, NULL, ASK_MS, MAX_SAID_BYTES, &said, &status, &err) || status != 0) {
        fail(e, E_IO, "It cannot be found out what rivals there are: %s",
             err.code ? err.text : said.at);
    }
    for (const char *at = said.at; *at;) {
        RivalName *r = vec_push(&e->model, &all);
        r->name = word(&e->model, &at, '\t');
        r->says = word(&e->model, &at, '\t');
        const char *lacks = word(&e->model, &at, '\n');
        const Baseline *row = baseline_named(r->name);
        r->lacks = *lacks ? lacks : NULL;
        r->one_row = row && row->one_row;
    }
    return all;
}
