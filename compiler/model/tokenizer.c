/* tokenizer.c - tokenizer.json: what it says, and what of it we refuse.
 *
 * Each setting is either honoured or refused by name; a tokenizer that is nearly right ruins
 * text without a word. The long lists are scanned apart (lists.c); the rest is small and comes
 * as a JSON tree. The pattern is compiled last: until then a failure has nothing to give back.
 * spec: tokenizer 1 */
#include "model/model_int.h"
#include "model/text_int.h"

#include <stdlib.h>
#include <string.h>

typedef struct Loading {
    Tokenizer *t;
    Lists lists;
    const char *pattern;
} Loading;

static _Noreturn void unsupported(Env *e, const char *file, const char *what,
                                  const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    Err err;
    err_set(&err, E_SYNTAX, "%s: %s%s%.60s is not supported.", file, what, text ? " " : "",
            text ? text : "");
    free(text);
    fail_err(e, &err);
}

static bool is_string(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* null, false, 0, "" and an absent key all mean that a setting is off. */
static bool is_off(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) || is_string(value, "") ||
           (json_is_number(value) && json_number_value(value) == 0);
}

/* Settings that must be off, by the object they stand in. */
/* clang-format off */
static const char *const top_off[] = {"truncation", "padding", NULL};
static const char *const model_off[] = {
    "dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback",
    "ignore_merges", NULL,
};
static const char *const byte_level_off[] = {"add_prefix_space", "use_regex", NULL};
static const char *const split_off[] = {"invert", NULL};
static const char *const added_off[] = {"single_word", "lstrip", "rstrip", "normalized", NULL};
/* clang-format on */

static void check_off(Env *e, const char *file, const char *where, const json_t *object,
                      const char *const *key)
{
    for (; *key; key++) {
        const json_t *value = json_object_get(object, *key);
        if (!is_off(value)) {
            unsupported(e, file, arena_printf(&e->kernel, "%s%s", where, *key), value);
        }
    }
}

/* ---- stages ------------------------------------------------------------------ */

static void read_normalizer(Env *e, const char *file, const json_t *root, Tokenizer *t)
{
    const json_t *value = json_object_get(root, "normalizer");
    if (json_is_null(value) || !value) {
        return;
    }
    const json_t *type = json_object_get(value, "type");
    if (!is_string(type, "NFC")) {
        unsupported(e, file, "the normalizer", type ? type : value);
    }
    t->normalizes = true;
}

static void read_split(Env *e, const char *file, const json_t *stage, Loading *l)
{
    const json_t *pattern = json_object_get(json_object_get(stage, "pattern"), "Regex");
    const json_t *behavior = json_object_get(stage, "behavior");
    if (l->pattern) {
        unsupported(e, file, "a second Split stage of the pre_tokenizer", NULL);
    }
    if (!is_string(behavior, "Isolated")) {
        unsupported(e, file, "pre_tokenizer Split behavior", behavior);
    }
    check_off(e, file, "pre_tokenizer Split ", stage, split_off);
    if (!json_is_string(pattern)) {
        fail(e, E_SYNTAX, "%s: the Split stage of the pre_tokenizer has no pattern.Regex.",
             file);
    }
    if (strlen(json_string_value(pattern)) != json_string_length(pattern)) {
        fail(e, E_SYNTAX, "%s: the split pattern contains a NUL character.", file);
    }
    l->pattern = arena_str(&e->kernel, json_string_value(pattern));
}

static void read_stage(Env *e, const char *file, const json_t *stage, Loading *l,
                       bool *byte_level)
{
    const json_t *type = json_object_get(stage, "type");
    if (is_string(type, "Split") && !*byte_level) {
        read_split(e, file, stage, l);
    } else if (is_string(type, "ByteLevel") && !*byte_level) {
        check_off(e, file, "pre_tokenizer ByteLevel ", stage, byte_level_off);
        if (!json_object_get(stage, "use_regex")) { /* absent means true */
            unsupported(e, file, "pre_tokenizer ByteLevel without use_regex false", NULL);
        }
        *byte_level = true;
    } else {
        unsupported(e, file, "the pre_tokenizer stage", type ? type : stage);
    }
}

static void read_pre_tokenizer(Env *e, const char *file, const json_t *root, Loading *l)
{
    const json_t *value = json_object_get(root, "pre_tokenizer");
    const json_t *stages = json_object_get(value, "pretokenizers");
    bool byte_level = false;
    if (is_string(json_object_get(value, "type"), "Sequence") && json_is_array(stages)) {
        for (size_t i = 0; i < json_array_size(stages); i++) {
            read_stage(e, file, json_array_get(stages, i), l, &byte_level);
        }
    } else if (!is_off(value)) {
        read_stage(e, file, value, l, &byte_level);
    }
    if (!l->pattern) {
        fail(e, E_SYNTAX, "%s: the pre_tokenizer has no Split stage, which is required.", file);
    }
    if (!byte_level) {
        fail(e, E_SYNTAX, "%s: the pre_tokenizer has no ByteLevel stage, which is required.",
             file);
    }
}

/* Post-processor and decoder: only the one that goes with byte-level BPE and adds nothing. */
static void check_byte_level(Env *e, const char *file, const json_t *root, const char *key,
                             bool required)
{
    const json_t *value = json_object_get(root, key);
    if (is_off(value) && !required) {
        return;
    }
    const json_t *type = json_object_get(value, "type");
    if (!is_string(type, "ByteLevel")) {
        unsupported(e, file, arena_printf(&e->kernel, "the %s", key), type ? type : value);
    }
}

