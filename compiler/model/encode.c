/* encode.c - text to ids: added tokens, NFC, pieces, merges, in that order.
 *
 * Added tokens are found on the raw text, and each part between two of them is normalized and
 * split alone. Text that is not UTF-8 is refused, not repaired: the reference takes none, and a
 * prompt that is silently another one helps nobody. Needs: a loaded tokenizer. */
#include "model/text_int.h"

static void encode_plain(Tokenizer *t, Span text, Ids *out)
{
    Span normal = t->normalizes ? nfc(&t->nfc, text) : text, piece;
    for (size_t at = 0; splitter_next(t->splitter, normal.at, normal.len, &at, &piece);) {
        bpe_encode(&t->bpe, piece.at, piece.len, out);
    }
}

void tokenizer_encode(Tokenizer *t, const char *text, size_t len, bool parse_special, Ids *out)
{
    enum { MOST = 1 << 30 }; /* positions in a piece are 32 bits wide */
    if (len > MOST) {
        fail(t->env, E_INPUT, "The text has %zu bytes; at most %d can be tokenized at once.",
             len, MOST);
    }
    size_t valid = utf8_valid(text, len);
    if (valid < len) {
        fail(t->env, E_INPUT, "The text is not UTF-8: byte 0x%02X at offset %zu.",
             (uint8_t)text[valid], valid);
    }
    size_t from = 0, at = 0;
    const AddedToken *added;
    while (parse_special && (added = added_find(&t->added, text, len, from, &at))) {
        encode_plain(t, (Span){text + from, at - from}, out);
        *vec_push(out->arena, out) = added->id;
        from = at + added->content.len;
    }
    encode_plain(t, (Span){text + from, len - from}, out);
}
