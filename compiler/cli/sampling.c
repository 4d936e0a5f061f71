/* sampling.c - the options that say how tokens are chosen, expanded from the SAMPLING list. */
#include <stdlib.h>

#include "cli/model.h"

enum {
    KEY_SEED = 700,
    KEY_MAX,
    KEY_FIRST = 710, /* then one key a column of SAMPLING */
};

static const struct argp_option options[] = {
    {"temperature", KEY_FIRST + 0, "T", 0, "0 is greedy; logits are divided by it", 3},
    {"top-k", KEY_FIRST + 1, "K", 0, "keep the K likeliest tokens and all equal to the last; 0 is off", 3},
    {"top-p", KEY_FIRST + 2, "P", 0, "keep the likeliest tokens that make up P; 1 is off", 3},
    {"min-p", KEY_FIRST + 3, "P", 0, "drop tokens less likely than P times the likeliest; 0 is off", 3},
    {"repetition-penalty", KEY_FIRST + 4, "R", 0, "make tokens seen before less likely; 1 is off", 3},
    {"seed", KEY_SEED, "N", 0, "of the random numbers (default: 1)", 3},
    {"max-tokens", KEY_MAX, "N", 0, "at most so many new tokens (default: 256)", 3},
    {0},
};

static double parse_number(struct argp_state *state, const char *text)
{
    char *end;
    double v = strtod(text, &end);
    if (*end || end == text) {
        argp_error(state, "'%s' is not a number", text);
    }
    return v;
}

static void set_column(SamplingOptions *o, int column, double v)
{
    int i = 0;
#define X(field, type, off, least, most)                                               \
    if (column == i++) {                                                               \
        o->value.field = (type)v;                                                      \
        o->is_given[i - 1] = true;                                                     \
    }
    SAMPLING(X)
#undef X
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    SamplingOptions *o = state->input;
    double v;
    switch (key) {
    case KEY_SEED:
        o->seed = (uint64_t)parse_number(state, arg);
        return 0;
    case KEY_MAX:
        v = parse_number(state, arg);
        if (!(v >= 1 && v <= INT32_MAX)) {
            argp_error(state, "--max-tokens takes a number from 1 up, not '%s'", arg);
        }
        o->max_tokens = (int)v;
        return 0;
    default:
        if (key >= KEY_FIRST && key < KEY_FIRST + 5) {
            set_column(o, key - KEY_FIRST, parse_number(state, arg));
            return 0;
        }
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp sampling_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

SamplingOptions sampling_options(void)
{
    return (SamplingOptions){.seed = 1, .max_tokens = 256};
}

Sampling sampling_apply(Env *e, const SamplingOptions *o, Sampling base)
{
    int i = 0;
#define X(field, type, off, least, most) base.field = o->is_given[i++] ? o->value.field : base.field;
    SAMPLING(X)
#undef X
    sampling_check(e, &base);
    return base;
}
