/* config.c - config.json of a Hugging Face model folder.
 *
 * Reads what changes the numbers, with strict types and no silent default: a rope_theta assumed
 * wrongly flips most argmaxes. What the graph cannot express (rope scaling, a sliding window in
 * use, quantised checkpoints, other activations) is refused by name, never ignored.
 * Needs: nothing. Afterwards every product of sizes is known to fit. spec: graph-ir 9 */
#include "model/model_int.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define MAX_CONFIG_BYTES (4 << 20)

const ArchInfo arch_info[N_ARCHS] = {
#define X(id, architecture, model_type, qkv_bias) {architecture, model_type, qkv_bias},
    ARCHS(X)
#undef X
};

typedef struct Reader {
    Env *e;
    const char *file;
    json_t *root;
    Config *c;
} Reader;

#define REFUSE(r, field, fmt, ...) \
    fail((r)->e, E_SYNTAX, "%s: \"%s\" " fmt ".", (r)->file, field, ##__VA_ARGS__)

/* The field of an object; JSON null counts as absent. */
static json_t *get(json_t *object, const char *field)
{
    json_t *v = json_object_get(object, field);
    return json_is_null(v) ? NULL : v;
}

/* 896.0 must not look like 896. */
static const char *shown_real(Reader *r, double x)
{
    const char *s = arena_printf(&r->e->kernel, "%.9g", x);
    return strpbrk(s, ".e") ? s : arena_printf(&r->e->kernel, "%s.0", s);
}

/* A value as it may stand in a message. */
static const char *shown(Reader *r, json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING: return quoted(r->e, json_string_value(v), json_string_length(v));
    case JSON_INTEGER:
        return arena_printf(&r->e->kernel, "%lld", (long long)json_integer_value(v));
    case JSON_REAL: return shown_real(r, json_real_value(v));
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_ARRAY: return arena_printf(&r->e->kernel, "a list of %zu", json_array_size(v));
    default: return "an object";
    }
}

static bool is_text(json_t *v, const char *s)
{
    return json_is_string(v) && json_string_length(v) == strlen(s) &&
           memcmp(json_string_value(v), s, strlen(s)) == 0;
}

/* ---- numbers and flags ------------------------------------------------------------- */

static int64_t int_value(Reader *r, const char *field, json_t *v, int64_t min, int64_t max)
{
    int64_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < min || n > max) {
        REFUSE(r, field, "is %s, but must be an integer from %lld to %lld", shown(r, v),
               (long long)min, (long long)max);
    }
    return n;
}

static double positive(Reader *r, const char *field, json_t *v)
{
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x > 0) || !isfinite((float)x) || (float)x == 0) {
        REFUSE(r, field, "is %s, but must be a number above 0 that fits f32", shown(r, v));
    }
    return x;
}

static bool flag(Reader *r, const char *field, bool absent)
{
    json_t *v = get(r->root, field);
    if (v && !json_is_boolean(v)) {
        REFUSE(r, field, "is %s, but must be true or false", shown(r, v));
    }
    return v ? json_is_true(v) : absent;
}

#define REQUIRED INT64_MIN

typedef struct IntField {
    const char *name;
    size_t offset; /* of an int64_t in Config */
    int64_t min, max;
    int64_t absent; /* value where the file has none, or REQUIRED */
} IntField;

/* clang-format off */
static const IntField int_fields[] = {
    /* name, place, least, most, when absent */
    {"vocab_size", offsetof(Config, vocab_size), 1, 1 << 24, REQUIRED},
    {"hidden_size", offsetof(Config, hidden_size), 1, 1 << 20, REQUIRED},
    {"intermediate_size", offsetof(Config, intermediate_size), 1, 1 << 22, REQUIRED},
    {"num_hidden_layers", offsetof(Config, n_layers), 1, 1000, REQUIRED},
    {"num_attention_heads", offsetof(Config, n_heads), 1, 1 << 14, REQUIRED},
    {"num_key_value_heads", offsetof(Config, n_kv_heads), 1, 1 << 14, 0},
    {"head_dim", offsetof(Config, head_dim), 2, 1 << 14, 0},
    {"max_position_embeddings", offsetof(Config, max_positions), 1, INT32_MAX, 0},
    {"bos_token_id", offsetof(Config, bos), 0, INT32_MAX, -1},
};
/* clang-format on */

static void read_ints(Reader *r)
{
    for (size_t i = 0; i < countof(int_fields); i++) {
        const IntField *f = &int_fields[i];
        json_t *v = get(r->root, f->name);
        if (!v && f->absent == REQUIRED) {
            REFUSE(r, f->name, "is missing");
        }
        int64_t *to = (int64_t *)((char *)r->c + f->offset);
        *to = v ? int_value(r, f->name, v, f->min, f->max) : f->absent;
    }
}

/* ---- what kind of model ------------------------------------------------------------ */

