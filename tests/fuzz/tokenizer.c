/* tokenizer.c (fuzz) - an input that begins with "{" is a tokenizer.json: it is refused with a
 * sentence, or loads and encodes. Anything else is text for the small model's tokenizer: it is
 * refused where it is not UTF-8, else it decodes to its normal form, and has no control token.
 * Run from the project's folder. Seeds: tests/data/tiny-qwen2/tokenizer.json, any text. */
#include "base/base.h"
#include "model/model.h"
#include "model/text_int.h"

#include <stdlib.h>
#include <string.h>

static void require(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

typedef struct Input {
    const char *text;
    size_t len;
    Tokenizer *t;
} Input;

static void load(Env *e, void *arg)
{
    Input *in = arg;
    in->t = tokenizer_parse(e, in->text, in->len, "fuzz.json", 0);
}

static void load_small(Env *e, void *arg)
{
    Input *in = arg;
    in->t = tokenizer_load(e, "tests/data/tiny-qwen2/tokenizer.json", 0);
}

static void encode_any(Env *e, void *arg)
{
    static const char text[] =
        "It's <|im_end|> 12 \xC3\xA9t\xC3\xA9 e\xCC\x81 \xF0\x9F\xA6\x99\n\n  x";
    Input *in = arg;
    Ids ids = {.arena = &e->kernel};
    tokenizer_encode(in->t, text, strlen(text), true, &ids);
    tokenizer_encode(in->t, text, strlen(text), false, &ids);
    Buf b;
    buf_init(&b, &e->kernel);
    tokenizer_decode(in->t, ids.at, ids.n, true, &b);
}

static void encode_text(Env *e, void *arg)
{
    Input *in = arg;
    Ids plain = {.arena = &e->kernel}, parsed = {.arena = &e->kernel};
    tokenizer_encode(in->t, in->text, in->len, false, &plain);
    tokenizer_encode(in->t, in->text, in->len, true, &parsed);
    for (int i = 0; i < plain.n; i++) {
        require(!in->t->special[plain.at[i]], "plain text became a control token");
    }
    Nfc f;
    nfc_init(&f, &e->kernel);
    Span normal = nfc(&f, (Span){in->text, in->len});
    Buf b;
    buf_init(&b, &e->kernel);
    tokenizer_decode(in->t, plain.at, plain.n, false, &b);
    require(b.len == normal.len && memcmp(b.at, normal.at, b.len) == 0,
            "decoding does not give the normal form back");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Env e;
    env_init(&e);
    bool is_file = size > 0 && data[0] == '{';
    Input in = {.text = arena_strn(&e.model, (const char *)data, size), .len = size};
    if (env_try(&e, is_file ? load : load_small, &in)) {
        bool ok = env_try(&e, is_file ? encode_any : encode_text, &in);
        require(ok || e.err.text[0], "a failure without a sentence");
    } else {
        require(is_file && e.err.text[0], e.err.text);
    }
    tokenizer_release(in.t);
    env_release(&e);
    return 0;
}
