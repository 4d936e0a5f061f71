/* chat.c - ChatML: conversations as Qwen2 and Qwen2.5 models were trained on them.
 *
 * The folder's Jinja template is not run. It is compared, all but its default system prompt,
 * with the templates we know (by hash); the prompt is then taken from it. A template that
 * differs in one byte is refused: a conversation that is nearly right is worse than none.
 * Contents are plain text: control tokens in them are recognised only where asked for.
 * Needs: a loaded tokenizer. spec: tokenizer 8 */
#include "model/model_int.h"
#include "model/text_int.h"

#include <string.h>

typedef struct Known {
    const char *name;
    Hash skeleton; /* of the template with \1 for the default prompt, blanks at its end cut */
    bool any_role;
} Known;

static const Known known[] = {
    {"Qwen2", {0x485313eb2cde6291, 0x06185088a0fb6cbc}, true},
    {"Qwen2.5", {0x302ef9830fa56885, 0x54719acfa6ade966}, false},
};

/* ---- recognising a template -------------------------------------------------- */

/* Where a Jinja string literal that begins at s has its first end; NULL: nowhere. */
static const char *find_in_literal(const char *s, const char *end)
{
    for (; *s && *s != '\''; s++) {
        if (strncmp(s, end, strlen(end)) == 0) {
            return s;
        }
        s += *s == '\\' && s[1];
    }
    return NULL;
}

/* The default prompt as the template spells it: what a string literal has between these two. */
static bool find_prompt(const char *text, const char **prompt, size_t *len)
{
    static const char begin[] = "'<|im_start|>system\\n", end[] = "<|im_end|>\\n'";
    for (const char *s = text; (s = strstr(s, begin));) {
        s += strlen(begin);
        const char *close = find_in_literal(s, end);
        if (close && close > s) {
            *prompt = s;
            *len = (size_t)(close - s);
            return true;
        }
    }
    return false;
}

static Hash skeleton_hash(Env *e, const char *text, size_t len, const char *prompt,
                          size_t prompt_len)
{
    Buf b;
    buf_init(&b, &e->kernel);
    const char *end = text + len;
    while (end > text && strchr(" \n\r\t", end[-1])) {
        end--;
    }
    while (text < end) {
        if ((size_t)(end - text) >= prompt_len && memcmp(text, prompt, prompt_len) == 0) {
            buf_char(&b, '\1');
            text += prompt_len;
        } else {
            buf_char(&b, *text++);
        }
    }
    return hash_bytes(b.at, b.len);
}

/* A Jinja string literal's contents; NULL: an escape we do not know. */
static const char *unescape(Env *e, const char *s, size_t len)
{
    static const char from[] = "nt\\'\"", to[] = "\n\t\\'\"";
    Buf b;
    buf_init(&b, &e->model);
    for (const char *end = s + len; s < end; s++) {
        if (*s != '\\') {
            buf_char(&b, *s);
            continue;
        }
        const char *escape = s + 1 < end ? strchr(from, *++s) : NULL;
        if (!escape) {
            return NULL;
        }
        buf_char(&b, to[escape - from]);
    }
    return b.at;
}

bool chat_recognise(Env *e, const char *text, size_t len, Chat *chat)
{
    const char *prompt;
    size_t prompt_len;
    if (strlen(text) != len || !find_prompt(text, &prompt, &prompt_len)) {
        return false;
    }
    Hash h = skeleton_hash(e, text, len, prompt, prompt_len);
    for (size_t i = 0; i < countof(known); i++) {
        if (hash_eq(h, known[i].skeleton)) {
            chat->template_name = known[i].name;
            chat->any_role = known[i].any_role;
            chat->default_system = unescape(e, prompt, prompt_len);
            return chat->default_system != NULL;
        }
    }
    return false;
}

/* ---- the folder's template --------------------------------------------------- */

/* A template is a string, or the one called "default" in a list of named ones. */
static void read_template(Env *e, const char *file, json_t *root, void *arg)
{
    (void)file;
    const char **text = arg;
    const json_t *value = json_object_get(root, "chat_template");
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
        const json_t *one = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && strcmp(name, "default") == 0) {
            value = json_object_get(one, "template");
        }
    }
    *text = json_is_string(value) ? arena_str(&e->kernel, json_string_value(value)) : NULL;
}

/* chat_template.jinja, where there is one, counts before the entry of tokenizer_config.json. */
static const char *find_template(Env *e, const char *dir, const char **path)
{
    size_t len;
    *path = arena_printf(&e->kernel, "%s/chat_template.jinja", dir);
    const char *text = read_optional(e, *path, &len);
    if (text) {
        return text;
    }
    *path = arena_printf(&e->kernel, "%s/tokenizer_config.json", dir);
    text = read_optional(e, *path, &len);
    if (text) {
        json_visit(e, *path, text, len, read_template, &text);
    }
    return text;
}

