/* tokens.c - `nanocompile tokenize` and `nanocompile detokenize`: text to ids and back,
 * singly or a line of JSON each, so that corpora can be checked in bulk. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/model.h"

#define MAX_INPUT_BYTES (1u << 30)

typedef struct Options {
    const char *tokenizer; /* file or folder; NULL: of the model that comes with the program */
    bool jsonl, parse_special, skip_special, back;
    int n_words;
    char **words;
} Options;

typedef struct Tokens {
    Env *e;
    const Options *o;
    Tokenizer *t;
    Buf out;
} Tokens;

static void flush_some(Tokens *k)
{
    if (k->out.len > 1 << 16) {
        cli_flush(&k->out);
    }
}

static void print_ids(Tokens *k, const Ids *ids, const char *open, const char *between,
                      const char *close)
{
    buf_str(&k->out, open);
    for (int i = 0; i < ids->n; i++) {
        buf_printf(&k->out, "%s%d", i ? between : "", ids->at[i]);
    }
    buf_str(&k->out, close);
}

/* ---- plain text ---------------------------------------------------------------------- */

static void tokenize_text(Tokens *k, const char *text, size_t len)
{
    Ids ids = {.arena = &k->e->model};
    tokenizer_encode(k->t, text, len, k->o->parse_special, &ids);
    print_ids(k, &ids, "", " ", "\n");
}

static void detokenize_text(Tokens *k, const char *text, size_t len)
{
    Ids ids = {.arena = &k->e->model};
    const char *end = text + len;
    while (text < end) {
        char *after;
        long id = strtol(text, &after, 10);
        if (after == text) {
            break;
        }
        if (id < 0 || id > INT32_MAX) {
            fail(k->e, E_INPUT, "Token %ld is out of range.", id);
        }
        *vec_push(ids.arena, &ids) = (int32_t)id;
        text = after + (*after == ',');
    }
    text += strspn(text, " \t\r\n");
    if (text < end) {
        fail(k->e, E_INPUT, "Token ids are numbers separated by blanks or commas, not '%.20s'.",
             text);
    }
    tokenizer_decode(k->t, ids.at, ids.n, k->o->skip_special, &k->out);
}

/* ---- a line of JSON each ------------------------------------------------------------- */

static void tokenize_json(Tokens *k, const json_t *value)
{
    Ids ids = {.arena = &k->e->kernel};
    if (!json_is_string(value)) {
        fail(k->e, E_INPUT, "this is not a JSON string.");
    }
    tokenizer_encode(k->t, json_string_value(value), json_string_length(value),
                     k->o->parse_special, &ids);
    print_ids(k, &ids, "[", ", ", "]\n");
}

static void detokenize_json(Tokens *k, const json_t *value)
{
    Ids ids = {.arena = &k->e->kernel};
    Buf text;
    buf_init(&text, &k->e->kernel);
    for (size_t i = 0; i < json_array_size(value); i++) {
        json_int_t id = json_integer_value(json_array_get(value, i));
        if (!json_is_integer(json_array_get(value, i)) || id < 0 || id > INT32_MAX) {
            fail(k->e, E_INPUT, "element %zu is no token id.", i);
        }
        *vec_push(ids.arena, &ids) = (int32_t)id;
    }
    if (!json_is_array(value)) {
        fail(k->e, E_INPUT, "this is not a JSON array of token ids.");
    }
    tokenizer_decode(k->t, ids.at, ids.n, k->o->skip_special, &text);
    buf_json(&k->out, text.at, text.len);
    buf_char(&k->out, '\n');
}

typedef struct Line {
    Tokens *k;
    const json_t *value;
} Line;

static void one_line(Env *e, void *arg)
{
    Line *l = arg;
    (void)e;
    (l->k->o->back ? detokenize_json : tokenize_json)(l->k, l->value);
}

/* The JSON value is let go of on every way out, and the lines before one that fails are
 * printed. */
