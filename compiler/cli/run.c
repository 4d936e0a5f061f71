/* run.c - `nanocompile run`: one prompt, one reply. Greedy without penalty unless asked otherwise. */
#include <string.h>

#include "cli/model.h"

#define MAX_PROMPT_BYTES (16u << 20)

typedef struct Options {
    ModelOptions model;
    SamplingOptions sampling;
    const char *prompt;  /* "-": standard input */
    const char *system;  /* NULL: the folder's default */
    bool raw, parse_special;
} Options;

static void read_prompt(Env *e, const Options *o, const char **text, size_t *len)
{
    char *from_stdin;
    Err err;
    *text = o->prompt;
    *len = strlen(o->prompt);
    if (!strcmp(o->prompt, "-")) {
        if (!os_read_file(&e->model, "/dev/stdin", MAX_PROMPT_BYTES, &from_stdin, len, &err)) {
            fail_err(e, &err);
        }
        *text = from_stdin;
    }
}

/* Through the folder's chat template where it has one, else as it stands. */
static void encode_prompt(Env *e, const Options *o, Model *m, Ids *ids)
{
    Chat chat;
    Err why;
    const char *text;
    size_t len;
    read_prompt(e, o, &text, &len);
    if (!o->raw && chat_open(e, m->dir, m->tokenizer, &chat, &why)) {
        Message message[] = {{"system", o->system, o->system ? strlen(o->system) : 0}, {"user", text, len}};
        bool own = o->system != NULL;
        chat_encode(e, &chat, message + !own, 1 + own, true, o->parse_special, ids);
        return;
    }
    if (o->system) {
        fail(e, E_INPUT, "%s: there is no chat template for a system prompt to go into.", m->dir);
    }
    tokenizer_encode(m->tokenizer, text, len, o->parse_special, ids);
    if (m->config.bos >= 0 && !ids->n) {
        *vec_push(ids->arena, ids) = (int32_t)m->config.bos;
    }
}

static void run_body(Env *e, Model *m, void *arg)
{
    const Options *o = arg;
    Ids ids = {.arena = &e->model};
    Sampler sampler;
    Reply r;
    Sampling sampling = sampling_apply(e, &o->sampling, sampling_greedy());
    Generation generation = generation_read(e, m->dir);
    Stops stops = stops_read(e, m->dir, &m->config, &generation, m->tokenizer);
    Buf says;
    buf_init(&says, &e->model);
    sampling_print(&sampling, &says);
    sampler_init(&sampler, e, &sampling, (int)m->config.vocab_size, o->sampling.seed);
    encode_prompt(e, o, m, &ids);
    sampler_see(&sampler, ids.at, ids.n);
    fprintf(stderr, "[%s, seed %llu]\n", says.at, (unsigned long long)o->sampling.seed);
    speak(e, m, &sampler, &stops, o->sampling.max_tokens, &ids, NULL, &r);
    reply_report(&r);
    if (r.made.end == END_INTERRUPTED) {
        fail(e, E_INTERRUPT, "Stopped.");
    }
}

enum { KEY_RAW = 800, KEY_SPECIAL, KEY_SYSTEM };

static const struct argp_option options[] = {
    {"prompt", 'p', "TEXT", 0, "what to continue or answer; - reads standard input", 0},
    {"system", KEY_SYSTEM, "TEXT", 0, "system prompt instead of the folder's own", 0},
    {"raw", KEY_RAW, NULL, 0, "no chat template: the model continues the text", 0},
    {"parse-special", KEY_SPECIAL, NULL, 0, "control tokens written in the prompt are control tokens", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    Options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->model;
        state->child_inputs[1] = &o->sampling;
        return 0;
    case 'p': o->prompt = arg; return 0;
    case KEY_RAW: o->raw = true; return 0;
    case KEY_SPECIAL: o->parse_special = true; return 0;
    case KEY_SYSTEM: o->system = arg; return 0;
    case ARGP_KEY_ARG:
        o->prompt = arg;
        return state->arg_num > 0 ? ARGP_ERR_UNKNOWN : 0;
    case ARGP_KEY_END:
        if (!o->prompt) {
            argp_error(state, "say what to continue: --prompt TEXT");
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int cmd_run(int argc, char **argv)
{
    static const struct argp_child children[] = {{&model_argp, 0, NULL, 0}, {&sampling_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {options, parse, "[PROMPT]", "Continues or answers a prompt.", children, NULL, NULL};
    Options o = {.sampling = sampling_options()};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    catch_interrupt();
    return with_model(&o.model, run_body, &o);
}
