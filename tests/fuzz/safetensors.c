/* safetensors.c - libFuzzer: the header of a safetensors file, as untrusted as it comes. */
#include "model/model.h"

typedef struct Input {
    const uint8_t *at;
    size_t len;
} Input;

/* What was accepted must tile the data and lie within it. */
static void body(Env *e, void *arg)
{
    const Input *in = arg;
    FileTensors list;
    safetensors_parse(e, in->at, in->len, "fuzz.safetensors", &list);
    uint64_t at = 0;
    for (int i = 0; i < list.n; i++) {
        const FileTensor *t = &list.at[i];
        check(t->begin == at && t->end >= t->begin);
        check(t->data + (t->end - t->begin) <= in->at + in->len);
        check(file_tensor_count(t) >= 0);
        Buf b;
        buf_init(&b, &e->kernel);
        file_tensor_print(e, t, &b);
        at = t->end;
    }
    check(list.n == 0 || list.at[0].data + at == in->at + in->len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    Env e;
    env_init(&e);
    env_try(&e, body, &(Input){data, len});
    env_release(&e);
    return 0;
}