static void each_line(Tokens *k, const char *text, size_t len)
{
    const char *end = text + len;
    for (int number = 1; text < end; number++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((stop ? stop : end) - text);
        json_error_t at;
        json_t *value = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &at);
        Line l = {k, value};
        bool ok = value && env_try(k->e, one_line, &l);
        json_decref(value);
        if (!ok) {
            cli_flush(&k->out);
            fail(k->e, E_INPUT, value ? "Line %d: %s" : "Line %d is not JSON: %s.", number,
                 value ? k->e->err.text : at.text);
        }
        env_reset_kernel(k->e);
        flush_some(k);
        text += n + 1;
    }
}

/* ---- the commands -------------------------------------------------------------------- */

static void with_text(Tokens *k, const char *text, size_t len)
{
    if (k->o->jsonl) {
        each_line(k, text, len);
    } else {
        (k->o->back ? detokenize_text : tokenize_text)(k, text, len);
    }
}

static void read_and_do(Env *e, void *arg)
{
    Tokens *k = arg;
    const Options *o = k->o;
    Buf joined;
    char *text;
    size_t len;
    k->t = tokenizer_load(e, model_dir(e, o->tokenizer),
                          0); /* no model: an id without token is nothing */
    env_reset_kernel(e);
    buf_init(&k->out, &e->model);
    buf_init(&joined, &e->model);
    for (int i = 0; i < o->n_words; i++) {
        buf_printf(&joined, "%s%s", i ? " " : "", o->words[i]);
    }
    if (o->n_words) {
        with_text(k, joined.at, joined.len);
    } else {
        read_stdin(e, MAX_INPUT_BYTES, &text, &len);
        with_text(k, text, len);
    }
    buf_str(&k->out, o->back && !o->jsonl && isatty(1) ? "\n" : "");
    cli_flush(&k->out);
}

static void close_tokenizer(void *arg)
{
    tokenizer_release(((Tokens *)arg)->t);
}

static void tokens_body(Env *e, void *arg)
{
    Tokens k = {.e = e, .o = arg};
    catch_interrupt();
    env_finally(e, read_and_do, close_tokenizer, &k);
}

enum { KEY_JSONL = 800, KEY_SPECIAL, KEY_SKIP };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    Options *o = state->input;
    switch (key) {
    case 't': o->tokenizer = arg; return 0;
    case KEY_JSONL: o->jsonl = true; return 0;
    case KEY_SPECIAL: o->parse_special = true; return 0;
    case KEY_SKIP: o->skip_special = true; return 0;
    case ARGP_KEY_ARGS:
        o->words = state->argv + state->next;
        o->n_words = state->argc - state->next;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

#define TOKENIZER_OPTION                                                           \
    {                                                                              \
        "tokenizer", 't', "FILE", 0,                                               \
            "a tokenizer.json, or a folder with one (default: the own model's)", 0 \
    }

int cmd_tokenize(int argc, char **argv)
{
    static const struct argp_option options[] = {
        TOKENIZER_OPTION,
        {"jsonl", KEY_JSONL, NULL, 0, "in: a JSON string a line; out: an array of ids a line",
         0},
        {"parse-special", KEY_SPECIAL, NULL, 0, "control tokens in the text are control tokens",
         0},
        {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "[TEXT...]",
        .doc = "Token ids of a text, or of standard input.",
    };
    Options o = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return cli_run(tokens_body, &o);
}

int cmd_detokenize(int argc, char **argv)
{
    static const struct argp_option options[] = {
        TOKENIZER_OPTION,
        {"jsonl", KEY_JSONL, NULL, 0, "in: an array of ids a line; out: a JSON string a line",
         0},
        {"skip-special", KEY_SKIP, NULL, 0, "control tokens are left out", 0},
        {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "[ID...]",
        .doc = "The text of token ids, or of those on standard input.",
    };
    Options o = {.back = true};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return cli_run(tokens_body, &o);
}