/* ---- model and added tokens -------------------------------------------------- */

static void check_model(Env *e, const char *file, const json_t *root, const Lists *lists)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *type = json_object_get(model, "type");
    if (!json_is_object(model)) {
        fail(e, E_SYNTAX, "%s: there is no model.", file);
    }
    if (!is_string(type, "BPE")) {
        unsupported(e, file, "model.type", type ? type : json_null());
    }
    check_off(e, file, "model.", model, model_off);
    if (!lists->has_vocab || !lists->has_merges) {
        fail(e, E_SYNTAX, "%s: model.%s is missing, or not %s.", file,
             lists->has_vocab ? "merges" : "vocab", lists->has_vocab ? "a list" : "an object");
    }
}

static AddedToken read_added_token(Env *e, const char *file, const json_t *value)
{
    const json_t *content = json_object_get(value, "content");
    const json_t *id = json_object_get(value, "id");
    if (!json_is_string(content) || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) > INT32_MAX) {
        fail(e, E_SYNTAX, "%s: an entry of added_tokens lacks a content or a valid id.", file);
    }
    size_t len = json_string_length(content);
    const char *shown = quoted(e, json_string_value(content), len);
    check_off(e, file, arena_printf(&e->kernel, "the added token %s with ", shown), value,
              added_off);
    return (AddedToken){
        .content = {arena_strn(&e->model, json_string_value(content), len), len},
        .id = (int32_t)json_integer_value(id),
        .special = json_is_true(json_object_get(value, "special")),
    };
}

static void read_added(Env *e, const char *file, const json_t *root, Added *added)
{
    const json_t *list = json_object_get(root, "added_tokens");
    if (!is_off(list) && !json_is_array(list)) {
        fail(e, E_SYNTAX, "%s: added_tokens is not a list.", file);
    }
    added->n = json_array_size(list);
    added->at = arena_array(&e->model, AddedToken, added->n);
    for (size_t i = 0; i < added->n; i++) {
        added->at[i] = read_added_token(e, file, json_array_get(list, i));
    }
    added_sort(e, file, added);
}

/* What a user types must never become a control token unless asked for. */
static void check_added(Env *e, Tokenizer *t)
{
    t->special = arena_array(&e->model, bool, t->vocab.n_ids + 1);
    for (size_t i = 0; i < t->added.n; i++) {
        const AddedToken *a = &t->added.at[i];
        if (t->bpe.made[a->id]) {
            fail(e, E_SYNTAX,
                 "%s: the added token %s is also a byte or the result of a merge, so "
                 "plain text could become one.",
                 t->file, quoted(e, a->content.at, a->content.len));
        }
        t->special[a->id] = a->special;
    }
}

static void read_rest(Env *e, const char *file, json_t *root, void *arg)
{
    Loading *l = arg;
    check_model(e, file, root, &l->lists);
    check_off(e, file, "", root, top_off);
    read_normalizer(e, file, root, l->t);
    read_pre_tokenizer(e, file, root, l);
    check_byte_level(e, file, root, "post_processor", false);
    check_byte_level(e, file, root, "decoder", true);
    read_added(e, file, root, &l->t->added);
}

/* ---- the doors --------------------------------------------------------------- */

Tokenizer *tokenizer_parse(Env *e, const char *text, size_t len, const char *file,
                           int64_t vocab_size)
{
    Tokenizer *t = arena_new(&e->model, Tokenizer);
    *t = (Tokenizer){.env = e, .file = arena_str(&e->model, file), .vocab_size = vocab_size};
    Loading l = {.t = t};
    lists_scan(e, file, text, len, &l.lists);
    json_visit(e, file, l.lists.rest.at, l.lists.rest.len, read_rest, &l);
    vocab_build(e, t->file, &l.lists, &t->added, &t->vocab);
    if (vocab_size > 0 && t->vocab.n_ids > vocab_size) {
        fail(e, E_SYNTAX, "%s: token ids go up to %u, but the model has a vocabulary of %lld.",
             file, t->vocab.n_ids - 1, (long long)vocab_size);
    }
    bpe_build(e, t->file, &l.lists, &t->vocab, &t->bpe);
    check_added(e, t);
    nfc_init(&t->nfc, &e->model);
    t->splitter = splitter_build(e, t->file, l.pattern);
    return t;
}

Tokenizer *tokenizer_load(Env *e, const char *path, int64_t vocab_size)
{
    enum { MOST_BYTES = 1 << 28 };
    struct stat st;
    Err err;
    char *text;
    size_t len;
    if (os.stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        path = arena_printf(&e->kernel, "%s/tokenizer.json", path);
    }
    if (!os_read_file(&e->kernel, path, MOST_BYTES, &text, &len, &err)) {
        fail_err(e, &err);
    }
    return tokenizer_parse(e, text, len, path, vocab_size);
}

void tokenizer_release(Tokenizer *t)
{
    if (t) {
        splitter_release(t->splitter);
        t->splitter = NULL;
    }
}

int32_t tokenizer_find_added(const Tokenizer *t, const char *content)
{
    size_t at, len = strlen(content);
    const AddedToken *a = added_find(&t->added, content, len, 0, &at);
    return a && at == 0 && a->content.len == len ? a->id : -1;
}

int64_t tokenizer_n_ids(const Tokenizer *t)
{
    return t->vocab.n_ids;
}
