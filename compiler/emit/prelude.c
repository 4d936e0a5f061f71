/* prelude.c - the few helpers that vector code uses, each written once into the file that needs it, for
 * each number of lanes it needs. No immintrin.h: it costs a tenth of a second a compile.
 *
 * In the texts % stands for the number of lanes, @ for the bytes of a vector, $ for a list of one entry a
 * lane: the entry stands between the braces behind it, and # in it is the lane. */
#include <stdlib.h>
#include <string.h>

#include "emit/emit_int.h"

typedef struct Helper {
    const char *name; /* what callers write, before the lanes */
    const char *text;
    Aid needs;                          /* one more that must be there; AID_TYPES: nothing */
    void (*write)(int lanes, Buf *out); /* instead of a text */
} Helper;

/* clang-format off */

/* a * b + c in vectors and in scalars, apart and fused: of texts. */
#define APART(a, b, c) a " * " b " + " c
#define FUSED(a, b, c) "fma%(" a ", " b ", " c ")"
#define SCALAR_FUSED(a, b, c) "nc_fmaf(" a ", " b ", " c ")"

/* Lane i holds lane i + n, for constant n. */
#define FURTHER(v, n) "__builtin_shufflevector(" v ", " v ", ${(# + " n ") & (% - 1)})"

/* The polynomial of scalar.c. */
#define VECTOR_EXP(name, MUL_ADD) {name,                                                        \
                 "static inline f32x% " name "%(f32x% x)\n{\n"                                  \
                 "    const f32x% magic = splat%(12582912.0f);\n"                               \
                 "    f32x% t = " MUL_ADD("x", "splat%(1.44269504f)", "magic") ";\n"            \
                 "    f32x% n = t - magic;\n"                                                   \
                 "    f32x% r = " MUL_ADD("n", "splat%(-0.693359375f)", "x") ";\n"              \
                 "    r = " MUL_ADD("n", "splat%(2.12194440e-4f)", "r") ";\n"                   \
                 "    f32x% p = splat%(1.9875691500e-4f);\n"                                    \
                 "    p = " MUL_ADD("p", "r", "splat%(1.3981999507e-3f)") ";\n"                 \
                 "    p = " MUL_ADD("p", "r", "splat%(8.3334519073e-3f)") ";\n"                 \
                 "    p = " MUL_ADD("p", "r", "splat%(4.1665795894e-2f)") ";\n"                 \
                 "    p = " MUL_ADD("p", "r", "splat%(1.6666665459e-1f)") ";\n"                 \
                 "    p = " MUL_ADD("p", "r", "splat%(5.0000001201e-1f)") ";\n"                 \
                 "    p = " MUL_ADD("p", "(r * r)", "r") ";\n"                                  \
                 "    p = p + splat%(1.0f);\n"                                                  \
                 "    p = (f32x%)((i32x%)p + ((i32x%)t << 23));\n"                              \
                 "    p = select%(x < splat%(-87.0f), splat%(0.0f), p);\n"                      \
                 "    p = select%(x > splat%(88.72283f), splat%(INFINITY), p);\n"               \
                 "    return select%(x == x, p, x);\n}\n",                                      \
                 AID_SELECT}
#define SCALAR_EXP(name, MUL_ADD) {name,                                                        \
                 "static inline float " name "(float x)\n{\n"                                   \
                 "    if (!(x <= 88.72283f)) {\n        return x != x ? x : INFINITY;\n    }\n" \
                 "    if (x < -87.0f) {\n        return 0.0f;\n    }\n"                         \
                 "    union {\n        float f;\n        int32_t i;\n    } t, p;\n"             \
                 "    t.f = " MUL_ADD("x", "1.44269504f", "12582912.0f") ";\n"                  \
                 "    float n = t.f - 12582912.0f;\n"                                           \
                 "    float r = " MUL_ADD("n", "-0.693359375f", "x") ";\n"                      \
                 "    r = " MUL_ADD("n", "2.12194440e-4f", "r") ";\n"                           \
                 "    p.f = 1.9875691500e-4f;\n"                                                \
                 "    p.f = " MUL_ADD("p.f", "r", "1.3981999507e-3f") ";\n"                     \
                 "    p.f = " MUL_ADD("p.f", "r", "8.3334519073e-3f") ";\n"                     \
                 "    p.f = " MUL_ADD("p.f", "r", "4.1665795894e-2f") ";\n"                     \
                 "    p.f = " MUL_ADD("p.f", "r", "1.6666665459e-1f") ";\n"                     \
                 "    p.f = " MUL_ADD("p.f", "r", "5.0000001201e-1f") ";\n"                     \
                 "    p.f = " MUL_ADD("p.f", "(r * r)", "r") ";\n"                              \
                 "    p.f = p.f + 1.0f;\n"                                                      \
                 "    p.i += t.i << 23;\n"                                                      \
                 "    return p.f;\n}\n",                                                        \
                 AID_TYPES}

