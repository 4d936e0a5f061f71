/* chat.c - `nanocompile chat`: a conversation on the terminal. History is kept, and the cache with it: each
 * turn feeds only what is new. Sampling is the folder's generation_config.json, and it says so. */
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
    Sampler sampler;
    Stops stops;
    Ids pending; /* not fed yet */
} Talk;

static void begin(Talk *t)
{
    Message system = {"system", t->o->system, t->o->system ? strlen(t->o->system) : 0};
    Stepper *s = engine_stepper(t->m->engine);
    s->restart(s);
    sampler_reset(&t->sampler, t->o->sampling.seed);
    t->pending.n = 0;
    chat_begin(t->e, &t->chat, t->o->system ? &system : NULL, t->o->parse_special, &t->pending);
}

static void answer(Talk *t, const char *text, size_t len)
{
    Message user = {"user", text, len};
    Reply r;
    chat_turn(t->e, &t->chat, &user, t->o->parse_special, &t->pending);
    chat_reply(&t->chat, &t->pending);
    sampler_see(&t->sampler, t->pending.at, t->pending.n);
    speak(t->e, t->m, &t->sampler, &t->stops, t->o->sampling.max_tokens, &t->pending, NULL, &r);
    reply_report(&r);
    if (r.made.end == END_CONTEXT) {
        fprintf(stderr, "The context of %lld positions is full; /reset starts again.\n", (long long)t->m->config.max_positions);
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
        fprintf(stderr, "A new conversation.\n");
    } else if (!strcmp(line, "/help")) {
        fprintf(stderr, "/reset starts again, /exit or Ctrl-D ends, Ctrl-C stops a reply.\n");
    } else {
        return false;
    }
    return true;
}

static void converse(Talk *t)
{
    char *line = NULL;
    size_t cap = 0;
    bool terminal = isatty(0);
    for (;;) {
        if (terminal) {
            fputs("> ", stderr);
        }
        interrupted = 0;
        ssize_t len = getline(&line, &cap, stdin);
        if (len < 0) {
            break;
        }
        while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r')) {
            line[--len] = '\0';
        }
        if (!strcmp(line, "/exit")) {
            break;
        }
        if (len > 0 && !command(t, line)) {
            catch_interrupt();
            answer(t, arena_strn(&t->e->model, line, (size_t)len), (size_t)len);
        }
    }
    free(line);
}

static void chat_body(Env *e, Model *m, void *arg)
{
    const Options *o = arg;
    Talk t = {.e = e, .m = m, .o = o, .pending = {.arena = &e->model}};
    Err why;
    Buf says;
    if (!chat_open(e, m->dir, m->tokenizer, &t.chat, &why)) {
        fail_err(e, &why);
    }
    Generation generation = generation_read(e, m->dir);
    Sampling sampling = sampling_apply(e, &o->sampling, generation.sampling);
    buf_init(&says, &e->model);
    sampling_print(&sampling, &says);
    sampler_init(&t.sampler, e, &sampling, (int)m->config.vocab_size, o->sampling.seed);
    t.stops = stops_read(e, m->dir, &m->config, &generation, m->tokenizer);
    fprintf(stderr, "[%s template; %s, %s; seed %llu; /help for help]\n", t.chat.template_name, says.at,
            generation.found ? "from generation_config.json and the command line" : "no generation_config.json",
            (unsigned long long)o->sampling.seed);
    begin(&t);
    converse(&t);
}

enum { KEY_SPECIAL = 800, KEY_SYSTEM };

static const struct argp_option options[] = {
    {"system", KEY_SYSTEM, "TEXT", 0, "system prompt instead of the folder's own", 0},
    {"parse-special", KEY_SPECIAL, NULL, 0, "control tokens in what you type are control tokens", 0},
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
    default: return ARGP_ERR_UNKNOWN;
    }
}

int cmd_chat(int argc, char **argv)
{
    static const struct argp_child children[] = {{&model_argp, 0, NULL, 0}, {&sampling_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {options, parse, NULL, "A conversation on the terminal.", children, NULL, NULL};
    Options o = {.sampling = sampling_options()};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    catch_interrupt();
    return with_model(&o.model, chat_body, &o);
}
