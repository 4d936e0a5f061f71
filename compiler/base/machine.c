/* machine.c - who this machine is: vendor, model and instruction sets, by libcpuid and CPUID on
 * x86, by /proc/cpuinfo elsewhere. Caches and the number of threads are in machine_files.c.
 *
 * A feature counts only if the CPU has it and the kernel saves its registers (XCR0): one
 * without the other is a machine on which the instruction traps or corrupts. */
#include "base/base_int.h"

#include <stdlib.h>
#include <string.h>

#if defined __x86_64__ || defined __i386__
#define X86 1
#include <cpuid.h>
#include <libcpuid/libcpuid.h>
#else
#define X86 0
#endif

#if defined __x86_64__
#define ARCH "x86_64"
#elif defined __i386__
#define ARCH "i386"
#elif defined __aarch64__
#define ARCH "aarch64"
#elif defined __riscv
#define ARCH "riscv"
#elif defined __powerpc64__
#define ARCH "ppc64"
#else
#define ARCH "unknown"
#endif

/* ---- features ---------------------------------------------------------------- */

const char *feature_name(Feature f)
{
    static const char *const name[N_FEATURES] = {
#define X(id, text) text,
        FEATURES(X)
#undef X
    };
    return name[f];
}

enum { XCR0_YMM = 0x06, XCR0_ZMM = 0xe6 }; /* SSE and AVX state; and masks and 512-bit state */

/* Columns: feature, register, bit, XCR0 bits it needs */
#define X86_FEATURES(X)                    \
    X(SSE42, leaf1_ecx, 20, 0)             \
    X(AVX, leaf1_ecx, 28, XCR0_YMM)        \
    X(AVX2, leaf7_ebx, 5, XCR0_YMM)        \
    X(FMA, leaf1_ecx, 12, XCR0_YMM)        \
    X(F16C, leaf1_ecx, 29, XCR0_YMM)       \
    X(AVX512F, leaf7_ebx, 16, XCR0_ZMM)    \
    X(AVX512BW, leaf7_ebx, 30, XCR0_ZMM)   \
    X(AVX512DQ, leaf7_ebx, 17, XCR0_ZMM)   \
    X(AVX512VL, leaf7_ebx, 31, XCR0_ZMM)   \
    X(AVX512VNNI, leaf7_ecx, 11, XCR0_ZMM) \
    X(AVXVNNI, leaf7_1_eax, 4, XCR0_YMM)   \
    X(AVX512BF16, leaf7_1_eax, 5, XCR0_ZMM)

void cpu_features(const CpuBits *bits, bool feature[N_FEATURES])
{
#define X(id, reg, bit, state) \
    feature[FEAT_##id] = ((bits->reg >> (bit)) & 1) && (bits->xcr0 & (state)) == (state);
    X86_FEATURES(X)
#undef X
}

int64_t cpu_l3_bytes(const char *vendor, const CpuBits *bits, int64_t told)
{
    enum { TOPOLOGY_EXTENSIONS = 1 << 22 };
    const int64_t largest = (int64_t)96 << 20; /* of eight cores with 3D V-Cache */
    bool sums = (!strcmp(vendor, "AuthenticAMD") || !strcmp(vendor, "HygonGenuine")) &&
                !(bits->extended1_ecx & TOPOLOGY_EXTENSIONS);
    return sums && told > largest ? largest : told;
}

#define BIT(id) (1u << FEAT_##id)
#define SSE42_LEVEL BIT(SSE42)
#define AVX2_LEVEL (SSE42_LEVEL | BIT(AVX) | BIT(AVX2) | BIT(FMA) | BIT(F16C))

static const struct Level {
    const char *name;
    unsigned keeps;
} levels[] = {{"avx2", AVX2_LEVEL}, {"sse4.2", SSE42_LEVEL}, {"generic", 0}};

void cpu_mask(Env *e, const char *level, bool feature[N_FEATURES])
{
    for (size_t i = 0; i < countof(levels); i++) {
        if (strcmp(level, levels[i].name) == 0) {
            for (int f = 0; f < N_FEATURES; f++) {
                feature[f] = feature[f] && (levels[i].keeps >> f & 1);
            }
            return;
        }
    }
    fail(e, E_INPUT, "NANOCOMPILE_CPU is \"%s\": it can be avx2, sse4.2 or generic.", level);
}

/* ---- identity ------------------------------------------------------------------ */

/* Copies text up to the end of the line, without outer and repeated spaces. */
static void copy_squeezed(char *out, size_t size, const char *text)
{
    size_t n = 0;
    for (; *text && *text != '\n'; text++) {
        bool space = *text == ' ' || *text == '\t';
        if (n + 1 < size && !(space && (n == 0 || out[n - 1] == ' '))) {
            out[n++] = space ? ' ' : *text;
        }
    }
    n -= n > 0 && out[n - 1] == ' ';
    out[n] = 0;
}

#if X86

static uint64_t read_xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static CpuBits read_bits(void)
{
    CpuBits bits = {0};
    uint32_t a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        bits.leaf1_ecx = c;
        bits.xcr0 = c & bit_OSXSAVE ? read_xcr0() : 0;
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        bits.leaf7_ebx = b;
        bits.leaf7_ecx = c;
        if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
            bits.leaf7_1_eax = a;
        }
    }
    if (__get_cpuid(0x80000001, &a, &b, &c, &d)) {
        bits.extended1_ecx = c;
    }
    return bits;
}

