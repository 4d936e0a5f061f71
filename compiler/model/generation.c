/* generation.c - how to sample and when to stop: generation_config.json and its neighbours.
 *
 * Only what the file says counts: a field it lacks is off. (The reference has defaults of its
 * own for absent fields, such as top_k 50.) Without do_sample true the file asks for greedy.
 * Needs: a model folder. spec: tokenizer 10, the note on model defaults */
#include "model/model_int.h"
#include "model/text_int.h"

#include <errno.h>
#include <string.h>

Sampling sampling_off(void)
{
    return (Sampling){
#define X(field, type, off, allowed, words) .field = off,
        SAMPLING(X)
#undef X
    };
}

Sampling sampling_greedy(void)
{
    Sampling s = sampling_off();
    s.temperature = 0;
    return s;
}

void sampling_check(Env *e, const Sampling *s)
{
    double x;
#define X(field, type, off, allowed, words)                             \
    if (x = (double)s->field, !(allowed)) {                             \
        fail(e, E_INPUT, "%s is %g; allowed is %s.", #field, x, words); \
    }
    SAMPLING(X)
#undef X
}

void sampling_print(const Sampling *s, Buf *out)
{
    if (s->temperature == 0) {
        buf_str(out, "greedy");
    } else {
        buf_printf(out, "temperature %g", s->temperature);
    }
    if (s->temperature != 0 && s->top_k > 0) {
        buf_printf(out, ", top_k %lld", (long long)s->top_k);
    }
    if (s->temperature != 0 && s->top_p < 1) {
        buf_printf(out, ", top_p %g", s->top_p);
    }
    if (s->temperature != 0 && s->min_p > 0) {
        buf_printf(out, ", min_p %g", s->min_p);
    }
    if (s->repetition_penalty != 1) {
        buf_printf(out, ", repetition_penalty %g", s->repetition_penalty);
    }
}

/* ---- generation_config.json -------------------------------------------------- */

static double number(Env *e, const char *file, const json_t *root, const char *key, double off)
{
    const json_t *value = json_object_get(root, key);
    if (!value || json_is_null(value)) {
        return off;
    }
    if (!json_is_number(value)) {
        fail(e, E_SYNTAX, "%s: %s is not a number.", file, key);
    }
    return json_number_value(value);
}

static void add_eos(Env *e, const char *file, const json_t *value, Generation *g)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        fail(e, E_SYNTAX, "%s: eos_token_id is not a token id, or a list of them.", file);
    }
    if (g->n_eos == MAX_STOP_TOKENS) {
        fail(e, E_SYNTAX, "%s: eos_token_id lists more than %d tokens.", file, MAX_STOP_TOKENS);
    }
    g->eos[g->n_eos++] = json_integer_value(value);
}

static void read_generation(Env *e, const char *file, json_t *root, void *arg)
{
    Generation *g = arg;
    Sampling s = sampling_off();
    double x;
#define X(field, type, off, allowed, words)                                        \
    if (x = number(e, file, root, #field, off), !(allowed)) {                      \
        fail(e, E_SYNTAX, "%s: %s is %g; allowed is %s.", file, #field, x, words); \
    }                                                                              \
    s.field = (type)x;
    SAMPLING(X)
#undef X
    const json_t *eos = json_object_get(root, "eos_token_id");
    if (json_is_array(eos)) {
        for (size_t i = 0; i < json_array_size(eos); i++) {
            add_eos(e, file, json_array_get(eos, i), g);
        }
    } else if (eos && !json_is_null(eos)) {
        add_eos(e, file, eos, g);
    }
    const json_t *sample = json_object_get(root, "do_sample");
    if (sample && !json_is_boolean(sample) && !json_is_null(sample)) {
        fail(e, E_SYNTAX, "%s: do_sample is neither true nor false.", file);
    }
    if (!json_is_true(sample)) {
        s.temperature = 0;
    }
    g->sampling = s;
    g->found = true;
}

Generation generation_parse(Env *e, const char *text, size_t len, const char *file)
{
    Generation g = {.sampling = sampling_greedy()};
    json_visit(e, file, text, len, read_generation, &g);
    return g;
}

const char *read_optional(Env *e, const char *path, size_t *len)
{
    enum { MOST_BYTES = 1 << 24 };
    struct stat st;
    Err err;
    char *text;
    if (os.stat(path, &st) != 0 && errno == ENOENT) {
        return NULL;
    }
    if (!os_read_file(&e->kernel, path, MOST_BYTES, &text, len, &err)) {
        fail_err(e, &err);
    }
    return text;
}

Generation generation_read(Env *e, const char *dir)
{
    const char *path = arena_printf(&e->kernel, "%s/generation_config.json", dir);
    size_t len;
    const char *text = read_optional(e, path, &len);
    return text ? generation_parse(e, text, len, path)
                : (Generation){.sampling = sampling_greedy()};
}

/* ---- stop tokens ------------------------------------------------------------- */

static void add_stop(Stops *s, int64_t id, int64_t vocab_size)
{
    if (id >= 0 && id < vocab_size && !stops_has(s, (int32_t)id)) {
        s->id[s->n++] = (int32_t)id;
    }
}

/* tokenizer_config.json writes a token as its text, or as an object with a content. */
static void read_eos_text(Env *e, const char *file, json_t *root, void *arg)
{
    (void)file;
    const char **text = arg;
    const json_t *eos = json_object_get(root, "eos_token");
    const json_t *content = json_is_object(eos) ? json_object_get(eos, "content") : eos;
    *text = json_is_string(content) ? arena_str(&e->kernel, json_string_value(content)) : NULL;
}

Stops stops_read(Env *e, const char *dir, const Config *c, const Generation *g,
                 const Tokenizer *t)
{
    Stops s = {0};
    for (int i = 0; i < c->n_eos; i++) {
        add_stop(&s, c->eos[i], c->vocab_size);
    }
    for (int i = 0; i < g->n_eos; i++) {
        add_stop(&s, g->eos[i], c->vocab_size);
    }
    const char *path = arena_printf(&e->kernel, "%s/tokenizer_config.json", dir), *eos = NULL;
    size_t len;
    const char *text = t ? read_optional(e, path, &len) : NULL;
    if (text) {
        json_visit(e, path, text, len, read_eos_text, &eos);
    }
    if (eos) {
        add_stop(&s, tokenizer_find_added(t, eos), c->vocab_size);
    }
    return s;
}

bool stops_has(const Stops *s, int32_t id)
{
    for (int i = 0; i < s->n; i++) {
        if (s->id[i] == id) {
            return true;
        }
    }
    return false;
}
