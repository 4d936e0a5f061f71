/* engine_double.h - Qwen2 and Llama written down once more, in double precision and in
 * another manner: loops over positions and heads, no mask, no graph, no cache. And the ways
 * to get it wrong that give plausible text, each of which a test must see. spec: lessons 4 */
#ifndef NC_TESTS_ENGINE_DOUBLE_H
#define NC_TESTS_ENGINE_DOUBLE_H

#include "model/model.h"

typedef enum Mistake {
    NO_MISTAKE,
    ROPE_INTERLEAVED, /* pairs (2i, 2i + 1) instead of (i, i + d/2) */
    ROPE_STARTS_AT_1,
    ROPE_OTHER_THETA, /* the default of 10000 */
    GQA_TILED,        /* kv head h % n instead of h / group */
    MASK_ONE_FEWER,   /* a position does not see itself */
    MASK_ONE_MORE,    /* a position sees the next one */
    EPS_OUTSIDE,      /* added to the root */
    NO_BIASES,
    POST_NORM, /* the residual is taken behind the norm */
    N_MISTAKES,
} Mistake;

/* Logits [n, vocab] of n ids, in a's memory. weight: the tensors of config_tensors, f32. */
double *double_logits(Arena *a, const Config *c, const NamedTensor *weight, const int32_t *ids,
                      int n, Mistake mistake);

#endif