static const Helper helpers[N_AIDS] = {
    [AID_TYPES] = {"f32x",
                   "typedef float f32x% __attribute__((vector_size(@)));\n"
                   "typedef int32_t i32x% __attribute__((vector_size(@)));\n"
                   "typedef float f32x%_any __attribute__((vector_size(@), aligned(4), may_alias));\n",
                   AID_TYPES},
    [AID_LOAD] = {"load", "static inline f32x% load%(const float *p)\n{\n    return *(const f32x%_any *)p;\n}\n",
                  AID_TYPES},
    [AID_STORE] = {"store", "static inline void store%(float *p, f32x% v)\n{\n    *(f32x%_any *)p = v;\n}\n",
                   AID_TYPES},
    [AID_SPLAT] = {"splat", "static inline f32x% splat%(float x)\n{\n    return x - (f32x%){0}; /* keeps -0.0 */\n}\n", AID_TYPES},
    [AID_FMA] = {"fma",
                 "static inline f32x% fma%(f32x% a, f32x% b, f32x% c)\n{\n"
                 "#if % == 16 && defined __AVX512F__\n"
                 "    return (f32x%)__builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4);\n"
                 "#elif % == 8 && defined __FMA__\n"
                 "    return (f32x%)__builtin_ia32_vfmaddps256(a, b, c);\n"
                 "#elif % == 4 && defined __FMA__\n"
                 "    return (f32x%)__builtin_ia32_vfmaddps(a, b, c);\n"
                 "#elif % == 4 && defined __aarch64__ && !defined __clang__\n"
                 "    return (f32x%)__builtin_aarch64_fmav4sf(a, b, c);\n"
                 "#else\n"
                 "    return (f32x%){${__builtin_fmaf(a[#], b[#], c[#])}};\n"
                 "#endif\n}\n",
                 AID_TYPES},
    [AID_SELECT] = {"select",
                    "static inline f32x% select%(i32x% mask, f32x% a, f32x% b)\n{\n"
                    "    return (f32x%)((mask & (i32x%)a) | (~mask & (i32x%)b));\n}\n",
                    AID_TYPES},
    [AID_LANES] = {"lanes_to",
                   "/* Lanes 0 to last. */\nstatic inline i32x% lanes_to%(int64_t last)\n{\n"
                   "    int32_t k = last < -1 ? -1 : last > % ? % : (int32_t)last;\n"
                   "    return (i32x%){${#}} <= k - (i32x%){0};\n}\n",
                   AID_TYPES},
    [AID_MASK] = {"mask", "static inline i32x% mask%(int on)\n{\n    return -(on != 0) - (i32x%){0};\n}\n", AID_TYPES},
    [AID_EXP] = VECTOR_EXP("exp_approx", APART),
    [AID_EXP_FUSED] = VECTOR_EXP("exp_fused", FUSED),
#define MAP(fn) {"map_" fn "_", "static inline f32x% map_" fn "_%(f32x% x)\n{\n    return (f32x%){${" fn "(x[#])}};\n}\n", AID_TYPES}
    [AID_MAP_EXPF] = MAP("expf"),
    [AID_MAP_SQRTF] = MAP("sqrtf"),
    [AID_MAP_SINF] = MAP("sinf"),
    [AID_MAP_COSF] = MAP("cosf"),
    [AID_SUM] = {"sum",
                 "/* The upper half joins the lower until one lane is left. */\n"
                 "static inline float sum%(f32x% v)\n{\n"
                 "#if defined __clang__ || __GNUC__ >= 12\n"
                 "    v = v + " FURTHER("v", "% / 2") ";\n"
                 "#if % >= 4\n    v = v + " FURTHER("v", "% / 4") ";\n#endif\n"
                 "#if % >= 8\n    v = v + " FURTHER("v", "% / 8") ";\n#endif\n"
                 "#if % >= 16\n    v = v + " FURTHER("v", "% / 16") ";\n#endif\n"
                 "    return v[0];\n#else\n"
                 "    float x[%];\n    store%(x, v);\n"
                 "    for (int n = % / 2; n > 0; n /= 2) {\n"
                 "        for (int i = 0; i < n; i++) {\n            x[i] = x[i] + x[i + n];\n        }\n    }\n"
                 "    return x[0];\n#endif\n}\n",
                 AID_STORE},
    [AID_SUMS] = {"sums", NULL, AID_SUM, write_sums},
    [AID_MAX] = {"max",
                 "static inline float max%(f32x% v)\n{\n"
                 "    float x[%];\n    store%(x, v);\n"
                 "    for (int n = % / 2; n > 0; n /= 2) {\n"
                 "        for (int i = 0; i < n; i++) {\n"
                 "            x[i] = x[i] < x[i + n] || x[i + n] != x[i + n] ? x[i + n] : x[i];\n        }\n    }\n"
                 "    return x[0];\n}\n",
                 AID_STORE},
    [AID_SPLAT_I32] = {"splat_i32_", "static inline i32x% splat_i32_%(int32_t x)\n{\n    return x - (i32x%){0};\n}\n",
                       AID_TYPES},
    [AID_STORE_I32] = {"store_i32_",
                       "static inline void store_i32_%(int32_t *p, i32x% v)\n{\n"
                       "    __builtin_memcpy(p, &v, sizeof v);\n}\n",
                       AID_TYPES},
    [AID_BYTES] = {"bytes",
                   "/* The same four bytes in every lane, and four for each. */\n"
                   "static inline i32x% same_bytes%(const int8_t *p)\n{\n"
                   "    int32_t x;\n    __builtin_memcpy(&x, p, sizeof x);\n    return splat_i32_%(x);\n}\n"
                   "static inline i32x% bytes%(const int8_t *p)\n{\n"
                   "    i32x% v;\n    __builtin_memcpy(&v, p, sizeof v);\n    return v;\n}\n",
                   AID_SPLAT_I32},
    [AID_DOT] = {"dot",
                 "/* acc + the sum of four int8 products a lane. The instruction takes one side unsigned: 128 more,\n"
                 " * which is taken off again. */\n"
                 "static inline i32x% dot%(i32x% acc, i32x% a, i32x% b)\n{\n"
                 "#if (% == 16 && defined __AVX512VNNI__) || (% == 8 && (defined __AVXVNNI__ || (defined __AVX512VNNI__ && defined "
                 "__AVX512VL__)))\n"
                 "    const i32x% top = splat_i32_%((int32_t)0x80808080);\n"
                 "#if defined __clang__ && % == 16\n"
                 "    return __builtin_ia32_vpdpbusd512(acc, a ^ top, b) - __builtin_ia32_vpdpbusd512(splat_i32_%(0), top, b);\n"
                 "#elif defined __clang__\n"
                 "    return __builtin_ia32_vpdpbusd256(acc, a ^ top, b) - __builtin_ia32_vpdpbusd256(splat_i32_%(0), top, b);\n"
                 "#else\n"
                 "    return (i32x%)__builtin_ia32_vpdpbusd_v%si(acc, a ^ top, b) -\n"
                 "           (i32x%)__builtin_ia32_vpdpbusd_v%si(splat_i32_%(0), top, b);\n"
                 "#endif\n"
                 "#else\n"
                 "    for (int byte = 0; byte < 4; byte++) {\n"
                 "        acc += (a << (24 - 8 * byte) >> 24) * (b << (24 - 8 * byte) >> 24);\n    }\n"
                 "    return acc;\n"
                 "#endif\n}\n",
                 AID_SPLAT_I32},
    [AID_FLOATS] = {"floats", "static inline f32x% floats%(i32x% v)\n{\n    return __builtin_convertvector(v, f32x%);\n}\n",
                    AID_TYPES},
    [AID_LOAD_BF16] = {"bf16_",
                       "#if % == 1\n"
                       "static inline float bf16_(uint16_t x)\n{\n"
                       "    union {\n        uint32_t i;\n        float f;\n    } v = {(uint32_t)x << 16};\n    return v.f;\n}\n"
                       "#else\n"
                       "/* gcc 12 converts by halves, so it is told the instruction. */\n"
                       "static inline f32x% bf16_%(const uint16_t *p)\n{\n"
                       "#if !defined __clang__ && % == 16 && defined __AVX512F__\n"
                       "    typedef short i16x __attribute__((vector_size(32)));\n"
                       "    i16x v;\n    __builtin_memcpy(&v, p, sizeof v);\n"
                       "    return (f32x%)(__builtin_ia32_pmovzxwd512_mask(v, (i32x%){0}, (uint16_t)-1) << 16);\n"
                       "#elif !defined __clang__ && % == 8 && defined __AVX2__\n"
                       "    typedef short i16x __attribute__((vector_size(16)));\n"
                       "    i16x v;\n    __builtin_memcpy(&v, p, sizeof v);\n"
                       "    return (f32x%)(__builtin_ia32_pmovzxwd256(v) << 16);\n"
                       "#else\n"
                       "    typedef uint16_t u16x __attribute__((vector_size(2 * %)));\n"
                       "    u16x v;\n    __builtin_memcpy(&v, p, sizeof v);\n"
                       "    return (f32x%)(__builtin_convertvector(v, i32x%) << 16);\n"
                       "#endif\n}\n"
                       "#endif\n",
                       AID_TYPES},
    [AID_SCALAR_FMA] = {"nc_fmaf",
                        "/* The result is hidden: gcc makes one operation of -fma(a, b, c), and that one has\n"
                        " * +0 where this is -0. */\n"
                        "static inline float nc_fmaf(float a, float b, float c)\n{\n"
                        "    float r = __builtin_fmaf(a, b, c);\n"
                        "#if defined __x86_64__\n    __asm__(\"\" : \"+x\"(r));\n"
                        "#elif defined __aarch64__\n    __asm__(\"\" : \"+w\"(r));\n"
                        "#endif\n    return r;\n}\n",
                        AID_TYPES},
    [AID_SCALAR_EXP] = SCALAR_EXP("nc_expf", APART),
    [AID_SCALAR_EXP_FUSED] = SCALAR_EXP("nc_fused_expf", SCALAR_FUSED),
};
/* clang-format on */