static int64_t kib(int32_t n)
{
    return n > 0 ? (int64_t)n << 10 : 0;
}

static void identify(Env *e, const char *root, Machine *m)
{
    (void)e, (void)root;
    CpuBits bits = read_bits();
    cpu_features(&bits, m->feature);
    struct cpu_raw_data_t raw;
    struct cpu_id_t id;
    if (cpuid_get_raw_data(&raw) != ERR_OK || cpu_identify(&raw, &id) != ERR_OK) {
        return;
    }
    copy_squeezed(m->vendor, sizeof m->vendor, id.vendor_str);
    copy_squeezed(m->brand, sizeof m->brand, id.brand_str);
    m->family = id.ext_family;
    m->model = id.ext_model;
    m->stepping = id.stepping;
    m->l1d_bytes = kib(id.l1_data_cache);
    m->l2_bytes = kib(id.l2_cache);
    m->l3_bytes = cpu_l3_bytes(m->vendor, &bits, kib(id.l3_cache));
}

#else

/* The value of "key<spaces>: value" in cpuinfo, or "" */
static const char *cpuinfo_value(const char *info, const char *key)
{
    size_t len = strlen(key);
    for (const char *line = info; *line; line += *line == '\n') {
        const char *colon = line + len;
        if (strncmp(line, key, len) == 0) {
            colon += strspn(colon, " \t");
            if (*colon == ':') {
                return colon + 1;
            }
        }
        line += strcspn(line, "\n");
    }
    return "";
}

static void identify(Env *e, const char *root, Machine *m)
{
#ifdef __aarch64__
    m->feature[FEAT_NEON] = true; /* part of the base architecture */
#endif
    const char *info = machine_file(e, root, "/proc/cpuinfo");
    if (!info) {
        return;
    }
    const char *brand = cpuinfo_value(info, "model name");
    copy_squeezed(m->vendor, sizeof m->vendor, cpuinfo_value(info, "CPU implementer"));
    copy_squeezed(m->brand, sizeof m->brand, *brand ? brand : cpuinfo_value(info, "Hardware"));
    m->family = (int)strtol(cpuinfo_value(info, "CPU architecture"), NULL, 0);
    m->model = (int)strtol(cpuinfo_value(info, "CPU part"), NULL, 0);
    m->stepping = (int)strtol(cpuinfo_value(info, "CPU revision"), NULL, 0);
}

#endif

/* ---- the whole --------------------------------------------------------------------- */

void machine_read(Env *e, const char *root, Machine *m)
{
    memset(m, 0, sizeof *m);
    snprintf(m->arch, sizeof m->arch, "%s", ARCH);
    identify(e, root, m);
    const char *level = getenv("NANOCOMPILE_CPU");
    if (level && *level) {
        cpu_mask(e, level, m->feature);
    }
    machine_caches(e, root, m);
    machine_threads(e, root, m);
    machine_memory(e, root, m);
}

void machine_isa(const Machine *m, Buf *out)
{
    buf_printf(out, "%s family %d:", m->arch, m->family);
    for (int f = 0; f < N_FEATURES; f++) {
        if (m->feature[f]) {
            buf_printf(out, " %s", feature_name((Feature)f));
        }
    }
}
