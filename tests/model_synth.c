/* model_synth.c - synthetic models: the same bytes for the same seed, finite activations. */
#include "tests/fault.h"
#include "tests/model_util.h"

#include <errno.h>
#include <math.h>
#include <string.h>

typedef struct Synth {
    const char *config, *dir;
    uint64_t seed;
    int n_threads;
} Synth;

static void synth_body(Env *e, void *arg)
{
    const Synth *s = arg;
    synth_write(e, s->config, s->dir, s->seed, s->n_threads, NULL, NULL);
}

static Hash model_hash(const char *dir)
{
    Env e;
    env_init(&e);
    char *text, path[PATH_MAX];
    size_t len;
    Err err;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    cr_assert(os_read_file(&e.model, path, 1u << 30, &text, &len, &err), "%s", err.text);
    Hash h = hash_bytes(text, len);
    env_release(&e);
    return h;
}

static Hash written(const char *config, const char *dir, uint64_t seed, int n_threads)
{
    Env e;
    env_init(&e);
    Synth s = {config, dir, seed, n_threads};
    must_work(&e, synth_body, &s);
    env_release(&e);
    return model_hash(dir);
}

Test(model_synth, bytes_depend_on_the_seed_and_not_on_the_threads)
{
    TempDir d = temp_dir();
    const char *config = "tests/data/tiny-qwen2";
    Hash one = written(config, temp_path(&d, "a"), 7, 1);
    cr_assert(hash_eq(one, written(config, temp_path(&d, "b"), 7, 3)));
    cr_assert_not(hash_eq(one, written(config, temp_path(&d, "c"), 8, 1)));
    temp_remove(&d);
}

Test(model_synth, the_folder_has_the_configs_and_the_tokenizer_and_nothing_else)
{
    TempDir d = temp_dir();
    const char *dir = temp_path(&d, "deep/er");
    Env e;
    env_init(&e);
    written("tests/data/tiny-qwen2/config.json", dir, 1, 2);
    cr_assert_eq(folder_entries(dir), 5);
    cr_assert_str_eq(read_text(&e, temp_path(&d, "deep/er/config.json")),
                     read_text(&e, "tests/data/tiny-qwen2/config.json"));
    cr_assert_str_eq(read_text(&e, temp_path(&d, "deep/er/tokenizer.json")),
                     read_text(&e, "tests/data/tiny-qwen2/tokenizer.json"));
    env_release(&e);
    temp_remove(&d);
}

typedef struct Loaded {
    const char *dir;
    Config c;
    Weights w;
    Tensor out[3];
} Loaded;

static void run_body(Env *e, void *arg)
{
    Loaded *l = arg;
    l->c = config_read(e, l->dir);
    weights_load(e, &l->w, &l->c, l->dir, 2, NULL, NULL);
    Graph *g = qwen2_build(e, &l->c, -1, false);
    int64_t ids[] = {3, 1, 4, 1, 5, 9, 2, 6}, n_ids = countof(ids);
    Tensor cache = {DT_F32, 4, {l->c.n_layers, l->c.n_kv_heads, 0, l->c.head_dim}, ids};
    NamedTensor input[] = {
        {"token_ids", {DT_I64, 1, {n_ids}, ids}}, {"past_keys", cache}, {"past_values", cache}};
    Args args = {input, 3, l->w.tensor, l->w.n};
    Err err;
    if (!graph_interpret(g, &args, NULL, &e->model, l->out, &err)) {
        fail_err(e, &err);
    }
}

/* The model of a config runs, and its logits are finite and neither dead nor huge. */
static void assert_sane_logits(const char *config, const char *dir)
{
    Env e;
    env_init(&e);
    written(config, dir, 3, 2);
    Loaded l = {.dir = dir};
    must_work(&e, run_body, &l);
    double sum = 0;
    int64_t n = tensor_count(&l.out[0]);
    for (int64_t i = 0; i < n; i++) {
        float v = ((float *)l.out[0].data)[i];
        cr_assert(isfinite(v));
        sum += (double)v * v;
    }
    double rms = sqrt(sum / (double)n);
    cr_assert(rms > 0.1 && rms < 10, "logits have a root mean square of %g", rms);
    weights_release(&l.w);
    env_release(&e);
}

Test(model_synth, activations_stay_finite)
{
    TempDir d = temp_dir();
    assert_sane_logits("tests/data/tiny-qwen2", temp_path(&d, "tiny"));
    write_text(temp_path(&d, "llama.json"),
               config_text("architectures", "[\"LlamaForCausalLM\"]", "model_type", "\"llama\"",
                           "tie_word_embeddings", "false", "head_dim", "8", "num_hidden_layers",
                           "6", NULL));
    assert_sane_logits(temp_path(&d, "llama.json"), temp_path(&d, "llama"));
    temp_remove(&d);
}

Test(model_synth, gains_are_one_and_matrices_are_scaled_by_their_width)
{
    TempDir d = temp_dir();
    const char *dir = temp_path(&d, "m");
    written("tests/data/tiny-qwen2", dir, 5, 2);
    Env e;
    env_init(&e);
    Checkpoint ck;
    checkpoint_open(&e, &ck, dir);
    Range gain =
        file_tensor_range(checkpoint_find(&ck, "model.layers.3.input_layernorm.weight"));
    cr_assert_eq(gain.min, 1);
    cr_assert_eq(gain.max, 1);
    Range down = file_tensor_range(checkpoint_find(&ck, "model.layers.0.mlp.down_proj.weight"));
    double sigma = 1 / sqrt(448);
    cr_assert(down.max > 3.5 * sigma && down.max < 6 * sigma, "%g", down.max);
    cr_assert(down.min < -3.5 * sigma && down.min > -6 * sigma, "%g", down.min);
    checkpoint_release(&ck);
    env_release(&e);
    temp_remove(&d);
}

/* ---- faults ------------------------------------------------------------------------ */

typedef struct Faulty {
    const char *config, *dir;
} Faulty;

/* Whatever fails, no half-written file stays under a name that a reader would open. */
static bool synth_once(void *ctx, Err *err)
{
    const Faulty *f = ctx;
    Env e;
    env_init(&e);
    Synth s = {f->config, f->dir, 1, 2};
    bool ok = env_try(&e, synth_body, &s);
    if (!ok) {
        *err = e.err;
    }
    env_release(&e);
    return ok;
}

Test(model_synth, a_full_disk_leaves_the_old_model)
{
    TempDir d = temp_dir();
    const char *dir = temp_path(&d, "m"), *config = "tests/data/tiny-qwen2";
    Hash before = written(config, dir, 9, 2);
    Faulty f = {config, dir};
    Err err;
    fault_arm("write", 6, true, ENOSPC); /* four small files, then the model */
    cr_assert_not(synth_once(&f, &err));
    fault_disarm();
    cr_assert(strstr(err.text, "No space left"), "%s", err.text);
    cr_assert(hash_eq(before, model_hash(dir)));
    cr_assert_eq(folder_entries(dir), 5);
    temp_remove(&d);
}

Test(model_synth, a_call_that_fails_is_reported)
{
    static const char *const calls[] = {"open", "write", "fsync", "rename", "close"};
    TempDir d = temp_dir();
    write_text(temp_path(&d, "c/config.json"), config_text(NULL));
    Faulty f = {temp_path(&d, "c/config.json"), temp_path(&d, "m")};
    for (size_t i = 0; i < countof(calls); i++) {
        cr_assert_gt(fault_loop(calls[i], synth_once, &f), 0, "%s is not called", calls[i]);
    }
    temp_remove(&d);
}
