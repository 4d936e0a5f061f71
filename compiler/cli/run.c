/* run.c - `nanocompile run`: one prompt, one reply. Greedy without penalty unless asked
 * otherwise. */
#include <string.h>

#include "cli/model.h"

#define MAX_PROMPT_BYTES (16u << 20)

typedef struct Options {
    ModelOptions model;
    SamplingOptions sampling;
    const char *prompt; /* "-": standard input */
    const char *system; /* NULL: the folder's default */
    bool raw, parse_special;
} Options;

typedef struct Run {
    const Options *o;
    char *text; /* the prompt */
    size_t len;
} Run;

static void encode_plain(Env *e, const Run *run, Model *m, Ids *ids)
{
    if (run->o->system) {
        fail(e, E_INPUT, "%s: --system needs a chat template to go into.", m->dir);
    }
    tokenizer_encode(m->tokenizer, run->text, run->len, run->o->parse_special, ids);
    if (!ids->n) {
        fail(e, E_INPUT, "The prompt is empty: there is nothing to continue.");
    }
}

/* Through the folder's chat template where it has one that we know, else as it stands.
 * Returns what to say about that. */
static const char *encode_prompt(Env *e, const Run *run, Model *m, Ids *ids)
{
    const Options *o = run->o;
    Chat chat;
    Err why;
    if (o->raw) {
        encode_plain(e, run, m, ids);
        return "";
    }
    if (!chat_open(e, m->dir, m->tokenizer, &chat, &why)) {
        encode_plain(e, run, m, ids);
        return arena_printf(&e->model, "[plain text: %s]\n", why.text);
    }
    Message message[] = {{"system", o->system, o->system ? strlen(o->system) : 0},
                         {"user", run->text, run->len}};
    bool own = o->system != NULL;
    chat_encode(e, &chat, message + !own, 1 + own, true, o->parse_special, ids);
    return arena_printf(&e->model, "[%s template, system prompt: %s]\n", chat.template_name,
                        own ? o->system : chat.default_system);
}

static void run_model(Env *e, Model *m, void *arg)
{
    const Run *run = arg;
    Ids ids = {.arena = &e->model};
    Speaker speaker;
    Reply r;
    model_tokenizer(e, m);
    speaker_init(e, &speaker, m, &run->o->sampling, false);
    const char *says = encode_prompt(e, run, m, &ids);
    int64_t positions = m->config.max_positions;
    if (positions && ids.n > positions) {
        fail(e, E_INPUT, "The prompt has %d tokens, more than the model's %lld positions.",
             ids.n, (long long)positions);
    }
    model_load(e, m, false);
    model_say_storage(m);
    fprintf(stderr, "%s[%s; seed %llu]\n", says, speaker.says,
            (unsigned long long)speaker.seed);
    speaker_reply(e, &speaker, &ids, &r);
    reply_report(&r);
    if (r.made.end == END_INTERRUPTED) {
        fail(e, E_INTERRUPT, "Stopped.");
    }
}

static void run_body(Env *e, void *arg)
{
    const Options *o = arg;
    Run run = {.o = o, .text = (char *)o->prompt, .len = strlen(o->prompt)};
    catch_interrupt();
    if (!strcmp(o->prompt, "-")) {
        read_stdin(e, MAX_PROMPT_BYTES, &run.text, &run.len);
    }
    model_use(e, &o->model, run_model, &run);
}

enum { KEY_RAW = 800, KEY_SPECIAL, KEY_SYSTEM };

static const struct argp_option options[] = {
    {"prompt", 'p', "TEXT", 0, "what to continue or answer; - reads standard input", 0},
    {"system", KEY_SYSTEM, "TEXT", 0, "system prompt instead of the folder's own", 0},
    {"raw", KEY_RAW, NULL, 0, "no chat template: the model continues the text", 0},
    {"parse-special", KEY_SPECIAL, NULL, 0,
     "control tokens written in the prompt are control tokens", 0},
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
    case ARGP_KEY_ARG: o->prompt = arg; return state->arg_num > 0 ? ARGP_ERR_UNKNOWN : 0;
    case ARGP_KEY_END:
        if (!o->prompt) {
            argp_error(state, "say what to continue: --prompt TEXT");
        } else if (o->raw && o->system) {
            argp_error(state, "--system needs the chat template that --raw leaves out");
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "Answers a prompt, or continues it where the model has no chat template. Greedy unless "
    "asked "
    "otherwise.\v"
    "A model folder is what Hugging Face serves: config.json, model.safetensors (or shards and "
    "their "
    "index), tokenizer.json and, for chat, tokenizer_config.json. The first run builds the "
    "model's "
    "library, which takes some seconds; later ones find it in the cache.\n\n"
    "  nanocompile run --model Qwen2.5-0.5B-Instruct --prompt \"What is 2+2?\"\n"
    "  nanocompile run --raw --prompt \"Once upon a time\" --temperature 0.8 --seed 7";

int cmd_run(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&model_argp, 0, NULL, 0}, {&sampling_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "[PROMPT]",
        .doc = doc,
        .children = children,
    };
    Options o = {.sampling = sampling_options()};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return cli_run(run_body, &o);
}