static void read_arch(Reader *r)
{
    json_t *list = get(r->root, "architectures");
    json_t *name = json_array_get(list, 0);
    if (!list) {
        REFUSE(r, "architectures", "is missing");
    }
    if (!json_is_array(list) || json_array_size(list) != 1 || !json_is_string(name)) {
        REFUSE(r, "architectures", "is %s, but must be a list of one name", shown(r, list));
    }
    Arch arch = 0;
    while (arch < N_ARCHS && !is_text(name, arch_info[arch].architecture)) {
        arch++;
    }
    if (arch == N_ARCHS) {
        REFUSE(r, "architectures", "is %s; supported are Qwen2ForCausalLM and LlamaForCausalLM",
               shown(r, name));
    }
    json_t *type = get(r->root, "model_type");
    if (type && !is_text(type, arch_info[arch].model_type)) {
        REFUSE(r, "model_type", "is %s, but \"architectures\" says %s", shown(r, type),
               arch_info[arch].architecture);
    }
    r->c->arch = arch;
}

static void check_features(Reader *r)
{
    json_t *act = get(r->root, "hidden_act");
    if (!act) {
        REFUSE(r, "hidden_act", "is missing");
    }
    if (!is_text(act, "silu")) {
        REFUSE(r, "hidden_act", "is %s; only \"silu\" is supported", shown(r, act));
    }
    bool bias = arch_info[r->c->arch].qkv_bias;
    if (flag(r, "attention_bias", bias) != bias) {
        REFUSE(r, "attention_bias", "is %s, which is not supported for %s",
               bias ? "false" : "true", arch_info[r->c->arch].model_type);
    }
    if (flag(r, "mlp_bias", false)) {
        REFUSE(r, "mlp_bias", "is true, which is not supported");
    }
    if (get(r->root, "quantization_config")) {
        REFUSE(r, "quantization_config", "is present: quantised checkpoints are not supported");
    }
    json_t *partial = get(r->root, "partial_rotary_factor");
    if (partial && (!json_is_number(partial) || json_number_value(partial) != 1)) {
        REFUSE(r, "partial_rotary_factor", "is %s; only 1 is supported", shown(r, partial));
    }
}

/* ---- rotary embedding (CASES 1 and 2) ---------------------------------------------- */

/* rope_scaling (older files) or rope_parameters (transformers 5): anything but the plain rotary
 * embedding is refused by its name. */
static void check_scaling(Reader *r, const char *field, json_t *scaling)
{
    static const char *const names[] = {"type", "rope_type"};
    static const char *const plain[] = {"rope_theta", "type", "rope_type"};
    if (!json_is_object(scaling)) {
        REFUSE(r, field, "is %s, but must be an object or null", shown(r, scaling));
    }
    bool typed = false;
    for (size_t i = 0; i < countof(names); i++) {
        json_t *type = get(scaling, names[i]);
        if (type && !is_text(type, "default")) {
            REFUSE(r, field, "asks for rope scaling by \"%s\": %s, which is not supported",
                   names[i], shown(r, type));
        }
        typed = typed || type;
    }
    const char *key;
    json_t *v;
    json_object_foreach (scaling, key, v) {
        bool known = false;
        for (size_t i = 0; i < countof(plain); i++) {
            known = known || strcmp(key, plain[i]) == 0;
        }
        if (!known && !json_is_null(v) && (!typed || strcmp(key, "factor") != 0)) {
            REFUSE(r, field, "has %s, which is not supported", quoted(r->e, key, strlen(key)));
        }
    }
}

static void read_rope(Reader *r)
{
    static const char *const nests[] = {"rope_parameters", "rope_scaling"};
    const char *from = "rope_theta";
    json_t *top = get(r->root, from);
    double theta = top ? positive(r, from, top) : 0;
    for (size_t i = 0; i < countof(nests); i++) {
        json_t *nest = get(r->root, nests[i]);
        if (!nest) {
            continue;
        }
        check_scaling(r, nests[i], nest);
        json_t *inner = get(nest, "rope_theta");
        const char *field = arena_printf(&r->e->kernel, "%s.rope_theta", nests[i]);
        double other = inner ? positive(r, field, inner) : theta;
        if (theta != 0 && other != theta) {
            REFUSE(r, from, "is %.9g but \"%s\" is %.9g; which of them holds is not said",
                   theta, field, other);
        }
        if (inner) {
            theta = other;
            from = field;
        }
    }
    if (theta == 0) {
        REFUSE(r, "rope_theta",
               "is missing, at top level and in \"rope_parameters\"; "
               "it is never assumed");
    }
    r->c->rope_theta = theta;
}

/* ---- sliding window (CASES 3) ------------------------------------------------------ */

