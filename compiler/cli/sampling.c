/* sampling.c - the options that say how tokens are chosen, expanded from the SAMPLING list. */
#include "cli/model.h"

enum {
    KEY_SEED = 700,
    KEY_MAX,
    KEY_FIRST = 710, /* then one key a column of SAMPLING */
};

static const struct argp_option options[] = {
    {"temperature", KEY_FIRST + SAMPLING_temperature, "T", 0,
     "0 is greedy; logits are divided by it", 3},
    {"top-k", KEY_FIRST + SAMPLING_top_k, "K", 0,
     "keep the K likeliest tokens and all equal to the last; 0 is off", 3},
    {"top-p", KEY_FIRST + SAMPLING_top_p, "P", 0,
     "keep the likeliest tokens that make up P; 1 is off", 3},
    {"min-p", KEY_FIRST + SAMPLING_min_p, "P", 0,
     "drop tokens less likely than P times the likeliest; 0 is off", 3},
    {"repetition-penalty", KEY_FIRST + SAMPLING_repetition_penalty, "R", 0,
     "make tokens seen before less likely; 1 is off", 3},
    {"seed", KEY_SEED, "N", 0, "of the random numbers (default: 1)", 3},
    {"max-tokens", KEY_MAX, "N", 0, "at most so many new tokens (default: 256)", 3},
    {0},
};
_Static_assert(countof(options) == N_SAMPLING + 3, "a column of SAMPLING has no option");

#define KIND_double "a"
#define KIND_int64_t "a whole"

/* In the range that the list allows; a whole number where the field is one. */
static void set_column(struct argp_state *state, SamplingOptions *o, int column,
                       const char *text)
{
    const char *name = options[column].name;
    double x = option_real(state, name, text);
#define X(field, type, off, allowed, words)                                                   \
    if (column == SAMPLING_##field) {                                                         \
        if (!(allowed) || (double)(type)x != x) {                                             \
            argp_error(state, "--%s takes " KIND_##type " number: " words ", not '%s'", name, \
                       text);                                                                 \
        }                                                                                     \
        o->value.field = (type)x;                                                             \
    }
    SAMPLING(X)
#undef X
    o->is_given[column] = true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    SamplingOptions *o = state->input;
    switch (key) {
    case KEY_SEED: o->seed = option_seed(state, arg); return 0;
    case KEY_MAX:
        o->max_tokens = (int)option_int(state, "max-tokens", arg, 1, INT32_MAX);
        return 0;
    default:
        if (key >= KEY_FIRST && key < KEY_FIRST + N_SAMPLING) {
            set_column(state, o, key - KEY_FIRST, arg);
            return 0;
        }
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp sampling_argp = {.options = options, .parser = parse};

SamplingOptions sampling_options(void)
{
    return (SamplingOptions){.seed = 1, .max_tokens = 256};
}

bool sampling_given(const SamplingOptions *o)
{
    for (int i = 0; i < N_SAMPLING; i++) {
        if (o->is_given[i]) {
            return true;
        }
    }
    return false;
}

Sampling sampling_apply(const SamplingOptions *o, Sampling base)
{
#define X(field, type, off, allowed, words) \
    base.field = o->is_given[SAMPLING_##field] ? o->value.field : base.field;
    SAMPLING(X)
#undef X
    return base;
}