bool chat_open(Env *e, const char *dir, Tokenizer *t, Chat *chat, Err *why)
{
    const char *path, *text = find_template(e, dir, &path);
    *chat = (Chat){.tokenizer = t,
                   .start = tokenizer_find_added(t, "<|im_start|>"),
                   .end = tokenizer_find_added(t, "<|im_end|>")};
    if (!text) {
        return err_set(why, E_INPUT,
                       "%s has no chat template, so this model cannot chat; `run` "
                       "continues plain text.",
                       dir);
    }
    if (!chat_recognise(e, text, strlen(text), chat)) {
        return err_set(why, E_INPUT,
                       "%s: the chat template %s is not exactly that of Qwen2 or Qwen2.5, "
                       "so this model cannot chat.",
                       path, quoted(e, text, strlen(text)));
    }
    if (chat->start < 0 || chat->end < 0) {
        return err_set(why, E_INPUT,
                       "%s: the tokenizer lacks the added token %s of the chat template.", dir,
                       chat->start < 0 ? "<|im_start|>" : "<|im_end|>");
    }
    return true;
}

/* ---- writing a conversation -------------------------------------------------- */

/* Where a conversation goes: to ids, or to text. */
typedef struct Sink {
    const Chat *chat;
    Ids *ids;
    Buf *text;
    bool parse_special;
} Sink;

static void put_control(const Sink *k, bool start)
{
    if (k->ids) {
        *vec_push(k->ids->arena, k->ids) = start ? k->chat->start : k->chat->end;
    } else {
        buf_str(k->text, start ? "<|im_start|>" : "<|im_end|>");
    }
}

static void put_text(const Sink *k, const char *s, size_t len)
{
    if (k->ids) {
        tokenizer_encode(k->chat->tokenizer, s, len, k->parse_special, k->ids);
    } else {
        buf_bytes(k->text, s, len);
    }
}

/* Role and content are one text: a line feed that begins the content joins the one before. */
static void put_turn(Env *e, const Sink *k, const char *role, const char *content, size_t len)
{
    Buf b;
    buf_init(&b, &e->kernel);
    buf_printf(&b, "%s\n", role);
    buf_bytes(&b, content, len);
    put_control(k, true);
    put_text(k, b.at, b.len);
    put_control(k, false);
    put_text(k, "\n", 1);
}

static bool is_role(const Message *m, const char *role)
{
    return strcmp(m->role, role) == 0;
}

static void put_message(Env *e, const Sink *k, const Message *m)
{
    if (is_role(m, "tool")) {
        fail(e, E_INPUT, "A message of role \"tool\" is not supported.");
    }
    if (k->chat->any_role || is_role(m, "system") || is_role(m, "user") ||
        is_role(m, "assistant")) {
        put_turn(e, k, m->role, m->content, m->len);
    }
}

static void put_system(Env *e, const Sink *k, const Message *m)
{
    const char *content = m ? m->content : k->chat->default_system;
    put_turn(e, k, "system", content, m ? m->len : strlen(content));
}

static void put_reply(const Sink *k)
{
    put_control(k, true);
    put_text(k, "assistant\n", strlen("assistant\n"));
}

static void put_all(Env *e, const Sink *k, const Message *message, int n, bool open)
{
    bool has_system = n > 0 && is_role(&message[0], "system");
    put_system(e, k, has_system ? &message[0] : NULL);
    for (int i = has_system; i < n; i++) {
        put_message(e, k, &message[i]);
    }
    if (open) {
        put_reply(k);
    }
}

void chat_encode(Env *e, const Chat *chat, const Message *message, int n, bool open,
                 bool parse_special, Ids *out)
{
    Sink k = {.chat = chat, .ids = out, .parse_special = parse_special};
    put_all(e, &k, message, n, open);
}

void chat_render(Env *e, const Chat *chat, const Message *message, int n, bool open, Buf *out)
{
    Sink k = {.chat = chat, .text = out};
    put_all(e, &k, message, n, open);
}

void chat_begin(Env *e, const Chat *chat, const Message *system, bool parse_special, Ids *out)
{
    Sink k = {.chat = chat, .ids = out, .parse_special = parse_special};
    put_system(e, &k, system);
}

void chat_turn(Env *e, const Chat *chat, const Message *message, bool parse_special, Ids *out)
{
    Sink k = {.chat = chat, .ids = out, .parse_special = parse_special};
    put_message(e, &k, message);
}

void chat_reply(const Chat *chat, Ids *out)
{
    Sink k = {.chat = chat, .ids = out};
    put_reply(&k);
}

void chat_reply_end(const Chat *chat, int32_t last, Ids *out)
{
    Sink k = {.chat = chat, .ids = out};
    if (last != chat->end) {
        put_control(&k, false);
    }
    put_text(&k, "\n", 1);
}
