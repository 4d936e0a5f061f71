/* targets.c - vector widths as rows. A target decides how wide emitted vectors are, never what they
 * compute. On AVX-512 sixteen lanes are the most: gcc spills wider ones. */
#include "emit/emit.h"

#include <string.h>

const Target targets[] = {
    {"avx512", 16, 32, true, FEAT_AVX512F}, {"avx2", 8, 16, true, FEAT_AVX2},
    {"neon", 4, 32, true, FEAT_NEON},       {"sse4.2", 4, 16, false, FEAT_SSE42},
    {"generic", 4, 16, false, N_FEATURES},
};

const int n_targets = countof(targets);

const Target *target_of(const Machine *m)
{
    const Target *t = targets;
    while (t->feature != N_FEATURES && !m->feature[t->feature]) {
        t++;
    }
    return t;
}

const Target *target_generic(void)
{
    return &targets[countof(targets) - 1];
}
