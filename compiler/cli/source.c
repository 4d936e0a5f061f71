/* source.c - the model argument: a folder, a config.json or a .ncg file, and the options that say
 * what is built from it. Shared by every command that compiles. */
#include <string.h>

#include "cli/cli.h"

#define MAX_NCG_BYTES (64u << 20)

enum {
    KEY_LAYERS = 256,
    KEY_LOGITS,
    KEY_WITHOUT,
    KEY_WITH,
    KEY_CACHE,
    KEY_SPECIALISE,
    KEY_SEQ,
    KEY_PAST,
    KEY_SET,
    KEY_FORMAT,
    KEY_TIME
};

static const struct argp_option options[] = {
    {"layers", KEY_LAYERS, "N", 0, "build only the first N blocks of the model", 1},
    {"logits", KEY_LOGITS, "last|all", 0, "rows of logits (default: last)", 1},
    {"without", KEY_WITHOUT, "STAGE,...", 0,
     "leave stages out: cse, fold, fuse. Without fuse, cse and fold are left out too", 1},
    {"with", KEY_WITH, "STAGE,...", 0, "keep cse or fold although fuse is left out", 1},
    {"cache", KEY_CACHE, NULL, 0,
     "append to the KV cache in place: inputs cache_*, of a capacity", 1},
    {"specialise", KEY_SPECIALISE, "NAME=N", 0,
     "compile for one value of a symbol, as seq=1; may be repeated", 1},
    {"seq", KEY_SEQ, "N", 0, "value of the symbol seq (default: 1)", 2},
    {"past", KEY_PAST, "N", 0, "value of the symbol past (default: 0)", 2},
    {"set", KEY_SET, "NAME=N", 0, "value of any symbol (default: 2; capacity: 128)", 2},
    {"format", KEY_FORMAT, "text|md|csv|json|tex", 0, "of listings (default: text)", 3},
    {"time", KEY_TIME, NULL, 0, "print time per stage to stderr", 3},
    {0},
};

static const char *const stage_names[N_STAGES] = {
#define X(id, name, meaning) name,
    STAGES(X)
#undef X
};

static int64_t size_value(struct argp_state *state, const char *name, const char *text)
{
    return option_int(state, name, text, 0, INT32_MAX);
}

static void set_symbol(struct argp_state *state, Settings *s, const char *name, int64_t value)
{
    if (s->n == (int)countof(s->at)) {
        argp_error(state, "at most %zu symbols can be set", countof(s->at));
        return;
    }
    s->at[s->n++] = (Setting){name, value};
}

