/* sampler.c - from logits to a token, step by step as the reference does it, in f32.
 *
 * The steps narrow a list of candidates that stays in order of ids, so that top-k, a pass over
 * the logits with a small heap, leaves little for the sort of top-p. Sorting is ascending and
 * stable (a key holds the logit above and the index below), sums run from the least likely
 * upwards: where logits are equal, both decide what is kept. spec: tokenizer 10 */
#include "model/model.h"

#include <math.h>
#include <string.h>

void sampler_init(Sampler *s, Env *e, const Sampling *sampling, int n_vocab, uint64_t seed)
{
    check(n_vocab > 0);
    sampling_check(e, sampling);
    *s = (Sampler){.env = e, .sampling = *sampling, .n_vocab = n_vocab};
    s->seen = arena_array(&e->model, bool, n_vocab);
    s->candidate = arena_array(&e->model, Candidate, n_vocab);
    s->key = arena_array(&e->model, uint64_t, n_vocab);
    s->swap = arena_array(&e->model, uint64_t, n_vocab);
    s->prob = arena_array(&e->model, float, n_vocab);
    rng_seed(&s->rng, seed);
}

void sampler_reset(Sampler *s, uint64_t seed)
{
    memset(s->seen, 0, (size_t)s->n_vocab * sizeof *s->seen);
    rng_seed(&s->rng, seed);
}

void sampler_see(Sampler *s, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++) {
        check(ids[i] >= 0 && ids[i] < s->n_vocab);
        s->seen[ids[i]] = true;
    }
}

/* ---- penalty and temperature ------------------------------------------------- */

/* What was seen becomes less likely: a positive logit is divided, a negative one multiplied.
 * All candidates, less those of -inf. */
static int adjust(Sampler *s, const float *logits)
{
    float penalty = (float)s->sampling.repetition_penalty;
    float temperature = s->sampling.temperature > 0 ? (float)s->sampling.temperature : 1;
    int n = 0;
    for (int i = 0; i < s->n_vocab; i++) {
        float x = logits[i];
        if (isnan(x) || x == INFINITY) {
            fail(s->env, E_INPUT, "The logit of token %d is %g, so nothing can be sampled.", i,
                 x);
        }
        if (s->seen[i]) {
            x = x < 0 ? x * penalty : x / penalty;
        }
        x /= temperature;
        if (x > -INFINITY) {
            s->candidate[n++] = (Candidate){x, i};
        }
    }
    if (n == 0) {
        fail(s->env, E_INPUT, "All %d logits are -inf, so nothing can be sampled.", s->n_vocab);
    }
    return n;
}

static int best_of(const Sampler *s, int n)
{
    int best = 0;
    float most = s->candidate[0].logit;
    for (int i = 1; i < n; i++) {
        if (s->candidate[i].logit > most) {
            most = s->candidate[i].logit;
            best = i;
        }
    }
    return best;
}

/* ---- top-k ------------------------------------------------------------------- */

static void sift_down(float *heap, int n, float x)
{
    int i = 0;
    for (int child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= x) {
            break;
        }
        heap[i] = heap[child];
    }
    heap[i] = x;
}

/* The k-th largest logit: the least of a heap of the k largest. */
static float kth_largest(Sampler *s, int n, int k)
{
    float *heap = s->prob;
    for (int i = 0; i < n; i++) {
        float x = s->candidate[i].logit;
        if (i >= k) {
            if (x > heap[0]) {
                sift_down(heap, k, x);
            }
            continue;
        }
        int at = i;
        for (; at > 0 && heap[(at - 1) / 2] > x; at = (at - 1) / 2) {
            heap[at] = heap[(at - 1) / 2];
        }
        heap[at] = x;
    }
    return heap[0];
}

/* What is strictly below the k-th largest goes; more than k may stay where there are ties. */
static int keep_top_k(Sampler *s, int n)
{
    int64_t k = s->sampling.top_k;
    if (k == 0 || k >= n) {
        return n;
    }
    float threshold = kth_largest(s, n, (int)k);
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (s->candidate[i].logit >= threshold) {
            s->candidate[kept++] = s->candidate[i];
        }
    }
    return kept;
}

