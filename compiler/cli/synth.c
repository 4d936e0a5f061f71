/* synth.c - `nanocompile synth CONFIG DIR`: a model folder with seeded random weights. */
#include "cli/cli.h"

typedef struct Options {
    const char *config, *dir;
    uint64_t seed;
} Options;

static void synth_body(Env *e, void *arg)
{
    const Options *o = arg;
    Machine m;
    machine_read(e, "", &m);
    synth_write(e, o->config, o->dir, o->seed, m.n_threads, terminal_progress(),
                "writing weights");
    Config c = config_read(e, o->dir);
    printf("%s: %lld parameters, seed %llu\n", o->dir, (long long)config_parameters(&c),
           (unsigned long long)o->seed);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    Options *o = state->input;
    switch (key) {
    case 's': o->seed = option_seed(state, arg); return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1) {
            return ARGP_ERR_UNKNOWN;
        }
        *(state->arg_num ? &o->dir : &o->config) = arg;
        return 0;
    case ARGP_KEY_END:
        if (!o->dir) {
            argp_error(state, "say which config and where to: CONFIG DIR");
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "Writes a model folder of this config with seeded random BF16 weights, for machines "
    "without the real "
    "ones. CONFIG is a model folder or a config.json; tokenizer files beside it are copied.";

int cmd_synth(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"seed", 's', "N", 0, "of the weights (default: 1)", 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "CONFIG DIR",
        .doc = doc,
    };
    Options o = {.seed = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return cli_run(synth_body, &o);
}
