/* decode.c - ids to text, at once or a token at a time.
 *
 * Tokens are bytes, and a character may be spread over several, so bytes are held until their
 * character is complete. A sequence that is broken becomes one U+FFFD for each maximal part
 * that could still have begun a character, as in the reference (and in browsers). Decoding at
 * once is the same machine fed to the end. spec: tokenizer 7 */
#include "model/text_int.h"

static const char replacement[] = "\xEF\xBF\xBD";

Decoder decoder_start(const Tokenizer *t, bool skip_special)
{
    return (Decoder){.tokenizer = t, .skip_special = skip_special};
}

/* A byte that begins a character. */
static void begin(Decoder *d, uint8_t byte, Buf *out)
{
    if (byte < 0x80) {
        buf_char(out, (char)byte);
        return;
    }
    if (byte < 0xC2 || byte > 0xF4) {
        buf_str(out, replacement);
        return;
    }
    d->held[0] = byte;
    d->n_held = 1;
    d->n_missing = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    d->low = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
    d->high = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
}

static void add_byte(Decoder *d, uint8_t byte, Buf *out)
{
    if (d->n_held == 0) {
        begin(d, byte, out);
        return;
    }
    if (byte < d->low || byte > d->high) {
        decoder_end(d, out);
        begin(d, byte, out);
        return;
    }
    d->held[d->n_held++] = byte;
    d->low = 0x80;
    d->high = 0xBF;
    if (--d->n_missing == 0) {
        buf_bytes(out, d->held, (size_t)d->n_held);
        d->n_held = 0;
    }
}

void decoder_add(Decoder *d, int32_t id, Buf *out)
{
    const Tokenizer *t = d->tokenizer;
    if (id < 0 || (t->vocab_size > 0 && id >= t->vocab_size)) {
        fail(t->env, E_INPUT, "The token id %d is not between 0 and %lld.", id,
             (long long)(t->vocab_size > 0 ? t->vocab_size - 1 : INT32_MAX));
    }
    if ((uint32_t)id >= t->vocab.n_ids || (d->skip_special && t->special[id])) {
        return;
    }
    Span token = t->vocab.token[id];
    for (size_t i = 0; i < token.len; i++) {
        add_byte(d, (uint8_t)token.at[i], out);
    }
}

void decoder_end(Decoder *d, Buf *out)
{
    if (d->n_held > 0) {
        buf_str(out, replacement);
        d->n_held = 0;
    }
}

void tokenizer_decode(const Tokenizer *t, const int32_t *ids, int n, bool skip_special,
                      Buf *out)
{
    Decoder d = decoder_start(t, skip_special);
    for (int i = 0; i < n; i++) {
        decoder_add(&d, ids[i], out);
    }
    decoder_end(&d, out);
}