static void set_named(struct argp_state *state, Settings *s, const char *option, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals) {
        argp_error(state, "--%s takes NAME=N, not '%s'", option, text);
        return;
    }
    *equals = '\0';
    set_symbol(state, s, text, size_value(state, option, equals + 1));
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const char *const rows[] = {"all", "last"};
    Source *s = state->input;
    switch (key) {
    case KEY_LAYERS:
        s->n_layers = (int)option_int(state, "layers", arg, 1, INT32_MAX);
        return 0;
    case KEY_LOGITS: s->last_only = option_choice(state, "logits", arg, 2, rows); return 0;
    case KEY_WITHOUT:
        s->without |= option_words(state, "without", "stage", arg, N_STAGES, stage_names);
        return 0;
    case KEY_WITH:
        s->with |= option_words(state, "with", "stage", arg, N_STAGES, stage_names);
        return 0;
    case KEY_CACHE: s->cache = true; return 0;
    case KEY_SPECIALISE: set_named(state, &s->known, "specialise", arg); return 0;
    case KEY_SEQ: set_symbol(state, &s->sizes, "seq", size_value(state, "seq", arg)); return 0;
    case KEY_PAST:
        set_symbol(state, &s->sizes, "past", size_value(state, "past", arg));
        return 0;
    case KEY_SET: set_named(state, &s->sizes, "set", arg); return 0;
    case KEY_FORMAT: s->format = option_format(state, arg); return 0;
    case KEY_TIME: s->time = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp source_argp = {.options = options, .parser = parse};

Source source_default(void)
{
    return (Source){.n_layers = -1, .last_only = true};
}

unsigned source_without(const Source *s)
{
    unsigned serving = s->without & (1u << STAGE_FUSE) ? 1u << STAGE_CSE | 1u << STAGE_FOLD : 0;
    return (s->without | serving) & ~s->with;
}

bool source_is_text(const Source *s)
{
    struct stat st;
    bool folder = !os.stat(s->path, &st) && S_ISDIR(st.st_mode);
    return !folder && !text_ends_with(s->path, ".json");
}

Graph *source_graph(Env *e, const Source *s)
{
    if (source_is_text(s)) {
        char *text;
        size_t len;
        Err err;
        if (s->n_layers >= 0) {
            fail(e, E_INPUT,
                 "%s: --layers is for models; a graph in text form is built as it stands.",
                 s->path);
        }
        if (!os_read_file(&e->model, s->path, MAX_NCG_BYTES, &text, &len, &err)) {
            fail_err(e, &err);
        }
        return ncg_parse(e, text, len, s->path);
    }
    Config c = config_read(e, s->path);
    if (s->n_layers > c.n_layers) {
        fail(e, E_INPUT, "%s: --layers %d asks for more blocks than the model's %lld.", s->path,
             s->n_layers, (long long)c.n_layers);
    }
    Graph *g = qwen2_build(e, &c, s->n_layers, s->last_only);
    graph_mark_from(e, g, s->path);
    return g;
}

static void print_times(const Compile *c)
{
    uint64_t total_ns = 0;
    for (int i = 0; i < c->times.n; i++) {
        const StageTime *t = &c->times.at[i];
        fprintf(stderr, "%-16s %8.3f ms\n", t->name, (double)t->ns / 1e6);
        total_ns += t->ns;
    }
    fprintf(stderr, "%-16s %8.3f ms\n", "in all", (double)total_ns / 1e6);
}

static Sym setting_symbol(Env *e, const Setting *s)
{
    return sym_intern(e, s->name, strlen(s->name));
}

const Graph *source_meaning(Env *e, const Source *s, const Graph *g)
{
    const Graph *now = s->cache ? graph_cache(g) : g;
    if (s->cache && now == g) {
        fail(e, E_INPUT,
             "%s: --cache: no past_* input of the graph is joined to fresh values, layer by "
             "layer.",
             s->path);
    }
    for (int i = 0; i < s->known.n; i++) {
        now = graph_specialise(now, setting_symbol(e, &s->known.at[i]), s->known.at[i].value);
    }
    return now;
}

Program *source_compile(Env *e, const Source *s, const Graph *g, Compile *c)
{
    *c = (Compile){
        .env = e, .without = source_without(s), .cache = s->cache, .now_ns = os_now_ns};
    for (int i = 0; i < s->known.n; i++) {
        Sym sym = setting_symbol(e, &s->known.at[i]);
        c->known.bound[sym] = true;
        c->known.value[sym] = s->known.at[i].value;
    }
    Program *p = compile_model(c, g);
    if (s->time) {
        print_times(c);
    }
    return p;
}

static int64_t default_size(const char *symbol)
{
    static const Setting sizes[] = {{"seq", 1}, {"past", 0}, {"capacity", 128}};
    for (size_t i = 0; i < countof(sizes); i++) {
        if (!strcmp(symbol, sizes[i].name)) {
            return sizes[i].value;
        }
    }
    return 2;
}

void source_sizes(Env *e, const Source *s, const Graph *g, Sizes *z)
{
    *z = (Sizes){0};
    for (int i = 0; i < g->symbols.n; i++) {
        Sym sym = g->symbols.at[i];
        z->bound[sym] = true;
        z->value[sym] = default_size(e->symbol[sym]);
    }
    for (int i = 0; i < s->sizes.n; i++) {
        Sym sym = setting_symbol(e, &s->sizes.at[i]);
        if (!z->bound[sym]) {
            fail(e, E_INPUT, "%s: the graph has no symbol '%s' to set.", s->path,
                 s->sizes.at[i].name);
        }
        z->value[sym] = s->sizes.at[i].value;
    }
    Err err;
    if (!graph_check_sizes(g, z, &err)) {
        fail(e, err.code, "%s: %s", s->path, err.text);
    }
}

bool kernel_named(const Program *p, int i, const char *name)
{
    const Kernel *k = p->kernel.at[i];
    char hex[33], number[16];
    if (!name) {
        return true;
    }
    hash_hex(k->hash, hex);
    snprintf(number, sizeof number, "%d", i);
    bool hash = strlen(name) >= 6 && !strncmp(hex, name, strlen(name));
    return !strcmp(name, number) || !strcmp(name, k->kind) || !strcmp(name, k->symbol) || hash;
}