/* ---- top-p ------------------------------------------------------------------- */

/* Ascends as x does; -0 and 0 are equal. */
static uint32_t ascending(float x)
{
    uint32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* Keys in ascending order: four passes over a byte each, every one stable. */
static void radix_sort(Sampler *s, int n)
{
    for (int shift = 32; shift < 64; shift += 8) {
        int start[256 + 1] = {0};
        for (int i = 0; i < n; i++) {
            start[(s->key[i] >> shift & 0xFF) + 1]++;
        }
        for (int b = 0; b < 256; b++) {
            start[b + 1] += start[b];
        }
        for (int i = 0; i < n; i++) {
            s->swap[start[s->key[i] >> shift & 0xFF]++] = s->key[i];
        }
        uint64_t *sorted = s->swap;
        s->swap = s->key;
        s->key = sorted;
    }
}

static void insertion_sort(uint64_t *key, int n)
{
    for (int i = 1; i < n; i++) {
        uint64_t x = key[i];
        int at = i;
        for (; at > 0 && key[at - 1] > x; at--) {
            key[at] = key[at - 1];
        }
        key[at] = x;
    }
}

/* Softmax of candidates in the order of index (NULL: as they stand) into prob. */
static void softmax(Sampler *s, int n, const uint64_t *order)
{
    float most = s->candidate[best_of(s, n)].logit, sum = 0;
    for (int i = 0; i < n; i++) {
        int at = order ? (int)(uint32_t)order[i] : i;
        s->prob[i] = expf(s->candidate[at].logit - most);
        sum += s->prob[i];
    }
    for (int i = 0; i < n; i++) {
        s->prob[i] /= sum;
    }
}

/* From the least likely upwards, all go whose running sum is at most 1 - p; the last never. */
static int keep_top_p(Sampler *s, int n)
{
    enum { FEW = 64 };
    if (s->sampling.top_p >= 1) {
        return n;
    }
    for (int i = 0; i < n; i++) {
        s->key[i] = (uint64_t)ascending(s->candidate[i].logit) << 32 | (uint32_t)i;
    }
    if (n <= FEW) {
        insertion_sort(s->key, n);
    } else {
        radix_sort(s, n);
    }
    softmax(s, n, s->key);
    float limit = (float)(1 - s->sampling.top_p), sum = 0;
    for (int i = 0; i < n - 1; i++) {
        sum += s->prob[i];
        if (!(sum <= limit)) {
            break;
        }
        s->candidate[(uint32_t)s->key[i]].logit = -INFINITY;
    }
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (s->candidate[i].logit > -INFINITY) {
            s->candidate[kept++] = s->candidate[i];
        }
    }
    return kept;
}

/* ---- min-p and the draw ------------------------------------------------------ */

/* What is less likely than min_p times the most likely goes. */
static int keep_min_p(Sampler *s, int n)
{
    float share = (float)s->sampling.min_p;
    if (share <= 0) {
        return n;
    }
    softmax(s, n, NULL);
    float least = share * s->prob[best_of(s, n)];
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (s->prob[i] >= least) {
            s->candidate[kept++] = s->candidate[i];
        }
    }
    return kept;
}

/* The first candidate up to which the probabilities add up to the random number. */
static int draw(Sampler *s, int n)
{
    double u = rng_unit(&s->rng);
    float sum = 0;
    softmax(s, n, NULL);
    for (int i = 0; i < n - 1; i++) {
        sum += s->prob[i];
        if (sum >= u) {
            return i;
        }
    }
    return n - 1;
}

int32_t sampler_next(Sampler *s, const float *logits)
{
    int n = adjust(s, logits), chosen;
    if (s->sampling.temperature == 0) {
        chosen = best_of(s, n);
    } else {
        n = keep_top_k(s, n);
        n = keep_top_p(s, n);
        n = keep_min_p(s, n);
        chosen = draw(s, n);
    }
    int32_t id = s->candidate[chosen].id;
    s->seen[id] = true;
    return id;
}
