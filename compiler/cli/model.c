/* model.c - opening a model folder for the commands that run one: config, weights, tokenizer, engine. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/model.h"

enum { KEY_BY = 600, KEY_BLAS, KEY_WITHOUT, KEY_THREADS };

static const struct argp_option options[] = {
    {"model", 'm', "DIR", 0, "model folder (default: the small model that comes with the program)", 1},
    {"by", KEY_BY, "c|nest|interp", 0, "how to run it (default: c)", 2},
    {"without", KEY_WITHOUT, "fuse", 0, "one kernel for every node", 2},
    {"blas", KEY_BLAS, NULL, 0, "interp only: matmul by OpenBLAS, faster, other rounding", 2},
    {"threads", KEY_THREADS, "N", 0, "threads that load weights and compile (default: all this process may use)", 2},
    {0},
};

static EngineWay parse_way(struct argp_state *state, const char *name)
{
    static const char *const ways[] = {[BY_C] = "c", [BY_NEST] = "nest", [BY_INTERP] = "interp"};
    for (size_t i = 0; i < countof(ways); i++) {
        if (!strcmp(name, ways[i])) {
            return (EngineWay)i;
        }
    }
    argp_error(state, "there is no way '%s' to run a model: c, nest and interp are", name);
    return BY_C;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    ModelOptions *o = state->input;
    char *end;
    switch (key) {
    case 'm': o->dir = arg; return 0;
    case KEY_BY: o->way = parse_way(state, arg); return 0;
    case KEY_BLAS: o->blas = true; return 0;
    case KEY_WITHOUT:
        if (strcmp(arg, "fuse")) {
            argp_error(state, "--without takes fuse, not '%s'", arg);
        }
        o->without = (1u << N_STAGES) - 1;
        return 0;
    case KEY_THREADS:
        o->n_threads = (int)strtol(arg, &end, 10);
        if (*end || o->n_threads < 1 || o->n_threads > 4096) {
            argp_error(state, "--threads takes a number from 1 to 4096, not '%s'", arg);
        }
        return 0;
    case ARGP_KEY_END:
        if (o->blas && o->way != BY_INTERP) {
            argp_error(state, "--blas goes with --by interp");
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp model_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

/* Installed beside the program, or in the source tree that it was built in. */
static const char *const own_model[] = {"../share/nanocompile/tiny-qwen2", "../../tests/data/tiny-qwen2"};

const char *model_dir(Env *e, const char *given)
{
    char exe[4096];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (given) {
        return given;
    }
    exe[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(exe, '/');
    for (size_t i = 0; slash && i < countof(own_model); i++) {
        struct stat st;
        const char *dir = arena_printf(&e->model, "%.*s/%s", (int)(slash - exe), exe, own_model[i]);
        if (!os.stat(dir, &st)) {
            return dir;
        }
    }
    fail(e, E_INPUT, "Say which model: --model DIR, a folder with config.json, model.safetensors and tokenizer.json.");
}

static void show_progress(void *ctx, int64_t done_bytes, int64_t total_bytes)
{
    (void)ctx;
    fprintf(stderr, "\rreading weights: %3d%%%s", (int)(done_bytes * 100 / (total_bytes ? total_bytes : 1)),
            done_bytes == total_bytes ? "\n" : "");
}

void model_open(Env *e, Model *m, const ModelOptions *o)
{
    Machine machine;
    EngineOptions eo = {.way = o->way, .without = o->without};
    Err err;
    const char *says;
    *m = (Model){.dir = model_dir(e, o->dir)};
    machine_read(e, "", &machine);
    m->n_threads = o->n_threads ? o->n_threads : machine.n_threads;
    eo.n_threads = m->n_threads;
    if (o->blas && !blas_gemm(&eo.gemm, &says, &err)) {
        fail_err(e, &err);
    }
    if (o->blas) {
        fprintf(stderr, "matmul by %s: sums are not in index order.\n", says);
    }
    m->config = config_read(e, m->dir);
    m->tokenizer = tokenizer_load(e, m->dir, m->config.vocab_size);
    weights_load(e, &m->weights, &m->config, m->dir, m->n_threads, isatty(2) ? show_progress : NULL, NULL);
    if (m->weights.note) {
        fprintf(stderr, "%s\n", m->weights.note);
    }
    m->engine = engine_new(e, &m->config, &m->weights, &eo);
}

void model_close(Model *m)
{
    engine_free(m->engine);
    weights_release(&m->weights);
    tokenizer_release(m->tokenizer);
}

typedef struct Use {
    const ModelOptions *o;
    void (*body)(Env *e, Model *m, void *arg);
    void *arg;
    Model m;
} Use;

static void use(Env *e, void *arg)
{
    Use *u = arg;
    model_open(e, &u->m, u->o);
    u->body(e, &u->m, u->arg);
}

static void use_and_close(Env *e, void *arg)
{
    Use *u = arg;
    bool ok = env_try(e, use, u);
    Err err = e->err;
    model_close(&u->m);
    if (!ok) {
        fail_err(e, &err);
    }
}

int with_model(const ModelOptions *o, void (*body)(Env *e, Model *m, void *arg), void *arg)
{
    Use u = {.o = o, .body = body, .arg = arg};
    return cli_run(use_and_close, &u);
}

/* ---- Ctrl-C ---- */

volatile int interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

void catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
}
