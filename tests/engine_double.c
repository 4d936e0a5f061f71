/* engine_double.c - see engine_double.h. */
#include "tests/engine_double.h"

#include <math.h>
#include <string.h>

#include "tests/helpers.h"

typedef struct Double {
    Arena *a;
    const Config *c;
    const NamedTensor *weight;
    int n; /* positions */
    Mistake mistake;
} Double;

static double *rows(const Double *d, int64_t width)
{
    return arena_array(d->a, double, d->n *width);
}

/* NULL: this model has none. layer -1: not of a block. */
static const float *weight_of(const Double *d, int64_t layer, const char *rest)
{
    const char *name =
        layer < 0 ? rest : arena_printf(d->a, "model.layers.%d.%s", (int)layer, rest);
    int n;
    config_tensors(d->a->env, d->c, &n);
    for (int i = 0; i < n; i++) {
        if (!strcmp(d->weight[i].name, name)) {
            return d->weight[i].t.data;
        }
    }
    return NULL;
}

/* [n, in] times the rows of w [out, in], plus a bias where there is one. */
static double *linear(const Double *d, const double *x, int64_t in, int64_t out, const float *w,
                      const float *bias)
{
    double *y = rows(d, out);
    for (int p = 0; p < d->n; p++) {
        for (int64_t o = 0; o < out; o++) {
            double sum = bias && d->mistake != NO_BIASES ? bias[o] : 0;
            for (int64_t i = 0; i < in; i++) {
                sum += x[p * in + i] * (double)w[o * in + i];
            }
            y[p * out + o] = sum;
        }
    }
    return y;
}

static double *norm(const Double *d, const double *x, const float *gain)
{
    int64_t width = d->c->hidden_size;
    double *y = rows(d, width), eps = (float)d->c->rms_norm_eps;
    for (int p = 0; p < d->n; p++) {
        double squares = 0;
        for (int64_t i = 0; i < width; i++) {
            squares += x[p * width + i] * x[p * width + i];
        }
        double mean = squares / (double)width;
        double root = d->mistake == EPS_OUTSIDE ? sqrt(mean) + eps : sqrt(mean + eps);
        for (int64_t i = 0; i < width; i++) {
            y[p * width + i] = x[p * width + i] / root * (double)gain[i];
        }
    }
    return y;
}

/* Turns each pair of a head by position * theta^(-2i/d). */
static void rotate(const Double *d, double *x, int64_t n_heads)
{
    int64_t size = d->c->head_dim, half = size / 2;
    double theta = d->mistake == ROPE_OTHER_THETA ? 10000 : d->c->rope_theta;
    bool apart = d->mistake != ROPE_INTERLEAVED;
    for (int p = 0; p < d->n; p++) {
        for (int64_t h = 0; h < n_heads; h++) {
            double *head = x + (p * n_heads + h) * size;
            for (int64_t i = 0; i < half; i++) {
                double turn = (p + (d->mistake == ROPE_STARTS_AT_1)) *
                              pow(theta, -2.0 * (double)i / (double)size);
                double *re = head + (apart ? i : 2 * i), *im = apart ? re + half : re + 1;
                double real = *re * cos(turn) - *im * sin(turn);
                *im = *im * cos(turn) + *re * sin(turn);
                *re = real;
            }
        }
    }
}

/* One query's answer: the values seen, weighted by the softmax of the products. */
static void attend(const Double *d, const double *q, const double *k, const double *v,
                   int64_t stride, int first_unseen, double *out)
{
    int64_t size = d->c->head_dim;
    double *score = arena_array(d->a, double, first_unseen), most = -INFINITY, sum = 0;
    for (int j = 0; j < first_unseen; j++) {
        for (int64_t i = 0; i < size; i++) {
            score[j] += q[i] * k[j * stride + i];
        }
        score[j] /= sqrt((double)size);
        most = fmax(most, score[j]);
    }
    for (int j = 0; j < first_unseen; j++) {
        score[j] = exp(score[j] - most);
        sum += score[j];
    }
    for (int64_t i = 0; i < size; i++) {
        out[i] = 0;
        for (int j = 0; j < first_unseen; j++) {
            out[i] += score[j] / sum * v[j * stride + i];
        }
    }
}

