/* library_lengths.c - a prompt of any length gives the naive build's logits, whatever programs it goes through
 * and in which parts: up to 2048 tokens, with buckets that cut tiles in all ways. In `make test` at the
 * edges, with NC_FULL at every length. */
#include "schedules/schedules.h"
#include "tests/library_util.h"

#include <stdlib.h>
#include <string.h>

TestSuite(library_lengths, .timeout = 3000);

enum { LONGEST = 2048 };

static const Bucket bucket[] = {{4, 5}, {16, 20}, {48, 64}, {200, 300}};

static const int edges[] = {1,   2,   3,   4,   5,   6,    7,    15,   16,  17,
                            19,  20,  21,  31,  32,  33,   63,   64,   65,  127,
                            128, 129, 299, 300, 301, 302,  305,  306,  320, 321,
                            364, 365, 599, 600, 601, 1024, 1025, 2047, 2048};

static TestModel model;
static Picker defaults;
static TestLibrary naive, fast;

/* The small model with a longer context. */
static void long_model(const TempDir *d)
{
    Env e;
    size_t len;
    char *text, *at;
    Err err;
    static const char positions[] = "\"max_position_embeddings\": 512";
    env_init(&e);
    cr_assert(os_read_file(&e.model, TINY "/model.safetensors", 1 << 28, &text, &len, &err));
    cr_assert(os_write_file(temp_path(d, "model.safetensors"), text, len, &err));
    text = read_text(&e, TINY "/config.json");
    at = strstr(text, positions);
    cr_assert(at, "%s", text);
    write_text(temp_path(d, "config.json"),
               arena_printf(&e.model, "%.*s\"max_position_embeddings\": %d%s", (int)(at - text),
                            text, LONGEST, at + strlen(positions)));
    env_release(&e);
}

static void open_both(const TempDir *d)
{
    test_model_open(&model, d->path);
    defaults = picker_default();
    naive = (TestLibrary){.f32 = true, .context = LONGEST};
    fast = (TestLibrary){.picker = &defaults,
                         .panels = true,
                         .context = LONGEST,
                         .bucket = bucket,
                         .n_buckets = (int)countof(bucket)};
    library_open_test(&naive, &model);
    library_open_test(&fast, &model);
}

/* want: rows behind every token. */
static void same_logits(const int32_t *ids, int n, const float *want)
{
    int64_t v = model.c.vocab_size;
    fast.built.stepper.restart(&fast.built.stepper);
    const float *got = library_feed(&fast, ids, n, false);
    double d = worst_difference(got, want + (n - 1) * v, v);
    cr_assert_lt(d, 2e-4, "%d tokens: off by %g", n, d);
}

Test(library_lengths, every_length_gives_the_naive_logits)
{
    TempDir d = temp_dir();
    int32_t ids[LONGEST];
    long_model(&d);
    open_both(&d);
    for (int i = 0; i < LONGEST; i++) {
        ids[i] = (int32_t)(i * 7919 % model.c.vocab_size);
    }
    const float *want = library_feed(&naive, ids, LONGEST, true);
    if (getenv("NC_FULL")) {
        for (int n = 1; n <= LONGEST; n++) {
            same_logits(ids, n, want);
        }
    }
    for (size_t i = 0; i < countof(edges); i++) {
        same_logits(ids, edges[i], want);
    }
    built_model_close(&naive.built);
    built_model_close(&fast.built);
    test_model_close(&model);
    temp_remove(&d);
}
