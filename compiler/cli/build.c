/* build.c - `nanocompile build`: a model as one library, its C and its header in a folder. */
#include <string.h>

#include "cli/build.h"

static void say(const ModelLibrary *l, const char *out, uint64_t took_ns)
{
    const nc_facts *f = l->text.tables->facts;
    fprintf(stderr,
            "%s/model.so: %d programs of %d kernels (%d compiled now), context %lld, %d "
            "threads, %.2f s\n",
            out, f->n_programs, l->text.n_kernels, l->n_built, (long long)f->context,
            f->n_threads, (double)took_ns / 1e9);
    for (int i = 0; i < f->n_programs; i++) {
        const nc_program *p = &f->program[i];
        fprintf(stderr,
                "  %-8s %lld to %lld tokens (scheduled for %lld): %d calls, %d joins, arena "
                "%.1f MB, "
                "%.1f to %.1f MB moved for one token\n",
                p->name, (long long)p->min_tokens, (long long)p->max_tokens,
                (long long)p->usual_tokens, p->n_calls, p->n_joins,
                (double)p->arena_bytes / 1e6, (double)p->bytes_first / 1e6,
                (double)p->bytes_last / 1e6);
    }
    fprintf(stderr, "  lengths of prompts that share a program: %s\n", f->buckets);
    fprintf(
        stderr,
        "  weights %.1f MB in memory, %.1f MB of them laid out for kernels; cache %.1f MB\n",
        (double)f->weight_bytes / 1e6, (double)f->panel_bytes / 1e6,
        (double)f->cache_bytes / 1e6);
}

static void require_tuned(Env *e, const Building *b)
{
    const Picked *x = NULL;
    int n = manifest_untuned(&b->picks, &x);
    if (b->o->require_tuned && n) {
        fail(e, E_INPUT,
             "%d of %d kernels are not tuned for this place; the first, a %s: %s: %.600s", n,
             b->picks.at.n, x->site->kernel->kind, x->answer.outcome, x->answer.why);
    }
}

static void print_manifest(Env *e, const Building *b)
{
    Table t;
    Buf out;
    buf_init(&out, &e->model);
    manifest_table(e, &b->picks, &b->library, &t);
    table_print(&t, b->o->format, &out);
    cli_flush(&out);
}

/* By opening it once: what there is already is looked at closely. */
static void write_pack(Env *e, Building *b)
{
    const char *lib = arena_printf(&e->model, "%s/model.so", b->o->out);
    nc_options o = {.progress = terminal_progress(),
                    .progress_ctx = (void *)(uintptr_t) "laying out weights",
                    .stop = &interrupted};
    pack_use(e, &b->o->pack, lib, &o);
    o.pack_check = 1;
    built_model_load(e, &b->built, lib);
    built_model_open(e, &b->built, &o);
}

static void build(Env *e, void *arg)
{
    Building *b = arg;
    const BuildOptions *o = b->o;
    uint64_t start_ns = os_now_ns();
    building_compile(e, b, model_dir(e, o->dir), true);
    require_tuned(e, b);
    model_library_build(e, &b->library);
    model_library_write(e, &b->library, o->out);
    uint64_t took_ns = os_now_ns() - start_ns;
    print_manifest(e, b);
    say(&b->library, o->out, took_ns);
    manifest_store(e, &b->picks, &b->library, took_ns);
    if (o->pack.wanted) {
        write_pack(e, b);
    }
}

static void build_body(Env *e, void *arg)
{
    Building b = {.o = arg};
    catch_interrupt();
    env_finally(e, build, building_close, &b);
}

enum {
    KEY_CONTEXT = 1100,
    KEY_THREADS,
    KEY_NAIVE,
    KEY_F32,
    KEY_DB,
    KEY_NO_DB,
    KEY_SCHED,
    KEY_EXACT,
    KEY_UNTUNED,
    KEY_TUNED,
    KEY_PACK,
    KEY_BUCKETS,
    KEY_CAP,
    KEY_FORMAT
};