static void check_layer_types(Reader *r)
{
    json_t *types = get(r->root, "layer_types"), *type;
    if (!types) {
        return;
    }
    if (!json_is_array(types) || (int64_t)json_array_size(types) != r->c->n_layers) {
        REFUSE(r, "layer_types", "is %s, but must be a list of %lld names", shown(r, types),
               (long long)r->c->n_layers);
    }
    size_t i;
    json_array_foreach (types, i, type) {
        if (!is_text(type, "full_attention")) {
            REFUSE(r, "layer_types",
                   "says %s of layer %zu; only full attention is supported "
                   "(no sliding window)",
                   shown(r, type), i);
        }
    }
}

static void check_window(Reader *r)
{
    check_layer_types(r);
    bool used = flag(r, "use_sliding_window", false);
    json_t *v = get(r->root, "max_window_layers");
    int64_t full = v ? int_value(r, "max_window_layers", v, 0, INT32_MAX) : 0;
    if (used && full < r->c->n_layers) {
        REFUSE(r, "use_sliding_window",
               "is true and \"max_window_layers\" %s: layers %lld to %lld "
               "would use a sliding window, which is not supported",
               v ? shown(r, v) : "is missing", (long long)full, (long long)r->c->n_layers - 1);
    }
}

/* ---- sizes ------------------------------------------------------------------------- */

static void derive_heads(Reader *r)
{
    Config *c = r->c;
    if (c->n_kv_heads == 0) {
        c->n_kv_heads = c->n_heads;
    }
    if (c->n_heads % c->n_kv_heads != 0) {
        REFUSE(r, "num_key_value_heads",
               "is %lld, which does not divide the %lld of "
               "\"num_attention_heads\"",
               (long long)c->n_kv_heads, (long long)c->n_heads);
    }
    bool given = c->head_dim != 0;
    if (!given && c->hidden_size % c->n_heads != 0) {
        REFUSE(r, "hidden_size",
               "is %lld, which \"num_attention_heads\" %lld does not divide, and "
               "there is no \"head_dim\"",
               (long long)c->hidden_size, (long long)c->n_heads);
    }
    if (!given) {
        c->head_dim = c->hidden_size / c->n_heads;
    }
    if (c->head_dim % 2 != 0) {
        REFUSE(r, given ? "head_dim" : "hidden_size",
               "gives heads of %lld, but rotary embedding "
               "needs an even size",
               (long long)c->head_dim);
    }
}

/* The whole model as f32 must be addressable. The bounds of int_fields keep the sum below
 * 2^61, so that it cannot wrap. */
static void check_total(Reader *r)
{
    if (config_parameters(r->c) > (int64_t)1 << 45) {
        REFUSE(r, "num_hidden_layers",
               "is %lld; with blocks and a vocabulary of these sizes the "
               "weights would need more than 128 TB as f32",
               (long long)r->c->n_layers);
    }
}

/* eos_token_id: absent, one id, or a list of them. */
static void read_stops(Reader *r)
{
    static const char field[] = "eos_token_id";
    json_t *eos = get(r->root, field);
    size_t n = json_is_array(eos) ? json_array_size(eos) : eos != NULL;
    if (n > MAX_STOP_TOKENS) {
        REFUSE(r, field, "is %s, but at most %d ids are supported", shown(r, eos),
               MAX_STOP_TOKENS);
    }
    for (size_t i = 0; i < n; i++) {
        json_t *v = json_is_array(eos) ? json_array_get(eos, i) : eos;
        r->c->eos[i] = int_value(r, field, v, 0, INT32_MAX);
    }
    r->c->n_eos = (int)n;
}

static void read_root(Env *e, const char *file, json_t *root, void *arg)
{
    Reader r = {.e = e, .file = file, .root = root, .c = arg};
    read_arch(&r);
    read_ints(&r);
    check_features(&r);
    derive_heads(&r);
    check_total(&r);
    json_t *eps = get(root, "rms_norm_eps");
    if (!eps) {
        REFUSE(&r, "rms_norm_eps", "is missing");
    }
    r.c->rms_norm_eps = positive(&r, "rms_norm_eps", eps);
    read_rope(&r);
    check_window(&r);
    r.c->tied = flag(&r, "tie_word_embeddings", false);
    read_stops(&r);
}

Config config_parse(Env *e, const char *text, size_t len, const char *file)
{
    Config c = {.path = arena_str(&e->model, file)};
    json_visit(e, file, text, len, read_root, &c);
    return c;
}

Config config_read(Env *e, const char *path)
{
    struct stat st;
    if (os.stat(path, &st) < 0) {
        fail(e, E_IO, "%s: %s.", path, strerror(errno));
    }
    const char *file = path;
    if (S_ISDIR(st.st_mode)) {
        file = arena_printf(&e->model, "%s/config.json", path);
    }
    char *text;
    size_t len;
    Err err;
    if (!os_read_file(&e->model, file, MAX_CONFIG_BYTES, &text, &len, &err)) {
        fail_err(e, &err);
    }
    return config_parse(e, text, len, file);
}
