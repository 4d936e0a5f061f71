/* probe_kernels.c - loops that do one thing only, as fast as the machine can: read memory, or
 * multiply and add in registers. Probes and peaks are made of them.
 *
 * Programs are compiled for the baseline instruction set, so each loop for a wider one is a
 * function with a target of its own, chosen at run time by what the machine has. */
#include "tuner/tuner.h"

#include <string.h>

#if defined __x86_64__
#include <immintrin.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif

/* Without loops the arrays below are registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define TARGET(features) __attribute__((target(features)))
#define HAS(id) (1u << FEAT_##id)

/* Has the machine all of them? */
static bool has(const Machine *m, unsigned features)
{
    for (int f = 0; f < N_FEATURES; f++) {
        if ((features >> f & 1) && !m->feature[f]) {
            return false;
        }
    }
    return true;
}

/* ---- reading ----------------------------------------------------------------------------- */

enum { STREAMS = 4, CHUNK = READ_BYTES / STREAMS };

#define VECTOR(name, bytes) \
    typedef uint64_t name __attribute__((vector_size(bytes), aligned(8), may_alias))
VECTOR(Vec128, 16);
VECTOR(Vec256, 32);
VECTOR(Vec512, 64);

/* Two sums a stream: enough to hide the latency of an addition. */
#define READER(name, V)                                                                 \
    static uint64_t name(const void *p, size_t bytes, int64_t n_passes)                 \
    {                                                                                   \
        V sum[STREAMS][2] = {{{0}}}, all = {0};                                         \
        size_t stream = bytes / STREAMS;                                                \
        for (int64_t pass = 0; pass < n_passes; pass++) {                               \
            for (const char *at = p, *end = at + stream; at < end; at += CHUNK) {       \
                UNROLL                                                                  \
                for (size_t s = 0; s < STREAMS; s++) {                                  \
                    UNROLL                                                              \
                    for (size_t i = 0; i < CHUNK / sizeof(V); i++) {                    \
                        sum[s][i % 2] += *(const V *)(at + s * stream + i * sizeof(V)); \
                    }                                                                   \
                }                                                                       \
            }                                                                           \
        }                                                                               \
        uint64_t total = 0;                                                             \
        for (size_t s = 0; s < STREAMS; s++) {                                          \
            all += sum[s][0] + sum[s][1];                                               \
        }                                                                               \
        for (size_t i = 0; i < sizeof(V) / sizeof(uint64_t); i++) {                     \
            total += all[i];                                                            \
        }                                                                               \
        return total;                                                                   \
    }

READER(read_128, Vec128);
#if defined __x86_64__
TARGET("avx2") READER(read_256, Vec256);
TARGET("avx512f") READER(read_512, Vec512);
#endif

ReadFn *read_fn(const Machine *m)
{
    static const struct Reader {
        unsigned needs;
        ReadFn *fn;
    } readers[] = {
#if defined __x86_64__
        {HAS(AVX512F), read_512},
        {HAS(AVX2), read_256},
#endif
        {0, read_128},
    };
    const struct Reader *r = readers;
    while (!has(m, r->needs)) {
        r++;
    }
    return r->fn;
}

/* ---- arithmetic -------------------------------------------------------------------------- */

const char *const arith_name[N_ARITHS] = {
#define X(id, name) name,
    ARITHS(X)
#undef X
};

/* Two units with a latency of four or five cycles need ten; sixteen registers hold these. */
enum { SUMS = 12 };

/* The compiler must not know the operands, or it computes the answer itself. */
#define HIDE(v) __asm__ volatile("" : REGISTER(v))
#if defined __x86_64__
#define REGISTER(v) "+v"(v)
#elif defined __aarch64__
#define REGISTER(v) "+w"(v)
#else
#define REGISTER(v) "+m"(v)
#endif

