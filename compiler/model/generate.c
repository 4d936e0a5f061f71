/* generate.c - text from a model, one token at a time, and its perplexity on a text. Knows a model only as
 * a Stepper, so that the interpreter, compiled C and a test's closed form are all driven alike.
 * spec: int8 7 (perplexity), tokenizer 10 (order of sampling) */
#include <math.h>

#include "model/model.h"

static int32_t argmax(const float *logits, int64_t n)
{
    int32_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? (int32_t)i : best;
    }
    return best;
}

bool generate(const Generate *g, Stepper *s, const int32_t *prompt, int n_prompt, Generated *out, Err *err)
{
    const int32_t *feed = prompt;
    int n_feed = n_prompt;
    *out = (Generated){.end = END_LENGTH, .last = -1};
    if (n_prompt < 1) {
        return err_set(err, E_INPUT, "The prompt is empty: there is nothing to continue.");
    }
    while (out->n < g->max_tokens) {
        const float *logits;
        if (s->max_positions && s->n_fed + n_feed > s->max_positions) {
            out->end = END_CONTEXT;
            break;
        }
        if (!s->feed(s, feed, n_feed, false, &logits, err)) {
            return false;
        }
        out->last = g->sampler ? sampler_next(g->sampler, logits) : argmax(logits, s->n_vocab);
        if (g->stops && stops_has(g->stops, out->last)) {
            out->end = END_STOP;
            break;
        }
        out->n++;
        if ((g->token && !g->token(g->ctx, out->last)) || (g->interrupted && *g->interrupted)) {
            out->end = END_INTERRUPTED;
            break;
        }
        feed = &out->last;
        n_feed = 1;
    }
    return true;
}

/* -log softmax(row)[id], in f64. */
static double nll_of(const float *row, int64_t n_vocab, int32_t id)
{
    double max = row[0], sum = 0;
    for (int64_t i = 1; i < n_vocab; i++) {
        max = row[i] > max ? row[i] : max;
    }
    for (int64_t i = 0; i < n_vocab; i++) {
        sum += exp((double)row[i] - max);
    }
    return log(sum) - ((double)row[id] - max);
}

bool perplexity(Stepper *s, const int32_t *ids, int n, int chunk, Perplexity *out, Err *err)
{
    double total = 0;
    *out = (Perplexity){0};
    if (chunk < 2 || n < 2) {
        return err_set(err, E_INPUT, "Perplexity needs at least 2 tokens and chunks of at least 2: not %d in chunks of %d.",
                       n, chunk);
    }
    for (int at = 0; n - at >= 2; at += chunk) { /* a last chunk of one token scores nothing */
        int len = n - at < chunk ? n - at : chunk;
        const float *logits;
        s->restart(s);
        if (!s->feed(s, ids + at, len, true, &logits, err)) {
            return false;
        }
        for (int i = 0; i + 1 < len; i++) {
            total += nll_of(logits + i * s->n_vocab, s->n_vocab, ids[at + i + 1]);
        }
        out->n_scored += len - 1;
        out->n_chunks++;
    }
    out->mean_nll = total / (double)out->n_scored;
    out->perplexity = exp(out->mean_nll);
    return true;
}
