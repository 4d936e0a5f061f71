/* model_config.c - config.json: what is read, what is refused, and that the reason is said. */
#include "tests/model_util.h"

#include <stdlib.h>
#include <string.h>

static const char real_path[] = "tests/data/qwen2.5/config.json";

static void read_real(Env *e, void *arg)
{
    *(Config *)arg = config_read(e, real_path);
}

Test(model_config, reads_every_field_of_qwen2_5)
{
    Env e;
    env_init(&e);
    Config c;
    must_work(&e, read_real, &c);
    cr_assert_str_eq(c.path, real_path);
    cr_assert_eq(c.arch, ARCH_QWEN2);
    cr_assert_eq(c.vocab_size, 151936);
    cr_assert_eq(c.hidden_size, 896);
    cr_assert_eq(c.intermediate_size, 4864);
    cr_assert_eq(c.n_layers, 24);
    cr_assert_eq(c.n_heads, 14);
    cr_assert_eq(c.n_kv_heads, 2);
    cr_assert_eq(c.head_dim, 64);
    cr_assert_eq(c.max_positions, 32768);
    cr_assert_eq(c.rms_norm_eps, 1e-6);
    cr_assert_eq(c.rope_theta, 1e6);
    cr_assert(c.tied);
    cr_assert_eq(c.bos, 151643);
    cr_assert_eq(c.n_eos, 1);
    cr_assert_eq(c.eos[0], 151645);
    env_release(&e);
}

static void read_path(Env *e, void *path)
{
    config_read(e, path);
}

Test(model_config, a_folder_means_its_config_json)
{
    Env e;
    env_init(&e);
    must_work(&e, read_path, "tests/data/tiny-qwen2");
    must_fail(&e, read_path, "tests/data/hostile", E_IO, "tests/data/hostile/config.json");
    must_fail(&e, read_path, "no/such/folder", E_IO, "no/such/folder");
    env_release(&e);
}

