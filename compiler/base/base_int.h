/* base_int.h - what the files of this folder and its tests share, and nobody else needs. */
#ifndef NC_BASE_INT_H
#define NC_BASE_INT_H

#include "base/base.h"

/* ---- machine.c ---- */

/* The raw bits x86 features are decided from. */
typedef struct CpuBits {
    uint32_t leaf1_ecx, leaf7_ebx, leaf7_ecx, leaf7_1_eax, extended1_ecx;
    uint64_t xcr0; /* what the kernel saves and restores; 0 without OSXSAVE */
} CpuBits;

void cpu_features(const CpuBits *bits, bool feature[N_FEATURES]);
/* Of one last-level cache, where CPUID told so many bytes. AMD's older leaf tells the sum over a
 * package, and hypervisors may mask the newer one: then as much as the largest has. */
int64_t cpu_l3_bytes(const char *vendor, const CpuBits *bits, int64_t told);
/* level: NANOCOMPILE_CPU. Removes what is above it; fails with E_INPUT on an unknown one. */
void cpu_mask(Env *e, const char *level, bool feature[N_FEATURES]);

/* ---- machine_files.c ---- */

/* A whole small file under root as text in e->kernel, NULL where it cannot be read. */
const char *machine_file(Env *e, const char *root, const char *path);
/* How many CPUs "0-3,5" names; 0 if it is no such list. */
int cpu_list_count(const char *list);
void machine_caches(Env *e, const char *root, Machine *m);
void machine_threads(Env *e, const char *root, Machine *m);
void machine_memory(Env *e, const char *root, Machine *m);

#endif