static int seen_by(const Double *d, int p)
{
    int n = p + 1 - (d->mistake == MASK_ONE_FEWER && p > 0) + (d->mistake == MASK_ONE_MORE);
    return n < d->n ? n : d->n;
}

static double *attention(const Double *d, const double *x, int64_t layer)
{
    const Config *c = d->c;
    int64_t size = c->head_dim, wide = c->n_heads * size, narrow = c->n_kv_heads * size,
            in = c->hidden_size;
    double *q = linear(d, x, in, wide, weight_of(d, layer, "self_attn.q_proj.weight"),
                       weight_of(d, layer, "self_attn.q_proj.bias"));
    double *k = linear(d, x, in, narrow, weight_of(d, layer, "self_attn.k_proj.weight"),
                       weight_of(d, layer, "self_attn.k_proj.bias"));
    double *v = linear(d, x, in, narrow, weight_of(d, layer, "self_attn.v_proj.weight"),
                       weight_of(d, layer, "self_attn.v_proj.bias"));
    double *joined = rows(d, wide);
    rotate(d, q, c->n_heads);
    rotate(d, k, c->n_kv_heads);
    for (int p = 0; p < d->n; p++) {
        for (int64_t h = 0; h < c->n_heads; h++) {
            int64_t group = c->n_heads / c->n_kv_heads;
            int64_t kv = d->mistake == GQA_TILED ? h % c->n_kv_heads : h / group;
            attend(d, q + p * wide + h * size, k + kv * size, v + kv * size, narrow,
                   seen_by(d, p), joined + p * wide + h * size);
        }
    }
    return linear(d, joined, wide, in, weight_of(d, layer, "self_attn.o_proj.weight"), NULL);
}

static double *feed_forward(const Double *d, const double *x, int64_t layer)
{
    int64_t in = d->c->hidden_size, wide = d->c->intermediate_size;
    double *gate = linear(d, x, in, wide, weight_of(d, layer, "mlp.gate_proj.weight"), NULL);
    double *up = linear(d, x, in, wide, weight_of(d, layer, "mlp.up_proj.weight"), NULL);
    for (int64_t i = 0; i < d->n * wide; i++) {
        up[i] *= gate[i] / (1 + exp(-gate[i]));
    }
    return linear(d, up, wide, in, weight_of(d, layer, "mlp.down_proj.weight"), NULL);
}

/* x + f(norm(x)), for both halves of a block. */
static double *residual(const Double *d, const double *x, int64_t layer, const char *gain,
                        double *(*f)(const Double *d, const double *x, int64_t layer))
{
    double *normed = norm(d, x, weight_of(d, layer, gain)), *y = f(d, normed, layer);
    for (int64_t i = 0; i < d->n * d->c->hidden_size; i++) {
        y[i] += d->mistake == POST_NORM ? normed[i] : x[i];
    }
    return y;
}

double *double_logits(Arena *a, const Config *c, const NamedTensor *weight, const int32_t *ids,
                      int n, Mistake mistake)
{
    Double d = {a, c, weight, n, mistake};
    const float *embedding = weight_of(&d, -1, "model.embed_tokens.weight");
    const float *head = weight_of(&d, -1, "lm_head.weight");
    double *x = rows(&d, c->hidden_size);
    for (int64_t i = 0; i < n * c->hidden_size; i++) {
        x[i] = embedding[ids[i / c->hidden_size] * c->hidden_size + i % c->hidden_size];
    }
    for (int64_t layer = 0; layer < c->n_layers; layer++) {
        x = residual(&d, x, layer, "input_layernorm.weight", attention);
        x = residual(&d, x, layer, "post_attention_layernorm.weight", feed_forward);
    }
    x = norm(&d, x, weight_of(&d, -1, "model.norm.weight"));
    return linear(&d, x, c->hidden_size, c->vocab_size, head ? head : embedding, NULL);
}
