/* cli_score.c - perplexity, logits, dump weights, synth, and eval on a model folder, as
 * their user meets them. */
#include "tests/cli_live.h"
#include "tests/engine_util.h"
#include "tests/folder_fixture.h"
#include "tests/model_util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(cli_score, .init = start, .fini = stop, .timeout = 600);

static const char *in_dir(const char *name)
{
    return arena_printf(&env.model, "%s/%s", dir.path, name);
}

/* ---- perplexity ---------------------------------------------------------------------- */

Test(cli_score, perplexity_is_the_golden_one)
{
    Talked t = TALK(&env, NULL, "perplexity", "-m", TINY, "--text", TINY "/heldout.txt");
    double ppl = 0, nll = 0;
    cr_assert_eq(t.status, 0, "%s", t.told);
    cr_assert_eq(sscanf(t.said, "perplexity %lf mean NLL %lf", &ppl, &nll), 2, "%s", t.said);
    cr_expect_lt(fabs(ppl / 207.03560037677786 - 1), 1e-3);
    cr_expect_lt(fabs(nll / 5.332890760974586 - 1), 1e-3);
    says(t, "tokens 685, scored 679, chunks of 128: 6\n");
}

Test(cli_score, what_is_scored_can_be_said_in_three_ways)
{
    Talked a =
        TALK(&env, NULL, "perplexity", "-m", TINY, "-p", "The old woman opened the door and");
    Talked b =
        TALK(&env, NULL, "perplexity", "-m", TINY, "--ids", "337,660,1009,1511,259,775,270");
    says(a, "tokens 7, scored 6, chunks of 128: 1");
    cr_expect_str_eq(a.said, b.said);
    says(TALK(&env, NULL, "perplexity", "-m", TINY, "--text", TINY "/heldout.txt", "--tokens",
              "33", "--chunk", "8"),
         "tokens 33, scored 28, chunks of 8: 4");
}

Test(cli_score, what_cannot_be_scored_is_refused)
{
    declines(TALK(&env, NULL, "perplexity", "-m", TINY, "-p", ""), 1, "at least 2 tokens");
    declines(TALK(&env, NULL, "perplexity", "-m", TINY, "--ids", "5"), 1, "at least 2 tokens");
    declines(TALK(&env, NULL, "perplexity", "-m", TINY, "--ids", "5,x"), 1,
             "separated by commas, not '5,x'");
    declines(TALK(&env, NULL, "perplexity", "-m", TINY, "--ids", "5,2048"), 1,
             "outside the model's vocabulary");
    declines(TALK(&env, NULL, "perplexity", "-m", TINY, "--text", "no/such/file"), 1,
             "no/such/file");
    declines(TALK(&env, NULL, "perplexity", "-m", TINY, "--text", TINY "/heldout.txt",
                  "--chunk", "600"),
             1, "The context holds 512 tokens, too few for 600");
    declines(TALK(&env, NULL, "perplexity", "-m", TINY, "-p", "a", "--chunk", "1"), 2,
             "--chunk takes");
}

/* ---- logits -------------------------------------------------------------------------- */

Test(cli_score, logits_are_the_golden_ones_in_a_numpy_file)
{
    const char *out = in_dir("first.npy");
    Talked t = TALK(&env, NULL, "logits", "-m", TINY, "-p", "The old woman opened the door and",
                    "-o", out);
    says(t, "first.npy: f32[7, 2048]\n");
    Tensor logits = npy_read(&env, &env.model, out);
    cr_assert_eq(logits.rank, 2);
    cr_assert_eq(logits.dim[0], 7);
    double d = worst_difference(logits.data, golden_floats(&env, TINY), 7 * 2048);
    cr_expect_lt(d, 2e-4, "off by %g", d);
}

Test(cli_score, ids_need_no_tokenizer)
{
    char folder[PATH_MAX];
    need_shared("data/stories260K/qwen2-f32", folder);
    const char *out = in_dir("stories.npy");
    says(TALK(&env, NULL, "logits", "-m", folder, "--ids", "1,403,407,261", "-o", out),
         "f32[4, 512]");
    Tensor logits = npy_read(&env, &env.model, out);
    cr_expect_lt(worst_difference(logits.data, golden_floats(&env, folder), 4 * 512), 1e-3);
    declines(TALK(&env, NULL, "logits", "-m", folder, "-p", "Once", "-o", out), 1,
             "tokenizer.json");
}