static int log2_of(int lanes)
{
    int log = 0;
    while (1 << log < lanes) {
        log++;
    }
    return log;
}

const char *aid(Writer *w, Aid id, int lanes)
{
    int log = log2_of(lanes);
    w->aid[id][log] = true;
    if (lanes > 1) {
        for (Aid a = id; a != AID_TYPES; a = helpers[a].needs) {
            w->aid[helpers[a].needs][log] = true;
        }
        w->aid[AID_TYPES][log] = true;
        w->aid[AID_SPLAT][log] |= id == AID_EXP || id == AID_EXP_FUSED;
        w->aid[AID_FMA][log] |= id == AID_EXP_FUSED;
    }
    return lanes > 1 ? arena_printf(w->m, "%s%d", helpers[id].name, lanes) : helpers[id].name;
}

/* ${entry} once a lane, separated by commas. */
static const char *write_list(const char *text, int lanes, Buf *out)
{
    const char *entry = text + 1;
    size_t len = strcspn(entry, "}");
    for (int i = 0; i < lanes; i++) {
        buf_str(out, i ? ", " : "");
        for (size_t k = 0; k < len; k++) {
            if (entry[k] == '#' || entry[k] == '%') {
                buf_printf(out, "%d", entry[k] == '#' ? i : lanes);
            } else {
                buf_char(out, entry[k]);
            }
        }
    }
    return entry + len;
}

static void write_helper(const char *text, int lanes, Buf *out)
{
    for (; *text; text++) {
        if (*text == '%') {
            buf_printf(out, "%d", lanes);
        } else if (*text == '@') {
            buf_printf(out, "%d", lanes * 4);
        } else if (*text == '$') {
            text = write_list(text + 1, lanes, out);
        } else {
            buf_char(out, *text);
        }
    }
}

/* Guarded, so that the C of many kernels may stand in one file. */
void write_prelude(const Writer *w, Buf *out)
{
    for (int log = 0; log < MAX_WIDTH_LOG; log++) {
        for (int i = 0; i < N_AIDS; i++) {
            if (w->aid[i][log]) {
                buf_printf(out, "#ifndef NC_%s_%d\n#define NC_%s_%d\n", helpers[i].name,
                           1 << log, helpers[i].name, 1 << log);
                if (helpers[i].write) {
                    helpers[i].write(1 << log, out);
                } else {
                    write_helper(helpers[i].text, 1 << log, out);
                }
                buf_str(out, "#endif\n");
            }
        }
    }
}
