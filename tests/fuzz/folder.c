/* folder.c - libFuzzer: the small files of a model folder, which are as untrusted as the big
 * ones: the index of shards, generation_config.json, and tokenizer_config.json with its
 * template. The same bytes are given as each. Beside them lie two shards and a tokenizer, so
 * that what is right goes all the way. */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#define TINY "tests/data/tiny-qwen2/"

static const char *const names[] = {"model.safetensors.index.json", "generation_config.json",
                                    "tokenizer_config.json"};

typedef struct Folder {
    Env env; /* the tokenizer's */
    char path[32];
    Tokenizer *tokenizer;
    Config config;
} Folder;

static void must(bool ok, const char *what)
{
    if (!ok) {
        die("%s", what);
    }
}

static const char *in_folder(Env *e, const Folder *f, const char *name)
{
    return arena_printf(&e->kernel, "%s/%s", f->path, name);
}

/* Plainly: os_write_file would wait for the disk each time. */
static void write_bytes(const char *path, const void *p, size_t len)
{
    FILE *file = fopen(path, "wb");
    must(file && fwrite(p, 1, len, file) == len && fclose(file) == 0, path);
}

static void write_shard(Env *e, const Folder *f, const char *name, const char *tensor)
{
    Buf b;
    char length[8] = {0};
    buf_init(&b, &e->kernel);
    buf_bytes(&b, length, sizeof length);
    buf_printf(&b, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", tensor);
    b.at[0] = (char)(b.len - sizeof length);
    buf_bytes(&b, "\0\0\200\77", 4);
    write_bytes(in_folder(e, f, name), b.at, b.len);
}

static void open_folder(Env *e, void *arg)
{
    Folder *f = arg;
    strcpy(f->path, "/tmp/nc-fuzz-XXXXXX");
    must(os.mkdtemp(f->path), "a folder in /tmp cannot be made");
    write_shard(e, f, "a.safetensors", "a");
    write_shard(e, f, "b.safetensors", "b");
    f->config = config_read(e, TINY);
    f->tokenizer = tokenizer_load(e, TINY, f->config.vocab_size);
}

static void read_index(Env *e, void *arg)
{
    Checkpoint c;
    const Folder *f = arg;
    checkpoint_open(e, &c, f->path);
    check(c.tensors.n <= 2);
    checkpoint_release(&c);
}

static void read_generation(Env *e, void *arg)
{
    const Folder *f = arg;
    Generation g = generation_read(e, f->path);
    sampling_check(e, &g.sampling);
    Stops s = stops_read(e, f->path, &f->config, &g, f->tokenizer);
    for (int i = 0; i < s.n; i++) {
        check(s.id[i] >= 0 && s.id[i] < f->config.vocab_size);
    }
}

static void read_template(Env *e, void *arg)
{
    const Folder *f = arg;
    Chat chat;
    Err why;
    Ids ids = {.arena = &e->kernel};
    if (chat_open(e, f->path, f->tokenizer, &chat, &why)) {
        chat_begin(e, &chat, NULL, false, &ids);
        check(ids.n >= 4);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static void (*const readers[])(Env * e, void *arg) = {read_index, read_generation,
                                                          read_template};
    static Folder f; /* made once; libFuzzer has no end to tidy up at */
    Env e;
    if (!f.tokenizer) {
        env_init(&f.env);
        must(env_try(&f.env, open_folder, &f), f.env.err.text);
    }
    env_init(&e);
    for (size_t i = 0; i < countof(names); i++) {
        write_bytes(in_folder(&e, &f, names[i]), data, len);
    }
    for (size_t i = 0; i < countof(readers); i++) {
        env_try(&e, readers[i], &f);
    }
    env_release(&e);
    return 0;
}
