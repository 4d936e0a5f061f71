/* chat.c - `nanocompile chat`: a conversation on the terminal. History is kept, and the
 * cache with it: each turn feeds only what is new. Sampling is the folder's
 * generation_config.json, and it says so. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/model.h"

typedef struct Options {
    ModelOptions model;
    SamplingOptions sampling;
    const char *system; /* NULL: the folder's default */
    bool parse_special;
} Options;

typedef struct Talk {
    Env *e;
    Model *m;
    const Options *o;
    Chat chat;
    Speaker speaker;
    Ids pending; /* not fed yet */
    char *line;  /* getline's */
    size_t cap;
} Talk;

static void begin(Talk *t)
{
    Message system = {"system", t->o->system, t->o->system ? strlen(t->o->system) : 0};
    Stepper *s = t->m->stepper;
    s->restart(s);
    sampler_reset(&t->speaker.sampler, t->speaker.seed);
    t->pending.n = 0;
    chat_begin(t->e, &t->chat, t->o->system ? &system : NULL, t->o->parse_special, &t->pending);
}

/* A message of which nothing could be fed is taken back. */
static void answer(Talk *t, const char *text, size_t len)
{
    Message user = {"user", text, len};
    Reply r;
    int before = t->pending.n;
    chat_turn(t->e, &t->chat, &user, t->o->parse_special, &t->pending);
    chat_reply(&t->chat, &t->pending);
    speaker_reply(t->e, &t->speaker, &t->pending, &r);
    reply_report(&r);
    if (r.made.end == END_CONTEXT) {
        fprintf(stderr, "[the context of %lld positions is full; /reset starts again]\n",
                (long long)t->m->stepper->max_positions);
    }
    if (r.made.last < 0) {
        fprintf(stderr, "[your message was taken back]\n");
        t->pending.n = before;
        return;
    }
    t->pending.n = 0; /* the newest token has not been fed */
    *vec_push(t->pending.arena, &t->pending) = r.made.last;
    chat_reply_end(&t->chat, r.made.last, &t->pending);
}

static bool command(Talk *t, const char *line)
{
    if (!strcmp(line, "/reset")) {
        begin(t);
        fprintf(stderr, "[a new conversation]\n");
    } else if (!strcmp(line, "/help")) {
        fprintf(stderr, "[/reset starts again, /exit or Ctrl-D ends, Ctrl-C stops a reply]\n");
    } else {
        return false;
    }
    return true;
}

/* Length of the next line without its end; -1: there is none. */
static ssize_t next_line(Talk *t)
{
    if (isatty(0)) {
        fputs("> ", stderr);
    }
    ssize_t len = getline(&t->line, &t->cap, stdin);
    while (len > 0 && strchr("\r\n", t->line[len - 1]) && t->line[len - 1]) {
        t->line[--len] = '\0';
    }
    return len > 0 && !strcmp(t->line, "/exit") ? -1 : len;
}

/* Ctrl-C during a reply ends the reply, on a terminal; elsewhere it ends the program. */
static void converse(Env *e, void *arg)
{
    Talk *t = arg;
    for (ssize_t len; !interrupted && (len = next_line(t)) >= 0;) {
        if (len > 0 && !command(t, t->line)) {
            answer(t, t->line, (size_t)len);
        }
        if (interrupted && isatty(0)) {
            catch_interrupt();
        }
        env_reset_kernel(e);
    }
    if (interrupted) {
        fail(e, E_INTERRUPT, "Stopped.");
    }
}

static void free_line(void *arg)
{
    free(((Talk *)arg)->line);
}

static void chat_model(Env *e, Model *m, void *arg)
{
    const Options *o = arg;
    Talk t = {.e = e, .m = m, .o = o, .pending = {.arena = &e->model}};
    Err why;
    model_tokenizer(e, m);
    if (!chat_open(e, m->dir, m->tokenizer, &t.chat, &why)) {
        fail_err(e, &why);
    }
    speaker_init(e, &t.speaker, m, &o->sampling, true);
    model_load(e, m, false);
    model_say_storage(m);
    fprintf(stderr, "[%s template, system prompt: %s]\n[%s; seed %llu; /help for help]\n",
            t.chat.template_name, o->system ? o->system : t.chat.default_system, t.speaker.says,
            (unsigned long long)t.speaker.seed);
    begin(&t);
    env_finally(e, converse, free_line, &t);
}

static void chat_body(Env *e, void *arg)
{
    const Options *o = arg;
    model_use(e, &o->model, chat_model, arg);
}

enum { KEY_SPECIAL = 800, KEY_SYSTEM };

static const struct argp_option options[] = {
    {"system", KEY_SYSTEM, "TEXT", 0, "system prompt instead of the folder's own", 0},
    {"parse-special", KEY_SPECIAL, NULL, 0,
     "control tokens in what you type are control tokens", 0},
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
    case KEY_SPECIAL: o->parse_special = true; return 0;
    case KEY_SYSTEM: o->system = arg; return 0;
    case ARGP_KEY_END:
        if (!o->model.dir) {
            argp_error(
                state,
                "say which model: --model DIR; the small one that comes with the program "
                "cannot chat");
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "A conversation on the terminal, or with a message on each line of standard input. Samples "
    "as the "
    "folder's generation_config.json says.\v"
    "Needs a Qwen2 or Qwen2.5 chat model as Hugging Face serves it: a folder with config.json, "
    "generation_config.json, model.safetensors (or shards and their index), tokenizer.json and "
    "tokenizer_config.json. The first run builds the model's library, which takes some "
    "seconds; later "
    "ones find it in the cache.\n\n"
    "  nanocompile chat --model Qwen2.5-0.5B-Instruct\n\n"
    "Within it /reset starts again, /exit or Ctrl-D ends, Ctrl-C stops a reply.";

int cmd_chat(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&model_argp, 0, NULL, 0}, {&sampling_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = doc,
        .children = children,
    };
    Options o = {.sampling = sampling_options()};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return cli_run(chat_body, &o);
}
