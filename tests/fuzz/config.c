/* config.c - libFuzzer: config.json. Small models that are accepted must build, too. */
#include "model/model.h"

typedef struct Input {
    const char *at;
    size_t len;
} Input;

static void body(Env *e, void *arg)
{
    const Input *in = arg;
    Config c = config_parse(e, in->at, in->len, "fuzz.json");
    check(config_parameters(&c) > 0);
    check(c.n_heads % c.n_kv_heads == 0 && c.head_dim % 2 == 0);
    if (c.n_layers <= 4) {
        Graph *g = qwen2_build(e, &c, -1, true);
        int n;
        config_tensors(e, &c, &n);
        check(g->weights.n == n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    Env e;
    env_init(&e);
    env_try(&e, body, &(Input){(const char *)data, len});
    env_release(&e);
    return 0;
}
