/* score.c - `nanocompile perplexity` and `nanocompile logits`: what the model thinks of a
 * text, a prompt or token ids. Ids need no tokenizer. */
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

static void parse_ids(Env *e, const char *text, Ids *ids)
{
    for (const char *at = text; *at;) {
        char *end;
        long id = strtol(at, &end, 10);
        if (end == at || id < 0 || id > INT32_MAX || (*end && *end != ',')) {
            fail(e, E_INPUT, "--ids takes token ids separated by commas, not '%.200s'.", text);
        }
        *vec_push(ids->arena, ids) = (int32_t)id;
        at = end + (*end == ',');
    }
}

/* The tokens to score: --ids, --prompt, or --text's. */
static Ids tokens_of(Env *e, const Options *o, Model *m)
{
    Ids ids = {.arena = &e->model};
    char *text = (char *)o->prompt;
    size_t len = text ? strlen(text) : 0;
    Err err;
    if (o->text_file &&
        !os_read_file(&e->model, o->text_file, MAX_TEXT_BYTES, &text, &len, &err)) {
        fail_err(e, &err);
    }
    if (o->ids) {
        parse_ids(e, o->ids, &ids);
    } else {
        model_tokenizer(e, m);
        tokenizer_encode(m->tokenizer, text, len, o->parse_special, &ids);
    }
    if (o->n_tokens && ids.n > o->n_tokens) {
        ids.n = o->n_tokens;
    }
    return ids;
}

static void perplexity_body(Env *e, Model *m, void *arg)
{
    const Options *o = arg;
    Ids ids = tokens_of(e, o, m);
    Perplexity p;
    Err err;
    model_load(e, m, true);
    if (!perplexity(m->stepper, ids.at, ids.n, o->chunk, &p, &err)) {
        fail_err(e, &err);
    }
    printf("perplexity %.10g\nmean NLL %.15g\ntokens %d, scored %d, chunks of %d: %d\n",
           p.perplexity, p.mean_nll, ids.n, p.n_scored, o->chunk, p.n_chunks);
}

static void logits_body(Env *e, Model *m, void *arg)
{
    const Options *o = arg;
    Ids ids = tokens_of(e, o, m);
    const float *logits;
    Err err;
    model_load(e, m, true);
    Stepper *s = m->stepper;
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

static error_t parse(int key, char *arg, struct argp_state *state)
{
    Options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &o->model; return 0;
    case KEY_TEXT: o->text_file = arg; return 0;
    case 'p': o->prompt = arg; return 0;
    case KEY_IDS: o->ids = arg; return 0;
    case 'o': o->out = arg; return 0;
    case KEY_CHUNK: o->chunk = (int)option_int(state, "chunk", arg, 2, INT32_MAX); return 0;
    case KEY_TOKENS:
        o->n_tokens = (int)option_int(state, "tokens", arg, 1, INT32_MAX);
        return 0;
    case KEY_SPECIAL: o->parse_special = true; return 0;
    case ARGP_KEY_END:
        if (!!o->text_file + !!o->prompt + !!o->ids != 1) {
            argp_error(
                state,
                "say what to score: one of --text FILE, --prompt TEXT and --ids N,N,...");
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&model_argp, 0, NULL, 0}, {0}};

#define TOKENS_OPTIONS                                                                        \
    {"text", KEY_TEXT, "FILE", 0, "a text file", 0}, {"prompt", 'p', "TEXT", 0, "a text", 0}, \
        {"ids", KEY_IDS, "N,N,...", 0, "token ids", 0},                                       \
        {"tokens", KEY_TOKENS, "N", 0, "only the first N tokens", 0},                         \
    {                                                                                         \
        "parse-special", KEY_SPECIAL, NULL, 0,                                                \
            "control tokens written in the text are control tokens", 0                        \
    }

typedef struct Score {
    Options o;
    void (*body)(Env *e, Model *m, void *arg);
} Score;

static void score_body(Env *e, void *arg)
{
    Score *s = arg;
    model_use(e, &s->o.model, s->body, &s->o);
}

static int score(const struct argp *argp, int argc, char **argv,
                 void (*body)(Env *e, Model *m, void *arg))
{
    Score s = {.o = {.chunk = 128, .out = "logits.npy"}, .body = body};
    argp_parse(argp, argc, argv, 0, NULL, &s.o);
    return cli_run(score_body, &s);
}

int cmd_perplexity(int argc, char **argv)
{
    static const struct argp_option options[] = {
        TOKENS_OPTIONS,
        {"chunk", KEY_CHUNK, "N", 0, "tokens scored together (default: 128)", 0},
        {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Perplexity of a text, in chunks that do not overlap, each from position 0.",
        .children = children,
    };
    return score(&argp, argc, argv, perplexity_body);
}

int cmd_logits(int argc, char **argv)
{
    static const struct argp_option options[] = {
        TOKENS_OPTIONS, {"out", 'o', "FILE.npy", 0, "where to (default: logits.npy)", 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Logits of every position, as a NumPy file.",
        .children = children,
    };
    return score(&argp, argc, argv, logits_body);
}