Test(model_config, every_required_field_is_named_when_missing)
{
    static const char *const required[] = {
        "architectures",       "hidden_act",        "vocab_size",
        "hidden_size",         "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "rms_norm_eps",      "rope_theta"};
    for (size_t i = 0; i < countof(required); i++) {
        char words[64];
        snprintf(words, sizeof words, "\"%s\" is missing", required[i]);
        REFUSED(words, required[i], NULL);
        REFUSED(words, required[i], "null");
    }
}

Test(model_config, sizes_must_be_positive_integers_in_range)
{
    static const char *const fields[] = {
        "vocab_size",          "hidden_size",         "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim"};
    static const struct {
        const char *value, *words;
    } bad[] = {
        {"0", "is 0, but must be an integer from"},
        {"-1", "is -1, but must be an integer"},
        {"16.0", "is 16.0, but must be an integer"},
        {"1e30", "is 1e+30, but must be an integer"},
        {"\"16\"", "is \"16\", but must be an integer"},
        {"true", "is true, but must be an integer"},
        {"[16]", "is a list of 1, but must be an integer"},
        {"{}", "is an object, but must be an integer"},
        {"9223372036854775807", "is 9223372036854775807, but must be an integer"},
    };
    for (size_t i = 0; i < countof(fields); i++) {
        for (size_t k = 0; k < countof(bad); k++) {
            char words[128];
            snprintf(words, sizeof words, "\"%s\" %s", fields[i], bad[k].words);
            REFUSED(words, fields[i], bad[k].value);
        }
    }
    REFUSED("not JSON, in \"vocab_size\": \"too big integer", "vocab_size",
            "9223372036854775808");
}

Test(model_config, products_that_overflow_are_refused)
{
    REFUSED("would need more than 128 TB as f32", "hidden_size", "1048576",
            "num_attention_heads", "16384", "num_key_value_heads", "16384", "head_dim", "16384",
            "num_hidden_layers", "1000", "intermediate_size", "4194304", "vocab_size",
            "16777216");
}

Test(model_config, heads_must_divide)
{
    REFUSED("\"num_key_value_heads\" is 3, which does not divide the 4", "num_key_value_heads",
            "3");
    REFUSED("\"hidden_size\" is 18, which \"num_attention_heads\" 4 does not divide",
            "hidden_size", "18");
    REFUSED("\"hidden_size\" gives heads of 3", "hidden_size", "12");
}

Test(model_config, kv_heads_absent_or_null_are_the_heads)
{
    Env e;
    env_init(&e);
    cr_assert_eq(config_of(&e, config_text("num_key_value_heads", NULL, NULL)).n_kv_heads, 4);
    cr_assert_eq(config_of(&e, config_text("num_key_value_heads", "null", NULL)).n_kv_heads, 4);
    env_release(&e);
}

Test(model_config, explicit_head_dim_shapes_q_and_o)
{
    Env e;
    env_init(&e);
    Config c = config_of(&e, config_text("head_dim", "8", "hidden_size", "18", NULL));
    TensorSpec q = config_tensor(&e, &c, W_Q, 0), o = config_tensor(&e, &c, W_O, 1);
    cr_assert_eq(q.dim[0], 32);
    cr_assert_eq(q.dim[1], 18);
    cr_assert_eq(o.dim[0], 18);
    cr_assert_eq(o.dim[1], 32);
    cr_assert_str_eq(o.name, "model.layers.1.self_attn.o_proj.weight");
    cr_assert_eq(config_tensor(&e, &c, W_V_BIAS, 0).dim[0], 16);
    cr_assert_eq(config_of(&e, config_text("head_dim", "null", NULL)).head_dim, 4);
    env_release(&e);
    REFUSED("\"head_dim\" gives heads of 5, but rotary embedding needs an even size",
            "head_dim", "5");
}

/* ---- rope_theta (CASES 1) ---------------------------------------------------------- */

Test(model_config, rope_theta_may_sit_in_rope_parameters)
{
    Env e;
    env_init(&e);
    const char *nested = "{\"rope_theta\": 500000, \"rope_type\": \"default\"}";
    Config c = config_of(&e, config_text("rope_theta", NULL, "rope_parameters", nested, NULL));
    cr_assert_eq(c.rope_theta, 500000);
    c = config_of(&e, config_text("rope_theta", "500000.0", "rope_parameters", nested, NULL));
    cr_assert_eq(c.rope_theta, 500000);
    env_release(&e);
}

Test(model_config, two_unequal_rope_thetas_are_refused_naming_both)
{
    REFUSED("\"rope_theta\" is 10000 but \"rope_parameters.rope_theta\" is 500000",
            "rope_parameters", "{\"rope_theta\": 500000}");
}

Test(model_config, a_rope_theta_is_never_assumed)
{
    REFUSED("\"rope_theta\" is missing", "rope_theta", NULL);
    REFUSED("\"rope_theta\" is missing", "rope_theta", NULL, "rope_parameters", "{}");
    REFUSED("\"rope_theta\" is 0, but must be a number above 0", "rope_theta", "0");
    REFUSED("\"rope_theta\" is \"1e6\", but must be a number", "rope_theta", "\"1e6\"");
    REFUSED("\"rope_theta\" is 1e+300, but must be a number above 0 that fits f32",
            "rope_theta", "1e300");
    REFUSED("\"rope_parameters.rope_theta\" is -1.0", "rope_parameters",
            "{\"rope_theta\": -1.0}");
}

/* ---- rope scaling (CASES 2) -------------------------------------------------------- */

Test(model_config, rope_scaling_is_refused_by_name)
{
    static const char *const types[] = {"yarn",    "llama3",   "linear",
                                        "dynamic", "longrope", "mrope"};
    static const char *const keys[] = {"type", "rope_type"};
    static const char *const fields[] = {"rope_scaling", "rope_parameters"};
    for (size_t i = 0; i < countof(types) * 4; i++) {
        char value[96], words[96];
        const char *type = types[i / 4], *field = fields[i % 2];
        snprintf(value, sizeof value, "{\"%s\": \"%s\", \"factor\": 4.0}", keys[i / 2 % 2],
                 type);
        snprintf(words, sizeof words, "\"%s\" asks for rope scaling by \"%s\": \"%s\"", field,
                 keys[i / 2 % 2], type);
        REFUSED(words, field, value);
    }
    REFUSED("\"rope_scaling\" has \"factor\"", "rope_scaling", "{\"factor\": 4.0}");
    REFUSED("\"rope_scaling\" is \"yarn\", but must be an object", "rope_scaling", "\"yarn\"");
    REFUSED("\"rope_parameters\" has \"full_attention\"", "rope_parameters",
            "{\"full_attention\": {\"rope_theta\": 1}}");
}

Test(model_config, no_rope_scaling_loads)
{
    static const char *const plain[] = {"null", "{}", "{\"type\": \"default\"}",
                                        "{\"rope_type\": \"default\", \"factor\": 1.0}",
                                        "{\"type\": null, \"rope_theta\": 10000}"};
    Env e;
    env_init(&e);
    for (size_t i = 0; i < countof(plain); i++) {
        cr_assert_eq(config_of(&e, config_text("rope_scaling", plain[i], NULL)).rope_theta,
                     10000);
    }
    env_release(&e);
}

/* ---- sliding window (CASES 3) ------------------------------------------------------ */

Test(model_config, a_sliding_window_in_use_is_refused)
{
    REFUSED("\"use_sliding_window\" is true and \"max_window_layers\" 1: layers 1 to 1",
            "use_sliding_window", "true", "max_window_layers", "1", "sliding_window", "32768");
    REFUSED("\"max_window_layers\" is missing", "use_sliding_window", "true");
    REFUSED("\"layer_types\" says \"sliding_attention\" of layer 1", "layer_types",
            "[\"full_attention\", \"sliding_attention\"]");
    REFUSED("\"layer_types\" is a list of 1, but must be a list of 2 names", "layer_types",
            "[\"full_attention\"]");
    REFUSED("\"use_sliding_window\" is 1, but must be true or false", "use_sliding_window",
            "1");
}

Test(model_config, a_sliding_window_not_in_use_loads)
{
    Env e;
    env_init(&e);
    config_of(&e, config_text("use_sliding_window", "false", "max_window_layers", "0",
                              "sliding_window", "8", NULL));
    config_of(&e, config_text("use_sliding_window", "true", "max_window_layers", "2",
                              "sliding_window", "8", NULL));
    config_of(&e, config_text("layer_types", "[\"full_attention\", \"full_attention\"]", NULL));
    env_release(&e);
}

/* ---- kinds of models --------------------------------------------------------------- */

Test(model_config, other_architectures_are_refused_by_name)
{
    REFUSED("\"architectures\" is \"GPT2LMHeadModel\"; supported are", "architectures",
            "[\"GPT2LMHeadModel\"]");
    REFUSED("\"architectures\" is a list of 2", "architectures",
            "[\"Qwen2ForCausalLM\", \"LlamaForCausalLM\"]");
    REFUSED("\"architectures\" is \"Qwen2ForCausalLM\", but must be a list", "architectures",
            "\"Qwen2ForCausalLM\"");
    REFUSED("\"architectures\" is \"Qwen2ForCausalLM\\u0000\"", "architectures",
            "[\"Qwen2ForCausalLM\\u0000\"]");
    REFUSED("\"model_type\" is \"llama\", but \"architectures\" says", "model_type",
            "\"llama\"");
}

Test(model_config, what_the_graph_cannot_express_is_refused_by_name)
{
    REFUSED("\"hidden_act\" is \"gelu\"; only \"silu\"", "hidden_act", "\"gelu\"");
    REFUSED("\"mlp_bias\" is true", "mlp_bias", "true");
    REFUSED("\"attention_bias\" is false, which is not supported for qwen2", "attention_bias",
            "false");
    REFUSED("\"quantization_config\" is present", "quantization_config", "{\"bits\": 4}");
    REFUSED("\"partial_rotary_factor\" is 0.5; only 1", "partial_rotary_factor", "0.5");
}

#define LLAMA "architectures", "[\"LlamaForCausalLM\"]", "model_type", "\"llama\""

Test(model_config, llama_has_no_biases_and_its_head_is_its_own_by_default)
{
    Env e;
    env_init(&e);
    Config c = config_of(&e, config_text(LLAMA, "tie_word_embeddings", NULL, NULL));
    cr_assert_eq(c.arch, ARCH_LLAMA);
    cr_assert_not(c.tied);
    cr_assert_not(config_has(&c, W_Q_BIAS));
    cr_assert(config_has(&c, W_HEAD));
    int n;
    config_tensors(&e, &c, &n);
    cr_assert_eq(n, 2 + 2 * 9 + 1);
    env_release(&e);
    REFUSED("\"attention_bias\" is true, which is not supported for llama", LLAMA,
            "attention_bias", "true");
    REFUSED("\"mlp_bias\" is true", LLAMA, "mlp_bias", "true");
}

Test(model_config, an_absent_tie_means_untied_for_qwen2)
{
    Env e;
    env_init(&e);
    cr_assert_not(config_of(&e, config_text("tie_word_embeddings", NULL, NULL)).tied);
    env_release(&e);
    REFUSED("\"tie_word_embeddings\" is \"yes\", but must be true or false",
            "tie_word_embeddings", "\"yes\"");
}

Test(model_config, stop_tokens_are_none_one_or_a_list)
{
    Env e;
    env_init(&e);
    cr_assert_eq(config_of(&e, config_text("eos_token_id", NULL, NULL)).n_eos, 0);
    Config c =
        config_of(&e, config_text("eos_token_id", "[5, 7]", "bos_token_id", "null", NULL));
    cr_assert_eq(c.n_eos, 2);
    cr_assert_eq(c.eos[1], 7);
    cr_assert_eq(c.bos, -1);
    env_release(&e);
    REFUSED("\"eos_token_id\" is -1", "eos_token_id", "[5, -1]");
    REFUSED("\"eos_token_id\" is 2.5", "eos_token_id", "2.5");
    REFUSED("\"bos_token_id\" is \"<s>\"", "bos_token_id", "\"<s>\"");
}

/* ---- hostile text ------------------------------------------------------------------ */

Test(model_config, deep_nesting_is_refused_naming_the_field)
{
    enum { DEPTH = 20000 };
    static char value[2 * DEPTH + 1];
    memset(value, '[', DEPTH);
    memset(value + DEPTH, ']', DEPTH);
    REFUSED("\"hidden_size\" nests deeper than 128 levels", "hidden_size", value);
}

Test(model_config, broken_json_is_refused_with_its_place)
{
    config_refused("{\"vocab_size\": 1, \"vocab_size\": 2}", "duplicate object key");
    config_refused("{} {}", "config.json:1:4: not JSON, in ");
    config_refused("[1]", "the top value is not an object");
    config_refused("", "not JSON");
    config_refused("{\"a\": \"\\ud800\"}", "not JSON");
    config_refused("{\"a\": \"\xff\"}", "not JSON");
}

static void parse_nul(Env *e, void *arg)
{
    (void)arg;
    static const char text[] = "{\"a\": 1\0}";
    config_parse(e, text, sizeof text - 1, "config.json");
}

Test(model_config, a_nul_byte_is_refused)
{
    Env e;
    env_init(&e);
    must_fail(&e, parse_nul, NULL, E_SYNTAX, "config.json: byte 7 is NUL");
    env_release(&e);
}

Test(model_config, names_of_a_megabyte_are_cut_in_the_sentence)
{
    enum { LONG = 1 << 20 };
    char *text = malloc(LONG + 64);
    int n = sprintf(text, "{\"architectures\": [\"");
    memset(text + n, 'x', LONG);
    strcpy(text + n + LONG, "\"]}");
    config_refused(text, "xxx\"... (1048576 bytes)");
    free(text);
}

/* ---- sizes of published models ----------------------------------------------------- */

typedef struct Published {
    const char *hidden, *inter, *layers, *heads, *kv, *vocab, *tied;
    int n_tensors;
    int64_t n_parameters;
} Published;

/* clang-format off */
static const Published published[] = {
    {"896", "4864", "24", "14", "2", "151936", "true", 290, 494032768},
    {"1536", "8960", "28", "12", "2", "151936", "true", 338, 1543714304},
    {"2048", "11008", "36", "16", "2", "151936", "true", 434, 3085938688},
    {"3584", "18944", "28", "28", "4", "152064", "false", 339, 7615616512},
    {"5120", "13824", "48", "40", "8", "152064", "false", 579, 14770033664},
    {"5120", "27648", "64", "40", "8", "152064", "false", 771, 32763876352},
    {"8192", "29568", "80", "64", "8", "152064", "false", 963, 72706203648},
};
/* clang-format on */

Test(model_config, parameters_of_all_sizes_are_the_published_ones)
{
    for (size_t i = 0; i < countof(published); i++) {
        const Published *p = &published[i];
        Env e;
        env_init(&e);
        Config c =
            config_of(&e, config_text("hidden_size", p->hidden, "intermediate_size", p->inter,
                                      "num_hidden_layers", p->layers, "num_attention_heads",
                                      p->heads, "num_key_value_heads", p->kv, "vocab_size",
                                      p->vocab, "tie_word_embeddings", p->tied, NULL));
        int n;
        TensorSpec *t = config_tensors(&e, &c, &n);
        int64_t sum = 0;
        for (int k = 0; k < n; k++) {
            sum += tensor_spec_count(&t[k]);
        }
        cr_assert_eq(n, p->n_tensors);
        cr_assert_eq(sum, p->n_parameters);
        cr_assert_eq(config_parameters(&c), p->n_parameters);
        env_release(&e);
    }
}