static const struct argp_option options[] = {
    {"model", 'm', "DIR", 0,
     "model folder (default: the small model that comes with the program)", 1},
    {"output", 'o', "DIR", 0,
     "folder that gets model.so, model.h and their C (made if missing)", 1},
    {"context", KEY_CONTEXT, "N", 0,
     "positions that it holds (default: the model's, at most 4096)", 1},
    {"threads", KEY_THREADS, "N", 0, "threads that kernels are scheduled for (default: all)",
     1},
    {"pack-file", KEY_PACK, "FILE", OPTION_ARG_OPTIONAL,
     "and the weights as the library lays them out, for a start that only maps them (default: "
     "model.pack in that folder)",
     1},
    {"buckets", KEY_BUCKETS, "LIST", 0,
     "a program for prompts of up to so many tokens each, 16,64,512; its schedules are for "
     "that length, or "
     "for the one before a colon, 64:512 (default: what `nanocompile bench --buckets` "
     "measured, else 64:512)",
     1},
    {"format", KEY_FORMAT, "text|md|csv|json|tex", 0,
     "of the list of call sites (default: text, which joins those of one kernel)", 1},
    {"db", KEY_DB, "FILE", 0,
     "schedules from this database (default: $NANOCOMPILE_DB, else schedules.db in the data "
     "folder), which records the build",
     2},
    {"no-db", KEY_NO_DB, NULL, 0, "default schedules only; nothing is recorded", 2},
    {"sched", KEY_SCHED, "FILE", 0, "schedules from this text, as `schedb export` writes it",
     2},
    {"memory-cap", KEY_CAP, "BYTES", 0,
     "memory for weights, 950MB or 1.2GB too: tuned kernels that want one more layout of them "
     "are refused where it does not fit, the least useful first (default: 1.25 times what "
     "default schedules take)",
     2},
    {"exact-only", KEY_EXACT, NULL, 0, "only schedules that give the naive kernels' bits", 2},
    {"require-tuned", KEY_TUNED, NULL, 0, "fail where a kernel was not tuned for this machine",
     2},
    {"untuned", KEY_UNTUNED, NULL, 0,
     "default schedules whatever the database has; the build is recorded, to be compared", 2},
    {"naive", KEY_NAIVE, NULL, 0,
     "kernels without schedules, with the interpreter's bits, slow; recorded likewise", 2},
    {"f32", KEY_F32, NULL, 0,
     "weights that come as BF16 are f32 in memory; twice the bytes, the same bits", 2},
    {0},
};

static void check_options(struct argp_state *state, const BuildOptions *o)
{
    if (!o->out) {
        argp_error(state, "say where it goes: --output DIR");
    } else if ((o->sched != NULL) + o->no_db + o->untuned + o->naive > 1) {
        argp_error(state, "one of --no-db, --sched, --untuned and --naive");
    } else if (o->db && (o->sched || o->no_db)) {
        argp_error(state, "--db goes with neither --sched nor --no-db");
    } else if (o->naive && o->memory_cap) {
        argp_error(state, "--memory-cap chooses between schedules, and --naive has none");
    } else if (o->require_tuned && (o->no_db || o->untuned || o->naive)) {
        argp_error(state, "--require-tuned needs schedules that were tuned");
    }
}

static void parse_buckets(struct argp_state *state, BuildOptions *o, const char *list)
{
    Bucket bucket[MAX_BUCKETS];
    int n;
    o->buckets = list;
    if (!buckets_parse(list, bucket, &n)) {
        argp_error(state,
                   "--buckets takes at most %d rising numbers of tokens, as 16,64,512 or "
                   "16:40,256:512, not '%s'",
                   MAX_BUCKETS, list);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    BuildOptions *o = state->input;
    switch (key) {
    case 'm': o->dir = arg; return 0;
    case 'o': o->out = arg; return 0;
    case KEY_CONTEXT: o->context = option_int(state, "context", arg, 1, 1 << 24); return 0;
    case KEY_THREADS: o->n_threads = (int)option_int(state, "threads", arg, 1, 4096); return 0;
    case KEY_FORMAT: o->format = option_format(state, arg); return 0;
    case KEY_PACK: o->pack = (PackOptions){.wanted = true, .file = arg}; return 0;
    case KEY_BUCKETS: parse_buckets(state, o, arg); return 0;
    case KEY_DB: o->db = arg; return 0;
    case KEY_NO_DB: o->no_db = true; return 0;
    case KEY_SCHED: o->sched = arg; return 0;
    case KEY_CAP: o->memory_cap = option_bytes(state, "memory-cap", arg); return 0;
    case KEY_EXACT: o->exact_only = true; return 0;
    case KEY_TUNED: o->require_tuned = true; return 0;
    case KEY_UNTUNED: o->untuned = true; return 0;
    case KEY_NAIVE: o->naive = true; return 0;
    case KEY_F32: o->f32 = true; return 0;
    case ARGP_KEY_END: check_options(state, o); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "Compiles a model into one shared library that needs libc, libm and threads only, with its "
    "C "
    "source and a header. Says which schedule each call site got: hit (the database's, with "
    "its "
    "evidence), kept (tuned, and nothing was faster than the default), imported, miss, stale, "
    "refused, default, naive; and why.\v"
    "The library opens the weights where they lay when it was built, or in the folder that "
    "nc_open is "
    "told; it refuses other ones. `nanocompile run --lib DIR/model.so` runs it.\n\n"
    "  tune --model Qwen2.5-0.5B-Instruct\n"
    "  nanocompile build --model Qwen2.5-0.5B-Instruct -o qwen/\n"
    "  nanocompile chat --lib qwen/model.so";

int cmd_build(int argc, char **argv)
{
    static const struct argp argp = {.options = options, .parser = parse, .doc = doc};
    BuildOptions o = {.n_words = argc, .word = argv};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return cli_run(build_body, &o);
}
