/* model_util.c - see model_util.h. */
#include "tests/model_util.h"

#include <string.h>

typedef struct Field {
    const char *name, *value;
} Field;

static const Field tiny[] = {
    {"architectures", "[\"Qwen2ForCausalLM\"]"},
    {"model_type", "\"qwen2\""},
    {"hidden_act", "\"silu\""},
    {"vocab_size", "64"},
    {"hidden_size", "16"},
    {"intermediate_size", "32"},
    {"num_hidden_layers", "2"},
    {"num_attention_heads", "4"},
    {"num_key_value_heads", "2"},
    {"max_position_embeddings", "128"},
    {"rms_norm_eps", "1e-06"},
    {"rope_theta", "10000.0"},
    {"tie_word_embeddings", "true"},
    {"bos_token_id", "1"},
    {"eos_token_id", "2"},
};

static void set(Field *list, int *n, const char *name, const char *value)
{
    int i = 0;
    while (i < *n && strcmp(list[i].name, name) != 0) {
        i++;
    }
    list[i] = (Field){name, value};
    *n += i == *n;
}

const char *config_text(const char *field, ...)
{
    enum { MOST = 40, ROOM = 1 << 16 };
    static char text[ROOM];
    Field list[MOST];
    int n = countof(tiny), len = 0;
    memcpy(list, tiny, sizeof tiny);
    va_list ap;
    va_start(ap, field);
    for (const char *f = field; f; f = va_arg(ap, const char *)) {
        set(list, &n, f, va_arg(ap, const char *));
    }
    va_end(ap);
    for (int i = 0; i < n; i++) {
        if (list[i].value) {
            len += snprintf(text + len, sizeof text - (size_t)len, "%s\"%s\": %s",
                            len ? ",\n" : "{", list[i].name, list[i].value);
        }
    }
    snprintf(text + len, sizeof text - (size_t)len, "}");
    return text;
}

static void parse(Env *e, void *text)
{
    config_parse(e, text, strlen(text), "config.json");
}

void config_refused(const char *text, const char *words)
{
    Env e;
    env_init(&e);
    must_fail(&e, parse, (void *)text, E_SYNTAX, words);
    cr_assert(strstr(e.err.text, "config.json"), "no file in \"%s\"", e.err.text);
    cr_assert_not(strchr(e.err.text, '\n'), "more than a line: \"%s\"", e.err.text);
    env_release(&e);
}

typedef struct Parsed {
    const char *text;
    Config c;
} Parsed;

static void parse_into(Env *e, void *arg)
{
    Parsed *p = arg;
    p->c = config_parse(e, p->text, strlen(p->text), "config.json");
}

Config config_of(Env *e, const char *text)
{
    Parsed p = {.text = text};
    must_work(e, parse_into, &p);
    return p.c;
}

void write_tensors(const char *path, const char *header, const void *data, size_t n_bytes)
{
    FILE *f = fopen(path, "wb");
    cr_assert(f, "cannot make %s", path);
    uint64_t n = strlen(header);
    cr_assert_eq(fwrite(&n, 8, 1, f), 1);
    cr_assert_eq(fwrite(header, 1, n, f), n);
    cr_assert(n_bytes == 0 || fwrite(data, 1, n_bytes, f) == n_bytes);
    cr_assert_eq(fclose(f), 0);
}

static void open_and_release(Env *e, void *path)
{
    Checkpoint c;
    checkpoint_open(e, &c, path);
    checkpoint_release(&c);
}

void open_refused(const char *path, ErrCode code, const char *words)
{
    Env e;
    env_init(&e);
    int before = open_descriptors();
    must_fail(&e, open_and_release, (void *)path, code, words);
    cr_assert_not(strchr(e.err.text, '\n'), "more than a line: \"%s\"", e.err.text);
    cr_assert_eq(open_descriptors(), before, "a descriptor is left open");
    env_release(&e);
}
