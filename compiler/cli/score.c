/* score.c - `nanocompile perplexity` and `nanocompile logits`: what the model thinks of a text. */
#include <stdlib.h>
#include <string.h>

#include "cli/model.h"

#define MAX_TEXT_BYTES (256u << 20)

typedef struct Options {
    ModelOptions model;
    const char *text_file, *prompt, *ids, *out;
    int chunk, n_tokens;
    bool parse_special;
} Options;

/* The tokens to score: --ids, --prompt, or --text's. */
static void tokens_of(Env *e, const Options *o, Model *m, Ids *ids)
{
    char *text = (char *)o->prompt;
    size_t len = text ? strlen(text) : 0;
    Err err;
    if (o->text_file && !os_read_file(&e->model, o->text_file, MAX_TEXT_BYTES, &text, &len, &err)) {
        fail_err(e, &err);
    }
    if (!o->ids) {
        tokenizer_encode(m->tokenizer, text, len, o->parse_special, ids);
    }
    for (const char *at = o->ids; at && *at;) {
        char *end;
        long id = strtol(at, &end, 10);
        if (end == at || id < 0 || id > INT32_MAX || (*end && *end != ',')) {
            fail(e, E_INPUT, "--ids takes token ids separated by commas, not '%s'.", o->ids);
        }
        *vec_push(ids->arena, ids) = (int32_t)id;
        at = end + (*end == ',');
    }
    if (o->n_tokens && ids->n > o->n_tokens) {
        ids->n = o->n_tokens;
    }
}

static void perplexity_body(Env *e, Model *m, void *arg)
{
    const Options *o = arg;
    Ids ids = {.arena = &e->model};
    Perplexity p;
    Err err;
    tokens_of(e, o, m, &ids);
    if (!perplexity(engine_stepper(m->engine), ids.at, ids.n, o->chunk, &p, &err)) {
        fail_err(e, &err);
    }
    printf("perplexity %.10g\nmean NLL %.15g\ntokens %d, scored %d, chunks of %d: %d\n", p.perplexity, p.mean_nll, ids.n,
           p.n_scored, o->chunk, p.n_chunks);
}

static void logits_body(Env *e, Model *m, void *arg)
{
    const Options *o = arg;
    Ids ids = {.arena = &e->model};
    const float *logits;
    Err err;
    Stepper *s = engine_stepper(m->engine);
    tokens_of(e, o, m, &ids);
    if (!s->feed(s, ids.at, ids.n, true, &logits, &err)) {
        fail_err(e, &err);
    }
    Tensor t = {DT_F32, 2, {ids.n, s->n_vocab}, (void *)logits};
    if (!npy_write(o->out, t, &err)) {
        fail_err(e, &err);
    }
    printf("%s: f32[%d, %lld]\n", o->out, ids.n, (long long)s->n_vocab);
}

enum { KEY_TEXT = 800, KEY_CHUNK, KEY_TOKENS, KEY_IDS, KEY_SPECIAL };

static int number(struct argp_state *state, const char *name, const char *arg, int least)
{
    char *end;
    long v = strtol(arg, &end, 10);
    if (*end || end == arg || v < least || v > INT32_MAX) {
        argp_error(state, "%s takes a number from %d up, not '%s'", name, least, arg);
    }
    return (int)v;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    Options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &o->model; return 0;
    case KEY_TEXT: o->text_file = arg; return 0;
    case 'p': o->prompt = arg; return 0;
    case KEY_IDS: o->ids = arg; return 0;
    case 'o': o->out = arg; return 0;
    case KEY_CHUNK: o->chunk = number(state, "--chunk", arg, 2); return 0;
    case KEY_TOKENS: o->n_tokens = number(state, "--tokens", arg, 2); return 0;
    case KEY_SPECIAL: o->parse_special = true; return 0;
    case ARGP_KEY_END:
        if (!o->text_file && !o->prompt && !o->ids) {
            argp_error(state, "say what to score: a text file, a prompt or token ids");
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

#define TOKENS_OPTIONS                                                                               \
    {"text", KEY_TEXT, "FILE", 0, "a text file", 0}, {"prompt", 'p', "TEXT", 0, "a text", 0},         \
        {"ids", KEY_IDS, "N,N,...", 0, "token ids", 0},                                              \
        {"tokens", KEY_TOKENS, "N", 0, "only the first N tokens", 0},                                \
    {                                                                                                \
        "parse-special", KEY_SPECIAL, NULL, 0, "control tokens written in the text are control tokens", 0 \
    }

static const struct argp_child children[] = {{&model_argp, 0, NULL, 0}, {0}};

int cmd_perplexity(int argc, char **argv)
{
    static const struct argp_option options[] = {
        TOKENS_OPTIONS, {"chunk", KEY_CHUNK, "N", 0, "tokens scored together (default: 128)", 0}, {0}};
    static const struct argp argp = {options, parse, NULL,
                                     "Perplexity of a text, in chunks that do not overlap, each from position 0.",
                                     children, NULL, NULL};
    Options o = {.chunk = 128};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return with_model(&o.model, perplexity_body, &o);
}

int cmd_logits(int argc, char **argv)
{
    static const struct argp_option options[] = {
        TOKENS_OPTIONS, {"out", 'o', "FILE.npy", 0, "where to (default: logits.npy)", 0}, {0}};
    static const struct argp argp = {options, parse, NULL, "Logits of every position, as a NumPy file.", children, NULL, NULL};
    Options o = {.out = "logits.npy"};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return with_model(&o.model, logits_body, &o);
}
