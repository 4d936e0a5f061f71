/* bench_options.c - what `nanocompile bench` is asked for: kernels beside others, the machine alone,
 * or a built model. */
#include <stdio.h>

#include "cli/bench.h"
#include "tuner/buckets.h"
#include "tuner/cli/tune.h"

enum {
    KEY_SHAPE = 900,
    KEY_THREADS,
    KEY_REGIME,
    KEY_PEAKS,
    KEY_BLOCKS,
    KEY_SEED,
    KEY_NAIVE,
    KEY_BF16,
    KEY_SWEEP,
    KEY_LIB,
    KEY_VS,
    KEY_LLAMA,
    KEY_PROFILE,
    KEY_BUCKETS
};

static const struct argp_option options[] = {
    {"shape", KEY_SHAPE, "m=M,n=N,k=K", 0,
     "instead: the product x[m, k] times w[n, k] transposed, against OpenBLAS and hand-written "
     "kernels",
     0},
    {"kernel", 'k', "K", 0,
     "instead: this kernel of MODEL, by number, kind or hash (with --seq, --past)", 0},
    {"schedule", 's', "STEPS", 0, "a schedule besides the default; may be repeated", 0},
    {"sweep", KEY_SWEEP, "N", 0,
     "and the fastest of N points of the kernel's space, found by timing each briefly", 0},
    {"lib", KEY_LIB, "FILE", 0,
     "instead of MODEL's own: this model.so that `nanocompile build` made; its weights are "
     "those of MODEL, "
     "else where they lay then",
     0},
    {"vs", KEY_VS, "FILE", 0, "of a library: and this one, in turns with it", 0},
    {"vs-llama", KEY_LLAMA, "GGUF", 0,
     "of a library: in turns with llama.cpp's llama-bench, which $LLAMA_BENCH names, on this "
     "file",
     0},
    {"profile", KEY_PROFILE, NULL, 0, "of a library: only what each of its kernels takes", 0},
    {"buckets", KEY_BUCKETS, "PERCENT", OPTION_ARG_OPTIONAL,
     "of MODEL: which lengths of prompts should share a program, and be at most so much slower "
     "than with schedules of their own (default: 5); the database keeps that for builds",
     0},
    {"threads", KEY_THREADS, "N", 0, "default: all that this process may use", 0},
    {"regime", KEY_REGIME, "hot|cold", 0,
     "weights and KV cache in the processor's caches, or as a model finds them: in a ring of "
     "copies (default: hot)",
     0},
    {"naive", KEY_NAIVE, NULL, 0, "the nest without steps takes part too", 0},
    {"bf16", KEY_BF16, NULL, 0,
     "with --shape: weights that were widened from bfloat16, which schedules may store as such",
     0},
    {"blocks", KEY_BLOCKS, "N", 0, "of measurements; intervals need 6 (default: 8)", 0},
    {"seed", KEY_SEED, "N", 0, "of operands and orders (default: 1)", 0},
    {"peaks", KEY_PEAKS, NULL, 0,
     "only measure the machine: arithmetic, read bandwidth by level, fork and join", 0},
    {0},
};

static void parse_shape(struct argp_state *state, BenchOptions *o, const char *text)
{
    if (!shape_parse(text, &o->m, &o->n, &o->k)) {
        argp_error(state, "--shape takes m=M,n=N,k=K, each 1 or more, not '%s'", text);
    }
}

/* A library: one that was named, or the model's. */
static bool wants_library(const BenchOptions *o)
{
    return o->library.lib[0] || (o->source.path && !o->peaks && !o->m && !o->kernel);
}

