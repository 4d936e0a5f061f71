/* model.c - opening a model folder for the commands that run one: config and tokenizer,
 * which refuse at once, then weights and kernels, which take time. */
#include <string.h>
#include <unistd.h>

#include "cli/model.h"
#include "schedules/schedules.h"

enum { WITHOUT_FUSE = 1, WITHOUT_CACHE = 2, WITHOUT_SPECIALISE = 4 }; /* ModelOptions.without */

enum {
    KEY_BY = 600,
    KEY_BLAS,
    KEY_WITHOUT,
    KEY_NAIVE,
    KEY_PANELS,
    KEY_F32,
    KEY_THREADS,
    KEY_LIB
};

static const struct argp_option options[] = {
    {"model", 'm', "DIR", 0,
     "model folder (default: the small model that comes with the program)", 1},
    {"lib", KEY_LIB, "FILE", 0,
     "run this model.so that `nanocompile build` made; its own folder unless --model says "
     "another",
     1},
    {"by", KEY_BY, "lib|c|nest|interp", 0,
     "how to run it: as a library, built at the first use; its C, nests or graph in this "
     "process (default: lib)",
     2},
    {"without", KEY_WITHOUT, "PART,...", 0,
     "not lib: leave out: fuse (one kernel for every node), cache (the KV cache is joined anew "
     "at "
     "every step), specialise (a token alone runs the kernels of any length)",
     2},
    {"naive", KEY_NAIVE, NULL, 0,
     "c only: kernels without schedules, with the interpreter's bits; slow", 2},
    {"panels", KEY_PANELS, NULL, 0,
     "c only: weights laid out again for speed, which holds them twice", 2},
    {"f32", KEY_F32, NULL, 0,
     "lib and c: weights that come as BF16 are f32 in memory; twice the bytes, the same bits",
     2},
    {"blas", KEY_BLAS, NULL, 0, "interp only: matmul by OpenBLAS, faster, other rounding", 2},
    {"threads", KEY_THREADS, "N", 0,
     "threads that load weights, compile and run (default: all it may use)", 2},
    {0},
};

static void check_options(struct argp_state *state, const ModelOptions *o)
{
    if (o->blas && o->way != BY_INTERP) {
        argp_error(state, "--blas goes with --by interp");
    } else if (o->lib && (o->engine || o->f32 || first_use_given(&o->first))) {
        argp_error(state, "--lib runs what was built: no --by, --without, --naive, --panels, "
                          "--f32, --db, --no-db or --context");
    } else if (o->library && o->engine) {
        argp_error(state, "--by lib goes without --without, --naive and --panels");
    } else if (o->engine && (o->pack.wanted || first_use_given(&o->first))) {
        argp_error(state, "--pack-file, --pack-copy, --pack-check, --db, --no-db and "
                          "--context are for libraries: no --by, --without, --naive or "
                          "--panels");
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const char *const ways[] = {"lib", [1 + BY_C] = "c", [1 + BY_NEST] = "nest",
                                       [1 + BY_INTERP] = "interp"};
    static const char *const stages[] = {"fuse", "cache", "specialise"};
    ModelOptions *o = state->input;
    int by;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->pack;
        state->child_inputs[1] = &o->first;
        return 0;
    case 'm': o->dir = arg; return 0;
    case KEY_BY:
        by = option_choice(state, "by", arg, countof(ways), ways);
        o->library = by == 0;
        o->engine = by > 0;
        o->way = by > 0 ? (EngineWay)(by - 1) : BY_C;
        return 0;
    case KEY_BLAS: o->blas = true; return 0;
    case KEY_WITHOUT:
        o->without |= option_words(state, "without", "stage", arg, countof(stages), stages);
        return 0;
    case KEY_LIB: o->lib = arg; return 0;
    case KEY_NAIVE: o->naive = true; return 0;
    case KEY_PANELS: o->panels = true; return 0;
    case KEY_F32: o->f32 = true; return 0;
    case KEY_THREADS: o->n_threads = (int)option_int(state, "threads", arg, 1, 4096); return 0;
    case ARGP_KEY_END:
        o->engine = o->engine || o->without || o->naive || o->panels;
        check_options(state, o);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&pack_argp, 0, NULL, 0}, {&first_use_argp, 0, NULL, 0}, {0}};
const struct argp model_argp = {.options = options, .parser = parse, .children = children};

/* Installed beside the program, or in the source tree that it was built in. */
static const char *const own_model[] = {"../share/nanocompile/tiny-qwen2",
                                        "../../tests/data/tiny-qwen2"};

const char *model_dir(Env *e, const char *given)
{
    char exe[4096];
    if (given) {
        return given;
    }
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(exe, '/');
    for (size_t i = 0; slash && i < countof(own_model); i++) {
        struct stat st;
        const char *dir =
            arena_printf(&e->model, "%.*s/%s", (int)(slash - exe), exe, own_model[i]);
        if (!os.stat(dir, &st)) {
            return dir;
        }
    }
    fail(e, E_INPUT,
         "The small model that comes with the program is not here; say which one: --model DIR, "
         "a folder with config.json, model.safetensors and tokenizer.json.");
}

/* ---- the parts, in the order of their price ------------------------------------------ */

void model_tokenizer(Env *e, Model *m)
{
    m->tokenizer = tokenizer_load(e, m->dir, m->config.vocab_size);
    env_reset_kernel(e);
}

