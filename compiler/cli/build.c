/* build.c - `nanocompile build`: a model as one library, its C and its header in a folder. */
#include <string.h>

#include "cli/model.h"
#include "schedules/schedules.h"

typedef struct Options {
    const char *dir, *out;
    int64_t context;
    int n_threads;
    bool naive;
} Options;

static void say(const ModelLibrary *l, const char *out, uint64_t took_ns)
{
    const nc_facts *f = l->text.tables->facts;
    printf("%s/model.so: %d programs of %d kernels (%d compiled now), context %lld, %d "
           "threads, %.2f s\n",
           out, f->n_programs, l->text.n_kernels, l->n_built, (long long)f->context,
           f->n_threads, (double)took_ns / 1e9);
    for (int i = 0; i < f->n_programs; i++) {
        const nc_program *p = &f->program[i];
        printf("  %-8s at most %lld tokens: %d calls, %d joins, arena %.1f MB, %.1f to %.1f MB "
               "moved "
               "for one token\n",
               p->name, (long long)p->max_tokens, p->n_calls, p->n_joins,
               (double)p->arena_bytes / 1e6, (double)p->bytes_first / 1e6,
               (double)p->bytes_last / 1e6);
    }
    printf("  weights %.1f MB in memory, %.1f MB of them laid out for kernels; cache %.1f MB\n",
           (double)f->weight_bytes / 1e6, (double)f->panel_bytes / 1e6,
           (double)f->cache_bytes / 1e6);
}

typedef struct Build {
    const Options *o;
    Checkpoint file;
} Build;

static void build(Env *e, void *arg)
{
    Build *b = arg;
    const Options *o = b->o;
    const char *dir = model_dir(e, o->dir);
    uint64_t start_ns = os_now_ns();
    Machine machine;
    Picker defaults = picker_default();
    ModelLibrary l;
    machine_read(e, "", &machine);
    Config config = config_read(e, dir);
    checkpoint_open(e, &b->file, dir);
    int n_threads = o->n_threads ? o->n_threads : machine.n_threads;
    LibraryOptions lo = {.dir = dir,
                         .config = &config,
                         .file = &b->file,
                         .context = o->context,
                         .n_threads = n_threads,
                         .n_jobs = machine.n_threads,
                         .picker = o->naive ? NULL : &defaults,
                         .hint = hint_of_machine(&machine, n_threads),
                         .target = target_of(&machine),
                         .stop = &interrupted};
    lo.hint.in_place = true;
    model_library_build(e, &lo, &l);
    model_library_write(e, &l, o->out);
    say(&l, o->out, os_now_ns() - start_ns);
}

static void release(void *arg)
{
    checkpoint_release(&((Build *)arg)->file);
}

static void build_body(Env *e, void *arg)
{
    Build b = {.o = arg};
    catch_interrupt();
    env_finally(e, build, release, &b);
}

enum { KEY_CONTEXT = 900, KEY_THREADS, KEY_NAIVE };

static const struct argp_option options[] = {
    {"model", 'm', "DIR", 0,
     "model folder (default: the small model that comes with the program)", 0},
    {"output", 'o', "DIR", 0,
     "folder that gets model.so, model.h and their C (made if missing)", 0},
    {"context", KEY_CONTEXT, "N", 0,
     "positions that it holds (default: the model's, at most 4096)", 0},
    {"threads", KEY_THREADS, "N", 0, "threads that kernels are scheduled for (default: all)",
     0},
    {"naive", KEY_NAIVE, NULL, 0,
     "kernels without schedules, with the interpreter's bits; slow", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    Options *o = state->input;
    switch (key) {
    case 'm': o->dir = arg; return 0;
    case 'o': o->out = arg; return 0;
    case KEY_CONTEXT: o->context = option_int(state, "context", arg, 1, 1 << 24); return 0;
    case KEY_THREADS: o->n_threads = (int)option_int(state, "threads", arg, 1, 4096); return 0;
    case KEY_NAIVE: o->naive = true; return 0;
    case ARGP_KEY_END:
        if (!o->out) {
            argp_error(state, "say where it goes: --output DIR");
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "Compiles a model into one shared library that needs libc, libm and threads only, with its "
    "C "
    "source and a header.\v"
    "The library opens the weights where they lay when it was built, or in the folder that "
    "nc_open is "
    "told; it refuses other ones. `nanocompile run --lib DIR/model.so` runs it.\n\n"
    "  nanocompile build --model Qwen2.5-0.5B-Instruct -o qwen/\n"
    "  nanocompile chat --lib qwen/model.so --model Qwen2.5-0.5B-Instruct";

int cmd_build(int argc, char **argv)
{
    static const struct argp argp = {.options = options, .parser = parse, .doc = doc};
    Options o = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return cli_run(build_body, &o);
}