static void check_options(struct argp_state *state, const BenchOptions *o)
{
    const LibraryBench *l = &o->library;
    bool first = first_use_given(&l->first);
    bool recorded = l->lib[1] && !l->first.no_db && !l->first.context; /* --db: where */
    if (l->lib[0] && (o->peaks || o->m || o->kernel || (first && !recorded))) {
        argp_error(state, "--lib stands alone, and is built already");
    } else if (!wants_library(o) &&
               (l->lib[1] || l->llama || l->profile || l->pack.wanted || first)) {
        argp_error(state, "--vs, --vs-llama, --profile, --pack-file and --db go with --lib or "
                          "a model alone");
    } else if ((l->lib[1] != NULL) + (l->llama != NULL) + l->profile > 1) {
        argp_error(state, "one of --vs, --vs-llama and --profile");
    } else if (l->buckets && (!wants_library(o) || l->lib[0] || l->lib[1] || l->llama ||
                              l->profile || l->pack.wanted || !(l->margin > 0))) {
        argp_error(state, "--buckets goes with a model alone, and takes a percentage above 0");
    } else if (l->lib[1] && l->pack.file) {
        argp_error(state, "with --vs each library has its own --pack-file");
    } else if (!wants_library(o) && !o->peaks && !o->m && !o->kernel) {
        argp_error(state, "say what to measure: a model, --lib, --shape, --kernel or --peaks");
    } else if (o->kernel && !o->source.path) {
        argp_error(state, "--kernel needs a model: a folder, a config.json or a .ncg file");
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    BenchOptions *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->source;
        state->child_inputs[1] = &o->library.pack;
        state->child_inputs[2] = &o->library.first;
        return 0;
    case KEY_SHAPE: parse_shape(state, o, arg); return 0;
    case 'k': o->kernel = arg; return 0;
    case KEY_LIB: o->library.lib[0] = arg; return 0;
    case KEY_VS: o->library.lib[1] = arg; return 0;
    case KEY_LLAMA: o->library.llama = arg; return 0;
    case KEY_PROFILE: o->library.profile = true; return 0;
    case KEY_BUCKETS:
        o->library.buckets = true;
        o->library.margin = arg ? option_real(state, "buckets", arg) / 100 : BUCKETS_MARGIN;
        return 0;
    case 's':
        if (o->n_schedules == MAX_BENCH_ENTRIES) {
            argp_error(state, "at most %d schedules", MAX_BENCH_ENTRIES);
        } else {
            o->schedule[o->n_schedules++] = arg;
        }
        return 0;
    case KEY_SWEEP: o->n_sweep = (int)option_int(state, "sweep", arg, 1, 10000); return 0;
    case KEY_THREADS: o->n_threads = (int)option_int(state, "threads", arg, 1, 4096); return 0;
    case KEY_REGIME:
        o->cold = option_choice(state, "regime", arg, N_REGIMES, regime_name) == REGIME_COLD;
        return 0;
    case KEY_NAIVE: o->naive = true; return 0;
    case KEY_BLOCKS: o->n_blocks = (int)option_int(state, "blocks", arg, 1, 10000); return 0;
    case KEY_SEED: o->seed = option_seed(state, arg); return 0;
    case KEY_BF16: o->bf16 = true; return 0;
    case KEY_PEAKS: o->peaks = true; return 0;
    case ARGP_KEY_ARG: o->source.path = arg; return state->arg_num > 0 ? ARGP_ERR_UNKNOWN : 0;
    case ARGP_KEY_END:
        o->format = o->source.format;
        check_options(state, o);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int cmd_bench(int argc, char **argv)
{
    static const struct argp_child children[] = {{&source_argp, 0, NULL, 0},
                                                 {&pack_argp, 0, NULL, 0},
                                                 {&first_use_argp, 0, NULL, 0},
                                                 {0}};
    static const struct argp argp = {options,
                                     parse,
                                     "[MODEL]",
                                     "Measures a model as a library, built at the first use; "
                                     "or a generated kernel beside others, in random "
                                     "order in one process. Every kernel is "
                                     "verified before it is timed.",
                                     children,
                                     NULL,
                                     NULL};
    BenchOptions o = {.source = source_default(), .n_blocks = 8, .seed = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    LibraryBench *l = &o.library;
    if (wants_library(&o)) {
        l->weights = o.source.path;
        l->n_threads = o.n_threads;
        l->n_blocks = o.n_blocks;
        l->seed = o.seed;
        l->format = o.format;
        return cli_run(l->buckets   ? bench_buckets
                       : l->llama   ? bench_llama
                       : l->profile ? bench_profile
                                    : bench_library,
                       l);
    }
    return cli_run(bench_kernels, &o);
}