Test(cli_score, logits_that_cannot_be_made_or_written_are_refused)
{
    declines(TALK(&env, NULL, "logits", "-m", TINY, "--ids", "1,-2"), 1,
             "--ids takes token ids");
    declines(TALK(&env, NULL, "logits", "-m", TINY, "--ids", ""), 1, "no tokens to feed");
    declines(TALK(&env, NULL, "logits", "-m", TINY, "--ids", "2048", "-o", in_dir("x")), 1,
             "Token 2048 is outside");
    declines(TALK(&env, NULL, "logits", "-m", TINY, "--ids", "1", "-o", in_dir("no/x")), 1,
             "no/x");
    declines(TALK(&env, NULL, "logits", "-m", TINY, "--text", TINY "/heldout.txt"), 1,
             "too few for 685");
}

/* ---- dump weights -------------------------------------------------------------------- */

Test(cli_score, dump_weights_lists_a_folder_with_ranges)
{
    Talked t = TALK(&env, NULL, "dump", "weights", TINY);
    says(t, "50 tensors, 4249792 bytes, in 1 file.\n");
    says(t, "model.embed_tokens.weight");
    says(t, "[2048, 224]");
    cr_expect_str_eq(t.told, "");
    t = TALK(&env, NULL, "dump", "weights", TINY "/model.safetensors", "--format", "csv");
    says(t, "tensor,dtype,shape,bytes,min,max,nan,inf,file\n");
    says(t, "model.norm.weight,BF16,[224],448,1.0703125,1.5078125,0,0,model.safetensors\n");
    says(TALK(&env, NULL, "dump", "weights", TINY, "--format", "md"), "| model.norm.weight ");
}

Test(cli_score, dump_weights_counts_what_is_no_number)
{
    static const float data[] = {1.5f, -2, NAN, INFINITY, -INFINITY, NAN};
    write_tensors(in_dir("n.safetensors"),
                  "{\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]},"
                  "\"b\":{\"dtype\":\"F8_E4M3\",\"shape\":[0],\"data_offsets\":[24,24]}} ",
                  data, sizeof data);
    Talked t = TALK(&env, NULL, "dump", "weights", in_dir("n.safetensors"), "--format", "json");
    says(t, "{\"tensor\": \"a\", \"dtype\": \"F32\", \"shape\": \"[6]\", \"bytes\": 24, "
            "\"min\": -2, \"max\": 1.5, "
            "\"nan\": 2, \"inf\": 2, \"file\": \"n.safetensors\"}");
    says(t, "\"min\": null, \"max\": null, \"nan\": null, \"inf\": null");
    json_t *parsed = json_loads(t.said, 0, NULL);
    cr_expect_eq(json_array_size(json_object_get(parsed, "tensors")), 2);
    json_decref(parsed);
}

Test(cli_score, dump_weights_reads_shards_through_their_index)
{
    static const float one[] = {1}, two[] = {2, 3};
    write_text(in_dir("s/model.safetensors.index.json"),
               "{\"weight_map\": {\"x\": \"a.safetensors\", \"y\": \"b.safetensors\"}}");
    write_tensors(in_dir("s/a.safetensors"),
                  "{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", one,
                  sizeof one);
    write_tensors(in_dir("s/b.safetensors"),
                  "{\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", two,
                  sizeof two);
    Talked t = TALK(&env, NULL, "dump", "weights", in_dir("s"));
    says(t, "2 tensors, 12 bytes, in 2 files.\n");
    says(t, "b.safetensors\n");
    cr_assert_eq(unlink(in_dir("s/b.safetensors")), 0);
    declines(TALK(&env, NULL, "dump", "weights", in_dir("s")), 1,
             "\"b.safetensors\" of \"y\" is a missing shard");
}

Test(cli_score, dump_weights_of_a_folder_that_does_not_fit_lists_every_difference)
{
    static const float data[4] = {0};
    write_text(in_dir("w/config.json"), config_text(NULL));
    write_tensors(
        in_dir("w/model.safetensors"),
        "{\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"other\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
        data, sizeof data);
    Talked t = TALK(&env, NULL, "dump", "weights", in_dir("w"));
    cr_expect_eq(t.status, 1);
    cr_expect(strstr(t.said, "2 tensors, 16 bytes"), "%s", t.said);
    static const char *const words[] = {
        "misshapen: \"model.norm.weight\" F32[2], expected F32, F16 or BF16 [16]\n",
        "unexpected: \"other\" F32[2]\n",
        "missing: model.layers.1.mlp.down_proj.weight [16, 32]\n", "does not fit",
        "27 tensors differ, as listed.\n"};
    for (size_t i = 0; i < countof(words); i++) {
        cr_expect(strstr(t.told, words[i]), "no '%s' in: %s", words[i], t.told);
    }
}

Test(cli_score, dump_weights_needs_something_to_show)
{
    declines(TALK(&env, NULL, "dump", "weights"), 2, "say of which model");
    declines(TALK(&env, NULL, "dump", "weights", "no/such"), 1, "no/such: No such file");
    declines(TALK(&env, NULL, "dump", "weights", dir.path), 1,
             "holds neither model.safetensors nor");
    declines(TALK(&env, NULL, "dump", "weights", TINY "/heldout.txt"), 1, "heldout.txt");
}

