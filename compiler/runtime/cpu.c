/* cpu.c - can this CPU run a library's kernels? An instruction counts only where the CPU has it and
 * the system saves its registers: one without the other traps, or corrupts. The kernels' compiler
 * says what it may have used by the macros that it defines (needs.c of every library).
 * needs: to be compiled for the baseline itself, for it runs before anything is known. */
#include "runtime/runtime.h"

#include <string.h>

#if defined __x86_64__ || defined __i386__
#include <cpuid.h>
#else
#include <sys/auxv.h>
#endif

const char *const cpu_need_macro[N_CPU_NEEDS] = {
#define X(macro, name, leaf, sub, reg, bit, state) #macro,
    CPU_NEEDS(X)
#undef X
};

typedef struct NeedRow {
    const char *name;
    uint32_t leaf, sub;
    int reg, bit;
    uint32_t state;
} NeedRow;

static const NeedRow need_row[N_CPU_NEEDS] = {
#define X(macro, name, leaf, sub, reg, bit, state) {name, leaf, sub, reg, bit, state},
    CPU_NEEDS(X)
#undef X
};

#if defined __x86_64__ || defined __i386__

static uint32_t saved_state(void)
{
    uint32_t a, b, c, d, lo, hi;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) { /* OSXSAVE */
        return 0;
    }
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

static bool cpu_has(const NeedRow *n)
{
    uint32_t r[4];
    return __get_cpuid_count(n->leaf, n->sub, &r[0], &r[1], &r[2], &r[3]) &&
           (r[n->reg] >> n->bit & 1) && (saved_state() & n->state) == n->state;
}

#else

static bool cpu_has(const NeedRow *n)
{
    return getauxval(AT_HWCAP) >> n->bit & 1;
}

#endif

bool cpu_can_run(const unsigned char *needs, nc_error *error)
{
    char missing[512] = "";
    for (size_t i = 0, len = 0; needs && i < N_CPU_NEEDS; i++) {
        if (needs[i] && !cpu_has(&need_row[i])) {
            int n = snprintf(missing + len, sizeof missing - len, "%s%s", len ? ", " : "",
                             need_row[i].name);
            len += n > 0 && len + (size_t)n < sizeof missing ? (size_t)n : 0;
        }
    }
    return !missing[0] ||
           nc_refuse(error, NC_CPU,
                     "The library was built for another CPU: this one lacks %s; build it again "
                     "here.",
                     missing) == NC_OK;
}