static Gemm gemm_of(Env *e, const ModelOptions *o)
{
    Gemm gemm = NULL;
    const char *says;
    Err err;
    if (o->blas && !blas_gemm(&gemm, &says, &err)) {
        fail_err(e, &err);
    }
    if (o->blas) {
        fprintf(stderr, "matmul by %s: sums are not in index order.\n", says);
    }
    return gemm;
}

static void open_library(Env *e, Model *m)
{
    FirstUse first = m->o->first;
    const char *lib = m->o->lib;
    if (!lib) {
        first.n_threads = m->o->n_threads;
        first.f32 = m->o->f32;
        lib = first_use_library(e, &first, m->dir);
        built_model_load(e, &m->built, lib);
    }
    nc_options o = {.weights = m->dir,
                    .n_threads = m->o->n_threads,
                    .progress = terminal_progress(),
                    .progress_ctx = (void *)(uintptr_t) "reading weights",
                    .stop = &interrupted};
    pack_use(e, &m->o->pack, lib, &o);
    built_model_open(e, &m->built, &o);
    m->stepper = &m->built.stepper;
}

/* Compiled now, or found in the cache. */
static void make_engine(Env *e, Model *m, bool all)
{
    const ModelOptions *o = m->o;
    Machine machine;
    Err err;
    machine_read(e, "", &machine);
    Picker defaults = picker_default();
    int n_threads = o->n_threads ? o->n_threads : machine.n_threads;
    EngineOptions eo = {.way = o->way,
                        .without = o->without & WITHOUT_FUSE ? (1u << N_STAGES) - 1 : 0,
                        .join_history = o->without & WITHOUT_CACHE,
                        .any_length = o->without & WITHOUT_SPECIALISE,
                        .gemm = gemm_of(e, o),
                        .n_threads = n_threads,
                        .target = target_of(&machine),
                        .stop = &interrupted};
    if (o->way == BY_C && !o->naive) {
        eo.picker = arena_dup(&e->model, &defaults, sizeof defaults);
        eo.hint = hint_of_machine(&machine, n_threads);
        eo.hint.in_place = !o->panels;
        eo.pool = m->pool = n_threads > 1 ? pool_new(n_threads, &err) : NULL;
        if (n_threads > 1 && !m->pool) {
            fail_err(e, &err);
        }
    }
    bool keep = eo.picker && !o->f32; /* naive nests read f32 */
    (keep ? weights_keep : weights_load)(e, &m->weights, &m->config, m->dir, eo.n_threads,
                                         terminal_progress(), "reading weights");
    if (m->weights.note) {
        fprintf(stderr, "%s\n", m->weights.note);
    }
    m->engine = engine_new(e, &m->config, &m->weights, &eo);
    terminal_wait("[compiling ...]"); /* seconds, the first time */
    bool ok = engine_prepare(m->engine, all, &err);
    terminal_wait(NULL);
    if (!ok) {
        fail_err(e, &err);
    }
    m->stepper = engine_stepper(m->engine);
}

void model_load(Env *e, Model *m, bool all)
{
    if (m->o->engine) {
        make_engine(e, m, all);
    } else {
        open_library(e, m);
    }
}

void model_say_storage(const Model *m)
{
    const Weights *w = &m->weights;
    const nc_facts *f = m->built.facts;
    double f32_mb = (double)(w->f32_bytes - 2 * w->bf16_bytes) / 1e6;
    double bf16_mb = (double)w->bf16_bytes / 1e6;
    if (f) {
        fprintf(stderr, "[weights: %.1f MB, %.1f MB of them laid out for kernels]\n",
                (double)f->weight_bytes / 1e6, (double)f->panel_bytes / 1e6);
        return;
    }
    fprintf(stderr, "[weights: ");
    if (w->bf16_bytes) {
        fprintf(stderr, "%.1f MB as bf16%s", bf16_mb, f32_mb > 0 ? ", " : "");
    }
    if (f32_mb > 0) {
        fprintf(stderr, "%.1f MB as f32", f32_mb);
    }
    fprintf(stderr, "]\n");
}

/* ---- using one ----------------------------------------------------------------------- */

typedef struct Use {
    void (*body)(Env *e, Model *m, void *arg);
    void *arg;
    Model m;
} Use;

static void use(Env *e, void *arg)
{
    Use *u = arg;
    struct stat st;
    if (u->m.o->lib) {
        built_model_load(e, &u->m.built, u->m.o->lib);
    }
    u->m.dir =
        u->m.o->lib && !u->m.o->dir ? u->m.built.facts->model : model_dir(e, u->m.o->dir);
    if (!os.stat(u->m.dir, &st) && !S_ISDIR(st.st_mode)) {
        fail(e, E_INPUT, "%s is no folder; --model takes the one that holds config.json.",
             u->m.dir);
    }
    u->m.config = config_read(e, u->m.dir);
    u->body(e, &u->m, u->arg);
}

static void close_model(void *arg)
{
    Model *m = &((Use *)arg)->m;
    built_model_close(&m->built);
    engine_free(m->engine);
    pool_free(m->pool);
    weights_release(&m->weights);
    tokenizer_release(m->tokenizer);
}

void model_use(Env *e, const ModelOptions *o, void (*body)(Env *e, Model *m, void *arg),
               void *arg)
{
    Use u = {.body = body, .arg = arg, .m = {.o = o}};
    catch_interrupt();
    env_finally(e, use, close_model, &u);
}