/* Verdicts as the manifest has them; model_safetensors.c has the words that name each cause. */
Test(cli_score, every_hostile_file_is_listed_or_refused_in_one_sentence)
{
    json_t *list = json_load_file("tests/data/hostile/MANIFEST.json", 0, NULL), *one;
    size_t i;
    json_array_foreach (list, i, one) {
        const char *file = json_string_value(json_object_get(one, "file"));
        const char *expect = json_string_value(json_object_get(one, "expect"));
        const char *path = arena_printf(&env.model, "tests/data/hostile/%s", file);
        Talked t = TALK(&env, NULL, "dump", "weights", path);
        bool either = !strcmp(expect, "either"), accept = !strncmp(expect, "accept", 6);
        if (accept || (either && t.status == 0)) {
            says(t, " in 1 file.\n");
        } else {
            declines(t, 1, path);
        }
    }
    cr_expect_eq(i, 55);
    json_decref(list);
}

/* ---- synth, and eval on what it wrote ------------------------------------------------ */

Test(cli_score, synth_writes_a_model_that_runs_and_is_the_same_for_the_same_seed)
{
    const char *a = in_dir("a"), *b = in_dir("deep/b"), *c = in_dir("c");
    says(TALK(&env, NULL, "synth", TINY, a), "a: 2124896 parameters, seed 1\n");
    says(TALK(&env, NULL, "synth", TINY "/config.json", b, "--seed", "1"),
         "2124896 parameters");
    says(TALK(&env, NULL, "synth", TINY, c, "--seed", "18446744073709551615"),
         "seed 18446744073709551615");
    Talked run = TALK(&env, NULL, "run", "-m", a, "Hello", "--max-tokens", "8");
    cr_assert_eq(run.status, 0, "%s", run.told);
    cr_expect_str_eq(run.said,
                     TALK(&env, NULL, "run", "-m", b, "Hello", "--max-tokens", "8").said);
    cr_expect_str_neq(run.said,
                      TALK(&env, NULL, "run", "-m", c, "Hello", "--max-tokens", "8").said);
}

Test(cli_score, synth_refuses_what_it_cannot_read_or_write)
{
    declines(TALK(&env, NULL, "synth", "no/such", in_dir("x")), 1, "no/such");
    write_text(in_dir("file"), "x");
    declines(TALK(&env, NULL, "synth", TINY, in_dir("file/x")), 1, "file");
}

Test(cli_score, eval_uses_a_folder_s_own_weights)
{
    Talked real = TALK(&env, NULL, "eval", TINY, "--seq", "3");
    Talked seeded = TALK(&env, NULL, "eval", TINY "/config.json", "--seq", "3");
    says(real, "logits: f32[1, 2048] hash ");
    says(seeded, "logits: f32[1, 2048] hash ");
    cr_expect_str_neq(real.said, seeded.said);
    says(TALK(&env, NULL, "eval", TINY, "--seq", "3", "--past", "5", "--compare", "c,nest"),
         "same bits");
    says(TALK(&env, NULL, "eval", TINY, "--layers", "2"), "keys: f32[2, 2, 1, 16]");
    Tensor keys, values; /* what it computes is what the model computes */
    const char *out = in_dir("eval");
    int64_t ids[] = {337, 660};
    Err err;
    Tensor t = {DT_I64, 1, {2}, ids};
    cr_assert(npy_write(in_dir("ids.npy"), t, &err), "%s", err.text);
    says(TALK(&env, NULL, "eval", TINY, "--seq", "2", "--logits", "all", "--input",
              arena_printf(&env.model, "token_ids=%s", in_dir("ids.npy")), "--out", out),
         "");
    t = npy_read(&env, &env.model, arena_printf(&env.model, "%s/logits.npy", out));
    cr_expect_lt(worst_difference(t.data, golden_floats(&env, TINY), 2 * 2048), 2e-4);
    keys = npy_read(&env, &env.model, arena_printf(&env.model, "%s/keys.npy", out));
    values = npy_read(&env, &env.model, arena_printf(&env.model, "%s/values.npy", out));
    cr_expect_eq(keys.dim[2], 2);
    cr_expect_eq(values.dim[3], 16);
}

Test(cli_score, eval_names_what_is_wrong_with_a_folder_s_weights)
{
    write_text(in_dir("e/config.json"), config_text(NULL));
    says(TALK(&env, NULL, "eval", in_dir("e")), "logits: f32[1, 64] hash ");
    write_text(in_dir("e/model.safetensors"), "short");
    declines(TALK(&env, NULL, "eval", in_dir("e")), 1, "model.safetensors");
}
