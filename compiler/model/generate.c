/* generate.c - text from a model, one token at a time, and its perplexity on a text. Knows a
 * model only as a Stepper, so that the interpreter, compiled C and a test's closed form are
 * all driven alike. spec: int8 7 (perplexity), tokenizer 10 (order of sampling) */
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

static bool stopped(const Generate *g)
{
    return g->interrupted && *g->interrupted;
}

/* One token more: feeds ids, chooses. False: the text ends here, for the reason in out->end, or
 * because of err. */
static bool next_token(const Generate *g, Stepper *s, const int32_t *ids, int n, Generated *out,
                       Err *err)
{
    const float *logits;
    if (s->max_positions && n > s->max_positions - s->n_fed) {
        out->end = END_CONTEXT;
        return false;
    }
    if (!s->feed(s, ids, n, false, &logits, err)) {
        out->end = err->code == E_INTERRUPT ? END_INTERRUPTED : END_FAILED;
        return false;
    }
    out->last = g->sampler ? sampler_next(g->sampler, logits) : argmax(logits, s->n_vocab);
    if (g->stops && stops_has(g->stops, out->last)) {
        out->end = END_STOP;
        return false;
    }
    out->n++;
    if ((g->token && !g->token(g->ctx, out->last)) || stopped(g)) {
        out->end = END_INTERRUPTED;
        return false;
    }
    return true;
}

bool generate(const Generate *g, Stepper *s, const int32_t *prompt, int n_prompt,
              Generated *out, Err *err)
{
    *out = (Generated){.end = END_LENGTH, .last = -1};
    if (n_prompt < 1) {
        return err_set(err, E_INPUT, "The prompt is empty: there is nothing to continue.");
    }
    const int32_t *ids = prompt;
    int n = n_prompt;
    while (out->n < g->max_tokens && next_token(g, s, ids, n, out, err)) {
        ids = &out->last;
        n = 1;
    }
    return out->end != END_FAILED;
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
        return err_set(err, E_INPUT,
                       "Perplexity needs at least 2 tokens and chunks of at least 2: not "
                       "%d in chunks of %d.",
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