#define ARITH(name, V, step, add)               \
    static float name(int64_t n_steps)          \
    {                                           \
        V sum[SUMS], x = {0}, y = {0};          \
        HIDE(x);                                \
        HIDE(y);                                \
        UNROLL                                  \
        for (int i = 0; i < SUMS; i++) {        \
            sum[i] = y;                         \
            HIDE(sum[i]);                       \
        }                                       \
        for (int64_t l = 0; l < n_steps; l++) { \
            UNROLL                              \
            for (int i = 0; i < SUMS; i++) {    \
                sum[i] = step(sum[i], x, y);    \
            }                                   \
        }                                       \
        UNROLL                                  \
        for (int i = 1; i < SUMS; i++) {        \
            sum[0] = add(sum[0], sum[i]);       \
        }                                       \
        float first;                            \
        memcpy(&first, &sum[0], sizeof first);  \
        return first;                           \
    }

typedef float Floats __attribute__((vector_size(16)));
#define ADD(a, b) ((a) + (b))
#define MULTIPLY_ADD(sum, x, y) ((sum) * (x) + (y))
ARITH(multiply_add_128, Floats, MULTIPLY_ADD, ADD);
#if defined __x86_64__
#define FMA128(sum, x, y) _mm_fmadd_ps(sum, x, y)
#define FMA256(sum, x, y) _mm256_fmadd_ps(sum, x, y)
#define FMA512(sum, x, y) _mm512_fmadd_ps(sum, x, y)
TARGET("fma") ARITH(fma_128, __m128, FMA128, ADD);
TARGET("fma") ARITH(fma_256, __m256, FMA256, ADD);
TARGET("avx512f") ARITH(fma_512, __m512, FMA512, ADD);
TARGET("avx512vnni,avx512vl") ARITH(dot_256, __m256i, _mm256_dpbusd_epi32, ADD);
TARGET("avxvnni") ARITH(dot_256_vex, __m256i, _mm256_dpbusd_avx_epi32, ADD);
TARGET("avx512vnni") ARITH(dot_512, __m512i, _mm512_dpbusd_epi32, ADD);
#elif defined __aarch64__
#define FMA128(sum, x, y) vfmaq_f32(y, sum, x)
ARITH(fma_128, float32x4_t, FMA128, ADD);
#endif

enum { FLOPS128 = SUMS * 4 * 2, OPS128 = SUMS * 16 * 2 };

/* The first row of an id that the machine can run stands. */
static const struct ArithRow {
    ArithId id;
    unsigned needs;
    Arith arith;
} arith_rows[] = {
#if defined __x86_64__
    {ARITH_FMA128, HAS(FMA), {fma_128, FLOPS128}},
    {ARITH_FMA256, HAS(FMA), {fma_256, 2 * FLOPS128}},
    {ARITH_FMA512, HAS(AVX512F), {fma_512, 4 * FLOPS128}},
    {ARITH_DOT256, HAS(AVX512VNNI) | HAS(AVX512VL), {dot_256, 2 * OPS128}},
    {ARITH_DOT256, HAS(AVXVNNI), {dot_256_vex, 2 * OPS128}},
    {ARITH_DOT512, HAS(AVX512VNNI), {dot_512, 4 * OPS128}},
#elif defined __aarch64__
    {ARITH_FMA128, HAS(NEON), {fma_128, FLOPS128}},
#endif
    {ARITH_FMA128, 0, {multiply_add_128, FLOPS128}},
};

Arith arith_fn(const Machine *m, ArithId id)
{
    for (size_t i = 0; i < countof(arith_rows); i++) {
        if (arith_rows[i].id == id && has(m, arith_rows[i].needs)) {
            return arith_rows[i].arith;
        }
    }
    return (Arith){0};
}

Arith arith_widest(const Machine *m)
{
    ArithId id = has(m, HAS(AVX512F)) ? ARITH_FMA512
                 : has(m, HAS(FMA))   ? ARITH_FMA256
                                      : ARITH_FMA128;
    return arith_fn(m, id);
}

bool arith_fused(const Machine *m)
{
    return arith_fn(m, ARITH_FMA128).fn != multiply_add_128;
}
